/* Slots of the device that work element by element, rotary positions, and sums over tokens. */
#include "device_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ element by element */

static const float low = -0.5f, high = 1.25f, factor = -0.7f;

typedef struct map_case {
    size_t rows, dim, ld;
    lr_rows y, a, b;
} map_case;

/* What a value should be, from a, b and what stood in y; *bound: how far fp32 may be off before it is stored. */
typedef double (*map_truth)(double a, double b, double y, double *bound);

/* u = x (a + b x^2) has 4 roundings and 2 of the constants; exp is good to 2 ulp (4 U), then come 1 + e, the
 * division and the product. An error of u counts by at most itself. */
static double gelu_tanh_mul(double a, double b, double y, double *bound)
{
    (void)y;
    double u = sqrt(8 / M_PI) * (a + 0.044715 * a * a * a), z = a / (1 + exp(-u)) * b;
    *bound = fabs(z) * (6 * fabs(u) + 8) * U;
    return z;
}

/* erfc is good to 4 ulp; an error of its argument z, of 2 U, counts (2 z^2 + 2)-fold. */
static double gelu_erf(double a, double b, double y, double *bound)
{
    (void)b, (void)y;
    double z = -a * M_SQRT1_2, out = 0.5 * a * erfc(z);
    *bound = fabs(out) * (2 * (2 * z * z + 2) + 8 + 3) * U;
    return out;
}

static double sigmoid_times(double a, double b, double *bound)
{
    double out = a / (1 + exp(-b));
    *bound = fabs(out) * 7 * U;
    return out;
}

static double silu(double a, double b, double y, double *bound)
{
    (void)b, (void)y;
    return sigmoid_times(a, a, bound);
}

static double glu(double a, double b, double y, double *bound)
{
    (void)y;
    return sigmoid_times(a, b, bound);
}

static double clamp(double a, double b, double y, double *bound)
{
    (void)b, (void)y;
    *bound = 0;
    return fmin(fmax(a, (double)low), (double)high);
}

static double relu(double a, double b, double y, double *bound)
{
    (void)b, (void)y;
    *bound = 0;
    return fmax(a, 0);
}

static double add(double a, double b, double y, double *bound)
{
    (void)y;
    *bound = fabs(a + b) * U;
    return a + b;
}

static double axpy(double a, double b, double y, double *bound)
{
    (void)b;
    double product = (double)factor * a;
    *bound = (fabs(product) + fabs(product + y)) * 1.01 * U;
    return product + y;
}

static double scale(double a, double b, double y, double *bound)
{
    (void)b, (void)y;
    *bound = fabs((double)factor * a) * U;
    return (double)factor * a;
}

static double convert(double a, double b, double y, double *bound)
{
    (void)b, (void)y;
    *bound = 0;
    return a;
}

static void run_map(size_t slot, const map_case *c)
{
    const lr_device_ops *ops = case_device->ops;
    lr_stream *s = case_stream;
    switch (slot) {
    case 0: ops->gelu_tanh_mul(s, c->y, c->a, c->b, c->rows, c->dim); break;
    case 1: ops->gelu_erf(s, c->y, c->a, c->rows, c->dim); break;
    case 2: ops->silu(s, c->y, c->a, c->rows, c->dim); break;
    case 3: ops->glu(s, c->y, c->a, c->b, c->rows, c->dim); break;
    case 4: ops->clamp(s, c->y, c->a, low, high, c->rows, c->dim); break;
    case 5: ops->relu(s, c->y, c->a, c->rows, c->dim); break;
    case 6: ops->add(s, c->y, c->a, c->b, c->rows, c->dim); break;
    case 7: ops->axpy(s, c->y, factor, c->a, c->rows, c->dim); break;
    case 8: ops->scale(s, c->y, c->a, factor, c->rows, c->dim); break;
    default: ops->convert(s, c->y, c->a, c->rows, c->dim); break;
    }
}

static const struct { const char *name; map_truth truth; } maps[] = {
    {"gelu_tanh_mul", gelu_tanh_mul}, {"gelu_erf", gelu_erf}, {"silu", silu}, {"glu", glu}, {"clamp", clamp},
    {"relu", relu}, {"add", add}, {"axpy", axpy}, {"scale", scale}, {"convert", convert}};

static void check_map(size_t slot, size_t rows, size_t dim, size_t pad, lr_dtype from, lr_dtype to,
                      lrt_random *random)
{
    size_t ld = dim + pad, n = rows * ld;
    case_values a = case_normal(random, n, 3, from), b = case_normal(random, n, 3, from);
    case_values y = case_normal(random, n, 3, to);
    map_case c = {rows, dim, ld, {y.at, ld, 0, to}, {a.at, ld, 0, from}, {b.at, ld, 0, from}};
    run_map(slot, &c);
    float *got = case_download(&y);
    for (size_t i = 0; i < n; i++) {
        double bound, want = (double)y.host[i];
        if (i % ld >= dim) {
            assert_memory_equal(&got[i], &y.host[i], sizeof *got);
            continue;
        }
        want = maps[slot].truth((double)a.host[i], (double)b.host[i], want, &bound);
        bound = bound * 1.01 + (to == LR_BF16 ? (fabs(want) + bound) * U_BF16 * 1.01 : 0) + 0x1p-126;
        if (!(fabs((double)got[i] - want) <= bound))
            fail_msg("%s of %.9g, %.9g is %.9g, not %.12g (off by %.3g, allowed %.3g)", maps[slot].name,
                     (double)a.host[i], (double)b.host[i], (double)got[i], want, fabs((double)got[i] - want), bound);
    }
    free(got);
    case_free(&a);
    case_free(&b);
    case_free(&y);
}

