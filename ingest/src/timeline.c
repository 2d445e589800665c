/* Opening a recording: from its index to one timeline of picture and sound. */
#include <stdio.h>
#include <string.h>

#include <libavutil/mastering_display_metadata.h>

#include "convert.h"
#include "decode.h"
#include "fields.h"
#include "hardware.h"

/* Starts closer than this count as one: most containers put the picture a little after the sound. */
#define SAME_START (LR_TIME_SECOND / 10)

lr_ingest_options lr_ingest_defaults(void)
{
    return (lr_ingest_options){.fps = {1, 1},
                               .video = true,
                               .audio = true,
                               .start = LR_TIME_NONE,
                               .end = LR_TIME_NONE,
                               .audio_track = -1,
                               .threads = 1};
}

lr_status lri_recording_warn(lr_recording *recording, lr_error *err, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lr_status st = LR_GROW(&recording->warnings, &recording->warnings_capacity,
                           recording->n_warnings + 1, "the warnings", err);
    if (st != LR_OK) return st;
    char *copy = lr_strdup(text);
    if (!copy) return lr_fail(err, LR_E_NOMEM, "out of memory: the warnings");
    recording->warnings[recording->n_warnings++] = copy;
    lr_log(LR_LOG_WARNING, "%s: %s", recording->path, text);
    return LR_OK;
}

lr_status lri_recording_reopen(const lr_recording *recording, lri_source *source, bool demux, lr_error *err)
{
    lr_status st = lri_source_open(source, recording->path, recording->options.cancel, err);
    if (st != LR_OK) return st;
    if (source->bytes != recording->file_bytes || source->inode != recording->inode ||
        source->modified.tv_sec != recording->modified.tv_sec ||
        source->modified.tv_nsec != recording->modified.tv_nsec)
        return lr_fail(err, LR_E_IO, "%s: changed while it was read", recording->path);
    memcpy(source->patches, recording->patches, sizeof source->patches);
    source->n_patches = recording->n_patches;
    return demux ? lri_source_demux(source, err) : LR_OK;
}

/* ------------------------------------------------------------------ clocks */

static lri_moment start_of_video(const lr_recording *recording)
{
    const lri_video_index *v = &recording->video;
    return lri_moment_of(v->first_pts, v->time_base.num, v->time_base.den);
}

static lri_moment start_of_audio(const lr_recording *recording)
{
    const lri_audio_index *a = &recording->audio;
    return lri_moment_of(a->first_pts, a->time_base.num, a->time_base.den);
}

/* The one origin, and what it is on each stream's clock. */
static lr_status set_origin(lr_recording *recording, lr_error *err)
{
    bool video = recording->video.stream >= 0, audio = recording->audio.stream >= 0;
    lri_moment v = video ? start_of_video(recording) : start_of_audio(recording);
    lri_moment a = audio ? start_of_audio(recording) : v;
    lri_moment apart;
    if (!lri_moment_sub(v, a, &apart))
        return lr_fail(err, LR_E_FORMAT, "%s: time stamps out of range", recording->path);
    lr_time difference = lri_moment_time(apart);
    lri_moment earliest = difference < 0 ? v : a;
    bool same = difference > -SAME_START && difference < SAME_START;
    recording->video_zero = same ? v : earliest;
    recording->audio_zero = same ? a : earliest;
    recording->timeline.origin_s = lri_moment_seconds(earliest);
    return LR_OK;
}

static lri_moment moment_of_time(lr_time t)
{
    return lri_moment_of(t, 1, LR_TIME_SECOND);
}

/* End of the picture: the last duration, or exactly n pictures where a constant rate is only rounded
 * by the ticks. */
