/* From text to ids, stage by stage. */
#ifndef LR_TOKENIZE_ENCODE_H
#define LR_TOKENIZE_ENCODE_H

#include "added.h"

typedef struct lr_buffer {
    char *data;
    size_t bytes, capacity;
} lr_buffer;

/* A stretch of text on its way. `zero` of its leading bytes stem from the first character of the
 * whole text, and at_origin says that the stretch begins there: the Metaspace scheme "first"
 * asks. */
typedef struct lr_piece {
    const char *text;
    size_t bytes;
    size_t zero;
    bool at_origin;
} lr_piece;

typedef struct lr_symbol {
    int32_t id; /* -1: merged into the one before */
    int32_t previous, next;
} lr_symbol;

/* Work memory of one encode call, kept from stretch to stretch. Starts as {0}. */
typedef struct lr_scratch {
    lr_segments raw, normalized;
    lr_buffer normal[2];
    struct {
        lr_segments segments;
        lr_buffer text[2];
    } levels[LR_MAX_STAGES];
    lr_symbol *symbols;
    size_t symbol_capacity;
    uint64_t *heap;
    size_t heap_capacity;
} lr_scratch;
void lr_encode_scratch_free(lr_scratch *scratch);

/* The slice [begin, end). */
lr_piece lr_piece_slice(const lr_piece *piece, size_t begin, size_t end);
/* The first `pattern` at or after byte `from`; NULL: none. */
const char *lr_piece_find(const lr_piece *piece, size_t from, const char *pattern,
                          size_t pattern_bytes);
/* Every `pattern` becomes `content`; *piece then lies in *out (which must not hold it before). */
lr_status lr_piece_replace(lr_piece *piece, lr_buffer *out, const char *pattern,
                           size_t pattern_bytes, const lr_text *content, lr_error *err);
lr_status lr_piece_prepend(lr_piece *piece, lr_buffer *out, const lr_text *content, lr_error *err);

/* What the normalizers make of `in`, in a fresh block. */
lr_status lr_normalize_text(lr_text *out, const lr_tokenizer *tokenizer, const lr_text *in,
                            lr_error *err);

/* Appends the ids of a text (valid UTF-8) without the template. at_start: it begins the whole
 * text. */
lr_status lr_encode_text(const lr_tokenizer *tokenizer, lr_scratch *scratch, const char *text,
                         size_t bytes, bool at_start, lr_ids *ids, lr_error *err);
/* The same from pre-tokenizer `level` on. */
lr_status lr_encode_piece(const lr_tokenizer *tokenizer, lr_scratch *scratch, const lr_piece *piece,
                          size_t level, lr_ids *ids, lr_error *err);
/* The BPE alone. */
lr_status lr_encode_bpe(const lr_tokenizer *tokenizer, lr_scratch *scratch, const char *text,
                        size_t bytes, lr_ids *ids, lr_error *err);

#endif
