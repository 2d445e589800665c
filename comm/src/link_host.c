/* The two kinds of links that need nothing but a communicator: copies from device to device, of ranks that are
 * threads of one process, and messages staged in the host's memory. */
#include "link.h"

static lr_status take_items(lr_link *link, size_t n, lr_error *err)
{
    size_t before = link->items_capacity;
    lr_status st = LR_GROW(&link->items, &link->items_capacity, n, "an exchange's messages", err);
    for (size_t i = before; st == LR_OK && i < link->items_capacity; i++) link->items[i] = (link_item){0};
    return st;
}

static void release(lr_link *link, lr_transfer **transfer)
{
    lr_comm_release(link->own, *transfer);
    *transfer = NULL;
}

/* Waits for what this rank has sent, and forgets it. */
static lr_status settle(lr_link *link, lr_transfer **transfer, lr_error *err)
{
    if (!*transfer) return LR_OK;
    lr_status st = lr_comm_wait(link->own, *transfer, NULL, err);
    if (st == LR_OK) release(link, transfer);
    return st;
}

static lr_status expect_bytes(const lr_link *link, const lr_link_message *m, size_t sent, lr_error *err)
{
    if (sent == m->bytes) return LR_OK;
    return lr_fail(err, LR_E_COVERAGE, "a message from rank %d to rank %d has %zu bytes, the receiver expects %zu",
                   m->peer, link->own->rank, sent, m->bytes);
}

static lr_status settle_all(lr_link *link, size_t n, lr_error *err)
{
    lr_status st = LR_OK;
    for (size_t i = 0; i < n; i++) {
        LR_TRY(settle(link, &link->items[i].note, err));
        LR_TRY(settle(link, &link->items[i].answer, err));
    }
done:
    return st;
}

static void host_close(lr_link *link, bool well)
{
    (void)link;
    (void)well;
}

/* ------------------------------------------------------------------ copies
 *
 * The sender says where its data lies and records an event; the receiver's stream waits for it and copies, and the
 * sender's waits until that is done. Two messages between hosts each way; between one pair of ranks notes come before
 * answers at both ends. What a note holds is used before it is released, so that no rank takes an event away that
 * another is about to wait for. */

static lr_status copies_open(lr_link *link, const lr_link_options *options, lr_error *err)
{
    (void)options;
    if (link->own->shares_memory) return LR_OK;
    return lr_fail(err, LR_E_UNSUPPORTED, "copies between devices are for ranks of one process");
}

static lr_status copies_split(lr_link *link, lr_link *parent, lr_error *err)
{
    (void)parent;
    return copies_open(link, NULL, err);
}

static lr_status start_notes(lr_link *link, const lr_link_message *messages, size_t n, lr_error *err)
{
    lr_status st = LR_OK;
    for (size_t i = 0; i < n; i++) {
        const lr_link_message *m = &messages[i];
        link_item *item = &link->items[i];
        if (m->bytes == 0) continue;
        item->mine = (link_note){false, m->at, m->bytes, link->ready};
        if (m->send)
            LR_TRY(lr_comm_send_start(link->own, m->peer, &item->mine, sizeof item->mine, &item->note, err));
        else
            LR_TRY(lr_comm_recv_start(link->own, m->peer, NULL, sizeof item->mine, &item->note, err));
    }
done:
    return st;
}

/* The note that came, if it is of the kind that is expected: where the ranks' exchanges differ, it is not. */
static lr_status read_note(lr_link *link, const lr_link_message *m, lr_transfer *transfer, bool taken,
                           const link_note **out, lr_error *err)
{
    const void *data = NULL;
    lr_status st = lr_comm_wait(link->own, transfer, &data, err);
    if (st != LR_OK) return st;
    *out = data;
    if ((*out)->taken == taken) return LR_OK;
    return lr_fail(err, LR_E_COVERAGE, "ranks %d and %d do not exchange the same number of messages", link->own->rank,
                   m->peer);
}

static lr_status copy_in(lr_link *link, const lr_link_message *m, link_item *item, lr_error *err)
{
    const lr_device_ops *ops = link->device->ops;
    const link_note *note = NULL;
    lr_status st = LR_OK;
    LR_TRY(read_note(link, m, item->note, false, &note, err));
    LR_TRY(expect_bytes(link, m, note->bytes, err));
    ops->wait_for(link->stream, note->event);
    ops->copy(link->stream, m->at, note->at, m->bytes);
    release(link, &item->note);
done:
    return st;
}

