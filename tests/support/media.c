#include "media.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/channel_layout.h>

#define PCM_PIECE 1024 /* samples a packet */

typedef struct track {
    AVCodecContext *codec;
    AVStream *stream;
    AVFrame *frame;
    size_t next, end; /* pictures, or samples */
} track;

typedef struct writer {
    const char *path;
    const lrt_film *film;
    AVFormatContext *format;
    AVPacket *packet;
    track video, audio;
} writer;

static void check(const writer *w, int code, const char *what)
{
    char text[128] = "";
    if (code >= 0) return;
    (void)av_strerror(code, text, sizeof text);
    fail_msg("%s: %s: %s", w->path, what, text);
}

static void *got(const writer *w, const void *made, const char *what)
{
    if (!made) fail_msg("%s: no %s", w->path, what);
    return (void *)(uintptr_t)made;
}

static const char *video_codec(const lrt_film *film)
{
    return film->video_codec ? film->video_codec : "ffv1";
}

static const char *audio_codec(const lrt_film *film)
{
    return film->audio_codec ? film->audio_codec : "pcm_s16le";
}

bool lrt_has_encoders(const lrt_film *film)
{
    return (!film->rgb || avcodec_find_encoder_by_name(video_codec(film))) &&
           (!film->samples || avcodec_find_encoder_by_name(audio_codec(film)));
}

static void start_codec(writer *w, track *t, const char *name)
{
    const AVCodec *codec = got(w, avcodec_find_encoder_by_name(name), "encoder");
    t->codec = got(w, avcodec_alloc_context3(codec), "encoder");
    t->codec->thread_count = 1;
    t->codec->flags |= AV_CODEC_FLAG_BITEXACT;
    if (w->format->oformat->flags & AVFMT_GLOBALHEADER)
        t->codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
}

static void open_codec(writer *w, track *t)
{
    check(w, avcodec_open2(t->codec, NULL, NULL), "encoder");
    t->stream = got(w, avformat_new_stream(w->format, NULL), "stream");
    t->stream->time_base = t->codec->time_base;
    check(w, avcodec_parameters_from_context(t->stream->codecpar, t->codec), "parameters");
    t->frame = got(w, av_frame_alloc(), "memory");
}

static void add_video(writer *w)
{
    const lrt_film *film = w->film;
    AVRational rate = {(int)film->rate.num, (int)film->rate.den};
    start_codec(w, &w->video, video_codec(film));
    AVCodecContext *c = w->video.codec;
    c->width = film->width;
    c->height = film->height;
    c->pix_fmt = film->yuv420p ? AV_PIX_FMT_YUV420P : AV_PIX_FMT_BGR0;
    if (film->gop) c->gop_size = film->gop;
    if (film->interlaced) {
        c->flags |= AV_CODEC_FLAG_INTERLACED_DCT;
        c->field_order = AV_FIELD_TT;
    }
    if (film->hdr) {
        c->color_trc = AVCOL_TRC_SMPTE2084;
        c->color_primaries = AVCOL_PRI_BT2020;
        c->colorspace = AVCOL_SPC_BT2020_NCL;
    }
    c->max_b_frames = film->b_frames;
    c->framerate = rate;
    c->time_base = av_inv_q(rate);
    open_codec(w, &w->video);
    w->video.stream->avg_frame_rate = rate;
    w->video.frame->format = c->pix_fmt;
    w->video.frame->width = c->width;
    w->video.frame->height = c->height;
    w->video.end = film->n_pictures;
}

static void add_audio(writer *w)
{
    const lrt_film *film = w->film;
    start_codec(w, &w->audio, audio_codec(film));
    AVCodecContext *c = w->audio.codec;
    c->sample_fmt = film->fltp ? AV_SAMPLE_FMT_FLTP : AV_SAMPLE_FMT_S16;
    c->sample_rate = film->sample_rate ? film->sample_rate : 16000;
    av_channel_layout_default(&c->ch_layout, 1);
    c->time_base = (AVRational){1, c->sample_rate};
    open_codec(w, &w->audio);
    w->audio.end = film->n_samples;
}

/* Sends a frame (NULL: the end) and writes what comes out. */
static void encode(writer *w, track *t, const AVFrame *frame)
{
    check(w, avcodec_send_frame(t->codec, frame), "encoding");
    for (;;) {
        int code = avcodec_receive_packet(t->codec, w->packet);
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return;
        check(w, code, "encoding");
        if (w->packet->duration == 0 && frame) w->packet->duration = t == &w->video ? 1 : frame->nb_samples;
        av_packet_rescale_ts(w->packet, t->codec->time_base, t->stream->time_base);
        w->packet->stream_index = t->stream->index;
        check(w, av_interleaved_write_frame(w->format, w->packet), "writing");
    }
}

static void fill_bgr0(const lrt_film *film, AVFrame *frame, const uint8_t *rgb)
{
    for (int y = 0; y < film->height; y++) {
        uint8_t *row = frame->data[0] + (ptrdiff_t)y * frame->linesize[0];
        for (int x = 0; x < film->width; x++, rgb += 3, row += 4) {
            row[0] = rgb[2];
            row[1] = rgb[1];
            row[2] = rgb[0];
            row[3] = 0;
        }
    }
}

