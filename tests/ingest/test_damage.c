/* Damaged files: what is healthy comes out right, what is not is named, and all readers agree. */
#include "recordings.h"

#include <stdlib.h>
#include <string.h>

static lr_ingest_options at_fps(int64_t num, int threads, bool every_picture)
{
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){num, 1};
    options.threads = threads;
    options.every_picture = every_picture;
    return options;
}

/* Closed groups of 25 pictures at 25 a second: second s is packets 25 s .. 25 s + 24. */
static const lrm_film film = {.encoder = "libx264",
                              .format = AV_PIX_FMT_YUV420P,
                              .width = 128,
                              .height = 96,
                              .frames = 150,
                              .rate = {25, 1},
                              .gop = 25,
                              .b_frames = 2,
                              .luma = 30,
                              .step = 1,
                              .options = "preset=veryfast;crf=12;x264-params=keyint=25:min-keyint=25:scenecut=0"};

static void draw_number(AVFrame *frame, int n)
{
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < frame->height >> (plane > 0); y++)
            for (int x = 0; x < frame->width >> (plane > 0); x++)
                frame->data[plane][y * frame->linesize[plane] + x] =
                    (uint8_t)(plane ? 128 : 20 + n / 2 + (x / 8 + n) % 8);
}

/* Inverts 60 bytes spread over the picture packets of seconds [from, to). */
static void invert_bytes(const char *path, double from, double to)
{
    AVFormatContext *format = NULL;
    AVPacket *packet = av_packet_alloc();
    size_t bytes, n = 0;
    uint8_t *data = lrt_slurp(path, &bytes);
    size_t *places = malloc(bytes * sizeof *places);
    assert_true(avformat_open_input(&format, path, NULL, NULL) >= 0);
    assert_true(avformat_find_stream_info(format, NULL) >= 0);
    while (av_read_frame(format, packet) >= 0) {
        double at = (double)packet->pts * av_q2d(format->streams[packet->stream_index]->time_base);
        if (format->start_time > 0) at -= (double)format->start_time / AV_TIME_BASE;
        if (at >= from && at < to && packet->pos >= 0)
            for (int i = 8; i < packet->size; i++) places[n++] = (size_t)packet->pos + (size_t)i;
        av_packet_unref(packet);
    }
    assert_true(n > 60);
    for (size_t i = 0; i < 60; i++) data[places[i * n / 60]] ^= 0xFF;
    lrt_write(path, data, bytes);
    free(places);
    free(data);
    av_packet_free(&packet);
    avformat_close_input(&format);
}

/* ------------------------------------------------------------------ one bad second */

static void check_bad_second(const char *muxer)
{
    char *path = lrt_path(lrt_dir, "bad-second");
    lrt_random random;
    lrm_reading healthy, damaged;
    lrt_random_init(&random, 3);
    lrm_record(path, muxer, &film, NULL);
    lr_ingest_options options = at_fps(5, 2, true);
    lr_recording *recording = lrm_open(path, &options);
    lrm_read_frames(recording, 0, 30, &healthy);
    assert_int_equal(healthy.n_damage, 0);
    lr_recording_close(recording);

    invert_bytes(path, 2, 3);
    recording = lrm_open(path, &options);
    lrm_read_frames(recording, 0, 30, &damaged);
    assert_int_equal(damaged.n_damage, 1);
    /* Some byte of the first pictures of the second is hit; nothing outside of it may be named. */
    assert_in_range(damaged.damage[0].start, 2 * LR_TIME_SECOND, 2 * LR_TIME_SECOND + LR_TIME_SECOND / 2);
    assert_int_equal(damaged.damage[0].end, 3 * LR_TIME_SECOND);
    assert_int_equal(damaged.damage[0].stream, LR_STREAM_VIDEO);
    for (int k = 0; k < 30; k++) {
        bool outside = k < 10 || k >= 15;
        if (outside && healthy.hash[k] != damaged.hash[k])
            fail_msg("%s: frame %d is healthy but not right", muxer, k);
        if (outside) assert_false(damaged.substituted[k]);
        /* A stand-in is a healthy picture from before. */
        if (damaged.substituted[k]) assert_true(damaged.pts[k] <= damaged.damage[0].start);
    }
    assert_true(damaged.substituted[14]);
    lr_recording_close(recording);
    assert_true(lrm_readers_agree(path, &random, muxer));
    lrm_free_reading(&healthy);
    lrm_free_reading(&damaged);
    free(path);
}

