#include "hardware.h"

#include <libavutil/hwcontext.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>

static int create(AVBufferRef **device, enum AVHWDeviceType type)
{
    return av_hwdevice_ctx_create(device, type, NULL, NULL, 0);
}

static enum AVPixelFormat choose(enum AVPixelFormat hardware, const enum AVPixelFormat *offered)
{
    for (; *offered != AV_PIX_FMT_NONE; offered++)
        if (*offered == hardware) return hardware;
    return AV_PIX_FMT_NONE;
}

static int transfer(AVFrame *to, const AVFrame *from)
{
    return av_hwframe_transfer_data(to, from, 0);
}

lri_hardware_calls lri_hardware = {create, choose, transfer};

/* ------------------------------------------------------------------ the device */

static enum AVHWDeviceType type_of(lr_decode decode)
{
    switch (decode) {
    case LR_DECODE_CUDA: return AV_HWDEVICE_TYPE_CUDA;
    case LR_DECODE_VAAPI: return AV_HWDEVICE_TYPE_VAAPI;
    default: return AV_HWDEVICE_TYPE_NONE;
    }
}

/* The format of the device's pictures of this codec; AV_PIX_FMT_NONE: it has no decoder for it. */
static enum AVPixelFormat format_of(enum AVCodecID id, enum AVHWDeviceType type)
{
    const AVCodec *codec = avcodec_find_decoder(id);
    const AVCodecHWConfig *config;
    for (int i = 0; codec && (config = avcodec_get_hw_config(codec, i)); i++)
        if (config->device_type == type && (config->methods & AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX))
            return config->pix_fmt;
    return AV_PIX_FMT_NONE;
}

lr_status lri_hardware_open(lr_recording *recording, lr_error *err)
{
    lr_status st = LR_OK;
    enum AVHWDeviceType type = type_of(recording->options.decode);
    struct lri_hardware *made = NULL;
    char cause[AV_ERROR_MAX_STRING_SIZE];
    if (type == AV_HWDEVICE_TYPE_NONE || recording->video.stream < 0) return LR_OK;
    const char *name = av_hwdevice_get_type_name(type), *codec = lri_codec_name(recording->video.codec);
    enum AVPixelFormat format = format_of(recording->video.codec, type);
    if (format == AV_PIX_FMT_NONE)
        return lri_recording_warn(recording, err, "%s does not decode %s: the processor does", name, codec);
    LR_TRY(LR_NEW(&made, 1, "a device to decode with", err));
    made->format = format;
    made->name = name;
    atomic_init(&made->failed, false);
    int code = lri_hardware.create(&made->device, type);
    if (code == AVERROR(ENOMEM)) LR_FAIL(LR_E_NOMEM, "%s: out of memory: a device to decode with", recording->path);
    if (code < 0) {
        (void)av_strerror(code, cause, sizeof cause);
        st = lri_recording_warn(recording, err, "no %s device can be used (%s): the processor decodes", name, cause);
        goto done;
    }
    recording->hardware = made;
    made = NULL;
done:
    lri_hardware_free(&made);
    return st;
}

void lri_hardware_free(struct lri_hardware **hardware)
{
    if (*hardware) av_buffer_unref(&(*hardware)->device);
    lr_free(*hardware);
    *hardware = NULL;
}

bool lri_hardware_works(const lr_recording *recording)
{
    return recording->hardware && !atomic_load(&recording->hardware->failed);
}

void lri_hardware_give_up(const lr_recording *recording, const char *why)
{
    struct lri_hardware *hardware = recording->hardware;
    if (!hardware || atomic_exchange(&hardware->failed, true)) return;
    lr_log(LR_LOG_WARNING, "%s: %s %s: the processor decodes on", recording->path, hardware->name, why);
}

/* ------------------------------------------------------------------ a codec's pictures */

static enum AVPixelFormat get_format(AVCodecContext *codec, const enum AVPixelFormat *offered)
{
    const lri_watch *watch = codec->opaque;
    return lri_hardware.choose((enum AVPixelFormat)watch->hardware_format, offered);
}

