/* What the sound tower has of its own (longreel/device.h): convolutions, and attention to the tokens just before. */
#include "towers.cuh"

/* ------------------------------------------------------------------ convolutions: eight values a thread */

/* Where value e of a row of taps is in x; false: it is zero. */
static __device__ __forceinline__ bool place_of(const lr_cu_taps &p, int64_t frame, uint32_t column, uint32_t e,
                                                uint64_t *at)
{
    uint32_t tap = e / p.channels;
    int64_t from = frame + tap / 3;
    int32_t band = (int32_t)(2 * column + tap % 3) - 1;
    *at = (uint64_t)(from - p.x_first) * p.x.ld + (uint64_t)(uint32_t)band * p.x.head + e % p.channels;
    return tap < 9 && from >= p.begin && from < p.end && band >= 0 && band < (int32_t)p.bands;
}

extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_taps(const lr_cu_taps p)
{
    uint32_t eights = (p.dim + EIGHT - 1) / EIGHT, columns = (p.bands + 1) / 2;
    uint64_t index = (uint64_t)blockIdx.x * LR_CU_THREADS + threadIdx.x, row = index / eights, at;
    if (row >= p.rows) return;
    uint32_t i = (uint32_t)(index % eights) * EIGHT, column = (uint32_t)(row % columns);
    int64_t frame = 2 * (p.y_first + (int64_t)(row / columns)) - 1;
    float v[EIGHT] = {0};
    if (p.channels % EIGHT == 0) { /* all eight are of one tap */
        if (place_of(p, frame, column, i, &at)) load8(v, p.x, at, 0, EIGHT);
    } else {
#pragma unroll
        for (uint32_t k = 0; k < EIGHT; k++)
            if (place_of(p, frame, column, i + k, &at)) v[k] = load1(p.x, at);
    }
    store8(p.y, row * p.y.ld, i, p.dim, v);
}

extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_depthwise(const lr_cu_depthwise p)
{
    uint32_t eights = (p.dim + EIGHT - 1) / EIGHT;
    uint64_t index = (uint64_t)blockIdx.x * LR_CU_THREADS + threadIdx.x, row = index / eights;
    if (row >= p.rows) return;
    uint32_t i = (uint32_t)(index % eights) * EIGHT;
    lr_cu_rows weights = {p.w, p.dim, 0, 0, p.w % 16 == 0 && p.dim % EIGHT == 0};
    float sum[EIGHT] = {0}, w[EIGHT], x[EIGHT];
    for (uint32_t n = 0; n < p.kernel; n++) {
        load8(w, weights, (uint64_t)n * p.dim, i, p.dim);
        load8(x, p.x, (row + n) * p.x.ld, i, p.dim);
#pragma unroll
        for (int k = 0; k < EIGHT; k++) sum[k] += w[k] * x[k];
    }
    store8(p.y, row * p.y.ld, i, p.dim, sum);
}

/* ------------------------------------------------------------------ attention: a warp for each head of a token */

/* Lane l has values 8 l .. 8 l + 7 of the head. Keys come from the farthest to the nearest, with the online softmax
 * (attention.cu) over them. */
extern "C" __global__ void __launch_bounds__(LANES *LR_CU_WARPS) lr_near(const lr_cu_near p)
{
    uint64_t index = (uint64_t)blockIdx.x * LR_CU_WARPS + threadIdx.x / LANES, t = index / p.heads;
    if (t >= p.tokens) return;
    uint32_t head = (uint32_t)(index % p.heads), i = threadIdx.x % LANES * EIGHT;
    lr_cu_rows scales = {p.q_scale, 0, 0, 0, p.q_scale % 16 == 0};
    lr_cu_rows relative = {p.relative, 0, 0, 0, p.relative % 16 == 0 && p.dim % EIGHT == 0};
    uint64_t before = p.before + t;
    uint32_t seen = before < p.window ? (uint32_t)before + 1 : p.window;
    float q[EIGHT], o[EIGHT] = {0}, x[EIGHT], m = -INFINITY, l = 0;
    load8(q, p.q, t * p.q.ld + head * p.q.head, i, p.dim);
    load8(x, scales, 0, i, p.dim);
#pragma unroll
    for (int k = 0; k < EIGHT; k++) q[k] *= x[k];
    for (uint32_t d = seen; d-- > 0;) {
        uint64_t row = t - d; /* below 0 for rows before the first: addresses wrap as they do */
        float place[EIGHT], sum = 0;
        load8(x, p.k, row * p.k.ld + head * p.k.head, i, p.dim);
        load8(place, relative, ((uint64_t)d * p.heads + head) * p.dim, i, p.dim);
#pragma unroll
        for (int k = 0; k < EIGHT; k++) sum += q[k] * (p.k_scale * x[k] + place[k]);
        float s = p.cap * tanhf(warp_sum(sum) / p.cap), top = fmaxf(m, s);
        float weight = expf(s - top), correction = expf(m - top);
        l = l * correction + weight;
        m = top;
        load8(x, p.v, row * p.v.ld + head * p.v.head, i, p.dim);
#pragma unroll
        for (int k = 0; k < EIGHT; k++) o[k] = o[k] * correction + weight * x[k];
    }
#pragma unroll
    for (int k = 0; k < EIGHT; k++) o[k] /= l;
    if (i < p.dim) store8(p.out, t * p.out.ld + head * p.out.head, i, p.dim, o);
}
