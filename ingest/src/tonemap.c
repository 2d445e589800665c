#include "tonemap.h"

#include <stdio.h>
#include <string.h>

#include <libavfilter/avfilter.h>

/* 8K: the filters work in floats, some 50 bytes a pixel. */
#define MOST_PIXELS (INT64_C(1) << 25)

const char *lri_hdr_name(enum AVColorTransferCharacteristic transfer)
{
    switch (transfer) {
    case AVCOL_TRC_SMPTE2084: return "PQ";
    case AVCOL_TRC_ARIB_STD_B67: return "HLG";
    default: return NULL;
    }
}

bool lri_tonemap_can(int width, int height)
{
    return (int64_t)width * height <= MOST_PIXELS && avfilter_get_by_name("zscale") &&
           avfilter_get_by_name("tonemap");
}

/* Those of the tag, where zimg knows them. */
static enum AVColorPrimaries primaries_of(const AVFrame *frame)
{
    switch (frame->color_primaries) {
    case AVCOL_PRI_BT709:
    case AVCOL_PRI_BT470M:
    case AVCOL_PRI_BT470BG:
    case AVCOL_PRI_SMPTE170M:
    case AVCOL_PRI_SMPTE240M:
    case AVCOL_PRI_FILM:
    case AVCOL_PRI_SMPTE431:
    case AVCOL_PRI_SMPTE432: return frame->color_primaries;
    default: return AVCOL_PRI_BT2020;
    }
}

static lr_status no_memory(lr_error *err)
{
    return lr_fail(err, LR_E_NOMEM, "out of memory: a picture of high dynamic range");
}

lr_status lri_tonemap_prepare(lri_tonemap *map, int width, int height, const AVFrame *like, AVFrame **coded,
                              lr_error *err)
{
    if (!map->coded) map->coded = av_frame_alloc();
    if (!map->coded) return no_memory(err);
    AVFrame *f = map->coded;
    av_frame_unref(f);
    f->width = width;
    f->height = height;
    f->format = AV_PIX_FMT_GBRP16LE;
    if (av_frame_get_buffer(f, 0) < 0) return no_memory(err);
    f->color_trc = like->color_trc;
    f->color_primaries = like->color_primaries;
    f->colorspace = AVCOL_SPC_RGB;
    f->color_range = AVCOL_RANGE_JPEG;
    *coded = f;
    return LR_OK;
}

/* A reference with all tags set: what has none is as BT.2100 says. */
static AVFrame *with_tags(const AVFrame *frame)
{
    AVFrame *f = av_frame_clone(frame);
    if (!f) return NULL;
    f->color_primaries = primaries_of(frame);
    if (f->colorspace == AVCOL_SPC_UNSPECIFIED || f->colorspace == AVCOL_SPC_RESERVED)
        f->colorspace = AVCOL_SPC_BT2020_NCL;
    if (f->color_range == AVCOL_RANGE_UNSPECIFIED) f->color_range = AVCOL_RANGE_MPEG;
    return f;
}

static void interleave(const AVFrame *gbr, uint8_t *rgb, size_t stride)
{
    for (int y = 0; y < gbr->height; y++) {
        const uint8_t *g = gbr->data[0] + (ptrdiff_t)y * gbr->linesize[0];
        const uint8_t *b = gbr->data[1] + (ptrdiff_t)y * gbr->linesize[1];
        const uint8_t *r = gbr->data[2] + (ptrdiff_t)y * gbr->linesize[2];
        uint8_t *to = rgb + (size_t)y * stride;
        for (int x = 0; x < gbr->width; x++, to += 3) {
            to[0] = r[x];
            to[1] = g[x];
            to[2] = b[x];
        }
    }
}

/* The usual chain: light relative to 100 cd/m2, primaries, Hable's curve over all of it, the curve of BT.709. */
lr_status lri_tonemap_run(lri_tonemap *map, const AVFrame *frame, int peak, uint8_t *rgb, size_t stride,
                          bool *done, lr_error *err)
{
    lr_status st = LR_OK;
    bool usable, got = false;
    char description[192];
    AVFrame *tagged = with_tags(frame);
    *done = false;
    if (!map->result) map->result = av_frame_alloc();
    if (!tagged || !map->result) {
        st = no_memory(err);
        goto done;
    }
    (void)snprintf(description, sizeof description,
                   "zscale=t=linear:npl=100,format=gbrpf32le,zscale=p=bt709,"
                   "tonemap=tonemap=hable:desat=0:peak=%d/100,zscale=t=bt709,format=gbrp", peak);
    LR_TRY(lri_filter_set(&map->filter, description, tagged, &usable, err));
    if (usable) LR_TRY(lri_filter_feed(&map->filter, tagged, map->result, &got, err));
    const AVFrame *result = map->result;
    if (!got || result->format != AV_PIX_FMT_GBRP || result->width != frame->width ||
        result->height != frame->height)
        goto done;
    interleave(result, rgb, stride);
    *done = true;
done:
    av_frame_free(&tagged);
    if (map->result) av_frame_unref(map->result);
    return st;
}

void lri_tonemap_free(lri_tonemap *map)
{
    lri_filter_free(&map->filter);
    av_frame_free(&map->coded);
    av_frame_free(&map->result);
}
