/* V-JEPA 2's own part of a layer on a device: block.c's formulas, step by step, for all rows of a batch. Operands of
 * matrix products and attention are bf16, all else is fp32: each value is rounded once on its way into a product. */
#include <math.h>

#include "../on_device.h"
#include "vjepa2.h"

#define MOST_HALF 128 /* angles of a part: a sixth of a head */

static void place_angles(const lr_backbone *backbone, size_t n, float *cosines, float *sines)
{
    size_t d = backbone->place_width;
    float c[MOST_HALF], s[MOST_HALF];
    for (size_t i = 0; i < n; i++) {
        int32_t number = (int32_t)i;
        lr_rope_angles_at(backbone->layers[0].rope, &number, 1, c, s);
        vj2_spread_angles(c, s, 1, d / 2, d, 0, cosines + i * d, sines + i * d);
    }
}

/* cos or sin of the batch's tokens, [rows, 3 * d], from the table. */
static void gather_angles(const lr_device_batch *batch, lr_device_at table, lr_device_at out)
{
    size_t d = batch->backbone->place_width;
    for (size_t axis = 0; axis < 3; axis++) {
        lr_rows to = lr_device_view(out + axis * d * sizeof(float), 3 * d, LR_F32);
        batch->ops->gather(batch->stream, to, lr_device_view(table, d, LR_F32), batch->places.number[axis], batch->rows,
                           batch->places.n, d, 1);
    }
}

static void heads(const lr_device_batch *batch, lr_heads kind, lr_rows x, lr_rows out)
{
    const lr_device_ops *ops = batch->ops;
    const lr_layer *layer = batch->layer;
    const lr_device_work *work = batch->work;
    size_t n_heads = layer->n_heads, dim = layer->head_dim, d = batch->backbone->place_width;
    x.head = dim;
    if (kind != LR_HEADS_V && d > 0) {
        gather_angles(batch, batch->places.cos, work->cos);
        gather_angles(batch, batch->places.sin, work->sin);
        ops->rope_pairs(batch->stream, x, work->cos, work->sin, batch->rows, n_heads, 3 * d);
    }
    if (kind == LR_HEADS_Q)
        ops->scale(batch->stream, out, x, (float)(1 / sqrt((double)dim)), batch->rows, n_heads * dim);
    else ops->convert(batch->stream, out, x, batch->rows, n_heads * dim);
}

/* h += x . W^T + bias, x [rows, k] in BF16 */
static void add_product(const lr_device_batch *batch, lr_rows x, size_t k, lr_device_at w, lr_device_at bias)
{
    size_t d = batch->backbone->hidden;
    lr_rows update = lr_device_view(batch->work->update, d, LR_F32);
    batch->ops->linear(batch->stream, update, x, w, bias, batch->rows, d, k);
    batch->ops->add(batch->stream, batch->h, batch->h, update, batch->rows, d);
}

static void rest(const lr_device_batch *batch, lr_rows attended)
{
    const lr_device_ops *ops = batch->ops;
    const lr_device_layer *w = batch->weights;
    size_t d = batch->backbone->hidden, m = batch->backbone->mlp, rows = batch->rows;
    lr_rows norm = lr_device_view(batch->work->norm, d, LR_BF16), act = lr_device_view(batch->work->act, m, LR_BF16);
    lr_rows wide = lr_device_view(batch->work->wide, m, LR_F32);
    add_product(batch, attended, batch->layer->n_heads * batch->layer->head_dim, w->o, w->o_bias);
    ops->layer_norm(batch->stream, norm, batch->h, w->pre_mlp_norm, w->pre_mlp_norm_bias, rows, d,
                    batch->backbone->eps);
    ops->linear(batch->stream, wide, norm, w->gate_up, w->gate_up_bias, rows, m, d);
    ops->gelu_erf(batch->stream, act, wide, rows, m);
    add_product(batch, act, m, w->down, w->down_bias);
}

const lr_device_block vj2_device_block = {.heads = heads, .rest = rest, .place_angles = place_angles};
