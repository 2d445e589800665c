/* The arithmetic of times, against plain integers wide enough to be obviously right. */
#include "lr_test.h"

#include "recording.h"

static void test_a_moment_is_whole_seconds_and_a_proper_fraction(void **state)
{
    (void)state;
    lri_moment m = lri_moment_of(-1, 1, 3);
    assert_int_equal(m.whole, -1);
    assert_int_equal(m.num, 2);
    assert_int_equal(m.den, 3);
    m = lri_moment_of(3003, 1001, 30000);
    assert_int_equal(m.whole, 100);
    assert_int_equal(m.num * 10000, m.den * 2001); /* 3003 * 1001 / 30000 = 100.2001 */
}

static void test_sums_of_moments_are_exact(void **state)
{
    (void)state;
    lri_moment sum;
    assert_true(lri_moment_add(lri_moment_of(1, 1, 3), lri_moment_of(2, 1, 3), &sum));
    assert_int_equal(sum.whole, 1);
    assert_int_equal(sum.num, 0);
    assert_true(lri_moment_sub(lri_moment_of(1, 1, 90000), lri_moment_of(1, 1, 48000), &sum));
    /* 8/720000 - 15/720000 */
    assert_int_equal(lri_moment_compare(sum, lri_moment_of(-7, 1, 720000)), 0);
    assert_int_equal(lri_moment_compare(lri_moment_of(1, 1, 3), lri_moment_of(333333, 1, 1000000)), 1);
    assert_int_equal(lri_moment_compare(lri_moment_of(-5, 1, 2), lri_moment_of(-2, 1, 1)), -1);
}

/* pts is the answer iff pts * tb <= base + k / fps < (pts + 1) * tb; all terms over one denominator. */
static void check_tick(int64_t base, int64_t base_den, int64_t k, lr_rational fps, AVRational tick)
{
    int64_t pts = lri_grid_tick(lri_moment_of(base, 1, base_den), k, fps, tick);
    lri_wide at = (lri_wide)base * fps.num * tick.den + (lri_wide)k * fps.den * base_den * tick.den;
    lri_wide unit = (lri_wide)tick.num * base_den * fps.num;
    if (pts * unit > at || (pts + 1) * unit <= at)
        fail_msg("grid point %lld at %lld/%lld fps from %lld/%lld s: tick %lld of %d/%d s",
                 (long long)k, (long long)fps.num, (long long)fps.den, (long long)base,
                 (long long)base_den, (long long)pts, tick.num, tick.den);
}

static void test_moments_out_of_range_do_not_go_back(void **state)
{
    (void)state;
    lri_moment a = lri_moment_of(INT64_MAX - 1, INT32_MAX, 7), b = lri_moment_of(INT64_MAX, INT32_MAX, 7), apart;
    assert_true(lri_moment_sub(b, a, &apart));
    assert_int_equal(lri_moment_time(apart), 0);
    a = lri_moment_of(-INT64_MAX, INT32_MAX, 7);
    assert_true(lri_moment_sub(b, a, &apart));
    assert_int_equal(lri_moment_time(apart), INT64_MAX);
    assert_true(lri_moment_sub(a, b, &apart));
    assert_int_equal(lri_moment_time(apart), -INT64_MAX);
}

static void test_the_tick_of_a_grid_point_is_the_last_at_or_before_it(void **state)
{
    (void)state;
    static const AVRational ticks[] = {{1, 90000}, {1, 1000},     {1, 15360}, {1001, 30000},
                                       {1, 44100}, {1, 10000000}, {1, 1},     {66667, 1000000}};
    static const lr_rational rates[] = {{1, 1}, {30000, 1001}, {24000, 1001}, {25, 1}, {1, 7}, {7, 3}};
    lrt_random random;
    lrt_random_init(&random, 1);
    for (int i = 0; i < 200000; i++) {
        AVRational tick = ticks[lrt_below(&random, sizeof ticks / sizeof *ticks)];
        lr_rational fps = rates[lrt_below(&random, sizeof rates / sizeof *rates)];
        int64_t den = lrt_between(&random, 1, 100000);
        check_tick(lrt_between(&random, -1000000000, 1000000000), den, lrt_between(&random, 0, 1000000),
                   fps, tick);
    }
}

/* A float t is just below the frame's time for some k (0.1 * 3 and the like); the exact tick is not. */
static void test_a_grid_at_the_films_own_rate_meets_every_picture(void **state)
{
    (void)state;
    const lr_rational fps = {30000, 1001};
    for (int64_t k = 0; k < 200000; k++) {
        assert_int_equal(lri_grid_tick((lri_moment){0, 0, 1}, k, fps, (AVRational){1001, 30000}), k);
        assert_int_equal(lri_grid_tick((lri_moment){0, 0, 1}, k, fps, (AVRational){1, 30000}), k * 1001);
    }
}

static void test_the_number_of_grid_points_is_the_floor(void **state)
{
    (void)state;
    const lr_rational one = {1, 1}, ntsc = {30000, 1001};
    assert_int_equal(lri_grid_count(lri_moment_of(1999999, 1, 1000000), one), 1);
    assert_int_equal(lri_grid_count(lri_moment_of(2, 1, 1), one), 2);
    assert_int_equal(lri_grid_count(lri_moment_of(300 * 1001, 1, 30000), ntsc), 300);
    assert_int_equal(lri_grid_count(lri_moment_of(300 * 1001 - 1, 1, 30000), ntsc), 299);
    assert_int_equal(lri_grid_count(lri_moment_of(-1, 1, 2), one), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_moment_is_whole_seconds_and_a_proper_fraction),
        cmocka_unit_test(test_sums_of_moments_are_exact),
        cmocka_unit_test(test_moments_out_of_range_do_not_go_back),
        cmocka_unit_test(test_the_tick_of_a_grid_point_is_the_last_at_or_before_it),
        cmocka_unit_test(test_a_grid_at_the_films_own_rate_meets_every_picture),
        cmocka_unit_test(test_the_number_of_grid_points_is_the_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
