/* Opening a checkpoint on all threads. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

size_t cli_processors(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (size_t)count : 1;
}

lr_status cli_take_device(const char *value, lr_device_options *options, bool *on_device, lr_error *err) {
    char *end = NULL;
    *options = (lr_device_options){0};
    *on_device = false;
    if (!value || strcmp(value, "auto") == 0 || strcmp(value, "cpu") == 0) return LR_OK;
    *on_device = true;
    if (strcmp(value, "cuda") == 0) return LR_OK;
    if (strncmp(value, "cuda:", 5) == 0 && value[5] >= '0' && value[5] <= '9') {
        long ordinal = strtol(value + 5, &end, 10);
        options->ordinal = (int)ordinal;
        if (*end == '\0' && ordinal < 1024) return LR_OK;
    }
    return lr_fail(err, LR_E_USAGE, "--device: '%s' is none of auto, cpu, cuda, cuda:N", value);
}

lr_status cli_open_model(lr_model **out, const char *directory, const char *device, bool vision, bool audio,
                         int threads, lr_error *err) {
    lr_status st = LR_OK;
    const lr_kernels *kernels = NULL;
    lr_pool *pool = NULL;
    lr_device_options on;
    bool on_device = false;
    *out = NULL;
    LR_TRY(cli_take_device(device, &on, &on_device, err));
    LR_TRY(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &kernels, err));
    LR_TRY(lr_pool_create(threads > 0 ? (size_t)threads : cli_processors(), &pool, err));
    lr_model_options options = {.kernels = kernels, .pool = pool, .vision = vision, .audio = audio,
                                .device = on_device ? &on : NULL};
    st = lr_model_open(out, directory, &options, err);
    if (st == LR_E_UNSUPPORTED && on_device) st = err->status = LR_E_USAGE; /* --device cpu may do: no word on models */
done:
    lr_pool_free(pool);
    return st;
}

lr_status cli_check_task(const lr_model *model, const char *task, lr_error *err) {
    char known[512] = "";
    size_t used = 0;
    if (!task || lr_model_prompt(model, task)) return LR_OK;
    const char *name;
    for (size_t i = 0; (name = lr_model_task(model, i)); i++) {
        int n = snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ", name);
        if (n > 0 && used + (size_t)n < sizeof known) used += (size_t)n;
    }
    if (!known[0]) {
        return lr_fail(err, LR_E_USAGE, "--task: %s has no prompts for tasks", lr_model_info_of(model)->name);
    }
    return lr_fail(err, LR_E_USAGE, "--task: '%s' is none of %s", task, known);
}
