/* An hour of sound: sample i of 16 kHz is at origin + i/16000 from the first to the last. The recordings hold a
 * click, one sample of theirs, at each whole minute; resampled it is a pulse whose highest sample stands at
 * exactly 960,000 times the minute. */
#include "recordings.h"

#include <math.h>
#include <stdlib.h>

#define HOUR 3600
#define MINUTE (INT64_C(60) * LR_SAMPLE_RATE)

/* A picture every ten seconds for an hour. */
static const lrm_film pictures = {.encoder = "mpeg4", .format = AV_PIX_FMT_YUV420P, .width = 64, .height = 64,
                                  .frames = HOUR / 10, .rate = {1, 10}, .luma = 60, .plain = true};

typedef struct hour {
    float *samples;
    int64_t count, gap[2]; /* in samples; the first gap's, where there is one */
} hour;

static hour read_hour(const char *path)
{
    hour out = {.gap = {-1, -1}};
    size_t count;
    lr_recording *recording = lrm_open(path, NULL);
    const lr_audio_info *audio = &lr_recording_timeline(recording)->audio;
    if (audio->n_gaps > 0)
        for (int i = 0; i < 2; i++)
            out.gap[i] = lr_rescale(audio->gaps[0][i], LR_SAMPLE_RATE, LR_TIME_SECOND);
    out.samples = lrm_read_sound(recording, &count);
    assert_int_equal(count, audio->n_samples);
    out.count = (int64_t)count;
    lr_recording_close(recording);
    return out;
}

/* Where the highest sample within a quarter of a second of `at` stands. */
static int64_t click_near(const hour *h, int64_t at)
{
    int64_t from = at > 4000 ? at - 4000 : 0, best = from;
    for (int64_t i = from; i < at + 4000 && i < h->count; i++)
        if (fabsf(h->samples[i]) > fabsf(h->samples[best])) best = i;
    if (fabsf(h->samples[best]) < 0.02f) fail_msg("no click near sample %lld", (long long)at);
    return best;
}

/* Each minute's click stands `offset` samples behind its place and nowhere else. */
static void assert_clicks(const hour *h, int64_t offset)
{
    for (int64_t minute = 0; minute < HOUR / 60; minute++) {
        int64_t want = minute * MINUTE + offset;
        if (want + 4000 > h->gap[0] && want - 4000 < h->gap[1]) continue;
        int64_t got = click_near(h, want);
        if (got != want)
            fail_msg("minute %lld: the click is at sample %lld, %lld beside its place", (long long)minute,
                     (long long)got, (long long)(got - want));
    }
}

static hour check_hour(const char *name, const char *muxer, const lrm_film *film, const lrm_track *track,
                       int64_t offset, int64_t slack)
{
    char *path = lrt_path(lrt_dir, name);
    lrm_record(path, muxer, film, track);
    hour h = read_hour(path);
    print_message("%s: %lld samples\n", name, (long long)h.count);
    assert_clicks(&h, offset);
    /* What may be left at the end is the rest of the codec's last frame. */
    int64_t wanted = HOUR * (int64_t)LR_SAMPLE_RATE + offset;
    assert_in_range(h.count, wanted, wanted + slack);
    (void)remove(path);
    free(path);
    return h;
}

static void test_an_hour_of_44100_hz_has_no_sample_of_drift(void **state)
{
    (void)state;
    lrm_track track = {.encoder = "flac", .rate = 44100, .channels = 1, .ms = HOUR * 1000, .clicks = true};
    free(check_hour("hour.flac", "flac", NULL, &track, 0, 0).samples);
    free(check_hour("hour.mkv", "matroska", NULL, &track, 0, 0).samples);
}

static void test_an_hour_of_8_khz_has_no_sample_of_drift(void **state)
{
    (void)state;
    lrm_track track = {.encoder = "pcm_mulaw", .rate = 8000, .channels = 1, .ms = HOUR * 1000, .clicks = true};
    free(check_hour("hour.wav", "wav", NULL, &track, 0, 0).samples);
}

