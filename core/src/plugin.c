#include <longreel/plugin.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct search {
    const char *file;
    int flags;
    void *plugin;
    char *tried;
    size_t size;
} search;

static bool try_in(search *s, const char *directory, int length, const char *below)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%.*s%s/%s", length, directory, below, s->file);
    if (n < 0 || (size_t)n >= sizeof path || access(path, F_OK) != 0) return false;
    s->plugin = dlopen(path, s->flags);
    if (!s->plugin) (void)snprintf(s->tried, s->size, "%s", dlerror());
    return s->plugin != NULL;
}

static bool try_list(search *s, const char *list)
{
    while (list && *list) {
        size_t length = strcspn(list, ":");
        if (length > 0 && try_in(s, list, (int)length, "")) return true;
        list += length + (list[length] == ':');
    }
    return false;
}

static bool try_beside(search *s, const char *file)
{
    const char *slash = strrchr(file, '/');
    int length = slash ? (int)(slash - file) : 1;
    const char *directory = slash ? file : ".";
    return try_in(s, directory, length, "") || try_in(s, directory, length, "/longreel") ||
           try_in(s, directory, length, "/../lib/longreel") ||
           try_in(s, directory, length, "/../" LR_LIBDIR "/longreel");
}

void *lr_plugin_open(const char *file, int flags, char *tried, size_t size)
{
    static const char self_mark = 0;
    search s = {.file = file, .flags = flags, .tried = tried, .size = size};
    char program[4096];
    Dl_info self;
    tried[0] = '\0';
    if (try_list(&s, getenv("LONGREEL_PLUGIN_PATH"))) return s.plugin;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = '\0';
        if (try_beside(&s, program)) return s.plugin;
    }
    if (dladdr(&self_mark, &self) != 0 && self.dli_fname && try_beside(&s, self.dli_fname)) return s.plugin;
    (void)try_in(&s, LR_FULL_LIBDIR, (int)strlen(LR_FULL_LIBDIR), "/longreel");
    return s.plugin;
}
