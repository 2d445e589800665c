/* Slots that round once or twice a value: every table gives the scalar reference's bits. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ slots over [rows, dim] */

static const float alpha = -0.7f;

/* Row by row where the rows have gaps, else all at once. */
#define EACH_ROW(c, call)                                                                          \
    do {                                                                                           \
        bool flat = (c)->ldy == (c)->dim;                                                          \
        for (size_t k = 0; k < 2; k++)                                                             \
            flat = flat && ((c)->x[k] == NULL || (c)->ldx[k] == (c)->dim);                         \
        size_t n = flat ? (c)->rows * (c)->dim : (c)->dim;                                         \
        for (size_t r = 0; r < (flat ? 1 : (c)->rows); r++) {                                      \
            float *y = (c)->y + r * (c)->ldy;                                                      \
            const float *a = (c)->x[0] + r * (c)->ldx[0];                                          \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

static void run_clamp(const lr_kernels *kernels, const rows_call *c)
{
    EACH_ROW(c, kernels->clamp(y, a, -0.5f, 1.25f, n));
}

static void truth_clamp(const rows_call *c, size_t row, double *y, double *bound)
{
    for (size_t i = 0; i < c->dim; i++) {
        y[i] = fmin(fmax(c->x[0][row * c->ldx[0] + i], -0.5), 1.25);
        bound[i] = 0;
    }
}

static void run_relu(const lr_kernels *kernels, const rows_call *c)
{
    EACH_ROW(c, kernels->relu(y, a, n));
}

static void truth_relu(const rows_call *c, size_t row, double *y, double *bound)
{
    for (size_t i = 0; i < c->dim; i++) {
        y[i] = fmax(c->x[0][row * c->ldx[0] + i], 0);
        bound[i] = 0;
    }
}

static void run_add(const lr_kernels *kernels, const rows_call *c)
{
    EACH_ROW(c, kernels->add(y, a, c->x[1] + r * c->ldx[1], n));
}

static void truth_add(const rows_call *c, size_t row, double *y, double *bound)
{
    for (size_t i = 0; i < c->dim; i++) {
        y[i] = (double)c->x[0][row * c->ldx[0] + i] + c->x[1][row * c->ldx[1] + i];
        bound[i] = fabs(y[i]) * U;
    }
}

static void run_axpy(const lr_kernels *kernels, const rows_call *c)
{
    EACH_ROW(c, kernels->axpy(y, alpha, a, n));
}

static void truth_axpy(const rows_call *c, size_t row, double *y, double *bound)
{
    for (size_t i = 0; i < c->dim; i++) {
        double product = (double)alpha * c->x[0][row * c->ldx[0] + i];
        y[i] = product + c->before[row * c->ldy + i];
        bound[i] = (fabs(product) + fabs(y[i])) * U * 1.01;
    }
}

static void run_scale(const lr_kernels *kernels, const rows_call *c)
{
    EACH_ROW(c, kernels->scale(y, a, alpha, n));
}

static void truth_scale(const rows_call *c, size_t row, double *y, double *bound)
{
    for (size_t i = 0; i < c->dim; i++) {
        y[i] = (double)alpha * c->x[0][row * c->ldx[0] + i];
        bound[i] = fabs(y[i]) * U;
    }
}

const rows_slot check_elementwise_slots[] = {
    {.name = "clamp",
     .n_inputs = 1,
     .in_place = true,
     .exact = true,
     .deviation = 1,
     .run = run_clamp,
     .truth = truth_clamp},
    {.name = "relu",
     .n_inputs = 1,
     .in_place = true,
     .exact = true,
     .deviation = 1,
     .run = run_relu,
     .truth = truth_relu},
    {.name = "add",
     .n_inputs = 2,
     .in_place = true,
     .exact = true,
     .deviation = 1,
     .run = run_add,
     .truth = truth_add},
    {.name = "axpy",
     .n_inputs = 1,
     .adds = true,
     .exact = true,
     .deviation = 1,
     .run = run_axpy,
     .truth = truth_axpy},
    {.name = "scale",
     .n_inputs = 1,
     .in_place = true,
     .exact = true,
     .deviation = 1,
     .run = run_scale,
     .truth = truth_scale},
};
const size_t check_n_elementwise_slots =
    sizeof(check_elementwise_slots) / sizeof(*check_elementwise_slots);

void test_clamp_and_relu_keep_nans_and_signs_of_zero(void **state)
{
    (void)state;
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables);
    for (size_t t = 0; t < n_tables; t++)
        for (size_t n = 2; n <= 34; n += 2) {
            float x[34], y[2][34];
            for (size_t i = 0; i < n; i += 2) {
                x[i] = NAN;
                x[i + 1] = i % 4 ? 0.0f : -0.0f;
            }
            tables[t]->clamp(y[0], x, 0, 1, n);
            tables[t]->relu(y[1], x, n);
            for (size_t i = 0; i < n; i += 2)
                for (size_t k = 0; k < 2; k++) {
                    assert_true(isnan(y[k][i]));
                    check_same_bits("zero", x + i + 1, y[k] + i + 1, 1);
                }
        }
}

/* ------------------------------------------------------------------ rope_half */

typedef struct rope_case {
    size_t rows, n_heads, head, dim, ldx;
} rope_case;

/* Two products and their difference: each product is off by U of itself, the difference by U. */
static void check_turned(const rope_case *c, const float *before, const float *after,
                         const float *cos_row, const float *sin_row)
{
    size_t half = c->dim / 2;
    for (size_t h = 0; h < c->n_heads; h++)
        for (size_t j = 0; j < c->head; j++) {
            const float *x = before + h * c->head, *y = after + h * c->head;
            if (j >= c->dim) {
                check_same_bits("rope_half beyond dim", x + j, y + j, 1);
                continue;
            }
            size_t k = j % half;
            double u = x[j] * (double)cos_row[k];
            double v = (j < half ? -x[j + half] : x[j - half]) * (double)sin_row[k];
            assert_true(fabs(y[j] - (u + v)) <= (fabs(u) + fabs(v) + fabs(u + v)) * U * 1.01);
        }
}

static void check_rope_case(const rope_case *c, lrt_random *random)
{
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables), half = c->dim / 2;
    size_t floats = (c->rows - 1) * c->ldx + c->n_heads * c->head;
    float *x = guarded_normal(random, floats, 1), *y = lrt_guarded(floats);
    float *scalar = lrt_guarded(floats), *alone = lrt_guarded(c->n_heads * c->head + 1);
    float *cosines = guarded_normal(random, c->rows * half, 1);
    float *sines = guarded_normal(random, c->rows * half, 1);
    for (size_t t = 0; t < n_tables; t++) {
        memcpy(y, x, floats * sizeof(*x));
        tables[t]->rope_half(y, c->ldx, c->head, c->n_heads, cosines, sines, c->rows, c->dim);
        if (t == 0) memcpy(scalar, y, floats * sizeof(*x));
        check_same_bits("rope_half", scalar, y, floats);
        for (size_t r = 0; r < c->rows; r++) {
            check_turned(c, x + r * c->ldx, y + r * c->ldx, cosines + r * half, sines + r * half);
            memcpy(alone, x + r * c->ldx, c->n_heads * c->head * sizeof(*x));
            tables[t]->rope_half(alone, c->ldx, c->head, c->n_heads, cosines + r * half,
                                 sines + r * half, 1, c->dim);
            check_same_bits("rope_half", y + r * c->ldx, alone, c->n_heads * c->head);
            for (size_t i = c->n_heads * c->head; r + 1 < c->rows && i < c->ldx; i++)
                check_same_bits("rope_half between rows", x + r * c->ldx + i, y + r * c->ldx + i,
                                1);
        }
    }
    float *blocks[] = {x, y, scalar, alone, cosines, sines};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++)
        lrt_guarded_free(blocks[i]);
}

