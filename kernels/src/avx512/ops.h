/* What the elementwise kernels (vector_*.h) need beyond simd.h, for AVX-512. */
#ifndef LONGREEL_KERNELS_AVX512_OPS_H
#define LONGREEL_KERNELS_AVX512_OPS_H

#include "simd.h"

/* min and max give b where one of them is a NaN, or both are zeros. */
SIMD vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

SIMD vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

/* Lanes 2i and 2i + 1 change places. */
SIMD vec vec_swap_pairs(vec a)
{
    return _mm512_permute_ps(a, 0xb1);
}

SIMD vec vec_abs(vec a)
{
    return _mm512_abs_ps(a);
}

/* a * 2^n for whole n. */
SIMD vec vec_ldexp(vec a, vec n)
{
    return _mm512_scalef_ps(a, n);
}

/* VW values of 16 bits at p. */
SIMD vec vec_from_bf16(const uint16_t *p)
{
    __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

SIMD vec vec_from_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* Half a vector's count of doubles. */
typedef __m512d vecd;
#define VDW 8

SIMD vecd vecd_load_n(const double *p, size_t n)
{
    return n >= VDW ? _mm512_loadu_pd(p) : _mm512_maskz_loadu_pd((__mmask8)vec_first(n), p);
}

SIMD void vecd_store_n(double *p, vecd a, size_t n)
{
    if (n >= VDW)
        _mm512_storeu_pd(p, a);
    else
        _mm512_mask_storeu_pd(p, (__mmask8)vec_first(n), a);
}

SIMD vecd vecd_add(vecd a, vecd b)
{
    return _mm512_add_pd(a, b);
}

/* n floats as doubles. */
SIMD vecd vecd_from_floats_n(const float *p, size_t n)
{
    __m256 x = n >= VDW ? _mm256_loadu_ps(p) : _mm256_maskz_loadu_ps((__mmask8)vec_first(n), p);
    return _mm512_cvtps_pd(x);
}

/* ------------------------------------------------------------------ bytes and whole numbers */

typedef __m512i ints;
#define INTS_BYTES 64
#define INTS_LANES 4 /* of 16 bytes: what shuffles, packs and unpacks work in */

SIMD ints ints_zero(void)
{
    return _mm512_setzero_si512();
}

SIMD ints ints_all(int32_t a)
{
    return _mm512_set1_epi32(a);
}

SIMD ints ints_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

SIMD void ints_store(void *p, ints a)
{
    _mm512_storeu_si512(p, a);
}

/* 16 bytes at p + lane * stride in each lane. */
SIMD ints ints_load_lanes(const uint8_t *p, size_t stride)
{
    const __m128i *lane = (const __m128i *)(const void *)p;
    __m512i all = _mm512_castsi128_si512(_mm_loadu_si128(lane));
    lane = (const __m128i *)(const void *)(p + stride);
    all = _mm512_mask_broadcast_i32x4(all, 0x00f0, _mm_loadu_si128(lane));
    lane = (const __m128i *)(const void *)(p + 2 * stride);
    all = _mm512_mask_broadcast_i32x4(all, 0x0f00, _mm_loadu_si128(lane));
    lane = (const __m128i *)(const void *)(p + 3 * stride);
    return _mm512_mask_broadcast_i32x4(all, 0xf000, _mm_loadu_si128(lane));
}

/* The same 16 indices in each lane. */
SIMD ints ints_shuffle(ints a, const int8_t *indices)
{
    __m128i lane = _mm_loadu_si128((const __m128i *)(const void *)indices);
    return _mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(lane));
}

SIMD ints ints_add(ints a, ints b)
{
    return _mm512_add_epi32(a, b);
}

/* Sums of products of neighbouring int16. */
SIMD ints ints_madd(ints a, ints b)
{
    return _mm512_madd_epi16(a, b);
}

SIMD ints ints_shift_right(ints a, int bits)
{
    return _mm512_sra_epi32(a, _mm_cvtsi32_si128(bits));
}

SIMD ints ints_low_bytes(ints a, ints b)
{
    return _mm512_unpacklo_epi8(a, b);
}

SIMD ints ints_high_bytes(ints a, ints b)
{
    return _mm512_unpackhi_epi8(a, b);
}

/* Four vectors of int32 to bytes, saturated. */
SIMD ints ints_pack(ints a, ints b, ints c, ints d)
{
    return _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
}

#endif
