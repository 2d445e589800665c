#include "convert.h"

#include <string.h>

#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

/* ------------------------------------------------------------------ orientation */

lri_orientation lri_orientation_of(const int32_t matrix[9], bool *exact)
{
    /* x' = a x + c y, y' = b x + d y */
    double a = matrix[0], b = matrix[1], c = matrix[3], d = matrix[4];
    double straight = (a < 0 ? -a : a) + (d < 0 ? -d : d), crossed = (b < 0 ? -b : b) + (c < 0 ? -c : c);
    lri_orientation o = {0};
    *exact = straight == 0 || crossed == 0;
    if (straight >= crossed) {
        o.from_right = a < 0;
        o.from_bottom = d < 0;
    } else {
        o.transposed = true;
        o.from_right = b < 0;
        o.from_bottom = c < 0;
    }
    return o;
}

int lri_orientation_degrees(lri_orientation o, bool *flipped)
{
    if (!o.transposed) {
        *flipped = o.from_right != o.from_bottom;
        return o.from_bottom ? 180 : 0;
    }
    /* A plain transposition is a flip and three quarter turns. */
    *flipped = o.from_right == o.from_bottom;
    return o.from_bottom ? 90 : 270;
}

/* ------------------------------------------------------------------ colour */

/* libswscale's number of the matrix: by the picture's tag, else by the usual rule for the size. */
static int matrix_of(const AVFrame *frame, enum AVCodecID codec)
{
    enum AVColorSpace space = frame->colorspace;
    /* RGB passes through; YCgCo and what is newer libswscale does not know. */
    if (space == AVCOL_SPC_RGB || space == AVCOL_SPC_YCGCO || space > AVCOL_SPC_BT2020_CL)
        return SWS_CS_DEFAULT;
    if (space != AVCOL_SPC_UNSPECIFIED && space != AVCOL_SPC_RESERVED) return (int)space;
    /* Both are defined as BT.601 whatever the size. */
    if (codec == AV_CODEC_ID_VP8 || codec == AV_CODEC_ID_WEBP) return SWS_CS_ITU601;
    return frame->width >= 1280 || frame->height > 576 ? SWS_CS_ITU709 : SWS_CS_ITU601;
}

/* The yuvj formats are the plain ones with a promise of full range. */
static enum AVPixelFormat plain_format(enum AVPixelFormat format, bool *full_range)
{
    switch (format) {
    case AV_PIX_FMT_YUVJ420P: *full_range = true; return AV_PIX_FMT_YUV420P;
    case AV_PIX_FMT_YUVJ422P: *full_range = true; return AV_PIX_FMT_YUV422P;
    case AV_PIX_FMT_YUVJ444P: *full_range = true; return AV_PIX_FMT_YUV444P;
    case AV_PIX_FMT_YUVJ440P: *full_range = true; return AV_PIX_FMT_YUV440P;
    case AV_PIX_FMT_YUVJ411P: *full_range = true; return AV_PIX_FMT_YUV411P;
    default: return format;
    }
}

static bool has_alpha(enum AVPixelFormat format)
{
    const AVPixFmtDescriptor *descriptor = av_pix_fmt_desc_get(format);
    return descriptor && ((descriptor->flags & AV_PIX_FMT_FLAG_ALPHA) || format == AV_PIX_FMT_PAL8);
}

static lr_status set_up(lri_converter *converter, const lr_recording *recording,
                        const AVFrame *frame, enum AVPixelFormat target, lr_error *err)
{
    bool full_range = frame->color_range == AVCOL_RANGE_JPEG;
    enum AVPixelFormat format = plain_format((enum AVPixelFormat)frame->format, &full_range);
    int matrix = matrix_of(frame, recording->video.codec);
    if (converter->sws && converter->width == frame->width && converter->height == frame->height &&
        converter->format == format && converter->target == target && converter->matrix == matrix &&
        converter->full_range == full_range)
        return LR_OK;
    sws_freeContext(converter->sws);
    const lr_video_info *info = &recording->timeline.video;
    converter->sws =
        sws_getContext(frame->width, frame->height, format, info->coded_width, info->coded_height,
                       target, SWS_BICUBIC, NULL, NULL, NULL);
    if (!converter->sws)
        return lr_fail(err, LR_E_UNSUPPORTED, "%s: pictures of format %s, %d x %d, cannot be converted",
                       recording->path, av_get_pix_fmt_name(format), frame->width, frame->height);
    /* The matrix of the target only matters on the way from RGB to RGB. */
    (void)sws_setColorspaceDetails(converter->sws, sws_getCoefficients(matrix), full_range,
                                   sws_getCoefficients(SWS_CS_DEFAULT), 0, 0, 1 << 16, 1 << 16);
    converter->width = frame->width;
    converter->height = frame->height;
    converter->format = format;
    converter->target = target;
    converter->matrix = matrix;
    converter->full_range = full_range;
    return LR_OK;
}

/* ------------------------------------------------------------------ pixels */

