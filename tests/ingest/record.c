#include "recordings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswresample/swresample.h>
#include <libswscale/swscale.h>

#ifdef __SANITIZE_ADDRESS__
/* The encoder that makes test films loses some of its parameters. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libx265\n";
}
#endif

static int ok(int code, const char *what)
{
    char text[AV_ERROR_MAX_STRING_SIZE];
    if (code >= 0) return code;
    (void)av_strerror(code, text, sizeof text);
    fail_msg("%s: %s", what, text);
    return code;
}

static void *have(void *pointer, const char *what)
{
    if (!pointer) fail_msg("%s", what);
    return pointer;
}

/* ------------------------------------------------------------------ pictures to write */

static uint8_t noise_at(unsigned n, unsigned x, unsigned y)
{
    uint32_t h = n * 0x9E3779B1u ^ x * 0x85EBCA77u ^ y * 0xC2B2AE3Du;
    h ^= h >> 15;
    h *= 0x2C1B3C6Du;
    h ^= h >> 12;
    return (uint8_t)(h >> 24);
}

static void draw_luma(const lrm_film *film, AVFrame *frame, int n)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    int shift = d->comp[0].depth - 8, bytes = d->comp[0].depth > 8 ? 2 : 1;
    for (int plane = 0; plane < 3 && frame->data[plane]; plane++) {
        int w = plane ? AV_CEIL_RSHIFT(frame->width, d->log2_chroma_w) : frame->width;
        int h = plane ? AV_CEIL_RSHIFT(frame->height, d->log2_chroma_h) : frame->height;
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                int value = plane ? 128 : film->luma + film->step * n;
                if (!plane && !film->plain && x < frame->width / 4)
                    value = 100 + noise_at((unsigned)n, (unsigned)x, (unsigned)y) % 32;
                uint8_t *at = frame->data[plane] + y * frame->linesize[plane] + x * bytes;
                unsigned wide = (unsigned)value << shift;
                at[0] = (uint8_t)wide;
                if (bytes == 2) at[1] = (uint8_t)(wide >> 8);
            }
    }
}

/* ------------------------------------------------------------------ writing */

typedef struct writer {
    AVFormatContext *format;
    const lrm_film *film;
    const lrm_track *track;
    AVStream *stream[2];
    AVCodecContext *codec[2];
    AVPacket *packet;
} writer;

static AVCodecContext *new_encoder(const char *name, AVFormatContext *format)
{
    const AVCodec *codec = avcodec_find_encoder_by_name(name);
    if (!codec) fail_msg("libav has no encoder %s", name);
    AVCodecContext *c = have(avcodec_alloc_context3(codec), "an encoder");
    c->thread_count = 1;
    c->flags |= AV_CODEC_FLAG_BITEXACT;
    if (format->oformat->flags & AVFMT_GLOBALHEADER) c->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    return c;
}

static void open_encoder(writer *w, int i, const char *options)
{
    AVDictionary *dict = NULL;
    if (options) ok(av_dict_parse_string(&dict, options, "=", ";", 0), options);
    ok(avcodec_open2(w->codec[i], w->codec[i]->codec, &dict), w->codec[i]->codec->name);
    av_dict_free(&dict);
    w->stream[i] = have(avformat_new_stream(w->format, NULL), "a stream");
    ok(avcodec_parameters_from_context(w->stream[i]->codecpar, w->codec[i]), "parameters");
    w->stream[i]->time_base = w->codec[i]->time_base;
}

