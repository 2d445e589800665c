/* Inside cli/: what the targets of bench share. */
#ifndef LONGREEL_CLI_BENCH_H
#define LONGREEL_CLI_BENCH_H

#include "cli.h"

#include <longreel/kernels.h>

extern const cli_command cli_bench_attention, cli_bench_gemm, cli_bench_encode, cli_bench_ingest, cli_bench_ring;

/* "2048,8192" into a fresh array of whole numbers from 1 on. */
lr_status cli_bench_list(uint64_t **out, size_t *count, const char *text, lr_error *err);
/* Most memory the process had at once, in bytes. */
size_t cli_bench_peak_memory(void);
/* Wall clock and processor time (all threads), in seconds. */
typedef struct cli_bench_time {
    double wall, processor;
} cli_bench_time;
cli_bench_time cli_bench_now(void);

/* ------------------------------------------------------------------ what every target prints */

#define CLI_BENCH_REPEATS(FIELD, TEXT)                                                                       \
    {CLI_INT, "repeats", 0, "N", "runs that count for each figure (default " TEXT "), after one that does not " \
     "where there are several", FIELD, 1, 1000}
#define CLI_BENCH_THREADS(FIELD, TEXT) {CLI_INT, "threads", 0, "N", TEXT, FIELD, 1, 4096}
#define CLI_BENCH_JSON(FIELD) {CLI_SET, "json", 0, NULL, "print one JSON document", FIELD}

/* What figures are shares of. */
typedef struct cli_bench_machine {
    const lr_kernels *kernels;
    size_t threads;
    int repeats;
    double peak, core_peak; /* GFLOP/s of multiply-adds on all threads; a second of one core's processor time */
    double stream;          /* GB/s that all threads read and write together */
} cli_bench_machine;

/* Fills in what the loops reach now on `threads`, but not more than there are processors. */
lr_status cli_bench_measure_machine(cli_bench_machine *machine, lr_error *err);
/* Once more, for the peaks: the greater ones stay. */
lr_status cli_bench_measure_peak(cli_bench_machine *machine, lr_error *err);
/* The first line of the output. `more` (or NULL) stands at its end. */
void cli_bench_print_machine(const cli_bench_machine *machine, const char *more);
/* "bench" and what stands in print_machine, with `more` after it, which is taken in any case. NULL where memory ran
 * out. */
json_t *cli_bench_document(const char *target, const cli_bench_machine *machine, json_t *more);
/* The median and the least of `count` values. */
double cli_bench_median(const double *values, size_t count);
double cli_bench_least(const double *values, size_t count);

#endif
