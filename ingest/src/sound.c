/* The sound from its start: runs of packets, each resampled by itself and put in its place; between
 * them silence. */
#include <string.h>

#include "recording.h"
#include "resample.h"

struct lr_sound_reader {
    const lr_recording *recording;
    lri_source source;
    AVCodecContext *codec;
    AVFrame *frame;
    lri_watch watch;
    lri_resampler resampler;
    size_t packet;          /* the next to read, counted from the start of the stream */
    size_t run;             /* the one at work */
    bool run_open, run_flushed;
    int64_t fed;            /* samples of it given to the resampler, at the stream's rate */
    int64_t drop;           /* samples at 16 kHz still to be dropped at its start */
    int64_t position;       /* where the work stands, in samples from the origin */
    int64_t first, end;     /* the samples to hand out */
    lr_damage *damage;
    size_t n_damage, damage_capacity;
};

/* ------------------------------------------------------------------ opening */

static lr_status open_codec(lr_sound_reader *reader, lr_error *err)
{
    const lr_recording *recording = reader->recording;
    const AVCodecParameters *parameters =
        lri_stream_of(&reader->source, recording->audio.stream, &recording->audio.reach)->codecpar;
    const AVCodec *codec = avcodec_find_decoder(parameters->codec_id);
    if (!codec)
        return lr_fail(err, LR_E_UNSUPPORTED, "%s: no decoder for %s", recording->path,
                       lri_codec_name(parameters->codec_id));
    reader->codec = avcodec_alloc_context3(codec);
    reader->frame = av_frame_alloc();
    if (!reader->codec || !reader->frame)
        return lr_fail(err, LR_E_NOMEM, "%s: out of memory: a decoder", recording->path);
    int code = avcodec_parameters_to_context(reader->codec, parameters);
    if (code >= 0) {
        reader->codec->pkt_timebase = recording->audio.time_base;
        reader->codec->opaque = &reader->watch;
        reader->codec->err_recognition |= AV_EF_CRCCHECK;
        /* A thread would only delay the frames behind their packets. */
        reader->codec->thread_count = 1;
        code = avcodec_open2(reader->codec, codec, NULL);
    }
    if (code < 0)
        return lri_av_fail(err, code, LR_E_UNSUPPORTED, "%s: stream %d (%s) cannot be decoded",
                           recording->path, recording->audio.stream, codec->name);
    return LR_OK;
}

static lr_status open_source(lr_sound_reader *reader, lr_error *err)
{
    const lr_recording *recording = reader->recording;
    bool direct = recording->audio.reach.direct;
    lr_status st = lri_recording_reopen(recording, &reader->source, !direct, err);
    if (st != LR_OK) return st;
    AVFormatContext *format = reader->source.format;
    if (format && recording->audio.stream >= (int)format->nb_streams)
        return lr_fail(err, LR_E_IO, "%s: changed while it was read", recording->path);
    if (format)
        lri_source_keep(&reader->source, recording->audio.stream, recording->video.stream, recording->astray);
    else reader->source.packet = av_packet_alloc();
    if (!reader->source.packet) return lr_fail(err, LR_E_NOMEM, "%s: out of memory: a packet", recording->path);
    return LR_OK;
}

lr_status lr_sound_reader_open(lr_sound_reader **out, const lr_recording *recording, lr_error *err)
{
    lr_status st = LR_OK;
    lr_sound_reader *reader = NULL;
    *out = NULL;
    if (!recording->timeline.has_audio)
        return lr_fail(err, LR_E_USAGE, "%s: has no sound", recording->path);
    LR_TRY(LR_NEW(&reader, 1, "a sound reader", err));
    reader->recording = recording;
    reader->source.fd = -1;
    reader->first = recording->sound_skip;
    reader->end = recording->sound_skip + recording->timeline.audio.n_samples;
    LR_TRY(open_source(reader, err));
    LR_TRY(open_codec(reader, err));
    *out = reader;
done:
    if (st != LR_OK) lr_sound_reader_close(reader);
    return st;
}

void lr_sound_reader_close(lr_sound_reader *reader)
{
    if (!reader) return;
    avcodec_free_context(&reader->codec);
    av_frame_free(&reader->frame);
    lri_source_close(&reader->source);
    lri_resampler_free(&reader->resampler);
    lr_free(reader->damage);
    lr_free(reader);
}

const lr_damage *lr_sound_reader_damage(const lr_sound_reader *reader, size_t *count)
{
    *count = reader->n_damage;
    return reader->damage;
}

/* ------------------------------------------------------------------ a packet to samples */

