/* Inside encoder/: a backbone as data. The family fills it; backbone.c runs it with the arithmetic of
 * a tile of rows in backbone_tile.c. */
#ifndef LONGREEL_ENCODER_BACKBONE_H
#define LONGREEL_ENCODER_BACKBONE_H

#include <longreel/encoder.h>

/* One transformer block, `D` wide, with M the width of the MLP and P that of the per-layer input:
 *   h += norm(attention(norm(h))); h += norm(mlp(norm(h))); h += norm(ple(h)); h *= scalar */
typedef struct lr_layer {
    lr_mask mask;
    size_t n_heads, n_kv_heads, head_dim; /* query head g uses KV head g / (n_heads / n_kv_heads) */
    const lr_rope *rope;
    const float *input_norm, *post_attention_norm, *pre_mlp_norm, *post_mlp_norm; /* [D] */
    const float *q_norm, *k_norm;                                                 /* [head_dim] */
    lr_linear *q;       /* [n_heads * head_dim, D] */
    lr_linear *kv;      /* [2 * n_kv_heads * head_dim, D]: K above V */
    lr_linear *o;       /* [D, n_heads * head_dim] */
    const float *q_bias, *kv_bias, *o_bias; /* or NULL */
    lr_linear *gate_up; /* [2 * M, D] */
    lr_linear *down;    /* [D, M] */
    lr_linear *ple;     /* [P, D]: this layer's rows of the projection of the embeddings */
    lr_linear *ple_gate; /* [P, D] */
    lr_linear *ple_out;  /* [D, P] */
    const float *post_ple_norm; /* [D] */
    float scalar;
} lr_layer;

typedef struct lr_backbone {
    size_t n_layers;
    lr_layer *layers;
    size_t hidden, mlp, ple; /* D, M, P */
    float eps;
    float ple_scale;         /* D^-1/2 */
    const float *ple_norm;   /* [P], one for all layers */
    const float *final_norm; /* [D] */
} lr_backbone;

/* ------------------------------------------------------------------ one tile of rows */

/* What one thread needs for one tile of at most LR_ROW_TILE tokens. `wide` holds q, later gate and
 * up; `heads` the output of attention. */
typedef struct lr_tile_work {
    float *norm, *wide, *heads, *kv, *update, *ple, *gate, *cos, *sin, *m, *l, *attn, *linear;
    uint64_t *lo, *hi;
} lr_tile_work;

/* Floats of one thread's work memory; cuts it when base is not NULL. */
size_t lr_tile_work_cut(const lr_kernels *kernels, const lr_backbone *backbone, float *base,
                        lr_tile_work *work);

/* The rows of a tile: absolute numbers [first, first + rows) of a sequence of n_tokens. */
typedef struct lr_tile {
    const lr_kernels *kernels;
    const lr_backbone *backbone;
    const lr_layer *layer;
    const lr_tile_work *work;
    uint64_t first, n_tokens;
    size_t rows;
} lr_tile;

/* The softmax state of a tile: q, o [rows, n_heads * head_dim], m, l [rows, n_heads]. */
typedef struct lr_tile_state {
    float *q, *o, *m, *l;
} lr_tile_state;

/* K and V of the tile's rows (of h [rows, D]) into the payload of their chunk, whose header has its
 * first_token and n_tokens. The rows lie in one chunk; several tiles may fill parts of one chunk at
 * the same time. */
void lr_tile_keys_values(const lr_tile *tile, const float *h, lr_chunk_header *chunk);
/* Queries of the tile, and an empty softmax state. */
void lr_tile_queries(const lr_tile *tile, const float *h, const lr_tile_state *state);
/* Chunks of keys in ascending order; those that no row of the tile sees are passed over. */
void lr_tile_attend(const lr_tile *tile, const lr_tile_state *state,
                    const lr_chunk_header *const *chunks, size_t n_chunks);
/* Ends the softmax and does the rest of the layer on h; e [rows, D] are the rows' embeddings. */
void lr_tile_finish_attention(const lr_tile *tile, const lr_tile_state *state);
void lr_tile_rest(const lr_tile *tile, const float *heads, const float *e, float *h);

#endif
