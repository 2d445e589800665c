/* Files that claim what no recording has: they are refused, or cost no more than their size. */
#include "recordings.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *dir;

static int make_dir(void **state)
{
    (void)state;
    dir = lrt_temp_dir();
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    lrt_remove_temp_dir(dir);
    return 0;
}

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
    char *path = lrt_path(dir, name);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_of_an_absurd_rate_is_refused_with_the_rate),
        cmocka_unit_test(test_sound_of_the_outermost_rates_is_read),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
