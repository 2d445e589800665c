/* What libav's plain loops make of a file, and what ingest makes of it. */
#include "recordings.h"

#include <stdlib.h>
#include <string.h>

#include <libswresample/swresample.h>
#include <libswscale/swscale.h>
#include <xxhash.h>

uint64_t lrm_hash(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

double lrm_luma(const lr_frame *frame)
{
    double sum = 0;
    int first = frame->width / 4 + 1;
    if (first >= frame->width) first = 0;
    for (int y = 0; y < frame->height; y++)
        for (int x = 3 * first; x < 3 * frame->width; x++)
            sum += frame->rgb[(size_t)y * frame->stride + (size_t)x];
    return 16 + sum / (3.0 * (frame->width - first) * frame->height) * 219 / 255;
}

/* ------------------------------------------------------------------ libav's plain loop */

typedef struct decoding {
    AVFormatContext *format;
    AVCodecContext *codec;
    AVPacket *packet;
    AVFrame *frame;
    int stream;
} decoding;

static void begin(decoding *d, const char *path, enum AVMediaType kind)
{
    const AVCodec *codec;
    memset(d, 0, sizeof *d);
    if (avformat_open_input(&d->format, path, NULL, NULL) < 0 ||
        avformat_find_stream_info(d->format, NULL) < 0)
        fail_msg("%s cannot be opened", path);
    d->stream = av_find_best_stream(d->format, kind, -1, -1, &codec, 0);
    if (d->stream < 0) fail_msg("%s: no stream", path);
    d->codec = avcodec_alloc_context3(codec);
    assert_non_null(d->codec);
    assert_true(avcodec_parameters_to_context(d->codec, d->format->streams[d->stream]->codecpar) >= 0);
    d->codec->pkt_timebase = d->format->streams[d->stream]->time_base;
    d->codec->thread_count = 1;
    assert_true(avcodec_open2(d->codec, codec, NULL) >= 0);
    d->packet = av_packet_alloc();
    d->frame = av_frame_alloc();
}

static bool next_frame(decoding *d)
{
    for (;;) {
        int code = avcodec_receive_frame(d->codec, d->frame);
        if (code >= 0) return true;
        if (code == AVERROR_EOF) return false;
        if (code != AVERROR(EAGAIN)) continue;
        do {
            av_packet_unref(d->packet);
            code = av_read_frame(d->format, d->packet);
        } while (code >= 0 && d->packet->stream_index != d->stream);
        (void)avcodec_send_packet(d->codec, code >= 0 ? d->packet : NULL);
    }
}

static void end(decoding *d)
{
    av_packet_free(&d->packet);
    av_frame_free(&d->frame);
    avcodec_free_context(&d->codec);
    avformat_close_input(&d->format);
}

static void add_picture(lrm_pictures *out, const AVFrame *frame, int matrix, double seconds)
{
    if (out->count == 0) {
        out->width = frame->width;
        out->height = frame->height;
    }
    struct SwsContext *sws =
        sws_getContext(frame->width, frame->height, (enum AVPixelFormat)frame->format, out->width,
                       out->height, AV_PIX_FMT_RGB24, SWS_BICUBIC, NULL, NULL, NULL);
    assert_non_null(sws);
    if (frame->colorspace != AVCOL_SPC_UNSPECIFIED) matrix = (int)frame->colorspace;
    (void)sws_setColorspaceDetails(sws, sws_getCoefficients(matrix),
                                   frame->color_range == AVCOL_RANGE_JPEG,
                                   sws_getCoefficients(SWS_CS_DEFAULT), 0, 0, 1 << 16, 1 << 16);
    size_t row = (size_t)out->width * 3, stride = (row + 63) / 64 * 64 + 64;
    uint8_t *wide = calloc((size_t)out->height, stride), *rgb = calloc((size_t)out->height, row);
    uint8_t *const planes[4] = {wide};
    const int strides[4] = {(int)stride};
    assert_int_equal(sws_scale(sws, (const uint8_t *const *)frame->data, frame->linesize, 0,
                               frame->height, planes, strides),
                     out->height);
    for (int y = 0; y < out->height; y++) memcpy(rgb + (size_t)y * row, wide + (size_t)y * stride, row);
    free(wide);
    sws_freeContext(sws);
    out->rgb = realloc(out->rgb, (out->count + 1) * sizeof *out->rgb);
    out->seconds = realloc(out->seconds, (out->count + 1) * sizeof *out->seconds);
    out->rgb[out->count] = rgb;
    out->seconds[out->count++] = seconds;
}

void lrm_decode_pictures(const char *path, int matrix, lrm_pictures *out)
{
    decoding d;
    begin(&d, path, AVMEDIA_TYPE_VIDEO);
    memset(out, 0, sizeof *out);
    while (next_frame(&d))
        add_picture(out, d.frame, matrix,
                    (double)d.frame->best_effort_timestamp *
                        av_q2d(d.format->streams[d.stream]->time_base));
    end(&d);
}

void lrm_free_pictures(lrm_pictures *pictures)
{
    for (size_t i = 0; i < pictures->count; i++) free(pictures->rgb[i]);
    free(pictures->rgb);
    free(pictures->seconds);
}

static void resample(struct SwrContext *swr, const AVFrame *frame, float **samples, size_t *count)
{
    int room = (frame ? frame->nb_samples * 4 : 0) + 8192;
    *samples = realloc(*samples, (*count + (size_t)room) * sizeof **samples);
    uint8_t *to[1] = {(uint8_t *)(*samples + *count)};
    int made = swr_convert(swr, to, room,
                           frame ? (const uint8_t **)(uintptr_t)frame->extended_data : NULL,
                           frame ? frame->nb_samples : 0);
    assert_true(made >= 0);
    *count += (size_t)made;
}

float *lrm_decode_sound(const char *path, size_t *count)
{
    decoding d;
    struct SwrContext *swr = NULL;
    float *samples = NULL;
    AVChannelLayout mono = AV_CHANNEL_LAYOUT_MONO;
    *count = 0;
    begin(&d, path, AVMEDIA_TYPE_AUDIO);
    while (next_frame(&d)) {
        if (!swr) {
            AVChannelLayout layout = {0};
            if (d.frame->ch_layout.order == AV_CHANNEL_ORDER_UNSPEC)
                av_channel_layout_default(&layout, d.frame->ch_layout.nb_channels);
            else assert_true(av_channel_layout_copy(&layout, &d.frame->ch_layout) >= 0);
            assert_true(swr_alloc_set_opts2(&swr, &mono, AV_SAMPLE_FMT_FLT, LR_SAMPLE_RATE, &layout,
                                            (enum AVSampleFormat)d.frame->format,
                                            d.frame->sample_rate, 0, NULL) >= 0);
            assert_true(swr_init(swr) >= 0);
            av_channel_layout_uninit(&layout);
        }
        resample(swr, d.frame, &samples, count);
    }
    if (swr) resample(swr, NULL, &samples, count);
    swr_free(&swr);
    end(&d);
    return samples;
}

/* ------------------------------------------------------------------ ingest */

lr_recording *lrm_open(const char *path, const lr_ingest_options *options)
{
    lr_error err = {0};
    lr_recording *recording = NULL;
    lr_ingest_options defaults = lr_ingest_defaults();
    lrt_assert_ok(lr_recording_open(&recording, path, options ? options : &defaults, &err), &err);
    return recording;
}

static void append(lrm_reading *r, const lr_frame *frame)
{
    size_t n = (size_t)r->count++;
    r->hash = realloc(r->hash, (n + 1) * sizeof *r->hash);
    r->t = realloc(r->t, (n + 1) * sizeof *r->t);
    r->pts = realloc(r->pts, (n + 1) * sizeof *r->pts);
    r->luma = realloc(r->luma, (n + 1) * sizeof *r->luma);
    r->substituted = realloc(r->substituted, (n + 1) * sizeof *r->substituted);
    XXH3_state_t *state = XXH3_createState();
    (void)XXH3_64bits_reset(state);
    for (int y = 0; y < frame->height; y++)
        (void)XXH3_64bits_update(state, frame->rgb + (size_t)y * frame->stride, (size_t)frame->width * 3);
    r->hash[n] = XXH3_64bits_digest(state);
    (void)XXH3_freeState(state);
    r->t[n] = frame->t;
    r->pts[n] = frame->pts;
    r->luma[n] = lrm_luma(frame);
    r->substituted[n] = frame->substituted;
}

void lrm_read_frames(const lr_recording *recording, int64_t first, int64_t end_index,
                     lrm_reading *out)
{
    lr_error err = {0};
    lr_frame_reader *reader = NULL;
    lr_frame frame;
    bool got;
    memset(out, 0, sizeof *out);
    out->first = first;
    lrt_assert_ok(lr_frame_reader_open(&reader, recording, first, end_index, &err), &err);
    for (;;) {
        lrt_assert_ok(lr_frame_reader_next(reader, &frame, &got, &err), &err);
        if (!got) break;
        assert_int_equal(frame.index, first + out->count);
        append(out, &frame);
    }
    assert_int_equal(out->count, end_index - first);
    const lr_damage *damage = lr_frame_reader_damage(reader, &out->n_damage);
    if (out->n_damage > 0) {
        out->damage = malloc(out->n_damage * sizeof *damage);
        memcpy(out->damage, damage, out->n_damage * sizeof *damage);
    }
    lr_frame_reader_close(reader);
}

void lrm_free_reading(lrm_reading *reading)
{
    free(reading->hash);
    free(reading->t);
    free(reading->pts);
    free(reading->luma);
    free(reading->substituted);
    free(reading->damage);
    memset(reading, 0, sizeof *reading);
}

static bool in_damage(const lr_damage *list, size_t count, lr_time t)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].stream == LR_STREAM_VIDEO && t >= list[i].start && t < list[i].end) return true;
    return false;
}

