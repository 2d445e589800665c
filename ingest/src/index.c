/* One pass over the packets of the chosen picture and sound streams, without decoding. */
#include "recording.h"

#include "clock.h"

#include <stdio.h>
#include <string.h>

#include <xxhash.h>

/* ------------------------------------------------------------------ choice of streams */

static bool is_film(const AVStream *stream)
{
    const int pictures_of_something_else =
        AV_DISPOSITION_ATTACHED_PIC | AV_DISPOSITION_TIMED_THUMBNAILS;
    return stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
           !(stream->disposition & pictures_of_something_else);
}

/* The stream that libav takes for the main one, unless that is cover art. */
static int choose_video(const AVFormatContext *format)
{
    int best = av_find_best_stream((AVFormatContext *)(uintptr_t)format, AVMEDIA_TYPE_VIDEO, -1, -1,
                                   NULL, 0);
    if (best >= 0 && is_film(format->streams[best])) return best;
    best = -1;
    int64_t best_pixels = -1;
    for (unsigned i = 0; i < format->nb_streams; i++) {
        const AVCodecParameters *p = format->streams[i]->codecpar;
        int64_t pixels = (int64_t)p->width * p->height;
        if (!is_film(format->streams[i]) || pixels <= best_pixels) continue;
        best = (int)i;
        best_pixels = pixels;
    }
    return best;
}

static lr_status choose_audio(const lr_recording *recording, const AVFormatContext *format,
                              int video, int *chosen, lr_error *err)
{
    *chosen = -1;
    int wanted = recording->options.audio_track, count = 0;
    if (wanted < 0) {
        *chosen = av_find_best_stream((AVFormatContext *)(uintptr_t)format, AVMEDIA_TYPE_AUDIO, -1,
                                      video, NULL, 0);
        return LR_OK;
    }
    for (unsigned i = 0; i < format->nb_streams; i++) {
        if (format->streams[i]->codecpar->codec_type != AVMEDIA_TYPE_AUDIO) continue;
        if (count++ == wanted) *chosen = (int)i;
    }
    if (*chosen < 0 && count == 0)
        return lr_fail(err, LR_E_USAGE, "%s: has no sound track %d (it has none)", recording->path, wanted);
    if (*chosen < 0)
        return lr_fail(err, LR_E_USAGE, "%s: has no sound track %d (it has %d, counted from 0)",
                       recording->path, wanted, count);
    return LR_OK;
}

/* -1 in *stream where it cannot be decoded, with a warning. */
static lr_status check_decodable(lr_recording *recording, const AVFormatContext *format, int *stream,
                                 const char *kind, lr_error *err)
{
    if (*stream < 0) {
        *stream = -1;
        return LR_OK;
    }
    const AVCodecParameters *p = format->streams[*stream]->codecpar;
    const AVRational tick = format->streams[*stream]->time_base;
    bool usable = avcodec_find_decoder(p->codec_id) != NULL && tick.num > 0 && tick.den > 0;
    char details[64] = "";
    if (p->codec_type == AVMEDIA_TYPE_AUDIO) {
        usable = usable && lri_is_sound(p->sample_rate, p->ch_layout.nb_channels);
        (void)snprintf(details, sizeof details, ", %d Hz, %d channel(s)", p->sample_rate,
                       p->ch_layout.nb_channels);
    } else if ((int64_t)p->width * p->height > LRI_MAX_PIXELS) {
        usable = false;
        (void)snprintf(details, sizeof details, ", %d x %d pixels", p->width, p->height);
    }
    if (usable) return LR_OK;
    lr_status st = lri_recording_warn(recording, err, "the %s stream %d (%s%s) cannot be decoded", kind,
                                      *stream, lri_codec_name(p->codec_id), details);
    *stream = -1;
    return st;
}

/* ------------------------------------------------------------------ packets */

uint32_t lri_packet_check(const AVPacket *packet)
{
    return (uint32_t)XXH3_64bits_withSeed(packet->data, (size_t)packet->size,
                                          (XXH64_hash_t)packet->pos);
}

/* A packet may hold two pictures; the decoder then gives the second one at the next packet, which is a
 * short placeholder, or holds the one that is given after that. */
static lri_picture_kind unpack(lri_video_index *video, lri_picture_kind kind, int packet_bytes)
{
    enum { PLACEHOLDER_BYTES = 19 };
    char waiting = video->packed;
    video->packed = kind.packed;
    if (kind.packed || !waiting) return kind;
    if (packet_bytes > PLACEHOLDER_BYTES) video->packed = kind.type;
    return (lri_picture_kind){.shown = true, .reference = waiting != 'B', .type = waiting};
}

