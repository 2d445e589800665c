#include "decode.h"

#include "canary.h"
#include "hardware.h"

#include <string.h>

/* How far a seek may land before its target, in packets, before the file is read from its start. */
#define MOST_SKIPPED 20000
/* An open entry's leading pictures follow it at once in the file; no codec has more of them. */
#define MOST_LEADING 64
/* Packets that are sooner read over than sought for. */
#define MOST_READ_OVER 64

bool lri_leads(const lri_video_index *video, size_t entry, size_t ordinal)
{
    if (!(lri_flags(video, entry) & LRI_OPEN) || ordinal <= entry) return false;
    if (lri_pts(video, ordinal) < lri_pts(video, entry)) return true;
    /* Where the type is known, B-pictures right behind an entry lead it whatever their stamps say. */
    for (size_t i = ordinal; i > entry; i--)
        if (!(lri_flags(video, i) & LRI_B)) return false;
    return true;
}

size_t lri_entry_of(const lri_video_index *video, size_t ordinal)
{
    return (size_t)lri_numbers_get(&video->entry, ordinal);
}

size_t lri_last_entry(const lri_video_index *video, size_t ordinal)
{
    size_t i = ordinal;
    while (i > 0 && !lri_is_entry(video, i)) i--;
    return i;
}

size_t lri_leading_end(const lri_video_index *video, size_t entry)
{
    size_t end = entry;
    for (size_t i = entry + 1; i < video->n_packets && i <= entry + MOST_LEADING; i++) {
        if (lri_is_entry(video, i)) break;
        if (lri_leads(video, entry, i)) end = i + 1;
    }
    return end;
}

bool lri_gap_behind(const lri_video_index *video, size_t ordinal)
{
    if (video->marks_late) return ordinal > 0 && (lri_flags(video, ordinal - 1) & LRI_CORRUPT);
    return (lri_flags(video, ordinal) & LRI_CORRUPT) != 0;
}

/* ------------------------------------------------------------------ opening */

static lr_status open_source(lri_decoder *decoder, lr_error *err)
{
    const lr_recording *recording = decoder->recording;
    lri_source_close(&decoder->source);
    decoder->direct = recording->video.reach.direct && !decoder->demuxes;
    decoder->next = 0;
    decoder->held = false;
    lr_status st = lri_recording_reopen(recording, &decoder->source, !decoder->direct, err);
    if (st != LR_OK || decoder->direct) return st;
    AVFormatContext *format = decoder->source.format;
    if (recording->video.stream >= (int)format->nb_streams)
        return lr_fail(err, LR_E_IO, "%s: changed while it was read", recording->path);
    lri_source_keep(&decoder->source, recording->video.stream, recording->audio.stream,
                    recording->astray || decoder->reads_both);
    return LR_OK;
}

/* These guess settings from all they have seen so far, and some of their errors with them: in the order of
 * the file, then, and from each entry anew, or what comes would depend on threads and on where a reader
 * began. */
static bool is_guessing(enum AVCodecID codec)
{
    switch (codec) {
    case AV_CODEC_ID_MPEG4:
    case AV_CODEC_ID_MSMPEG4V1:
    case AV_CODEC_ID_MSMPEG4V2:
    case AV_CODEC_ID_MSMPEG4V3:
    case AV_CODEC_ID_WMV1:
    case AV_CODEC_ID_WMV2:
    case AV_CODEC_ID_H263:
    case AV_CODEC_ID_FLV1: return true;
    default: return false;
    }
}

/* Each entry gets a codec of its own. FFV1 keeps its coder's tables over a key picture whose header is
 * damaged, without an error. */
static bool is_sticky(const lri_decoder *decoder)
{
    enum AVCodecID codec = decoder->codec->codec_id;
    return codec == AV_CODEC_ID_FFV1 || is_guessing(codec);
}

static const AVCodec *find_codec(const lri_video_index *video)
{
    const AVCodec *codec = NULL;
    if (video->transparent && video->codec == AV_CODEC_ID_VP9) codec = avcodec_find_decoder_by_name("libvpx-vp9");
    if (video->transparent && video->codec == AV_CODEC_ID_VP8) codec = avcodec_find_decoder_by_name("libvpx");
    return codec ? codec : avcodec_find_decoder(video->codec);
}

