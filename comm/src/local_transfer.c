/* Transfers of the local back end: matching, waiting, handing memory back. */
#include "local.h"

#include <errno.h>
#include <stdio.h>

/* ------------------------------------------------------------------ abort, waking, time */

void lr_local_wake_all(local_group *group)
{
    for (int r = 0; r < group->size; r++) pthread_cond_signal(&group->ranks[r].wake);
}

void lr_local_abort(local_group *group, int rank, const char *format, ...)
{
    if (group->aborted) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(group->reason, sizeof group->reason, format, args);
    va_end(args);
    group->aborted = true;
    group->aborted_by = rank;
    lr_local_wake_all(group);
}

static void become_quiet(local_rank *self)
{
    if (self->quiet) return;
    self->quiet = true;
    lr_local_wake_all(self->group);
}

lr_status lr_local_fail_aborted(local_rank *self, lr_error *err)
{
    local_group *group = self->group;
    become_quiet(self);
    return lr_fail(err, LR_E_PEER, "rank %d stopped the run: %s", group->aborted_by,
                   group->reason);
}

static double seconds_between(const struct timespec *a, const struct timespec *b)
{
    return (double)(b->tv_sec - a->tv_sec) + 1e-9 * (double)(b->tv_nsec - a->tv_nsec);
}

static void start_clock(local_clock *clock, double limit)
{
    clock->started = true;
    (void)clock_gettime(CLOCK_MONOTONIC, &clock->begin);
    clock->deadline = clock->begin;
    time_t whole = (time_t)limit;
    clock->deadline.tv_sec += whole;
    clock->deadline.tv_nsec += (long)(1e9 * (limit - (double)whole));
    if (clock->deadline.tv_nsec >= 1000000000) {
        clock->deadline.tv_nsec -= 1000000000;
        clock->deadline.tv_sec++;
    }
}

bool lr_local_sleep(local_rank *self, local_clock *clock)
{
    local_group *group = self->group;
    if (!clock->started) start_clock(clock, group->peer_timeout);
    if (group->peer_timeout > 0)
        return pthread_cond_timedwait(&self->wake, &group->lock, &clock->deadline) != ETIMEDOUT;
    (void)pthread_cond_wait(&self->wake, &group->lock);
    return true;
}

void lr_local_stop_clock(local_rank *self, const local_clock *clock)
{
    if (!clock->started) return;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    self->comm.stats.seconds_waiting += seconds_between(&clock->begin, &now);
}

/* ------------------------------------------------------------------ matching */

static void set_mismatched(lr_transfer *transfer, size_t other_bytes)
{
    transfer->state = TRANSFER_MISMATCHED;
    transfer->other_bytes = other_bytes;
}

static void match(lr_transfer *a, lr_transfer *b)
{
    lr_transfer *send = a->is_send ? a : b, *receive = a->is_send ? b : a;
    if (send->bytes != receive->bytes) {
        set_mismatched(send, receive->bytes);
        set_mismatched(receive, send->bytes);
        return;
    }
    send->state = receive->state = TRANSFER_MATCHED;
    send->other_end = receive;
    receive->other_end = send;
    receive->data = send->data;
}

/* Meets the first posted transfer of the other direction, or queues. */
static void post(local_group *group, lr_transfer *transfer)
{
    local_channel *channel = transfer->channel;
    transfer->number = transfer->is_send ? channel->n_sends++ : channel->n_receives++;
    lr_transfer *first = channel->first;
    if (first && first->is_send != transfer->is_send) {
        channel->first = first->next_posted;
        if (!channel->first) channel->last = NULL;
        first->next_posted = NULL;
        match(first, transfer);
        pthread_cond_signal(&group->ranks[transfer->peer].wake);
        return;
    }
    if (channel->last)
        channel->last->next_posted = transfer;
    else
        channel->first = transfer;
    channel->last = transfer;
}

static void withdraw(lr_transfer *transfer)
{
    local_channel *channel = transfer->channel;
    lr_transfer *before = NULL;
    for (lr_transfer *t = channel->first; t != transfer; t = t->next_posted) before = t;
    if (before)
        before->next_posted = transfer->next_posted;
    else
        channel->first = transfer->next_posted;
    if (channel->last == transfer) channel->last = before;
}

static local_channel *channel_between(local_group *group, channel_kind kind, int from, int to)
{
    size_t size = (size_t)group->size;
    return &group->channels[((size_t)kind * size + (size_t)from) * size + (size_t)to];
}

static lr_status take_unused(local_rank *self, lr_transfer **out, lr_error *err)
{
    *out = self->unused;
    if (!*out) return LR_NEW(out, 1, "a transfer", err);
    self->unused = (*out)->next;
    return LR_OK;
}

lr_status lr_local_start(local_rank *self, channel_kind kind, bool is_send, int peer,
                         const void *data, size_t bytes, lr_transfer **out, lr_error *err)
{
    local_group *group = self->group;
    int rank = self->comm.rank;
    *out = NULL;
    if (peer < 0 || peer >= group->size || peer == rank)
        return lr_fail(err, LR_E_INTERNAL, "rank %d of %d cannot exchange messages with rank %d",
                       rank, group->size, peer);
    lr_transfer *transfer;
    lr_status st = take_unused(self, &transfer, err);
    if (st != LR_OK) return st;
    *transfer = (lr_transfer){.kind = kind,
                              .is_send = is_send,
                              .rank = rank,
                              .peer = peer,
                              .bytes = bytes,
                              .data = data,
                              .channel = channel_between(group, kind, is_send ? rank : peer,
                                                         is_send ? peer : rank)};
    pthread_mutex_lock(&group->lock);
    if (group->aborted) {
        st = lr_local_fail_aborted(self, err);
        transfer->next = self->unused;
        self->unused = transfer;
    } else {
        transfer->next = self->live;
        if (self->live) self->live->previous_live = transfer;
        self->live = transfer;
        post(group, transfer);
        *out = transfer;
    }
    pthread_mutex_unlock(&group->lock);
    return st;
}