/* Over black, straight alpha: c * a / 255 to the nearest. In place, RGBA to RGB. */
static void flatten_alpha(uint8_t *row, int width)
{
    uint8_t *to = row;
    for (int x = 0; x < width; x++, row += 4, to += 3) {
        unsigned alpha = row[3];
        for (int i = 0; i < 3; i++) to[i] = (uint8_t)((2 * row[i] * alpha + 255) / 510);
    }
}

/* from: [coded_height, from_stride] as coded. Column by column where transposed: a row of the result
 * is a column of the source. */
static void turn(const lr_recording *recording, const uint8_t *from, size_t from_stride, uint8_t *to,
                 size_t to_stride)
{
    const lr_video_info *info = &recording->timeline.video;
    const lri_orientation o = recording->orientation;
    for (int y = 0; y < info->height; y++) {
        uint8_t *row = to + (size_t)y * to_stride;
        for (int x = 0; x < info->width; x++, row += 3) {
            int column = o.transposed ? y : x, line = o.transposed ? x : y;
            if (o.from_right) column = info->coded_width - 1 - column;
            if (o.from_bottom) line = info->coded_height - 1 - line;
            memcpy(row, from + (size_t)line * from_stride + 3 * (size_t)column, 3);
        }
    }
}

size_t lri_rgb_stride(int width)
{
    return ((size_t)width * 3 + 63) / 64 * 64 + 64;
}

void lri_converter_free(lri_converter *converter)
{
    sws_freeContext(converter->sws);
    lri_tonemap_free(&converter->tonemap);
    lr_free(converter->flat);
    memset(converter, 0, sizeof *converter);
}

/* The picture as `target`, before alpha and orientation. */
static lr_status scale(lri_converter *converter, const lr_recording *recording, const AVFrame *frame,
                       enum AVPixelFormat target, uint8_t *const planes[], const int strides[], lr_error *err)
{
    lr_status st = set_up(converter, recording, frame, target, err);
    if (st != LR_OK) return st;
    int rows = sws_scale(converter->sws, (const uint8_t *const *)frame->data, frame->linesize, 0,
                         frame->height, planes, strides);
    if (rows != recording->timeline.video.coded_height)
        return lr_fail(err, LR_E_INTERNAL, "%s: a picture was not converted", recording->path);
    return LR_OK;
}

/* A picture of high dynamic range as RGB of standard range; *done false where it cannot be mapped. */
static lr_status map_tones(lri_converter *converter, const lr_recording *recording, const AVFrame *frame,
                           uint8_t *to, size_t to_stride, bool *done, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_video_info *info = &recording->timeline.video;
    int width = info->coded_width, height = info->coded_height, peak = recording->hdr_peak;
    AVFrame *coded;
    *done = false;
    if (!lri_hdr_name(frame->color_trc) || !lri_tonemap_can(width, height)) return LR_OK;
    if (frame->width == width && frame->height == height)
        LR_TRY(lri_tonemap_run(&converter->tonemap, frame, peak, to, to_stride, done, err));
    if (*done) return LR_OK;
    LR_TRY(lri_tonemap_prepare(&converter->tonemap, width, height, frame, &coded, err));
    LR_TRY(scale(converter, recording, frame, AV_PIX_FMT_GBRP16LE, coded->data, coded->linesize, err));
    LR_TRY(lri_tonemap_run(&converter->tonemap, coded, peak, to, to_stride, done, err));
done:
    return st;
}

lr_status lri_convert(lri_converter *converter, const lr_recording *recording, const AVFrame *frame,
                      uint8_t *rgb, size_t stride, lr_error *err)
{
    const lr_video_info *info = &recording->timeline.video;
    const lri_orientation o = recording->orientation;
    bool turned = o.transposed || o.from_right || o.from_bottom, mapped = false;
    bool alpha = has_alpha((enum AVPixelFormat)frame->format);
    lr_status st = LR_OK;
    uint8_t *to = rgb;
    size_t to_stride = stride;
    if (alpha || turned) {
        to_stride = lri_rgb_stride(info->coded_width) / 3 * 4;
        to_stride = (to_stride + 63) / 64 * 64;
        size_t need;
        if (!lr_mul_size(to_stride, (size_t)info->coded_height, &need))
            return lr_fail(err, LR_E_NOMEM, "%s: a picture too large", recording->path);
        st = LR_GROW(&converter->flat, &converter->flat_bytes, need, "a picture", err);
        if (st != LR_OK) return st;
        to = converter->flat;
    }
    uint8_t *const planes[4] = {to};
    const int strides[4] = {(int)to_stride};
    if (!alpha) LR_TRY(map_tones(converter, recording, frame, to, to_stride, &mapped, err));
    if (!mapped)
        LR_TRY(scale(converter, recording, frame, alpha ? AV_PIX_FMT_RGBA : AV_PIX_FMT_RGB24, planes, strides,
                     err));
    if (alpha)
        for (int y = 0; y < info->coded_height; y++)
            flatten_alpha(to + (size_t)y * to_stride, info->coded_width);
    if (turned) turn(recording, to, to_stride, rgb, stride);
    else if (alpha)
        for (int y = 0; y < info->coded_height; y++)
            memcpy(rgb + (size_t)y * stride, to + (size_t)y * to_stride,
                   (size_t)info->coded_width * 3);
done:
    return st;
}