void test_rope_half_turns_each_head(void **state)
{
    (void)state;
    static const rope_case cases[] = {
        {1, 1, 2, 2, 2},        {3, 2, 6, 4, 13},      {5, 3, 16, 16, 48},
        {2, 4, 64, 32, 300},    {7, 1, 34, 34, 34},    {4, 12, 64, 64, 2304},
        {3, 4, 256, 256, 1024}, {2, 5, 130, 130, 651}, {3, 2, 512, 512, 1024},
        {2, 3, 80, 78, 240},
    };
    lrt_random random;
    lrt_random_init(&random, 21);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        check_rope_case(&cases[i], &random);
}

/* ------------------------------------------------------------------ rope_pairs */

/* Two products and their sum, each rounded once. */
static void check_turned_pairs(const rope_case *c, const float *before, const float *after,
                               const float *cos_row, const float *sin_row)
{
    for (size_t h = 0; h < c->n_heads; h++)
        for (size_t j = 0; j < c->head; j++) {
            const float *x = before + h * c->head, *y = after + h * c->head;
            if (j >= c->dim) {
                check_same_bits("rope_pairs beyond dim", x + j, y + j, 1);
                continue;
            }
            double u = x[j] * (double)cos_row[j], v = x[j ^ 1] * (double)sin_row[j];
            assert_true(fabs(y[j] - (u + v)) <= (fabs(u) + fabs(v) + fabs(u + v)) * U * 1.01);
        }
}

