/* Inside encoder/: a backbone as data. The family fills it; backbone.c runs it with the arithmetic of
 * a tile of rows in backbone_tile.c, and the family's own part of a layer in its block.c. */
#ifndef LONGREEL_ENCODER_BACKBONE_H
#define LONGREEL_ENCODER_BACKBONE_H

#include <longreel/encoder.h>

/* One transformer block, `D` wide, with M the width of the MLP and P that of the per-layer input. Common to
 * all families: norm, q, k and v, attention. The rest is the family's lr_block; what it does not have is
 * NULL. */
typedef struct lr_layer {
    lr_mask mask;
    size_t n_heads, n_kv_heads, head_dim; /* query head g uses KV head g / (n_heads / n_kv_heads) */
    const lr_rope *rope; /* NULL: nothing is turned */
    const float *input_norm, *post_attention_norm, *pre_mlp_norm, *post_mlp_norm; /* [D] */
    const float *input_norm_bias, *pre_mlp_norm_bias;                             /* [D] of LayerNorm */
    const float *q_norm, *k_norm;                                                 /* [head_dim] */
    lr_linear *q;       /* [n_heads * head_dim, D] */
    lr_linear *kv;      /* [2 * n_kv_heads * head_dim, D]: K above V */
    lr_linear *o;       /* [D, n_heads * head_dim] */
    const float *q_bias, *kv_bias, *o_bias; /* or NULL */
    lr_linear *gate_up; /* [2 * M, D]; [M, D] without a gate */
    lr_linear *down;    /* [D, M] */
    const float *gate_up_bias, *down_bias; /* or NULL */
    lr_linear *ple;     /* [P, D]: this layer's rows of the projection of the embeddings */
    lr_linear *ple_gate; /* [P, D] */
    lr_linear *ple_out;  /* [D, P] */
    const float *post_ple_norm; /* [D] */
    float scalar;
} lr_layer;

typedef struct lr_tile lr_tile;

/* What a family does its own way inside a layer, on a tile of rows. */
typedef enum lr_heads { LR_HEADS_Q, LR_HEADS_K, LR_HEADS_V } lr_heads;
typedef struct lr_block {
    /* Norms, positions and scale of the heads x [rows, heads * head_dim] at stride ld, after their linear
     * layer and before attention. work->norm is free. */
    void (*heads)(const lr_tile *tile, lr_heads kind, float *x, size_t ld);
    /* The rest of the layer on h [rows, D], from attention's output heads [rows, n_heads * head_dim] on. e
     * [rows, D] are the rows' embeddings, NULL unless the backbone has a per-layer input. */
    void (*rest)(const lr_tile *tile, const float *heads, const float *e, float *h);
    bool angle_each; /* cos and sin for each value of a head, not for each pair */
} lr_block;

typedef struct lr_device_block lr_device_block; /* on_device.h: the same on a device */

typedef struct lr_backbone {
    const lr_block *block;
    const lr_device_block *device_block; /* NULL: the family has none */
    size_t n_layers;
    lr_layer *layers;
    size_t hidden, mlp, ple; /* D, M, P; P 0: no per-layer input */
    size_t grid;             /* patches a side of a picture, where positions are (t, row, column) */
    size_t place_width;      /* values of a head that each of these three turns; 0 elsewhere */
    bool gated;              /* the MLP has a gate beside its up projection */
    bool layer_norm;         /* else RMS norms */
    float eps;
    float ple_scale;         /* D^-1/2 */
    const float *ple_norm;   /* [P], one for all layers */
    const float *final_norm, *final_norm_bias; /* [D] */
} lr_backbone;

/* Of layers that followed one another. */
void lr_add_ring_stats(lr_ring_stats *sum, const lr_ring_stats *one);

/* ------------------------------------------------------------------ one tile of rows */

/* What one thread needs for one tile of at most LR_ROW_TILE tokens. `wide` holds q, later gate and
 * up, and once the MLP is done ple and gate; `heads` the output of attention. Steps share memory: norm and
 * linear are always free, kv, cos and sin until attention begins, attn during it, update afterwards. */
typedef struct lr_tile_work {
    float *norm, *wide, *heads, *kv, *update, *ple, *gate, *cos, *sin, *m, *l, *attn, *linear;
    uint64_t *lo, *hi;
} lr_tile_work;

/* Floats of one thread's work memory; cuts it when base is not NULL. kept_state: q, o, m and l of all
 * tokens are kept elsewhere; wide (with ple and gate) is then for the caller to set, before the rest of
 * the layer. */
size_t lr_tile_work_cut(const lr_kernels *kernels, const lr_backbone *backbone, bool kept_state, float *base,
                        lr_tile_work *work);
size_t lr_tile_wide_floats(const lr_backbone *backbone);
void lr_tile_work_widen(const lr_backbone *backbone, float *wide, lr_tile_work *work);

/* The rows of a tile: absolute numbers [first, first + rows) of a sequence of n_tokens. */
struct lr_tile {
    const lr_kernels *kernels;
    const lr_backbone *backbone;
    const lr_layer *layer;
    const lr_tile_work *work;
    uint64_t first, n_tokens;
    size_t rows;
};

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
/* Ends the softmax: state->o is what the block's rest goes on with. */
void lr_tile_finish_attention(const lr_tile *tile, const lr_tile_state *state);

/* For blocks. y = x . W^T + bias, and the backbone's kind of norm over D, on the tile's rows. */
void lr_tile_linear(const lr_tile *tile, const lr_linear *weight, const float *bias, const float *x,
                    size_t ldx, float *y);
void lr_norm_rows(const lr_kernels *kernels, const lr_backbone *backbone, float *y, const float *x,
                  const float *w, const float *b, size_t rows);

#endif
