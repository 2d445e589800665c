/* How many samples each packet of sound gives, where they stand in time, and so the exact length of
 * the sound before anything is decoded. */
#include "recording.h"

#include <string.h>

#include <libavutil/intreadwrite.h>

#include "resample.h"

/* ------------------------------------------------------------------ packets */

static lri_sound_packet packet_at(const lri_audio_index *audio, size_t i)
{
    return (lri_sound_packet){.pts = lri_numbers_get(&audio->pts, i),
                              .kept = (uint32_t)lri_numbers_get(&audio->kept, i),
                              .declared = (uint32_t)lri_numbers_get(&audio->declared, i)};
}

static lr_status put_last(lri_audio_index *audio, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(lri_numbers_add(&audio->pts, audio->last.pts, err));
    LR_TRY(lri_numbers_add(&audio->kept, audio->last.kept, err));
    LR_TRY(lri_numbers_add(&audio->declared, audio->last.declared, err));
    audio->sum += audio->last.kept;
done:
    return st;
}

/* ------------------------------------------------------------------ samples of a packet */

/* Codecs whose packets state their own length, which libav's parser reads. */
static bool states_length(enum AVCodecID codec)
{
    switch (codec) {
    case AV_CODEC_ID_VORBIS:
    case AV_CODEC_ID_OPUS:
    case AV_CODEC_ID_FLAC:
    case AV_CODEC_ID_MP1:
    case AV_CODEC_ID_MP2:
    case AV_CODEC_ID_MP3:
    case AV_CODEC_ID_AC3:
    case AV_CODEC_ID_EAC3: return true;
    default: return false;
    }
}

static lr_status open_parser(lr_recording *recording, const AVCodecParameters *parameters,
                             lr_error *err)
{
    lri_audio_index *audio = &recording->audio;
    if (!states_length(parameters->codec_id)) return LR_OK;
    audio->parser = av_parser_init((int)parameters->codec_id);
    if (!audio->parser) return LR_OK;
    audio->parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    audio->parser_codec = avcodec_alloc_context3(NULL);
    if (!audio->parser_codec ||
        avcodec_parameters_to_context(audio->parser_codec, parameters) < 0)
        return lr_fail(err, LR_E_NOMEM, "%s: out of memory: the index of the sound",
                       recording->path);
    return LR_OK;
}

static int64_t parsed_length(lri_audio_index *audio, const AVPacket *packet)
{
    uint8_t *out;
    int out_size;
    if (!audio->parser) return 0;
    (void)av_parser_parse2(audio->parser, audio->parser_codec, &out, &out_size, packet->data,
                           packet->size, packet->pts, packet->dts, packet->pos);
    /* Opus counts at 48 kHz, which is also its rate here. */
    return audio->parser->duration;
}

/* Samples of a frame of Windows Media Audio 1 and 2 (libavcodec/wma_common.c). */
static int64_t wma_frame(enum AVCodecID codec, int rate)
{
    if (rate <= 16000) return 512;
    if (rate <= 22050 || (rate <= 32000 && codec == AV_CODEC_ID_WMAV1)) return 1024;
    return 2048;
}

/* What decoders cut at the start of their own accord, unless side data says otherwise. */
static int64_t initial_skip(const AVCodecParameters *p)
{
    switch (p->codec_id) {
    case AV_CODEC_ID_OPUS: return p->extradata_size >= 19 ? AV_RL16(p->extradata + 10) : 0;
    case AV_CODEC_ID_WMAV1:
    case AV_CODEC_ID_WMAV2: return 2 * wma_frame(p->codec_id, p->sample_rate);
    default: return 0;
    }
}

static int64_t packet_length(lr_recording *recording, const AVStream *stream, const AVPacket *packet)
{
    lri_audio_index *audio = &recording->audio;
    const AVCodecParameters *p = stream->codecpar;
    /* The first packet only primes the overlap. */
    if (p->codec_id == AV_CODEC_ID_VORBIS && audio->n_packets == 0) {
        (void)parsed_length(audio, packet);
        return 0;
    }
    int64_t length = parsed_length(audio, packet);
    if (length <= 0 && p->codec_id != AV_CODEC_ID_VORBIS && p->codec_id != AV_CODEC_ID_OPUS)
        length = av_get_audio_frame_duration2((AVCodecParameters *)(uintptr_t)p, packet->size);
    if (length <= 0 && packet->duration > 0)
        length = av_rescale_q(packet->duration, audio->time_base, (AVRational){1, audio->rate});
    if (p->codec_id == AV_CODEC_ID_WMAV1 || p->codec_id == AV_CODEC_ID_WMAV2) {
        int64_t frame = wma_frame(p->codec_id, p->sample_rate);
        length = (length + frame / 2) / frame * frame;
    }
    if (length <= 0) length = 0;
    /* More than ten seconds in a packet is a broken header's claim (PCM in one packet is not). */
    int64_t most = (int64_t)audio->rate * 10;
    if (most < (int64_t)packet->size * 8) most = (int64_t)packet->size * 8;
    return length < most ? length : most;
}

