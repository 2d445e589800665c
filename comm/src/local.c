/* Life of a group of local ranks. */
#include "local.h"

static lr_status local_send_start(lr_comm *comm, int peer, const void *data, size_t bytes,
                                  lr_transfer **out, lr_error *err)
{
    lr_status st =
        lr_local_start(lr_local_of(comm), CHANNEL_MESSAGE, true, peer, data, bytes, out, err);
    if (st != LR_OK) return st;
    comm->stats.messages_sent++;
    comm->stats.bytes_sent += bytes;
    return LR_OK;
}

static lr_status local_recv_start(lr_comm *comm, int peer, void *buffer, size_t bytes,
                                  lr_transfer **out, lr_error *err)
{
    (void)buffer;
    return lr_local_start(lr_local_of(comm), CHANNEL_MESSAGE, false, peer, NULL, bytes, out, err);
}

static void local_abort(lr_comm *comm, const char *reason)
{
    local_group *group = lr_local_of(comm)->group;
    pthread_mutex_lock(&group->lock);
    lr_local_abort(group, comm->rank, "%s", reason && *reason ? reason : "no reason given");
    pthread_mutex_unlock(&group->lock);
}

static lr_status local_check(lr_comm *comm, lr_error *err)
{
    local_rank *self = lr_local_of(comm);
    pthread_mutex_lock(&self->group->lock);
    lr_status st = self->group->aborted ? lr_local_fail_aborted(self, err) : LR_OK;
    pthread_mutex_unlock(&self->group->lock);
    return st;
}

static void free_transfers(lr_transfer *list)
{
    while (list) {
        lr_transfer *next = list->next;
        lr_free(list);
        list = next;
    }
}

static void destroy_group(local_group *group)
{
    lr_local_free_boxes(group);
    for (int r = 0; group->ranks && r < group->size; r++) {
        local_rank *rank = &group->ranks[r];
        free_transfers(rank->unused);
        if (rank->has_wake) (void)pthread_cond_destroy(&rank->wake);
    }
    if (group->has_lock) (void)pthread_mutex_destroy(&group->lock);
    lr_free(group->channels);
    lr_free(group->collective);
    lr_free(group->ranks);
    lr_free(group);
}

static void local_free(lr_comm *comm)
{
    local_rank *self = lr_local_of(comm);
    local_group *group = self->group;
    while (self->live) lr_local_release(comm, self->live);
    pthread_mutex_lock(&group->lock);
    self->left = self->quiet = true;
    lr_local_wake_all(group);
    bool last = --group->n_members == 0;
    pthread_mutex_unlock(&group->lock);
    if (last) destroy_group(group);
}

static const lr_comm_ops local_ops = {
    .name = "local",
    .send_start = local_send_start,
    .recv_start = local_recv_start,
    .wait = lr_local_wait,
    .arrived = lr_local_arrived,
    .release = lr_local_release,
    .barrier = lr_local_barrier,
    .broadcast = lr_local_broadcast,
    .all_gather = lr_local_all_gather,
    .split = lr_local_split,
    .abort = local_abort,
    .check = local_check,
    .free = local_free,
};

static lr_status init_locks(local_group *group, lr_error *err)
{
    int code = pthread_mutex_init(&group->lock, NULL);
    if (code != 0) return lr_fail_errno(err, LR_E_NOMEM, code, "a mutex for %d ranks", group->size);
    group->has_lock = true;
    pthread_condattr_t attributes;
    code = pthread_condattr_init(&attributes);
    if (code != 0) return lr_fail_errno(err, LR_E_NOMEM, code, "condition attributes");
    /* Deadlines must not move when somebody sets the clock. */
    code = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    for (int r = 0; code == 0 && r < group->size; r++) {
        code = pthread_cond_init(&group->ranks[r].wake, &attributes);
        group->ranks[r].has_wake = code == 0;
    }
    (void)pthread_condattr_destroy(&attributes);
    if (code != 0)
        return lr_fail_errno(err, LR_E_NOMEM, code, "conditions for %d ranks", group->size);
    return LR_OK;
}

static void init_ranks(local_group *group)
{
    for (int r = 0; r < group->size; r++) {
        local_rank *rank = &group->ranks[r];
        rank->group = group;
        rank->collective = group->collective + (size_t)r * (size_t)group->size;
        rank->comm = (lr_comm){.ops = &local_ops,
                               .ctx = rank,
                               .rank = r,
                               .size = group->size,
                               .shares_memory = 1};
    }
}

lr_status lr_comm_local_create(int size, double peer_timeout, lr_comm **all, lr_error *err)
{
    lr_status st = LR_OK;
    local_group *group = NULL;
    if (size < 1 || size > LR_LOCAL_MAX)
        LR_FAIL(LR_E_USAGE, "%d local ranks: 1 to %d are possible", size, LR_LOCAL_MAX);
    if (!(peer_timeout >= 0 && peer_timeout < 1e9))
        LR_FAIL(LR_E_USAGE, "a peer time limit of %g s is not between 0 and 1e9", peer_timeout);
    size_t n = (size_t)size;
    LR_TRY(LR_NEW(&group, 1, "a group of local ranks", err));
    group->size = group->n_members = size;
    group->peer_timeout = peer_timeout;
    LR_TRY(LR_NEW(&group->ranks, n, "local ranks", err));
    LR_TRY(LR_NEW(&group->collective, n * n, "transfers of collectives", err));
    LR_TRY(LR_NEW(&group->channels, CHANNEL_KINDS * n * n, "channels between ranks", err));
    LR_TRY(init_locks(group, err));
    init_ranks(group);
    for (int r = 0; r < size; r++) all[r] = &group->ranks[r].comm;
    group = NULL;
done:
    if (group) destroy_group(group);
    return st;
}
