#include "canary.h"

#include <stdint.h>
#include <string.h>

#include <libavutil/pixdesc.h>

/* In rows 3 and 4 of each 8: the middle of a block, where filters along its edges do not reach, and one
 * of each field. In words of 8 bytes: that a decoded picture holds one by chance has the probability
 * 2^-64. Only in the first plane: a block that is not decoded lacks all of them. */
enum { PERIOD = 8, FIRST_ROW = 3, LAST_ROW = 4, WORD = 8, N_WORDS = 8 };
static const uint64_t pattern[N_WORDS] = {
    0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93,
    0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3};

/* Others draw over the picture before, or on a black one that libav's pool gives them. */
static bool writes_all(enum AVCodecID codec)
{
    switch (codec) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_VP8:
    case AV_CODEC_ID_VP9:
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_MPEG4:
    case AV_CODEC_ID_H263:
    case AV_CODEC_ID_FLV1:
    case AV_CODEC_ID_MSMPEG4V1:
    case AV_CODEC_ID_MSMPEG4V2:
    case AV_CODEC_ID_MSMPEG4V3:
    case AV_CODEC_ID_WMV1:
    case AV_CODEC_ID_WMV2:
    case AV_CODEC_ID_WMV3:
    case AV_CODEC_ID_VC1:
    case AV_CODEC_ID_THEORA:
    case AV_CODEC_ID_MJPEG:
    case AV_CODEC_ID_FFV1:
    case AV_CODEC_ID_PRORES:
    case AV_CODEC_ID_DNXHD: return true;
    default: return false;
    }
}

/* Bytes of a row of the first plane that hold pixels; 0 for formats that are not laid out so. */
static size_t bytes_of_row(const AVFrame *frame)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    const uint64_t odd = AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM;
    if (!d || (d->flags & odd) || frame->linesize[0] <= 0 || !frame->buf[0]) return 0;
    int step = 0;
    for (int i = 0; i < d->nb_components; i++)
        if (d->comp[i].plane == 0 && d->comp[i].step > step) step = d->comp[i].step;
    return (size_t)frame->width * (size_t)step;
}

/* Calls for each row of the pattern below `height` rows from data[0]. Cropping moves data[0] inside the
 * buffer; rows and columns are counted from where the buffer begins. */
static uint8_t *pattern_row(const AVFrame *frame, int y, size_t *column)
{
    size_t stride = (size_t)frame->linesize[0];
    size_t offset = (size_t)(frame->data[0] - frame->buf[0]->data);
    size_t row = offset / stride + (size_t)y;
    *column = offset % stride;
    if (row % PERIOD < FIRST_ROW || row % PERIOD > LAST_ROW) return NULL;
    return frame->data[0] + (size_t)y * stride;
}

static int get_buffer(AVCodecContext *codec, AVFrame *frame, int flags)
{
    int code = avcodec_default_get_buffer2(codec, frame, flags);
    size_t bytes = code < 0 ? 0 : bytes_of_row(frame), column;
    for (int y = 0; y < frame->height && bytes > 0; y++) {
        uint8_t *row = pattern_row(frame, y, &column);
        if (!row || column % WORD != 0) continue;
        for (size_t at = 0; at + WORD <= bytes; at += WORD)
            memcpy(row + at, &pattern[(column + at) / WORD % N_WORDS], WORD);
    }
    return code;
}

void lri_canary_use(AVCodecContext *codec)
{
    if (!(codec->codec->capabilities & AV_CODEC_CAP_DR1) || !writes_all(codec->codec_id)) return;
    codec->get_buffer2 = get_buffer;
#if LIBAVCODEC_VERSION_MAJOR < 60
    /* Later versions take every callback for safe. */
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wdeprecated-declarations\"")
    codec->thread_safe_callbacks = 1;
    _Pragma("GCC diagnostic pop")
#endif
}

bool lri_canary_lives(const AVCodecContext *codec, const AVFrame *frame)
{
    if (codec->get_buffer2 != get_buffer) return false;
    size_t bytes = bytes_of_row(frame), column;
    for (int y = 0; y < frame->height && bytes > 0; y++) {
        const uint8_t *row = pattern_row(frame, y, &column);
        if (!row) continue;
        for (size_t at = (WORD - column % WORD) % WORD; at + WORD <= bytes; at += WORD)
            if (memcmp(row + at, &pattern[(column + at) / WORD % N_WORDS], WORD) == 0) return true;
    }
    return false;
}
