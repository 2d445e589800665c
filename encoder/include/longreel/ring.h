/* The sharding of a sequence and the exchange of keys and values, in ascending order of the sequence.
 *
 * A sequence of n tokens is cut in chunks of `chunk` tokens counted from its start (the last one
 * shorter). Rank r owns chunks [first_chunk[r], first_chunk[r+1]): whole chunks, as even as they come
 * (the first n_chunks % n_ranks ranks own one more), none for the last ranks where there are fewer
 * chunks than ranks. */
#ifndef LONGREEL_RING_H
#define LONGREEL_RING_H

#include <longreel/comm.h>
#include <longreel/core.h>

typedef struct lr_partition {
    uint64_t n_tokens;
    uint64_t chunk;        /* tokens a chunk */
    uint64_t n_chunks;
    int n_ranks;
    uint64_t *first_chunk; /* [n_ranks + 1] */
} lr_partition;

lr_status lr_partition_create(lr_partition *out, uint64_t n_tokens, uint64_t chunk, int n_ranks,
                              lr_error *err);
void lr_partition_free(lr_partition *partition);
uint64_t lr_partition_first_token(const lr_partition *p, int rank);
uint64_t lr_partition_end_token(const lr_partition *p, int rank);
int lr_partition_owner(const lr_partition *p, uint64_t chunk_index);
uint64_t lr_partition_chunk_tokens(const lr_partition *p, uint64_t chunk_index);

/* Which keys a token sees. */
typedef enum lr_mask_kind { LR_MASK_FULL, LR_MASK_WINDOW, LR_MASK_CAUSAL } lr_mask_kind;
typedef struct lr_mask {
    lr_mask_kind kind;
    uint64_t radius; /* WINDOW: |i - j| <= radius */
} lr_mask;
/* Token i of n sees [*lo, *hi). */
void lr_mask_range(const lr_mask *mask, uint64_t i, uint64_t n, uint64_t *lo, uint64_t *hi);

/* A chunk of keys and values as it lies in memory and travels: this header, then the payload:
 *   for each KV head: K panels [ceil(tokens/16)][head_dim][16], then V [tokens, head_dim], fp32.
 * The header is 64 bytes, so the payload is aligned as the block is (LR_ALIGN). */
typedef struct lr_chunk_header {
    uint32_t magic;
    uint32_t layer;
    uint64_t sequence; /* number of the sequence (window) within the run */
    uint64_t index, first_token, n_tokens;
    uint64_t payload_bytes;
    uint64_t checksum; /* XXH3-64 of the payload, seeded with the layer */
    uint64_t reserved;
} lr_chunk_header;

typedef struct lr_kv_shape {
    size_t n_kv_heads, head_dim;
    bool on_device; /* the payload is that of a device: bf16 [tokens, K of all heads, then V of all heads] */
} lr_kv_shape;
/* Header and payload; SIZE_MAX when that does not fit. */
size_t lr_chunk_bytes(const lr_kv_shape *shape, uint64_t n_tokens);
const float *lr_chunk_keys(const lr_kv_shape *shape, const lr_chunk_header *chunk, size_t kv_head);
const float *lr_chunk_values(const lr_kv_shape *shape, const lr_chunk_header *chunk, size_t kv_head);
/* Fills header fields and the checksum once the payload is written, all of it: the unused columns of
 * the last K panel too. */
void lr_chunk_seal(lr_chunk_header *chunk, const lr_partition *p, uint32_t layer, uint64_t sequence,
                   uint64_t index, const lr_kv_shape *shape);

/* Called for each chunk that the rank's queries may see, in ascending order; the chunk is valid during
 * the call only. */
typedef lr_status (*lr_chunk_visit)(void *arg, const lr_chunk_header *chunk, lr_error *err);