lr_status lri_hardware_use(const lr_recording *recording, AVCodecContext *codec, lr_error *err)
{
    lri_watch *watch = codec->opaque;
    watch->hardware_format = recording->hardware->format;
    codec->get_format = get_format;
    codec->hw_device_ctx = av_buffer_ref(recording->hardware->device);
    if (!codec->hw_device_ctx) return lr_fail(err, LR_E_NOMEM, "%s: out of memory: a decoder", recording->path);
    return LR_OK;
}

/* How devices lay out what libav's decoders give in planes. */
typedef struct layout {
    enum AVPixelFormat device, plain;
    int shift; /* the samples lie so many bits higher */
} layout;

static const layout layouts[] = {
    {AV_PIX_FMT_NV12, AV_PIX_FMT_YUV420P, 0},
    {AV_PIX_FMT_P010LE, AV_PIX_FMT_YUV420P10LE, 6},
    {AV_PIX_FMT_P016LE, AV_PIX_FMT_YUV420P12LE, 4},
    {AV_PIX_FMT_NV16, AV_PIX_FMT_YUV422P, 0},
    {AV_PIX_FMT_P210LE, AV_PIX_FMT_YUV422P10LE, 6},
};

/* count samples of `step` interleaved ones, to one plane. */
static void copy_row(uint8_t *to, const uint8_t *from, int count, int step, int bytes, int shift)
{
    for (int i = 0; i < count; i++) {
        const uint8_t *at = from + (ptrdiff_t)i * step * bytes;
        if (bytes == 1) {
            to[i] = *at;
        } else {
            unsigned value = ((unsigned)at[0] | (unsigned)at[1] << 8) >> shift;
            to[2 * i] = (uint8_t)value;
            to[2 * i + 1] = (uint8_t)(value >> 8);
        }
    }
}

/* The chroma of `from` lies in one plane, of `to` in two. The values are the same. */
static void separate(AVFrame *to, const AVFrame *from, int shift)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get((enum AVPixelFormat)to->format);
    int bytes = d->comp[0].step;
    int width = AV_CEIL_RSHIFT(from->width, d->log2_chroma_w), height = AV_CEIL_RSHIFT(from->height, d->log2_chroma_h);
    for (int y = 0; y < from->height; y++)
        copy_row(to->data[0] + (ptrdiff_t)y * to->linesize[0], from->data[0] + (ptrdiff_t)y * from->linesize[0],
                 from->width, 1, bytes, shift);
    for (int plane = 1; plane < 3; plane++)
        for (int y = 0; y < height; y++)
            copy_row(to->data[plane] + (ptrdiff_t)y * to->linesize[plane],
                     from->data[1] + (ptrdiff_t)y * from->linesize[1] + (ptrdiff_t)(plane - 1) * bytes, width, 2, bytes,
                     shift);
}

/* As libav's own decoders lay it out, so that colours are converted by the same arithmetic. */
static int lay_out(AVFrame *frame, AVFrame *spare)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (frame->format != layouts[i].device) continue;
        av_frame_unref(spare);
        spare->format = layouts[i].plain;
        spare->width = frame->width;
        spare->height = frame->height;
        int code = av_frame_get_buffer(spare, 0);
        if (code >= 0) code = av_frame_copy_props(spare, frame);
        if (code < 0) return code;
        separate(spare, frame, layouts[i].shift);
        av_frame_unref(frame);
        av_frame_move_ref(frame, spare);
        break;
    }
    return 0;
}

int lri_hardware_bring(AVFrame *frame, AVFrame *spare)
{
    av_frame_unref(spare);
    int code = lri_hardware.transfer(spare, frame);
    if (code >= 0) code = av_frame_copy_props(spare, frame);
    if (code >= 0) {
        av_frame_unref(frame);
        av_frame_move_ref(frame, spare);
        code = lay_out(frame, spare);
    }
    av_frame_unref(spare);
    return code;
}
