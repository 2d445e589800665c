/* Recordings with one fault or oddity each and the right values. They are made here; with LR_FAULTS, a
 * directory that holds files of these names, those are read instead, and the ones that only it has, too. */
#include "recordings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct expected {
    const char *name;
    void (*make)(const char *path); /* NULL: only from LR_FAULTS */
    int64_t fps, n;
    double (*luma)(int64_t k, int64_t fps);
    double tolerance; /* of the luma */
    int width, height; /* displayed */
    int64_t samples, samples_tolerance; /* 0: no sound */
    int first_tone, last_tone, tone_at_ms, tone_tolerance_ms; /* second s has tone s at s * 1000 + at */
    int hole_ms[2]; /* no tones begin in it */
    double bad_from, bad_to, ignore_from, ignore_to; /* seconds; damage within 0.6 s */
    bool truncated;
} expected;

/* ------------------------------------------------------------------ luma */

static double open_gop_luma(int64_t k, int64_t fps)
{
    return 20 + 2.0 * (double)(k * 25 / fps);
}

static double g2_luma(int64_t k, int64_t fps)
{
    return 20 + 3.0 * (double)(k * 30 / fps);
}

static double edit_luma(int64_t k, int64_t fps)
{
    return 65 + 3.0 * (double)(k * 30 / fps);
}

static double three_luma(int64_t k, int64_t fps)
{
    (void)fps;
    return 60 + 60.0 * (double)k;
}

static double one_luma(int64_t k, int64_t fps)
{
    (void)k;
    (void)fps;
    return 90;
}

/* 20 pictures a second of which only some are there. */
static double vfr_luma(int64_t k, int64_t fps)
{
    int64_t n = k * 20 / fps;
    if (n > 40 && n < 100) n = 40;
    if (n >= 120 && n < 160) n -= n % 8;
    return 18 + (double)n;
}

static double two_a_picture(int64_t k, int64_t fps)
{
    return 20 + 2.0 * (double)(k * 20 / fps);
}

static double late_picture_luma(int64_t k, int64_t fps)
{
    int64_t n = k * 20 / fps - 60;
    return n < 0 ? 20 : 20 + 2.0 * (double)n;
}

static double one_a_picture(int64_t k, int64_t fps)
{
    return 20 + (double)(k * 20 / fps);
}

static double tenth_luma(int64_t k, int64_t fps)
{
    return 20 + (double)(k * 10 / fps);
}

static double hole_luma(int64_t k, int64_t fps)
{
    return 20 + 2.0 * (double)(k * 10 / fps);
}

static double ten_a_second(int64_t k, int64_t fps)
{
    return 20 + 10.0 * (double)(k / fps);
}

static double change_luma(int64_t k, int64_t fps)
{
    return 40 + (double)(k * 20 / fps);
}

static double idle_luma(int64_t k, int64_t fps)
{
    return 20 + (double)(k * 24 / fps);
}

static double long_luma(int64_t k, int64_t fps)
{
    return 30 + (double)(k / fps * 7 % 181);
}

/* ------------------------------------------------------------------ recipes */

static const lrm_film base = {.encoder = "libx264",
                              .format = AV_PIX_FMT_YUV420P,
                              .width = 128,
                              .height = 96,
                              .plain = true,
                              .luma = 20,
                              .options = "preset=veryfast;crf=8"};
#define X265 "pools=1:frame-threads=1:log-level=0"

static void make_open_gop(const char *path)
{
    lrm_film f = base;
    f.encoder = "libx265";
    f.options = "preset=veryfast;crf=6;x265-params=open-gop=1:bframes=4:b-adapt=0:keyint=12:"
                "min-keyint=12:scenecut=0:" X265;
    f.b_frames = 4;
    f.frames = 100;
    f.rate = (AVRational){25, 1};
    f.step = 2;
    lrm_record(path, "mp4", &f, NULL);
}

static void make_g2(const char *path)
{
    lrm_film f = base;
    f.encoder = "libx265";
    f.options = "preset=veryfast;crf=6;x265-params=keyint=2:min-keyint=2:scenecut=0:" X265;
    f.gop = 2;
    f.frames = 60;
    f.rate = (AVRational){30, 1};
    f.step = 3;
    lrm_record(path, "mp4", &f, NULL);
}

