#include <longreel/bench.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <longreel/memory.h>
#include <longreel/thread.h>

#include "peak.h"

#define REPEAT_SECONDS 4e-3 /* long against waking a thread, short against a time slice */
#define PEAK_TURNS 20000

/* What a thread does again and again in a repeat: one call of `run` does `flops` operations. */
typedef struct workload {
    void (*run)(void *arg, size_t thread);
    void *arg;
    double flops;
    size_t calls; /* a repeat */
} workload;

static double clock_seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double seconds(void)
{
    return clock_seconds(CLOCK_MONOTONIC);
}

static void run_thread(void *arg, size_t index, size_t worker)
{
    const workload *work = arg;
    (void)worker;
    for (size_t i = 0; i < work->calls; i++) work->run(work->arg, index);
}

/* One repeat on all threads: GFLOP/s; *core, unless NULL, becomes at least that of a thread's processor
 * time. */
static double repeat(lr_pool *pool, workload *work, double *core)
{
    double start = seconds(), processor = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    lr_pool_for(pool, lr_pool_threads(pool), run_thread, work);
    double gflop = work->flops * (double)work->calls * (double)lr_pool_threads(pool) * 1e-9;
    double rate = gflop / (seconds() - start);
    if (core != NULL) *core = fmax(*core, gflop / (clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - processor));
    return rate;
}

