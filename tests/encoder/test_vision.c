/* The vision tower of EmbeddingGemma 2 against the published implementation, and its promises. */
#include <stdio.h>
#include <string.h>

#include "tower_case.h"

/* Another order of fp32 sums than the library's: the same noise, of which the largest element and the
 * rms vary by less than this; every known mistake of the arithmetic gives more. */
#define NOISE 4.0

static lr_frame frame_of(const lr_tensor *rgb, size_t width, size_t height)
{
    return (lr_frame){.rgb = (uint8_t *)(uintptr_t)rgb->data, .stride = 3 * width,
                      .width = (int)width, .height = (int)height,
                      .display_width = (int)width, .display_height = (int)height};
}

/* The picture of an image case, the first frame of a video; false for other cases. */
static bool case_frame(const tower_fixture *fixture, const json_t *item, lr_frame *frame)
{
    const lr_tensor *rgb = case_tensor(fixture, item, "rgb");
    if (!rgb) rgb = case_tensor(fixture, item, "frames");
    if (!rgb) return false;
    *frame = frame_of(rgb, case_size(item, "width"), case_size(item, "height"));
    return true;
}

static size_t soft_count(const tower_fixture *fixture, const json_t *item)
{
    return case_tensor(fixture, item, "tower")->dims[0];
}

static void check_case(const tower_fixture *fixture, const json_t *item, const lr_frame *frame)
{
    lr_error err = {0};
    lr_vision *vision = NULL;
    kept_stage soft = {.name = "vision_soft"}, tower = {.name = "vision_tower", .next = &soft};
    kept_stage patches = {.name = "patches_u8", .next = &tower};
    const lr_worker worker = {0};
    const lr_stage_tap tap = {.sink = keep_stage, .arg = &patches};
    size_t tokens = soft_count(fixture, item), d = lr_model_info_of(fixture->model)->hidden;
    float *out = test_calloc(tokens * d, sizeof *out);
    lrt_assert_ok(lr_vision_create(&vision, fixture->model, (int)case_size(item, "out_width"),
                                   (int)case_size(item, "out_height"), &worker, &err), &err);
    lrt_assert_ok(lr_vision_encode(vision, frame, out, &tap, &err), &err);
    lr_vision_free(vision);
    const lr_tensor *wanted = case_tensor(fixture, item, "patches_u8");
    if (wanted) {
        assert_int_equal(patches.rows, wanted->dims[0]);
        assert_int_equal(patches.columns, wanted->dims[1]);
        assert_memory_equal(patches.data, wanted->data, patches.bytes);
    }
    assert_near_truth(fixture, item, "tower", (const float *)(const void *)tower.data,
                      tower.rows * tower.columns, NOISE);
    const char *name = case_tensor(fixture, item, "frame_soft") ? "frame_soft" : "soft";
    assert_near_truth(fixture, item, name, out, tokens * d, NOISE);
    assert_memory_equal(soft.data, out, soft.bytes);
    kept_free(&patches);
    kept_free(&tower);
    kept_free(&soft);
    test_free(out);
}

static void check_folder(const char *folder, lr_isa isa, lr_gemm gemm)
{
    lr_error err = {0};
    const lr_kernels *kernels = NULL;
    tower_fixture fixture;
    lr_frame frame;
    size_t n = 0;
    lrt_assert_ok(lr_kernels_get(isa, gemm, &kernels, &err), &err);
    fixture_open(&fixture, folder, kernels);
    for (size_t i = 0; fixture_case(&fixture, i); i++)
        if (case_frame(&fixture, fixture_case(&fixture, i), &frame)) {
            check_case(&fixture, fixture_case(&fixture, i), &frame);
            n++;
        }
    assert_true(n > 0);
    fixture_close(&fixture);
}

static void test_vision_equals_the_reference_at_each_stage(void **state)
{
    (void)state;
    check_folder("regular", LR_ISA_AUTO, LR_GEMM_AUTO);
}

static void test_vision_with_shared_heads_clipping_and_standardizing_equals_the_reference(void **state)
{
    (void)state;
    check_folder("odd", LR_ISA_AUTO, LR_GEMM_AUTO);
}

static void test_vision_of_published_patch_size_equals_the_reference(void **state)
{
    (void)state;
    check_folder("long", LR_ISA_AUTO, LR_GEMM_AUTO);
}

static void test_vision_in_scalar_kernels_equals_the_reference(void **state)
{
    (void)state;
    check_folder("regular", LR_ISA_SCALAR, LR_GEMM_AUTO);
    check_folder("odd", LR_ISA_SCALAR, LR_GEMM_AUTO);
}

