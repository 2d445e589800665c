/* Slices of unfinished work on disk.
 *
 * The directory holds a file `lock` and a file a slice. Each process that uses the directory holds a shared lock;
 * who gets an exclusive one may remove it. Nothing is synced: after a crash of the machine the hashes tell what
 * has reached the disk. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "files.h"
#include "partial.h"

#define LOCK "lock"
#define KEY_BYTES 32
#define VERSION 1
#define MOST_NOTES ((uint64_t)1 << 26)

static const char magic[8] = "LRSLICE";
static const char *const kind_names[] = {"about", "frames", "sound", "soundnotes", "layer"};
#define N_KINDS (sizeof kind_names / sizeof *kind_names)

/* 120 bytes, in the machine's order of bytes: of another order, it is altered. */
typedef struct slice_header {
    char magic[8];
    uint32_t version, kind;
    char key[KEY_BYTES];
    uint32_t window, layer;
    uint64_t first, end;
    uint64_t row_bytes, notes_bytes;
    uint64_t hash[2]; /* XXH3-128 of rows and notes */
    uint64_t reserved;
    uint64_t own_hash; /* XXH3-64 of what stands before it */
} slice_header;

struct lr_partial {
    char *directory;
    char key[KEY_BYTES];
    int lock;
    lr_slice_name *slices;
    size_t n_slices, capacity;
};

/* ------------------------------------------------------------------ names */

lr_status lr_partial_path(char **out, const char *set_path, const char *key, lr_error *err) {
    const char *slash = strrchr(set_path, '/');
    int head = slash ? (int)(slash - set_path) + 1 : 0;
    return lr_format(out, err, "%.*s" LR_PARTIAL "/%s", head, set_path, key);
}

static lr_status slice_path(char **out, const char *directory, const lr_slice_name *name, lr_error *err) {
    return lr_format(out, err, "%s/%s-%" PRIu32 "-%" PRIu32 "-%" PRIu64 "-%" PRIu64, directory,
                     kind_names[name->kind], name->window, name->layer, name->first, name->end);
}

bool lr_slice_parse(const char *entry, lr_slice_name *out) {
    size_t length = strcspn(entry, "-");
    int used = 0;
    for (size_t k = 0; k < N_KINDS; k++) {
        if (strlen(kind_names[k]) != length || memcmp(kind_names[k], entry, length) != 0) continue;
        out->kind = (lr_slice_kind)k;
        int n = sscanf(entry + length, "-%10" SCNu32 "-%10" SCNu32 "-%20" SCNu64 "-%20" SCNu64 "%n", &out->window,
                       &out->layer, &out->first, &out->end, &used);
        return n == 4 && entry[length + (size_t)used] == '\0' && out->first < out->end;
    }
    return false;
}

int lr_slice_compare(const void *a, const void *b) {
    const lr_slice_name *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->window != y->window) return x->window < y->window ? -1 : 1;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

lr_status lr_slice_list(const char *directory, lr_slice_name **out, size_t *count, size_t *capacity,
                        lr_error *err) {
    lr_status st = LR_OK;
    DIR *dir = opendir(directory);
    if (!dir) return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", directory);
    for (struct dirent *e; (e = readdir(dir));) {
        lr_slice_name name;
        if (!lr_slice_parse(e->d_name, &name)) continue;
        LR_TRY(LR_GROW(out, capacity, *count + 1, "names of stored work", err));
        (*out)[(*count)++] = name;
    }
    if (*count > 1) qsort(*out, *count, sizeof **out, lr_slice_compare);
done:
    closedir(dir);
    return st;
}

/* ------------------------------------------------------------------ the lock */

static const struct timespec a_moment = {.tv_nsec = 5000000};