static lri_moment end_of_video(const lr_recording *recording)
{
    const lri_video_index *v = &recording->video;
    lri_moment end = lri_moment_of(v->last_end, v->time_base.num, v->time_base.den), length, by_rate;
    if (v->rate.num <= 0) return end;
    length = lri_moment_of((int64_t)v->n_shown, v->rate.den, v->rate.num);
    lri_moment off, tick = lri_moment_of(1, v->time_base.num, v->time_base.den);
    if (!lri_moment_add(start_of_video(recording), length, &by_rate) ||
        !lri_moment_sub(end, by_rate, &off))
        return end;
    lr_time apart = lri_moment_time(off), most = lri_moment_time(tick) + 1;
    return apart <= most && apart >= -most ? by_rate : end;
}

/* ------------------------------------------------------------------ picture */

/* Sizes of pixels beyond this are mistakes. */
#define MOST_SAR 64

static lr_rational sar_of(AVRational sar)
{
    if (sar.num > 0 && sar.den > 0 && sar.num / sar.den < MOST_SAR && sar.den / sar.num < MOST_SAR)
        return (lr_rational){sar.num, sar.den};
    return (lr_rational){1, 1};
}

/* What the container says of a stream; NULL where it is not there or shorter than `least` bytes. */
static const void *side_data_of(const AVStream *stream, enum AVPacketSideDataType type, size_t least)
{
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
    const AVPacketSideData *side = av_packet_side_data_get(
        stream->codecpar->coded_side_data, stream->codecpar->nb_coded_side_data, type);
    return side && side->size >= least ? side->data : NULL;
#else
    size_t size = 0;
    const uint8_t *data = av_stream_get_side_data(stream, type, &size);
    return data && size >= least ? data : NULL;
#endif
}

static const void *frame_data_of(const AVFrame *frame, enum AVFrameSideDataType type, size_t least)
{
    const AVFrameSideData *side = av_frame_get_side_data(frame, type);
    return side && side->size >= least ? side->data : NULL;
}

static const int32_t *display_matrix_of(const AVStream *stream, const AVFrame *frame)
{
    const void *of_stream = side_data_of(stream, AV_PKT_DATA_DISPLAYMATRIX, 36);
    return of_stream ? of_stream : frame_data_of(frame, AV_FRAME_DATA_DISPLAYMATRIX, 36);
}

/* The brightest light of a film, cd/m2: what is said of its content, else of the screen it was made on, else that
 * of a usual one. */
static int peak_of(const AVStream *stream, const AVFrame *frame)
{
    enum { LEAST = 100, MOST = 10000, USUAL = 1000 };
    const AVContentLightMetadata *light =
        frame_data_of(frame, AV_FRAME_DATA_CONTENT_LIGHT_LEVEL, sizeof *light);
    const AVMasteringDisplayMetadata *screen =
        frame_data_of(frame, AV_FRAME_DATA_MASTERING_DISPLAY_METADATA, sizeof *screen);
    if (!light) light = side_data_of(stream, AV_PKT_DATA_CONTENT_LIGHT_LEVEL, sizeof *light);
    if (!screen) screen = side_data_of(stream, AV_PKT_DATA_MASTERING_DISPLAY_METADATA, sizeof *screen);
    double peak = light ? light->MaxCLL : 0;
    if (peak <= 0 && screen && screen->has_luminance && screen->max_luminance.den != 0)
        peak = av_q2d(screen->max_luminance);
    if (!(peak > 0)) return USUAL;
    return peak < LEAST ? LEAST : peak > MOST ? MOST : (int)(peak + 0.5);
}

/* The short axis of a pixel is widened, to the nearest pixel. */
bool lri_set_display(lr_video_info *info, AVRational sar, bool transposed)
{
    int64_t w = info->coded_width, h = info->coded_height;
    info->sar = sar_of(sar);
    if (info->sar.num > info->sar.den) w = lr_rescale(w, info->sar.num, info->sar.den);
    else h = lr_rescale(h, info->sar.den, info->sar.num);
    if (w > INT32_MAX / 4 || h > INT32_MAX / 4) return false;
    info->width = transposed ? info->coded_height : info->coded_width;
    info->height = transposed ? info->coded_width : info->coded_height;
    info->display_width = (int)(transposed ? h : w);
    info->display_height = (int)(transposed ? w : h);
    return true;
}