static void test_vision_through_openblas_equals_the_reference(void **state)
{
    (void)state;
    check_folder("odd", LR_ISA_AUTO, LR_GEMM_OPENBLAS);
}

/* ------------------------------------------------------------------ the same bits */

static lr_frame random_frame(lrt_random *random, int width, int height)
{
    lr_frame frame = {.width = width, .height = height, .stride = 3 * (size_t)width + 5};
    frame.rgb = test_malloc(frame.stride * (size_t)height);
    for (size_t i = 0; i < frame.stride * (size_t)height; i++) frame.rgb[i] = (uint8_t)lrt_next(random);
    return frame;
}

static void encode_with(const tower_fixture *fixture, size_t threads, int width, int height,
                        const lr_frame *frame, float *out)
{
    lr_error err = {0};
    lr_worker worker = {0};
    lr_vision *vision = NULL;
    lrt_assert_ok(lr_pool_create(threads, &worker.pool, &err), &err);
    lrt_assert_ok(lr_vision_create(&vision, fixture->model, width, height, &worker, &err), &err);
    lrt_assert_ok(lr_vision_encode(vision, frame, out, NULL, &err), &err);
    lr_vision_free(vision);
    lr_pool_free(worker.pool);
}

static void check_pools(const char *folder, int side, lr_gemm gemm)
{
    lr_error err = {0};
    const lr_kernels *kernels = NULL;
    tower_fixture fixture;
    lrt_random random;
    lrt_random_init(&random, 1);
    lrt_assert_ok(lr_kernels_get(LR_ISA_AUTO, gemm, &kernels, &err), &err);
    fixture_open(&fixture, folder, kernels);
    size_t hidden = lr_model_info_of(fixture.model)->hidden;
    for (int i = 0; i < 6; i++) {
        int columns = (int)lrt_between(&random, 1, 12), rows = (int)lrt_between(&random, 1, 12);
        lr_frame frame = random_frame(&random, (int)lrt_between(&random, 1, 90),
                                      (int)lrt_between(&random, 1, 90));
        size_t floats = (size_t)(columns * rows) * hidden;
        float *one = test_calloc(floats, sizeof *one), *many = test_calloc(floats, sizeof *many);
        encode_with(&fixture, 1, columns * side, rows * side, &frame, one);
        for (size_t threads = 2; threads <= 3; threads++) {
            encode_with(&fixture, threads, columns * side, rows * side, &frame, many);
            assert_memory_equal(one, many, floats * sizeof *one);
        }
        test_free(one);
        test_free(many);
        test_free(frame.rgb);
    }
    fixture_close(&fixture);
}

static void test_vision_gives_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    check_pools("regular", 12, LR_GEMM_AUTO);
    check_pools("odd", 12, LR_GEMM_AUTO);
    check_pools("odd", 12, LR_GEMM_OPENBLAS);
}

/* The largest budget, 1120 soft tokens of 3 x 3 patches, whole panels of keys and whole tiles; and one
 * column more, so that neither is. */
static void test_vision_of_ten_thousand_patches_gives_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    tower_fixture fixture;
    lrt_random random;
    lrt_random_init(&random, 4);
    fixture_open(&fixture, "regular", NULL);
    lr_frame frame = random_frame(&random, 640, 480);
    for (int columns = 40; columns <= 41; columns++) {
        size_t floats = (size_t)columns * 28 * lr_model_info_of(fixture.model)->hidden;
        float *one = test_calloc(floats, sizeof *one), *many = test_calloc(floats, sizeof *many);
        encode_with(&fixture, 1, columns * 12, 28 * 12, &frame, one);
        encode_with(&fixture, 3, columns * 12, 28 * 12, &frame, many);
        assert_memory_equal(one, many, floats * sizeof *one);
        test_free(one);
        test_free(many);
    }
    test_free(frame.rgb);
    fixture_close(&fixture);
}

