/* Which table lr_kernels_get gives. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

static void set_environment(const char *isa, const char *gemm)
{
    assert_int_equal(isa ? setenv("LONGREEL_ISA", isa, 1) : unsetenv("LONGREEL_ISA"), 0);
    assert_int_equal(gemm ? setenv("LONGREEL_GEMM", gemm, 1) : unsetenv("LONGREEL_GEMM"), 0);
}

/* A table is names and function pointers only: none may be NULL. */
void test_tables_are_complete(void **state)
{
    (void)state;
    for (int isa = LR_ISA_SCALAR; isa <= LR_ISA_LAST; isa++)
        for (int gemm = LR_GEMM_OPENBLAS; gemm <= LR_GEMM_PACKED; gemm++) {
            const lr_kernels *table;
            lr_error err = {0};
            lr_status st = lr_kernels_get((lr_isa)isa, (lr_gemm)gemm, &table, &err);
            if (st == LR_E_UNSUPPORTED) {
                assert_non_null(strstr(err.text, lr_isa_name((lr_isa)isa)));
                continue;
            }
            lrt_assert_ok(st, &err);
            assert_string_equal(table->isa, lr_isa_name((lr_isa)isa));
            void *slots[sizeof(*table) / sizeof(void *)];
            assert_int_equal(sizeof(slots), sizeof(*table));
            memcpy(slots, table, sizeof(slots));
            for (size_t s = 0; s < sizeof(slots) / sizeof(*slots); s++)
                assert_non_null(slots[s]);
        }
}

void test_auto_takes_the_best_table(void **state)
{
    (void)state;
    const lr_kernels *tables[CHECK_MOST_TABLES], *table;
    size_t n_tables = check_tables(tables);
    lr_error err = {0};
    set_environment(NULL, NULL);
    lrt_assert_ok(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &table, &err), &err);
    assert_string_equal(table->isa, tables[n_tables - 1]->isa);
}

void test_environment_overrides_auto_only(void **state)
{
    (void)state;
    const lr_kernels *tables[CHECK_MOST_TABLES], *table;
    size_t n_tables = check_tables(tables);
    lr_error err = {0};
    set_environment("scalar", "packed");
    lrt_assert_ok(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &table, &err), &err);
    assert_ptr_equal(table, tables[0]);
    set_environment("auto", "openblas");
    lrt_assert_ok(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &table, &err), &err);
    assert_string_equal(table->isa, tables[n_tables - 1]->isa);
    assert_memory_equal(table->gemm, "openblas", 8);
    set_environment("scalar", "openblas");
    size_t t = 0;
    for (int isa = LR_ISA_SCALAR; isa <= LR_ISA_LAST; isa++) {
        lr_status st = lr_kernels_get((lr_isa)isa, LR_GEMM_PACKED, &table, &err);
        if (st == LR_OK) assert_ptr_equal(table, tables[t++]);
        lr_error_clear(&err);
    }
    assert_int_equal(t, n_tables);
    set_environment(NULL, NULL);
}

void test_environment_with_an_unknown_name_is_an_error(void **state)
{
    (void)state;
    const lr_kernels *table;
    lr_error err = {0};
    set_environment("sse9", NULL);
    assert_int_equal(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &table, &err), LR_E_USAGE);
    assert_null(table);
    assert_non_null(strstr(err.text, "LONGREEL_ISA=sse9"));
    lr_error_clear(&err);
    set_environment(NULL, "mkl");
    assert_int_equal(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &table, &err), LR_E_USAGE);
    assert_non_null(strstr(err.text, "LONGREEL_GEMM=mkl"));
    set_environment(NULL, NULL);
}
