/* What a run takes, before it runs. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "job.h"

/* A decoder keeps at most 16 pictures for reference and two more, and one a thread, at one and a half bytes a
 * pixel (H.264 and HEVC; twice that beyond 8 bits); then there is the picture in RGB, twice while it is
 * turned. */
#define DECODER_PICTURES 18
#define DECODER_BYTES_PER_PIXEL 3
#define RGB_BYTES_PER_PIXEL 6
/* Of a rank, whatever it does: stacks, the decoders' own memory, and what malloc keeps of what was freed, so
 * that it is there beside the backbone's, too. Measured (tests/cli/memory.sh holds it to 15 % of the whole). */
#define FIXED_BYTES ((size_t)9 << 19)

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
    return pictures > sound ? pictures : sound;
}

typedef struct need {
    size_t most;  /* bytes of one rank */
    double total; /* of all ranks; a double cannot overflow */
    double imbalance; /* the longest rank's tokens over the mean */
    double device;    /* bytes on the device of all ranks of this process */
} need;

/* Takes the larger of *out and what a window of `count` tokens needs on so many ranks. */
static lr_status window_bytes(const lr_job *job, uint64_t count, int ranks, need *out, lr_error *err) {
    lr_status st = LR_OK;
    double total = 0, device = 0;
    lr_partition parts = {0};
    lr_comm comm = {.shares_memory = !job->comm};
    size_t hidden = lr_model_info_of(job->model)->hidden;
    LR_TRY(lr_partition_create(&parts, count, job->options->chunk, ranks, err));
    lr_backbone_run run = {.comm = &comm, .partition = &parts, .schedule = job->options->schedule,
                           .node_ranks = job->ring_node};
    if (run.schedule == LR_SCHEDULE_AUTO) run.schedule = LR_SCHEDULE_TWO_LEVEL; /* most buffers of those it takes */
    for (int r = 0; r < ranks; r++) {
        size_t bytes = 0;
        uint64_t tokens = lr_partition_end_token(&parts, r) - lr_partition_first_token(&parts, r);
        LR_TRY(lr_backbone_memory(job->model, &run, r, (size_t)job->threads, &bytes, err));
        size_t towers = tokens > 0 ? towers_bytes(job, tokens) : 0;
        if (towers > bytes) bytes = towers; /* one after the other */
        bytes += tokens > 0 ? tokens * hidden * sizeof(float) + FIXED_BYTES : 0;
        if (bytes > out->most) out->most = bytes;
        total += (double)bytes;
        size_t there = 0;
        if (lr_model_device(job->model)) LR_TRY(lr_backbone_device_memory(job->model, &run, r, &there, err));
        if (!job->comm) device += (double)there; /* local ranks share the device; else each process has its own */
        else if ((double)there > device) device = (double)there;
    }
    if (device > out->device) out->device = device;
    if (total > out->total) out->total = total;
    double imbalance = (double)lr_partition_end_token(&parts, 0) * ranks / (double)count;
    if (imbalance > out->imbalance) out->imbalance = imbalance;
done:
    lr_partition_free(&parts);
    return st;
}

static size_t pieces_bytes(const lr_job *job) {
    const lr_layout *layout = job->layout;
    return (layout->n_spans + layout->n_tokens / job->options->chunk + 1) * 2 *
           lr_model_info_of(job->model)->hidden * sizeof(double);
}

/* All windows on so many ranks. */
static lr_status layout_bytes(const lr_job *job, int ranks, need *out, lr_error *err) {
    const lr_layout *layout = job->layout;
    for (size_t w = 0; w < layout->n_windows; w++) {
        /* Windows are alike but for the last one. */
        if (w > 0 && w + 1 < layout->n_windows) continue;
        lr_status st = window_bytes(job, layout->windows[w].count, ranks, out, err);
        if (st != LR_OK) return st;
    }
    return LR_OK;
}

/* Of the ranks of this machine. */
static size_t here(const lr_job *job, double total) {
    total += (double)pieces_bytes(job);
    if (job->comm && job->options->node_ranks > 0) total *= (double)job->options->node_ranks / job->ranks;
    return total < 9e18 ? (size_t)total : SIZE_MAX;
}

