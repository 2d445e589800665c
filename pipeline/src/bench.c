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

static void summarise(double *seconds, int count, lr_bench_result *out) {
    qsort(seconds, (size_t)count, sizeof *seconds, by_value);
    out->seconds_min = seconds[0];
    out->seconds_median = count % 2 ? seconds[count / 2]
                                    : (seconds[count / 2 - 1] + seconds[count / 2]) / 2;
}

/* ------------------------------------------------------------------ backbone */

typedef struct backbone_bench {
    lr_model *model;
    uint64_t tokens, chunk;
    int threads, repeats;
    double *seconds; /* [repeats], rank 0's */
    lr_backbone_stats stats;
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
    LR_TRY(lr_partition_create(&parts, b->tokens, b->chunk, comm->size, err));
    uint64_t first = lr_partition_first_token(&parts, comm->rank);
    uint64_t n = lr_partition_end_token(&parts, comm->rank) - first;
    LR_TRY(LR_NEW(&x, n * hidden, "token vectors", err));
    lr_backbone_run run = {.comm = comm, .partition = &parts, .worker = {.pool = pool}};
    int warm_up = b->repeats > 1;
    for (int i = -warm_up; i < b->repeats; i++) {
        uint64_t seed = first * 7919 + 1;
        for (size_t v = 0; v < n * hidden; v++) x[v] = made_value(&seed);
        lr_backbone_stats stats = {0};
        struct timespec begin;
        LR_TRY(lr_comm_barrier(comm, err));
        clock_gettime(CLOCK_MONOTONIC, &begin);
        LR_TRY(lr_backbone_forward(b->model, &run, x, &stats, err));
        LR_TRY(lr_comm_barrier(comm, err));
        if (comm->rank == 0 && i >= 0) b->seconds[i] = lr_seconds_since(&begin);
        if (comm->rank == 0) b->stats = stats;
        if (i + 1 == b->repeats) {
            atomic_fetch_add(&b->memory, stats.arena_bytes + n * hidden * sizeof(float));
        }
    }
done:
    lr_free(x);
    lr_partition_free(&parts);
    lr_pool_free(pool);
    return st;
}

lr_status lr_bench_backbone(lr_model *model, uint64_t tokens, uint64_t chunk, int ranks, int threads,
                            int repeats, lr_bench_result *out, lr_error *err) {
    lr_status st = LR_OK;
    backbone_bench b = {.model = model, .tokens = tokens, .chunk = chunk, .repeats = repeats,
                        .threads = threads > 0 ? threads : lr_processors()};
    memset(out, 0, sizeof *out);
    if (tokens == 0 || repeats < 1) return lr_fail(err, LR_E_USAGE, "nothing to be timed");
    LR_TRY(LR_NEW(&b.seconds, (size_t)repeats, "timings", err));
    LR_TRY(lr_comm_local_run(ranks, 0, bench_rank, &b, err));
    summarise(b.seconds, repeats, out);
    out->units = tokens;
    out->flop = lr_backbone_flop(model, tokens);
    out->memory_bytes = atomic_load(&b.memory);
    out->seconds_attention = b.stats.seconds_attention;
    out->seconds_linear = b.stats.seconds_linear;
    out->seconds_exchange = b.stats.seconds_exchange;
done:
    lr_free(b.seconds);
    return st;
}

/* ------------------------------------------------------------------ vision */

static lr_status bench_pictures(lr_vision *vision, const lr_frame *frame, float *soft, int repeats,
                                double *seconds, lr_error *err) {
    const lr_stage_tap none = {0};
    int warm_up = repeats > 1;
    for (int i = -warm_up; i < repeats; i++) {
        struct timespec begin;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        lr_status st = lr_vision_encode(vision, frame, soft, &none, err);
        if (st != LR_OK) return st;
        if (i >= 0) seconds[i] = lr_seconds_since(&begin);
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
    double *seconds = NULL;
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
    LR_TRY(bench_pictures(vision, &frame, soft, repeats, seconds, err));
    summarise(seconds, repeats, out);
    out->units = 1;
done:
    lr_free(seconds);
    lr_free(frame.rgb);
    lr_free(soft);
    lr_vision_free(vision);
    lr_pool_free(pool);
    return st;
}