/* Colour that comes out other than it was meant. */
static lr_status warn_of_colour(lr_recording *recording, const AVFrame *frame, lr_error *err)
{
    lr_status st = LR_OK;
    const char *hdr = lri_hdr_name(frame->color_trc);
    if (hdr && lri_tonemap_can(frame->width, frame->height))
        LR_TRY(lri_recording_warn(recording, err, "the picture has a high dynamic range (%s): its tones are "
                                                  "mapped to BT.709", hdr));
    else if (hdr)
        LR_TRY(lri_recording_warn(recording, err, "the picture has a high dynamic range (%s), which is not "
                                                  "mapped: colours look pale", hdr));
    if (frame->colorspace > AVCOL_SPC_BT2020_CL || frame->colorspace == AVCOL_SPC_YCGCO)
        LR_TRY(lri_recording_warn(recording, err, "the picture's colour space (%d) is taken for BT.601",
                                  (int)frame->colorspace));
done:
    return st;
}

/* The container, or what libav has parsed of the stream: a film may begin with a whole picture. */
static bool is_said_interlaced(const AVStream *stream)
{
    switch (stream->codecpar->field_order) {
    case AV_FIELD_TT:
    case AV_FIELD_BB:
    case AV_FIELD_TB:
    case AV_FIELD_BT: return true;
    default: return false;
    }
}

static lr_status describe_picture(lr_recording *recording, lri_decoder *decoder, lr_error *err)
{
    lr_video_info *info = &recording->timeline.video;
    const AVFrame *frame = decoder->frame;
    const AVStream *stream = lri_stream_of(&decoder->source, recording->video.stream, &recording->video.reach);
    lr_status st = LR_OK;
    info->coded_width = frame->width;
    info->coded_height = frame->height;
    info->interlaced = lri_is_interlaced(frame) || is_said_interlaced(stream);
    recording->hdr_peak = peak_of(stream, frame);
    LR_TRY(warn_of_colour(recording, frame, err));
    const int32_t *matrix = display_matrix_of(stream, frame);
    if (matrix) {
        bool exact;
        recording->orientation = lri_orientation_of(matrix, &exact);
        if (!exact)
            LR_TRY(lri_recording_warn(recording, err, "the display matrix is no quarter turn; the "
                                                      "nearest is taken"));
    }
    info->rotation = lri_orientation_degrees(recording->orientation, &info->flipped);
    AVRational sar = av_guess_sample_aspect_ratio(NULL, (AVStream *)(uintptr_t)stream, decoder->frame);
    if (!lri_set_display(info, sar, recording->orientation.transposed))
        st = lr_fail(err, LR_E_UNSUPPORTED, "%s: pictures of %d x %d pixels, of %d:%d", recording->path,
                     frame->width, frame->height, sar.num, sar.den);
done:
    return st;
}

/* Segments that are tried for the first picture. */
#define MOST_TRIES 64

/* Decodes the first picture that can be: it gives the size of all. *found false: none. */
static lr_status probe_picture(lr_recording *recording, bool *found, lr_error *err)
{
    lr_status st = LR_OK;
    const lri_video_index *video = &recording->video;
    lri_decoder decoder;
    *found = false;
    LR_TRY(lri_decoder_open(&decoder, recording, 1, err));
    size_t tries = 0, entry = lri_entry_of(video, lri_shown(video, 0));
    while (tries < MOST_TRIES && entry < video->n_packets) {
        size_t limit = entry + 1;
        while (limit < video->n_packets && !lri_is_entry(video, limit))
            limit++;
        LR_TRY(lri_decoder_begin(&decoder, entry, err));
        for (bool got = true; got;) {
            LR_TRY(lri_decoder_next(&decoder, limit, &got, err));
            bool shown = got && (lri_flags(video, (size_t)decoder.frame->pts) & LRI_SHOWN);
            if (!shown || decoder.frame->width <= 0 || decoder.frame->height <= 0) continue;
            *found = true;
            st = describe_picture(recording, &decoder, err);
            goto done;
        }
        entry = limit;
        tries++;
    }
done:
    lri_decoder_close(&decoder);
    return st;
}

