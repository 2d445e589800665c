/* Memory that runs out at any moment: an error that says so, nothing leaked, no rank left waiting. */
#include "pipeline_case.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

typedef struct world {
    char *directory, *clip, *picture, *sound;
    char *out, *set, *whole; /* of check_encode */
    char *finished;          /* a set */
    lr_model *model;
} world;
static world here;

static const char *const nothing[] = {NULL};
static const char *const only_set[] = {"set", NULL};

static int set_up(void **state)
{
    (void)state;
    char hash[33];
    lr_error err = {0};
    const case_clip clip = {"clip.mkv", 16, 16, {2, 1}, 3, 9000};
    const case_clip picture = {"picture.mkv", 16, 16, {1, 1}, 1, 0};
    const case_clip sound = {"sound.mkv", 0, 0, {1, 1}, 0, 5000};
    json_set_alloc_funcs(lr_alloc, lr_free);
    /* thousands of sets are synced: free in memory, seconds on a busy disk */
    if (access("/dev/shm", W_OK) == 0) (void)setenv("TMPDIR", "/dev/shm", 0);
    here.directory = lrt_temp_dir();
    here.clip = case_make_clip(here.directory, &clip);
    here.picture = case_make_clip(here.directory, &picture);
    here.sound = case_make_clip(here.directory, &sound);
    here.finished = lrt_path(here.directory, "finished");
    here.model = case_model("regular", LR_ISA_AUTO, LR_GEMM_AUTO);
    lrt_assert_ok(lr_model_hash(here.model, hash, &err), &err); /* kept by the model from now on */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lr_model_close(here.model);
    free(here.finished);
    free(here.clip);
    free(here.picture);
    free(here.sound);
    lrt_remove_temp_dir(here.directory);
    return 0;
}

/* ------------------------------------------------------------------ encode */

static lr_encode_options plain_options(int ranks)
{
    lr_encode_options o = lr_encode_defaults();
    o.ranks = ranks;
    o.threads = 1;
    o.chunk = 16;
    o.save_tokens = true;
    o.force = true;
    return o;
}

/* With the k-th allocation failing. Clearing up afterwards may fail without a word (a note of an earlier
 * failure that stays), so a run may succeed: then its set is the one that all memory gives. A run that fails
 * leaves what was there before. */
static uint64_t encode_with_failure(const lr_encode_options *o, uint64_t k, bool *there)
{
    lr_error err = {0};
    lr_encode_result result;
    size_t live = lr_alloc_live();
    uint64_t count = lr_alloc_count();
    lr_alloc_fail_at(k);
    lr_status st = lr_encode_recording(here.model, here.clip, here.set, o, &result, &err);
    lr_alloc_fail_at(0);
    count = lr_alloc_count() - count;
    if (st == LR_OK)
        lr_encode_result_free(&result);
    else if (st != LR_E_NOMEM || err.status != st || err.text[0] == '\0')
        fail_msg("allocation %d: \"%s\" (%s)", (int)k, err.text, lr_status_name(st));
    if (lr_alloc_live() != live)
        fail_msg("allocation %d: %zu bytes live before, %zu after", (int)k, live, lr_alloc_live());
    *there = *there || st == LR_OK;
    case_holds_only(here.out, *there ? only_set : nothing);
    if (*there) case_same_set(here.whole, here.set, "a set made while memory ran out");
    return count;
}

/* Every `step`-th allocation fails in turn; where each run costs more, fewer do. */
static uint64_t step_of(uint64_t step)
{
    return CASE_SANITIZED ? step * 11 : step;
}

/* Of work that makes no set: a failed allocation is LR_E_NOMEM. The number of allocations. */
static uint64_t work_with_failure(lrt_work work, void *arg, uint64_t k)
{
    lr_error err = {0};
    size_t live = lr_alloc_live();
    uint64_t count = lr_alloc_count();
    lr_alloc_fail_at(k);
    lr_status st = work(arg, &err);
    lr_alloc_fail_at(0);
    count = lr_alloc_count() - count;
    if (st != (count < k ? LR_OK : LR_E_NOMEM) || err.status != st)
        fail_msg("allocation %d: \"%s\" (%s)", (int)k, err.text, lr_status_name(st));
    if (lr_alloc_live() != live)
        fail_msg("allocation %d: %zu bytes live before, %zu after", (int)k, live, lr_alloc_live());
    return count;
}

