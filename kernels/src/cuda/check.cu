/* The checksum of longreel/device.h. A block takes LR_CU_CHECK_WORDS words, each of its warps adds one sum of its own
 * to the total: additions modulo 2^64 have no order. */
#include "mix.h"
#include "rows.cuh"

/* The word at byte `at` of `bytes`, zeros behind their end. */
static __device__ __forceinline__ uint64_t word_at(uint64_t from, uint64_t at, uint64_t bytes)
{
    if (at + 8 <= bytes) return *global<const uint64_t>(from + at);
    uint64_t word = 0;
    for (uint32_t i = 0; at + i < bytes; i++) word |= (uint64_t)*global<const uint8_t>(from + at + i) << 8 * i;
    return word;
}

extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_checksum(const lr_cu_checksum p)
{
    uint64_t first = (uint64_t)blockIdx.x * LR_CU_CHECK_WORDS + threadIdx.x, words = (p.bytes + 7) / 8, sum = 0;
#pragma unroll 4
    for (uint32_t n = 0; n < LR_CU_CHECK_WORDS; n += LR_CU_THREADS) {
        uint64_t i = first + n;
        if (i < words) sum += lr_check_mix(word_at(p.from, 8 * i, p.bytes) + p.seed + i * LR_CHECK_STEP);
    }
#pragma unroll
    for (int other = LANES / 2; other > 0; other /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (threadIdx.x % LANES == 0) atomicAdd(global<unsigned long long>(p.sum), (unsigned long long)sum);
}