static lr_status open_codec(lri_decoder *decoder, lr_error *err)
{
    const lr_recording *recording = decoder->recording;
    const AVCodecParameters *parameters =
        lri_stream_of(&decoder->source, recording->video.stream, &recording->video.reach)->codecpar;
    const AVCodec *codec = find_codec(&recording->video);
    if (!codec)
        return lr_fail(err, LR_E_UNSUPPORTED, "%s: no decoder for %s", recording->path,
                       lri_codec_name(parameters->codec_id));
    decoder->codec = avcodec_alloc_context3(codec);
    decoder->headers = 0;
    /* A picture that was taken outlives the codec that it came from. */
    if (!decoder->frame) decoder->frame = av_frame_alloc();
    if (!decoder->packet) decoder->packet = av_packet_alloc();
    if (!decoder->codec || !decoder->frame || !decoder->packet)
        return lr_fail(err, LR_E_NOMEM, "%s: out of memory: a decoder", recording->path);
    AVCodecContext *c = decoder->codec;
    int code = avcodec_parameters_to_context(c, parameters);
    if (code < 0) return lri_av_fail(err, code, LR_E_FORMAT, "%s: stream %d", recording->path,
                                     recording->video.stream);
    c->opaque = &decoder->watch;
    decoder->on_hardware = decoder->may_use_hardware && lri_hardware_works(recording);
    if (decoder->on_hardware) {
        lr_status st = lri_hardware_use(recording, c, err);
        if (st != LR_OK) return st;
    } else {
        lri_canary_use(c);
    }
    c->max_pixels = LRI_MAX_PIXELS;
    c->err_recognition |= AV_EF_CRCCHECK;
    /* Without it, draining loses the pictures behind a recovery point that has not been output. What
     * is really wrong is marked, and found out. */
    c->flags |= AV_CODEC_FLAG_OUTPUT_CORRUPT;
    /* libav raises it when a picture comes too late, and drops that one; the index knows better. */
    if (codec->id == AV_CODEC_ID_H264 && c->has_b_frames < recording->video.reorder)
        c->has_b_frames = recording->video.reorder;
    c->thread_count = decoder->on_hardware || is_guessing(codec->id) ? 1 : decoder->threads;
    /* Whole pictures: which errors a codec notices depends on how it divides one. */
    c->thread_type = FF_THREAD_FRAME;
    code = avcodec_open2(c, codec, NULL);
    if (code < 0)
        return lri_av_fail(err, code, LR_E_UNSUPPORTED, "%s: stream %d (%s) cannot be decoded",
                           recording->path, recording->video.stream, codec->name);
    return LR_OK;
}

static lr_status reopen_codec(lri_decoder *decoder, lr_error *err)
{
    lr_error cause = {0};
    for (;;) {
        avcodec_free_context(&decoder->codec);
        lr_status st = open_codec(decoder, &cause);
        if (st == LR_OK) return LR_OK;
        if (!decoder->on_hardware || st == LR_E_NOMEM) return lr_fail(err, st, "%s", cause.text);
        lri_hardware_give_up(decoder->recording, "cannot decode it");
    }
}

lr_status lri_decoder_allow_hardware(lri_decoder *decoder, lr_error *err)
{
    decoder->may_use_hardware = true;
    if (!lri_hardware_works(decoder->recording)) return LR_OK;
    decoder->spare = av_frame_alloc();
    if (!decoder->spare) return lr_fail(err, LR_E_NOMEM, "%s: out of memory: a decoder", decoder->recording->path);
    return reopen_codec(decoder, err);
}

lr_status lri_decoder_open(lri_decoder *decoder, const lr_recording *recording, int threads,
                           lr_error *err)
{
    memset(decoder, 0, sizeof *decoder);
    decoder->source.fd = -1;
    decoder->recording = recording;
    decoder->threads = threads < 1 ? 1 : threads > 64 ? 64 : threads;
    decoder->renew_at = decoder->renew_end = SIZE_MAX;
    decoder->also = SIZE_MAX;
    lr_status st = open_source(decoder, err);
    return st == LR_OK ? open_codec(decoder, err) : st;
}

void lri_decoder_close(lri_decoder *decoder)
{
    avcodec_free_context(&decoder->codec);
    av_frame_free(&decoder->frame);
    av_frame_free(&decoder->spare);
    av_packet_free(&decoder->packet);
    lri_source_close(&decoder->source);
}

/* ------------------------------------------------------------------ packets */

