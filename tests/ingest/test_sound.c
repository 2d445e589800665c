/* The sound at 16 kHz: equal to libav's plain loop where nothing is missing, at its place in time where
 * something is. */
#include "recordings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The gaps of *info go with the recording: the first one is in `first_gap`. */
static lr_time first_gap[2];

static float *read_track(const char *path, lr_audio_info *info, size_t *count)
{
    lr_recording *recording = lrm_open(path, NULL);
    *info = lr_recording_timeline(recording)->audio;
    if (info->n_gaps > 0) memcpy(first_gap, info->gaps[0], sizeof first_gap);
    info->gaps = NULL;
    float *samples = lrm_read_sound(recording, count);
    lr_recording_close(recording);
    return samples;
}

/* ------------------------------------------------------------------ as libav has it */

static void check_equal(const char *encoder, const char *muxer, int rate, int channels, int64_t ms)
{
    lrm_track track = {.encoder = encoder, .rate = rate, .channels = channels, .ms = ms, .noise = true};
    char *path = lrt_path(lrt_dir, "track");
    lr_audio_info info;
    size_t n_got, n_want;
    lrm_record(path, muxer, NULL, &track);
    float *got = read_track(path, &info, &n_got), *want = lrm_decode_sound(path, &n_want);
    if (n_got != n_want)
        fail_msg("%s in %s at %d Hz, %d channels: %zu samples, libav has %zu", encoder, muxer, rate,
                 channels, n_got, n_want);
    if (memcmp(got, want, n_got * sizeof *got) != 0)
        fail_msg("%s in %s at %d Hz, %d channels: other samples than libav's", encoder, muxer, rate,
                 channels);
    assert_int_equal(info.n_gaps, 0);
    assert_int_equal(info.rate, rate);
    assert_int_equal(info.channels, channels);
    free(got);
    free(want);
    free(path);
}

static void test_sound_without_gaps_equals_libavs_bit_for_bit(void **state)
{
    (void)state;
    static const struct {
        const char *encoder, *muxer;
        int rate, channels;
    } tracks[] = {
        {"pcm_s16le", "wav", 16000, 1},  {"pcm_s16le", "wav", 8000, 1},
        {"pcm_s16le", "wav", 44100, 2},  {"pcm_s16le", "wav", 48000, 6},
        {"pcm_s16le", "wav", 11025, 1},  {"pcm_s16le", "wav", 96000, 2},
        {"pcm_s16le", "wav", 22050, 2},  {"pcm_f32le", "wav", 44100, 2},
        {"pcm_s24le", "wav", 48000, 2},  {"pcm_s16le", "matroska", 44100, 2},
        {"aac", "mp4", 44100, 2},        {"aac", "mp4", 48000, 1},
        {"aac", "matroska", 44100, 2},   {"aac", "mpegts", 48000, 2},
        {"aac", "adts", 44100, 2},       {"aac", "mp4", 16000, 1},
        {"aac", "mp4", 48000, 6},        {"libmp3lame", "mp3", 44100, 2},
        {"libmp3lame", "matroska", 48000, 2}, {"libmp3lame", "avi", 44100, 2},
        {"libopus", "ogg", 48000, 2},    {"libopus", "webm", 48000, 2},
        {"libvorbis", "ogg", 44100, 2},  {"libvorbis", "webm", 48000, 2},
        {"flac", "flac", 44100, 2},      {"flac", "matroska", 44100, 2},
        {"alac", "mov", 44100, 2},       {"ac3", "ac3", 48000, 2},
        {"mp2", "mpeg", 44100, 2},       {"adpcm_ima_wav", "wav", 22050, 1},
        {"pcm_mulaw", "wav", 8000, 1},   {"wmav2", "asf", 44100, 2},
    };
    for (size_t i = 0; i < sizeof tracks / sizeof *tracks; i++)
        check_equal(tracks[i].encoder, tracks[i].muxer, tracks[i].rate, tracks[i].channels, 2130);
}

/* The resampler's ends depend on the length; the index must know the exact number beforehand. */
static void test_the_length_is_known_for_every_remainder(void **state)
{
    (void)state;
    for (int64_t ms = 1; ms < 60; ms++) check_equal("pcm_s16le", "wav", 44100, 1, ms);
    for (int64_t ms = 1000; ms < 1030; ms++) check_equal("pcm_s16le", "wav", 48000, 1, ms);
    for (int64_t ms = 1000; ms < 1010; ms++) check_equal("pcm_s16le", "wav", 11025, 1, ms);
}

/* ------------------------------------------------------------------ at its place */

