/* One communicator of a world: its life and its end. */
#include "world.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ abort */

void world_session_abort(session *s, int by, const char *format, ...)
{
    if (s->aborted) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(s->reason, sizeof s->reason, format, args);
    va_end(args);
    s->aborted = true;
    s->aborted_by = by;
    pthread_cond_signal(&s->world->wake_thread);
    pthread_cond_broadcast(&s->world->wake_rank);
}

lr_status world_session_check(const session *s, lr_error *err)
{
    const lr_world *world = s->world;
    if (s->aborted)
        return lr_fail(err, LR_E_PEER, "rank %d stopped the run: %s", s->aborted_by, s->reason);
    if (world->broken) return lr_fail(err, LR_E_PEER, "%s", world->reason);
    return LR_OK;
}

static void session_abort(lr_comm *comm, const char *reason)
{
    session *s = world_session_of(comm);
    pthread_mutex_lock(&s->world->lock);
    world_session_abort(s, comm->rank, "%s", reason && *reason ? reason : "no reason given");
    pthread_mutex_unlock(&s->world->lock);
}

static lr_status session_check(lr_comm *comm, lr_error *err)
{
    session *s = world_session_of(comm);
    pthread_mutex_lock(&s->world->lock);
    lr_status st = world_session_check(s, err);
    pthread_mutex_unlock(&s->world->lock);
    return st;
}

/* ------------------------------------------------------------------ transfers */

static lr_status session_send_start(lr_comm *comm, int peer, const void *data, size_t bytes,
                                    lr_transfer **out, lr_error *err)
{
    lr_status st = world_start(world_session_of(comm), WORLD_MESSAGE, true, peer, (void *)data,
                               bytes, out, err);
    if (st != LR_OK) return st;
    comm->stats.messages_sent++;
    comm->stats.bytes_sent += bytes;
    return LR_OK;
}

static lr_status session_recv_start(lr_comm *comm, int peer, void *buffer, size_t bytes,
                                    lr_transfer **out, lr_error *err)
{
    return world_start(world_session_of(comm), WORLD_MESSAGE, false, peer, buffer, bytes, out, err);
}

/* ------------------------------------------------------------------ life */

static void session_free(lr_comm *comm)
{
    world_session_free(world_session_of(comm));
}

static const lr_comm_ops session_ops = {
    .name = "mpi",
    .send_start = session_send_start,
    .recv_start = session_recv_start,
    .wait = world_wait,
    .arrived = world_arrived,
    .release = world_release,
    .barrier = world_barrier,
    .broadcast = world_broadcast,
    .all_gather = world_all_gather,
    .split = world_split,
    .abort = session_abort,
    .check = session_check,
    .free = session_free,
};

/* ENDs of ranks that were through before this one began. */
static void take_kept(session *s)
{
    control_kept **link = &s->world->kept;
    while (*link) {
        control_kept *kept = *link;
        if (kept->message.session != s->id) {
            link = &kept->next;
            continue;
        }
        *link = kept->next;
        world_session_take_end(s, &kept->message);
        lr_free(kept);
    }
}

lr_status world_session_create(lr_world *world, uint64_t id, int first, int size, session **out,
                               lr_error *err)
{
    session *s = NULL;
    lr_status st = LR_NEW(&s, 1, "a communicator", err);
    if (st == LR_OK) st = LR_NEW(&s->peers, (size_t)size, "a communicator's ranks", err);
    if (st != LR_OK) {
        lr_free(s);
        return st;
    }
    s->comm = (lr_comm){
        .ops = &session_ops, .ctx = s, .rank = world->rank - first, .size = size};
    s->world = world;
    s->id = id;
    s->first = first;
    pthread_mutex_lock(&world->lock);
    s->next = world->sessions;
    world->sessions = s;
    take_kept(s);
    pthread_mutex_unlock(&world->lock);
    *out = s;
    return LR_OK;
}

static void unlink_session(session *s)
{
    session **link = &s->world->sessions;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
}

static void free_transfers(lr_transfer *list)
{
    while (list) {
        lr_transfer *next = list->next_live;
        lr_free(list->pieces);
        lr_free(list);
        list = next;
    }
}

