/* The vector of a clip: all its windows on one rank, pooled as encode pools a recording. */
#include <string.h>

#include "job.h"

typedef struct clip_sums {
    double *sum; /* [hidden] */
    uint64_t tokens;
} clip_sums;

static lr_status refuse_what_does_not_fit(const lr_job *job, lr_error *err) {
    lr_plan plan;
    lr_status st = lr_plan_of_job(job, &plan, err);
    if (st != LR_OK || plan.fits) return st;
    bool here = plan.bytes_available > 0 && plan.bytes_total > plan.bytes_available;
    return lr_fail(err, LR_E_USAGE, "%llu tokens need about %.1f GB and %.1f GB are free%s: use a shorter clip or a "
                   "smaller --fps", (unsigned long long)plan.tokens,
                   (double)(here ? plan.bytes_total : plan.device_bytes) / 1e9,
                   (double)(here ? plan.bytes_available : plan.device_available) / 1e9, here ? "" : " on the device");
}

/* Pieces in the order of the sequence, as the pooler of a recording takes them. */
static lr_status add_window(const lr_job *job, const lr_window *window, const float *x, clip_sums *sums,
                            lr_error *err) {
    lr_pieces pieces = {0};
    size_t hidden = job->pooling.projection.hidden;
    lr_status st = lr_pieces_sum(&job->pooling, window, window->first, window->first + window->count, x, &pieces,
                                 err);
    for (size_t i = 0; i < pieces.count && st == LR_OK; i++) {
        for (size_t j = 0; j < hidden; j++) sums->sum[j] += pieces.sums[i * 2 * hidden + j];
    }
    sums->tokens += window->count;
    lr_free(pieces.sums);
    return st;
}

static lr_status run_window(const lr_clip_run *run, lr_job *job, size_t w, float *x, clip_sums *sums,
                            lr_error *err) {
    lr_status st = LR_OK;
    const lr_window *window = &job->layout->windows[w];
    lr_partition parts = {0};
    struct lr_rank_work work = {0};
    lr_stage_base base = {.store = run->stages, .base = run->tokens_before + window->first};
    LR_TRY(lr_partition_create(&parts, window->count, job->options->chunk, 1, err));
    LR_TRY(lr_job_towers(job, &run->worker, window->first, window->first + window->count, x, &work, err));
    lr_backbone_run pass = {.comm = run->comm, .partition = &parts, .sequence = w, .worker = run->worker,
                            .tap = lr_stage_tap_of(&base)};
    LR_TRY(lr_backbone_forward(job->model, &pass, x, NULL, err));
    LR_TRY(add_window(job, window, x, sums, err));
done:
    lr_partition_free(&parts);
    return st;
}

static lr_status run_clip(lr_clip_run *run, lr_job *job, float *out, lr_error *err) {
    lr_status st = LR_OK;
    const lr_layout *layout = job->layout;
    size_t hidden = lr_model_info_of(job->model)->hidden, values;
    float *x = NULL;
    clip_sums sums = {0};
    LR_TRY(refuse_what_does_not_fit(job, err));
    if (!lr_mul_size(layout->n_tokens, hidden, &values)) {
        LR_FAIL(LR_E_NOMEM, "%llu tokens do not fit in memory", (unsigned long long)layout->n_tokens);
    }
    LR_TRY(LR_NEW(&x, values, "token vectors", err));
    LR_TRY(LR_NEW(&sums.sum, hidden, "a sum", err));
    for (size_t w = 0; w < layout->n_windows; w++) {
        LR_TRY(run_window(run, job, w, x + layout->windows[w].first * hidden, &sums, err));
    }
    if (run->stages) {
        lr_tensor ids = {.dtype = LR_I32, .n_dims = 1, .dims = {layout->n_tokens}, .data = layout->ids};
        LR_TRY(lr_stage_store_put(run->stages, "input_ids", -1, run->tokens_before, &ids, err));
    }
    if (run->saved) LR_TRY(lr_named_rows_add(run->saved, layout, x, hidden, err));
    run->tokens_before += layout->n_tokens;
    LR_TRY(lr_projection_apply(&job->pooling.projection, sums.sum, sums.tokens, job->dim, out, err));
done:
    lr_free(sums.sum);
    lr_free(x);
    return st;
}

lr_status lr_clip_vector(lr_clip_run *run, const char *path, float *out, lr_error *err) {
    lr_status st = LR_OK;
    lr_job job = {0};
    LR_TRY(lr_encode_check(&run->options, run->model, err));
    LR_TRY(lr_job_prepare(&job, run->model, path, &run->options, NULL, err));
    job.stages = run->stages;
    LR_TRY(run_clip(run, &job, out, err));
done:
    job.stages = NULL; /* the caller's */
    lr_job_free(&job);
    return st;
}
