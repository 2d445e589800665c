#include "lr_test.h"

#include <pthread.h>
#include <string.h>

static void test_checked_sizes_refuse_what_does_not_fit(void **state)
{
    (void)state;
    size_t out = 7;
    assert_true(lr_mul_size(SIZE_MAX / 3, 3, &out));
    assert_int_equal(out, SIZE_MAX / 3 * 3);
    out = 7;
    assert_false(lr_mul_size(SIZE_MAX / 3 + 1, 3, &out));
    assert_false(lr_mul_size((size_t)1 << 32, (size_t)1 << 32, &out));
    assert_false(lr_add_size(SIZE_MAX, 1, &out));
    assert_int_equal(out, 7);
    assert_true(lr_add_size(SIZE_MAX - 1, 1, &out));
    assert_int_equal(out, SIZE_MAX);
    assert_true(lr_mul_size(SIZE_MAX, 0, &out));
    assert_int_equal(out, 0);
}

static void test_blocks_are_aligned_and_counted(void **state)
{
    (void)state;
    size_t live = lr_alloc_live();
    uint64_t count = lr_alloc_count();
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 1000003};
    size_t sum = 0;
    void *blocks[7];
    for (size_t i = 0; i < 7; i++) {
        blocks[i] = lr_alloc(sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % LR_ALIGN, 0);
        memset(blocks[i], 0xa5, sizes[i]);
        sum += sizes[i];
    }
    assert_int_equal(lr_alloc_live() - live, sum);
    assert_int_equal(lr_alloc_count() - count, 7);
    assert_true(lr_alloc_peak() >= live + sum);
    for (size_t i = 0; i < 7; i++) lr_free(blocks[i]);
    lr_free(NULL);
    assert_int_equal(lr_alloc_live(), live);
    assert_true(lr_alloc_peak() >= live + sum);
    lr_alloc_reset_peak();
    assert_int_equal(lr_alloc_peak(), live);
}

static void test_realloc_keeps_content_and_old_block_on_failure(void **state)
{
    (void)state;
    size_t live = lr_alloc_live();
    char *block = lr_realloc(NULL, 4);
    assert_non_null(block);
    memcpy(block, "abc", 4);
    block = lr_realloc(block, 1000);
    assert_string_equal(block, "abc");
    assert_int_equal(lr_alloc_live() - live, 1000);
    lr_alloc_fail_at(1);
    assert_null(lr_realloc(block, 2000));
    assert_string_equal(block, "abc");
    block = lr_realloc(block, 2);
    assert_memory_equal(block, "ab", 2);
    assert_int_equal(lr_alloc_live() - live, 2);
    lr_free(block);
    assert_int_equal(lr_alloc_live(), live);
}

static void test_absurd_sizes_are_refused(void **state)
{
    (void)state;
    size_t live = lr_alloc_live();
    assert_null(lr_alloc(SIZE_MAX));
    assert_null(lr_alloc(SIZE_MAX - LR_ALIGN + 1));
    assert_null(lr_alloc((size_t)PTRDIFF_MAX));
    assert_int_equal(lr_alloc_live(), live);
}

static void test_kth_allocation_fails_once(void **state)
{
    (void)state;
    for (uint64_t k = 1; k <= 5; k++) {
        lr_alloc_fail_at(k);
        for (uint64_t i = 1; i <= 7; i++) {
            void *block = lr_alloc(1);
            if (i == k) assert_null(block);
            else assert_non_null(block);
            lr_free(block);
        }
    }
    lr_alloc_fail_at(1);
    lr_alloc_fail_at(0);
    void *block = lr_alloc(1);
    assert_non_null(block);
    lr_free(block);
}

static void test_new_array_is_zeroed_and_names_what_failed(void **state)
{
    (void)state;
    lr_error err = {0};
    double *values = (void *)&err;
    assert_int_equal(LR_NEW(&values, 100, "values", &err), LR_OK);
    for (size_t i = 0; i < 100; i++) assert_true(values[i] == 0.0);
    lr_free(values);

    lr_alloc_fail_at(1);
    assert_int_equal(LR_NEW(&values, 100, "frames of a second", &err), LR_E_NOMEM);
    assert_null(values);
    assert_string_equal(err.text, "out of memory: frames of a second (800 bytes)");

    lr_error_clear(&err);
    values = (void *)&err;
    assert_int_equal(LR_NEW(&values, SIZE_MAX / 2, "values", &err), LR_E_NOMEM);
    assert_null(values);
    assert_non_null(strstr(err.text, "out of memory: values (9223372036854775807 x 8 bytes)"));

    assert_int_equal(LR_NEW(&values, 0, "nothing", NULL), LR_OK);
    assert_non_null(values);
    lr_free(values);
}

static void test_grow_doubles_and_leaves_the_array_on_failure(void **state)
{
    (void)state;
    lr_error err = {0};
    int *values = NULL;
    size_t capacity = 0;
    uint64_t count = lr_alloc_count();
    for (size_t n = 0; n < 10000; n++) {
        assert_int_equal(LR_GROW(&values, &capacity, n + 1, "values", &err), LR_OK);
        assert_true(capacity > n);
        values[n] = (int)n;
    }
    for (size_t n = 0; n < 10000; n++) assert_int_equal(values[n], n);
    assert_true(lr_alloc_count() - count <= 12); /* 8 * 2^11 > 10000 */

    int *before = values;
    size_t capacity_before = capacity;
    lr_alloc_fail_at(1);
    assert_int_equal(LR_GROW(&values, &capacity, capacity + 1, "values", &err), LR_E_NOMEM);
    assert_ptr_equal(values, before);
    assert_int_equal(capacity, capacity_before);
    assert_int_equal(LR_GROW(&values, &capacity, SIZE_MAX, "values", NULL), LR_E_NOMEM);
    assert_int_equal(LR_GROW(&values, &capacity, SIZE_MAX / 4, "values", NULL), LR_E_NOMEM);
    assert_ptr_equal(values, before);
    assert_int_equal(values[9999], 9999);
    lr_free(values);
}