/* What no picture of its own temporal layer refers to, one of a higher layer may: only in the highest layer
 * of the file nothing does. */
static void settle_layer(lri_video_index *video, lri_picture_kind *kind)
{
    if (kind->layer > video->layer) {
        video->layer = kind->layer;
        for (size_t i = 0; i < video->n_packets; i++) video->packets[i].flags |= LRI_REFERENCE;
    }
    if (kind->layer < video->layer) kind->reference = true;
}

/* What tells of pictures that are lost: missing.c. */
static lr_status note_number(lri_video_index *video, const AVStream *stream, const AVPacket *packet,
                             const lri_picture_kind *kind, lr_error *err)
{
    lr_status st = LR_OK;
    bool mpeg = video->codec == AV_CODEC_ID_MPEG1VIDEO || video->codec == AV_CODEC_ID_MPEG2VIDEO;
    if (!video->loses_silently) return LR_OK;
    (void)lri_cycle_of(stream->codecpar, packet->data, (size_t)packet->size, &video->cycle);
    if (!mpeg) return LR_OK;
    LR_TRY(LR_GROW(&video->numbers, &video->numbers_capacity, video->n_packets, "the index of the pictures", err));
    video->numbers[video->n_packets - 1] = kind->number | (kind->restarts ? LRI_RESTARTS : 0);
done:
    return st;
}

/* Of the packet that was added last. A second field lasts as long as the first did, whatever the container says of
 * whole pictures. */
static int64_t duration_of(const lri_video_index *video, const AVPacket *packet)
{
    int64_t first, n = (int64_t)video->n_packets - 1;
    if (!(video->packets[n].flags & LRI_SECOND) || packet->pts == AV_NOPTS_VALUE) return packet->duration;
    if (video->packets[n - 1].pts == AV_NOPTS_VALUE ||
        __builtin_sub_overflow(packet->pts, video->packets[n - 1].pts, &first) || first <= 0)
        return packet->duration;
    return first < packet->duration ? first : packet->duration;
}

static lr_status add_picture(lr_recording *recording, const AVStream *stream, const AVPacket *packet,
                             lr_error *err)
{
    lri_video_index *video = &recording->video;
    if (video->n_packets == UINT32_MAX)
        return lr_fail(err, LR_E_FORMAT, "%s: too many pictures", recording->path);
    lr_status st = LR_GROW(&video->packets, &video->capacity, video->n_packets + 1,
                           "the index of the pictures", err);
    if (st != LR_OK) return st;
    lri_picture_kind kind = lri_picture_look(stream->codecpar, packet->data, (size_t)packet->size,
                                             (packet->flags & AV_PKT_FLAG_KEY) != 0);
    kind = unpack(video, kind, packet->size);
    settle_layer(video, &kind);
    lri_packet *entry = &video->packets[video->n_packets++];
    *entry = (lri_packet){.pts = packet->pts, .seek = packet->dts, .check = lri_packet_check(packet)};
    if (entry->seek == AV_NOPTS_VALUE) entry->seek = packet->pts;
    unsigned flags = 0;
    if (kind.shown && !(packet->flags & AV_PKT_FLAG_DISCARD)) flags |= LRI_SHOWN;
    if (kind.entry == LRI_ENTRY_OPEN) flags |= LRI_OPEN;
    if (kind.entry == LRI_ENTRY_CLOSED) flags |= LRI_CLOSED;
    if (kind.reference) flags |= LRI_REFERENCE;
    if (kind.type == 'B') flags |= LRI_B;
    if (packet->flags & AV_PKT_FLAG_CORRUPT) flags |= LRI_CORRUPT;
    if (packet->pts == AV_NOPTS_VALUE) flags |= LRI_NO_PTS;
    entry->flags = (uint16_t)flags;
    if (flags & (LRI_OPEN | LRI_CLOSED)) video->n_entries++;
    st = lri_video_note_order(recording, stream, packet, err);
    if (st != LR_OK) return st;
    st = lri_video_note_shape(video, stream, packet, err);
    if (st == LR_OK) st = note_number(video, stream, packet, &kind, err);
    if (st == LR_OK) st = lri_headers_note(&video->headers, video->n_packets - 1, stream->codecpar, packet, err);
    if (st != LR_OK) return st;
    if (packet->duration > 0) video->typical = packet->duration;
    int64_t end, duration = duration_of(video, packet);
    if ((flags & LRI_SHOWN) && packet->pts != AV_NOPTS_VALUE && duration > 0 &&
        !__builtin_add_overflow(packet->pts, duration, &end) && end > video->last_end)
        video->last_end = end;
    return LR_OK;
}

