/* A wire between the ranks of one process, so that a world of ranks can be tested without MPI and
 * under the sanitizers. As with MPI, a message moves only while its receiver calls, long messages wait
 * for their receive, and nothing is in order but the messages of one sender, receiver and tag. Ranks
 * can be stopped: their calls of the wire do not return until the end. */
#ifndef LR_FAKE_WIRE_H
#define LR_FAKE_WIRE_H

#include "world.h"

typedef struct fake_net fake_net;

typedef struct fake_options {
    int size;
    double peer_timeout;
    size_t piece_bytes;   /* 0: as it comes */
    unsigned patience;    /* 1 call in `patience` moves something; 0, 1: each */
    lr_cancel **cancels;  /* [size], or NULL */
} fake_options;

typedef struct fake_result {
    lr_status status; /* of opening, then of the body */
    lr_error error;
    bool broken;
    int speaker;
    int aborted; /* the exit status it ended the job with; -1: it did not */
} fake_result;

/* Runs body(arg, comm) on a world of options->size ranks, each with a thread of its own, and closes
 * the worlds; results[size]. Returns how many requests were begun and never ended, where the job was not
 * aborted. */
size_t fake_run(const fake_options *options, lr_rank_body body, void *arg, fake_result *results);

/* From inside a body: */
lr_world *fake_world_of(lr_comm *comm); /* of the world's own communicator */
void fake_stop(lr_comm *comm, int rank);
/* The rank's wire goes on. */
void fake_continue(lr_comm *comm, int rank);
/* The rank's next call of the wire fails. */
void fake_fail(lr_comm *comm, int rank);

#endif
