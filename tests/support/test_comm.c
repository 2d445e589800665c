#include "test_comm.h"

#include <stdbool.h>
#include <string.h>

#include <longreel/core.h>

enum { SPOILT = 0xa5 };

/* A transfer of the wrapper. */
struct lr_transfer {
    lr_transfer *inner;
    bool is_send;
    void *buffer; /* of a receive */
    size_t bytes;
};

/* An eager send: a copy that is under way. */
typedef struct parcel {
    struct parcel *next;
    lr_transfer *inner; /* NULL while it is held back */
    int peer;
    size_t bytes;
    unsigned char *data;
} parcel;

typedef struct wrapper {
    lr_comm comm;
    lr_comm *inner;
    lrt_comm_kind kind;
    lrt_fault *fault;
    uint64_t n_sent;
    parcel *sent;
    parcel *held; /* swapped with the next to the same peer */
} wrapper;

static wrapper *wrapper_of(lr_comm *comm)
{
    return comm->ctx;
}

/* ------------------------------------------------------------------ eager sends and faults */

static lr_status pack(const void *data, size_t bytes, int peer, parcel **out, lr_error *err)
{
    lr_status st = LR_NEW(out, 1, "a parcel", err);
    if (st != LR_OK) return st;
    st = LR_NEW(&(*out)->data, bytes, "a copy of a message", err);
    if (st != LR_OK) {
        lr_free(*out);
        return st;
    }
    if (bytes > 0) memcpy((*out)->data, data, bytes);
    (*out)->peer = peer;
    (*out)->bytes = bytes;
    return LR_OK;
}

static lr_status dispatch(wrapper *w, parcel *p, lr_error *err)
{
    p->next = w->sent;
    w->sent = p;
    return lr_comm_send_start(w->inner, p->peer, p->data, p->bytes, &p->inner, err);
}

static void discard(parcel *p)
{
    lr_free(p->data);
    lr_free(p);
}

static lr_status dispatch_with_fault(wrapper *w, parcel *p, lr_error *err)
{
    lr_status st = LR_OK;
    parcel *again = NULL;
    atomic_store(&w->fault->done, 1);
    switch (w->fault->kind) {
    case LRT_FAULT_DROP:
        discard(p);
        return LR_OK;
    case LRT_FAULT_SWAP:
        w->held = p;
        return LR_OK;
    case LRT_FAULT_REPEAT:
        st = pack(p->data, p->bytes, p->peer, &again, err);
        if (st == LR_OK) st = dispatch(w, again, err);
        if (st == LR_OK) return dispatch(w, p, err);
        discard(p);
        return st;
    case LRT_FAULT_ALTER:
        if (p->bytes > 0) p->data[w->fault->byte % p->bytes] ^= w->fault->flip;
        return dispatch(w, p, err);
    case LRT_FAULT_NONE:
        break;
    }
    return dispatch(w, p, err);
}

static lr_status send_eagerly(wrapper *w, int peer, const void *data, size_t bytes, lr_error *err)
{
    parcel *p;
    lr_status st = pack(data, bytes, peer, &p, err);
    if (st != LR_OK) return st;
    const lrt_fault *fault = w->fault;
    bool faulty = fault && fault->kind != LRT_FAULT_NONE && fault->from == w->comm.rank &&
                  fault->message == w->n_sent;
    w->n_sent++;
    if (faulty) return dispatch_with_fault(w, p, err);
    st = dispatch(w, p, err);
    if (st == LR_OK && w->held && w->held->peer == peer) {
        p = w->held;
        w->held = NULL;
        st = dispatch(w, p, err);
    }
    return st;
}

lr_status lrt_comm_finish(lr_comm *comm, lr_error *err)
{
    wrapper *w = wrapper_of(comm);
    for (const parcel *p = w->sent; p; p = p->next) {
        lr_status st = lr_comm_wait(w->inner, p->inner, NULL, err);
        if (st != LR_OK) return st;
    }
    return LR_OK;
}

/* ------------------------------------------------------------------ operations */

static lr_status wrapped_send_start(lr_comm *comm, int peer, const void *data, size_t bytes,
                                    lr_transfer **out, lr_error *err)
{
    wrapper *w = wrapper_of(comm);
    *out = NULL;
    lr_transfer *transfer;
    lr_status st = LR_NEW(&transfer, 1, "a wrapped transfer", err);
    if (st != LR_OK) return st;
    transfer->is_send = true;
    if (w->kind == LRT_COMM_EAGER)
        st = send_eagerly(w, peer, data, bytes, err);
    else
        st = lr_comm_send_start(w->inner, peer, data, bytes, &transfer->inner, err);
    if (st == LR_OK)
        *out = transfer;
    else
        lr_free(transfer);
    return st;
}

