/* What stands in an output directory: finished sets, sets being written, and notes of failures. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include <longreel/store.h>

#include "files.h"
#include "partial.h"

#define NOTES ".failed"
#define JOURNAL "journal.jsonl" /* of the program's runs */
#define NOTE_LIMIT ((size_t)1 << 20)

/* "OUT/talk.mp4" -> "OUT/.failed/talk.mp4" */
static lr_status note_path(char **out, const char *final_path, lr_error *err) {
    const char *slash = strrchr(final_path, '/');
    size_t head = slash ? (size_t)(slash - final_path) + 1 : 0;
    return lr_format(out, err, "%.*s" NOTES "/%s", (int)head, final_path, final_path + head);
}

lr_status lr_set_note_failure(const char *final_path, const char *text, lr_error *err) {
    lr_status st = LR_OK;
    lr_out out = {0};
    char *path = NULL;
    LR_TRY(note_path(&path, final_path, err));
    LR_TRY(lr_make_parents(path, err));
    LR_TRY(lr_out_open(&out, path, err));
    LR_TRY(lr_out_printf(&out, err, "%s\n", text));
    LR_TRY(lr_out_close(&out, err));
done:
    lr_out_discard(&out);
    lr_free(path);
    return st;
}

static const char *last_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void lr_set_forget_failure(const char *parent, const char *final_path) {
    char note[sizeof NOTES + NAME_MAX + 1];
    int length = snprintf(note, sizeof note, NOTES "/%s", last_name(final_path));
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    if (length > 0 && (size_t)length < sizeof note) (void)unlinkat(fd, note, 0);
    (void)unlinkat(fd, NOTES, AT_REMOVEDIR); /* when it was the last note */
    close(fd);
}

/* ------------------------------------------------------------------ unfinished sets */

/* ".talk.mp4.part-1234" (or the same with ".old") -> length of "talk.mp4", and 1234; 0: no such name. */
static size_t unfinished_name(const char *entry, long *pid) {
    static const char mark[] = ".part-";
    const char *at = NULL;
    if (entry[0] != '.') return 0;
    for (const char *next = entry + 1; (next = strstr(next, mark)); next++) at = next;
    if (!at || at == entry + 1 || !isdigit((unsigned char)at[sizeof mark - 1])) return 0;
    char *end;
    errno = 0;
    *pid = strtol(at + sizeof mark - 1, &end, 10);
    if (errno != 0 || *pid <= 0 || (*end && strcmp(end, ".old") != 0)) return 0;
    return (size_t)(at - entry) - 1;
}

void lr_set_stem(const char *name, char stem[LR_STEM_LIMIT + 1]) {
    size_t length = strlen(name);
    if (length <= LR_STEM_LIMIT) {
        memcpy(stem, name, length + 1);
        return;
    }
    size_t head = LR_STEM_LIMIT - 17; /* a mark and 16 digits follow */
    while (head > 0 && ((unsigned char)name[head] & 0xc0) == 0x80) head--; /* not within a character of UTF-8 */
    memcpy(stem, name, head);
    snprintf(stem + head, 18, "~%016llx", (unsigned long long)XXH3_64bits(name, length));
}

bool lr_set_is_reserved(const char *entry) {
    long pid;
    return strcmp(entry, NOTES) == 0 || strcmp(entry, JOURNAL) == 0 ||
           strcmp(entry, LR_PARTIAL) == 0 || unfinished_name(entry, &pid) > 0;
}

static bool lives(long pid) {
    return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

void lr_set_clear_unfinished(const char *parent, const char *final_path) {
    char name[LR_STEM_LIMIT + 1];
    DIR *dir = opendir(parent);
    lr_set_stem(last_name(final_path), name);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        long pid = 0;
        size_t length = unfinished_name(e->d_name, &pid);
        if (length == 0 || length != strlen(name) || memcmp(e->d_name + 1, name, length) != 0) continue;
        if (!lives(pid)) (void)lr_remove_tree_at(dirfd(dir), e->d_name);
    }
    if (dir) closedir(dir);
}

/* ------------------------------------------------------------------ listing */

typedef struct entry_list {
    lr_set_entry *items;
    size_t count, capacity;
} entry_list;

