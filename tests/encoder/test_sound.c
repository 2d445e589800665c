/* The sound tower of EmbeddingGemma 2 and its log mel against the published implementation, and its
 * promises: a slice has the bits of the whole, whatever the pieces that samples come in. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "embeddinggemma2/mel.h"
#include "embeddinggemma2/sound.h"
#include "tower_case.h"

/* As in test_vision.c: another order of fp32 sums than the library's. */
#define NOISE 4.0

/* ------------------------------------------------------------------ one run of the tower */

typedef struct sound_input {
    const float *samples;
    size_t count;
} sound_input;

typedef struct sound_output {
    uint64_t first, next; /* tokens delivered: [first, next) */
    size_t hidden;
    float *soft;
} sound_output;

static lr_status keep_soft(void *arg, uint64_t first_token, uint64_t count, const float *soft,
                           lr_error *err)
{
    (void)err;
    sound_output *out = arg;
    assert_int_equal(first_token, out->next);
    memcpy(out->soft + (size_t)(first_token - out->first) * out->hidden, soft,
           (size_t)count * out->hidden * sizeof *soft);
    out->next += count;
    return LR_OK;
}

/* Tokens [first, end) of the sound, from samples that come `piece` at a time (random up to that when
 * `random` is given). The caller frees what comes back with test_free. */
static float *run_tower(const lr_model *model, sound_input sound, uint64_t first, uint64_t end,
                        size_t threads, size_t piece, lrt_random *random, const lr_stage_tap *tap)
{
    lr_error err = {0};
    lr_worker worker = {0};
    lr_sound_tower *tower = NULL;
    sound_output out = {.first = first, .next = first, .hidden = lr_model_info_of(model)->hidden};
    out.soft = test_calloc((size_t)(end - first) * out.hidden + 1, sizeof *out.soft);
    lrt_assert_ok(lr_pool_create(threads, &worker.pool, &err), &err);
    lrt_assert_ok(lr_sound_tower_create(&tower, model, (int64_t)sound.count, first, end, &worker,
                                        keep_soft, &out, tap, &err), &err);
    size_t at = (size_t)lr_sound_tower_first_sample(tower);
    while (at < sound.count) {
        size_t count = random ? (size_t)lrt_below(random, piece + 1) : piece;
        if (count > sound.count - at) count = sound.count - at;
        lrt_assert_ok(lr_sound_tower_feed(tower, sound.samples + at, count, &err), &err);
        at += count;
    }
    lrt_assert_ok(lr_sound_tower_finish(tower, &err), &err);
    assert_int_equal(out.next, end);
    lr_sound_tower_free(tower);
    lr_pool_free(worker.pool);
    return out.soft;
}

static sound_input random_sound(lrt_random *random, size_t count)
{
    float *samples = test_calloc(count + 1, sizeof *samples);
    lrt_fill_normal(random, samples, count, 0.2f);
    return (sound_input){.samples = samples, .count = count};
}

static void free_sound(sound_input sound)
{
    test_free((void *)(uintptr_t)sound.samples);
}

/* ------------------------------------------------------------------ equality with the reference */

/* The sound of a case; false for other cases. */
static bool case_sound(const tower_fixture *fixture, const json_t *item, sound_input *sound)
{
    const lr_tensor *wave = case_tensor(fixture, item, "wave");
    if (!wave) return false;
    const int16_t *values = wave->data;
    size_t count = case_size(item, "samples");
    float *samples = test_calloc(count + 1, sizeof *samples);
    for (size_t i = 0; i < count; i++) samples[i] = (float)values[i % wave->dims[0]] / 32768;
    *sound = (sound_input){.samples = samples, .count = count};
    return true;
}

/* The stored frames: the log mel in double, rounded once. Ours is the same but for the last bits of
 * the double Fourier transform and of log, so half an ulp of fp32 and a hair: |mel| < 8 has ulps of
 * 4.8e-7 at most. */