static void test_a_vision_gives_the_same_bits_after_frames_of_other_sizes(void **state)
{
    (void)state;
    lr_error err = {0};
    tower_fixture fixture;
    lrt_random random;
    lr_vision *vision = NULL;
    const lr_worker worker = {0};
    float first[20 * 48], again[20 * 48];
    lrt_random_init(&random, 2);
    fixture_open(&fixture, "regular", NULL);
    lr_frame a = random_frame(&random, 60, 48), b = random_frame(&random, 31, 77);
    lrt_assert_ok(lr_vision_create(&vision, fixture.model, 60, 48, &worker, &err), &err);
    lrt_assert_ok(lr_vision_encode(vision, &a, first, NULL, &err), &err);
    lrt_assert_ok(lr_vision_encode(vision, &b, again, NULL, &err), &err);
    assert_memory_not_equal(first, again, sizeof first);
    lrt_assert_ok(lr_vision_encode(vision, &a, again, NULL, &err), &err);
    assert_memory_equal(first, again, sizeof first);
    lr_vision_free(vision);
    test_free(a.rgb);
    test_free(b.rgb);
    fixture_close(&fixture);
}

/* ------------------------------------------------------------------ refusals */

static void check_size_refused(const tower_fixture *fixture, int width, int height, lr_status status,
                               const char *words)
{
    lr_error err = {0};
    lr_vision *vision = NULL;
    const lr_worker worker = {0};
    lr_status st = lr_vision_create(&vision, fixture->model, width, height, &worker, &err);
    assert_null(vision);
    if (st != status || !strstr(err.text, words))
        fail_msg("%d x %d: %s: %s", width, height, lr_status_name(st), err.text);
}

static void test_sizes_that_the_tower_cannot_take_are_named(void **state)
{
    (void)state;
    tower_fixture fixture;
    fixture_open(&fixture, "regular", NULL); /* patch 4, pool 3, 216 positions */
    check_size_refused(&fixture, 13, 12, LR_E_USAGE, "13 x 12");
    check_size_refused(&fixture, 12, 0, LR_E_USAGE, "12 x 0");
    check_size_refused(&fixture, -12, 12, LR_E_USAGE, "-12 x 12");
    check_size_refused(&fixture, 12 * 6000, 12, LR_E_USAGE, "multiples of 12");
    check_size_refused(&fixture, 4 * 219, 12, LR_E_UNSUPPORTED, "position_embedding_size is 216");
    check_size_refused(&fixture, 12, 4 * 219, LR_E_UNSUPPORTED, "219 patches");
    fixture_close(&fixture);
}

static void test_a_frame_too_large_to_resize_is_refused(void **state)
{
    (void)state;
    lr_error err = {0};
    tower_fixture fixture;
    lr_vision *vision = NULL;
    const lr_worker worker = {0};
    float soft[48];
    uint8_t byte = 0;
    const lr_frame frame = {.rgb = &byte, .stride = 3, .width = 70000, .height = 1};
    fixture_open(&fixture, "regular", NULL);
    lrt_assert_ok(lr_vision_create(&vision, fixture.model, 12, 12, &worker, &err), &err);
    assert_int_equal(lr_vision_encode(vision, &frame, soft, NULL, &err), LR_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "70000"));
    lr_vision_free(vision);
    fixture_close(&fixture);
}

static void test_a_cancelled_encode_stops(void **state)
{
    (void)state;
    lr_error err = {0};
    tower_fixture fixture;
    lr_vision *vision = NULL;
    lr_cancel cancel = 1;
    const lr_worker worker = {.cancel = &cancel};
    float soft[48];
    uint8_t rgb[12 * 12 * 3] = {0};
    const lr_frame frame = {.rgb = rgb, .stride = 36, .width = 12, .height = 12};
    fixture_open(&fixture, "regular", NULL);
    lrt_assert_ok(lr_vision_create(&vision, fixture.model, 12, 12, &worker, &err), &err);
    assert_int_equal(lr_vision_encode(vision, &frame, soft, NULL, &err), LR_E_INTERRUPTED);
    lr_vision_free(vision);
    fixture_close(&fixture);
}

static void check_change(const char *key, json_t *value, lr_status status, const char *words)
{
    assert_change_refused("regular", "config.json", "vision_config", key, value, status, words);
}

static void test_configurations_that_are_not_supported_are_named(void **state)
{
    (void)state;
    check_change("hidden_activation", json_string("relu"), LR_E_UNSUPPORTED,
                 "vision_config.hidden_activation");
    check_change("attention_bias", json_true(), LR_E_UNSUPPORTED, "vision_config.attention_bias");
    check_change("num_key_value_heads", json_integer(3), LR_E_MODEL, "must divide");
    check_change("head_dim", json_integer(6), LR_E_MODEL, "vision_config.head_dim is 6");
    check_change("hidden_size", json_integer(0), LR_E_MODEL, "vision_config.hidden_size is 0");
    check_change("rms_norm_eps", json_string("small"), LR_E_MODEL, "vision_config.rms_norm_eps");
    check_change("rope_parameters", json_pack("{s:s}", "rope_type", "yarn"), LR_E_UNSUPPORTED,
                 "rope_type");
}