/* The next packet of the pictures as it lies in the file, into `packet`. */
static lr_status read_picture(lri_decoder *decoder, bool *got, lr_error *err)
{
    for (;;) {
        lr_status st = lri_source_read(&decoder->source, got, err);
        if (st != LR_OK || !*got) return st;
        AVPacket *read = decoder->source.packet;
        if (read->stream_index != decoder->recording->video.stream || read->size <= 0) continue;
        av_packet_unref(decoder->packet);
        av_packet_move_ref(decoder->packet, read);
        return LR_OK;
    }
}

static bool is_packet(const lri_decoder *decoder, size_t ordinal)
{
    return lri_packet_check(decoder->packet) == decoder->recording->video.checks[ordinal];
}

/* The same payload may come again later: one of its stamps must fit as well. */
static bool is_stamped(const lri_decoder *decoder, size_t ordinal)
{
    const lri_video_index *video = &decoder->recording->video;
    const AVPacket *packet = decoder->packet;
    return packet->dts == AV_NOPTS_VALUE || packet->dts == lri_seek(video, ordinal) ||
           packet->pts == AV_NOPTS_VALUE || packet->pts == lri_pts(video, ordinal);
}

/* Seeks to `back` seconds before the entry's stamp and reads up to the entry. *found false: it did
 * not come. */
static lr_status seek_to(lri_decoder *decoder, size_t entry, int back, bool *found, lr_error *err)
{
    const lri_video_index *video = &decoder->recording->video;
    int64_t stamp = lri_seek(video, entry);
    *found = false;
    if (stamp == AV_NOPTS_VALUE) return LR_OK;
    stamp = lri_saturate((lri_wide)stamp - av_rescale_q(back, (AVRational){1, 1}, video->time_base));
    if (av_seek_frame(decoder->source.format, video->stream, stamp, AVSEEK_FLAG_BACKWARD) < 0)
        return LR_OK;
    for (int skipped = 0; skipped < MOST_SKIPPED; skipped++) {
        bool got;
        lr_status st = read_picture(decoder, &got, err);
        if (st != LR_OK || !got) return st;
        if (is_packet(decoder, entry) && is_stamped(decoder, entry)) {
            *found = true;
            decoder->held = true;
            return LR_OK;
        }
        int64_t dts = decoder->packet->dts;
        if (dts != AV_NOPTS_VALUE && dts > lri_seek(video, entry)) return LR_OK;
    }
    return LR_OK;
}

/* From the start of the file, counting; *found false: what came was not what the index saw. */
static lr_status count_to(lri_decoder *decoder, size_t entry, bool *found, lr_error *err)
{
    lr_status st = open_source(decoder, err);
    *found = true;
    for (size_t i = 0; st == LR_OK && *found && i <= entry; i++) {
        bool got = false;
        st = read_picture(decoder, &got, err);
        *found = got && is_packet(decoder, i);
    }
    decoder->held = st == LR_OK && *found;
    return st;
}

/* That is always right, if not always quick; at the latest when the same streams are read as for the index. */
static lr_status walk_to(lri_decoder *decoder, size_t entry, lr_error *err)
{
    bool found = false;
    lr_status st = count_to(decoder, entry, &found, err);
    if (st == LR_OK && !found && !decoder->reads_both) {
        decoder->reads_both = true;
        st = count_to(decoder, entry, &found, err);
    }
    if (st == LR_OK && !found)
        st = lr_fail(err, LR_E_IO, "%s: changed while it was read", decoder->recording->path);
    return st;
}

/* Reads on to an entry a little further in the file. */
static lr_status skip_to(lri_decoder *decoder, size_t entry, bool *found, lr_error *err)
{
    *found = false;
    if (!decoder->opened || entry < decoder->next || entry - decoder->next > MOST_READ_OVER)
        return LR_OK;
    for (; decoder->held == false || decoder->next < entry; decoder->next++) {
        bool got = true;
        lr_status st = decoder->held ? LR_OK : read_picture(decoder, &got, err);
        if (st != LR_OK) return st;
        if (!got || !is_packet(decoder, decoder->next)) return LR_OK;
        decoder->held = decoder->next == entry;
        if (decoder->held) break;
    }
    *found = true;
    return LR_OK;
}

/* Hardware that meets anything wrong, in the file or in itself, is done with this file. Decoding begins again before the
 * pictures that may be under way. */
