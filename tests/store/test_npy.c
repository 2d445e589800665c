#include "lr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/store.h>

static void write_matrix(const char *path, size_t rows, size_t cols) {
    lr_error err = {0};
    lr_npy_writer *w = NULL;
    const size_t dims[] = {rows, cols};
    lrt_assert_ok(lr_npy_create(&w, path, LR_F32, dims, 2, &err), &err);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++) {
            float value = (float)(r * 100 + c);
            lrt_assert_ok(lr_npy_write(w, &value, sizeof value, &err), &err);
        }
    }
    lrt_assert_ok(lr_npy_finish(w, &err), &err);
}

static void test_npy_reads_back_what_was_written(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "a.npy");
    for (size_t rows = 0; rows < 4; rows++) {
        lr_error err = {0};
        lr_npy npy;
        write_matrix(path, rows, 7);
        lrt_assert_ok(lr_npy_open(&npy, path, &err), &err);
        assert_int_equal(npy.tensor.n_dims, 2);
        assert_int_equal(npy.tensor.dims[0], rows);
        assert_int_equal(npy.tensor.dims[1], 7);
        assert_int_equal(npy.tensor.dtype, LR_F32);
        const float *values = npy.tensor.data;
        for (size_t i = 0; i < rows * 7; i++) assert_true(values[i] == (float)(i / 7 * 100 + i % 7));
        lr_npy_close(&npy);
    }
    free(path);
    lrt_remove_temp_dir(dir);
}

/* The format's own text: a 64-byte aligned header, so that numpy maps it. */
static void test_npy_header_is_the_published_one(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "a.npy");
    size_t bytes = 0;
    write_matrix(path, 2, 3);
    unsigned char *file = lrt_slurp(path, &bytes);
    size_t header = 10 + file[8] + 256u * file[9];
    assert_memory_equal(file, "\x93NUMPY\x01\x00", 8);
    assert_int_equal(header % 64, 0);
    assert_int_equal(file[header - 1], '\n');
    assert_int_equal(bytes, header + 24);
    const char *text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    assert_memory_equal(file + 10, text, strlen(text));
    free(file);
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_npy_with_too_few_or_too_many_values_is_refused(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "a.npy");
    const size_t dims[] = {2, 2};
    float values[5] = {0};
    lr_error err = {0};
    lr_npy_writer *w = NULL;
    lrt_assert_ok(lr_npy_create(&w, path, LR_F32, dims, 2, &err), &err);
    assert_int_equal(lr_npy_write(w, values, 20, &err), LR_E_INTERNAL);
    lr_error_clear(&err);
    lrt_assert_ok(lr_npy_write(w, values, 12, &err), &err);
    assert_int_equal(lr_npy_finish(w, &err), LR_E_INTERNAL);
    free(path);
    lrt_remove_temp_dir(dir);
}

/* Every cut and every changed byte of the header gives an error or a tensor that lies in the file. */
static void test_npy_survives_any_damage(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "a.npy"), *bad = lrt_path(dir, "b.npy");
    size_t bytes = 0;
    write_matrix(path, 2, 3);
    unsigned char *file = lrt_slurp(path, &bytes);
    for (size_t i = 0; i < bytes + 128; i++) {
        lr_error err = {0};
        lr_npy npy;
        if (i < bytes) {
            lrt_write(bad, file, i);
        } else {
            file[i - bytes] ^= 0x15;
            lrt_write(bad, file, bytes);
            file[i - bytes] ^= 0x15;
        }
        lr_status st = lr_npy_open(&npy, bad, &err);
        if (i < bytes) assert_int_not_equal(st, LR_OK);
        if (st != LR_OK) assert_non_null(strstr(err.text, "b.npy"));
        if (st == LR_OK) assert_true(npy.tensor.dims[0] <= 1000);
        if (st == LR_OK) lr_npy_close(&npy);
    }
    free(file);
    free(path);
    free(bad);
    lrt_remove_temp_dir(dir);
}

/* A file with this header's text, which is taken as it is, and some values. */
static lr_status open_with_header(const char *path, const char *text, size_t value_bytes, lr_error *err) {
    unsigned char file[512] = "\x93NUMPY\x01";
    size_t length = strlen(text);
    lr_npy npy;
    file[8] = (unsigned char)length;
    memcpy(file + 10, text, length);
    lrt_write(path, file, 10 + length + value_bytes);
    lr_status st = lr_npy_open(&npy, path, err);
    if (st == LR_OK) lr_npy_close(&npy);
    return st;
}

static void test_npy_whose_values_are_not_aligned_is_refused(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "a.npy"), text[128];
    for (size_t spaces = 0; spaces < 16; spaces++) {
        lr_error err = {0};
        int n = snprintf(text, sizeof text, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }%*s",
                         (int)spaces, "");
        lr_status st = open_with_header(path, text, 16, &err);
        assert_int_equal(st, (10 + (size_t)n) % 8 == 0 ? LR_OK : LR_E_FORMAT);
    }
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_npy_with_a_shape_that_is_none_is_refused(void **state) {
    (void)state;
    static const char *const shapes[] = {"(-1,)", "(0, -3)", "(+4,)", "(4", "(4,", "(18446744073709551616,)",
                                         "(0x4,)", "(,4)", "(1,1,1,1,1,1,1,1,4)"};
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "a.npy"), text[128];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        lr_error err = {0};
        (void)snprintf(text, sizeof text, "{'descr': '|u1', 'fortran_order': False, 'shape': %s}", shapes[i]);
        for (size_t bytes = 0; bytes <= 4; bytes += 4) {
            lr_error_clear(&err);
            assert_int_equal(open_with_header(path, text, bytes, &err), LR_E_FORMAT);
        }
    }
    free(path);
    lrt_remove_temp_dir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy_reads_back_what_was_written),
        cmocka_unit_test(test_npy_header_is_the_published_one),
        cmocka_unit_test(test_npy_with_too_few_or_too_many_values_is_refused),
        cmocka_unit_test(test_npy_survives_any_damage),
        cmocka_unit_test(test_npy_whose_values_are_not_aligned_is_refused),
        cmocka_unit_test(test_npy_with_a_shape_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