bool lrm_is_named(const lrm_reading *reading, const lr_timeline *timeline, lr_time t)
{
    return in_damage(reading->damage, reading->n_damage, t) || in_damage(timeline->damage, timeline->n_damage, t);
}

void lrm_assert_same_frames(const lrm_reading *whole, const lrm_reading *part, const char *what)
{
    for (int64_t i = 0; i < part->count; i++) {
        int64_t k = part->first + i - whole->first;
        assert_in_range(k, 0, whole->count - 1);
        if (whole->hash[k] != part->hash[i] || whole->pts[k] != part->pts[i] ||
            whole->t[k] != part->t[i] || whole->substituted[k] != part->substituted[i])
            fail_msg("%s: frame %lld differs from that of the whole (pts %.4f, there %.4f)", what,
                     (long long)(part->first + i), lr_time_seconds(part->pts[i]),
                     lr_time_seconds(whole->pts[k]));
    }
}

float *lrm_read_sound(const lr_recording *recording, size_t *count)
{
    lr_error err = {0};
    lr_sound_reader *reader = NULL;
    size_t total = (size_t)lr_recording_timeline(recording)->audio.n_samples, got = 1;
    float *samples = malloc((total + 1) * sizeof *samples);
    lrt_assert_ok(lr_sound_reader_open(&reader, recording, &err), &err);
    for (*count = 0; got > 0; *count += got) {
        /* One more than there are: the reader must stop by itself. */
        size_t room = total + 1 - *count < 3001 ? total + 1 - *count : 3001;
        lrt_assert_ok(lr_sound_reader_read(reader, samples + *count, room, &got, &err), &err);
    }
    assert_int_equal(*count, total);
    lr_sound_reader_close(reader);
    return samples;
}
