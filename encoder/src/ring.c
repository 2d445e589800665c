/* The exchange of one layer on one rank.
 *
 * The rank walks over all chunks in ascending order; each is its own, or comes from a link, or does
 * not concern it. Receives are posted two ahead or more, so that the next chunk comes while this one
 * is visited. A chunk that this rank passes on is sent on before it is visited, and so are those after
 * it that have come already: on two levels neighbouring chunks come to the ranks in different order, and
 * one that were held until its turn would come to the next rank too late for its own. On each link the
 * chunks stay in ascending order: one that shares a link with an earlier chunk goes after it.
 *
 * Why no rank waits for ever, even where a message moves only while its receiver waits for it and
 * with two buffers: call a wait's chunk its index. A wait for the arrival of c stands on the same
 * wait of the rank that hands it on, and so on back to c's owner, who sends c once all earlier chunks
 * that come to it have come: in the end it stands on a wait of a smaller index. A wait for the end of
 * sending c (to have its buffer back) stands on the receiver's arrival at c: a smaller index too, or
 * none.
 *
 * Where memory is shared, a send ends only when the receiver releases the chunk, and it does so only
 * when its own forwarding of it, further from the owner, has ended. There are no buffers to have
 * back, so all sends are waited for after the last visit, again in ascending order. */
#include "exchange.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct outgoing;

/* A receive: a buffer to come in, or the place of the sender's pointer. */
typedef struct incoming {
    lr_transfer *transfer;
    void *buffer;
    uint64_t index;
    int source;
    const lr_chunk_header *chunk; /* once it is there, checked and sent on; NULL before */
    struct outgoing *forwards; /* the sends that read the chunk, one after another */
    size_t n_forwards, n_unsettled;
} incoming;

typedef struct outgoing {
    lr_transfer *transfer;
    incoming *from; /* NULL for an own chunk */
    uint64_t index;
    int peer;
} outgoing;

typedef struct exchange {
    const lr_exchange *x;
    lr_route route;
    lr_chunk_visit visit;
    void *visit_arg;
    lr_ring_stats stats;
    lr_coverage coverage;
    outgoing *sends; /* [n_sends], as they were started */
    size_t n_sends, n_sends_started;
    incoming *slots; /* receive j uses slots[j % n_slots] */
    size_t n_slots, n_receives, n_posted, n_taken, ahead;
    uint64_t next_to_post;  /* no chunk before it is still to be posted */
    size_t n_before_own; /* receives of chunks before the own ones that have not come: those go after */
    bool *blocked;       /* [ranks], of a look at what has come: an earlier chunk goes there first */
} exchange;

/* ------------------------------------------------------------------ preparation */

static void count_messages(exchange *e)
{
    const lr_partition *p = e->route.partition;
    for (uint64_t chunk = 0; chunk < p->n_chunks; chunk++) {
        if (lr_route_source(&e->route, chunk) >= 0) {
            e->n_receives++;
            e->n_before_own += e->route.passed_on && chunk < e->route.own_first;
        }
        for (int peer = 0; peer < p->n_ranks; peer++)
            if (lr_route_sends(&e->route, chunk, peer)) e->n_sends++;
    }
    e->n_slots = e->n_receives;
    e->ahead = (size_t)lr_route_ahead(&e->route);
    if (!e->x->comm->shares_memory && e->n_slots > e->ahead) e->n_slots = e->ahead;
}

static void init_exchange(exchange *e, const lr_exchange *x)
{
    *e = (exchange){.x = x};
    lr_route_init(&e->route, x->partition, &x->mask, x->schedule, x->node_ranks, x->comm->rank);
    e->coverage = (lr_coverage){e->route.see_lo, e->route.see_hi};
    count_messages(e);
}

/* No chunk is longer than the first. */
static size_t buffer_bytes(const lr_exchange *x)
{
    size_t bytes = lr_chunk_bytes(&x->shape, lr_partition_chunk_tokens(x->partition, 0));
    size_t rounded;
    if (!lr_add_size(bytes, LR_ALIGN - 1, &rounded)) return SIZE_MAX;
    return rounded / LR_ALIGN * LR_ALIGN;
}

