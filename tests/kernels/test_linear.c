/* Linear layers: every back end of every instruction set that this processor runs. */
#include "lr_test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/kernels.h>

/* ------------------------------------------------------------------ back ends */

#define MOST_BACK_ENDS 6

static size_t back_ends(const lr_kernels *out[MOST_BACK_ENDS])
{
    size_t n = 0;
    for (lr_isa isa = LR_ISA_SCALAR; isa <= LR_ISA_LAST; isa++)
        for (lr_gemm gemm = LR_GEMM_OPENBLAS; gemm <= LR_GEMM_PACKED; gemm++) {
            const lr_kernels *kernels;
            lr_error err = {0};
            lr_status st = lr_kernels_get(isa, gemm, &kernels, &err);
            if (st == LR_E_UNSUPPORTED) continue; /* not this processor's */
            lrt_assert_ok(st, &err);
            out[n++] = kernels;
        }
    assert_true(n >= 2);
    return n;
}

/* ------------------------------------------------------------------ a layer and its input */

typedef struct layer {
    const lr_kernels *kernels;
    lr_linear *linear;
    size_t n, k;
    float *w;    /* [n, k] as the back end must read them */
    float *bias; /* [n] or NULL */
} layer;

static void fill(lrt_random *random, float *x, size_t n)
{
    lrt_fill_normal(random, x, n, 1.0f);
}

static lr_tensor matrix(lr_dtype dtype, size_t n, size_t k, const void *data)
{
    return (lr_tensor){.dtype = dtype, .n_dims = 2, .dims = {n, k}, .data = data};
}

static layer make_layer(const lr_kernels *kernels, size_t n, size_t k, bool bias, lrt_random *random)
{
    layer self = {.kernels = kernels, .n = n, .k = k};
    lr_error err = {0};
    self.w = lrt_guarded(n * k);
    fill(random, self.w, n * k);
    if (bias) {
        self.bias = lrt_guarded(n);
        fill(random, self.bias, n);
    }
    lr_linear_part part = {matrix(LR_F32, n, k, self.w)};
    lrt_assert_ok(kernels->linear_create(&self.linear, &part, 1, &err), &err);
    assert_int_equal(lr_linear_n(self.linear), n);
    assert_int_equal(lr_linear_k(self.linear), k);
    return self;
}

static void free_layer(layer *self)
{
    self->kernels->linear_free(self->linear);
    lrt_guarded_free(self->w);
    lrt_guarded_free(self->bias);
}

/* y of guarded memory, [rows, n] with ldy = n. */
static float *run(const layer *self, const float *x, size_t ldx, size_t rows, uint64_t row0)
{
    float *y = lrt_guarded(rows * self->n);
    float *scratch = lrt_guarded(self->kernels->linear_scratch(self->linear, rows));
    self->kernels->linear_run(self->linear, y, self->n, x, ldx, rows, row0, self->bias, scratch);
    lrt_guarded_free(scratch);
    return y;
}

/* A sum of k products and a bias in fp32, in whatever order, fused or not, is off by at most
 * (k + 1) u sum|x w| + u |y| (Higham, Accuracy and Stability, 3.1), u = 2^-24, to first order; 1.01
 * covers the second, 1e-37 products that underflow. */
static void assert_near_double(const layer *self, const float *y, size_t ldy, const float *x,
                               size_t ldx, size_t rows)
{
    const double u = 0x1p-24;
    for (size_t r = 0; r < rows; r++)
        for (size_t n = 0; n < self->n; n++) {
            double sum = 0, size = 0;
            for (size_t k = 0; k < self->k; k++) {
                double product = (double)x[r * ldx + k] * (double)self->w[n * self->k + k];
                sum += product;
                size += fabs(product);
            }
            if (self->bias != NULL) sum += (double)self->bias[n];
            double most = 1.01 * ((double)(self->k + 1) * u * size + u * fabs(sum)) + 1e-37;
            double off = fabs((double)y[r * ldy + n] - sum);
            if (!(off <= most))
                fail_msg("%s, y[%zu, %zu] of [%zu, %zu], k %zu: off by %g, at most %g",
                         self->kernels->gemm, r, n, rows, self->n, self->k, off, most);
        }
}

