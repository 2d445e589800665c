/* Files that claim what no recording has: they are refused, or cost no more than their size. */
#include "recordings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void put_le(uint8_t *to, uint32_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> (8 * i));
}

/* ------------------------------------------------------------------ rates */

/* A plain RIFF/WAVE file of 16-bit samples. */
static char *write_wav(const char *name, uint32_t rate, uint16_t channels, uint32_t data_bytes)
{
    uint8_t *file = calloc(1, 44 + data_bytes);
    assert_non_null(file);
    memcpy(file, "RIFF\0\0\0\0WAVEfmt ", 16);
    put_le(file + 4, 36 + data_bytes, 4);
    put_le(file + 16, 16, 4);
    put_le(file + 20, 1, 2);
    put_le(file + 22, channels, 2);
    put_le(file + 24, rate, 4);
    put_le(file + 28, rate * channels * 2, 4);
    put_le(file + 32, channels * 2U, 2);
    put_le(file + 34, 16, 2);
    memcpy(file + 36, "data", 4);
    put_le(file + 40, data_bytes, 4);
    char *path = lrt_path(lrt_dir, name);
    lrt_write(path, file, 44 + data_bytes);
    free(file);
    return path;
}

static void test_sound_of_an_absurd_rate_is_refused_with_the_rate(void **state)
{
    (void)state;
    static const uint32_t rates[] = {1, 100, 268508992, INT32_MAX};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        lr_error err = {0};
        lr_recording *recording = NULL;
        lr_ingest_options options = lr_ingest_defaults();
        char *path = write_wav("rate.wav", rates[i], 1, 4000);
        lr_alloc_reset_peak();
        assert_int_equal(lr_recording_open(&recording, path, &options, &err), LR_E_NO_MEDIA);
        assert_null(recording);
        assert_true(lr_alloc_peak() < (size_t)16 << 20);
        free(path);
    }
}

static void test_sound_of_the_outermost_rates_is_read(void **state)
{
    (void)state;
    static const uint32_t rates[] = {1000, 768000, 2822400};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        size_t count;
        char *path = write_wav("rate.wav", rates[i], 2, rates[i] / 10 * 4);
        lr_recording *recording = lrm_open(path, NULL);
        free(lrm_read_sound(recording, &count));
        /* A tenth of a second, but for the resampler's rounding. */
        assert_in_range(count, 1599, 1601);
        lr_recording_close(recording);
        free(path);
    }
}

/* ------------------------------------------------------------------ pictures */

static uint32_t crc32_of(const uint8_t *data, size_t count)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0);
    }
    return ~crc;
}

static size_t put_chunk(uint8_t *to, const char *type, const uint8_t *data, uint32_t bytes)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(bytes >> (24 - 8 * i));
    memcpy(to + 4, type, 4);
    if (bytes) memcpy(to + 8, data, bytes);
    uint32_t crc = crc32_of(to + 4, 4 + bytes);
    for (int i = 0; i < 4; i++) to[8 + bytes + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
    return 12 + bytes;
}

/* A PNG of so many pixels of which no byte is there. */
static char *write_png(const char *name, uint16_t side)
{
    static const uint8_t nothing[] = {0x78, 0x9C, 0x03, 0, 0, 0, 0, 1};
    const uint8_t head[13] = {0, 0, (uint8_t)(side >> 8), (uint8_t)side, 0, 0, (uint8_t)(side >> 8),
                              (uint8_t)side, 8, 2, 0, 0, 0};
    uint8_t file[128] = "\x89PNG\r\n\x1A\n";
    size_t at = 8;
    at += put_chunk(file + at, "IHDR", head, sizeof head);
    at += put_chunk(file + at, "IDAT", nothing, sizeof nothing);
    at += put_chunk(file + at, "IEND", NULL, 0);
    char *path = lrt_path(lrt_dir, name);
    lrt_write(path, file, at);
    return path;
}

