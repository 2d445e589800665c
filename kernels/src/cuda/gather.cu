/* Rows by number: out of a table, or to their places. A thread takes eight values of a row. */
#include "rows.cuh"

extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_gather(const lr_cu_gather p)
{
    uint32_t eights = (p.dim + EIGHT - 1) / EIGHT;
    uint64_t index = (uint64_t)blockIdx.x * LR_CU_THREADS + threadIdx.x, row = index / eights;
    if (row >= p.rows) return;
    uint32_t i = (uint32_t)(index % eights) * EIGHT;
    int64_t id = global<const int32_t>(p.ids)[row];
    if (id < 0 || (uint64_t)id >= p.n) return;
    uint64_t from = p.scatter ? row : (uint64_t)id, to = p.scatter ? (uint64_t)id : row;
    float v[EIGHT];
    load8(v, p.x, from * p.x.ld, i, p.dim);
#pragma unroll
    for (int k = 0; k < EIGHT; k++) v[k] *= p.scale;
    store8(p.y, to * p.y.ld, i, p.dim, v);
}