/* ------------------------------------------------------------------ against double precision */

static void test_each_back_end_computes_the_sum_for_every_shape(void **state)
{
    (void)state;
    static const size_t ns[] = {1, 7, 16, 31, 33, 48, 130}, ks[] = {1, 2, 17, 255, 256, 257, 600},
                        rows[] = {1, 2, 5, 6, 7, 12, 13, 96, 97, 193};
    const lr_kernels *kernels[MOST_BACK_ENDS];
    size_t n_kernels = back_ends(kernels);
    lrt_random random;
    lrt_random_init(&random, 1);
    for (size_t b = 0; b < n_kernels; b++)
        for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
            for (size_t j = 0; j < sizeof ks / sizeof *ks; j++) {
                if (lrt_emulated() && (i + 2 * j) % 5 != 0) continue;
                layer self = make_layer(kernels[b], ns[i], ks[j], (i + j) % 2 == 0, &random);
                for (size_t r = (i + j) % 2; r < sizeof rows / sizeof *rows; r += 2) {
                    float *x = lrt_guarded(rows[r] * ks[j]);
                    fill(&random, x, rows[r] * ks[j]);
                    float *y = run(&self, x, ks[j], rows[r], 0);
                    assert_near_double(&self, y, ns[i], x, ks[j], rows[r]);
                    lrt_guarded_free(y);
                    lrt_guarded_free(x);
                }
                free_layer(&self);
            }
}

static void test_strides_are_kept_and_nothing_else_is_written(void **state)
{
    (void)state;
    const size_t n = 37, k = 300, rows = 29, ldx = 311, ldy = 41;
    const lr_kernels *kernels[MOST_BACK_ENDS];
    size_t n_kernels = back_ends(kernels);
    lrt_random random;
    lrt_random_init(&random, 2);
    for (size_t b = 0; b < n_kernels; b++) {
        layer self = make_layer(kernels[b], n, k, true, &random);
        /* the last row ends where its values end; between rows stands NaN */
        float *x = lrt_guarded((rows - 1) * ldx + k), *y = lrt_guarded((rows - 1) * ldy + n);
        for (size_t r = 0; r < rows; r++) fill(&random, x + r * ldx, k);
        float *scratch = lrt_guarded(kernels[b]->linear_scratch(self.linear, rows));
        kernels[b]->linear_run(self.linear, y, ldy, x, ldx, rows, 5, self.bias, scratch);
        assert_near_double(&self, y, ldy, x, ldx, rows);
        for (size_t r = 0; r + 1 < rows; r++)
            for (size_t j = n; j < ldy; j++) assert_true(isnan(y[r * ldy + j]));
        lrt_guarded_free(scratch);
        lrt_guarded_free(x);
        lrt_guarded_free(y);
        free_layer(&self);
    }
}

/* ------------------------------------------------------------------ weights in three types */

/* The values of halves by their definition. */
static float bf16_value(uint16_t bits)
{
    int exponent = (bits >> 7) & 0xff, fraction = bits & 0x7f;
    float value = exponent == 0 ? ldexpf((float)fraction, -133)
                                : ldexpf((float)(128 + fraction), exponent - 134);
    return bits & 0x8000 ? -value : value;
}

static float f16_value(uint16_t bits)
{
    int exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
    float value = exponent == 0 ? ldexpf((float)fraction, -24)
                                : ldexpf((float)(1024 + fraction), exponent - 25);
    return bits & 0x8000 ? -value : value;
}