static void test_a_damaged_second_is_named_and_the_rest_is_right(void **state)
{
    (void)state;
    check_bad_second("mp4");
    check_bad_second("matroska");
    check_bad_second("mpegts");
}

/* ------------------------------------------------------------------ wrong times */

/* The n-th cluster of a Matroska file, from 0: its time, of two bytes, in milliseconds. */
static uint8_t *cluster_time(uint8_t *file, size_t bytes, int n)
{
    uint8_t *at = file, *end = file + bytes;
    for (int i = 0; i <= n; i++) {
        at = memmem(at, (size_t)(end - at), "\x1F\x43\xB6\x75", 4);
        assert_non_null(at);
        at += 4;
    }
    at = memmem(at, (size_t)(end - at), "\xE7\x82", 2);
    assert_non_null(at);
    return at + 2;
}

static void assert_same_sound(const float *healthy, size_t n_healthy, const lr_recording *recording)
{
    size_t n;
    float *sound = lrm_read_sound(recording, &n);
    assert_int_equal(n, n_healthy);
    assert_memory_equal(sound, healthy, n * sizeof *sound);
    free(sound);
}

static void check_wrong_time(int cluster, uint8_t high, uint8_t low)
{
    lrm_film long_film = film;
    const lrm_track track = {.encoder = "flac", .rate = 48000, .channels = 1, .ms = 16000};
    size_t n_sound;
    char *path = lrt_path(lrt_dir, "wrong-time.mkv");
    lrm_reading healthy, damaged;
    lrt_random random;
    size_t bytes;
    long_film.frames = 400;
    long_film.luma = 20;
    long_film.plain = true;
    long_film.step = 0;
    long_film.draw = draw_number;
    lrt_random_init(&random, 6);
    lrm_record(path, "matroska", &long_film, &track);
    lr_ingest_options options = at_fps(5, 2, true);
    lr_recording *recording = lrm_open(path, &options);
    lrm_read_frames(recording, 0, 80, &healthy);
    float *sound = lrm_read_sound(recording, &n_sound);
    lr_recording_close(recording);
    uint8_t *file = lrt_slurp(path, &bytes), *time = cluster_time(file, bytes, cluster);
    double from = (time[0] << 8 | time[1]) / 1000.0;
    uint8_t *after = cluster_time(file, bytes, cluster + 1);
    double next = (after[0] << 8 | after[1]) / 1000.0;
    time[0] = high;
    time[1] = low;
    lrt_write(path, file, bytes);
    free(file);
    recording = lrm_open(path, &options);
    const lr_timeline *t = lr_recording_timeline(recording);
    assert_int_equal(t->video.n_frames, 80);
    assert_int_equal(t->n_damage, 1);
    /* The last picture before counts as hit, and pictures are out of order. */
    assert_true(lr_time_seconds(t->damage[0].start) >= from - 0.2);
    /* A cluster may begin with sound. */
    assert_true(lr_time_seconds(t->damage[0].end) <= next + 0.11);
    lrm_read_frames(recording, 0, 80, &damaged);
    for (int k = 0; k < 80; k++) {
        bool outside = k / 5.0 < from - 0.2 || k / 5.0 >= next;
        if (outside && healthy.hash[k] != damaged.hash[k]) fail_msg("frame %d is healthy but not right", k);
    }
    assert_same_sound(sound, n_sound, recording);
    free(sound);
    lr_recording_close(recording);
    assert_true(lrm_readers_agree(path, &random, "a wrong time"));
    lrm_free_reading(&healthy);
    lrm_free_reading(&damaged);
    free(path);
}

