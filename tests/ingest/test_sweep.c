/* Files with damage at random places, whose healthy parts are known: pictures of which no byte was hit, nor of any
 * that they may refer to, are those of the undamaged file, or named as damaged.
 *
 * LR_SWEEP: damages of each kind of file (4 by default; hundreds before a release). LR_SWEEP_KEEP: where to write
 * each file before it is read, for the one that fails. */
#include "recordings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RATE = 10, FRAMES = 60, GROUP = 10 }; /* closed groups of one second */

typedef struct shape {
    const char *encoder, *muxer, *options;
    int b_frames;
    bool sound; /* not in AVI: a chunk whose length is hit takes others for sound, and moves what follows */
    bool cuts; /* bytes may be missing: packets say themselves when they are shown */
} shape;

static const shape shapes[] = {
    {"libx264", "mp4", "preset=veryfast;x264-params=scenecut=0:open-gop=0", 2, true, false},
    {"libx264", "matroska", "preset=veryfast;x264-params=scenecut=0:open-gop=0", 2, true, true},
    {"libx264", "mpegts", "preset=veryfast;x264-params=scenecut=0:open-gop=0", 2, true, true},
    {"mpeg2video", "mpegts", "flags=+cgop;sc_threshold=1000000000", 0, false, true},
    {"libvpx", "webm", "deadline=realtime", 0, false, true},
    {"libvpx-vp9", "webm", "deadline=realtime;cpu-used=8", 0, false, true},
    {"mpeg4", "avi", "sc_threshold=1000000000", 0, true, false},
    {"libx265", "matroska",
     "preset=ultrafast;x265-params=keyint=10:min-keyint=10:scenecut=0:open-gop=0:pools=1:frame-threads=1:log-level=0",
     3, false, true},
};

/* ------------------------------------------------------------------ where what lies */

/* Groups by the bytes of the file: group g begins at the packet of its first picture. */
typedef struct places {
    int64_t begin[FRAMES / GROUP]; /* the last ends with the file's data */
    int64_t end;                   /* of the last packet */
} places;

static void find_places(const char *path, places *p)
{
    AVFormatContext *format = NULL;
    AVPacket *packet = av_packet_alloc();
    int n = 0;
    assert_true(avformat_open_input(&format, path, NULL, NULL) >= 0);
    assert_true(avformat_find_stream_info(format, NULL) >= 0);
    while (av_read_frame(format, packet) >= 0) {
        bool film = format->streams[packet->stream_index]->codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
        if (film && n % GROUP == 0) {
            assert_true(n < FRAMES);
            if (!(packet->flags & AV_PKT_FLAG_KEY)) fail_msg("%s: picture %d begins no group", path, n);
            p->begin[n / GROUP] = packet->pos;
        }
        if (film) n++;
        p->end = packet->pos + packet->size;
        av_packet_unref(packet);
    }
    assert_int_equal(n, FRAMES);
    av_packet_free(&packet);
    avformat_close_input(&format);
}

/* Group g is hit by damage of [from, to): from the packet that its first picture begins with to that of the next.
 * The bytes just before are its container's headers (Matroska's clusters, a transport stream's tables). */
static bool is_hit(const places *p, int g, int64_t from, int64_t to)
{
    enum { HEADERS = 4 * 188 };
    int64_t next = g + 1 < FRAMES / GROUP ? p->begin[g + 1] : INT64_MAX;
    return from < next && to > p->begin[g] - HEADERS;
}

/* ------------------------------------------------------------------ damage */

typedef struct damage {
    const char *what;
    int64_t from, to; /* of the undamaged file */
} damage;

