/* The host's side of the device's checksum. */
#include <longreel/device.h>

#include <string.h>

#include "cuda/mix.h"

uint64_t lr_device_checksum(const void *bytes, size_t n, uint64_t seed)
{
    const unsigned char *at = bytes;
    uint64_t sum = 0, place = lr_check_mix(seed);
    for (size_t left = n; left > 0; place += LR_CHECK_STEP) {
        size_t part = left < sizeof(uint64_t) ? left : sizeof(uint64_t);
        uint64_t word = 0;
        for (size_t i = 0; i < part; i++) word |= (uint64_t)at[i] << 8 * i;
        sum += lr_check_mix(word + place);
        at += part;
        left -= part;
    }
    return sum;
}
