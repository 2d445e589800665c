/* What the head of a file says of itself: enough to put a batch in order. */
#include <longreel/ingest.h>

#include "avutil.h"

static void note_stream(const AVStream *stream, lr_glance *out)
{
    const int pictures = AV_DISPOSITION_ATTACHED_PIC | AV_DISPOSITION_TIMED_THUMBNAILS;
    if (stream->codecpar->codec_type == AVMEDIA_TYPE_AUDIO) out->has_audio = true;
    if (stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO && !(stream->disposition & pictures)) out->has_video = true;
}

lr_status lr_recording_glance(lr_glance *out, const char *path, lr_cancel *cancel, lr_error *err)
{
    lr_status st = LR_OK;
    lri_source source = {.fd = -1};
    *out = (lr_glance){0};
    lri_log_redirect();
    LR_TRY(lri_source_open(&source, path, cancel, err));
    LR_TRY(lri_source_demux(&source, err));
    if (source.format->duration > 0) out->seconds = (double)source.format->duration / AV_TIME_BASE;
    for (unsigned i = 0; i < source.format->nb_streams; i++) note_stream(source.format->streams[i], out);
done:
    lri_source_close(&source);
    return st;
}
