/* Where the pictures change their size or format inside a film. The index notes where that may be; the first
 * picture that decodes from there on says what they are. */
#include <string.h>

#include <libavutil/pixdesc.h>

#include "decode.h"

/* Packets that are looked through for the first picture from a place on. */
#define MOST_TRIED 64

/* The place of a packet where the pictures may change. */
lr_status lri_video_note_shape(lri_video_index *video, const AVStream *stream, const AVPacket *packet,
                               lr_error *err)
{
    lr_status st = LR_OK;
    uint64_t shape = lri_shape_of(stream->codecpar, packet);
    if (shape == 0 || shape == video->shape) return LR_OK;
    video->shape = shape;
    if (video->n_packets == 1 || video->n_places == LRI_MOST_CHANGES) return LR_OK;
    LR_TRY(LR_GROW(&video->places, &video->places_capacity, video->n_places + 1, "the index of the pictures",
                   err));
    video->places[video->n_places++] = (uint32_t)(video->n_packets - 1);
done:
    return st;
}

static lr_picture_kind kind_of(const lr_recording *recording, const lri_decoder *decoder)
{
    const AVFrame *frame = decoder->frame;
    const AVStream *stream = lri_stream_of(&decoder->source, recording->video.stream, &recording->video.reach);
    AVRational sar = frame->sample_aspect_ratio.num > 0 ? frame->sample_aspect_ratio
                                                        : stream->sample_aspect_ratio;
    lr_video_info info = {.coded_width = frame->width, .coded_height = frame->height};
    lr_picture_kind kind = {.from = lri_video_time(recording, lri_pts(&recording->video, (size_t)frame->pts))};
    if (!lri_set_display(&info, sar, recording->orientation.transposed)) return kind;
    kind.width = info.display_width;
    kind.height = info.display_height;
    const char *name = av_get_pix_fmt_name((enum AVPixelFormat)frame->format);
    if (name) (void)strncpy(kind.format, name, sizeof kind.format - 1);
    return kind;
}

/* The kind of the first picture that decodes at or behind a packet; *found false: none near. */
static lr_status look(const lr_recording *recording, lri_decoder *decoder, size_t place, lr_picture_kind *kind,
                      bool *found, lr_error *err)
{
    lr_status st = LR_OK;
    const lri_video_index *video = &recording->video;
    size_t limit = place + MOST_TRIED < video->n_packets ? place + MOST_TRIED : video->n_packets;
    *found = false;
    LR_TRY(lri_decoder_begin(decoder, lri_entry_of(video, place), err));
    for (bool got = true; got;) {
        LR_TRY(lri_decoder_next(decoder, limit, &got, err));
        if (!got || (size_t)decoder->frame->pts < place) continue;
        if (!(lri_flags(video, (size_t)decoder->frame->pts) & LRI_SHOWN)) continue;
        if (lri_frame_is_suspect(decoder)) continue;
        *kind = kind_of(recording, decoder);
        *found = kind->width > 0;
        break;
    }
done:
    return st;
}

static lr_status add(lr_recording *recording, const lr_picture_kind *kind, lr_error *err)
{
    lr_status st = LR_OK;
    lr_video_info *info = &recording->timeline.video;
    const lr_picture_kind *last = info->n_kinds > 0 ? &recording->kinds[info->n_kinds - 1] : NULL;
    if (last && last->width == kind->width && last->height == kind->height &&
        strcmp(last->format, kind->format) == 0)
        return LR_OK;
    if (last && last->from >= kind->from) return LR_OK;
    LR_TRY(LR_GROW(&recording->kinds, &recording->kinds_capacity, info->n_kinds + 1,
                   "the kinds of pictures", err));
    recording->kinds[info->n_kinds++] = *kind;
done:
    return st;
}

lr_status lri_find_changes(lr_recording *recording, lr_error *err)
{
    lr_status st = LR_OK;
    const lri_video_index *video = &recording->video;
    lri_decoder decoder = {.source = {.fd = -1}};
    lr_picture_kind kind;
    bool found = false;
    if (video->n_places == 0) return LR_OK;
    LR_TRY(lri_decoder_open(&decoder, recording, 1, err));
    LR_TRY(look(recording, &decoder, lri_shown(video, 0), &kind, &found, err));
    if (found) LR_TRY(add(recording, &kind, err));
    for (size_t i = 0; i < video->n_places; i++) {
        LR_TRY(look(recording, &decoder, video->places[i], &kind, &found, err));
        if (found) LR_TRY(add(recording, &kind, err));
    }
    lr_video_info *info = &recording->timeline.video;
    if (info->n_kinds == 1) info->n_kinds = 0;
    if (info->n_kinds > 0) info->kinds = recording->kinds;
done:
    lri_decoder_close(&decoder);
    return st;
}