static lr_status leave_hardware(lri_decoder *decoder, bool *got, lr_error *err)
{
    bool wrong = lri_decoder_is_suspect(decoder) || (*got && lri_frame_is_suspect(decoder));
    if (!decoder->on_hardware || !wrong) return LR_OK;
    lri_hardware_give_up(decoder->recording, "failed");
    if (*got) av_frame_unref(decoder->frame);
    *got = false;
    const lri_video_index *video = &decoder->recording->video;
    size_t from = decoder->next > LRI_MOST_DELAY ? decoder->next - LRI_MOST_DELAY : 0;
    from = lri_entry_of(video, from < video->n_packets ? from : video->n_packets - 1);
    decoder->stale = true;
    return lri_decoder_begin(decoder, from > decoder->began ? from : decoder->began, err);
}

lr_status lri_decoder_begin(lri_decoder *decoder, size_t entry, lr_error *err)
{
    lr_status st = LR_OK;
    bool found = false;
    if (decoder->on_hardware && !lri_hardware_works(decoder->recording)) decoder->stale = true;
    if (lri_headers_until(&decoder->recording->video.headers, entry) < decoder->headers) decoder->stale = true;
    if (decoder->opened && (decoder->stale || decoder->always_new || is_sticky(decoder)))
        LR_TRY(reopen_codec(decoder, err));
    else if (decoder->opened) avcodec_flush_buffers(decoder->codec);
    decoder->draining = decoder->ended = decoder->renewing = decoder->stale = false;
    decoder->renew_at = decoder->renew_end = SIZE_MAX;
    decoder->faults = 0;
    atomic_store(&decoder->watch.errors, 0);
    double start = lri_clock_now();
    decoder->work.begins++;
    if (!decoder->direct) LR_TRY(skip_to(decoder, entry, &found, err));
    if (!found) decoder->held = false;
    found = found || decoder->direct;
    if (!found && entry > 0) {
        LR_TRY(seek_to(decoder, entry, 0, &found, err));
        if (!found) LR_TRY(seek_to(decoder, entry, 3, &found, err));
    }
    if (!found) LR_TRY(walk_to(decoder, entry, err));
    decoder->began = decoder->next = entry;
    decoder->opened = true;
    decoder->work.read += lri_clock_now() - start;
done:
    return st;
}

/* ------------------------------------------------------------------ decoding */

bool lri_packet_passes(const lri_video_index *video, const uint8_t *keep, size_t ordinal)
{
    if (!keep || (lri_flags(video, ordinal) & (LRI_REFERENCE | LRI_OPEN)) || is_guessing(video->codec))
        return false;
    /* The packet behind a wanted one may be the second field of its picture. */
    size_t before = ordinal > 0 ? ordinal - 1 : 0;
    return !((keep[ordinal / 8] >> ordinal % 8 | keep[before / 8] >> before % 8) & 1);
}

bool lri_decoder_passes(const lri_decoder *decoder, size_t ordinal)
{
    const lri_video_index *video = &decoder->recording->video;
    if ((lri_flags(video, ordinal) & (LRI_REFERENCE | LRI_OPEN)) || is_guessing(video->codec)) return false;
    if (decoder->avoid && decoder->avoid(decoder->avoid_arg, ordinal)) return true;
    bool also = decoder->also != SIZE_MAX && (ordinal == decoder->also || ordinal == decoder->also + 1);
    return !also && lri_packet_passes(video, decoder->keep, ordinal);
}

/* The packet `next` from where the index saw it. */
static lr_status read_direct(lri_decoder *decoder, bool *got, lr_error *err)
{
    lr_status st = lri_reach_read(&decoder->recording->video.reach, &decoder->source, decoder->next, decoder->packet,
                                  got, err);
    if (st == LR_OK && *got && !is_packet(decoder, decoder->next)) *got = false;
    if (st == LR_OK && !*got) decoder->demuxes = true;
    return st;
}

/* The packet `next` into `packet`. Readers after a seek must give what the index saw; where they do
 * not, the file is read again from its start. */
static lr_status hold_next(lri_decoder *decoder, bool *got, lr_error *err)
{
    lr_status st = LR_OK;
    *got = true;
    if (decoder->held) return LR_OK;
    if (decoder->next >= decoder->recording->video.n_packets) {
        *got = false;
        return LR_OK;
    }
    if (decoder->direct) LR_TRY(read_direct(decoder, got, err));
    else LR_TRY(read_picture(decoder, got, err));
    if (!*got || !is_packet(decoder, decoder->next)) {
        lr_log(LR_LOG_DEBUG, "%s: packet %zu is not where a seek led: reading from the start",
               decoder->recording->path, decoder->next);
        size_t ordinal = decoder->next;
        LR_TRY(walk_to(decoder, ordinal, err));
        decoder->next = ordinal;
    }
    decoder->held = *got = true;
done:
    return st;
}

