#include "set_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct found {
    lr_hit *hits;
    size_t count;
} found;

typedef struct world {
    char *dir;
    lr_set *sets[3];
    set_case cases[3];
} world;

static int set_up(void **state) {
    world *w = calloc(1, sizeof *w);
    w->dir = lrt_temp_dir();
    for (size_t i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), 0};
        char *path = lrt_path(w->dir, name);
        lr_error err = {0};
        w->cases[i] = (set_case){.dim = 24, .n_segments = 40 + i, .n_frames = 9, .seed = 11 + i,
                                 .model_hash = "aa", .key = "k"};
        lrt_assert_ok(write_set(path, &w->cases[i], &err), &err);
        lrt_assert_ok(lr_set_open(&w->sets[i], path, &err), &err);
        free(path);
    }
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    world *w = *state;
    for (size_t i = 0; i < 3; i++) lr_set_close(w->sets[i]);
    lrt_remove_temp_dir(w->dir);
    free(w);
    return 0;
}

static found search(const world *w, const float *query, size_t k, bool merge, lr_level level) {
    found f = {0};
    lr_error err = {0};
    const lr_kernels *kernels = NULL;
    lrt_assert_ok(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &kernels, &err), &err);
    lrt_assert_ok(lr_search(kernels, NULL, w->sets, 3, query, 24, level, k, merge, &f.hits, &f.count,
                            &err), &err);
    return f;
}

static void test_search_finds_a_row_by_itself(void **state) {
    world *w = *state;
    for (size_t s = 0; s < 3; s++) {
        for (size_t r = 0; r < w->cases[s].n_segments; r += 7) {
            float query[24];
            case_vector(&w->cases[s], r, query);
            found f = search(w, query, 3, false, LR_LEVEL_SEGMENT);
            assert_int_equal(f.count, 3);
            assert_int_equal(f.hits[0].set, s);
            assert_true(f.hits[0].start == 10.0 * (double)r && f.hits[0].end == 10.0 * (double)r + 10);
            assert_true(fabsf(f.hits[0].score - 1) < 1e-6f);
            assert_true(f.hits[0].score >= f.hits[1].score && f.hits[1].score >= f.hits[2].score);
            lr_free(f.hits);
        }
    }
}

/* Against every score worked out in double. fp32 dot product of 24 terms: 24 * 2^-24 < 2e-6. */
static void test_search_returns_exactly_the_best(void **state) {
    world *w = *state;
    float query[24];
    case_vector(&w->cases[0], 9999, query);
    found f = search(w, query, 10, false, LR_LEVEL_SEGMENT);
    assert_int_equal(f.count, 10);
    size_t better = 0;
    for (size_t s = 0; s < 3; s++) {
        for (size_t r = 0; r < w->cases[s].n_segments; r++) {
            float row[24];
            double score = 0;
            case_vector(&w->cases[s], r, row);
            for (size_t d = 0; d < 24; d++) score += (double)row[d] * query[d];
            better += score > (double)f.hits[9].score + 2e-6;
        }
    }
    assert_true(better <= 9);
    lr_free(f.hits);
}

/* A query between two neighbouring segments: one range of both, with the better score. */
static void test_search_merges_neighbours(void **state) {
    world *w = *state;
    float a[24], b[24], query[24];
    double sum = 0;
    case_vector(&w->cases[1], 20, a);
    case_vector(&w->cases[1], 21, b);
    for (size_t d = 0; d < 24; d++) {
        query[d] = 1.1f * a[d] + b[d];
        sum += (double)query[d] * query[d];
    }
    for (size_t d = 0; d < 24; d++) query[d] = (float)(query[d] / sqrt(sum));
    found single = search(w, query, 2, false, LR_LEVEL_SEGMENT);
    found merged = search(w, query, 2, true, LR_LEVEL_SEGMENT);
    assert_true(merged.hits[0].score == single.hits[0].score);
    assert_int_equal(merged.hits[0].set, 1);
    assert_true(merged.hits[0].start <= 200 && merged.hits[0].end >= 220);
    assert_int_equal(merged.count, 2);
    lr_free(single.hits);
    lr_free(merged.hits);
}

static void test_search_levels_give_their_times(void **state) {
    world *w = *state;
    float query[24];
    case_vector(&w->cases[2], w->cases[2].n_segments + 4, query); /* frame 4 */
    found f = search(w, query, 1, false, LR_LEVEL_FRAME);
    assert_int_equal(f.hits[0].set, 2);
    assert_true(fabs(f.hits[0].start - 0.4) < 1e-9 && fabs(f.hits[0].end - 0.5) < 1e-9);
    lr_free(f.hits);
    f = search(w, query, 10, true, LR_LEVEL_RECORDING);
    assert_int_equal(f.count, 3);
    assert_true(f.hits[0].start == 0);
    lr_free(f.hits);
    f = search(w, query, 1000, true, LR_LEVEL_SEGMENT); /* more than there are */
    assert_int_equal(f.count, 3);                       /* each set one range */
    lr_free(f.hits);
}

static void test_search_refuses_another_width_by_name(void **state) {
    world *w = *state;
    float query[24] = {1};
    lr_error err = {0};
    const lr_kernels *kernels = NULL;
    lr_hit *hits = NULL;
    size_t count;
    lrt_assert_ok(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &kernels, &err), &err);
    assert_int_equal(lr_search(kernels, NULL, w->sets, 3, query, 16, LR_LEVEL_SEGMENT, 5, true, &hits,
                               &count, &err), LR_E_USAGE);
    assert_non_null(strstr(err.text, lr_set_info_of(w->sets[0])->path));
    lr_error_clear(&err);
    query[3] = NAN;
    assert_int_equal(lr_search(kernels, NULL, w->sets, 3, query, 24, LR_LEVEL_SEGMENT, 5, true, &hits,
                               &count, &err), LR_E_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search_finds_a_row_by_itself),
        cmocka_unit_test(test_search_returns_exactly_the_best),
        cmocka_unit_test(test_search_merges_neighbours),
        cmocka_unit_test(test_search_levels_give_their_times),
        cmocka_unit_test(test_search_refuses_another_width_by_name),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
