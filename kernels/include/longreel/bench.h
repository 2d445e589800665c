/* How fast the heavy kernels are on this machine, as a share of what its arithmetic units can do.
 *
 * Each figure comes from `repeats` of at least some milliseconds, after some that do not count, taken in
 * turn with repeats of a loop of nothing but fused multiply-adds of the same instruction set on as many
 * threads: so both see the same clock and the same neighbours. GFLOP/s count two operations for each
 * multiply-add, all threads together. Rates are of wall-clock time; shares are of processor time, which
 * hangs less on what other programs do meanwhile. */
#ifndef LONGREEL_BENCH_H
#define LONGREEL_BENCH_H

#include <stddef.h>

#include <longreel/kernels.h>
#include <longreel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LR_BENCH_REPEATS 21

typedef struct lr_bench_figure {
    double best, median; /* GFLOP/s over the repeats */
    double seconds_min, seconds_median; /* of one call, which all threads make at once */
    double peak;         /* GFLOP/s of the multiply-add loop, the best repeat */
    double core;         /* GFLOP a second of one thread's processor time, the best repeat */
    double core_peak;    /* the same of the multiply-add loop */
    double share;        /* core / core_peak */
} lr_bench_figure;

/* The multiply-add loop alone: peak = best, core_peak = core, share = 1. For the scalar table it is a
 * multiplication and an addition in plain C. */
lr_status lr_bench_peak(const lr_kernels *kernels, size_t threads, int repeats, lr_bench_figure *out,
                        lr_error *err);

/* y[rows, n] = x[rows, k] . W^T with W [n, k] of type `weights` (LR_F32, LR_BF16 or LR_F16); each
 * thread has rows of its own, W is shared. */
lr_status lr_bench_gemm(const lr_kernels *kernels, size_t threads, int repeats, size_t rows, size_t n,
                        size_t k, lr_dtype weights, lr_bench_figure *out, lr_error *err);

/* `tokens` x `group` rows of head_dim against n_keys keys in one block, all visible; each thread has
 * rows of its own, keys and values are shared. */
lr_status lr_bench_attention(const lr_kernels *kernels, size_t threads, int repeats, size_t tokens,
                             size_t group, size_t head_dim, size_t n_keys, lr_bench_figure *out,
                             lr_error *err);

/* Elements of an array of the stream: 64 MiB, far more than the caches hold. */
#define LR_STREAM_FLOATS ((size_t)1 << 24)
/* a[i] = b[i] + s c[i] over arrays of `floats` (a multiple of 256): GB/s, three arrays counted, as in
 * STREAM. */
lr_status lr_bench_stream(size_t threads, int repeats, size_t floats, double *best, double *median,
                          lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
