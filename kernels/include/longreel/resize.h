/* Antialiased separable resize of 8-bit pictures, byte-equal to the reference's (torchvision on a
 * CPU: Pillow's scheme with 16-bit weights; embeddinggemma2 section 3, vjepa2 section 3). Horizontal
 * pass first, rounded to uint8, then vertical; an axis whose size does not change has no pass. */
#ifndef LONGREEL_RESIZE_H
#define LONGREEL_RESIZE_H

#include <longreel/kernels.h>

typedef enum lr_filter { LR_BICUBIC /* a = -0.5 */, LR_BILINEAR } lr_filter;

typedef struct lr_resize lr_resize; /* immutable plan; shared by threads */

lr_status lr_resize_create(lr_resize **out, lr_filter filter, int in_width, int in_height,
                           int out_width, int out_height, lr_error *err);
void lr_resize_free(lr_resize *plan);
size_t lr_resize_scratch(const lr_resize *plan); /* bytes */
/* src RGB [in_height, src_stride], dst RGB [out_height, 3 * out_width]. */
void lr_resize_rgb(const lr_kernels *kernels, const lr_resize *plan, uint8_t *dst, const uint8_t *src,
                   size_t src_stride, uint8_t *scratch);

/* One axis, for another's passes: output i is the weighted sum of inputs lo[i] .. lo[i] + n_taps[i] - 1. */
typedef struct lr_resize_axis {
    int in, out;          /* the same: the axis has no pass, and none of what follows */
    size_t max_taps;      /* a row of weights */
    int precision;        /* weights are multiples of 2^-precision */
    int32_t *lo, *n_taps; /* [out] */
    int16_t *weights;     /* [out, max_taps] */
} lr_resize_axis;
const lr_resize_axis *lr_resize_axis_of(const lr_resize *plan, bool vertical);

#endif
