/* A made vocabulary with merges, written as tokenizer.json, and an O(n^2) BPE as the oracle. */
#ifndef LR_MADE_TOKENIZER_H
#define LR_MADE_TOKENIZER_H

#include "lr_test.h"

#include <longreel/tokenize.h>

typedef struct made_merge {
    int32_t left, right, result; /* ids */
    uint32_t rank;
} made_merge;

typedef struct made_tokenizer {
    char **texts; /* [count], by id; UTF-8, NUL terminated */
    size_t count;
    made_merge *merges; /* [n_merges], by left, then right */
    size_t n_merges;
    int32_t byte_ids[256]; /* -1 without */
    int32_t unk;
    bool fuse_unk;
    uint32_t *table; /* of texts: 1 + id; [table_mask + 1] */
    size_t table_mask;
} made_tokenizer;

typedef struct made_options {
    size_t entries;
    bool all_merges;  /* every split of a token into two tokens, else the one that made it */
    bool shuffled;    /* ranks in random order, else by the result's id */
    bool byte_tokens; /* else unknown characters become <unk> */
    bool fuse_unk;
    bool string_merges; /* "a b" instead of ["a", "b"] */
} made_options;

/* The first ids are <pad> <eos> <bos> <unk>. Writes the file too. */
made_tokenizer *made_create(const char *path, const made_options *options, lrt_random *random);
void made_free(made_tokenizer *made);
int32_t made_find(const made_tokenizer *made, const char *text, size_t bytes);
/* One character of the made alphabet, or now and then one that is not in it; at most 4 bytes. */
size_t made_character(lrt_random *random, char *out);
/* The ids of a text (with U+2581 for spaces) by merging, again and again, the leftmost pair of the
 * lowest rank. */
lr_ids made_encode(const made_tokenizer *made, const char *text, size_t bytes);

#endif
