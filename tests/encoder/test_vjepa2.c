/* V-JEPA 2 stage by stage against the published implementation, and the promise: the same bytes for any number of
 * ranks and threads. Tolerances: fixture.h. */
#include "fixture.h"
#include "model_copy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const folders[] = {"vjepa", "vjepaclassifier"};
#define FOLDERS (sizeof folders / sizeof folders[0])

static float *floats(size_t count)
{
    float *x = calloc(count ? count : 1, sizeof *x);
    assert_non_null(x);
    return x;
}

/* ------------------------------------------------------------------ frames to tokens */

typedef struct clip {
    const uint8_t *rgb; /* [frames, height, width, 3] */
    size_t frames, width, height;
} clip;

static clip clip_of(const fixture *f, const json_t *item)
{
    const lr_tensor *t = fixture_tensor(f, fixture_text(item, "name"), "frames");
    assert_int_equal(t->dtype, LR_U8);
    return (clip){.rgb = t->data, .frames = t->dims[0], .height = t->dims[1], .width = t->dims[2]};
}

static lr_frame frame_of(const clip *c, size_t k)
{
    size_t bytes = 3 * c->width * c->height;
    return (lr_frame){.rgb = (uint8_t *)(uintptr_t)(c->rgb + k * bytes), .stride = 3 * c->width,
                      .width = (int)c->width, .height = (int)c->height, .display_width = (int)c->width,
                      .display_height = (int)c->height};
}

static lr_layout *layout_of(const lr_model_info *info, const clip *c, uint64_t context)
{
    lr_error err = {0};
    lr_layout *layout = NULL;
    lr_layout_input in = {.rules = info->rules, .fps = {1, 1}, .n_frames = (int64_t)c->frames,
                          .context = context};
    lr_time *times = calloc(c->frames, sizeof *times);
    assert_non_null(times);
    for (size_t k = 0; k < c->frames; k++) times[k] = (lr_time)k * LR_TIME_SECOND;
    in.frame_time = in.frame_pts = times;
    lrt_assert_ok(lr_picture_size(&info->picture, (int)c->width, (int)c->height, &in.frame_width,
                                  &in.frame_height, &in.frame_soft, &err), &err);
    lrt_assert_ok(lr_layout_recording(&layout, &in, &err), &err);
    free(times);
    return layout;
}

/* What `patches_u8` gave, one tubelet after another. */
typedef struct kept_patches {
    uint8_t *bytes;
    size_t count;
} kept_patches;

static lr_status keep_patches(void *arg, const char *name, int layer, uint64_t first, const lr_tensor *rows,
                              lr_error *err)
{
    kept_patches *kept = arg;
    (void)layer;
    (void)first;
    (void)err;
    if (strcmp(name, "patches_u8") != 0) return LR_OK;
    size_t bytes = rows->dims[0] * rows->dims[1];
    kept->bytes = realloc(kept->bytes, kept->count + bytes);
    assert_non_null(kept->bytes);
    memcpy(kept->bytes + kept->count, rows->data, bytes);
    kept->count += bytes;
    return LR_OK;
}

/* x [n_tokens, hidden] */
static float *tokens_of(const lr_model *model, const lr_layout *layout, const clip *c, size_t threads,
                        kept_patches *kept)
{
    lr_error err = {0};
    lr_pool *pool = NULL;
    lr_vision *vision = NULL;
    size_t hidden = lr_model_info_of(model)->hidden;
    float *x = floats(layout->n_tokens * hidden);
    const lr_stage_tap tap = {.sink = kept ? keep_patches : NULL, .arg = kept};
    lrt_assert_ok(lr_pool_create(threads, &pool, &err), &err);
    const lr_worker worker = {.pool = pool};
    lrt_assert_ok(lr_vision_create(&vision, model, layout->frame_width, layout->frame_height, &worker, &err),
                  &err);
    for (size_t s = 0; s < layout->n_spans; s++) {
        const lr_span *span = &layout->spans[s];
        for (uint64_t part = 0; part < layout->frame_parts; part++) {
            lr_frame frame = frame_of(c, (size_t)lr_layout_frame(layout, span, part));
            if (part + 1 < layout->frame_parts)
                lrt_assert_ok(lr_vision_hold(vision, &frame, &err), &err);
            else
                lrt_assert_ok(lr_vision_encode(vision, &frame, x + span->soft_first * hidden, &tap, &err), &err);
        }
    }
    lr_vision_free(vision);
    lr_pool_free(pool);
    return x;
}