/* Priming, by the container's word: an edit list, the header's gapless data, the pre-skip. */
static void test_an_hour_in_a_codec_with_priming_has_no_sample_of_drift(void **state)
{
    (void)state;
    lrm_track track = {.encoder = "aac", .rate = 44100, .channels = 1, .ms = HOUR * 1000, .clicks = true};
    free(check_hour("hour.m4a", "mp4", NULL, &track, 0, 1024).samples);
    track.encoder = "libmp3lame";
    free(check_hour("hour.mp3", "mp3", NULL, &track, 0, 1152).samples);
    track.encoder = "libopus";
    track.rate = 48000;
    free(check_hour("hour.opus", "ogg", NULL, &track, 0, 960).samples);
}

static void test_an_hour_beside_pictures_keeps_its_late_start(void **state)
{
    (void)state;
    /* The muxer tells an empty start in milliseconds only; at this rate AAC's priming is 32 of them. */
    lrm_track track = {.encoder = "aac", .rate = 32000, .channels = 1, .ms = HOUR * 1000, .clicks = true,
                       .offset_ms = 7000};
    free(check_hour("late.mp4", "mp4", &pictures, &track, 7 * LR_SAMPLE_RATE, 1024).samples);
    track.encoder = "flac";
    track.rate = 44100;
    track.offset_ms = 7250;
    free(check_hour("late.mkv", "matroska", &pictures, &track, 7 * LR_SAMPLE_RATE + 4000, 0).samples);
}

static void test_what_follows_a_gap_is_where_it_was(void **state)
{
    (void)state;
    lrm_track track = {.encoder = "aac", .rate = 44100, .channels = 1, .ms = HOUR * 1000, .clicks = true,
                       .hole_ms = {600500, 603700}};
    hour h = check_hour("gap.mp4", "mp4", &pictures, &track, 0, 1024);
    /* AAC's frames are 1024 samples long. */
    assert_in_range(h.gap[0], 6005 * 1600, 6005 * 1600 + 2 * 1024);
    assert_in_range(h.gap[1], 6037 * 1600, 6037 * 1600 + 2 * 1024);
    for (int64_t i = h.gap[0]; i < h.gap[1]; i++) assert_true(h.samples[i] == 0);
    free(h.samples);
}

/* A recorder whose clock is off by a ten thousandth: by the samples alone the last minute would be 0.36 s
 * away. Stamps rule: a click is never further from its own than half a packet and a sample's rounding. */
static void test_a_clock_that_is_off_is_followed(void **state)
{
    (void)state;
    static const int64_t ppm[] = {100, -100};
    for (size_t k = 0; k < sizeof ppm / sizeof *ppm; k++) {
        lrm_track track = {.encoder = "aac", .rate = 44100, .channels = 1, .ms = HOUR * 1000, .clicks = true,
                           .drift_ppm = ppm[k]};
        char *path = lrt_path(lrt_dir, "drift.mp4");
        lrm_record(path, "mp4", &pictures, &track);
        hour h = read_hour(path);
        int64_t half_packet = 512 * (int64_t)LR_SAMPLE_RATE / 44100 + 2;
        for (int64_t minute = 0; minute < HOUR / 60; minute++) {
            int64_t want = minute * MINUTE + minute * MINUTE * ppm[k] / 1000000;
            int64_t off = click_near(&h, want) - want;
            if (off < -half_packet || off > half_packet)
                fail_msg("%lld ppm, minute %lld: %lld samples off", (long long)ppm[k], (long long)minute,
                         (long long)off);
        }
        free(h.samples);
        (void)remove(path);
        free(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_hour_of_44100_hz_has_no_sample_of_drift),
        cmocka_unit_test(test_an_hour_of_8_khz_has_no_sample_of_drift),
        cmocka_unit_test(test_an_hour_in_a_codec_with_priming_has_no_sample_of_drift),
        cmocka_unit_test(test_an_hour_beside_pictures_keeps_its_late_start),
        cmocka_unit_test(test_what_follows_a_gap_is_where_it_was),
        cmocka_unit_test(test_a_clock_that_is_off_is_followed),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
