/* Is a set whole and unaltered? */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "files.h"
#include "set.h"

lr_status lr_manifest_hash(const json_t *manifest, char hex[33], lr_error *err) {
    static const char *const left_out[] = {"run", "timings", "memory", "manifest_hash"};
    const size_t flags = JSON_COMPACT | JSON_SORT_KEYS;
    lr_status st = LR_OK;
    char *text = NULL;
    json_t *copy = json_copy((json_t *)manifest);
    if (!copy || json_object_size(copy) != json_object_size(manifest)) {
        LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    }
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) (void)json_object_del(copy, left_out[i]);
    size_t bytes = json_dumpb(copy, NULL, 0, flags);
    if (bytes == 0) LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    LR_TRY(LR_NEW(&text, bytes, "the manifest", err));
    if (json_dumpb(copy, text, bytes, flags) != bytes) LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    lr_hash_bytes(text, bytes, hex);
done:
    lr_free(text);
    json_decref(copy);
    return st;
}

static bool is_positive(const json_t *number) {
    return json_is_number(number) && json_number_value(number) > 0 && isfinite(json_number_value(number));
}

/* Types and ranges of what the manifest says of the rows, and its hash. */
static lr_status verify_manifest(const lr_set_info *set, const json_t *root, lr_error *err) {
    lr_status st = LR_OK;
    char hex[33];
    const json_t *duration = json_object_get(json_object_get(root, "recording"), "duration");
    const json_t *options = json_object_get(root, "options"), *tokens = json_object_get(root, "tokens");
    const json_t *dim = json_object_get(options, "dim");
    const json_t *segment = json_object_get(options, "segment"), *hop = json_object_get(options, "hop");
    double last = set->n_segments > 0 ? set->segment_rows[set->n_segments - 1].start : 0;
    if (!json_is_number(duration) || !isfinite(set->duration) || set->duration < last) {
        LR_FAIL(LR_E_FORMAT, "%s: the manifest's recording.duration cannot be right", set->path);
    }
    if (!json_is_integer(tokens) || json_integer_value(tokens) < 0) {
        LR_FAIL(LR_E_FORMAT, "%s: the manifest's tokens is no number of tokens", set->path);
    }
    if (dim && (!json_is_integer(dim) || json_integer_value(dim) != (json_int_t)set->dim)) {
        LR_FAIL(LR_E_FORMAT, "%s: the manifest's options.dim is not the width of the vectors", set->path);
    }
    if ((segment && !is_positive(segment)) || (hop && !is_positive(hop))) {
        LR_FAIL(LR_E_FORMAT, "%s: the manifest's options.segment or options.hop is no length", set->path);
    }
    const char *written = json_string_value(json_object_get(root, "manifest_hash"));
    LR_TRY(lr_manifest_hash(root, hex, err));
    if (!written || strcmp(written, hex) != 0) {
        LR_FAIL(LR_E_FORMAT, "%s/manifest.json: its content has changed", set->path);
    }
done:
    return st;
}

static lr_status verify_file(const lr_set_info *set, const char *name, const json_t *wanted,
                             lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL, hex[33];
    struct stat info;
    const char *hash = json_string_value(json_object_get(wanted, "hash"));
    json_int_t bytes = json_integer_value(json_object_get(wanted, "bytes"));
    if (strstr(name, "..") || name[0] == '/' || !hash) {
        LR_FAIL(LR_E_FORMAT, "%s: the manifest's entry for '%s' is malformed", set->path, name);
    }
    LR_TRY(lr_format(&path, err, "%s/%s", set->path, name));
    if (stat(path, &info) != 0) {
        st = lr_fail_errno(err, LR_E_FORMAT, errno, "%s: is missing", path);
        goto done;
    }
    if (!S_ISREG(info.st_mode)) LR_FAIL(LR_E_FORMAT, "%s: is no file", path);
    if (info.st_size != bytes) {
        LR_FAIL(LR_E_FORMAT, "%s: has %lld bytes, was written with %lld", path,
                (long long)info.st_size, (long long)bytes);
    }
    LR_TRY(lr_hash_file(path, hex, err));
    if (strcmp(hex, hash) != 0) LR_FAIL(LR_E_FORMAT, "%s: its content has changed", path);
done:
    lr_free(path);
    return st;
}

