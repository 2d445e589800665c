/* The towers' slots: what they launch. */
#include "device.h"
#include "towers.h"

/* Enqueues a kernel with a thread for each of n things. */
static void for_each(lr_stream *stream, lr_cu_kernel kernel, size_t n, const void *params)
{
    lr_cu_launch(stream, kernel, (const size_t[]){n / LR_CU_THREADS + (n % LR_CU_THREADS != 0), 1, 1}, LR_CU_THREADS,
                 0, params);
}

static size_t eights_of(size_t dim)
{
    return (dim + 7) / 8;
}

static lr_cu_rows one_head(lr_rows rows)
{
    rows.head = 0;
    return lr_cu_view(rows);
}

/* ------------------------------------------------------------------ sound */

static void conv_taps(lr_stream *stream, const lr_device_taps *t)
{
    size_t rows = t->frames * ((t->bands + 1) / 2);
    lr_cu_taps params = {.y = one_head(t->y), .x = lr_cu_view(t->x), .x_first = t->x_first, .y_first = t->y_first,
                         .begin = t->begin, .end = t->end, .rows = rows, .bands = (uint32_t)t->bands,
                         .channels = (uint32_t)t->channels, .dim = (uint32_t)t->dim};
    for_each(stream, LR_CU_taps, rows * eights_of(t->dim), &params);
}

static void depthwise(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at w, size_t rows, size_t dim, size_t kernel)
{
    lr_cu_depthwise params = {.y = one_head(y), .x = one_head(x), .w = w, .rows = rows, .dim = (uint32_t)dim,
                              .kernel = (uint32_t)kernel};
    for_each(stream, LR_CU_depthwise, rows * eights_of(dim), &params);
}

static void near_attention(lr_stream *stream, const lr_device_near *a)
{
    if (a->dim > LR_CU_NEAR_DIM || a->window == 0) {
        lr_cu_note(stream, CUDA_ERROR_INVALID_VALUE, "attention to the tokens before with a head_dim that no kernel takes");
        return;
    }
    lr_cu_near params = {.q = lr_cu_view(a->q), .k = lr_cu_view(a->k), .v = lr_cu_view(a->v), .out = lr_cu_view(a->out),
                         .q_scale = a->q_scale, .relative = a->relative, .tokens = a->tokens, .before = a->before,
                         .k_scale = a->k_scale, .cap = a->cap, .heads = (uint32_t)a->heads, .dim = (uint32_t)a->dim,
                         .window = (uint32_t)a->window};
    size_t heads = a->tokens * a->heads;
    lr_cu_launch(stream, LR_CU_near, (const size_t[]){(heads + LR_CU_WARPS - 1) / LR_CU_WARPS, 1, 1}, 32 * LR_CU_WARPS,
                 0, &params);
}

_Static_assert(LR_CU_FFT == LR_DEVICE_FFT, "one transform");
_Static_assert(sizeof(lr_cu_band) == sizeof(lr_device_band), "bands are handed on as they are");

static void log_mel(lr_stream *stream, const lr_device_mel *mel)
{
    if (mel->frame > LR_DEVICE_FFT) {
        lr_cu_note(stream, CUDA_ERROR_INVALID_VALUE, "frames of sound longer than their transform");
        return;
    }
    lr_cu_mel params = {.y = one_head(mel->y), .samples = mel->samples, .window = mel->window, .turns = mel->turns,
                        .filters = mel->filters, .weights = mel->weights, .floor = mel->floor, .frames = mel->frames,
                        .begin = mel->begin, .end = mel->end, .frame = (uint32_t)mel->frame, .hop = (uint32_t)mel->hop,
                        .bands = (uint32_t)mel->bands};
    lr_cu_launch(stream, LR_CU_mel, (const size_t[]){(mel->frames + LR_CU_MEL_WARPS - 1) / LR_CU_MEL_WARPS, 1, 1},
                 32 * LR_CU_MEL_WARPS, 0, &params);
}

/* ------------------------------------------------------------------ pictures */

