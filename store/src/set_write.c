/* Writing a set: beside its final name, renamed when complete. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include <longreel/store.h>

#include "files.h"
#include "set.h"

#define MOST_TRIES 16 /* to put a set where other processes put theirs */

struct lr_set_writer {
    char *final_path, *directory;
    bool replace, made;
    lr_out tokens; /* tokens.safetensors while it is being filled */
    uint64_t token_rows, token_rows_written;
    size_t hidden;
};

/* "OUT/talk.mp4" -> "OUT/.talk.mp4.part-1234" */
static lr_status part_name(char **out, const char *final_path, lr_error *err) {
    const char *slash = strrchr(final_path, '/');
    const char *name = slash ? slash + 1 : final_path;
    char stem[LR_STEM_LIMIT + 1];
    if (name[0] == '\0') return lr_fail(err, LR_E_USAGE, "%s: names no embedding set", final_path);
    if (strlen(name) > NAME_MAX) {
        return lr_fail(err, LR_E_USAGE, "%s: a name has at most %d bytes", final_path, NAME_MAX);
    }
    if (lr_set_is_reserved(name)) {
        return lr_fail(err, LR_E_USAGE, "%s: a name like that is used for what is no finished set; give the "
                       "recording another one", final_path);
    }
    lr_set_stem(name, stem);
    return lr_format(out, err, "%.*s.%s.part-%ld", (int)(name - final_path), final_path, stem, (long)getpid());
}

lr_status lr_set_create(lr_set_writer **out, const char *final_path, bool replace, lr_error *err) {
    lr_status st = LR_OK;
    lr_set_writer *w = NULL;
    struct stat info;
    bool there = false;
    *out = NULL;
    LR_TRY(LR_NEW(&w, 1, "an embedding set", err));
    w->replace = replace;
    w->final_path = lr_strdup(final_path);
    if (!w->final_path) LR_FAIL(LR_E_NOMEM, "out of memory: a file name");
    LR_TRY(part_name(&w->directory, final_path, err));
    LR_TRY(lr_set_may_replace(final_path, &there, err));
    if (there && !replace) {
        LR_FAIL(LR_E_EXISTS, "%s is there already; --force replaces it", final_path);
    }
    LR_TRY(lr_make_parents(final_path, err));
    if (lstat(w->directory, &info) == 0) LR_TRY(lr_remove_tree(w->directory, err));
    if (mkdir(w->directory, 0777) != 0) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot make the directory", w->directory);
        goto done;
    }
    w->made = true;
    *out = w;
    w = NULL;
done:
    lr_set_abandon(w);
    return st;
}

const char *lr_set_directory(const lr_set_writer *writer) {
    return writer->directory;
}

void lr_set_abandon(lr_set_writer *w) {
    if (!w) return;
    lr_out_discard(&w->tokens);
    if (w->made) (void)lr_remove_tree(w->directory, NULL);
    lr_free(w->directory);
    lr_free(w->final_path);
    lr_free(w);
}

/* ------------------------------------------------------------------ vectors and rows */

static lr_status write_matrix(const lr_set_writer *w, const char *name, const float *rows,
                              size_t count, size_t dim, lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL;
    lr_npy_writer *npy = NULL;
    const size_t dims[] = {count, dim};
    LR_TRY(lr_format(&path, err, "%s/%s", w->directory, name));
    LR_TRY(lr_npy_create(&npy, path, LR_F32, dims, 2, err));
    LR_TRY(lr_npy_write(npy, rows, count * dim * sizeof(float), err));
    st = lr_npy_finish(npy, err);
    npy = NULL;
done:
    lr_npy_discard(npy);
    lr_free(path);
    return st;
}

lr_status lr_set_recording(lr_set_writer *w, const float *vector, size_t dim, lr_error *err) {
    return write_matrix(w, "recording.npy", vector, 1, dim, err);
}

static lr_status open_in(const lr_set_writer *w, const char *name, lr_out *out, lr_error *err) {
    char *path = NULL;
    lr_status st = lr_format(&path, err, "%s/%s", w->directory, name);
    if (st == LR_OK) st = lr_out_open(out, path, err);
    lr_free(path);
    return st;
}

lr_status lr_set_segments(lr_set_writer *w, const lr_segment_row *rows, const float *vectors,
                          size_t count, size_t dim, lr_error *err) {
    lr_status st = LR_OK;
    lr_out out = {0};
    LR_TRY(write_matrix(w, "segments.npy", vectors, count, dim, err));
    LR_TRY(open_in(w, "segments.jsonl", &out, err));
    for (size_t i = 0; i < count; i++) {
        LR_TRY(lr_out_printf(&out, err, "{\"i\": %zu, \"start\": %.15g, \"end\": %.15g, "
                             "\"tokens\": [%llu, %llu]}\n", i, rows[i].start, rows[i].end,
                             (unsigned long long)rows[i].first,
                             (unsigned long long)rows[i].end_token));
    }
    LR_TRY(lr_out_close(&out, err));
done:
    lr_out_discard(&out);
    return st;
}

