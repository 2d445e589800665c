/* A run that is stopped at any moment is continued by another one, with other ranks and threads: the set has the
 * bytes that an undisturbed run gives it, and nothing else stays behind. */
#include "pipeline_case.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

typedef struct world {
    char *directory, *clip, *out, *set;
    lr_model *model;
} world;
static world here;

static const char *const only_set[] = {"set", NULL};
static const uint64_t contexts[] = {0, 331};

static int set_up(void **state)
{
    (void)state;
    const case_clip clip = {"clip.mkv", 32, 18, {4, 1}, 87, 363283};
    here.directory = lrt_temp_dir();
    here.clip = case_make_clip(here.directory, &clip);
    here.model = case_model("regular", LR_ISA_AUTO, LR_GEMM_AUTO);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lr_model_close(here.model);
    free(here.clip);
    lrt_remove_temp_dir(here.directory);
    return 0;
}

static int new_out(void **state)
{
    (void)state;
    here.out = lrt_temp_dir();
    here.set = lrt_path(here.out, "set");
    return 0;
}

static int remove_out(void **state)
{
    (void)state;
    free(here.set);
    lrt_remove_temp_dir(here.out);
    return 0;
}

static lr_encode_options plain_options(uint64_t context)
{
    lr_encode_options o = lr_encode_defaults();
    o.fps = (lr_rational){4, 1};
    o.chunk = 32;
    o.context = context;
    o.save_tokens = true;
    o.ranks = o.threads = 1;
    return o;
}

/* ------------------------------------------------------------------ stopping */

typedef struct stopper {
    lr_cancel cancel;
    uint64_t calls, stop_at; /* calls of the progress callback */
} stopper;

static void count_call(void *arg, const lr_progress *progress)
{
    stopper *s = arg;
    (void)progress;
    if (++s->calls == s->stop_at) atomic_store(&s->cancel, 1);
}

/* True when it came to its end. */
static bool run_until(uint64_t stop_at, const lr_encode_options *plain, lr_encode_result *result, uint64_t *calls)
{
    lr_error err = {0};
    stopper s = {.stop_at = stop_at};
    lr_encode_options o = *plain;
    atomic_init(&s.cancel, 0);
    o.cancel = &s.cancel;
    o.progress = count_call;
    o.progress_arg = &s;
    lr_status st = lr_encode_recording(here.model, here.clip, here.set, &o, result, &err);
    if (st != LR_OK && st != LR_E_INTERRUPTED) fail_msg("%s (%s)", err.text, lr_status_name(st));
    if (calls) *calls = s.calls;
    return st == LR_OK;
}

/* The sets that undisturbed runs give, and how often these report progress. */
static char *undisturbed(size_t c, uint64_t *calls)
{
    char *keep = here.set, *path = lrt_path(here.directory, c ? "windows" : "whole");
    lr_encode_result result;
    lr_encode_options o = plain_options(contexts[c]);
    o.force = true;
    here.set = path;
    assert_true(run_until(0, &o, &result, calls));
    lr_encode_result_free(&result);
    here.set = keep;
    return path;
}

static void test_a_run_stopped_at_any_moment_is_continued(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 1);
    size_t rounds = CASE_SANITIZED ? 2 : 24, stopped = 0, reused = 0;
    for (size_t c = 0; c < COUNT(contexts); c++) {
        uint64_t calls;
        char *whole = undisturbed(c, &calls);
        for (size_t round = 0; round < rounds / COUNT(contexts); round++) {
            lr_encode_result result;
            lr_encode_options o = plain_options(contexts[c]);
            o.keep_unfinished = true;
            o.keep_layers = lrt_below(&random, 2);
            o.force = false;
            (void)new_out(NULL);
            for (size_t tries = 0;; tries++) {
                o.ranks = (int)lrt_between(&random, 1, 4);
                o.threads = (int)lrt_between(&random, 1, 2);
                uint64_t stop_at = tries < 3 ? 1 + lrt_below(&random, calls) : 0;
                if (run_until(stop_at, &o, &result, NULL)) break;
                stopped++;
            }
            reused += result.reused.frames > 0;
            assert_true(result.reused.frames <= result.frames);
            assert_true(result.reused.sound_tokens <= result.sound_tokens);
            lr_encode_result_free(&result);
            case_same_set(whole, here.set, "a run that was stopped and continued");
            case_holds_only(here.out, only_set);
            (void)remove_out(NULL);
        }
        free(whole);
    }
    print_message("stopped %d times, %d of %d sets from work of an earlier run\n", (int)stopped, (int)reused, (int)rounds);
    assert_true(stopped >= rounds / 2 && reused >= rounds / 4);
}

/* ------------------------------------------------------------------ counts */

typedef struct stage_stop {
    lr_cancel cancel;
    lr_stage stage;
} stage_stop;

static void stop_in_stage(void *arg, const lr_progress *progress)
{
    stage_stop *s = arg;
    if (progress->stage == s->stage) atomic_store(&s->cancel, 1);
}

static void stop_at_stage(lr_stage stage, const lr_encode_options *plain)
{
    lr_error err = {0};
    lr_encode_result result;
    stage_stop s = {.stage = stage};
    lr_encode_options o = *plain;
    atomic_init(&s.cancel, 0);
    o.cancel = &s.cancel;
    o.progress = stop_in_stage;
    o.progress_arg = &s;
    assert_int_equal(lr_encode_recording(here.model, here.clip, here.set, &o, &result, &err), LR_E_INTERRUPTED);
}