static void check_mel(const tower_fixture *fixture, const json_t *item, const kept_stage *mel)
{
    const lr_tensor *rows = case_tensor(fixture, item, "mel_rows");
    const lr_tensor *truth = case_tensor(fixture, item, "mel");
    const float *found = (const float *)(const void *)mel->data, *wanted = truth->data;
    assert_int_equal(mel->columns, EG2_MEL_BANDS);
    assert_int_equal(mel->rows, case_size(item, "valid"));
    for (size_t r = 0; r < rows->dims[0]; r++)
        for (size_t b = 0; b < EG2_MEL_BANDS; b++) {
            size_t frame = (size_t)((const int32_t *)rows->data)[r];
            double d = fabs((double)found[frame * EG2_MEL_BANDS + b] -
                            (double)wanted[r * EG2_MEL_BANDS + b]);
            if (!(d <= 4.8e-7)) fail_msg("mel frame %zu band %zu: off by %g", frame, b, d);
        }
}

static void check_case(const tower_fixture *fixture, const json_t *item, sound_input sound)
{
    kept_stage soft = {.name = "audio_soft"}, tower = {.name = "audio_tower", .next = &soft};
    kept_stage mel = {.name = "mel", .next = &tower}, wave = {.name = "waveform", .next = &mel};
    const lr_stage_tap tap = {.sink = keep_stage, .arg = &wave};
    size_t tokens = case_size(item, "soft_tokens"), d = lr_model_info_of(fixture->model)->hidden;
    float *out = run_tower(fixture->model, sound, 0, tokens, 1, 1000, NULL, &tap);
    assert_int_equal(wave.rows, sound.count);
    assert_memory_equal(wave.data, sound.samples, wave.bytes);
    check_mel(fixture, item, &mel);
    if (case_tensor(fixture, item, "audio_tower")) {
        assert_near_truth(fixture, item, "audio_tower", (const float *)(const void *)tower.data,
                          tower.rows * tower.columns, NOISE);
        assert_near_truth(fixture, item, "soft", out, tokens * d, NOISE);
    }
    assert_memory_equal(soft.data, out, soft.bytes);
    kept_free(&wave);
    kept_free(&mel);
    kept_free(&tower);
    kept_free(&soft);
    test_free(out);
}

static void check_folder(const char *folder, lr_isa isa, lr_gemm gemm)
{
    lr_error err = {0};
    const lr_kernels *kernels = NULL;
    tower_fixture fixture;
    sound_input sound;
    size_t n = 0;
    lrt_assert_ok(lr_kernels_get(isa, gemm, &kernels, &err), &err);
    fixture_open(&fixture, folder, kernels);
    for (size_t i = 0; fixture_case(&fixture, i); i++)
        if (case_sound(&fixture, fixture_case(&fixture, i), &sound)) {
            check_case(&fixture, fixture_case(&fixture, i), sound);
            free_sound(sound);
            n++;
        }
    assert_true(n > 0);
    fixture_close(&fixture);
}

static void test_sound_equals_the_reference_at_each_stage(void **state)
{
    (void)state;
    check_folder("regular", LR_ISA_AUTO, LR_GEMM_AUTO);
}

static void test_sound_with_clamps_that_bite_equals_the_reference(void **state)
{
    (void)state;
    check_folder("odd", LR_ISA_AUTO, LR_GEMM_AUTO);
}

/* In chunks of 7 with 11 - 1 keys, the relative positions do not start at the token itself. */
static void test_sound_with_another_chunk_and_look_back_equals_the_reference(void **state)
{
    (void)state;
    check_folder("sound", LR_ISA_AUTO, LR_GEMM_AUTO);
}

static void test_sound_in_scalar_kernels_equals_the_reference(void **state)
{
    (void)state;
    check_folder("regular", LR_ISA_SCALAR, LR_GEMM_AUTO);
    check_folder("odd", LR_ISA_SCALAR, LR_GEMM_AUTO);
}

static void test_sound_through_openblas_equals_the_reference(void **state)
{
    (void)state;
    check_folder("regular", LR_ISA_AUTO, LR_GEMM_OPENBLAS);
}

/* ------------------------------------------------------------------ counts */

