/* Slots of the device that work on rows, over a grid of shapes, strides and formats: against the formula in
 * double precision, and each row against itself alone. */
#include "device_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float eps = 1e-6f;

typedef enum norm_kind { RMS, RMS_ADD, LAYER } norm_kind;

typedef struct norm_case {
    norm_kind kind;
    size_t rows, heads, dim, pad; /* pad: values between heads and between rows that stay */
    lr_dtype from, to;
    bool gain;
    case_values x, y, w, b;
} norm_case;

static size_t head_of(const norm_case *c)
{
    return c->dim + c->pad;
}

static size_t ld_of(const norm_case *c)
{
    return c->heads * head_of(c) + c->pad;
}

static void run_norm(const norm_case *c, size_t first, size_t rows)
{
    const lr_device_ops *ops = case_device->ops;
    size_t ld = ld_of(c), head = head_of(c);
    lr_rows x = {c->x.at + first * ld * lr_dtype_size(c->from), ld, head, c->from};
    lr_rows y = {c->y.at + first * ld * lr_dtype_size(c->to), ld, head, c->to};
    lr_device_at w = c->gain ? c->w.at : 0;
    if (c->kind == RMS) ops->rms_norm(case_stream, y, x, w, rows, c->heads, c->dim, eps);
    else if (c->kind == RMS_ADD) ops->rms_norm_add(case_stream, y, x, w, rows, c->dim, eps);
    else ops->layer_norm(case_stream, y, x, w, c->gain ? c->b.at : 0, rows, c->dim, eps);
}

/* The sum of n terms: a lane adds n / 32 (8 at least) of them one after another, then 5 steps of the tree;
 * each term has a rounding of its own, and the division one. */
static double sum_error(size_t n)
{
    return ((double)(n / 32) + 8 + 5 + 2) * U;
}

/* As on the CPU (tests/kernels/check_norm.c), with the rounding of what is stored on top: a mean off by m
 * shifts each deviation; s has half the relative error of the mean square, and two roundings more. */
static void check_head(const norm_case *c, const float *x, const float *before, const float *got)
{
    double n = (double)c->dim, sum = 0, size = 0, squares = 0;
    for (size_t i = 0; i < c->dim; i++) {
        sum += x[i];
        size += fabsf(x[i]);
    }
    double mean = c->kind == LAYER ? sum / n : 0;
    double m = c->kind == LAYER ? (sum_error(c->dim) + U) * size / n : 0;
    for (size_t i = 0; i < c->dim; i++) squares += (x[i] - mean) * (x[i] - mean);
    double v = squares / n, s = 1 / sqrt(v + (double)eps);
    double s_error = 0.5 * ((sum_error(c->dim) + 4 * U) * v + m * m) * s * s + 3 * U;
    double stored = c->to == LR_BF16 ? U_BF16 : U;
    for (size_t i = 0; i < c->dim; i++) {
        double w = c->gain ? (double)c->w.host[i] : 1, b = c->gain && c->kind == LAYER ? (double)c->b.host[i] : 0;
        double z = (x[i] - mean) * s * w, more = c->kind == RMS_ADD ? (double)before[i] : b, want = z + more;
        double bound = (fabs(z) * (s_error + 3 * U) + fabs(w) * s * m) * 1.01;
        bound += (fabs(want) + bound) * (stored + U) * 1.01 + 0x1p-126;
        if (!(fabs(got[i] - want) <= bound))
            fail_msg("norm %d, %zu x %zu x %zu: value %zu is %.9g, not %.12g (off by %.3g, allowed %.3g)", c->kind,
                     c->rows, c->heads, c->dim, i, (double)got[i], want, fabs(got[i] - want), bound);
    }
}

static bool is_value(const norm_case *c, size_t i)
{
    size_t in_row = i % ld_of(c);
    return in_row < c->heads * head_of(c) && in_row % head_of(c) < c->dim;
}

static void check_norm(norm_case *c, lrt_random *random)
{
    lr_error err = {0};
    size_t ld = ld_of(c), head = head_of(c), n = c->rows * ld;
    c->x = case_normal(random, n, 3, c->from);
    c->y = case_normal(random, n, 3, c->to);
    c->w = case_normal(random, c->dim, 1, LR_F32);
    c->b = case_normal(random, c->dim, 1, LR_F32);
    run_norm(c, 0, c->rows);
    float *all = case_download(&c->y);
    for (size_t i = 0; i < n; i++)
        if (!is_value(c, i)) assert_memory_equal(&all[i], &c->y.host[i], sizeof(float));
    for (size_t r = 0; r < c->rows; r++)
        for (size_t h = 0; h < c->heads; h++) {
            size_t at = r * ld + h * head;
            check_head(c, c->x.host + at, c->y.host + at, all + at);
        }
    case_upload(&c->y); /* as it was */
    for (size_t r = c->rows; r-- > 0;) run_norm(c, r, 1);
    float *alone = case_download(&c->y);
    assert_memory_equal(all, alone, n * sizeof *all);
    lrt_assert_ok(case_device->ops->wait(case_stream, &err), &err);
    free(all);
    free(alone);
    case_free(&c->x);
    case_free(&c->y);
    case_free(&c->w);
    case_free(&c->b);
}

static void norms_of(norm_kind kind, size_t most_heads)
{
    static const size_t dims[] = {1, 7, 8, 9, 31, 64, 100, 256, 264, 512, 1001};
    static const lr_dtype types[][2] = {{LR_F32, LR_BF16}, {LR_BF16, LR_F32}, {LR_BF16, LR_BF16}, {LR_F32, LR_F32}};
    lrt_random random;
    lrt_random_init(&random, 100 + kind);
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (size_t t = 0; t < 4; t++) {
            norm_case c = {.kind = kind, .rows = 1 + (d + 2 * t) % 11, .heads = 1 + d % most_heads, .dim = dims[d],
                           .pad = (d + t) % 3 * 4, .from = types[t][0], .to = types[t][1], .gain = (d + t) % 4 != 0};
            check_norm(&c, &random);
        }
}

static void test_rms_norm_is_within_its_bound(void **state)
{
    (void)state;
    norms_of(RMS, 4);
}

static void test_rms_norm_add_is_within_its_bound(void **state)
{
    (void)state;
    norms_of(RMS_ADD, 1);
}

static void test_layer_norm_is_within_its_bound(void **state)
{
    (void)state;
    norms_of(LAYER, 1);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* mutations.sh */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rms_norm_is_within_its_bound),
        cmocka_unit_test(test_rms_norm_add_is_within_its_bound),
        cmocka_unit_test(test_layer_norm_is_within_its_bound),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