/* What libav's decoder loop cuts: priming and padding by side data, packets outside the edit list. */
static void cut_padding(lri_audio_index *audio, const AVCodecParameters *p, const AVPacket *packet,
                        int64_t length, lri_sound_packet *entry)
{
    size_t size = 0;
    uint32_t padding = 0;
    const uint8_t *side = av_packet_get_side_data(packet, AV_PKT_DATA_SKIP_SAMPLES, &size);
    if (side && size >= 10) {
        /* AAC with implicit SBR counts at the core's rate. */
        bool doubled = p->codec_id == AV_CODEC_ID_AAC && p->frame_size == 2048;
        audio->skip_left = (int64_t)AV_RL32(side) * (doubled ? 2 : 1);
        padding = AV_RL32(side + 4);
    }
    int64_t skipped = 0;
    if (packet->flags & AV_PKT_FLAG_DISCARD) {
        audio->skip_left = audio->skip_left > length ? audio->skip_left - length : 0;
        entry->kept = 0;
        return;
    }
    if (audio->skip_left > 0) {
        skipped = audio->skip_left < length ? audio->skip_left : length;
        audio->skip_left -= skipped;
    }
    int64_t kept = length - skipped;
    if (padding > 0 && padding <= kept) kept -= padding;
    entry->kept = (uint32_t)kept;
    if (entry->pts != AV_NOPTS_VALUE && skipped > 0 &&
        __builtin_add_overflow(entry->pts,
                               av_rescale_q(skipped, (AVRational){1, audio->rate}, audio->time_base),
                               &entry->pts))
        entry->pts = AV_NOPTS_VALUE;
}

lr_status lri_sound_index_add(lr_recording *recording, const AVStream *stream,
                              const AVPacket *packet, lr_error *err)
{
    lri_audio_index *audio = &recording->audio;
    lr_status st = LR_OK;
    if (audio->n_packets == 0) {
        LR_TRY(open_parser(recording, stream->codecpar, err));
        audio->skip_left = initial_skip(stream->codecpar);
    }
    if (audio->n_packets > 0) LR_TRY(put_last(audio, err));
    lri_sound_packet *entry = &audio->last;
    *entry = (lri_sound_packet){.pts = packet->pts};
    if (entry->pts == AV_NOPTS_VALUE) entry->pts = packet->dts;
    int64_t length = packet_length(recording, stream, packet);
    /* Milliseconds are too coarse to cut by. */
    bool fine = (int64_t)audio->time_base.num * audio->rate <= audio->time_base.den;
    if (packet->duration > 0 && fine) {
        int64_t declared =
            av_rescale_q(packet->duration, audio->time_base, (AVRational){1, audio->rate});
        entry->declared = declared > 0 && declared < length ? (uint32_t)declared : 0;
    }
    cut_padding(audio, stream->codecpar, packet, length, entry);
    audio->n_packets++;
done:
    return st;
}

void lri_sound_index_free(lri_audio_index *audio)
{
    if (audio->parser) av_parser_close(audio->parser);
    avcodec_free_context(&audio->parser_codec);
    lri_numbers_free(&audio->pts);
    lri_numbers_free(&audio->kept);
    lri_numbers_free(&audio->declared);
    lri_reach_free(&audio->reach);
    lr_free(audio->runs);
    memset(audio, 0, sizeof *audio);
    audio->stream = -1;
}

/* ------------------------------------------------------------------ runs */

static int64_t to_ticks(const lri_audio_index *audio, int64_t samples)
{
    return av_rescale_q(samples, (AVRational){1, audio->rate}, audio->time_base);
}

/* How much later a packet stands than the samples before it reach, in lr_time. */
static lr_time deviation(const lri_audio_index *audio, int64_t pts, int64_t start_pts,
                         int64_t samples)
{
    int64_t ticks;
    if (__builtin_sub_overflow(pts, start_pts, &ticks)) return 0;
    lr_time stated = lr_rescale(ticks, audio->time_base.num * LR_TIME_SECOND, audio->time_base.den);
    lr_time reached = lr_rescale(samples, LR_TIME_SECOND, audio->rate);
    return __builtin_sub_overflow(stated, reached, &stated) ? 0 : stated;
}