lr_status lr_set_frames(lr_set_writer *w, const lr_frame_row *rows, const float *vectors,
                        size_t count, size_t dim, lr_error *err) {
    lr_status st = LR_OK;
    lr_out out = {0};
    LR_TRY(write_matrix(w, "frames.npy", vectors, count, dim, err));
    LR_TRY(open_in(w, "frames.jsonl", &out, err));
    for (size_t i = 0; i < count; i++) {
        LR_TRY(lr_out_printf(&out, err, "{\"i\": %lld, \"t\": %.15g}\n", (long long)rows[i].i,
                             rows[i].t));
    }
    LR_TRY(lr_out_close(&out, err));
done:
    lr_out_discard(&out);
    return st;
}

/* ------------------------------------------------------------------ tokens.safetensors */

static bool tensor_bytes(const lr_tensor *tensor, size_t *bytes) {
    *bytes = lr_dtype_size(tensor->dtype);
    for (size_t i = 0; i < tensor->n_dims; i++) {
        if (!lr_mul_size(*bytes, tensor->dims[i], bytes)) return false;
    }
    return true;
}

static bool add_text(char *header, size_t size, size_t *used, const char *format, ...) LR_PRINTF(4, 5);
static bool add_text(char *header, size_t size, size_t *used, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(header + *used, size - *used, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= size - *used) return false;
    *used += (size_t)n;
    return true;
}

/* Adds one entry; *at, the offset in the data, moves past it. */
static bool describe_tensor(char *header, size_t size, size_t *used, const lr_set_tensor *named,
                            size_t *at) {
    const lr_tensor *t = &named->tensor;
    size_t bytes, end;
    if (!tensor_bytes(t, &bytes) || !lr_add_size(*at, bytes, &end)) return false;
    bool fits = add_text(header, size, used, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                         header[*used - 1] == '{' ? "" : ",", named->name, lr_dtype_name(t->dtype));
    for (size_t i = 0; fits && i < t->n_dims; i++) {
        fits = add_text(header, size, used, "%s%zu", i ? "," : "", t->dims[i]);
    }
    fits = fits && add_text(header, size, used, "],\"data_offsets\":[%zu,%zu]}", *at, end);
    *at = end;
    return fits;
}

lr_status lr_set_tokens_begin(lr_set_writer *w, const lr_set_tensor *tensors, size_t count, uint64_t n,
                              size_t hidden, lr_error *err) {
    lr_status st = LR_OK;
    char header[4096];
    size_t used = 9, at = 0, bytes;
    const lr_set_tensor rows = {"hidden", {.dtype = LR_F32, .n_dims = 2, .dims = {n, hidden}}};
    header[8] = '{';
    for (size_t i = 0; i <= count; i++) {
        if (!describe_tensor(header, sizeof header - 65, &used, i < count ? &tensors[i] : &rows, &at)) {
            LR_FAIL(LR_E_NOMEM, "%llu tokens are too many to be saved", (unsigned long long)n);
        }
    }
    header[used++] = '}';
    size_t padded = (used - 8 + 63) / 64 * 64; /* the data begins at a multiple of 8 bytes */
    memset(header + used, ' ', padded + 8 - used);
    for (int i = 0; i < 8; i++) header[i] = (char)((uint64_t)padded >> (8 * i) & 0xff);
    LR_TRY(open_in(w, "tokens.safetensors", &w->tokens, err));
    LR_TRY(lr_out_write(&w->tokens, header, 8 + padded, err));
    for (size_t i = 0; i < count; i++) {
        (void)tensor_bytes(&tensors[i].tensor, &bytes);
        LR_TRY(lr_out_write(&w->tokens, tensors[i].tensor.data, bytes, err));
    }
    w->token_rows = n;
    w->hidden = hidden;
done:
    return st;
}

lr_status lr_set_tokens_rows(lr_set_writer *w, const float *hidden, uint64_t rows, lr_error *err) {
    if (rows > w->token_rows - w->token_rows_written) {
        return lr_fail(err, LR_E_INTERNAL, "%s: more token rows came than were announced",
                       w->tokens.path);
    }
    w->token_rows_written += rows;
    return lr_out_write(&w->tokens, hidden, rows * w->hidden * sizeof(float), err);
}

/* ------------------------------------------------------------------ commit */

static lr_status finish_tokens(lr_set_writer *w, lr_error *err) {
    if (!w->tokens.file) return LR_OK;
    if (w->token_rows_written != w->token_rows) {
        return lr_fail(err, LR_E_INTERNAL, "%s: %llu of %llu rows were written", w->tokens.path,
                       (unsigned long long)w->token_rows_written, (unsigned long long)w->token_rows);
    }
    return lr_out_close(&w->tokens, err);
}

