#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Half a unit in the last place of a float of this size, at most. */
static double half_ulp(double value)
{
    return fabs(value) * U + 0x1p-150;
}

/* cos and sin are rounded once to fp32. Before that the angle is off by the rounding of the
 * frequency (pow: 1 unit of double, 2^-52) and of two products (2^-53 each), relatively, and the
 * addition theorem adds some roundings of values up to 1. */
static void check_angle(size_t dim, double theta, uint64_t position, size_t j, float got_cos,
                        float got_sin)
{
    long double angle =
        (long double)position * powl((long double)theta, -2 * (long double)j / (long double)dim);
    double off = (double)angle * 2 * 0x1p-52 + 8 * 0x1p-53;
    double c = (double)cosl(angle), s = (double)sinl(angle);
    if (!(fabs(got_cos - c) <= half_ulp(c) + off) || !(fabs(got_sin - s) <= half_ulp(s) + off))
        fail_msg("dim %zu, theta %g, position %llu, pair %zu: (%.9g, %.9g), not (%.12g, %.12g)",
                 dim, theta, (unsigned long long)position, j, got_cos, got_sin, c, s);
}

typedef struct table_shape {
    size_t dim;
    double theta;
} table_shape;

static const table_shape shapes[] = {{512, 1e6}, {256, 1e4}, {32, 100},
                                     {20, 1e4},  {2, 1e4},   {130, 5e5}};

void test_rope_angles_equal_long_double(void **state)
{
    (void)state;
    static const uint64_t starts[] = {0, 1, 62, 4095, 392400, 1843199, 100000000};
    lrt_random random;
    lrt_random_init(&random, 31);
    for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++) {
        size_t half = shapes[k].dim / 2, rows = 131;
        float *cosines = lrt_guarded(rows * half), *sines = lrt_guarded(rows * half);
        lr_rope *rope;
        lr_error err = {0};
        lrt_assert_ok(lr_rope_create(&rope, shapes[k].dim, shapes[k].theta, &err), &err);
        for (size_t s = 0; s < sizeof(starts) / sizeof(*starts) + 8; s++) {
            uint64_t start =
                s < sizeof(starts) / sizeof(*starts) ? starts[s] : lrt_below(&random, 2000000);
            lr_rope_angles(rope, start, rows, cosines, sines);
            for (size_t r = 0; r < rows; r++)
                for (size_t j = 0; j < half; j++)
                    check_angle(shapes[k].dim, shapes[k].theta, start + r, j, cosines[r * half + j],
                                sines[r * half + j]);
        }
        lr_rope_free(rope);
        lrt_guarded_free(cosines);
        lrt_guarded_free(sines);
    }
}

void test_rope_angles_depend_on_position_alone(void **state)
{
    (void)state;
    enum { ROWS = 200 };
    lrt_random random;
    lrt_random_init(&random, 32);
    for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++) {
        size_t half = shapes[k].dim / 2;
        float *cosines = lrt_guarded(ROWS * half), *sines = lrt_guarded(ROWS * half);
        float *at_cos = lrt_guarded(ROWS * half), *at_sin = lrt_guarded(ROWS * half);
        int32_t positions[ROWS];
        lr_rope *rope;
        lr_error err = {0};
        lrt_assert_ok(lr_rope_create(&rope, shapes[k].dim, shapes[k].theta, &err), &err);
        for (size_t r = 0; r < ROWS; r++)
            positions[r] = (int32_t)lrt_below(&random, r % 2 ? 500000 : 40);
        lr_rope_angles_at(rope, positions, ROWS, at_cos, at_sin);
        for (size_t r = 0; r < ROWS; r++) {
            uint64_t first = (uint64_t)positions[r] > r ? (uint64_t)positions[r] - r : 0;
            size_t at = (size_t)((uint64_t)positions[r] - first);
            lr_rope_angles(rope, first, at + 1, cosines, sines);
            check_same_bits("cos", at_cos + r * half, cosines + at * half, half);
            check_same_bits("sin", at_sin + r * half, sines + at * half, half);
        }
        lr_rope_free(rope);
        float *blocks[] = {cosines, sines, at_cos, at_sin};
        for (size_t i = 0; i < 4; i++)
            lrt_guarded_free(blocks[i]);
    }
}

void test_rope_refuses_impossible_tables(void **state)
{
    (void)state;
    static const table_shape bad[] = {{0, 1e4}, {1, 1e4}, {63, 1e4},      {SIZE_MAX - 1, 1e4},
                                      {64, 0},  {64, -1}, {64, INFINITY}, {64, NAN}};
    for (size_t k = 0; k < sizeof(bad) / sizeof(*bad); k++) {
        lr_rope *rope;
        lr_error err = {0};
        assert_int_equal(lr_rope_create(&rope, bad[k].dim, bad[k].theta, &err), LR_E_MODEL);
        assert_null(rope);
        assert_true(err.text[0] != 0);
    }
}

static lr_status make_rope(void *arg, lr_error *err)
{
    lr_rope *rope;
    (void)arg;
    lr_status st = lr_rope_create(&rope, 64, 1e4, err);
    lr_rope_free(rope);
    return st;
}

void test_rope_survives_each_failed_allocation(void **state)
{
    (void)state;
    assert_true(lrt_fail_each_allocation(make_rope, NULL) >= 4);
}

/* ------------------------------------------------------------------ the clock */

typedef struct rope_bench {
    lr_rope *rope;
    float *cosines, *sines;
} rope_bench;

static void run_rope_bench(void *arg, const lr_kernels *kernels)
{
    rope_bench *b = arg;
    (void)kernels;
    lr_rope_angles(b->rope, 300000, 1024, b->cosines, b->sines);
}

/* The same code for every table. */
void bench_rope_angles(const char *only)
{
    lr_error err = {0};
    rope_bench b = {.cosines = lrt_guarded(1024 * 128), .sines = lrt_guarded(1024 * 128)};
    lrt_assert_ok(lr_rope_create(&b.rope, 256, 1e4, &err), &err);
    bench("lr_rope_angles 1024x256", only, run_rope_bench, &b, 1024 * 256 * 4, "GB/s");
    lr_rope_free(b.rope);
    lrt_guarded_free(b.cosines);
    lrt_guarded_free(b.sines);
}