/* The entry of a set's final path, added in `state` when there is none yet. */
static lr_status entry_of(entry_list *list, const char *path, lr_set_state state, lr_set_entry **out,
                          lr_error *err) {
    for (size_t i = 0; i < list->count; i++) {
        *out = &list->items[i];
        if (strcmp((*out)->path, path) == 0) return LR_OK;
    }
    lr_status st = LR_GROW(&list->items, &list->capacity, list->count + 1, "a list of sets", err);
    if (st != LR_OK) return st;
    *out = &list->items[list->count];
    **out = (lr_set_entry){.path = lr_strdup(path), .state = state};
    if (!(*out)->path) return lr_fail(err, LR_E_NOMEM, "out of memory: a list of sets");
    list->count++;
    return LR_OK;
}

static lr_status add_finished(entry_list *list, const char *directory, lr_error *err) {
    lr_status st = LR_OK;
    char **found = NULL;
    size_t count = 0;
    LR_TRY(lr_set_find(&directory, 1, &found, &count, err));
    for (size_t i = 0; i < count; i++) {
        lr_set_entry *entry;
        LR_TRY(entry_of(list, found[i], LR_SET_FINISHED, &entry, err));
    }
done:
    lr_set_find_free(found, count);
    return st;
}

static lr_status add_unfinished(entry_list *list, const char *directory, lr_error *err) {
    DIR *dir = opendir(directory);
    if (!dir) return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", directory);
    lr_status st = LR_OK;
    for (struct dirent *e; st == LR_OK && (e = readdir(dir));) {
        long pid = 0;
        size_t length = unfinished_name(e->d_name, &pid);
        if (length == 0) continue;
        bool alive = lives(pid);
        char *path = NULL;
        lr_set_entry *entry = NULL;
        st = lr_format(&path, err, "%s/%.*s", directory, (int)length, e->d_name + 1);
        if (st == LR_OK) {
            st = entry_of(list, path, alive ? LR_SET_UNDER_WAY : LR_SET_INTERRUPTED, &entry, err);
        }
        if (st == LR_OK && alive) entry->state = LR_SET_UNDER_WAY;
        lr_free(path);
    }
    closedir(dir);
    return st;
}

static lr_status add_note(entry_list *list, const char *directory, const char *name, lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL, *note = NULL, *text = NULL;
    size_t bytes;
    lr_set_entry *entry = NULL;
    LR_TRY(lr_format(&path, err, "%s/%s", directory, name));
    LR_TRY(lr_format(&note, err, "%s/" NOTES "/%s", directory, name));
    LR_TRY(lr_slurp(note, NOTE_LIMIT, &text, &bytes, err));
    LR_TRY(entry_of(list, path, LR_SET_FAILED, &entry, err));
    text[strcspn(text, "\n")] = '\0';
    if (entry->state == LR_SET_INTERRUPTED) entry->state = LR_SET_FAILED;
    lr_free(entry->error);
    entry->error = text;
    text = NULL;
done:
    lr_free(text);
    lr_free(note);
    lr_free(path);
    return st;
}

