/* What communication threads tell each other: signs of life, ends of sessions, lost processes. */
#include "world.h"

#include <stdio.h>
#include <string.h>

#define CONTROL_TAG 0
/* Signs of life in a time limit, and the share of the limit after which silence counts as death: the
 * rest is for noticing and telling. */
#define BEATS 8
#define PATIENCE 0.75
/* Once the run was cancelled, launchers kill within seconds. */
#define CANCELLED_TIMEOUT 5.0

bool world_wire_ok(lr_world *world, const char *doing, int code)
{
    if (code != 0 && world->wire_code == 0) {
        world->wire_code = code;
        world->wire_doing = doing;
    }
    return world->wire_code == 0;
}

/* ------------------------------------------------------------------ sending */

void world_control_send(lr_world *world, control_out *out, int peer)
{
    bool with_reason = out->message.kind == CONTROL_END || out->message.kind == CONTROL_LOST;
    size_t bytes = with_reason ? sizeof(control) : offsetof(control, reason);
    int code = world->wire->send(world->wire_ctx, peer, CONTROL_TAG, &out->message, bytes,
                                 &out->request);
    out->under_way = world_wire_ok(world, "sending", code);
}

bool world_control_sent(lr_world *world, control_out *out)
{
    lr_wire_result ignored = {0};
    bool done = false;
    if (!out->under_way) return true;
    int code = world->wire->test(world->wire_ctx, &out->request, &done, &ignored);
    if (world_wire_ok(world, "sending", code) && done) out->under_way = false;
    return !out->under_way;
}

bool world_control_all_sent(lr_world *world)
{
    bool sent = world_control_sent(world, &world->take_out);
    for (int i = 0; i < world->n_neighbours; i++)
        sent &= world_control_sent(world, &world->neighbours[i].alive);
    for (int r = 0; world->ticket_out && r < world->size; r++)
        sent &= world_control_sent(world, &world->ticket_out[r]);
    return sent;
}

/* ------------------------------------------------------------------ signs of life */

void world_beat(lr_world *world, double seconds)
{
    double limit = world->peer_timeout;
    if (limit <= 0) return;
    if (world->cancel_seen && limit > CANCELLED_TIMEOUT) limit = CANCELLED_TIMEOUT;
    /* A process that was stopped together with all others (or a machine that slept) wakes up to a
     * long silence that means nothing: only time in which this thread ran counts. */
    double counted = seconds < limit / BEATS ? seconds : limit / BEATS;
    for (int i = 0; i < world->n_neighbours && !world->broken; i++) {
        neighbour *n = &world->neighbours[i];
        n->silence += counted;
        n->since_sent += seconds;
        if (n->since_sent >= limit / BEATS && world_control_sent(world, &n->alive)) {
            n->since_sent = 0;
            n->alive.message = (control){.kind = CONTROL_ALIVE, .from = world->rank};
            world_control_send(world, &n->alive, n->rank);
        }
        if (n->silence > PATIENCE * limit)
            world_break(world, n->rank, world->rank,
                        "rank %d is lost: rank %d has had no sign of life from it for %.3g s", n->rank,
                        world->rank, n->silence);
    }
}

static void heard_of(lr_world *world, int rank)
{
    for (int i = 0; i < world->n_neighbours; i++)
        if (world->neighbours[i].rank == rank) world->neighbours[i].silence = 0;
}

/* ------------------------------------------------------------------ lost processes */

void world_break(lr_world *world, int lost, int by, const char *format, ...)
{
    if (world->broken) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(world->reason, sizeof world->reason, format, args);
    va_end(args);
    world->broken = true;
    world->lost = lost;
    world->lost_by = by;
    pthread_cond_broadcast(&world->wake_rank);
}

static void say_lost(lr_world *world)
{
    world->lost_said = true;
    for (int r = 0; r < world->size; r++) {
        if (r == world->rank || r == world->lost) continue;
        control *m = &world->lost_out[r].message;
        *m = (control){.kind = CONTROL_LOST,
                       .from = world->rank,
                       .by = world->lost_by,
                       .lost = world->lost};
        memcpy(m->reason, world->reason, sizeof m->reason);
        world_control_send(world, &world->lost_out[r], r);
    }
}

bool world_tell_lost(lr_world *world)
{
    bool told = true;
    if (world->lost_by != world->rank || world->wire_code != 0) return true;
    if (!world->lost_said) say_lost(world);
    for (int r = 0; r < world->size; r++)
        if (!world_control_sent(world, &world->lost_out[r])) told = false;
    return told;
}

