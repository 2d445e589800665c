#include "scalar.h"

/* Sums are of uint8 times int16: with the plan's weights (resize.c) they stay below 2^31. */
static uint8_t round_u8(int32_t sum, int precision)
{
    int32_t value = sum >> precision;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

void lr_scalar_resize_rows_u8(uint8_t *dst, size_t dst_stride, const uint8_t *src,
                              size_t src_stride, size_t rows, size_t out_width, const int32_t *lo,
                              const int32_t *n_taps, const int16_t *weights, size_t max_taps,
                              int precision)
{
    int32_t half = precision > 0 ? 1 << (precision - 1) : 0;
    for (size_t r = 0; r < rows; r++, dst += dst_stride, src += src_stride)
        for (size_t x = 0; x < out_width; x++) {
            const int16_t *w = weights + x * max_taps;
            const uint8_t *tap = src + 3 * (size_t)lo[x];
            int32_t red = half, green = half, blue = half;
            for (int32_t j = 0; j < n_taps[x]; j++, tap += 3) {
                red += w[j] * tap[0];
                green += w[j] * tap[1];
                blue += w[j] * tap[2];
            }
            dst[3 * x] = round_u8(red, precision);
            dst[3 * x + 1] = round_u8(green, precision);
            dst[3 * x + 2] = round_u8(blue, precision);
        }
}

void lr_scalar_resize_cols_u8(uint8_t *dst, size_t dst_stride, const uint8_t *src,
                              size_t src_stride, size_t width_bytes, size_t out_height,
                              const int32_t *lo, const int32_t *n_taps, const int16_t *weights,
                              size_t max_taps, int precision)
{
    int32_t half = precision > 0 ? 1 << (precision - 1) : 0;
    for (size_t y = 0; y < out_height; y++, dst += dst_stride) {
        const int16_t *w = weights + y * max_taps;
        const uint8_t *top = src + (size_t)lo[y] * src_stride;
        for (size_t i = 0; i < width_bytes; i++) {
            int32_t sum = half;
            for (int32_t j = 0; j < n_taps[y]; j++)
                sum += w[j] * top[(size_t)j * src_stride + i];
            dst[i] = round_u8(sum, precision);
        }
    }
}
