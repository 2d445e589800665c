/* Checksums made on the device, and rows taken and put by number. */
#include "device_case.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ checksums */

/* Of the bytes at `from` on the device, in one call and in two that add up. */
static uint64_t checksum_of(lr_device_at from, size_t bytes, uint64_t seed)
{
    const lr_device_ops *ops = case_device->ops;
    lr_error err = {0};
    uint64_t sums[2] = {1, 0};
    lr_device_at at = case_put(sums, sizeof sums);
    ops->fill(case_stream, at, 0, sizeof sums);
    ops->checksum(case_stream, at, from, bytes, seed);
    ops->checksum(case_stream, at + 8, from, bytes, seed);
    ops->checksum(case_stream, at + 8, from, 8, seed + 1);
    ops->download(case_stream, sums, at, sizeof sums);
    lrt_assert_ok(ops->wait(case_stream, &err), &err);
    ops->release(case_device, at);
    assert_true(sums[1] != sums[0]);
    return sums[0];
}

static void test_checksums_are_those_of_the_host(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 9, 16, 39, 4096, 32768, 32775, 70000};
    lrt_random random;
    lrt_random_init(&random, 500);
    unsigned char *bytes = malloc(70000);
    assert_non_null(bytes);
    for (size_t i = 0; i < 70000; i++) bytes[i] = (unsigned char)lrt_between(&random, 0, 255);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        lr_device_at at = case_put(bytes, sizes[s]);
        assert_true(checksum_of(at, sizes[s], s) == lr_device_checksum(bytes, sizes[s], s));
        case_device->ops->release(case_device, at);
    }
    free(bytes);
}

/* From the text in longreel/device.h, once more, for one word: mix(1 + mix(5)). */
static void test_the_checksum_is_what_its_text_says(void **state)
{
    (void)state;
    const unsigned char one[8] = {1};
    uint64_t z = 5;
    for (int round = 0; round < 2; round++) {
        if (round == 1) z += 1;
        z ^= z >> 30, z *= UINT64_C(0xbf58476d1ce4e5b9);
        z ^= z >> 27, z *= UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
    }
    assert_true(lr_device_checksum(one, 1, 5) == z && lr_device_checksum(one, 8, 5) == z);
}

