#include <math.h>

#include "scalar.h"

/* 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3): the second form
 * keeps its relative accuracy for negative x, where 1 + tanh(u) cancels. */
static float gelu_tanh(float x)
{
    const float a = 1.5957691216f, b = 0.0713548163f; /* 2 sqrt(2/pi), that times 0.044715 */
    return x / (1 + expf(-x * (a + b * (x * x))));
}

void lr_scalar_gelu_tanh_mul(float *y, size_t ldy, const float *gate, size_t ldg, const float *up,
                             size_t ldu, size_t rows, size_t dim)
{
    for (size_t r = 0; r < rows; r++, y += ldy, gate += ldg, up += ldu)
        for (size_t i = 0; i < dim; i++)
            y[i] = gelu_tanh(gate[i]) * up[i];
}

/* 0.5 x (1 + erf(x / sqrt(2))) = 0.5 x erfc(-x / sqrt(2)), without the cancellation. */
void lr_scalar_gelu_erf(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = 0.5f * x[i] * erfcf(-0.70710678119f * x[i]);
}

void lr_scalar_silu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] / (1 + expf(-x[i]));
}

void lr_scalar_glu(float *y, size_t ldy, const float *a, const float *b, size_t ldab, size_t rows,
                   size_t dim)
{
    for (size_t r = 0; r < rows; r++, y += ldy, a += ldab, b += ldab)
        for (size_t i = 0; i < dim; i++)
            y[i] = a[i] / (1 + expf(-b[i]));
}