static bool fits(const lr_plan *plan, size_t bytes, double device) {
    return (plan->bytes_available == 0 || bytes <= plan->bytes_available) && device <= (double)plan->device_available;
}

lr_status lr_plan_of_job(const lr_job *job, lr_plan *plan, lr_error *err) {
    const lr_layout *layout = job->layout;
    const lr_encode_options *o = job->options;
    need work = {0};
    memset(plan, 0, sizeof *plan);
    plan->tokens = layout->n_tokens;
    plan->frames = layout->n_frames;
    plan->sound_tokens = layout->n_sound_tokens;
    lr_status st = layout_bytes(job, job->ranks, &work, err);
    if (st != LR_OK) return st;
    plan->bytes_per_rank = work.most + pieces_bytes(job) / (size_t)job->ranks;
    plan->bytes_total = here(job, work.total);
    plan->bytes_resident = lr_memory_resident();
    plan->bytes_available = lr_memory_available();
    if (o->memory > 0) {
        size_t processes = job->comm && o->node_ranks > 0 ? (size_t)o->node_ranks : 1;
        size_t resident = plan->bytes_resident * processes;
        size_t left = o->memory > resident ? o->memory - resident : 1;
        if (plan->bytes_available == 0 || left < plan->bytes_available) plan->bytes_available = left;
    }
    plan->device_bytes = work.device < 9e18 ? (size_t)work.device : SIZE_MAX;
    if (lr_model_device(job->model)) st = lr_model_device_left(job->model, &plan->device_available, err);
    plan->fits = fits(plan, plan->bytes_total, work.device);
    return st;
}

/* ------------------------------------------------------------------ what would fit */

/* The most tokens of a window that fit, whole chunks; 0: none. */
static lr_status longest_window(const lr_job *job, const lr_plan *plan, int ranks, uint64_t *tokens, lr_error *err) {
    uint64_t chunk = job->options->chunk, low = 0, high = plan->tokens / chunk + 1; /* in chunks; high does not fit */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        need work = {0};
        lr_status st = window_bytes(job, middle * chunk, ranks, &work, err);
        if (st != LR_OK) return st;
        /* What is free changes from run to run. */
        if (fits(plan, here(job, 1.1 * work.total), 1.02 * work.device)) low = middle;
        else high = middle;
    }
    *tokens = low * chunk;
    return LR_OK;
}

typedef struct advice {
    char text[LR_ERROR_TEXT / 2];
    size_t used, count;
} advice;

static void advise(advice *a, const char *format, ...) LR_PRINTF(2, 3);
static void advise(advice *a, const char *format, ...) {
    char one[96];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(one, sizeof one, format, args);
    va_end(args);
    int n = snprintf(a->text + a->used, sizeof a->text - a->used, "%s%s", a->count > 0 ? ", or " : "", one);
    if (n < 0 || (size_t)n >= sizeof a->text - a->used) return; /* cut at the end of the one before */
    a->used += (size_t)n;
    a->count++;
}

static uint64_t frame_tokens(const lr_layout *layout) {
    uint64_t sum = 0;
    for (size_t i = 0; i < layout->n_spans; i++) {
        if (layout->spans[i].kind == LR_SPAN_FRAME) sum += layout->spans[i].count;
    }
    return sum;
}

/* The largest budget of soft tokens below the one at hand with which the whole fits. */
static int smaller_budget(const lr_job *job, uint64_t tokens, uint64_t longest) {
    const lr_model_info *info = lr_model_info_of(job->model);
    const lr_layout *layout = job->layout;
    int best = 0, now = job->options->soft_tokens;
    for (size_t i = 0; i < info->n_budgets; i++) {
        int budget = info->budgets[i];
        if (budget >= now || budget <= best) continue;
        double soft = (double)layout->frame_soft * budget / now; /* pictures come in about that many */
        if (soft < 1) soft = 1;
        double saved = ((double)layout->frame_soft - soft * 1.05) * (double)layout->n_frames;
        if ((double)tokens - saved <= (double)longest) best = budget;
    }
    return best;
}

