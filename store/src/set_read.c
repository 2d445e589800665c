/* Reading a set. Everything in it is checked against everything else before it is believed. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include <longreel/store.h>

#include "files.h"
#include "set.h"

#define MANIFEST_LIMIT ((size_t)256 << 20)
#define ROWS_LIMIT ((size_t)1 << 31)

/* When memory runs out, jansson gives no error, a wrong one, or a document with bytes missing. `failures`:
 * lr_alloc_failures() before. */
static bool no_memory(const json_t *root, const json_error_t *why, uint64_t failures) {
    return lr_alloc_failures() != failures ||
           (!root && (why->text[0] == '\0' || json_error_code(why) == json_error_out_of_memory));
}

static lr_status load_json(const char *path, size_t limit, char **text, json_t **root, lr_error *err) {
    size_t bytes;
    json_error_t why;
    lr_status st = lr_slurp(path, limit, text, &bytes, err);
    if (st != LR_OK) return st;
    uint64_t failures = lr_alloc_failures();
    *root = json_loadb(*text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (no_memory(*root, &why, failures)) {
        return lr_fail(err, LR_E_NOMEM, "out of memory: %s", path);
    }
    if (*root) return LR_OK;
    return lr_fail(err, LR_E_FORMAT, "%s: line %d: %s", path, why.line, why.text);
}

static lr_status copy_text(const json_t *value, const char *what, char **out, const char *path,
                           lr_error *err) {
    const char *text = json_string_value(value);
    if (!text) return lr_fail(err, LR_E_FORMAT, "%s: '%s' is missing or no text", path, what);
    *out = lr_strdup(text);
    return *out ? LR_OK : lr_fail(err, LR_E_NOMEM, "out of memory: the manifest");
}

static lr_status read_manifest(lr_set *set, const char *path, lr_error *err) {
    lr_status st = LR_OK;
    json_t *root = NULL;
    LR_TRY(load_json(path, MANIFEST_LIMIT, &set->manifest, &root, err));
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!format || strcmp(format, LR_SET_FORMAT) != 0) {
        LR_FAIL(LR_E_UNSUPPORTED, "%s: the format is '%s', not " LR_SET_FORMAT, path,
                format ? format : "missing");
    }
    const json_t *model = json_object_get(root, "model"), *recording = json_object_get(root, "recording");
    const json_t *context = json_object_get(json_object_get(root, "options"), "context");
    LR_TRY(copy_text(json_object_get(root, "key"), "key", &set->key, path, err));
    LR_TRY(copy_text(json_object_get(model, "hash"), "model.hash", &set->model_hash, path, err));
    LR_TRY(copy_text(json_object_get(model, "name"), "model.name", &set->model_name, path, err));
    LR_TRY(copy_text(json_object_get(recording, "name"), "recording.name", &set->recording, path, err));
    if (json_is_integer(context)) {
        LR_TRY(lr_format(&set->context, err, "%lld", (long long)json_integer_value(context)));
    } else {
        LR_TRY(copy_text(context, "options.context", &set->context, path, err));
    }
    set->info.duration = json_number_value(json_object_get(recording, "duration"));
    set->files = json_incref(json_object_get(root, "files"));
done:
    json_decref(root);
    return st;
}

static lr_status open_matrix(lr_set *set, const char *name, lr_npy *npy, size_t *rows, lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL;
    LR_TRY(lr_format(&path, err, "%s/%s", set->path, name));
    LR_TRY(lr_npy_open(npy, path, err));
    const lr_tensor *t = &npy->tensor;
    if (t->dtype != LR_F32 || t->n_dims != 2 || t->dims[1] == 0) {
        LR_FAIL(LR_E_FORMAT, "%s: not a float32 matrix", path);
    }
    if (set->info.dim != 0 && t->dims[1] != set->info.dim) {
        LR_FAIL(LR_E_FORMAT, "%s: vectors of %zu values, others in the set have %zu", path, t->dims[1],
                set->info.dim);
    }
    set->info.dim = t->dims[1];
    *rows = t->dims[0];
done:
    lr_free(path);
    return st;
}

/* Rows of other times than the vectors' would give wrong answers and look right. */
static lr_status check_text(const lr_set *set, const char *name, const char *path, const char *text, size_t bytes,
                            lr_error *err) {
    char hex[33];
    const char *written = json_string_value(json_object_get(json_object_get(set->files, name), "hash"));
    lr_hash_bytes(text, bytes, hex);
    if (written && strcmp(written, hex) == 0) return LR_OK;
    return lr_fail(err, LR_E_FORMAT, "%s: its content has changed since the set was written; encode it again", path);
}

