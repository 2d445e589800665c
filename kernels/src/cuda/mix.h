/* The mixing of words for the checksum of longreel/device.h, the same on both sides. */
#ifndef LONGREEL_CUDA_MIX_H
#define LONGREEL_CUDA_MIX_H

#include <stdint.h>

#ifdef __CUDACC__
#define LR_BOTH_SIDES __device__ __forceinline__
#else
#define LR_BOTH_SIDES inline
#endif

#define LR_CHECK_STEP UINT64_C(0x9e3779b97f4a7c15) /* from word to word */

/* SplitMix64's finalizer (Steele, Lea, Flood 2014; the constants are Stafford's thirteenth). */
static LR_BOTH_SIDES uint64_t lr_check_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#endif