static void test_pictures_of_a_wrong_time_are_not_shown_in_the_place_of_others(void **state)
{
    (void)state;
    /* Where the first is, far behind, where another is. */
    for (int cluster = 2; cluster < 5; cluster += 2) {
        check_wrong_time(cluster, 0, 7);
        check_wrong_time(cluster, 0xF0, 0);
        check_wrong_time(cluster, 0x3A, 0);
    }
}

/* ------------------------------------------------------------------ wrong lengths */

/* The n-th tag of an FLV file that holds sound (8) or pictures (9). */
static uint8_t *find_tag(uint8_t *file, size_t bytes, int type, int n)
{
    for (size_t at = 13; at + 11 < bytes;) {
        if (file[at] == type && n-- == 0) return file + at;
        at += 11 + ((size_t)file[at + 1] << 16 | (size_t)file[at + 2] << 8 | file[at + 3]) + 4;
    }
    fail_msg("no such tag");
    return NULL;
}

/* The n-th chunk of an AVI file of a stream. */
static uint8_t *find_chunk(uint8_t *file, size_t bytes, const char *name, int n)
{
    uint8_t *at = memmem(file, bytes, "movi", 4);
    assert_non_null(at);
    for (at += 4; at + 8 < file + bytes;) {
        if (memcmp(at, name, 4) == 0 && n-- == 0) return at;
        size_t length = (size_t)at[4] | (size_t)at[5] << 8 | (size_t)at[6] << 16;
        at += 8 + length + length % 2;
    }
    fail_msg("no such chunk");
    return NULL;
}

/* Byte `at` of a part of the file whose length it belongs to gets another value: with a warning, all is as it was. */
static void check_wrong_length(const char *path, uint8_t *file, size_t bytes, uint8_t *at, uint8_t value)
{
    lr_ingest_options options = at_fps(5, 2, true);
    lrm_reading healthy, damaged;
    size_t n_sound;
    uint8_t right = *at;
    lrt_write(path, file, bytes);
    lr_recording *recording = lrm_open(path, &options);
    int64_t n = lr_recording_timeline(recording)->video.n_frames;
    lrm_read_frames(recording, 0, n, &healthy);
    float *sound = lrm_read_sound(recording, &n_sound);
    lr_recording_close(recording);
    *at = value;
    lrt_write(path, file, bytes);
    *at = right;
    recording = lrm_open(path, &options);
    assert_int_equal(lr_recording_timeline(recording)->n_warnings, 1);
    assert_int_equal(lr_recording_timeline(recording)->video.n_frames, n);
    lrm_read_frames(recording, 0, n, &damaged);
    lrm_assert_same_frames(&healthy, &damaged, path);
    assert_int_equal(damaged.n_damage, 0);
    assert_same_sound(sound, n_sound, recording);
    lr_recording_close(recording);
    lrm_free_reading(&healthy);
    lrm_free_reading(&damaged);
    free(sound);
}

static void test_tags_of_flv_end_where_the_next_begins(void **state)
{
    (void)state;
    const lrm_track track = {.encoder = "aac", .rate = 44100, .channels = 1, .ms = 6000};
    char *path = lrt_path(lrt_dir, "tags.flv");
    size_t bytes;
    lrm_record(path, "flv", &film, &track);
    uint8_t *file = lrt_slurp(path, &bytes);
    check_wrong_length(path, file, bytes, find_tag(file, bytes, 8, 40) + 1, 0xFF);
    check_wrong_length(path, file, bytes, find_tag(file, bytes, 9, 20) + 1, 0x7F);
    check_wrong_length(path, file, bytes, find_tag(file, bytes, 9, 3) + 2, 0x3F);
    check_wrong_length(path, file, bytes, find_tag(file, bytes, 8, 7) + 3, 1);
    free(file);
    free(path);
}