static void test_each_slot_is_within_its_bound(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 8, 13, 72, 256};
    lrt_random random;
    lrt_random_init(&random, 200);
    for (size_t slot = 0; slot < sizeof maps / sizeof *maps; slot++)
        for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
            check_map(slot, 1 + (slot + d) % 5, dims[d], (slot + d) % 3 * 4, d % 2 ? LR_BF16 : LR_F32,
                      (slot + d) % 2 ? LR_BF16 : LR_F32, &random);
}

/* Each of the 65,536 values: fp32 holds them all. */
static void test_half_floats_become_what_they_are(void **state)
{
    (void)state;
    enum { rows = 64, dim = 1024, ld = dim + 3 };
    uint16_t *halves = malloc(rows * ld * sizeof *halves);
    float *zero = calloc(rows * dim, sizeof *zero), *want = malloc(dim * sizeof *want);
    assert_true(halves && zero && want);
    for (size_t i = 0; i < rows * ld; i++) halves[i] = (uint16_t)(i / ld * dim + i % ld);
    case_values y = case_of(zero, rows * dim, LR_F32), narrow = case_of(zero, rows * dim, LR_BF16);
    lr_device_at at = case_put(halves, rows * ld * sizeof *halves);
    lr_rows x = {at, ld, 0, LR_F16};
    case_device->ops->convert(case_stream, (lr_rows){y.at, dim, 0, LR_F32}, x, rows, dim);
    case_device->ops->convert(case_stream, (lr_rows){narrow.at, dim - 3, 0, LR_BF16}, x, rows, dim - 3);
    float *got = case_download(&y), *got_narrow = case_download(&narrow);
    for (size_t r = 0; r < rows; r++) {
        case_scalar->f16_to_f32(want, halves + r * ld, dim);
        for (size_t i = 0; i < dim; i++) {
            assert_true(isnan(want[i]) ? isnan(got[r * dim + i]) : got[r * dim + i] == want[i]);
            if (i < dim - 3 && !isnan(want[i]))
                assert_true(got_narrow[r * (dim - 3) + i] == case_from_bf16(case_to_bf16(want[i])));
        }
    }
    case_device->ops->release(case_device, at);
    case_free(&y);
    case_free(&narrow);
    free(got);
    free(got_narrow);
    free(halves);
    free(zero);
    free(want);
}

/* ------------------------------------------------------------------ rotary positions */

/* The kernel's angle is off by a few roundings of turns at fp64, which at these positions stay below 2^-34; the
 * result is rounded to fp32. */
static void test_angles_equal_long_double(void **state)
{
    (void)state;
    enum { n = 5, rows = 60 };
    const uint64_t firsts[] = {0, 8190, 392000};
    double turns[n];
    lr_error err = {0};
    lr_device_at at;
    for (size_t j = 0; j < n; j++) turns[j] = pow(1e4, -2.0 * (double)j / (2 * n)) / (2 * M_PI);
    lrt_assert_ok(case_device->ops->alloc(case_device, sizeof turns, "turns", &at, &err), &err);
    case_device->ops->upload(case_stream, at, turns, sizeof turns);
    for (size_t f = 0; f < 3; f++) {
        float zero[n * rows] = {0};
        case_values c = case_of(zero, n * rows, LR_F32), s = case_of(zero, n * rows, LR_F32);
        case_device->ops->rope_angles(case_stream, c.at, s.at, at, n, firsts[f], rows);
        float *cosines = case_download(&c), *sines = case_download(&s);
        for (size_t r = 0; r < rows; r++)
            for (size_t j = 0; j < n; j++) {
                long double angle = (long double)(firsts[f] + r) * turns[j] * 2 * 3.14159265358979323846264L;
                assert_true(fabsl(cosines[r * n + j] - cosl(angle)) <= 0x1p-24L);
                assert_true(fabsl(sines[r * n + j] - sinl(angle)) <= 0x1p-24L);
            }
        free(cosines);
        free(sines);
        case_free(&c);
        case_free(&s);
    }
    case_device->ops->release(case_device, at);
}