static uint16_t random_half(lrt_random *random, lr_dtype dtype)
{
    uint16_t bits = (uint16_t)lrt_below(random, 0x10000);
    if (dtype == LR_BF16) /* exponents -20 .. 3 and now and then a subnormal */
        return (uint16_t)((bits & 0x807f) | (lrt_below(random, 8) ? 107 + lrt_below(random, 24) : 0)
                                                << 7);
    return (uint16_t)((bits & 0x83ff) | lrt_below(random, 17) << 10); /* subnormal .. 2^1 */
}

static void test_parts_of_all_types_stand_below_each_other(void **state)
{
    (void)state;
    static const struct {
        lr_dtype dtype;
        size_t n;
    } parts[] = {{LR_BF16, 19}, {LR_F32, 1}, {LR_F16, 30}, {LR_BF16, 40}};
    enum { N_PARTS = 4 };
    const size_t k = 271, rows = 14, n = 90;
    const lr_kernels *kernels[MOST_BACK_ENDS];
    size_t n_kernels = back_ends(kernels);
    lrt_random random;
    lrt_random_init(&random, 3);
    for (size_t b = 0; b < n_kernels; b++) {
        layer self = {.kernels = kernels[b], .n = n, .k = k, .w = lrt_guarded(n * k)};
        lr_linear_part list[N_PARTS];
        void *data[N_PARTS];
        float *w = self.w;
        for (size_t p = 0; p < N_PARTS; p++) {
            size_t count = parts[p].n * k;
            data[p] = lr_alloc(count * lr_dtype_size(parts[p].dtype));
            assert_non_null(data[p]);
            if (parts[p].dtype == LR_F32) fill(&random, data[p], count);
            for (size_t i = 0; i < count; i++, w++) {
                uint16_t half = random_half(&random, parts[p].dtype);
                if (parts[p].dtype == LR_F32) {
                    *w = ((const float *)data[p])[i];
                } else {
                    ((uint16_t *)data[p])[i] = half;
                    *w = parts[p].dtype == LR_BF16 ? bf16_value(half) : f16_value(half);
                }
            }
            list[p].weight = matrix(parts[p].dtype, parts[p].n, k, data[p]);
        }
        lr_error err = {0};
        lrt_assert_ok(kernels[b]->linear_create(&self.linear, list, N_PARTS, &err), &err);
        for (size_t p = 0; p < N_PARTS; p++) lr_free(data[p]); /* create has copied them */
        assert_int_equal(lr_linear_n(self.linear), n);
        float *x = lrt_guarded(rows * k);
        fill(&random, x, rows * k);
        float *y = run(&self, x, k, rows, 0);
        assert_near_double(&self, y, n, x, k, rows);
        lrt_guarded_free(y);
        lrt_guarded_free(x);
        free_layer(&self);
    }
}

/* bf16 is a subset of fp32: the same values must give the same bits in either type. */
static void test_bf16_weights_give_the_bits_of_the_same_weights_in_fp32(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_BACK_ENDS];
    size_t n_kernels = back_ends(kernels);
    lrt_random random;
    lrt_random_init(&random, 4);
    for (size_t b = 0; b < n_kernels; b++)
        for (size_t k = 255; k <= 514; k += lrt_emulated() ? 111 : 37) {
            const size_t n = 71, rows = 25;
            uint16_t *half = lr_alloc(n * k * sizeof *half);
            assert_non_null(half);
            layer wide = {.kernels = kernels[b], .n = n, .k = k, .w = lrt_guarded(n * k)};
            layer narrow = {.kernels = kernels[b], .n = n, .k = k};
            for (size_t i = 0; i < n * k; i++) {
                half[i] = random_half(&random, LR_BF16);
                wide.w[i] = bf16_value(half[i]);
            }
            lr_error err = {0};
            lr_linear_part part = {matrix(LR_F32, n, k, wide.w)};
            lrt_assert_ok(kernels[b]->linear_create(&wide.linear, &part, 1, &err), &err);
            part.weight = matrix(LR_BF16, n, k, half);
            lrt_assert_ok(kernels[b]->linear_create(&narrow.linear, &part, 1, &err), &err);
            lr_free(half);
            float *x = lrt_guarded(rows * k);
            fill(&random, x, rows * k);
            float *y = run(&wide, x, k, rows, 0), *z = run(&narrow, x, k, rows, 0);
            assert_memory_equal(y, z, rows * n * sizeof *y);
            lrt_guarded_free(y);
            lrt_guarded_free(z);
            lrt_guarded_free(x);
            free_layer(&wide);
            free_layer(&narrow);
        }
}

