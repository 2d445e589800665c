/* The exchange of keys and values, simulated: how long one layer of full attention takes on machines that
 * are not at hand.
 *
 * A discrete-event simulation of what lr_exchange_run does, message by message: the walk of each rank over
 * the chunks in ascending order, its receives posted ahead, its buffers, and the routes themselves (they
 * are asked of lr_exchange_source). A rank computes one chunk at a time. It has one wire to its node and one
 * to other nodes, each a link out and a link in that carry one message at a time; a message occupies both
 * ends' links for its bytes over the bandwidth and arrives a latency later. */
#ifndef LONGREEL_RING_SIM_H
#define LONGREEL_RING_SIM_H

#include <longreel/ring.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_sim_machine {
    double flops;                 /* FLOP/s of a rank in attention */
    double link, link_between;    /* bytes/s within a node, and between nodes */
    double latency, latency_between; /* seconds */
    double check;                 /* bytes/s of the checksum, taken before a chunk is passed on; 0: for nothing */
    int node_ranks;               /* ranks of a node; 0: all */
    bool shares_memory;           /* no buffers: receives are posted without limit */
} lr_sim_machine;

typedef struct lr_sim_layer {
    uint64_t n_tokens, chunk;
    int n_ranks;
    size_t n_heads;               /* of queries */
    lr_kv_shape shape;
    size_t value_bytes;           /* of a key's or value's element on its way: 4 (fp32), 2 (bf16) */
    lr_schedule schedule;         /* not AUTO */
} lr_sim_layer;

typedef struct lr_sim_result {
    double seconds;               /* the last rank is through */
    double compute, transfer;     /* the same without any transfer, and without computation */
    double hidden;                /* share of the transfer: 1 - (seconds - compute) / transfer; 1 without transfer */
    double bytes_sent;            /* by all ranks */
    uint64_t messages;
} lr_sim_result;

lr_status lr_ring_simulate(const lr_sim_layer *layer, const lr_sim_machine *machine, lr_sim_result *out,
                           lr_error *err);

/* Its `seconds` alone, in half the time. */
lr_status lr_ring_simulate_seconds(const lr_sim_layer *layer, const lr_sim_machine *machine, double *seconds,
                                   lr_error *err);

/* FLOP of one layer: two for a multiply-add, queries times keys and weights times values. */
double lr_sim_flop(const lr_sim_layer *layer);
/* Length from which the transfer of a ring can be hidden, in the limit of many chunks: a chunk takes as
 * long to be worked as to be sent. tokens = ranks * flops * n_kv_heads * value_bytes / (2 * n_heads * link),
 * with the slowest of the links in the way. */
double lr_sim_hidden_from(const lr_sim_layer *layer, const lr_sim_machine *machine);
/* The shortest length at which `share` of the transfer is hidden, found by simulation to within 5 %;
 * 0: none up to `most` tokens. */
lr_status lr_sim_find_hidden(const lr_sim_layer *layer, const lr_sim_machine *machine, double share,
                             uint64_t most, uint64_t *tokens, lr_error *err);

/* ------------------------------------------------------------------ the schedule of a run */

/* The schedule that the simulation finds fastest, ring before two-level before all-gather where there is
 * no difference. */
lr_status lr_sim_choose(const lr_sim_layer *layer, const lr_sim_machine *machine, lr_schedule *out,
                        lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