/* In a process of its own, which may not have the memory of such a picture. */
static void test_a_picture_of_too_many_pixels_costs_no_memory(void **state)
{
    (void)state;
    char *path = write_png("large.png", 16000);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        lr_error err = {0};
        lr_recording *recording = NULL;
        lr_ingest_options options = lr_ingest_defaults();
        struct rusage before, after;
        (void)getrusage(RUSAGE_SELF, &before);
        lr_status st = lr_recording_open(&recording, path, &options, &err);
        (void)getrusage(RUSAGE_SELF, &after);
        /* The picture has 256,000,000 pixels of three bytes. */
        bool small = after.ru_maxrss - before.ru_maxrss < 200 * 1024;
        _exit(st == LR_E_NO_MEDIA && small ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    free(path);
}

/* ------------------------------------------------------------------ other files */

static uint32_t be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void add_be32(uint8_t *at, uint32_t more)
{
    uint32_t value = be32(at) + more;
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* An alias record of QuickTime (kind 2: an absolute path), as a data reference. */
static size_t put_alias(uint8_t *to, const char *path)
{
    enum { FIXED = 12 + 150 };
    size_t length = strlen(path), at = FIXED;
    memset(to, 0, FIXED);
    memcpy(to + 4, "alis", 4);
    to[at++] = 0;
    to[at++] = 2;
    to[at++] = (uint8_t)(length >> 8);
    to[at++] = (uint8_t)length;
    memcpy(to + at, path, length);
    at += length + length % 2;
    memset(to + at, 0xFF, 2);
    at += 2;
    add_be32(to, (uint32_t)at);
    return at;
}

/* The same film, but its data are said to lie in another file. */
static void refer_to(const char *path, const char *other)
{
    static const char *const around[] = {"moov", "trak", "mdia", "minf", "dinf", "dref"};
    uint8_t alias[1024] = {0};
    size_t bytes, length = put_alias(alias, other);
    uint8_t *file = lrt_slurp(path, &bytes);
    uint8_t *reference = memmem(file, bytes, "dref\0\0\0\0\0\0\0\1\0\0\0\014url ", 20);
    assert_non_null(reference);
    size_t at = (size_t)(reference - file) + 12, more = length - 12;
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        /* The nearest before it: the film has one track. */
        uint8_t *box = reference;
        while (memcmp(box, around[i], 4) != 0) box--;
        add_be32(box - 4, (uint32_t)more);
    }
    uint8_t *longer = malloc(bytes + more);
    assert_non_null(longer);
    memcpy(longer, file, at);
    memcpy(longer + at, alias, length);
    memcpy(longer + at + length, file + at + 12, bytes - at - 12);
    lrt_write(path, longer, bytes + more);
    free(longer);
    free(file);
}

static void test_a_film_whose_data_lie_in_another_file_is_refused(void **state)
{
    (void)state;
    lrm_film film = {.encoder = "mpeg4", .format = AV_PIX_FMT_YUV420P, .width = 64, .height = 48,
                     .frames = 10, .rate = {10, 1}, .luma = 60};
    char *other = lrt_path(lrt_dir, "other.mov"), *path = lrt_path(lrt_dir, "film.mov");
    lr_error err = {0};
    lr_recording *recording = NULL;
    lr_ingest_options options = lr_ingest_defaults();
    lrm_record(other, "mov", &film, NULL);
    lrm_record(path, "mov", &film, NULL);
    lr_recording_close(lrm_open(path, NULL));
    refer_to(path, other);
    lr_status st = lr_recording_open(&recording, path, &options, &err);
    if (st != LR_E_NO_MEDIA) fail_msg("%s (%s)", err.text, lr_status_name(st));
    free(other);
    free(path);
}

static void test_lists_of_other_files_are_no_recordings(void **state)
{
    (void)state;
    lrm_film film = {.encoder = "mpeg4", .format = AV_PIX_FMT_YUV420P, .width = 64, .height = 48,
                     .frames = 10, .rate = {10, 1}, .luma = 60};
    static const char *const lists[] = {
        "ffconcat version 1.0\nfile other.mp4\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nother.mp4\n#EXT-X-ENDLIST\n",
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n",
        "<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\"><Period>"
        "<AdaptationSet><Representation id=\"1\" bandwidth=\"1\"><BaseURL>other.mp4</BaseURL></Representation>"
        "</AdaptationSet></Period></MPD>"};
    char *other = lrt_path(lrt_dir, "other.mp4");
    lrm_record(other, "mp4", &film, NULL);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        lr_error err = {0};
        lr_recording *recording = NULL;
        lr_ingest_options options = lr_ingest_defaults();
        char *path = lrt_path(lrt_dir, i % 2 ? "list.m3u8" : "list.mp4");
        lrt_write(path, lists[i], strlen(lists[i]));
        lr_status st = lr_recording_open(&recording, path, &options, &err);
        if (st != LR_E_NO_MEDIA) fail_msg("list %zu: %s (%s)", i, err.text, lr_status_name(st));
        free(path);
    }
    free(other);
}

/* ------------------------------------------------------------------ time */

/* A single key picture, damaged, and thousands that depend on it: none is clean, and finding that out for one
 * must do for all. */