/* ------------------------------------------------------------------ row-invariance */

#define ALL_ROWS 200

/* Rows [row0, row0 + count) alone; their neighbours in memory are NaN. */
static void assert_same_bits(const layer *self, const float *whole, const float *x, size_t row0,
                             size_t count)
{
    float *some = lrt_guarded(count * self->k);
    memcpy(some, x + row0 * self->k, count * self->k * sizeof *x);
    float *y = run(self, some, self->k, count, row0);
    for (size_t r = 0; r < count; r++)
        if (memcmp(y + r * self->n, whole + (row0 + r) * self->n, self->n * sizeof *y) != 0)
            fail_msg("%s: row %zu of rows %zu .. %zu has other bits than among all", self->kernels->gemm,
                     row0 + r, row0, row0 + count);
    lrt_guarded_free(y);
    lrt_guarded_free(some);
}

static void test_a_row_has_the_same_bits_wherever_it_stands(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{35, 70}, {64, 513}, {1, 300}, {50, 1}};
    const lr_kernels *kernels[MOST_BACK_ENDS];
    size_t n_kernels = back_ends(kernels);
    const size_t step = lrt_emulated() ? 23 : 1;
    lrt_random random;
    lrt_random_init(&random, 5);
    for (size_t b = 0; b < n_kernels; b++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            layer self = make_layer(kernels[b], shapes[s][0], shapes[s][1], true, &random);
            float *x = lrt_guarded(ALL_ROWS * self.k);
            fill(&random, x, ALL_ROWS * self.k);
            float *whole = run(&self, x, self.k, ALL_ROWS, 0);
            for (size_t row0 = 0; row0 < ALL_ROWS; row0 += step) assert_same_bits(&self, whole, x, row0, 1);
            for (size_t count = 1; count <= ALL_ROWS; count += step) {
                assert_same_bits(&self, whole, x, 0, count);
                assert_same_bits(&self, whole, x, ALL_ROWS - count, count);
            }
            for (size_t i = 0; i < 50; i += step) {
                size_t row0 = (size_t)lrt_below(&random, ALL_ROWS);
                assert_same_bits(&self, whole, x, row0,
                                 1 + (size_t)lrt_below(&random, ALL_ROWS - row0));
            }
            lrt_guarded_free(whole);
            lrt_guarded_free(x);
            free_layer(&self);
        }
}

/* Where a slice of a long sequence begins must not show: absolute rows far from 0. */
static void test_slices_of_a_long_sequence_agree(void **state)
{
    (void)state;
    const size_t n = 40, k = 130, rows = 150;
    const uint64_t start = UINT64_C(5000000017);
    const lr_kernels *kernels[MOST_BACK_ENDS];
    size_t n_kernels = back_ends(kernels);
    lrt_random random;
    lrt_random_init(&random, 6);
    for (size_t b = 0; b < n_kernels; b++) {
        layer self = make_layer(kernels[b], n, k, false, &random);
        float *x = lrt_guarded(rows * k);
        fill(&random, x, rows * k);
        float *whole = run(&self, x, k, rows, start);
        for (size_t cut = 1; cut < rows; cut += lrt_emulated() ? 49 : 7) {
            float *head = run(&self, x, k, cut, start);
            float *tail = run(&self, x + cut * k, k, rows - cut, start + cut);
            assert_memory_equal(head, whole, cut * n * sizeof *whole);
            assert_memory_equal(tail, whole + cut * n, (rows - cut) * n * sizeof *whole);
            lrt_guarded_free(head);
            lrt_guarded_free(tail);
        }
        lrt_guarded_free(whole);
        lrt_guarded_free(x);
        free_layer(&self);
    }
}

