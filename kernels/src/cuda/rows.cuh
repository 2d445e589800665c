/* Rows of f32 or bf16 values, eight at a time. Which lane takes which values is the same whether a row can
 * be read 16 bytes at a time or not, so that a sum never depends on alignment. */
#ifndef LONGREEL_CUDA_ROWS_CUH
#define LONGREEL_CUDA_ROWS_CUH

#include <cuda_bf16.h>

#include "params.h"

#define LANES 32
#define EIGHT 8

/* Addresses of the host are numbers: these are in global memory. */
template <typename T> static __device__ __forceinline__ T *global(uint64_t at)
{
    return (T *)__cvta_global_to_generic(at);
}

/* Values [i, i + 8) of a row, those from `dim` on zero. */
static __device__ __forceinline__ void load8(float v[EIGHT], const lr_cu_rows &x, uint64_t row, uint32_t i,
                                             uint32_t dim)
{
    uint64_t at = x.at + (row + i) * (x.bf16 ? 2 : 4);
    if (x.wide && i + EIGHT <= dim) {
        uint4 a = *global<const uint4>(at);
        if (x.bf16) {
            const uint32_t pair[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
            for (int k = 0; k < 4; k++) {
                v[2 * k] = __uint_as_float(pair[k] << 16);
                v[2 * k + 1] = __uint_as_float(pair[k] & 0xffff0000u);
            }
        } else {
            uint4 b = *global<const uint4>(at + 16);
            v[0] = __uint_as_float(a.x), v[1] = __uint_as_float(a.y);
            v[2] = __uint_as_float(a.z), v[3] = __uint_as_float(a.w);
            v[4] = __uint_as_float(b.x), v[5] = __uint_as_float(b.y);
            v[6] = __uint_as_float(b.z), v[7] = __uint_as_float(b.w);
        }
        return;
    }
#pragma unroll
    for (uint32_t k = 0; k < EIGHT; k++) {
        v[k] = 0;
        if (i + k < dim)
            v[k] = x.bf16 ? __uint_as_float((uint32_t)global<const uint16_t>(at)[k] << 16)
                          : global<const float>(at)[k];
    }
}

static __device__ __forceinline__ uint32_t bf16_pair(float low, float high)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&pair;
}

static __device__ __forceinline__ void store8(const lr_cu_rows &y, uint64_t row, uint32_t i, uint32_t dim,
                                              const float v[EIGHT])
{
    uint64_t at = y.at + (row + i) * (y.bf16 ? 2 : 4);
    if (y.wide && i + EIGHT <= dim) {
        if (y.bf16) {
            *global<uint4>(at) = make_uint4(bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]),
                                      bf16_pair(v[6], v[7]));
        } else {
            *global<float4>(at) = make_float4(v[0], v[1], v[2], v[3]);
            *global<float4>(at + 16) = make_float4(v[4], v[5], v[6], v[7]);
        }
        return;
    }
#pragma unroll
    for (uint32_t k = 0; k < EIGHT; k++) {
        if (i + k >= dim) continue;
        if (y.bf16)
            global<__nv_bfloat16>(at)[k] = __float2bfloat16_rn(v[k]);
        else
            global<float>(at)[k] = v[k];
    }
}

/* The sum over a warp, the same bits in every lane: addition commutes, so each pair of lanes agrees. */
static __device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int other = LANES / 2; other > 0; other /= 2) v += __shfl_xor_sync(0xffffffffu, v, other);
    return v;
}

#endif
