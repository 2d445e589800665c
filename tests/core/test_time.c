#include "lr_test.h"

#include <math.h>
#include <string.h>

#define SECOND LR_TIME_SECOND

static void test_unit_divides_the_usual_rates_exactly(void **state)
{
    (void)state;
    static const int64_t rates[] = {24,    25,    30,    50,    60,    120,   1000,
                                    8000,  11025, 16000, 22050, 24000, 32000, 44100,
                                    48000, 88200, 90000, 96000, 176400, 192000};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        assert_int_equal(SECOND % rates[i], 0);
    assert_int_equal(SECOND * 1001 % 30000, 0);
    assert_int_equal(SECOND * 1001 % 24000, 0);
}

static void test_rescale_rounds_halves_away_from_zero(void **state)
{
    (void)state;
    assert_int_equal(lr_rescale(1, 1, 2), 1);
    assert_int_equal(lr_rescale(-1, 1, 2), -1);
    assert_int_equal(lr_rescale(3, 1, 2), 2);
    assert_int_equal(lr_rescale(-3, 1, 2), -2);
    assert_int_equal(lr_rescale(1, 1, 3), 0);
    assert_int_equal(lr_rescale(2, 1, 3), 1);
    assert_int_equal(lr_rescale(-2, 1, 3), -1);
    assert_int_equal(lr_rescale(7, -2, 4), -4);
    assert_int_equal(lr_rescale(0, 5, 7), 0);
}

static void test_rescale_floor_rounds_down(void **state)
{
    (void)state;
    assert_int_equal(lr_rescale_floor(1, 1, 2), 0);
    assert_int_equal(lr_rescale_floor(-1, 1, 2), -1);
    assert_int_equal(lr_rescale_floor(-2, 1, 2), -1);
    assert_int_equal(lr_rescale_floor(7, 1, 3), 2);
    assert_int_equal(lr_rescale_floor(-7, 1, 3), -3);
    assert_int_equal(lr_rescale_floor(-7, -1, 3), 2);
}

static void test_rescale_uses_128_bits_and_saturates(void **state)
{
    (void)state;
    assert_int_equal(lr_rescale(INT64_MAX, INT64_MAX, INT64_MAX), INT64_MAX);
    assert_int_equal(lr_rescale(INT64_MAX - 1, INT64_MAX, INT64_MAX), INT64_MAX - 1);
    /* 0.75 * (2^63 - 1) = 6917529027641081855.25 */
    assert_int_equal(lr_rescale(INT64_MAX, 3, 4), INT64_C(6917529027641081855));
    assert_int_equal(lr_rescale_floor(-INT64_MAX, 3, 4), -INT64_C(6917529027641081856));
    assert_int_equal(lr_rescale(INT64_MIN, 1, 2), -(INT64_C(1) << 62));
    assert_int_equal(lr_rescale(INT64_MAX, 2, 1), INT64_MAX);
    assert_int_equal(lr_rescale(-INT64_MAX, 2, 1), -INT64_MAX);
    assert_int_equal(lr_rescale(INT64_MIN, INT64_MIN, 1), INT64_MAX);
    assert_int_equal(lr_rescale(INT64_MIN, INT64_MAX, 1), -INT64_MAX);
    /* The result is never LR_TIME_NONE. */
    assert_int_equal(lr_rescale(INT64_MIN, 1, 1), -INT64_MAX);
    assert_int_equal(lr_rescale_floor(INT64_MIN, 1, 1), -INT64_MAX);
    assert_int_equal(lr_rescale_floor(INT64_MAX, INT64_MAX, 1), INT64_MAX);
    assert_int_equal(lr_rescale(5, 1, 0), INT64_MAX);
    assert_int_equal(lr_rescale(-5, 1, 0), -INT64_MAX);
    assert_int_equal(lr_rescale(INT64_MIN, INT64_MIN, INT64_MIN), -INT64_MAX);
}

