/* Barrier, broadcast and all-gather of the local back end. Data moves by transfers on channels of
 * their own: what holds for memory after an abort holds here too. Not counted in the statistics. */
#include "local.h"

#include <string.h>

static int first_that_left(const local_group *group)
{
    for (int r = 0; r < group->size; r++)
        if (group->ranks[r].left) return r;
    return -1;
}

lr_status lr_local_barrier(lr_comm *comm, lr_error *err)
{
    local_rank *self = lr_local_of(comm);
    local_group *group = self->group;
    local_clock clock = {0};
    lr_status st = LR_OK;
    pthread_mutex_lock(&group->lock);
    uint64_t generation = group->barrier_generation;
    if (!group->aborted && ++group->n_at_barrier == group->size) {
        group->n_at_barrier = 0;
        group->barrier_generation++;
        lr_local_wake_all(group);
    }
    while (generation == group->barrier_generation && !group->aborted) {
        int gone = first_that_left(group);
        if (gone >= 0)
            lr_local_abort(group, comm->rank, "rank %d ended before a barrier", gone);
        else if (!lr_local_sleep(self, &clock) && generation == group->barrier_generation)
            lr_local_abort(group, comm->rank, "rank %d waited more than %g s at a barrier",
                           comm->rank, group->peer_timeout);
    }
    if (group->aborted) st = lr_local_fail_aborted(self, err);
    lr_local_stop_clock(self, &clock);
    pthread_mutex_unlock(&group->lock);
    return st;
}

static lr_status start_to_all(local_rank *self, const void *data, size_t bytes, lr_error *err)
{
    int size = self->comm.size;
    memset(self->collective, 0, (size_t)size * sizeof(*self->collective));
    for (int r = 0; r < size; r++) {
        if (r == self->comm.rank) continue;
        lr_status st = lr_local_start(self, CHANNEL_COLLECTIVE, true, r, data, bytes,
                                      &self->collective[r], err);
        if (st != LR_OK) return st;
    }
    return LR_OK;
}

/* Waits for all sends that were started when `st` is LR_OK; releases them in any case. */
static lr_status finish_to_all(local_rank *self, lr_status st, lr_error *err)
{
    for (int r = 0; st == LR_OK && r < self->comm.size; r++)
        if (self->collective[r]) st = lr_local_wait(&self->comm, self->collective[r], NULL, err);
    for (int r = 0; r < self->comm.size; r++)
        if (self->collective[r]) lr_local_release(&self->comm, self->collective[r]);
    return st;
}

static lr_status take_from(local_rank *self, int peer, void *out, size_t bytes, lr_error *err)
{
    lr_transfer *transfer;
    const void *data;
    lr_status st =
        lr_local_start(self, CHANNEL_COLLECTIVE, false, peer, NULL, bytes, &transfer, err);
    if (st != LR_OK) return st;
    st = lr_local_wait(&self->comm, transfer, &data, err);
    if (st == LR_OK && bytes > 0) memcpy(out, data, bytes);
    lr_local_release(&self->comm, transfer);
    return st;
}

lr_status lr_local_broadcast(lr_comm *comm, int root, void *data, size_t bytes, lr_error *err)
{
    local_rank *self = lr_local_of(comm);
    if (root < 0 || root >= comm->size)
        return lr_fail(err, LR_E_INTERNAL, "a broadcast from rank %d of %d", root, comm->size);
    if (comm->rank != root) return take_from(self, root, data, bytes, err);
    lr_status st = start_to_all(self, data, bytes, err);
    return finish_to_all(self, st, err);
}

lr_status lr_local_all_gather(lr_comm *comm, const void *mine, size_t bytes, void *all,
                              lr_error *err)
{
    local_rank *self = lr_local_of(comm);
    unsigned char *out = all;
    lr_status st = start_to_all(self, mine, bytes, err);
    for (int r = 0; st == LR_OK && r < comm->size; r++) {
        if (r != comm->rank)
            st = take_from(self, r, out + (size_t)r * bytes, bytes, err);
        else if (bytes > 0)
            memmove(out + (size_t)r * bytes, mine, bytes);
    }
    return finish_to_all(self, st, err);
}
