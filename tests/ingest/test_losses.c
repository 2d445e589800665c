/* Packets of a transport stream that are lost by multiples of 16, which its continuity counters cannot see: no picture
 * is shown that depends on them, but for what is named. */
#include "recordings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE = 25, FRAMES = 200, GROUP = 50, PACKET = 188 };

typedef struct shape {
    const char *name, *encoder, *options;
    int b_frames;
    bool plain; /* pictures of about one packet */
} shape;

static const shape shapes[] = {
    {"H.264, large", "libx264", "preset=veryfast;crf=8;x264-params=scenecut=0:open-gop=0", 2, false},
    {"H.264, small", "libx264", "preset=veryfast;x264-params=scenecut=0:open-gop=0", 0, true},
    {"H.264, small, reordered", "libx264", "preset=veryfast;x264-params=scenecut=0:open-gop=1", 3, true},
    {"MPEG-2, large", "mpeg2video", "sc_threshold=1000000000", 0, false},
    {"MPEG-2, small", "mpeg2video", "sc_threshold=1000000000", 0, true},
    {"MPEG-2, small, reordered", "mpeg2video", "sc_threshold=1000000000", 2, true},
    {"H.265, small", "libx265",
     "preset=ultrafast;x265-params=keyint=50:min-keyint=50:scenecut=0:open-gop=1:pools=1:frame-threads=1:log-level=0",
     3, true},
};

static void draw_moving(AVFrame *frame, int n)
{
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < frame->height >> (plane > 0); y++)
            for (int x = 0; x < frame->width >> (plane > 0); x++)
                frame->data[plane][y * frame->linesize[plane] + x] =
                    (uint8_t)(plane ? 128 : 20 + n + (x / 8 + n) % 8);
}

/* ------------------------------------------------------------------ losses */

static unsigned pid_of(const uint8_t *packet)
{
    return (packet[1] & 0x1Fu) << 8 | packet[2];
}

/* The places of the packets of the picture, which are those with the most. */
static size_t find_packets(const uint8_t *file, size_t bytes, size_t *places)
{
    size_t n = 0;
    for (size_t at = 0; at + PACKET <= bytes; at += PACKET)
        if (pid_of(file + at) == 0x100) places[n++] = at;
    return n;
}

/* The file without the packets [first, first + count) of the picture; what lies between them goes too, where `all`. */
static size_t lose(uint8_t *to, const uint8_t *file, size_t bytes, const size_t *places, size_t first, size_t count,
                   bool all)
{
    size_t n = 0, from = places[first], end = places[first + count - 1];
    for (size_t at = 0; at + PACKET <= bytes; at += PACKET) {
        if (at >= from && at <= end && (all || pid_of(file + at) == 0x100)) continue;
        memcpy(to + n, file + at, PACKET);
        n += PACKET;
    }
    return n;
}

/* Each picture is the one of the healthy film at its time, or named; where pictures are lost before a key picture, which
 * needs none of them, what was shown last may go on without a word: a recorder that paused leaves the same. What is
 * named ends with the group of pictures. */
static void check(const char *path, const lrm_reading *healthy, const lr_ingest_options *options, const char *name)
{
    lrm_reading now;
    lr_recording *recording = lrm_open(path, options);
    const lr_timeline *t = lr_recording_timeline(recording);
    int64_t n_named = 0;
    assert_true(t->has_video);
    lrm_read_frames(recording, 0, t->video.n_frames, &now);
    assert_true(now.count <= healthy->count);
    for (int64_t k = 0; k < now.count; k++) {
        lr_time at = lr_grid_time(k, options->fps);
        bool named = lrm_is_named(&now, t, at);
        int64_t shown = (now.pts[k] * RATE + LR_TIME_SECOND / 2) / LR_TIME_SECOND;
        n_named += named;
        if (named || now.hash[k] == healthy->hash[k]) continue;
        bool goes_on = shown < k && now.hash[k] == healthy->hash[shown];
        if (!goes_on) fail_msg("%s: frame %lld is not right, and not named", name, (long long)k);
    }
    if (n_named > 2 * GROUP + 8) fail_msg("%s: %lld pictures are named", name, (long long)n_named);
    lrm_free_reading(&now);
    lr_recording_close(recording);
}