size_t lr_exchange_scratch(const lr_exchange *x)
{
    exchange e;
    size_t bytes;
    init_exchange(&e, x);
    if (x->comm->shares_memory || e.n_slots == 0) return 0;
    return lr_mul_size(e.n_slots, buffer_bytes(x), &bytes) ? bytes : SIZE_MAX;
}

static lr_status take_buffers(exchange *e, lr_error *err)
{
    if (e->x->comm->shares_memory) return LR_OK;
    size_t bytes = e->n_slots > 0 ? buffer_bytes(e->x) : 0;
    for (size_t i = 0; i < e->n_slots; i++) {
        e->slots[i].buffer = e->x->arena ? lr_arena_take(e->x->arena, 1, bytes) : NULL;
        if (!e->slots[i].buffer)
            return lr_fail(err, LR_E_INTERNAL, "layer %" PRIu32 ": no room for a chunk of %zu bytes",
                           e->x->layer, bytes);
    }
    return LR_OK;
}

static lr_chunk_claim claim_of(const exchange *e, uint64_t index, int from)
{
    return (lr_chunk_claim){.partition = e->x->partition,
                            .shape = &e->x->shape,
                            .layer = e->x->layer,
                            .sequence = e->x->sequence,
                            .index = index,
                            .from = from,
                            .to = e->route.rank};
}

static lr_status prepare(exchange *e, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_exchange *x = e->x;
    for (uint64_t c = e->route.own_first; c < e->route.own_end; c++) {
        const lr_chunk_claim claim = claim_of(e, c, e->route.rank);
        LR_TRY(lr_chunk_check_header(x->own[c - e->route.own_first], &claim, err));
    }
    LR_TRY(LR_NEW(&e->sends, e->n_sends, "an exchange's sends", err));
    LR_TRY(LR_NEW(&e->slots, e->n_slots, "an exchange's receives", err));
    LR_TRY(LR_NEW(&e->blocked, (size_t)x->partition->n_ranks, "links of an exchange", err));
    LR_TRY(take_buffers(e, err));
done:
    return st;
}

/* ------------------------------------------------------------------ messages */

/* Names the chunk and the link where the communicator found the fault (a size that differs). */
static lr_status at_link(const exchange *e, lr_status st, uint64_t index, int from, int to,
                         lr_error *err)
{
    if (st == LR_E_COVERAGE)
        lr_error_context(err, "layer %" PRIu32 ", chunk %" PRIu64 " from rank %d to rank %d",
                         e->x->layer, index, from, to);
    return st;
}

static size_t message_bytes(const exchange *e, uint64_t index)
{
    return lr_chunk_bytes(&e->x->shape, lr_partition_chunk_tokens(e->x->partition, index));
}

static lr_status start_send(exchange *e, const lr_chunk_header *chunk, uint64_t index, int peer,
                            incoming *from, lr_error *err)
{
    outgoing *send = &e->sends[e->n_sends_started];
    size_t bytes = message_bytes(e, index);
    lr_status st = lr_comm_send_start(e->x->comm, peer, chunk, bytes, &send->transfer, err);
    if (st != LR_OK) return at_link(e, st, index, e->route.rank, peer, err);
    send->from = from;
    send->index = index;
    send->peer = peer;
    if (from && from->n_forwards++ == 0) from->forwards = send;
    if (from) from->n_unsettled++;
    e->n_sends_started++;
    e->stats.chunks_sent++;
    e->stats.bytes_sent += bytes;
    return LR_OK;
}

static lr_status send_own(exchange *e, lr_error *err)
{
    for (uint64_t c = e->route.own_first; c < e->route.own_end; c++) {
        for (int peer = 0; peer < e->route.partition->n_ranks; peer++) {
            if (!lr_route_sends(&e->route, c, peer)) continue;
            lr_status st =
                start_send(e, e->x->own[c - e->route.own_first], c, peer, NULL, err);
            if (st != LR_OK) return st;
        }
    }
    return LR_OK;
}

static void release_incoming(exchange *e, incoming *slot)
{
    lr_comm_release(e->x->comm, slot->transfer);
    slot->transfer = NULL;
    slot->chunk = NULL;
    slot->n_forwards = slot->n_unsettled = 0;
}