/* Calls one(arg, line's object, i) for each line of NAME, which must be `count`. */
typedef bool (*row_call)(lr_set *set, const json_t *row, size_t i);
static lr_status read_rows(lr_set *set, const char *name, size_t count, row_call one, lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL, *text = NULL;
    size_t bytes, i = 0;
    LR_TRY(lr_format(&path, err, "%s/%s", set->path, name));
    LR_TRY(lr_slurp(path, ROWS_LIMIT, &text, &bytes, err));
    for (char *line = text; line < text + bytes; i++) {
        size_t left = (size_t)(text + bytes - line);
        char *end = memchr(line, '\n', left);
        size_t length = end ? (size_t)(end - line) : left;
        json_error_t why;
        uint64_t failures = lr_alloc_failures();
        json_t *row = json_loadb(line, length, 0, &why);
        if (no_memory(row, &why, failures)) {
            json_decref(row);
            LR_FAIL(LR_E_NOMEM, "out of memory: %s", path);
        }
        bool good = row && i < count && one(set, row, i);
        json_decref(row);
        if (!good) LR_FAIL(LR_E_FORMAT, "%s: line %zu is not such a row", path, i + 1);
        line += length + (end ? 1 : 0);
    }
    if (i != count) LR_FAIL(LR_E_FORMAT, "%s: %zu lines for %zu vectors", path, i, count);
    LR_TRY(check_text(set, name, path, text, bytes, err));
done:
    lr_free(text);
    lr_free(path);
    return st;
}

