/* Safetensors files: what is read, what hostile headers are refused, and that what is written reads
 * back. */
#include "lr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <longreel/encoder.h>

/* A file of this header (its length taken from the text) and data_bytes bytes of data 0, 1, 2, ... */
static void write_file(const char *path, const char *header, size_t data_bytes)
{
    size_t length = strlen(header), bytes = 8 + length + data_bytes;
    unsigned char *file = calloc(bytes, 1);
    assert_non_null(file);
    for (size_t i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(file + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++) file[8 + length + i] = (unsigned char)i;
    lrt_write(path, file, bytes);
    free(file);
}

typedef struct refusal {
    const char *header;
    size_t data_bytes;
    lr_status status;
    const char *says;
} refusal;

#define ONE(type, shape, offsets)                                                                  \
    "{\"a.weight\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static const refusal refusals[] = {
    {"", 0, LR_E_FORMAT, "line 1"},
    {"[]", 0, LR_E_FORMAT, "not an object"},
    {"{\"a\":", 0, LR_E_FORMAT, "line 1"},
    {"{\"a\":1}", 0, LR_E_FORMAT, "tensor a: not an object"},
    {"{\"a\":{}}", 0, LR_E_FORMAT, "dtype"},
    {ONE("F31", "[2]", "[0,8]"), 8, LR_E_UNSUPPORTED, "dtype F31"},
    {ONE("BOOL", "[8]", "[0,8]"), 8, LR_E_UNSUPPORTED, "dtype BOOL"},
    {ONE("F32", "2", "[0,8]"), 8, LR_E_FORMAT, "shape"},
    {ONE("F32", "[-2]", "[0,8]"), 8, LR_E_FORMAT, "shape"},
    {ONE("F32", "[2.0]", "[0,8]"), 8, LR_E_FORMAT, "shape"},
    {ONE("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, LR_E_UNSUPPORTED, "9 dimensions"},
    {ONE("F32", "[2]", "[0]"), 8, LR_E_FORMAT, "data_offsets"},
    {ONE("F32", "[2]", "[0,\"8\"]"), 8, LR_E_FORMAT, "data_offsets"},
    {ONE("F32", "[2]", "[8,0]"), 8, LR_E_FORMAT, "data_offsets [8, 0]"},
    {ONE("F32", "[2]", "[-8,0]"), 8, LR_E_FORMAT, "data_offsets"},
    {ONE("F32", "[2]", "[0,8]"), 7, LR_E_FORMAT, "outside the file's 7 bytes"},
    {ONE("F32", "[2]", "[0,9223372036854775807]"), 8, LR_E_FORMAT, "outside"},
    {ONE("F32", "[2]", "[0,9223372036854775808]"), 8, LR_E_FORMAT, "too big integer"},
    {ONE("F32", "[3]", "[0,8]"), 8, LR_E_FORMAT, "do not fit the shape"},
    {ONE("F32", "[4611686018427387904]", "[0,0]"), 0, LR_E_FORMAT, "do not fit the shape"},
    {ONE("F32", "[4294967296,4294967296,4]", "[0,0]"), 0, LR_E_FORMAT, "do not fit the shape"},
    {ONE("F32", "[2]", "[0,8]"), 9, LR_E_FORMAT, "1 bytes at the end"},
    {ONE("F32", "[1]", "[4,8]"), 8, LR_E_FORMAT, "4 bytes before"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}", 6, LR_E_FORMAT, "overlaps"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}", 4, LR_E_FORMAT, "duplicate"},
};

static void test_hostile_headers_are_refused_by_name(void **state)
{
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "t.safetensors");
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        lr_error err = {0};
        lr_checkpoint *checkpoint = NULL;
        write_file(path, r->header, r->data_bytes);
        lr_status st = lr_checkpoint_open_file(&checkpoint, path, &err);
        if (st != r->status || !strstr(err.text, r->says) || !strstr(err.text, path))
            fail_msg("%s: %s (%s)", r->header, err.text, lr_status_name(st));
        assert_null(checkpoint);
    }
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_a_cut_file_is_refused_at_every_length(void **state)
{
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "t.safetensors");
    write_file(path, ONE("F32", "[2]", "[0,8]"), 8);
    size_t bytes;
    void *whole = lrt_slurp(path, &bytes);
    for (size_t length = 0; length <= bytes; length++) {
        lr_error err = {0};
        lr_checkpoint *checkpoint = NULL;
        lrt_write(path, whole, length);
        lr_status st = lr_checkpoint_open_file(&checkpoint, path, &err);
        assert_int_equal(st, length == bytes ? LR_OK : LR_E_FORMAT);
        lr_checkpoint_close(checkpoint);
    }
    free(whole);
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_absurd_header_lengths_are_refused(void **state)
{
    static const uint64_t lengths[] = {9, 100000001, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX,
                                       UINT64_MAX - 7};
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "t.safetensors");
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        unsigned char file[16] = {0};
        lr_error err = {0};
        lr_checkpoint *checkpoint = NULL;
        for (size_t j = 0; j < 8; j++) file[j] = (unsigned char)(lengths[i] >> (8 * j));
        lrt_write(path, file, sizeof file);
        assert_int_equal(lr_checkpoint_open_file(&checkpoint, path, &err), LR_E_FORMAT);
        assert_null(checkpoint);
    }
    free(path);
    lrt_remove_temp_dir(dir);
}

