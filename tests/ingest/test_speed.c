/* However pictures are decoded, they are the same; and no more is decoded and held than is needed. */
#include "recordings.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crew.h"
#include "frames.h"

static const lrm_film small = {.encoder = "libx264",
                               .format = AV_PIX_FMT_YUV420P,
                               .width = 96,
                               .height = 64,
                               .frames = 200,
                               .rate = {25, 1},
                               .gop = 40,
                               .b_frames = 3,
                               .luma = 30,
                               .step = 1,
                               .options = "preset=veryfast;x264-params=scenecut=0"};

static lr_recording *open_at(const char *path, int64_t num, int64_t den, int threads)
{
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){num, den};
    options.threads = threads;
    return lrm_open(path, &options);
}

/* ------------------------------------------------------------------ the same pictures in every way */

enum { MOST_FRAMES = 400 };

typedef struct outcome {
    int64_t count;
    uint64_t hash[MOST_FRAMES];
    bool substituted[MOST_FRAMES];
    lr_time pts[MOST_FRAMES];
    size_t n_damage;
    lr_time damage[MOST_FRAMES][2];
    lr_frame_work work;
} outcome;

static uint64_t hash_of(const lr_frame *frame)
{
    uint64_t hash = 0;
    for (int y = 0; y < frame->height; y++)
        hash = hash * 31 + lrm_hash(frame->rgb + (size_t)y * frame->stride, (size_t)frame->width * 3);
    return hash;
}

static void read_in(const lr_recording *recording, const lri_way *way, outcome *out)
{
    lr_error err = {0};
    lr_frame_reader *reader;
    lr_frame frame;
    int64_t n = lr_recording_timeline(recording)->video.n_frames;
    memset(out, 0, sizeof *out);
    assert_in_range(n, 1, MOST_FRAMES);
    lrt_assert_ok(lri_frame_reader_open(&reader, recording, 0, n, way, &err), &err);
    for (bool got = true; got;) {
        lrt_assert_ok(lr_frame_reader_next(reader, &frame, &got, &err), &err);
        if (!got) break;
        assert_int_equal(frame.index, out->count);
        out->hash[out->count] = hash_of(&frame);
        out->substituted[out->count] = frame.substituted;
        out->pts[out->count++] = frame.pts;
    }
    assert_int_equal(out->count, n);
    const lr_damage *damage = lr_frame_reader_damage(reader, &out->n_damage);
    assert_in_range(out->n_damage, 0, MOST_FRAMES);
    for (size_t i = 0; i < out->n_damage; i++) {
        out->damage[i][0] = damage[i].start;
        out->damage[i][1] = damage[i].end;
    }
    lr_frame_reader_work(reader, &out->work);
    lr_frame_reader_close(reader);
}

static void assert_same(const outcome *a, const outcome *b, const char *name, const lri_way *way)
{
    char what[160];
    (void)snprintf(what, sizeof what, "%s by %d decoders of %d threads, window %zu, chunk %lld%s%s", name, way->workers,
                   way->threads, way->window, (long long)way->chunk, way->feeds_all ? ", all packets" : "",
                   way->never_jumps ? ", without a jump" : "");
    assert_int_equal(a->count, b->count);
    for (int64_t k = 0; k < a->count; k++)
        if (a->hash[k] != b->hash[k] || a->pts[k] != b->pts[k] || a->substituted[k] != b->substituted[k])
            fail_msg("%s: frame %lld is another", what, (long long)k);
    if (a->n_damage != b->n_damage || memcmp(a->damage, b->damage, a->n_damage * sizeof *a->damage) != 0)
        fail_msg("%s: other damage", what);
}

static const lri_way ways[] = {
    {.workers = 1, .threads = 1},
    {.workers = 1, .threads = 4},
    {.workers = 1, .threads = 1, .never_jumps = true},
    {.workers = 1, .threads = 1, .feeds_all = true},
    {.workers = 2, .threads = 2, .feeds_all = true, .never_jumps = true},
    {.workers = 3, .threads = 1, .window = 2, .chunk = 1},
    {.workers = 5, .threads = 2, .chunk = 1},
    {.workers = 2, .threads = 1, .window = 5, .chunk = 3, .never_jumps = true},
    {0},
};