/* ------------------------------------------------------------------ the part wanted */

static lr_status set_grid(lr_recording *recording, lr_error *err)
{
    const lr_ingest_options *options = &recording->options;
    lr_video_info *info = &recording->timeline.video;
    lri_moment end, length;
    lr_time start = options->start == LR_TIME_NONE ? 0 : options->start;
    if (!lri_moment_add(recording->video_zero, moment_of_time(start), &recording->video_base) ||
        !lri_moment_sub(end_of_video(recording), recording->video_zero, &end))
        return lr_fail(err, LR_E_FORMAT, "%s: time stamps out of range", recording->path);
    info->start = lri_video_time(recording, recording->video.first_pts);
    info->end = lri_moment_time(end);
    if (options->end != LR_TIME_NONE && options->end < info->end) end = moment_of_time(options->end);
    if (!lri_moment_sub(end, moment_of_time(start), &length))
        return lr_fail(err, LR_E_FORMAT, "%s: time stamps out of range", recording->path);
    int64_t n = lri_grid_count(length, options->fps);
    /* A part that begins behind the last picture has none, as one behind the sound has no sound. */
    info->n_frames = n >= 1 ? n : start < info->end || start == 0 ? 1 : 0;
    /* 2^31 points are a day at 24,000 a second. */
    if (info->n_frames > INT32_MAX)
        return lr_fail(err, LR_E_FORMAT, "%s: %lld frames: time stamps or fps out of range",
                       recording->path, (long long)info->n_frames);
    return LR_OK;
}

static int64_t sample_at(lr_time t)
{
    return lr_rescale(t, LR_SAMPLE_RATE, LR_TIME_SECOND);
}

static lr_time time_of_sample(int64_t sample)
{
    return lr_rescale(sample, LR_TIME_SECOND, LR_SAMPLE_RATE);
}

static lr_status set_sound(lr_recording *recording, lr_error *err)
{
    const lr_ingest_options *options = &recording->options;
    lri_audio_index *audio = &recording->audio;
    lr_audio_info *info = &recording->timeline.audio;
    lr_status st = LR_OK;
    LR_TRY(lri_sound_index_place(recording, err));
    const lri_run *first = &audio->runs[0], *last = &audio->runs[audio->n_runs - 1];
    int64_t total = last->out_start + last->out_samples;
    info->start = time_of_sample(first->out_start);
    info->end = time_of_sample(total);
    if (options->end != LR_TIME_NONE && sample_at(options->end) < total)
        total = sample_at(options->end);
    recording->sound_skip = options->start == LR_TIME_NONE ? 0 : sample_at(options->start);
    info->n_samples = total > recording->sound_skip ? total - recording->sound_skip : 0;
    for (size_t r = 1; r < audio->n_runs; r++) {
        const lri_run *before = &audio->runs[r - 1];
        int64_t from = before->out_start + before->out_samples, to = audio->runs[r].out_start;
        if (to <= from) continue;
        LR_TRY(LR_GROW(&recording->gaps, &recording->gaps_capacity, recording->n_gaps + 1, "the gaps",
                       err));
        recording->gaps[recording->n_gaps][0] = time_of_sample(from);
        recording->gaps[recording->n_gaps++][1] = time_of_sample(to);
    }
    info->gaps = (const lr_time(*)[2])recording->gaps;
    info->n_gaps = recording->n_gaps;
    if (audio->n_corrections > 0)
        LR_TRY(lri_recording_warn(recording, err, "the sound's clock steps back %zu times: ignored",
                                  audio->n_corrections));
done:
    return st;
}

/* ------------------------------------------------------------------ the whole */

