#include "made_set.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#define PICTURES 7
#define SAMPLES 100800

static void write_recording(const char *path)
{
    lrt_random random;
    lrt_random_init(&random, 501);
    uint8_t *rgb = lrt_made_pictures(&random, PICTURES, 96, 64);
    int16_t *samples = lrt_made_sound(&random, SAMPLES);
    const lrt_film film = {.width = 96, .height = 64, .rate = {1, 1}, .rgb = rgb,
                           .n_pictures = PICTURES, .samples = samples, .n_samples = SAMPLES};
    lrt_write_film(path, &film);
    free(rgb);
    free(samples);
}

int made_set_setup(void **state)
{
    lr_error err = {0};
    made_set *made = calloc(1, sizeof *made);
    if (!made) return -1;
    made->directory = lrt_temp_dir();
    made->recording = lrt_path(made->directory, "talk.mkv");
    made->model_path = lrt_path(made->directory, "model");
    write_recording(made->recording);
    lrt_assert_ok(lr_make_model(made->model_path, "embeddinggemma2", LR_MADE_SMALL, 3, &err), &err);
    lrt_assert_ok(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &made->kernels, &err), &err);
    const lr_model_options options = {.kernels = made->kernels, .vision = true, .audio = true};
    lrt_assert_ok(lr_model_open(&made->model, made->model_path, &options, &err), &err);
    *state = made;
    return 0;
}

int made_set_teardown(void **state)
{
    made_set *made = *state;
    lr_model_close(made->model);
    lrt_remove_temp_dir(made->directory);
    free(made->recording);
    free(made->model_path);
    free(made);
    return 0;
}

lr_encode_options made_set_options(void)
{
    lr_encode_options options = lr_encode_defaults();
    options.chunk = 16;
    options.threads = 1;
    options.force = true;
    return options;
}

char *made_set_encode(const made_set *made, const char *name, const lr_encode_options *options)
{
    lr_error err = {0};
    lr_encode_result result = {0};
    char *path = lrt_path(made->directory, name);
    lrt_assert_ok(lr_encode_recording(made->model, made->recording, path, options, &result, &err), &err);
    lr_encode_result_free(&result);
    return path;
}

/* ------------------------------------------------------------------ comparing */

static json_t *manifest_without_run(const char *set)
{
    char *path = lrt_path(set, "manifest.json");
    json_error_t why;
    json_t *manifest = json_load_file(path, 0, &why);
    if (!manifest) fail_msg("%s: %s", path, why.text);
    assert_int_equal(json_object_del(manifest, "run"), 0);
    assert_int_equal(json_object_del(manifest, "timings"), 0);
    assert_int_equal(json_object_del(manifest, "memory"), 0);
    free(path);
    return manifest;
}

static size_t count_files(const char *set)
{
    size_t count = 0;
    DIR *dir = opendir(set);
    if (!dir) fail_msg("%s is not there", set);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void assert_same_file(const char *a, const char *b, const char *name)
{
    char *path_a = lrt_path(a, name), *path_b = lrt_path(b, name);
    size_t bytes_a, bytes_b;
    char *in_a = lrt_slurp(path_a, &bytes_a), *in_b = lrt_slurp(path_b, &bytes_b);
    if (bytes_a != bytes_b || memcmp(in_a, in_b, bytes_a) != 0) fail_msg("%s: differs from %s", path_a, path_b);
    free(in_a);
    free(in_b);
    free(path_a);
    free(path_b);
}

void assert_same_sets(const char *a, const char *b)
{
    static const char *const names[] = {"recording.npy", "segments.npy", "segments.jsonl", "frames.npy",
                                        "frames.jsonl"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) assert_same_file(a, b, names[i]);
    assert_int_equal(count_files(a), count_files(b));
    json_t *in_a = manifest_without_run(a), *in_b = manifest_without_run(b);
    if (!json_equal(in_a, in_b)) fail_msg("the manifests of %s and %s differ", a, b);
    json_decref(in_a);
    json_decref(in_b);
}
