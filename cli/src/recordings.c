/* The recordings of a command line, and the names of their sets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct recording_list {
    cli_recording *items;
    size_t count, capacity;
} recording_list;

static lr_status add_recording(recording_list *list, const char *path, lr_error *err) {
    lr_status st = LR_GROW(&list->items, &list->capacity, list->count + 1, "recordings", err);
    if (st != LR_OK) return st;
    list->items[list->count] = (cli_recording){.path = lr_strdup(path)};
    if (!list->items[list->count].path) return lr_fail(err, LR_E_NOMEM, "out of memory: recordings");
    list->count++;
    return LR_OK;
}

static lr_status read_list(recording_list *list, const char *name, FILE *file, lr_error *err) {
    lr_status st = LR_OK;
    char *line = NULL; /* of getline: from malloc */
    size_t capacity = 0;
    ssize_t length;
    bool first = true;
    errno = 0;
    while ((length = getline(&line, &capacity, file)) >= 0) {
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) length--;
        line[length] = '\0';
        if (strlen(line) != (size_t)length) LR_FAIL(LR_E_FORMAT, "%s: is no list of file names", name);
        const char *path = line;
        if (first && strncmp(path, "\xef\xbb\xbf", 3) == 0) path += 3; /* a byte-order mark */
        first = false;
        if (*path) LR_TRY(add_recording(list, path, err));
    }
    if (ferror(file)) st = lr_fail_errno(err, LR_E_USAGE, errno, "%s: cannot be read", name);
done:
    free(line);
    return st;
}

static lr_status add_list(recording_list *list, const char *name, lr_error *err) {
    if (strcmp(name, "-") == 0) return read_list(list, "standard input", stdin, err);
    FILE *file = fopen(name, "re");
    if (!file) return lr_fail_errno(err, LR_E_USAGE, errno, "%s: the list cannot be opened", name);
    lr_status st = read_list(list, name, file, err);
    fclose(file);
    return st;
}

/* ------------------------------------------------------------------ names */

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool taken(const recording_list *list, size_t before, const char *set) {
    for (size_t i = 0; i < before; i++) {
        if (strcmp(list->items[i].set, set) == 0) return true;
    }
    return false;
}

/* OUT/talk.mp4; where earlier ones have that name, OUT/talk.mp4~2 and so on. */
static lr_status name_set(recording_list *list, size_t i, const char *out, lr_error *err) {
    cli_recording *r = &list->items[i];
    const char *name = file_name(r->path);
    size_t length = strlen(out), same = 0;
    while (length > 1 && out[length - 1] == '/') length--;
    const char *between = length > 0 && out[length - 1] == '/' ? "" : "/";
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return lr_fail(err, LR_E_USAGE, "%s: is a directory, not a recording", r->path);
    }
    for (size_t j = 0; j < i; j++) same += strcmp(file_name(list->items[j].path), name) == 0;
    lr_status st = LR_OK;
    for (size_t n = same + 1; st == LR_OK; n++) {
        lr_free(r->set);
        r->set = NULL;
        st = n == 1 ? lr_format(&r->set, err, "%.*s%s%s", (int)length, out, between, name)
                    : lr_format(&r->set, err, "%.*s%s%s~%zu", (int)length, out, between, name, n);
        if (st == LR_OK && !taken(list, i, r->set)) break;
    }
    return st;
}

/* Allowed, but seldom meant. */
static void note_again(const recording_list *list, size_t i) {
    for (size_t j = 0; j < i; j++) {
        if (strcmp(list->items[j].path, list->items[i].path) == 0) {
            cli_note("%s: is named more than once; it is encoded again, as %s", list->items[i].path,
                     list->items[i].set);
            return;
        }
    }
}

lr_status cli_recordings(cli_recording **out, size_t *count, char **arguments, size_t n_arguments,
                         const char *out_directory, lr_error *err) {
    lr_status st = LR_OK;
    recording_list list = {0};
    for (size_t i = 0; i < n_arguments; i++) {
        if (arguments[i][0] == '@') {
            LR_TRY(add_list(&list, arguments[i] + 1, err));
        } else {
            LR_TRY(add_recording(&list, arguments[i], err));
        }
    }
    if (list.count == 0) LR_FAIL(LR_E_USAGE, "no recording is given");
    for (size_t i = 0; out_directory && i < list.count; i++) {
        LR_TRY(name_set(&list, i, out_directory, err));
        note_again(&list, i);
    }
    *out = list.items;
    *count = list.count;
    list = (recording_list){0};
done:
    cli_recordings_free(list.items, list.count);
    return st;
}

void cli_recordings_free(cli_recording *recordings, size_t count) {
    for (size_t i = 0; i < count; i++) {
        lr_free(recordings[i].path);
        lr_free(recordings[i].set);
    }
    lr_free(recordings);
}