/* Is `fd` still what the path names? */
static bool is_at(int fd, const char *path) {
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

static bool unsupported(int why) {
    return why != EWOULDBLOCK && why != EINTR;
}

/* A shared lock on the directory, made when it is not there. A process that is just removing it is waited for. */
static lr_status take_lock(const char *directory, const char *path, int *out, lr_error *err) {
    for (int tries = 0; tries < 400; tries++) {
        lr_status st = lr_make_parents(path, err);
        if (st != LR_OK) return st;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0 && errno != ENOENT) return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be made", path);
        if (fd >= 0 && (flock(fd, LOCK_SH | LOCK_NB) == 0 || unsupported(errno)) && is_at(fd, path)) {
            *out = fd;
            return LR_OK;
        }
        if (fd >= 0) close(fd);
        (void)nanosleep(&a_moment, NULL);
    }
    return lr_fail(err, LR_E_IO, "%s: is being removed by another process", directory);
}

lr_status lr_partial_in_use(const char *directory, bool *used, lr_error *err) {
    char *path = NULL;
    *used = false;
    lr_status st = lr_format(&path, err, "%s/" LOCK, directory);
    if (st != LR_OK) return st;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    lr_free(path);
    if (fd < 0) return LR_OK;
    *used = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return LR_OK;
}

/* False: another process uses it. (One that only asks whether it is used is through in a moment.) */
static bool remove_unused(const char *directory, const char *lock) {
    int fd = open(lock, O_RDWR | O_CLOEXEC);
    bool mine = false;
    if (fd < 0) return true;
    for (int tries = 0; tries < 3 && !mine; tries++) {
        if (tries > 0) (void)nanosleep(&a_moment, NULL);
        mine = flock(fd, LOCK_EX | LOCK_NB) == 0 || unsupported(errno);
    }
    if (mine) (void)lr_remove_tree_at(AT_FDCWD, directory);
    close(fd);
    return mine;
}

/* Removes <parent>/<key>. */
static void finish_one(const char *parent, const char *key) {
    char *directory = NULL, *lock = NULL;
    if (lr_format(&directory, NULL, "%s/%s", parent, key) == LR_OK &&
        lr_format(&lock, NULL, "%s/" LOCK, directory) == LR_OK) {
        (void)remove_unused(directory, lock);
    }
    lr_free(lock);
    lr_free(directory);
}

static bool is_of_set(const char *parent, const char *key, const char *set) {
    char *directory = NULL, *name = NULL;
    lr_partial_about about;
    bool same = lr_format(&directory, NULL, "%s/%s", parent, key) == LR_OK &&
                lr_partial_about_of(directory, key, &about, &name, NULL) == LR_OK && strcmp(name, set) == 0;
    lr_free(name);
    lr_free(directory);
    return same;
}

/* With other options, the same set may have been begun before. */
void lr_partial_finish(const char *set_path, const char *key) {
    const char *slash = strrchr(set_path, '/'), *set = slash ? slash + 1 : set_path;
    char *parent = NULL;
    if (lr_format(&parent, NULL, "%.*s" LR_PARTIAL, (int)(set - set_path), set_path) != LR_OK) return;
    DIR *dir = opendir(parent);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strcmp(e->d_name, key) == 0 || is_of_set(parent, e->d_name, set)) finish_one(parent, e->d_name);
    }
    if (dir) {
        closedir(dir);
        (void)rmdir(parent); /* when these were the last ones */
    }
    lr_free(parent);
}

/* ------------------------------------------------------------------ opening */

static lr_status put_about(lr_partial *p, const char *set_path, const lr_partial_about *about, lr_error *err) {
    const char *slash = strrchr(set_path, '/'), *set = slash ? slash + 1 : set_path;
    const lr_slice_name name = {.kind = LR_SLICE_ABOUT, .end = 1};
    size_t bytes = sizeof *about + strlen(set) + 1;
    char *notes = NULL;
    lr_status st = LR_NEW(&notes, bytes, "a note of what is under way", err);
    if (st != LR_OK) return st;
    memcpy(notes, about, sizeof *about);
    memcpy(notes + sizeof *about, set, strlen(set));
    st = lr_partial_put(p, &name, 0, NULL, notes, bytes, err);
    lr_free(notes);
    return st;
}

