/* Runs the exchange of a few layers on local ranks and checks, on every rank, each key and each bit of
 * the payload against what follows from the case by counting alone. */
#ifndef LR_RING_CASE_H
#define LR_RING_CASE_H

#include "lr_test.h"
#include "test_comm.h"

#include <longreel/ring.h>

typedef enum ring_comm { RING_COMM_LOCAL, RING_COMM_LAZY, RING_COMM_EAGER, RING_COMMS } ring_comm;

typedef struct ring_case {
    uint64_t n_tokens, chunk;
    int n_ranks;
    lr_mask mask;
    lr_schedule schedule;
    int node_ranks;
    lr_kv_shape shape;
    uint32_t n_layers;
    uint64_t sequence;
    ring_comm comm;
    double peer_timeout; /* seconds; 0 = none */
    lrt_fault *fault;    /* with RING_COMM_EAGER; or NULL */
    /* On this rank (-1: none) at its visit number `stop_at`, of all layers: */
    int stop_rank;
    uint64_t stop_at;
    /* Instead, its first own chunk is altered at byte `stop_at` after it was sealed; this rank does
     * not look at payloads. */
    bool spoil_payload;
    lr_cancel *cancel;
    unsigned sleep_seed; /* not 0: visits take random times */
    /* Results of the run, [LR_LOCAL_MAX]. */
    lr_ring_stats *stats; /* summed over layers; or NULL */
} ring_case;

/* The ring_case of n tokens in chunks over ranks, with all else at its plainest. */
ring_case ring_case_of(uint64_t n_tokens, uint64_t chunk, int n_ranks, lr_mask mask,
                       lr_schedule schedule);
void ring_case_describe(const ring_case *c, char *text, size_t bytes);
lr_status ring_case_run(const ring_case *c, lr_error *err);
/* Fails the running test, with the case in words, unless the run succeeds. */
void ring_case_passes(const ring_case *c);

/* What `rank` must see and send in one layer, by looking at each pair of tokens or ranks. */
bool ring_case_sees(const ring_case *c, const lr_partition *p, int rank, uint64_t key);
void ring_case_count(const ring_case *c, const lr_partition *p, int rank, lr_ring_stats *counted);

#endif
