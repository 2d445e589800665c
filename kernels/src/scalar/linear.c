/* The plain back end of linear layers: weights as fp32 panels of PANEL outputs, [ceil(n / PANEL)]
 * [k][PANEL], so that the innermost loop runs over outputs and each output's sum runs over k in
 * ascending order: a row's result depends on that row alone. */
#include <longreel/memory.h>

#include "../linear_parts.h"
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

static lr_status scalar_linear_create(lr_linear **out, const lr_linear_part *parts, size_t n_parts,
                                      lr_error *err)
{
    lr_status st = LR_OK;
    plain_linear *linear = NULL;
    float *row = NULL;
    lr_part_shape shape;
    size_t count, output = 0;
    *out = NULL;
    LR_TRY(lr_parts_check(parts, n_parts, &shape, err));
    size_t n = shape.n, k = shape.k, n_panels = n / PANEL + (n % PANEL != 0);
    if (!lr_mul_size(n_panels, PANEL, &count) || !lr_mul_size(count, k, &count))
        LR_FAIL(LR_E_NOMEM, "a linear layer of %zu x %zu does not fit in memory", n, k);
    LR_TRY(LR_NEW(&linear, 1, "linear layer", err));
    LR_TRY(LR_NEW(&linear->panels, count, "weights of a linear layer", err));
    LR_TRY(LR_NEW(&row, k, "a row of weights", err));
    linear->head = (lr_linear){.n = n, .k = k};
    for (size_t p = 0; p < n_parts; p++)
        for (size_t r = 0; r < parts[p].weight.dims[0]; r++, output++) {
            float *panel = linear->panels + output / PANEL * PANEL * k + output % PANEL;
            lr_part_row(&parts[p], r, row);
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