static lr_status add_notes(entry_list *list, const char *directory, lr_error *err) {
    lr_status st = LR_OK;
    char *notes = NULL;
    DIR *dir = NULL;
    LR_TRY(lr_format(&notes, err, "%s/" NOTES, directory));
    dir = opendir(notes);
    if (!dir) goto done; /* nothing failed */
    for (struct dirent *e; (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        LR_TRY(add_note(list, directory, e->d_name, err));
    }
done:
    if (dir) closedir(dir);
    lr_free(notes);
    return st;
}

/* ------------------------------------------------------------------ stored work */

/* Rows that slices [a, b) of one series, sorted, hold together; *gapless: all of 0 to *end. */
static uint64_t rows_of(const lr_slice_name *slices, size_t a, size_t b, bool *gapless, uint64_t *end) {
    uint64_t rows = 0;
    *end = 0;
    *gapless = true;
    for (size_t i = a; i < b; i++) {
        uint64_t first = slices[i].first > *end ? slices[i].first : *end;
        *gapless = *gapless && slices[i].first <= *end;
        if (slices[i].end <= first) continue;
        rows += slices[i].end - first;
        *end = slices[i].end;
    }
    return rows;
}

static bool same_series(const lr_slice_name *a, const lr_slice_name *b) {
    return a->kind == b->kind && a->window == b->window && a->layer == b->layer;
}

/* Layers: of each window up to the last one that is there for all the tokens that any layer is there for. */
static void count_stored(const lr_slice_name *slices, size_t count, lr_set_stored *out) {
    uint64_t most = 0, window_layers = 0;
    for (size_t a = 0, b; a < count; a = b) {
        bool gapless;
        uint64_t end;
        for (b = a + 1; b < count && same_series(&slices[a], &slices[b]);) b++;
        uint64_t rows = rows_of(slices, a, b, &gapless, &end);
        if (slices[a].kind == LR_SLICE_FRAMES) out->frames = rows;
        if (slices[a].kind == LR_SLICE_SOUND) out->sound_tokens = rows;
        if (slices[a].kind != LR_SLICE_LAYER) continue;
        if (a == 0 || slices[a - 1].kind != LR_SLICE_LAYER || slices[a - 1].window != slices[a].window) {
            most = window_layers = 0;
        }
        if (!gapless || end < most) continue;
        most = end;
        out->layers += slices[a].layer + 1 - window_layers;
        window_layers = slices[a].layer + 1;
    }
}

static lr_status add_stored_one(entry_list *list, const char *directory, const char *key, lr_error *err) {
    lr_status st = LR_OK;
    char *inner = NULL, *set = NULL, *path = NULL;
    lr_slice_name *slices = NULL;
    size_t count = 0, capacity = 0;
    lr_partial_about about;
    lr_set_entry *entry = NULL;
    bool used;
    LR_TRY(lr_format(&inner, err, "%s/" LR_PARTIAL "/%s", directory, key));
    st = lr_partial_about_of(inner, key, &about, &set, NULL);
    if (st == LR_E_NOMEM) LR_FAIL(st, "out of memory: stored work");
    if (st != LR_OK || strchr(set, '/')) { /* nothing that we know of */
        st = LR_OK;
        goto done;
    }
    LR_TRY(lr_format(&path, err, "%s/%s", directory, set));
    LR_TRY(lr_slice_list(inner, &slices, &count, &capacity, err));
    LR_TRY(lr_partial_in_use(inner, &used, err));
    LR_TRY(entry_of(list, path, used ? LR_SET_UNDER_WAY : LR_SET_INTERRUPTED, &entry, err));
    if (used && entry->state != LR_SET_FINISHED) entry->state = LR_SET_UNDER_WAY;
    entry->has_stored = true;
    entry->stored = (lr_set_stored){.of_frames = about.frames, .of_sound_tokens = about.sound_tokens,
                                    .of_layers = about.windows * about.layers};
    count_stored(slices, count, &entry->stored);
done:
    lr_free(slices);
    lr_free(path);
    lr_free(set);
    lr_free(inner);
    return st;
}

static lr_status add_stored(entry_list *list, const char *directory, lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL;
    DIR *dir = NULL;
    LR_TRY(lr_format(&path, err, "%s/" LR_PARTIAL, directory));
    dir = opendir(path);
    if (!dir) goto done; /* nothing is stored */
    for (struct dirent *e; (e = readdir(dir));) LR_TRY(add_stored_one(list, directory, e->d_name, err));
done:
    if (dir) closedir(dir);
    lr_free(path);
    return st;
}

static int by_path(const void *a, const void *b) {
    const lr_set_entry *x = a, *y = b;
    return strcmp(x->path, y->path);
}

lr_status lr_set_states(const char *directory, lr_set_entry **out, size_t *count, lr_error *err) {
    lr_status st = LR_OK;
    entry_list list = {0};
    char *path = lr_strdup(directory);
    if (!path) LR_FAIL(LR_E_NOMEM, "out of memory: a file name");
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) path[n - 1] = '\0';
    LR_TRY(add_finished(&list, path, err));
    LR_TRY(add_unfinished(&list, path, err));
    LR_TRY(add_stored(&list, path, err));
    LR_TRY(add_notes(&list, path, err));
    if (list.count > 1) qsort(list.items, list.count, sizeof *list.items, by_path);
    *out = list.items;
    *count = list.count;
    list = (entry_list){0};
done:
    lr_set_states_free(list.items, list.count);
    lr_free(path);
    return st;
}

void lr_set_states_free(lr_set_entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        lr_free(entries[i].path);
        lr_free(entries[i].error);
    }
    lr_free(entries);
}
