#include "fake_wire.h"

#include <stdio.h>
#include <string.h>

enum { EAGER_BYTES = 2000, LAST_TAG = 4000, FAILURE = 77 };

typedef struct fake_message {
    struct fake_message *next;
    int from, to, tag;
    size_t bytes;
    const void *data;
    void *copy;
    struct fake_request *send; /* waits for it; NULL: has a copy */
} fake_message;

typedef struct fake_request {
    struct fake_request *next; /* receives: in order of posting */
    struct fake_request *before; /* of all: a broken world leaves some behind */
    int peer, tag;
    void *data;
    size_t bytes;
    bool is_send, done;
    lr_wire_result result;
} fake_request;

typedef struct fake_rank {
    fake_net *net;
    lr_world *world;
    const fake_options *options;
    lr_rank_body body;
    void *arg;
    fake_result *result;
    pthread_t thread;
    int rank;
    bool stopped, failing;
    fake_request *receives;
    unsigned calls;
} fake_rank;

struct fake_net {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int size, n_closed;
    bool aborted;
    fake_message *first, *last;
    fake_request *requests;
    size_t n_left; /* not tested to their end */
    fake_rank *ranks;
};

/* ------------------------------------------------------------------ the wire */

/* A stopped rank stays here. */
static int enter(fake_rank *r)
{
    pthread_mutex_lock(&r->net->lock);
    while (r->stopped) (void)pthread_cond_wait(&r->net->changed, &r->net->lock);
    return r->failing ? FAILURE : 0;
}

static int leave(fake_rank *r, int code)
{
    pthread_mutex_unlock(&r->net->lock);
    return code;
}

static void deliver(fake_message *m, fake_request *r)
{
    r->result = (lr_wire_result){.peer = m->from, .bytes = m->bytes, .too_long = m->bytes > r->bytes};
    if (m->bytes > 0 && !r->result.too_long) memcpy(r->data, m->data, m->bytes);
    r->done = true;
    if (m->send) m->send->done = true;
}

static fake_request **find_receive(fake_rank *r, const fake_message *m)
{
    fake_request **link = &r->receives;
    for (; *link; link = &(*link)->next) {
        bool from = (*link)->peer == LR_WIRE_ANY || (*link)->peer == m->from;
        if (from && (*link)->tag == m->tag) break;
    }
    return link;
}

/* What has come for this rank meets its receives. */
static void progress(fake_rank *r)
{
    fake_message **link = &r->net->first, *before = NULL;
    unsigned patience = r->options->patience;
    if (patience > 1 && r->calls++ * 2654435761u % patience != 0) return;
    while (*link) {
        fake_message *m = *link;
        fake_request **receive = m->to == r->rank ? find_receive(r, m) : NULL;
        if (!receive || !*receive) {
            before = m;
            link = &m->next;
            continue;
        }
        fake_request *request = *receive;
        *receive = request->next;
        deliver(m, request);
        *link = m->next;
        if (r->net->last == m) r->net->last = before;
        lr_free(m->copy);
        lr_free(m);
    }
}

static fake_request *new_request(fake_rank *r, fake_request values)
{
    fake_request *request = lr_alloc(sizeof *request);
    *request = values;
    request->before = r->net->requests;
    r->net->requests = request;
    r->net->n_left++;
    return request;
}

static int fake_open(void *ctx, lr_wire_place *place)
{
    fake_rank *r = ctx;
    *place = (lr_wire_place){
        .rank = r->rank, .size = r->net->size, .node_size = r->net->size, .last_tag = LAST_TAG};
    return 0;
}

static int fake_send(void *ctx, int peer, int tag, const void *data, size_t bytes,
                     lr_wire_request *out)
{
    fake_rank *r = ctx;
    int code = enter(r);
    if (code != 0) return leave(r, code);
    fake_request *request =
        new_request(r, (fake_request){.is_send = true, .done = bytes <= EAGER_BYTES});
    fake_message *m = lr_alloc(sizeof *m);
    *m = (fake_message){.from = r->rank, .to = peer, .tag = tag, .bytes = bytes, .data = data};
    if (request->done) {
        m->data = m->copy = lr_alloc(bytes);
        if (bytes > 0) memcpy(m->copy, data, bytes);
    } else {
        m->send = request;
    }
    if (r->net->last)
        r->net->last->next = m;
    else
        r->net->first = m;
    r->net->last = m;
    *out = (lr_wire_request)request;
    return leave(r, 0);
}

static int fake_recv(void *ctx, int peer, int tag, void *data, size_t bytes, lr_wire_request *out)
{
    fake_rank *r = ctx;
    int code = enter(r);
    if (code != 0) return leave(r, code);
    fake_request **end = &r->receives;
    fake_request *request =
        new_request(r, (fake_request){.peer = peer, .tag = tag, .data = data, .bytes = bytes});
    while (*end) end = &(*end)->next;
    *end = request;
    *out = (lr_wire_request)request;
    return leave(r, 0);
}

static int fake_test(void *ctx, lr_wire_request *word, bool *done, lr_wire_result *result)
{
    fake_rank *r = ctx;
    fake_request *request = (fake_request *)*word;
    int code = enter(r);
    if (code != 0) return leave(r, code);
    progress(r);
    *done = request->done;
    if (*done) {
        *result = request->result;
        r->net->n_left--;
        *word = 0;
    }
    return leave(r, 0);
}

