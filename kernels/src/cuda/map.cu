/* Slots that work element by element (longreel/device.h). A thread takes eight values of a row. */
#include <cuda_fp16.h>

#include "rows.cuh"

/* The forms that keep their relative accuracy where 1 + tanh or 1 + erf would cancel (scalar/activation.c). */
static __device__ __forceinline__ float gelu_tanh(float x)
{
    const float a = 1.5957691216f, b = 0.0713548163f; /* 2 sqrt(2/pi), that times 0.044715 */
    return x / (1 + expf(-x * (a + b * (x * x))));
}

static __device__ __forceinline__ float apply(const lr_cu_map &p, float a, float b, float y)
{
    switch (p.kind) {
    case LR_CU_GELU_TANH_MUL: return gelu_tanh(a) * b;
    case LR_CU_GELU_ERF: return 0.5f * a * erfcf(-0.70710678119f * a);
    case LR_CU_SILU: return a / (1 + expf(-a));
    case LR_CU_GLU: return a / (1 + expf(-b));
    case LR_CU_CLAMP: return a < p.alpha ? p.alpha : a > p.beta ? p.beta : a; /* a NaN stays one */
    case LR_CU_RELU: return a < 0 ? 0 : a;
    case LR_CU_ADD: return a + b;
    case LR_CU_AXPY: return __fadd_rn(y, __fmul_rn(p.alpha, a));
    case LR_CU_SCALE: return p.alpha * a;
    default: return a;
    }
}

extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_map(const lr_cu_map p)
{
    uint32_t eights = (p.dim + EIGHT - 1) / EIGHT;
    uint64_t index = (uint64_t)blockIdx.x * LR_CU_THREADS + threadIdx.x, row = index / eights;
    if (row >= p.rows) return;
    uint32_t i = (uint32_t)(index % eights) * EIGHT;
    float a[EIGHT], b[EIGHT] = {0}, y[EIGHT] = {0};
    load8(a, p.a, row * p.a.ld, i, p.dim);
    if (p.kind == LR_CU_GELU_TANH_MUL || p.kind == LR_CU_GLU || p.kind == LR_CU_ADD)
        load8(b, p.b, row * p.b.ld, i, p.dim);
    if (p.kind == LR_CU_AXPY) load8(y, p.y, row * p.y.ld, i, p.dim);
#pragma unroll
    for (int k = 0; k < EIGHT; k++) y[k] = apply(p, a[k], b[k], y[k]);
    store8(p.y, row * p.y.ld, i, p.dim, y);
}

/* y = a, of 16-bit floats. */
extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_halves(const lr_cu_map p)
{
    uint32_t eights = (p.dim + EIGHT - 1) / EIGHT;
    uint64_t index = (uint64_t)blockIdx.x * LR_CU_THREADS + threadIdx.x, row = index / eights;
    if (row >= p.rows) return;
    uint32_t i = (uint32_t)(index % eights) * EIGHT;
    const __half *a = global<const __half>(p.a.at) + row * p.a.ld + i;
    float y[EIGHT];
#pragma unroll
    for (uint32_t k = 0; k < EIGHT; k++) y[k] = i + k < p.dim ? __half2float(a[k]) : 0;
    store8(p.y, row * p.y.ld, i, p.dim, y);
}