static void fill_yuv420p(const lrt_film *film, AVFrame *frame, const uint8_t *rgb)
{
    static const int channels[3] = {1, 2, 0};
    for (int p = 0; p < 3; p++) {
        int step = p == 0 ? 1 : 2;
        for (int y = 0; y < film->height; y += step)
            for (int x = 0; x < film->width; x += step)
                frame->data[p][(ptrdiff_t)(y / step) * frame->linesize[p] + x / step] =
                    rgb[((ptrdiff_t)y * film->width + x) * 3 + channels[p]];
    }
}

static void encode_picture(writer *w)
{
    const lrt_film *film = w->film;
    AVFrame *frame = w->video.frame;
    size_t i = w->video.next++, bytes = (size_t)film->width * (size_t)film->height * 3;
    const uint8_t *rgb = film->rgb + (film->shown ? film->shown[i] : i) * bytes;
    if (!frame->data[0]) check(w, av_frame_get_buffer(frame, 0), "memory");
    check(w, av_frame_make_writable(frame), "memory");
    if (film->yuv420p) fill_yuv420p(film, frame, rgb);
    else fill_bgr0(film, frame, rgb);
    frame->color_trc = w->video.codec->color_trc;
    frame->color_primaries = w->video.codec->color_primaries;
    frame->colorspace = w->video.codec->colorspace;
    if (film->interlaced) {
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 7, 100)
        frame->flags |= AV_FRAME_FLAG_INTERLACED | AV_FRAME_FLAG_TOP_FIELD_FIRST;
#else
        frame->interlaced_frame = frame->top_field_first = 1;
#endif
    }
    frame->pts = (int64_t)i;
    encode(w, &w->video, frame);
}

static void encode_samples(writer *w)
{
    const lrt_film *film = w->film;
    AVFrame *frame = w->audio.frame;
    const int frame_size = w->audio.codec->frame_size;
    size_t left = film->n_samples - w->audio.next, piece = frame_size > 0 ? (size_t)frame_size : PCM_PIECE;
    size_t count = left < piece ? left : piece;
    av_frame_unref(frame);
    frame->format = w->audio.codec->sample_fmt;
    frame->sample_rate = w->audio.codec->sample_rate;
    frame->nb_samples = (int)count;
    frame->pts = (int64_t)w->audio.next;
    check(w, av_channel_layout_copy(&frame->ch_layout, &w->audio.codec->ch_layout), "memory");
    check(w, av_frame_get_buffer(frame, 0), "memory");
    const int16_t *from = film->samples + w->audio.next;
    for (size_t i = 0; i < count; i++) {
        if (film->fltp) ((float *)(void *)frame->data[0])[i] = (float)from[i] / 32768;
        else ((int16_t *)(void *)frame->data[0])[i] = from[i];
    }
    w->audio.next += count;
    encode(w, &w->audio, frame);
}

/* In the order of their times, as a recorder writes them. */
static void write_all(writer *w)
{
    track *v = &w->video, *a = &w->audio;
    while (v->next < v->end || a->next < a->end) {
        bool picture = v->next < v->end;
        if (picture && a->next < a->end)
            picture = av_compare_ts((int64_t)v->next, v->codec->time_base, (int64_t)a->next,
                                    a->codec->time_base) <= 0;
        if (picture)
            encode_picture(w);
        else
            encode_samples(w);
    }
    if (v->codec) encode(w, v, NULL);
    if (a->codec) encode(w, a, NULL);
}

static void end_track(track *t)
{
    av_frame_free(&t->frame);
    avcodec_free_context(&t->codec);
}

void lrt_write_film(const char *path, const lrt_film *film)
{
    writer w = {.path = path, .film = film};
    check(&w, avformat_alloc_output_context2(&w.format, NULL, NULL, path), "container");
    w.format->flags |= AVFMT_FLAG_BITEXACT;
    w.packet = got(&w, av_packet_alloc(), "memory");
    if (film->rgb) add_video(&w);
    if (film->samples) add_audio(&w);
    check(&w, avio_open(&w.format->pb, path, AVIO_FLAG_WRITE), "opening");
    check(&w, avformat_write_header(w.format, NULL), "header");
    write_all(&w);
    check(&w, av_write_trailer(w.format), "trailer");
    check(&w, avio_closep(&w.format->pb), "closing");
    end_track(&w.video);
    end_track(&w.audio);
    av_packet_free(&w.packet);
    avformat_free_context(w.format);
}

uint8_t *lrt_made_pictures(lrt_random *random, size_t n, int width, int height)
{
    size_t bytes = n * (size_t)width * (size_t)height * 3;
    uint8_t *rgb = malloc(bytes ? bytes : 1), *at = rgb;
    if (!rgb) fail_msg("out of memory");
    for (size_t i = 0; i < n; i++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                for (int c = 0; c < 3; c++) {
                    bool edge = (x + 5 * (int)i) % width < width / 3 || (y + 3 * c) % height < height / 4;
                    *at++ = (uint8_t)((edge ? 190 : 20) + 11 * c + (int)lrt_below(random, 24));
                }
    return rgb;
}

int16_t *lrt_made_sound(lrt_random *random, size_t n_samples)
{
    int16_t *samples = malloc(n_samples ? n_samples * sizeof *samples : 1);
    if (!samples) fail_msg("out of memory");
    double phase = 0, step = 0.1;
    for (size_t i = 0; i < n_samples; i++) {
        if (i % 3001 == 0) step = (double)lrt_uniform(random, 0.03F, 1.2F);
        phase += step;
        samples[i] = (int16_t)(9000 * sin(phase) + (double)lrt_below(random, 2000) - 1000);
    }
    return samples;
}
