#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "files.h"

/* ------------------------------------------------------------------ writing */

lr_status lr_out_open(lr_out *out, const char *path, lr_error *err) {
    *out = (lr_out){.path = lr_strdup(path)};
    if (!out->path) return lr_fail(err, LR_E_NOMEM, "out of memory: a file name");
    out->file = fopen(path, "wbe");
    if (out->file) return LR_OK;
    lr_status st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be written", path);
    lr_out_discard(out);
    return st;
}

lr_status lr_out_open_aside(lr_out *out, const char *path, lr_error *err) {
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return lr_out_open(out, path, err);
    *out = (lr_out){.path = lr_strdup(path)};
    if (!out->path) return lr_fail(err, LR_E_NOMEM, "out of memory: a file name");
    lr_status st = lr_format(&out->part, err, "%s.part-%ld", path, (long)getpid());
    if (st == LR_OK) out->file = fopen(out->part, "wbe");
    if (st == LR_OK && !out->file) st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be written", path);
    if (st != LR_OK) lr_out_discard(out);
    return st;
}

lr_status lr_out_write(lr_out *out, const void *data, size_t bytes, lr_error *err) {
    if (bytes == 0 || fwrite(data, 1, bytes, out->file) == bytes) return LR_OK;
    return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be written", out->path);
}

/* Numbers have a decimal point, whatever locale the program runs in. */
static locale_t plain_numbers;
static void make_plain_numbers(void) {
    plain_numbers = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
}

lr_status lr_out_printf(lr_out *out, lr_error *err, const char *format, ...) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    va_list args;
    (void)pthread_once(&once, make_plain_numbers);
    locale_t before = plain_numbers ? uselocale(plain_numbers) : (locale_t)0;
    va_start(args, format);
    int n = vfprintf(out->file, format, args);
    va_end(args);
    if (before) uselocale(before);
    if (n >= 0) return LR_OK;
    return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be written", out->path);
}

lr_status lr_out_close(lr_out *out, lr_error *err) {
    /* EINVAL: a pipe or a device, which cannot be synced */
    int bad = fflush(out->file) != 0 || (fsync(fileno(out->file)) != 0 && errno != EINVAL);
    int why = errno;
    if (fclose(out->file) != 0 && !bad) {
        bad = 1;
        why = errno;
    }
    out->file = NULL;
    lr_status st = LR_OK;
    if (!bad && out->part) {
        bad = rename(out->part, out->path) != 0;
        why = errno;
        if (!bad) {
            lr_free(out->part);
            out->part = NULL;
        }
    }
    if (bad) st = lr_fail_errno(err, LR_E_IO, why, "%s: cannot be written", out->path);
    lr_out_discard(out);
    return st;
}

void lr_out_discard(lr_out *out) {
    if (out->file) fclose(out->file);
    if (out->part) (void)unlink(out->part);
    lr_free(out->part);
    lr_free(out->path);
    *out = (lr_out){0};
}

/* ------------------------------------------------------------------ reading */

lr_status lr_slurp(const char *path, size_t limit, char **out, size_t *bytes, lr_error *err) {
    lr_status st = LR_OK;
    char *text = NULL;
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe is refused, not waited for */
    FILE *file = fd >= 0 ? fdopen(fd, "rb") : NULL;
    *out = NULL;
    if (!file && fd >= 0) close(fd);
    if (!file || fstat(fileno(file), &info) != 0) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
        goto done;
    }
    if (!S_ISREG(info.st_mode)) LR_FAIL(LR_E_IO, "%s: is not a file", path);
    if (info.st_size < 0 || (size_t)info.st_size > limit) {
        LR_FAIL(LR_E_FORMAT, "%s: %lld bytes are more than such a file may have", path,
                (long long)info.st_size);
    }
    LR_TRY(LR_NEW(&text, (size_t)info.st_size + 1, path, err));
    *bytes = fread(text, 1, (size_t)info.st_size, file);
    if (ferror(file)) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
        goto done;
    }
    text[*bytes] = '\0';
    *out = text;
    text = NULL;
done:
    if (file) fclose(file);
    lr_free(text);
    return st;
}

static void write_hash(XXH128_hash_t hash, char hex[33]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    for (size_t i = 0; i < 16; i++) snprintf(hex + 2 * i, 3, "%02x", canonical.digest[i]);
}

void lr_hash_bytes(const void *data, size_t bytes, char hex[33]) {
    write_hash(XXH3_128bits(data, bytes), hex);
}

