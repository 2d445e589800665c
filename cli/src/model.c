/* Opening a checkpoint on all threads. */
#include <sched.h>

#include "cli.h"

size_t cli_processors(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (size_t)count : 1;
}

lr_status cli_open_model(lr_model **out, const char *directory, bool vision, bool audio, int threads,
                         lr_error *err) {
    lr_status st = LR_OK;
    const lr_kernels *kernels = NULL;
    lr_pool *pool = NULL;
    *out = NULL;
    LR_TRY(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &kernels, err));
    LR_TRY(lr_pool_create(threads > 0 ? (size_t)threads : cli_processors(), &pool, err));
    lr_model_options options = {.kernels = kernels, .pool = pool, .vision = vision, .audio = audio};
    LR_TRY(lr_model_open(out, directory, &options, err));
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
