#include <math.h>
#include <stdio.h>

#include <longreel/tokenize.h>

/* Largest side of a soft token and largest budget; below them nothing here overflows. */
#define MAX_SIDE 65536
#define MAX_BUDGET 1048576

/* The side that did not round to zero is as long as the aspect says, in whole soft tokens. */
static double long_side(int64_t longer, int64_t shorter, double side, double budget)
{
    double tokens = (double)(longer / shorter);
    return (tokens < budget ? tokens : budget) * side;
}

lr_status lr_picture_size(const lr_picture_geometry *geometry, int width, int height,
                          int *out_width, int *out_height, uint64_t *soft_tokens, lr_error *err)
{
    *out_width = *out_height = 0;
    *soft_tokens = 0;
    if (geometry->patch < 1 || geometry->pool < 1 || geometry->budget < 1 ||
        (int64_t)geometry->patch * geometry->pool > MAX_SIDE || geometry->budget > MAX_BUDGET)
        return lr_fail(err, LR_E_USAGE,
                       "no picture has patches of %d pixels, %d a side, %d soft tokens",
                       geometry->patch, geometry->pool, geometry->budget);
    if (width < 1 || height < 1 || (int64_t)width * height > INT64_C(1) << 53)
        return lr_fail(err, LR_E_USAGE, "a picture cannot have %d x %d pixels", width, height);

    if (geometry->fixed > 0) {
        uint64_t cells = (uint64_t)(geometry->fixed / (geometry->patch * geometry->pool));
        if (geometry->fixed > MAX_SIDE || cells == 0)
            return lr_fail(err, LR_E_USAGE, "no picture of %d pixels a side has patches of %d",
                           geometry->fixed, geometry->patch);
        *out_width = *out_height = geometry->fixed;
        *soft_tokens = cells * cells;
        return LR_OK;
    }

    /* The reference's arithmetic: integers that a double holds, one division, one root. */
    double side = (double)geometry->patch * geometry->pool, budget = geometry->budget;
    double pixels = budget * side * side;
    double factor = sqrt(pixels / ((double)width * (double)height));
    double h = floor(factor * height / side) * side, w = floor(factor * width / side) * side;
    if (h == 0 && w == 0)
        return lr_fail(err, LR_E_USAGE,
                       "%d soft tokens are too few for a picture of %d x %d pixels",
                       geometry->budget, width, height);
    if (h == 0) {
        h = side;
        w = long_side(width, height, side, budget);
    } else if (w == 0) {
        w = side;
        h = long_side(height, width, side, budget);
    }
    if (h * w > pixels || h > INT32_MAX || w > INT32_MAX)
        return lr_fail(err, LR_E_USAGE, "a picture of %d x %d pixels does not fit %d soft tokens",
                       width, height, geometry->budget);
    *out_width = (int)w;
    *out_height = (int)h;
    *soft_tokens = (uint64_t)(w / side) * (uint64_t)(h / side);
    return LR_OK;
}

uint64_t lr_sound_tokens(int64_t samples)
{
    if (samples <= 160) return 0;
    uint64_t mel_frames = (uint64_t)(samples - 1) / 160;
    return (mel_frames + 3) / 4;
}