static void test_a_long_film_without_a_clean_picture_ends_soon(void **state)
{
    (void)state;
    enum { PICTURES = 12000, RATE = 10 };
    lrm_film film = {.encoder = "mpeg4", .format = AV_PIX_FMT_YUV420P, .width = 32, .height = 32,
                     .frames = PICTURES, .rate = {RATE, 1}, .gop = PICTURES, .luma = 60,
                     .options = "strict=experimental"}; /* or libav puts a key picture in */
    char *path = lrt_path(lrt_dir, "dark.avi");
    size_t bytes;
    lrm_record(path, "avi", &film, NULL);
    unsigned char *file = lrt_slurp(path, &bytes);
    unsigned char *first = memmem(file, bytes, "movi00dc", 8);
    assert_non_null(first);
    /* Behind the chunk's and the picture's own headers. */
    for (size_t i = 12 + 60; i < 12 + 130; i++) first[i] = 0;
    lrt_write(path, file, bytes);
    free(file);
    lr_recording *recording = lrm_open(path, NULL);
    lrm_reading reading;
    clock_t begin = clock();
    lrm_read_frames(recording, 0, PICTURES / RATE, &reading);
    /* One pass of decoding takes a fraction of a second; looking at each picture for each would take hours. */
    assert_true(clock() - begin < 60 * CLOCKS_PER_SEC);
    for (int64_t k = 0; k < reading.count; k++) assert_true(reading.substituted[k]);
    assert_int_equal(reading.n_damage, 1);
    lrm_free_reading(&reading);
    lr_recording_close(recording);
    free(path);
}

/* Of MPEG-4 in AVI, at ten pictures a second: each picture but the first becomes one that is "not coded", and
 * repeats what was there. */
static void make_repeating(unsigned char *file, size_t bytes)
{
    unsigned char *at = memmem(file, bytes, "movi00dc", 8);
    assert_non_null(at);
    at += 4;
    for (unsigned k = 0; memcmp(at, "00dc", 4) == 0; k++) {
        size_t count = at[4] | (size_t)at[5] << 8 | (size_t)at[6] << 16;
        unsigned char *picture = at + 8;
        /* P; the seconds begun since the last one; a marker; tenths, in four bits; a marker; not coded; and
         * what fills the byte: 0 and ones. */
        if (k > 0 && k % 10 == 0) memcpy(picture, "\0\0\1\xB6\x68\x4F", 6);
        else if (k > 0) memcpy(picture, "\0\0\1\xB6", 4);
        if (k % 10 != 0) {
            unsigned bits = 0x1U << 14 | 0x1U << 12 | (k % 10) << 8 | 0x1U << 7 | 0x1FU;
            picture[4] = (unsigned char)(bits >> 8);
            picture[5] = (unsigned char)bits;
        }
        if (k > 0 && count > 6) memset(picture + 6, 0x7F, count - 6);
        at += 8 + count + count % 2;
    }
}

/* Pictures that never come out of the decoder, without a fault: the one before stands for each, which must not be
 * found out by decoding from the start for each. */
static void test_a_long_film_of_repeating_pictures_ends_soon(void **state)
{
    (void)state;
    enum { PICTURES = 12000, RATE = 10 };
    lrm_film film = {.encoder = "mpeg4", .format = AV_PIX_FMT_YUV420P, .width = 32, .height = 32,
                     .frames = PICTURES, .rate = {RATE, 1}, .gop = PICTURES, .luma = 60};
    char *path = lrt_path(lrt_dir, "repeat.avi");
    size_t bytes;
    lrm_record(path, "avi", &film, NULL);
    unsigned char *file = lrt_slurp(path, &bytes);
    make_repeating(file, bytes);
    lrt_write(path, file, bytes);
    free(file);
    lr_recording *recording = lrm_open(path, NULL);
    lrm_reading reading;
    clock_t begin = clock();
    lrm_read_frames(recording, 0, PICTURES / RATE, &reading);
    assert_true(clock() - begin < 60 * CLOCKS_PER_SEC);
    for (int64_t k = 0; k < reading.count; k++) {
        assert_int_equal(reading.pts[k], 0);
        assert_false(reading.substituted[k]);
    }
    assert_int_equal(reading.n_damage, 0);
    lrm_free_reading(&reading);
    lr_recording_close(recording);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_of_an_absurd_rate_is_refused_with_the_rate),
        cmocka_unit_test(test_sound_of_the_outermost_rates_is_read),
        cmocka_unit_test(test_a_picture_of_too_many_pixels_costs_no_memory),
        cmocka_unit_test(test_a_film_whose_data_lie_in_another_file_is_refused),
        cmocka_unit_test(test_lists_of_other_files_are_no_recordings),
        cmocka_unit_test(test_a_long_film_without_a_clean_picture_ends_soon),
        cmocka_unit_test(test_a_long_film_of_repeating_pictures_ends_soon),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