static void check_pairs_case(const rope_case *c, lrt_random *random)
{
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables);
    size_t floats = (c->rows - 1) * c->ldx + c->n_heads * c->head;
    float *x = guarded_normal(random, floats, 1), *y = lrt_guarded(floats);
    float *scalar = lrt_guarded(floats), *alone = lrt_guarded(c->n_heads * c->head + 1);
    float *cosines = guarded_normal(random, c->rows * c->dim, 1);
    float *sines = guarded_normal(random, c->rows * c->dim, 1);
    for (size_t t = 0; t < n_tables; t++) {
        memcpy(y, x, floats * sizeof(*x));
        tables[t]->rope_pairs(y, c->ldx, c->head, c->n_heads, cosines, sines, c->rows, c->dim);
        if (t == 0) memcpy(scalar, y, floats * sizeof(*x));
        check_same_bits("rope_pairs", scalar, y, floats);
        for (size_t r = 0; r < c->rows; r++) {
            const float *cos_row = cosines + r * c->dim, *sin_row = sines + r * c->dim;
            check_turned_pairs(c, x + r * c->ldx, y + r * c->ldx, cos_row, sin_row);
            memcpy(alone, x + r * c->ldx, c->n_heads * c->head * sizeof(*x));
            tables[t]->rope_pairs(alone, c->ldx, c->head, c->n_heads, cos_row, sin_row, 1, c->dim);
            check_same_bits("rope_pairs", y + r * c->ldx, alone, c->n_heads * c->head);
            for (size_t i = c->n_heads * c->head; r + 1 < c->rows && i < c->ldx; i++)
                check_same_bits("rope_pairs between rows", x + r * c->ldx + i, y + r * c->ldx + i, 1);
        }
    }
    float *blocks[] = {x, y, scalar, alone, cosines, sines};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++)
        lrt_guarded_free(blocks[i]);
}

void test_rope_pairs_turns_each_value_by_its_own_angle(void **state)
{
    (void)state;
    static const rope_case cases[] = {
        {1, 1, 2, 2, 2},      {3, 2, 6, 6, 13},     {5, 3, 16, 12, 48},  {2, 4, 64, 60, 300},
        {7, 1, 34, 30, 34},   {4, 16, 64, 60, 1024}, {3, 4, 80, 78, 333}, {2, 5, 130, 126, 651},
        {3, 2, 512, 510, 1024}, {2, 3, 20, 18, 60},  {2, 3, 28, 24, 84},
    };
    lrt_random random;
    lrt_random_init(&random, 23);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        check_pairs_case(&cases[i], &random);
}

/* ------------------------------------------------------------------ sum_rows, dot */

void test_sum_rows_adds_in_ascending_order(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 3, 4, 5, 8, 11, 16, 31, 64, 100, 512, 769};
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables);
    lrt_random random;
    lrt_random_init(&random, 22);
    for (size_t k = 0; k < sizeof(dims) / sizeof(*dims); k++)
        for (size_t rows = 0; rows < 12; rows++) {
            size_t dim = dims[k], ld = dim + k % 3;
            float *x = guarded_normal(&random, rows ? (rows - 1) * ld + dim : 0, 1e3f), *block;
            double *sum = (double *)(void *)guarded_bytes(dim * sizeof(double), &block);
            for (size_t t = 0; t < n_tables; t++) {
                for (size_t i = 0; i < dim; i++)
                    sum[i] = 1.0 / (double)(i + 3);
                tables[t]->sum_rows(sum, x, ld, rows, dim);
                for (size_t i = 0; i < dim; i++) {
                    double expected = 1.0 / (double)(i + 3);
                    for (size_t r = 0; r < rows; r++)
                        expected += x[r * ld + i];
                    assert_memory_equal(&sum[i], &expected, sizeof(expected));
                }
            }
            lrt_guarded_free(x);
            lrt_guarded_free(block);
        }
}

/* Chains of n / 32 fused steps at most (four chains of 8 lanes), one more for a rest, 5 additions
 * of the tree: each rounds at U of a partial sum, which is no larger than the sum of magnitudes. */
void test_dot_is_within_its_bound(void **state)
{
    (void)state;
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables);
    lrt_random random;
    lrt_random_init(&random, 23);
    for (size_t n = 0; n < 1600; n += 1 + n / 9) {
        float *a = guarded_normal(&random, n, 1), *b = guarded_normal(&random, n, 1);
        double truth = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            truth += (double)a[i] * b[i];
            size += fabs((double)a[i] * b[i]);
        }
        for (size_t t = 0; t < n_tables; t++) {
            float got = tables[t]->dot(a, b, n);
            assert_true(fabs(got - truth) <= size * ((double)(n / 32) + 7) * U);
            float *shifted = lrt_guarded(n + 1);
            memcpy(shifted, a, n * sizeof(*a));
            assert_true(got == tables[t]->dot(shifted, b, n));
            lrt_guarded_free(shifted);
        }
        lrt_guarded_free(a);
        lrt_guarded_free(b);
    }
}

