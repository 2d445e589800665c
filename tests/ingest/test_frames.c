/* Which picture a grid point shows, and that it is the same whoever asks. */
#include "recordings.h"

#include <stdlib.h>

static lr_ingest_options at_fps(int64_t num, int64_t den)
{
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){num, den};
    options.every_picture = true;
    return options;
}

static const lrm_film small = {.encoder = "mpeg4",
                               .format = AV_PIX_FMT_YUV420P,
                               .width = 96,
                               .height = 64,
                               .frames = 60,
                               .rate = {25, 1},
                               .luma = 20,
                               .step = 3};

/* Decoded luma of a coarsely quantised flat area is within 1.5 of what was drawn, and the way through
 * RGB adds half a level of each: 3 in all, below the step of the films. */
static void assert_luma(const lrm_reading *reading, const lrm_film *film, int64_t k, int64_t picture)
{
    double want = film->luma + (double)film->step * (double)picture;
    double got = reading->luma[k];
    if (got < want - 2.9 || got > want + 2.9)
        fail_msg("grid point %lld: luma %.1f, picture %lld has %.0f", (long long)k, got,
                 (long long)picture, want);
}

/* ------------------------------------------------------------------ which picture */

/* floor(k * rate / fps), in integers. */
static void check_constant_rate(const char *muxer, AVRational rate, int64_t num, int64_t den)
{
    lrm_film film = small;
    lrm_reading all;
    char *path = lrt_path(lrt_dir, "constant");
    film.rate = rate;
    lrm_record(path, muxer, &film, NULL);
    lr_ingest_options options = at_fps(num, den);
    lr_recording *recording = lrm_open(path, &options);
    const lr_video_info *info = &lr_recording_timeline(recording)->video;
    int64_t n = (int64_t)film.frames * rate.den * num / ((int64_t)rate.num * den);
    assert_int_equal(info->n_coded, film.frames);
    assert_int_equal(info->n_frames, n < 1 ? 1 : n);
    lrm_read_frames(recording, 0, info->n_frames, &all);
    for (int64_t k = 0; k < info->n_frames; k++) {
        int64_t picture = k * den * rate.num / (num * rate.den);
        assert_luma(&all, &film, k, picture);
        assert_false(all.substituted[k]);
        assert_int_equal(all.t[k], lr_grid_time(k, (lr_rational){num, den}));
        assert_int_equal(all.pts[k], lr_recording_frame_pts(recording, k));
    }
    assert_int_equal(all.n_damage, 0);
    lrm_free_reading(&all);
    lr_recording_close(recording);
    free(path);
}

static void test_a_grid_point_shows_the_last_picture_at_or_before_it(void **state)
{
    (void)state;
    const AVRational pal = {25, 1}, ntsc = {30000, 1001};
    check_constant_rate("mp4", pal, 1, 1);
    check_constant_rate("mp4", pal, 25, 1);
    check_constant_rate("mp4", pal, 7, 1);
    check_constant_rate("mp4", pal, 50, 1);
    check_constant_rate("mp4", pal, 1, 3);
    check_constant_rate("mp4", ntsc, 30000, 1001);
    check_constant_rate("mp4", ntsc, 1, 1);
    check_constant_rate("mp4", ntsc, 24000, 1001);
    check_constant_rate("avi", ntsc, 30000, 1001);
    check_constant_rate("mpegts", pal, 5, 1);
    check_constant_rate("matroska", pal, 1, 1);
    check_constant_rate("matroska", pal, 25, 1);
}

/* Milliseconds round 29.97 pictures a second; 30 of them last 1.001 s, and 60 of 30 exactly 2 s. */
static void test_a_rate_that_ticks_only_round_still_ends_where_it_does(void **state)
{
    (void)state;
    check_constant_rate("matroska", (AVRational){30, 1}, 1, 1);
    check_constant_rate("matroska", (AVRational){60, 1}, 1, 1);
    check_constant_rate("matroska", (AVRational){24, 1}, 2, 1);
}