static void check_work(lrt_work work, void *arg)
{
    uint64_t k = 1;
    while (work_with_failure(work, arg, k) >= k) k += step_of(1);
    print_message("%d allocations\n", (int)k - 1);
}

/* Both where there is no set yet and where one is to be replaced. */
static void check_encode(const lr_encode_options *o, uint64_t step)
{
    bool there = false;
    uint64_t k = 1;
    here.whole = lrt_path(here.directory, "whole");
    case_encode(here.model, here.clip, here.whole, o, NULL);
    here.out = lrt_temp_dir();
    here.set = lrt_path(here.out, "set");
    while (encode_with_failure(o, k, &there) >= k) k += step_of(step);
    print_message("%d allocations\n", (int)k - 1);
    assert_true(there); /* the last run had all memory */
    for (k = k > 60 ? k - 60 : 1; encode_with_failure(o, k, &there) >= k;) k += step_of(step);
    free(here.set);
    lrt_remove_temp_dir(here.out);
    free(here.whole);
}

static void test_encoding_survives_each_failed_allocation(void **state)
{
    (void)state;
    lr_encode_options o = plain_options(1);
    check_encode(&o, 1);
}

static void test_two_ranks_survive_each_failed_allocation(void **state)
{
    (void)state;
    lr_encode_options o = plain_options(2);
    check_encode(&o, 2);
}

static void test_windows_on_three_ranks_survive_each_failed_allocation(void **state)
{
    (void)state;
    lr_encode_options o = plain_options(3);
    o.context = 90;
    o.threads = 2;
    o.save_tokens = false;
    check_encode(&o, 5);
}

/* Work that is kept for another run: after a failure it may be there, and the next run takes it up. */
static void test_kept_work_survives_each_failed_allocation(void **state)
{
    (void)state;
    lr_encode_options o = plain_options(2);
    o.force = false;
    o.context = 90;
    o.keep_unfinished = o.keep_layers = true;
    here.whole = lrt_path(here.directory, "whole-windows");
    case_encode(here.model, here.clip, here.whole, &o, NULL);
    uint64_t k = 1, count = UINT64_MAX;
    for (; k <= count; k += step_of(11)) {
        lr_error err = {0};
        lr_encode_result result;
        here.out = lrt_temp_dir();
        here.set = lrt_path(here.out, "set");
        size_t live = lr_alloc_live();
        count = lr_alloc_count();
        lr_alloc_fail_at(k);
        lr_status st = lr_encode_recording(here.model, here.clip, here.set, &o, &result, &err);
        lr_alloc_fail_at(0);
        count = lr_alloc_count() - count;
        if (st == LR_OK)
            lr_encode_result_free(&result);
        else if (st != LR_E_NOMEM)
            fail_msg("allocation %d: \"%s\" (%s)", (int)k, err.text, lr_status_name(st));
        if (lr_alloc_live() != live) fail_msg("allocation %d: memory is leaked", (int)k);
        if (st != LR_OK) {
            count = UINT64_MAX;
            case_encode(here.model, here.clip, here.set, &o, NULL);
        }
        case_same_set(here.whole, here.set, "a set made after memory ran out");
        if (st != LR_OK) case_holds_only(here.out, only_set);
        free(here.set);
        lrt_remove_temp_dir(here.out);
    }
    free(here.whole);
    print_message("%d allocations\n", (int)k - 1);
}

static void test_saving_stages_survives_each_failed_allocation(void **state)
{
    (void)state;
    lr_encode_options o = plain_options(1);
    o.save_stages = true;
    check_encode(&o, 3);
}

