/* Clips as inputs, and the pipeline with a model whose spans are tubelets (V-JEPA 2). */
#include "pipeline_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

typedef struct world {
    char *directory, *clip, *silent, *short_clip;
} world;
static world here;

static int set_up(void **state)
{
    (void)state;
    const case_clip clip = {"clip.mkv", 37, 23, {4, 1}, 21, 80000};
    const case_clip silent = {"silent.mkv", 40, 61, {4, 1}, 27, 0};
    const case_clip one = {"one.mkv", 16, 16, {2, 1}, 3, 0};
    json_set_alloc_funcs(lr_alloc, lr_free);
    here.directory = lrt_temp_dir();
    here.clip = case_make_clip(here.directory, &clip);
    here.silent = case_make_clip(here.directory, &silent);
    here.short_clip = case_make_clip(here.directory, &one);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(here.clip);
    free(here.silent);
    free(here.short_clip);
    lrt_remove_temp_dir(here.directory);
    return 0;
}

static lr_encode_options options_of(int64_t fps, uint64_t context)
{
    lr_encode_options o = lr_encode_defaults();
    o.fps = (lr_rational){fps, 1};
    o.context = context;
    o.threads = 2;
    o.segment = 2 * LR_TIME_SECOND;
    o.hop = LR_TIME_SECOND;
    o.save_tokens = true;
    return o;
}

/* ------------------------------------------------------------------ clips */

/* The bytes of recording.npy, with any threads. */
static void check_clip(const char *folder, const char *path, int64_t fps, uint64_t context)
{
    lr_model *model = case_model(folder, LR_ISA_AUTO, LR_GEMM_AUTO);
    size_t dim = lr_model_info_of(model)->dim;
    lr_encode_options o = options_of(fps, context);
    case_set set;
    float *vector = calloc(dim, sizeof *vector);
    assert_non_null(vector);
    case_encode(model, path, case_place.set, &o, NULL);
    case_open_set(&set, case_place.set);
    for (int threads = 1; threads <= 3; threads += 2) {
        lr_error err = {0};
        const lr_embed_input input = {.kind = LR_INPUT_VIDEO, .value = path};
        const lr_embed_options embed = {.fps = {fps, 1}, .context = context, .threads = threads};
        lrt_assert_ok(lr_embed(model, &input, 1, &embed, vector, &err), &err);
        assert_memory_equal(vector, set.info->recording_vector, dim * sizeof *vector);
    }
    free(vector);
    case_close_set(&set);
    lr_model_close(model);
}

static void test_a_clip_has_the_vector_of_its_recording(void **state)
{
    (void)state;
    check_clip("regular", here.clip, 2, 0);
}

static void test_so_it_has_in_windows(void **state)
{
    (void)state;
    check_clip("regular", here.clip, 1, 120);
}

static void test_so_it_has_with_tubelets(void **state)
{
    (void)state;
    check_clip("vjepa", here.silent, 2, 0);
}

static void test_so_it_has_with_tubelets_in_windows(void **state)
{
    (void)state;
    check_clip("vjepaclassifier", here.clip, 4, 40);
}

static void test_fewer_frames_than_a_tubelet_make_a_recording(void **state)
{
    (void)state;
    check_clip("vjepaclassifier", here.short_clip, 1, 0); /* two frames, three a tubelet */
}

static lr_status embed_clip(void *arg, lr_error *err)
{
    float vector[128];
    const lr_embed_input input = {.kind = LR_INPUT_VIDEO, .value = here.short_clip};
    const lr_embed_options embed = {.fps = {2, 1}, .threads = 1};
    return lr_embed(arg, &input, 1, &embed, vector, err);
}

static void test_a_clip_survives_each_failed_allocation(void **state)
{
    (void)state;
    char hash[33];
    lr_error err = {0};
    lr_model *model = case_model("vjepa", LR_ISA_AUTO, LR_GEMM_AUTO);
    lrt_assert_ok(lr_model_hash(model, hash, &err), &err); /* kept by the model from now on */
    assert_true(lrt_fail_each_allocation(embed_clip, model) > 50);
    lr_model_close(model);
}

/* ------------------------------------------------------------------ tubelets */

/* A row is the mean of the tokens [first, end), of length 1. Sums are in double: what is left is the last
 * rounding. */