static lr_status report(lr_sound_reader *reader, int64_t from, int64_t to, lr_error *err)
{
    const lr_recording *recording = reader->recording;
    const lri_run *run = &recording->audio.runs[reader->run];
    lr_time start = lr_rescale(run->out_start - run->out_skip, LR_TIME_SECOND, LR_SAMPLE_RATE);
    return lri_damage_add(&reader->damage, &reader->n_damage, &reader->damage_capacity,
                          LR_STREAM_AUDIO,
                          start + lr_rescale(from, LR_TIME_SECOND, recording->audio.rate),
                          start + lr_rescale(to, LR_TIME_SECOND, recording->audio.rate),
                          "undecodable", err);
}

/* Counted at the stream's rate, whatever the frame's own is. */
static int64_t frame_samples(const lr_sound_reader *reader)
{
    const AVFrame *frame = reader->frame;
    if (frame->sample_rate == reader->recording->audio.rate) return frame->nb_samples;
    return lr_rescale(frame->nb_samples, reader->recording->audio.rate, frame->sample_rate);
}

static lr_status feed_frame(lr_sound_reader *reader, lr_error *err)
{
    lr_status st = LR_OK;
    lri_resampler *resampler = &reader->resampler;
    const AVFrame *frame = reader->frame;
    if (!lri_is_sound(frame->sample_rate, frame->ch_layout.nb_channels)) return LR_OK;
    if (!lri_resampler_fits(resampler, frame)) {
        float *kept = NULL;
        size_t n_kept = 0;
        if (resampler->ready) {
            /* The format changes inside a run: what the old one still holds comes first. */
            LR_TRY(lri_resampler_flush(resampler, err));
            n_kept = resampler->count - resampler->at;
            LR_TRY(LR_NEW(&kept, n_kept, "resampled sound", err));
            memcpy(kept, resampler->samples + resampler->at, n_kept * sizeof *kept);
        }
        st = lri_resampler_set(resampler, &frame->ch_layout, (enum AVSampleFormat)frame->format,
                               frame->sample_rate, err);
        if (st == LR_OK && n_kept > 0) {
            st = LR_GROW(&resampler->samples, &resampler->capacity, n_kept, "resampled sound", err);
            if (st == LR_OK) memcpy(resampler->samples, kept, n_kept * sizeof *kept);
            if (st == LR_OK) resampler->count = n_kept;
        }
        lr_free(kept);
        if (st != LR_OK) goto done;
    }
    reader->fed += frame_samples(reader);
    LR_TRY(lri_resampler_feed(resampler, frame, err));
done:
    return st;
}

/* Samples that did not come are silence, so that nothing behind them shifts. */
static lr_status fill_in(lr_sound_reader *reader, int64_t missing, lr_error *err)
{
    lr_status st = LR_OK;
    lri_resampler *resampler = &reader->resampler;
    int64_t count = missing;
    LR_TRY(report(reader, reader->fed, reader->fed + missing, err));
    if (!resampler->ready) {
        const AVChannelLayout mono = AV_CHANNEL_LAYOUT_MONO;
        LR_TRY(lri_resampler_set(resampler, &mono, AV_SAMPLE_FMT_FLT, reader->recording->audio.rate,
                                 err));
    }
    if (resampler->rate != reader->recording->audio.rate)
        count = lr_rescale(missing, resampler->rate, reader->recording->audio.rate);
    LR_TRY(lri_resampler_feed_silence(resampler, count, err));
    reader->fed += missing;
done:
    return st;
}

/* Takes what the decoder has ready; *failed: it returned an error. */
static lr_status take_frames(lr_sound_reader *reader, bool *failed, lr_error *err)
{
    lr_status st = LR_OK;
    for (int failures = 0; failures < 64;) {
        int code = avcodec_receive_frame(reader->codec, reader->frame);
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return LR_OK;
        if (code == AVERROR(ENOMEM))
            return lri_av_fail(err, code, LR_E_FORMAT, "%s", reader->recording->path);
        if (code < 0) {
            *failed = true;
            failures++;
            continue;
        }
        LR_TRY(feed_frame(reader, err));
    }
done:
    return st;
}

static lr_status decode_packet(lr_sound_reader *reader, const AVPacket *packet, int64_t kept,
                               lr_error *err)
{
    lr_status st = LR_OK;
    bool failed = false;
    int64_t before = reader->fed;
    int code = avcodec_send_packet(reader->codec, packet);
    if (code == AVERROR(ENOMEM))
        return lri_av_fail(err, code, LR_E_FORMAT, "%s", reader->recording->path);
    if (code < 0) failed = true;
    LR_TRY(take_frames(reader, &failed, err));
    int64_t came = reader->fed - before;
    if (came == 0 && !(reader->codec->codec->capabilities & AV_CODEC_CAP_DELAY)) failed = true;
    if (failed && came < kept) LR_TRY(fill_in(reader, kept - came, err));
done:
    return st;
}

/* ------------------------------------------------------------------ runs */