static void test_chunks_of_avi_end_where_the_next_begins(void **state)
{
    (void)state;
    static const char *const encoders[] = {"mp2", "pcm_s16le"};
    for (int i = 0; i < 2; i++) {
        const lrm_track track = {.encoder = encoders[i], .rate = 48000, .channels = 1, .ms = 6000};
        char *path = lrt_path(lrt_dir, "chunks.avi");
        lrm_film moving = film;
        size_t bytes;
        moving.encoder = "mpeg4";
        moving.options = NULL;
        lrm_record(path, "avi", &moving, &track);
        uint8_t *file = lrt_slurp(path, &bytes);
        check_wrong_length(path, file, bytes, find_chunk(file, bytes, "01wb", 30) + 4, 3);
        check_wrong_length(path, file, bytes, find_chunk(file, bytes, "01wb", 11) + 5, 0x3F);
        check_wrong_length(path, file, bytes, find_chunk(file, bytes, "01wb", 50) + 7, 0xFF);
        check_wrong_length(path, file, bytes, find_chunk(file, bytes, "00dc", 20) + 6, 1);
        free(file);
        free(path);
    }
}

/* ------------------------------------------------------------------ headers in mid-stream */

/* The tags of one FLV file behind those of another, so much later. */
static void join_tags(const char *path, const char *first, const char *second, uint32_t ms)
{
    enum { HEAD = 13 };
    size_t bytes, more;
    uint8_t *a = lrt_slurp(first, &bytes), *b = lrt_slurp(second, &more);
    uint8_t *all = malloc(bytes + more);
    assert_non_null(all);
    for (size_t at = HEAD; at + 11 < more;) {
        uint8_t *stamp = b + at + 4;
        uint32_t t = ((uint32_t)stamp[3] << 24 | (uint32_t)stamp[0] << 16 | (uint32_t)stamp[1] << 8 | stamp[2]) + ms;
        stamp[3] = (uint8_t)(t >> 24);
        for (int i = 0; i < 3; i++) stamp[i] = (uint8_t)(t >> (16 - 8 * i));
        at += 11 + ((size_t)b[at + 1] << 16 | (size_t)b[at + 2] << 8 | b[at + 3]) + 4;
    }
    memcpy(all, a, bytes);
    memcpy(all + bytes, b + HEAD, more - HEAD);
    lrt_write(path, all, bytes + more - HEAD);
    free(a);
    free(b);
    free(all);
}

/* A stream that went on with other parameter sets: the container hands them over between two tags. */
static void test_parameter_sets_in_mid_stream_hold_wherever_reading_begins(void **state)
{
    (void)state;
    lrm_film other = film;
    lr_ingest_options options = at_fps(25, 2, true);
    lrm_reading first, second, both;
    lrt_random random;
    char *a = lrt_path(lrt_dir, "a.flv"), *b = lrt_path(lrt_dir, "b.flv"), *path = lrt_path(lrt_dir, "both.flv");
    lrt_random_init(&random, 7);
    other.options = "preset=ultrafast;crf=20;x264-params=keyint=25:min-keyint=25:scenecut=0";
    lrm_record(a, "flv", &film, NULL);
    lrm_record(b, "flv", &other, NULL);
    join_tags(path, a, b, 6000);
    lr_recording *recording = lrm_open(a, &options);
    lrm_read_frames(recording, 0, 150, &first);
    lr_recording_close(recording);
    recording = lrm_open(b, &options);
    lrm_read_frames(recording, 0, 150, &second);
    lr_recording_close(recording);
    recording = lrm_open(path, &options);
    assert_int_equal(lr_recording_timeline(recording)->video.n_frames, 300);
    lrm_read_frames(recording, 0, 300, &both);
    assert_int_equal(both.n_damage, 0);
    for (int k = 0; k < 300; k++) {
        uint64_t right = k < 150 ? first.hash[k] : second.hash[k - 150];
        if (both.hash[k] != right) fail_msg("frame %d is not right", k);
    }
    lr_recording_close(recording);
    assert_true(lrm_readers_agree(path, &random, "two streams in one FLV"));
    lrm_free_reading(&first);
    lrm_free_reading(&second);
    lrm_free_reading(&both);
    free(a);
    free(b);
    free(path);
}

/* ------------------------------------------------------------------ cut off */

