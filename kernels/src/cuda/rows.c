/* Slots that work on rows: what they launch. */
#include "device.h"

/* ------------------------------------------------------------------ norms: a warp for each head of a row */

static void norm(lr_stream *stream, const lr_cu_norm *params)
{
    size_t blocks = (size_t)((params->rows + LR_CU_WARPS - 1) / LR_CU_WARPS);
    if (params->dim > 0)
        lr_cu_launch(stream, LR_CU_norm, (const size_t[]){blocks, 1, 1}, 32 * LR_CU_WARPS, 0, params);
}

static void rms_norm(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at w, size_t rows, size_t heads,
                     size_t dim, float eps)
{
    if (heads == 1) x.head = y.head = 0;
    norm(stream, &(lr_cu_norm){.y = lr_cu_view(y), .x = lr_cu_view(x), .w = w, .rows = rows * heads,
                               .heads = (uint32_t)heads, .dim = (uint32_t)dim, .eps = eps,
                               .kind = LR_CU_RMS_NORM});
}

static void rms_norm_add(lr_stream *stream, lr_rows h, lr_rows x, lr_device_at w, size_t rows, size_t dim,
                         float eps)
{
    x.head = h.head = 0;
    norm(stream, &(lr_cu_norm){.y = lr_cu_view(h), .x = lr_cu_view(x), .w = w, .rows = rows, .heads = 1,
                               .dim = (uint32_t)dim, .eps = eps, .kind = LR_CU_RMS_NORM_ADD});
}

static void layer_norm(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at w, lr_device_at b, size_t rows,
                       size_t dim, float eps)
{
    x.head = y.head = 0;
    norm(stream, &(lr_cu_norm){.y = lr_cu_view(y), .x = lr_cu_view(x), .w = w, .b = b, .rows = rows,
                               .heads = 1, .dim = (uint32_t)dim, .eps = eps, .kind = LR_CU_LAYER_NORM});
}

void lr_cu_fill_rows(lr_device_ops *ops)
{
    ops->rms_norm = rms_norm;
    ops->rms_norm_add = rms_norm_add;
    ops->layer_norm = layer_norm;
}
