#include "linear_parts.h"

#include <limits.h>
#include <string.h>

#include <longreel/memory.h>

/* BLAS counts in int; no matrix of a model comes near. */
#define MOST_DIM ((size_t)INT_MAX)

lr_status lr_parts_check(const lr_linear_part *parts, size_t n_parts, lr_part_shape *out,
                         lr_error *err)
{
    lr_part_shape shape = {0, 0, true};
    if (n_parts == 0) return lr_fail(err, LR_E_INTERNAL, "a linear layer without weights");
    for (size_t i = 0; i < n_parts; i++) {
        const lr_tensor *w = &parts[i].weight;
        size_t bytes;
        if (w->dtype != LR_F32 && w->dtype != LR_BF16 && w->dtype != LR_F16)
            return lr_fail(err, LR_E_UNSUPPORTED, "weights of type %s (F32, BF16 or F16 wanted)",
                           lr_dtype_name(w->dtype));
        if (w->n_dims != 2)
            return lr_fail(err, LR_E_MODEL, "weights of %zu dimensions (2 wanted)", w->n_dims);
        if (w->dims[0] == 0 || w->dims[1] == 0)
            return lr_fail(err, LR_E_MODEL, "empty weights [%zu, %zu]", w->dims[0], w->dims[1]);
        if (i > 0 && w->dims[1] != shape.k)
            return lr_fail(err, LR_E_MODEL, "stacked weights of %zu and %zu inputs", shape.k,
                           w->dims[1]);
        shape.k = w->dims[1];
        if (!lr_add_size(shape.n, w->dims[0], &shape.n) || shape.n > MOST_DIM ||
            shape.k > MOST_DIM || !lr_mul_size(shape.n, shape.k, &bytes) ||
            !lr_mul_size(bytes, sizeof(float), &bytes))
            return lr_fail(err, LR_E_NOMEM, "weights [%zu, %zu] are too large", w->dims[0],
                           w->dims[1]);
        if (w->dtype != LR_BF16) shape.all_bf16 = false;
    }
    *out = shape;
    return LR_OK;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float float_of_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1fu;
    uint32_t fraction = half & 0x3ffu;
    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24, exact in fp32 */
        float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
    return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

void lr_part_row(const lr_linear_part *part, size_t row, float *out)
{
    const lr_tensor *w = &part->weight;
    size_t k = w->dims[1];
    /* A checkpoint's tensors need not be aligned to their type: copied out byte by byte. */
    const unsigned char *bytes = (const unsigned char *)w->data + row * k * lr_dtype_size(w->dtype);
    if (w->dtype == LR_F32) {
        memcpy(out, bytes, k * sizeof *out);
        return;
    }
    for (size_t i = 0; i < k; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, sizeof half);
        out[i] = w->dtype == LR_BF16 ? float_of_bits((uint32_t)half << 16) : float_of_f16(half);
    }
}