/* Packets of a quarter of a second, at most: looking at more, for each packet, would never end in a file of
 * a million packets of one sample. */
#define MOST_LOOKED_AT 1024

/* Whether the packets from i on for a quarter of a second all stand away from where the samples
 * reach by at least `least`, to the same side: a single late stamp is jitter, not a gap. */
static bool stays_away(const lri_audio_index *audio, size_t i, int64_t start_pts, int64_t samples,
                       lr_time least)
{
    lr_time first = deviation(audio, lri_numbers_get(&audio->pts, i), start_pts, samples);
    if (first < least && first > -least) return false;
    const size_t end = i + MOST_LOOKED_AT;
    for (int64_t span = 0; i < audio->n_packets && i < end && span * 4 <= audio->rate; i++) {
        const lri_sound_packet packet = packet_at(audio, i);
        if (packet.pts != AV_NOPTS_VALUE && packet.kept > 0) {
            lr_time now = deviation(audio, packet.pts, start_pts, samples + span);
            if (first > 0 ? now < least : now > -least) return false;
        }
        span += packet.kept;
    }
    return true;
}

static lr_status begin_run(lri_audio_index *audio, size_t packet, int64_t pts, lr_error *err)
{
    lr_status st = LR_GROW(&audio->runs, &audio->runs_capacity, audio->n_runs + 1,
                           "the runs of the sound", err);
    if (st == LR_OK)
        audio->runs[audio->n_runs++] = (lri_run){.first_packet = packet, .start_pts = pts};
    return st;
}

/* A gap or an overlap is at least half a packet (at most 20 ms) and three ticks, which a rounded
 * stamp cannot make. Back by more than this is a clock that was set anew, not an overlap. */
#define LARGEST_STEP_BACK LR_TIME_SECOND

static lr_time least_gap(const lri_audio_index *audio, const lri_sound_packet *packet)
{
    lr_time half = lr_rescale(packet->kept, LR_TIME_SECOND, (int64_t)audio->rate * 2);
    lr_time ticks = lr_rescale(3, audio->time_base.num * LR_TIME_SECOND, audio->time_base.den);
    if (half > LR_TIME_SECOND / 50) half = LR_TIME_SECOND / 50;
    return half > ticks ? half : ticks;
}

/* What packets do not tell: some codecs give a last frame when they are drained, and some containers
 * know only the sum of the samples. */
static void correct_last(lri_audio_index *audio, const AVStream *stream)
{
    const AVCodecParameters *p = stream->codecpar;
    lri_sound_packet *last = &audio->last;
    if (p->codec_id == AV_CODEC_ID_WMAV1 || p->codec_id == AV_CODEC_ID_WMAV2)
        last->kept += (uint32_t)wma_frame(p->codec_id, p->sample_rate);
    if (p->codec_id == AV_CODEC_ID_TTA || p->codec_id == AV_CODEC_ID_APE ||
        p->codec_id == AV_CODEC_ID_TAK) {
        int64_t sum = audio->sum + last->kept;
        int64_t over = sum - av_rescale_q(stream->duration, audio->time_base, (AVRational){1, audio->rate});
        if (stream->duration > 0 && over > 0 && over < last->kept) last->kept -= (uint32_t)over;
    }
}

/* A stamp of whole milliseconds puts a run up to half of one, 8 samples, beside its place; the mean of
 * many does not. */
static void average_start(const lri_audio_index *audio, lri_run *run)
{
    enum { MOST = 64 };
    lr_time tick = lr_rescale(1, audio->time_base.num * LR_TIME_SECOND, audio->time_base.den), sum = 0;
    int64_t samples = 0, n = 0;
    if (tick > LR_TIME_SECOND) return; /* no clock of sound; and MOST of them might not fit */
    for (size_t i = 0; i < run->n_packets && n < MOST; i++) {
        const lri_sound_packet packet = packet_at(audio, run->first_packet + i);
        if (packet.kept > 0 && packet.pts != AV_NOPTS_VALUE) {
            lr_time now = deviation(audio, packet.pts, run->start_pts, samples);
            /* What is more than rounding says nothing. */
            if (now > tick || now < -tick) break;
            sum += now;
            n++;
        }
        samples += packet.kept;
    }
    run->rounding = n > 0 ? sum / n : 0;
}

