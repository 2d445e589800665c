/* EmbeddingGemma 2's own part of a layer. Every step works row by row. With P the width of the per-layer
 * input:
 *   h += norm(attention(norm(h))); h += norm(mlp(norm(h))); h += norm(ple(h)); h *= scalar
 * q, k and v are normed head by head; q and k are turned by their position in the sequence. */
#include "embeddinggemma2.h"

/* ------------------------------------------------------------------ heads */

/* Norm of each head of the rows [rows, n_heads * head_dim] at stride ld; w NULL: without gain. */
static void norm_heads(const lr_tile *tile, float *x, size_t ld, size_t n_heads, const float *w)
{
    size_t head_dim = tile->layer->head_dim;
    for (size_t g = 0; g < n_heads; g++)
        tile->kernels->rms_norm(x + g * head_dim, ld, x + g * head_dim, ld, w, tile->rows, head_dim,
                                tile->backbone->eps);
}

static void rotate(const lr_tile *tile, float *x, size_t ld, size_t n_heads)
{
    const lr_tile_work *work = tile->work;
    size_t head_dim = tile->layer->head_dim;
    lr_rope_angles(tile->layer->rope, tile->first, tile->rows, work->cos, work->sin);
    tile->kernels->rope_half(x, ld, head_dim, n_heads, work->cos, work->sin, tile->rows, head_dim);
}

static void heads(const lr_tile *tile, lr_heads kind, float *x, size_t ld)
{
    const lr_layer *layer = tile->layer;
    size_t n_heads = kind == LR_HEADS_Q ? layer->n_heads : layer->n_kv_heads;
    const float *gain[] = {layer->q_norm, layer->k_norm, NULL};
    norm_heads(tile, x, ld, n_heads, gain[kind]);
    if (kind != LR_HEADS_V) rotate(tile, x, ld, n_heads);
}

/* ------------------------------------------------------------------ the rest of the layer */

static void add_normed(const lr_tile *tile, float *h, const float *update, const float *w)
{
    size_t width = tile->backbone->hidden;
    tile->kernels->rms_norm_add(h, width, update, width, w, tile->rows, width, tile->backbone->eps);
}

/* h += norm(down(gelu(gate) * up)) of norm(h) */
static void mlp(const lr_tile *tile, float *h)
{
    const lr_layer *layer = tile->layer;
    const lr_tile_work *work = tile->work;
    size_t width = tile->backbone->hidden, m = tile->backbone->mlp;
    tile->kernels->rms_norm(work->norm, width, h, width, layer->pre_mlp_norm, tile->rows, width,
                            tile->backbone->eps);
    lr_tile_linear(tile, layer->gate_up, NULL, work->norm, width, work->wide);
    tile->kernels->gelu_tanh_mul(work->wide, 2 * m, work->wide, 2 * m, work->wide + m, 2 * m,
                                 tile->rows, m);
    lr_tile_linear(tile, layer->down, NULL, work->wide, 2 * m, work->update);
    add_normed(tile, h, work->update, layer->post_mlp_norm);
}

/* h += norm(out(gelu(gate(h)) * norm(ple(e) * scale))): no norm before the gate */
static void per_layer_input(const lr_tile *tile, const float *e, float *h)
{
    const lr_layer *layer = tile->layer;
    const lr_tile_work *work = tile->work;
    size_t width = tile->backbone->hidden, p = tile->backbone->ple;
    lr_tile_linear(tile, layer->ple, NULL, e, width, work->ple);
    tile->kernels->scale(work->ple, work->ple, tile->backbone->ple_scale, tile->rows * p);
    tile->kernels->rms_norm(work->ple, p, work->ple, p, tile->backbone->ple_norm, tile->rows, p,
                            tile->backbone->eps);
    lr_tile_linear(tile, layer->ple_gate, NULL, h, width, work->gate);
    tile->kernels->gelu_tanh_mul(work->gate, p, work->gate, p, work->ple, p, tile->rows, p);
    lr_tile_linear(tile, layer->ple_out, NULL, work->gate, p, work->update);
    add_normed(tile, h, work->update, layer->post_ple_norm);
}

static void rest(const lr_tile *tile, const float *heads, const float *e, float *h)
{
    const lr_layer *layer = tile->layer;
    lr_tile_linear(tile, layer->o, layer->o_bias, heads, layer->n_heads * layer->head_dim,
                   tile->work->update);
    add_normed(tile, h, tile->work->update, layer->post_attention_norm);
    mlp(tile, h);
    per_layer_input(tile, e, h);
    tile->kernels->scale(h, h, layer->scalar, tile->rows * tile->backbone->hidden);
}

const lr_block eg2_block = {.heads = heads, .rest = rest};
