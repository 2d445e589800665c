/* A decoded picture to upright RGB. */
#ifndef LRI_CONVERT_H
#define LRI_CONVERT_H

#include <libavutil/frame.h>

#include "recording.h"
#include "tonemap.h"

struct SwsContext;

typedef struct lri_converter {
    struct SwsContext *sws;
    int width, height, format, target, matrix;
    bool full_range;
    uint8_t *flat; /* as coded, before alpha and orientation */
    size_t flat_bytes;
    lri_tonemap tonemap;
} lri_converter;

/* The orientation that a display matrix (3x3, 16.16 fixed point) asks for, to the nearest quarter
 * turn; *exact false when that is not what it says. */
lri_orientation lri_orientation_of(const int32_t matrix[9], bool *exact);
/* Clockwise degrees, applied after a horizontal flip where *flipped. */
int lri_orientation_degrees(lri_orientation orientation, bool *flipped);

/* Bytes of a row of `width` pixels of RGB, with the room that libswscale's vector code writes to. */
size_t lri_rgb_stride(int width);
/* Converts to coded_width x coded_height of the recording (other sizes are scaled to it) and turns
 * upright, into rgb [height, stride]. */
lr_status lri_convert(lri_converter *converter, const lr_recording *recording, const AVFrame *frame,
                      uint8_t *rgb, size_t stride, lr_error *err);
void lri_converter_free(lri_converter *converter);

#endif
