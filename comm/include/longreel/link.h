/* Messages between the memories of the ranks' devices, beside a communicator between their hosts.
 *
 * A communicator's messages may be posted in any order and wait in the host's memory; nothing of the kind
 * exists between devices. So there is one call, an *exchange*: a list of sends and receives that move together,
 * enqueued in a stream of the link's own, beside the computation. Everything else (who is there, headers,
 * checksums, sums, agreement, signs of life) stays with the communicator, which each link is opened over; a link
 * that fails leaves it as it is.
 *
 *   NCCL    the plugin liblongreel_nccl.so, with the library libnccl.so.2 (or LONGREEL_NCCL) opened at run time.
 *           A device a rank: NCCL refuses two ranks on one.
 *   COPIES  ranks of one process (lr_comm.shares_memory): copies from device to device. Any number of ranks on
 *           a device.
 *   STAGED  any communicator: through the host's memory, and each exchange waits for its stream.
 * The bytes that arrive are the same.
 *
 * Order. A rank's exchanges happen one after another; the k-th message from a to b meets the k-th that b receives
 * from a. An exchange ends when each of its messages has met its other end, so two ranks must not wait for each
 * other crosswise (a sends in its first exchange what b receives in its second, and b the same): ranks that
 * pass chunks on put the send of one and the receive of the next in the same exchange. Enqueuing may wait for the
 * peers to enqueue theirs, not for devices to compute (but STAGED).
 *
 * Failures. Aborts (of any of the communicators), lost ranks, faults that NCCL reports, and what lasts longer than
 * the peer time limit end the link: the call fails with LR_E_PEER, the text naming rank, exchange and peers, and so
 * do the others' and all later ones. (What was enqueued then ends, so that lr_device_ops.wait on the link's stream
 * returns, and memory may be given back.) What was to be received is then undefined, and streams that wait for it go on:
 * results count only if lr_link_wait said LR_OK after the last exchange. Nobody may block in lr_device_ops.wait on a
 * stream that depends on an exchange before lr_link_wait has said so: that wait has no end if a peer is lost.
 *
 * Threads: one uses a link at a time, except abort, which any may call. */
#ifndef LONGREEL_LINK_H
#define LONGREEL_LINK_H

#include <longreel/comm.h>
#include <longreel/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_link lr_link;

typedef enum lr_link_kind { LR_LINK_STAGED, LR_LINK_COPIES, LR_LINK_NCCL } lr_link_kind;

typedef struct lr_link_options {
    lr_link_kind kind;   /* the same on all ranks */
    double peer_timeout; /* seconds that an exchange or a wait may last; 0: for ever */
    const char *nccl;    /* file name of NCCL's library; NULL: LONGREEL_NCCL, or the system's */
} lr_link_options;

typedef struct lr_link_message {
    int peer;
    bool send;        /* else receive */
    lr_device_at at;  /* unchanged (send) or untouched (receive) until the exchange has happened */
    size_t bytes;     /* the same at both ends; checked by all but NCCL. 0: nothing moves */
} lr_link_message;

#define LR_LINK_MOST_MESSAGES 1024 /* of one exchange: NCCL's limit lies at 2048 */

/* Collective over comm, all ranks of which get the same outcome: LR_E_UNSUPPORTED where one of them has no plugin, no
 * NCCL, or one too old. comm and device outlive the link. */
lr_status lr_link_open(lr_link **out, lr_comm *comm, lr_device *device, const lr_link_options *options, lr_error *err);
/* Where exchanges are enqueued: record events here, and make it wait for those of what is sent. */
lr_stream *lr_link_stream(lr_link *link);
/* `what` names the exchange in messages ("layer 3, chunk 7"); it is copied. */
lr_status lr_link_exchange(lr_link *link, const lr_link_message *messages, size_t n, const char *what, lr_error *err);
/* Waits until the event (of any stream; NULL: all exchanges so far) has happened, watching the peers. */
lr_status lr_link_wait(lr_link *link, const lr_event *event, lr_error *err);
/* Collective: a link between the ranks of `group`, which was split from the link's communicator. Freed before
 * either. Where it fails, the link has failed too. */
lr_status lr_link_split(lr_link *link, lr_comm *group, lr_link **out, lr_error *err);
/* Any thread. First reason wins. */
void lr_link_abort(lr_link *link, const char *reason);
/* Collective where nothing failed. Waits for the exchanges under way. */
void lr_link_free(lr_link *link);

/* "nccl", "copies", "staged" */
const char *lr_link_name(const lr_link *link);

#ifdef __cplusplus
}
#endif
#endif