static void test_valid_frames_and_tokens_are_counted_as_the_reference_does(void **state)
{
    (void)state;
    tower_fixture fixture;
    fixture_open(&fixture, "regular", NULL);
    const json_t *counts = json_object_get(fixture.expected, "audio_counts");
    assert_true(json_array_size(counts) > 10);
    for (size_t i = 0; i < json_array_size(counts); i++) {
        const json_t *row = json_array_get(counts, i);
        uint64_t valid = eg2_mel_valid(json_integer_value(json_array_get(row, 0)));
        assert_int_equal(valid, json_integer_value(json_array_get(row, 1)));
        assert_int_equal((valid + 3) / 4, json_integer_value(json_array_get(row, 2)));
    }
    fixture_close(&fixture);
}

static void test_the_look_back_of_the_published_tower_is_180_tokens(void **state)
{
    (void)state;
    const eg2_sound published = {.n_layers = 12, .window = 12, .kernel = 5};
    assert_int_equal(eg2_sound_look_back(&published), 180);
}

static void test_sounds_of_few_samples_give_no_token_or_one(void **state)
{
    (void)state;
    tower_fixture fixture;
    lrt_random random;
    lrt_random_init(&random, 1);
    fixture_open(&fixture, "regular", NULL);
    sound_input sound = random_sound(&random, 161);
    for (size_t count = 0; count <= 161; count++) {
        lr_error err = {0};
        lr_sound_tower *tower = NULL;
        const lr_worker worker = {0};
        uint64_t tokens = count > 160 ? 1 : 0;
        sound_input part = {.samples = sound.samples, .count = count};
        test_free(run_tower(fixture.model, part, 0, tokens, 1, 7, NULL, NULL));
        assert_int_equal(lr_sound_tower_create(&tower, fixture.model, (int64_t)count, 0, tokens + 1,
                                               &worker, keep_soft, NULL, NULL, &err), LR_E_USAGE);
        assert_null(tower);
    }
    free_sound(sound);
    fixture_close(&fixture);
}

/* The last frame that counts ends one sample before the sound does; what follows it must not leak in
 * from the samples that are left. */
static void test_samples_past_the_last_valid_frame_change_nothing(void **state)
{
    (void)state;
    tower_fixture fixture;
    lrt_random random;
    lrt_random_init(&random, 2);
    fixture_open(&fixture, "regular", NULL);
    sound_input sound = random_sound(&random, 3 * 640 + 320);
    sound_input cut = {.samples = sound.samples, .count = 3 * 640 + 161};
    uint64_t tokens = (eg2_mel_valid((int64_t)sound.count) + 3) / 4;
    size_t bytes = (size_t)tokens * lr_model_info_of(fixture.model)->hidden * sizeof(float);
    float *whole = run_tower(fixture.model, sound, 0, tokens, 1, 5000, NULL, NULL);
    float *less = run_tower(fixture.model, cut, 0, tokens, 1, 5000, NULL, NULL);
    assert_memory_equal(whole, less, bytes);
    test_free(whole);
    test_free(less);
    free_sound(sound);
    fixture_close(&fixture);
}

/* ------------------------------------------------------------------ the same bits */

static void check_slices(const char *folder, lr_gemm gemm, size_t n_slices)
{
    lr_error err = {0};
    const lr_kernels *kernels = NULL;
    tower_fixture fixture;
    lrt_random random;
    lrt_random_init(&random, 3);
    lrt_assert_ok(lr_kernels_get(LR_ISA_AUTO, gemm, &kernels, &err), &err);
    fixture_open(&fixture, folder, kernels);
    size_t hidden = lr_model_info_of(fixture.model)->hidden;
    sound_input sound = random_sound(&random, (size_t)lrt_between(&random, 640 * 900, 640 * 1000));
    uint64_t tokens = (eg2_mel_valid((int64_t)sound.count) + 3) / 4;
    float *whole = run_tower(fixture.model, sound, 0, tokens, 1, sound.count, NULL, NULL);
    for (size_t i = 0; i < n_slices; i++) {
        uint64_t first = lrt_below(&random, tokens), end = first + lrt_below(&random, tokens - first + 1);
        size_t threads = 1 + i % 3, piece = i % 4 == 0 ? 37 : (size_t)lrt_between(&random, 1, 40000);
        float *slice = run_tower(fixture.model, sound, first, end, threads, piece, &random, NULL);
        assert_memory_equal(slice, whole + first * hidden, (size_t)(end - first) * hidden * sizeof *slice);
        test_free(slice);
    }
    for (size_t threads = 1; threads <= 3; threads++) {
        float *again = run_tower(fixture.model, sound, 0, tokens, threads, 16000, NULL, NULL);
        assert_memory_equal(again, whole, (size_t)tokens * hidden * sizeof *again);
        test_free(again);
    }
    test_free(whole);
    free_sound(sound);
    fixture_close(&fixture);
}