static lr_status wrapped_recv_start(lr_comm *comm, int peer, void *buffer, size_t bytes,
                                    lr_transfer **out, lr_error *err)
{
    wrapper *w = wrapper_of(comm);
    *out = NULL;
    lr_transfer *transfer;
    lr_status st = LR_NEW(&transfer, 1, "a wrapped transfer", err);
    if (st != LR_OK) return st;
    transfer->buffer = buffer;
    transfer->bytes = bytes;
    memset(buffer, SPOILT, bytes);
    st = lr_comm_recv_start(w->inner, peer, NULL, bytes, &transfer->inner, err);
    if (st == LR_OK)
        *out = transfer;
    else
        lr_free(transfer);
    return st;
}

static lr_status wrapped_wait(lr_comm *comm, lr_transfer *transfer, const void **data,
                              lr_error *err)
{
    wrapper *w = wrapper_of(comm);
    const void *arrived = NULL;
    if (data) *data = NULL;
    if (!transfer->inner) return LR_OK;
    lr_status st = lr_comm_wait(w->inner, transfer->inner, &arrived, err);
    if (st == LR_OK) {
        if (!transfer->is_send) memcpy(transfer->buffer, arrived, transfer->bytes);
        lr_comm_release(w->inner, transfer->inner);
        transfer->inner = NULL;
        if (data) *data = transfer->buffer;
    }
    comm->stats = w->inner->stats;
    return st;
}

/* A lazy one's data comes only to who waits. */
static bool wrapped_arrived(lr_comm *comm, const lr_transfer *transfer)
{
    const wrapper *w = wrapper_of(comm);
    if (!transfer->inner) return true;
    return w->kind == LRT_COMM_EAGER && lr_comm_arrived(w->inner, transfer->inner);
}

static void wrapped_release(lr_comm *comm, lr_transfer *transfer)
{
    lr_comm_release(wrapper_of(comm)->inner, transfer->inner);
    if (!transfer->is_send) memset(transfer->buffer, SPOILT, transfer->bytes);
    lr_free(transfer);
}

static lr_status wrapped_barrier(lr_comm *comm, lr_error *err)
{
    return lr_comm_barrier(wrapper_of(comm)->inner, err);
}

static lr_status wrapped_broadcast(lr_comm *comm, int root, void *data, size_t bytes,
                                   lr_error *err)
{
    return lr_comm_broadcast(wrapper_of(comm)->inner, root, data, bytes, err);
}

static lr_status wrapped_all_gather(lr_comm *comm, const void *mine, size_t bytes, void *all,
                                    lr_error *err)
{
    return lr_comm_all_gather(wrapper_of(comm)->inner, mine, bytes, all, err);
}

static lr_status wrapped_split(lr_comm *comm, int first, int count, lr_comm **out, lr_error *err)
{
    return lr_comm_split(wrapper_of(comm)->inner, first, count, out, err);
}

static void wrapped_abort(lr_comm *comm, const char *reason)
{
    lr_comm_abort(wrapper_of(comm)->inner, reason);
}

static lr_status wrapped_check(lr_comm *comm, lr_error *err)
{
    return lr_comm_check(wrapper_of(comm)->inner, err);
}

static void wrapped_free(lr_comm *comm)
{
    wrapper *w = wrapper_of(comm);
    while (w->sent) {
        parcel *p = w->sent;
        w->sent = p->next;
        lr_comm_release(w->inner, p->inner);
        discard(p);
    }
    if (w->held) discard(w->held);
    lr_free(w);
}

static const lr_comm_ops wrapped_ops = {
    .name = "test",
    .send_start = wrapped_send_start,
    .recv_start = wrapped_recv_start,
    .wait = wrapped_wait,
    .arrived = wrapped_arrived,
    .release = wrapped_release,
    .barrier = wrapped_barrier,
    .broadcast = wrapped_broadcast,
    .all_gather = wrapped_all_gather,
    .split = wrapped_split,
    .abort = wrapped_abort,
    .check = wrapped_check,
    .free = wrapped_free,
};

lr_status lrt_comm_wrap(lr_comm *inner, lrt_comm_kind kind, lrt_fault *fault, lr_comm **out,
                        lr_error *err)
{
    wrapper *w;
    lr_status st = LR_NEW(&w, 1, "a wrapped communicator", err);
    if (st != LR_OK) return st;
    w->comm = (lr_comm){
        .ops = &wrapped_ops, .ctx = w, .rank = inner->rank, .size = inner->size};
    w->inner = inner;
    w->kind = kind;
    w->fault = fault;
    *out = &w->comm;
    return LR_OK;
}
