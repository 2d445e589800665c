/* Ranks that are processes, each with a job of its own: here on the threads of a stand-in for MPI. */
#include "fake_wire.h"
#include "pipeline_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

static struct {
    char *directory, *talk, *other, *local;
    lr_model *model;
} here;

/* Picture and sound end apart and inside a second. */
static const case_clip talk = {"talk.mkv", 32, 18, {4, 1}, 31, 123283};
static const case_clip other = {"other.mkv", 32, 18, {4, 1}, 30, 120000};

static lr_encode_options options_of(void)
{
    lr_encode_options options = lr_encode_defaults();
    options.chunk = 16;
    options.save_tokens = true;
    options.threads = 1;
    options.segment = 3 * LR_TIME_SECOND;
    return options;
}

static int set_up(void **state)
{
    (void)state;
    here.directory = lrt_temp_dir();
    here.talk = case_make_clip(here.directory, &talk);
    here.other = case_make_clip(here.directory, &other);
    here.local = lrt_path(here.directory, "local");
    here.model = case_model("regular", LR_ISA_AUTO, LR_GEMM_AUTO);
    lr_encode_options options = options_of();
    case_encode(here.model, here.talk, here.local, &options, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lr_model_close(here.model);
    free(here.local);
    free(here.talk);
    free(here.other);
    lrt_remove_temp_dir(here.directory);
    return 0;
}

/* ------------------------------------------------------------------ runs */

typedef struct rank_plan { /* what one rank is told */
    const char *recording;
    lr_encode_options options;
    lr_encode_result result;
    lr_status status; /* what became of it */
    lr_error error;
} rank_plan;

typedef struct job_plan {
    const char *set;
    rank_plan ranks[MOST];
    bool again; /* and then the right recording, to another set */
    const char *second_set;
} job_plan;

static lr_status encode_body(void *arg, lr_comm *comm, lr_error *err)
{
    job_plan *plan = arg;
    rank_plan *mine = &plan->ranks[comm->rank];
    mine->options.comm = comm;
    mine->status = lr_encode_recording(here.model, mine->recording, plan->set, &mine->options,
                                       &mine->result, &mine->error);
    lr_encode_options options = options_of();
    options.comm = comm;
    if (plan->again) {
        lr_encode_result result;
        lr_error why = {0};
        lr_status next = lr_encode_recording(here.model, here.talk, plan->second_set, &options, &result,
                                             &why);
        if (next != LR_OK) return lr_fail(err, LR_E_INTERNAL, "the next one: %s", why.text);
        lr_encode_result_free(&result);
    }
    return LR_OK;
}

static job_plan plan_of(const char *set, int size)
{
    job_plan plan = {.set = set};
    for (int r = 0; r < size; r++)
        plan.ranks[r] = (rank_plan){.recording = here.talk, .options = options_of()};
    return plan;
}

static void free_plan(job_plan *plan)
{
    for (int r = 0; r < MOST; r++) lr_encode_result_free(&plan->ranks[r].result);
}

/* All ranks end alike, with `text` in the error's. */
static void expect(job_plan *plan, int size, lr_status status, const char *text)
{
    fake_result results[MOST];
    assert_int_equal(fake_run(&(fake_options){.size = size}, encode_body, plan, results), 0);
    for (int r = 0; r < size; r++) {
        const rank_plan *one = &plan->ranks[r];
        lrt_assert_ok(results[r].status, &results[r].error);
        if (one->status != status || (text && !strstr(one->error.text, text)))
            fail_msg("rank %d of %d: %s (%s)", r, size, lr_status_name(one->status), one->error.text);
        if (one->recording == plan->ranks[0].recording)
            assert_string_equal(one->error.text, plan->ranks[0].error.text);
    }
}

/* ------------------------------------------------------------------ all is well */

/* All of the clip's samples, by one rank. */
static void assert_the_sound_was_decoded_once(const lr_encode_result *result, int size)
{
    int decoders = 0;
    for (int r = 0; r < size; r++) {
        if (result->work[r].samples_decoded == 0) continue;
        decoders++;
        assert_true(result->work[r].samples_decoded >= 123283);
    }
    assert_int_equal(decoders, 1);
}

static void test_processes_write_the_bytes_of_a_local_rank(void **state)
{
    (void)state;
    const int sizes[] = {1, 2, 3, 5, 8};
    for (size_t s = 0; s < 5; s++) {
        char name[32];
        (void)snprintf(name, sizeof name, "on-%d", sizes[s]);
        char *set = lrt_path(here.directory, name);
        job_plan plan = plan_of(set, sizes[s]);
        expect(&plan, sizes[s], LR_OK, NULL);
        case_same_set(here.local, set, name);
        const lr_encode_result *first = &plan.ranks[0].result;
        for (int r = 0; r < sizes[s]; r++) {
            const lr_encode_result *one = &plan.ranks[r].result;
            assert_int_equal(one->ranks, sizes[s]);
            assert_int_equal(one->tokens, first->tokens);
            assert_memory_equal(one->work, first->work, (size_t)sizes[s] * sizeof *one->work);
        }
        assert_int_equal(first->work[sizes[s] - 1].end_token, first->tokens);
        assert_the_sound_was_decoded_once(first, sizes[s]);
        free_plan(&plan);
        free(set);
    }
}

static void test_windows_are_the_same_too(void **state)
{
    (void)state;
    char *local = lrt_path(here.directory, "local-windows"), *set = lrt_path(here.directory, "windows");
    lr_encode_options options = options_of();
    options.context = 150;
    case_encode(here.model, here.talk, local, &options, NULL);
    job_plan plan = plan_of(set, 3);
    for (int r = 0; r < 3; r++) plan.ranks[r].options.context = 150;
    expect(&plan, 3, LR_OK, NULL);
    case_same_set(local, set, "windows");
    free_plan(&plan);
    free(set);
    free(local);
}

static void test_a_finished_set_is_skipped_by_all(void **state)
{
    (void)state;
    job_plan plan = plan_of(here.local, 3);
    expect(&plan, 3, LR_OK, NULL);
    for (int r = 0; r < 3; r++) assert_true(plan.ranks[r].result.skipped);
    free_plan(&plan);
}

/* ------------------------------------------------------------------ ranks that differ or fail */

static void test_a_rank_with_another_option_is_refused_by_name(void **state)
{
    (void)state;
    char *set = lrt_path(here.directory, "none");
    for (int odd = 0; odd < 3; odd++) {
        job_plan plan = plan_of(set, 3);
        plan.ranks[odd].options.fps = (lr_rational){2, 1};
        expect(&plan, 3, LR_E_USAGE, "--fps");
        free_plan(&plan);
    }
    assert_false(lrt_exists(set));
    free(set);
}

static void test_a_failure_of_one_rank_is_told_by_all_and_leaves_the_ranks_for_the_next_recording(
    void **state)
{
    (void)state;
    char *set = lrt_path(here.directory, "none");
    for (int odd = 0; odd < 3; odd++) {
        char name[32];
        (void)snprintf(name, sizeof name, "next-%d", odd);
        char *second = lrt_path(here.directory, name);
        job_plan plan = plan_of(set, 3);
        plan.ranks[odd].recording = here.other;
        plan.again = true;
        plan.second_set = second;
        /* Where rank 0 has the odd one, it is another file on each of the others: one of them is named. */
        (void)snprintf(name, sizeof name, odd > 0 ? "rank %d: is another file here" : "is another file here", odd);
        expect(&plan, 3, LR_E_FORMAT, name);
        assert_false(lrt_exists(set));
        case_same_set(here.local, second, "the next one");
        free_plan(&plan);
        free(second);
    }
    free(set);
}

static void test_a_recording_that_rank_0_cannot_open_fails_on_all(void **state)
{
    (void)state;
    char *set = lrt_path(here.directory, "none"), *missing = lrt_path(here.directory, "missing.mkv");
    job_plan plan = plan_of(set, 3);
    for (int r = 0; r < 3; r++) plan.ranks[r].recording = missing;
    expect(&plan, 3, LR_E_IO, "missing.mkv: cannot be opened");
    free_plan(&plan);
    free(missing);
    free(set);
}

static void test_sound_that_cannot_be_kept_for_the_others_fails_on_all(void **state)
{
    (void)state;
    const char *before = getenv("TMPDIR");
    char *kept = before ? strdup(before) : NULL, *set = lrt_path(here.directory, "none");
    job_plan plan = plan_of(set, 3);
    assert_int_equal(setenv("TMPDIR", "/nowhere", 1), 0);
    expect(&plan, 3, LR_E_IO, "/nowhere: no temporary file for the sound");
    assert_int_equal(kept ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR"), 0);
    assert_false(lrt_exists(set));
    free_plan(&plan);
    free(set);
    free(kept);
}

static void ask_in_backbone(void *arg, const lr_progress *progress)
{
    if (progress->stage == LR_STAGE_BACKBONE) lr_stop_ask(arg);
}

static void test_a_stop_that_one_rank_is_asked_for_has_all_keep_the_layer(void **state)
{
    (void)state;
    lr_cancel cancels[3];
    lr_stop stops[3];
    lr_encode_result result;
    char *directory = lrt_temp_dir(), *set = lrt_path(directory, "set");
    job_plan plan = plan_of(set, 3);
    for (int r = 0; r < 3; r++) {
        atomic_init(&cancels[r], 0);
        stops[r] = (lr_stop){.cancel = &cancels[r], .grace = 1e6};
        plan.ranks[r].options.keep_unfinished = true;
        plan.ranks[r].options.cancel = &cancels[r];
        plan.ranks[r].options.stop = &stops[r];
    }
    plan.ranks[0].options.progress = ask_in_backbone;
    plan.ranks[0].options.progress_arg = &stops[0];
    expect(&plan, 3, LR_E_INTERRUPTED, "interrupted");
    assert_int_equal(atomic_load(&stops[1].asked), 0);
    lr_encode_options options = options_of();
    options.keep_unfinished = true;
    options.ranks = 2;
    case_encode(here.model, here.talk, set, &options, &result);
    assert_true(result.reused.layers > 0);
    case_same_set(here.local, set, "what was stopped by one of three processes");
    lr_encode_result_free(&result);
    free_plan(&plan);
    free(set);
    lrt_remove_temp_dir(directory);
}

static void test_the_directory_for_the_set_matters_to_rank_0_only(void **state)
{
    (void)state;
    char *file = lrt_path(here.directory, "talk.mkv"), *set = lrt_path(file, "set");
    job_plan plan = plan_of(set, 3);
    expect(&plan, 3, LR_E_IO, "talk.mkv");
    free_plan(&plan);
    free(set);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes_write_the_bytes_of_a_local_rank),
        cmocka_unit_test(test_windows_are_the_same_too),
        cmocka_unit_test(test_a_finished_set_is_skipped_by_all),
        cmocka_unit_test(test_a_rank_with_another_option_is_refused_by_name),
        cmocka_unit_test(
            test_a_failure_of_one_rank_is_told_by_all_and_leaves_the_ranks_for_the_next_recording),
        cmocka_unit_test(test_a_recording_that_rank_0_cannot_open_fails_on_all),
        cmocka_unit_test(test_sound_that_cannot_be_kept_for_the_others_fails_on_all),
        cmocka_unit_test(test_a_stop_that_one_rank_is_asked_for_has_all_keep_the_layer),
        cmocka_unit_test(test_the_directory_for_the_set_matters_to_rank_0_only),
    };
    return cmocka_run_group_tests_name("pipeline/processes", tests, set_up, tear_down);
}
