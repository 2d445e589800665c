/* Barrier, broadcast and all-gather of a world, by messages on a channel of their own: unlike MPI's
 * they can be given up. Not counted in the statistics. */
#include "world.h"

#include <string.h>

static lr_status finish(lr_comm *comm, lr_transfer *t, lr_status st, lr_error *err)
{
    if (st == LR_OK) st = world_wait(comm, t, NULL, err);
    if (t) world_release(comm, t);
    return st;
}

static lr_status take(lr_comm *comm, int peer, void *data, size_t bytes, lr_error *err)
{
    lr_transfer *t = NULL;
    lr_status st = world_start(world_session_of(comm), WORLD_COLLECTIVE, false, peer, data, bytes,
                               &t, err);
    return finish(comm, t, st, err);
}

/* Dissemination: in round k each rank hears of the 2^k ranks before it. */
lr_status world_barrier(lr_comm *comm, lr_error *err)
{
    session *s = world_session_of(comm);
    pthread_mutex_lock(&s->world->lock);
    lr_status st = world_session_check(s, err);
    pthread_mutex_unlock(&s->world->lock);
    for (int step = 1; st == LR_OK && step < comm->size; step *= 2) {
        lr_transfer *send = NULL;
        int to = (comm->rank + step) % comm->size;
        st = world_start(s, WORLD_COLLECTIVE, true, to, NULL, 0, &send, err);
        if (st == LR_OK)
            st = take(comm, (comm->rank + comm->size - step) % comm->size, NULL, 0, err);
        st = finish(comm, send, st, err);
    }
    return st;
}

static lr_status send_to(lr_comm *comm, int peer, void *data, size_t bytes, lr_error *err)
{
    session *s = world_session_of(comm);
    return world_start(s, WORLD_COLLECTIVE, true, peer, data, bytes, &s->peers[peer].collective,
                       err);
}

/* Waits for all sends that were begun when `st` is LR_OK; releases them in any case. */
static lr_status finish_sends(lr_comm *comm, lr_status st, lr_error *err)
{
    session *s = world_session_of(comm);
    for (int r = 0; r < comm->size; r++) {
        lr_transfer *t = s->peers[r].collective;
        s->peers[r].collective = NULL;
        if (t) st = finish(comm, t, st, err);
    }
    return st;
}

/* A binomial tree, with the ranks counted from the root on. */
lr_status world_broadcast(lr_comm *comm, int root, void *data, size_t bytes, lr_error *err)
{
    int size = comm->size, step = 1;
    if (root < 0 || root >= size)
        return lr_fail(err, LR_E_INTERNAL, "a broadcast from rank %d of %d", root, size);
    session *s = world_session_of(comm);
    pthread_mutex_lock(&s->world->lock);
    lr_status st = world_session_check(s, err);
    pthread_mutex_unlock(&s->world->lock);
    int place = (comm->rank + size - root) % size;
    while (step < size && !(place & step)) step *= 2;
    if (st == LR_OK && place > 0) st = take(comm, (place - step + root) % size, data, bytes, err);
    for (step /= 2; st == LR_OK && step > 0; step /= 2)
        if (place + step < size)
            st = send_to(comm, (place + step + root) % size, data, bytes, err);
    return finish_sends(comm, st, err);
}

lr_status world_all_gather(lr_comm *comm, const void *mine, size_t bytes, void *all, lr_error *err)
{
    session *s = world_session_of(comm);
    unsigned char *out = all;
    pthread_mutex_lock(&s->world->lock);
    lr_status st = world_session_check(s, err);
    pthread_mutex_unlock(&s->world->lock);
    if (bytes > 0 && st == LR_OK) memmove(out + (size_t)comm->rank * bytes, mine, bytes);
    for (int step = 1; st == LR_OK && step < comm->size; step++)
        st = send_to(comm, (comm->rank + step) % comm->size, (void *)mine, bytes, err);
    for (int step = 1; st == LR_OK && step < comm->size; step++) {
        int from = (comm->rank + comm->size - step) % comm->size;
        st = take(comm, from, bytes > 0 ? out + (size_t)from * bytes : NULL, bytes, err);
    }
    return finish_sends(comm, st, err);
}
