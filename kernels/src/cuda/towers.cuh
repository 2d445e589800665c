/* What the towers' kernels share. */
#ifndef LONGREEL_CUDA_TOWERS_CUH
#define LONGREEL_CUDA_TOWERS_CUH

#include "rows.cuh"
#include "towers.h"

static __device__ __forceinline__ float load1(const lr_cu_rows &x, uint64_t i)
{
    return x.bf16 ? __uint_as_float((uint32_t)global<const uint16_t>(x.at)[i] << 16) : global<const float>(x.at)[i];
}

static __device__ __forceinline__ void store1(const lr_cu_rows &y, uint64_t i, float value)
{
    if (y.bf16) global<__nv_bfloat16>(y.at)[i] = __float2bfloat16_rn(value);
    else global<float>(y.at)[i] = value;
}

#endif
