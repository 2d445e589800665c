#include "lr_test.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *lrt_path(const char *dir, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", dir, name) < 0) fail_msg("out of memory");
    return path;
}

char *lrt_temp_dir(void)
{
    const char *parent = getenv("TMPDIR");
    char *path = lrt_path(parent && *parent ? parent : "/tmp", "longreel-test-XXXXXX");
    if (!mkdtemp(path)) fail_msg("%s: %s", path, strerror(errno));
    return path;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void lrt_remove_temp_dir(char *path)
{
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fail_msg("%s cannot be removed: %s", path, strerror(errno));
    free(path);
}

char *lrt_dir;

int lrt_make_dir(void **state)
{
    (void)state;
    lrt_dir = lrt_temp_dir();
    return 0;
}

int lrt_remove_dir(void **state)
{
    (void)state;
    lrt_remove_temp_dir(lrt_dir);
    return 0;
}

void *lrt_slurp(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s: %s", path, strerror(errno));
    size_t held = 0, capacity = 65536;
    char *data = malloc(capacity);
    while (data) {
        held += fread(data + held, 1, capacity - held - 1, file);
        if (held < capacity - 1) break;
        capacity *= 2;
        data = realloc(data, capacity);
    }
    if (!data || ferror(file)) fail_msg("%s cannot be read", path);
    (void)fclose(file);
    data[held] = '\0';
    if (bytes) *bytes = held;
    return data;
}

void lrt_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file) fail_msg("%s: %s", path, strerror(errno));
    bool written = fwrite(data, 1, bytes, file) == bytes;
    if (fclose(file) != 0 || !written) fail_msg("%s cannot be written", path);
}

bool lrt_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}
