#include <longreel/encoder.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xxhash.h>

#include "config.h"
#include "safetensors.h"

typedef struct checkpoint_tensor {
    const char *name;
    const lr_tensor *tensor;
} checkpoint_tensor;

struct lr_checkpoint {
    char *directory; /* NULL for a single file by path */
    lr_safetensors *shards;
    size_t n_shards, shards_capacity;
    checkpoint_tensor *tensors; /* in name order */
    size_t count;
    pthread_mutex_t lock; /* over the hash */
    bool has_hash;
    char hash[33];
};

static lr_status checkpoint_new(lr_checkpoint **out, lr_error *err)
{
    lr_status st = LR_NEW(out, 1, "a checkpoint", err);
    if (st != LR_OK) return st;
    int code = pthread_mutex_init(&(*out)->lock, NULL);
    if (code != 0) {
        lr_free(*out);
        *out = NULL;
        return lr_fail_errno(err, LR_E_NOMEM, code, "a lock");
    }
    return LR_OK;
}

static lr_status add_shard(lr_checkpoint *checkpoint, const char *path, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(LR_GROW(&checkpoint->shards, &checkpoint->shards_capacity, checkpoint->n_shards + 1,
                   "the shards of a checkpoint", err));
    LR_TRY(lr_safetensors_open(&checkpoint->shards[checkpoint->n_shards], path, err));
    checkpoint->n_shards++;
done:
    return st;
}

/* All tensors of the one file. */
static lr_status list_single(lr_checkpoint *checkpoint, lr_error *err)
{
    const lr_safetensors *file = &checkpoint->shards[0];
    lr_status st = LR_NEW(&checkpoint->tensors, file->count, "the tensors of a checkpoint", err);
    if (st != LR_OK) return st;
    for (size_t i = 0; i < file->count; i++)
        checkpoint->tensors[i] = (checkpoint_tensor){file->entries[i].name, &file->entries[i].tensor};
    checkpoint->count = file->count;
    return LR_OK;
}

static int by_name(const void *a, const void *b)
{
    const checkpoint_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* A shard's name comes from a file: it must name a file beside the index and nothing else. */
static bool plain_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && !strchr(name, '/') && strlen(name) < 256;
}

/* The shard of that name, opened when it is new. */
static lr_status shard_of(lr_checkpoint *checkpoint, const char *name, const lr_safetensors **out,
                          lr_error *err)
{
    lr_status st = LR_OK;
    char *path = NULL;
    LR_TRY(lr_format(&path, err, "%s/%s", checkpoint->directory, name));
    for (size_t i = checkpoint->n_shards; i-- > 0;)
        if (strcmp(checkpoint->shards[i].path, path) == 0) {
            *out = &checkpoint->shards[i];
            goto done;
        }
    LR_TRY(add_shard(checkpoint, path, err));
    *out = &checkpoint->shards[checkpoint->n_shards - 1];
done:
    lr_free(path);
    return st;
}

/* The index decides which shard has a tensor; what else lies in the shards is not part of it. */
static lr_status list_sharded(lr_checkpoint *checkpoint, const char *index, lr_error *err)
{
    lr_status st = LR_OK;
    json_t *document = NULL, *map, *value;
    const char *name;
    const lr_safetensors *shard = NULL;
    LR_TRY(lr_config_load(index, true, &document, err));
    map = json_object_get(document, "weight_map");
    if (!json_is_object(map)) LR_FAIL(LR_E_FORMAT, "%s: weight_map is missing", index);
    json_object_foreach(map, name, value) {
        const char *file = json_string_value(value);
        if (!file || !plain_name(file))
            LR_FAIL(LR_E_FORMAT, "%s: the shard of %s is not a file name", index, name);
        st = shard_of(checkpoint, file, &shard, err);
        if (st != LR_OK) {
            lr_error_context(err, "%s", index);
            goto done;
        }
    }
    LR_TRY(LR_NEW(&checkpoint->tensors, json_object_size(map), "the tensors of a checkpoint", err));
    json_object_foreach(map, name, value) {
        LR_TRY(shard_of(checkpoint, json_string_value(value), &shard, err));
        const lr_safetensors_entry *entry = lr_safetensors_find(shard, name);
        if (!entry)
            LR_FAIL(LR_E_FORMAT, "%s: %s is not in %s", index, name, json_string_value(value));
        checkpoint->tensors[checkpoint->count++] = (checkpoint_tensor){entry->name, &entry->tensor};
    }
    qsort(checkpoint->tensors, checkpoint->count, sizeof *checkpoint->tensors, by_name);
done:
    json_decref(document);
    return st;
}

lr_status lr_checkpoint_open_file(lr_checkpoint **out, const char *path, lr_error *err)
{
    lr_status st = LR_OK;
    lr_checkpoint *checkpoint = NULL;
    *out = NULL;
    LR_TRY(checkpoint_new(&checkpoint, err));
    LR_TRY(add_shard(checkpoint, path, err));
    LR_TRY(list_single(checkpoint, err));
    *out = checkpoint;
    checkpoint = NULL;
done:
    lr_checkpoint_close(checkpoint);
    return st;
}

