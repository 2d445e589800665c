/* Inside cli/: what the targets of bench share. */
#ifndef LONGREEL_CLI_BENCH_H
#define LONGREEL_CLI_BENCH_H

#include "cli.h"

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

#endif
