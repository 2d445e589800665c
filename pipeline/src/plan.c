/* What a run takes, before it runs. */
#include <string.h>

#include "job.h"

/* A rank's share of the towers: a few pictures' worth; measured, not derived. */
#define TOWER_BYTES ((size_t)256 << 20)

typedef struct need {
    size_t most;  /* bytes of one rank */
    double total; /* of all ranks; a double cannot overflow */
} need;

/* Takes the larger of *out and what the window needs. */
static lr_status window_bytes(const lr_job *job, const lr_window *window, need *out, lr_error *err) {
    lr_status st = LR_OK;
    double total = 0;
    lr_partition parts = {0};
    size_t hidden = lr_model_info_of(job->model)->hidden;
    LR_TRY(lr_partition_create(&parts, window->count, job->options->chunk, job->ranks, err));
    for (int r = 0; r < job->ranks; r++) {
        size_t bytes = 0;
        uint64_t tokens = lr_partition_end_token(&parts, r) - lr_partition_first_token(&parts, r);
        LR_TRY(lr_backbone_memory(job->model, &parts, r, (size_t)job->threads, &bytes, err));
        bytes += tokens * hidden * sizeof(float);
        if (tokens > 0) bytes += TOWER_BYTES;
        if (bytes > out->most) out->most = bytes;
        total += (double)bytes;
    }
    if (total > out->total) out->total = total;
done:
    lr_partition_free(&parts);
    return st;
}

lr_status lr_plan_of_job(const lr_job *job, lr_plan *plan, double *total, lr_error *err) {
    const lr_layout *layout = job->layout;
    size_t hidden = lr_model_info_of(job->model)->hidden;
    need work = {0};
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
                    sizeof(double);
    plan->bytes_per_rank = work.most + pieces / (size_t)job->ranks;
    plan->bytes_available = lr_memory_available();
    *total = work.total + (double)pieces;
    if (job->comm && job->options->node_ranks > 0) *total *= (double)job->options->node_ranks / job->ranks;
    plan->fits = plan->bytes_available == 0 || *total <= (double)plan->bytes_available;
    return LR_OK;
}

lr_status lr_plan_recording(lr_model *model, const char *recording, const lr_encode_options *options,
                            lr_plan *plan, lr_error *err) {
    lr_job job = {0};
    double total;
    lr_status st = lr_encode_check(options, model, err);
    if (st != LR_OK) return st;
    st = lr_job_prepare(&job, model, recording, options, NULL, err);
    if (st == LR_OK) st = lr_plan_of_job(&job, plan, &total, err);
    lr_job_free(&job);
    if (st != LR_OK) lr_error_about(err, recording);
    return st;
}