lr_status lr_partial_open(lr_partial **out, const char *set_path, const char *key, bool afresh,
                          const lr_partial_about *about, lr_error *err) {
    lr_status st = LR_OK;
    lr_partial *p = NULL;
    char *lock = NULL;
    *out = NULL;
    LR_TRY(LR_NEW(&p, 1, "stored work", err));
    p->lock = -1;
    if (strlen(key) != KEY_BYTES) LR_FAIL(LR_E_INTERNAL, "a key of %zu bytes", strlen(key));
    memcpy(p->key, key, KEY_BYTES);
    LR_TRY(lr_partial_path(&p->directory, set_path, key, err));
    LR_TRY(lr_format(&lock, err, "%s/" LOCK, p->directory));
    if (afresh && !remove_unused(p->directory, lock)) goto done;
    LR_TRY(take_lock(p->directory, lock, &p->lock, err));
    LR_TRY(lr_slice_list(p->directory, &p->slices, &p->n_slices, &p->capacity, err));
    if (about) LR_TRY(put_about(p, set_path, about, err));
    *out = p;
    p = NULL;
done:
    lr_partial_close(p);
    lr_free(lock);
    return st;
}

const char *lr_partial_directory(const lr_partial *p) {
    return p->directory;
}

const lr_slice_name *lr_partial_slices(const lr_partial *p, size_t *count) {
    *count = p->n_slices;
    return p->slices;
}

void lr_partial_close(lr_partial *p) {
    if (!p) return;
    if (p->lock >= 0) close(p->lock);
    lr_free(p->slices);
    lr_free(p->directory);
    lr_free(p);
}

/* ------------------------------------------------------------------ slices */

static slice_header header_of(const char key[KEY_BYTES], const lr_slice_name *name, size_t row_bytes) {
    slice_header h = {.version = VERSION, .kind = (uint32_t)name->kind, .window = name->window,
                      .layer = name->layer, .first = name->first, .end = name->end, .row_bytes = row_bytes};
    memcpy(h.magic, magic, sizeof h.magic);
    memcpy(h.key, key, KEY_BYTES);
    return h;
}

static uint64_t own_hash(const slice_header *h) {
    return XXH3_64bits(h, offsetof(slice_header, own_hash));
}

static bool write_all(int fd, const void *data, size_t bytes) {
    for (const char *at = data; bytes > 0;) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

lr_status lr_partial_put(lr_partial *p, const lr_slice_name *name, size_t row_bytes, const void *rows,
                         const void *notes, size_t notes_bytes, lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL, *part = NULL;
    size_t bytes = (size_t)(name->end - name->first) * row_bytes;
    slice_header h = header_of(p->key, name, row_bytes);
    XXH3_state_t *state = XXH3_createState();
    int fd = -1;
    if (!state) LR_FAIL(LR_E_NOMEM, "out of memory: a hash");
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, rows, bytes);
    XXH3_128bits_update(state, notes, notes_bytes);
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    h.hash[0] = hash.low64;
    h.hash[1] = hash.high64;
    h.notes_bytes = notes_bytes;
    h.own_hash = own_hash(&h);
    LR_TRY(slice_path(&path, p->directory, name, err));
    LR_TRY(lr_format(&part, err, "%s/new-XXXXXX", p->directory));
    fd = mkostemp(part, O_CLOEXEC);
    if (fd < 0 || !write_all(fd, &h, sizeof h) || !write_all(fd, rows, bytes) ||
        !write_all(fd, notes, notes_bytes) || fchmod(fd, 0644) != 0 || rename(part, path) != 0) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be written", path);
        if (fd >= 0) (void)unlink(part);
    }
done:
    if (fd >= 0) close(fd);
    XXH3_freeState(state);
    lr_free(part);
    lr_free(path);
    return st;
}