static lr_status answer(lr_link *link, const lr_link_message *messages, size_t n, lr_error *err)
{
    lr_status st = LR_OK;
    link->device->ops->record(link->stream, link->taken);
    for (size_t i = 0; i < n; i++) {
        link_item *item = &link->items[i];
        if (messages[i].bytes == 0) continue;
        if (messages[i].send) {
            LR_TRY(lr_comm_recv_start(link->own, messages[i].peer, NULL, sizeof item->mine, &item->answer, err));
        } else {
            item->mine = (link_note){true, 0, messages[i].bytes, link->taken};
            LR_TRY(lr_comm_send_start(link->own, messages[i].peer, &item->mine, sizeof item->mine, &item->answer, err));
        }
    }
    for (size_t i = 0; i < n; i++) {
        const link_note *note = NULL;
        if (messages[i].bytes == 0 || !messages[i].send) continue;
        LR_TRY(read_note(link, &messages[i], link->items[i].answer, true, &note, err));
        link->device->ops->wait_for(link->stream, note->event);
        release(link, &link->items[i].answer);
    }
done:
    return st;
}

static lr_status copies_exchange(lr_link *link, const lr_link_message *messages, size_t n, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(take_items(link, n, err));
    link->device->ops->record(link->stream, link->ready);
    LR_TRY(start_notes(link, messages, n, err));
    for (size_t i = 0; i < n; i++)
        if (!messages[i].send && messages[i].bytes > 0) LR_TRY(copy_in(link, &messages[i], &link->items[i], err));
    LR_TRY(answer(link, messages, n, err));
    LR_TRY(settle_all(link, n, err));
done:
    return st;
}

const link_ops lr_link_copies = {.name = "copies",
                                 .open = copies_open,
                                 .split = copies_split,
                                 .exchange = copies_exchange,
                                 .close = host_close};

/* ------------------------------------------------------------------ staged */

static lr_status staged_open(lr_link *link, const lr_link_options *options, lr_error *err)
{
    (void)link;
    (void)options;
    (void)err;
    return LR_OK;
}

static lr_status staged_split(lr_link *link, lr_link *parent, lr_error *err)
{
    (void)link;
    (void)parent;
    (void)err;
    return LR_OK;
}

static lr_status take_staging(lr_link *link, const lr_link_message *messages, size_t n, lr_error *err)
{
    lr_status st = LR_OK;
    size_t total = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        if (messages[i].bytes > SIZE_MAX - LR_ALIGN ||
            !lr_add_size(total, (messages[i].bytes + LR_ALIGN - 1) / LR_ALIGN * LR_ALIGN, &total))
            LR_FAIL(LR_E_NOMEM, "an exchange whose size does not fit");
    LR_TRY(LR_GROW(&link->staging, &link->staging_capacity, total, "staging of an exchange", err));
    LR_TRY(take_items(link, n, err));
    for (size_t i = 0; i < n; i++) {
        link->items[i].staging = link->staging + at;
        at += (messages[i].bytes + LR_ALIGN - 1) / LR_ALIGN * LR_ALIGN;
    }
done:
    return st;
}

static lr_status start_staged(lr_link *link, const lr_link_message *messages, size_t n, lr_error *err)
{
    lr_status st = LR_OK;
    for (size_t i = 0; i < n; i++) {
        const lr_link_message *m = &messages[i];
        link_item *item = &link->items[i];
        if (m->bytes == 0) continue;
        if (m->send)
            LR_TRY(lr_comm_send_start(link->own, m->peer, item->staging, m->bytes, &item->note, err));
        else
            LR_TRY(lr_comm_recv_start(link->own, m->peer, item->staging, m->bytes, &item->note, err));
    }
done:
    return st;
}

static lr_status staged_exchange(lr_link *link, const lr_link_message *messages, size_t n, lr_error *err)
{
    const lr_device_ops *ops = link->device->ops;
    lr_status st = LR_OK;
    LR_TRY(take_staging(link, messages, n, err));
    for (size_t i = 0; i < n; i++)
        if (messages[i].send) ops->download(link->stream, link->items[i].staging, messages[i].at, messages[i].bytes);
    LR_TRY(ops->wait(link->stream, err));
    LR_TRY(start_staged(link, messages, n, err));
    for (size_t i = 0; i < n; i++) {
        const void *data = NULL;
        if (messages[i].send || messages[i].bytes == 0) continue;
        LR_TRY(lr_comm_wait(link->own, link->items[i].note, &data, err));
        ops->upload(link->stream, messages[i].at, data, messages[i].bytes);
    }
    LR_TRY(ops->wait(link->stream, err)); /* before the senders have their memory back */
    for (size_t i = 0; i < n; i++)
        if (!messages[i].send) release(link, &link->items[i].note);
    LR_TRY(settle_all(link, n, err));
done:
    return st;
}

const link_ops lr_link_staged = {.name = "staged",
                                 .open = staged_open,
                                 .split = staged_split,
                                 .exchange = staged_exchange,
                                 .close = host_close};
