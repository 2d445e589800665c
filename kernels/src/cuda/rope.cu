/* Rotary positions: angles, and turning heads by them. */
#include "rows.cuh"

/* cos and sin of first + row positions, in double with no fp32 between, rounded at the end. Whole turns are
 * taken off before the sine: at position 10^6 the turns are good to 10^-10. */
extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_rope_angles(const lr_cu_angles p)
{
    uint64_t index = (uint64_t)blockIdx.x * LR_CU_THREADS + threadIdx.x, row = index / p.n;
    if (row >= p.rows) return;
    double turns = (double)(p.first + row) * global<const double>(p.turns)[index % p.n], s, c;
    sincospi(2 * (turns - rint(turns)), &s, &c);
    global<float>(p.cos)[index] = (float)c;
    global<float>(p.sin)[index] = (float)s;
}

/* A thread turns eight pairs (j, j + dim / 2), or eight values of neighbouring pairs, of a head. */
extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_rope(const lr_cu_rope p)
{
    uint32_t n = p.neighbours ? p.dim : p.dim / 2, eights = (n + EIGHT - 1) / EIGHT;
    uint64_t index = (uint64_t)blockIdx.x * LR_CU_THREADS + threadIdx.x, row = index / eights / p.heads;
    if (row >= p.rows) return;
    uint32_t i = (uint32_t)(index % eights) * EIGHT, head = (uint32_t)(index / eights % p.heads);
    uint64_t at = row * p.x.ld + head * p.x.head;
    lr_cu_rows cosines = {p.cos, 0, 0, 0, p.cos % 16 == 0 && n % EIGHT == 0}, sines = cosines;
    sines.at = p.sin;
    sines.wide = p.sin % 16 == 0 && n % EIGHT == 0;
    float c[EIGHT], s[EIGHT], u[EIGHT], v[EIGHT], out[EIGHT];
    load8(c, cosines, row * n, i, n);
    load8(s, sines, row * n, i, n);
    if (p.neighbours) {
        load8(u, p.x, at, i, n);
#pragma unroll
        for (int k = 0; k < EIGHT; k++) out[k] = u[k] * c[k] + u[k ^ 1] * s[k];
        store8(p.x, at, i, n, out);
        return;
    }
    lr_cu_rows x = p.x;
    x.wide = x.wide && n % EIGHT == 0;
    load8(u, x, at, i, n);
    load8(v, x, at + n, i, n);
#pragma unroll
    for (int k = 0; k < EIGHT; k++) out[k] = u[k] * c[k] - v[k] * s[k];
    store8(x, at, i, n, out);
#pragma unroll
    for (int k = 0; k < EIGHT; k++) out[k] = v[k] * c[k] + u[k] * s[k];
    store8(x, at + n, i, n, out);
}
