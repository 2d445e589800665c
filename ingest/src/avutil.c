#include "avutil.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

lr_status lri_av_fail(lr_error *err, int averror, lr_status otherwise, const char *format, ...)
{
    char context[LR_ERROR_TEXT / 2], cause[AV_ERROR_MAX_STRING_SIZE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(context, sizeof context, format, args);
    va_end(args);
    if (averror == AVERROR(ENOMEM)) return lr_fail(err, LR_E_NOMEM, "%s: out of memory", context);
    if (averror == AVERROR_EXIT) return lr_fail(err, LR_E_INTERRUPTED, "%s: cancelled", context);
    (void)av_strerror(averror, cause, sizeof cause);
    return lr_fail(err, otherwise, "%s: %s", context, cause);
}

/* What the H.264 decoder calls an error though the pictures are right: orders to forget a picture that
 * it has not seen, after an entry in the middle, and streams that state too few reference frames. */
static const char *const harmless[] = {"mmco:", "number of reference frames",
                                       "Could not update timestamps"};

static bool is_harmless(const AVCodecContext *codec, const char *text)
{
    if (codec->codec_id == AV_CODEC_ID_H261 && strstr(text, "first frame is no keyframe")) return true;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strstr(text, harmless[i])) return true;
    return false;
}

static void note_lost(const AVFormatContext *format)
{
    lri_lost *lost = format->opaque;
    if (!lost || !format->pb) return;
    size_t place = lost->count < LRI_MOST_LOST ? lost->count++ : LRI_MOST_LOST - 1;
    lost->at[place] = avio_tell(format->pb);
}

/* Matroska's demuxer takes what it does not know for something newer than itself, and passes over it. */
static bool leads_astray(int level, const char *format)
{
    return level <= AV_LOG_ERROR || strncmp(format, "Unknown entry", 13) == 0;
}

static void on_libav_log(void *context, int level, const char *format, va_list args)
{
    const AVClass *class = context ? *(const AVClass *const *)context : NULL;
    if (class && class == avformat_get_class() && leads_astray(level, format)) note_lost(context);
    if (level > AV_LOG_INFO) return;
    char text[1024];
    int length = vsnprintf(text, sizeof text, format, args);
    if (length < 0) return;
    const char *name = class && class->item_name ? class->item_name(context) : "libav";
    /* Error concealment announces itself as information. */
    bool fault = level <= AV_LOG_ERROR || strncmp(text, "concealing ", 11) == 0;
    if (fault && class && class == avcodec_get_class() && !is_harmless(context, text)) {
        lri_watch *watch = ((const AVCodecContext *)context)->opaque;
        if (watch) atomic_fetch_add(&watch->errors, 1);
    }
    text[strcspn(text, "\r\n")] = '\0';
    if (*text) lr_log(LR_LOG_DEBUG, "%s: %s", name, text);
}

static void redirect(void)
{
    av_log_set_callback(on_libav_log);
}

void lri_log_redirect(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, redirect);
}

const char *lri_codec_name(enum AVCodecID id)
{
    const AVCodecDescriptor *descriptor = avcodec_descriptor_get(id);
    return descriptor ? descriptor->name : "unknown";
}
