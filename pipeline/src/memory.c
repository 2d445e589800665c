/* What the machine, the control group and this process say of memory (Linux). 0: not known. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

/* "name: 123 kB" or "name 123", of which `unit` is what one counts; SIZE_MAX: no such line. */
static size_t number_in(const char *path, const char *name, size_t unit) {
    char line[256];
    size_t length = strlen(name), value = SIZE_MAX;
    FILE *file = fopen(path, "re");
    if (!file) return SIZE_MAX;
    while (value == SIZE_MAX && fgets(line, sizeof line, file)) {
        unsigned long long number;
        if (strncmp(line, name, length) != 0) continue;
        if (sscanf(line + length, "%llu", &number) != 1) break; /* "max" */
        if (!lr_mul_size((size_t)number, unit, &value)) value = SIZE_MAX;
    }
    fclose(file);
    return value;
}

/* What is left in one group; files that it holds in the cache can be dropped. */
static size_t left_in_group(const char *directory, bool v2) {
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", directory, v2 ? "memory.max" : "memory.limit_in_bytes");
    size_t limit = number_in(path, "", 1);
    if (limit == SIZE_MAX || limit >= (size_t)1 << 60) return SIZE_MAX; /* v1 writes "no limit" as a number */
    snprintf(path, sizeof path, "%s/%s", directory, v2 ? "memory.current" : "memory.usage_in_bytes");
    size_t used = number_in(path, "", 1);
    snprintf(path, sizeof path, "%s/memory.stat", directory);
    size_t files = number_in(path, v2 ? "inactive_file " : "total_inactive_file ", 1);
    if (used == SIZE_MAX) return limit;
    if (files != SIZE_MAX) used = used > files ? used - files : 0;
    return limit > used ? limit - used : 0;
}

/* The least of a group and those around it. `group` is shortened. */
static size_t left_up_the_tree(const char *root, char *group, bool v2) {
    char directory[1100];
    size_t least = SIZE_MAX;
    for (;;) {
        snprintf(directory, sizeof directory, "%s%s", root, group);
        size_t left = left_in_group(directory, v2);
        if (left < least) least = left;
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = '\0';
    }
}

/* Lines of /proc/self/cgroup: "0::/path" (v2), "4:memory:/path" (v1). */
static size_t left_in_groups(void) {
    char line[1024];
    size_t least = SIZE_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return SIZE_MAX;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *kind = strchr(line, ':'), *path = kind ? strchr(kind + 1, ':') : NULL;
        if (!path) continue;
        bool v2 = path == kind + 1;
        if (!v2 && strncmp(kind, ":memory:", 8) != 0) continue;
        size_t left = left_up_the_tree(v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", path + 1, v2);
        if (left < least) least = left;
    }
    fclose(file);
    return least;
}

size_t lr_memory_available(void) {
    size_t machine = number_in("/proc/meminfo", "MemAvailable:", 1024), groups = left_in_groups();
    size_t least = machine < groups ? machine : groups;
    return least == SIZE_MAX ? 0 : least;
}

static size_t of_process(const char *name) {
    size_t bytes = number_in("/proc/self/status", name, 1024);
    return bytes == SIZE_MAX ? 0 : bytes;
}

size_t lr_memory_resident(void) {
    return of_process("VmRSS:");
}

size_t lr_memory_peak(void) {
    return of_process("VmHWM:");
}

void lr_memory_forget_peak(void) {
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t ignored = write(fd, "5", 1);
    (void)ignored;
    close(fd);
}
