/* The promise: the bytes of a set do not depend on the number of ranks and threads. */
#include "pipeline_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What may differ between two runs that must give the same bytes, ... */
static const int ranks_of[] = {1, 2, 3, 5, 8};
static const int threads_of[] = {1, 2, 3};

/* ... and what may not. */
typedef struct recording {
    case_clip clip;
    const char *what;
} recording;

/* Picture and sound of `both` end apart and inside a second; its length divides by no number of ranks.
 * `few` has one frame and part of a second of sound: fewer chunks than ranks. */
static const recording recordings[] = {
    {{"both.mkv", 32, 18, {4, 1}, 87, 363283}, "both"},
    {{"silent.mkv", 20, 31, {5, 1}, 99, 0}, "picture only"},
    {{"sound.mkv", 0, 0, {1, 1}, 0, 333337}, "sound only"},
    {{"few.mkv", 32, 18, {8, 1}, 7, 14001}, "few tokens"},
};
static const uint64_t chunk_of[] = {16, 64};
static const uint64_t context_of[] = {0, 331};

typedef struct table {
    lr_isa isa;
    lr_gemm gemm;
} table;
static const table tables[] = {
    {LR_ISA_AUTO, LR_GEMM_PACKED},    {LR_ISA_AUTO, LR_GEMM_OPENBLAS},  {LR_ISA_AVX2, LR_GEMM_PACKED},
    {LR_ISA_AVX2, LR_GEMM_OPENBLAS},  {LR_ISA_SCALAR, LR_GEMM_PACKED},  {LR_ISA_SCALAR, LR_GEMM_OPENBLAS},
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

typedef struct world {
    char *directory;
    char *paths[COUNT(recordings)];
    lr_model *models[COUNT(tables)]; /* NULL: not on this machine */
} world;
static world here;

static int set_up(void **state)
{
    (void)state;
    here.directory = lrt_temp_dir();
    for (size_t i = 0; i < COUNT(recordings); i++)
        here.paths[i] = case_make_clip(here.directory, &recordings[i].clip);
    for (size_t i = 0; i < COUNT(tables); i++) {
        const lr_kernels *kernels = NULL;
        if (CASE_SANITIZED && i >= 2) break;
        if (lr_kernels_get(tables[i].isa, tables[i].gemm, &kernels, NULL) != LR_OK) continue;
        here.models[i] = case_model("regular", tables[i].isa, tables[i].gemm);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(tables); i++) lr_model_close(here.models[i]);
    for (size_t i = 0; i < COUNT(recordings); i++) free(here.paths[i]);
    lrt_remove_temp_dir(here.directory);
    return 0;
}

/* ------------------------------------------------------------------ all pairs */

enum { RANKS, THREADS, RECORDING, CHUNK, CONTEXT, TABLE, FACTORS };
#define MOST_VALUES 8

typedef struct run {
    size_t at[FACTORS];
} run;

static size_t values_of(size_t factor)
{
    static const size_t counts[FACTORS] = {COUNT(ranks_of), COUNT(threads_of), COUNT(recordings),
                                           COUNT(chunk_of), COUNT(context_of), COUNT(tables)};
    return counts[factor];
}

static bool covered[FACTORS][MOST_VALUES][FACTORS][MOST_VALUES];

/* Pairs of values that this run has and no run before it had; with `take` they are had from now on. */
static size_t new_pairs(const run *r, bool take)
{
    size_t count = 0;
    for (size_t a = 0; a < FACTORS; a++)
        for (size_t b = a + 1; b < FACTORS; b++) {
            bool *seen = &covered[a][r->at[a]][b][r->at[b]];
            count += !*seen;
            if (take) *seen = true;
        }
    return count;
}

/* The i-th of all combinations. */
static run combination(size_t i)
{
    run r;
    for (size_t f = 0; f < FACTORS; f++) {
        r.at[f] = i % values_of(f);
        i /= values_of(f);
    }
    return r;
}

/* The run with the most new pairs; false when there are none left. Combinations are looked at in an order
 * that mixes them (a step coprime to their number), so that ties do not always go to the first values. */
static bool next_run(run *out)
{
    size_t all = 1, most = 0;
    for (size_t f = 0; f < FACTORS; f++) all *= values_of(f);
    for (size_t i = 0; i < all; i++) {
        run r = combination(i * 1009 % all);
        if (!here.models[r.at[TABLE]]) continue;
        size_t pairs = new_pairs(&r, false);
        if (pairs > most) {
            most = pairs;
            *out = r;
        }
    }
    if (most > 0) (void)new_pairs(out, true);
    return most > 0;
}

static lr_encode_options options_of(const run *r)
{
    lr_encode_options o = lr_encode_defaults();
    o.ranks = ranks_of[r->at[RANKS]];
    o.threads = threads_of[r->at[THREADS]];
    o.chunk = chunk_of[r->at[CHUNK]];
    o.context = context_of[r->at[CONTEXT]];
    o.segment = 3 * LR_TIME_SECOND;
    o.hop = 2 * LR_TIME_SECOND;
    o.save_tokens = true;
    o.force = true;
    if (CASE_SANITIZED) o.end = 8 * LR_TIME_SECOND;
    return o;
}

/* The set made by one rank and one thread; made once. */
static char *reference_set(const run *r)
{
    char name[64];
    run alone = *r;
    alone.at[RANKS] = alone.at[THREADS] = 0;
    (void)snprintf(name, sizeof name, "one-%zu-%zu-%zu-%zu", r->at[RECORDING], r->at[CHUNK],
                   r->at[CONTEXT], r->at[TABLE]);
    char *path = lrt_path(here.directory, name);
    if (lrt_exists(path)) return path;
    lr_encode_options options = options_of(&alone);
    case_encode(here.models[r->at[TABLE]], here.paths[r->at[RECORDING]], path, &options, NULL);
    return path;
}

static void check_run(const run *r)
{
    char what[160];
    const lr_kernels *kernels = lr_model_kernels(here.models[r->at[TABLE]]);
    lr_encode_options options = options_of(r);
    (void)snprintf(what, sizeof what, "%s, chunk %d, context %d, %s/%s: %d ranks of %d threads and one",
                   recordings[r->at[RECORDING]].what, (int)options.chunk, (int)options.context,
                   kernels->isa, kernels->gemm, options.ranks, options.threads);
    char *one = reference_set(r), *path = lrt_path(here.directory, "set");
    case_encode(here.models[r->at[TABLE]], here.paths[r->at[RECORDING]], path, &options, NULL);
    case_same_set(one, path, what);
    free(path);
    free(one);
}

static void test_every_pair_of_choices_gives_the_bytes_of_one_rank(void **state)
{
    (void)state;
    run r;
    size_t runs = 0;
    memset(covered, 0, sizeof covered);
    for (; next_run(&r); runs++) check_run(&r);
    print_message("%zu runs\n", runs);
    assert_true(runs >= COUNT(ranks_of) * COUNT(recordings)); /* the two factors of most values */
}

/* Every number of ranks with every number of threads. */
static void test_all_ranks_and_threads_give_the_same_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(ranks_of); i++)
        for (size_t j = 0; j < COUNT(threads_of); j++) {
            run r = {.at = {[RANKS] = i, [THREADS] = j, [CHUNK] = 1}};
            check_run(&r);
        }
}

