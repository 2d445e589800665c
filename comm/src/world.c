/* Life of a world, and its communication thread. */
#include "world.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/prctl.h>

/* How long the thread sleeps between looks at the wire, in seconds. */
#define NAP_WANTED 30e-6 /* the rank's thread waits for what is under way */
#define NAP_BUSY 300e-6  /* transfers are under way, and the rank computes */
#define NAP_IDLE 3e-3
/* A launcher that lost a process tells the others to end, and kills them a second later: a run that was
 * cancelled does not wait longer for the others' part in ending it. */
#define PARTING 0.4
/* After something happened more follows at once: it only gives way to other threads. */
#define KEEN 100e-6
/* How long a world that broke tells so, and how long the others leave it to the speaker to end the
 * job, for it has files to clear away and a message to print. */
#define TELLING 1.0
#define TELLING_CANCELLED 0.2
#define LINGERING 10.0
/* How long the launcher may take to end a broken job. It may be cut off too: then the process goes. */
#define ENDING 3.0
/* How long the wire may take to open, which takes all ranks: so many time limits, and seconds. Once the run was
 * cancelled it is not waited for much longer. */
#define OPENING_LIMITS 2.0
#define OPENING 20.0
#define OPENING_CANCELLED 5.0
/* Launchers that end a job may drop what its processes have just written. */
#define FORWARDING 0.3

double lr_world_seconds(const struct timespec *from, const struct timespec *to)
{
    return (double)(to->tv_sec - from->tv_sec) + 1e-9 * (double)(to->tv_nsec - from->tv_nsec);
}

static double seconds_since(const struct timespec *from)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return lr_world_seconds(from, &now);
}

/* With the lock held. */
static void nap(lr_world *world, double seconds)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(seconds * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&world->wake_thread, &world->lock, &until);
}

/* ------------------------------------------------------------------ a pass */

/* With the lock held. */
static void put_away(lr_world *world, lr_transfer *ended)
{
    while (ended) {
        lr_transfer *t = ended;
        session *s = t->session;
        ended = t->next;
        t->next = NULL;
        if (t->dropped) {
            s->n_drops--;
            lr_free(t->data);
            lr_free(t);
            continue;
        }
        if (t->is_send) s->n_sends_left--;
        if (t->next_state == WORLD_MISMATCHED)
            world_session_abort(s, s->comm.rank,
                                "message %llu from rank %d to rank %d has another size than the %zu "
                                "bytes that the receiver expects", (unsigned long long)t->number,
                                t->peer, s->comm.rank, t->bytes);
        t->state = t->next_state;
        pthread_cond_broadcast(&world->wake_rank);
    }
}

/* With the lock held. */
static void look_for_cancel(lr_world *world, double seconds)
{
    bool through = true;
    if (!world->cancel || atomic_load(world->cancel) == 0) return;
    world->cancel_seen = true;
    world->since_cancel += seconds;
    for (session *s = world->sessions; s; s = s->next) {
        world_session_abort(s, s->comm.rank, "interrupted");
        through = through && s->through;
    }
    if (!through && world->since_cancel > PARTING)
        world_break(world, -1, world->rank, "rank %d was interrupted", world->rank);
}

/* True when something happened. With the lock held before and after. */
static bool pass(lr_world *world, struct timespec *last)
{
    struct timespec now;
    lr_transfer *posted = world->first_posted, *ended = NULL;
    world->first_posted = world->last_posted = NULL;
    for (lr_transfer *t = posted; t; t = t->next) t->state = WORLD_UNDER_WAY;
    pthread_mutex_unlock(&world->lock);
    bool any = world_begin(world, posted);
    any |= world_move(world, &ended);
    pthread_mutex_lock(&world->lock);
    any |= world_control_step(world);
    for (session *s = world->sessions; s; s = s->next) world_session_step(s);
    put_away(world, ended);
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    world_beat(world, lr_world_seconds(last, &now));
    look_for_cancel(world, lr_world_seconds(last, &now));
    *last = now;
    if (world->wire_code != 0) {
        char text[256];
        world->wire->error_text(world->wire_ctx, world->wire_code, text, sizeof text);
        world_break(world, -1, world->rank, "rank %d: %s failed: %s", world->rank,
                    world->wire_doing, text);
    }
    return any;
}

static bool ends_are_due(const lr_world *world)
{
    for (const session *s = world->sessions; s; s = s->next)
        if (s->aborted || s->leaving) return true;
    return false;
}

/* With the lock held. */
static void rest(lr_world *world, const struct timespec *last_event)
{
    bool under_way = world->under_way || ends_are_due(world);
    if (world->first_posted) return;
    if ((under_way || world->n_waiting > 0) && seconds_since(last_event) < KEEN) {
        pthread_mutex_unlock(&world->lock);
        (void)sched_yield();
        pthread_mutex_lock(&world->lock);
    } else {
        double seconds = world->n_waiting > 0 ? NAP_WANTED : under_way ? NAP_BUSY : NAP_IDLE;
        nap(world, seconds);
    }
}

/* ------------------------------------------------------------------ the thread */

