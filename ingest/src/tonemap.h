/* Pictures of high dynamic range (PQ, HLG) to what a screen of BT.709 shows, by libavfilter. */
#ifndef LRI_TONEMAP_H
#define LRI_TONEMAP_H

#include <stdint.h>

#include "filter.h"

typedef struct lri_tonemap {
    lri_filter filter;
    AVFrame *coded; /* RGB of 16 bits */
    AVFrame *result;
} lri_tonemap;

/* "PQ" or "HLG"; NULL for pictures of standard range. */
const char *lri_hdr_name(enum AVColorTransferCharacteristic transfer);
/* Whether pictures of this size are mapped here. */
bool lri_tonemap_can(int width, int height);

/* A picture of width x height as RGB of 8 bits into rgb. `peak`: the brightest light of the film, in cd/m2. *done
 * false where libavfilter cannot, as with odd sizes of subsampled chroma. */
lr_status lri_tonemap_run(lri_tonemap *map, const AVFrame *frame, int peak, uint8_t *rgb, size_t stride,
                          bool *done, lr_error *err);
/* For those: *coded, GBRP16LE, width x height, to be filled with what `like` is as RGB, its curve and primaries
 * as they are; it goes to lri_tonemap_run, then. Valid until the next call. */
lr_status lri_tonemap_prepare(lri_tonemap *map, int width, int height, const AVFrame *like, AVFrame **coded,
                              lr_error *err);
void lri_tonemap_free(lri_tonemap *map);

#endif
