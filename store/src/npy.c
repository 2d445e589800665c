/* .npy, version 1.0: magic, a Python dict as text padded to 64 bytes, then the values. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <longreel/store.h>

#include "files.h"

static const struct {
    lr_dtype dtype;
    const char *descr;
} types[] = {{LR_F32, "<f4"}, {LR_F64, "<f8"}, {LR_F16, "<f2"}, {LR_I32, "<i4"}, {LR_I64, "<i8"},
             {LR_U8, "|u1"}};
#define N_TYPES (sizeof types / sizeof *types)

struct lr_npy_writer {
    lr_out out;
    size_t bytes, written;
};

static bool product(const size_t *dims, size_t n_dims, size_t size, size_t *out) {
    size_t total = size;
    for (size_t d = 0; d < n_dims; d++) {
        if (!lr_mul_size(total, dims[d], &total)) return false;
    }
    *out = total;
    return true;
}

/* The header's text into 192 bytes; returns its length, a multiple of 64. */
static size_t header_text(char *text, const char *descr, const size_t *dims, size_t n_dims) {
    char shape[128] = "";
    size_t used = 0;
    for (size_t d = 0; d < n_dims; d++) {
        used += (size_t)snprintf(shape + used, sizeof shape - used, d + 1 < n_dims ? "%zu, " : "%zu",
                                 dims[d]);
    }
    if (n_dims == 1) snprintf(shape + used, sizeof shape - used, ",");
    memcpy(text, "\x93NUMPY\x01\x00", 8);
    int n = snprintf(text + 10, 320, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr,
                     shape);
    size_t total = (10 + (size_t)n + 1 + 63) / 64 * 64;
    memset(text + 10 + n, ' ', total - 10 - (size_t)n);
    text[total - 1] = '\n';
    text[8] = (char)((total - 10) & 0xff);
    text[9] = (char)((total - 10) >> 8);
    return total;
}

lr_status lr_npy_create(lr_npy_writer **out, const char *path, lr_dtype dtype, const size_t *dims,
                        size_t n_dims, lr_error *err) {
    lr_status st = LR_OK;
    lr_npy_writer *w = NULL;
    const char *descr = NULL;
    char header[384];
    *out = NULL;
    for (size_t i = 0; i < N_TYPES; i++) {
        if (types[i].dtype == dtype) descr = types[i].descr;
    }
    if (!descr || n_dims == 0 || n_dims > 4) {
        LR_FAIL(LR_E_INTERNAL, "%s: .npy cannot hold %s in %zu dimensions", path,
                lr_dtype_name(dtype), n_dims);
    }
    LR_TRY(LR_NEW(&w, 1, "an .npy file", err));
    if (!product(dims, n_dims, lr_dtype_size(dtype), &w->bytes)) {
        LR_FAIL(LR_E_NOMEM, "%s: the shape is too large", path);
    }
    LR_TRY(lr_out_open(&w->out, path, err));
    LR_TRY(lr_out_write(&w->out, header, header_text(header, descr, dims, n_dims), err));
    *out = w;
    w = NULL;
done:
    lr_npy_discard(w);
    return st;
}

lr_status lr_npy_write(lr_npy_writer *writer, const void *data, size_t bytes, lr_error *err) {
    if (bytes > writer->bytes - writer->written) {
        return lr_fail(err, LR_E_INTERNAL, "%s: more values than its shape has", writer->out.path);
    }
    writer->written += bytes;
    return lr_out_write(&writer->out, data, bytes, err);
}

lr_status lr_npy_finish(lr_npy_writer *writer, lr_error *err) {
    lr_status st = LR_OK;
    if (writer->written != writer->bytes) {
        st = lr_fail(err, LR_E_INTERNAL, "%s: %zu of %zu bytes were written", writer->out.path,
                     writer->written, writer->bytes);
    } else {
        st = lr_out_close(&writer->out, err);
    }
    lr_npy_discard(writer);
    return st;
}

void lr_npy_discard(lr_npy_writer *writer) {
    if (!writer) return;
    lr_out_discard(&writer->out);
    lr_free(writer);
}

/* ------------------------------------------------------------------ reading */

