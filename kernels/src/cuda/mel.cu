/* Log mel spectrograms (longreel/device.h) in double: the sum and its logarithm then differ from the CPU's in the last
 * bit of fp32 at most. A warp has a frame: 512 real values are 256 complex ones, transformed in place in four steps of
 * radix 4 (decimation in frequency), which leave them in the order of reversed digits. */
#include "towers.cuh"

#define POINTS (LR_CU_FFT / 2)
#define BINS (LR_CU_FFT / 2 + 1)

typedef double2 complex;

static __device__ __forceinline__ complex times(complex a, complex b)
{
    return make_double2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/* e^(-2 pi i j / LR_CU_FFT) */
static __device__ __forceinline__ complex turn(const lr_cu_mel &p, uint32_t j)
{
    const double *at = global<const double>(p.turns) + 2 * j;
    return make_double2(at[0], -at[1]);
}

/* Where value k of the transform lies: its four digits of two bits the other way round. */
static __device__ __forceinline__ uint32_t reversed(uint32_t k)
{
    return k >> 6 | (k >> 2 & 0x0c) | (k << 2 & 0x30) | (k << 6 & 0xc0);
}

static __device__ __forceinline__ void load_frame(const lr_cu_mel &p, uint64_t i, uint32_t lane, complex *z)
{
    const float *samples = global<const float>(p.samples) + i * p.hop;
    const double *window = global<const double>(p.window);
    for (uint32_t n = lane; n < POINTS; n += LANES) {
        z[n].x = 2 * n < p.frame ? window[2 * n] * (double)samples[2 * n] : 0;
        z[n].y = 2 * n + 1 < p.frame ? window[2 * n + 1] * (double)samples[2 * n + 1] : 0;
    }
    __syncwarp();
}

static __device__ __forceinline__ void transform(const lr_cu_mel &p, uint32_t lane, complex *z)
{
#pragma unroll 1
    for (uint32_t quarter = POINTS / 4; quarter > 0; quarter /= 4) {
        uint32_t step = LR_CU_FFT / (4 * quarter);
#pragma unroll 1
        for (uint32_t b = lane; b < POINTS / 4; b += LANES) {
            uint32_t j = b % quarter;
            complex *at = z + (b / quarter * 4) * quarter + j;
            complex a0 = at[0], a1 = at[quarter], a2 = at[2 * quarter], a3 = at[3 * quarter];
            complex s = make_double2(a0.x + a2.x, a0.y + a2.y), d = make_double2(a0.x - a2.x, a0.y - a2.y);
            complex u = make_double2(a1.x + a3.x, a1.y + a3.y), v = make_double2(a1.x - a3.x, a1.y - a3.y);
            at[0] = make_double2(s.x + u.x, s.y + u.y);
            at[quarter] = times(make_double2(d.x + v.y, d.y - v.x), turn(p, j * step));
            at[2 * quarter] = times(make_double2(s.x - u.x, s.y - u.y), turn(p, 2 * j * step));
            at[3 * quarter] = times(make_double2(d.x - v.y, d.y + v.x), turn(p, 3 * j * step));
        }
        __syncwarp();
    }
}

/* Of the real values' transform: half of Z[k] + Z*[256 - k], plus the turn times half of -i (Z[k] - Z*[256 - k]). */
static __device__ __forceinline__ double magnitude(const lr_cu_mel &p, const complex *z, uint32_t k)
{
    complex a = z[reversed(k % POINTS)], b = z[reversed((POINTS - k) % POINTS)];
    complex even = make_double2((a.x + b.x) / 2, (a.y - b.y) / 2);
    complex odd = times(make_double2((a.y + b.y) / 2, (b.x - a.x) / 2), turn(p, k));
    double re = even.x + odd.x, im = even.y + odd.y;
    return sqrt(re * re + im * im);
}

extern "C" __global__ void __launch_bounds__(LANES *LR_CU_MEL_WARPS) lr_mel(const lr_cu_mel p)
{
    __shared__ complex points[LR_CU_MEL_WARPS][POINTS];
    __shared__ double magnitudes[LR_CU_MEL_WARPS][BINS];
    uint32_t warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    uint64_t i = (uint64_t)blockIdx.x * LR_CU_MEL_WARPS + warp;
    if (i >= p.frames) return;
    if (i < p.begin || i >= p.end) {
        for (uint32_t b = lane; b < p.bands; b += LANES) store1(p.y, i * p.y.ld + b, 0);
        return;
    }
    load_frame(p, i, lane, points[warp]);
    transform(p, lane, points[warp]);
    for (uint32_t k = lane; k < BINS; k += LANES) magnitudes[warp][k] = magnitude(p, points[warp], k);
    __syncwarp();
    for (uint32_t b = lane; b < p.bands; b += LANES) {
        lr_cu_band band = global<const lr_cu_band>(p.filters)[b];
        const double *weights = global<const double>(p.weights) + band.at;
        double sum = 0;
        for (uint32_t n = 0; n < band.count; n++) sum += weights[n] * magnitudes[warp][band.first + n];
        store1(p.y, i * p.y.ld + b, (float)log(sum + p.floor));
    }
}
