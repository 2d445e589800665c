/* Transfers as the rank's thread sees them: queued for the communication thread, then waited for. */
#include "world.h"

#include <string.h>

static bool has_ended(const lr_transfer *t)
{
    return t->state >= WORLD_DONE;
}

static lr_status take_unused(session *s, size_t n_pieces, lr_transfer **out, lr_error *err)
{
    lr_transfer *t = s->unused;
    if (!t) {
        lr_status st = LR_NEW(&t, 1, "a transfer", err);
        if (st != LR_OK) return st;
    } else {
        s->unused = t->next_live;
    }
    if (n_pieces > 1) {
        lr_status st = LR_GROW(&t->pieces, &t->pieces_capacity, n_pieces, "pieces of a message", err);
        if (st != LR_OK) {
            t->next_live = s->unused;
            s->unused = t;
            return st;
        }
    }
    *out = t;
    return LR_OK;
}

static void queue(lr_world *world, lr_transfer *t)
{
    session *s = t->session;
    t->next_live = s->live;
    if (s->live) s->live->previous_live = t;
    s->live = t;
    if (world->last_posted)
        world->last_posted->next = t;
    else
        world->first_posted = t;
    world->last_posted = t;
    pthread_cond_signal(&world->wake_thread);
}

lr_status world_start(session *s, world_channel channel, bool is_send, int peer, void *data,
                      size_t bytes, lr_transfer **out, lr_error *err)
{
    lr_world *world = s->world;
    int rank = s->comm.rank;
    *out = NULL;
    if (peer < 0 || peer >= s->comm.size || peer == rank)
        return lr_fail(err, LR_E_INTERNAL, "rank %d of %d cannot exchange messages with rank %d",
                       rank, s->comm.size, peer);
    size_t n_pieces = bytes == 0 ? 1 : (bytes - 1) / world->piece_bytes + 1;
    lr_transfer *t;
    lr_status st = take_unused(s, n_pieces, &t, err);
    if (st != LR_OK) return st;
    world_peer *other = &s->peers[peer];
    world_piece *pieces = t->pieces;
    size_t capacity = t->pieces_capacity;
    *t = (lr_transfer){.session = s,
                       .channel = channel,
                       .is_send = is_send,
                       .peer = peer,
                       .data = data,
                       .bytes = bytes,
                       .n_pieces = n_pieces,
                       .n_left = n_pieces,
                       .pieces = pieces,
                       .pieces_capacity = capacity};
    pthread_mutex_lock(&world->lock);
    st = world_session_check(s, err);
    if (st == LR_OK) {
        t->number = is_send ? other->n_sends[channel]++ : other->n_receives[channel]++;
        queue(world, t);
        *out = t;
    }
    pthread_mutex_unlock(&world->lock);
    if (st == LR_OK) return st;
    t->next_live = s->unused;
    s->unused = t;
    return st;
}

static lr_status fail_mismatched(const lr_transfer *t, lr_error *err)
{
    int rank = t->session->comm.rank;
    if (t->other_bytes == SIZE_MAX)
        return lr_fail(err, LR_E_COVERAGE,
                       "message %llu from rank %d to rank %d is longer than the %zu bytes that the "
                       "receiver expects", (unsigned long long)t->number, t->peer, rank, t->bytes);
    return lr_fail(err, LR_E_COVERAGE,
                   "message %llu from rank %d to rank %d has %zu bytes, the receiver expects %zu",
                   (unsigned long long)t->number, t->peer, rank, t->other_bytes, t->bytes);
}

static void await(lr_world *world, const lr_transfer *t, double *waited)
{
    struct timespec begin, end;
    const session *s = t->session;
    if (has_ended(t)) return;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    world->n_waiting++;
    pthread_cond_signal(&world->wake_thread);
    while (!has_ended(t) && !s->aborted && !world->broken)
        (void)pthread_cond_wait(&world->wake_rank, &world->lock);
    world->n_waiting--;
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    *waited += lr_world_seconds(&begin, &end);
}

lr_status world_wait(lr_comm *comm, lr_transfer *t, const void **data, lr_error *err)
{
    lr_world *world = t->session->world;
    lr_status st = LR_OK;
    if (data) *data = NULL;
    pthread_mutex_lock(&world->lock);
    await(world, t, &comm->stats.seconds_waiting);
    if (t->state == WORLD_MISMATCHED) {
        st = fail_mismatched(t, err);
    } else {
        st = world_session_check(t->session, err);
        if (st == LR_OK && t->state != WORLD_DONE)
            st = lr_fail(err, LR_E_INTERNAL, "message %llu between ranks %d and %d was cancelled",
                         (unsigned long long)t->number, comm->rank, t->peer);
    }
    if (st == LR_OK && !t->is_send && !t->counted && t->channel == WORLD_MESSAGE) {
        t->counted = true;
        comm->stats.messages_received++;
        comm->stats.bytes_received += t->bytes;
    }
    pthread_mutex_unlock(&world->lock);
    if (data && st == LR_OK) *data = t->data;
    return st;
}

bool world_arrived(lr_comm *comm, const lr_transfer *t)
{
    const session *s = world_session_of(comm);
    pthread_mutex_lock(&s->world->lock);
    bool ended = has_ended(t) || s->aborted || s->world->broken;
    pthread_mutex_unlock(&s->world->lock);
    return ended;
}

/* The wire may read or write the memory until the transfer has ended, or the wire is called no more. */
static void await_end(lr_transfer *t)
{
    lr_world *world = t->session->world;
    if (!has_ended(t))
        world_session_abort(t->session, t->session->comm.rank,
                            "rank %d gave up message %llu %s rank %d", t->session->comm.rank,
                            (unsigned long long)t->number, t->is_send ? "to" : "from", t->peer);
    world->n_waiting++;
    while (!has_ended(t) && world->phase == WORLD_RUNNING)
        (void)pthread_cond_wait(&world->wake_rank, &world->lock);
    world->n_waiting--;
}

void world_release(lr_comm *comm, lr_transfer *t)
{
    session *s = world_session_of(comm);
    pthread_mutex_lock(&s->world->lock);
    await_end(t);
    if (t->previous_live)
        t->previous_live->next_live = t->next_live;
    else
        s->live = t->next_live;
    if (t->next_live) t->next_live->previous_live = t->previous_live;
    pthread_mutex_unlock(&s->world->lock);
    t->previous_live = NULL;
    t->next_live = s->unused;
    s->unused = t;
}
