/* The two passes of a resize on vectors; whole numbers, so every instruction set gives the same
 * bytes. Products are of a byte and an int16 weight, two taps at a time, summed in int32. */
#ifndef LONGREEL_KERNELS_VECTOR_RESIZE_H
#define LONGREEL_KERNELS_VECTOR_RESIZE_H

#include <string.h>

#include "scalar/scalar.h"

/* ------------------------------------------------------------------ along rows
 *
 * A vector holds one row of the picture in each lane of 16 bytes. Taps are taken in windows of four
 * pixels, the last 12 of 16 bytes loaded, so that no load ends past the last tap. */

/* Bytes 4 + 3t .. of a lane are tap t; out come pairs of int16, (tap 0, tap 1) of each colour. */
static const int8_t taps_0_1[16] = {4, -1, 7, -1, 5, -1, 8, -1, 6, -1, 9, -1, -1, -1, -1, -1};
static const int8_t taps_2_3[16] = {10, -1, 13, -1, 11, -1, 14, -1, 12, -1, 15, -1, -1, -1, -1, -1};
static const int8_t drop_fourth[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1};

/* Weights of the `left` < 4 last taps at `w`, in the upper places; the lower ones 0. */
SIMD uint64_t last_weights(const int16_t *w, size_t left)
{
    uint64_t four = 0;
    for (size_t t = 0; t < left; t++)
        four |= (uint64_t)(uint16_t)w[t] << (16 * (4 - left + t));
    return four;
}

/* The window of pixels [first, first + 4) where its 16 bytes would begin before the row; pixels
 * below 0 become 0. */
static ints window_at_start(const uint8_t *src, size_t stride, ptrdiff_t first)
{
    uint8_t lanes[INTS_LANES][16] = {{0}};
    ptrdiff_t from = first > 0 ? first : 0;
    for (size_t r = 0; r < INTS_LANES; r++)
        memcpy(lanes[r] + 4 + 3 * (from - first), src + r * stride + 3 * from,
               (size_t)(3 * (first + 4 - from)));
    return ints_load(lanes);
}

/* A window of four taps of one pixel: its pixels, and their weights in pairs. */
typedef struct tap_window {
    ptrdiff_t first;
    ints weights_0_1, weights_2_3;
} tap_window;

SIMD tap_window full_window(ptrdiff_t first, const int16_t *w)
{
    int32_t pair[2];
    memcpy(pair, w, sizeof(pair));
    return (tap_window){first, ints_all(pair[0]), ints_all(pair[1])};
}

/* The last `left` < 4 taps, as the end of a window that begins before them. */
SIMD tap_window last_window(ptrdiff_t first, const int16_t *w, size_t left)
{
    uint64_t four = last_weights(w, left);
    return (tap_window){first - (ptrdiff_t)(4 - left), ints_all((int32_t)four),
                        ints_all((int32_t)(four >> 32))};
}

SIMD ints add_window(ints sum, tap_window t, const uint8_t *src, size_t stride)
{
    ints pixels = t.first >= 2 ? ints_load_lanes(src + 3 * (t.first + 4) - 16, stride)
                               : window_at_start(src, stride, t.first);
    sum = ints_add(sum, ints_madd(ints_shuffle(pixels, taps_0_1), t.weights_0_1));
    return ints_add(sum, ints_madd(ints_shuffle(pixels, taps_2_3), t.weights_2_3));
}

typedef struct taps {
    ptrdiff_t lo;
    size_t n;
    const int16_t *weights;
} taps;

/* Sums of one pixel of the result in `groups` (1 or 2) times INTS_LANES rows, each [lane][red,
 * green, blue, 0], added to sum[0 .. groups). */
SIMD void row_pixel(ints *sum, const size_t groups, const uint8_t *src, size_t stride, taps t)
{
    const uint8_t *second = src + INTS_LANES * stride;
    ints sum0 = sum[0], sum1 = sum[groups - 1];
    size_t j = 0;
    for (; j + 4 <= t.n; j += 4) {
        tap_window window = full_window(t.lo + (ptrdiff_t)j, t.weights + j);
        sum0 = add_window(sum0, window, src, stride);
        if (groups > 1) sum1 = add_window(sum1, window, second, stride);
    }
    if (j < t.n) {
        tap_window window = last_window(t.lo + (ptrdiff_t)j, t.weights + j, t.n - j);
        sum0 = add_window(sum0, window, src, stride);
        if (groups > 1) sum1 = add_window(sum1, window, second, stride);
    }
    sum[0] = sum0;
    if (groups > 1) sum[1] = sum1;
}

/* What a pass along rows works with. */
typedef struct row_pass {
    size_t dst_stride, src_stride;
    size_t out_width;
    const int32_t *lo, *n_taps;
    const int16_t *weights;
    size_t max_taps;
    int precision;
} row_pass;

