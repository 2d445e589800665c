#include <stdlib.h>
#include <string.h>

#include <longreel/bench_encode.h>

#include "job.h"

/* A plain generator: the values only have to be of ordinary size. Sum of four uniforms, variance 1. */
static float made_value(uint64_t *state) {
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (float)(*state >> 40) * 0x1p-24f;
    }
    return (sum - 2.0f) * 1.7320508f;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A run's wall clock and processor time. */
typedef struct run_clock {
    struct timespec wall, processor;
} run_clock;

static void start_clock(run_clock *clock) {
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &clock->processor);
    clock_gettime(CLOCK_MONOTONIC, &clock->wall);
}

static double processor_since(const run_clock *clock) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)(now.tv_sec - clock->processor.tv_sec) +
           1e-9 * (double)(now.tv_nsec - clock->processor.tv_nsec);
}

/* Run i's figures; runs before 0 do not count. Whether it took the least processor time so far. */
static bool stop_clock(const run_clock *clock, int i, double *seconds, double *processor) {
    double wall = lr_seconds_since(&clock->wall), busy = processor_since(clock);
    if (i < 0) return false;
    seconds[i] = wall;
    if (i > 0 && busy >= *processor) return false;
    *processor = busy;
    return true;
}

static void summarise(double *seconds, double processor, int count, lr_bench_result *out) {
    out->processor_min = processor;
    qsort(seconds, (size_t)count, sizeof *seconds, by_value);
    out->seconds_min = seconds[0];
    out->seconds_median = count % 2 ? seconds[count / 2]
                                    : (seconds[count / 2 - 1] + seconds[count / 2]) / 2;
}

/* ------------------------------------------------------------------ backbone */

typedef struct backbone_bench {
    lr_model *model;
    const lr_bench_run *run;
    int threads;
    double *seconds;  /* [repeats], rank 0's */
    double processor; /* least of them */
    lr_backbone_stats stats; /* of the run that took it */
    atomic_size_t memory;
} backbone_bench;

static lr_status bench_rank(void *arg, lr_comm *comm, lr_error *err) {
    lr_status st = LR_OK;
    backbone_bench *b = arg;
    size_t hidden = lr_model_info_of(b->model)->hidden;
    lr_pool *pool = NULL;
    lr_partition parts = {0};
    float *x = NULL;
    LR_TRY(lr_pool_create((size_t)b->threads, &pool, err));
    LR_TRY(lr_partition_create(&parts, b->run->tokens, b->run->chunk, comm->size, err));
    uint64_t first = lr_partition_first_token(&parts, comm->rank);
    uint64_t n = lr_partition_end_token(&parts, comm->rank) - first;
    LR_TRY(LR_NEW(&x, n * hidden, "token vectors", err));
    lr_backbone_run run = {.comm = comm, .partition = &parts, .worker = {.pool = pool},
                           .part = b->run->part};
    int repeats = b->run->repeats, warm_up = repeats > 1;
    for (int i = -warm_up; i < repeats; i++) {
        uint64_t seed = first * 7919 + 1;
        for (size_t v = 0; v < n * hidden; v++) x[v] = made_value(&seed);
        lr_backbone_stats stats = {0};
        run_clock clock;
        LR_TRY(lr_comm_barrier(comm, err));
        start_clock(&clock);
        LR_TRY(lr_backbone_forward(b->model, &run, x, &stats, err));
        LR_TRY(lr_comm_barrier(comm, err));
        if (comm->rank == 0 && stop_clock(&clock, i, b->seconds, &b->processor)) b->stats = stats;
        if (i + 1 == repeats) {
            atomic_fetch_add(&b->memory, stats.arena_bytes + n * hidden * sizeof(float));
        }
    }
done:
    lr_free(x);
    lr_partition_free(&parts);
    lr_pool_free(pool);
    return st;
}

/* What was really worked: with lr_backbone_part.every, the rows that attended stand for all of them. */
static void count_flop(const backbone_bench *b, lr_bench_result *out) {
    double full = 0, whole = lr_layers_flop(b->model, b->run->tokens, b->run->part.layers, &full);
    size_t layers = lr_full_layers(b->model, b->run->part.layers);
    out->flop = whole;
    if (b->run->ranks != 1 || layers == 0) return;
    double all_rows = (double)b->run->tokens * (double)layers;
    out->full_share = (double)b->stats.full_rows / all_rows;
    out->full_flop = full * out->full_share;
    out->full_processor = b->stats.processor_full;
    out->flop -= full - out->full_flop;
}

lr_status lr_bench_backbone(lr_model *model, const lr_bench_run *run, lr_bench_result *out, lr_error *err) {
    lr_status st = LR_OK;
    backbone_bench b = {.model = model, .run = run,
                        .threads = run->threads > 0 ? run->threads : lr_processors()};
    memset(out, 0, sizeof *out);
    if (run->tokens == 0 || run->repeats < 1) return lr_fail(err, LR_E_USAGE, "nothing to be timed");
    if (run->part.every > 1 && run->ranks != 1) {
        return lr_fail(err, LR_E_USAGE, "a sample of the queries is timed on one rank only");
    }
    LR_TRY(LR_NEW(&b.seconds, (size_t)run->repeats, "timings", err));
    LR_TRY(lr_comm_local_run(run->ranks, 0, bench_rank, &b, err));
    summarise(b.seconds, b.processor, run->repeats, out);
    out->units = run->tokens;
    count_flop(&b, out);
    out->memory_bytes = atomic_load(&b.memory);
    out->seconds_attention = b.stats.seconds_attention;
    out->seconds_linear = b.stats.seconds_linear;
    out->seconds_exchange = b.stats.seconds_exchange;
done:
    lr_free(b.seconds);
    return st;
}