static damage do_damage(uint8_t *data, size_t *bytes, int64_t first, int64_t end, bool cuts, lrt_random *random)
{
    int64_t length = 1 + (int64_t)lrt_below(random, lrt_below(random, 2) ? 4000 : 200);
    int64_t from = first + (int64_t)lrt_below(random, (uint64_t)(end - first));
    if (length > end - from) length = end - from;
    damage d = {.from = from, .to = from + length};
    uint8_t *at = data + from;
    switch (lrt_below(random, cuts ? 5 : 4)) {
    case 0:
        d.what = "flipped bits";
        for (int i = 0; i < 8; i++)
            at[lrt_below(random, (uint64_t)length)] ^= (uint8_t)(1u << lrt_below(random, 8));
        break;
    case 1:
        d.what = "inverted bytes";
        for (int i = 0; i < 40; i++) at[lrt_below(random, (uint64_t)length)] ^= 0xFF;
        break;
    case 2:
        d.what = "zeros";
        memset(at, 0, (size_t)length);
        break;
    case 3:
        d.what = "other bytes";
        for (int64_t i = 0; i < length; i++) at[i] = (uint8_t)lrt_next(random);
        break;
    default:
        d.what = "missing bytes";
        memmove(at, at + length, *bytes - (size_t)d.to);
        *bytes -= (size_t)length;
        break;
    }
    return d;
}

static bool is_gap(const lr_timeline *t, lr_time from, lr_time to)
{
    for (size_t i = 0; i < t->audio.n_gaps; i++)
        if (t->audio.gaps[i][0] < to && t->audio.gaps[i][1] > from) return true;
    return false;
}

/* The first sample from `from` on that is loud; `end` where none is. */
static size_t onset(const float *samples, size_t from, size_t end)
{
    while (from < end && samples[from] < 0.05f && samples[from] > -0.05f) from++;
    return from;
}

/* The tone at the start of each second whose group is healthy, and the neighbours' (sound lies beside the pictures
 * of its time), begins where it did. What is off by less than half a packet (of 1024 samples at 44.1 kHz: 11.6 ms) is
 * taken for jitter of the stamps, so where less than that is lost, what follows comes so much sooner. */
static void check_sound(const lr_recording *recording, const float *healthy, size_t n_healthy, const places *p,
                        const damage *d, const char *name)
{
    enum { SECOND = LR_SAMPLE_RATE, BEFORE = SECOND / 20, WINDOW = SECOND * 4 / 10, TOLERANCE = SECOND * 12 / 1000 };
    const lr_timeline *t = lr_recording_timeline(recording);
    size_t count;
    if (!t->has_audio) fail_msg("%s: the sound is gone", name);
    float *now = lrm_read_sound(recording, &count);
    for (int g = 1; g < FRAMES / GROUP; g++) {
        size_t at = (size_t)g * SECOND, end = at + WINDOW;
        lr_time second = (lr_time)g * LR_TIME_SECOND;
        bool near_end = g + 1 < FRAMES / GROUP && is_hit(p, g + 1, d->from, d->to);
        if (is_hit(p, g - 1, d->from, d->to) || is_hit(p, g, d->from, d->to) || near_end) continue;
        if (end > n_healthy || is_gap(t, second - LR_TIME_SECOND / 20, second + LR_TIME_SECOND / 2)) continue;
        if (end > count && t->n_warnings > 0) continue;
        if (end > count) fail_msg("%s: the sound ends at %zu", name, count);
        size_t want = onset(healthy, at - BEFORE, end), got = onset(now, at - BEFORE, end);
        assert_true(want < end);
        if (got + TOLERANCE < want || got > want + TOLERANCE)
            fail_msg("%s: bytes %lld to %lld are hit, the tone at %d s is healthy but begins at %zu, not %zu", name,
                     (long long)d->from, (long long)d->to, g, got, want);
    }
    free(now);
}