static void copy_name(char to[32], const char *from)
{
    size_t n = strcspn(from, ",");
    if (n > 31) n = 31;
    memcpy(to, from, n);
    to[n] = '\0';
}

static void name_streams(lr_recording *recording, const AVFormatContext *format)
{
    lr_timeline *t = &recording->timeline;
    if (recording->video.stream >= 0)
        copy_name(t->video.codec, lri_codec_name(recording->video.codec));
    if (recording->audio.stream >= 0) {
        const AVCodecParameters *p = format->streams[recording->audio.stream]->codecpar;
        copy_name(t->audio.codec, lri_codec_name(p->codec_id));
        t->audio.rate = p->sample_rate;
        t->audio.channels = p->ch_layout.nb_channels;
    }
}

static bool is_still(const lr_recording *recording, const AVFormatContext *format)
{
    const char *name = format->iformat->name;
    size_t length = strlen(name);
    return recording->video.n_shown == 1 && recording->audio.stream < 0 &&
           ((length > 5 && strcmp(name + length - 5, "_pipe") == 0) || strcmp(name, "gif") == 0 ||
            strcmp(name, "apng") == 0 || strcmp(name, "ico") == 0);
}

static lr_status describe_video(lr_recording *recording, lr_error *err)
{
    lr_status st = LR_OK;
    bool found = false;
    lr_error cause = {0};
    st = probe_picture(recording, &found, &cause);
    if (st != LR_OK && (st != LR_E_UNSUPPORTED || recording->audio.stream < 0))
        return lr_fail(err, st, "%s", cause.text);
    st = LR_OK;
    if (!found) {
        LR_TRY(lri_recording_warn(recording, err, "no picture of stream %d can be decoded",
                                  recording->video.stream));
        recording->video.stream = -1;
        if (recording->audio.stream < 0)
            LR_FAIL(LR_E_NO_MEDIA, recording->options.audio
                                       ? "%s: holds neither picture nor sound that can be decoded"
                                       : "%s: has no pictures that can be decoded",
                    recording->path);
    }
done:
    return st;
}

/* The pts from which on pictures may be missing behind packet n: there, or where the stamps had come to before. */
static int64_t start_of_hole(const lri_video_index *video, size_t n)
{
    enum { NEAR = 32 };
    int64_t at = lri_pts(video, n), before = INT64_MIN, next;
    for (size_t i = n > NEAR ? n - NEAR : 0; i < n; i++)
        if ((lri_flags(video, i) & LRI_SHOWN) && lri_pts(video, i) > before) before = lri_pts(video, i);
    if (video->typical <= 0 || before == INT64_MIN || __builtin_add_overflow(before, video->typical, &next))
        return at;
    return at > next && at - next > video->typical / 2 ? next : at;
}

/* The pts of the first picture behind packet n in the file, else that of the one shown next; *found false: none. */
static int64_t end_of_hole(const lri_video_index *video, size_t n, int64_t start, bool *found)
{
    enum { NEAR = 32 };
    int64_t end = INT64_MAX, later = INT64_MAX;
    size_t limit = n + NEAR;
    for (size_t i = n + 1; i < video->n_packets && i <= limit; i++) {
        int64_t pts = lri_pts(video, i);
        if (!(lri_flags(video, i) & LRI_SHOWN)) {
            limit++;
            continue;
        }
        if (pts < end) end = pts;
        if (pts > start && pts < later) later = pts;
    }
    if (end <= start) end = later;
    *found = end != INT64_MAX;
    return end;
}

/* Where pictures are missing that the container does not miss. */
static lr_status note_holes(lr_recording *recording, lr_error *err)
{
    lr_status st = LR_OK;
    const lri_video_index *video = &recording->video;
    for (size_t i = 0; i < video->n_holes && recording->timeline.has_video; i++) {
        lr_time from = lri_video_time(recording, video->holes[i][0]), to = lri_video_time(recording, video->holes[i][1]);
        if (from == LR_TIME_NONE || to == LR_TIME_NONE || from >= to) continue;
        LR_TRY(lri_damage_add(&recording->damage, &recording->n_damage, &recording->damage_capacity,
                              LR_STREAM_VIDEO, from, to, "lost pictures", err));
    }
done:
    return st;
}