static void test_slices_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    check_slices("regular", LR_GEMM_AUTO, 24);
    check_slices("odd", LR_GEMM_AUTO, 12);
    check_slices("sound", LR_GEMM_AUTO, 12);
}

static void test_slices_through_openblas_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    check_slices("regular", LR_GEMM_OPENBLAS, 8);
}

/* The look-back is what the layers reach and no less: a tower started one tile late would show in
 * the test above only if the slice's start lay that near the tile's; so the reach itself, by changing
 * the sound before it. */
static void test_a_token_depends_on_nothing_before_its_look_back(void **state)
{
    (void)state;
    tower_fixture fixture;
    lrt_random random;
    lrt_random_init(&random, 4);
    fixture_open(&fixture, "regular", NULL);
    size_t hidden = lr_model_info_of(fixture.model)->hidden, tokens = 150, token = 100;
    /* 2 layers of 11 keys and 4 rows before a token, and the frame before the token's own four */
    size_t reach = 2 * (11 + 4);
    sound_input sound = random_sound(&random, tokens * 640), other = random_sound(&random, tokens * 640);
    float *mixed = (float *)(uintptr_t)other.samples;
    float *whole = run_tower(fixture.model, sound, 0, tokens, 1, 5000, NULL, NULL);
    size_t last_unseen = (token - reach) * 640 - 3 * 160 - 160; /* frame 4t - 3 starts 160 before 160(4t-3) */
    memcpy(mixed + last_unseen, sound.samples + last_unseen,
           (sound.count - last_unseen) * sizeof *mixed);
    float *same = run_tower(fixture.model, other, 0, tokens, 1, 5000, NULL, NULL);
    assert_memory_equal(whole + token * hidden, same + token * hidden, hidden * sizeof *same);
    assert_memory_not_equal(whole + (token - 1) * hidden, same + (token - 1) * hidden,
                            hidden * sizeof *same);
    test_free(whole);
    test_free(same);
    free_sound(sound);
    free_sound(other);
    fixture_close(&fixture);
}

/* ------------------------------------------------------------------ refusals */

static void test_sound_that_ends_early_or_late_is_an_error(void **state)
{
    (void)state;
    lr_error err = {0};
    tower_fixture fixture;
    lr_sound_tower *tower = NULL;
    const lr_worker worker = {0};
    float samples[3000] = {0}, soft[5 * 48];
    sound_output out = {.hidden = 48, .soft = soft};
    fixture_open(&fixture, "regular", NULL);
    lrt_assert_ok(lr_sound_tower_create(&tower, fixture.model, 3000, 0, 5, &worker, keep_soft, &out, NULL,
                                        &err), &err);
    lrt_assert_ok(lr_sound_tower_feed(tower, samples, 2500, &err), &err);
    assert_int_equal(lr_sound_tower_finish(tower, &err), LR_E_USAGE);
    assert_non_null(strstr(err.text, "sample 2500"));
    lr_error_clear(&err);
    assert_int_equal(lr_sound_tower_feed(tower, samples, 501, &err), LR_E_USAGE);
    lr_error_clear(&err);
    lrt_assert_ok(lr_sound_tower_feed(tower, samples, 500, &err), &err);
    lrt_assert_ok(lr_sound_tower_finish(tower, &err), &err);
    assert_int_equal(out.next, 5);
    lr_sound_tower_free(tower);
    assert_int_equal(lr_sound_tower_create(&tower, fixture.model, -1, 0, 0, &worker, keep_soft, &out,
                                           NULL, &err), LR_E_USAGE);
    lr_error_clear(&err);
    assert_int_equal(lr_sound_tower_create(&tower, fixture.model, 3000, 3, 2, &worker, keep_soft, &out,
                                           NULL, &err), LR_E_USAGE);
    fixture_close(&fixture);
}