static void test_format_and_strdup_make_texts(void **state)
{
    (void)state;
    lr_error err = {0};
    char *text = NULL;
    lrt_assert_ok(lr_format(&text, &err, "%s-%03d-%0300d", "a", 7, 1), &err);
    assert_int_equal(strlen(text), 306);
    assert_memory_equal(text, "a-007-000", 9);
    char *copy = lr_strdup(text);
    assert_string_equal(copy, text);
    lr_free(copy);
    lr_free(text);
    lr_alloc_fail_at(1);
    assert_null(lr_strdup("x"));
    lr_alloc_fail_at(1);
    text = (char *)&err;
    assert_int_equal(lr_format(&text, &err, "x"), LR_E_NOMEM);
    assert_null(text);
}

static lr_status several_kinds(void *arg, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    int *array = NULL;
    size_t capacity = 0;
    char *text = NULL;
    lr_arena arena = {0};
    lr_pool *pool = NULL;
    LR_TRY(LR_GROW(&array, &capacity, 1, "an array", err));
    LR_TRY(LR_GROW(&array, &capacity, 100, "an array", err));
    LR_TRY(lr_format(&text, err, "%d", 1));
    LR_TRY(lr_arena_init(&arena, 1000, "an arena", err));
    LR_TRY(lr_pool_create(3, &pool, err));
done:
    lr_pool_free(pool);
    lr_arena_free(&arena);
    lr_free(text);
    lr_free(array);
    return st;
}

static void test_all_of_core_survives_each_failing_allocation(void **state)
{
    (void)state;
    assert_int_equal(lrt_fail_each_allocation(several_kinds, NULL), 6);
}

static void test_arena_takes_and_gives_back_by_mark(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_arena arena;
    lrt_assert_ok(lr_arena_init(&arena, 1024, "scratch", &err), &err);
    char *a = lr_arena_take(&arena, 1, 1);
    char *b = lr_arena_take(&arena, 10, 10);
    assert_non_null(a);
    assert_int_equal((uintptr_t)a % LR_ALIGN, 0);
    assert_ptr_equal(b, a + LR_ALIGN);
    size_t mark = lr_arena_mark(&arena);
    char *c = lr_arena_take(&arena, 1024 - 192, 1);
    assert_ptr_equal(c, a + 192);
    assert_null(lr_arena_take(&arena, 1, 1));
    assert_null(lr_arena_take(&arena, SIZE_MAX, 2));
    assert_null(lr_arena_take(&arena, SIZE_MAX, 1));
    assert_int_equal(arena.peak, 1024);
    lr_arena_reset(&arena, mark);
    assert_ptr_equal(lr_arena_take(&arena, 1, 1), c);
    lr_arena_reset(&arena, 0);
    assert_ptr_equal(lr_arena_take(&arena, 1024, 1), a);
    assert_int_equal(arena.peak, 1024);
    lr_arena_free(&arena);
    assert_null(lr_arena_take(&arena, 1, 1));
    lr_arena_free(&arena);
    assert_int_equal(lr_arena_init(&arena, SIZE_MAX, "scratch", &err), LR_E_NOMEM);
    assert_null(arena.base);
}

static void *allocate_much(void *arg)
{
    void *blocks[16] = {0};
    lrt_random *random = arg;
    for (int i = 0; i < 2000; i++) {
        size_t slot = (size_t)lrt_below(random, 16);
        blocks[slot] = lr_realloc(blocks[slot], (size_t)lrt_below(random, 5000));
    }
    for (size_t i = 0; i < 16; i++) lr_free(blocks[i]);
    return NULL;
}

static void test_accounts_agree_after_many_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    size_t live = lr_alloc_live();
    uint64_t count = lr_alloc_count();
    pthread_t threads[THREADS];
    lrt_random random[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        lrt_random_init(&random[i], i);
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_much, &random[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(lr_alloc_live(), live);
    assert_int_equal(lr_alloc_count() - count, THREADS * 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checked_sizes_refuse_what_does_not_fit),
        cmocka_unit_test(test_blocks_are_aligned_and_counted),
        cmocka_unit_test(test_realloc_keeps_content_and_old_block_on_failure),
        cmocka_unit_test(test_absurd_sizes_are_refused),
        cmocka_unit_test(test_kth_allocation_fails_once),
        cmocka_unit_test(test_new_array_is_zeroed_and_names_what_failed),
        cmocka_unit_test(test_grow_doubles_and_leaves_the_array_on_failure),
        cmocka_unit_test(test_format_and_strdup_make_texts),
        cmocka_unit_test(test_all_of_core_survives_each_failing_allocation),
        cmocka_unit_test(test_arena_takes_and_gives_back_by_mark),
        cmocka_unit_test(test_accounts_agree_after_many_threads),
    };
    return cmocka_run_group_tests_name("core memory", tests, NULL, NULL);
}
