/* Figures for this machine: the backbone at a given length, the vision tower a frame. The inputs are
 * made (seeded normal values): what is timed does not depend on them. */
#ifndef LONGREEL_BENCH_ENCODE_H
#define LONGREEL_BENCH_ENCODE_H

#include <longreel/longreel.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_bench_result {
    double seconds_min, seconds_median;
    double processor_min; /* processor time of the whole process, all threads together */
    double flop;         /* of one run: matrix products and attention; 0 for the vision tower */
    size_t memory_bytes; /* work memory of all ranks: token vectors and arenas */
    uint64_t units;      /* tokens; or frames */
    double seconds_attention, seconds_linear, seconds_exchange; /* of rank 0 in the last run */
} lr_bench_result;

/* `tokens` token vectors through the whole backbone, `repeats` times after one warm-up (none when
 * repeats is 1). ranks and threads as in lr_encode_options. */
lr_status lr_bench_backbone(lr_model *model, uint64_t tokens, uint64_t chunk, int ranks, int threads,
                            int repeats, lr_bench_result *out, lr_error *err);
/* One made picture of width x height pixels at a budget (0: the model's for video) through resize and
 * vision tower; where a span has several frames, so many of them. */
lr_status lr_bench_vision(lr_model *model, int width, int height, int soft_tokens, int threads,
                          int repeats, lr_bench_result *out, lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
