#include <string.h>

#include "scalar.h"

void lr_scalar_rope_half(float *x, size_t ldx, size_t head, size_t n_heads, const float *cos,
                         const float *sin, size_t rows, size_t dim)
{
    size_t half = dim / 2;
    for (size_t r = 0; r < rows; r++, x += ldx, cos += half, sin += half)
        for (size_t h = 0; h < n_heads; h++) {
            float *a = x + h * head, *b = a + half;
            for (size_t j = 0; j < half; j++) {
                float u = a[j], v = b[j];
                a[j] = u * cos[j] - v * sin[j];
                b[j] = v * cos[j] + u * sin[j];
            }
        }
}

void lr_scalar_rope_pairs(float *x, size_t ldx, size_t head, size_t n_heads, const float *cos,
                          const float *sin, size_t rows, size_t dim)
{
    for (size_t r = 0; r < rows; r++, x += ldx, cos += dim, sin += dim)
        for (size_t h = 0; h < n_heads; h++)
            for (size_t e = 0; e + 1 < dim; e += 2) {
                float *pair = x + h * head + e, u = pair[0], v = pair[1];
                pair[0] = u * cos[e] + v * sin[e];
                pair[1] = v * cos[e + 1] + u * sin[e + 1];
            }
}

/* A NaN stays a NaN in clamp and relu. */
void lr_scalar_clamp(float *y, const float *x, float lo, float hi, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < lo ? lo : x[i] > hi ? hi : x[i];
}

void lr_scalar_relu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < 0 ? 0 : x[i];
}

void lr_scalar_add(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

void lr_scalar_axpy(float *y, float alpha, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += alpha * x[i];
}

void lr_scalar_scale(float *y, const float *x, float alpha, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * alpha;
}

void lr_scalar_sum_rows(double *sum, const float *x, size_t ldx, size_t rows, size_t dim)
{
    for (size_t r = 0; r < rows; r++, x += ldx)
        for (size_t i = 0; i < dim; i++)
            sum[i] += x[i];
}

float lr_scalar_dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return (float)sum;
}

/* Values of 16 bits are copied out: in a mapped file they may stand at odd addresses. */
static uint16_t load16(const uint16_t *x, size_t i)
{
    uint16_t value;
    memcpy(&value, (const unsigned char *)x + i * sizeof(value), sizeof(value));
    return value;
}

void lr_scalar_bf16_to_f32(float *y, const uint16_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)load16(x, i) << 16;
        memcpy(&y[i], &bits, sizeof(bits));
    }
}

/* binary16: sign, 5 bits of exponent (bias 15), 10 of fraction. Subnormals are fraction * 2^-24; a
 * signalling NaN comes out quiet, as the processor's own conversion does it. */
static uint32_t f16_bits(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = h >> 10 & 31u, fraction = h & 0x3ffu;
    if (exponent == 31) return sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0);
    if (exponent) return sign | (exponent + 112) << 23 | fraction << 13;
    float subnormal = (float)fraction * 0x1p-24f;
    uint32_t bits;
    memcpy(&bits, &subnormal, sizeof(bits));
    return sign | bits;
}

void lr_scalar_f16_to_f32(float *y, const uint16_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = f16_bits(load16(x, i));
        memcpy(&y[i], &bits, sizeof(bits));
    }
}