/* The file's bytes must be those that its header tells of, and the header what the name says. */
static lr_status check_slice(const char *path, const char *text, size_t bytes, const slice_header *wanted,
                             lr_error *err) {
    slice_header h;
    size_t rows;
    if (bytes < sizeof h) return lr_fail(err, LR_E_FORMAT, "%s: is cut off", path);
    memcpy(&h, text, sizeof h);
    if (h.own_hash != own_hash(&h)) return lr_fail(err, LR_E_FORMAT, "%s: its header is altered", path);
    if (memcmp(h.magic, wanted->magic, sizeof h.magic) != 0 || h.version != wanted->version ||
        h.kind != wanted->kind || memcmp(h.key, wanted->key, KEY_BYTES) != 0 || h.window != wanted->window ||
        h.layer != wanted->layer || h.first != wanted->first || h.end != wanted->end ||
        h.row_bytes != wanted->row_bytes || h.notes_bytes > MOST_NOTES) {
        return lr_fail(err, LR_E_FORMAT, "%s: is of other work", path);
    }
    if (!lr_mul_size((size_t)(h.end - h.first), (size_t)h.row_bytes, &rows) ||
        !lr_add_size(rows, (size_t)h.notes_bytes, &rows) || bytes - sizeof h != rows) {
        return lr_fail(err, LR_E_FORMAT, "%s: is cut off", path);
    }
    XXH128_hash_t hash = XXH3_128bits(text + sizeof h, rows);
    if (hash.low64 != h.hash[0] || hash.high64 != h.hash[1]) {
        return lr_fail(err, LR_E_FORMAT, "%s: is altered", path);
    }
    return LR_OK;
}

static lr_status read_slice(const char *path, const slice_header *wanted, lr_slice *out, lr_error *err) {
    lr_status st = LR_OK;
    char *text = NULL;
    size_t bytes, rows, limit;
    if (!lr_mul_size((size_t)(wanted->end - wanted->first), (size_t)wanted->row_bytes, &rows) ||
        !lr_add_size(rows, (size_t)MOST_NOTES + sizeof *wanted, &limit)) {
        LR_FAIL(LR_E_FORMAT, "%s: its name tells of more than fits", path);
    }
    LR_TRY(lr_slurp(path, limit, &text, &bytes, err));
    LR_TRY(check_slice(path, text, bytes, wanted, err));
    bytes -= sizeof *wanted; /* the rows move to the block's start, which is aligned */
    memmove(text, text + sizeof *wanted, bytes);
    *out = (lr_slice){.rows = text, .notes = text + rows, .notes_bytes = bytes - rows};
    text = NULL;
done:
    lr_free(text);
    return st;
}

lr_status lr_partial_get(lr_partial *p, const lr_slice_name *name, size_t row_bytes, lr_slice *out,
                         lr_error *err) {
    char *path = NULL;
    slice_header wanted = header_of(p->key, name, row_bytes);
    lr_status st = slice_path(&path, p->directory, name, err);
    if (st == LR_OK) st = read_slice(path, &wanted, out, err);
    lr_free(path);
    return st;
}

lr_status lr_partial_about_of(const char *directory, const char *key, lr_partial_about *about, char **set,
                              lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL;
    lr_slice slice = {0};
    const lr_slice_name name = {.kind = LR_SLICE_ABOUT, .end = 1};
    if (strlen(key) != KEY_BYTES) return lr_fail(err, LR_E_FORMAT, "%s: is no stored work", directory);
    slice_header wanted = header_of(key, &name, 0);
    LR_TRY(slice_path(&path, directory, &name, err));
    LR_TRY(read_slice(path, &wanted, &slice, err));
    const char *text = slice.notes;
    if (slice.notes_bytes <= sizeof *about || text[slice.notes_bytes - 1] != '\0') {
        LR_FAIL(LR_E_FORMAT, "%s: is cut off", path);
    }
    memcpy(about, text, sizeof *about);
    *set = lr_strdup(text + sizeof *about);
    if (!*set) LR_FAIL(LR_E_NOMEM, "out of memory: a file name");
done:
    lr_free(slice.rows);
    lr_free(path);
    return st;
}

void lr_partial_drop(lr_partial *p, const lr_slice_name *name) {
    char *path = NULL;
    if (slice_path(&path, p->directory, name, NULL) == LR_OK) (void)unlink(path);
    lr_free(path);
}
