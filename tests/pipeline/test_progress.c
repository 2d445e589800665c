/* Progress tells the truth, and a run that is cancelled stops and leaves nothing. */
#include "pipeline_case.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct world {
    char *directory, *clip, *sound;
    lr_model *model;
} world;
static world here;

static int set_up(void **state)
{
    (void)state;
    const case_clip clip = {"clip.mkv", 32, 18, {4, 1}, 37, 155555};
    const case_clip sound = {"sound.mkv", 0, 0, {1, 1}, 0, 333333};
    here.directory = lrt_temp_dir();
    here.clip = case_make_clip(here.directory, &clip);
    here.sound = case_make_clip(here.directory, &sound);
    here.model = case_model("regular", LR_ISA_AUTO, LR_GEMM_AUTO);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lr_model_close(here.model);
    free(here.clip);
    free(here.sound);
    lrt_remove_temp_dir(here.directory);
    return 0;
}

static lr_encode_options plain_options(int ranks)
{
    lr_encode_options o = lr_encode_defaults();
    o.ranks = ranks;
    o.threads = 1;
    o.chunk = 32;
    o.save_tokens = true;
    return o;
}

/* ------------------------------------------------------------------ progress */

#define MOST_CALLS 4096

typedef struct record {
    lr_progress calls[MOST_CALLS];
    size_t count;
    int inside; /* calls under way: one at a time is promised */
    bool overlapped;
} record;

static void keep_call(void *arg, const lr_progress *progress)
{
    record *r = arg;
    if (r->inside++) r->overlapped = true;
    if (r->count < MOST_CALLS) r->calls[r->count] = *progress;
    r->count++;
    r->inside--;
}

static record *watch(const char *recording, lr_encode_options *o, double *duration)
{
    lr_encode_result result;
    record *r = calloc(1, sizeof *r);
    assert_non_null(r);
    o->progress = keep_call;
    o->progress_arg = r;
    case_encode(here.model, recording, case_place.set, o, &result);
    *duration = result.duration;
    lr_encode_result_free(&result);
    assert_false(r->overlapped);
    assert_true(r->count >= 4 && r->count <= MOST_CALLS);
    return r;
}

static void check_call(const lr_progress *p, const char *recording, double duration)
{
    assert_string_equal(p->recording, recording);
    assert_true(p->done >= 0 && p->done <= 1);
    assert_true(isfinite(p->elapsed) && p->elapsed >= 0);
    assert_true(isfinite(p->remaining) && (p->remaining >= 0 || p->remaining == -1));
    if (p->stage != LR_STAGE_INDEX) assert_true(p->duration == duration);
    assert_true(p->recording_seconds >= 0 && p->recording_seconds <= p->duration * (1 + 1e-12));
    if (p->stage == LR_STAGE_WRITE)
        assert_true(fabs(p->recording_seconds - duration) < 1e-9 * duration);
}

/* Stages in order; inside one the share rises. Towers follow a backbone only with windows. */
static void check_record(const record *r, const char *recording, double duration, size_t windows)
{
    size_t towers = 0;
    assert_int_equal(r->calls[0].stage, LR_STAGE_INDEX);
    assert_int_equal(r->calls[r->count - 1].stage, LR_STAGE_WRITE);
    for (size_t i = 0; i < r->count; i++) {
        const lr_progress *p = &r->calls[i], *before = i ? &r->calls[i - 1] : p;
        check_call(p, recording, duration);
        assert_true(p->elapsed >= before->elapsed);
        assert_true(p->recording_seconds >= before->recording_seconds);
        if (p->stage == before->stage) {
            assert_true(p->done >= before->done);
        } else {
            assert_true(p->done == 0);
            bool next_window = before->stage == LR_STAGE_BACKBONE && p->stage == LR_STAGE_TOWERS;
            if (!next_window) assert_int_equal(p->stage, before->stage + 1);
            towers += p->stage == LR_STAGE_TOWERS;
        }
    }
    assert_int_equal(towers, windows);
    /* at the end nothing remains */
    assert_true(r->calls[r->count - 1].remaining >= 0 && r->calls[r->count - 1].remaining < 1e-6);
}

static void test_stages_come_in_order_and_shares_rise(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks += 2) {
        double duration;
        lr_encode_options o = plain_options(ranks);
        o.force = true;
        record *r = watch(here.clip, &o, &duration);
        check_record(r, here.clip, duration, 1);
        free(r);
    }
}

static void test_windows_go_through_the_recording_once(void **state)
{
    (void)state;
    double duration;
    size_t windows = 0;
    case_set set;
    lr_encode_options o = plain_options(2);
    o.context = 250;
    record *r = watch(here.clip, &o, &duration);
    case_open_set(&set, case_place.set);
    for (size_t i = 0; i < set.n; i++)
        windows += set.ids[i] == lr_model_info_of(here.model)->rules.bos ? 1 : 0;
    case_close_set(&set);
    assert_true(windows >= 3);
    check_record(r, here.clip, duration, windows);
    free(r);
}