static void test_checksums_see_what_may_go_wrong(void **state)
{
    (void)state;
    enum { n = 4096 };
    unsigned char good[n], bad[n];
    lrt_random random;
    lrt_random_init(&random, 501);
    for (size_t i = 0; i < n; i++) good[i] = (unsigned char)lrt_between(&random, 0, 255);
    uint64_t sum = lr_device_checksum(good, n, 7);
    for (size_t bit = 0; bit < 8 * n; bit += 61) { /* one bit */
        memcpy(bad, good, n);
        bad[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_true(lr_device_checksum(bad, n, 7) != sum);
    }
    memcpy(bad, good + 2048, 2048); /* halves in the wrong order */
    memcpy(bad + 2048, good, 2048);
    assert_true(lr_device_checksum(bad, n, 7) != sum);
    memcpy(bad, good, n); /* one 16 bytes late, as when a row is copied to its neighbour's place */
    memmove(bad + 16, bad, n - 16);
    assert_true(lr_device_checksum(bad, n, 7) != sum);
    assert_true(lr_device_checksum(good, n, 8) != sum); /* another layer's */
    memset(bad, 0, n);
    assert_true(lr_device_checksum(bad, n, 7) != lr_device_checksum(bad, n - 8, 7)); /* zeros count */
}

/* ------------------------------------------------------------------ rows by number */

/* Products of a bf16 value and a scale have one rounding, and storing as bf16 a second: the same here. */
static float stored(float value, lr_dtype dtype)
{
    return dtype == LR_BF16 ? case_from_bf16(case_to_bf16(value)) : value;
}

static void check_gather(size_t rows, size_t n, size_t dim, size_t pad, lr_dtype from, lr_dtype to, lrt_random *random)
{
    const float scale = 22.627417f; /* sqrt(512) */
    size_t ld = dim + pad;
    case_values table = case_normal(random, n * ld, 1, from), y = case_normal(random, rows * ld, 1, to);
    int32_t *ids = malloc(rows * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < rows; i++) ids[i] = (int32_t)lrt_between(random, -1, (int)n);
    ids[0] = (int32_t)n - 1;
    lr_device_at at = case_put(ids, rows * sizeof *ids);
    case_device->ops->gather(case_stream, (lr_rows){y.at, ld, 0, to}, (lr_rows){table.at, ld, 0, from}, at, rows, n,
                             dim, scale);
    float *got = case_download(&y);
    for (size_t i = 0; i < rows * ld; i++) {
        int32_t id = ids[i / ld];
        float want = y.host[i];
        if (id >= 0 && id < (int32_t)n && i % ld < dim)
            want = stored(scale * table.host[(size_t)id * ld + i % ld], to);
        assert_true(got[i] == want);
    }
    free(got);
    free(ids);
    case_device->ops->release(case_device, at);
    case_free(&table);
    case_free(&y);
}

static void check_scatter(size_t rows, size_t dim, size_t pad, lr_dtype from, lr_dtype to, lrt_random *random)
{
    size_t n = 2 * rows, ld = dim + pad;
    case_values x = case_normal(random, rows * ld, 1, from), y = case_normal(random, n * ld, 1, to);
    int32_t *ids = malloc(rows * sizeof *ids);
    float *want = malloc(n * ld * sizeof *want);
    assert_true(ids != NULL && want != NULL);
    memcpy(want, y.host, n * ld * sizeof *want);
    for (size_t i = 0; i < rows; i++) {
        ids[i] = (int32_t)(2 * (rows - 1 - i)) + (int32_t)lrt_between(random, 0, 1);
        if (i == rows / 2) ids[i] = i % 2 ? -1 : (int32_t)n;
        for (size_t d = 0; d < dim && i != rows / 2; d++)
            want[(size_t)ids[i] * ld + d] = stored(x.host[i * ld + d], to);
    }
    lr_device_at at = case_put(ids, rows * sizeof *ids);
    case_device->ops->scatter(case_stream, (lr_rows){y.at, ld, 0, to}, (lr_rows){x.at, ld, 0, from}, at, rows, n, dim);
    float *got = case_download(&y);
    assert_memory_equal(got, want, n * ld * sizeof *got);
    free(got);
    free(want);
    free(ids);
    case_device->ops->release(case_device, at);
    case_free(&x);
    case_free(&y);
}

static void test_rows_are_taken_and_put_by_number(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 8, 13, 512};
    lrt_random random;
    lrt_random_init(&random, 502);
    for (size_t d = 0; d < 4; d++)
        for (size_t k = 0; k < 4; k++) {
            lr_dtype from = k & 1 ? LR_BF16 : LR_F32, to = k & 2 ? LR_BF16 : LR_F32;
            check_gather(1 + (d + k) % 7, 3 + d, dims[d], (d + k) % 3 * 4, from, to, &random);
            check_scatter(1 + (d + k) % 6, dims[d], (d + k) % 3 * 4, from, to, &random);
        }
}

/* Last: the failure stays with the stream. */
static void test_checksums_of_odd_places_are_refused(void **state)
{
    (void)state;
    lr_error err = {0};
    case_device->ops->checksum(case_stream, 0, 4, 8, 0);
    assert_int_equal(case_device->ops->wait(case_stream, &err), LR_E_INTERNAL);
    assert_non_null(strstr(err.text, "not aligned to 8 bytes"));
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* mutations.sh */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksums_are_those_of_the_host),
        cmocka_unit_test(test_the_checksum_is_what_its_text_says),
        cmocka_unit_test(test_checksums_see_what_may_go_wrong),
        cmocka_unit_test(test_rows_are_taken_and_put_by_number),
        cmocka_unit_test(test_checksums_of_odd_places_are_refused),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