static void assert_mean(const case_set *set, size_t first, size_t end, const float *row)
{
    double square = 0, *mean = calloc(set->hidden, sizeof *mean);
    assert_non_null(mean);
    for (size_t t = first; t < end; t++)
        for (size_t i = 0; i < set->hidden; i++) mean[i] += (double)set->rows[t * set->hidden + i];
    for (size_t i = 0; i < set->hidden; i++) square += mean[i] * mean[i];
    for (size_t i = 0; i < set->hidden; i++)
        assert_true(fabs((double)row[i] - mean[i] / sqrt(square)) <= 0x1p-24);
    free(mean);
}

static void test_vectors_are_means_of_their_tubelets(void **state)
{
    (void)state;
    lr_model *model = case_model("vjepa", LR_ISA_AUTO, LR_GEMM_AUTO);
    lr_encode_options o = options_of(2, 0);
    lr_encode_result result;
    case_set set;
    o.ranks = 3;
    o.chunk = 16; /* tubelets of 9 tokens lie across the borders of ranks */
    case_encode(model, here.silent, case_place.set, &o, &result);
    assert_int_equal(result.frames, 6); /* 13 frames of the grid */
    assert_int_equal(result.tokens, 54);
    lr_encode_result_free(&result);
    case_open_set(&set, case_place.set);
    assert_int_equal(set.info->dim, set.hidden);
    assert_mean(&set, 0, set.n, set.info->recording_vector);
    assert_int_equal(set.info->n_frames, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_mean(&set, 9 * i, 9 * i + 9, set.info->frames + i * set.hidden);
        assert_int_equal(set.info->frame_rows[i].i, 2 * i);
        assert_true(set.info->frame_rows[i].t == (double)i);
    }
    for (size_t i = 0; i < set.info->n_segments; i++) {
        const lr_segment_row *row = &set.info->segment_rows[i];
        assert_int_equal(row->first, 9 * i);
        assert_int_equal(row->end_token, 9 * (i + 2 < 6 ? i + 2 : 6));
        assert_mean(&set, row->first, row->end_token, set.info->segments + i * set.hidden);
    }
    case_close_set(&set);
    lr_model_close(model);
}

static void stop_in_backbone(void *arg, const lr_progress *progress)
{
    lr_cancel *cancel = arg;
    if (progress->stage == LR_STAGE_BACKBONE) atomic_store(cancel, 1);
}

static void test_an_interrupted_recording_of_tubelets_goes_on(void **state)
{
    (void)state;
    lr_model *model = case_model("vjepa", LR_ISA_AUTO, LR_GEMM_AUTO);
    lr_encode_options o = options_of(4, 0);
    lr_encode_result result;
    lr_error err = {0};
    lr_cancel cancel;
    char *undisturbed = lrt_path(case_place.out, "undisturbed");
    atomic_init(&cancel, 0);
    o.chunk = 16;
    case_encode(model, here.silent, undisturbed, &o, NULL);
    o.keep_unfinished = true;
    o.cancel = &cancel;
    o.progress = stop_in_backbone;
    o.progress_arg = &cancel;
    assert_int_equal(lr_encode_recording(model, here.silent, case_place.set, &o, &result, &err), LR_E_INTERRUPTED);
    o.cancel = NULL;
    o.progress = NULL;
    o.ranks = 2;
    case_encode(model, here.silent, case_place.set, &o, &result);
    assert_int_equal(result.reused.frames, 13); /* all tubelets: 27 frames, one dropped */
    lr_encode_result_free(&result);
    case_same_set(undisturbed, case_place.set, "a run that was stopped and one that was not");
    free(undisturbed);
    lr_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_clip_has_the_vector_of_its_recording, case_new_place,
                                        case_remove_place),
        cmocka_unit_test_setup_teardown(test_so_it_has_in_windows, case_new_place, case_remove_place),
        cmocka_unit_test_setup_teardown(test_so_it_has_with_tubelets, case_new_place, case_remove_place),
        cmocka_unit_test_setup_teardown(test_so_it_has_with_tubelets_in_windows, case_new_place,
                                        case_remove_place),
        cmocka_unit_test_setup_teardown(test_fewer_frames_than_a_tubelet_make_a_recording, case_new_place,
                                        case_remove_place),
        cmocka_unit_test(test_a_clip_survives_each_failed_allocation),
        cmocka_unit_test_setup_teardown(test_vectors_are_means_of_their_tubelets, case_new_place,
                                        case_remove_place),
        cmocka_unit_test_setup_teardown(test_an_interrupted_recording_of_tubelets_goes_on, case_new_place,
                                        case_remove_place),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