/* "files": {name: {"bytes", "hash"}} of what lies in the directory. */
static lr_status hash_files(const lr_set_writer *w, json_t *manifest, lr_error *err) {
    lr_status st = LR_OK;
    char **names = NULL, *path = NULL, hex[33];
    size_t count = 0;
    struct stat info;
    json_t *files = json_object();
    LR_TRY(lr_list_files(w->directory, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        lr_free(path);
        LR_TRY(lr_format(&path, err, "%s/%s", w->directory, names[i]));
        LR_TRY(lr_hash_file(path, hex, err));
        if (stat(path, &info) != 0) {
            st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
            goto done;
        }
        json_t *one = json_pack("{s:I, s:s}", "bytes", (json_int_t)info.st_size, "hash", hex);
        if (json_object_set_new(files, names[i], one) != 0) {
            LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
        }
    }
    if (json_object_set(manifest, "files", files) != 0) {
        LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    }
done:
    json_decref(files);
    lr_free(path);
    lr_list_free(names, count);
    return st;
}

/* jansson does not look at every failure, so the first one is kept. */
typedef struct manifest_out {
    lr_out *out;
    lr_status st;
    lr_error *err;
} manifest_out;

static int dump_to(const char *buffer, size_t size, void *arg) {
    manifest_out *m = arg;
    if (m->st == LR_OK) m->st = lr_out_write(m->out, buffer, size, m->err);
    return m->st == LR_OK ? 0 : -1;
}

static lr_status write_manifest(lr_set_writer *w, const char *text, lr_error *err) {
    lr_status st = LR_OK;
    lr_out out = {0};
    json_error_t why;
    char hex[33];
    uint64_t failures = lr_alloc_failures();
    json_t *manifest = json_loads(text, 0, &why);
    if (lr_alloc_failures() != failures || (!manifest && why.text[0] == '\0')) {
        LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    }
    if (!manifest) LR_FAIL(LR_E_INTERNAL, "the manifest is no JSON: %s", why.text);
    LR_TRY(hash_files(w, manifest, err));
    LR_TRY(lr_manifest_hash(manifest, hex, err));
    if (json_object_set_new(manifest, "manifest_hash", json_string(hex)) != 0) {
        LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    }
    LR_TRY(open_in(w, "manifest.json", &out, err));
    manifest_out m = {.out = &out, .err = err};
    int failed = json_dump_callback(manifest, dump_to, &m, JSON_INDENT(2));
    LR_TRY(m.st);
    if (failed) LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    LR_TRY(lr_out_write(&out, "\n", 1, err));
    LR_TRY(lr_out_close(&out, err));
done:
    lr_out_discard(&out);
    json_decref(manifest);
    return st;
}

/* The two sets change places, so that there is no moment without one. False where the file system cannot. */
static bool exchange(lr_set_writer *w) {
    if (renameat2(AT_FDCWD, w->directory, AT_FDCWD, w->final_path, RENAME_EXCHANGE) != 0) return false;
    w->made = false;
    return true;
}

/* One try; *again: another process put a set there, or took one away, in the middle of it. Where sets cannot
 * change places, the old one is moved aside first and removed last: a whole set is there under one of the two
 * names at any moment. */
static lr_status try_to_place(lr_set_writer *w, const char *old, bool *again, lr_error *err) {
    struct stat left;
    bool there = false;
    lr_status st = lr_set_may_replace(w->final_path, &there, err);
    *again = false;
    if (st != LR_OK) return st;
    if (there && !w->replace) {
        return lr_fail(err, LR_E_EXISTS, "%s has come up meanwhile; --force replaces it", w->final_path);
    }
    if (there && exchange(w)) return lr_remove_tree(w->directory, err);
    if (there) {
        if (lstat(old, &left) == 0) st = lr_remove_tree(old, err); /* of an earlier failure */
        if (st != LR_OK) return st;
        if (rename(w->final_path, old) != 0) {
            *again = errno == ENOENT;
            return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be moved aside", w->final_path);
        }
    }
    /* This fails where something is by now, unless that is an empty directory. */
    if (rename(w->directory, w->final_path) != 0) {
        *again = errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR;
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be put in place", w->final_path);
        if (there) (void)rename(old, w->final_path);
        return st;
    }
    w->made = false;
    return there ? lr_remove_tree(old, err) : LR_OK;
}

static lr_status put_in_place(lr_set_writer *w, lr_error *err) {
    lr_status st = LR_OK;
    char *old = NULL;
    bool again = true;
    LR_TRY(lr_format(&old, err, "%s.old", w->directory));
    for (int tries = 0; tries < MOST_TRIES && again; tries++) {
        lr_error_clear(err);
        st = try_to_place(w, old, &again, err);
    }
done:
    lr_free(old);
    return st;
}

lr_status lr_set_commit(lr_set_writer *w, const char *manifest_json, lr_error *err) {
    lr_status st = LR_OK;
    char *parent = NULL;
    LR_TRY(lr_parent_of(&parent, w->final_path, err));
    LR_TRY(finish_tokens(w, err));
    LR_TRY(write_manifest(w, manifest_json, err));
    LR_TRY(lr_sync_directory(w->directory, err));
    LR_TRY(put_in_place(w, err));
    LR_TRY(lr_sync_directory(parent, err));
    lr_set_forget_failure(parent, w->final_path);
    lr_set_clear_unfinished(parent, w->final_path);
done:
    lr_free(parent);
    lr_set_abandon(w);
    return st;
}