/* crops_u8 [T, crop, crop, 3] of the library, cut in patches as the tap gives them. */
static void check_pixels(const fixture *f, const lr_model *model, const json_t *item, const lr_layout *layout,
                         const kept_patches *kept)
{
    const lr_tensor *crops = fixture_tensor(f, fixture_text(item, "name"), "crops_u8");
    size_t crop = crops->dims[1], p = (size_t)lr_model_info_of(model)->picture.patch, grid = crop / p, at = 0;
    const uint8_t *bytes = crops->data;
    assert_int_equal(kept->count, layout->n_tokens * layout->frame_parts * p * p * 3);
    for (size_t s = 0; s < layout->n_spans; s++)
        for (size_t n = 0; n < grid * grid; n++)
            for (uint64_t part = 0; part < layout->frame_parts; part++)
                for (size_t y = 0; y < p; y++, at += 3 * p) {
                    size_t k = (size_t)lr_layout_frame(layout, &layout->spans[s], part);
                    size_t row = k * crop + n / grid * p + y;
                    assert_memory_equal(kept->bytes + at, bytes + (row * crop + n % grid * p) * 3, 3 * p);
                }
}

/* ------------------------------------------------------------------ all stages */

typedef struct kept_layers {
    float *states; /* [layers, rows, hidden] */
    size_t rows, hidden;
} kept_layers;

static lr_status keep_layers(void *arg, const char *name, int layer, uint64_t first, const lr_tensor *rows,
                             lr_error *err)
{
    kept_layers *kept = arg;
    (void)err;
    if (strcmp(name, "layers") != 0) return LR_OK;
    memcpy(kept->states + ((size_t)layer * kept->rows + (size_t)first) * kept->hidden, rows->data,
           rows->dims[0] * kept->hidden * sizeof(float));
    return LR_OK;
}

static void check_pooled(const fixture *f, const lr_model *model, const char *name, const float *x, uint64_t n)
{
    lr_error err = {0};
    const lr_model_info *info = lr_model_info_of(model);
    double *sum = calloc(info->hidden, sizeof *sum);
    float *vector = floats(info->dim);
    assert_non_null(sum);
    lr_model_kernels(model)->sum_rows(sum, x, info->hidden, n, info->hidden);
    lrt_assert_ok(lr_project(model, sum, n, info->dim, vector, &err), &err);
    fixture_compare(f, name, "pooled", vector);
    free(sum);
    free(vector);
}

static void check_case(const fixture *f, const lr_model *model, const json_t *item)
{
    const lr_model_info *info = lr_model_info_of(model);
    const char *name = fixture_text(item, "name");
    clip c = clip_of(f, item);
    lr_layout *layout = layout_of(info, &c, 0);
    kept_patches pixels = {0};
    size_t n = fixture_size(item, "n");
    assert_int_equal(layout->n_tokens, n);
    assert_int_equal(layout->n_windows, 1);
    float *x = tokens_of(model, layout, &c, 2, &pixels);
    check_pixels(f, model, item, layout, &pixels);
    fixture_compare(f, name, "embeds", x);
    kept_layers layers = {.states = floats(info->n_layers * n * info->hidden), .rows = n,
                          .hidden = info->hidden};
    lr_stage_tap tap = {.sink = keep_layers, .arg = &layers};
    fixture_forward(model, x, n, 64, 1, 2, LR_SCHEDULE_AUTO, NULL, &tap);
    bool kept = json_object_get(json_object_get(item, "deviation"), "layers") != NULL;
    if (kept) fixture_compare(f, name, "layers", layers.states);
    fixture_compare(f, name, "normed", x);
    check_pooled(f, model, name, x, n);
    free(layers.states);
    free(pixels.bytes);
    free(x);
    lr_layout_free(layout);
}

static void check_folder(const char *folder, lr_isa isa)
{
    fixture f;
    fixture_open(&f, folder);
    lr_model *model = fixture_model(f.directory, fixture_kernels(isa), true, true);
    size_t i;
    const json_t *item;
    json_array_foreach(f.cases, i, item) check_case(&f, model, item);
    lr_model_close(model);
    fixture_close(&f);
}

