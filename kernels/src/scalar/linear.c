/* The plain back end of linear layers: weights as fp32 panels of PANEL outputs, [ceil(n / PANEL)]
 * [k][PANEL], so that the innermost loop runs over outputs and each output's sum runs over k in
 * ascending order: a row's result depends on that row alone. */
#include <string.h>

#include <longreel/memory.h>

#include "scalar.h"
#include "../table.h"

#define PANEL 16

typedef struct plain_linear {
    lr_linear head;
    float *panels;
} plain_linear;

static void scalar_linear_free(lr_linear *linear)
{
    if (!linear) return;
    lr_free(((plain_linear *)linear)->panels);
    lr_free(linear);
}

/* Checks the parts' types and shapes; *n and *k of them all, stacked. */
static lr_status stacked_shape(const lr_linear_part *parts, size_t n_parts, size_t *n, size_t *k,
                               lr_error *err)
{
    lr_status st = LR_OK;
    *n = *k = 0;
    for (size_t p = 0; p < n_parts; p++) {
        const lr_tensor *w = &parts[p].weight;
        if (w->n_dims != 2 || !w->dims[0] || !w->dims[1])
            LR_FAIL(LR_E_MODEL, "a linear layer's weight must have two dimensions, not %zu",
                    w->n_dims);
        if (w->dtype != LR_F32 && w->dtype != LR_BF16 && w->dtype != LR_F16)
            LR_FAIL(LR_E_UNSUPPORTED, "a linear layer's weight is %s; F32, BF16 and F16 are known",
                    lr_dtype_name(w->dtype));
        if (p > 0 && w->dims[1] != *k)
            LR_FAIL(LR_E_MODEL, "stacked linear layers take %zu and %zu inputs", *k, w->dims[1]);
        *k = w->dims[1];
        if (!lr_add_size(*n, w->dims[0], n))
            LR_FAIL(LR_E_NOMEM, "a linear layer's outputs do not fit in memory");
    }
    if (!n_parts) LR_FAIL(LR_E_INTERNAL, "a linear layer without weights");
done:
    return st;
}

static void row_to_f32(float *row, const lr_tensor *w, size_t r)
{
    size_t k = w->dims[1];
    if (w->dtype == LR_F32)
        memcpy(row, (const float *)w->data + r * k, k * sizeof(float));
    else if (w->dtype == LR_BF16)
        lr_scalar_bf16_to_f32(row, (const uint16_t *)w->data + r * k, k);
    else
        lr_scalar_f16_to_f32(row, (const uint16_t *)w->data + r * k, k);
}

static lr_status scalar_linear_create(lr_linear **out, const lr_linear_part *parts, size_t n_parts,
                                      lr_error *err)
{
    lr_status st = LR_OK;
    plain_linear *linear = NULL;
    float *row = NULL;
    size_t n, k, count, output = 0;
    *out = NULL;
    LR_TRY(stacked_shape(parts, n_parts, &n, &k, err));
    size_t n_panels = n / PANEL + (n % PANEL != 0);
    if (!lr_mul_size(n_panels, PANEL, &count) || !lr_mul_size(count, k, &count))
        LR_FAIL(LR_E_NOMEM, "a linear layer of %zu x %zu does not fit in memory", n, k);
    LR_TRY(LR_NEW(&linear, 1, "linear layer", err));
    LR_TRY(LR_NEW(&linear->panels, count, "weights of a linear layer", err));
    LR_TRY(LR_NEW(&row, k, "a row of weights", err));
    linear->head = (lr_linear){.n = n, .k = k};
    for (size_t p = 0; p < n_parts; p++)
        for (size_t r = 0; r < parts[p].weight.dims[0]; r++, output++) {
            float *panel = linear->panels + output / PANEL * PANEL * k + output % PANEL;
            row_to_f32(row, &parts[p].weight, r);
            for (size_t i = 0; i < k; i++)
                panel[i * PANEL] = row[i];
        }
    *out = &linear->head;
    linear = NULL;
done:
    lr_free(row);
    if (linear) scalar_linear_free(&linear->head);
    return st;
}

static size_t scalar_linear_scratch(const lr_linear *linear, size_t rows)
{
    (void)linear;
    (void)rows;
    return 0;
}

static void scalar_linear_run(const lr_linear *linear, float *y, size_t ldy, const float *x,
                              size_t ldx, size_t rows, uint64_t row0, const float *bias,
                              float *scratch)
{
    (void)row0;
    (void)scratch;
    size_t n = linear->n, k = linear->k;
    for (size_t first = 0; first < n; first += PANEL) {
        const float *panel = ((const plain_linear *)linear)->panels + first * k;
        size_t width = n - first < PANEL ? n - first : PANEL;
        for (size_t r = 0; r < rows; r++) {
            float sum[PANEL] = {0};
            for (size_t i = 0; i < k; i++)
                for (size_t j = 0; j < PANEL; j++)
                    sum[j] += x[r * ldx + i] * panel[i * PANEL + j];
            for (size_t j = 0; j < width; j++)
                y[r * ldy + first + j] = bias ? sum[j] + bias[first + j] : sum[j];
        }
    }
}

void lr_fill_linear_packed_scalar(lr_kernels *table)
{
    table->gemm = "packed-scalar";
    table->linear_create = scalar_linear_create;
    table->linear_free = scalar_linear_free;
    table->linear_scratch = scalar_linear_scratch;
    table->linear_run = scalar_linear_run;
}