/* Two products and their sum, in which the device may fuse one: each rounding at most U of its own result. */
static void check_rope(size_t rows, size_t heads, size_t dim, size_t pad, bool neighbours, lr_dtype dtype,
                       lrt_random *random)
{
    size_t head = dim + pad, ld = heads * head + pad, half = dim / 2, n_angles = neighbours ? dim : half;
    case_values x = case_normal(random, rows * ld, 1, dtype);
    case_values c = case_normal(random, rows * n_angles, 1, LR_F32), s = case_normal(random, rows * n_angles, 1, LR_F32);
    lr_rows view = {x.at, ld, head, dtype};
    if (neighbours) case_device->ops->rope_pairs(case_stream, view, c.at, s.at, rows, heads, dim);
    else case_device->ops->rope_half(case_stream, view, c.at, s.at, rows, heads, dim);
    float *got = case_download(&x);
    for (size_t i = 0; i < rows * ld; i++) {
        size_t r = i / ld, e = i % ld % head;
        if (i % ld >= heads * head || e >= dim) {
            assert_memory_equal(&got[i], &x.host[i], sizeof *got);
            continue;
        }
        size_t k = r * n_angles + (neighbours ? e : e % half);
        size_t other = neighbours ? i - e + (e ^ 1) : e < half ? i + half : i - half;
        double sign = !neighbours && e < half ? -1 : 1;
        double u = (double)x.host[i] * (double)c.host[k], v = sign * (double)x.host[other] * (double)s.host[k];
        double bound = (fabs(u) + fabs(v) + fabs(u + v)) * U * 1.01;
        if (dtype == LR_BF16) bound += (fabs(u + v) + bound) * U_BF16 * 1.01;
        if (!(fabs((double)got[i] - (u + v)) <= bound + 0x1p-126))
            fail_msg("rope of %zu x %zu x %zu: value %zu is %.9g, not %.9g", rows, heads, dim, i, (double)got[i], u + v);
    }
    free(got);
    case_free(&x);
    case_free(&c);
    case_free(&s);
}

static void test_rope_turns_each_head(void **state)
{
    (void)state;
    static const size_t dims[] = {2, 6, 16, 40, 64, 128};
    lrt_random random;
    lrt_random_init(&random, 201);
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (size_t k = 0; k < 4; k++)
            check_rope(1 + (d + k) % 5, 1 + d % 3, dims[d], d % 2 * 8, k & 1, k & 2 ? LR_BF16 : LR_F32, &random);
}

/* ------------------------------------------------------------------ sums */

static void test_sums_have_the_bits_of_ascending_order(void **state)
{
    (void)state;
    enum { rows = 37, dim = 300, ld = 304, pieces = 4 };
    const uint64_t bounds[pieces + 1] = {0, 5, 5, 30, rows};
    double want[pieces * dim] = {0}, got[pieces * dim];
    lrt_random random;
    lr_device_at sum, at;
    lr_error err = {0};
    const lr_device_ops *ops = case_device->ops;
    lrt_random_init(&random, 202);
    lrt_assert_ok(ops->alloc(case_device, sizeof got, "sums", &sum, &err), &err);
    lrt_assert_ok(ops->alloc(case_device, sizeof bounds, "bounds", &at, &err), &err);
    for (int k = 0; k < 2; k++) {
        lr_dtype dtype = k ? LR_BF16 : LR_F32;
        case_values x = case_normal(&random, rows * ld, 1, dtype);
        ops->upload(case_stream, at, bounds, sizeof bounds);
        ops->sum_rows(case_stream, sum, (lr_rows){x.at, ld, 0, dtype}, at, pieces, dim);
        ops->download(case_stream, got, sum, sizeof got);
        lrt_assert_ok(ops->wait(case_stream, &err), &err);
        for (size_t p = 0; p < pieces; p++) {
            memset(want + p * dim, 0, dim * sizeof *want);
            case_scalar->sum_rows(want + p * dim, x.host + bounds[p] * ld, ld, bounds[p + 1] - bounds[p], dim);
        }
        assert_memory_equal(want, got, sizeof got);
        case_free(&x);
    }
    ops->release(case_device, sum);
    ops->release(case_device, at);
}

/* Last: the failure stays with the stream. */
static void test_formats_that_kernels_do_not_take_fail(void **state)
{
    (void)state;
    CASE_NEEDS_STANDIN(); /* a device is of no use to the process behind this */
    lr_error err = {0};
    float values[8] = {0};
    lr_device_at at = case_put(values, sizeof values);
    lr_rows half = {at, 8, 0, LR_F16};
    case_device->ops->relu(case_stream, (lr_rows){at, 4, 0, LR_F32}, half, 1, 4);
    assert_int_equal(case_device->ops->wait(case_stream, &err), LR_E_INTERNAL);
    case_device->ops->release(case_device, at);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* mutations.sh */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_slot_is_within_its_bound),
        cmocka_unit_test(test_half_floats_become_what_they_are),
        cmocka_unit_test(test_angles_equal_long_double),
        cmocka_unit_test(test_rope_turns_each_head),
        cmocka_unit_test(test_sums_have_the_bits_of_ascending_order),
        cmocka_unit_test(test_formats_that_kernels_do_not_take_fail),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