static lr_status verify_files(const lr_set_info *set, const json_t *files, lr_error *err) {
    lr_status st = LR_OK;
    char **names = NULL;
    const char *name;
    json_t *wanted;
    size_t count = 0;
    if (!json_is_object(files)) LR_FAIL(LR_E_FORMAT, "%s: the manifest lists no files", set->path);
    json_object_foreach((json_t *)files, name, wanted) LR_TRY(verify_file(set, name, wanted, err));
    LR_TRY(lr_list_files(set->path, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], "manifest.json") != 0 && !json_object_get(files, names[i])) {
            LR_FAIL(LR_E_FORMAT, "%s/%s: was not written with the set", set->path, names[i]);
        }
    }
done:
    lr_list_free(names, count);
    return st;
}

/* |v| = 1 within fp32: dim values, each off by half an ulp, move the norm by at most 2^-24 sqrt(dim);
 * 1e-5 leaves room up to dim 28,000. */
static lr_status verify_norms(const lr_set_info *set, const char *what, const float *rows, size_t count,
                              lr_error *err) {
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t d = 0; d < set->dim; d++) sum += (double)rows[i * set->dim + d] * rows[i * set->dim + d];
        if (!(fabs(sqrt(sum) - 1) < 1e-5)) {
            return lr_fail(err, LR_E_FORMAT, "%s: %s vector %zu has norm %g", set->path, what, i,
                           sqrt(sum));
        }
    }
    return LR_OK;
}

static lr_status verify_rows(const lr_set_info *set, json_int_t tokens, lr_error *err) {
    for (size_t i = 0; i < set->n_segments; i++) {
        const lr_segment_row *r = &set->segment_rows[i];
        if (tokens < 0 || r->end_token > (uint64_t)tokens || (i > 0 && r->start <= r[-1].start)) {
            return lr_fail(err, LR_E_FORMAT, "%s: segment %zu is out of order or range", set->path, i);
        }
    }
    for (size_t i = 1; i < set->n_frames; i++) {
        if (set->frame_rows[i].i <= set->frame_rows[i - 1].i) {
            return lr_fail(err, LR_E_FORMAT, "%s: frame %zu is out of order", set->path, i);
        }
    }
    return LR_OK;
}

lr_status lr_set_verify(const char *path, lr_error *err) {
    lr_status st = LR_OK;
    lr_set *set = NULL;
    json_t *root = NULL;
    LR_TRY(lr_set_open(&set, path, err));
    const lr_set_info *info = lr_set_info_of(set);
    uint64_t failures = lr_alloc_failures();
    root = json_loads(info->manifest, 0, NULL);
    if (!root || lr_alloc_failures() != failures) LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    LR_TRY(verify_files(info, json_object_get(root, "files"), err));
    const json_t *counts = json_object_get(root, "counts");
    if (json_integer_value(json_object_get(counts, "segments")) != (json_int_t)info->n_segments ||
        json_integer_value(json_object_get(counts, "frames")) != (json_int_t)info->n_frames) {
        LR_FAIL(LR_E_FORMAT, "%s: the manifest's counts are not those of the files", path);
    }
    LR_TRY(verify_rows(info, json_integer_value(json_object_get(root, "tokens")), err));
    LR_TRY(verify_norms(info, "recording", info->recording_vector, 1, err));
    LR_TRY(verify_norms(info, "segment", info->segments, info->n_segments, err));
    LR_TRY(verify_norms(info, "frame", info->frames, info->n_frames, err));
    LR_TRY(verify_manifest(info, root, err));
done:
    json_decref(root);
    lr_set_close(set);
    return st;
}
