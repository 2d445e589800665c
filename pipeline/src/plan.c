/* What a run takes, before it runs. */
#include <string.h>

#include "job.h"

/* A rank's share of the towers: a few pictures' worth; measured, not derived. */
#define TOWER_BYTES ((size_t)256 << 20)

static lr_status window_bytes(const lr_job *job, const lr_window *window, size_t *most,
                              lr_error *err) {
    lr_status st = LR_OK;
    lr_partition parts = {0};
    size_t hidden = lr_model_info_of(job->model)->hidden;
    LR_TRY(lr_partition_create(&parts, window->count, job->options->chunk, job->ranks, err));
    for (int r = 0; r < job->ranks; r++) {
        size_t bytes = 0;
        uint64_t tokens = lr_partition_end_token(&parts, r) - lr_partition_first_token(&parts, r);
        LR_TRY(lr_backbone_memory(job->model, &parts, r, (size_t)job->threads, &bytes, err));
        bytes += tokens * hidden * sizeof(float);
        if (bytes > *most) *most = bytes;
    }
done:
    lr_partition_free(&parts);
    return st;
}

lr_status lr_plan_of_job(const lr_job *job, lr_plan *plan, lr_error *err) {
    const lr_layout *layout = job->layout;
    size_t hidden = lr_model_info_of(job->model)->hidden, work = 0, total;
    memset(plan, 0, sizeof *plan);
    plan->tokens = layout->n_tokens;
    plan->frames = layout->n_frames;
    plan->sound_tokens = layout->n_sound_tokens;
    for (size_t w = 0; w < layout->n_windows; w++) {
        /* Windows are alike but for the last one. */
        if (w > 0 && w + 1 < layout->n_windows) continue;
        lr_status st = window_bytes(job, &layout->windows[w], &work, err);
        if (st != LR_OK) return st;
    }
    size_t pieces = (layout->n_spans + layout->n_tokens / job->options->chunk + 1) * 2 * hidden *
                    sizeof(double) / (size_t)job->ranks;
    plan->bytes_per_rank = work + pieces + TOWER_BYTES;
    plan->bytes_available = lr_memory_available();
    plan->fits = lr_mul_size(plan->bytes_per_rank, (size_t)job->ranks, &total) &&
                 (plan->bytes_available == 0 || total <= plan->bytes_available);
    return LR_OK;
}

lr_status lr_plan_recording(lr_model *model, const char *recording, const lr_encode_options *options,
                            lr_plan *plan, lr_error *err) {
    lr_job job = {0};
    lr_status st = lr_encode_check(options, model, err);
    if (st != LR_OK) return st;
    st = lr_job_prepare(&job, model, recording, options, err);
    if (st == LR_OK) st = lr_plan_of_job(&job, plan, err);
    lr_job_free(&job);
    if (st != LR_OK) lr_error_about(err, recording);
    return st;
}
