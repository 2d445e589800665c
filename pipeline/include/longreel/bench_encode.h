/* Figures for this machine: the backbone at a given length, the towers. The inputs are made (seeded
 * values): what is timed does not depend on them. */
#ifndef LONGREEL_BENCH_ENCODE_H
#define LONGREEL_BENCH_ENCODE_H

#include <longreel/longreel.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_bench_result {
    double seconds_min, seconds_median;
    double processor_min; /* processor time of the whole process, all threads together */
    double flop;          /* of one run: matrix products and attention */
    size_t memory_bytes;  /* work memory of all ranks: token vectors and arenas; 0 for the towers */
    uint64_t units;       /* tokens of a run; frames for the vision tower */
    /* Of rank 0, in the run with the least processor time. */
    double seconds_attention, seconds_linear, seconds_exchange;
    /* On one rank, in the same run: attention that sees more than a window, and its share of the rows. */
    double full_processor, full_flop, full_share;
} lr_bench_result;

typedef struct lr_bench_run {
    uint64_t tokens, chunk;
    int ranks, threads;    /* as in lr_encode_options */
    int repeats;           /* after one warm-up; none when 1 */
    lr_backbone_part part; /* `every` for one rank only */
} lr_bench_run;

/* Token vectors through the backbone. */
lr_status lr_bench_backbone(lr_model *model, const lr_bench_run *run, lr_bench_result *out, lr_error *err);
/* One made picture of width x height pixels at a budget (0: the model's for video) through resize and
 * vision tower; where a span has several frames, so many of them. */
lr_status lr_bench_vision(lr_model *model, int width, int height, int soft_tokens, int threads,
                          int repeats, lr_bench_result *out, lr_error *err);
/* So many seconds of made sound through spectrum and sound tower. */
lr_status lr_bench_sound(lr_model *model, int seconds, int threads, int repeats, lr_bench_result *out,
                         lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
