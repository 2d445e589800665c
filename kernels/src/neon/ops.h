/* What the elementwise kernels (vector_*.h) need beyond simd.h, for NEON. */
#ifndef LONGREEL_KERNELS_NEON_OPS_H
#define LONGREEL_KERNELS_NEON_OPS_H

#include "simd.h"

SIMD float32x4_t vec_smaller(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcltq_f32(x, y), x, y);
}

/* min and max give y where one of them is a NaN, or both are zeros. */
SIMD vec vec_min(vec x, vec y)
{
    return VEC_EACH(vec_smaller, x, y);
}

SIMD vec vec_div(vec x, vec y)
{
    return VEC_EACH(vdivq_f32, x, y);
}

/* Lanes 2i and 2i + 1 change places. */
SIMD vec vec_swap_pairs(vec x)
{
    return (vec){vrev64q_f32(x.a), vrev64q_f32(x.b)};
}

SIMD vec vec_abs(vec x)
{
    return (vec){vabsq_f32(x.a), vabsq_f32(x.b)};
}

/* x * 2^n for whole n, -126 <= n <= 128; 2^128 counts as infinity. */
SIMD float32x4_t vec_times_power(float32x4_t x, float32x4_t n)
{
    int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    return vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
}

SIMD vec vec_ldexp(vec x, vec n)
{
    return VEC_EACH(vec_times_power, x, n);
}

/* VW values of 16 bits at p. */
SIMD vec vec_from_bf16(const uint16_t *p)
{
    uint16x8_t bits = vld1q_u16(p);
    return (vec){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)),
                 vreinterpretq_f32_u32(vshll_high_n_u16(bits, 16))};
}

SIMD vec vec_from_f16(const uint16_t *p)
{
    float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(p));
    return (vec){vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
}

/* Half a vector's count of doubles. */
typedef struct vecd {
    float64x2_t a, b;
} vecd;
#define VDW 4

SIMD vecd vecd_load_n(const double *p, size_t n)
{
    double lanes[VDW] = {0};
    if (n < VDW) p = memcpy(lanes, p, n * sizeof *p);
    return (vecd){vld1q_f64(p), vld1q_f64(p + 2)};
}

SIMD void vecd_store_n(double *p, vecd x, size_t n)
{
    double lanes[VDW];
    vst1q_f64(lanes, x.a);
    vst1q_f64(lanes + 2, x.b);
    memcpy(p, lanes, (n < VDW ? n : VDW) * sizeof *p);
}

SIMD vecd vecd_add(vecd x, vecd y)
{
    return (vecd){vaddq_f64(x.a, y.a), vaddq_f64(x.b, y.b)};
}

/* n floats as doubles. */
SIMD vecd vecd_from_floats_n(const float *p, size_t n)
{
    float lanes[VDW] = {0};
    if (n < VDW) p = memcpy(lanes, p, n * sizeof *p);
    float32x4_t x = vld1q_f32(p);
    return (vecd){vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)};
}

/* ------------------------------------------------------------------ bytes and whole numbers */

typedef int32x4_t ints;
#define INTS_BYTES 16
#define INTS_LANES 1 /* of 16 bytes: what shuffles, packs and unpacks work in */

SIMD ints ints_zero(void)
{
    return vdupq_n_s32(0);
}

SIMD ints ints_all(int32_t x)
{
    return vdupq_n_s32(x);
}

SIMD ints ints_load(const void *p)
{
    return vreinterpretq_s32_u8(vld1q_u8(p));
}

SIMD void ints_store(void *p, ints x)
{
    vst1q_u8(p, vreinterpretq_u8_s32(x));
}

/* 16 bytes at p; there is one lane. */
SIMD ints ints_load_lanes(const uint8_t *p, size_t stride)
{
    (void)stride;
    return ints_load(p);
}

/* Byte indices[i] of x, or 0 where that is negative. */
SIMD ints ints_shuffle(ints x, const int8_t *indices)
{
    uint8x16_t at = vreinterpretq_u8_s8(vld1q_s8(indices));
    return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(x), at));
}

SIMD ints ints_add(ints x, ints y)
{
    return vaddq_s32(x, y);
}

/* Sums of products of neighbouring int16. */
SIMD ints ints_madd(ints x, ints y)
{
    int16x8_t a = vreinterpretq_s16_s32(x), b = vreinterpretq_s16_s32(y);
    return vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
}

SIMD ints ints_shift_right(ints x, int bits)
{
    return vshlq_s32(x, vdupq_n_s32(-bits));
}

SIMD ints ints_low_bytes(ints x, ints y)
{
    return vreinterpretq_s32_u8(vzip1q_u8(vreinterpretq_u8_s32(x), vreinterpretq_u8_s32(y)));
}

SIMD ints ints_high_bytes(ints x, ints y)
{
    return vreinterpretq_s32_u8(vzip2q_u8(vreinterpretq_u8_s32(x), vreinterpretq_u8_s32(y)));
}

/* Four vectors of int32 to bytes, saturated. */
SIMD ints ints_pack(ints x, ints y, ints z, ints w)
{
    int16x8_t low = vcombine_s16(vqmovn_s32(x), vqmovn_s32(y)), high = vcombine_s16(vqmovn_s32(z), vqmovn_s32(w));
    return vreinterpretq_s32_u8(vcombine_u8(vqmovun_s16(low), vqmovun_s16(high)));
}

#endif