/* ------------------------------------------------------------------ vision */

static lr_status bench_pictures(lr_vision *vision, const lr_frame *frame, int parts, float *soft, int repeats,
                                double *seconds, double *processor, lr_error *err) {
    const lr_stage_tap none = {0};
    int warm_up = repeats > 1;
    for (int i = -warm_up; i < repeats; i++) {
        run_clock clock;
        start_clock(&clock);
        lr_status st = LR_OK;
        for (int part = 1; part < parts && st == LR_OK; part++) st = lr_vision_hold(vision, frame, err);
        if (st == LR_OK) st = lr_vision_encode(vision, frame, soft, &none, err);
        if (st != LR_OK) return st;
        (void)stop_clock(&clock, i, seconds, processor);
    }
    return LR_OK;
}

lr_status lr_bench_vision(lr_model *model, int width, int height, int soft_tokens, int threads,
                          int repeats, lr_bench_result *out, lr_error *err) {
    lr_status st = LR_OK;
    const lr_model_info *info = lr_model_info_of(model);
    lr_picture_geometry geometry = info->picture;
    int w, h;
    uint64_t soft_count;
    lr_pool *pool = NULL;
    lr_vision *vision = NULL;
    float *soft = NULL;
    double *seconds = NULL, processor = 0;
    lr_frame frame = {.width = width, .height = height, .display_width = width,
                      .display_height = height, .stride = (size_t)width * 3};
    memset(out, 0, sizeof *out);
    if (repeats < 1) LR_FAIL(LR_E_USAGE, "nothing to be timed");
    if (soft_tokens) geometry.budget = soft_tokens;
    LR_TRY(lr_picture_size(&geometry, width, height, &w, &h, &soft_count, err));
    LR_TRY(lr_pool_create((size_t)(threads > 0 ? threads : lr_processors()), &pool, err));
    const lr_worker worker = {.pool = pool};
    LR_TRY(lr_vision_create(&vision, model, w, h, &worker, err));
    LR_TRY(LR_NEW(&soft, soft_count * info->hidden, "soft tokens", err));
    LR_TRY(LR_NEW(&frame.rgb, frame.stride * (size_t)height, "a picture", err));
    LR_TRY(LR_NEW(&seconds, (size_t)repeats, "timings", err));
    uint64_t seed = 1;
    for (size_t i = 0; i < frame.stride * (size_t)height; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        frame.rgb[i] = (uint8_t)(seed >> 56);
    }
    LR_TRY(bench_pictures(vision, &frame, info->rules.frame_parts, soft, repeats, seconds, &processor, err));
    summarise(seconds, processor, repeats, out);
    out->units = 1;
    out->flop = lr_vision_flop(model, w, h);
done:
    lr_free(seconds);
    lr_free(frame.rgb);
    lr_free(soft);
    lr_vision_free(vision);
    lr_pool_free(pool);
    return st;
}

/* ------------------------------------------------------------------ sound */

static lr_status drop_sound(void *arg, uint64_t first, uint64_t count, const float *soft, lr_error *err) {
    (void)arg;
    (void)first;
    (void)count;
    (void)soft;
    (void)err;
    return LR_OK;
}

/* A rising tone: every second of it is as much work as any other sound. */
static void make_sound(float *samples, size_t count) {
    double phase = 0;
    for (size_t i = 0; i < count; i++) {
        phase += 0.01 + 0.2 * (double)i / (double)count;
        if (phase > 1) phase -= 2;
        samples[i] = (float)phase / 2;
    }
}

static lr_status run_sound(lr_model *model, const lr_worker *worker, const float *samples, size_t count,
                           lr_error *err) {
    lr_status st = LR_OK;
    const lr_stage_tap none = {0};
    lr_sound_tower *tower = NULL;
    LR_TRY(lr_sound_tower_create(&tower, model, (int64_t)count, 0, lr_sound_tokens((int64_t)count), worker,
                                 drop_sound, NULL, &none, err));
    LR_TRY(lr_sound_tower_feed(tower, samples, count, err));
    LR_TRY(lr_sound_tower_finish(tower, err));
done:
    lr_sound_tower_free(tower);
    return st;
}

lr_status lr_bench_sound(lr_model *model, int seconds, int threads, int repeats, lr_bench_result *out,
                         lr_error *err) {
    lr_status st = LR_OK;
    size_t count = 0;
    lr_pool *pool = NULL;
    float *samples = NULL;
    double *times = NULL, processor = 0;
    memset(out, 0, sizeof *out);
    if (repeats < 1 || seconds < 1) LR_FAIL(LR_E_USAGE, "nothing to be timed");
    if (!lr_mul_size((size_t)seconds, LR_SAMPLE_RATE, &count)) LR_FAIL(LR_E_NOMEM, "%d s of sound", seconds);
    LR_TRY(lr_pool_create((size_t)(threads > 0 ? threads : lr_processors()), &pool, err));
    LR_TRY(LR_NEW(&samples, count, "made sound", err));
    LR_TRY(LR_NEW(&times, (size_t)repeats, "timings", err));
    make_sound(samples, count);
    const lr_worker worker = {.pool = pool};
    int warm_up = repeats > 1;
    for (int i = -warm_up; i < repeats; i++) {
        run_clock clock;
        start_clock(&clock);
        LR_TRY(run_sound(model, &worker, samples, count, err));
        (void)stop_clock(&clock, i, times, &processor);
    }
    summarise(times, processor, repeats, out);
    out->units = lr_sound_tokens((int64_t)count);
    out->flop = lr_sound_flop(model, out->units);
done:
    lr_free(times);
    lr_free(samples);
    lr_pool_free(pool);
    return st;
}