lr_status lr_hash_file(const char *path, char hex[33], lr_error *err) {
    lr_status st = LR_OK;
    const size_t size = 1 << 16;
    unsigned char *buffer = NULL;
    XXH3_state_t *state = NULL;
    FILE *file = fopen(path, "rbe");
    if (!file) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
        goto done;
    }
    LR_TRY(LR_NEW(&buffer, size, "a read buffer", err));
    state = XXH3_createState();
    if (!state) LR_FAIL(LR_E_NOMEM, "out of memory: a hash");
    XXH3_128bits_reset(state);
    size_t n;
    while ((n = fread(buffer, 1, size, file)) > 0) XXH3_128bits_update(state, buffer, n);
    if (ferror(file)) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
        goto done;
    }
    write_hash(XXH3_128bits_digest(state), hex);
done:
    XXH3_freeState(state);
    lr_free(buffer);
    if (file) fclose(file);
    return st;
}

/* ------------------------------------------------------------------ directories */

lr_status lr_make_parents(const char *path, lr_error *err) {
    lr_status st = LR_OK;
    char *copy = lr_strdup(path);
    if (!copy) return lr_fail(err, LR_E_NOMEM, "out of memory: a file name");
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) {
            st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot make the directory", copy);
            break;
        }
        *p = '/';
    }
    lr_free(copy);
    return st;
}

lr_status lr_parent_of(char **out, const char *path, lr_error *err) {
    const char *slash = strrchr(path, '/');
    if (!slash) return lr_format(out, err, ".");
    return lr_format(out, err, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

lr_status lr_sync_directory(const char *path, lr_error *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int bad = fd < 0 || (fsync(fd) != 0 && errno != EINVAL);
    int why = errno;
    if (fd >= 0) close(fd);
    return bad ? lr_fail_errno(err, LR_E_IO, why, "%s: cannot be synced", path) : LR_OK;
}

/* Calls one(arg, full path, entry name, whether it is a directory) for each entry. */
typedef lr_status (*entry_call)(void *arg, const char *path, const char *name, bool directory,
                                lr_error *err);
static lr_status each_entry(const char *directory, entry_call call, void *arg, lr_error *err) {
    lr_status st = LR_OK;
    DIR *dir = opendir(directory);
    if (!dir) return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", directory);
    for (struct dirent *e; st == LR_OK && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        char *path = NULL;
        struct stat info;
        st = lr_format(&path, err, "%s/%s", directory, e->d_name);
        if (st != LR_OK) break;
        if (lstat(path, &info) != 0) {
            st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
        } else {
            st = call(arg, path, e->d_name, S_ISDIR(info.st_mode), err);
        }
        lr_free(path);
    }
    closedir(dir);
    return st;
}

bool lr_remove_tree_at(int fd, const char *name) {
    int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) return false;
    DIR *dir = fdopendir(inner);
    int why = errno;
    bool good = dir != NULL;
    if (!dir) close(inner);
    for (struct dirent *e; good && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        good = unlinkat(inner, e->d_name, 0) == 0 || errno == ENOENT;
        if (!good && (errno == EISDIR || errno == EPERM)) good = lr_remove_tree_at(inner, e->d_name);
        why = errno;
    }
    if (dir) closedir(dir);
    errno = why;
    return good && unlinkat(fd, name, AT_REMOVEDIR) == 0;
}

lr_status lr_remove_tree(const char *path, lr_error *err) {
    if (lr_remove_tree_at(AT_FDCWD, path)) return LR_OK;
    return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be removed", path);
}

typedef struct name_list {
    char **names;
    size_t count, capacity;
    const char *prefix;
} name_list;

static lr_status list_entry(void *arg, const char *path, const char *name, bool directory,
                            lr_error *err) {
    lr_status st = LR_OK;
    name_list *list = arg;
    char *relative = NULL;
    LR_TRY(lr_format(&relative, err, "%s%s%s", list->prefix, name, directory ? "/" : ""));
    if (directory) {
        const char *outer = list->prefix;
        list->prefix = relative;
        st = each_entry(path, list_entry, list, err);
        list->prefix = outer;
        goto done;
    }
    LR_TRY(LR_GROW(&list->names, &list->capacity, list->count + 1, "file names", err));
    list->names[list->count++] = relative;
    relative = NULL;
done:
    lr_free(relative);
    return st;
}

int lr_compare_strings(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void lr_list_free(char **names, size_t count) {
    for (size_t i = 0; i < count; i++) lr_free(names[i]);
    lr_free(names);
}

lr_status lr_list_files(const char *directory, char ***names, size_t *count, lr_error *err) {
    name_list list = {.prefix = ""};
    lr_status st = each_entry(directory, list_entry, &list, err);
    if (st != LR_OK) {
        lr_list_free(list.names, list.count);
        return st;
    }
    if (list.count > 1) qsort(list.names, list.count, sizeof *list.names, lr_compare_strings);
    *names = list.names;
    *count = list.count;
    return LR_OK;
}
