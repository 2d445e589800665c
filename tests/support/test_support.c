#include "lr_test.h"

#include <stdlib.h>
#include <string.h>

static void test_streams_differ_and_repeat(void **state)
{
    (void)state;
    lrt_random a, b, c;
    lrt_random_init(&a, 1);
    lrt_random_init(&b, 1);
    lrt_random_init(&c, 2);
    bool differs = false;
    for (int i = 0; i < 100; i++) {
        uint64_t x = lrt_next(&a);
        assert_int_equal(x, lrt_next(&b));
        differs = differs || x != lrt_next(&c);
    }
    assert_true(differs);
}

static void test_random_ranges_hold(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 3);
    unsigned seen = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = lrt_below(&random, 5);
        assert_true(x < 5);
        seen |= 1u << x;
        int64_t y = lrt_between(&random, -3, 3);
        assert_true(y >= -3 && y <= 3);
        float z = lrt_uniform(&random, -1.0f, 2.0f);
        assert_true(z >= -1.0f && z < 2.0f);
    }
    assert_int_equal(seen, 31);
    (void)lrt_between(&random, INT64_MIN, INT64_MAX);
}

static void test_normal_numbers_have_mean_0_and_deviation_1(void **state)
{
    (void)state;
    enum { N = 40000 };
    lrt_random random;
    lrt_random_init(&random, 4);
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        double x = (double)lrt_normal(&random);
        sum += x;
        squares += x * x;
    }
    /* The mean's deviation is 1 / sqrt(N) = 0.005, that of the mean square sqrt(2 / N) = 0.007;
     * six of each. */
    assert_true(sum / N > -0.03 && sum / N < 0.03);
    assert_true(squares / N > 0.958 && squares / N < 1.042);
}

static void test_file_comes_back_as_written(void **state)
{
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "file");
    size_t sizes[] = {0, 1, 65534, 65535, 65536, 200000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *data = malloc(sizes[i] + 1);
        assert_non_null(data);
        for (size_t j = 0; j < sizes[i]; j++) data[j] = (unsigned char)(j * 7);
        lrt_write(path, data, sizes[i]);
        size_t bytes;
        unsigned char *back = lrt_slurp(path, &bytes);
        assert_int_equal(bytes, sizes[i]);
        assert_memory_equal(back, data, bytes);
        assert_int_equal(back[bytes], 0);
        free(back);
        free(data);
    }
    assert_true(lrt_exists(path));
    free(path);
    path = strdup(dir);
    lrt_remove_temp_dir(dir);
    assert_false(lrt_exists(path));
    free(path);
}

static lr_status make_three(void *arg, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    char *a = NULL, *b = NULL, *c = NULL;
    LR_TRY(LR_NEW(&a, 10, "a", err));
    LR_TRY(LR_NEW(&b, 20, "b", err));
    LR_TRY(LR_NEW(&c, 30, "c", err));
done:
    lr_free(c);
    lr_free(b);
    lr_free(a);
    return st;
}

static void test_each_allocation_is_made_to_fail(void **state)
{
    (void)state;
    assert_int_equal(lrt_fail_each_allocation(make_three, NULL), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_differ_and_repeat),
        cmocka_unit_test(test_random_ranges_hold),
        cmocka_unit_test(test_normal_numbers_have_mean_0_and_deviation_1),
        cmocka_unit_test(test_file_comes_back_as_written),
        cmocka_unit_test(test_each_allocation_is_made_to_fail),
    };
    return cmocka_run_group_tests_name("support", tests, NULL, NULL);
}