/* Waits until the receiver has it; a received chunk's slot is free then. */
static lr_status settle(exchange *e, outgoing *send, lr_error *err)
{
    if (!send->transfer) return LR_OK;
    lr_status st = lr_comm_wait(e->x->comm, send->transfer, NULL, err);
    if (st != LR_OK) return at_link(e, st, send->index, e->route.rank, send->peer, err);
    lr_comm_release(e->x->comm, send->transfer);
    send->transfer = NULL;
    if (send->from && --send->from->n_unsettled == 0) release_incoming(e, send->from);
    return LR_OK;
}

/* Keeps receives posted ahead of the chunks taken. */
static lr_status post_ahead(exchange *e, lr_error *err)
{
    lr_status st = LR_OK;
    while (e->n_posted < e->n_receives && e->n_posted < e->n_taken + e->ahead) {
        int source;
        while ((source = lr_route_source(&e->route, e->next_to_post)) < 0) e->next_to_post++;
        incoming *slot = &e->slots[e->n_posted % e->n_slots];
        for (size_t i = 0, n = slot->n_forwards; i < n; i++)
            LR_TRY(settle(e, &slot->forwards[i], err));
        slot->index = e->next_to_post;
        slot->source = source;
        LR_TRY(lr_comm_recv_start(e->x->comm, source, slot->buffer,
                                  message_bytes(e, e->next_to_post), &slot->transfer, err));
        e->next_to_post++;
        e->n_posted++;
    }
done:
    return st;
}

/* ------------------------------------------------------------------ the walk */

static lr_status visit(exchange *e, const lr_chunk_header *chunk, lr_error *err)
{
    uint64_t keys = 0;
    lr_status st = lr_coverage_add(&e->coverage, chunk, e->route.rank, &keys, err);
    if (st != LR_OK) return st;
    e->stats.chunks_seen++;
    e->stats.keys_seen += keys;
    return e->visit(e->visit_arg, chunk, err);
}

/* Waits for the chunk; checked before it is sent on, so that the link with the fault is the one that is
 * named. */
static lr_status arrive(exchange *e, incoming *slot, lr_error *err)
{
    const void *data = NULL;
    const lr_chunk_claim claim = claim_of(e, slot->index, slot->source);
    lr_status st = lr_comm_wait(e->x->comm, slot->transfer, &data, err);
    if (st != LR_OK) return at_link(e, st, slot->index, slot->source, e->route.rank, err);
    st = lr_chunk_check_header(data, &claim, err);
    if (st == LR_OK) st = lr_chunk_check_payload(data, &claim, err);
    if (st == LR_OK) slot->chunk = data;
    return st;
}

static lr_status bring(exchange *e, incoming *slot, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(arrive(e, slot, err));
    for (int peer = 0; e->route.passed_on && peer < e->route.partition->n_ranks; peer++)
        if (lr_route_sends(&e->route, slot->index, peer))
            LR_TRY(start_send(e, slot->chunk, slot->index, peer, slot, err));
    if (slot->n_forwards > 0 && !lr_route_needs(&e->route, slot->index)) e->stats.chunks_passed++;
    if (slot->index < e->route.own_first && e->n_before_own > 0 && --e->n_before_own == 0)
        LR_TRY(send_own(e, err));
done:
    return st;
}

static bool is_blocked(const exchange *e, const incoming *slot)
{
    for (int peer = 0; peer < e->route.partition->n_ranks; peer++)
        if (e->blocked[peer] && lr_route_sends(&e->route, slot->index, peer)) return true;
    return false;
}

static void block(exchange *e, const incoming *slot)
{
    for (int peer = 0; peer < e->route.partition->n_ranks; peer++)
        if (lr_route_sends(&e->route, slot->index, peer)) e->blocked[peer] = true;
}

