/* What the sources of tokenize/ share about a loaded tokenizer. */
#ifndef LR_TOKENIZE_TOKENIZER_H
#define LR_TOKENIZE_TOKENIZER_H

#include <longreel/tokenize.h>

#include "tables.h"

/* A string of the file; it may hold NUL. */
typedef struct lr_text {
    char *data;
    size_t bytes;
} lr_text;

/* ------------------------------------------------------------------ added tokens */

typedef struct lr_added_token {
    lr_text content; /* as the file has it */
    lr_text pattern; /* what is looked for: the content, normalized where the token says so */
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} lr_added_token;

/* Tokens by pattern, in order of their bytes; [first[b], first[b + 1]) begin with byte b. */
typedef struct lr_added_set {
    const lr_added_token **tokens;
    size_t count;
    uint32_t first[257];
} lr_added_set;

/* ------------------------------------------------------------------ normalizer, pre-tokenizer */

typedef enum lr_normalizer_kind { LR_NORMALIZE_REPLACE, LR_NORMALIZE_PREPEND } lr_normalizer_kind;

typedef struct lr_normalizer {
    lr_normalizer_kind kind;
    lr_text pattern; /* replace: what is replaced */
    lr_text content; /* replace: by what; prepend: what */
} lr_normalizer;

typedef enum lr_pretokenizer_kind {
    LR_PRETOKENIZE_SPLIT,
    LR_PRETOKENIZE_METASPACE
} lr_pretokenizer_kind;
typedef enum lr_split_behavior {
    LR_SPLIT_REMOVED,
    LR_SPLIT_ISOLATED,
    LR_SPLIT_MERGED_WITH_PREVIOUS,
    LR_SPLIT_MERGED_WITH_NEXT,
    LR_SPLIT_CONTIGUOUS
} lr_split_behavior;
typedef enum lr_prepend_scheme {
    LR_PREPEND_ALWAYS,
    LR_PREPEND_FIRST,
    LR_PREPEND_NEVER
} lr_prepend_scheme;

typedef struct lr_pretokenizer {
    lr_pretokenizer_kind kind;
    lr_text pattern; /* split: what is looked for; metaspace: the character spaces become */
    lr_split_behavior behavior;
    bool invert;
    lr_prepend_scheme prepend; /* metaspace */
    bool split;                /* metaspace */
} lr_pretokenizer;

#define LR_MAX_STAGES 16 /* normalizers; pre-tokenizers */

/* ------------------------------------------------------------------ the tokenizer */

#define LR_TEMPLATE_SEQUENCE (-1)

struct lr_tokenizer {
    lr_vocab vocab;
    lr_merges merges;
    int32_t byte_ids[256]; /* of "<0x00>".. ; -1 without */
    bool byte_fallback, fuse_unk, ignore_merges;
    int32_t unk_id; /* -1: characters that are not known vanish */

    lr_vocab added_vocab; /* of the added tokens' contents; entry i is added[i] */
    lr_added_token *added;
    lr_added_set raw_set;        /* matched in the text as it is */
    lr_added_set normalized_set; /* matched in the normalized text */

    lr_normalizer normalizers[LR_MAX_STAGES];
    size_t n_normalizers;
    lr_pretokenizer pretokenizers[LR_MAX_STAGES];
    size_t n_pretokenizers;

    int32_t *template_items; /* ids, and LR_TEMPLATE_SEQUENCE where the text's own ids stand */
    size_t n_template_items;
};

/* The added token with this id; NULL when there is none. */
const lr_added_token *lr_tokenizer_added(const lr_tokenizer *tokenizer, int32_t id);
/* Whether an id belongs to a token, added or not. */
bool lr_tokenizer_has_id(const lr_tokenizer *tokenizer, int32_t id);

/* A fresh copy of `bytes` bytes. */
lr_status lr_text_copy(lr_text *out, const char *data, size_t bytes, lr_error *err);

/* Appends one id. */
lr_status lr_ids_push(lr_ids *ids, int32_t id, lr_error *err);

#endif