/* Frames at an n-th of the rate. */
static uint64_t rarer_frames(const lr_job *job, uint64_t tokens, uint64_t longest) {
    uint64_t frames = frame_tokens(job->layout), others = tokens - frames;
    if (frames == 0 || others >= longest) return 0;
    double n = 1.03 * (double)frames / (double)(longest - others);
    return n < 1e6 ? (uint64_t)n + 1 : 0;
}

static lr_status refuse(const lr_plan *plan, const lr_encode_options *o, const advice *a, lr_error *err) {
    bool here = plan->bytes_available > 0 && plan->bytes_total > plan->bytes_available;
    size_t bytes = here ? plan->bytes_total : plan->device_bytes;
    size_t left = here ? plan->bytes_available : plan->device_available;
    const char *where = !here ? "free on the device" : o->memory > 0 ? "left of --memory" : "free";
    return lr_fail(err, LR_E_USAGE, "%llu tokens need about %.2f GB and %.2f GB are %s: %s%s",
                   (unsigned long long)plan->tokens, (double)bytes / 1e9, (double)left / 1e9, where,
                   a->count > 0 ? "what fits is " : "not even one chunk of it fits; use a smaller --chunk", a->text);
}

lr_status lr_plan_refuse(const lr_job *job, lr_plan *plan, lr_error *err) {
    lr_status st = LR_OK;
    const lr_encode_options *o = job->options;
    uint64_t longest = 0, alone = 0, n;
    advice a = {0};
    LR_TRY(lr_plan_of_job(job, plan, err));
    if (plan->fits) return LR_OK;
    LR_TRY(longest_window(job, plan, job->ranks, &longest, err));
    if (!job->comm && job->ranks > 1) LR_TRY(longest_window(job, plan, 1, &alone, err));
    if (alone >= plan->tokens) advise(&a, "--ranks 1");
    if (longest > 0) advise(&a, "--context %llu (windows)", (unsigned long long)longest);
    n = rarer_frames(job, plan->tokens, longest);
    if (n > 1) advise(&a, "--fps %lld/%llu", (long long)o->fps.num, (unsigned long long)o->fps.den * n);
    int budget = smaller_budget(job, plan->tokens, longest);
    if (budget > 0) advise(&a, "--soft-tokens %d", budget);
    double begin = lr_time_seconds(job->pooling.base), end = lr_time_seconds(job->pooling.end);
    double part = (end - begin) * 0.95 * (double)longest / (double)plan->tokens;
    if (part >= 1) advise(&a, "--end %.0f", begin + part - 0.5);
    return refuse(plan, o, &a, err);
done:
    return st;
}

/* ------------------------------------------------------------------ before a run */

static lr_status plan_shapes(const lr_job *job, lr_plan *plan, lr_error *err) {
    size_t most = sizeof plan->shapes / sizeof *plan->shapes;
    for (int g = 1; g <= job->ranks && job->ranks % g == 0 && plan->n_shapes < most; g *= 2) {
        need work = {0};
        lr_status st = layout_bytes(job, job->ranks / g, &work, err);
        if (st != LR_OK) return st;
        plan->shapes[plan->n_shapes++] = (struct lr_plan_shape){
            .groups = g, .bytes_total = here(job, g * work.total), .imbalance = work.imbalance};
    }
    return LR_OK;
}

lr_status lr_plan_recording(lr_model *model, const char *recording, const lr_encode_options *options,
                            lr_plan *plan, lr_error *err) {
    lr_job job = {0};
    lr_status st = lr_encode_check(options, model, err);
    if (st != LR_OK) return st;
    st = lr_job_prepare(&job, model, recording, options, NULL, err);
    if (st == LR_OK) st = lr_plan_of_job(&job, plan, err);
    if (st == LR_OK) st = plan_shapes(&job, plan, err);
    lr_job_free(&job);
    if (st != LR_OK) lr_error_about(err, recording);
    return st;
}