static void add_film(writer *w)
{
    const lrm_film *film = w->film;
    AVCodecContext *c = w->codec[0] = new_encoder(film->encoder, w->format);
    c->width = film->width;
    c->height = film->height;
    c->pix_fmt = film->format;
    c->time_base = film->ms ? (AVRational){1, 1000} : av_inv_q(film->rate);
    c->framerate = film->rate;
    c->gop_size = film->gop ? film->gop : 12;
    c->max_b_frames = film->b_frames;
    c->sample_aspect_ratio = film->sar;
    if (!film->told_by_container) {
        c->colorspace = film->space;
        c->color_range = film->range;
        c->color_trc = film->transfer;
        c->color_primaries = film->primaries;
    }
    /* 0 is RGB, and reserved. */
    if (!c->colorspace) c->colorspace = AVCOL_SPC_UNSPECIFIED;
    if (!c->color_trc) c->color_trc = AVCOL_TRC_UNSPECIFIED;
    if (!c->color_primaries) c->color_primaries = AVCOL_PRI_UNSPECIFIED;
    if (film->interlaced) {
        c->flags |= AV_CODEC_FLAG_INTERLACED_DCT | AV_CODEC_FLAG_INTERLACED_ME;
        c->field_order = AV_FIELD_TT;
    }
    c->strict_std_compliance = FF_COMPLIANCE_EXPERIMENTAL;
    c->flags |= AV_CODEC_FLAG_QSCALE;
    c->global_quality = 3 * FF_QP2LAMBDA;
    open_encoder(w, 0, film->options);
    if (film->told_by_container) {
        w->stream[0]->codecpar->color_space = film->space;
        w->stream[0]->codecpar->color_range = film->range;
        w->stream[0]->codecpar->color_trc = film->transfer;
        w->stream[0]->codecpar->color_primaries = film->primaries;
    }
    w->stream[0]->avg_frame_rate = film->rate;
    w->stream[0]->sample_aspect_ratio = film->sar;
    if (!film->matrix) return;
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
    AVCodecParameters *p = w->stream[0]->codecpar;
    AVPacketSideData *side = have(
        av_packet_side_data_new(&p->coded_side_data, &p->nb_coded_side_data,
                                AV_PKT_DATA_DISPLAYMATRIX, 36, 0), "side data");
    memcpy(side->data, film->matrix, 36);
#else
    memcpy(have(av_stream_new_side_data(w->stream[0], AV_PKT_DATA_DISPLAYMATRIX, 36), "side data"),
           film->matrix, 36);
#endif
}

static enum AVSampleFormat sample_format(const AVCodec *encoder)
{
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
    const void *formats = NULL;
    ok(avcodec_get_supported_config(NULL, encoder, AV_CODEC_CONFIG_SAMPLE_FORMAT, 0, &formats, NULL), "its formats");
    const enum AVSampleFormat *list = formats;
#else
    const enum AVSampleFormat *list = encoder->sample_fmts;
#endif
    return list ? list[0] : AV_SAMPLE_FMT_S16;
}

static void add_track(writer *w)
{
    const lrm_track *track = w->track;
    AVCodecContext *c = w->codec[1] = new_encoder(track->encoder, w->format);
    c->sample_rate = track->rate;
    c->time_base = (AVRational){1, track->rate};
    av_channel_layout_default(&c->ch_layout, track->channels);
    c->sample_fmt = sample_format(c->codec);
    c->bit_rate = 96000;
    c->strict_std_compliance = FF_COMPLIANCE_EXPERIMENTAL;
    open_encoder(w, 1, NULL);
}

static void write_packets(writer *w, int i, const AVFrame *frame)
{
    ok(avcodec_send_frame(w->codec[i], frame), "encoding");
    int64_t offset = i == 0 ? w->film->offset_ms : w->track->offset_ms;
    for (;;) {
        int code = avcodec_receive_packet(w->codec[i], w->packet);
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return;
        ok(code, "encoding");
        av_packet_rescale_ts(w->packet, w->codec[i]->time_base, w->stream[i]->time_base);
        int64_t shift = av_rescale_q(offset, (AVRational){1, 1000}, w->stream[i]->time_base);
        int64_t ms = av_rescale_q(w->packet->pts, w->stream[i]->time_base, (AVRational){1, 1000});
        if (i == 1)
            shift += av_rescale(w->packet->pts, 1000000 + w->track->drift_ppm, 1000000) - w->packet->pts;
        w->packet->pts += shift;
        w->packet->dts += shift;
        w->packet->stream_index = i == 0 ? 0 : w->stream[0] ? 1 : 0;
        bool dropped = i == 1 && ms >= w->track->hole_ms[0] && ms < w->track->hole_ms[1];
        if (!dropped) ok(av_interleaved_write_frame(w->format, w->packet), "writing");
        av_packet_unref(w->packet);
    }
}

static void mark_fields(AVFrame *frame)
{
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 7, 100)
    frame->flags |= AV_FRAME_FLAG_INTERLACED | AV_FRAME_FLAG_TOP_FIELD_FIRST;
#else
    frame->interlaced_frame = frame->top_field_first = 1;
#endif
}

