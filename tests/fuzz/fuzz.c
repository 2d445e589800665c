#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

void fz_stop(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    abort();
}

/* The test's own files and memory: nothing is found out by going on without. */
static void need(bool good, const char *what)
{
    if (good) return;
    perror(what);
    _exit(1);
}

void fz_init(void)
{
    json_set_alloc_funcs(lr_alloc, lr_free);
}

static char directory[256];

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_directory(void)
{
    (void)nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *seeds;

void fz_seeds(void (*make)(void))
{
    seeds = getenv("LR_FUZZ_SEEDS");
    if (!seeds) return;
    make();
    if (directory[0]) remove_directory();
    _exit(0); /* what encoders leak is not looked for */
}

void fz_seed(const char *name, const void *head, size_t head_bytes, const void *body, size_t body_bytes)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", seeds, name);
    FILE *file = fopen(path, "wb");
    need(file != NULL, path);
    need(head_bytes == 0 || fwrite(head, 1, head_bytes, file) == head_bytes, path);
    need(body_bytes == 0 || fwrite(body, 1, body_bytes, file) == body_bytes, path);
    need(fclose(file) == 0, path);
}

/* ------------------------------------------------------------------ the library's word */

bool fz_succeeded(lr_status st, const lr_error *err)
{
    if (st == LR_OK) return true;
    if (err->status != st || err->text[0] == '\0' || st == LR_E_INTERNAL) {
        (void)fprintf(stderr, "%s, recorded %s: \"%s\"\n", lr_status_name(st),
                      lr_status_name(err->status), err->text);
        FZ_CHECK(err->status == st);
        FZ_CHECK(err->text[0] != '\0');
        FZ_CHECK(st != LR_E_INTERNAL);
    }
    FZ_CHECK(memchr(err->text, '\0', sizeof err->text));
    return false;
}

static size_t live_before;

void fz_begin(void)
{
    live_before = lr_alloc_live();
    lr_alloc_reset_peak();
}

void fz_end(size_t most)
{
    FZ_CHECK(lr_alloc_live() == live_before);
    FZ_CHECK(lr_alloc_peak() - live_before <= most);
}

/* ------------------------------------------------------------------ structured inputs */

uint64_t fz_take(fz_bytes *bytes, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count && bytes->left > 0; i++, bytes->at++, bytes->left--)
        value |= (uint64_t)*bytes->at << (8 * i);
    return value;
}

int64_t fz_between(fz_bytes *bytes, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)high - (uint64_t)low, value = fz_take(bytes, span < 256 ? 1 : 8);
    if (span < UINT64_MAX) value %= span + 1;
    return (int64_t)((uint64_t)low + value);
}

uint64_t fz_number(fz_bytes *bytes)
{
    uint64_t kind = fz_take(bytes, 1);
    if (kind < 160) return kind;
    if (kind < 208) return fz_take(bytes, 2);
    if (kind < 240) return fz_take(bytes, 4);
    if (kind < 250) return fz_take(bytes, 8);
    static const uint64_t borders[] = {INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX, INT64_MAX / 2,
                                       (uint64_t)INT64_MAX + 1};
    return borders[kind - 250];
}

/* ------------------------------------------------------------------ files */

#define MOST_FILES 64

static struct file_in_memory {
    char *name, *path;
    int fd; /* -1: a directory, a link or only a path */
} files[MOST_FILES];
static size_t n_files;

const char *fz_directory(void)
{
    if (directory[0]) return directory;
    const char *parent = getenv("TMPDIR");
    (void)snprintf(directory, sizeof directory, "%s/longreel-fuzz-XXXXXX", parent ? parent : "/tmp");
    need(mkdtemp(directory) != NULL, directory);
    need(atexit(remove_directory) == 0, "atexit");
    return directory;
}

static struct file_in_memory *file_of(const char *name)
{
    for (size_t i = 0; i < n_files; i++)
        if (strcmp(files[i].name, name) == 0) return &files[i];
    need(n_files < MOST_FILES, "too many files");
    struct file_in_memory *file = &files[n_files++];
    size_t bytes = strlen(fz_directory()) + strlen(name) + 2;
    file->fd = -1;
    file->name = strdup(name);
    file->path = malloc(bytes);
    need(file->name && file->path, name);
    (void)snprintf(file->path, bytes, "%s/%s", fz_directory(), name);
    return file;
}

const char *fz_path(const char *name)
{
    return file_of(name)->path;
}

void fz_make_directory(const char *name)
{
    need(mkdir(fz_path(name), 0700) == 0, name);
}

void fz_link(const char *name, const char *target)
{
    need(symlink(target, fz_path(name)) == 0, name);
}

const char *fz_write(const char *name, const void *data, size_t bytes)
{
    struct file_in_memory *file = file_of(name);
    if (file->fd < 0) {
        char target[64];
        file->fd = memfd_create(name, MFD_CLOEXEC);
        need(file->fd >= 0, name);
        (void)snprintf(target, sizeof target, "/proc/%d/fd/%d", (int)getpid(), file->fd);
        need(symlink(target, file->path) == 0, file->path);
    }
    need(ftruncate(file->fd, 0) == 0, name);
    need(pwrite(file->fd, data, bytes, 0) == (ssize_t)bytes, name);
    return file->path;
}

char *fz_slurp(const char *path, size_t *bytes)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    need(fd >= 0 && fstat(fd, &info) == 0, path);
    char *text = malloc((size_t)info.st_size + 1);
    need(text && read(fd, text, (size_t)info.st_size) == (ssize_t)info.st_size, path);
    text[info.st_size] = '\0';
    *bytes = (size_t)info.st_size;
    (void)close(fd);
    return text;
}