static int put_headers(lri_decoder *decoder)
{
    const lri_headers *headers = &decoder->recording->video.headers;
    size_t known = decoder->headers;
    decoder->headers = lri_headers_until(headers, decoder->next);
    return lri_headers_put(headers, known, decoder->headers, decoder->packet);
}

/* avcodec_send_packet, timed. */
static int send(lri_decoder *decoder, AVPacket *packet)
{
    double start = lri_clock_now();
    int code = avcodec_send_packet(decoder->codec, packet);
    decoder->work.decode += lri_clock_now() - start;
    return code;
}

lr_status lri_decoder_drain(lri_decoder *decoder, lr_error *err)
{
    int code = send(decoder, NULL);
    decoder->draining = true;
    if (code == AVERROR(ENOMEM))
        return lri_av_fail(err, code, LR_E_FORMAT, "%s", decoder->recording->path);
    /* What went wrong in a packet may be told with any later call, this one too. */
    if (code < 0 && code != AVERROR_EOF) decoder->faults++;
    return LR_OK;
}

lr_status lri_decoder_feed(lri_decoder *decoder, lr_error *err)
{
    bool got;
    if (decoder->direct && !decoder->held && decoder->next < decoder->recording->video.n_packets &&
        lri_decoder_passes(decoder, decoder->next)) {
        decoder->work.passed++;
        decoder->next++;
        return LR_OK;
    }
    double start = lri_clock_now();
    lr_status st = hold_next(decoder, &got, err);
    decoder->work.read += lri_clock_now() - start;
    if (st != LR_OK) return st;
    if (!got) return lri_decoder_drain(decoder, err);
    AVPacket *packet = decoder->packet;
    if (lri_decoder_passes(decoder, decoder->next)) {
        decoder->work.passed++;
        av_packet_unref(packet);
        decoder->held = false;
        decoder->next++;
        return LR_OK;
    }
    packet->pts = packet->dts = (int64_t)decoder->next;
    int code = put_headers(decoder);
    if (code >= 0) code = send(decoder, packet);
    if (code == AVERROR(EAGAIN))
        return lr_fail(err, LR_E_INTERNAL, "%s: the decoder is full", decoder->recording->path);
    if (code == AVERROR(ENOMEM))
        return lri_av_fail(err, code, LR_E_FORMAT, "%s", decoder->recording->path);
    if (code < 0) decoder->faults++;
    av_packet_unref(packet);
    decoder->held = false;
    decoder->next++;
    decoder->fed++;
    decoder->work.fed++;
    return LR_OK;
}

/* Not what leads the entry where this codec began: that came from the one before; nor what follows the
 * entry where the next codec will begin. */
static bool is_sound(const lri_decoder *decoder, size_t ordinal)
{
    const lri_video_index *video = &decoder->recording->video;
    if (lri_leads(video, decoder->began, ordinal)) return false;
    return decoder->renew_end == SIZE_MAX || ordinal < decoder->renew_at ||
           lri_leads(video, decoder->renew_at, ordinal);
}

/* What a picture leaves open of its colour the container may say. Each by itself, but for the range: H.265's decoder
 * takes pictures for limited that say nothing. */
static void fill_colour(AVFrame *frame, const lri_colour *colour)
{
    bool silent = frame->colorspace == AVCOL_SPC_UNSPECIFIED && frame->color_primaries == AVCOL_PRI_UNSPECIFIED &&
                  frame->color_trc == AVCOL_TRC_UNSPECIFIED;
    /* RGB is a format of pictures. */
    if (frame->colorspace == AVCOL_SPC_UNSPECIFIED && colour->space != AVCOL_SPC_RGB)
        frame->colorspace = colour->space;
    if (frame->color_primaries == AVCOL_PRI_UNSPECIFIED) frame->color_primaries = colour->primaries;
    if (frame->color_trc == AVCOL_TRC_UNSPECIFIED) frame->color_trc = colour->transfer;
    if (frame->color_range == AVCOL_RANGE_UNSPECIFIED || (silent && colour->range == AVCOL_RANGE_JPEG))
        frame->color_range = colour->range;
}

