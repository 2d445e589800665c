/* Inside the exchange of keys and values: who needs which chunk, which link carries it, and the
 * coverage proof. All of it follows from partition, mask and schedule alone, so that both ends of a
 * link derive the same list of messages. */
#ifndef LONGREEL_ENCODER_EXCHANGE_H
#define LONGREEL_ENCODER_EXCHANGE_H

#include <stdbool.h>

#include <longreel/ring.h>

/* ------------------------------------------------------------------ routes (route.c) */

/* The view of one rank. Two ways for a chunk to travel:
 *   passed on: along a tree whose root is its owner, on each branch as far as some rank further on
 *     needs it. Between nodes it goes from node to node, within one straight to each rank; the ring is
 *     the case of nodes of one rank;
 *   else: straight from its owner to each rank that needs it (halo and all-gather).
 * On every link the chunks go in ascending order. */
typedef struct lr_route {
    const lr_partition *partition;
    const lr_mask *mask;
    bool passed_on;
    int node_ranks, n_nodes;
    int rank;
    uint64_t own_first, own_end; /* own chunks [own_first, own_end) */
    uint64_t see_lo, see_hi;     /* tokens [see_lo, see_hi) that the rank's queries see */
} lr_route;

void lr_route_init(lr_route *route, const lr_partition *p, const lr_mask *mask,
                   lr_schedule schedule, int node_ranks, int rank);
bool lr_route_owns(const lr_route *route, uint64_t chunk);
/* A query of `rank` sees a key of the chunk. */
bool lr_rank_needs(const lr_partition *p, const lr_mask *mask, int rank, uint64_t chunk);
bool lr_route_needs(const lr_route *route, uint64_t chunk);
/* The rank that this one receives the chunk from; -1 for none. */
int lr_route_source(const lr_route *route, uint64_t chunk);
/* This rank sends the chunk, own or received, to `peer`. */
bool lr_route_sends(const lr_route *route, uint64_t chunk, int peer);

/* Receives that are posted ahead, each with a buffer where memory is not shared. */
int lr_route_ahead(const lr_route *route);

/* ------------------------------------------------------------------ coverage (coverage.c) */

/* A rank's queries see the keys [next, hi) of a layer from here on. */
typedef struct lr_coverage {
    uint64_t next, hi;
} lr_coverage;

/* What a chunk must be, and the link it came by (from == to: the rank's own). */
typedef struct lr_chunk_claim {
    const lr_partition *partition;
    const lr_kv_shape *shape;
    uint32_t layer;
    uint64_t sequence, index;
    int from, to;
} lr_chunk_claim;

/* Each field of the header against the claim; LR_E_COVERAGE. */
lr_status lr_chunk_check_header(const lr_chunk_header *chunk, const lr_chunk_claim *claim,
                                lr_error *err);
/* The payload against the header's checksum; only after the header was checked. */
lr_status lr_chunk_check_payload(const lr_chunk_header *chunk, const lr_chunk_claim *claim,
                                 lr_error *err);
/* Notes that the queries saw the chunk: it must hold the next key that is due. *keys is how many of
 * its keys count. */
lr_status lr_coverage_add(lr_coverage *coverage, const lr_chunk_header *chunk, int rank,
                          uint64_t *keys, lr_error *err);
lr_status lr_coverage_end(const lr_coverage *coverage, uint32_t layer, int rank, lr_error *err);

#define LR_CHUNK_MAGIC UINT32_C(0x314b524c) /* "LRK1" in memory */

/* The header without its checksum: for a chunk that stays where it is and lies elsewhere. */
void lr_chunk_head(lr_chunk_header *chunk, const lr_partition *p, uint32_t layer, uint64_t sequence,
                   uint64_t index, const lr_kv_shape *shape);
uint64_t lr_chunk_checksum(const lr_chunk_header *chunk);

#endif
