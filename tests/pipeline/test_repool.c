/* Other segments from saved tokens. */
#include "made_set.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <longreel/repool.h>

#define S(seconds) ((lr_time)((seconds) * (double)LR_TIME_SECOND))

typedef struct pooled {
    lr_time segment, hop;
    size_t width; /* the n-th of the model's */
} pooled;

static void assert_repooled_as_encoded(const made_set *made, const char *from, lr_encode_options options,
                                       const pooled *as)
{
    lr_error err = {0};
    lr_repool_result result;
    lr_repool_options repool = {.segment = as->segment, .hop = as->hop, .force = true};
    repool.dim = (size_t)lr_model_info_of(made->model)->dims[as->width];
    options.segment = as->segment;
    options.hop = as->hop;
    options.dim = repool.dim;
    options.save_tokens = false;
    char *encoded = made_set_encode(made, "encoded", &options);
    char *again = lrt_path(made->directory, "again");
    lrt_assert_ok(lr_repool(from, again, &repool, &result, &err), &err);
    lrt_assert_ok(lr_set_verify(again, &err), &err);
    assert_same_sets(encoded, again);
    assert_false(result.skipped);
    free(encoded);
    free(again);
}

static void test_repool_gives_the_bytes_of_an_encode(void **state)
{
    const made_set *made = *state;
    static const pooled cases[] = {{S(10), S(10), 0}, {S(3), S(3), 0}, {S(3), S(1), 1}, {S(0.5), S(0.75), 2},
                                   {S(2), S(5), 3}, {S(100), S(0.1), 0}};
    assert_true(lr_model_info_of(made->model)->n_dims >= 4);
    for (size_t sort = 0; sort < 4; sort++) {
        lr_encode_options options = made_set_options();
        options.save_tokens = true;
        if (sort == 1) options.context = 150; /* windows */
        if (sort == 2) options.start = S(1.5);
        if (sort == 2) options.end = S(4.25);
        if (sort == 3) options.video = false;
        if (sort == 3) options.chunk = 1024; /* as by default */
        char *from = made_set_encode(made, "from", &options);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            assert_repooled_as_encoded(made, from, options, &cases[i]);
        free(from);
    }
}

static char *encode_with_tokens(const made_set *made)
{
    lr_encode_options options = made_set_options();
    options.save_tokens = true;
    return made_set_encode(made, "from", &options);
}

static void test_options_not_given_are_those_of_the_set(void **state)
{
    const made_set *made = *state;
    lr_encode_options options = made_set_options();
    options.segment = S(2.5);
    options.hop = S(1.25);
    char *encoded = made_set_encode(made, "encoded", &options);
    options.save_tokens = true;
    char *from = made_set_encode(made, "from", &options), *again = lrt_path(made->directory, "again");
    lr_error err = {0};
    lr_repool_result result;
    lr_repool_options repool = lr_repool_defaults();
    repool.force = true;
    lrt_assert_ok(lr_repool(from, again, &repool, &result, &err), &err);
    assert_same_sets(encoded, again);
    free(encoded);
    free(from);
    free(again);
}

static void test_finished_work_is_skipped_and_other_work_not_replaced(void **state)
{
    const made_set *made = *state;
    char *from = encode_with_tokens(made), *again = lrt_path(made->directory, "other");
    lr_error err = {0};
    lr_repool_result result;
    lr_repool_options repool = lr_repool_defaults();
    repool.hop = S(2);
    lrt_assert_ok(lr_repool(from, again, &repool, &result, &err), &err);
    assert_false(result.skipped);
    lrt_assert_ok(lr_repool(from, again, &repool, &result, &err), &err);
    assert_true(result.skipped);
    repool.hop = S(3);
    assert_int_equal(lr_repool(from, again, &repool, &result, &err), LR_E_EXISTS);
    assert_non_null(strstr(err.text, again));
    lr_error_clear(&err);
    repool.force = true;
    lrt_assert_ok(lr_repool(from, again, &repool, &result, &err), &err);
    assert_int_equal(lr_repool(from, from, &repool, &result, &err), LR_E_USAGE);
    lr_error_clear(&err);
    lrt_assert_ok(lr_set_verify(from, &err), &err);
    free(from);
    free(again);
}