/* What the demuxer marked: the picture that it hits, and what is missing behind it. */
static lr_status note_known_damage(lr_recording *recording, lr_error *err)
{
    lr_status st = LR_OK;
    const lri_video_index *video = &recording->video;
    /* Late marks also stand where two files were joined: only decoding tells. */
    if (!recording->timeline.has_video || video->marks_late) return LR_OK;
    for (size_t n = 0; n < video->n_packets; n++) {
        if (!(lri_flags(video, n) & LRI_CORRUPT)) continue;
        bool found;
        int64_t start = start_of_hole(video, n), end = end_of_hole(video, n, start, &found);
        lr_time last = recording->timeline.video.end, from = lri_video_time(recording, start);
        lr_time until = found ? lri_video_time(recording, end) : last;
        if (from == LR_TIME_NONE || from > last) from = last; /* stamps may be anything */
        if (until == LR_TIME_NONE || until < from) until = from;
        LR_TRY(lri_damage_add(&recording->damage, &recording->n_damage, &recording->damage_capacity,
                              LR_STREAM_VIDEO, from, until, "damaged bytes", err));
    }
    if (recording->lost_end && !recording->timeline.truncated)
        LR_TRY(lri_recording_warn(recording, err, "what follows the picture's end at %.3f s in the file cannot be "
                                                  "read", lr_time_seconds(recording->timeline.video.end)));
done:
    return st;
}

static lr_status build_timeline(lr_recording *recording, lr_error *err)
{
    lr_timeline *t = &recording->timeline;
    lr_status st = LR_OK;
    if (recording->video.stream >= 0) LR_TRY(describe_video(recording, err));
    LR_TRY(lri_hardware_open(recording, err));
    LR_TRY(set_origin(recording, err));
    t->fps = recording->options.fps;
    t->has_video = recording->video.stream >= 0;
    t->has_audio = recording->audio.stream >= 0;
    if (t->has_video) LR_TRY(set_grid(recording, err));
    if (t->has_video) LR_TRY(lri_find_changes(recording, err));
    if (t->has_audio) LR_TRY(set_sound(recording, err));
    t->video.n_coded = (int64_t)recording->video.n_shown;
    t->video.n_keyframes = (int64_t)recording->video.n_entries;
    t->duration = t->has_video ? t->video.end : 0;
    if (t->has_audio && t->audio.end > t->duration) t->duration = t->audio.end;
    LR_TRY(note_holes(recording, err));
    LR_TRY(note_known_damage(recording, err));
    if (t->truncated) LR_TRY(lri_recording_warn(recording, err, "the file is cut off"));
    t->n_damage = recording->n_damage;
    t->damage = recording->damage;
    t->n_warnings = recording->n_warnings;
    t->warnings = (const char *const *)recording->warnings;
done:
    return st;
}

static lr_status check_options(const lr_ingest_options *options, const char *path, lr_error *err)
{
    const lr_rational fps = options->fps;
    if (fps.num <= 0 || fps.den <= 0 || fps.num > INT32_MAX || fps.den > INT32_MAX)
        return lr_fail(err, LR_E_USAGE, "%s: %lld/%lld frames a second", path, (long long)fps.num,
                       (long long)fps.den);
    if (options->threads < 1) return lr_fail(err, LR_E_USAGE, "%s: no thread to decode with", path);
    if (options->decode < LR_DECODE_AUTO || options->decode > LR_DECODE_VAAPI)
        return lr_fail(err, LR_E_USAGE, "%s: no way of decoding %d", path, (int)options->decode);
    if (!options->video && !options->audio)
        return lr_fail(err, LR_E_USAGE, "%s: neither picture nor sound is wanted", path);
    if (options->start != LR_TIME_NONE && options->start < 0)
        return lr_fail(err, LR_E_USAGE, "%s: a start before the beginning", path);
    if (options->end != LR_TIME_NONE &&
        options->end <= (options->start == LR_TIME_NONE ? 0 : options->start))
        return lr_fail(err, LR_E_USAGE, "%s: an end that is not after the start", path);
    return LR_OK;
}

