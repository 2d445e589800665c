/* The merges of one stretch of text, in the library's order: the lowest rank first, of equal ones
 * the leftmost. A linked list of symbols and a heap of candidates: O(n log n). */
#include <string.h>

#include "encode.h"

typedef struct bpe {
    const lr_tokenizer *tokenizer;
    lr_symbol *symbols;
    size_t n_symbols;
    uint64_t *heap; /* rank << 32 | position, the least on top */
    size_t n_heap;
} bpe;

/* ------------------------------------------------------------------ heap */

static void heap_push(bpe *b, uint64_t key)
{
    size_t i = b->n_heap++;
    while (i > 0 && b->heap[(i - 1) / 2] > key) {
        b->heap[i] = b->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    b->heap[i] = key;
}

static void sift_down(bpe *b, size_t i, uint64_t key)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= b->n_heap) break;
        if (child + 1 < b->n_heap && b->heap[child + 1] < b->heap[child]) child++;
        if (b->heap[child] >= key) break;
        b->heap[i] = b->heap[child];
        i = child;
    }
    b->heap[i] = key;
}

static uint64_t heap_pop(bpe *b)
{
    uint64_t top = b->heap[0], last = b->heap[--b->n_heap];
    if (b->n_heap > 0) sift_down(b, 0, last);
    return top;
}

/* ------------------------------------------------------------------ symbols */

static void add_symbol(bpe *b, int32_t id)
{
    int32_t i = (int32_t)b->n_symbols++;
    b->symbols[i] = (lr_symbol){.id = id, .previous = i - 1, .next = i + 1};
}

/* The byte tokens of a character; false when one of them is missing. */
static bool add_bytes(bpe *b, const char *text, size_t bytes)
{
    const int32_t *byte_ids = b->tokenizer->byte_ids;
    for (size_t i = 0; i < bytes; i++)
        if (byte_ids[(unsigned char)text[i]] < 0) return false;
    for (size_t i = 0; i < bytes; i++)
        add_symbol(b, byte_ids[(unsigned char)text[i]]);
    return true;
}

/* One symbol a character. An unknown one waits until the next known character (the library's order:
 * byte tokens do not end the wait), so that neighbours can be fused. */
static void add_characters(bpe *b, const char *text, size_t bytes)
{
    const lr_tokenizer *t = b->tokenizer;
    bool unknown_waits = false;
    for (size_t i = 0, size; i < bytes; i += size) {
        size = lr_utf8_size(text + i);
        const lr_vocab_entry *entry = lr_vocab_find(&t->vocab, text + i, size);
        if (entry) {
            if (unknown_waits) add_symbol(b, t->unk_id);
            unknown_waits = false;
            add_symbol(b, entry->id);
        } else if (!(t->byte_fallback && add_bytes(b, text + i, size)) && t->unk_id >= 0) {
            if (unknown_waits && !t->fuse_unk) add_symbol(b, t->unk_id);
            unknown_waits = true;
        }
    }
    if (unknown_waits) add_symbol(b, t->unk_id);
    if (b->n_symbols > 0) b->symbols[b->n_symbols - 1].next = -1;
}

/* ------------------------------------------------------------------ merging */

static const lr_merge *merge_at(const bpe *b, int32_t left, int32_t right)
{
    return lr_merges_find(&b->tokenizer->merges, (uint32_t)b->symbols[left].id,
                          (uint32_t)b->symbols[right].id);
}

static void push_pair(bpe *b, int32_t left, int32_t right)
{
    const lr_merge *merge = merge_at(b, left, right);
    if (merge) heap_push(b, (uint64_t)merge->rank << 32 | (uint32_t)left);
}

static void find_first_pairs(bpe *b)
{
    for (size_t i = 0; i + 1 < b->n_symbols; i++) {
        const lr_merge *merge = merge_at(b, (int32_t)i, (int32_t)i + 1);
        if (merge) b->heap[b->n_heap++] = (uint64_t)merge->rank << 32 | (uint32_t)i;
    }
    for (size_t i = b->n_heap / 2; i-- > 0;)
        sift_down(b, i, b->heap[i]);
}

/* A candidate whose symbols have changed since is dropped, unless the pair that stands there now
 * gives the same token: so does the library. */
static void merge_all(bpe *b)
{
    find_first_pairs(b);
    while (b->n_heap > 0) {
        uint64_t top = heap_pop(b);
        int32_t at = (int32_t)(uint32_t)top;
        lr_symbol *left = &b->symbols[at];
        if (left->id < 0 || left->next < 0) continue;
        uint32_t result = b->tokenizer->merges.list[top >> 32].result;
        const lr_merge *now = merge_at(b, at, left->next);
        if (!now || now->result != result) continue;

        lr_symbol *right = &b->symbols[left->next];
        left->id = (int32_t)result;
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0) b->symbols[left->next].previous = at;
        if (left->previous >= 0) push_pair(b, left->previous, at);
        if (left->next >= 0) push_pair(b, at, left->next);
    }
}

/* ------------------------------------------------------------------ a stretch */

static lr_status reserve(bpe *b, lr_scratch *scratch, size_t bytes, lr_error *err)
{
    lr_status st = LR_OK;
    if (bytes > INT32_MAX / 2)
        LR_FAIL(LR_E_USAGE, "a text of %zu bytes in one piece is too long", bytes);
    /* A byte gives at most one symbol. n symbols have n - 1 pairs, and each of the at most n - 1
     * merges takes one candidate off the heap and puts at most two on it. */
    LR_TRY(LR_GROW(&scratch->symbols, &scratch->symbol_capacity, bytes, "symbols", err));
    LR_TRY(LR_GROW(&scratch->heap, &scratch->heap_capacity, 2 * bytes, "merge candidates", err));
    b->symbols = scratch->symbols;
    b->heap = scratch->heap;
done:
    return st;
}

lr_status lr_encode_bpe(const lr_tokenizer *t, lr_scratch *scratch, const char *text, size_t bytes,
                        lr_ids *ids, lr_error *err)
{
    lr_status st = LR_OK;
    bpe b = {.tokenizer = t};
    if (t->ignore_merges) {
        const lr_vocab_entry *whole = lr_vocab_find(&t->vocab, text, bytes);
        if (whole) return lr_ids_push(ids, whole->id, err);
    }
    LR_TRY(reserve(&b, scratch, bytes, err));
    add_characters(&b, text, bytes);
    merge_all(&b);
    LR_TRY(LR_GROW(&ids->ids, &ids->capacity, ids->count + b.n_symbols, "token ids", err));
    for (size_t i = 0; i < b.n_symbols; i++)
        if (b.symbols[i].id >= 0) ids->ids[ids->count++] = b.symbols[i].id;
done:
    return st;
}
