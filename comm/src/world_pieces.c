/* Transfers as the communication thread sees them: pieces on the wire. */
#include "world.h"

#include <string.h>

static world_piece *pieces_of(lr_transfer *t)
{
    return t->n_pieces > 1 ? t->pieces : &t->one;
}

static size_t piece_bytes(const lr_transfer *t, size_t i)
{
    size_t most = t->session->world->piece_bytes, at = i * most;
    return t->bytes - at < most ? t->bytes - at : most;
}

static int tag_of(const session *s, world_channel channel)
{
    return 1 + (int)s->id * WORLD_CHANNELS + (int)channel;
}

/* Puts a transfer on the wire, piece after piece. */
static void begin(lr_transfer *t)
{
    session *s = t->session;
    lr_world *world = s->world;
    world_lane *lane = &s->peers[t->peer].lane[t->channel];
    world_piece *pieces = pieces_of(t);
    int peer = s->first + t->peer, tag = tag_of(s, t->channel);
    for (size_t i = 0; i < t->n_pieces; i++) {
        unsigned char *data = t->bytes > 0 ? t->data + i * world->piece_bytes : NULL;
        pieces[i] = (world_piece){.number = t->is_send ? lane->sent++ : lane->posted++};
        int code = t->is_send ? world->wire->send(world->wire_ctx, peer, tag, data,
                                                  piece_bytes(t, i), &pieces[i].request)
                              : world->wire->recv(world->wire_ctx, peer, tag, data,
                                                  piece_bytes(t, i), &pieces[i].request);
        if (!world_wire_ok(world, t->is_send ? "sending" : "receiving", code)) return;
    }
    if (t->is_send) s->n_sends_left++;
    t->next_state = WORLD_DONE;
    t->next = world->under_way;
    world->under_way = t;
}

bool world_begin(lr_world *world, lr_transfer *posted)
{
    bool any = false;
    while (posted && world->wire_code == 0) {
        lr_transfer *t = posted;
        posted = t->next;
        t->next = NULL;
        begin(t);
        any = true;
    }
    return any;
}

static void take_result(lr_transfer *t, size_t i, const lr_wire_result *result)
{
    world_lane *lane = &t->session->peers[t->peer].lane[t->channel];
    lane->finished++;
    if (result->cancelled) {
        if (t->next_state == WORLD_DONE) t->next_state = WORLD_CANCELLED;
    } else if (!t->dropped && (result->too_long || result->bytes != piece_bytes(t, i))) {
        bool alone = !result->too_long && t->n_pieces == 1;
        t->next_state = WORLD_MISMATCHED;
        t->other_bytes = alone ? result->bytes : SIZE_MAX;
    }
}

/* A receive of what the peer will never send. */
static bool is_beyond(const lr_transfer *t, const world_piece *piece)
{
    const world_peer *peer = &t->session->peers[t->peer];
    return !t->is_send && peer->ended && piece->number >= peer->lane[t->channel].theirs;
}

/* True once all its pieces are through. */
static bool move(lr_transfer *t)
{
    lr_world *world = t->session->world;
    world_piece *pieces = pieces_of(t);
    for (size_t i = 0; i < t->n_pieces; i++) {
        world_piece *piece = &pieces[i];
        lr_wire_result result = {0};
        if (piece->done) continue;
        if (!piece->cancelling && is_beyond(t, piece)) {
            piece->cancelling = true;
            int code = world->wire->cancel(world->wire_ctx, &piece->request);
            if (!world_wire_ok(world, "cancelling a receive", code)) return false;
        }
        int code = world->wire->test(world->wire_ctx, &piece->request, &piece->done, &result);
        if (!world_wire_ok(world, t->is_send ? "sending" : "receiving", code)) return false;
        if (!piece->done) continue;
        t->n_left--;
        if (!t->is_send) take_result(t, i, &result);
    }
    return t->n_left == 0;
}

bool world_move(lr_world *world, lr_transfer **ended)
{
    bool any = false;
    lr_transfer **link = &world->under_way;
    while (*link && world->wire_code == 0) {
        lr_transfer *t = *link;
        if (!move(t)) {
            link = &t->next;
            continue;
        }
        *link = t->next;
        t->next = *ended;
        *ended = t;
        any = true;
    }
    return any;
}

void world_drop(session *s, int peer, world_channel channel)
{
    lr_world *world = s->world;
    world_lane *lane = &s->peers[peer].lane[channel];
    while (world->wire_code == 0 && lane->posted < lane->theirs) {
        bool there = false;
        size_t bytes = 0;
        lr_transfer *t = NULL;
        int code = world->wire->probe(world->wire_ctx, s->first + peer, tag_of(s, channel), &there,
                                      &bytes);
        if (!world_wire_ok(world, "looking for messages", code) || !there) return;
        if (LR_NEW(&t, 1, "a transfer", NULL) == LR_OK) t->data = lr_alloc(bytes);
        if (!t || !t->data) {
            lr_free(t);
            world_break(world, -1, world->rank, "out of memory: a message of %zu bytes", bytes);
            return;
        }
        t->session = s;
        t->channel = channel;
        t->dropped = true;
        t->peer = peer;
        t->bytes = bytes;
        t->n_pieces = t->n_left = 1;
        t->state = WORLD_UNDER_WAY;
        s->n_drops++;
        begin(t);
    }
}