lr_status lri_decoder_take(lri_decoder *decoder, bool *got, lr_error *err)
{
    *got = false;
    /* While draining, a decoder may return an error for each picture it still held. */
    for (int failures = 0; failures < 256;) {
        double start = lri_clock_now();
        int code = avcodec_receive_frame(decoder->codec, decoder->frame);
        decoder->work.decode += lri_clock_now() - start;
        if (code >= 0) {
            int64_t ordinal = decoder->frame->pts;
            if (ordinal < 0 || ordinal >= (int64_t)decoder->recording->video.n_packets) continue;
            if (!is_sound(decoder, (size_t)ordinal)) continue;
            fill_colour(decoder->frame, &decoder->recording->video.colour);
            if (decoder->on_hardware && lri_hardware_bring(decoder->frame, decoder->spare) < 0) {
                decoder->faults++;
                return LR_OK;
            }
            *got = true;
            return LR_OK;
        }
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
            decoder->ended = code == AVERROR_EOF;
            return LR_OK;
        }
        if (code == AVERROR(ENOMEM))
            return lri_av_fail(err, code, LR_E_FORMAT, "%s", decoder->recording->path);
        decoder->faults++;
        failures++;
    }
    decoder->ended = true;
    return LR_OK;
}

/* At an entry where the codec is to be renewed: sets how far the old one goes on. */
static void plan_renewal(lri_decoder *decoder)
{
    const lri_video_index *video = &decoder->recording->video;
    if (decoder->renew_end != SIZE_MAX || decoder->next >= video->n_packets) return;
    if (is_sticky(decoder) && decoder->next > decoder->began && lri_is_entry(video, decoder->next))
        decoder->renew_at = decoder->next;
    if (decoder->next == decoder->renew_at)
        decoder->renew_end = lri_leading_end(video, decoder->renew_at);
}

static lr_status renew(lri_decoder *decoder, lr_error *err)
{
    size_t entry = decoder->renew_at;
    decoder->stale = true;
    if (decoder->next != entry) return lri_decoder_begin(decoder, entry, err);
    decoder->renewing = decoder->draining = decoder->ended = decoder->stale = false;
    decoder->renew_at = decoder->renew_end = SIZE_MAX;
    decoder->began = entry;
    return reopen_codec(decoder, err);
}

static lr_status step(lri_decoder *decoder, size_t limit, bool *got, lr_error *err)
{
    lr_status st = lri_decoder_take(decoder, got, err);
    if (st != LR_OK || *got) return st;
    if (decoder->renewing) return renew(decoder, err);
    if (decoder->ended) return LR_OK;
    if (decoder->draining) {
        decoder->ended = true;
        return LR_OK;
    }
    if (decoder->next >= limit) return lri_decoder_drain(decoder, err);
    plan_renewal(decoder);
    if (decoder->next >= decoder->renew_end) {
        decoder->renewing = true;
        return lri_decoder_drain(decoder, err);
    }
    return lri_decoder_feed(decoder, err);
}

lr_status lri_decoder_step(lri_decoder *decoder, size_t limit, bool *got, lr_error *err)
{
    lr_status st = step(decoder, limit, got, err);
    return st == LR_OK ? leave_hardware(decoder, got, err) : st;
}

lr_status lri_decoder_next(lri_decoder *decoder, size_t limit, bool *got, lr_error *err)
{
    lr_status st = LR_OK;
    *got = false;
    while (st == LR_OK && !*got && !decoder->ended) st = lri_decoder_step(decoder, limit, got, err);
    return st;
}

bool lri_decoder_is_suspect(const lri_decoder *decoder)
{
    return decoder->faults > 0 || atomic_load(&decoder->watch.errors) > 0;
}

static bool is_key(const AVFrame *frame)
{
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 7, 100)
    return (frame->flags & AV_FRAME_FLAG_KEY) != 0;
#else
    return frame->key_frame != 0;
#endif
}

bool lri_frame_is_suspect(const lri_decoder *decoder)
{
    const AVFrame *frame = decoder->frame;
    unsigned flags = lri_flags(&decoder->recording->video, (size_t)frame->pts);
    if ((frame->flags & AV_FRAME_FLAG_CORRUPT) || frame->decode_error_flags != 0) return true;
    if ((flags & LRI_CLOSED) && !is_key(frame)) return true;
    return lri_canary_lives(decoder->codec, frame);
}