static void check_cut(const char *muxer, int percent)
{
    lrm_track track = {.encoder = "aac", .rate = 48000, .channels = 1, .ms = 6000};
    char *path = lrt_path(lrt_dir, "cut");
    lrm_reading healthy, rest;
    size_t bytes, n_sound, n_rest;
    lrm_record(path, muxer, &film, &track);
    lr_ingest_options options = at_fps(5, 1, true);
    lr_recording *recording = lrm_open(path, &options);
    assert_false(lr_recording_timeline(recording)->truncated);
    lrm_read_frames(recording, 0, 30, &healthy);
    float *sound = lrm_read_sound(recording, &n_sound);
    lr_recording_close(recording);
    uint8_t *data = lrt_slurp(path, &bytes);
    lrt_write(path, data, bytes * (size_t)percent / 100);
    free(data);

    recording = lrm_open(path, &options);
    const lr_timeline *t = lr_recording_timeline(recording);
    if (strcmp(muxer, "mpegts") != 0) {
        assert_true(t->truncated);
        assert_true(t->n_warnings > 0);
    }
    assert_in_range(t->video.n_frames, 30 * percent / 100 - 4, 30 * percent / 100 + 3);
    lrm_read_frames(recording, 0, t->video.n_frames, &rest);
    /* The last may hang on a packet that is cut. */
    for (int64_t k = 0; k + 1 < rest.count; k++) assert_int_equal(rest.hash[k], healthy.hash[k]);
    float *rest_sound = lrm_read_sound(recording, &n_rest);
    assert_true(n_rest > n_sound / 100 * (size_t)(percent - 15) && n_rest < n_sound);
    /* Without the last frame, and the resampler's reach. */
    assert_memory_equal(sound, rest_sound, (n_rest - 1024) * sizeof *sound);
    lr_recording_close(recording);
    free(sound);
    free(rest_sound);
    lrm_free_reading(&healthy);
    lrm_free_reading(&rest);
    free(path);
}

static void test_a_cut_file_gives_what_it_holds(void **state)
{
    (void)state;
    for (int percent = 35; percent < 100; percent += 20) {
        check_cut("matroska", percent);
        check_cut("mpegts", percent);
    }
}

/* ------------------------------------------------------------------ sound */

static void check_bad_sound(const char *encoder, const char *muxer)
{
    lrm_track track = {.encoder = encoder, .rate = 48000, .channels = 1, .ms = 5000};
    char *path = lrt_path(lrt_dir, "bad-sound");
    size_t bytes, n_healthy, n_damaged;
    lrm_record(path, muxer, NULL, &track);
    lr_recording *recording = lrm_open(path, NULL);
    float *healthy = lrm_read_sound(recording, &n_healthy);
    lr_recording_close(recording);
    uint8_t *data = lrt_slurp(path, &bytes);
    for (size_t i = bytes / 2; i < bytes / 2 + bytes / 40; i++) data[i] ^= (uint8_t)(0x5A + i);
    lrt_write(path, data, bytes);
    free(data);
    recording = lrm_open(path, NULL);
    float *damaged = lrm_read_sound(recording, &n_damaged);
    assert_int_equal(n_damaged, n_healthy);
    /* Nothing has moved: the first and the last third are as they were. */
    size_t third = n_healthy / 3;
    assert_memory_equal(healthy, damaged, third * sizeof *healthy);
    assert_memory_equal(healthy + 2 * third, damaged + 2 * third, (n_healthy - 2 * third) * sizeof *healthy);
    lr_recording_close(recording);
    free(healthy);
    free(damaged);
    free(path);
}

static void test_damaged_sound_moves_nothing(void **state)
{
    (void)state;
    check_bad_sound("aac", "mp4");
    check_bad_sound("pcm_s16le", "wav");
    check_bad_sound("flac", "matroska");
}

/* ------------------------------------------------------------------ anything at all */

typedef struct shape {
    const char *encoder, *muxer, *options;
    enum AVPixelFormat format;
    bool sound;
    int b_frames;
} shape;