lr_status lr_checkpoint_open(lr_checkpoint **out, const char *directory, lr_error *err)
{
    lr_status st = LR_OK;
    char *single = NULL, *index = NULL;
    lr_checkpoint *checkpoint = NULL;
    *out = NULL;
    LR_TRY(checkpoint_new(&checkpoint, err));
    checkpoint->directory = lr_strdup(directory);
    if (!checkpoint->directory) LR_FAIL(LR_E_NOMEM, "out of memory: %s", directory);
    LR_TRY(lr_format(&single, err, "%s/model.safetensors", directory));
    LR_TRY(lr_format(&index, err, "%s/model.safetensors.index.json", directory));
    if (access(single, F_OK) == 0) {
        LR_TRY(add_shard(checkpoint, single, err));
        LR_TRY(list_single(checkpoint, err));
    } else if (access(index, F_OK) == 0) {
        LR_TRY(list_sharded(checkpoint, index, err));
    } else {
        LR_FAIL(LR_E_IO, "%s: holds neither model.safetensors nor model.safetensors.index.json",
                directory);
    }
    *out = checkpoint;
    checkpoint = NULL;
done:
    lr_free(single);
    lr_free(index);
    lr_checkpoint_close(checkpoint);
    return st;
}

void lr_checkpoint_close(lr_checkpoint *checkpoint)
{
    if (!checkpoint) return;
    for (size_t i = 0; i < checkpoint->n_shards; i++) lr_safetensors_close(&checkpoint->shards[i]);
    lr_free(checkpoint->shards);
    lr_free(checkpoint->tensors);
    lr_free(checkpoint->directory);
    pthread_mutex_destroy(&checkpoint->lock);
    lr_free(checkpoint);
}

size_t lr_checkpoint_count(const lr_checkpoint *checkpoint)
{
    return checkpoint->count;
}

const char *lr_checkpoint_name(const lr_checkpoint *checkpoint, size_t i)
{
    return i < checkpoint->count ? checkpoint->tensors[i].name : NULL;
}

const lr_tensor *lr_checkpoint_find(const lr_checkpoint *checkpoint, const char *name)
{
    checkpoint_tensor key = {.name = name};
    const checkpoint_tensor *found = bsearch(&key, checkpoint->tensors, checkpoint->count,
                                             sizeof *checkpoint->tensors, by_name);
    return found ? found->tensor : NULL;
}

void lr_checkpoint_release(const lr_checkpoint *checkpoint, const void *data, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)data;
    for (size_t i = 0; i < checkpoint->n_shards; i++) {
        const lr_safetensors *file = &checkpoint->shards[i];
        uintptr_t map = (uintptr_t)file->map, first = (begin + page - 1) / page * page;
        if (begin < map || begin - map > file->bytes || bytes > file->bytes - (begin - map)) continue;
        uintptr_t end = (begin + bytes) / page * page;
        /* the mapping is read-only and the file's own, so nothing can be lost */
        if (first < end) (void)madvise((void *)first, end - first, MADV_DONTNEED);
        return;
    }
}

/* ------------------------------------------------------------------ hash */

static lr_status hash_file(XXH3_state_t *state, const char *path, lr_error *err)
{
    lr_status st = LR_OK;
    unsigned char piece[8192];
    size_t got;
    FILE *file = fopen(path, "rb");
    if (!file) return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be opened", path);
    while ((got = fread(piece, 1, sizeof piece, file)) > 0) XXH3_128bits_update(state, piece, got);
    if (ferror(file)) st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
    (void)fclose(file);
    return st;
}

/* Name, type and shape go in too, each ended so that no two lists of tensors hash alike. */
static void hash_tensor(const lr_checkpoint *checkpoint, XXH3_state_t *state,
                        const checkpoint_tensor *entry)
{
    const lr_tensor *tensor = entry->tensor;
    const char *dtype = lr_dtype_name(tensor->dtype);
    size_t bytes = 0;
    XXH3_128bits_update(state, entry->name, strlen(entry->name) + 1);
    XXH3_128bits_update(state, dtype, strlen(dtype) + 1);
    uint64_t n_dims = tensor->n_dims;
    XXH3_128bits_update(state, &n_dims, sizeof n_dims);
    for (size_t i = 0; i < tensor->n_dims; i++) {
        uint64_t dim = tensor->dims[i];
        XXH3_128bits_update(state, &dim, sizeof dim);
    }
    (void)lr_tensor_bytes(tensor, &bytes);
    XXH3_128bits_update(state, tensor->data, bytes);
    lr_checkpoint_release(checkpoint, tensor->data, bytes);
}

static lr_status compute_hash(lr_checkpoint *checkpoint, lr_error *err)
{
    lr_status st = LR_OK;
    char *config = NULL;
    XXH3_state_t *state = XXH3_createState();
    if (!state) LR_FAIL(LR_E_NOMEM, "out of memory: the hash of a checkpoint");
    XXH3_128bits_reset(state);
    if (checkpoint->directory) {
        LR_TRY(lr_format(&config, err, "%s/config.json", checkpoint->directory));
        LR_TRY(hash_file(state, config, err));
    }
    for (size_t i = 0; i < checkpoint->count; i++) hash_tensor(checkpoint, state, &checkpoint->tensors[i]);
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    (void)snprintf(checkpoint->hash, sizeof checkpoint->hash, "%016llx%016llx",
                   (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    checkpoint->has_hash = true;
done:
    XXH3_freeState(state);
    lr_free(config);
    return st;
}

lr_status lr_checkpoint_hash(lr_checkpoint *checkpoint, char hex[33], lr_error *err)
{
    lr_status st = LR_OK;
    pthread_mutex_lock(&checkpoint->lock);
    if (!checkpoint->has_hash) st = compute_hash(checkpoint, err);
    if (st == LR_OK) memcpy(hex, checkpoint->hash, sizeof checkpoint->hash);
    pthread_mutex_unlock(&checkpoint->lock);
    return st;
}
