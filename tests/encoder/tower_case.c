#include "tower_case.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fixture_open(tower_fixture *fixture, const char *folder, const lr_kernels *kernels)
{
    lr_error err = {0};
    char path[512];
    json_error_t cause;
    *fixture = (tower_fixture){.kernels = kernels};
    if (!kernels) lrt_assert_ok(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &fixture->kernels, &err), &err);
    (void)snprintf(path, sizeof path, LR_FIXTURES "/%s/expected.json", folder);
    fixture->expected = json_load_file(path, 0, &cause);
    if (!fixture->expected) fail_msg("%s: %s", path, cause.text);
    (void)snprintf(path, sizeof path, LR_FIXTURES "/%s/expected.safetensors", folder);
    lrt_assert_ok(lr_checkpoint_open_file(&fixture->tensors, path, &err), &err);
    (void)snprintf(path, sizeof path, LR_FIXTURES "/%s", folder);
    const lr_model_options options = {.kernels = fixture->kernels, .vision = true, .audio = true};
    lrt_assert_ok(lr_model_open(&fixture->model, path, &options, &err), &err);
}

void fixture_close(tower_fixture *fixture)
{
    lr_model_close(fixture->model);
    lr_checkpoint_close(fixture->tensors);
    json_decref(fixture->expected);
}

json_t *fixture_case(const tower_fixture *fixture, size_t i)
{
    return json_array_get(json_object_get(fixture->expected, "cases"), i);
}

const char *case_name(const json_t *item)
{
    return json_string_value(json_object_get(item, "name"));
}

size_t case_size(const json_t *item, const char *key)
{
    const json_t *value = json_object_get(item, key);
    if (!json_is_integer(value)) fail_msg("case %s has no %s", case_name(item), key);
    return (size_t)json_integer_value(value);
}

const lr_tensor *case_tensor(const tower_fixture *fixture, const json_t *item, const char *tensor)
{
    char name[256];
    (void)snprintf(name, sizeof name, "%s/%s", case_name(item), tensor);
    return lr_checkpoint_find(fixture->tensors, name);
}

static double noise(const json_t *item, const char *tensor, size_t i)
{
    const json_t *deviation = json_object_get(json_object_get(item, "deviation"), tensor);
    const json_t *value = json_array_get(deviation, i);
    if (!json_is_real(value)) fail_msg("case %s has no deviation of %s", case_name(item), tensor);
    return json_real_value(value);
}

void assert_near_truth(const tower_fixture *fixture, const json_t *item, const char *tensor,
                       const float *found, size_t count, double factor)
{
    const lr_tensor *truth = case_tensor(fixture, item, tensor);
    if (!truth) fail_msg("case %s has no %s", case_name(item), tensor);
    assert_int_equal(truth->dtype, LR_F32);
    assert_int_equal(truth->dims[0] * truth->dims[1], count);
    const float *wanted = truth->data;
    double largest = 0, squares = 0, total = 0;
    for (size_t i = 0; i < count; i++) {
        double d = fabs((double)found[i] - (double)wanted[i]);
        if (!(d <= largest)) largest = d;
        squares += d * d;
        total += (double)wanted[i] * (double)wanted[i];
    }
    double relative = sqrt(squares / total);
    print_message("%s/%s: largest %.2e (library %.2e), relative rms %.2e (library %.2e)\n",
                  case_name(item), tensor, largest, noise(item, tensor, 0), relative,
                  noise(item, tensor, 1));
    assert_true(largest <= factor * noise(item, tensor, 0));
    assert_true(relative <= factor * noise(item, tensor, 1));
}

lr_status keep_stage(void *arg, const char *name, int layer, uint64_t first, const lr_tensor *rows,
                     lr_error *err)
{
    (void)layer;
    (void)err;
    for (kept_stage *kept = arg; kept; kept = kept->next) {
        if (strcmp(kept->name, name) != 0) continue;
        size_t columns = rows->n_dims > 1 ? rows->dims[1] : 1;
        size_t bytes = rows->dims[0] * columns * lr_dtype_size(rows->dtype);
        if (kept->rows != first) fail_msg("%s: row %zu after %zu", name, (size_t)first, kept->rows);
        kept->data = test_realloc(kept->data, kept->bytes + bytes + 1);
        memcpy(kept->data + kept->bytes, rows->data, bytes);
        kept->bytes += bytes;
        kept->rows += rows->dims[0];
        kept->columns = columns;
    }
    return LR_OK;
}

void kept_free(kept_stage *kept)
{
    if (kept->data) test_free(kept->data);
    *kept = (kept_stage){.name = kept->name, .next = kept->next};
}

/* A copy of a checkpoint folder's files in a new temporary directory. */
static char *copy_checkpoint(const char *folder)
{
    char *copy = lrt_temp_dir(), *source = lrt_path(LR_FIXTURES, folder);
    DIR *dir = opendir(source);
    if (!dir) fail_msg("%s is missing", source);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!strstr(entry->d_name, ".json") && !strstr(entry->d_name, ".safetensors")) continue;
        if (strncmp(entry->d_name, "expected", 8) == 0) continue;
        char *from = lrt_path(source, entry->d_name), *to = lrt_path(copy, entry->d_name);
        size_t bytes;
        void *data = lrt_slurp(from, &bytes);
        lrt_write(to, data, bytes);
        free(data);
        free(from);
        free(to);
    }
    (void)closedir(dir);
    free(source);
    return copy;
}

static void change_file(const char *directory, const char *file, const char *part, const char *key,
                        json_t *value)
{
    char *path = lrt_path(directory, file);
    json_t *document = json_load_file(path, 0, NULL);
    assert_non_null(document);
    assert_int_equal(json_object_set_new(json_object_get(document, part), key, value), 0);
    assert_int_equal(json_dump_file(document, path, 0), 0);
    json_decref(document);
    free(path);
}

static void assert_open_fails(const char *directory, lr_status status, const char *words)
{
    lr_error err = {0};
    lr_model *model = NULL;
    const lr_kernels *kernels;
    lrt_assert_ok(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &kernels, &err), &err);
    const lr_model_options options = {.kernels = kernels, .vision = true, .audio = true};
    lr_status st = lr_model_open(&model, directory, &options, &err);
    assert_null(model);
    if (st != status || !strstr(err.text, words))
        fail_msg("wanted %s with \"%s\", found %s: %s", lr_status_name(status), words,
                 lr_status_name(st), err.text);
}

void assert_change_refused(const char *folder, const char *file, const char *part, const char *key,
                           json_t *value, lr_status status, const char *words)
{
    char *directory = copy_checkpoint(folder);
    change_file(directory, file, part, key, value);
    assert_open_fails(directory, status, words);
    lrt_remove_temp_dir(directory);
}
