/* What the host hands to the towers' kernels (as params.h). */
#ifndef LONGREEL_CUDA_TOWERS_H
#define LONGREEL_CUDA_TOWERS_H

#include "params.h"

/* ------------------------------------------------------------------ sound */

typedef struct lr_cu_taps {
    lr_cu_rows y, x;
    int64_t x_first, y_first, begin, end; /* frames */
    uint64_t rows;                        /* of y */
    uint32_t bands, channels, dim;
} lr_cu_taps;

typedef struct lr_cu_depthwise {
    lr_cu_rows y, x;
    uint64_t w; /* f32 [kernel, dim] */
    uint64_t rows;
    uint32_t dim, kernel;
} lr_cu_depthwise;

#define LR_CU_NEAR_DIM 256 /* of a head at most: eight values a lane */
typedef struct lr_cu_near {
    lr_cu_rows q, k, v, out;
    uint64_t q_scale, relative; /* f32 [dim], [window, heads, dim] */
    uint64_t tokens, before;
    float k_scale, cap;
    uint32_t heads, dim, window;
} lr_cu_near;

#define LR_CU_FFT 512
#define LR_CU_MEL_WARPS 4 /* of a block; each has a frame */
typedef struct lr_cu_band {
    uint32_t first, count, at, unused;
} lr_cu_band;
typedef struct lr_cu_mel {
    lr_cu_rows y;
    uint64_t samples, window, turns, filters, weights;
    double floor;
    uint64_t frames, begin, end;
    uint32_t frame, hop, bands;
} lr_cu_mel;

/* ------------------------------------------------------------------ pictures */

typedef struct lr_cu_rgb {
    uint64_t rgb, stride, luma, luma_stride, chroma, chroma_stride;
    uint32_t width, height, ten_bits;
    int32_t y, offset, red_v, green_u, green_v, blue_u;
} lr_cu_rgb;

typedef struct lr_cu_resize {
    uint64_t to, to_stride, from, from_stride;
    uint64_t lo, n_taps, weights;
    uint32_t width, height; /* of what is made: values (bytes, or pixels of three along rows) and rows */
    uint32_t max_taps, precision;
} lr_cu_resize;

typedef struct lr_cu_patches {
    lr_cu_rows y;
    uint64_t rgb, stride, part_bytes, value;
    uint64_t rows; /* of y */
    uint32_t patch, columns, parts, planar;
} lr_cu_patches;

typedef struct lr_cu_positions {
    lr_cu_rows h, across, down;
    uint64_t n; /* rows of h */
    uint32_t columns, rows, dim;
} lr_cu_positions;

typedef struct lr_cu_cells {
    lr_cu_rows y, x;
    uint64_t bias, gain; /* f32 [dim]; 0: none */
    uint64_t n;          /* rows of y */
    double scale;
    uint32_t columns, rows, side, dim;
} lr_cu_cells;

#endif