static void check_ways(const char *path, int64_t num, int64_t den, const char *name)
{
    const lri_way plain = {.workers = 1, .threads = 1, .feeds_all = true, .never_jumps = true};
    outcome *reference = calloc(1, sizeof *reference), *other = calloc(1, sizeof *other);
    lr_ingest_options options = lr_ingest_defaults();
    lr_recording *recording;
    lr_error err = {0};
    options.fps = (lr_rational){num, den};
    options.threads = 4;
    if (lr_recording_open(&recording, path, &options, &err) != LR_OK) {
        /* Damage at the head of a file. */
        assert_non_null(strstr(name, "damaged"));
        free(reference);
        free(other);
        return;
    }
    /* A damaged time stamp can make the grid absurdly long. */
    bool readable = lr_recording_timeline(recording)->video.n_frames <= MOST_FRAMES;
    if (readable) read_in(recording, &plain, reference);
    for (size_t i = 0; readable && i < sizeof ways / sizeof *ways; i++) {
        read_in(recording, &ways[i], other);
        assert_same(reference, other, name, &ways[i]);
    }
    lr_recording_close(recording);
    free(reference);
    free(other);
}

typedef struct shape {
    const char *name, *encoder, *muxer, *options;
    int gop, b_frames;
    enum AVPixelFormat format;
} shape;

static const shape shapes[] = {
    {"H.264", "libx264", "mp4", "preset=veryfast", 40, 3, AV_PIX_FMT_YUV420P},
    {"H.264 with one key picture", "libx264", "matroska", "preset=veryfast;x264-params=b-pyramid=strict", 1000, 4,
     AV_PIX_FMT_YUV420P},
    {"H.264 with open groups", "libx264", "mpegts", "preset=veryfast;x264-params=open-gop=1", 20, 3,
     AV_PIX_FMT_YUV420P},
    {"interlaced H.264", "libx264", "mpegts", "preset=veryfast;x264-params=tff=1", 25, 2, AV_PIX_FMT_YUV420P},
    {"HEVC", "libx265", "matroska",
     "preset=ultrafast;x265-params=open-gop=1:bframes=4:b-pyramid=1:keyint=24:pools=1:frame-threads=1:log-level=0", 24,
     4, AV_PIX_FMT_YUV420P},
    {"HEVC in layers", "libx265", "mp4",
     "preset=ultrafast;x265-params=temporal-layers=1:bframes=3:keyint=50:pools=1:frame-threads=1:log-level=0", 50, 3,
     AV_PIX_FMT_YUV420P},
    {"MPEG-2", "mpeg2video", "mpegts", NULL, 12, 2, AV_PIX_FMT_YUV420P},
    {"MPEG-4", "mpeg4", "avi", NULL, 24, 2, AV_PIX_FMT_YUV420P},
    {"VP9", "libvpx-vp9", "webm", "deadline=realtime;cpu-used=8;lag-in-frames=10", 30, 0, AV_PIX_FMT_YUV420P},
    {"MJPEG", "mjpeg", "avi", NULL, 1, 0, AV_PIX_FMT_YUVJ420P},
};

static char *record(const shape *s)
{
    char *path = lrt_path(lrt_dir, "film");
    lrm_film film = small;
    film.encoder = s->encoder;
    film.options = s->options;
    film.gop = s->gop;
    film.b_frames = s->b_frames;
    film.format = s->format;
    film.frames = 120;
    lrm_record(path, s->muxer, &film, NULL);
    return path;
}

static void test_every_way_gives_the_same_pictures(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char *path = record(&shapes[i]);
        check_ways(path, 7, 1, shapes[i].name);
        check_ways(path, 3, 2, shapes[i].name);
        free(path);
    }
}

/* Also where a damaged packet that nothing refers to is decoded by one and passed over by the other. */
static void test_every_way_agrees_about_damage(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 9);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char *path = record(&shapes[i]), name[96];
        size_t bytes;
        uint8_t *data = lrt_slurp(path, &bytes);
        for (int n = 0; n < 12; n++) data[bytes / 4 + lrt_below(&random, bytes / 2)] ^= (uint8_t)(1 + n);
        lrt_write(path, data, bytes);
        free(data);
        (void)snprintf(name, sizeof name, "damaged %s", shapes[i].name);
        check_ways(path, 7, 1, name);
        free(path);
    }
}

/* ------------------------------------------------------------------ no more than is needed */

static void read_work(const lrm_film *film, int64_t num, int64_t den, lr_frame_work *work)
{
    char *path = lrt_path(lrt_dir, "work.mp4");
    outcome *out = calloc(1, sizeof *out);
    lrm_record(path, "mp4", film, NULL);
    lr_recording *recording = open_at(path, num, den, 1);
    read_in(recording, NULL, out);
    *work = out->work;
    lr_recording_close(recording);
    free(out);
    free(path);
}

