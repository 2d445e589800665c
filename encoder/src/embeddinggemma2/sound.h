/* Inside encoder/: the sound tower of EmbeddingGemma 2 (Gemma 4's: a conformer that looks back only)
 * and one track's way through it. sound.c reads the configuration and the weights, sound_tile.c holds
 * the blocks, sound_run.c streams. */
#ifndef LONGREEL_ENCODER_EMBEDDINGGEMMA2_SOUND_H
#define LONGREEL_ENCODER_EMBEDDINGGEMMA2_SOUND_H

#include "embeddinggemma2.h"
#include "mel.h"

/* Two convolutions of stride 2 over (time, mel): a token is four frames wide, 40 ms. */
#define EG2_TOKEN_FRAMES 4
#define EG2_TOKEN_SAMPLES (EG2_TOKEN_FRAMES * EG2_MEL_HOP)
#define EG2_TOKEN_BANDS (EG2_MEL_BANDS / 4)

/* x + residual_weight * norm(out(silu(in(norm(x))))) */
typedef struct eg2_sound_ffn {
    const float *pre_norm, *post_norm; /* [C] */
    lr_dense in;                       /* [4 C, C] */
    lr_dense out;                      /* [C, 4 C] */
} eg2_sound_ffn;

typedef struct eg2_sound_layer {
    eg2_sound_ffn ffn[2];                        /* before attention; after the convolution */
    const float *pre_norm, *post_norm, *out_norm; /* [C] */
    lr_dense q, k, v, post;                      /* [C, C] */
    const float *q_scale;  /* [head_dim] softplus(per_dim_scale) / (sqrt(head_dim) ln 2) */
    const float *relative; /* [window, n_heads, head_dim]: what a query meets at each distance */
    const float *conv_pre_norm, *conv_norm;      /* [C] */
    lr_dense conv_in;      /* [2 C, C] */
    lr_dense conv_out;     /* [C, C] */
    const float *conv;     /* [kernel, C], oldest row first */
} eg2_sound_layer;

/* model->sound */
typedef struct eg2_sound {
    size_t hidden;                     /* C */
    size_t n_layers, n_heads, head_dim;
    size_t window;                     /* keys that a token sees: itself and window - 1 before */
    size_t kernel;                     /* of the depthwise convolution, causal */
    size_t channels[2];                /* of the two subsampling convolutions */
    size_t wide;                       /* after output_proj */
    size_t soft;                       /* width of a soft token: the backbone's */
    float eps;                         /* of the convolutions' norms and the projector's */
    float residual_weight, cap, clip;
    float k_scale;                     /* ln(1 + e) / ln 2 */
    lr_linear *subsample[2];           /* [channels[0], 3 * 3], [channels[1], 3 * 3 * channels[0]] */
    const float *subsample_norm[2];    /* [channels] */
    lr_linear *input_proj;             /* [C, EG2_TOKEN_BANDS * channels[1]] */
    eg2_sound_layer *layers;
    lr_linear *output_proj;            /* [wide, C] */
    const float *output_bias;          /* [wide] */
    lr_linear *projector;              /* [soft, wide] */
} eg2_sound;

/* Tokens before it that a token depends on through all layers. */
size_t eg2_sound_look_back(const eg2_sound *tower);

/* An lr_sound_tower. Works in blocks of tokens [at, at + count); from block to block it carries, for
 * each layer, the keys and values of the last window - 1 tokens and the last kernel - 1 rows that
 * enter the convolution. */
typedef struct eg2_sound_run {
    lr_sound_tower head;
    const eg2_sound *tower;
    const lr_kernels *kernels;
    lr_worker worker;
    lr_sound_sink sink;
    void *arg;
    lr_stage_tap tap;
    int64_t n_samples;   /* of the whole track */
    uint64_t valid;      /* its mel frames */
    uint64_t first, end; /* tokens asked for */
    uint64_t begin;      /* first token worked: first less the look-back, rounded down to a tile */
    uint64_t at;         /* the block at hand */
    size_t count;
    size_t block;        /* tokens a block at most, in whole tiles */
    int64_t fed;         /* samples before this one have come */
    lr_status failed;    /* what an earlier call returned */
    eg2_mel *mel_filters;
    float *floats;       /* the block that all that follows is cut from */
    float *samples;      /* from EG2_TOKEN_SAMPLES before token `at`'s first on */
    float *mel;          /* [3 + 4 block, EG2_MEL_BANDS] from frame 4 at - 3 on; 0 where not valid */
    float *h;            /* [block, C] */
    float *q;            /* [block, C] */
    float *k, *v;        /* [window - 1 + block, C] from token at - (window - 1) on */
    float *gated;        /* [kernel - 1 + block, C]: what enters the depthwise convolution */
    float *k_tail, *v_tail; /* [n_layers, window - 1, C] */
    float *gated_tail;   /* [n_layers, kernel - 1, C] */
    float *out;          /* [block, wide] after output_proj */
    float *soft;         /* [block, soft] */
    lr_scratch scratch;
} eg2_sound_run;

/* Floats of one thread's scratch. */
size_t eg2_sound_tile_floats(const eg2_sound_run *run);
/* run->mel of the block at hand to run->out and run->soft. */
lr_status eg2_sound_block(eg2_sound_run *run, lr_error *err);

#endif