typedef struct lr_ring_stats {
    uint64_t chunks_seen, keys_seen; /* by this rank's queries; a key that any of them sees counts */
    uint64_t chunks_sent, bytes_sent;
    uint64_t chunks_passed;          /* forwarded without being looked at */
    double seconds_waiting;
} lr_ring_stats;

/* RING: link r -> r + 1 carries, in ascending order, each chunk that r + 1 or a rank after it, up to
 * the one before the chunk's owner, needs (full mask, no rank without queries: all but r + 1's own).
 * TWO_LEVEL: rings between nodes of `node_ranks` ranks. Chunk c goes from node to node by their ranks
 * number c mod node_ranks, so that two nodes are joined by node_ranks links that work at the same
 * time, on the next chunks; these ranks, and the owner in its own node, hand it straight to the others
 * of the node. It comes to the last rank after at most nodes + 1 links instead of ranks - 1. (A ring
 * within the nodes would need chunks passed on at times that differ from chunk to chunk, between
 * visits: each would come a transfer too late. The last node may have fewer ranks.)
 * ALL_GATHER and HALO: each chunk goes straight from its owner to each rank that needs it.
 * All of them move a chunk once to each rank that needs it (and to those that pass it on), on each
 * link in ascending order. */
typedef enum lr_schedule {
    LR_SCHEDULE_AUTO,  /* one rank: none; window: halo; below four chunks a rank all-gather; else
                          two-level where there are several nodes of several ranks, or the ring */
    LR_SCHEDULE_RING,
    LR_SCHEDULE_ALL_GATHER,
    LR_SCHEDULE_HALO,
    LR_SCHEDULE_TWO_LEVEL
} lr_schedule;

typedef struct lr_exchange {
    lr_comm *comm;
    const lr_partition *partition;
    lr_kv_shape shape;
    lr_mask mask;
    uint32_t layer;
    uint64_t sequence;
    lr_schedule schedule;
    int node_ranks; /* ranks [k * node_ranks, (k + 1) * node_ranks) are one node; 0: all are */
    lr_chunk_header *const *own; /* this rank's sealed chunks, in order; unchanged until run returns */
    lr_arena *arena;             /* receive buffers are taken here (not used where memory is shared) */
    lr_cancel *cancel;
} lr_exchange;

/* Arena bytes one exchange needs. */
size_t lr_exchange_scratch(const lr_exchange *exchange);

/* Runs one layer's exchange on this rank: every chunk that a query of this rank can see is shown to
 * `visit` exactly once, in ascending order; own chunks in place, others as they come, the transfer of
 * the next running during the visit. The coverage proof checks each header (layer, sequence, index,
 * token range, size), each checksum, and at the end that the keys seen are exactly those the mask
 * asks for; any fault is LR_E_COVERAGE naming layer, chunk and ranks, and aborts the group. Ranks
 * without queries pass chunks on. Collective: all ranks of comm call it for the same layers in the
 * same order. A failure of `visit` or a cancellation aborts the group too. `stats` (may be NULL) is
 * set to this exchange's. When it returns, nobody reads `own` any more, however it ended. */
lr_status lr_exchange_run(const lr_exchange *exchange, lr_chunk_visit visit, void *arg,
                          lr_ring_stats *stats, lr_error *err);

/* The rank that `rank` receives the chunk from; -1: it does not receive it. */
int lr_exchange_source(const lr_partition *p, const lr_mask *mask, lr_schedule schedule,
                       int node_ranks, int rank, uint64_t chunk);
/* How many receives are posted ahead, where memory is not shared: a rank's buffers. */
#define LR_EXCHANGE_MOST_AHEAD 18
int lr_exchange_ahead(const lr_partition *p, lr_schedule schedule, int node_ranks);

/* What the formulas say this rank sends in one exchange (tests compare with the stats). */
void lr_exchange_expect(const lr_partition *p, const lr_kv_shape *shape, const lr_mask *mask,
                        lr_schedule schedule, int node_ranks, int rank, lr_ring_stats *expected);

#endif
