/* From a decoded surface to patches, and what the vision tower has of its own (longreel/device.h). */
#include "towers.cuh"

static __device__ __forceinline__ uint64_t thread_index()
{
    return (uint64_t)blockIdx.x * LR_CU_THREADS + threadIdx.x;
}

static __device__ __forceinline__ uint8_t clamped(int32_t value)
{
    return (uint8_t)min(max(value, 0), 255);
}

/* ------------------------------------------------------------------ colours: two pixels a thread */

/* Eight times a value of 8 bits; of 10 in the upper part of 16, twice. */
static __device__ __forceinline__ int32_t eightfold(const lr_cu_rgb &p, uint64_t row, uint32_t i)
{
    return p.ten_bits ? global<const uint16_t>(row)[i] >> 6 << 1 : global<const uint8_t>(row)[i] << 3;
}

extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_rgb(const lr_cu_rgb p)
{
    uint32_t pairs = (p.width + 1) / 2, pair = (uint32_t)(thread_index() % pairs);
    uint64_t row = thread_index() / pairs;
    if (row >= p.height) return;
    uint64_t luma = p.luma + row * p.luma_stride, chroma = p.chroma + row / 2 * p.chroma_stride;
    int32_t u = eightfold(p, chroma, 2 * pair) - 1024, v = eightfold(p, chroma, 2 * pair + 1) - 1024;
    int32_t red = v * p.red_v >> 16, green = (u * p.green_u >> 16) + (v * p.green_v >> 16), blue = u * p.blue_u >> 16;
    for (uint32_t x = 2 * pair; x < 2 * pair + 2 && x < p.width; x++) {
        int32_t y = (eightfold(p, luma, x) - p.offset) * p.y >> 16;
        uint8_t *to = global<uint8_t>(p.rgb) + row * p.stride + 3 * (uint64_t)x;
        to[0] = clamped(y + red);
        to[1] = clamped(y + green);
        to[2] = clamped(y + blue);
    }
}

/* ------------------------------------------------------------------ resize (scalar/resize.c) */

static __device__ __forceinline__ int32_t half_of(const lr_cu_resize &p)
{
    return p.precision > 0 ? 1 << (p.precision - 1) : 0;
}

/* A pixel a thread. */
extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_resize_rows(const lr_cu_resize p)
{
    uint64_t row = thread_index() / p.width;
    uint32_t x = (uint32_t)(thread_index() % p.width);
    if (row >= p.height) return;
    const int16_t *w = global<const int16_t>(p.weights) + (uint64_t)x * p.max_taps;
    int32_t n = global<const int32_t>(p.n_taps)[x], red = half_of(p), green = red, blue = red;
    const uint8_t *tap = global<const uint8_t>(p.from) + row * p.from_stride + 3 * (int64_t)global<const int32_t>(p.lo)[x];
    for (int32_t j = 0; j < n; j++, tap += 3) {
        red += w[j] * tap[0];
        green += w[j] * tap[1];
        blue += w[j] * tap[2];
    }
    uint8_t *to = global<uint8_t>(p.to) + row * p.to_stride + 3 * (uint64_t)x;
    to[0] = clamped(red >> p.precision);
    to[1] = clamped(green >> p.precision);
    to[2] = clamped(blue >> p.precision);
}

/* A byte a thread. */
extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_resize_cols(const lr_cu_resize p)
{
    uint64_t row = thread_index() / p.width, i = thread_index() % p.width;
    if (row >= p.height) return;
    const int16_t *w = global<const int16_t>(p.weights) + row * p.max_taps;
    int32_t n = global<const int32_t>(p.n_taps)[row], sum = half_of(p);
    const uint8_t *tap = global<const uint8_t>(p.from) + global<const int32_t>(p.lo)[row] * p.from_stride + i;
    for (int32_t j = 0; j < n; j++, tap += p.from_stride) sum += w[j] * *tap;
    global<uint8_t>(p.to)[row * p.to_stride + i] = clamped(sum >> p.precision);
}

/* ------------------------------------------------------------------ patches, positions: eight values a thread */

/* Where value e of a patch is: picture, row, column, channel. */
static __device__ __forceinline__ float patch_value(const lr_cu_patches &p, uint64_t corner, uint32_t e)
{
    uint32_t side = p.patch, channel = p.planar ? e / (p.parts * side * side) : e % 3;
    uint32_t pixel = p.planar ? e % (p.parts * side * side) : e / 3;
    uint64_t at = corner + pixel / (side * side) * p.part_bytes + pixel / side % side * p.stride +
                  pixel % side * 3 + channel;
    return global<const float>(p.value)[256 * channel + *global<const uint8_t>(at)];
}

extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_patches(const lr_cu_patches p)
{
    uint32_t dim = p.parts * p.patch * p.patch * 3, eights = (dim + EIGHT - 1) / EIGHT;
    uint64_t row = thread_index() / eights;
    if (row >= p.rows) return;
    uint32_t i = (uint32_t)(thread_index() % eights) * EIGHT;
    uint64_t corner = p.rgb + row / p.columns * p.patch * p.stride + row % p.columns * p.patch * 3;
    float v[EIGHT];
#pragma unroll
    for (uint32_t k = 0; k < EIGHT; k++) v[k] = i + k < dim ? patch_value(p, corner, i + k) : 0;
    store8(p.y, row * p.y.ld, i, dim, v);
}

extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_positions(const lr_cu_positions p)
{
    uint32_t eights = (p.dim + EIGHT - 1) / EIGHT, i = (uint32_t)(thread_index() % eights) * EIGHT;
    uint64_t row = thread_index() / eights;
    if (row >= p.n) return;
    float h[EIGHT], across[EIGHT], down[EIGHT];
    load8(across, p.across, row % p.columns * p.across.ld, i, p.dim);
    load8(down, p.down, row / p.columns % p.rows * p.down.ld, i, p.dim);
    load8(h, p.h, row * p.h.ld, i, p.dim);
#pragma unroll
    for (int k = 0; k < EIGHT; k++) h[k] += across[k] + down[k];
    store8(p.h, row * p.h.ld, i, p.dim, h);
}

/* ------------------------------------------------------------------ cells: a value a thread */

extern "C" __global__ void __launch_bounds__(LR_CU_THREADS) lr_cells(const lr_cu_cells p)
{
    uint64_t cell = thread_index() / p.dim;
    uint32_t i = (uint32_t)(thread_index() % p.dim), columns = p.columns / p.side, rows = p.rows / p.side;
    if (cell >= p.n) return;
    uint64_t picture = cell / ((uint64_t)columns * rows) * p.columns * p.rows;
    uint32_t x = (uint32_t)(cell % columns) * p.side, y = (uint32_t)(cell / columns % rows) * p.side;
    double sum = 0;
    for (uint32_t r = y; r < y + p.side; r++)
        for (uint32_t c = x; c < x + p.side; c++)
            sum += (double)load1(p.x, (picture + (uint64_t)r * p.columns + c) * p.x.ld + i);
    float value = (float)(sum * p.scale);
    if (p.bias) value = value - global<const float>(p.bias)[i];
    if (p.gain) value = value * global<const float>(p.gain)[i];
    store1(p.y, cell * p.y.ld + i, value);
}