static void run(lr_world *world)
{
    struct timespec last, last_event;
    (void)clock_gettime(CLOCK_MONOTONIC, &last);
    last_event = last;
    while (!world->broken && !world->closing) {
        if (pass(world, &last)) last_event = last;
        if (!world->broken && !world->closing) rest(world, &last_event);
    }
}

/* With the lock held: tells the others, then leaves the wire alone, so that memory that transfers
 * refer to can go. */
static void freeze(lr_world *world)
{
    struct timespec begin;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    double limit = world->cancel_seen ? TELLING_CANCELLED : TELLING;
    while (!world_tell_lost(world) && world->wire_code == 0 && seconds_since(&begin) < limit)
        nap(world, NAP_BUSY);
    for (lr_transfer *t = world->under_way, *next; t; t = next) {
        next = t->next;
        if (!t->dropped) continue;
        t->next = world->abandoned;
        world->abandoned = t;
    }
    world->under_way = world->first_posted = world->last_posted = NULL;
    world->phase = WORLD_FROZEN;
    pthread_cond_broadcast(&world->wake_rank);
}

static int speaker(const lr_world *world)
{
    return world->broken && world->lost == 0 && world->size > 1 ? 1 : 0;
}

/* With the lock held. */
static void end_job(lr_world *world)
{
    struct timespec begin;
    while (!world->closing) (void)pthread_cond_wait(&world->wake_thread, &world->lock);
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    while (world->rank != speaker(world) && seconds_since(&begin) < world->linger) nap(world, 0.05);
    nap(world, FORWARDING);
    int code = world->closing_code;
    pthread_mutex_unlock(&world->lock);
    world->wire->abort(world->wire_ctx, code);
    pthread_mutex_lock(&world->lock);
}

/* With the lock held. A control receive is always posted. */
static void close_wire(lr_world *world)
{
    lr_wire_result ignored;
    bool done = !world->in_posted;
    int code = 0;
    while (!world_control_all_sent(world) && world->wire_code == 0) continue;
    pthread_mutex_unlock(&world->lock);
    if (!done) code = world->wire->cancel(world->wire_ctx, &world->in_request);
    while (code == 0 && !done)
        code = world->wire->test(world->wire_ctx, &world->in_request, &done, &ignored);
    (void)world->wire->close(world->wire_ctx);
    pthread_mutex_lock(&world->lock);
}

static void open_wire(lr_world *world)
{
    lr_wire_place place = {0};
    lr_error *err = &world->opening_error;
    char text[256];
    int code = world->wire->open(world->wire_ctx, &place);
    pthread_mutex_lock(&world->lock);
    world->rank = place.rank;
    world->size = place.size;
    world->node_size = place.node_size;
    world->last_tag = place.last_tag;
    if (code != 0) {
        world->wire->error_text(world->wire_ctx, code, text, sizeof text);
        world->opening_status = lr_fail(err, LR_E_PEER, "%s cannot be started: %s", world->wire->name, text);
    } else {
        world->opening_status = world_control_open(world, err);
    }
    world->phase = world->opening_status == LR_OK ? WORLD_RUNNING : WORLD_CLOSED;
    pthread_cond_broadcast(&world->wake_rank);
}

static void *thread_main(void *arg)
{
    lr_world *world = arg;
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* naps as short as they are meant */
    open_wire(world);
    if (world->phase == WORLD_RUNNING) {
        run(world);
        if (world->broken) {
            freeze(world);
            end_job(world);
        } else {
            close_wire(world);
        }
        world->phase = WORLD_CLOSED;
        pthread_cond_broadcast(&world->wake_rank);
    }
    pthread_mutex_unlock(&world->lock);
    return NULL;
}

/* ------------------------------------------------------------------ opening and closing */

static lr_status init_locks(lr_world *world, lr_error *err)
{
    pthread_condattr_t attributes;
    int code = pthread_mutex_init(&world->lock, NULL);
    world->has_lock = code == 0;
    if (code == 0) code = pthread_condattr_init(&attributes);
    if (code == 0) {
        code = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (code == 0) code = pthread_cond_init(&world->wake_thread, &attributes);
        if (code == 0) {
            code = pthread_cond_init(&world->wake_rank, &attributes);
            if (code != 0) (void)pthread_cond_destroy(&world->wake_thread);
        }
        world->has_wakes = code == 0;
        (void)pthread_condattr_destroy(&attributes);
    }
    return code == 0 ? LR_OK : lr_fail_errno(err, LR_E_NOMEM, code, "locks of the communicator");
}

static void destroy(lr_world *world)
{
    if (world->has_wakes) {
        (void)pthread_cond_destroy(&world->wake_thread);
        (void)pthread_cond_destroy(&world->wake_rank);
    }
    if (world->has_lock) (void)pthread_mutex_destroy(&world->lock);
    while (world->kept) {
        control_kept *next = world->kept->next;
        lr_free(world->kept);
        world->kept = next;
    }
    while (world->abandoned) {
        lr_transfer *next = world->abandoned->next;
        lr_free(world->abandoned->data);
        lr_free(world->abandoned);
        world->abandoned = next;
    }
    lr_free(world->lost_out);
    lr_free(world->ticket_out);
    if (world->plugin) (void)dlclose(world->plugin);
    lr_free(world);
}

