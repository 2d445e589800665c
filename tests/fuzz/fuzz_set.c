/* Any bytes as one file of an embedding set, the rest being a good one: reading, verifying, searching,
 * pooling again. The first byte chooses the file, the second whether the manifest's hashes are made to
 * fit, as a set made with ill intent would have them, and what is done with it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <xxhash.h>

#include <longreel/encoder.h>
#include <longreel/repool.h>
#include <longreel/store.h>

#include "fuzz.h"
#include "made_set.h"
#include "mutate_json.h"

static const char *const names[] = {"manifest.json",  "recording.npy", "segments.npy",
                                    "segments.jsonl", "frames.npy",    "frames.jsonl",
                                    "tokens.safetensors"};
#define N_NAMES (sizeof names / sizeof *names)

/* FRAME: the length in front of a header is made to fit, so that longer and shorter headers get read. */
enum { MAKE_HASHES_FIT = 1, REPOOL = 2, SEARCH = 4, FRAME = 8 };

static struct content {
    char *data;
    size_t bytes;
} originals[N_NAMES];

static const lr_kernels *kernels;

static void put(size_t name, const void *data, size_t bytes)
{
    char path[64];
    (void)snprintf(path, sizeof path, "sets/set/%s", names[name]);
    (void)fz_write(path, data, bytes);
}

static void make_seeds(void)
{
    for (size_t n = 0; n < N_NAMES; n++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s", names[n]);
        const uint8_t head[2] = {(uint8_t)n, MAKE_HASHES_FIT | REPOOL | SEARCH | FRAME};
        fz_seed(name, head, sizeof head, originals[n].data, originals[n].bytes);
    }
}

/* ------------------------------------------------------------------ what is made to fit */

/* .npy: two bytes, from there to the end of the line; safetensors: eight, to the last "}}". */
static void fit_header(size_t name, uint8_t *file, size_t bytes)
{
    size_t first = name == 6 ? 0 : 8, width = name == 6 ? 8 : 2, end = 0;
    bool framed = strstr(names[name], ".npy") || name == 6;
    for (size_t i = first + width; framed && i < bytes && (name == 6 || end == 0); i++) {
        if (name != 6 && file[i] == '\n') end = i + 1;
        if (name == 6 && file[i] == '}' && file[i - 1] == '}') end = i + 1;
    }
    for (size_t i = 0; end > 0 && i < width; i++)
        file[first + i] = (uint8_t)((uint64_t)(end - first - width) >> (8 * i));
}

static void hash_of(const void *data, size_t bytes, char hex[33])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, bytes));
    for (size_t i = 0; i < 16; i++) (void)snprintf(hex + 2 * i, 3, "%02x", canonical.digest[i]);
}

/* "manifest_hash": of the compact text with sorted keys, without what tells how the set was made. */
static void fit_manifest_hash(json_t *root)
{
    static const char *const left_out[] = {"run", "timings", "memory", "manifest_hash"};
    char hex[33];
    json_t *copy = json_copy(root);
    for (size_t i = 0; i < 4; i++) (void)json_object_del(copy, left_out[i]);
    char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
    FZ_CHECK(text);
    hash_of(text, strlen(text), hex);
    FZ_CHECK(json_object_set_new(root, "manifest_hash", json_string(hex)) == 0);
    lr_free(text);
    json_decref(copy);
}

static json_t *entry_of(const void *data, size_t bytes)
{
    char hex[33];
    hash_of(data, bytes, hex);
    return json_pack("{s:s, s:I}", "hash", hex, "bytes", (json_int_t)bytes);
}

/* The manifest with the entries of all other files as they are, file `name` being data. Without an object
 * at hand nothing is changed. */
static void fit_manifest(const struct content *manifest, size_t name, const void *data, size_t bytes)
{
    json_t *root = json_loadb(manifest->data, manifest->bytes, JSON_REJECT_DUPLICATES, NULL);
    json_t *files = json_object();
    for (size_t n = 1; n < N_NAMES; n++)
        (void)json_object_set_new(files, names[n],
                                  n == name ? entry_of(data, bytes)
                                            : entry_of(originals[n].data, originals[n].bytes));
    if (json_is_object(root)) {
        FZ_CHECK(json_object_set(root, "files", files) == 0);
        fit_manifest_hash(root);
        char *text = json_dumps(root, 0);
        FZ_CHECK(text);
        put(0, text, strlen(text));
        lr_free(text);
    }
    json_decref(files);
    json_decref(root);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    lr_error err = {0};
    fz_init();
    FZ_CHECK(fz_succeeded(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_PACKED, &kernels, &err), &err));
    fz_set_make(fz_path("made"));
    fz_make_directory("sets");
    fz_make_directory("sets/set");
    for (size_t n = 0; n < N_NAMES; n++) {
        char path[64];
        (void)snprintf(path, sizeof path, "made/%s", names[n]);
        originals[n].data = fz_slurp(fz_path(path), &originals[n].bytes);
        put(n, originals[n].data, originals[n].bytes);
    }
    FZ_CHECK(fz_succeeded(lr_set_verify(fz_path("sets/set"), &err), &err));
    fz_seeds(make_seeds);
    return 0;
}

/* ------------------------------------------------------------------ what an open set promises */