/* Bytes changed at random: any status will do, but no crash, and no view outside the file. */
static void test_random_damage_never_crashes(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 11);
    char *source = lrt_path(LR_FIXTURES, "textonly/model.safetensors");
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "t.safetensors");
    size_t bytes;
    unsigned char *good = lrt_slurp(source, &bytes), *bad = malloc(bytes);
    assert_non_null(bad);
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--) header = header << 8 | good[i];
    for (int run = 0; run < 300; run++) {
        lr_error err = {0};
        lr_checkpoint *checkpoint = NULL;
        memcpy(bad, good, bytes);
        for (uint64_t n = 1 + lrt_below(&random, 4); n > 0; n--)
            bad[lrt_below(&random, 8 + header)] = (unsigned char)lrt_next(&random);
        lrt_write(path, bad, bytes);
        if (lr_checkpoint_open_file(&checkpoint, path, &err) != LR_OK) continue;
        char hash[33];
        lrt_assert_ok(lr_checkpoint_hash(checkpoint, hash, &err), &err); /* reads every byte */
        lr_checkpoint_close(checkpoint);
    }
    free(good);
    free(bad);
    free(source);
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_data_on_an_odd_place_is_read_right(void **state)
{
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "t.safetensors");
    for (size_t pad = 0; pad < 8; pad++) {
        char header[256];
        lr_error err = {0};
        lr_checkpoint *checkpoint = NULL;
        (void)snprintf(header, sizeof header, "%s%*s", ONE("I32", "[2]", "[0,8]"), (int)pad, "");
        write_file(path, header, 8);
        lrt_assert_ok(lr_checkpoint_open_file(&checkpoint, path, &err), &err);
        const lr_tensor *tensor = lr_checkpoint_find(checkpoint, "a.weight");
        assert_non_null(tensor);
        assert_int_equal((uintptr_t)tensor->data % 4, 0);
        assert_int_equal(((const int32_t *)tensor->data)[1], 0x07060504);
        assert_null(lr_checkpoint_find(checkpoint, "b"));
        lr_checkpoint_close(checkpoint);
    }
    free(path);
    lrt_remove_temp_dir(dir);
}

/* ------------------------------------------------------------------ writing */

