/* Inside of a world of processes.
 *
 * The communication thread makes all calls of the wire. The rank's thread queues transfers and sleeps;
 * one mutex guards what both touch. Members marked (thread) belong to the communication thread.
 *
 * A session is one communicator: its number makes its tags, so that what is left of one session never
 * meets a receive of another. Every rank of a session says once to each other rank that it has ended
 * here (it left, or it or another aborted), and how many messages it has sent. So each rank knows what
 * is still to come: receives beyond that are cancelled, messages without a receive are taken and
 * dropped, and once all is through nothing of the session is left in the wire, however it ended.
 * Messages are counted in pieces of at most LR_WIRE_MOST_BYTES. */
#ifndef LR_COMM_WORLD_H
#define LR_COMM_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <longreel/core.h>
#include <longreel/world.h>

#include "wire.h"

typedef struct session session;

/* Messages and collectives have tags of their own, so that a broadcast passes messages under way. */
typedef enum world_channel { WORLD_MESSAGE, WORLD_COLLECTIVE, WORLD_CHANNELS } world_channel;

/* ------------------------------------------------------------------ transfers */

typedef enum world_state {
    WORLD_POSTED,     /* for the communication thread to begin */
    WORLD_UNDER_WAY,
    /* The end: the communication thread touches it no more. */
    WORLD_DONE,
    WORLD_MISMATCHED,
    WORLD_CANCELLED
} world_state;

typedef struct world_piece {
    lr_wire_request request;
    uint64_t number; /* of a receive, among those of its lane */
    bool done, cancelling;
} world_piece;

struct lr_transfer {
    lr_transfer *previous_live, *next_live; /* of its session; next_live also in the list of unused */
    lr_transfer *next;                      /* posted, or under way, or ended in this pass (thread) */
    session *session;
    world_channel channel;
    bool is_send;
    bool dropped; /* a receive that throws away (thread) */
    bool counted; /* in the statistics */
    int peer;
    uint64_t number;
    unsigned char *data; /* a send's is only read */
    size_t bytes;
    world_state state, next_state; /* the latter (thread) */
    size_t other_bytes;            /* of a mismatched one; SIZE_MAX: more than `bytes` */
    size_t n_pieces, n_left;
    world_piece one, *pieces;
    size_t pieces_capacity;
};

/* ------------------------------------------------------------------ control messages */

typedef enum control_kind {
    CONTROL_ALIVE,
    CONTROL_END,   /* of a session, on one rank */
    CONTROL_LOST,  /* a process was lost: the world is broken */
    CONTROL_TAKE,  /* to rank 0: the next ticket, please */
    CONTROL_TICKET
} control_kind;

typedef struct control {
    uint32_t kind;
    int32_t from; /* rank of the world */
    uint64_t session;
    uint64_t sent[WORLD_CHANNELS]; /* END: pieces sent to the receiver of this */
    uint64_t ticket;
    int32_t aborted, by; /* END: by which rank of the session; LOST: who noticed */
    int32_t lost;        /* LOST; -1: nobody in particular */
    int32_t reserved;
    char reason[LR_ERROR_TEXT];
} control;

typedef struct control_out { /* (thread) */
    control message;
    lr_wire_request request;
    bool under_way;
} control_out;

typedef struct control_kept { /* for a session that this rank has not begun yet */
    struct control_kept *next;
    control message;
} control_kept;

/* ------------------------------------------------------------------ sessions */

typedef struct world_lane { /* (thread): from and to one peer on one channel, in pieces */
    uint64_t sent, posted, finished; /* finished: receives that ended, whether cancelled or not */
    uint64_t theirs; /* what the peer sent in all, once it has ended */
} world_lane;

typedef struct world_peer {
    world_lane lane[WORLD_CHANNELS];
    bool ended; /* (thread) its END has come */
    uint64_t n_sends[WORLD_CHANNELS], n_receives[WORLD_CHANNELS]; /* numbers messages; rank's thread */
    control_out end;
    lr_transfer *collective; /* rank's thread: a send of the collective at hand */
} world_peer;

struct session {
    lr_comm comm;
    lr_world *world;
    session *next;
    uint64_t id;
    int first; /* member i is rank first + i of the world */
    world_peer *peers; /* [size] */
    lr_transfer *unused; /* rank's thread */
    /* Under the lock. */
    lr_transfer *live;
    bool aborted, leaving, complete;
    int aborted_by;
    char reason[LR_ERROR_TEXT];
    /* (thread) */
    bool ended;          /* its own END is said: nothing new begins */
    bool through;        /* and nothing of it is left in the wire */
    size_t n_sends_left; /* sends under way */
    size_t n_drops;      /* throw-away receives under way */
};

/* ------------------------------------------------------------------ the world */

typedef enum world_phase {
    WORLD_OPENING,
    WORLD_RUNNING,
    WORLD_FROZEN, /* broken, and the wire is not called any more */
    WORLD_CLOSED
} world_phase;

typedef struct neighbour { /* (thread) */
    int rank;
    double silence; /* seconds */
    double since_sent;
    control_out alive;
} neighbour;

