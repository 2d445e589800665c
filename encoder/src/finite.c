/* The search for NaN and infinity in stored weights. It reads the bits as they lie in the file: where the
 * exponent is all ones, adding its lowest bit carries into the sign's place, so that values can be
 * looked at many at a time with AND, ADD and OR alone. */
#include <string.h>

#include "model.h"

/* Values a step; a constant, so that compilers use vectors for it. */
#define STEP 64

static bool step16(const unsigned char *bytes, uint16_t exponent, uint16_t lowest)
{
    uint16_t seen = 0;
    for (size_t i = 0; i < STEP; i++) {
        uint16_t value; /* a checkpoint's tensors need not be aligned to their type */
        memcpy(&value, bytes + 2 * i, sizeof value);
        seen = (uint16_t)(seen | ((value & exponent) + lowest));
    }
    return (seen & 0x8000u) == 0;
}

static bool step32(const unsigned char *bytes)
{
    uint32_t seen = 0;
    for (size_t i = 0; i < STEP; i++) {
        uint32_t value;
        memcpy(&value, bytes + 4 * i, sizeof value);
        seen |= (value & 0x7f800000u) + 0x00800000u;
    }
    return (seen & 0x80000000u) == 0;
}

static bool step_is_finite(lr_dtype dtype, const unsigned char *bytes)
{
    if (dtype == LR_F32) return step32(bytes);
    return dtype == LR_BF16 ? step16(bytes, 0x7f80u, 0x0080u) : step16(bytes, 0x7c00u, 0x0400u);
}

static bool one_is_finite(lr_dtype dtype, const unsigned char *bytes)
{
    uint32_t wide;
    uint16_t half;
    if (dtype == LR_F32) {
        memcpy(&wide, bytes, sizeof wide);
        return (wide & 0x7f800000u) != 0x7f800000u;
    }
    uint16_t exponent = dtype == LR_BF16 ? 0x7f80u : 0x7c00u;
    memcpy(&half, bytes, sizeof half);
    return (half & exponent) != exponent;
}

size_t lr_first_not_finite(lr_dtype dtype, const void *data, size_t count)
{
    const unsigned char *bytes = data;
    size_t size = lr_dtype_size(dtype), i = 0;
    while (count - i >= STEP && step_is_finite(dtype, bytes + i * size)) i += STEP;
    while (i < count && one_is_finite(dtype, bytes + i * size)) i++;
    return i;
}
