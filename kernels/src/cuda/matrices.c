/* Linear layers and attention: what they launch. */
#include "device.h"

/* Rows of bf16 that kernels copy 16 bytes at a time. */
static bool in_units(lr_device_at at, size_t ld)
{
    return at % 16 == 0 && ld % 8 == 0;
}

static void linear(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at w, lr_device_at bias, size_t rows,
                   size_t n, size_t k)
{
    y.head = 0;
    if (x.dtype != LR_BF16 || !in_units(x.at, x.ld) || !in_units(w, k)) {
        lr_cu_note(stream, CUDA_ERROR_INVALID_VALUE, "a linear layer whose rows are not multiples of 16 bytes");
        return;
    }
    lr_cu_gemm params = {.y = lr_cu_view(y), .x = x.at, .x_ld = x.ld, .w = w, .bias = bias, .rows = rows,
                         .n = (uint32_t)n, .k = (uint32_t)k};
    size_t tile = LR_CU_GEMM_TILE;
    lr_cu_launch(stream, LR_CU_gemm, (const size_t[]){(rows + tile - 1) / tile, (n + tile - 1) / tile, 1},
                 32 * LR_CU_WARPS, LR_CU_GEMM_SHARED, &params);
}

/* ------------------------------------------------------------------ attention */

typedef struct variant {
    lr_cu_kernel kernel;
    size_t most_dim, rows, threads, shared;
} variant;

static const variant variants[] = { /* ascending by head_dim; the larger one behind */
#define VARIANT(unused, name, D, KEYS, ROWS, COLUMNS, BANDS)                                       \
    {LR_CU_##name, D, ROWS, (ROWS) / (16 * (BANDS)) * (COLUMNS) * 32,                              \
     LR_CU_ATTENTION_SHARED(D, KEYS, ROWS, COLUMNS)},
    LR_CU_ATTENTIONS(VARIANT, )
#undef VARIANT
};

/* The kernel for a head of this width on a device; NULL when there is none. */
static const variant *variant_for(const lr_cu_device *device, const lr_device_attn *a)
{
    const variant *found = NULL;
    if (a->head_dim % 8 != 0 || a->head_dim == 0 || !in_units(a->q.at, a->q.ld) || a->kv_ld % 8 != 0 ||
        !in_units(a->out.at, a->out.ld))
        return NULL;
    for (const variant *v = variants; v < variants + sizeof variants / sizeof *variants; v++)
        if (a->head_dim <= v->most_dim && v->shared <= device->head.info.shared_bytes &&
            (!found || found->most_dim == v->most_dim))
            found = v;
    return found;
}

_Static_assert(sizeof(lr_device_chunk) == sizeof(lr_cu_chunk), "chunks are handed on as they are");

static void attention(lr_stream *stream, const lr_device_attn *a)
{
    const variant *v = variant_for(stream->device, a);
    if (!v) {
        lr_cu_note(stream, CUDA_ERROR_INVALID_VALUE, "attention with a head_dim or rows that no kernel takes");
        return;
    }
    size_t rows = a->n_tokens * a->group;
    lr_cu_attention params = {.q = a->q.at, .q_ld = a->q.ld, .o = a->o.at, .o_ld = a->o.ld, .m = a->m, .l = a->l,
                              .out = a->out.at, .out_ld = a->out.ld, .lo = a->lo, .hi = a->hi,
                              .chunks = a->chunks, .kv_ld = a->kv_ld, .n_rows = rows,
                              .n_chunks = (uint32_t)a->n_chunks, .group = (uint32_t)a->group,
                              .kv_heads = (uint32_t)a->n_kv_heads, .head_dim = (uint32_t)a->head_dim,
                              .resume = a->resume};
    lr_cu_launch(stream, v->kernel, (const size_t[]){(rows + v->rows - 1) / v->rows, a->n_kv_heads, 1},
                 (unsigned)v->threads, v->shared, &params);
}

void lr_cu_fill_matrices(lr_device_ops *ops)
{
    ops->linear = linear;
    ops->attention = attention;
}