static void test_scalar_model_equals_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < FOLDERS; i++) check_folder(folders[i], LR_ISA_SCALAR);
}

static void test_fastest_model_equals_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < FOLDERS; i++) check_folder(folders[i], LR_ISA_AUTO);
}

static void test_info_says_what_the_model_is(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, "vjepa");
    lr_model *model = fixture_model(f.directory, fixture_kernels(LR_ISA_AUTO), true, true);
    const lr_model_info *info = lr_model_info_of(model);
    assert_string_equal(info->family, "vjepa2");
    assert_true(info->has_vision && !info->has_text && !info->has_audio);
    assert_null(info->tokenizer);
    assert_int_equal(info->hidden, 40);
    assert_int_equal(info->dim, 40);
    assert_int_equal(info->n_dims, 1);
    assert_int_equal(info->dims[0], 40);
    assert_int_equal(info->trained_context, 32 * 9);
    assert_int_equal(info->n_budgets, 1);
    assert_int_equal(info->budgets[0], 9);
    assert_null(lr_model_task(model, 0));
    lr_model_close(model);
    fixture_close(&f);
}

/* ------------------------------------------------------------------ windows */

/* A window is to the bit what its frames alone are: positions restart. */
static void test_windows_are_as_their_frames_alone(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, "vjepa");
    lr_model *model = fixture_model(f.directory, fixture_kernels(LR_ISA_AUTO), true, true);
    const lr_model_info *info = lr_model_info_of(model);
    clip whole = clip_of(&f, json_array_get(f.cases, 4));
    lr_layout *windows = layout_of(info, &whole, 100); /* 11 tubelets of 9 tokens */
    assert_int_equal(windows->n_windows, 4);
    assert_int_equal(windows->windows[0].count, 99);
    assert_int_equal(windows->windows[3].count, (37 - 3 * 11) * 9);
    float *x = tokens_of(model, windows, &whole, 1, NULL);
    for (size_t w = 0; w < windows->n_windows; w++) {
        const lr_window *window = &windows->windows[w];
        size_t first = w * 22, bytes = whole.width * whole.height * 3;
        clip part = {.rgb = whole.rgb + first * bytes, .width = whole.width, .height = whole.height,
                     .frames = whole.frames - first < 22 ? whole.frames - first : 22};
        lr_layout *alone = layout_of(info, &part, 0);
        assert_int_equal(alone->n_tokens, window->count);
        float *y = tokens_of(model, alone, &part, 3, NULL), *row = x + window->first * info->hidden;
        fixture_forward(model, y, window->count, 16, 1, 1, LR_SCHEDULE_AUTO, NULL, NULL);
        fixture_forward(model, row, window->count, 16, 3, 2, LR_SCHEDULE_AUTO, NULL, NULL);
        assert_memory_equal(row, y, (size_t)window->count * info->hidden * sizeof *y);
        free(y);
        lr_layout_free(alone);
    }
    free(x);
    lr_layout_free(windows);
    lr_model_close(model);
    fixture_close(&f);
}

static void test_a_window_holds_at_least_one_tubelet(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, "vjepa");
    lr_model *model = fixture_model(f.directory, fixture_kernels(LR_ISA_AUTO), false, false);
    clip c = clip_of(&f, json_array_get(f.cases, 0));
    lr_layout *layout = layout_of(lr_model_info_of(model), &c, 5);
    assert_int_equal(layout->n_windows, 2); /* five frames: two tubelets, one frame dropped */
    assert_int_equal(layout->n_frames, 2);
    assert_int_equal(layout->n_grid, 5);
    assert_int_equal(layout->windows[1].count, 9);
    assert_int_equal(layout->spans[1].index, 2);
    lr_layout_free(layout);
    lr_model_close(model);
    fixture_close(&f);
}

/* ------------------------------------------------------------------ the promise */

