/* Vectors of 16 floats for the kernels that are written once for several instruction sets
 * (linear_tile.h, attention_tile.h). Included by sources compiled for AVX-512 only. */
#ifndef LONGREEL_KERNELS_AVX512_SIMD_H
#define LONGREEL_KERNELS_AVX512_SIMD_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define VW 16         /* floats of a vector */
#define TILE_ROWS 12  /* rows of the micro-kernels, two vectors wide: 24 of 32 registers hold sums */
#define TILE_STEP 4   /* fewer rows are rounded up to this */

typedef __m512 vec;

#define SIMD static inline __attribute__((always_inline))

/* The first n lanes, 0 <= n; all from VW on. */
SIMD __mmask16 vec_first(size_t n)
{
    return (__mmask16)(n >= VW ? 0xffffu : (1u << n) - 1u);
}

SIMD vec vec_zero(void)
{
    return _mm512_setzero_ps();
}

SIMD vec vec_all(float a)
{
    return _mm512_set1_ps(a);
}

SIMD vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

SIMD void vec_store(float *p, vec a)
{
    _mm512_storeu_ps(p, a);
}

/* n lanes; the others are 0 and not read. */
SIMD vec vec_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(vec_first(n), p);
}

SIMD void vec_store_n(float *p, vec a, size_t n)
{
    _mm512_mask_storeu_ps(p, vec_first(n), a);
}

SIMD vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

SIMD vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

SIMD vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

SIMD vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

/* a * b + c, rounded once. */
SIMD vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
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
    __mmask16 mask = (__mmask16)(vec_first(hi) & ~vec_first(lo));
    return _mm512_mask_blend_ps(mask, _mm512_set1_ps(other), a);
}

SIMD float vec_reduce_max(vec a)
{
    return _mm512_reduce_max_ps(a);
}

/* ((i, i+8), then i+4, i+2, i+1): a fixed tree. */
SIMD float vec_reduce_add(vec a)
{
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    quarter = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
}

/* a where x >= least, else 0. */
SIMD vec vec_zero_below(vec a, vec x, vec least)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, least, _CMP_GE_OQ), a);
}

/* Pairs of BF16 at p (VW floats' worth): the first of each pair, the second. */
SIMD vec vec_low_bf16(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}

SIMD vec vec_high_bf16(const void *p)
{
    const __m512i high = _mm512_set1_epi32((int)0xffff0000u);
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), high));
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