static void test_rescale_agrees_with_small_integers(void **state)
{
    (void)state;
    for (int64_t value = -40; value <= 40; value++)
        for (int64_t num = -5; num <= 5; num++)
            for (int64_t den = 1; den <= 9; den++) {
                double exact = (double)(value * num) / (double)den;
                assert_int_equal(lr_rescale(value, num, den), (int64_t)round(exact));
                assert_int_equal(lr_rescale_floor(value, num, den), (int64_t)floor(exact));
            }
}

static void test_grid_times_are_k_over_fps(void **state)
{
    (void)state;
    assert_int_equal(lr_grid_time(0, (lr_rational){1, 1}), 0);
    assert_int_equal(lr_grid_time(3600, (lr_rational){1, 1}), 3600 * SECOND);
    assert_int_equal(lr_grid_time(-3, (lr_rational){2, 1}), -SECOND * 3 / 2);
    assert_int_equal(lr_grid_time(30000, (lr_rational){30000, 1001}), 1001 * SECOND);
    assert_int_equal(lr_grid_time(1, (lr_rational){7, 1}), SECOND / 7);
    assert_int_equal(lr_grid_time(7, (lr_rational){1, 5}), 35 * SECOND);
    /* 11 does not divide the unit: 705600000 / 11 = 64145454.54... */
    assert_int_equal(lr_grid_time(1, (lr_rational){11, 1}), 64145455);
    assert_int_equal(lr_grid_time(-1, (lr_rational){11, 1}), -64145455);
    assert_int_equal(lr_grid_time(11000000001, (lr_rational){11, 1}),
                     1000000000 * SECOND + 64145455);
    assert_int_equal(lr_grid_time(INT64_MAX, (lr_rational){INT64_MAX, 1}), SECOND);
    assert_int_equal(lr_grid_time(INT64_MAX, (lr_rational){INT64_MAX, INT64_MAX}), INT64_MAX);
    assert_int_equal(lr_grid_time(-INT64_MAX, (lr_rational){1, INT64_MAX}), -INT64_MAX);
}

static void test_seconds_and_none(void **state)
{
    (void)state;
    assert_true(lr_time_seconds(SECOND * 5 / 2) == 2.5);
    assert_true(lr_time_seconds(-SECOND / 4) == -0.25);
    assert_true(isnan(lr_time_seconds(LR_TIME_NONE)));
}

static void test_whole_seconds_round_halves_to_even(void **state)
{
    (void)state;
    for (int64_t half = -2001; half <= 2001; half++) {
        lr_time t = half * (SECOND / 2);
        assert_int_equal(lr_time_round_even(t), (int64_t)rint((double)half / 2.0));
        int64_t below = (int64_t)floor((double)half / 2.0), above = (int64_t)ceil((double)half / 2.0);
        /* One unit off the half decides. */
        assert_int_equal(lr_time_round_even(t - 1), below);
        assert_int_equal(lr_time_round_even(t + 1), above);
    }
    assert_int_equal(lr_time_round_even(INT64_MAX), 13071672388); /* ...13071672387.83 */
}

static void test_rationals_are_read_in_lowest_terms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t num, den;
    } cases[] = {
        {"1", 1, 1},           {"10", 10, 1},   {"0.25", 1, 4},      {"1/5", 1, 5},
        {"30000/1001", 30000, 1001}, {"2.50", 5, 2}, {"6/4", 3, 2}, {"007", 7, 1},
        {"29.97", 2997, 100},  {"2147483647", INT32_MAX, 1}, {"0.000000001", 1, 1000000000},
        {"10.000000000", 10, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lr_error err = {0};
        lr_rational r = {0, 0};
        lrt_assert_ok(lr_parse_rational(cases[i].text, &r, &err), &err);
        assert_int_equal(r.num, cases[i].num);
        assert_int_equal(r.den, cases[i].den);
    }
}

