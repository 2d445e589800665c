/* Sums over tokens, for means: each value in fp64, in ascending order of rows. A thread takes a column. */
#include "rows.cuh"

extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_sum_rows(const lr_cu_sum p)
{
    uint32_t i = blockIdx.x * LR_CU_THREADS + threadIdx.x, piece = blockIdx.y;
    if (i >= p.dim) return;
    const uint64_t *bounds = global<const uint64_t>(p.bounds) + piece;
    double sum = 0;
    for (uint64_t row = bounds[0]; row < bounds[1]; row++) {
        uint64_t at = row * p.x.ld + i;
        sum += p.x.bf16 ? (double)__uint_as_float((uint32_t)global<const uint16_t>(p.x.at)[at] << 16)
                        : (double)global<const float>(p.x.at)[at];
    }
    global<double>(p.sum)[(uint64_t)piece * p.dim + i] = sum;
}
