/* Rotary embedding, activations and plain element-by-element work on vectors. All but the
 * activations round exactly as the scalar reference does. */
#ifndef LONGREEL_KERNELS_VECTOR_ELEMENTWISE_H
#define LONGREEL_KERNELS_VECTOR_ELEMENTWISE_H

#include <string.h>

#include "vector_math.h"

static void rope_half(float *x, size_t ldx, size_t head, size_t n_heads, const float *cos,
                      const float *sin, size_t rows, size_t dim)
{
    size_t half = dim / 2;
    for (size_t r = 0; r < rows; r++, x += ldx, cos += half, sin += half)
        BY_VECTORS(
            half, vec c = vec_get(cos + i, lanes), s = vec_get(sin + i, lanes);
            for (size_t h = 0; h < n_heads; h++) {
                float *a = x + h * head + i, *b = a + half;
                vec u = vec_get(a, lanes), v = vec_get(b, lanes);
                vec_put(a, vec_sub(vec_mul(u, c), vec_mul(v, s)), lanes);
                vec_put(b, vec_add(vec_mul(v, c), vec_mul(u, s)), lanes);
            });
}

/* Vectors begin at even values, so that no pair is parted. */
static void rope_pairs(float *x, size_t ldx, size_t head, size_t n_heads, const float *cos,
                       const float *sin, size_t rows, size_t dim)
{
    for (size_t r = 0; r < rows; r++, x += ldx, cos += dim, sin += dim)
        BY_VECTORS(
            dim, vec c = vec_get(cos + i, lanes), s = vec_get(sin + i, lanes);
            for (size_t h = 0; h < n_heads; h++) {
                vec u = vec_get(x + h * head + i, lanes);
                vec turned = vec_add(vec_mul(u, c), vec_mul(vec_swap_pairs(u), s));
                vec_put(x + h * head + i, turned, lanes);
            });
}

static void gelu_tanh_mul(float *y, size_t ldy, const float *gate, size_t ldg, const float *up,
                          size_t ldu, size_t rows, size_t dim)
{
    for (size_t r = 0; r < rows; r++, y += ldy, gate += ldg, up += ldu)
        BY_VECTORS(dim, vec g = vec_gelu_tanh(vec_get(gate + i, lanes));
                   vec_put(y + i, vec_mul(g, vec_get(up + i, lanes)), lanes););
}

static void gelu_erf(float *y, const float *x, size_t n)
{
    BY_VECTORS(n, vec_put(y + i, vec_gelu_erf(vec_get(x + i, lanes)), lanes););
}

static void silu(float *y, const float *x, size_t n)
{
    BY_VECTORS(n, vec v = vec_get(x + i, lanes); vec_put(y + i, vec_times_sigmoid(v, v), lanes););
}

static void glu(float *y, size_t ldy, const float *a, const float *b, size_t ldab, size_t rows,
                size_t dim)
{
    for (size_t r = 0; r < rows; r++, y += ldy, a += ldab, b += ldab)
        BY_VECTORS(dim, vec z = vec_times_sigmoid(vec_get(a + i, lanes), vec_get(b + i, lanes));
                   vec_put(y + i, z, lanes););
}

static void clamp(float *y, const float *x, float lo, float hi, size_t n)
{
    const vec low = vec_all(lo), high = vec_all(hi);
    BY_VECTORS(n, vec v = vec_max(low, vec_get(x + i, lanes));
               vec_put(y + i, vec_min(high, v), lanes););
}

static void relu(float *y, const float *x, size_t n)
{
    BY_VECTORS(n, vec_put(y + i, vec_max(vec_zero(), vec_get(x + i, lanes)), lanes););
}

static void add(float *y, const float *a, const float *b, size_t n)
{
    BY_VECTORS(n, vec_put(y + i, vec_add(vec_get(a + i, lanes), vec_get(b + i, lanes)), lanes););
}

static void axpy(float *y, float alpha, const float *x, size_t n)
{
    const vec factor = vec_all(alpha);
    BY_VECTORS(n, vec v = vec_mul(factor, vec_get(x + i, lanes));
               vec_put(y + i, vec_add(vec_get(y + i, lanes), v), lanes););
}

static void scale(float *y, const float *x, float alpha, size_t n)
{
    const vec factor = vec_all(alpha);
    BY_VECTORS(n, vec_put(y + i, vec_mul(vec_get(x + i, lanes), factor), lanes););
}

/* Four rows in one pass over the sums, added one after the other. */
static void sum_rows(double *sum, const float *x, size_t ldx, size_t rows, size_t dim)
{
    for (size_t group; rows > 0; rows -= group, x += group * ldx) {
        group = rows < 4 ? rows : 4;
        for (size_t i = 0; i < dim; i += VDW) {
            vecd s = vecd_load_n(sum + i, dim - i);
            if (group == 4) {
                s = vecd_add(s, vecd_from_floats_n(x + i, dim - i));
                s = vecd_add(s, vecd_from_floats_n(x + ldx + i, dim - i));
                s = vecd_add(s, vecd_from_floats_n(x + 2 * ldx + i, dim - i));
                s = vecd_add(s, vecd_from_floats_n(x + 3 * ldx + i, dim - i));
            } else {
                for (size_t r = 0; r < group; r++)
                    s = vecd_add(s, vecd_from_floats_n(x + r * ldx + i, dim - i));
            }
            vecd_store_n(sum + i, s, dim - i);
        }
    }
}

/* The last values, fewer than a vector, go through a copy: 16-bit loads have no mask in AVX2. */
#define CONVERT(y, x, n, convert)                                                                  \
    do {                                                                                           \
        const size_t end = (n);                                                                    \
        size_t i = 0;                                                                              \
        for (; i + VW <= end; i += VW)                                                             \
            vec_store((y) + i, convert((x) + i));                                                  \
        if (i < end) {                                                                             \
            uint16_t last[VW] = {0};                                                               \
            memcpy(last, (x) + i, (end - i) * sizeof(*last));                                      \
            vec_store_n((y) + i, convert(last), end - i);                                          \
        }                                                                                          \
    } while (0)

static void bf16_to_f32(float *y, const uint16_t *x, size_t n)
{
    CONVERT(y, x, n, vec_from_bf16);
}

static void f16_to_f32(float *y, const uint16_t *x, size_t n)
{
    CONVERT(y, x, n, vec_from_f16);
}

#endif
