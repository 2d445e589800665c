/* Vectors of 8 floats, two registers each, for the kernels that are written once for several instruction
 * sets (linear_tile.h, attention_tile.h). AArch64. */
#ifndef LONGREEL_KERNELS_NEON_SIMD_H
#define LONGREEL_KERNELS_NEON_SIMD_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VW 8         /* floats of a vector */
#define TILE_ROWS 6  /* rows of the micro-kernels, two vectors wide: 24 of 32 registers hold sums */
#define TILE_STEP 2  /* fewer rows are rounded up to this */

typedef struct vec {
    float32x4_t a, b; /* lanes 0 .. 3, 4 .. 7 */
} vec;

#define SIMD static inline __attribute__((always_inline))

/* f(x.a, y.a) and f(x.b, y.b) */
#define VEC_EACH(f, x, y) ((vec){f((x).a, (y).a), f((x).b, (y).b)})

SIMD vec vec_all(float x)
{
    return (vec){vdupq_n_f32(x), vdupq_n_f32(x)};
}

SIMD vec vec_zero(void)
{
    return vec_all(0);
}

SIMD vec vec_load(const float *p)
{
    return (vec){vld1q_f32(p), vld1q_f32(p + 4)};
}

SIMD void vec_store(float *p, vec x)
{
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
}

/* n lanes, all from VW on; the others are 0 and not read. */
SIMD vec vec_load_n(const float *p, size_t n)
{
    float lanes[VW] = {0};
    if (n >= VW) return vec_load(p);
    memcpy(lanes, p, n * sizeof *p);
    return vec_load(lanes);
}

SIMD void vec_store_n(float *p, vec x, size_t n)
{
    float lanes[VW];
    vec_store(lanes, x);
    memcpy(p, lanes, (n < VW ? n : VW) * sizeof *p);
}

SIMD vec vec_add(vec x, vec y)
{
    return VEC_EACH(vaddq_f32, x, y);
}

SIMD vec vec_sub(vec x, vec y)
{
    return VEC_EACH(vsubq_f32, x, y);
}

SIMD vec vec_mul(vec x, vec y)
{
    return VEC_EACH(vmulq_f32, x, y);
}

/* y where one of them is a NaN, or both are zeros. */
SIMD float32x4_t vec_larger(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}

SIMD vec vec_max(vec x, vec y)
{
    return VEC_EACH(vec_larger, x, y);
}

/* x * y + z, rounded once. */
SIMD vec vec_fma(vec x, vec y, vec z)
{
    return (vec){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b)};
}

/* One row of a micro-kernel: sum0 += *x * a, sum1 += *x * b, each rounded once. */
SIMD void vec_row_step(vec *sum0, vec *sum1, const float *x, vec a, vec b)
{
    vec factor = vec_all(*x);
    *sum0 = vec_fma(factor, a, *sum0);
    *sum1 = vec_fma(factor, b, *sum1);
}

/* Lanes lo <= i < hi of x, the others `other`. */
SIMD vec vec_between(vec x, size_t lo, size_t hi, float other)
{
    static const uint32_t lanes[VW] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32x4_t from = vdupq_n_u32((uint32_t)(lo < VW ? lo : VW)), to = vdupq_n_u32((uint32_t)(hi < VW ? hi : VW));
    uint32x4_t i = vld1q_u32(lanes), j = vld1q_u32(lanes + 4);
    float32x4_t rest = vdupq_n_f32(other);
    return (vec){vbslq_f32(vandq_u32(vcgeq_u32(i, from), vcltq_u32(i, to)), x.a, rest),
                 vbslq_f32(vandq_u32(vcgeq_u32(j, from), vcltq_u32(j, to)), x.b, rest)};
}

SIMD float vec_reduce_max(vec x)
{
    return vmaxvq_f32(vmaxq_f32(x.a, x.b));
}

/* ((i, i+4), then i+2, i+1): a fixed tree. */
SIMD float vec_reduce_add(vec x)
{
    float32x4_t half = vaddq_f32(x.a, x.b);
    float32x2_t quarter = vadd_f32(vget_low_f32(half), vget_high_f32(half));
    return vget_lane_f32(vpadd_f32(quarter, quarter), 0);
}

/* x where y >= least, else 0. */
SIMD float32x4_t vec_keep(float32x4_t x, uint32x4_t mask)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), mask));
}

SIMD vec vec_zero_below(vec x, vec y, vec least)
{
    return (vec){vec_keep(x.a, vcgeq_f32(y.a, least.a)), vec_keep(x.b, vcgeq_f32(y.b, least.b))};
}

/* Pairs of BF16 at p (VW floats' worth): the first of each pair, the second. */
SIMD vec vec_low_bf16(const void *p)
{
    const uint32_t *bits = p;
    return (vec){vreinterpretq_f32_u32(vshlq_n_u32(vld1q_u32(bits), 16)),
                 vreinterpretq_f32_u32(vshlq_n_u32(vld1q_u32(bits + 4), 16))};
}

SIMD vec vec_high_bf16(const void *p)
{
    const float *bits = p;
    const uint32x4_t high = vdupq_n_u32(0xffff0000u);
    return (vec){vec_keep(vld1q_f32(bits), high), vec_keep(vld1q_f32(bits + 4), high)};
}

/* Has the cache line of p brought to L1, or to L2; p may be any address. */
SIMD void vec_prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}

SIMD void vec_prefetch_l2(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

#endif