/* Where the demuxer lost its way between two pictures, bytes are missing behind the first. It says so when it has
 * gone astray, and may come back to a place before that: what tells is bytes that no packet accounts for. */
static void note_lost(lri_video_index *video, const lri_source *source, const AVPacket *packet)
{
    int64_t last = video->last_place, unexplained = packet->pos - last - video->explained;
    if (packet->pos < 0) return;
    video->last_place = packet->pos;
    video->explained = 0;
    if (video->n_packets > 0 && unexplained > 0 && lri_source_lost(source, last))
        video->packets[video->n_packets - 1].flags |= LRI_CORRUPT | LRI_DOUBTED;
}

/* Whether near packet n a picture is followed by the next as all are: then no picture is missing there. */
static bool goes_on(const lri_video_index *video, size_t n)
{
    enum { NEAR = 16, REACH = 48 }; /* no codec reorders by more than 16 */
    size_t first = n > REACH ? n - REACH : 0, end = n + REACH < video->n_packets ? n + REACH : video->n_packets;
    if (video->typical <= 0) return false;
    for (size_t i = n > NEAR ? n - NEAR : 0; i < end && i <= n + NEAR; i++) {
        int64_t at = video->packets[i].pts, next = INT64_MAX, step;
        for (size_t j = first; j < end; j++)
            if (video->packets[j].pts > at && video->packets[j].pts < next) next = video->packets[j].pts;
        if (next == INT64_MAX) continue;
        if (__builtin_sub_overflow(next, at, &step) || step - video->typical > video->typical / 2)
            return false;
    }
    return true;
}

static void confirm_lost(lri_video_index *video)
{
    for (size_t i = 0; i < video->n_packets; i++) {
        lri_packet *packet = &video->packets[i];
        if ((packet->flags & LRI_DOUBTED) && goes_on(video, i)) packet->flags &= (uint16_t)~LRI_CORRUPT;
        packet->flags &= (uint16_t)~LRI_DOUBTED;
        video->any_gap = video->any_gap || (packet->flags & LRI_CORRUPT);
    }
}

/* A packet of the picture (kind 0) or the sound (1). Only formats that say so have clocks that step. */
static lr_status add_packet(lr_recording *recording, lri_source *source, lri_clock clocks[2], int kind,
                            lr_error *err)
{
    enum { HEADERS = 32 }; /* of a packet in the container, at most */
    AVPacket *packet = source->packet;
    AVStream *stream = source->format->streams[packet->stream_index];
    bool lost = lri_recount(source->format->iformat, stream, packet, &clocks[kind].missing);
    if (lost && kind == 0 && recording->video.n_packets > 0)
        recording->video.packets[recording->video.n_packets - 1].flags |= LRI_CORRUPT;
    if (kind == 0) note_lost(&recording->video, source, packet);
    lr_status st = lri_reach_add(kind == 0 ? &recording->video.reach : &recording->audio.reach, source, packet, err);
    if (st != LR_OK) return st;
    recording->video.explained += packet->size + HEADERS;
    int64_t dts = packet->dts, pts = packet->pts;
    if (source->format->iformat->flags & AVFMT_TS_DISCONT)
        lri_clock_correct(&clocks[kind], &clocks[1 - kind], stream->time_base, packet);
    if (kind == 1) return lri_sound_index_add(recording, stream, packet, err);
    st = add_picture(recording, stream, packet, err);
    /* The demuxer is asked for what lies in the file. */
    if (st == LR_OK)
        recording->video.packets[recording->video.n_packets - 1].seek =
            dts == AV_NOPTS_VALUE ? pts : dts;
    return st;
}

static lr_status warn_of_steps(lr_recording *recording, const lri_clock clocks[2], lr_error *err)
{
    size_t steps = clocks[0].n_steps > clocks[1].n_steps ? clocks[0].n_steps : clocks[1].n_steps;
    if (steps == 0) return LR_OK;
    return lri_recording_warn(recording, err, "the clock was set anew %zu time(s): it goes on", steps);
}