static void write_picture(writer *w, int n)
{
    const lrm_film *film = w->film;
    AVFrame *frame = have(av_frame_alloc(), "a frame");
    frame->width = film->width;
    frame->height = film->height;
    frame->format = film->format;
    frame->colorspace = w->codec[0]->colorspace;
    frame->color_range = w->codec[0]->color_range;
    frame->color_trc = w->codec[0]->color_trc;
    frame->color_primaries = w->codec[0]->color_primaries;
    if (film->interlaced) mark_fields(frame);
    frame->sample_aspect_ratio = film->sar;
    frame->quality = w->codec[0]->global_quality;
    ok(av_frame_get_buffer(frame, 0), "a frame");
    if (film->draw) film->draw(frame, n);
    else draw_luma(film, frame, n);
    frame->pts = film->ms ? film->ms[n] : n;
    /* What stands before zero the mp4 muxer hides with an edit list. */
    frame->pts -= film->hidden;
    write_packets(w, 0, frame);
    av_frame_free(&frame);
}

static double sample_at(const lrm_track *track, int64_t i)
{
    if (track->noise) return noise_at((unsigned)i, 1, 2) / 256.0 - 0.5;
    if (track->clicks) return i % (60 * track->rate) == 0 ? 0.9 : 0;
    int64_t second = i / track->rate, in_second = i % track->rate;
    if (in_second >= track->rate / 10) return 0;
    double hz = 400 + 50 * (double)(second % 20);
    return 0.5 * sin(2 * M_PI * hz * (double)in_second / track->rate);
}

static void set_sample(AVFrame *frame, int channel, int channels, int i, double value)
{
    enum AVSampleFormat format = (enum AVSampleFormat)frame->format;
    bool planar = av_sample_fmt_is_planar(format);
    uint8_t *plane = planar ? frame->extended_data[channel] : frame->extended_data[0];
    int at = planar ? i : i * channels + channel;
    switch (av_get_packed_sample_fmt(format)) {
    case AV_SAMPLE_FMT_U8: plane[at] = (uint8_t)(128 + value * 127); break;
    case AV_SAMPLE_FMT_S16: ((int16_t *)(void *)plane)[at] = (int16_t)lrint(value * 32767); break;
    case AV_SAMPLE_FMT_S32: ((int32_t *)(void *)plane)[at] = (int32_t)lrint(value * 2147483647.0); break;
    case AV_SAMPLE_FMT_FLT: ((float *)(void *)plane)[at] = (float)value; break;
    case AV_SAMPLE_FMT_DBL: ((double *)(void *)plane)[at] = value; break;
    default: fail_msg("sample format %d", frame->format);
    }
}

/* Returns the number of samples written: 0 at the end. */
static int write_samples(writer *w, int64_t from)
{
    const lrm_track *track = w->track;
    AVCodecContext *c = w->codec[1];
    int64_t total = track->ms * track->rate / 1000, count = c->frame_size > 0 ? c->frame_size : 480;
    if (count > total - from) count = total - from;
    if (count <= 0) return 0;
    AVFrame *frame = have(av_frame_alloc(), "a frame");
    frame->nb_samples = (int)count;
    frame->format = c->sample_fmt;
    frame->sample_rate = track->rate;
    ok(av_channel_layout_copy(&frame->ch_layout, &c->ch_layout), "a layout");
    ok(av_frame_get_buffer(frame, 0), "a frame");
    for (int i = 0; i < frame->nb_samples; i++)
        for (int channel = 0; channel < track->channels; channel++)
            set_sample(frame, channel, track->channels, i, sample_at(track, from + i));
    frame->pts = from;
    write_packets(w, 1, frame);
    av_frame_free(&frame);
    return (int)count;
}

static bool index_first;

void lrm_index_first(bool wanted)
{
    index_first = wanted;
}

void lrm_record(const char *path, const char *muxer, const lrm_film *film, const lrm_track *track)
{
    writer w = {.film = film, .track = track};
    av_log_set_level(AV_LOG_ERROR);
    ok(avformat_alloc_output_context2(&w.format, NULL, muxer, path), muxer);
    w.format->flags |= AVFMT_FLAG_BITEXACT;
    w.packet = have(av_packet_alloc(), "a packet");
    if (film) add_film(&w);
    if (track) add_track(&w);
    if (!(w.format->oformat->flags & AVFMT_NOFILE))
        ok(avio_open(&w.format->pb, path, AVIO_FLAG_WRITE), path);
    AVDictionary *options = NULL;
    ok(av_dict_set(&options, "mpegts_flags", "resend_headers", 0), "options");
    ok(av_dict_set(&options, "muxdelay", "0", 0), "options");
    if (index_first) ok(av_dict_set(&options, "movflags", "faststart", 0), "options");
    ok(avformat_write_header(w.format, &options), path);
    av_dict_free(&options);
    int n_frames = film ? film->frames : 0, n = 0;
    int64_t samples = 0;
    for (bool sound = track != NULL; n < n_frames || sound;) {
        double film_s = n < n_frames ? (film->ms ? (double)film->ms[n] / 1000
                                                 : n / av_q2d(film->rate)) : 1e9;
        if (sound && (double)samples / track->rate <= film_s) {
            int count = write_samples(&w, samples);
            samples += count;
            sound = count > 0;
        } else if (n < n_frames) write_picture(&w, n++);
    }
    for (int i = 0; i < 2; i++)
        if (w.codec[i]) write_packets(&w, i, NULL);
    ok(av_write_trailer(w.format), path);
    if (!(w.format->oformat->flags & AVFMT_NOFILE)) avio_closep(&w.format->pb);
    for (int i = 0; i < 2; i++) avcodec_free_context(&w.codec[i]);
    av_packet_free(&w.packet);
    avformat_free_context(w.format);
}

