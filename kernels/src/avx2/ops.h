/* What the elementwise kernels (vector_*.h) need beyond simd.h, for AVX2. */
#ifndef LONGREEL_KERNELS_AVX2_OPS_H
#define LONGREEL_KERNELS_AVX2_OPS_H

#include "simd.h"

/* min and max give b where one of them is a NaN, or both are zeros. */
SIMD vec vec_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

SIMD vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

/* Lanes 2i and 2i + 1 change places. */
SIMD vec vec_swap_pairs(vec a)
{
    return _mm256_permute_ps(a, 0xb1);
}

SIMD vec vec_abs(vec a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

/* a * 2^n for whole n, -126 <= n <= 128; 2^128 counts as infinity. */
SIMD vec vec_ldexp(vec a, vec n)
{
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}

/* VW values of 16 bits at p. */
SIMD vec vec_from_bf16(const uint16_t *p)
{
    __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

SIMD vec vec_from_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* Half a vector's count of doubles. */
typedef __m256d vecd;
#define VDW 4

SIMD vecd vecd_load_n(const double *p, size_t n)
{
    if (n >= VDW) return _mm256_loadu_pd(p);
    return _mm256_maskload_pd(p, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(vec_first(n))));
}

SIMD void vecd_store_n(double *p, vecd a, size_t n)
{
    if (n >= VDW)
        _mm256_storeu_pd(p, a);
    else
        _mm256_maskstore_pd(p, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(vec_first(n))), a);
}

SIMD vecd vecd_add(vecd a, vecd b)
{
    return _mm256_add_pd(a, b);
}

/* n floats as doubles. */
SIMD vecd vecd_from_floats_n(const float *p, size_t n)
{
    __m128 x =
        n >= VDW ? _mm_loadu_ps(p) : _mm_maskload_ps(p, _mm256_castsi256_si128(vec_first(n)));
    return _mm256_cvtps_pd(x);
}

/* ------------------------------------------------------------------ bytes and whole numbers */

typedef __m256i ints;
#define INTS_BYTES 32
#define INTS_LANES 2 /* of 16 bytes: what shuffles, packs and unpacks work in */

SIMD ints ints_zero(void)
{
    return _mm256_setzero_si256();
}

SIMD ints ints_all(int32_t a)
{
    return _mm256_set1_epi32(a);
}

SIMD ints ints_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

SIMD void ints_store(void *p, ints a)
{
    _mm256_storeu_si256((__m256i *)p, a);
}

/* 16 bytes at p + lane * stride in each lane. */
SIMD ints ints_load_lanes(const uint8_t *p, size_t stride)
{
    __m256i low = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_inserti128_si256(low,
                                   _mm_loadu_si128((const __m128i *)(const void *)(p + stride)), 1);
}

/* The same 16 indices in each lane. */
SIMD ints ints_shuffle(ints a, const int8_t *indices)
{
    __m128i lane = _mm_loadu_si128((const __m128i *)(const void *)indices);
    return _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(lane));
}

SIMD ints ints_add(ints a, ints b)
{
    return _mm256_add_epi32(a, b);
}

/* Sums of products of neighbouring int16. */
SIMD ints ints_madd(ints a, ints b)
{
    return _mm256_madd_epi16(a, b);
}

SIMD ints ints_shift_right(ints a, int bits)
{
    return _mm256_sra_epi32(a, _mm_cvtsi32_si128(bits));
}

SIMD ints ints_low_bytes(ints a, ints b)
{
    return _mm256_unpacklo_epi8(a, b);
}

SIMD ints ints_high_bytes(ints a, ints b)
{
    return _mm256_unpackhi_epi8(a, b);
}

/* Four vectors of int32 to bytes, saturated. */
SIMD ints ints_pack(ints a, ints b, ints c, ints d)
{
    return _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}

#endif