static void test_of_key_pictures_at_the_grid_points_nothing_else_is_decoded(void **state)
{
    (void)state;
    lrm_film film = small;
    lr_frame_work work;
    film.gop = 25;
    film.options = "preset=veryfast;x264-params=keyint=25:min-keyint=25:scenecut=0";
    read_work(&film, 1, 1, &work);
    assert_int_equal(work.decoded, 8);
    assert_int_equal(work.beginnings, 8);
}

static void test_what_nothing_refers_to_is_decoded_only_where_it_is_shown(void **state)
{
    (void)state;
    lrm_film film = small;
    lr_frame_work work;
    film.gop = 1000;
    film.options = "preset=veryfast;x264-params=keyint=1000:b-adapt=0:b-pyramid=none:scenecut=0";
    read_work(&film, 1, 1, &work);
    /* Of four pictures three are B. The last grid point is 25 pictures before the end; a few more are fed until the
     * picture comes out. */
    assert_in_range(work.decoded, 175 / 4, 200 / 4 + 8 + 4);
    assert_in_range(work.passed_over, 175 / 2, 200 * 3 / 4);
    assert_int_equal(work.beginnings, 1);
}

/* ------------------------------------------------------------------ without a demuxer */

/* Of MP4, whose table of all packets each demuxer holds; and with it where what the index noted proves wrong. */
static void test_packets_of_an_mp4_are_read_where_they_lie(void **state)
{
    (void)state;
    static outcome by_place, by_demuxer;
    const lri_way plain = {.workers = 1, .threads = 1};
    const lrm_track track = {.encoder = "aac", .rate = 44100, .channels = 2, .ms = 8000};
    char *path = lrt_path(lrt_dir, "places.mp4");
    lrm_record(path, "mp4", &small, &track);
    lr_recording *recording = open_at(path, 5, 1, 1);
    lri_reach *reach = &recording->video.reach;
    assert_true(reach->direct);
    assert_true(recording->audio.reach.direct);
    read_in(recording, &plain, &by_place);
    for (size_t i = reach->places.n_bytes / 2; i < reach->places.n_bytes; i += 7) reach->places.bytes[i] ^= 8;
    read_in(recording, &plain, &by_demuxer);
    assert_same(&by_place, &by_demuxer, path, &plain);
    lr_recording_close(recording);
    free(path);

    path = lrt_path(lrt_dir, "places.mkv");
    lrm_record(path, "matroska", &small, &track);
    recording = open_at(path, 5, 1, 1);
    assert_false(recording->video.reach.direct);
    assert_false(recording->audio.reach.direct);
    lr_recording_close(recording);
    free(path);
}

/* ------------------------------------------------------------------ threads */

static void test_a_batch_of_recordings_takes_no_more_threads_than_one(void **state)
{
    (void)state;
    enum { FILES = 6, THREADS = 3 };
    lr_recording *recordings[FILES];
    lr_frame_reader *readers[FILES];
    lr_error err = {0};
    uint64_t first[FILES] = {0};
    char *path = lrt_path(lrt_dir, "batch.mp4");
    lrm_film film = small;
    film.gop = 5;
    lrm_record(path, "mp4", &film, NULL);
    (void)lri_crew_most();
    for (int i = 0; i < FILES; i++) {
        recordings[i] = open_at(path, 5, 1, THREADS);
        lrt_assert_ok(lr_frame_reader_open(&readers[i], recordings[i], 0, 40, &err), &err);
    }
    for (int k = 0; k < 40; k++)
        for (int i = 0; i < FILES; i++) {
            lr_frame frame;
            bool got;
            lrt_assert_ok(lr_frame_reader_next(readers[i], &frame, &got, &err), &err);
            assert_true(got);
            assert_int_equal(frame.index, k);
            if (k == 0) first[i] = hash_of(&frame);
        }
    for (int i = 0; i < FILES; i++) {
        assert_int_equal(first[i], first[0]);
        lr_frame_reader_close(readers[i]);
        lr_recording_close(recordings[i]);
    }
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    assert_in_range(lri_crew_most(), 1, processors > THREADS ? processors : THREADS);
    free(path);
}

static void test_a_reader_can_be_closed_at_any_time(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "early.mp4");
    lrm_film film = small;
    film.gop = 10;
    lrm_record(path, "mp4", &film, NULL);
    lr_recording *recording = open_at(path, 5, 1, 4);
    for (int taken = 0; taken < 12; taken++) {
        lr_error err = {0};
        lr_frame_reader *reader;
        lr_frame frame;
        bool got;
        lrt_assert_ok(lr_frame_reader_open(&reader, recording, 0, 40, &err), &err);
        for (int k = 0; k < taken; k++) lrt_assert_ok(lr_frame_reader_next(reader, &frame, &got, &err), &err);
        lr_frame_reader_close(reader);
    }
    lr_recording_close(recording);
    free(path);
}

