/* Any bytes as a .safetensors file, alone or as the shards of an index. The first byte: even, the rest is
 * one file; odd, the next two are the length of model.safetensors.index.json, which follows, and the
 * rest is the shard "a.safetensors"; "b.safetensors" is a good one with the tensors "x" and "y". With its
 * second bit, the file's own length of its header is made to fit, so that longer and shorter ones get read. */
#include <stdlib.h>
#include <string.h>

#include <longreel/encoder.h>

#include "fuzz.h"

static const float values[] = {1, 2, 3, 4, 5, 6};

static void make_seeds(void)
{
    static const char index[] = "{\"metadata\": {\"total_size\": 24}, \"weight_map\": {\"x\": \"a.safetensors\", "
                                "\"y\": \"b.safetensors\"}}";
    size_t bytes;
    char *file = fz_slurp(fz_path("shards/b.safetensors"), &bytes);
    uint8_t head[3 + sizeof index] = {3, sizeof index - 1, 0};
    memcpy(head + 3, index, sizeof index - 1);
    fz_seed("single", "\2", 1, file, bytes);
    fz_seed("shards", head, 3 + sizeof index - 1, file, bytes);
    free(file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fz_init();
    fz_make_directory("shards");
    lr_error err = {0};
    const lr_named_tensor tensors[] = {
        {"x", {.dtype = LR_F32, .n_dims = 2, .dims = {2, 2}, .data = values}},
        {"y", {.dtype = LR_F32, .n_dims = 1, .dims = {2}, .data = values + 4}},
    };
    FZ_CHECK(fz_succeeded(lr_safetensors_write(fz_path("shards/b.safetensors"), tensors, 2, &err), &err));
    fz_seeds(make_seeds);
    return 0;
}

static size_t bytes_of(const lr_tensor *tensor)
{
    size_t bytes = lr_dtype_size(tensor->dtype);
    for (size_t d = 0; d < tensor->n_dims; d++) FZ_CHECK(lr_mul_size(bytes, tensor->dims[d], &bytes));
    return bytes;
}

/* Every tensor lies in memory of its own type, and its name finds it. */
static void check_tensors(const lr_checkpoint *checkpoint)
{
    volatile unsigned char sum = 0;
    for (size_t i = 0; i < lr_checkpoint_count(checkpoint); i++) {
        const char *name = lr_checkpoint_name(checkpoint, i);
        const lr_tensor *tensor = lr_checkpoint_find(checkpoint, name);
        FZ_CHECK(tensor && tensor->n_dims <= LR_MAX_DIMS);
        FZ_CHECK(i == 0 || strcmp(lr_checkpoint_name(checkpoint, i - 1), name) < 0);
        size_t bytes = bytes_of(tensor);
        if (bytes == 0) continue;
        FZ_CHECK((uintptr_t)tensor->data % lr_dtype_size(tensor->dtype) == 0);
        for (size_t b = 0; b < bytes; b++) sum = (unsigned char)(sum + ((const unsigned char *)tensor->data)[b]);
    }
    FZ_CHECK(!lr_checkpoint_find(checkpoint, "no tensor has this name"));
}

static bool same_tensor(const lr_tensor *a, const lr_tensor *b)
{
    if (a->dtype != b->dtype || a->n_dims != b->n_dims) return false;
    for (size_t d = 0; d < a->n_dims; d++)
        if (a->dims[d] != b->dims[d]) return false;
    size_t bytes = bytes_of(a);
    return bytes == 0 || memcmp(a->data, b->data, bytes) == 0;
}

/* What was read and is written again is the same to the bit. */
static void check_copy(const lr_checkpoint *checkpoint)
{
    enum { MOST = 64 };
    lr_named_tensor tensors[MOST];
    lr_error err = {0};
    lr_checkpoint *copy = NULL;
    size_t count = lr_checkpoint_count(checkpoint);
    if (count > MOST) return;
    for (size_t i = 0; i < count; i++) {
        tensors[i].name = lr_checkpoint_name(checkpoint, i);
        tensors[i].tensor = *lr_checkpoint_find(checkpoint, tensors[i].name);
    }
    const char *path = fz_path("copy.safetensors");
    if (!fz_succeeded(lr_safetensors_write(path, tensors, count, &err), &err)) return;
    FZ_CHECK(fz_succeeded(lr_checkpoint_open_file(&copy, path, &err), &err));
    FZ_CHECK(lr_checkpoint_count(copy) == count);
    for (size_t i = 0; i < count; i++) {
        const lr_tensor *found = lr_checkpoint_find(copy, tensors[i].name);
        FZ_CHECK(found && same_tensor(found, &tensors[i].tensor));
    }
    lr_checkpoint_close(copy);
}

static void look_at(lr_checkpoint *checkpoint, lr_status st, const lr_error *err)
{
    char hex[33];
    lr_error hash_err = {0};
    if (!fz_succeeded(st, err)) {
        FZ_CHECK(!checkpoint);
        return;
    }
    check_tensors(checkpoint);
    check_copy(checkpoint);
    if (fz_succeeded(lr_checkpoint_hash(checkpoint, hex, &hash_err), &hash_err)) FZ_CHECK(strlen(hex) == 32);
    lr_checkpoint_close(checkpoint);
}

/* To the last "}}". */
static void fit_header(uint8_t *file, size_t bytes)
{
    size_t end = 0;
    for (size_t i = 9; i < bytes; i++)
        if (file[i] == '}' && file[i - 1] == '}') end = i + 1;
    for (size_t i = 0; end > 0 && i < 8; i++) file[i] = (uint8_t)((uint64_t)(end - 8) >> (8 * i));
}

static void write_file(const char *name, const uint8_t *data, size_t bytes, bool fit)
{
    uint8_t *file = malloc(bytes + 1);
    FZ_CHECK(file);
    memcpy(file, data, bytes);
    if (fit) fit_header(file, bytes);
    (void)fz_write(name, file, bytes);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lr_error err = {0};
    lr_checkpoint *checkpoint = NULL;
    fz_bytes in = {data, size};
    uint64_t mode = fz_take(&in, 1);
    bool sharded = mode & 1, fit = mode & 2;
    fz_begin();
    if (sharded) {
        size_t index = (size_t)fz_take(&in, 2);
        if (index > in.left) index = in.left;
        (void)fz_write("shards/config.json", "{}", 2);
        (void)fz_write("shards/model.safetensors.index.json", in.at, index);
        write_file("shards/a.safetensors", in.at + index, in.left - index, fit);
        lr_status st = lr_checkpoint_open(&checkpoint, fz_path("shards"), &err);
        look_at(checkpoint, st, &err);
    } else {
        write_file("model.safetensors", in.at, in.left, fit);
        lr_status st = lr_checkpoint_open_file(&checkpoint, fz_path("model.safetensors"), &err);
        look_at(checkpoint, st, &err);
    }
    fz_end(((size_t)1 << 20) + 256 * size);
    return 0;
}
