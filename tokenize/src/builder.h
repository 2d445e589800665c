/* Builds a layout span by span, window by window. */
#ifndef LR_TOKENIZE_BUILDER_H
#define LR_TOKENIZE_BUILDER_H

#include "encode.h"

/* A stamp's ids, remembered by its second. Consecutive spans ask for nearly consecutive seconds. */
#define LR_STAMP_CACHE 64
typedef struct lr_cached_stamp {
    int64_t second;
    bool filled;
    lr_ids ids;
} lr_cached_stamp;

typedef struct lr_builder {
    lr_layout *layout;
    size_t ids_capacity, spans_capacity, windows_capacity;
    int32_t bos, eos;
    bool soft_only; /* neither bos, eos nor markers; a window holds at least one block */
    uint64_t context;              /* 0: one window */
    const lr_tokenizer *tokenizer; /* of the stamps; NULL without */
    lr_scratch scratch;
    lr_cached_stamp stamps[2]
                          [LR_STAMP_CACHE]; /* [0]: the first of a window; [1]: after a separator */
} lr_builder;

/* A frame or a second of sound. */
typedef struct lr_block {
    lr_span_kind kind;
    int64_t index;
    lr_time time, stamp;      /* stamp LR_TIME_NONE: none is shown */
    int32_t begin, soft, end; /* ids */
    uint64_t soft_count, source;
} lr_block;

/* A layout without tokens, of one window to be opened. */
lr_status lr_builder_init(lr_builder *builder, int32_t bos, int32_t eos, lr_error *err);
/* Room for this many tokens from the start. */
lr_status lr_builder_reserve(lr_builder *builder, uint64_t tokens, lr_error *err);
/* Starts a new window where the block does not fit the one at hand. */
lr_status lr_builder_block(lr_builder *builder, const lr_block *block, lr_error *err);
/* Appends a span of these ids, without markers. */
lr_status lr_builder_span(lr_builder *builder, lr_span_kind kind, const int32_t *ids, size_t n,
                          lr_error *err);
lr_status lr_builder_open_window(lr_builder *builder, lr_error *err);
/* Closes the last window and hands the layout over. */
lr_status lr_builder_finish(lr_builder *builder, lr_layout **out, lr_error *err);
void lr_builder_free(lr_builder *builder);

#endif