static bool take_token(const json_t *value, uint64_t *out) {
    *out = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool take_segment(lr_set *set, const json_t *row, size_t i) {
    const json_t *start = json_object_get(row, "start"), *end = json_object_get(row, "end");
    const json_t *tokens = json_object_get(row, "tokens");
    uint64_t first, end_token;
    if (!json_is_number(start) || !json_is_number(end) || json_array_size(tokens) != 2 ||
        !take_token(json_array_get(tokens, 0), &first) ||
        !take_token(json_array_get(tokens, 1), &end_token)) {
        return false;
    }
    set->segment_rows[i] = (lr_segment_row){.start = json_number_value(start),
                                            .end = json_number_value(end),
                                            .first = first,
                                            .end_token = end_token};
    const lr_segment_row *r = &set->segment_rows[i];
    return r->start >= 0 && r->start <= r->end && r->first <= r->end_token;
}

static bool take_frame(lr_set *set, const json_t *row, size_t i) {
    const json_t *index = json_object_get(row, "i"), *t = json_object_get(row, "t");
    if (!json_is_integer(index) || !json_is_number(t)) return false;
    set->frame_rows[i] = (lr_frame_row){.i = json_integer_value(index), .t = json_number_value(t)};
    return set->frame_rows[i].i >= 0 && set->frame_rows[i].t >= 0;
}

static lr_status read_set(lr_set *set, lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL;
    size_t one = 0;
    lr_set_info *info = &set->info;
    LR_TRY(lr_format(&path, err, "%s/manifest.json", set->path));
    LR_TRY(read_manifest(set, path, err));
    LR_TRY(open_matrix(set, "recording.npy", &set->recording_npy, &one, err));
    if (one != 1) LR_FAIL(LR_E_FORMAT, "%s: recording.npy has %zu rows", set->path, one);
    LR_TRY(open_matrix(set, "segments.npy", &set->segments_npy, &info->n_segments, err));
    LR_TRY(open_matrix(set, "frames.npy", &set->frames_npy, &info->n_frames, err));
    LR_TRY(LR_NEW(&set->segment_rows, info->n_segments, "segments", err));
    LR_TRY(LR_NEW(&set->frame_rows, info->n_frames, "frames", err));
    LR_TRY(read_rows(set, "segments.jsonl", info->n_segments, take_segment, err));
    LR_TRY(read_rows(set, "frames.jsonl", info->n_frames, take_frame, err));
done:
    lr_free(path);
    return st;
}

static void publish(lr_set *set) {
    const char *slash = strrchr(set->path, '/');
    set->info.path = set->path;
    set->info.name = slash ? slash + 1 : set->path;
    set->info.recording = set->recording;
    set->info.model_hash = set->model_hash;
    set->info.model_name = set->model_name;
    set->info.context = set->context;
    set->info.key = set->key;
    set->info.recording_vector = set->recording_npy.tensor.data;
    set->info.segments = set->segments_npy.tensor.data;
    set->info.frames = set->frames_npy.tensor.data;
    set->info.segment_rows = set->segment_rows;
    set->info.frame_rows = set->frame_rows;
    set->info.manifest = set->manifest;
}

lr_status lr_set_open(lr_set **out, const char *path, lr_error *err) {
    lr_status st = LR_OK;
    lr_set *set = NULL;
    *out = NULL;
    LR_TRY(LR_NEW(&set, 1, "an embedding set", err));
    set->path = lr_strdup(path);
    if (!set->path) LR_FAIL(LR_E_NOMEM, "out of memory: a file name");
    for (size_t n = strlen(set->path); n > 1 && set->path[n - 1] == '/'; n--) set->path[n - 1] = '\0';
    LR_TRY(read_set(set, err));
    publish(set);
    *out = set;
    set = NULL;
done:
    lr_set_close(set);
    return st;
}

void lr_set_close(lr_set *set) {
    if (!set) return;
    lr_npy_close(&set->recording_npy);
    lr_npy_close(&set->segments_npy);
    lr_npy_close(&set->frames_npy);
    json_decref(set->files);
    lr_free(set->segment_rows);
    lr_free(set->frame_rows);
    lr_free(set->manifest);
    lr_free(set->key);
    lr_free(set->model_hash);
    lr_free(set->model_name);
    lr_free(set->recording);
    lr_free(set->context);
    lr_free(set->path);
    lr_free(set);
}

const lr_set_info *lr_set_info_of(const lr_set *set) {
    return &set->info;
}

/* ------------------------------------------------------------------ finding */

typedef struct found_list {
    char **paths;
    size_t count, capacity;
} found_list;

static bool is_set(const char *directory, lr_error *err, lr_status *st) {
    char *path = NULL;
    struct stat info;
    *st = lr_format(&path, err, "%s/manifest.json", directory);
    bool yes = *st == LR_OK && stat(path, &info) == 0;
    lr_free(path);
    return yes;
}

static lr_status add_found(found_list *list, const char *path, lr_error *err) {
    lr_status st = LR_GROW(&list->paths, &list->capacity, list->count + 1, "paths of sets", err);
    if (st != LR_OK) return st;
    list->paths[list->count] = lr_strdup(path);
    if (!list->paths[list->count]) return lr_fail(err, LR_E_NOMEM, "out of memory: paths of sets");
    list->count++;
    return LR_OK;
}

/* Unfinished sets are none; a directory whose name begins with a dot may be a set (of a recording of such a
 * name), but what else lies in it is hidden. Links are not followed below the paths given. */
static lr_status find_below(found_list *list, const char *path, int depth, bool hidden, lr_error *err) {
    lr_status st = LR_OK;
    if (is_set(path, err, &st)) return add_found(list, path, err);
    if (st != LR_OK || depth == 0 || hidden) return st;
    DIR *dir = opendir(path);
    if (!dir) return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
    for (struct dirent *e; st == LR_OK && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (lr_set_is_reserved(e->d_name)) continue;
        char *below = NULL;
        struct stat info;
        st = lr_format(&below, err, "%s/%s", path, e->d_name);
        if (st == LR_OK && lstat(below, &info) == 0 && S_ISDIR(info.st_mode)) {
            st = find_below(list, below, depth - 1, e->d_name[0] == '.', err);
        }
        lr_free(below);
    }
    closedir(dir);
    return st;
}

lr_status lr_set_find(const char *const *paths, size_t n_paths, char ***out, size_t *count,
                      lr_error *err) {
    lr_status st = LR_OK;
    found_list list = {0};
    for (size_t i = 0; i < n_paths && st == LR_OK; i++) st = find_below(&list, paths[i], 8, false, err);
    if (st != LR_OK) {
        lr_list_free(list.paths, list.count);
        return st;
    }
    if (list.count > 1) qsort(list.paths, list.count, sizeof *list.paths, lr_compare_strings);
    size_t kept = 0; /* a set named twice counts once */
    for (size_t i = 0; i < list.count; i++) {
        if (kept > 0 && strcmp(list.paths[kept - 1], list.paths[i]) == 0) {
            lr_free(list.paths[i]);
        } else {
            list.paths[kept++] = list.paths[i];
        }
    }
    *out = list.paths;
    *count = kept;
    return LR_OK;
}

void lr_set_find_free(char **found, size_t count) {
    lr_list_free(found, count);
}