static lr_status check_start(const lr_recording *recording, lr_error *err)
{
    if (recording->options.start == LR_TIME_NONE ||
        recording->options.start < recording->timeline.duration)
        return LR_OK;
    return lr_fail(err, LR_E_USAGE, "%s: the start lies behind the end (%.3f s)", recording->path,
                   lr_time_seconds(recording->timeline.duration));
}

lr_status lr_recording_open(lr_recording **out, const char *path, const lr_ingest_options *options,
                            lr_error *err)
{
    lr_status st = LR_OK;
    lr_recording *recording = NULL;
    lri_source source = {.fd = -1};
    lri_lost lost = {.count = 0};
    *out = NULL;
    lri_log_redirect();
    LR_TRY(check_options(options, path, err));
    LR_TRY(lri_source_open(&source, path, options->cancel, err));
    source.lost = &lost;
    LR_TRY(LR_NEW(&recording, 1, "a recording", err));
    recording->options = *options;
    recording->video.stream = recording->audio.stream = -1;
    recording->path = lr_strdup(path);
    if (!recording->path) LR_FAIL(LR_E_NOMEM, "%s: out of memory", path);
    recording->timeline.path = recording->path;
    recording->timeline.file_bytes = recording->file_bytes = source.bytes;
    recording->modified = source.modified;
    recording->inode = source.inode;
    LR_TRY(lri_flv_mend(&source, err));
    LR_TRY(lri_avi_mend(&source, err));
    memcpy(recording->patches, source.patches, sizeof source.patches);
    recording->n_patches = source.n_patches;
    if (source.n_patches > 0)
        LR_TRY(lri_recording_warn(recording, err, "%d part(s) of the file are not headed by what they are: taken from what else the file says",
                                  source.n_patches));
    LR_TRY(lri_source_demux(&source, err));
    copy_name(recording->timeline.container, source.format->iformat->name);
    LR_TRY(lri_index_make(recording, &source, err));
    name_streams(recording, source.format);
    recording->timeline.video.still = is_still(recording, source.format);
    lri_source_close_demuxer(&source);
    lr_trim();
    LR_TRY(lri_source_is_cut(&source, &recording->timeline.truncated, err));
    LR_TRY(build_timeline(recording, err));
    LR_TRY(check_start(recording, err));
    LR_TRY(lri_source_hash(&source, recording->timeline.content_hash, err));
    *out = recording;
    recording = NULL;
done:
    lri_source_close(&source);
    lr_recording_close(recording);
    return st;
}

void lr_recording_close(lr_recording *recording)
{
    if (!recording) return;
    lri_hardware_free(&recording->hardware);
    lri_video_index_free(&recording->video);
    lri_sound_index_free(&recording->audio);
    lr_free(recording->damage);
    for (size_t i = 0; i < recording->n_warnings; i++) lr_free(recording->warnings[i]);
    lr_free(recording->warnings);
    lr_free(recording->gaps);
    lr_free(recording->kinds);
    lr_free(recording->path);
    lr_free(recording);
}

const lr_timeline *lr_recording_timeline(const lr_recording *recording)
{
    return &recording->timeline;
}

lr_time lr_recording_grid_time(const lr_recording *recording, int64_t k)
{
    lr_time start = recording->options.start == LR_TIME_NONE ? 0 : recording->options.start;
    return start + lr_grid_time(k, recording->options.fps);
}

lr_time lr_recording_frame_pts(const lr_recording *recording, int64_t k)
{
    const lri_video_index *video = &recording->video;
    return lri_video_time(recording, lri_pts(video, lri_shown(video, lri_grid_shown(recording, k))));
}
