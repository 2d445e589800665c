/* Inside of the local back end: ranks are threads of one process, transfers hand over pointers.
 *
 * One mutex guards the group. A channel is an ordered pair of ranks; in it the i-th send meets the
 * i-th receive. Point-to-point messages and collectives have channels of their own, so that a
 * broadcast may run while chunks are under way.
 *
 * Memory after an abort. A receiver reads the sender's memory, and may have handed the same pointer
 * on to a third rank, so a sender may not take its memory back while anybody could still read it.
 * A rank is *quiet* once one of its calls has failed because of the abort (or it left): from then on
 * it may not touch received data, and nothing more can be handed to it. Releasing a send that was
 * matched but not finished waits until every other rank is quiet or has no data in hand. */
#ifndef LR_COMM_LOCAL_H
#define LR_COMM_LOCAL_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include <longreel/comm.h>
#include <longreel/core.h>

typedef struct local_group local_group;

typedef enum transfer_state {
    TRANSFER_POSTED,    /* the other end is not there yet */
    TRANSFER_MATCHED,   /* receive: the data is there; send: the receiver has not released it */
    TRANSFER_DONE,      /* send: the receiver has released it */
    TRANSFER_MISMATCHED /* the two ends disagree about the size */
} transfer_state;

typedef enum channel_kind { CHANNEL_MESSAGE, CHANNEL_COLLECTIVE, CHANNEL_KINDS } channel_kind;

typedef struct local_channel {
    lr_transfer *first, *last; /* posted and not matched; all of one direction */
    uint64_t n_sends, n_receives;
} local_channel;

struct lr_transfer {
    lr_transfer *next_posted;           /* in its channel */
    lr_transfer *previous_live, *next;  /* of its rank: live transfers, or `next` in the free list */
    lr_transfer *other_end;             /* while matched and neither end is released */
    local_channel *channel;
    channel_kind kind;
    bool is_send, in_hand;
    transfer_state state;
    int rank, peer;
    uint64_t number;      /* in its channel and direction, from 0 */
    size_t bytes, other_bytes; /* the latter of a mismatched transfer */
    const void *data;
};

typedef struct local_rank {
    lr_comm comm;
    local_group *group;
    pthread_cond_t wake;
    bool has_wake;
    lr_transfer **collective; /* [size]: sends of the collective at hand */
    lr_transfer *unused;      /* touched by the rank's own thread only */
    uint64_t n_splits;        /* the same */
    /* Under the group's lock. */
    lr_transfer *live;
    size_t n_in_hand;
    bool quiet, left;
} local_rank;

/* A new group, until its ranks have taken their communicators. */
typedef struct local_box {
    struct local_box *next;
    int first, count, n_taken;
    uint64_t number; /* of the split */
    lr_comm **members; /* [count]; NULL: taken */
} local_box;

struct local_group {
    pthread_mutex_t lock;
    bool has_lock;
    int size, n_members;
    double peer_timeout; /* seconds; 0 = none */
    local_rank *ranks;   /* [size] */
    lr_transfer **collective;  /* [size, size] */
    local_channel *channels;   /* [CHANNEL_KINDS, from, to] */
    bool aborted;
    int aborted_by;
    char reason[LR_ERROR_TEXT];
    int n_at_barrier;
    uint64_t barrier_generation;
    local_box *boxes;
};

static inline local_rank *lr_local_of(lr_comm *comm)
{
    return comm->ctx;
}

/* All below with the lock held, unless said otherwise. */

void lr_local_abort(local_group *group, int rank, const char *format, ...) LR_PRINTF(3, 4);
/* Marks the rank quiet and reports the abort: LR_E_PEER. */
lr_status lr_local_fail_aborted(local_rank *self, lr_error *err);
void lr_local_wake_all(local_group *group);

/* A wait that may last at most the peer time limit. */
typedef struct local_clock {
    bool started;
    struct timespec begin, deadline;
} local_clock;
/* Sleeps until the rank is woken; false once the time limit has passed. */
bool lr_local_sleep(local_rank *self, local_clock *clock);
/* Adds the time slept to the rank's statistics. */
void lr_local_stop_clock(local_rank *self, const local_clock *clock);

/* These take the lock themselves. */
lr_status lr_local_start(local_rank *self, channel_kind kind, bool is_send, int peer,
                         const void *data, size_t bytes, lr_transfer **out, lr_error *err);
lr_status lr_local_wait(lr_comm *comm, lr_transfer *transfer, const void **data, lr_error *err);
bool lr_local_arrived(lr_comm *comm, const lr_transfer *transfer);
void lr_local_release(lr_comm *comm, lr_transfer *transfer);

lr_status lr_local_barrier(lr_comm *comm, lr_error *err);
lr_status lr_local_broadcast(lr_comm *comm, int root, void *data, size_t bytes, lr_error *err);
lr_status lr_local_all_gather(lr_comm *comm, const void *mine, size_t bytes, void *all,
                              lr_error *err);
lr_status lr_local_split(lr_comm *comm, int first, int count, lr_comm **out, lr_error *err);
/* Without the lock. */
void lr_local_free_boxes(local_group *group);

#endif
