/* Inside encoder/: a backbone as data. The family fills it; backbone.c runs it. */
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

#endif