static void test_nothing_before_the_stage_that_was_stopped_is_done_again(void **state)
{
    (void)state;
    lr_encode_result result;
    lr_encode_options o = plain_options(0);
    o.keep_unfinished = o.keep_layers = true;
    o.ranks = 3;
    stop_at_stage(LR_STAGE_BACKBONE, &o);
    o.ranks = 2;
    stop_at_stage(LR_STAGE_WRITE, &o); /* once the backbone is through */
    o.ranks = 4;
    case_encode(here.model, here.clip, here.set, &o, &result);
    assert_int_equal(result.reused.frames, result.frames);
    assert_int_equal(result.reused.sound_tokens, result.sound_tokens);
    assert_int_equal(result.reused.layers, lr_model_info_of(here.model)->n_layers);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(result.work[r].frames_encoded, 0);
        assert_int_equal(result.work[r].sound_tokens_encoded, 0);
        assert_int_equal(result.work[r].backbone.query_rows, 0);
        assert_int_equal(result.work[r].backbone.ring.bytes_sent, 0);
    }
    lr_encode_result_free(&result);
    case_holds_only(here.out, only_set);
}

typedef struct asker {
    lr_cancel cancel;
    lr_stop stop;
} asker;

static void ask_in_backbone(void *arg, const lr_progress *progress)
{
    asker *a = arg;
    if (progress->stage == LR_STAGE_BACKBONE) lr_stop_ask(&a->stop);
}

/* A run that is asked to stop as soon as it is in the backbone. */
static void ask_to_stop(double grace, const lr_encode_options *plain)
{
    lr_error err = {0};
    lr_encode_result result;
    asker a = {.stop = {.grace = grace}};
    lr_encode_options o = *plain;
    atomic_init(&a.cancel, 0);
    a.stop.cancel = o.cancel = &a.cancel;
    o.stop = &a.stop;
    o.progress = ask_in_backbone;
    o.progress_arg = &a;
    assert_int_equal(lr_encode_recording(here.model, here.clip, here.set, &o, &result, &err), LR_E_INTERRUPTED);
    assert_int_equal(atomic_load(&a.cancel), 1);
}

static void test_a_run_asked_to_stop_in_the_backbone_keeps_the_layer_at_hand(void **state)
{
    (void)state;
    const int ranks[] = {1, 3, 8}, then[] = {2, 4, 1};
    char *whole = undisturbed(0, NULL);
    for (size_t i = 0; i < COUNT(ranks); i++) {
        lr_encode_result result;
        lr_encode_options o = plain_options(0);
        o.keep_unfinished = true;
        (void)new_out(NULL);
        o.ranks = ranks[i];
        ask_to_stop(1e6, &o);
        ask_to_stop(1e6, &o); /* and one layer more */
        o.ranks = then[i];
        case_encode(here.model, here.clip, here.set, &o, &result);
        case_same_set(whole, here.set, "a run that was asked to stop twice");
        assert_true(result.reused.layers >= 2);
        lr_encode_result_free(&result);
        case_holds_only(here.out, only_set);
        (void)remove_out(NULL);
    }
    free(whole);
}

static void test_a_layer_that_would_take_too_long_is_given_up(void **state)
{
    (void)state;
    lr_encode_result result;
    lr_encode_options o = plain_options(0);
    o.keep_unfinished = true;
    ask_to_stop(0, &o);
    case_encode(here.model, here.clip, here.set, &o, &result);
    assert_int_equal(result.reused.frames, result.frames);
    assert_int_equal(result.reused.layers, 0);
    lr_encode_result_free(&result);
}

static void test_other_work_is_not_taken_over(void **state)
{
    (void)state;
    lr_encode_result result;
    lr_encode_options o = plain_options(0);
    o.keep_unfinished = true;
    stop_at_stage(LR_STAGE_BACKBONE, &o);
    o.soft_tokens = 140;
    case_encode(here.model, here.clip, here.set, &o, &result);
    assert_int_equal(result.reused.frames, 0);
    assert_int_equal(result.reused.sound_tokens, 0);
    lr_encode_result_free(&result);
}

static void test_without_being_asked_nothing_is_kept(void **state)
{
    (void)state;
    static const char *const nothing[] = {NULL};
    lr_encode_options o = plain_options(0);
    stop_at_stage(LR_STAGE_BACKBONE, &o);
    case_holds_only(here.out, nothing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_stopped_at_any_moment_is_continued),
        cmocka_unit_test_setup_teardown(test_nothing_before_the_stage_that_was_stopped_is_done_again, new_out,
                                        remove_out),
        cmocka_unit_test(test_a_run_asked_to_stop_in_the_backbone_keeps_the_layer_at_hand),
        cmocka_unit_test_setup_teardown(test_a_layer_that_would_take_too_long_is_given_up, new_out, remove_out),
        cmocka_unit_test_setup_teardown(test_other_work_is_not_taken_over, new_out, remove_out),
        cmocka_unit_test_setup_teardown(test_without_being_asked_nothing_is_kept, new_out, remove_out),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