/* Whether there is a tone at [ms, ms + 80), and its pitch, by its zero crossings. */
static void assert_tone(const float *samples, size_t count, int64_t ms, double hz)
{
    size_t first = (size_t)(ms + 10) * 16, end = (size_t)(ms + 80) * 16;
    double first_at = -1, last_at = -1;
    int crossings = 0;
    assert_true(end < count);
    for (size_t i = first; i + 1 < end; i++) {
        if (!(samples[i] < 0 && samples[i + 1] >= 0)) continue;
        double at = (double)i - samples[i] / (double)(samples[i + 1] - samples[i]);
        if (crossings++ == 0) first_at = at;
        last_at = at;
    }
    if (crossings < 3) fail_msg("no tone at %lld ms", (long long)ms);
    double got = (crossings - 1) * 16000 / (last_at - first_at);
    /* A lossy codec moves a crossing by less than a sample in the 70 ms: 1/70 of 14 Hz per 1000. */
    if (fabs(got - hz) > 12) fail_msg("at %lld ms: %.0f Hz, not %.0f", (long long)ms, got, hz);
}

static void assert_onset(const float *samples, size_t count, int64_t ms, int tolerance_ms)
{
    size_t first = ms > 200 ? (size_t)(ms - 200) * 16 : 0, at = first;
    while (at < count && fabsf(samples[at]) < 0.05f) at++;
    if (llabs((long long)at / 16 - ms) > tolerance_ms)
        fail_msg("a tone begins at %.1f ms, not %lld", (double)at / 16, (long long)ms);
}

static void assert_silent(const float *samples, size_t count, int64_t from_ms, int64_t to_ms)
{
    for (size_t i = (size_t)from_ms * 16; i < (size_t)to_ms * 16 && i < count; i++)
        if (fabsf(samples[i]) > 0.01f)
            fail_msg("at %.1f ms: %f, not silence", (double)i / 16, (double)samples[i]);
}

static void check_hole(const char *encoder, const char *muxer, int rate, int64_t from, int64_t to,
                       int slack)
{
    lrm_track track = {.encoder = encoder, .rate = rate, .channels = 1, .ms = 6000, .hole_ms = {from, to}};
    char *path = lrt_path(lrt_dir, "hole");
    lr_audio_info info;
    size_t count;
    lrm_record(path, muxer, NULL, &track);
    float *samples = read_track(path, &info, &count);
    assert_int_equal(info.n_gaps, 1);
    int64_t gap_ms[2] = {first_gap[0] / (LR_TIME_SECOND / 1000),
                         first_gap[1] / (LR_TIME_SECOND / 1000)};
    assert_in_range(gap_ms[0] + slack, from, from + 2 * slack);
    assert_in_range(gap_ms[1] + slack, to, to + 2 * slack);
    assert_silent(samples, count, gap_ms[0] + 1, gap_ms[1] - 1);
    for (int64_t second = 0; second < 6; second++) {
        if (second * 1000 + 100 > gap_ms[0] && second * 1000 < gap_ms[1]) continue;
        assert_onset(samples, count, second * 1000, slack);
        assert_tone(samples, count, second * 1000, 400 + 50 * (double)second);
    }
    /* 6 s, but for the last AAC frame, which the container cuts. */
    assert_in_range((int64_t)count, 96000 - 1, 96000 + 1);
    free(samples);
    free(path);
}

static void test_a_gap_is_silence_and_moves_nothing(void **state)
{
    (void)state;
    check_hole("pcm_s16le", "matroska", 48000, 2200, 3700, 12);
    check_hole("pcm_s16le", "matroska", 44100, 1100, 1130, 12);
    check_hole("aac", "mp4", 48000, 2200, 3700, 30);
    /* Two or three lost packets only. */
    check_hole("aac", "mp4", 48000, 2300, 2350, 30);
}

static void test_sound_that_starts_late_begins_with_silence(void **state)
{
    (void)state;
    lrm_film film = {.encoder = "mpeg4",
                     .format = AV_PIX_FMT_YUV420P,
                     .width = 64,
                     .height = 64,
                     .frames = 50,
                     .rate = {10, 1},
                     .luma = 50};
    lrm_track track = {.encoder = "pcm_s16le", .rate = 16000, .channels = 1, .ms = 2000, .offset_ms = 1500};
    char *path = lrt_path(lrt_dir, "late.mkv");
    lr_audio_info info;
    size_t count;
    lrm_record(path, "matroska", &film, &track);
    float *samples = read_track(path, &info, &count);
    assert_int_equal(count, 3500 * 16);
    assert_silent(samples, count, 0, 1499);
    assert_onset(samples, count, 1500, 1);
    assert_tone(samples, count, 1500, 400);
    free(samples);
    free(path);
}

static void test_a_part_of_the_sound_is_cut_from_the_whole(void **state)
{
    (void)state;
    lrm_track track = {.encoder = "aac", .rate = 44100, .channels = 2, .ms = 3000, .noise = true};
    char *path = lrt_path(lrt_dir, "part.m4a");
    lrm_record(path, "mp4", NULL, &track);
    lr_ingest_options options = lr_ingest_defaults();
    options.start = LR_TIME_SECOND / 2;
    options.end = 2 * LR_TIME_SECOND;
    lr_recording *whole = lrm_open(path, NULL), *part = lrm_open(path, &options);
    size_t n_whole, n_part;
    float *a = lrm_read_sound(whole, &n_whole), *b = lrm_read_sound(part, &n_part);
    assert_int_equal(n_part, 24000);
    assert_memory_equal(b, a + 8000, n_part * sizeof *b);
    free(a);
    free(b);
    lr_recording_close(whole);
    lr_recording_close(part);
    free(path);
}