static void check_npy(const char *path)
{
    lr_error err = {0};
    lr_npy npy;
    if (!fz_succeeded(lr_npy_open(&npy, path, &err), &err)) {
        FZ_CHECK(!npy.map);
        return;
    }
    size_t bytes = lr_dtype_size(npy.tensor.dtype);
    FZ_CHECK((uintptr_t)npy.tensor.data % bytes == 0 && npy.tensor.n_dims <= LR_MAX_DIMS);
    for (size_t d = 0; d < npy.tensor.n_dims; d++) FZ_CHECK(lr_mul_size(bytes, npy.tensor.dims[d], &bytes));
    volatile unsigned char sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum = (unsigned char)(sum + ((const unsigned char *)npy.tensor.data)[i]);
    lr_npy_close(&npy);
}

static double add_up(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)values[i];
    return sum;
}

static void check_info(const lr_set_info *info)
{
    FZ_CHECK(info->dim > 0 && info->path && info->name && info->recording && info->model_hash);
    FZ_CHECK(info->model_name && info->context && info->key && info->manifest);
    volatile double sum = add_up(info->recording_vector, info->dim) +
                          add_up(info->segments, info->n_segments * info->dim) +
                          add_up(info->frames, info->n_frames * info->dim);
    (void)sum;
    for (size_t i = 0; i < info->n_segments; i++) {
        const lr_segment_row *row = &info->segment_rows[i];
        FZ_CHECK(row->start >= 0 && row->start <= row->end && row->first <= row->end_token);
    }
    for (size_t i = 0; i < info->n_frames; i++)
        FZ_CHECK(info->frame_rows[i].i >= 0 && info->frame_rows[i].t >= 0);
}

/* What verify lets through stands in order, and every vector has length 1. */
static void check_verified(const lr_set_info *info)
{
    for (size_t i = 1; i < info->n_segments; i++)
        FZ_CHECK(info->segment_rows[i].start > info->segment_rows[i - 1].start);
    for (size_t i = 1; i < info->n_frames; i++)
        FZ_CHECK(info->frame_rows[i].i > info->frame_rows[i - 1].i);
    for (size_t i = 0; i < info->n_segments; i++) {
        double square = 0;
        for (size_t d = 0; d < info->dim; d++) {
            double v = (double)info->segments[i * info->dim + d];
            square += v * v;
        }
        FZ_CHECK(fabs(sqrt(square) - 1) < 2e-5);
    }
}

static void search(lr_set *set)
{
    lr_error err = {0};
    const lr_set_info *info = lr_set_info_of(set);
    float *query = calloc(info->dim, sizeof *query);
    if (!query) return;
    query[0] = 1;
    for (int level = LR_LEVEL_SEGMENT; level <= LR_LEVEL_RECORDING; level++) {
        lr_hit *hits = NULL;
        size_t count = 0;
        if (fz_succeeded(lr_search(kernels, NULL, &set, 1, query, info->dim, (lr_level)level, 3,
                                   level != LR_LEVEL_FRAME, &hits, &count, &err), &err)) {
            FZ_CHECK(count <= 3);
            for (size_t i = 0; i < count; i++) {
                FZ_CHECK(hits[i].set == 0);
                FZ_CHECK(i == 0 || !(hits[i].score > hits[i - 1].score));
            }
            lr_free(hits);
        }
        lr_error_clear(&err);
    }
    free(query);
}

static void repool(const char *path)
{
    lr_error err = {0};
    lr_repool_options options = lr_repool_defaults();
    lr_repool_result result;
    lr_set *set = NULL;
    options.force = true;
    /* A hop as small as the set may ask for would only measure this machine's memory. */
    options.segment = options.hop = LR_TIME_SECOND * 1000000;
    const char *to = fz_path("repooled");
    if (!fz_succeeded(lr_repool(path, to, &options, &result, &err), &err)) return;
    FZ_CHECK(fz_succeeded(lr_set_verify(to, &err), &err));
    FZ_CHECK(fz_succeeded(lr_set_open(&set, to, &err), &err));
    check_info(lr_set_info_of(set));
    lr_set_close(set);
}

static void try_set(const char *path, uint64_t what)
{
    lr_error err = {0}, verify_err = {0};
    lr_set *set = NULL;
    if (!fz_succeeded(lr_set_open(&set, path, &err), &err)) {
        FZ_CHECK(!set);
        FZ_CHECK(!fz_succeeded(lr_set_verify(path, &verify_err), &verify_err));
        return;
    }
    check_info(lr_set_info_of(set));
    if (what & SEARCH) search(set);
    if (fz_succeeded(lr_set_verify(path, &verify_err), &verify_err)) {
        check_verified(lr_set_info_of(set));
        if (what & REPOOL) repool(path);
    }
    lr_set_close(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fz_bytes in = {data, size};
    size_t name = fz_take(&in, 1) % N_NAMES;
    uint64_t what = fz_take(&in, 1);
    uint8_t *file = malloc(in.left + 1);
    if (!file) return 0;
    memcpy(file, in.at, in.left);
    if (what & FRAME) fit_header(name, file, in.left);
    const struct content *manifest = &originals[0], given = {(char *)file, in.left};
    fz_begin();
    put(name, file, in.left);
    if (what & MAKE_HASHES_FIT) fit_manifest(name == 0 ? &given : manifest, name, file, in.left);
    if (strstr(names[name], ".npy")) {
        char path[64];
        (void)snprintf(path, sizeof path, "sets/set/%s", names[name]);
        check_npy(fz_path(path));
    }
    try_set(fz_path("sets/set"), what);
    put(name, originals[name].data, originals[name].bytes);
    put(0, manifest->data, manifest->bytes);
    fz_end((size_t)256 << 20);
    free(file);
    return 0;
}

/* The manifest keeps its form; the other files are bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
    if (size < 3 || max_size < 3 || data[0] % N_NAMES != 0 || seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    return 2 + fz_mutate_json(data + 2, size - 2, max_size - 2, seed / 16);
}
