/* EmbeddingGemma 2's own part of a layer on a device: block.c's formulas, step by step, for all rows of a batch.
 * Operands of matrix products and attention are bf16, all else is fp32: each value is rounded once on its way
 * into a product. */
#include "embeddinggemma2.h"

#include "../on_device.h"

static void heads(const lr_device_batch *batch, lr_heads kind, lr_rows x, lr_rows out)
{
    const lr_device_ops *ops = batch->ops;
    const lr_layer *layer = batch->layer;
    const lr_device_work *work = batch->work;
    size_t n_heads = kind == LR_HEADS_Q ? layer->n_heads : layer->n_kv_heads, dim = layer->head_dim;
    const lr_device_at gain[] = {batch->weights->q_norm, batch->weights->k_norm, 0};
    x.head = out.head = dim;
    if (kind == LR_HEADS_V) {
        ops->rms_norm(batch->stream, out, x, 0, batch->rows, n_heads, dim, batch->backbone->eps);
        return;
    }
    ops->rms_norm(batch->stream, x, x, gain[kind], batch->rows, n_heads, dim, batch->backbone->eps);
    ops->rope_angles(batch->stream, work->cos, work->sin, batch->weights->turns, dim / 2, batch->first, batch->rows);
    ops->rope_half(batch->stream, x, work->cos, work->sin, batch->rows, n_heads, dim);
    ops->convert(batch->stream, out, x, batch->rows, n_heads * dim);
}

/* h += norm(y), y [rows, D] in work->update */
static void add_normed(const lr_device_batch *batch, lr_device_at w)
{
    size_t d = batch->backbone->hidden;
    batch->ops->rms_norm_add(batch->stream, batch->h, lr_device_view(batch->work->update, d, LR_F32), w, batch->rows, d,
                             batch->backbone->eps);
}

/* work->update = x . W^T + bias, x [rows, k] in BF16 */
static void update(const lr_device_batch *batch, lr_rows x, size_t k, lr_device_at w, lr_device_at bias)
{
    size_t d = batch->backbone->hidden;
    batch->ops->linear(batch->stream, lr_device_view(batch->work->update, d, LR_F32), x, w, bias, batch->rows, d, k);
}

/* h += norm(down(gelu(gate) * up)) of norm(h) */
static void mlp(const lr_device_batch *batch)
{
    const lr_device_ops *ops = batch->ops;
    const lr_device_layer *w = batch->weights;
    size_t d = batch->backbone->hidden, m = batch->backbone->mlp, rows = batch->rows;
    lr_rows norm = lr_device_view(batch->work->norm, d, LR_BF16), act = lr_device_view(batch->work->act, m, LR_BF16);
    lr_rows gate = lr_device_view(batch->work->wide, 2 * m, LR_F32), up = gate;
    up.at += m * sizeof(float);
    ops->rms_norm(batch->stream, norm, batch->h, w->pre_mlp_norm, rows, 1, d, batch->backbone->eps);
    ops->linear(batch->stream, gate, norm, w->gate_up, 0, rows, 2 * m, d);
    ops->gelu_tanh_mul(batch->stream, act, gate, up, rows, m);
    update(batch, act, m, w->down, 0);
    add_normed(batch, w->post_mlp_norm);
}

/* h += norm(out(gelu(gate(h)) * norm(ple(e) * scale))): no norm before the gate */
static void per_layer_input(const lr_device_batch *batch)
{
    const lr_device_ops *ops = batch->ops;
    const lr_device_layer *w = batch->weights;
    size_t d = batch->backbone->hidden, p = batch->backbone->ple, rows = batch->rows;
    lr_rows norm = lr_device_view(batch->work->norm, d, LR_BF16), act = lr_device_view(batch->work->act, p, LR_BF16);
    lr_rows ple = lr_device_view(batch->work->wide, 2 * p, LR_F32), gate = ple;
    gate.at += p * sizeof(float);
    ops->linear(batch->stream, ple, batch->e, w->ple, 0, rows, p, d);
    ops->scale(batch->stream, ple, ple, batch->backbone->ple_scale, rows, p);
    ops->rms_norm(batch->stream, ple, ple, batch->model->ple_norm, rows, 1, p, batch->backbone->eps);
    ops->convert(batch->stream, norm, batch->h, rows, d);
    ops->linear(batch->stream, gate, norm, w->ple_gate, 0, rows, p, d);
    ops->gelu_tanh_mul(batch->stream, act, gate, ple, rows, p);
    update(batch, act, p, w->ple_out, 0);
    add_normed(batch, w->post_ple_norm);
}

static void rest(const lr_device_batch *batch, lr_rows attended)
{
    const lr_layer *layer = batch->layer;
    update(batch, attended, layer->n_heads * layer->head_dim, batch->weights->o, batch->weights->o_bias);
    add_normed(batch, batch->weights->post_attention_norm);
    mlp(batch);
    per_layer_input(batch);
    batch->ops->scale(batch->stream, batch->h, batch->h, layer->scalar, batch->rows, batch->backbone->hidden);
}

const lr_device_block eg2_device_block = {.heads = heads, .rest = rest};
