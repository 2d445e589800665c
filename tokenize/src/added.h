/* Added tokens: found in a text before the BPE sees it. */
#ifndef LR_TOKENIZE_ADDED_H
#define LR_TOKENIZE_ADDED_H

#include "tokenizer.h"
#include "utf8.h"

/* Fills the patterns (after the normalizer is known) and both sets. */
lr_status lr_added_index(lr_tokenizer *tokenizer, lr_error *err);

/* [begin, end) of a text: an added token's (id >= 0) or what lies between them (-1). */
typedef struct lr_segment {
    size_t begin, end;
    int32_t id;
} lr_segment;

typedef struct lr_segments {
    lr_segment *list;
    size_t count, capacity;
} lr_segments;

/* Cuts the text at the set's tokens: leftmost, longest, as the library does it. */
lr_status lr_added_split(lr_segments *out, const lr_added_set *set, const char *text, size_t bytes,
                         lr_error *err);
lr_status lr_segments_push(lr_segments *segments, size_t begin, size_t end, int32_t id,
                           lr_error *err);

#endif
