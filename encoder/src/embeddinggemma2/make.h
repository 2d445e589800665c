/* Inside encoder/: made checkpoints: the published layout with seeded random weights. */
#ifndef LONGREEL_ENCODER_EG2_MAKE_H
#define LONGREEL_ENCODER_EG2_MAKE_H

#include <stdio.h>

#include "../made.h"
#include "embeddinggemma2.h"

typedef struct eg2_made_tower {
    size_t hidden, mlp, layers, heads, head_dim;
} eg2_made_tower;

/* The sizes of a made model; what is not here is as published. */
typedef struct eg2_made {
    size_t vocab, hidden, mlp, layers, heads, kv_heads, head_dim, full_head_dim, full_kv_heads;
    size_t window, pattern, ple, dim;
    int begin_image, begin_audio, image, audio, end_image, end_audio, video; /* token ids */
    eg2_made_tower vision;
    size_t patch, pool, positions;
    eg2_made_tower audio_tower; /* mlp is 4 * hidden */
    size_t conv0, conv1, conv_kernel, audio_out;
} eg2_made;

/* `made` is an eg2_made. */
void eg2_make_weights(lr_maker *maker, const void *made);
/* A tokenizer of the Gemma kind over made-up words, with exactly made->vocab entries and the special
 * tokens at their ids. */
lr_status eg2_make_tokenizer(const char *path, const eg2_made *made, uint64_t seed, lr_error *err);

#endif