static void assert_refused(const made_set *made, const char *from, const lr_repool_options *repool,
                           lr_status status, const char *text)
{
    char *again = lrt_path(made->directory, "refused");
    lr_error err = {0};
    lr_repool_result result;
    lr_status st = lr_repool(from, again, repool, &result, &err);
    if (st != status || !strstr(err.text, text))
        fail_msg("\"%s\" is missing in \"%s\" (%s)", text, err.text, lr_status_name(st));
    assert_false(lrt_exists(again));
    free(again);
}

static void test_a_set_without_tokens_is_refused(void **state)
{
    const made_set *made = *state;
    const lr_encode_options options = made_set_options();
    const lr_repool_options repool = lr_repool_defaults();
    char *bare = made_set_encode(made, "bare", &options), *none = lrt_path(made->directory, "none");
    assert_refused(made, bare, &repool, LR_E_USAGE, "--save tokens");
    assert_refused(made, none, &repool, LR_E_IO, "none");
    free(bare);
    free(none);
}

static void test_wrong_options_are_refused(void **state)
{
    const made_set *made = *state;
    char *from = encode_with_tokens(made);
    lr_repool_options repool = lr_repool_defaults();
    repool.dim = 5;
    assert_refused(made, from, &repool, LR_E_USAGE, "--dim 5");
    repool = lr_repool_defaults();
    repool.hop = 0;
    assert_refused(made, from, &repool, LR_E_USAGE, "--hop");
    repool.hop = 1; /* 7e8 segments a second */
    assert_refused(made, from, &repool, LR_E_USAGE, "--hop");
    repool = lr_repool_defaults();
    repool.segment = -1;
    assert_refused(made, from, &repool, LR_E_USAGE, "--segment");
    lr_cancel cancel = 1;
    repool = lr_repool_defaults();
    repool.cancel = &cancel;
    assert_refused(made, from, &repool, LR_E_INTERRUPTED, "");
    free(from);
}

static void test_an_altered_set_is_refused(void **state)
{
    const made_set *made = *state;
    static const char *const names[] = {"tokens.safetensors", "frames.npy", "segments.jsonl"};
    const lr_repool_options repool = lr_repool_defaults();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *from = encode_with_tokens(made), *path = lrt_path(from, names[i]);
        size_t bytes;
        unsigned char *data = lrt_slurp(path, &bytes);
        data[bytes - 3] ^= 1;
        lrt_write(path, data, bytes);
        assert_refused(made, from, &repool, LR_E_FORMAT, from);
        free(data);
        free(path);
        free(from);
    }
}

/* ------------------------------------------------------------------ tokens that are no such thing */

static const char *const names[] = {"time", "spans", "windows", "part", "projection", "input_ids"};
#define N_TENSORS (sizeof names / sizeof names[0])

/* The set `from` written anew, hashes and all, with one value (or the name) of one tensor changed. */
typedef struct mutation {
    const char *tensor;
    size_t at;
    int64_t value;
    bool missing;
} mutation;

static void write_mutated(const char *from, const char *to, const mutation *m)
{
    lr_error err = {0};
    lr_set *set = NULL;
    lr_set_writer *w = NULL;
    lr_checkpoint *tokens = NULL;
    lr_set_tensor tensors[N_TENSORS];
    int64_t *changed = NULL;
    char *path = lrt_path(from, "tokens.safetensors");
    lrt_assert_ok(lr_set_open(&set, from, &err), &err);
    lrt_assert_ok(lr_checkpoint_open_file(&tokens, path, &err), &err);
    for (size_t i = 0; i < N_TENSORS; i++) {
        const lr_tensor *t = lr_checkpoint_find(tokens, names[i]);
        assert_non_null(t);
        tensors[i] = (lr_set_tensor){.name = names[i], .tensor = *t};
        if (strcmp(names[i], m->tensor) != 0) continue;
        if (m->missing) {
            tensors[i].name = "other";
            continue;
        }
        size_t values = t->dims[0] * (t->n_dims > 1 ? t->dims[1] : 1);
        assert_int_equal(t->dtype, LR_I64);
        assert_true(m->at < values);
        changed = malloc(values * sizeof *changed);
        assert_non_null(changed);
        memcpy(changed, t->data, values * sizeof *changed);
        changed[m->at] = m->value;
        tensors[i].tensor.data = changed;
    }
    const lr_set_info *info = lr_set_info_of(set);
    const lr_tensor *hidden = lr_checkpoint_find(tokens, "hidden");
    lrt_assert_ok(lr_set_create(&w, to, true, &err), &err);
    lrt_assert_ok(lr_set_recording(w, info->recording_vector, info->dim, &err), &err);
    lrt_assert_ok(lr_set_segments(w, info->segment_rows, info->segments, info->n_segments, info->dim, &err),
                  &err);
    lrt_assert_ok(lr_set_frames(w, info->frame_rows, info->frames, info->n_frames, info->dim, &err), &err);
    lrt_assert_ok(lr_set_tokens_begin(w, tensors, N_TENSORS, hidden->dims[0], hidden->dims[1], &err), &err);
    lrt_assert_ok(lr_set_tokens_rows(w, hidden->data, hidden->dims[0], &err), &err);
    lrt_assert_ok(lr_set_commit(w, info->manifest, &err), &err);
    lr_checkpoint_close(tokens);
    lr_set_close(set);
    free(changed);
    free(path);
}