static void check_variable_rate(const char *muxer)
{
    /* A burst, a hole of three seconds, then single pictures. */
    static const int64_t ms[] = {0, 40, 80, 120, 500, 3600, 3700, 4000, 4999, 5000, 6000, 6500};
    enum { COUNT = sizeof ms / sizeof *ms };
    lrm_film film = small;
    lrm_reading all;
    char *path = lrt_path(lrt_dir, "variable");
    film.ms = ms;
    film.frames = COUNT;
    film.step = 16;
    lrm_record(path, muxer, &film, NULL);
    lr_ingest_options options = at_fps(10, 1);
    lr_recording *recording = lrm_open(path, &options);
    int64_t n = lr_recording_timeline(recording)->video.n_frames;
    assert_in_range(n, 65, 75); /* the last picture lasts as long as the container says */
    lrm_read_frames(recording, 0, n, &all);
    for (int64_t k = 0; k < n; k++) {
        int picture = COUNT - 1;
        while (ms[picture] > k * 100) picture--;
        assert_luma(&all, &film, k, picture);
        assert_int_equal(all.pts[k], ms[picture] * (LR_TIME_SECOND / 1000));
    }
    lrm_free_reading(&all);
    lr_recording_close(recording);
    free(path);
}

static void test_a_variable_rate_holds_each_picture_until_the_next(void **state)
{
    (void)state;
    check_variable_rate("mp4");
    check_variable_rate("matroska");
}

static void test_the_last_pictures_come_out_of_the_decoder(void **state)
{
    (void)state;
    for (int frames = 1; frames <= 5; frames++) {
        lrm_film film = small;
        lrm_reading all;
        char *path = lrt_path(lrt_dir, "short.mp4");
        film.encoder = "libx264";
        film.frames = frames;
        film.b_frames = 3;
        film.step = 40;
        lrm_record(path, "mp4", &film, NULL);
        lr_ingest_options options = at_fps(25, 1);
        options.threads = 4;
        lr_recording *recording = lrm_open(path, &options);
        assert_int_equal(lr_recording_timeline(recording)->video.n_frames, frames);
        lrm_read_frames(recording, 0, frames, &all);
        for (int k = 0; k < frames; k++) assert_luma(&all, &film, k, k);
        lrm_free_reading(&all);
        lr_recording_close(recording);
        free(path);
    }
}

static void test_a_film_shorter_than_a_grid_step_has_one_frame(void **state)
{
    (void)state;
    lrm_film film = small;
    lrm_reading all;
    char *path = lrt_path(lrt_dir, "one.mp4");
    film.frames = 1;
    lrm_record(path, "mp4", &film, NULL);
    lr_recording *recording = lrm_open(path, NULL);
    assert_int_equal(lr_recording_timeline(recording)->video.n_frames, 1);
    lrm_read_frames(recording, 0, 1, &all);
    assert_luma(&all, &film, 0, 0);
    lrm_free_reading(&all);
    lr_recording_close(recording);
    free(path);
}

/* An edit list that begins inside a group of pictures: those before it are decoded and not shown. */
static void test_pictures_before_the_edit_list_are_not_shown(void **state)
{
    (void)state;
    lrm_film film = small;
    lrm_reading all;
    char *path = lrt_path(lrt_dir, "edit.mp4");
    film.gop = 100;
    film.hidden = 10;
    film.frames = 40;
    lrm_record(path, "mp4", &film, NULL);
    lr_ingest_options options = at_fps(25, 1);
    lr_recording *recording = lrm_open(path, &options);
    const lr_video_info *info = &lr_recording_timeline(recording)->video;
    assert_int_equal(info->n_frames, 30);
    lrm_read_frames(recording, 0, 30, &all);
    for (int64_t k = 0; k < 30; k++) assert_luma(&all, &film, k, k + 10);
    lrm_free_reading(&all);
    lr_recording_close(recording);
    free(path);
}

/* ------------------------------------------------------------------ origin and parts */

static void check_origin(int64_t film_ms, int64_t track_ms, int64_t first_picture_ms)
{
    lrm_film film = small;
    lrm_track track = {.encoder = "pcm_s16le", .rate = 8000, .channels = 1, .ms = 3000};
    char *path = lrt_path(lrt_dir, "offset.mkv");
    film.offset_ms = film_ms;
    track.offset_ms = track_ms;
    lrm_record(path, "matroska", &film, &track);
    lr_ingest_options options = at_fps(10, 1);
    lr_recording *recording = lrm_open(path, &options);
    const lr_timeline *t = lr_recording_timeline(recording);
    assert_int_equal(t->video.start, first_picture_ms * (LR_TIME_SECOND / 1000));
    int64_t n = (first_picture_ms + (int64_t)film.frames * 40) / 100;
    assert_int_equal(t->video.n_frames, n);
    lrm_reading all;
    lrm_read_frames(recording, 0, n, &all);
    for (int64_t k = 0; k < n; k++) {
        int64_t picture = (k * 100 - first_picture_ms) / 40;
        assert_luma(&all, &film, k, picture < 0 ? 0 : picture);
    }
    lrm_free_reading(&all);
    lr_recording_close(recording);
    free(path);
}

