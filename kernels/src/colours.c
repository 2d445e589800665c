/* Factors from luma and differences to RGB, as libswscale's ff_yuv2rgb_c_init_tables makes them for its vector code. */
#include <longreel/device.h>

/* In units of 2^-29 to a factor in units of 2^-13. */
static int16_t factor(int64_t value)
{
    return (int16_t)((value * (1 << 13) + (1 << 15)) >> 16);
}

lr_device_colours lr_device_colours_of(const int table[4], bool full_range)
{
    int64_t y = 1 << 16, n[4]; /* red of v, blue of u, green of u, green of v */
    for (int i = 0; i < 4; i++) n[i] = i < 2 ? table[i] : -(int64_t)table[i];
    if (!full_range) y = y * 255 / 219;
    for (int i = 0; i < 4 && full_range; i++) n[i] = n[i] * 224 / 255;
    return (lr_device_colours){.y = factor(y), .offset = full_range ? 0 : 8 * 16, .red_v = factor(n[0]),
                               .blue_u = factor(n[1]), .green_u = factor(n[2]), .green_v = factor(n[3])};
}