static lr_status refuse_soft(void *arg, uint64_t first_token, uint64_t count, const float *soft,
                             lr_error *err)
{
    (void)arg, (void)first_token, (void)count, (void)soft;
    return lr_fail(err, LR_E_IO, "the sink is full");
}

static void test_an_error_of_the_sink_stops_the_tower_for_good(void **state)
{
    (void)state;
    lr_error err = {0};
    tower_fixture fixture;
    lr_sound_tower *tower = NULL;
    const lr_worker worker = {0};
    float samples[1600] = {0};
    fixture_open(&fixture, "regular", NULL);
    lrt_assert_ok(lr_sound_tower_create(&tower, fixture.model, 1600, 0, 2, &worker, refuse_soft, NULL,
                                        NULL, &err), &err);
    assert_int_equal(lr_sound_tower_feed(tower, samples, 1600, &err), LR_E_IO);
    assert_string_equal(err.text, "the sink is full");
    assert_int_equal(lr_sound_tower_feed(tower, samples, 1, NULL), LR_E_IO);
    assert_int_equal(lr_sound_tower_finish(tower, NULL), LR_E_IO);
    lr_sound_tower_free(tower);
    fixture_close(&fixture);
}

static void test_a_cancelled_feed_stops(void **state)
{
    (void)state;
    lr_error err = {0};
    tower_fixture fixture;
    lr_sound_tower *tower = NULL;
    lr_cancel cancel = 1;
    const lr_worker worker = {.cancel = &cancel};
    float samples[1600] = {0};
    fixture_open(&fixture, "regular", NULL);
    lrt_assert_ok(lr_sound_tower_create(&tower, fixture.model, 1600, 0, 2, &worker, refuse_soft, NULL,
                                        NULL, &err), &err);
    assert_int_equal(lr_sound_tower_feed(tower, samples, 1600, &err), LR_E_INTERRUPTED);
    lr_sound_tower_free(tower);
    fixture_close(&fixture);
}

static void check_change(const char *key, json_t *value, lr_status status, const char *words)
{
    assert_change_refused("regular", "config.json", "audio_config", key, value, status, words);
}

static void test_configurations_that_are_not_supported_are_named(void **state)
{
    (void)state;
    check_change("hidden_act", json_string("relu"), LR_E_UNSUPPORTED, "audio_config.hidden_act");
    check_change("attention_context_right", json_integer(2), LR_E_UNSUPPORTED,
                 "audio_config.attention_context_right");
    check_change("attention_context_left", json_integer(1), LR_E_MODEL,
                 "audio_config.attention_context_left is 1");
    check_change("num_attention_heads", json_integer(5), LR_E_MODEL, "must divide hidden_size");
    check_change("attention_invalid_logits_value", json_real(-10), LR_E_UNSUPPORTED,
                 "audio_config.attention_invalid_logits_value");
    check_change("subsampling_conv_channels", json_pack("[i]", 128), LR_E_MODEL,
                 "audio_config.subsampling_conv_channels");
    check_change("conv_kernel_size", json_integer(0), LR_E_MODEL, "audio_config.conv_kernel_size");
}

static void check_extractor(const char *key, json_t *value)
{
    char words[96];
    (void)snprintf(words, sizeof words, "processor_config.json: feature_extractor.%s is", key);
    assert_change_refused("regular", "processor_config.json", "feature_extractor", key, value,
                          LR_E_UNSUPPORTED, words);
}