static const shape shapes[] = {
    {"libx264", "mp4", "preset=veryfast", AV_PIX_FMT_YUV420P, true, 2},
    {"libx264", "mpegts", "preset=veryfast", AV_PIX_FMT_YUV420P, false, 3},
    {"libx265", "matroska",
     "preset=ultrafast;x265-params=open-gop=1:bframes=4:keyint=12:pools=1:frame-threads=1:log-level=0",
     AV_PIX_FMT_YUV420P, false, 4},
    {"mpeg2video", "mpegts", NULL, AV_PIX_FMT_YUV420P, true, 2},
    {"mpeg4", "avi", NULL, AV_PIX_FMT_YUV420P, false, 2},
    {"libvpx", "webm", "deadline=realtime", AV_PIX_FMT_YUV420P, false, 0},
    {"libvpx-vp9", "webm", "deadline=realtime;cpu-used=8", AV_PIX_FMT_YUV420P, false, 0},
    {"mjpeg", "avi", NULL, AV_PIX_FMT_YUVJ420P, false, 0},
    {"ffv1", "matroska", "level=3", AV_PIX_FMT_YUV420P, false, 0},
};

static uint8_t *damage_bytes(uint8_t *data, size_t *bytes, lrt_random *random, const char **kind)
{
    size_t at = (size_t)lrt_below(random, *bytes), length = 1 + (size_t)lrt_below(random, 5000);
    if (length > *bytes - at) length = *bytes - at;
    switch (lrt_below(random, 6)) {
    case 0:
        *kind = "flipped bits";
        for (int i = 0; i < 4; i++)
            data[lrt_below(random, *bytes)] ^= (uint8_t)(1u << lrt_below(random, 8));
        break;
    case 1:
        *kind = "random bytes";
        for (int i = 0; i < 100; i++) data[lrt_below(random, *bytes)] = (uint8_t)lrt_next(random);
        break;
    case 2:
        *kind = "a cut";
        *bytes = at + 1;
        break;
    case 3:
        *kind = "zeros";
        memset(data + at, 0, length);
        break;
    case 4:
        *kind = "missing bytes";
        memmove(data + at, data + at + length, *bytes - at - length);
        *bytes -= length;
        break;
    default:
        *kind = "a broken header";
        for (int i = 0; i < 4; i++)
            data[lrt_below(random, *bytes < 1500 ? *bytes : 1500)] = (uint8_t)lrt_next(random);
        break;
    }
    return data;
}

/* LR_SWEEP: damages of each kind of file; 3 by default. */
static void test_any_damage_ends_and_all_readers_agree(void **state)
{
    (void)state;
    const char *wish = getenv("LR_SWEEP");
    int rounds = wish ? atoi(wish) : 3;
    lrt_random random;
    lrt_random_init(&random, 4);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        lrm_film f = film;
        lrm_track track = {.encoder = "aac", .rate = 44100, .channels = 2, .ms = 2000};
        char *path = lrt_path(lrt_dir, "sweep");
        f.encoder = shapes[s].encoder;
        f.options = shapes[s].options;
        f.format = shapes[s].format;
        f.b_frames = shapes[s].b_frames;
        f.gop = 12;
        f.frames = 60;
        for (int i = 0; i < rounds; i++) {
            const char *kind;
            char name[128];
            size_t bytes;
            lrm_record(path, shapes[s].muxer, &f, shapes[s].sound ? &track : NULL);
            uint8_t *data = damage_bytes(lrt_slurp(path, &bytes), &bytes, &random, &kind);
            lrt_write(path, data, bytes);
            free(data);
            (void)snprintf(name, sizeof name, "%s in %s with %s (round %d)", f.encoder,
                           shapes[s].muxer, kind, i);
            (void)lrm_readers_agree(path, &random, name);
        }
        free(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_damaged_second_is_named_and_the_rest_is_right),
        cmocka_unit_test(test_pictures_of_a_wrong_time_are_not_shown_in_the_place_of_others),
        cmocka_unit_test(test_tags_of_flv_end_where_the_next_begins),
        cmocka_unit_test(test_chunks_of_avi_end_where_the_next_begins),
        cmocka_unit_test(test_parameter_sets_in_mid_stream_hold_wherever_reading_begins),
        cmocka_unit_test(test_a_cut_file_gives_what_it_holds),
        cmocka_unit_test(test_damaged_sound_moves_nothing),
        cmocka_unit_test(test_any_damage_ends_and_all_readers_agree),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
