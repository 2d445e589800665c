/* Links: opening, exchanges, waiting, the end. */
#include "link.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ------------------------------------------------------------------ failures */

/* Ends the link: here, and through its communicator at the others. */
static lr_status fail(lr_link *link, lr_status st, const lr_error *cause, lr_error *err)
{
    if (link->failure.status == LR_OK) {
        (void)lr_fail(&link->failure, LR_E_PEER, "%s", cause->text);
        if (link->ops->give_up) link->ops->give_up(link);
        lr_comm_abort(link->own, cause->text);
        for (size_t i = 0; i < link->items_capacity; i++) {
            lr_comm_release(link->own, link->items[i].note);
            lr_comm_release(link->own, link->items[i].answer);
            link->items[i] = (link_item){0};
        }
    }
    return lr_fail(err, st, "%s", cause->text);
}

static lr_status fail_again(const lr_link *link, lr_error *err)
{
    return lr_fail(err, LR_E_PEER, "%s", link->failure.text);
}

/* ------------------------------------------------------------------ waiting */

/* The first exchange that has not happened, or NULL. */
static const link_exchange *under_way(const lr_link *link)
{
    uint64_t n = link->n_exchanges;
    for (uint64_t i = n > LINK_KEPT ? n - LINK_KEPT : 0; i < n; i++)
        if (!link->device->ops->reached(link->kept[i % LINK_KEPT].done)) return &link->kept[i % LINK_KEPT];
    return NULL;
}

static lr_status look_around(lr_link *link, lr_error *err)
{
    lr_status st = link->ops->poll ? link->ops->poll(link, err) : LR_OK;
    if (st == LR_OK) st = lr_comm_check(link->own, err);
    if (st == LR_OK) st = lr_comm_check(link->comm, err);
    if (st == LR_OK && link->parent) st = lr_comm_check(link->parent->own, err);
    return st;
}

static lr_status late(const lr_link *link, const link_exchange *exchange, const char *waiting_for, lr_error *err)
{
    if (waiting_for)
        return lr_fail(err, LR_E_PEER, "rank %d waited more than %g s %s", link->own->rank, link->peer_timeout,
                       waiting_for);
    return lr_fail(err, LR_E_PEER, "rank %d waited more than %g s for exchange %" PRIu64 " (%s) with rank %s",
                   link->own->rank, link->peer_timeout, exchange->number, exchange->what, exchange->peers);
}

lr_status lr_link_until(lr_link *link, link_condition done, const void *arg, const char *waiting_for, lr_error *err)
{
    struct timespec pause = {.tv_nsec = 10000};
    double start = now();
    uint64_t number = UINT64_MAX; /* of the exchange that is waited for: each has the time limit */
    for (;;) {
        bool there = done(link, arg); /* before the look: what is there then came without a fault */
        lr_status st = look_around(link, err);
        if (st != LR_OK || there) return st;
        const link_exchange *exchange = waiting_for ? NULL : under_way(link);
        if (exchange && exchange->number != number) {
            number = exchange->number;
            start = now();
        }
        /* With nothing under way it is the own device that has not finished its work. */
        if ((waiting_for || exchange) && link->peer_timeout > 0 && now() - start > link->peer_timeout)
            return late(link, exchange, waiting_for, err);
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < 500000) pause.tv_nsec *= 2;
    }
}

static bool event_reached(lr_link *link, const void *event)
{
    return link->device->ops->reached(event);
}

lr_status lr_link_wait(lr_link *link, const lr_event *event, lr_error *err)
{
    lr_error cause = {0};
    if (link->failure.status != LR_OK) return fail_again(link, err);
    if (!event) link->device->ops->record(link->stream, link->end);
    lr_status st = lr_link_until(link, event_reached, event ? event : link->end, NULL, &cause);
    if (st == LR_OK && !event) st = link->device->ops->wait(link->stream, &cause);
    return st == LR_OK ? st : fail(link, st, &cause, err);
}

/* ------------------------------------------------------------------ exchanges */

static lr_status check_messages(const lr_link *link, const lr_link_message *messages, size_t n, lr_error *err)
{
    if (n > LR_LINK_MOST_MESSAGES)
        return lr_fail(err, LR_E_INTERNAL, "an exchange of %zu messages: %d are possible", n, LR_LINK_MOST_MESSAGES);
    for (size_t i = 0; i < n; i++) {
        int peer = messages[i].peer;
        if (peer < 0 || peer >= link->own->size || peer == link->own->rank)
            return lr_fail(err, LR_E_INTERNAL, "rank %d of %d cannot exchange messages with rank %d",
                           link->own->rank, link->own->size, peer);
    }
    return LR_OK;
}

static void describe(lr_link *link, const lr_link_message *messages, size_t n, const char *what)
{
    link_exchange *kept = &link->kept[link->n_exchanges % LINK_KEPT];
    size_t at = 0;
    kept->number = link->n_exchanges;
    (void)snprintf(kept->what, sizeof kept->what, "%s", what ? what : "");
    kept->peers[0] = '\0';
    for (int peer = 0; peer < link->own->size && at < sizeof kept->peers; peer++) {
        bool in = false;
        for (size_t i = 0; i < n && !in; i++) in = messages[i].peer == peer && messages[i].bytes > 0;
        if (!in) continue;
        int length = snprintf(kept->peers + at, sizeof kept->peers - at, "%s%d", at ? ", " : "", peer);
        at += length > 0 ? (size_t)length : 0;
    }
}

