/* The safetensors format: a little-endian u64 N, N bytes of JSON
 * {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}, then the data. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "safetensors.h"

#define PREFIX 8

bool lr_tensor_bytes(const lr_tensor *tensor, size_t *bytes)
{
    size_t product = lr_dtype_size(tensor->dtype);
    for (size_t i = 0; i < tensor->n_dims; i++)
        if (!lr_mul_size(product, tensor->dims[i], &product)) return false;
    *bytes = product;
    return true;
}

static lr_status map_file(lr_safetensors *file, lr_error *err)
{
    lr_status st = LR_OK;
    struct stat info;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be opened", file->path);
    if (fstat(fd, &info) != 0) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", file->path);
        goto done;
    }
    if (!S_ISREG(info.st_mode)) LR_FAIL(LR_E_IO, "%s: not a file", file->path);
    if (info.st_size < PREFIX) LR_FAIL(LR_E_FORMAT, "%s: truncated: %lld bytes", file->path,
                                       (long long)info.st_size);
    void *map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be mapped", file->path);
        goto done;
    }
    file->map = map;
    file->bytes = (size_t)info.st_size;
done:
    (void)close(fd);
    return st;
}

static lr_status parse_dtype(const json_t *value, lr_dtype *out, lr_error *err)
{
    static const lr_dtype known[] = {LR_F32, LR_F64, LR_BF16, LR_F16, LR_I16, LR_I32, LR_I64,
                                     LR_U8};
    const char *name = json_string_value(value);
    if (!name) return lr_fail(err, LR_E_FORMAT, "dtype is missing");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(name, lr_dtype_name(known[i])) == 0) {
            *out = known[i];
            return LR_OK;
        }
    return lr_fail(err, LR_E_UNSUPPORTED, "dtype %.20s is not supported", name);
}

static lr_status parse_shape(const json_t *value, lr_tensor *tensor, lr_error *err)
{
    if (!json_is_array(value)) return lr_fail(err, LR_E_FORMAT, "shape is missing");
    tensor->n_dims = json_array_size(value);
    if (tensor->n_dims > LR_MAX_DIMS)
        return lr_fail(err, LR_E_UNSUPPORTED, "%zu dimensions, at most %d are supported",
                       tensor->n_dims, LR_MAX_DIMS);
    for (size_t i = 0; i < tensor->n_dims; i++) {
        const json_t *dim = json_array_get(value, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return lr_fail(err, LR_E_FORMAT, "shape holds something that is not a size");
        tensor->dims[i] = (size_t)json_integer_value(dim);
    }
    return LR_OK;
}

static lr_status parse_entry(const json_t *value, size_t data_bytes, lr_safetensors_entry *entry,
                             lr_error *err)
{
    lr_status st = LR_OK;
    size_t bytes;
    if (!json_is_object(value)) LR_FAIL(LR_E_FORMAT, "not an object");
    LR_TRY(parse_dtype(json_object_get(value, "dtype"), &entry->tensor.dtype, err));
    LR_TRY(parse_shape(json_object_get(value, "shape"), &entry->tensor, err));
    const json_t *offsets = json_object_get(value, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        LR_FAIL(LR_E_FORMAT, "data_offsets is not a pair of integers");
    json_int_t b = json_integer_value(begin), e = json_integer_value(end);
    if (b < 0 || e < b || (uint64_t)e > data_bytes)
        LR_FAIL(LR_E_FORMAT, "data_offsets [%lld, %lld] lie outside the file's %zu bytes of data",
                (long long)b, (long long)e, data_bytes);
    entry->begin = (size_t)b;
    entry->end = (size_t)e;
    if (!lr_tensor_bytes(&entry->tensor, &bytes) || bytes != entry->end - entry->begin)
        LR_FAIL(LR_E_FORMAT, "data_offsets [%lld, %lld] do not fit the shape and dtype", (long long)b,
                (long long)e);
done:
    return st;
}

static int by_place(const void *a, const void *b)
{
    const lr_safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    const lr_safetensors_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static lr_status check_cover(lr_safetensors *file, size_t data_bytes, lr_error *err)
{
    size_t at = 0;
    qsort(file->entries, file->count, sizeof *file->entries, by_place);
    for (size_t i = 0; i < file->count; i++) {
        const lr_safetensors_entry *entry = &file->entries[i];
        if (entry->begin < at)
            return lr_fail(err, LR_E_FORMAT, "%s: tensor %s overlaps another one", file->path,
                           entry->name);
        if (entry->begin > at)
            return lr_fail(err, LR_E_FORMAT, "%s: %zu bytes before tensor %s belong to no tensor",
                           file->path, entry->begin - at, entry->name);
        at = entry->end;
    }
    if (at != data_bytes)
        return lr_fail(err, LR_E_FORMAT, "%s: %zu bytes at the end belong to no tensor", file->path,
                       data_bytes - at);
    qsort(file->entries, file->count, sizeof *file->entries, by_name);
    return LR_OK;
}

/* A view into the mapping, or a copy where the header's length puts the data on an odd place. */
static lr_status place_data(lr_safetensors_entry *entry, const unsigned char *data, lr_error *err)
{
    size_t bytes = entry->end - entry->begin;
    const unsigned char *place = data + entry->begin;
    entry->tensor.data = place;
    if (bytes == 0 || (uintptr_t)place % lr_dtype_size(entry->tensor.dtype) == 0) return LR_OK;
    entry->copy = lr_alloc(bytes);
    if (!entry->copy)
        return lr_fail(err, LR_E_NOMEM, "out of memory: an aligned copy of %s (%zu bytes)",
                       entry->name, bytes);
    memcpy(entry->copy, place, bytes);
    entry->tensor.data = entry->copy;
    return LR_OK;
}

