/* What a run takes, before it runs. */
#include <string.h>

#include "job.h"

/* A decoder keeps at most 16 pictures for reference and two more, and one a thread, at one and a half bytes a
 * pixel (H.264 and HEVC; twice that beyond 8 bits); then there is the picture in RGB, twice while it is
 * turned. Library and stacks: some megabytes. */
#define DECODER_PICTURES 18
#define DECODER_BYTES_PER_PIXEL 3
#define RGB_BYTES_PER_PIXEL 6
#define FIXED_BYTES ((size_t)8 << 20)

/* What a rank takes to make its token vectors: pictures first, then sound. */
static size_t towers_bytes(const lr_job *job, uint64_t tokens) {
    const lr_timeline *line = job->timeline;
    size_t threads = (size_t)job->threads, pictures = 0, sound = 0;
    if (line->has_video) {
        size_t pixels = (size_t)line->video.width * (size_t)line->video.height;
        pictures = lr_vision_memory(job->model, job->layout->frame_width, job->layout->frame_height, threads) +
                   pixels * (DECODER_BYTES_PER_PIXEL * (DECODER_PICTURES + threads) + RGB_BYTES_PER_PIXEL);
    }
    if (line->has_audio) sound = lr_sound_tower_memory(job->model, tokens, threads);
    return FIXED_BYTES + (pictures > sound ? pictures : sound);
}

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
        size_t towers = tokens > 0 ? towers_bytes(job, tokens) : 0;
        if (towers > bytes) bytes = towers; /* one after the other */
        bytes += tokens * hidden * sizeof(float);
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