lr_status lr_link_exchange(lr_link *link, const lr_link_message *messages, size_t n, const char *what, lr_error *err)
{
    lr_error cause = {0};
    if (link->failure.status != LR_OK) return fail_again(link, err);
    lr_status st = check_messages(link, messages, n, err);
    if (st != LR_OK) return st;
    st = look_around(link, &cause);
    if (st != LR_OK) return fail(link, st, &cause, err);
    describe(link, messages, n, what);
    link_exchange *kept = &link->kept[link->n_exchanges % LINK_KEPT];
    if (kept->peers[0]) st = link->ops->exchange(link, messages, n, &cause);
    if (st != LR_OK) {
        lr_error_context(&cause, "exchange %" PRIu64 " (%s) with rank %s", kept->number, kept->what, kept->peers);
        return fail(link, st, &cause, err);
    }
    link->device->ops->record(link->stream, kept->done);
    link->n_exchanges++;
    return LR_OK;
}

void lr_link_abort(lr_link *link, const char *reason)
{
    lr_comm_abort(link->own, reason);
}

/* ------------------------------------------------------------------ life */

static void destroy(lr_link *link)
{
    const lr_device_ops *ops = link->device->ops;
    if (link->own) lr_comm_free(link->own);
    ops->stream_destroy(link->stream);
    for (int i = 0; i < LINK_KEPT; i++) ops->event_destroy(link->kept[i].done);
    ops->event_destroy(link->end);
    ops->event_destroy(link->taken);
    ops->event_destroy(link->ready);
    lr_free(link->items);
    lr_free(link->staging);
    lr_free(link);
}

static lr_status create(lr_link **out, const link_ops *ops, lr_comm *comm, lr_device *device, double peer_timeout,
                        lr_error *err)
{
    lr_status st = LR_OK;
    lr_link *link = NULL;
    LR_TRY(LR_NEW(&link, 1, "a link between devices", err));
    link->ops = ops;
    link->comm = comm;
    link->device = device;
    link->peer_timeout = peer_timeout;
    LR_TRY(device->ops->stream_create(device, &link->stream, err));
    LR_TRY(device->ops->event_create(device, &link->ready, err));
    LR_TRY(device->ops->event_create(device, &link->taken, err));
    LR_TRY(device->ops->event_create(device, &link->end, err));
    for (int i = 0; i < LINK_KEPT; i++) LR_TRY(device->ops->event_create(device, &link->kept[i].done, err));
done:
    *out = link;
    return st;
}

/* All ranks come through with the same outcome. */
static lr_status open_over(lr_link **out, const link_ops *ops, lr_comm *comm, lr_device *device, double peer_timeout,
                           lr_link *parent, const lr_link_options *options, lr_error *err)
{
    lr_link *link = NULL;
    lr_error own = {0};
    bool opened = false;
    *out = NULL;
    lr_status st = create(&link, ops, comm, device, peer_timeout, &own);
    st = lr_comm_agree(comm, st, &own);
    if (st == LR_OK) {
        st = lr_comm_split(comm, 0, comm->size, &link->own, &own);
        if (st == LR_OK) {
            opened = true;
            link->parent = parent;
            st = parent ? ops->split(link, parent, &own) : ops->open(link, options, &own);
            link->parent = NULL;
            if (st != LR_OK) (void)fail(link, st, &own, NULL);
        }
        st = lr_comm_agree(comm, st, &own);
    }
    if (st == LR_OK) {
        *out = link;
        return LR_OK;
    }
    if (opened) {
        if (link->failure.status == LR_OK) (void)fail(link, st, &own, NULL);
        ops->close(link, false);
    }
    if (link) destroy(link);
    return lr_fail(err, st, "%s", own.text);
}

lr_status lr_link_open(lr_link **out, lr_comm *comm, lr_device *device, const lr_link_options *options, lr_error *err)
{
    static const link_ops *const kinds[] = {
        [LR_LINK_STAGED] = &lr_link_staged, [LR_LINK_COPIES] = &lr_link_copies, [LR_LINK_NCCL] = &lr_link_nccl};
    return open_over(out, kinds[options->kind], comm, device, options->peer_timeout, NULL, options, err);
}

lr_status lr_link_split(lr_link *link, lr_comm *group, lr_link **out, lr_error *err)
{
    *out = NULL;
    if (link->failure.status != LR_OK) return fail_again(link, err);
    lr_error own = {0};
    lr_status st = open_over(out, link->ops, group, link->device, link->peer_timeout, link, NULL, &own);
    /* All ranks of the link take part, and those of other groups would wait. */
    return st == LR_OK ? st : fail(link, st, &own, err);
}

void lr_link_free(lr_link *link)
{
    if (!link) return;
    bool well = lr_link_wait(link, NULL, NULL) == LR_OK;
    link->ops->close(link, well);
    destroy(link);
}

lr_stream *lr_link_stream(lr_link *link)
{
    return link->stream;
}

const char *lr_link_name(const lr_link *link)
{
    return link->ops->name;
}