static void make_edit(const char *path)
{
    lrm_film f = base;
    f.gop = 250;
    f.b_frames = 2;
    f.frames = 60;
    f.hidden = 15;
    f.rate = (AVRational){30, 1};
    f.step = 3;
    lrm_record(path, "mp4", &f, NULL);
}

static void make_three(const char *path)
{
    lrm_film f = base;
    f.luma = f.step = 60;
    f.b_frames = 2;
    f.frames = 3;
    f.rate = (AVRational){10, 1};
    lrm_record(path, "mp4", &f, NULL);
}

static void make_one(const char *path)
{
    lrm_film f = base;
    f.luma = 90;
    f.frames = 1;
    f.rate = (AVRational){25, 1};
    lrm_record(path, "mp4", &f, NULL);
}

static void make_late(const char *path, const char *muxer, const char *encoder, int64_t film_ms,
                      int64_t track_ms, int frames, int step, int64_t ms)
{
    lrm_film f = base;
    lrm_track t = {.encoder = encoder, .rate = 48000, .channels = 1, .ms = ms, .offset_ms = track_ms};
    f.frames = frames;
    f.rate = (AVRational){20, 1};
    f.step = step;
    f.gop = 20;
    f.offset_ms = film_ms;
    lrm_record(path, muxer, &f, &t);
}

static void make_both_late(const char *path)
{
    make_late(path, "matroska", "pcm_s16le", 3000, 3000, 100, 2, 5000);
}

static void make_picture_late(const char *path)
{
    make_late(path, "mp4", "aac", 3000, 0, 100, 2, 8000);
}

static void make_sound_late(const char *path)
{
    make_late(path, "mp4", "aac", 0, 3000, 160, 1, 5000);
}

static void make_hole(const char *path, const char *muxer, const char *encoder)
{
    lrm_film f = base;
    lrm_track t = {.encoder = encoder, .rate = 48000, .channels = 1, .ms = 10000, .hole_ms = {4200, 5800}};
    f.frames = 100;
    f.rate = (AVRational){10, 1};
    f.step = 2;
    f.gop = 10;
    lrm_record(path, muxer, &f, &t);
}

static void make_hole_mkv(const char *path)
{
    make_hole(path, "matroska", "pcm_s16le");
}

static void make_hole_mp4(const char *path)
{
    make_hole(path, "mp4", "aac");
}

static void draw_seconds(AVFrame *frame, int n)
{
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < frame->height >> (plane > 0); y++)
            for (int x = 0; x < frame->width >> (plane > 0); x++) {
                uint32_t h = (uint32_t)(n * 7919 + y * 104729 + x * 1299709) * 2654435761u;
                int noise = plane || x >= frame->width / 4 ? 0 : (int)(h >> 28);
                frame->data[plane][y * frame->linesize[plane] + x] =
                    (uint8_t)(plane ? 128 : 20 + 10 * (n / 25) + noise);
            }
}

static void make_truncated(const char *path)
{
    lrm_film f = base;
    lrm_track t = {.encoder = "aac", .rate = 48000, .channels = 1, .ms = 20000};
    size_t bytes;
    f.draw = draw_seconds;
    f.frames = 500;
    f.rate = (AVRational){25, 1};
    f.gop = 25;
    f.b_frames = 2;
    lrm_index_first(true);
    lrm_record(path, "mp4", &f, &t);
    lrm_index_first(false);
    uint8_t *data = lrt_slurp(path, &bytes);
    lrt_write(path, data, bytes * 60 / 100);
    free(data);
}