static void rgb(lr_stream *stream, lr_device_at to, size_t stride, const lr_device_surface *s,
                const lr_device_colours *c)
{
    lr_cu_rgb params = {.rgb = to, .stride = stride, .luma = s->luma, .luma_stride = s->luma_stride, .chroma = s->chroma,
                        .chroma_stride = s->chroma_stride, .width = (uint32_t)s->width, .height = (uint32_t)s->height,
                        .ten_bits = s->ten_bits, .y = c->y, .offset = c->offset, .red_v = c->red_v,
                        .green_u = c->green_u, .green_v = c->green_v, .blue_u = c->blue_u};
    for_each(stream, LR_CU_rgb, s->height * ((s->width + 1) / 2), &params);
}

static void resize_rows_u8(lr_stream *stream, lr_device_at to, size_t to_stride, lr_device_at from, size_t from_stride,
                           size_t rows, const lr_device_axis *axis)
{
    lr_cu_resize params = {.to = to, .to_stride = to_stride, .from = from, .from_stride = from_stride, .lo = axis->lo,
                           .n_taps = axis->n_taps, .weights = axis->weights, .width = (uint32_t)axis->out,
                           .height = (uint32_t)rows, .max_taps = (uint32_t)axis->max_taps,
                           .precision = (uint32_t)axis->precision};
    for_each(stream, LR_CU_resize_rows, rows * axis->out, &params);
}

static void resize_cols_u8(lr_stream *stream, lr_device_at to, size_t to_stride, lr_device_at from, size_t from_stride,
                           size_t width_bytes, const lr_device_axis *axis)
{
    lr_cu_resize params = {.to = to, .to_stride = to_stride, .from = from, .from_stride = from_stride, .lo = axis->lo,
                           .n_taps = axis->n_taps, .weights = axis->weights, .width = (uint32_t)width_bytes,
                           .height = (uint32_t)axis->out, .max_taps = (uint32_t)axis->max_taps,
                           .precision = (uint32_t)axis->precision};
    for_each(stream, LR_CU_resize_cols, width_bytes * axis->out, &params);
}

static void patches(lr_stream *stream, const lr_device_patches *p)
{
    size_t dim = p->parts * p->patch * p->patch * 3, rows = p->columns * p->rows;
    lr_cu_patches params = {.y = one_head(p->y), .rgb = p->rgb, .stride = p->stride, .part_bytes = p->part_bytes,
                            .value = p->value, .rows = rows, .patch = (uint32_t)p->patch,
                            .columns = (uint32_t)p->columns, .parts = (uint32_t)p->parts, .planar = p->planar};
    for_each(stream, LR_CU_patches, rows * eights_of(dim), &params);
}

static void add_positions(lr_stream *stream, lr_rows h, lr_rows across, lr_rows down, size_t pictures, size_t columns,
                          size_t rows, size_t dim)
{
    lr_cu_positions params = {.h = one_head(h), .across = one_head(across), .down = one_head(down),
                              .n = pictures * columns * rows, .columns = (uint32_t)columns, .rows = (uint32_t)rows,
                              .dim = (uint32_t)dim};
    for_each(stream, LR_CU_positions, params.n * eights_of(dim), &params);
}

static void pool_cells(lr_stream *stream, lr_rows y, lr_rows x, size_t pictures, size_t columns, size_t rows,
                       size_t side, double scale, lr_device_at bias, lr_device_at gain, size_t dim)
{
    if (side == 0 || columns % side != 0 || rows % side != 0) {
        lr_cu_note(stream, CUDA_ERROR_INVALID_VALUE, "a picture that is no whole number of cells");
        return;
    }
    lr_cu_cells params = {.y = one_head(y), .x = one_head(x), .bias = bias, .gain = gain,
                          .n = pictures * (columns / side) * (rows / side), .scale = scale,
                          .columns = (uint32_t)columns, .rows = (uint32_t)rows, .side = (uint32_t)side,
                          .dim = (uint32_t)dim};
    for_each(stream, LR_CU_cells, params.n * dim, &params);
}

void lr_cu_fill_towers(lr_device_ops *ops)
{
    ops->conv_taps = conv_taps;
    ops->depthwise = depthwise;
    ops->near_attention = near_attention;
    ops->log_mel = log_mel;
    ops->rgb = rgb;
    ops->resize_rows_u8 = resize_rows_u8;
    ops->resize_cols_u8 = resize_cols_u8;
    ops->patches = patches;
    ops->add_positions = add_positions;
    ops->pool_cells = pool_cells;
}