static void test_what_is_written_reads_back(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1, 2, 3};
    const double wide[] = {0.5, -2};
    const float scalar[] = {7};
    const lr_named_tensor tensors[] = {
        {"a \"quoted\" name", {.dtype = LR_U8, .n_dims = 1, .dims = {3}, .data = bytes}},
        {"wide", {.dtype = LR_F64, .n_dims = 2, .dims = {2, 1}, .data = wide}},
        {"scalar", {.dtype = LR_F32, .n_dims = 0, .data = scalar}},
        {"empty", {.dtype = LR_BF16, .n_dims = 2, .dims = {0, 5}, .data = NULL}},
    };
    lr_error err = {0};
    lr_checkpoint *checkpoint = NULL;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "t.safetensors");
    lrt_assert_ok(lr_safetensors_write(path, tensors, 4, &err), &err);
    lrt_assert_ok(lr_checkpoint_open_file(&checkpoint, path, &err), &err);
    assert_int_equal(lr_checkpoint_count(checkpoint), 4);
    for (size_t i = 0; i < 4; i++) {
        const lr_tensor *got = lr_checkpoint_find(checkpoint, tensors[i].name);
        assert_non_null(got);
        assert_int_equal(got->dtype, tensors[i].tensor.dtype);
        assert_int_equal(got->n_dims, tensors[i].tensor.n_dims);
        for (size_t d = 0; d < got->n_dims; d++)
            assert_int_equal(got->dims[d], tensors[i].tensor.dims[d]);
        size_t size = lr_dtype_size(got->dtype) * (i == 0 ? 3 : i == 1 ? 2 : i == 2 ? 1 : 0);
        if (size) assert_memory_equal(got->data, tensors[i].tensor.data, size);
    }
    assert_string_equal(lr_checkpoint_name(checkpoint, 0), "a \"quoted\" name");
    lr_checkpoint_close(checkpoint);
    char *aside = lrt_path(dir, "t.safetensors.partial");
    assert_false(lrt_exists(aside));
    free(aside);
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_a_full_disk_leaves_no_file(void **state)
{
    (void)state;
    const float value[] = {7};
    const lr_named_tensor tensor = {"x", {.dtype = LR_F32, .n_dims = 0, .data = value}};
    lr_error err = {0};
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "t.safetensors");
    char *aside = lrt_path(dir, "t.safetensors.partial");
    assert_int_equal(symlink("/dev/full", aside), 0);
    assert_int_equal(lr_safetensors_write(path, &tensor, 1, &err), LR_E_IO);
    assert_non_null(strstr(err.text, "t.safetensors"));
    assert_false(lrt_exists(path));
    free(aside);
    free(path);
    lrt_remove_temp_dir(dir);
}

/* ------------------------------------------------------------------ shards */

static void write_index(const char *dir, const char *weight_map)
{
    char *path = lrt_path(dir, "model.safetensors.index.json"), text[512];
    int n = snprintf(text, sizeof text, "{\"metadata\": {}, \"weight_map\": %s}", weight_map);
    lrt_write(path, text, (size_t)n);
    free(path);
}

static void test_shards_are_joined_and_what_is_missing_is_named(void **state)
{
    static const struct {
        const char *map;
        lr_status status;
        const char *says;
    } cases[] = {
        {"{\"a.weight\": \"one.safetensors\"}", LR_OK, ""},
        {"{\"a.weight\": \"one.safetensors\", \"b\": \"two.safetensors\"}", LR_OK, ""},
        {"{\"a.weight\": \"two.safetensors\"}", LR_E_FORMAT, "a.weight is not in two.safetensors"},
        {"{\"a.weight\": \"three.safetensors\"}", LR_E_IO, "three.safetensors"},
        {"{\"a.weight\": \"../one.safetensors\"}", LR_E_FORMAT, "not a file name"},
        {"{\"a.weight\": \"/etc/passwd\"}", LR_E_FORMAT, "not a file name"},
        {"{\"a.weight\": \"..\"}", LR_E_FORMAT, "not a file name"},
        {"{\"a.weight\": 3}", LR_E_FORMAT, "not a file name"},
        {"[]", LR_E_FORMAT, "weight_map"},
    };
    (void)state;
    char *dir = lrt_temp_dir();
    char *one = lrt_path(dir, "one.safetensors"), *two = lrt_path(dir, "two.safetensors");
    write_file(one, ONE("F32", "[2]", "[0,8]"), 8);
    write_file(two, "{\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lr_error err = {0};
        lr_checkpoint *checkpoint = NULL;
        write_index(dir, cases[i].map);
        lr_status st = lr_checkpoint_open(&checkpoint, dir, &err);
        if (st != cases[i].status || !strstr(err.text, cases[i].says))
            fail_msg("%s: %s (%s)", cases[i].map, err.text, lr_status_name(st));
        if (st == LR_OK) assert_non_null(lr_checkpoint_find(checkpoint, "a.weight"));
        lr_checkpoint_close(checkpoint);
    }
    free(one);
    free(two);
    lrt_remove_temp_dir(dir);
}