static lr_status read_packets(lr_recording *recording, lri_source *source, lr_error *err)
{
    lri_clock clocks[2] = {{0}, {0}};
    /* Each packet takes bytes of the file; a demuxer that goes on without is running in a circle. */
    int64_t limit = source->bytes + 4096;
    for (int64_t count = 0;; count++) {
        bool got;
        lr_status st = lri_source_read(source, &got, err);
        if (st != LR_OK) return st;
        if (!got) return warn_of_steps(recording, clocks, err);
        if (count > limit)
            return lr_fail(err, LR_E_FORMAT, "%s: more packets than bytes", recording->path);
        const AVPacket *packet = source->packet;
        if (packet->size <= 0) continue;
        if (packet->stream_index == recording->video.stream)
            st = add_packet(recording, source, clocks, 0, err);
        else if (packet->stream_index == recording->audio.stream)
            st = add_packet(recording, source, clocks, 1, err);
        if (st != LR_OK) return st;
    }
}

/* Of a file that does have the other kind this says what is missing. */
static lr_status fail_empty(const lr_recording *recording, lr_error *err)
{
    const char *decoded = recording->n_warnings > 0 ? " that can be decoded" : "";
    if (!recording->options.video)
        return lr_fail(err, LR_E_NO_MEDIA, "%s: has no sound%s", recording->path, decoded);
    if (!recording->options.audio)
        return lr_fail(err, LR_E_NO_MEDIA, "%s: has no pictures%s", recording->path, decoded);
    return lr_fail(err, LR_E_NO_MEDIA, "%s: holds neither picture nor sound that can be decoded",
                   recording->path);
}

lr_status lri_index_make(lr_recording *recording, lri_source *source, lr_error *err)
{
    lr_status st = LR_OK;
    AVFormatContext *format = source->format;
    lri_video_index *video = &recording->video;
    lri_audio_index *audio = &recording->audio;
    video->stream = choose_video(format);
    LR_TRY(choose_audio(recording, format, video->stream, &audio->stream, err));
    if (!recording->options.video) video->stream = -1;
    if (!recording->options.audio) audio->stream = -1;
    LR_TRY(check_decodable(recording, format, &video->stream, "picture", err));
    LR_TRY(check_decodable(recording, format, &audio->stream, "sound", err));
    if (video->stream < 0 && audio->stream < 0) {
        st = fail_empty(recording, err);
        goto done;
    }
    for (unsigned i = 0; i < format->nb_streams; i++)
        if ((int)i != video->stream && (int)i != audio->stream)
            format->streams[i]->discard = AVDISCARD_ALL;
    if (video->stream >= 0) {
        video->time_base = format->streams[video->stream]->time_base;
        video->codec = format->streams[video->stream]->codecpar->codec_id;
        video->colour = (lri_colour){AVCOL_SPC_UNSPECIFIED, AVCOL_PRI_UNSPECIFIED, AVCOL_TRC_UNSPECIFIED,
                                     AVCOL_RANGE_UNSPECIFIED};
        if (video->stream < (int)source->n_colours) video->colour = source->colours[video->stream];
        const AVDictionaryEntry *alpha = av_dict_get(format->streams[video->stream]->metadata, "alpha_mode", NULL, 0);
        video->transparent = alpha && strcmp(alpha->value, "1") == 0;
        /* libav's parser gives a picture out when the next one begins, with the mark of that. */
        video->marks_late = strcmp(format->iformat->name, "mpegts") == 0;
        video->loses_silently = video->marks_late || strcmp(format->iformat->name, "mpeg") == 0;
        LR_TRY(lri_reach_begin(&video->reach, source, format->streams[video->stream], err));
    }
    if (audio->stream >= 0) {
        audio->time_base = format->streams[audio->stream]->time_base;
        audio->rate = format->streams[audio->stream]->codecpar->sample_rate;
        LR_TRY(lri_reach_begin(&audio->reach, source, format->streams[audio->stream], err));
    }
    video->last_end = INT64_MIN;
    LR_TRY(read_packets(recording, source, err));
    recording->astray = lri_source_lost(source, -1);
    recording->lost_end = video->n_packets > 0 && lri_source_lost(source, video->last_place);
    if (video->n_packets > 0 && strncmp(format->iformat->name, "matroska", 8) == 0)
        LR_TRY(lri_video_drop_strays(video, err));
    if (video->n_packets > 0)
        LR_TRY(lri_video_order(recording, format->streams[video->stream], err));
    confirm_lost(video);
    if (audio->n_packets > 0)
        LR_TRY(lri_sound_index_finish(recording, format->streams[audio->stream], err));
    if (video->n_packets > 0) LR_TRY(lri_video_seal(video, err));
    if (video->n_shown == 0) video->stream = -1;
    if (audio->n_runs == 0) audio->stream = -1;
    if (video->stream < 0 && audio->stream < 0)
        st = fail_empty(recording, err);
done:
    return st;
}