/* The value after 'key': in the header's text; NULL when absent. */
static const char *value_of(const char *text, const char *key) {
    const char *at = strstr(text, key);
    if (!at) return NULL;
    at += strlen(key);
    while (*at == ' ') at++;
    return at;
}

/* "2, 3)" or "2,)" or ")". strtoull alone would take a sign, too. */
static bool parse_shape(const char *text, lr_tensor *tensor) {
    tensor->n_dims = 0;
    while (*text != ')') {
        char *end = NULL;
        errno = 0;
        if (*text < '0' || *text > '9' || tensor->n_dims == LR_MAX_DIMS) return false;
        unsigned long long value = strtoull(text, &end, 10);
        if (errno != 0) return false;
        tensor->dims[tensor->n_dims++] = (size_t)value;
        text = end;
        while (*text == ' ' || *text == ',') text++;
    }
    return true;
}

static lr_status parse_header(const char *text, lr_tensor *tensor, const char *path, lr_error *err) {
    const char *descr = value_of(text, "'descr':"), *shape = value_of(text, "'shape':");
    const char *order = value_of(text, "'fortran_order':");
    if (!descr || !shape || !order || *shape != '(' || strncmp(order, "False", 5) != 0) {
        return lr_fail(err, LR_E_FORMAT, "%s: not an .npy header Longreel writes", path);
    }
    size_t i = 0;
    while (i < N_TYPES && !(descr[0] == '\'' && strncmp(descr + 1, types[i].descr, 3) == 0)) i++;
    if (i == N_TYPES) return lr_fail(err, LR_E_FORMAT, "%s: unknown type in the .npy header", path);
    tensor->dtype = types[i].dtype;
    if (parse_shape(shape + 1, tensor)) return LR_OK;
    return lr_fail(err, LR_E_FORMAT, "%s: bad shape in the .npy header", path);
}

static lr_status parse_file(lr_npy *npy, const char *path, lr_error *err) {
    const unsigned char *bytes = npy->map;
    char text[1024];
    size_t need;
    if (npy->map_bytes < 10 || memcmp(bytes, "\x93NUMPY\x01\x00", 8) != 0) {
        return lr_fail(err, LR_E_FORMAT, "%s: not an .npy file of version 1.0", path);
    }
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (length >= sizeof text || 10 + length > npy->map_bytes) {
        return lr_fail(err, LR_E_FORMAT, "%s: the .npy header is cut or too long", path);
    }
    memcpy(text, bytes + 10, length);
    text[length] = '\0';
    lr_status st = parse_header(text, &npy->tensor, path, err);
    if (st != LR_OK) return st;
    if (!product(npy->tensor.dims, npy->tensor.n_dims, lr_dtype_size(npy->tensor.dtype), &need) ||
        need != npy->map_bytes - 10 - length) {
        return lr_fail(err, LR_E_FORMAT, "%s: its size does not fit its shape", path);
    }
    /* The format asks for a multiple of 64 (16 in its first years): values are read where they lie. */
    if ((10 + length) % lr_dtype_size(npy->tensor.dtype) != 0) {
        return lr_fail(err, LR_E_FORMAT, "%s: the values lie at byte %zu, which is not aligned", path,
                       10 + length);
    }
    npy->tensor.data = bytes + 10 + length;
    return LR_OK;
}

lr_status lr_npy_open(lr_npy *out, const char *path, lr_error *err) {
    lr_status st = LR_OK;
    struct stat info;
    memset(out, 0, sizeof *out);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
        goto done;
    }
    if (!S_ISREG(info.st_mode) || info.st_size <= 0) LR_FAIL(LR_E_FORMAT, "%s: not an .npy file", path);
    out->map_bytes = (size_t)info.st_size;
    out->map = mmap(NULL, out->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (out->map == MAP_FAILED) {
        out->map = NULL;
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be mapped", path);
        goto done;
    }
    LR_TRY(parse_file(out, path, err));
done:
    if (fd >= 0) close(fd);
    if (st != LR_OK) lr_npy_close(out);
    return st;
}

void lr_npy_close(lr_npy *npy) {
    if (npy->map) munmap(npy->map, npy->map_bytes);
    memset(npy, 0, sizeof *npy);
}
