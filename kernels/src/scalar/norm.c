#include <math.h>

#include "scalar.h"

/* (mean(x^2) + eps)^-1/2, summed in fp64. */
static float inverse_rms(const float *x, size_t dim, float eps)
{
    double sum = 0;
    for (size_t i = 0; i < dim; i++)
        sum += (double)x[i] * x[i];
    return (float)(1 / sqrt(sum / (double)dim + eps));
}

void lr_scalar_rms_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                        size_t rows, size_t dim, float eps)
{
    for (size_t r = 0; r < rows; r++, y += ldy, x += ldx) {
        float s = inverse_rms(x, dim, eps);
        for (size_t i = 0; i < dim; i++)
            y[i] = w ? x[i] * s * w[i] : x[i] * s;
    }
}

void lr_scalar_rms_norm_add(float *h, size_t ldh, const float *x, size_t ldx, const float *w,
                            size_t rows, size_t dim, float eps)
{
    for (size_t r = 0; r < rows; r++, h += ldh, x += ldx) {
        float s = inverse_rms(x, dim, eps);
        for (size_t i = 0; i < dim; i++)
            h[i] += w ? x[i] * s * w[i] : x[i] * s;
    }
}

/* The variance is that of the deviations, not mean(x^2) - mean^2, which cancels. */
void lr_scalar_layer_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                          const float *b, size_t rows, size_t dim, float eps)
{
    for (size_t r = 0; r < rows; r++, y += ldy, x += ldx) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < dim; i++)
            sum += x[i];
        double mean = sum / (double)dim;
        for (size_t i = 0; i < dim; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        float m = (float)mean, s = (float)(1 / sqrt(squares / (double)dim + eps));
        for (size_t i = 0; i < dim; i++) {
            float z = (x[i] - m) * s * w[i];
            y[i] = b ? z + b[i] : z;
        }
    }
}