/* Sends on what has come of the chunks after the one at hand. */
static lr_status bring_early(exchange *e, lr_error *err)
{
    lr_status st = LR_OK;
    if (!e->route.passed_on) return LR_OK;
    memset(e->blocked, 0, (size_t)e->route.partition->n_ranks * sizeof *e->blocked);
    for (size_t i = e->n_taken; i < e->n_posted; i++) {
        incoming *slot = &e->slots[i % e->n_slots];
        if (slot->chunk) continue;
        if (slot->index >= e->route.own_end && e->n_before_own > 0) break; /* the own ones go first */
        if (lr_comm_arrived(e->x->comm, slot->transfer) && !is_blocked(e, slot))
            LR_TRY(bring(e, slot, err));
        else
            block(e, slot);
    }
done:
    return st;
}

static lr_status take(exchange *e, uint64_t index, lr_error *err)
{
    lr_status st = LR_OK;
    incoming *slot = &e->slots[e->n_taken % e->n_slots];
    if (!slot->chunk) LR_TRY(bring(e, slot, err));
    LR_TRY(bring_early(e, err));
    LR_TRY(post_ahead(e, err));
    if (lr_route_needs(&e->route, index)) LR_TRY(visit(e, slot->chunk, err));
    if (slot->n_unsettled == 0) release_incoming(e, slot);
    e->n_taken++;
done:
    return st;
}

static int by_index(const void *a, const void *b)
{
    uint64_t x = ((const outgoing *)a)->index, y = ((const outgoing *)b)->index;
    return (x > y) - (x < y);
}

static lr_status walk(exchange *e, lr_error *err)
{
    lr_status st = LR_OK;
    if (e->n_before_own == 0) LR_TRY(send_own(e, err));
    LR_TRY(post_ahead(e, err));
    for (uint64_t c = 0; c < e->x->partition->n_chunks; c++) {
        LR_TRY(lr_cancel_check(e->x->cancel, err));
        if (lr_route_owns(&e->route, c)) {
            LR_TRY(bring_early(e, err));
            LR_TRY(post_ahead(e, err));
            LR_TRY(visit(e, e->x->own[c - e->route.own_first], err));
        } else if (lr_route_source(&e->route, c) >= 0) {
            LR_TRY(take(e, c, err));
        }
    }
    LR_TRY(lr_coverage_end(&e->coverage, e->x->layer, e->route.rank, err));
    qsort(e->sends, e->n_sends_started, sizeof *e->sends, by_index);
    for (size_t i = 0; i < e->n_sends_started; i++) LR_TRY(settle(e, &e->sends[i], err));
done:
    return st;
}

/* After a failure: all that is still under way. Sends first: they may read a receive's buffer. */
static void drop_messages(exchange *e)
{
    for (size_t i = 0; i < e->n_sends_started; i++)
        lr_comm_release(e->x->comm, e->sends[i].transfer);
    for (size_t i = 0; e->slots && i < e->n_slots; i++) release_incoming(e, &e->slots[i]);
}

lr_status lr_exchange_run(const lr_exchange *x, lr_chunk_visit chunk_visit, void *arg,
                          lr_ring_stats *stats, lr_error *err)
{
    lr_status st = LR_OK;
    lr_error own_err = {0};
    exchange e = {.x = x};
    size_t mark = x->arena ? lr_arena_mark(x->arena) : 0;
    double waited = x->comm->stats.seconds_waiting;
    if (x->partition->n_ranks != x->comm->size) {
        st = lr_fail(&own_err, LR_E_INTERNAL, "a sequence cut for %d ranks, exchanged by %d",
                     x->partition->n_ranks, x->comm->size);
        goto done;
    }
    init_exchange(&e, x);
    e.visit = chunk_visit;
    e.visit_arg = arg;
    st = prepare(&e, &own_err);
    if (st == LR_OK) st = walk(&e, &own_err);
done:
    if (st != LR_OK) {
        lr_comm_abort(x->comm, own_err.text);
        drop_messages(&e);
        (void)lr_fail(err, st, "%s", own_err.text);
    }
    lr_free(e.blocked);
    lr_free(e.slots);
    lr_free(e.sends);
    if (x->arena) lr_arena_reset(x->arena, mark);
    e.stats.seconds_waiting = x->comm->stats.seconds_waiting - waited;
    if (stats) *stats = e.stats;
    return st;
}