static void check_promise(const char *folder, uint64_t n, uint64_t chunk)
{
    static const int ranks[] = {1, 2, 3, 5, 8};
    char *directory = lrt_path(LR_FIXTURES, folder);
    lr_model *model = fixture_model(directory, fixture_kernels(LR_ISA_AUTO), false, false);
    size_t count = (size_t)n * lr_model_info_of(model)->hidden;
    float *input = floats(count), *first = floats(count), *x = floats(count);
    lrt_random random;
    lrt_random_init(&random, n + chunk);
    lrt_fill_normal(&random, input, count, 1);
    memcpy(first, input, count * sizeof *x);
    fixture_forward(model, first, n, chunk, 1, 1, LR_SCHEDULE_AUTO, NULL, NULL);
    for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++)
        for (size_t threads = 1; threads <= 3; threads++) {
            memcpy(x, input, count * sizeof *x);
            fixture_forward(model, x, n, chunk, ranks[r], threads, LR_SCHEDULE_AUTO, NULL, NULL);
            if (memcmp(x, first, count * sizeof *x) != 0)
                fail_msg("%s: n %llu, chunk %llu: %d ranks x %zu threads give other bytes", folder,
                         (unsigned long long)n, (unsigned long long)chunk, ranks[r], threads);
        }
    free(input);
    free(first);
    free(x);
    lr_model_close(model);
    free(directory);
}

static void test_bytes_are_equal_for_any_ranks_and_threads(void **state)
{
    (void)state;
    check_promise("vjepa", 9, 16);
    check_promise("vjepa", 333, 16);
    check_promise("vjepa", 333, 64);
    check_promise("vjepaclassifier", 416, 24);
}

/* ------------------------------------------------------------------ models that are refused */

static void refused(const char *key, json_t *value, lr_status status, const char *words)
{
    lr_error err = {0};
    lr_model *model = NULL;
    char *dir = model_copy("vjepa");
    json_t *config = model_copy_config(dir);
    assert_int_equal(json_object_set_new(config, key, value), 0);
    model_copy_replace_config(dir, config);
    const lr_model_options options = {.kernels = fixture_kernels(LR_ISA_AUTO), .vision = true};
    lr_status st = lr_model_open(&model, dir, &options, &err);
    if (st != status || !strstr(err.text, words)) fail_msg("%s: status %d, %s", key, (int)st, err.text);
    json_decref(config);
    lrt_remove_temp_dir(dir);
}

static void test_other_models_are_refused_by_name(void **state)
{
    (void)state;
    refused("hidden_act", json_string("gelu_pytorch_tanh"), LR_E_UNSUPPORTED, "hidden_act");
    refused("in_chans", json_integer(1), LR_E_UNSUPPORTED, "in_chans");
    refused("patch_size", json_pack("[i, i]", 8, 8), LR_E_MODEL, "patch_size");
    refused("num_attention_heads", json_integer(3), LR_E_MODEL, "hidden_size");
    refused("num_attention_heads", json_integer(8), LR_E_UNSUPPORTED, "width 5");
    refused("crop_size", json_integer(32), LR_E_UNSUPPORTED, "crop_size");
    refused("crop_size", json_integer(4), LR_E_MODEL, "crop_size");
    refused("mlp_ratio", json_real(2.4), LR_E_MODEL, "mlp.fc1");
    refused("num_hidden_layers", json_integer(4), LR_E_MODEL, "encoder.layer.3.");
    refused("tubelet_size", json_integer(1), LR_E_MODEL, "patch_embeddings");
}

