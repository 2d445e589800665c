/* Inside encoder/: the vision tower of EmbeddingGemma 2 and one picture's way through it.
 * vision.c loads the weights, vision_layer.c holds the blocks, vision_run.c the rest. */
#ifndef LONGREEL_ENCODER_EMBEDDINGGEMMA2_VISION_H
#define LONGREEL_ENCODER_EMBEDDINGGEMMA2_VISION_H

#include <longreel/resize.h>

#include "embeddinggemma2.h"

/* h += norm(attention(norm(h))); h += norm(mlp(norm(h))); D wide. */
typedef struct eg2_vision_layer {
    const float *input_norm, *post_attention_norm, *pre_mlp_norm, *post_mlp_norm; /* [D] */
    const float *q_norm, *k_norm;                                                 /* [head_dim] */
    lr_dense q;        /* [n_heads * head_dim, D] */
    lr_dense k, v;     /* [n_kv_heads * head_dim, D] */
    lr_dense o;        /* [D, n_heads * head_dim] */
    lr_dense gate, up; /* [M, D] */
    lr_dense down;     /* [D, M] */
} eg2_vision_layer;

/* model->vision */
typedef struct eg2_vision {
    size_t hidden, mlp; /* D, M */
    size_t n_layers, n_heads, n_kv_heads, head_dim;
    size_t patch;       /* pixels a side */
    size_t pool;        /* patches a side of a soft token */
    size_t positions;   /* rows of each axis's position table */
    size_t soft;        /* width of a soft token: the backbone's */
    float eps;
    const lr_rope *rope;             /* of head_dim / 2: one half turns by x, the other by y */
    lr_linear *input_proj;           /* [D, patch * patch * 3] */
    const lr_tensor *position_table; /* [2, positions, D]: x, y */
    eg2_vision_layer *layers;
    const float *std_bias, *std_scale; /* [D]; NULL unless standardized */
    lr_linear *projector;            /* [soft, D] */
} eg2_vision;

/* An lr_vision: the scratch of one picture size. P patches in raster order, (x, y) of patch p is
 * (p % columns, p / columns). */
typedef struct eg2_vision_run {
    lr_vision head;
    const eg2_vision *tower;
    const lr_kernels *kernels;
    lr_worker worker;
    size_t width, height;           /* pixels */
    size_t columns, rows, patches;  /* of patches; P */
    lr_resize *plan;                /* for frames of plan_width x plan_height */
    uint8_t *plan_scratch;
    int plan_width, plan_height;
    uint8_t *picture;               /* [height, 3 * width] */
    float value[256];               /* what input_proj sees of a byte */
    float *floats;                  /* the block that all that follows is cut from */
    float *position_x, *position_y; /* [columns, D], [rows, D] */
    float *cos_x, *sin_x, *cos_y, *sin_y; /* [P, head_dim / 4] */
    float *h;                       /* [P, D] */
    float *pooled;                  /* [soft tokens, D] */
    float *q, *o;                   /* [P, n_heads, head_dim] */
    float *k_panels;                /* [n_kv_heads][panels][head_dim][LR_KEY_PANEL] */
    float *v;                       /* [P, n_kv_heads, head_dim] */
    uint64_t *lo, *hi;              /* [LR_ROW_TILE] every query sees keys 0 .. P */
    lr_scratch scratch;
} eg2_vision_run;

/* One thread's share of the scratch. */
typedef struct eg2_vision_tile {
    float *x;         /* [LR_ROW_TILE, max(D, patch values)] what goes into a linear layer */
    float *y;         /* [LR_ROW_TILE, D] what comes out */
    float *k;         /* [LR_ROW_TILE, n_kv_heads, head_dim] before packing */
    float *gate, *up; /* [LR_ROW_TILE, M] */
    float *m, *l;     /* [query rows of a tile] */
    float *attention; /* lr_attn.scratch */
    double *sum;      /* [D] */
    float *linear;    /* lr_dense_run's */
} eg2_vision_tile;

/* Floats of one thread's scratch; cuts `base` unless it is NULL. */
size_t eg2_vision_cut_tile(const eg2_vision_run *run, float *base, eg2_vision_tile *tile);
/* Picture to the state after all layers, in run->h. */
lr_status eg2_vision_layers(eg2_vision_run *run, lr_error *err);

#endif