static void test_a_part_behind_the_picture_has_none_of_it(void **state)
{
    (void)state;
    lrm_film film = {.encoder = "mpeg4", .format = AV_PIX_FMT_YUV420P, .width = 64, .height = 48,
                     .frames = 25, .rate = {25, 1}, .luma = 80};
    lrm_track track = {.encoder = "pcm_s16le", .rate = 16000, .channels = 1, .ms = 3000};
    char *path = lrt_path(lrt_dir, "long.mkv");
    lrm_record(path, "matroska", &film, &track);
    lr_ingest_options options = lr_ingest_defaults();
    static const struct {
        lr_time start;
        int64_t frames;
    } parts[] = {{LR_TIME_SECOND / 2, 1}, {LR_TIME_SECOND, 0}, {LR_TIME_SECOND * 3 / 2, 0}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        options.start = parts[i].start;
        lr_recording *recording = lrm_open(path, &options);
        const lr_timeline *line = lr_recording_timeline(recording);
        assert_int_equal(line->video.n_frames, parts[i].frames);
        assert_int_equal(line->audio.n_samples, 48000 - lr_rescale(parts[i].start, 16000, LR_TIME_SECOND));
        lrm_reading none;
        lrm_read_frames(recording, 0, parts[i].frames, &none);
        assert_int_equal(none.count, parts[i].frames);
        lrm_free_reading(&none);
        lr_recording_close(recording);
    }
    free(path);
}

static void test_a_part_behind_the_sound_has_none_of_it(void **state)
{
    (void)state;
    lrm_film film = {.encoder = "mpeg4", .format = AV_PIX_FMT_YUV420P, .width = 64, .height = 48,
                     .frames = 50, .rate = {25, 1}, .luma = 80};
    lrm_track track = {.encoder = "pcm_s16le", .rate = 16000, .channels = 1, .ms = 1000};
    char *path = lrt_path(lrt_dir, "short.mkv");
    lrm_record(path, "matroska", &film, &track);
    lr_ingest_options options = lr_ingest_defaults();
    options.start = LR_TIME_SECOND * 3 / 2;
    lr_recording *recording = lrm_open(path, &options);
    size_t count;
    assert_int_equal(lr_recording_timeline(recording)->audio.n_samples, 0);
    free(lrm_read_sound(recording, &count));
    assert_int_equal(count, 0);
    lr_recording_close(recording);
    free(path);
}

/* Stamps that come a few milliseconds late or early now and then are no gaps. */
static void test_rounded_and_jittering_stamps_are_no_gaps(void **state)
{
    (void)state;
    lrm_track track = {.encoder = "flac", .rate = 44100, .channels = 1, .ms = 20000, .noise = true};
    char *path = lrt_path(lrt_dir, "jitter.mkv");
    lr_audio_info info;
    size_t count, n_want;
    lrm_record(path, "matroska", NULL, &track);
    float *samples = read_track(path, &info, &count), *want = lrm_decode_sound(path, &n_want);
    assert_int_equal(info.n_gaps, 0);
    assert_int_equal(count, n_want);
    assert_memory_equal(samples, want, count * sizeof *samples);
    free(samples);
    free(want);
    free(path);
}

static void test_a_track_is_chosen_by_its_number(void **state)
{
    (void)state;
    lrm_track track = {.encoder = "pcm_s16le", .rate = 16000, .channels = 1, .ms = 500};
    char *path = lrt_path(lrt_dir, "one.wav");
    lr_error err = {0};
    lr_recording *recording;
    lrm_record(path, "wav", NULL, &track);
    lr_ingest_options options = lr_ingest_defaults();
    options.audio_track = 0;
    lr_recording_close(lrm_open(path, &options));
    options.audio_track = 1;
    assert_int_equal(lr_recording_open(&recording, path, &options, &err), LR_E_USAGE);
    assert_non_null(strstr(err.text, "one.wav"));
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_without_gaps_equals_libavs_bit_for_bit),
        cmocka_unit_test(test_the_length_is_known_for_every_remainder),
        cmocka_unit_test(test_a_gap_is_silence_and_moves_nothing),
        cmocka_unit_test(test_sound_that_starts_late_begins_with_silence),
        cmocka_unit_test(test_a_part_of_the_sound_is_cut_from_the_whole),
        cmocka_unit_test(test_a_part_behind_the_sound_has_none_of_it),
        cmocka_unit_test(test_a_part_behind_the_picture_has_none_of_it),
        cmocka_unit_test(test_rounded_and_jittering_stamps_are_no_gaps),
        cmocka_unit_test(test_a_track_is_chosen_by_its_number),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