static int fake_cancel(void *ctx, lr_wire_request *word)
{
    fake_rank *r = ctx;
    fake_request *request = (fake_request *)*word;
    int code = enter(r);
    if (code != 0) return leave(r, code);
    for (fake_request **link = &r->receives; *link; link = &(*link)->next) {
        if (*link != request) continue;
        *link = request->next;
        request->done = true;
        request->result.cancelled = true;
        break;
    }
    return leave(r, 0);
}

static int fake_probe(void *ctx, int peer, int tag, bool *there, size_t *bytes)
{
    fake_rank *r = ctx;
    int code = enter(r);
    *there = false;
    if (code != 0) return leave(r, code);
    progress(r);
    for (const fake_message *m = r->net->first; m; m = m->next) {
        if (m->to != r->rank || m->from != peer || m->tag != tag) continue;
        fake_request **receive = find_receive(r, m);
        if (*receive) continue; /* on its way to that one */
        *there = true;
        *bytes = m->bytes;
        break;
    }
    return leave(r, 0);
}

static void fake_error_text(void *ctx, int code, char *text, size_t size)
{
    (void)ctx;
    (void)snprintf(text, size, "failure %d", code);
}

static int fake_close(void *ctx)
{
    fake_rank *r = ctx;
    pthread_mutex_lock(&r->net->lock);
    r->net->n_closed++;
    pthread_cond_broadcast(&r->net->changed);
    while (r->net->n_closed < r->net->size && !r->net->aborted)
        (void)pthread_cond_wait(&r->net->changed, &r->net->lock);
    return leave(r, 0);
}

/* The end of all processes: whoever was stopped finds that out. */
static void fake_abort(void *ctx, int code)
{
    fake_rank *r = ctx;
    pthread_mutex_lock(&r->net->lock);
    r->result->aborted = code;
    r->net->aborted = true;
    for (int i = 0; i < r->net->size; i++) {
        if (!r->net->ranks[i].stopped) continue;
        r->net->ranks[i].stopped = false;
        r->net->ranks[i].failing = true;
    }
    pthread_cond_broadcast(&r->net->changed);
    pthread_mutex_unlock(&r->net->lock);
}

static const lr_wire fake_wire = {
    .abi = LR_WIRE_ABI,
    .struct_size = sizeof(lr_wire),
    .name = "fake",
    .open = fake_open,
    .send = fake_send,
    .recv = fake_recv,
    .test = fake_test,
    .cancel = fake_cancel,
    .probe = fake_probe,
    .error_text = fake_error_text,
    .close = fake_close,
    .abort = fake_abort,
};

/* ------------------------------------------------------------------ running */

lr_world *fake_world_of(lr_comm *comm)
{
    return world_session_of(comm)->world;
}

static fake_rank *rank_of(lr_comm *comm, int rank)
{
    fake_rank *self = fake_world_of(comm)->wire_ctx;
    return &self->net->ranks[rank];
}

static void set(fake_rank *r, bool *what, bool value)
{
    pthread_mutex_lock(&r->net->lock);
    *what = value;
    pthread_cond_broadcast(&r->net->changed);
    pthread_mutex_unlock(&r->net->lock);
}

void fake_stop(lr_comm *comm, int rank)
{
    fake_rank *r = rank_of(comm, rank);
    set(r, &r->stopped, true);
}

void fake_continue(lr_comm *comm, int rank)
{
    fake_rank *r = rank_of(comm, rank);
    set(r, &r->stopped, false);
}

void fake_fail(lr_comm *comm, int rank)
{
    fake_rank *r = rank_of(comm, rank);
    set(r, &r->failing, true);
}

static void *rank_main(void *arg)
{
    fake_rank *r = arg;
    fake_result *result = r->result;
    const lr_world_wire wire = {
        .wire = &fake_wire, .ctx = r, .piece_bytes = r->options->piece_bytes, .linger = 0.3};
    lr_cancel *cancel = r->options->cancels ? r->options->cancels[r->rank] : NULL;
    result->aborted = -1;
    result->status = lr_world_start(&r->world, &wire, r->options->peer_timeout, cancel, &result->error);
    if (result->status != LR_OK) return NULL;
    result->status = r->body(r->arg, lr_world_comm(r->world), &result->error);
    if (result->status != LR_OK) lr_comm_abort(lr_world_comm(r->world), result->error.text);
    result->broken = lr_world_broken(r->world);
    result->speaker = lr_world_speaker(r->world);
    lr_world_close(r->world, 3);
    return NULL;
}

size_t fake_run(const fake_options *options, lr_rank_body body, void *arg, fake_result *results)
{
    fake_net net = {.lock = PTHREAD_MUTEX_INITIALIZER,
                    .changed = PTHREAD_COND_INITIALIZER,
                    .size = options->size};
    net.ranks = lr_alloc((size_t)options->size * sizeof *net.ranks);
    memset(results, 0, (size_t)options->size * sizeof *results);
    for (int r = 0; r < options->size; r++)
        net.ranks[r] = (fake_rank){.net = &net, .options = options, .body = body, .arg = arg,
                                   .result = &results[r], .rank = r};
    for (int r = 0; r < options->size; r++)
        (void)pthread_create(&net.ranks[r].thread, NULL, rank_main, &net.ranks[r]);
    for (int r = 0; r < options->size; r++) (void)pthread_join(net.ranks[r].thread, NULL);
    while (net.first) {
        fake_message *next = net.first->next;
        lr_free(net.first->copy);
        lr_free(net.first);
        net.first = next;
    }
    while (net.requests) {
        fake_request *before = net.requests->before;
        lr_free(net.requests);
        net.requests = before;
    }
    lr_free(net.ranks);
    return net.aborted ? 0 : net.n_left;
}
