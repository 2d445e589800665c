/* What may lose its place to a set, and what output may not be written over. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <longreel/store.h>

#include "files.h"

#define MANIFEST_HEAD 4096 /* the format stands first; a hand may have moved it */

static const char *const set_files[] = {"manifest.json", "recording.npy", "segments.npy", "segments.jsonl",
                                        "frames.npy", "frames.jsonl", "tokens.safetensors"};

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_kind(int fd, const char *name, mode_t kind) {
    struct stat info;
    return fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && (info.st_mode & S_IFMT) == kind;
}

/* Nothing but .npy files: what --save stages writes. */
static bool is_stages(int fd, const char *name) {
    if (strcmp(name, "stages") != 0 || !is_kind(fd, name, S_IFDIR)) return false;
    int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = inner >= 0 ? fdopendir(inner) : NULL;
    if (!dir) {
        if (inner >= 0) close(inner);
        return false;
    }
    bool good = true;
    for (struct dirent *e; good && (e = readdir(dir));) {
        size_t length = strlen(e->d_name);
        if (is_dots(e->d_name)) continue;
        good = length > 4 && strcmp(e->d_name + length - 4, ".npy") == 0 && is_kind(inner, e->d_name, S_IFREG);
    }
    closedir(dir);
    return good;
}

static bool is_set_part(int fd, const char *name) {
    for (size_t i = 0; i < sizeof set_files / sizeof *set_files; i++) {
        if (strcmp(name, set_files[i]) == 0) return is_kind(fd, name, S_IFREG);
    }
    return is_stages(fd, name);
}

/* Does manifest.json name the format, of whatever version? A damaged one may be no JSON any more, so its
 * text is looked at. */
static bool names_format(int fd) {
    static const char format[] = "longreel-embeddings/";
    char head[MANIFEST_HEAD + 1];
    int file = openat(fd, "manifest.json", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return false;
    ssize_t n = read(file, head, MANIFEST_HEAD);
    close(file);
    return n > 0 && memmem(head, (size_t)n, format, sizeof format - 1) != NULL;
}

/* Takes none of our memory. An embedding set, whole or damaged, holds nothing but files of a set, and either
 * its manifest names the format or vectors are left of it. `foreign` gets the name of something else. */
static bool is_only_a_set(int fd, char foreign[NAME_MAX + 1]) {
    int again = dup(fd);
    DIR *dir = again >= 0 ? fdopendir(again) : NULL;
    bool vectors = false, good = dir != NULL;
    if (!dir && again >= 0) close(again);
    foreign[0] = '\0';
    for (struct dirent *e; good && (e = readdir(dir));) {
        if (is_dots(e->d_name)) continue;
        vectors |= strcmp(e->d_name, "recording.npy") == 0 || strcmp(e->d_name, "segments.npy") == 0;
        good = is_set_part(fd, e->d_name);
        if (!good) strcpy(foreign, e->d_name);
    }
    if (dir) closedir(dir);
    if (!good) return false;
    return vectors || names_format(fd);
}

lr_status lr_set_may_replace(const char *final_path, bool *there, lr_error *err) {
    struct stat info;
    char foreign[NAME_MAX + 1];
    *there = lstat(final_path, &info) == 0;
    if (!*there) {
        if (errno == ENOENT) return LR_OK;
        return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be made", final_path);
    }
    if (!S_ISDIR(info.st_mode)) {
        return lr_fail(err, LR_E_EXISTS, "%s is there already and is no embedding set: it is left as it is; "
                       "choose another place for the set", final_path);
    }
    int fd = open(final_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", final_path);
    bool set = is_only_a_set(fd, foreign);
    close(fd);
    if (set) return LR_OK;
    if (foreign[0]) {
        return lr_fail(err, LR_E_EXISTS, "%s is there already and holds '%s', which belongs to no embedding "
                       "set: it is left as it is; choose another place for the set", final_path, foreign);
    }
    return lr_fail(err, LR_E_EXISTS, "%s is a directory and no embedding set: it is left as it is; choose "
                   "another place for the set", final_path);
}

/* ------------------------------------------------------------------ outputs that are inputs */

static bool same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

lr_status lr_refuse_input(const char *output, const char *input, lr_error *err) {
    if (!same_file(output, input)) return LR_OK;
    return lr_fail(err, LR_E_USAGE, "%s is what is read: the output needs another name", output);
}

lr_status lr_refuse_set_file(const char *output, const char *set_path, lr_error *err) {
    lr_status st = LR_OK;
    char **names = NULL, *path = NULL, *parent = NULL;
    size_t count = 0;
    LR_TRY(lr_parent_of(&parent, output, err));
    bool inside = same_file(parent, set_path);
    LR_TRY(lr_list_files(set_path, &names, &count, err));
    for (size_t i = 0; i < count && !inside; i++) {
        lr_free(path);
        path = NULL;
        LR_TRY(lr_format(&path, err, "%s/%s", set_path, names[i]));
        inside = same_file(path, output);
    }
    if (inside) {
        LR_FAIL(LR_E_USAGE, "%s lies in the embedding set %s: the output needs another place", output, set_path);
    }
done:
    lr_list_free(names, count);
    lr_free(parent);
    lr_free(path);
    return st;
}
