/* The communicator: a table of functions with a context. The encoder never asks which back end it
 * has. Back ends: local (ranks are threads of one process, memory is shared), and mpi
 * (longreel/world.h: ranks are processes).
 *
 * Order, not tags: between one sender and one receiver, the i-th send matches the i-th receive in
 * order of posting; both ends derive the list of messages from the layout. Sizes must agree: a
 * mismatch is LR_E_COVERAGE, at both ends where memory is shared, else at the receiver, who aborts.
 *
 * Threads: one thread uses a rank's communicator at a time, except abort, which any thread may call.
 * Every call fails with LR_E_PEER once any rank aborted; the error then holds that rank and its
 * reason. Lost ranks: local, a wait that lasts longer than the peer time limit aborts the group; mpi,
 * processes that give no sign of life for as long (a wait may last).
 *
 * Memory: once a call of a rank has failed because of an abort, the rank may no longer read what it
 * received. A receive whose data was sent on is released after that send. A rank that gives up aborts
 * first, then releases. Thus a sender has its memory back after wait or release, however the run
 * ends. */
#ifndef LONGREEL_COMM_H
#define LONGREEL_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <longreel/status.h>
#include <longreel/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_comm lr_comm;
typedef struct lr_transfer lr_transfer;

/* Point-to-point messages only: collectives move differently in each back end. */
typedef struct lr_comm_stats {
    uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
    double seconds_waiting;
} lr_comm_stats;

typedef struct lr_comm_ops {
    const char *name; /* "local", "mpi", ... */

    /* Starts sending. `data` stays readable and unchanged until wait returns for the transfer. */
    lr_status (*send_start)(lr_comm *comm, int peer, const void *data, size_t bytes,
                            lr_transfer **out, lr_error *err);
    /* Starts receiving exactly `bytes`. When the communicator shares memory (shares_memory), `buffer`
     * is not used and may be NULL: after wait, *lr_comm_wait's data points at the sender's memory,
     * which stays valid until release. Otherwise the data is in `buffer`. */
    lr_status (*recv_start)(lr_comm *comm, int peer, void *buffer, size_t bytes, lr_transfer **out,
                            lr_error *err);
    /* Send: returns when the receiver has released it (its memory is the caller's again). Receive:
     * returns when the data is there; *data (may be NULL) points at it. */
    lr_status (*wait)(lr_comm *comm, lr_transfer *transfer, const void **data, lr_error *err);
    /* A receive whose data is there (or that failed): wait returns at once. False says nothing. */
    bool (*arrived)(lr_comm *comm, const lr_transfer *transfer);
    /* Ends a transfer after wait. For a receive: the caller is done with the data. Also frees
     * transfers that failed or were never waited for (after an abort; without one it aborts). For a
     * send that did not complete it may wait until nobody reads the memory. */
    void (*release)(lr_comm *comm, lr_transfer *transfer);

    lr_status (*barrier)(lr_comm *comm, lr_error *err);
    lr_status (*broadcast)(lr_comm *comm, int root, void *data, size_t bytes, lr_error *err);
    /* all[size][bytes] from each rank's mine[bytes], in rank order. */
    lr_status (*all_gather)(lr_comm *comm, const void *mine, size_t bytes, void *all, lr_error *err);
    /* Collective: a communicator of ranks [first, first + count) of this one, the caller among them;
     * all ranks call it, with ranges that are the same or disjoint. Its abort is its own. Freed before
     * this one. */
    lr_status (*split)(lr_comm *comm, int first, int count, lr_comm **out, lr_error *err);
    /* Any thread: all ranks' current and later calls fail with LR_E_PEER. First reason wins. */
    void (*abort)(lr_comm *comm, const char *reason);
    /* LR_E_PEER once a rank is known to have aborted or to be lost: for whoever waits for something else.
     * Does not wait. */
    lr_status (*check)(lr_comm *comm, lr_error *err);
    /* mpi: waits until the other ranks have freed theirs or one has aborted. */
    void (*free)(lr_comm *comm);
} lr_comm_ops;

struct lr_comm {
    const lr_comm_ops *ops;
    void *ctx;
    int rank, size;
    int shares_memory;
    lr_comm_stats stats;
};