static void lose_by_16(const shape *kind, int rounds, lrt_random *random)
{
    lrm_film film = {.encoder = kind->encoder,
                     .format = AV_PIX_FMT_YUV420P,
                     .width = 128,
                     .height = 96,
                     .frames = FRAMES,
                     .rate = {RATE, 1},
                     .gop = GROUP,
                     .b_frames = kind->b_frames,
                     .luma = 30,
                     .step = 1,
                     .draw = kind->plain ? draw_moving : NULL,
                     .options = kind->options};
    const lrm_track track = {.encoder = "mp2", .rate = 48000, .channels = 1, .ms = 8000};
    char *path = lrt_path(lrt_dir, "losses.ts");
    lrm_reading healthy;
    size_t bytes, n;
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){RATE, 1};
    options.threads = 2;
    options.every_picture = true;
    lrm_record(path, "mpegts", &film, &track);
    uint8_t *file = lrt_slurp(path, &bytes), *rest = malloc(bytes);
    size_t *places = malloc(bytes / PACKET * sizeof *places);
    assert_non_null(rest);
    assert_non_null(places);
    n = find_packets(file, bytes, places);
    assert_true(n > FRAMES);
    lr_recording *recording = lrm_open(path, &options);
    lrm_read_frames(recording, 0, FRAMES, &healthy);
    assert_int_equal(healthy.n_damage, 0);
    lr_recording_close(recording);
    for (int i = 0; i < rounds; i++) {
        size_t count = 16 * (1 + (size_t)lrt_below(random, 3));
        size_t first = n / 10 + (size_t)lrt_below(random, n - n / 10 - count - 8);
        bool all = lrt_below(random, 2) == 0;
        char name[160];
        (void)snprintf(name, sizeof name, "%s, packets %zu to %zu of %zu%s (round %d)", kind->name, first,
                       first + count, n, all ? " and what lies between" : "", i);
        lrt_write(path, rest, lose(rest, file, bytes, places, first, count, all));
        check(path, &healthy, &options, name);
    }
    lrm_free_reading(&healthy);
    free(places);
    free(rest);
    free(file);
    free(path);
}

/* LR_SWEEP: losses of each kind of film; 4 by default. */
static void test_packets_lost_by_16_leave_no_wrong_picture(void **state)
{
    (void)state;
    const char *wish = getenv("LR_SWEEP");
    lrt_random random;
    lrt_random_init(&random, 61);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) lose_by_16(&shapes[i], wish ? atoi(wish) : 4, &random);
}

/* ------------------------------------------------------------------ no losses */

/* A recorder that paused has lost nothing: the numbers of its pictures go on. */
static void test_a_pause_is_no_loss(void **state)
{
    (void)state;
    /* Within a group and before one; of no multiple of 16 pictures. */
    static const int pauses[][2] = {{30, 3000}, {70, 400}, {100, 2000}, {140, 90}};
    static int64_t ms[FRAMES];
    int64_t more = 0;
    for (int n = 0, p = 0; n < FRAMES; n++) {
        if (p < 4 && pauses[p][0] == n) more += pauses[p++][1];
        ms[n] = n * 1000 / RATE + more;
    }
    for (size_t i = 0; i < 3; i++) {
        lrm_film film = {.encoder = shapes[i].encoder,
                         .format = AV_PIX_FMT_YUV420P,
                         .width = 128,
                         .height = 96,
                         .frames = FRAMES,
                         .rate = {RATE, 1},
                         .gop = GROUP,
                         .b_frames = shapes[i].b_frames,
                         .ms = ms,
                         .draw = draw_moving,
                         .options = shapes[i].options};
        char *path = lrt_path(lrt_dir, "pauses.ts");
        lrm_reading all;
        lrt_random random;
        lrt_random_init(&random, 62);
        lrm_record(path, "mpegts", &film, NULL);
        lr_ingest_options options = lr_ingest_defaults();
        options.fps = (lr_rational){RATE, 1};
        options.every_picture = true;
        lr_recording *recording = lrm_open(path, &options);
        const lr_timeline *t = lr_recording_timeline(recording);
        assert_int_equal(t->n_damage, 0);
        assert_int_equal(t->video.n_coded, FRAMES);
        lrm_read_frames(recording, 0, t->video.n_frames, &all);
        assert_int_equal(all.n_damage, 0);
        for (int64_t k = 0; k < all.count; k++) assert_false(all.substituted[k]);
        lrm_free_reading(&all);
        lr_recording_close(recording);
        free(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packets_lost_by_16_leave_no_wrong_picture),
        cmocka_unit_test(test_a_pause_is_no_loss),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
