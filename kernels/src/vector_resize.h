/* The two passes of a resize on vectors; whole numbers, so every instruction set gives the same bytes.
 * Products are of a byte and an int16 weight, two taps at a time, summed in int32. */
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

/* The window of pixels [first, first + 4) where its 16 bytes would begin before the row; pixels below
 * 0 become 0. */
static ints window_at_start(const uint8_t *src, size_t stride, ptrdiff_t first)
{
    uint8_t lanes[INTS_LANES][16] = {{0}};
    ptrdiff_t from = first > 0 ? first : 0;
    for (size_t r = 0; r < INTS_LANES; r++)
        memcpy(lanes[r] + 4 + 3 * (from - first), src + r * stride + 3 * from,
               (size_t)(3 * (first + 4 - from)));
    return ints_load(lanes);
}

/* Sums of one pixel of the result, [lane][red, green, blue, 0], plus `half`. */
SIMD ints row_pixel(const uint8_t *src, size_t stride, ptrdiff_t lo, size_t n, const int16_t *w,
                    ints half)
{
    ints sum = half;
    for (size_t j = 0; j < n; j += 4) {
        uint64_t four;
        ptrdiff_t first = lo + (ptrdiff_t)j;
        if (n - j >= 4) {
            memcpy(&four, w + j, sizeof(four));
        } else {
            four = last_weights(w + j, n - j);
            first -= (ptrdiff_t)(4 - (n - j));
        }
        ints window = first >= 2 ? ints_load_lanes(src + 3 * (first + 4) - 16, stride)
                                 : window_at_start(src, stride, first);
        sum = ints_add(sum, ints_madd(ints_shuffle(window, taps_0_1), ints_all((int32_t)four)));
        sum = ints_add(sum, ints_madd(ints_shuffle(window, taps_2_3), ints_all((int32_t)(four >> 32))));
    }
    return sum;
}

/* INTS_LANES rows (`used` of them written; the others repeat one that is there: stride 0). */
static void resize_some_rows(uint8_t *dst, size_t dst_stride, const uint8_t *src, size_t src_stride,
                             size_t used, size_t out_width, const int32_t *lo,
                             const int32_t *n_taps, const int16_t *weights, size_t max_taps,
                             int precision)
{
    const ints half = ints_all(precision > 0 ? 1 << (precision - 1) : 0);
    for (size_t x = 0; x < out_width; x += 4) {
        size_t count = out_width - x < 4 ? out_width - x : 4;
        ints pixel[4] = {half, half, half, half};
        for (size_t p = 0; p < count; p++)
            pixel[p] = ints_shift_right(row_pixel(src, src_stride, lo[x + p], (size_t)n_taps[x + p],
                                                  weights + (x + p) * max_taps, half),
                                        precision);
        uint8_t lanes[INTS_LANES][16];
        ints_store(lanes, ints_shuffle(ints_pack(pixel[0], pixel[1], pixel[2], pixel[3]),
                                       drop_fourth));
        for (size_t r = 0; r < used; r++)
            if (count == 4)
                memcpy(dst + r * dst_stride + 3 * x, lanes[r], 12);
            else
                memcpy(dst + r * dst_stride + 3 * x, lanes[r], 3 * count);
    }
}

static void resize_rows_u8(uint8_t *dst, size_t dst_stride, const uint8_t *src, size_t src_stride,
                           size_t rows, size_t out_width, const int32_t *lo, const int32_t *n_taps,
                           const int16_t *weights, size_t max_taps, int precision)
{
    size_t r = 0;
    for (; r + INTS_LANES <= rows; r += INTS_LANES)
        resize_some_rows(dst + r * dst_stride, dst_stride, src + r * src_stride, src_stride,
                         INTS_LANES, out_width, lo, n_taps, weights, max_taps, precision);
    for (; r < rows; r++)
        resize_some_rows(dst + r * dst_stride, dst_stride, src + r * src_stride, 0, 1, out_width, lo,
                         n_taps, weights, max_taps, precision);
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

/* The last bytes of a row, fewer than a vector, are done as part of a vector that ends with them. */
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
