/* Norms on vectors. A sum over a row runs in four chains of lanes, vector v in chain v mod 4,
 * joined in one fixed tree: its value depends on the row and its length alone. Rows fit in the
 * first level of cache, so that main memory is read and written once. */
#ifndef LONGREEL_KERNELS_VECTOR_NORM_H
#define LONGREEL_KERNELS_VECTOR_NORM_H

#include <math.h>

#include "vector_math.h"

/* Evaluates `chain = next(chain, x[i ..])` for the vectors of a row and adds up the lanes. `next`
 * sees `chain`, `i` and `lanes`. */
#define SUM_ROW(dim, next)                                                                         \
    ({                                                                                             \
        vec chains[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};                          \
        const size_t end = (dim);                                                                  \
        size_t first = 0;                                                                          \
        for (; first + 4 * VW <= end; first += 4 * VW)                                           \
            _Pragma("GCC unroll 4") for (size_t c = 0; c < 4; c++)                                 \
            {                                                                                      \
                const size_t i = first + c * VW, lanes = VW;                                       \
                vec chain = chains[c];                                                             \
                chains[c] = next;                                                                  \
            }                                                                                      \
        _Pragma("GCC unroll 4") for (size_t c = 0; c < 4; c++)                                     \
        {                                                                                          \
            const size_t i = first + c * VW;                                                       \
            if (i >= end) break;                                                                   \
            const size_t lanes = end - i < VW ? end - i : VW;                                      \
            vec chain = chains[c];                                                                 \
            chains[c] = next;                                                                      \
        }                                                                                          \
        vec_reduce_add(vec_add(vec_add(chains[0], chains[1]), vec_add(chains[2], chains[3])));     \
    })

SIMD float row_dot(const float *a, const float *b, size_t n)
{
    return SUM_ROW(n, vec_fma(vec_get(a + i, lanes), vec_get(b + i, lanes), chain));
}

static float dot(const float *a, const float *b, size_t n)
{
    return row_dot(a, b, n);
}

SIMD vec inverse_rms(const float *x, size_t dim, float eps)
{
    float mean = row_dot(x, x, dim) / (float)dim;
    return vec_all(1 / sqrtf(mean + eps));
}

static void rms_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *w, size_t rows,
                     size_t dim, float eps)
{
    for (size_t r = 0; r < rows; r++, y += ldy, x += ldx) {
        vec s = inverse_rms(x, dim, eps);
        if (w)
            BY_VECTORS(dim, vec z = vec_mul(vec_get(x + i, lanes), s);
                       vec_put(y + i, vec_mul(z, vec_get(w + i, lanes)), lanes););
        else
            BY_VECTORS(dim, vec_put(y + i, vec_mul(vec_get(x + i, lanes), s), lanes););
    }
}

static void rms_norm_add(float *h, size_t ldh, const float *x, size_t ldx, const float *w,
                         size_t rows, size_t dim, float eps)
{
    for (size_t r = 0; r < rows; r++, h += ldh, x += ldx) {
        vec s = inverse_rms(x, dim, eps);
        BY_VECTORS(dim, vec z = vec_mul(vec_get(x + i, lanes), s);
                   if (w) z = vec_mul(z, vec_get(w + i, lanes));
                   vec_put(h + i, vec_add(vec_get(h + i, lanes), z), lanes););
    }
}

static void layer_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                       const float *b, size_t rows, size_t dim, float eps)
{
    for (size_t r = 0; r < rows; r++, y += ldy, x += ldx) {
        float sum = SUM_ROW(dim, vec_add(chain, vec_get(x + i, lanes)));
        vec mean = vec_all(sum / (float)dim);
        float squares = SUM_ROW(dim, ({
                                    vec d = vec_sub(vec_get(x + i, lanes), mean);
                                    d = vec_between(d, 0, lanes, 0);
                                    vec_fma(d, d, chain);
                                }));
        vec s = vec_all(1 / sqrtf(squares / (float)dim + eps));
        BY_VECTORS(dim, vec z = vec_mul(vec_sub(vec_get(x + i, lanes), mean), s);
                   z = vec_mul(z, vec_get(w + i, lanes));
                   if (b) z = vec_add(z, vec_get(b + i, lanes));
                   vec_put(y + i, z, lanes););
    }
}

#endif