struct lr_world {
    const lr_wire *wire;
    void *wire_ctx;
    void *plugin; /* of dlopen, or NULL */
    int rank, size, node_size, last_tag;
    double peer_timeout, linger;
    size_t piece_bytes;
    lr_cancel *cancel;
    session *everybody; /* the world's own communicator */
    pthread_t thread;
    bool has_thread, has_lock, has_wakes;
    pthread_mutex_t lock;
    pthread_cond_t wake_thread, wake_rank;
    /* Under the lock. */
    world_phase phase;
    bool closing, broken;
    int closing_code;
    int lost, lost_by;
    char reason[LR_ERROR_TEXT];
    session *sessions;
    lr_transfer *first_posted, *last_posted;
    uint64_t next_session;
    bool ticket_wanted, ticket_there;
    uint64_t ticket, next_ticket; /* the latter rank 0's */
    control_kept *kept;
    int n_waiting; /* the rank's thread sleeps in a call */
    lr_error opening_error;
    lr_status opening_status;
    /* (thread) */
    lr_transfer *under_way, *abandoned; /* the latter: thrown away, when the wire was given up */
    control in;
    lr_wire_request in_request;
    bool in_posted;
    neighbour neighbours[2];
    int n_neighbours;
    control_out *lost_out;   /* [size] */
    control_out take_out, *ticket_out; /* [size], rank 0's */
    bool lost_said, cancel_seen;
    double since_cancel; /* seconds */
    int wire_code; /* the first that was not 0 */
    const char *wire_doing;
};

/* world.c */
typedef struct lr_world_wire {
    const lr_wire *wire;
    void *ctx;
    void *plugin;       /* closed with the world */
    size_t piece_bytes; /* 0: LR_WIRE_MOST_BYTES */
    double linger;      /* seconds in which the speaker may end a broken job before others do; 0: 10 */
} lr_world_wire;
/* Takes the plugin in any case. */
lr_status lr_world_start(lr_world **out, const lr_world_wire *wire, double peer_timeout,
                         lr_cancel *cancel, lr_error *err);
double lr_world_seconds(const struct timespec *from, const struct timespec *to);

static inline session *world_session_of(lr_comm *comm)
{
    return comm->ctx;
}

/* ------------------------------------------------------------------ world_session.c */

lr_status world_session_create(lr_world *world, uint64_t id, int first, int size, session **out,
                               lr_error *err);
/* Tells the others, waits for them, frees. */
void world_session_free(session *s);
/* With the lock held. First reason wins. */
void world_session_abort(session *s, int by, const char *format, ...) LR_PRINTF(3, 4);
/* With the lock held: LR_E_PEER where the session was aborted or the world is broken, else LR_OK. */
lr_status world_session_check(const session *s, lr_error *err);
/* (thread), with the lock held: says END, drops what has no receive, notes when all is through. */
void world_session_step(session *s);
void world_session_take_end(session *s, const control *message);
lr_status world_split(lr_comm *comm, int first, int count, lr_comm **out, lr_error *err);

/* ------------------------------------------------------------------ world_transfer.c */

lr_status world_start(session *s, world_channel channel, bool is_send, int peer, void *data,
                      size_t bytes, lr_transfer **out, lr_error *err);
lr_status world_wait(lr_comm *comm, lr_transfer *transfer, const void **data, lr_error *err);
bool world_arrived(lr_comm *comm, const lr_transfer *transfer);
void world_release(lr_comm *comm, lr_transfer *transfer);

/* ------------------------------------------------------------------ world_pieces.c (thread) */

/* Begins what was posted; moves on what is under way; without the lock. True: something ended or
 * began. */
bool world_begin(lr_world *world, lr_transfer *posted);
bool world_move(lr_world *world, lr_transfer **ended);
/* Throws away messages that no receive was posted for; with the lock held. */
void world_drop(session *s, int peer, world_channel channel);

/* ------------------------------------------------------------------ world_control.c (thread) */

/* With the lock held. */
lr_status world_control_open(lr_world *world, lr_error *err);
bool world_control_step(lr_world *world);
void world_control_send(lr_world *world, control_out *out, int peer);
/* Nothing is under way in `out` (any more). */
bool world_control_sent(lr_world *world, control_out *out);
/* The same of all but those of sessions. */
bool world_control_all_sent(lr_world *world);
void world_beat(lr_world *world, double seconds);
void world_break(lr_world *world, int lost, int by, const char *format, ...) LR_PRINTF(4, 5);
/* Notes what the wire returned; the pass at hand ends with world_break. Needs no lock. */
bool world_wire_ok(lr_world *world, const char *doing, int code);
/* True once all that can be told are. */
bool world_tell_lost(lr_world *world);

/* ------------------------------------------------------------------ world_collective.c */

lr_status world_barrier(lr_comm *comm, lr_error *err);
lr_status world_broadcast(lr_comm *comm, int root, void *data, size_t bytes, lr_error *err);
lr_status world_all_gather(lr_comm *comm, const void *mine, size_t bytes, void *all, lr_error *err);

#endif