/* What is healthy is right, or named. */
static void check_healthy(const char *path, const lrm_reading *healthy, const float *sound, size_t n_sound,
                          double origin, const places *p, const damage *d, const char *name)
{
    lrm_reading now;
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){RATE, 1};
    options.threads = 2;
    options.every_picture = true;
    lr_recording *recording = lrm_open(path, &options);
    const lr_timeline *t = lr_recording_timeline(recording);
    if (t->origin_s != origin) fail_msg("%s: the origin moved to %f", name, t->origin_s);
    assert_true(t->has_video);
    lrm_read_frames(recording, 0, t->video.n_frames, &now);
    for (int64_t k = 0; k < healthy->count; k++) {
        int g = (int)(k / GROUP);
        if (is_hit(p, g, d->from, d->to)) continue;
        bool same = k < now.count && now.hash[k] == healthy->hash[k] && !now.substituted[k];
        if (same) continue;
        lr_time at = lr_grid_time(k, options.fps);
        if (lrm_is_named(&now, t, at)) continue;
        if (k >= now.count && t->n_warnings > 0) continue;
        fail_msg("%s: bytes %lld to %lld are hit, group %d (from %lld on) is healthy but not right: frame %lld %s",
                 name, (long long)d->from, (long long)d->to, g, (long long)p->begin[g], (long long)k,
                 k >= now.count ? "is missing" : now.substituted[k] ? "is a stand-in that is not named"
                                                                    : "is another one");
    }
    if (sound) check_sound(recording, sound, n_sound, p, d, name);
    lrm_free_reading(&now);
    lr_recording_close(recording);
}

static void sweep(const shape *kind, int rounds, lrt_random *random)
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
                     .step = 2,
                     .options = kind->options};
    lrm_track track = {.encoder = "aac", .rate = 44100, .channels = 1, .ms = 6000};
    char *path = lrt_path(lrt_dir, "sweep");
    lrm_reading healthy;
    places p = {.end = 0};
    size_t size;
    lrm_record(path, kind->muxer, &film, kind->sound ? &track : NULL);
    find_places(path, &p);
    uint8_t *whole = lrt_slurp(path, &size), *data = malloc(size);
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){RATE, 1};
    lr_recording *recording = lrm_open(path, &options);
    double origin = lr_recording_timeline(recording)->origin_s;
    lrm_read_frames(recording, 0, FRAMES, &healthy);
    assert_int_equal(healthy.n_damage, 0);
    size_t n_sound = 0;
    float *sound = kind->sound ? lrm_read_sound(recording, &n_sound) : NULL;
    lr_recording_close(recording);
    for (int i = 0; i < rounds; i++) {
        char name[128];
        size_t bytes = size;
        memcpy(data, whole, size);
        /* Behind the first group: with it would go the origin. */
        damage d = do_damage(data, &bytes, p.begin[1], p.end, kind->cuts, random);
        lrt_write(path, data, bytes);
        if (getenv("LR_SWEEP_KEEP")) lrt_write(getenv("LR_SWEEP_KEEP"), data, bytes);
        (void)snprintf(name, sizeof name, "%s in %s with %s (round %d)", kind->encoder, kind->muxer, d.what, i);
        clock_t begin = clock();
        check_healthy(path, &healthy, sound, n_sound, origin, &p, &d, name);
        /* The whole film takes a tenth of a second. */
        assert_true(clock() - begin < 30 * CLOCKS_PER_SEC);
        assert_true(lrm_readers_agree(path, random, name));
    }
    lrm_free_reading(&healthy);
    free(sound);
    free(whole);
    free(data);
    free(path);
}

static void test_what_no_damage_has_hit_is_right_or_named(void **state)
{
    (void)state;
    const char *wish = getenv("LR_SWEEP");
    int rounds = wish ? atoi(wish) : 4;
    lrt_random random;
    lrt_random_init(&random, 5);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) sweep(&shapes[i], rounds, &random);
}

/* Among these: a frame number of H.264 is altered, and the codec changes pictures behind it without a word. */
static void test_damage_that_no_codec_tells_of_is_alike_for_all_readers(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_from(&random, 53, 5);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) sweep(&shapes[i], 5, &random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_no_damage_has_hit_is_right_or_named),
        cmocka_unit_test(test_damage_that_no_codec_tells_of_is_alike_for_all_readers),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
