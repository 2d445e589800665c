/* Vectors of 8 floats for the kernels that are written once for several instruction sets
 * (linear_tile.h, attention_tile.h). Included by sources compiled for AVX2 and FMA only. */
#ifndef LONGREEL_KERNELS_AVX2_SIMD_H
#define LONGREEL_KERNELS_AVX2_SIMD_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define VW 8         /* floats of a vector */
#define TILE_ROWS 6  /* rows of the micro-kernels, two vectors wide: 12 of 16 registers hold sums */
#define TILE_STEP 2  /* fewer rows are rounded up to this */

typedef __m256 vec;

#define SIMD static inline __attribute__((always_inline))

/* The first n lanes, 0 <= n; all from VW on. */
SIMD __m256i vec_first(size_t n)
{
    static const int32_t ones[2 * VW] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + VW - (n < VW ? n : VW)));
}

SIMD vec vec_zero(void)
{
    return _mm256_setzero_ps();
}

SIMD vec vec_all(float a)
{
    return _mm256_set1_ps(a);
}

SIMD vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

SIMD void vec_store(float *p, vec a)
{
    _mm256_storeu_ps(p, a);
}

/* n lanes; the others are 0 and not read. */
SIMD vec vec_load_n(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, vec_first(n));
}

SIMD void vec_store_n(float *p, vec a, size_t n)
{
    _mm256_maskstore_ps(p, vec_first(n), a);
}

SIMD vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

SIMD vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

SIMD vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

SIMD vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

/* a * b + c, rounded once. */
SIMD vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* One row of a micro-kernel: sum0 += *x * a, sum1 += *x * b, each rounded once. In assembly because
 * the sums fill the register file: from intrinsics the compiler takes forms that overwrite a factor and
 * moves loads ahead, and then spills sums. */
SIMD void vec_row_step(vec *sum0, vec *sum1, const float *x, vec a, vec b)
{
    vec broadcast;
    __asm__("vbroadcastss %[x], %[t]\n\t"
            "vfmadd231ps %[a], %[t], %[s0]\n\t"
            "vfmadd231ps %[b], %[t], %[s1]"
            : [s0] "+v"(*sum0), [s1] "+v"(*sum1), [t] "=&v"(broadcast)
            : [x] "m"(*x), [a] "v"(a), [b] "v"(b));
}

/* Lanes lo <= i < hi of a, the others `other`. */
SIMD vec vec_between(vec a, size_t lo, size_t hi, float other)
{
    __m256i mask = _mm256_andnot_si256(vec_first(lo), vec_first(hi));
    return _mm256_blendv_ps(_mm256_set1_ps(other), a, _mm256_castsi256_ps(mask));
}

SIMD float vec_reduce_max(vec a)
{
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

/* ((i, i+4), then i+2, i+1): a fixed tree. */
SIMD float vec_reduce_add(vec a)
{
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

/* a where x >= least, else 0. */
SIMD vec vec_zero_below(vec a, vec x, vec least)
{
    return _mm256_and_ps(_mm256_cmp_ps(x, least, _CMP_GE_OQ), a);
}

/* Pairs of BF16 at p (VW floats' worth): the first of each pair, the second. */
SIMD vec vec_low_bf16(const void *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256((const __m256i *)p), 16));
}

SIMD vec vec_high_bf16(const void *p)
{
    const __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256((const __m256i *)p), high));
}

/* Has the cache line of p brought to L1, or to L2; p may be any address. */
SIMD void vec_prefetch(const void *p)
{
    _mm_prefetch(p, _MM_HINT_T0);
}

SIMD void vec_prefetch_l2(const void *p)
{
    _mm_prefetch(p, _MM_HINT_T1);
}

#endif