void lrm_without_packets(const char *path, const char *from, const char *muxer, int stream,
                         int64_t first, int64_t end)
{
    AVFormatContext *in = NULL, *out = NULL;
    int64_t count = 0;
    ok(avformat_open_input(&in, from, NULL, NULL), from);
    ok(avformat_find_stream_info(in, NULL), from);
    ok(avformat_alloc_output_context2(&out, NULL, muxer, path), muxer);
    for (unsigned i = 0; i < in->nb_streams; i++) {
        AVStream *s = have(avformat_new_stream(out, NULL), "a stream");
        ok(avcodec_parameters_copy(s->codecpar, in->streams[i]->codecpar), "parameters");
        s->codecpar->codec_tag = 0;
        s->time_base = in->streams[i]->time_base;
    }
    ok(avio_open(&out->pb, path, AVIO_FLAG_WRITE), path);
    ok(avformat_write_header(out, NULL), path);
    AVPacket *packet = have(av_packet_alloc(), "a packet");
    while (av_read_frame(in, packet) >= 0) {
        int i = packet->stream_index;
        bool dropped = i == stream && count >= first && count < end;
        if (i == stream) count++;
        av_packet_rescale_ts(packet, in->streams[i]->time_base, out->streams[i]->time_base);
        if (!dropped) ok(av_interleaved_write_frame(out, packet), "writing");
        av_packet_unref(packet);
    }
    av_packet_free(&packet);
    ok(av_write_trailer(out), path);
    avio_closep(&out->pb);
    avformat_free_context(out);
    avformat_close_input(&in);
}

static void copy_packets(AVFormatContext *out, const char *from, int64_t ms)
{
    AVFormatContext *in = NULL;
    AVPacket *packet = have(av_packet_alloc(), "a packet");
    ok(avformat_open_input(&in, from, NULL, NULL), from);
    ok(avformat_find_stream_info(in, NULL), from);
    if (out->nb_streams == 0) {
        AVStream *s = have(avformat_new_stream(out, NULL), "a stream");
        ok(avcodec_parameters_copy(s->codecpar, in->streams[0]->codecpar), "parameters");
        s->codecpar->codec_tag = 0;
        s->time_base = in->streams[0]->time_base;
        ok(avformat_write_header(out, NULL), out->url);
    }
    const AVStream *to = out->streams[0];
    int64_t first = AV_NOPTS_VALUE;
    while (av_read_frame(in, packet) >= 0) {
        av_packet_rescale_ts(packet, in->streams[0]->time_base, to->time_base);
        if (first == AV_NOPTS_VALUE) first = packet->dts;
        int64_t shift = av_rescale_q(ms, (AVRational){1, 1000}, to->time_base) - first;
        packet->pts += shift;
        packet->dts += shift;
        packet->stream_index = 0;
        packet->pos = -1;
        ok(av_interleaved_write_frame(out, packet), "writing");
        av_packet_unref(packet);
    }
    av_packet_free(&packet);
    avformat_close_input(&in);
}

void lrm_join(const char *path, const char *first, const char *second, const char *muxer)
{
    AVFormatContext *out = NULL;
    ok(avformat_alloc_output_context2(&out, NULL, muxer, path), muxer);
    ok(avio_open(&out->pb, path, AVIO_FLAG_WRITE), path);
    copy_packets(out, first, 0);
    copy_packets(out, second, 2000);
    ok(av_write_trailer(out), path);
    avio_closep(&out->pb);
    avformat_free_context(out);
}