/* With the lock held. A process that is stopped before it came keeps all the others from opening theirs. */
static lr_status await_opening(lr_world *world, lr_error *err)
{
    struct timespec begin;
    double limit = OPENING_LIMITS * world->peer_timeout + OPENING, cancelled_at = -1;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    while (world->phase == WORLD_OPENING) {
        double seconds = seconds_since(&begin);
        struct timespec until = begin;
        if (cancelled_at < 0 && world->cancel && atomic_load(world->cancel) != 0) cancelled_at = seconds;
        if (cancelled_at >= 0 && seconds > cancelled_at + OPENING_CANCELLED)
            return lr_fail(err, LR_E_INTERRUPTED, "interrupted while %s was started", world->wire->name);
        if (world->peer_timeout > 0 && seconds > limit)
            return lr_fail(err, LR_E_PEER, "%s does not start: not all ranks have come within %.3g s (one may be stopped, "
                           "or its machine cut off)", world->wire->name, limit);
        until.tv_sec += (time_t)seconds + 1;
        (void)pthread_cond_timedwait(&world->wake_rank, &world->lock, &until);
    }
    return world->opening_status == LR_OK
               ? LR_OK
               : lr_fail(err, world->opening_status, "%s", world->opening_error.text);
}

static lr_status start_thread(lr_world *world, lr_error *err)
{
    int code = pthread_create(&world->thread, NULL, thread_main, world);
    if (code != 0) return lr_fail_errno(err, LR_E_NOMEM, code, "no thread for the communicator");
    world->has_thread = true;
    pthread_mutex_lock(&world->lock);
    lr_status st = await_opening(world, err);
    pthread_mutex_unlock(&world->lock);
    return st;
}

/* Ends the thread where it runs; a wire that does not open, or close, in time is left to the end of the
 * process. */
static bool stop_thread(lr_world *world, int code)
{
    bool closed;
    if (!world->has_thread) return true;
    pthread_mutex_lock(&world->lock);
    world->closing = true;
    world->closing_code = code;
    pthread_cond_signal(&world->wake_thread);
    bool opening = world->phase == WORLD_OPENING;
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    double limit = world->broken ? world->linger + ENDING : 2 * world->linger + world->peer_timeout;
    until.tv_sec += (time_t)limit + 1;
    while (world->phase != WORLD_CLOSED && !opening)
        if (pthread_cond_timedwait(&world->wake_rank, &world->lock, &until) != 0) break;
    closed = world->phase == WORLD_CLOSED;
    pthread_mutex_unlock(&world->lock);
    if (closed) (void)pthread_join(world->thread, NULL);
    return closed;
}

lr_status lr_world_start(lr_world **out, const lr_world_wire *wire, double peer_timeout,
                         lr_cancel *cancel, lr_error *err)
{
    lr_status st = LR_OK;
    lr_world *world = NULL;
    *out = NULL;
    st = LR_NEW(&world, 1, "a world of ranks", err);
    if (st != LR_OK) {
        if (wire->plugin) (void)dlclose(wire->plugin);
        return st;
    }
    world->wire = wire->wire;
    world->wire_ctx = wire->ctx;
    world->plugin = wire->plugin;
    world->piece_bytes = wire->piece_bytes ? wire->piece_bytes : LR_WIRE_MOST_BYTES;
    world->linger = wire->linger > 0 ? wire->linger : LINGERING;
    world->peer_timeout = peer_timeout;
    world->cancel = cancel;
    world->lost = -1;
    world->next_session = 1;
    if (!(peer_timeout >= 0 && peer_timeout < 1e9))
        LR_FAIL(LR_E_USAGE, "a peer time limit of %g s is not between 0 and 1e9", peer_timeout);
    LR_TRY(init_locks(world, err));
    LR_TRY(start_thread(world, err));
    LR_TRY(world_session_create(world, 0, 0, world->size, &world->everybody, err));
    *out = world;
    world = NULL;
done:
    if (world && stop_thread(world, 1)) destroy(world);
    return st;
}

void lr_world_close(lr_world *world, int code)
{
    if (!world) return;
    world_session_free(world->everybody);
    if (stop_thread(world, code)) destroy(world);
}

/* ------------------------------------------------------------------ asking */

lr_comm *lr_world_comm(lr_world *world)
{
    return &world->everybody->comm;
}

int lr_world_node_size(const lr_world *world)
{
    return world->node_size;
}

const char *lr_world_name(const lr_world *world)
{
    return world->wire->name;
}

bool lr_world_broken(lr_world *world)
{
    pthread_mutex_lock(&world->lock);
    bool broken = world->broken;
    pthread_mutex_unlock(&world->lock);
    return broken;
}

int lr_world_speaker(lr_world *world)
{
    pthread_mutex_lock(&world->lock);
    int rank = speaker(world);
    pthread_mutex_unlock(&world->lock);
    return rank;
}
