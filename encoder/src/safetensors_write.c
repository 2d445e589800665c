#include <longreel/encoder.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "safetensors.h"

/* Tensors of wide types first, so that each begins at a multiple of its type's size. */
static int widest_first(const void *a, const void *b)
{
    const lr_named_tensor *x = *(const lr_named_tensor *const *)a;
    const lr_named_tensor *y = *(const lr_named_tensor *const *)b;
    size_t wx = lr_dtype_size(x->tensor.dtype), wy = lr_dtype_size(y->tensor.dtype);
    if (wx != wy) return wx > wy ? -1 : 1;
    return x < y ? -1 : x > y;
}

static lr_status describe_tensor(json_t *header, const lr_named_tensor *named, size_t *at,
                                 lr_error *err)
{
    lr_status st = LR_OK;
    size_t bytes;
    json_t *shape = json_array(), *value = NULL;
    if (json_object_get(header, named->name))
        LR_FAIL(LR_E_INTERNAL, "two tensors are called %s", named->name);
    if (!lr_tensor_bytes(&named->tensor, &bytes) || bytes > (size_t)INT64_MAX - *at)
        LR_FAIL(LR_E_NOMEM, "tensor %s is too large", named->name);
    for (size_t i = 0; i < named->tensor.n_dims; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)named->tensor.dims[i])) != 0)
            LR_FAIL(LR_E_NOMEM, "out of memory: a safetensors header");
    value = json_pack("{s:s, s:O, s:[I, I]}", "dtype", lr_dtype_name(named->tensor.dtype), "shape",
                      shape, "data_offsets", (json_int_t)*at, (json_int_t)(*at + bytes));
    if (!value || json_object_set(header, named->name, value) != 0)
        LR_FAIL(LR_E_NOMEM, "out of memory: a safetensors header (tensor %s)", named->name);
    *at += bytes;
done:
    json_decref(shape);
    json_decref(value);
    return st;
}

/* The header's JSON, padded with spaces so that the data begins at a multiple of 8. */
static lr_status make_header(const lr_named_tensor *const *order, size_t count, char **out,
                             size_t *out_bytes, lr_error *err)
{
    lr_status st = LR_OK;
    char *text = NULL;
    json_t *header = json_object();
    size_t at = 0;
    if (!header) LR_FAIL(LR_E_NOMEM, "out of memory: a safetensors header");
    for (size_t i = 0; i < count; i++) LR_TRY(describe_tensor(header, order[i], &at, err));
    size_t bytes = json_dumpb(header, NULL, 0, JSON_COMPACT);
    size_t padded = (bytes + 7) / 8 * 8;
    LR_TRY(LR_NEW(&text, padded + 1, "a safetensors header", err));
    if (bytes == 0 || json_dumpb(header, text, bytes, JSON_COMPACT) != bytes)
        LR_FAIL(LR_E_NOMEM, "out of memory: a safetensors header");
    memset(text + bytes, ' ', padded - bytes);
    *out = text;
    *out_bytes = padded;
    text = NULL;
done:
    lr_free(text);
    json_decref(header);
    return st;
}

/* Where the bytes come from: the tensors' own data, or `fill` through `piece`. */
typedef struct source {
    const lr_named_tensor *tensors;
    const lr_named_tensor *const *order; /* as they stand in the file */
    size_t count;
    lr_safetensors_fill fill; /* NULL: tensor.data */
    void *arg;
    unsigned char *piece; /* [PIECE] */
} source;

#define PIECE ((size_t)1 << 20)

static bool write_all(FILE *file, const void *data, size_t bytes)
{
    return bytes == 0 || fwrite(data, 1, bytes, file) == bytes;
}

static bool write_tensor(FILE *file, const source *from, const lr_named_tensor *named)
{
    size_t bytes = 0;
    (void)lr_tensor_bytes(&named->tensor, &bytes);
    if (!from->fill) return write_all(file, named->tensor.data, bytes);
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t now = bytes - at < PIECE ? bytes - at : PIECE;
        from->fill(from->arg, (size_t)(named - from->tensors), at, from->piece, now);
        if (!write_all(file, from->piece, now)) return false;
    }
    return true;
}

static bool write_content(FILE *file, const char *header, size_t header_bytes, const source *from)
{
    unsigned char prefix[8];
    for (size_t i = 0; i < sizeof prefix; i++)
        prefix[i] = (unsigned char)((uint64_t)header_bytes >> (8 * i));
    if (!write_all(file, prefix, sizeof prefix) || !write_all(file, header, header_bytes)) return false;
    for (size_t i = 0; i < from->count; i++)
        if (!write_tensor(file, from, from->order[i])) return false;
    return fflush(file) == 0 && fsync(fileno(file)) == 0;
}

static lr_status write_aside(const char *path, const char *aside, const char *header,
                             size_t header_bytes, const source *from, lr_error *err)
{
    FILE *file = fopen(aside, "wb");
    if (!file) return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be created", aside);
    bool written = write_content(file, header, header_bytes, from);
    int cause = errno;
    if (fclose(file) != 0 && written) {
        written = false;
        cause = errno;
    }
    if (written && rename(aside, path) != 0) {
        written = false;
        cause = errno;
    }
    if (written) return LR_OK;
    (void)unlink(aside);
    return lr_fail_errno(err, LR_E_IO, cause, "%s: cannot be written", path);
}

lr_status lr_safetensors_write_made(const char *path, const lr_named_tensor *tensors, size_t count,
                                    lr_safetensors_fill fill, void *arg, lr_error *err)
{
    lr_status st = LR_OK;
    char *aside = NULL, *header = NULL;
    size_t header_bytes = 0;
    source from = {.tensors = tensors, .count = count, .fill = fill, .arg = arg};
    const lr_named_tensor **order = NULL;
    LR_TRY(LR_NEW(&order, count, "a list of tensors", err));
    for (size_t i = 0; i < count; i++) order[i] = &tensors[i];
    qsort(order, count, sizeof *order, widest_first);
    from.order = order;
    if (fill) LR_TRY(LR_NEW(&from.piece, PIECE, "a piece of a tensor", err));
    LR_TRY(make_header(order, count, &header, &header_bytes, err));
    LR_TRY(lr_format(&aside, err, "%s.partial", path));
    LR_TRY(write_aside(path, aside, header, header_bytes, &from, err));
done:
    lr_free(aside);
    lr_free(header);
    lr_free(from.piece);
    lr_free(order);
    return st;
}

lr_status lr_safetensors_write(const char *path, const lr_named_tensor *tensors, size_t count,
                               lr_error *err)
{
    return lr_safetensors_write_made(path, tensors, count, NULL, NULL, err);
}