/* Writes `text` as a file of a copy of the checkpoint, which must then be opened with `status`. */
static void with_file(const char *name, const char *text, lr_status status, const char *words)
{
    lr_error err = {0};
    lr_model *model = NULL;
    char *dir = model_copy("vjepa"), *path = lrt_path(dir, name);
    (void)unlink(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    const lr_model_options options = {.kernels = fixture_kernels(LR_ISA_AUTO), .vision = true};
    lr_status st = lr_model_open(&model, dir, &options, &err);
    if (st != status || (st != LR_OK && (!strstr(err.text, words) || !strstr(err.text, name))))
        fail_msg("%s: status %d, %s", text, (int)st, err.text);
    lr_model_close(model);
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_another_preparation_is_refused_by_name(void **state)
{
    (void)state;
    const char *old = "video_preprocessor_config.json", *nested = "processor_config.json";
    with_file(old, "{}", LR_OK, "");
    with_file(old, "{\"crop_size\": 24, \"size\": {\"shortest_edge\": 99}}", LR_OK, "");
    with_file(old, "{\"crop_size\": {\"height\": 24, \"width\": 32}}", LR_E_UNSUPPORTED, "crop_size");
    with_file(old, "{\"crop_size\": 32}", LR_E_UNSUPPORTED, "crop_size");
    with_file(old, "{\"resample\": 3}", LR_E_UNSUPPORTED, "resample");
    with_file(old, "{\"do_center_crop\": false}", LR_E_UNSUPPORTED, "do_center_crop");
    with_file(old, "{\"image_std\": [1, 0, 1]}", LR_E_MODEL, "image_std");
    with_file(old, "{\"image_mean\": [1, 1]}", LR_E_MODEL, "image_mean");
    with_file(nested, "{\"video_processor\": {\"crop_size\": 32}}", LR_E_UNSUPPORTED, "crop_size");
    with_file(nested, "{\"image_processor\": {\"crop_size\": 32}}", LR_OK, "");
}

static lr_status open_once(void *arg, lr_error *err)
{
    lr_model *model = NULL;
    const lr_model_options options = {.kernels = fixture_kernels(LR_ISA_AUTO), .vision = true};
    lr_status st = lr_model_open(&model, arg, &options, err);
    lr_model_close(model);
    return st;
}

static void test_opening_survives_each_failed_allocation(void **state)
{
    (void)state;
    char *directory = lrt_path(LR_FIXTURES, "vjepa");
    assert_true(lrt_fail_each_allocation(open_once, directory) > 50);
    free(directory);
}

typedef struct tubelet_case {
    const lr_model *model;
    const clip *frames;
    const lr_worker *worker;
    float *soft;
} tubelet_case;

static lr_status encode_once(void *arg, lr_error *err)
{
    lr_status st = LR_OK;
    const tubelet_case *c = arg;
    const lr_stage_tap none = {0};
    lr_vision *vision = NULL;
    lr_frame first = frame_of(c->frames, 0), second = frame_of(c->frames, 1);
    int crop = lr_model_info_of(c->model)->picture.fixed;
    LR_TRY(lr_vision_create(&vision, c->model, crop, crop, c->worker, err));
    LR_TRY(lr_vision_hold(vision, &first, err));
    LR_TRY(lr_vision_encode(vision, &second, c->soft, &none, err));
done:
    lr_vision_free(vision);
    return st;
}

static void test_a_tubelet_survives_each_failed_allocation(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, "vjepa");
    lr_model *model = fixture_model(f.directory, fixture_kernels(LR_ISA_AUTO), true, true);
    clip frames = clip_of(&f, json_array_get(f.cases, 0));
    const lr_worker worker = {0};
    tubelet_case c = {.model = model, .frames = &frames, .worker = &worker,
                      .soft = floats(9 * lr_model_info_of(model)->hidden)};
    assert_true(lrt_fail_each_allocation(encode_once, &c) >= 5);
    free(c.soft);
    lr_model_close(model);
    fixture_close(&f);
}

/* What the encoder does not use is not looked at. */
static void test_other_keys_change_nothing(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_model *model = NULL;
    char *dir = model_copy("vjepa");
    json_t *config = model_copy_config(dir);
    json_object_set_new(config, "frames_per_clip", json_integer(1));
    json_object_set_new(config, "pred_hidden_size", json_string("none"));
    json_object_set_new(config, "num_pooler_layers", json_integer(-3));
    model_copy_replace_config(dir, config);
    const lr_model_options options = {.kernels = fixture_kernels(LR_ISA_AUTO), .vision = true};
    lrt_assert_ok(lr_model_open(&model, dir, &options, &err), &err);
    lr_model_close(model);
    json_decref(config);
    lrt_remove_temp_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar_model_equals_the_reference),
        cmocka_unit_test(test_fastest_model_equals_the_reference),
        cmocka_unit_test(test_info_says_what_the_model_is),
        cmocka_unit_test(test_windows_are_as_their_frames_alone),
        cmocka_unit_test(test_a_window_holds_at_least_one_tubelet),
        cmocka_unit_test(test_bytes_are_equal_for_any_ranks_and_threads),
        cmocka_unit_test(test_other_models_are_refused_by_name),
        cmocka_unit_test(test_other_keys_change_nothing),
        cmocka_unit_test(test_another_preparation_is_refused_by_name),
        cmocka_unit_test(test_opening_survives_each_failed_allocation),
        cmocka_unit_test(test_a_tubelet_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
