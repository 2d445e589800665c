/* Norms over the values of a row or head (longreel/device.h has the formulas). A warp takes a row: lane i
 * the values 256 j + 8 i .. + 7 for j = 0, 1, ..., summed in that order in fp32, then a tree over lanes. */
#include "rows.cuh"

static __device__ __forceinline__ float mean_of(const lr_cu_rows &x, uint64_t row, uint32_t dim, float shift,
                                                bool squares)
{
    float sum = 0, v[EIGHT];
    for (uint32_t i = threadIdx.x % LANES * EIGHT; i < dim; i += LANES * EIGHT) {
        load8(v, x, row, i, dim);
#pragma unroll
        for (uint32_t k = 0; k < EIGHT; k++) {
            float z = i + k < dim ? v[k] - shift : 0;
            sum += squares ? z * z : z;
        }
    }
    return warp_sum(sum) / (float)dim;
}

extern "C" __global__ void __launch_bounds__(LANES *LR_CU_WARPS) lr_norm(const lr_cu_norm p)
{
    uint64_t index = (uint64_t)blockIdx.x * LR_CU_WARPS + threadIdx.x / LANES;
    if (index >= p.rows) return;
    uint64_t token = index / p.heads, head = index % p.heads;
    uint64_t x_row = token * p.x.ld + head * p.x.head, y_row = token * p.y.ld + head * p.y.head;
    float mean = p.kind == LR_CU_LAYER_NORM ? mean_of(p.x, x_row, p.dim, 0, false) : 0;
    float s = 1 / sqrtf(mean_of(p.x, x_row, p.dim, mean, true) + p.eps);
    lr_cu_rows w = {p.w, 0, 0, 0, p.w % 16 == 0}, b = {p.b, 0, 0, 0, p.b % 16 == 0};
    for (uint32_t i = threadIdx.x % LANES * EIGHT; i < p.dim; i += LANES * EIGHT) {
        float v[EIGHT], gain[EIGHT], more[EIGHT];
        load8(v, p.x, x_row, i, p.dim);
        if (p.w) load8(gain, w, 0, i, p.dim);
        if (p.b) load8(more, b, 0, i, p.dim);
        if (p.kind == LR_CU_RMS_NORM_ADD) load8(more, p.y, y_row, i, p.dim);
#pragma unroll
        for (int k = 0; k < EIGHT; k++) {
            v[k] = (v[k] - mean) * s;
            if (p.w) v[k] *= gain[k];
            if (p.b || p.kind == LR_CU_RMS_NORM_ADD) v[k] += more[k];
        }
        store8(p.y, y_row, i, p.dim, v);
    }
}