static inline lr_status lr_comm_send_start(lr_comm *c, int peer, const void *data, size_t bytes,
                                           lr_transfer **out, lr_error *err) {
    return c->ops->send_start(c, peer, data, bytes, out, err);
}
static inline lr_status lr_comm_recv_start(lr_comm *c, int peer, void *buffer, size_t bytes,
                                           lr_transfer **out, lr_error *err) {
    return c->ops->recv_start(c, peer, buffer, bytes, out, err);
}
static inline lr_status lr_comm_wait(lr_comm *c, lr_transfer *t, const void **data, lr_error *err) {
    return c->ops->wait(c, t, data, err);
}
static inline bool lr_comm_arrived(lr_comm *c, const lr_transfer *t) {
    return c->ops->arrived(c, t);
}
static inline void lr_comm_release(lr_comm *c, lr_transfer *t) {
    if (t) c->ops->release(c, t);
}
static inline lr_status lr_comm_barrier(lr_comm *c, lr_error *err) {
    return c->ops->barrier(c, err);
}
static inline lr_status lr_comm_broadcast(lr_comm *c, int root, void *data, size_t bytes,
                                          lr_error *err) {
    return c->ops->broadcast(c, root, data, bytes, err);
}
static inline lr_status lr_comm_all_gather(lr_comm *c, const void *mine, size_t bytes, void *all,
                                           lr_error *err) {
    return c->ops->all_gather(c, mine, bytes, all, err);
}
static inline lr_status lr_comm_split(lr_comm *c, int first, int count, lr_comm **out,
                                      lr_error *err) {
    return c->ops->split(c, first, count, out, err);
}
static inline void lr_comm_abort(lr_comm *c, const char *reason) {
    c->ops->abort(c, reason);
}
static inline lr_status lr_comm_check(lr_comm *c, lr_error *err) {
    return c->ops->check(c, err);
}
static inline void lr_comm_free(lr_comm *c) {
    if (c) c->ops->free(c);
}

/* Gathers each rank's mine[sizes[rank]] at root in rank order, in pieces of at most `piece` bytes
 * handed to sink (root only; root's own included), so that no buffer grows with the recording. Root
 * reads all of sizes[size], the others only their own. A sink that fails aborts the group. Built on
 * send/recv; works on every back end. */
typedef lr_status (*lr_gather_sink)(void *arg, int rank, const void *data, size_t bytes,
                                    lr_error *err);
lr_status lr_comm_gather(lr_comm *comm, int root, const void *mine, const size_t *sizes, size_t piece,
                         lr_gather_sink sink, void *arg, lr_error *err);

/* Collective: sums over ranks, of which each gets its part. mine: a block of counts[r] values (LR_F32 or
 * LR_F64) for each rank r, one after another; out [counts[rank]]: the sum of all ranks' blocks for this
 * rank. All ranks give the same counts[size]. out must not overlap mine. Built on send/recv; each rank
 * sends all but its own block and receives size - 1 blocks of counts[rank], two of them at a time in
 * buffers where memory is not shared. A failure aborts the group.
 *
 * The order is fixed: value by value ((rank 0 + rank 1) + rank 2) + ..., rounded to the type each time.
 * So the same blocks on the same ranks give the same bytes each time, on every back end. Another number
 * of ranks cuts the terms otherwise, and the last bits may differ: what is promised to be equal for any
 * number of ranks (the vectors of a set) is not summed by this, but in pieces that do not depend on the
 * ranks (lr_comm_gather). It serves sums that have to be repeatable only, as those of a backward pass. */
lr_status lr_comm_reduce_scatter(lr_comm *comm, lr_dtype type, const void *mine, const size_t *counts,
                                 void *out, lr_error *err);

/* Collective: each rank gives its outcome, and all get the same one: LR_OK, or the failure of the
 * lowest rank that has one of its own (LR_E_PEER is an echo), with "rank N: " before it unless it is
 * rank 0's or everybody's. A communicator that fails adds LR_E_PEER where there was no failure. */
lr_status lr_comm_agree(lr_comm *comm, lr_status st, lr_error *err);

/* ------------------------------------------------------------------ local
 *
 * `size` (1..LR_LOCAL_MAX) ranks in this process; all[r] is rank r's communicator, to be used by rank
 * r's thread and freed by lr_comm_free (the group goes with the last; who still waits for a rank that
 * left gets LR_E_PEER). peer_timeout in seconds, 0 = none. */
#define LR_LOCAL_MAX 256
lr_status lr_comm_local_create(int size, double peer_timeout, lr_comm **all, lr_error *err);

/* Runs body(arg, comm) on `size` threads, one a rank; returns when all ended. When one fails, it aborts
 * the others; err gets the first failure that is not LR_E_PEER, with "rank N: " before it. */
typedef lr_status (*lr_rank_body)(void *arg, lr_comm *comm, lr_error *err);
lr_status lr_comm_local_run(int size, double peer_timeout, lr_rank_body body, void *arg,
                            lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