/* ------------------------------------------------------------------ refusals */

static void test_weights_that_cannot_be_are_refused(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_BACK_ENDS];
    size_t n_kernels = back_ends(kernels);
    float data[12] = {0};
    const lr_tensor good = matrix(LR_F32, 3, 4, data);
    lr_tensor flat = good, empty = good, other_k = good, integers = good, huge = good;
    flat.n_dims = 1;
    empty.dims[0] = 0;
    other_k.dims[1] = 3;
    integers.dtype = LR_I32;
    huge.dims[0] = SIZE_MAX / 8;
    const struct {
        lr_tensor second;
        lr_status status;
    } cases[] = {{flat, LR_E_MODEL}, {empty, LR_E_MODEL}, {other_k, LR_E_MODEL},
                 {integers, LR_E_UNSUPPORTED}, {huge, LR_E_NOMEM}};
    for (size_t b = 0; b < n_kernels; b++) {
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            lr_linear_part parts[2] = {{good}, {cases[c].second}};
            lr_linear *linear = (lr_linear *)(void *)data;
            lr_error err = {0};
            assert_int_equal(kernels[b]->linear_create(&linear, parts, 2, &err), cases[c].status);
            assert_null(linear);
            assert_true(err.text[0] != '\0');
        }
        kernels[b]->linear_free(NULL);
    }
}

static lr_status create_and_free(void *arg, lr_error *err)
{
    const lr_kernels *kernels = arg;
    static const float data[20 * 30];
    lr_linear_part part = {matrix(LR_F32, 20, 30, data)};
    lr_linear *linear;
    lr_status st = kernels->linear_create(&linear, &part, 1, err);
    kernels->linear_free(linear);
    return st;
}

static void test_create_survives_every_failed_allocation(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_BACK_ENDS];
    size_t n_kernels = back_ends(kernels);
    for (size_t b = 0; b < n_kernels; b++) {
        lr_kernels copy = *kernels[b];
        assert_true(lrt_fail_each_allocation(create_and_free, &copy) >= 2);
    }
}

static void test_back_ends_name_themselves(void **state)
{
    (void)state;
    const lr_kernels *kernels;
    lr_error err = {0};
    lrt_assert_ok(lr_kernels_get(LR_ISA_SCALAR, LR_GEMM_PACKED, &kernels, &err), &err);
    assert_string_equal(kernels->gemm, "packed-scalar");
    lrt_assert_ok(lr_kernels_get(LR_ISA_SCALAR, LR_GEMM_OPENBLAS, &kernels, &err), &err);
    /* version and core: "openblas-0.3.21-haswell" */
    const char *digits = "0123456789.", *name = kernels->gemm;
    assert_memory_equal(name, "openblas-", 9);
    size_t version = strspn(name + 9, digits);
    assert_true(version >= 5);
    assert_true(name[9 + version] == '-' && strlen(name + 9 + version) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_back_end_computes_the_sum_for_every_shape),
        cmocka_unit_test(test_strides_are_kept_and_nothing_else_is_written),
        cmocka_unit_test(test_parts_of_all_types_stand_below_each_other),
        cmocka_unit_test(test_bf16_weights_give_the_bits_of_the_same_weights_in_fp32),
        cmocka_unit_test(test_a_row_has_the_same_bits_wherever_it_stands),
        cmocka_unit_test(test_slices_of_a_long_sequence_agree),
        cmocka_unit_test(test_weights_that_cannot_be_are_refused),
        cmocka_unit_test(test_create_survives_every_failed_allocation),
        cmocka_unit_test(test_back_ends_name_themselves),
    };
    return cmocka_run_group_tests_name("linear layers", tests, NULL, NULL);
}