static void test_malformed_tokens_are_refused(void **state)
{
    const made_set *made = *state;
    enum { KIND, INDEX, TIME, FIRST, COUNT, SOFT_FIRST, SOFT_COUNT, VALUES };
    static const mutation cases[] = {
        {.tensor = "spans", .missing = true},
        {.tensor = "projection", .missing = true},
        {"spans", KIND, 9, false},
        {"spans", KIND, -1, false},
        {"spans", VALUES + TIME, -5, false},
        {"spans", VALUES + FIRST, 2, false},
        {"spans", COUNT, 0, false},
        {"spans", COUNT, INT64_MAX, false},
        {"spans", VALUES + COUNT, INT64_MIN, false},
        {"spans", VALUES + SOFT_FIRST, 0, false},
        {"spans", VALUES + SOFT_FIRST, INT64_MAX, false},
        {"spans", VALUES + SOFT_COUNT, INT64_MAX, false},
        {"spans", VALUES + SOFT_COUNT, 0, false},
        {"spans", VALUES + INDEX, 5, false}, /* after it comes frame 1 */
        {"windows", 0, 1, false},
        {"windows", 1, 0, false},
        {"windows", 1, 3, false},
        {"windows", 1, -1, false},
        {"part", 0, -1, false},
    };
    char *from = encode_with_tokens(made), *bad = lrt_path(made->directory, "bad");
    char *again = lrt_path(made->directory, "bad-again");
    const lr_repool_options repool = lr_repool_defaults();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lr_error err = {0};
        lr_repool_result result;
        write_mutated(from, bad, &cases[i]);
        lr_status st = lr_repool(bad, again, &repool, &result, &err);
        if (st != LR_E_FORMAT || !strstr(err.text, "tokens.safetensors"))
            fail_msg("case %zu: %s (%s)", i, err.text, lr_status_name(st));
        assert_false(lrt_exists(again));
    }
    free(from);
    free(bad);
    free(again);
}

/* ------------------------------------------------------------------ memory */

typedef struct repool_work {
    const char *from, *again;
} repool_work;

static lr_status work(void *arg, lr_error *err)
{
    const repool_work *paths = arg;
    lr_repool_result result;
    lr_repool_options repool = lr_repool_defaults();
    repool.hop = S(2);
    repool.force = true;
    return lr_repool(paths->from, paths->again, &repool, &result, err);
}

static void test_repool_survives_each_failed_allocation(void **state)
{
    const made_set *made = *state;
    char *from = encode_with_tokens(made), *again = lrt_path(made->directory, "allocations");
    repool_work paths = {from, again};
    assert_true(lrt_fail_each_allocation(work, &paths) > 100);
    free(from);
    free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repool_gives_the_bytes_of_an_encode),
        cmocka_unit_test(test_options_not_given_are_those_of_the_set),
        cmocka_unit_test(test_finished_work_is_skipped_and_other_work_not_replaced),
        cmocka_unit_test(test_a_set_without_tokens_is_refused),
        cmocka_unit_test(test_wrong_options_are_refused),
        cmocka_unit_test(test_an_altered_set_is_refused),
        cmocka_unit_test(test_malformed_tokens_are_refused),
        cmocka_unit_test(test_repool_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, made_set_setup, made_set_teardown);
}