static void test_the_recordings_are_as_awkward_as_they_should_be(void **state)
{
    (void)state;
    run r = {.at = {0}};
    case_set set;
    for (r.at[RECORDING] = 0; r.at[RECORDING] < COUNT(recordings); r.at[RECORDING]++) {
        char *path = reference_set(&r);
        case_open_set(&set, path);
        print_message("%s: %zu tokens, %zu frames, %zu segments\n", recordings[r.at[RECORDING]].what, set.n,
                      set.info->n_frames, set.info->n_segments);
        if (CASE_SANITIZED) {
            assert_true(set.n > 64);
        } else if (strcmp(recordings[r.at[RECORDING]].what, "few tokens") == 0) {
            assert_true(set.n <= 7 * 16); /* fewer chunks of 16 than 8 ranks */
            assert_true(set.n > 64);      /* and more than one of 64 */
        } else {
            for (size_t i = 1; i < COUNT(ranks_of); i++) assert_true(set.n % (size_t)ranks_of[i] != 0);
            assert_true(set.n % 16 != 0);
        }
        if (r.at[RECORDING] == 0 && !CASE_SANITIZED) assert_true(set.n > 64 * 8 * 4); /* eight ranks have a ring at chunk 64 */
        case_close_set(&set);
        free(path);
    }
}

/* ------------------------------------------------------------------ other shapes of model */

/* A window of 64 tokens over shards of one or two chunks of 16, and one of 7; all in other precisions. */
static void check_model(const char *name, const char *path, uint64_t chunk, uint64_t context)
{
    lr_model *model = case_model(name, LR_ISA_AUTO, LR_GEMM_AUTO);
    char *one = lrt_path(here.directory, "one"), *other = lrt_path(here.directory, "other"), what[96];
    lr_encode_options options = lr_encode_defaults();
    options.chunk = chunk;
    options.context = context;
    options.save_tokens = options.force = true;
    options.threads = 1;
    case_encode(model, path, one, &options, NULL);
    for (size_t i = 1; i < COUNT(ranks_of); i++) {
        options.ranks = ranks_of[i];
        options.threads = threads_of[i % COUNT(threads_of)];
        (void)snprintf(what, sizeof what, "%s: %d ranks of %d threads and one", name, options.ranks,
                       options.threads);
        case_encode(model, path, other, &options, NULL);
        case_same_set(one, other, what);
    }
    free(other);
    free(one);
    lr_model_close(model);
}

static void test_shards_shorter_than_the_window_give_the_same_bytes(void **state)
{
    (void)state;
    case_clip clip = {"short.mkv", 18, 10, {3, 1}, 7, 33333};
    char *path = case_make_clip(here.directory, &clip);
    check_model("long", path, 16, 0);
    free(path);
}

static void test_another_shape_of_model_gives_the_same_bytes(void **state)
{
    (void)state;
    case_clip clip = {"odd.mkv", 31, 20, {3, 1}, 20, 99991};
    char *path = case_make_clip(here.directory, &clip);
    check_model("odd", path, 16, 0);
    check_model("odd", path, 64, 200);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_recordings_are_as_awkward_as_they_should_be),
        cmocka_unit_test(test_all_ranks_and_threads_give_the_same_bytes),
        cmocka_unit_test(test_every_pair_of_choices_gives_the_bytes_of_one_rank),
        cmocka_unit_test(test_shards_shorter_than_the_window_give_the_same_bytes),
        cmocka_unit_test(test_another_shape_of_model_gives_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