static void test_towers_of_sound_alone_make_progress(void **state)
{
    (void)state;
    double duration;
    bool moved = false;
    lr_encode_options o = plain_options(1);
    record *r = watch(here.sound, &o, &duration);
    check_record(r, here.sound, duration, 1);
    for (size_t i = 0; i < r->count; i++)
        moved |= r->calls[i].stage == LR_STAGE_TOWERS && r->calls[i].done == 1;
    assert_true(moved);
    free(r);
}

/* ------------------------------------------------------------------ cancelling */

typedef struct canceller {
    lr_cancel cancel;
    lr_stage stage; /* in which it is set */
    bool set;
} canceller;

static void cancel_in_stage(void *arg, const lr_progress *progress)
{
    canceller *c = arg;
    if (progress->stage != c->stage) return;
    atomic_store(&c->cancel, 1);
    c->set = true;
}

static void interrupted(const lr_encode_options *o)
{
    lr_error err = {0};
    lr_encode_result result;
    lr_status st = lr_encode_recording(here.model, here.clip, case_place.set, o, &result, &err);
    if (st != LR_E_INTERRUPTED || err.status != LR_E_INTERRUPTED)
        fail_msg("\"%s\" (%s)", err.text, lr_status_name(st));
    assert_true(err.text[0] != '\0');
    assert_null(result.work);
}

static void test_a_cancelled_run_leaves_nothing(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        lr_encode_options o = plain_options(ranks);
        lr_cancel cancel = 1;
        o.cancel = &cancel;
        interrupted(&o);
        case_holds_only(case_place.out, case_nothing);
        for (lr_stage stage = LR_STAGE_INDEX; stage <= LR_STAGE_WRITE; stage++) {
            canceller c = {.stage = stage};
            o.cancel = &c.cancel;
            o.progress = cancel_in_stage;
            o.progress_arg = &c;
            interrupted(&o);
            assert_true(c.set);
            case_holds_only(case_place.out, case_nothing);
        }
    }
}

static void test_a_cancelled_run_keeps_the_set_that_was_there(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_encode_options o = plain_options(2);
    o.end = 3 * LR_TIME_SECOND;
    case_encode(here.model, here.clip, case_place.set, &o, NULL);
    char *path = lrt_path(case_place.set, "manifest.json"), *before = lrt_slurp(path, NULL);
    o.force = true;
    o.chunk = 16;
    for (lr_stage stage = LR_STAGE_INDEX; stage <= LR_STAGE_WRITE; stage++) {
        canceller c = {.stage = stage};
        o.cancel = &c.cancel;
        o.progress = cancel_in_stage;
        o.progress_arg = &c;
        interrupted(&o);
        char *after = lrt_slurp(path, NULL);
        assert_string_equal(after, before);
        free(after);
        lrt_assert_ok(lr_set_verify(case_place.set, &err), &err);
        case_holds_only(case_place.out, case_only_set);
    }
    free(before);
    free(path);
}

typedef struct delayed {
    lr_cancel cancel;
    long nanoseconds;
} delayed;

static void *cancel_later(void *arg)
{
    delayed *d = arg;
    struct timespec time = {.tv_sec = d->nanoseconds / 1000000000, .tv_nsec = d->nanoseconds % 1000000000};
    (void)nanosleep(&time, NULL);
    atomic_store(&d->cancel, 1);
    return NULL;
}

/* At any moment: the set that was there is whole, or the new one is. */
static void test_a_cancel_at_any_moment_leaves_a_whole_set(void **state)
{
    (void)state;
    lrt_random random;
    lr_encode_result whole;
    lr_encode_options first = plain_options(1);
    lrt_random_init(&random, 1);
    case_encode(here.model, here.clip, case_place.set, &first, &whole);
    uint64_t longest = (uint64_t)(1.1e9 * whole.seconds) + 1;
    lr_encode_result_free(&whole);
    for (int i = 0; i < 12; i++) {
        lr_error err = {0};
        lr_encode_result result;
        pthread_t thread;
        lr_encode_options o = plain_options(1 + i % 3);
        delayed d = {.nanoseconds = (long)lrt_below(&random, longest)};
        o.cancel = &d.cancel;
        o.force = true;
        assert_int_equal(pthread_create(&thread, NULL, cancel_later, &d), 0);
        lr_status st = lr_encode_recording(here.model, here.clip, case_place.set, &o, &result, &err);
        (void)pthread_join(thread, NULL);
        if (st == LR_OK)
            lr_encode_result_free(&result);
        else
            assert_int_equal(st, LR_E_INTERRUPTED);
        case_holds_only(case_place.out, case_only_set); /* the one before, or the new one */
        lr_error_clear(&err);
        lrt_assert_ok(lr_set_verify(case_place.set, &err), &err);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_new_place, case_remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_stages_come_in_order_and_shares_rise),
        TEST(test_windows_go_through_the_recording_once),
        TEST(test_towers_of_sound_alone_make_progress),
        TEST(test_a_cancelled_run_leaves_nothing),
        TEST(test_a_cancelled_run_keeps_the_set_that_was_there),
        TEST(test_a_cancel_at_any_moment_leaves_a_whole_set),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