/* `count` (1 to 4) pixels of `used` rows from four vectors of sums. */
SIMD void store_pixels(uint8_t *dst, size_t dst_stride, size_t used, size_t count,
                       const ints sums[4][2], size_t group, int precision)
{
    ints shifted[4];
    uint8_t lanes[INTS_LANES][16];
    for (size_t p = 0; p < 4; p++)
        shifted[p] = ints_shift_right(sums[p][group], precision);
    ints bytes = ints_pack(shifted[0], shifted[1], shifted[2], shifted[3]);
    ints_store(lanes, ints_shuffle(bytes, drop_fourth));
    for (size_t r = 0; r < used; r++)
        if (count == 4)
            memcpy(dst + r * dst_stride, lanes[r], 12);
        else
            memcpy(dst + r * dst_stride, lanes[r], 3 * count);
}

/* `groups` times INTS_LANES rows, of which the first `used` of each group are written (with a
 * source stride of 0 the others repeat the first). */
SIMD void resize_some_rows(const row_pass *pass, uint8_t *dst, const uint8_t *src,
                           const size_t src_stride, const size_t used, const size_t groups)
{
    const ints half = ints_all(pass->precision > 0 ? 1 << (pass->precision - 1) : 0);
    for (size_t x = 0; x < pass->out_width; x += 4) {
        size_t count = pass->out_width - x < 4 ? pass->out_width - x : 4;
        ints sums[4][2];
        for (size_t p = 0; p < 4; p++) {
            sums[p][0] = sums[p][1] = half;
            if (p < count)
                row_pixel(sums[p], groups, src, src_stride,
                          (taps){pass->lo[x + p], (size_t)pass->n_taps[x + p],
                                 pass->weights + (x + p) * pass->max_taps});
        }
        for (size_t g = 0; g < groups; g++)
            store_pixels(dst + g * INTS_LANES * pass->dst_stride + 3 * x, pass->dst_stride, used,
                         count, sums, g, pass->precision);
    }
}

static void resize_rows_u8(uint8_t *dst, size_t dst_stride, const uint8_t *src, size_t src_stride,
                           size_t rows, size_t out_width, const int32_t *lo, const int32_t *n_taps,
                           const int16_t *weights, size_t max_taps, int precision)
{
    const row_pass pass = {dst_stride, src_stride, out_width, lo,
                           n_taps,     weights,    max_taps,  precision};
    size_t r = 0;
    for (; r + 2 * INTS_LANES <= rows; r += 2 * INTS_LANES)
        resize_some_rows(&pass, dst + r * dst_stride, src + r * src_stride, src_stride, INTS_LANES,
                         2);
    for (; r + INTS_LANES <= rows; r += INTS_LANES)
        resize_some_rows(&pass, dst + r * dst_stride, src + r * src_stride, src_stride, INTS_LANES,
                         1);
    for (; r < rows; r++)
        resize_some_rows(&pass, dst + r * dst_stride, src + r * src_stride, 0, 1, 1);
}

/* ------------------------------------------------------------------ along columns */

/* INTS_BYTES neighbouring bytes of one row of the result. */
SIMD ints column_bytes(const uint8_t *src, size_t stride, size_t n, const int16_t *w, int precision)
{
    const ints zero = ints_zero(), half = ints_all(precision > 0 ? 1 << (precision - 1) : 0);
    ints sum[4] = {half, half, half, half};
    for (size_t j = 0; j < n; j += 2, src += 2 * stride) {
        uint32_t pair = (uint16_t)w[j];
        ints a = ints_load(src), b = zero;
        if (j + 1 < n) {
            pair |= (uint32_t)(uint16_t)w[j + 1] << 16;
            b = ints_load(src + stride);
        }
        ints weight = ints_all((int32_t)pair);
        ints low = ints_low_bytes(a, b), high = ints_high_bytes(a, b);
        sum[0] = ints_add(sum[0], ints_madd(ints_low_bytes(low, zero), weight));
        sum[1] = ints_add(sum[1], ints_madd(ints_high_bytes(low, zero), weight));
        sum[2] = ints_add(sum[2], ints_madd(ints_low_bytes(high, zero), weight));
        sum[3] = ints_add(sum[3], ints_madd(ints_high_bytes(high, zero), weight));
    }
    for (size_t i = 0; i < 4; i++)
        sum[i] = ints_shift_right(sum[i], precision);
    return ints_pack(sum[0], sum[1], sum[2], sum[3]);
}

/* The last bytes of a row, fewer than a vector, are part of a vector that ends with them. */
static void resize_cols_u8(uint8_t *dst, size_t dst_stride, const uint8_t *src, size_t src_stride,
                           size_t width_bytes, size_t out_height, const int32_t *lo,
                           const int32_t *n_taps, const int16_t *weights, size_t max_taps,
                           int precision)
{
    if (width_bytes < INTS_BYTES) {
        lr_scalar_resize_cols_u8(dst, dst_stride, src, src_stride, width_bytes, out_height, lo,
                                 n_taps, weights, max_taps, precision);
        return;
    }
    for (size_t y = 0; y < out_height; y++, dst += dst_stride) {
        const uint8_t *top = src + (size_t)lo[y] * src_stride;
        for (size_t i = 0; i < width_bytes; i += INTS_BYTES) {
            size_t at = i + INTS_BYTES <= width_bytes ? i : width_bytes - INTS_BYTES;
            ints_store(dst + at, column_bytes(top + at, src_stride, (size_t)n_taps[y],
                                              weights + y * max_taps, precision));
        }
    }
}

#endif