static void test_a_directory_without_weights_is_an_error(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_checkpoint *checkpoint = NULL;
    char *dir = lrt_temp_dir();
    assert_int_equal(lr_checkpoint_open(&checkpoint, dir, &err), LR_E_IO);
    assert_non_null(strstr(err.text, dir));
    char *path = lrt_path(dir, "model.safetensors");
    assert_int_equal(mkdir(path, 0777), 0);
    lr_error_clear(&err);
    assert_int_equal(lr_checkpoint_open(&checkpoint, dir, &err), LR_E_IO);
    free(path);
    lrt_remove_temp_dir(dir);
}

/* ------------------------------------------------------------------ hash */

static void hash_of(const char *dir, char hex[33])
{
    lr_error err = {0};
    lr_checkpoint *checkpoint = NULL;
    lrt_assert_ok(lr_checkpoint_open(&checkpoint, dir, &err), &err);
    lrt_assert_ok(lr_checkpoint_hash(checkpoint, hex, &err), &err);
    lr_checkpoint_close(checkpoint);
}

static void test_the_hash_sees_weights_names_and_config(void **state)
{
    (void)state;
    char *dir = lrt_temp_dir(), hex[6][33];
    char *config = lrt_path(dir, "config.json"), *path = lrt_path(dir, "model.safetensors");
    lrt_write(config, "{}", 2);
    write_file(path, ONE("F32", "[2]", "[0,8]"), 8);
    hash_of(dir, hex[0]);
    hash_of(dir, hex[1]);
    assert_string_equal(hex[0], hex[1]);
    assert_int_equal(strlen(hex[0]), 32);
    lrt_write(config, "{ }", 3);
    hash_of(dir, hex[1]);
    lrt_write(config, "{}", 2);
    write_file(path, ONE("I32", "[2]", "[0,8]"), 8);
    hash_of(dir, hex[2]);
    write_file(path, ONE("F32", "[1,2]", "[0,8]"), 8);
    hash_of(dir, hex[3]);
    write_file(path, "{\"b.weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    hash_of(dir, hex[4]);
    /* the same tensors in two shards: the same hash */
    write_file(path, ONE("F32", "[2]", "[0,8]"), 8);
    char *shard = lrt_path(dir, "one.safetensors");
    assert_int_equal(rename(path, shard), 0);
    write_index(dir, "{\"a.weight\": \"one.safetensors\"}");
    hash_of(dir, hex[5]);
    assert_string_equal(hex[5], hex[0]);
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < i; j++) assert_string_not_equal(hex[i], hex[j]);
    free(shard);
    free(config);
    free(path);
    lrt_remove_temp_dir(dir);
}

/* ------------------------------------------------------------------ memory */

static lr_status open_sharded(void *arg, lr_error *err)
{
    lr_checkpoint *checkpoint = NULL;
    lr_status st = lr_checkpoint_open(&checkpoint, arg, err);
    lr_checkpoint_close(checkpoint);
    return st;
}

static lr_status write_two(void *arg, lr_error *err)
{
    static const float values[2] = {1, 2};
    const lr_named_tensor tensors[] = {
        {"x", {.dtype = LR_F32, .n_dims = 1, .dims = {2}, .data = values}},
        {"y", {.dtype = LR_U8, .n_dims = 1, .dims = {8}, .data = values}}};
    return lr_safetensors_write(arg, tensors, 2, err);
}

static void test_reading_and_writing_survive_each_failed_allocation(void **state)
{
    (void)state;
    char *directory = lrt_path(LR_FIXTURES, "odd"); /* two shards */
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "t.safetensors");
    assert_true(lrt_fail_each_allocation(open_sharded, directory) > 50);
    assert_true(lrt_fail_each_allocation(write_two, path) > 2);
    free(directory);
    free(path);
    lrt_remove_temp_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_headers_are_refused_by_name),
        cmocka_unit_test(test_a_cut_file_is_refused_at_every_length),
        cmocka_unit_test(test_absurd_header_lengths_are_refused),
        cmocka_unit_test(test_random_damage_never_crashes),
        cmocka_unit_test(test_data_on_an_odd_place_is_read_right),
        cmocka_unit_test(test_what_is_written_reads_back),
        cmocka_unit_test(test_a_full_disk_leaves_no_file),
        cmocka_unit_test(test_shards_are_joined_and_what_is_missing_is_named),
        cmocka_unit_test(test_a_directory_without_weights_is_an_error),
        cmocka_unit_test(test_the_hash_sees_weights_names_and_config),
        cmocka_unit_test(test_reading_and_writing_survive_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