static lr_status end_run(lr_sound_reader *reader, lr_error *err)
{
    lr_status st = LR_OK;
    bool failed = false;
    (void)avcodec_send_packet(reader->codec, NULL);
    LR_TRY(take_frames(reader, &failed, err));
    avcodec_flush_buffers(reader->codec);
    if (reader->resampler.ready) LR_TRY(lri_resampler_flush(&reader->resampler, err));
    reader->run_flushed = true;
done:
    return st;
}

static void begin_run(lr_sound_reader *reader)
{
    lri_resampler_end(&reader->resampler);
    reader->fed = 0;
    reader->drop = reader->recording->audio.runs[reader->run].out_skip;
    reader->run_open = true;
    reader->run_flushed = false;
}

/* The next packet of the sound into source.packet. */
static lr_status read_packet(lr_sound_reader *reader, lr_error *err)
{
    const lri_audio_index *audio = &reader->recording->audio;
    const AVPacket *packet = reader->source.packet;
    lr_status st = LR_OK;
    bool got = false;
    if (!reader->source.format) {
        LR_TRY(lri_reach_read(&audio->reach, &reader->source, reader->packet, reader->source.packet, &got, err));
    } else {
        do LR_TRY(lri_source_read(&reader->source, &got, err));
        while (got && (packet->stream_index != audio->stream || packet->size <= 0));
    }
    if (!got) LR_FAIL(LR_E_IO, "%s: changed while it was read", reader->recording->path);
done:
    return st;
}

/* Reads and decodes until something has been resampled or the run is over. */
static lr_status work(lr_sound_reader *reader, lr_error *err)
{
    lr_status st = LR_OK;
    const lri_audio_index *audio = &reader->recording->audio;
    const lri_run *run = &audio->runs[reader->run];
    if (!reader->run_open) begin_run(reader);
    while (reader->resampler.at == reader->resampler.count && !reader->run_flushed) {
        if (reader->packet == run->first_packet + run->n_packets) {
            LR_TRY(end_run(reader, err));
            break;
        }
        LR_TRY(read_packet(reader, err));
        size_t at = reader->packet++;
        if (at < run->first_packet) continue;
        LR_TRY(decode_packet(reader, reader->source.packet, lri_numbers_get(&audio->kept, at), err));
    }
done:
    return st;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void silence(float *to, int64_t count)
{
    memset(to, 0, (size_t)count * sizeof *to);
}

/* At most `room` samples from reader->position on: silence before a run, then the run, cut or filled
 * to its length, and silence behind the last. */
static lr_status produce(lr_sound_reader *reader, float *to, int64_t room, int64_t *made,
                         lr_error *err)
{
    lr_status st = LR_OK;
    const lri_audio_index *audio = &reader->recording->audio;
    lri_resampler *resampler = &reader->resampler;
    while (reader->run < audio->n_runs) {
        const lri_run *run = &audio->runs[reader->run];
        if (reader->position < run->out_start) {
            *made = least(room, run->out_start - reader->position);
            silence(to, *made);
            goto done;
        }
        LR_TRY(work(reader, err));
        int64_t left = run->out_start + run->out_samples - reader->position;
        int64_t ready = (int64_t)(resampler->count - resampler->at);
        /* What overlaps the run before, and what comes beyond the length, is not used. */
        int64_t unused = left > 0 ? least(ready, reader->drop) : ready;
        if (left > 0) reader->drop -= unused;
        resampler->at += (size_t)unused;
        ready -= unused;
        if (ready > 0) {
            *made = least(least(ready, left), room);
            memcpy(to, resampler->samples + resampler->at, (size_t)*made * sizeof *to);
            resampler->at += (size_t)*made;
            goto done;
        }
        if (!reader->run_flushed) continue;
        if (left > 0) {
            *made = least(left, room);
            silence(to, *made);
            goto done;
        }
        reader->run++;
        reader->run_open = false;
    }
    *made = room;
    silence(to, room);
done:
    if (st == LR_OK) reader->position += *made;
    return st;
}

lr_status lr_sound_reader_read(lr_sound_reader *reader, float *samples, size_t capacity,
                               size_t *count, lr_error *err)
{
    lr_status st = LR_OK;
    float unwanted[1024];
    int64_t made;
    *count = 0;
    if (reader->first >= reader->end) return LR_OK; /* the part wanted lies behind the sound */
    while (reader->position < reader->first) {
        LR_TRY(lr_cancel_check(reader->recording->options.cancel, err));
        LR_TRY(produce(reader, unwanted, least(1024, reader->first - reader->position), &made, err));
    }
    while (*count < capacity && reader->position < reader->end) {
        LR_TRY(lr_cancel_check(reader->recording->options.cancel, err));
        int64_t room = capacity - *count > INT32_MAX ? INT32_MAX : (int64_t)(capacity - *count);
        room = least(room, reader->end - reader->position);
        LR_TRY(produce(reader, samples + *count, room, &made, err));
        *count += (size_t)made;
    }
done:
    return st;
}