lr_status lri_sound_index_finish(lr_recording *recording, const AVStream *stream, lr_error *err)
{
    lri_audio_index *audio = &recording->audio;
    lr_status st = LR_OK;
    correct_last(audio, stream);
    LR_TRY(put_last(audio, err));
    LR_TRY(lri_numbers_end(&audio->pts, err));
    LR_TRY(lri_numbers_end(&audio->kept, err));
    LR_TRY(lri_numbers_end(&audio->declared, err));
    if (strcmp(recording->timeline.container, "matroska") == 0) LR_TRY(lri_audio_drop_strays(audio, err));
    if (audio->parser) av_parser_close(audio->parser);
    audio->parser = NULL;
    avcodec_free_context(&audio->parser_codec);
    lri_run *run = NULL;
    for (size_t i = 0; i < audio->n_packets; i++) {
        const lri_sound_packet packet = packet_at(audio, i);
        bool begins = !run;
        if (run && packet.kept > 0 && packet.pts != AV_NOPTS_VALUE && run->in_samples > 0 &&
            stays_away(audio, i, run->start_pts, run->in_samples, least_gap(audio, &packet))) {
            if (deviation(audio, packet.pts, run->start_pts, run->in_samples) > -LARGEST_STEP_BACK)
                begins = true;
            else audio->n_corrections++;
        }
        if (begins) {
            LR_TRY(begin_run(audio, i, packet.pts, err));
            run = &audio->runs[audio->n_runs - 1];
        }
        /* What is cut at the front has no place in time. */
        if (run->in_samples == 0 && packet.kept > 0) run->start_pts = packet.pts;
        if (run->start_pts == AV_NOPTS_VALUE && packet.pts != AV_NOPTS_VALUE && packet.kept > 0)
            run->start_pts = lri_saturate((lri_wide)packet.pts - to_ticks(audio, run->in_samples));
        run->in_samples += packet.kept;
        run->n_packets++;
    }
    while (audio->n_runs > 0 && audio->runs[audio->n_runs - 1].in_samples == 0) audio->n_runs--;
    if (audio->n_runs == 0) goto done;
    if (audio->runs[0].start_pts == AV_NOPTS_VALUE) audio->runs[0].start_pts = 0;
    for (size_t r = 1; r < audio->n_runs; r++) average_start(audio, &audio->runs[r]);
    audio->first_pts = audio->runs[0].start_pts;
    const lri_run *last = &audio->runs[audio->n_runs - 1];
    lri_moment length = lri_moment_of(last->in_samples, 1, audio->rate);
    if (!lri_moment_add(lri_moment_of(last->start_pts, audio->time_base.num, audio->time_base.den),
                        length, &audio->end))
        LR_FAIL(LR_E_FORMAT, "%s: the sound's clock is out of range", recording->path);
done:
    return st;
}

/* ------------------------------------------------------------------ places at 16 kHz */

/* Samples of a run that is placed by time stamps: the last packet counts as long as the container
 * says. (Sound without a gap keeps the codec's whole last frame, as ffmpeg does.) */
static int64_t timed_samples(const lri_audio_index *audio, const lri_run *run)
{
    const lri_sound_packet last = packet_at(audio, run->first_packet + run->n_packets - 1);
    if (audio->n_runs == 1 || last.declared == 0 || last.declared >= last.kept) return run->in_samples;
    return run->in_samples - last.kept + last.declared;
}

lr_status lri_sound_index_place(lr_recording *recording, lr_error *err)
{
    lri_audio_index *audio = &recording->audio;
    lri_resampler resampler = {0};
    lr_status st = LR_OK;
    int64_t at = 0;
    for (size_t r = 0; r < audio->n_runs; r++) {
        lri_run *run = &audio->runs[r];
        lri_moment start;
        lr_time time;
        if (!lri_moment_sub(
                lri_moment_of(run->start_pts, audio->time_base.num, audio->time_base.den),
                recording->audio_zero, &start) ||
            __builtin_add_overflow(lri_moment_time(start), run->rounding, &time))
            LR_FAIL(LR_E_FORMAT, "%s: the sound's clock is out of range", recording->path);
        int64_t place = lr_rescale(time, LR_SAMPLE_RATE, LR_TIME_SECOND), length;
        LR_TRY(lri_resampled_length(&resampler, timed_samples(audio, run), audio->rate, &length,
                                    err));
        /* An hour-long hole is believable, a year is not: it would be filled with zeros. */
        if (place > at + INT64_C(48) * 3600 * LR_SAMPLE_RATE)
            LR_FAIL(LR_E_FORMAT, "%s: the sound has a hole of more than two days", recording->path);
        run->out_skip = place < at ? at - place : 0;
        if (run->out_skip > length) run->out_skip = length;
        run->out_start = place < at ? at : place;
        run->out_samples = length - run->out_skip;
        at = run->out_start + run->out_samples;
    }
    lri_numbers_free(&audio->pts);
    lri_numbers_free(&audio->declared);
done:
    lri_resampler_free(&resampler);
    return st;
}