static void test_picture_and_sound_have_one_origin(void **state)
{
    (void)state;
    check_origin(3000, 3000, 0);
    check_origin(3000, 0, 3000);
    check_origin(0, 3000, 0);
    /* Less than 0.1 s apart: each counts from its own first. */
    check_origin(90, 0, 0);
    check_origin(0, 90, 0);
    check_origin(100, 0, 100);
}

static void test_a_part_of_the_timeline_has_a_grid_from_its_start(void **state)
{
    (void)state;
    lrm_reading all;
    char *path = lrt_path(lrt_dir, "part.mp4");
    lrm_record(path, "mp4", &small, NULL);
    lr_ingest_options options = at_fps(10, 1);
    options.start = LR_TIME_SECOND * 13 / 20; /* 0.65 s */
    options.end = LR_TIME_SECOND * 7 / 4;
    lr_recording *recording = lrm_open(path, &options);
    assert_int_equal(lr_recording_timeline(recording)->video.n_frames, 11);
    lrm_read_frames(recording, 0, 11, &all);
    for (int64_t k = 0; k < 11; k++) {
        assert_luma(&all, &small, k, (650 + k * 100) / 40);
        assert_int_equal(all.t[k], options.start + lr_grid_time(k, options.fps));
    }
    lrm_free_reading(&all);
    lr_recording_close(recording);
    free(path);
}

/* ------------------------------------------------------------------ whoever asks */

typedef struct shape {
    const char *encoder, *muxer;
    int gop, b_frames;
    const char *options;
    enum AVPixelFormat format;
} shape;

static const shape shapes[] = {
    {"libx264", "mp4", 20, 3, "preset=veryfast", AV_PIX_FMT_YUV420P},
    {"libx264", "mpegts", 20, 3, "preset=veryfast;x264-params=open-gop=1:b-pyramid=normal",
     AV_PIX_FMT_YUV420P},
    {"libx264", "avi", 20, 2, "preset=veryfast", AV_PIX_FMT_YUV420P},
    {"libx264", "h264", 20, 2, "preset=veryfast", AV_PIX_FMT_YUV420P},
    {"libx264", "matroska", 30, 0, "preset=veryfast;x264-params=intra-refresh=1", AV_PIX_FMT_YUV420P},
    {"libx265", "matroska", 12, 4,
     "preset=ultrafast;x265-params=open-gop=1:bframes=4:keyint=12:pools=1:frame-threads=1:log-level=0",
     AV_PIX_FMT_YUV420P},
    {"libx265", "mpegts", 12, 4,
     "preset=ultrafast;x265-params=open-gop=1:bframes=4:keyint=12:pools=1:frame-threads=1:log-level=0",
     AV_PIX_FMT_YUV420P},
    {"mpeg2video", "mpegts", 12, 2, NULL, AV_PIX_FMT_YUV420P},
    {"mpeg2video", "mpeg", 12, 2, NULL, AV_PIX_FMT_YUV420P},
    {"mpeg4", "avi", 24, 2, NULL, AV_PIX_FMT_YUV420P},
    {"mpeg4", "mp4", 24, 2, NULL, AV_PIX_FMT_YUV420P},
    {"libvpx", "webm", 30, 0, "deadline=realtime;auto-alt-ref=1;lag-in-frames=10", AV_PIX_FMT_YUV420P},
    {"libvpx-vp9", "webm", 30, 0, "deadline=realtime;cpu-used=8;lag-in-frames=10", AV_PIX_FMT_YUV420P},
    {"mjpeg", "avi", 1, 0, NULL, AV_PIX_FMT_YUVJ420P},
    {"ffv1", "matroska", 10, 0, NULL, AV_PIX_FMT_YUV420P},
    {"gif", "gif", 12, 0, NULL, AV_PIX_FMT_RGB8},
};

static void draw_rgb8(AVFrame *frame, int n)
{
    for (int y = 0; y < frame->height; y++)
        for (int x = 0; x < frame->width; x++)
            frame->data[0][y * frame->linesize[0] + x] = (uint8_t)((x / 8 + n) ^ (y / 8));
}

static char *record_shape(const shape *s)
{
    lrm_film film = small;
    char *path = lrt_path(lrt_dir, "shape");
    film.encoder = s->encoder;
    film.format = s->format;
    film.gop = s->gop;
    film.b_frames = s->b_frames;
    film.options = s->options;
    film.frames = 90;
    film.step = 2;
    if (s->format == AV_PIX_FMT_RGB8) film.draw = draw_rgb8;
    lrm_record(path, s->muxer, &film, NULL);
    return path;
}