/* `n` and the samples of the truncated file depend on how large its packets are: -1. */
static const expected files[] = {
    {"bframes-opengop.mp4", make_open_gop, 25, 100, open_gop_luma, 2, 128, 96, .samples = 0},
    {"bframes-opengop.mp4", make_open_gop, 5, 20, open_gop_luma, 2, 128, 96, .samples = 0},
    {"hevc-g2.mp4", make_g2, 30, 60, g2_luma, 2, 128, 96, .samples = 0},
    {"hevc-g2.mp4", make_g2, 10, 20, g2_luma, 2, 128, 96, .samples = 0},
    {"editlist-cut.mp4", make_edit, 30, 45, edit_luma, 2, 128, 96, .samples = 0},
    {"three-frames.mp4", make_three, 10, 3, three_luma, 2, 128, 96, .samples = 0},
    {"one-frame.mp4", make_one, 1, 1, one_luma, 2, 128, 96, .samples = 0},
    {"one-frame.mp4", make_one, 25, 1, one_luma, 2, 128, 96, .samples = 0},
    {"vfr.mp4", NULL, 4, 40, vfr_luma, 3, 128, 96, .samples = 0},
    {"vfr.mkv", NULL, 1, 10, vfr_luma, 3, 128, 96, .samples = 0},
    {"no-duration.mkv", NULL, 10, 120, tenth_luma, 3, 128, 96,
     .samples = 192000, .samples_tolerance = 1, .first_tone = 0, .last_tone = 11, .tone_at_ms = 0, .tone_tolerance_ms = 2},
    {"start-both-3s.mkv", make_both_late, 2, 10, two_a_picture, 3, 128, 96,
     .samples = 80000, .samples_tolerance = 1, .first_tone = 0, .last_tone = 4, .tone_at_ms = 0, .tone_tolerance_ms = 2},
    {"start-video-3s.mp4", make_picture_late, 2, 16, late_picture_luma, 3, 128, 96,
     .samples = 128000, .samples_tolerance = 200, .first_tone = 0, .last_tone = 7, .tone_at_ms = 0, .tone_tolerance_ms = 12},
    {"start-audio-3s.mp4", make_sound_late, 2, 16, one_a_picture, 3, 128, 96,
     .samples = 128000, .samples_tolerance = 360, .first_tone = 0, .last_tone = 4, .tone_at_ms = 3000, .tone_tolerance_ms = 12},
    {"sar.mp4", NULL, 1, 2, NULL, 0, 1024, 576, .samples = 0},
    {"rotate90.mp4", NULL, 1, 2, NULL, 0, 96, 160, .samples = 0},
    {"rotate180.mp4", NULL, 1, 2, NULL, 0, 160, 96, .samples = 0},
    {"rotate270.mp4", NULL, 1, 2, NULL, 0, 96, 160, .samples = 0},
    {"size-change.ts", NULL, 4, 24, change_luma, 3, 320, 240, .samples = 0},
    {"pixfmt-change.ts", NULL, 4, 24, change_luma, 3, 320, 240, .samples = 0},
    {"corrupt-mid.mp4", NULL, 4, 80, ten_a_second, 3, 128, 96, .bad_from = 8, .bad_to = 9,
     .ignore_from = 7.9, .ignore_to = 9.05},
    {"corrupt-mid.ts", NULL, 1, 20, ten_a_second, 3, 128, 96, .bad_from = 8, .bad_to = 9,
     .ignore_from = 7.9, .ignore_to = 9.05},
    {"truncated.mp4", make_truncated, 2, -1, ten_a_second, 3, 128, 96,
     .samples = -1, .samples_tolerance = 0, .first_tone = 0, .last_tone = 9, .tone_at_ms = 0, .tone_tolerance_ms = 12, .truncated = true},
    {"audio-hole.mkv", make_hole_mkv, 1, 10, hole_luma, 3, 128, 96,
     .samples = 160000, .samples_tolerance = 1, .first_tone = 0, .last_tone = 9, .tone_at_ms = 0, .tone_tolerance_ms = 2,
     .hole_ms = {4200, 5800}},
    {"audio-hole.mp4", make_hole_mp4, 1, 10, hole_luma, 3, 128, 96,
     .samples = 160000, .samples_tolerance = 1, .first_tone = 0, .last_tone = 9, .tone_at_ms = 0, .tone_tolerance_ms = 12,
     .hole_ms = {4200, 5800}},
    {"idle-4k.mp4", NULL, 2, 10, idle_luma, 3, 3840, 2160, .samples = 0},
    {"short-480p.mp4", NULL, 1, 60, long_luma, 4, 854, 480,
     .samples = 960000, .samples_tolerance = 520, .first_tone = 0, .last_tone = 59, .tone_at_ms = 0, .tone_tolerance_ms = 12},
};

/* ------------------------------------------------------------------ checks */

