/* Picture sizes and sound token counts. */
#include <limits.h>
#include <stdlib.h>

#include "fixture_ids.h"

static lr_picture_geometry geometry_of(int budget, int patch, int pool)
{
    return (lr_picture_geometry){.patch = patch, .pool = pool, .budget = budget};
}

static void test_picture_sizes_are_the_reference_s(void **state)
{
    (void)state;
    json_t *rows = fixture_json("", "target_size.json"), *row;
    size_t i;
    assert_true(json_array_size(rows) > 20);
    json_array_foreach(rows, i, row)
    {
        int v[7], w, h;
        uint64_t soft;
        lr_error err = {0};
        for (size_t k = 0; k < 7; k++)
            v[k] = (int)json_integer_value(json_array_get(row, k));
        lr_picture_geometry geometry = geometry_of(v[2], v[3], v[4]);
        lr_status st = lr_picture_size(&geometry, v[0], v[1], &w, &h, &soft, &err);
        if (v[5] == 0) {
            assert_int_not_equal(st, LR_OK);
            continue;
        }
        lrt_assert_ok(st, &err);
        if (w != v[5] || h != v[6])
            fail_msg("%d x %d, budget %d: %d x %d, not %d x %d", v[0], v[1], v[2], w, h, v[5],
                     v[6]);
        int side = v[3] * v[4];
        assert_int_equal(soft, (uint64_t)(w / side) * (uint64_t)(h / side));
        assert_true(soft <= (uint64_t)v[2]);
    }
    json_decref(rows);
}

static void test_usual_shapes_have_their_usual_counts(void **state)
{
    (void)state;
    /* width, height, budget -> width, height, soft tokens */
    static const int table[][6] = {
        {1920, 1080, 70, 528, 288, 66}, {1280, 720, 70, 528, 288, 66},
        {640, 480, 70, 432, 336, 63},   {720, 576, 70, 432, 336, 63},
        {500, 500, 70, 384, 384, 64},   {2400, 1000, 70, 576, 240, 60},
        {16, 9, 70, 528, 288, 66},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        lr_picture_geometry geometry = geometry_of(table[i][2], 16, 3);
        int w, h;
        uint64_t soft;
        lr_error err = {0};
        lrt_assert_ok(lr_picture_size(&geometry, table[i][0], table[i][1], &w, &h, &soft, &err),
                      &err);
        assert_int_equal(w, table[i][3]);
        assert_int_equal(h, table[i][4]);
        assert_int_equal(soft, table[i][5]);
    }
}

static void test_thin_pictures_are_one_soft_token_high(void **state)
{
    (void)state;
    lr_picture_geometry geometry = geometry_of(70, 16, 3);
    int w, h;
    uint64_t soft;
    lr_error err = {0};
    lrt_assert_ok(lr_picture_size(&geometry, 100000, 10, &w, &h, &soft, &err), &err);
    assert_int_equal(h, 48);
    assert_int_equal(w, 70 * 48); /* capped by the budget */
    lrt_assert_ok(lr_picture_size(&geometry, 10, 100000, &w, &h, &soft, &err), &err);
    assert_int_equal(w, 48);
    assert_int_equal(soft, 70);
    /* The whole part of the ratio, 75, would be more than 70; below the cap it decides. */
    lrt_assert_ok(lr_picture_size(&geometry, 717, 10, &w, &h, &soft, &err), &err);
    assert_int_equal(soft, 70);
}

static void test_sizes_that_make_no_picture_are_refused(void **state)
{
    (void)state;
    static const int bad[][5] = {
        /* width, height, budget, patch, pool */
        {0, 10, 70, 16, 3},
        {10, 0, 70, 16, 3},
        {-5, 10, 70, 16, 3},
        {10, 10, 0, 16, 3},
        {10, 10, -1, 16, 3},
        {10, 10, 70, 0, 3},
        {10, 10, 70, 16, 0},
        {10, 10, 70, 70000, 1},
        {10, 10, 70, INT_MAX, INT_MAX},
        {10, 10, INT_MAX, 16, 3},
        {INT_MAX, INT_MAX, 70, 16, 3},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lr_picture_geometry geometry = geometry_of(bad[i][2], bad[i][3], bad[i][4]);
        int w, h;
        uint64_t soft;
        lr_error err = {0};
        assert_int_equal(lr_picture_size(&geometry, bad[i][0], bad[i][1], &w, &h, &soft, &err),
                         LR_E_USAGE);
        assert_int_not_equal(err.text[0], 0);
    }
}

static void test_random_pictures_stay_inside_the_budget(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 11);
    for (int i = 0; i < 200000; i++) {
        lr_picture_geometry geometry =
            geometry_of((int)lrt_between(&random, 1, 1120), (int)lrt_between(&random, 1, 32),
                        (int)lrt_between(&random, 1, 4));
        int limit = i % 2 ? 5000 : 50, w, h, side = geometry.patch * geometry.pool;
        uint64_t soft;
        lr_status st = lr_picture_size(&geometry, (int)lrt_between(&random, 1, limit),
                                       (int)lrt_between(&random, 1, limit), &w, &h, &soft, NULL);
        if (st != LR_OK) continue; /* a budget of 1 may round to nothing */
        assert_true(w > 0 && h > 0 && w % side == 0 && h % side == 0);
        assert_true(soft == (uint64_t)(w / side) * (uint64_t)(h / side));
        assert_true(soft >= 1 && soft <= (uint64_t)geometry.budget);
    }
}

static void test_sound_counts_are_the_reference_s(void **state)
{
    (void)state;
    json_t *expected = fixture_json("regular", "expected.json"), *row;
    json_t *counts = json_object_get(expected, "audio_counts");
    size_t i;
    assert_true(json_array_size(counts) > 10);
    json_array_foreach(counts, i, row)
    {
        int64_t samples = json_integer_value(json_array_get(row, 0));
        assert_int_equal(lr_sound_tokens(samples), json_integer_value(json_array_get(row, 2)));
    }
    json_decref(expected);
}

static void test_sound_counts_at_the_edges(void **state)
{
    (void)state;
    static const int64_t table[][2] = {
        {0, 0},   {-1, 0},  {INT64_MIN, 0}, {160, 0},    {161, 1},      {640, 1},
        {641, 1}, {801, 2}, {16000, 25},    {59200, 93}, {480000, 750}, {57600000, 90000},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_int_equal(lr_sound_tokens(table[i][0]), table[i][1]);
    assert_int_equal(lr_sound_tokens(INT64_MAX), UINT64_C(14411518807585587));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_picture_sizes_are_the_reference_s),
        cmocka_unit_test(test_usual_shapes_have_their_usual_counts),
        cmocka_unit_test(test_thin_pictures_are_one_soft_token_high),
        cmocka_unit_test(test_sizes_that_make_no_picture_are_refused),
        cmocka_unit_test(test_random_pictures_stay_inside_the_budget),
        cmocka_unit_test(test_sound_counts_are_the_reference_s),
        cmocka_unit_test(test_sound_counts_at_the_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