/* Cuts [0, n) at random places and reads the pieces in random order. */
static void check_slices(const lr_recording *recording, const lrm_reading *whole, lrt_random *random,
                         const char *what)
{
    for (int i = 0; i < 12; i++) {
        int64_t first = (int64_t)lrt_below(random, (uint64_t)whole->count);
        int64_t end = first + 1 + (int64_t)lrt_below(random, (uint64_t)(whole->count - first));
        lrm_reading part;
        lrm_read_frames(recording, first, end, &part);
        lrm_assert_same_frames(whole, &part, what);
        assert_int_equal(part.n_damage, 0);
        lrm_free_reading(&part);
    }
}

static void check_shape(const shape *s, lrt_random *random)
{
    char *path = record_shape(s);
    static const int threads[] = {1, 2, 4};
    lrm_reading reference = {0};
    char what[128];
    for (size_t i = 0; i < 6; i++) {
        lr_ingest_options options = at_fps(7, 1);
        options.threads = threads[i % 3];
        options.every_picture = i < 3;
        (void)snprintf(what, sizeof what, "%s in %s, %d threads, %s", s->encoder, s->muxer,
                       options.threads, i < 3 ? "every picture" : "only those of the grid");
        lr_recording *recording = lrm_open(path, &options);
        lrm_reading whole;
        lrm_read_frames(recording, 0, lr_recording_timeline(recording)->video.n_frames, &whole);
        assert_int_equal(whole.n_damage, 0);
        if (i == 0) reference = whole;
        else lrm_assert_same_frames(&reference, &whole, what);
        check_slices(recording, &reference, random, what);
        if (i > 0) lrm_free_reading(&whole);
        lr_recording_close(recording);
    }
    lrm_free_reading(&reference);
    free(path);
}

static void test_every_slice_equals_the_whole_for_any_threads(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 2);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_shape(&shapes[i], &random);
}

/* Also that no picture is lost or out of order: each is that of libav's plain loop. */
static void test_at_the_films_own_rate_the_pictures_are_libavs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (strcmp(shapes[i].encoder, "gif") == 0) continue; /* hundredths of a second */
        char *path = record_shape(&shapes[i]);
        lrm_pictures pictures;
        lrm_reading all;
        lr_ingest_options options = at_fps(25, 1);
        lr_recording *recording = lrm_open(path, &options);
        lrm_decode_pictures(path, 5, &pictures);
        assert_int_equal(pictures.count, 90);
        assert_int_equal(lr_recording_timeline(recording)->video.n_frames, 90);
        lrm_read_frames(recording, 0, 90, &all);
        for (int64_t k = 0; k < 90; k++)
            if (all.hash[k] != lrm_hash(pictures.rgb[k],
                                        (size_t)pictures.width * 3 * (size_t)pictures.height))
                fail_msg("%s in %s: picture %lld is not libav's", shapes[i].encoder,
                         shapes[i].muxer, (long long)k);
        lrm_free_reading(&all);
        lrm_free_pictures(&pictures);
        lr_recording_close(recording);
        free(path);
    }
}

static void test_an_empty_slice_has_no_frames(void **state)
{
    (void)state;
    lrm_reading none;
    char *path = lrt_path(lrt_dir, "empty-slice.mp4");
    lrm_record(path, "mp4", &small, NULL);
    lr_recording *recording = lrm_open(path, NULL);
    lrm_read_frames(recording, 1, 1, &none);
    assert_int_equal(none.count, 0);
    lr_error err = {0};
    lr_frame_reader *reader;
    assert_int_equal(lr_frame_reader_open(&reader, recording, 0, 1000, &err), LR_E_USAGE);
    lr_recording_close(recording);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_grid_point_shows_the_last_picture_at_or_before_it),
        cmocka_unit_test(test_a_rate_that_ticks_only_round_still_ends_where_it_does),
        cmocka_unit_test(test_a_variable_rate_holds_each_picture_until_the_next),
        cmocka_unit_test(test_the_last_pictures_come_out_of_the_decoder),
        cmocka_unit_test(test_a_film_shorter_than_a_grid_step_has_one_frame),
        cmocka_unit_test(test_pictures_before_the_edit_list_are_not_shown),
        cmocka_unit_test(test_picture_and_sound_have_one_origin),
        cmocka_unit_test(test_a_part_of_the_timeline_has_a_grid_from_its_start),
        cmocka_unit_test(test_every_slice_equals_the_whole_for_any_threads),
        cmocka_unit_test(test_at_the_films_own_rate_the_pictures_are_libavs),
        cmocka_unit_test(test_an_empty_slice_has_no_frames),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
