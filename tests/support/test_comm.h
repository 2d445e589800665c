/* Communicators for tests, around another one (the local): they do not share memory, and they can be
 * told to do one thing wrong. */
#ifndef LR_TEST_COMM_H
#define LR_TEST_COMM_H

#include <stdatomic.h>

#include <longreel/comm.h>

/* The two ends of what a communicator that does not share memory may do. Both fill the receiver's
 * buffer when the receiver waits, and spoil it before that and after the release. */
typedef enum lrt_comm_kind {
    LRT_COMM_LAZY, /* nothing moves, and no send ends, before the receiver waits for it */
    LRT_COMM_EAGER /* a send copies its data and ends at once */
} lrt_comm_kind;

typedef enum lrt_fault_kind {
    LRT_FAULT_NONE,
    LRT_FAULT_DROP,
    LRT_FAULT_REPEAT,
    LRT_FAULT_SWAP, /* with the sender's next message to the same peer */
    LRT_FAULT_ALTER /* flips bits of one byte */
} lrt_fault_kind;

/* What goes wrong, once, with the `message`-th message (from 0) that rank `from` sends. Shared by the
 * ranks' communicators, which must be eager. */
typedef struct lrt_fault {
    lrt_fault_kind kind;
    int from;
    uint64_t message;
    size_t byte;          /* altered, modulo the message's size */
    unsigned char flip;   /* these bits of it, not 0 */
    atomic_int done;      /* set when it happened */
} lrt_fault;

/* `fault` may be NULL. lr_comm_free frees the wrapper, not the inner communicator, and gives up what
 * is still under way: lrt_comm_finish first, where all went well. */
lr_status lrt_comm_wrap(lr_comm *inner, lrt_comm_kind kind, lrt_fault *fault, lr_comm **out,
                        lr_error *err);
/* Waits until the receivers have all that was sent eagerly. */
lr_status lrt_comm_finish(lr_comm *comm, lr_error *err);

#endif