static lr_status parse_entries(lr_safetensors *file, json_t *header, size_t header_bytes,
                               lr_error *err)
{
    lr_status st = LR_OK;
    size_t data_bytes = file->bytes - PREFIX - header_bytes;
    const unsigned char *data = file->map + PREFIX + header_bytes;
    const char *name;
    json_t *value;
    LR_TRY(LR_NEW(&file->entries, json_object_size(header), "the tensors of a checkpoint", err));
    json_object_foreach(header, name, value) {
        if (strcmp(name, "__metadata__") == 0) continue;
        lr_safetensors_entry *entry = &file->entries[file->count];
        entry->name = lr_strdup(name);
        if (!entry->name) LR_FAIL(LR_E_NOMEM, "out of memory: the tensors of %s", file->path);
        file->count++;
        st = parse_entry(value, data_bytes, entry, err);
        if (st == LR_OK) st = place_data(entry, data, err);
        if (st != LR_OK) {
            lr_error_context(err, "%s: tensor %s", file->path, name);
            goto done;
        }
    }
    LR_TRY(check_cover(file, data_bytes, err));
done:
    return st;
}

lr_status lr_safetensors_open(lr_safetensors *out, const char *path, lr_error *err)
{
    lr_status st = LR_OK;
    json_t *header = NULL;
    json_error_t cause;
    lr_safetensors file = {0};
    *out = file;
    file.path = lr_strdup(path);
    if (!file.path) LR_FAIL(LR_E_NOMEM, "out of memory: %s", path);
    LR_TRY(map_file(&file, err));
    uint64_t header_bytes = 0;
    for (int i = PREFIX - 1; i >= 0; i--) header_bytes = header_bytes << 8 | file.map[i];
    if (header_bytes > LR_SAFETENSORS_HEADER)
        LR_FAIL(LR_E_FORMAT, "%s: not a safetensors file (a header of %llu bytes)", path,
                (unsigned long long)header_bytes);
    if (header_bytes > file.bytes - PREFIX)
        LR_FAIL(LR_E_FORMAT, "%s: truncated: the header has %llu bytes, the file %zu", path,
                (unsigned long long)header_bytes, file.bytes);
    uint64_t failures = lr_alloc_failures();
    header = json_loadb((const char *)file.map + PREFIX, (size_t)header_bytes,
                        JSON_REJECT_DUPLICATES, &cause);
    LR_TRY(lr_config_check_parsed(header, path, &cause, failures, err));
    if (!json_is_object(header)) LR_FAIL(LR_E_FORMAT, "%s: the header is not an object", path);
    LR_TRY(parse_entries(&file, header, (size_t)header_bytes, err));
    *out = file;
    file = (lr_safetensors){0};
done:
    json_decref(header);
    lr_safetensors_close(&file);
    return st;
}

void lr_safetensors_close(lr_safetensors *file)
{
    for (size_t i = 0; i < file->count; i++) {
        lr_free(file->entries[i].name);
        lr_free(file->entries[i].copy);
    }
    lr_free(file->entries);
    if (file->map) (void)munmap((void *)(uintptr_t)file->map, file->bytes);
    lr_free(file->path);
    *file = (lr_safetensors){0};
}

const lr_safetensors_entry *lr_safetensors_find(const lr_safetensors *file, const char *name)
{
    size_t low = 0, high = file->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(file->entries[middle].name, name);
        if (order == 0) return &file->entries[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}