void world_session_free(session *s)
{
    lr_world *world = s->world;
    while (s->live) world_release(&s->comm, s->live);
    pthread_mutex_lock(&world->lock);
    s->leaving = true;
    pthread_cond_signal(&world->wake_thread);
    world->n_waiting++;
    while (!s->complete && world->phase == WORLD_RUNNING)
        (void)pthread_cond_wait(&world->wake_rank, &world->lock);
    world->n_waiting--;
    unlink_session(s);
    pthread_mutex_unlock(&world->lock);
    free_transfers(s->unused);
    lr_free(s->peers);
    lr_free(s);
}

/* Numbers of sessions: all ranks of `comm` agree on one that none of them has used. */
lr_status world_split(lr_comm *comm, int first, int count, lr_comm **out, lr_error *err)
{
    lr_status st = LR_OK;
    session *parent = world_session_of(comm), *s = NULL;
    lr_world *world = parent->world;
    uint64_t *all = NULL, id = world->next_session;
    *out = NULL;
    if (first < 0 || count < 1 || first > comm->size - count || comm->rank < first ||
        comm->rank >= first + count)
        LR_FAIL(LR_E_INTERNAL, "rank %d of %d cannot be in a group of %d ranks from %d on",
                comm->rank, comm->size, count, first);
    LR_TRY(LR_NEW(&all, (size_t)comm->size, "numbers of communicators", err));
    LR_TRY(lr_comm_all_gather(comm, &id, sizeof id, all, err));
    for (int r = 0; r < comm->size; r++)
        if (all[r] > id) id = all[r];
    if (id >= (uint64_t)(world->last_tag - 1) / WORLD_CHANNELS)
        LR_FAIL(LR_E_UNSUPPORTED, "more than %llu communicators", (unsigned long long)id);
    LR_TRY(world_session_create(world, id, parent->first + first, count, &s, err));
    pthread_mutex_lock(&world->lock);
    world->next_session = id + 1;
    pthread_mutex_unlock(&world->lock);
    *out = &s->comm;
done:
    lr_free(all);
    return st;
}

/* ------------------------------------------------------------------ the end (thread) */

void world_session_take_end(session *s, const control *message)
{
    int member = message->from - s->first;
    if (member < 0 || member >= s->comm.size || member == s->comm.rank) return;
    world_peer *peer = &s->peers[member];
    for (int c = 0; c < WORLD_CHANNELS; c++) peer->lane[c].theirs = message->sent[c];
    peer->ended = true;
    if (message->aborted) world_session_abort(s, message->by, "%s", message->reason);
}

/* Nothing new begins from here on: the queue is empty, so the counts are final. */
static void say_end(session *s)
{
    lr_world *world = s->world;
    s->ended = true;
    for (int r = 0; r < s->comm.size; r++) {
        world_peer *peer = &s->peers[r];
        if (r == s->comm.rank) continue;
        control *m = &peer->end.message;
        *m = (control){.kind = CONTROL_END,
                       .from = world->rank,
                       .session = s->id,
                       .aborted = s->aborted,
                       .by = s->aborted_by};
        for (int c = 0; c < WORLD_CHANNELS; c++) m->sent[c] = peer->lane[c].sent;
        memcpy(m->reason, s->reason, sizeof m->reason);
        world_control_send(world, &peer->end, s->first + r);
    }
}

/* Drops what came from a rank that has ended; true once nothing more will come from it. */
static bool end_peer(session *s, int r)
{
    world_peer *peer = &s->peers[r];
    bool through = peer->ended;
    for (int c = 0; c < WORLD_CHANNELS && peer->ended; c++) {
        world_lane *lane = &peer->lane[c];
        if (lane->posted > lane->theirs)
            world_session_abort(s, s->comm.rank, "rank %d ended without sending message %llu to rank %d",
                                r, (unsigned long long)lane->theirs, s->comm.rank);
        if (s->ended) world_drop(s, r, (world_channel)c);
        if (lane->posted < lane->theirs || lane->finished < lane->posted) through = false;
    }
    return through && world_control_sent(s->world, &peer->end);
}

void world_session_step(session *s)
{
    bool through = true;
    if (s->complete) return;
    for (int r = 0; r < s->comm.size; r++)
        if (r != s->comm.rank && !end_peer(s, r)) through = false;
    if ((s->aborted || s->leaving) && !s->ended && !s->world->first_posted) {
        say_end(s);
        through = s->comm.size == 1;
    }
    s->through = s->ended && through && s->n_sends_left == 0 && s->n_drops == 0;
    if (!s->through || !s->leaving) return;
    s->complete = true;
    pthread_cond_broadcast(&s->world->wake_rank);
}