static void check_tone(const expected *e, const float *samples, size_t count, int second)
{
    int64_t ms = second * 1000 + e->tone_at_ms;
    if (ms + 100 > e->hole_ms[0] && ms < e->hole_ms[1]) return;
    size_t at = ms > 200 ? (size_t)(ms - 200) * 16 : 0, end = (size_t)(ms + 80) * 16;
    while (at < count && fabsf(samples[at]) < 0.05f) at++;
    if (llabs((long long)at / 16 - ms) > e->tone_tolerance_ms + 1)
        fail_msg("%s: the tone of second %d begins at %.1f ms", e->name, second, (double)at / 16);
    int crossings = 0;
    double first = 0, last = 0;
    for (size_t i = (size_t)(ms + 10) * 16; i + 1 < end && i + 1 < count; i++) {
        if (!(samples[i] < 0 && samples[i + 1] >= 0)) continue;
        last = (double)i - samples[i] / (double)(samples[i + 1] - samples[i]);
        if (crossings++ == 0) first = last;
    }
    double hz = crossings > 1 ? (crossings - 1) * 16000 / (last - first) : 0;
    double want = 400 + 50.0 * (second % 20);
    if (fabs(hz - want) > 15) fail_msg("%s: second %d has %.0f Hz, not %.0f", e->name, second, hz, want);
}

static void check_sound(const expected *e, const lr_recording *recording)
{
    size_t count;
    float *samples = lrm_read_sound(recording, &count);
    if (e->samples > 0 && llabs((long long)count - e->samples) > e->samples_tolerance)
        fail_msg("%s: %zu samples, not %lld", e->name, count, (long long)e->samples);
    for (int s = e->first_tone; s <= e->last_tone; s++) check_tone(e, samples, count, s);
    for (size_t i = (size_t)(e->hole_ms[0] + 60) * 16; i < (size_t)e->hole_ms[1] * 16 - 960 && e->hole_ms[1]; i++)
        if (fabsf(samples[i]) > 0.01f) fail_msg("%s: the hole is not silent", e->name);
    free(samples);
}

static void check_pictures(const expected *e, const lr_recording *recording)
{
    const lr_video_info *info = &lr_recording_timeline(recording)->video;
    lrm_reading all;
    if (e->n >= 0) assert_int_equal(info->n_frames, e->n);
    else assert_true(info->n_frames > 8 * e->fps);
    assert_int_equal(info->display_width, e->width);
    assert_int_equal(info->display_height, e->height);
    lrm_read_frames(recording, 0, info->n_frames, &all);
    for (int64_t k = 0; k < all.count && e->luma; k++) {
        double t = (double)k / (double)e->fps, want = e->luma(k, e->fps);
        if (e->ignore_to > 0 && t >= e->ignore_from && t <= e->ignore_to) continue;
        if (fabs(all.luma[k] - want) > e->tolerance)
            fail_msg("%s at %lld fps: frame %lld has luma %.1f, not %.0f", e->name, (long long)e->fps,
                     (long long)k, all.luma[k], want);
    }
    if (e->bad_to > 0) {
        assert_int_equal(all.n_damage, 1);
        assert_true(fabs(lr_time_seconds(all.damage[0].start) - e->bad_from) <= 0.6);
        assert_true(fabs(lr_time_seconds(all.damage[0].end) - e->bad_to) <= 0.6);
    } else if (!e->truncated) assert_int_equal(all.n_damage, 0);
    lrm_free_reading(&all);
}

static void check_file(const expected *e, const char *path)
{
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){e->fps, 1};
    options.threads = 2;
    options.every_picture = true;
    lr_recording *recording = lrm_open(path, &options);
    const lr_timeline *t = lr_recording_timeline(recording);
    assert_int_equal(t->truncated, e->truncated);
    if (!e->truncated) assert_int_equal(t->n_warnings, 0);
    assert_true(t->has_video);
    assert_int_equal(t->has_audio, e->samples != 0);
    check_pictures(e, recording);
    if (e->samples != 0) check_sound(e, recording);
    lr_recording_close(recording);
}

static void test_each_file_gives_its_right_values(void **state)
{
    (void)state;
    const char *from = getenv("LR_FAULTS");
    size_t checked = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const expected *e = &files[i];
        char *path = lrt_path(from ? from : lrt_dir, e->name);
        if (!from && e->make) e->make(path);
        if (from && !lrt_exists(path)) fail_msg("%s is missing", path);
        if (from || e->make) {
            check_file(e, path);
            checked++;
        }
        free(path);
    }
    assert_true(checked >= 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_file_gives_its_right_values),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
