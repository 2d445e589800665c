/* The log mel spectrogram on the device against the one of the encoder on the CPU. */
#include "device_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "embeddinggemma2/mel.h"

enum { FRAMES = 19, SAMPLES = FRAMES * EG2_MEL_HOP + EG2_MEL_FRAME };

static eg2_mel *mel;
static lr_device_mel params; /* with the tables */

static int setup(void **state)
{
    lr_error err = {0};
    double turns[2 * LR_DEVICE_FFT], weights[LR_DEVICE_FFT + 2];
    lr_device_band bands[EG2_MEL_BANDS] = {{0}};
    size_t used = 0;
    (void)case_setup(state);
    lrt_assert_ok(eg2_mel_create(&mel, 1, &err), &err);
    for (size_t i = 0; i < LR_DEVICE_FFT; i++) {
        turns[2 * i] = cos(2 * M_PI * (double)i / LR_DEVICE_FFT);
        turns[2 * i + 1] = sin(2 * M_PI * (double)i / LR_DEVICE_FFT);
    }
    for (size_t b = 0; b < EG2_MEL_BANDS; b++) {
        size_t first, count;
        const double *from = eg2_mel_band(mel, b, &first, &count);
        bands[b] = (lr_device_band){(uint32_t)first, (uint32_t)count, (uint32_t)used, 0};
        memcpy(weights + used, from, count * sizeof *weights);
        used += count;
    }
    params = (lr_device_mel){.window = case_put(eg2_mel_window(mel), EG2_MEL_FRAME * sizeof(double)),
                             .turns = case_put(turns, sizeof turns), .filters = case_put(bands, sizeof bands),
                             .weights = case_put(weights, used * sizeof *weights), .floor = EG2_MEL_FLOOR,
                             .frame = EG2_MEL_FRAME, .hop = EG2_MEL_HOP, .bands = EG2_MEL_BANDS};
    return 0;
}

static int teardown(void **state)
{
    const lr_device_at tables[] = {params.window, params.turns, params.filters, params.weights};
    for (size_t i = 0; i < 4; i++) case_device->ops->release(case_device, tables[i]);
    eg2_mel_free(mel);
    return case_teardown(state);
}

/* Noise, a loud tone, silence, and a click. */
static void make_sound(float *samples, lrt_random *random)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t part = 4 * i / SAMPLES;
        samples[i] = part == 0 ? 0.1f * lrt_normal(random) : part == 1 ? (float)sin(0.3 * (double)i) : 0;
    }
    samples[SAMPLES - EG2_MEL_FRAME] = 1;
}

/* Both are made in double and rounded once: an ulp, 2 U. Before that, each of the 512 values of the transform is off by
 * at most 40 roundings of the sum of sizes (five steps of the device, nine of a radix 2 on the CPU, 4 roundings in
 * each), twice that for the magnitude of a pair of errors, in each of the two; a band adds up its weights times that,
 * and the logarithm divides by sum + floor, which is exp of the value. */
static void check_frame(const float *samples, size_t frame, const float *got, lr_dtype dtype)
{
    float want[EG2_MEL_BANDS];
    double size = 0;
    eg2_mel_frame(mel, 0, samples, want);
    for (size_t i = 0; i < EG2_MEL_FRAME; i++) size += fabs(eg2_mel_window(mel)[i] * (double)samples[i]);
    for (size_t b = 0; b < EG2_MEL_BANDS; b++) {
        size_t first, count;
        double weight = 0, z = (double)want[b];
        const double *weights = eg2_mel_band(mel, b, &first, &count);
        for (size_t i = 0; i < count; i++) weight += weights[i];
        double bound = 2 * U * fabs(z) + 4 * 40 * 0x1p-53 * size * weight / exp(z) * 1.01 + 0x1p-50;
        if (dtype == LR_BF16) bound += (fabs(z) + bound) * U_BF16;
        if (!(fabs((double)got[b] - z) <= bound))
            fail_msg("mel frame %zu, band %zu is %.9g, not %.9g (allowed %.3g)", frame, b, (double)got[b], z, bound);
    }
}

/* Rows outside of the valid ones are zero, and the sound ends with what the last valid frame needs. */
static void check_mel(lr_dtype dtype, size_t begin, size_t end, size_t pad, const float *sound)
{
    size_t ld = EG2_MEL_BANDS + pad, n = FRAMES * ld;
    lrt_random random;
    lrt_random_init(&random, 701);
    case_values y = case_normal(&random, n, 1, dtype);
    case_values samples = case_of(sound, (end - 1) * EG2_MEL_HOP + EG2_MEL_FRAME, LR_F32);
    lr_device_mel p = params;
    p.y = (lr_rows){y.at, ld, 0, dtype};
    p.samples = samples.at;
    p.frames = FRAMES, p.begin = begin, p.end = end;
    case_device->ops->log_mel(case_stream, &p);
    float *got = case_download(&y);
    for (size_t i = 0; i < FRAMES; i++) {
        if (i >= begin && i < end) check_frame(sound + i * EG2_MEL_HOP, i, got + i * ld, dtype);
        for (size_t b = 0; b < EG2_MEL_BANDS && (i < begin || i >= end); b++) assert_true(got[i * ld + b] == 0);
        assert_memory_equal(got + i * ld + EG2_MEL_BANDS, y.host + i * ld + EG2_MEL_BANDS, pad * sizeof *got);
    }
    free(got);
    case_free(&y);
    case_free(&samples);
}

static void test_log_mel_is_the_encoders(void **state)
{
    (void)state;
    float *sound = malloc(SAMPLES * sizeof *sound);
    lrt_random random;
    lrt_random_init(&random, 700);
    assert_non_null(sound);
    make_sound(sound, &random);
    check_mel(LR_F32, 0, FRAMES, 0, sound);
    check_mel(LR_BF16, 3, FRAMES - 2, 8, sound);
    free(sound);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* mutations.sh */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_log_mel_is_the_encoders)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