static lr_status skip_once(void *arg, lr_error *err)
{
    lr_encode_result result;
    lr_status st = lr_encode_recording(here.model, here.clip, here.finished, arg, &result, err);
    if (st == LR_OK) {
        assert_true(result.skipped);
        lr_encode_result_free(&result);
    }
    return st;
}

static void test_skipping_survives_each_failed_allocation(void **state)
{
    (void)state;
    lr_encode_options o = plain_options(1);
    case_encode(here.model, here.clip, here.finished, &o, NULL);
    o.force = false;
    check_work(skip_once, &o);
}

static lr_status plan_once(void *arg, lr_error *err)
{
    lr_plan plan;
    return lr_plan_recording(here.model, here.clip, arg, &plan, err);
}

static void test_planning_survives_each_failed_allocation(void **state)
{
    (void)state;
    lr_encode_options o = plain_options(3);
    check_work(plan_once, &o);
}

/* ------------------------------------------------------------------ embed and query */

typedef struct embed_work {
    lr_embed_input input;
    lr_embed_options options;
} embed_work;

static lr_status embed_once(void *arg, lr_error *err)
{
    const embed_work *w = arg;
    float vectors[2][64];
    const lr_embed_input inputs[2] = {w->input, w->input};
    return lr_embed(here.model, inputs, 2, &w->options, &vectors[0][0], err);
}

static void check_embed(lr_input_kind kind, const char *value, bool save)
{
    char *stages = lrt_path(here.directory, "stages"), *tokens = lrt_path(here.directory, "t.safetensors");
    embed_work w = {.input = {kind, value}, .options = {.threads = 2}};
    if (kind == LR_INPUT_TEXT) w.options.task = "search-query";
    if (save) {
        w.options.stages_directory = stages;
        w.options.tokens_path = tokens;
    }
    check_work(embed_once, &w);
    free(stages);
    free(tokens);
}

static void test_embedding_survives_each_failed_allocation(void **state)
{
    (void)state;
    check_embed(LR_INPUT_TEXT, "when does the bell ring?", false);
    check_embed(LR_INPUT_IMAGE, here.picture, false);
    check_embed(LR_INPUT_AUDIO, here.sound, false);
}

static void test_saving_what_was_embedded_survives_each_failed_allocation(void **state)
{
    (void)state;
    check_embed(LR_INPUT_TEXT, "when does the bell ring?", true);
    check_embed(LR_INPUT_IMAGE, here.picture, true);
    check_embed(LR_INPUT_AUDIO, here.sound, true);
}

static lr_status query_once(void *arg, lr_error *err)
{
    lr_set *set = arg;
    lr_hit *hits = NULL;
    size_t count = 0;
    const lr_embed_input input = {LR_INPUT_TEXT, "bell"};
    lr_query_options o = lr_query_defaults();
    o.threads = 2;
    lr_status st = lr_query(here.model, &set, 1, &input, &o, &hits, &count, err);
    if (st == LR_OK) {
        assert_true(count > 0);
        lr_free(hits);
    }
    return st;
}

static void test_searching_survives_each_failed_allocation(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_set *set = NULL;
    lr_encode_options o = plain_options(1);
    case_encode(here.model, here.clip, here.finished, &o, NULL);
    lrt_assert_ok(lr_set_open(&set, here.finished, &err), &err);
    check_work(query_once, set);
    lr_set_close(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoding_survives_each_failed_allocation),
        cmocka_unit_test(test_two_ranks_survive_each_failed_allocation),
        cmocka_unit_test(test_windows_on_three_ranks_survive_each_failed_allocation),
        cmocka_unit_test(test_kept_work_survives_each_failed_allocation),
        cmocka_unit_test(test_saving_stages_survives_each_failed_allocation),
        cmocka_unit_test(test_skipping_survives_each_failed_allocation),
        cmocka_unit_test(test_planning_survives_each_failed_allocation),
        cmocka_unit_test(test_embedding_survives_each_failed_allocation),
        cmocka_unit_test(test_saving_what_was_embedded_survives_each_failed_allocation),
        cmocka_unit_test(test_searching_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
