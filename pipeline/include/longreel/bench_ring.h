/* One layer of full attention over ranks, timed: with the exchange of keys and values, without it, and the
 * exchange alone; and whether the output is the same bytes as on one rank. Queries, keys and values are
 * made from the number of their token, so that they do not depend on the ranks. */
#ifndef LONGREEL_BENCH_RING_H
#define LONGREEL_BENCH_RING_H

#include <longreel/kernels.h>
#include <longreel/ring.h>
#include <longreel/thread.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_ring_bench {
    uint64_t n_tokens, chunk;
    size_t n_heads;       /* a multiple of shape.n_kv_heads */
    lr_kv_shape shape;
    lr_schedule schedule;
    int node_ranks;       /* as in lr_exchange */
    int threads, repeats; /* threads a rank; runs that count, after one that does not when more than 1 */
    const lr_kernels *kernels;
    lr_cancel *cancel;
} lr_ring_bench;

typedef struct lr_ring_figures {
    double seconds, compute, transfer; /* all ranks: until the last one is through; the least of the runs */
    double seconds_median, compute_median, transfer_median;
    double hidden;        /* share of the transfer: 1 - (seconds - compute) / transfer, kept within 0 and 1; 1
                             where nothing is sent */
    uint64_t messages, bytes_sent;    /* of all ranks, as their communicators counted them */
    uint64_t elements;    /* of keys and values in these bytes: without headers and padding */
    uint64_t elements_due; /* 2 (P - 1) n H_kv D; with fewer chunks than ranks, what the routes say */
    size_t memory_bytes;  /* the most that a rank took */
    char digest[33];      /* XXH3-128 of the output [tokens, heads, head_dim], chunk by chunk */
} lr_ring_figures;

/* Collective; all ranks get the same figures. LR_E_COVERAGE: the proof failed. */
lr_status lr_bench_ring(lr_comm *comm, const lr_ring_bench *bench, lr_ring_figures *out, lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