/* ------------------------------------------------------------------ memory */

static void wait_a_little(void)
{
    const struct timespec little = {0, 20 * 1000 * 1000};
    (void)nanosleep(&little, NULL);
}

/* Until nothing is added for a while. */
static size_t settled_bytes(void)
{
    size_t last = 0, now;
    for (int still = 0; still < 25; still = now == last ? still + 1 : 0, last = now) {
        wait_a_little();
        if (still == 0) last = lr_alloc_live();
        now = lr_alloc_live();
    }
    return lr_alloc_live();
}

static void test_a_slow_consumer_holds_few_pictures_of_4k(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "large.avi");
    lrm_film film = {.encoder = "mjpeg", .format = AV_PIX_FMT_YUVJ420P, .width = 3840, .height = 2160, .frames = 30,
                     .rate = {10, 1}, .gop = 1, .luma = 40, .step = 3, .plain = true};
    lr_error err = {0};
    lr_frame_reader *reader;
    lr_frame frame;
    bool got;
    lrm_record(path, "avi", &film, NULL);
    lr_recording *recording = open_at(path, 10, 1, 2);
    size_t before = lr_alloc_live();
    lrt_assert_ok(lr_frame_reader_open(&reader, recording, 0, 30, &err), &err);
    lrt_assert_ok(lr_frame_reader_next(reader, &frame, &got, &err), &err);
    uint64_t first = hash_of(&frame);
    size_t held = settled_bytes() - before;
    /* 128 MiB of pictures that wait; one that the caller has, and one that each of two decoders is at. */
    size_t picture = frame.stride * (size_t)frame.height;
    assert_in_range(held, 3 * picture, ((size_t)128 << 20) + 3 * picture + ((size_t)1 << 20));
    assert_int_equal(hash_of(&frame), first);
    int64_t count = 1;
    for (;; count++) {
        lrt_assert_ok(lr_frame_reader_next(reader, &frame, &got, &err), &err);
        if (!got) break;
    }
    assert_int_equal(count, 30);
    assert_in_range(lr_alloc_peak() - before, 0, ((size_t)128 << 20) + 3 * picture + ((size_t)1 << 20));
    lr_frame_reader_close(reader);
    assert_int_equal(lr_alloc_live(), before);
    lr_recording_close(recording);
    free(path);
}

/* Whichever thread it hits. */
static void test_each_failed_allocation_ends_in_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "allocations.mp4");
    lrm_film film = small;
    film.gop = 10;
    film.frames = 60;
    lrm_record(path, "mp4", &film, NULL);
    lr_recording *recording = open_at(path, 5, 1, 3);
    size_t before = lr_alloc_live();
    bool failed = true;
    for (uint64_t k = 1; failed; k++) {
        lr_error err = {0};
        lr_frame_reader *reader = NULL;
        lr_frame frame;
        bool got = true;
        uint64_t failures = lr_alloc_failures();
        lr_alloc_fail_at(k);
        lr_status st = lr_frame_reader_open(&reader, recording, 0, 12, &err);
        while (st == LR_OK && got) st = lr_frame_reader_next(reader, &frame, &got, &err);
        lr_frame_reader_close(reader);
        lr_alloc_fail_at(0);
        failed = lr_alloc_failures() > failures;
        if (st != LR_OK) assert_int_equal(st, LR_E_NOMEM);
        if (!failed) assert_int_equal(st, LR_OK);
        assert_int_equal(lr_alloc_live(), before);
        assert_in_range(k, 1, 2000);
    }
    lr_recording_close(recording);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_failed_allocation_ends_in_an_error_and_leaks_nothing),
        cmocka_unit_test(test_every_way_gives_the_same_pictures),
        cmocka_unit_test(test_every_way_agrees_about_damage),
        cmocka_unit_test(test_of_key_pictures_at_the_grid_points_nothing_else_is_decoded),
        cmocka_unit_test(test_what_nothing_refers_to_is_decoded_only_where_it_is_shown),
        cmocka_unit_test(test_packets_of_an_mp4_are_read_where_they_lie),
        cmocka_unit_test(test_a_batch_of_recordings_takes_no_more_threads_than_one),
        cmocka_unit_test(test_a_reader_can_be_closed_at_any_time),
        cmocka_unit_test(test_a_slow_consumer_holds_few_pictures_of_4k),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
