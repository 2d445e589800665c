/* The figures of longreel/bench.h. test_kernels_figures --bench [THREADS] prints them at the shapes of
 * the models. */
#include "lr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/bench.h>

static const lr_kernels *table(lr_isa isa, lr_gemm gemm)
{
    const lr_kernels *kernels;
    lr_error err = {0};
    lr_status st = lr_kernels_get(isa, gemm, &kernels, &err);
    if (st == LR_E_UNSUPPORTED) return NULL; /* not this processor's */
    lrt_assert_ok(st, &err);
    return kernels;
}

/* Few repeats: that there are figures is tested, not what they are. */
static int repeats(void)
{
    return lrt_emulated() ? 2 : 5;
}

/* How large a share is depends on the machine's other work: nothing to assert. */
static void assert_sane(const lr_bench_figure *f)
{
    assert_true(f->median > 0 && f->best >= f->median);
    assert_true(f->seconds_min > 0 && f->seconds_median >= f->seconds_min);
    assert_true(f->peak > 0 && f->core_peak > 0 && f->share == f->core / f->core_peak);
}

static void test_figures_are_shares_of_the_peak(void **state)
{
    (void)state;
    for (lr_isa isa = LR_ISA_SCALAR; isa <= LR_ISA_LAST; isa++) {
        const lr_kernels *kernels = table(isa, LR_GEMM_PACKED);
        lr_bench_figure f;
        lr_error err = {0};
        if (kernels == NULL) continue;
        lrt_assert_ok(lr_bench_peak(kernels, 2, repeats(), &f, &err), &err);
        assert_sane(&f);
        lrt_assert_ok(lr_bench_gemm(kernels, 2, repeats(), 24, 64, 100, LR_BF16, &f, &err), &err);
        assert_sane(&f);
        lrt_assert_ok(lr_bench_attention(kernels, 2, repeats(), 5, 2, 40, 150, &f, &err), &err);
        assert_sane(&f);
    }
}

static void test_memory_has_a_rate(void **state)
{
    (void)state;
    double best, median;
    lr_error err = {0};
    lrt_assert_ok(lr_bench_stream(2, repeats(), (size_t)1 << (lrt_emulated() ? 14 : 20), &best, &median, &err), &err);
    assert_true(median > 0 && best >= median);
}

static void test_measurements_that_cannot_be_are_refused(void **state)
{
    (void)state;
    const lr_kernels *kernels = table(LR_ISA_SCALAR, LR_GEMM_PACKED);
    lr_bench_figure f;
    lr_error err = {0};
    assert_int_equal(lr_bench_gemm(kernels, 1, 1, SIZE_MAX / 8, 16, 16, LR_F32, &f, &err), LR_E_NOMEM);
    lr_error_clear(&err);
    assert_int_equal(lr_bench_attention(kernels, 1, 1, SIZE_MAX / 8, 2, 16, 16, &f, &err), LR_E_NOMEM);
    double best, median;
    lr_error_clear(&err);
    assert_int_equal(lr_bench_gemm(kernels, 1, 0, 2, 3, 4, LR_F32, &f, &err), LR_E_USAGE);
    lr_error_clear(&err);
    assert_int_equal(lr_bench_stream(1, 1, 1000, &best, &median, &err), LR_E_USAGE);
}

static lr_status measure_all(void *arg, lr_error *err)
{
    lr_bench_figure f;
    lr_status st = LR_OK;
    double best, median;
    LR_TRY(lr_bench_stream(1, 1, 256, &best, &median, err));
    LR_TRY(lr_bench_gemm(arg, 1, 1, 2, 3, 4, LR_F32, &f, err));
    LR_TRY(lr_bench_attention(arg, 1, 1, 2, 1, 2, 3, &f, err));
done:
    return st;
}

static void test_measurements_survive_every_failed_allocation(void **state)
{
    (void)state;
    lr_kernels copy = *table(LR_ISA_SCALAR, LR_GEMM_PACKED);
    assert_true(lrt_fail_each_allocation(measure_all, &copy) >= 10);
}

/* ------------------------------------------------------------------ --bench */

static void print_gemm(size_t threads, size_t rows, size_t n, size_t k, lr_dtype dtype)
{
    printf("gemm %s rows %zu, n %4zu, k %4zu:", lr_dtype_name(dtype), rows, n, k);
    for (lr_isa isa = LR_ISA_AVX2; isa <= LR_ISA_LAST; isa++)
        for (lr_gemm gemm = LR_GEMM_OPENBLAS; gemm <= LR_GEMM_PACKED; gemm++) {
            const lr_kernels *kernels = table(isa, gemm);
            lr_bench_figure f;
            lr_error err = {0};
            if (kernels == NULL) continue;
            lrt_assert_ok(lr_bench_gemm(kernels, threads, LR_BENCH_REPEATS, rows, n, k, dtype, &f, &err), &err);
            printf("  %s %.0f (%s %.0f%%)", kernels->gemm, f.best, kernels->isa, 100 * f.share);
            fflush(stdout);
        }
    printf("\n");
}

static void print_attention(size_t threads, size_t tokens, size_t group, size_t head_dim, size_t keys)
{
    printf("attention %zu x %zu rows, head_dim %3zu, %zu keys:", tokens, group, head_dim, keys);
    for (lr_isa isa = LR_ISA_SCALAR; isa <= LR_ISA_LAST; isa++) {
        const lr_kernels *kernels = table(isa, LR_GEMM_PACKED);
        lr_bench_figure f;
        lr_error err = {0};
        if (kernels == NULL) continue;
        lrt_assert_ok(lr_bench_attention(kernels, threads, LR_BENCH_REPEATS, tokens, group, head_dim, keys,
                                         &f, &err), &err);
        printf("  %s %.0f (%.0f%%)", kernels->isa, f.best, 100 * f.share);
        fflush(stdout);
    }
    printf("\n");
}

static void print_all(size_t threads)
{
    static const size_t shapes[][2] = {{512, 512},  {1024, 512}, {2048, 512},  {512, 1024},
                                       {512, 2048}, {768, 768},  {3072, 768},  {768, 3072},
                                       {1024, 1024}, {4096, 1024}, {1024, 4096}};
    static const size_t rows[] = {1, 8, 24, 96};
    printf("GFLOP/s of %zu threads (share of the multiply-add peak)\n", threads);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        print_gemm(threads, LR_ROW_TILE, shapes[i][0], shapes[i][1], LR_BF16);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_gemm(threads, rows[i], 2048, 512, LR_F32);
        print_gemm(threads, rows[i], 2048, 512, LR_BF16);
    }
    print_attention(threads, 24, 4, 512, 1024);
    print_attention(threads, 24, 4, 512, 8192);
    print_attention(threads, 48, 2, 256, 1024);
    print_attention(threads, 96, 1, 128, 1024);
    print_attention(threads, 96, 1, 72, 1024);
    print_attention(threads, 96, 1, 64, 594);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
        print_all(argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 1);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures_are_shares_of_the_peak),
        cmocka_unit_test(test_memory_has_a_rate),
        cmocka_unit_test(test_measurements_that_cannot_be_are_refused),
        cmocka_unit_test(test_measurements_survive_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("figures", tests, NULL, NULL);
}
