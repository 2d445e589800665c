/* The two hash tables of a BPE: token text -> id, and pair of ids -> merge. Open addressing, at
 * most half full. */
#ifndef LR_TOKENIZE_TABLES_H
#define LR_TOKENIZE_TABLES_H

#include <longreel/core.h>

/* Ids must be below this: an embedding table of so many rows does not exist, and it bounds what a
 * hostile file can make us allocate. */
#define LR_MAX_TOKEN_ID (INT32_C(1) << 24)

typedef struct lr_vocab_entry {
    uint32_t offset, bytes; /* of its text */
    int32_t id;
} lr_vocab_entry;

typedef struct lr_vocab_slot {
    uint32_t hash;  /* the upper half of the text's hash */
    uint32_t entry; /* 1 + its number; 0: free */
} lr_vocab_slot;

/* Token texts, all in one block, in the file's order. */
typedef struct lr_vocab {
    char *text;
    size_t text_bytes, text_capacity;
    lr_vocab_entry *entries;
    size_t count, capacity;
    lr_vocab_slot *slots; /* [slot_mask + 1]; NULL until it is indexed */
    size_t slot_mask;
    int32_t max_id; /* -1 when empty */
} lr_vocab;

/* Appends an entry whose id the caller fills in (entries[count - 1].id). */
lr_status lr_vocab_add(lr_vocab *vocab, const char *text, size_t bytes, lr_error *err);
/* Builds the table. LR_E_FORMAT names a text or an id that stands there twice. */
lr_status lr_vocab_index(lr_vocab *vocab, const char *place, lr_error *err);
void lr_vocab_free(lr_vocab *vocab);
/* The entry of this text; NULL when there is none. */
const lr_vocab_entry *lr_vocab_find(const lr_vocab *vocab, const char *text, size_t bytes);

typedef struct lr_merge {
    uint32_t left, right; /* ids */
    uint32_t result;      /* the id it gives; UINT32_MAX: a free slot of the table */
    uint32_t rank;
} lr_merge;

typedef struct lr_merges {
    lr_merge *list; /* [count] by rank */
    size_t count, capacity;
    lr_merge *slots;
    unsigned shift; /* 64 - log2 of the number of slots */
    size_t slot_mask;
} lr_merges;

lr_status lr_merges_add(lr_merges *merges, uint32_t left, uint32_t right, uint32_t result,
                        lr_error *err);
/* Builds the table. A pair that stands there twice keeps its last rank, as in the library. */
lr_status lr_merges_index(lr_merges *merges, lr_error *err);
void lr_merges_free(lr_merges *merges);

static inline size_t lr_merge_slot(uint32_t left, uint32_t right, unsigned shift)
{
    /* Fibonacci hashing of the pair; the first product spreads `left` over the low half. */
    uint64_t key = ((uint64_t)left << 32 | right) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(((key ^ key >> 29) * UINT64_C(0xBF58476D1CE4E5B9)) >> shift);
}

/* NULL when the pair does not merge. */
static inline const lr_merge *lr_merges_find(const lr_merges *merges, uint32_t left, uint32_t right)
{
    size_t i = lr_merge_slot(left, right, merges->shift);
    for (;; i = (i + 1) & merges->slot_mask) {
        const lr_merge *merge = &merges->slots[i];
        if (merge->result == UINT32_MAX) return NULL;
        if (merge->left == left && merge->right == right) return merge;
    }
}

#endif