/* ------------------------------------------------------------------ waiting */

static bool is_settled(const lr_transfer *transfer)
{
    if (transfer->state == TRANSFER_MATCHED) return !transfer->is_send;
    return transfer->state != TRANSFER_POSTED;
}

static void await(local_rank *self, lr_transfer *transfer)
{
    local_group *group = self->group;
    local_clock clock = {0};
    while (!is_settled(transfer) && !group->aborted) {
        int rank = transfer->rank, peer = transfer->peer;
        if (group->ranks[peer].left)
            lr_local_abort(group, rank, "rank %d ended without %s message %llu %s rank %d", peer,
                           transfer->is_send ? "taking" : "sending",
                           (unsigned long long)transfer->number,
                           transfer->is_send ? "from" : "to", rank);
        else if (!lr_local_sleep(self, &clock) && !is_settled(transfer))
            lr_local_abort(group, rank,
                           "rank %d waited more than %g s for rank %d to %s message %llu", rank,
                           group->peer_timeout, peer, transfer->is_send ? "take" : "send",
                           (unsigned long long)transfer->number);
    }
    lr_local_stop_clock(self, &clock);
}

static lr_status fail_mismatched(const lr_transfer *t, lr_error *err)
{
    return lr_fail(err, LR_E_COVERAGE,
                   "message %llu from rank %d to rank %d has %zu bytes, the receiver expects %zu",
                   (unsigned long long)t->number, t->is_send ? t->rank : t->peer,
                   t->is_send ? t->peer : t->rank, t->is_send ? t->bytes : t->other_bytes,
                   t->is_send ? t->other_bytes : t->bytes);
}

lr_status lr_local_wait(lr_comm *comm, lr_transfer *transfer, const void **data, lr_error *err)
{
    local_rank *self = lr_local_of(comm);
    local_group *group = self->group;
    lr_status st = LR_OK;
    pthread_mutex_lock(&group->lock);
    await(self, transfer);
    if (transfer->state == TRANSFER_MISMATCHED) {
        st = fail_mismatched(transfer, err);
    } else if (group->aborted) {
        st = lr_local_fail_aborted(self, err);
    } else if (!transfer->is_send && !transfer->in_hand) {
        transfer->in_hand = true;
        self->n_in_hand++;
        if (transfer->kind == CHANNEL_MESSAGE) {
            comm->stats.messages_received++;
            comm->stats.bytes_received += transfer->bytes;
        }
    }
    pthread_mutex_unlock(&group->lock);
    if (data) *data = st == LR_OK ? transfer->data : NULL;
    return st;
}

bool lr_local_arrived(lr_comm *comm, const lr_transfer *transfer)
{
    local_group *group = lr_local_of(comm)->group;
    pthread_mutex_lock(&group->lock);
    bool there = is_settled(transfer) || group->aborted;
    pthread_mutex_unlock(&group->lock);
    return there;
}

/* ------------------------------------------------------------------ releasing */

static bool nobody_else_reads(const local_group *group, int rank)
{
    for (int r = 0; r < group->size; r++) {
        const local_rank *other = &group->ranks[r];
        if (r != rank && !other->quiet && other->n_in_hand > 0) return false;
    }
    return true;
}

/* No time limit here: the readers are threads at work on the memory; they end or call again. */
static void await_readers(local_rank *self)
{
    become_quiet(self);
    while (!nobody_else_reads(self->group, self->comm.rank))
        (void)pthread_cond_wait(&self->wake, &self->group->lock);
}

static void let_go(local_rank *self, lr_transfer *receive)
{
    local_group *group = self->group;
    receive->in_hand = false;
    self->n_in_hand--;
    if (group->aborted) {
        /* The send stays unfinished: this rank may have handed the pointer on. */
        lr_local_wake_all(group);
    } else {
        receive->other_end->state = TRANSFER_DONE;
        pthread_cond_signal(&group->ranks[receive->peer].wake);
    }
}

static void release_locked(local_rank *self, lr_transfer *transfer)
{
    local_group *group = self->group;
    bool ended = transfer->state == TRANSFER_DONE || transfer->state == TRANSFER_MISMATCHED ||
                 transfer->in_hand;
    if (!ended)
        lr_local_abort(group, transfer->rank, "rank %d gave up message %llu %s rank %d",
                       transfer->rank, (unsigned long long)transfer->number,
                       transfer->is_send ? "to" : "from", transfer->peer);
    if (transfer->state == TRANSFER_POSTED) withdraw(transfer);
    if (transfer->in_hand) let_go(self, transfer);
    if (transfer->is_send && transfer->state == TRANSFER_MATCHED) await_readers(self);
    if (transfer->other_end) transfer->other_end->other_end = NULL;
    if (transfer->previous_live)
        transfer->previous_live->next = transfer->next;
    else
        self->live = transfer->next;
    if (transfer->next) transfer->next->previous_live = transfer->previous_live;
}

void lr_local_release(lr_comm *comm, lr_transfer *transfer)
{
    local_rank *self = lr_local_of(comm);
    pthread_mutex_lock(&self->group->lock);
    release_locked(self, transfer);
    pthread_mutex_unlock(&self->group->lock);
    transfer->next = self->unused;
    self->unused = transfer;
}