/* ------------------------------------------------------------------ 16-bit floats */

typedef void (*convert_slot)(float *y, const uint16_t *x, size_t n);

/* Sign, `fraction_bits` of fraction, the rest exponent, by the definition. */
static double value16(uint16_t bits, int fraction_bits)
{
    int exponent_bits = 15 - fraction_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
    int fraction = bits & ((1 << fraction_bits) - 1);
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

static void check_converted(const uint16_t *x, const float *y, size_t n, int fraction_bits)
{
    for (size_t i = 0; i < n; i++) {
        double expected = value16(x[i], fraction_bits);
        if (isnan(expected))
            assert_true(isnan(y[i]));
        else
            assert_true((double)y[i] == expected && !signbit(y[i]) == !signbit(expected));
    }
}

static void check_conversion(convert_slot convert, int fraction_bits)
{
    enum { ALL = 65536 };
    uint16_t *x = malloc(ALL * sizeof(*x));
    float *y = lrt_guarded(ALL);
    assert_non_null(x);
    for (size_t i = 0; i < ALL; i++)
        x[i] = (uint16_t)i;
    convert(y, x, ALL);
    check_converted(x, y, ALL, fraction_bits);
    lrt_guarded_free(y);
    free(x);
    for (size_t n = 0; n < 80; n++) { /* half of them at odd addresses, as in a mapped file */
        size_t count = n / 2;
        float *block, *out = lrt_guarded(count);
        uint16_t in[40];
        uint8_t *bytes = guarded_bytes(2 * count + n % 2, &block);
        for (size_t i = 0; i < count; i++)
            in[i] = (uint16_t)(i * 2741 + n);
        memcpy(bytes, in, 2 * count);
        convert(out, (const uint16_t *)(const void *)bytes, count);
        check_converted(in, out, count, fraction_bits);
        lrt_guarded_free(out);
        lrt_guarded_free(block);
    }
}

void test_every_bf16_value_converts(void **state)
{
    (void)state;
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables);
    for (size_t t = 0; t < n_tables; t++)
        check_conversion(tables[t]->bf16_to_f32, 7);
}

void test_every_f16_value_converts(void **state)
{
    (void)state;
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables);
    for (size_t t = 0; t < n_tables; t++)
        check_conversion(tables[t]->f16_to_f32, 10);
}

/* ------------------------------------------------------------------ the clock */

typedef struct flat_bench {
    float *x, *angles;
    double *sum;
    uint16_t *halves;
    size_t rows;
} flat_bench;

static void bench_rope(void *arg, const lr_kernels *kernels)
{
    flat_bench *b = arg;
    kernels->rope_half(b->x, 512, 256, 2, b->angles, b->angles + b->rows * 128, b->rows, 256);
}

static void bench_sum(void *arg, const lr_kernels *kernels)
{
    flat_bench *b = arg;
    kernels->sum_rows(b->sum, b->x, 512, b->rows, 512);
}

static void bench_dot(void *arg, const lr_kernels *kernels)
{
    flat_bench *b = arg;
    volatile float keep;
    for (size_t r = 0; r + 1 < b->rows; r++)
        keep = kernels->dot(b->x, b->x + (r + 1) * 512, 512);
    (void)keep;
}

static void bench_bf16(void *arg, const lr_kernels *kernels)
{
    flat_bench *b = arg;
    kernels->bf16_to_f32(b->x, b->halves, b->rows * 512);
}

static void bench_f16(void *arg, const lr_kernels *kernels)
{
    flat_bench *b = arg;
    kernels->f16_to_f32(b->x, b->halves, b->rows * 512);
}

void bench_elementwise(const char *only)
{
    const size_t rows = 1024, n = rows * 512;
    lrt_random random;
    lrt_random_init(&random, 1);
    flat_bench b = {.rows = rows,
                    .x = guarded_normal(&random, n, 1),
                    .angles = guarded_normal(&random, rows * 256, 0.5f),
                    .sum = calloc(512, sizeof(double)),
                    .halves = calloc(n, sizeof(uint16_t))};
    assert_non_null(b.sum);
    assert_non_null(b.halves);
    bench("rope_half 1024x2x256", only, bench_rope, &b, (double)(8 * n + 4 * rows * 256), "GB/s");
    bench("sum_rows 1024x512", only, bench_sum, &b, (double)(4 * n), "GB/s");
    bench("dot 1023x512", only, bench_dot, &b, (double)(4 * n), "GB/s");
    bench("bf16_to_f32 1024x512", only, bench_bf16, &b, (double)(6 * n), "GB/s");
    bench("f16_to_f32 1024x512", only, bench_f16, &b, (double)(6 * n), "GB/s");
    lrt_guarded_free(b.x);
    lrt_guarded_free(b.angles);
    free(b.sum);
    free(b.halves);
}