/* ------------------------------------------------------------------ tickets */

static void answer_ticket(lr_world *world, int rank)
{
    control_out *out = &world->ticket_out[rank];
    if (!world_control_sent(world, out)) {
        world_break(world, -1, world->rank, "rank %d asked for two tickets at once", rank);
        return;
    }
    out->message = (control){
        .kind = CONTROL_TICKET, .from = world->rank, .ticket = world->next_ticket++};
    world_control_send(world, out, rank);
}

static void ask_ticket(lr_world *world)
{
    if (!world->ticket_wanted || !world_control_sent(world, &world->take_out)) return;
    world->ticket_wanted = false;
    world->take_out.message = (control){.kind = CONTROL_TAKE, .from = world->rank};
    world_control_send(world, &world->take_out, 0);
}

lr_status lr_world_take(lr_world *world, uint64_t *ticket, lr_error *err)
{
    lr_status st = LR_OK;
    pthread_mutex_lock(&world->lock);
    if (world->rank == 0) {
        st = world_session_check(world->everybody, err);
        if (st == LR_OK) *ticket = world->next_ticket++;
    } else {
        world->ticket_wanted = true;
        world->n_waiting++;
        pthread_cond_signal(&world->wake_thread);
        while ((st = world_session_check(world->everybody, err)) == LR_OK && !world->ticket_there)
            (void)pthread_cond_wait(&world->wake_rank, &world->lock);
        world->n_waiting--;
        world->ticket_there = false;
        *ticket = world->ticket;
    }
    pthread_mutex_unlock(&world->lock);
    return st;
}

/* ------------------------------------------------------------------ receiving */

static void keep(lr_world *world, const control *message)
{
    control_kept *kept = NULL;
    if (LR_NEW(&kept, 1, "a message", NULL) != LR_OK) {
        world_break(world, -1, world->rank, "out of memory: a message of rank %d", message->from);
        return;
    }
    kept->message = *message;
    kept->next = world->kept;
    world->kept = kept;
}

static void take_end(lr_world *world, const control *message)
{
    for (session *s = world->sessions; s; s = s->next) {
        if (s->id != message->session) continue;
        world_session_take_end(s, message);
        return;
    }
    keep(world, message);
}

static void handle(lr_world *world, control *message)
{
    message->reason[sizeof message->reason - 1] = '\0';
    heard_of(world, message->from);
    switch ((control_kind)message->kind) {
    case CONTROL_ALIVE: break;
    case CONTROL_END: take_end(world, message); break;
    case CONTROL_LOST: world_break(world, message->lost, message->by, "%s", message->reason); break;
    case CONTROL_TAKE: answer_ticket(world, message->from); break;
    case CONTROL_TICKET:
        world->ticket = message->ticket;
        world->ticket_there = true;
        pthread_cond_broadcast(&world->wake_rank);
        break;
    }
}

static bool post_receive(lr_world *world)
{
    if (world->in_posted) return true;
    memset(&world->in, 0, sizeof world->in);
    int code = world->wire->recv(world->wire_ctx, LR_WIRE_ANY, CONTROL_TAG, &world->in,
                                 sizeof world->in, &world->in_request);
    world->in_posted = world_wire_ok(world, "receiving", code);
    return world->in_posted;
}

bool world_control_step(lr_world *world)
{
    bool any = false, done = true;
    while (done && post_receive(world)) {
        lr_wire_result result = {0};
        int code = world->wire->test(world->wire_ctx, &world->in_request, &done, &result);
        if (!world_wire_ok(world, "receiving", code) || !done) break;
        world->in_posted = false;
        any = true;
        if (result.cancelled) return true;
        world->in.from = result.peer;
        handle(world, &world->in);
    }
    ask_ticket(world);
    return any;
}

/* ------------------------------------------------------------------ opening */

lr_status world_control_open(lr_world *world, lr_error *err)
{
    lr_status st = LR_OK;
    int before = (world->rank + world->size - 1) % world->size;
    int after = (world->rank + 1) % world->size;
    LR_TRY(LR_NEW(&world->lost_out, (size_t)world->size, "messages", err));
    if (world->rank == 0) LR_TRY(LR_NEW(&world->ticket_out, (size_t)world->size, "messages", err));
    if (world->size > 1) world->neighbours[world->n_neighbours++].rank = after;
    if (world->size > 2) world->neighbours[world->n_neighbours++].rank = before;
done:
    return st;
}