static void test_malformed_rationals_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "", "0", "0.0", "0/5", "5/0", "-1", "+1", "1/-5", "1e3", "nan", "inf", " 1", "1 ", "1.",
        ".5", "1/", "/5", "1/5/2", "1.5/2", "1/2.5", "0x10", "1,5", "2147483648", "1/2147483648",
        "0.0000000001", "99999999999999999999", "1\n", "\xd9\xa1",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lr_error err = {0};
        lr_rational r = {3, 4};
        if (lr_parse_rational(cases[i], &r, &err) != LR_E_USAGE)
            fail_msg("\"%s\" was accepted", cases[i]);
        assert_int_equal(err.status, LR_E_USAGE);
        assert_non_null(strstr(err.text, cases[i]));
        assert_int_equal(r.num, 3);
        assert_int_equal(r.den, 4);
    }
}

static void test_times_are_read_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        lr_time t;
    } cases[] = {
        {"0", 0},
        {"12.5", 25 * SECOND / 2},
        {"3600", 3600 * SECOND},
        {"1:02:03.5", (3723 * 2 + 1) * (SECOND / 2)},
        {"61:05", 3665 * SECOND},
        {"00:00:00", 0},
        {"100:00:00", 360000 * SECOND},
        {"0.000000001", 1}, /* 0.7056 units */
        {"0.1", SECOND / 10},
        {"0.999999999999999999", SECOND},
        {"0.333", SECOND / 1000 * 333},
        {"13071672386", 13071672386 * SECOND},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lr_error err = {0};
        lr_time t = -1;
        lrt_assert_ok(lr_parse_time(cases[i].text, &t, &err), &err);
        assert_int_equal(t, cases[i].t);
    }
}

static void test_malformed_times_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "", "-1", "+1", "1.", ".5", ":5", "5:", "1:5", "1:60", "1:60:00", "1:00:60", "1:2:3",
        "1:00:00:00", "1.5:00", "1:00.5:00", "abc", "1s", " 1", "1 ", "nan", "inf", "1e3",
        "13071672387", "99999999999999999999", "153722867280912930:08", "0.1234567890123456789",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lr_error err = {0};
        lr_time t = 42;
        if (lr_parse_time(cases[i], &t, &err) != LR_E_USAGE)
            fail_msg("\"%s\" was accepted", cases[i]);
        assert_non_null(strstr(err.text, cases[i]));
        assert_int_equal(t, 42);
    }
}

static void test_clock_shows_whole_seconds_rounded_down(void **state)
{
    (void)state;
    static const struct {
        lr_time t;
        const char *text;
    } cases[] = {
        {0, "00:00:00"},
        {SECOND - 1, "00:00:00"},
        {SECOND, "00:00:01"},
        {3599 * SECOND, "00:59:59"},
        {3723 * SECOND + SECOND / 2, "01:02:03"},
        {360000 * SECOND, "100:00:00"},
        {-1, "-00:00:01"},
        {-SECOND, "-00:00:01"},
        {LR_TIME_NONE, "--:--:--"},
        {INT64_MAX, "3631020:06:27"}, /* 13071672387 s */
        {-INT64_MAX, "-3631020:06:28"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char buffer[24];
        assert_ptr_equal(lr_time_clock(cases[i].t, buffer), buffer);
        assert_string_equal(buffer, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unit_divides_the_usual_rates_exactly),
        cmocka_unit_test(test_rescale_rounds_halves_away_from_zero),
        cmocka_unit_test(test_rescale_floor_rounds_down),
        cmocka_unit_test(test_rescale_uses_128_bits_and_saturates),
        cmocka_unit_test(test_rescale_agrees_with_small_integers),
        cmocka_unit_test(test_grid_times_are_k_over_fps),
        cmocka_unit_test(test_seconds_and_none),
        cmocka_unit_test(test_whole_seconds_round_halves_to_even),
        cmocka_unit_test(test_rationals_are_read_in_lowest_terms),
        cmocka_unit_test(test_malformed_rationals_are_refused),
        cmocka_unit_test(test_times_are_read_exactly),
        cmocka_unit_test(test_malformed_times_are_refused),
        cmocka_unit_test(test_clock_shows_whole_seconds_rounded_down),
    };
    return cmocka_run_group_tests_name("core time", tests, NULL, NULL);
}
