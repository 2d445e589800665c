#include "pipeline_case.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

char *case_fixture(const char *name)
{
    return lrt_path(LR_FIXTURES, name);
}

lr_model *case_model(const char *name, lr_isa isa, lr_gemm gemm)
{
    lr_error err = {0};
    lr_model *model = NULL;
    lr_model_options options = {.vision = true, .audio = true};
    lrt_assert_ok(lr_kernels_get(isa, gemm, &options.kernels, &err), &err);
    char *directory = case_fixture(name);
    lrt_assert_ok(lr_model_open(&model, directory, &options, &err), &err);
    free(directory);
    return model;
}

char *case_make_clip(const char *directory, const case_clip *clip)
{
    lrt_random random;
    lrt_random_init(&random, 7000 + clip->n_pictures + clip->n_samples);
    uint8_t *rgb = NULL;
    int16_t *samples = NULL;
    if (clip->n_pictures)
        rgb = lrt_made_pictures(&random, clip->n_pictures, clip->width, clip->height);
    if (clip->n_samples) samples = lrt_made_sound(&random, clip->n_samples);
    lrt_film film = {.width = clip->width,
                     .height = clip->height,
                     .rate = clip->rate,
                     .rgb = rgb,
                     .n_pictures = clip->n_pictures,
                     .samples = samples,
                     .n_samples = clip->n_samples};
    char *path = lrt_path(directory, clip->name);
    lrt_write_film(path, &film);
    free(samples);
    free(rgb);
    return path;
}

void case_encode(lr_model *model, const char *recording, const char *set_path,
                 const lr_encode_options *options, lr_encode_result *result)
{
    lr_error err = {0};
    lr_encode_result own = {0};
    lr_status st = lr_encode_recording(model, recording, set_path, options, &own, &err);
    lrt_assert_ok(st, &err);
    assert_int_equal(err.status, LR_OK);
    if (result)
        *result = own;
    else
        lr_encode_result_free(&own);
}

/* ------------------------------------------------------------------ sets */

static const void *tensor_data(const lr_checkpoint *file, const char *name, lr_dtype dtype, size_t n_dims,
                               size_t dims[2])
{
    const lr_tensor *tensor = lr_checkpoint_find(file, name);
    if (!tensor) fail_msg("tokens.safetensors has no %s", name);
    assert_int_equal(tensor->dtype, dtype);
    assert_int_equal(tensor->n_dims, n_dims);
    dims[0] = tensor->dims[0];
    dims[1] = n_dims > 1 ? tensor->dims[1] : 0;
    return tensor->data;
}

void case_open_set(case_set *out, const char *path)
{
    lr_error err = {0};
    size_t dims[2];
    *out = (case_set){0};
    lrt_assert_ok(lr_set_open(&out->set, path, &err), &err);
    out->info = lr_set_info_of(out->set);
    char *tokens = lrt_path(path, "tokens.safetensors");
    if (lrt_exists(tokens)) {
        lrt_assert_ok(lr_checkpoint_open_file(&out->tokens, tokens, &err), &err);
        out->rows = tensor_data(out->tokens, "hidden", LR_F32, 2, dims);
        out->n = dims[0];
        out->hidden = dims[1];
        out->ids = tensor_data(out->tokens, "input_ids", LR_I32, 1, dims);
        assert_int_equal(dims[0], out->n);
        out->time = tensor_data(out->tokens, "time", LR_F64, 1, dims);
        assert_int_equal(dims[0], out->n);
    }
    free(tokens);
}

void case_close_set(case_set *set)
{
    lr_checkpoint_close(set->tokens);
    lr_set_close(set->set);
}

static void same_file(const char *path, const char *other, const char *name, const char *what)
{
    size_t bytes, other_bytes;
    char *one = lrt_path(path, name), *two = lrt_path(other, name);
    if (!lrt_exists(one) && !lrt_exists(two)) {
        free(one);
        free(two);
        return;
    }
    unsigned char *a = lrt_slurp(one, &bytes), *b = lrt_slurp(two, &other_bytes);
    size_t at = 0;
    while (at < bytes && at < other_bytes && a[at] == b[at]) at++;
    if (at < bytes || at < other_bytes)
        fail_msg("%s: %s differs from byte %zu on (%zu and %zu bytes)", what, name, at, bytes, other_bytes);
    free(a);
    free(b);
    free(one);
    free(two);
}

static char *manifest_text(const char *path)
{
    json_error_t cause;
    char *file = lrt_path(path, "manifest.json");
    json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, &cause);
    if (!root) fail_msg("%s: %s", file, cause.text);
    static const char *const how[] = {"run", "timings", "memory"};
    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        if (json_object_del(root, how[i]) != 0) fail_msg("%s has no %s", file, how[i]);
    char *text = json_dumps(root, JSON_SORT_KEYS | JSON_INDENT(1));
    json_decref(root);
    free(file);
    return text;
}

void case_same_set(const char *path, const char *other, const char *what)
{
    static const char *const files[] = {"recording.npy", "segments.npy", "segments.jsonl",
                                        "frames.npy", "frames.jsonl", "tokens.safetensors"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) same_file(path, other, files[i], what);
    char *one = manifest_text(path), *two = manifest_text(other);
    if (strcmp(one, two) != 0) fail_msg("%s: manifests differ:\n%s\n%s", what, one, two);
    json_malloc_t take;
    json_free_t give;
    json_get_alloc_funcs(&take, &give);
    give(one);
    give(two);
}

void case_holds_only(const char *directory, const char *const *names)
{
    DIR *dir = opendir(directory);
    if (!dir) fail_msg("%s cannot be opened", directory);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        bool known = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        for (size_t i = 0; !known && names[i]; i++) known = strcmp(entry->d_name, names[i]) == 0;
        if (!known) fail_msg("%s/%s was left behind", directory, entry->d_name);
    }
    (void)closedir(dir);
    for (size_t i = 0; names[i]; i++) {
        char *path = lrt_path(directory, names[i]);
        if (!lrt_exists(path)) fail_msg("%s is gone", path);
        free(path);
    }
}

/* ------------------------------------------------------------------ vectors */

void case_project(const float *projection, size_t hidden, const double *sum, double count, size_t dim,
                  double *out)
{
    double squares = 0;
    for (size_t i = 0; i < dim; i++) {
        out[i] = 0;
        for (size_t j = 0; j < hidden; j++)
            out[i] += (double)projection[i * hidden + j] * (sum[j] / count);
        squares += out[i] * out[i];
    }
    for (size_t i = 0; i < dim; i++) out[i] /= sqrt(squares);
}

void case_same_vector(const float *got, const double *want, size_t dim, const char *what)
{
    for (size_t i = 0; i < dim; i++) {
        double apart = fabs((double)got[i] - want[i]);
        if (!(apart <= 0x1p-25 + 1e-12))
            fail_msg("%s: value %zu is %.9g, not %.9g", what, i, (double)got[i], want[i]);
    }
}

case_directory case_place;
const char *const case_nothing[] = {NULL};
const char *const case_only_set[] = {"set", NULL};

int case_new_place(void **state)
{
    (void)state;
    case_place.out = lrt_temp_dir();
    case_place.set = lrt_path(case_place.out, "set");
    return 0;
}

int case_remove_place(void **state)
{
    (void)state;
    free(case_place.set);
    lrt_remove_temp_dir(case_place.out);
    return 0;
}