static void check_processor(const char *part, const char *key, json_t *value)
{
    char words[96];
    (void)snprintf(words, sizeof words, "processor_config.json: %s.%s is", part, key);
    assert_change_refused("regular", "processor_config.json", part, key, value, LR_E_UNSUPPORTED, words);
}

static void test_another_preparation_of_pictures_is_refused(void **state)
{
    (void)state;
    check_processor("image_processor", "resample", json_integer(2));
    check_processor("image_processor", "patch_size", json_integer(5));
    check_processor("image_processor", "do_resize", json_false());
    check_processor("video_processor", "rescale_factor", json_real(1 / 127.5));
    check_processor("video_processor", "pooling_kernel_size", json_integer(2));
    check_processor("video_processor", "image_mean", json_pack("[f,f,f]", 0.5, 0.5, 0.5));
    check_processor("video_processor", "image_std", json_pack("[f,f,f]", 1.0, 1.0, 0.5));
}

static void test_tensors_that_are_missing_or_have_another_shape_are_named(void **state)
{
    (void)state;
    check_change("num_hidden_layers", json_integer(3), LR_E_MODEL,
                 "vision_tower.encoder.layers.2.input_layernorm.weight is missing");
    check_change("standardize", json_true(), LR_E_MODEL, "vision_tower.std_bias is missing");
    check_change("use_clipped_linears", json_true(), LR_E_MODEL, "q_proj.input_min");
    check_change("intermediate_size", json_integer(49), LR_E_MODEL, "mlp.gate_proj.linear.weight");
    check_change("position_embedding_size", json_integer(217), LR_E_MODEL,
                 "position_embedding_table has shape [2, 216, 32], must be [2, 217, 32]");
}

/* ------------------------------------------------------------------ memory */

typedef struct memory_work {
    const tower_fixture *fixture;
    lr_frame frame;
} memory_work;

static lr_status count_stage(void *arg, const char *name, int layer, uint64_t first,
                             const lr_tensor *rows, lr_error *err)
{
    (void)arg, (void)name, (void)layer, (void)first, (void)rows, (void)err;
    return LR_OK;
}

static lr_status create_and_encode(void *arg, lr_error *err)
{
    lr_status st = LR_OK;
    const memory_work *work = arg;
    lr_vision *vision = NULL;
    const lr_worker worker = {0};
    const lr_stage_tap tap = {.sink = count_stage};
    float soft[2 * 48];
    LR_TRY(lr_vision_create(&vision, work->fixture->model, 24, 12, &worker, err));
    LR_TRY(lr_vision_encode(vision, &work->frame, soft, &tap, err));
done:
    lr_vision_free(vision);
    return st;
}

static void test_vision_survives_each_failed_allocation(void **state)
{
    (void)state;
    tower_fixture fixture;
    lrt_random random;
    lrt_random_init(&random, 3);
    fixture_open(&fixture, "regular", NULL);
    memory_work work = {.fixture = &fixture, .frame = random_frame(&random, 40, 30)};
    assert_true(lrt_fail_each_allocation(create_and_encode, &work) >= 8);
    test_free(work.frame.rgb);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vision_equals_the_reference_at_each_stage),
        cmocka_unit_test(test_vision_with_shared_heads_clipping_and_standardizing_equals_the_reference),
        cmocka_unit_test(test_vision_of_published_patch_size_equals_the_reference),
        cmocka_unit_test(test_vision_in_scalar_kernels_equals_the_reference),
        cmocka_unit_test(test_vision_through_openblas_equals_the_reference),
        cmocka_unit_test(test_vision_gives_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(test_vision_of_ten_thousand_patches_gives_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(test_a_vision_gives_the_same_bits_after_frames_of_other_sizes),
        cmocka_unit_test(test_sizes_that_the_tower_cannot_take_are_named),
        cmocka_unit_test(test_a_frame_too_large_to_resize_is_refused),
        cmocka_unit_test(test_a_cancelled_encode_stops),
        cmocka_unit_test(test_configurations_that_are_not_supported_are_named),
        cmocka_unit_test(test_another_preparation_of_pictures_is_refused),
        cmocka_unit_test(test_tensors_that_are_missing_or_have_another_shape_are_named),
        cmocka_unit_test(test_vision_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests_name("vision tower", tests, NULL, NULL);
}
