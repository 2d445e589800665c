/* Linear layers on the device, against sums in double precision of the same bf16 values. */
#include "device_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

typedef struct linear_case {
    size_t rows, n, k, ldx, ldy;
    lr_dtype to;
    case_values x, w, b, y;
} linear_case;

static void run(const linear_case *c, size_t first, size_t rows, bool bias)
{
    lr_rows x = {c->x.at + first * c->ldx * 2, c->ldx, 0, LR_BF16};
    lr_rows y = {c->y.at + first * c->ldy * lr_dtype_size(c->to), c->ldy, 0, c->to};
    case_device->ops->linear(case_stream, y, x, c->w.at, bias ? c->b.at : 0, rows, c->n, c->k);
}

/* Products of bf16 are exact in fp32. A chain of k / 16 instructions, each of which may cut what lies below 2^-23
 * of the largest of its 17 terms off each term (tensor cores do; what they do beyond that is not published):
 * 17 2^-23 (k / 16 + 1) of the sum of sizes is an upper bound. Then the bias, and storing. */
static void check_value(const linear_case *c, size_t r, size_t j, bool bias, float got)
{
    double sum = 0, size = 0;
    for (size_t i = 0; i < c->k; i++) {
        double product = (double)c->x.host[r * c->ldx + i] * (double)c->w.host[j * c->k + i];
        sum += product;
        size += fabs(product);
    }
    double want = sum + (bias ? (double)c->b.host[j] : 0);
    double bound = 17 * 0x1p-23 * (double)(c->k / 16 + 1) * size;
    bound += (fabs(want) + bound) * (c->to == LR_BF16 ? U_BF16 : U) * 1.01;
    if (!(fabs((double)got - want) <= bound))
        fail_msg("%zu x %zu x %zu: value (%zu, %zu) is %.9g, not %.9g (allowed %.3g)", c->rows, c->n, c->k, r, j,
                 (double)got, want, bound);
}

static void check(size_t rows, size_t n, size_t k, size_t pad, lr_dtype to, bool bias, lrt_random *random)
{
    linear_case c = {.rows = rows, .n = n, .k = k, .ldx = k + 8 * pad, .ldy = n + pad, .to = to};
    c.x = case_normal(random, rows * c.ldx, 1, LR_BF16);
    c.w = case_normal(random, n * k, 1, LR_BF16);
    c.b = case_normal(random, n, 1, LR_F32);
    c.y = case_normal(random, rows * c.ldy, 1, to);
    run(&c, 0, rows, bias);
    float *all = case_download(&c.y);
    for (size_t i = 0; i < rows * c.ldy; i++) {
        if (i % c.ldy < n) check_value(&c, i / c.ldy, i % c.ldy, bias, all[i]);
        else assert_memory_equal(&all[i], &c.y.host[i], sizeof *all);
    }
    case_upload(&c.y);
    size_t cut = rows / 3; /* the same bits wherever a row stands among others */
    run(&c, cut, rows - cut, bias);
    run(&c, 0, cut, bias);
    float *parts = case_download(&c.y);
    assert_memory_equal(all, parts, rows * c.ldy * sizeof *all);
    free(all);
    free(parts);
    case_free(&c.x);
    case_free(&c.w);
    case_free(&c.b);
    case_free(&c.y);
}

static void test_linear_is_within_its_bound(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {{1, 1, 8},    {7, 40, 24},  {64, 128, 64}, {130, 129, 72},
                                       {33, 260, 200}, {129, 8, 512}, {16, 64, 256}};
    lrt_random random;
    lrt_random_init(&random, 300);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(shapes[i][0], shapes[i][1], shapes[i][2], i % 3, i % 2 ? LR_BF16 : LR_F32, i % 3 != 0, &random);
}

/* A layout in shared memory that made rows wait for each other's banks would only show as slowness. */
static void test_no_matrix_waits_for_banks(void **state)
{
    (void)state;
    CASE_NEEDS_STANDIN();
    machine_counts counts = standin_counts();
    assert_true(counts.by_op[PTX_LDMATRIX] > 0);
    assert_int_equal(counts.matrix_conflicts, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* mutations.sh */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_is_within_its_bound),
        cmocka_unit_test(test_no_matrix_waits_for_banks),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