/* Sets `calls` so that a repeat lasts REPEAT_SECONDS. */
static void calibrate(workload *work)
{
    for (work->calls = 1;; work->calls *= 2) {
        double start = seconds();
        run_thread(work, 0, 0);
        if (seconds() - start >= REPEAT_SECONDS) return;
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts; the median. */
static double summarise(double *rates, int count)
{
    qsort(rates, (size_t)count, sizeof *rates, ascending);
    return (rates[(count - 1) / 2] + rates[count / 2]) / 2;
}

static void run_peak(void *arg, size_t thread)
{
    double (*const *loop)(size_t) = arg;
    (void)thread;
    (*loop)(PEAK_TURNS);
}

static double (*peak_of(const lr_kernels *kernels))(size_t)
{
#if LR_X86
    if (strcmp(kernels->isa, "avx2") == 0) return lr_peak_avx2;
    if (strcmp(kernels->isa, "avx512") == 0) return lr_peak_avx512;
#endif
#if LR_ARM64
    if (strcmp(kernels->isa, "neon") == 0) return lr_peak_neon;
#endif
    (void)kernels;
    return lr_peak_scalar;
}

/* work NULL: the peak alone. */
static lr_status measure(const lr_kernels *kernels, size_t threads, int repeats, workload *work,
                         lr_bench_figure *out, lr_error *err)
{
    lr_status st = LR_OK;
    lr_pool *pool = NULL;
    double (*loop)(size_t) = peak_of(kernels);
    double *rates = NULL, best_peak = 0, core = 0, core_peak = 0;
    workload peak = {.run = run_peak, .arg = &loop, .flops = loop(PEAK_TURNS)};
    if (repeats < 1) LR_FAIL(LR_E_USAGE, "nothing to be timed");
    LR_TRY(lr_pool_create(threads, &pool, err));
    LR_TRY(LR_NEW(&rates, (size_t)repeats, "timings", err));
    calibrate(&peak);
    if (work != NULL) calibrate(work);
    for (int i = 0; i < repeats; i++) {
        double rate = repeat(pool, &peak, &core_peak);
        best_peak = fmax(best_peak, rate);
        rates[i] = work != NULL ? repeat(pool, work, &core) : rate;
    }
    if (work == NULL) core = core_peak;
    double median = summarise(rates, repeats), best = rates[repeats - 1];
    double gflop = (work != NULL ? work->flops : peak.flops) * (double)threads * 1e-9;
    *out = (lr_bench_figure){.best = best, .median = median, .seconds_min = gflop / best,
                             .seconds_median = gflop / median, .peak = best_peak, .core = core,
                             .core_peak = core_peak, .share = core / core_peak};
done:
    lr_free(rates);
    lr_pool_free(pool);
    return st;
}

lr_status lr_bench_peak(const lr_kernels *kernels, size_t threads, int repeats, lr_bench_figure *out,
                        lr_error *err)
{
    return measure(kernels, threads, repeats, NULL, out, err);
}

/* count floats in [-1, 1), the same each time. */
static lr_status make_floats(float **out, size_t count, lr_error *err)
{
    lr_status st = LR_OK;
    uint32_t state = 1;
    LR_TRY(LR_NEW(out, count, "operands of a measurement", err));
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        (*out)[i] = (float)(int32_t)state * 0x1p-31f;
    }
done:
    return st;
}

/* a * b * c */
static lr_status product(size_t a, size_t b, size_t c, size_t *out, lr_error *err)
{
    size_t ab;
    if (lr_mul_size(a, b, &ab) && lr_mul_size(ab, c, out)) return LR_OK;
    return lr_fail(err, LR_E_NOMEM, "a measurement of %zu x %zu x %zu does not fit", a, b, c);
}

/* ------------------------------------------------------------------ memory */

#define STREAM_PARTS 256

typedef struct stream_bench {
    float *arrays[3];
    size_t floats;
} stream_bench;

static void stream_part(void *arg, size_t index, size_t worker)
{
    const stream_bench *s = arg;
    const size_t count = s->floats / STREAM_PARTS;
    float *restrict a = s->arrays[0] + index * count;
    const float *restrict b = s->arrays[1] + index * count, *restrict c = s->arrays[2] + index * count;
    (void)worker;
    for (size_t i = 0; i < count; i++) a[i] = b[i] + 3 * c[i];
}

lr_status lr_bench_stream(size_t threads, int repeats, size_t floats, double *best, double *median,
                          lr_error *err)
{
    lr_status st = LR_OK;
    lr_pool *pool = NULL;
    stream_bench s = {.floats = floats};
    double *rates = NULL;
    if (repeats < 1 || floats == 0 || floats % STREAM_PARTS != 0) LR_FAIL(LR_E_USAGE, "nothing to be timed");
    LR_TRY(lr_pool_create(threads, &pool, err));
    LR_TRY(LR_NEW(&rates, (size_t)repeats, "timings", err));
    for (size_t i = 0; i < 3; i++) LR_TRY(make_floats(&s.arrays[i], floats, err));
    for (int i = -1; i < repeats; i++) {
        double start = seconds();
        lr_pool_for(pool, STREAM_PARTS, stream_part, &s);
        if (i >= 0) rates[i] = 3e-9 * sizeof(float) * (double)floats / (seconds() - start);
    }
    *median = summarise(rates, repeats);
    *best = rates[repeats - 1];
done:
    for (size_t i = 0; i < 3; i++) lr_free(s.arrays[i]);
    lr_free(rates);
    lr_pool_free(pool);
    return st;
}

/* ------------------------------------------------------------------ linear layers */

typedef struct gemm_bench {
    const lr_kernels *kernels;
    lr_linear *linear;
    size_t rows, n, k, scratch_floats;
    float *x, *y, *scratch; /* [threads] of each */
} gemm_bench;

static void run_gemm(void *arg, size_t thread)
{
    const gemm_bench *b = arg;
    b->kernels->linear_run(b->linear, b->y + thread * b->rows * b->n, b->n,
                           b->x + thread * b->rows * b->k, b->k, b->rows, 0, NULL,
                           b->scratch + thread * b->scratch_floats);
}

/* W of the type wanted; for the 16-bit types any bits whose exponent is that of 0.5. */
static lr_status make_layer(gemm_bench *b, lr_dtype dtype, lr_error *err)
{
    lr_status st = LR_OK;
    float *w = NULL;
    size_t count;
    LR_TRY(product(b->n, b->k, 1, &count, err));
    LR_TRY(make_floats(&w, count, err));
    if (dtype != LR_F32) {
        uint16_t keep = dtype == LR_BF16 ? 0x807f : 0x83ff, half = dtype == LR_BF16 ? 0x3f00 : 0x3800;
        uint16_t *bits = (uint16_t *)(void *)w;
        for (size_t i = 0; i < 2 * count; i++) bits[i] = (uint16_t)((bits[i] & keep) | half);
    }
    lr_linear_part part = {{.dtype = dtype, .n_dims = 2, .dims = {b->n, b->k}, .data = w}};
    LR_TRY(b->kernels->linear_create(&b->linear, &part, 1, err));
done:
    lr_free(w);
    return st;
}

lr_status lr_bench_gemm(const lr_kernels *kernels, size_t threads, int repeats, size_t rows, size_t n,
                        size_t k, lr_dtype weights, lr_bench_figure *out, lr_error *err)
{
    lr_status st = LR_OK;
    gemm_bench b = {.kernels = kernels, .rows = rows, .n = n, .k = k};
    size_t x, y, scratch;
    LR_TRY(make_layer(&b, weights, err));
    b.scratch_floats = kernels->linear_scratch(b.linear, rows);
    LR_TRY(product(threads, rows, k, &x, err));
    LR_TRY(product(threads, rows, n, &y, err));
    LR_TRY(product(threads, b.scratch_floats, 1, &scratch, err));
    LR_TRY(make_floats(&b.x, x, err));
    LR_TRY(make_floats(&b.y, y, err));
    LR_TRY(make_floats(&b.scratch, scratch, err));
    workload work = {.run = run_gemm, .arg = &b,
                     .flops = 2.0 * (double)rows * (double)n * (double)k};
    LR_TRY(measure(kernels, threads, repeats, &work, out, err));
done:
    lr_free(b.scratch);
    lr_free(b.y);
    lr_free(b.x);
    kernels->linear_free(b.linear);
    return st;
}

/* ------------------------------------------------------------------ attention */

typedef struct attention_bench {
    const lr_kernels *kernels;
    size_t tokens, group, head_dim, n_keys, rows, scratch_floats;
    float *panels, *v;             /* shared */
    float *q, *o, *m, *l, *scratch; /* [threads] of each */
    uint64_t *range;               /* [2, tokens] */
} attention_bench;

static void run_attention(void *arg, size_t thread)
{
    const attention_bench *b = arg;
    size_t row = thread * b->rows, width = b->group * b->head_dim;
    lr_attn a = {.n_tokens = b->tokens, .group = b->group, .head_dim = b->head_dim,
                 .q = b->q + row * b->head_dim, .q_token = width,
                 .o = b->o + row * b->head_dim, .o_token = width,
                 .m = b->m + row, .l = b->l + row, .ml_token = b->group,
                 .lo = b->range, .hi = b->range + b->tokens, .k_panels = b->panels, .v = b->v,
                 .v_key = b->head_dim, .n_keys = b->n_keys,
                 .scratch = b->scratch + thread * b->scratch_floats};
    for (size_t r = 0; r < b->rows; r++) {
        a.m[r] = -INFINITY;
        a.l[r] = 0;
    }
    memset(a.o, 0, b->rows * b->head_dim * sizeof *a.o);
    b->kernels->attn_block(&a);
}

static lr_status make_attention(attention_bench *b, size_t threads, lr_error *err)
{
    lr_status st = LR_OK;
    float *k = NULL;
    size_t keys, rows, values, floats;
    LR_TRY(product(b->tokens, b->group, 1, &b->rows, err));
    LR_TRY(product(threads, b->rows, 1, &rows, err));
    LR_TRY(product(rows, b->head_dim, 1, &values, err));
    LR_TRY(product(b->n_keys + LR_KEY_PANEL, b->head_dim, 1, &keys, err));
    b->scratch_floats = b->kernels->attn_scratch(b->rows, b->head_dim);
    b->scratch_floats = (b->scratch_floats + 15) / 16 * 16; /* each 64-byte aligned */
    LR_TRY(product(threads, b->scratch_floats, 1, &floats, err));
    LR_TRY(make_floats(&k, keys, err));
    LR_TRY(make_floats(&b->v, keys, err));
    LR_TRY(make_floats(&b->panels, keys, err));
    LR_TRY(make_floats(&b->q, values, err));
    LR_TRY(make_floats(&b->o, values, err));
    LR_TRY(make_floats(&b->m, rows, err));
    LR_TRY(make_floats(&b->l, rows, err));
    LR_TRY(make_floats(&b->scratch, floats, err));
    LR_TRY(LR_NEW(&b->range, 2 * b->tokens, "masks of a measurement", err));
    for (size_t t = 0; t < b->tokens; t++) b->range[b->tokens + t] = b->n_keys;
    for (size_t i = 0; i < values; i++) b->q[i] *= 6 / sqrtf((float)b->head_dim); /* logits of +-4 */
    b->kernels->pack_keys(b->panels, k, b->head_dim, b->n_keys, b->head_dim);
done:
    lr_free(k);
    return st;
}

lr_status lr_bench_attention(const lr_kernels *kernels, size_t threads, int repeats, size_t tokens,
                             size_t group, size_t head_dim, size_t n_keys, lr_bench_figure *out,
                             lr_error *err)
{
    lr_status st = LR_OK;
    attention_bench b = {.kernels = kernels, .tokens = tokens, .group = group,
                         .head_dim = head_dim, .n_keys = n_keys};
    LR_TRY(make_attention(&b, threads, err));
    workload work = {.run = run_attention, .arg = &b,
                     .flops = 4.0 * (double)b.rows * (double)n_keys * (double)head_dim};
    LR_TRY(measure(kernels, threads, repeats, &work, out, err));
done:
    lr_free(b.range);
    lr_free(b.scratch);
    lr_free(b.l);
    lr_free(b.m);
    lr_free(b.o);
    lr_free(b.q);
    lr_free(b.panels);
    lr_free(b.v);
    return st;
}