static void test_another_preparation_of_sound_is_refused(void **state)
{
    (void)state;
    check_extractor("hop_length", json_integer(80));
    check_extractor("fft_length", json_integer(1024));
    check_extractor("mel_floor", json_real(1e-5));
    check_extractor("preemphasis", json_real(0.97));
    check_extractor("per_bin_mean", json_pack("[f]", 0.25));
}

static void test_tensors_that_are_missing_or_have_another_shape_are_named(void **state)
{
    (void)state;
    check_change("num_hidden_layers", json_integer(3), LR_E_MODEL, "audio_tower.layers.2.");
    check_change("conv_kernel_size", json_integer(4), LR_E_MODEL,
                 "depthwise_conv1d.weight has shape [24, 1, 5], must be [24, 1, 4]");
    check_change("output_proj_dims", json_integer(41), LR_E_MODEL, "audio_tower.output_proj.weight");
    check_change("subsampling_conv_channels", json_pack("[i,i]", 128, 9), LR_E_MODEL,
                 "layer1.conv.weight has shape [8, 128, 3, 3], must be [9, 128, 3, 3]");
}

/* ------------------------------------------------------------------ memory */

typedef struct memory_work {
    const lr_model *model;
    sound_input sound;
} memory_work;

static lr_status drop_soft(void *arg, uint64_t first_token, uint64_t count, const float *soft,
                           lr_error *err)
{
    (void)arg, (void)first_token, (void)count, (void)soft, (void)err;
    return LR_OK;
}

static lr_status create_and_feed(void *arg, lr_error *err)
{
    lr_status st = LR_OK;
    const memory_work *work = arg;
    lr_sound_tower *tower = NULL;
    const lr_worker worker = {0};
    LR_TRY(lr_sound_tower_create(&tower, work->model, (int64_t)work->sound.count, 1, 3, &worker,
                                 drop_soft, NULL, NULL, err));
    LR_TRY(lr_sound_tower_feed(tower, work->sound.samples, work->sound.count, err));
    LR_TRY(lr_sound_tower_finish(tower, err));
done:
    lr_sound_tower_free(tower);
    return st;
}

static void test_sound_survives_each_failed_allocation(void **state)
{
    (void)state;
    tower_fixture fixture;
    lrt_random random;
    lrt_random_init(&random, 5);
    fixture_open(&fixture, "regular", NULL);
    memory_work work = {.model = fixture.model, .sound = random_sound(&random, 2500)};
    assert_true(lrt_fail_each_allocation(create_and_feed, &work) >= 5);
    free_sound(work.sound);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_equals_the_reference_at_each_stage),
        cmocka_unit_test(test_sound_with_clamps_that_bite_equals_the_reference),
        cmocka_unit_test(test_sound_with_another_chunk_and_look_back_equals_the_reference),
        cmocka_unit_test(test_sound_in_scalar_kernels_equals_the_reference),
        cmocka_unit_test(test_sound_through_openblas_equals_the_reference),
        cmocka_unit_test(test_valid_frames_and_tokens_are_counted_as_the_reference_does),
        cmocka_unit_test(test_the_look_back_of_the_published_tower_is_180_tokens),
        cmocka_unit_test(test_sounds_of_few_samples_give_no_token_or_one),
        cmocka_unit_test(test_samples_past_the_last_valid_frame_change_nothing),
        cmocka_unit_test(test_slices_have_the_bits_of_the_whole),
        cmocka_unit_test(test_slices_through_openblas_have_the_bits_of_the_whole),
        cmocka_unit_test(test_a_token_depends_on_nothing_before_its_look_back),
        cmocka_unit_test(test_sound_that_ends_early_or_late_is_an_error),
        cmocka_unit_test(test_an_error_of_the_sink_stops_the_tower_for_good),
        cmocka_unit_test(test_a_cancelled_feed_stops),
        cmocka_unit_test(test_configurations_that_are_not_supported_are_named),
        cmocka_unit_test(test_another_preparation_of_sound_is_refused),
        cmocka_unit_test(test_tensors_that_are_missing_or_have_another_shape_are_named),
        cmocka_unit_test(test_sound_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests_name("sound tower", tests, NULL, NULL);
}
