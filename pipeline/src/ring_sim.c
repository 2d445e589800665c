/* A discrete-event simulation of the exchange (encoder/src/ring.c): ranks that walk, links that carry. */
#include <longreel/ring_sim.h>

#include <math.h>
#include <string.h>

#include <longreel/core.h>

#define MOST_RANKS 16384
#define MOST_PAIRS ((uint64_t)1 << 25) /* ranks times chunks: some hundred MB */

static const lr_mask full = {LR_MASK_FULL, 0};

enum { WITHIN, BETWEEN, LEVELS };

typedef enum event_kind { EVENT_ARRIVED, EVENT_LINK_FREE, EVENT_CHECKED, EVENT_VISITED } event_kind;

typedef struct event {
    double time;
    uint64_t number; /* events of one time happen in the order they were planned in */
    uint32_t chunk;
    int16_t rank, from;
    uint8_t kind, level;
} event;

typedef struct parcel {
    uint32_t chunk, order; /* of sending */
    int16_t to;
} parcel;

typedef struct sim_link { /* of a rank, on one level */
    parcel *queue;        /* to go out, their receives posted; in order */
    size_t first, end, capacity;
    bool busy_out, busy_in;
} sim_link;

enum { TO_COME, HAS_COME, PASSED_ON };

typedef enum doing { WAITS, CHECKS, VISITS, SETTLES, ENDS, THROUGH } doing;

typedef struct sim_rank {
    uint64_t own_first, own_end;
    uint64_t next;           /* the chunk it is at */
    uint64_t posted_end;     /* receives of chunks before this are posted */
    uint64_t n_posted, n_taken;
    uint64_t n_before_own;   /* receives of chunks before the own ones that have not come: those go after */
    uint64_t checked;        /* the chunk whose checksum is made */
    uint64_t n_under_way;    /* its sends */
    double tokens;           /* queries */
    struct {
        uint64_t chunk;
        int unsettled;       /* sends that read it */
    } slots[LR_EXCHANGE_MOST_AHEAD]; /* [ahead] */
    sim_link links[LEVELS];
    doing doing;
} sim_rank;

typedef struct sim {
    const lr_sim_layer *layer;
    const lr_sim_machine *machine;
    bool computes;
    lr_partition parts;
    uint64_t n;              /* chunks */
    bool passes_on;          /* ranks pass on chunks of others */
    sim_rank *ranks;
    /* [n_ranks, n]: who hands the chunk to the rank, -1: nobody; the first that the rank hands it to, and
     * who is next after the rank among those of the same giver, -1: none. */
    int16_t *source, *child, *sibling;
    uint8_t *state;          /* [n_ranks, n]: of a receive */
    uint32_t *order, n_sends; /* [n_ranks, n]: of a send to the rank whose receive is not posted; 0: none */
    uint32_t *blocked, look; /* [n_ranks]: the look in which an earlier chunk was found to go there first */
    size_t ahead;
    event *heap;
    size_t n_events, capacity;
    uint64_t n_planned, messages;
    double now, bytes;
    lr_status status;        /* the first failure inside an event */
    lr_error *err;
} sim;

static size_t pair(const sim *s, int rank, uint64_t chunk) {
    return (size_t)rank * (size_t)s->n + (size_t)chunk;
}

/* ------------------------------------------------------------------ events */

static bool earlier(const event *a, const event *b) {
    return a->time < b->time || (a->time == b->time && a->number < b->number);
}

static void plan(sim *s, double delay, event e) {
    if (s->status != LR_OK) return;
    s->status = LR_GROW(&s->heap, &s->capacity, s->n_events + 1, "events", s->err);
    if (s->status != LR_OK) return;
    e.time = s->now + delay;
    e.number = s->n_planned++;
    size_t at = s->n_events++;
    for (; at > 0 && earlier(&e, &s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = e;
}

static event take_next(sim *s) {
    event first = s->heap[0], last = s->heap[--s->n_events];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= s->n_events) break;
        if (child + 1 < s->n_events && earlier(&s->heap[child + 1], &s->heap[child])) child++;
        if (!earlier(&s->heap[child], &last)) break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
    return first;
}

/* ------------------------------------------------------------------ links */

static int level_of(const sim *s, int a, int b) {
    int g = s->machine->node_ranks;
    return g > 0 && a / g != b / g ? BETWEEN : WITHIN;
}

static double message_bytes(const sim *s, uint64_t chunk) {
    const lr_sim_layer *l = s->layer;
    double values = 2.0 * (double)lr_partition_chunk_tokens(&s->parts, chunk) *
                    (double)(l->shape.n_kv_heads * l->shape.head_dim);
    return (double)sizeof(lr_chunk_header) + values * (double)l->value_bytes;
}

/* The first parcel whose receiver waits for it, on a free link into it. */
static bool find_parcel(sim *s, sim_link *out, int level, size_t *place) {
    for (size_t i = out->first; i < out->end; i++) {
        if (s->ranks[out->queue[i].to].links[level].busy_in) continue;
        *place = i;
        return true;
    }
    return false;
}

static void try_link(sim *s, int rank, int level) {
    sim_link *out = &s->ranks[rank].links[level];
    double rate = level == WITHIN ? s->machine->link : s->machine->link_between;
    size_t i;
    while (!out->busy_out && find_parcel(s, out, level, &i)) {
        parcel p = out->queue[i];
        memmove(&out->queue[out->first + 1], &out->queue[out->first], (i - out->first) * sizeof p);
        if (++out->first == out->end) out->first = out->end = 0;
        double seconds = isinf(rate) ? 0 : message_bytes(s, p.chunk) / rate;
        event e = {.chunk = p.chunk, .rank = p.to, .from = (int16_t)rank, .level = (uint8_t)level};
        if (seconds > 0) {
            out->busy_out = s->ranks[p.to].links[level].busy_in = true;
            e.kind = EVENT_LINK_FREE;
            plan(s, seconds, e);
        }
        e.kind = EVENT_ARRIVED;
        plan(s, seconds + (level == WITHIN ? s->machine->latency : s->machine->latency_between), e);
        s->messages++;
        s->bytes += message_bytes(s, p.chunk);
    }
}

/* To the parcels that may go, at its place in the order of sending. */
static void queue_parcel(sim *s, int rank, int level, parcel p) {
    sim_link *out = &s->ranks[rank].links[level];
    if (s->status != LR_OK) return;
    s->status = LR_GROW(&out->queue, &out->capacity, out->end + 1, "parcels", s->err);
    if (s->status != LR_OK) return;
    size_t at = out->end++;
    for (; at > out->first && out->queue[at - 1].order > p.order; at--) out->queue[at] = out->queue[at - 1];
    out->queue[at] = p;
    try_link(s, rank, level);
}

static void send(sim *s, int rank, uint64_t chunk, int to) {
    parcel p = {.chunk = (uint32_t)chunk, .order = ++s->n_sends, .to = (int16_t)to};
    s->ranks[rank].n_under_way++;
    if (chunk < s->ranks[to].posted_end) queue_parcel(s, rank, level_of(s, rank, to), p);
    else s->order[pair(s, to, chunk)] = p.order;
}

static void receive(sim *s, int rank, uint64_t chunk, int from) {
    parcel p = {.chunk = (uint32_t)chunk, .order = s->order[pair(s, rank, chunk)], .to = (int16_t)rank};
    if (p.order > 0) queue_parcel(s, from, level_of(s, from, rank), p);
}

static int send_to_all(sim *s, int rank, uint64_t chunk) {
    int count = 0;
    for (int to = s->child[pair(s, rank, chunk)]; to >= 0; to = s->sibling[pair(s, to, chunk)], count++) {
        send(s, rank, chunk, to);
    }
    return count;
}

static void send_own(sim *s, int rank) {
    const sim_rank *r = &s->ranks[rank];
    for (uint64_t c = r->own_first; c < r->own_end; c++) (void)send_to_all(s, rank, c);
}

/* ------------------------------------------------------------------ the walk */

/* Posts receives ahead; false when the sends that read a buffer must end first. */
static bool post_ahead(sim *s, int rank) {
    sim_rank *r = &s->ranks[rank];
    while (r->posted_end < s->n && (s->machine->shares_memory || r->n_posted < r->n_taken + s->ahead)) {
        uint64_t chunk = r->posted_end;
        int from = s->source[pair(s, rank, chunk)];
        if (from >= 0 && !s->machine->shares_memory) {
            if (r->slots[r->n_posted % s->ahead].unsettled > 0) return false;
            r->slots[r->n_posted++ % s->ahead].chunk = chunk;
        }
        r->posted_end++;
        if (from >= 0) receive(s, rank, chunk, from);
    }
    return true;
}

/* True where it takes no time. */
static bool visit(sim *s, int rank) {
    sim_rank *r = &s->ranks[rank];
    double tokens = (double)lr_partition_chunk_tokens(&s->parts, r->next), seconds = 0;
    if (s->computes) { /* nothing for a rank without queries */
        seconds = 4 * r->tokens * tokens * (double)(s->layer->n_heads * s->layer->shape.head_dim) /
                  s->machine->flops;
    }
    r->doing = VISITS;
    if (seconds > 0) plan(s, seconds, (event){.kind = EVENT_VISITED, .rank = (int16_t)rank});
    return seconds <= 0;
}

/* True when it has visited the chunk. */
static bool settle_and_visit(sim *s, int rank) {
    if (post_ahead(s, rank)) return visit(s, rank);
    s->ranks[rank].doing = SETTLES;
    return false;
}

static void go_on(sim *s, int rank) {
    sim_rank *r = &s->ranks[rank];
    r->n_taken += s->source[pair(s, rank, r->next)] >= 0;
    r->next++;
}

/* The chunk is there, and what it must be. */
static void pass_on(sim *s, int rank, uint64_t chunk) {
    sim_rank *r = &s->ranks[rank];
    s->state[pair(s, rank, chunk)] = PASSED_ON;
    int count = send_to_all(s, rank, chunk);
    for (size_t i = 0; i < s->ahead && !s->machine->shares_memory; i++) {
        if (r->slots[i].chunk == chunk) r->slots[i].unsettled = count;
    }
    if (chunk < r->own_first && r->n_before_own > 0 && --r->n_before_own == 0) send_own(s, rank);
}

/* A chunk that has come and goes after no other: the one it is at, or one posted after it. */
static bool find_to_pass_on(sim *s, int rank, uint64_t *found) {
    const sim_rank *r = &s->ranks[rank];
    s->look++;
    for (uint64_t c = r->next; c < r->posted_end; c++) {
        size_t at = pair(s, rank, c);
        bool blocked = false;
        if (s->source[at] < 0 || s->state[at] == PASSED_ON) continue;
        if (c >= r->own_end && r->n_before_own > 0) return false;
        for (int to = s->child[at]; to >= 0; to = s->sibling[pair(s, to, c)]) {
            blocked = blocked || s->blocked[to] == s->look;
        }
        *found = c;
        if (s->state[at] == HAS_COME && !blocked) return true;
        if (!s->passes_on) return false; /* it looks at the one it is at only */
        for (int to = s->child[at]; to >= 0; to = s->sibling[pair(s, to, c)]) s->blocked[to] = s->look;
    }
    return false;
}

/* As far as the chunk at which it has to wait, or to work. True: that chunk is visited, and took no time. */
static bool step(sim *s, int rank) {
    sim_rank *r = &s->ranks[rank];
    while (r->next < s->n && s->source[pair(s, rank, r->next)] < 0 &&
           (r->next < r->own_first || r->next >= r->own_end)) {
        r->next++;
    }
    if (r->next == s->n) {
        r->doing = r->n_under_way > 0 ? ENDS : THROUGH;
        return false;
    }
    bool own = s->source[pair(s, rank, r->next)] < 0;
    uint64_t chunk;
    while (find_to_pass_on(s, rank, &chunk)) {
        if (!s->passes_on && chunk != r->next) break;
        if (s->machine->check > 0) {
            r->doing = CHECKS;
            r->checked = chunk;
            plan(s, message_bytes(s, chunk) / s->machine->check,
                 (event){.kind = EVENT_CHECKED, .rank = (int16_t)rank});
            return false;
        }
        pass_on(s, rank, chunk);
    }
    if (own || s->state[pair(s, rank, r->next)] == PASSED_ON) return settle_and_visit(s, rank);
    r->doing = WAITS;
    return false;
}

static void walk(sim *s, int rank) {
    while (step(s, rank)) go_on(s, rank);
}

static void visited(sim *s, int rank) {
    go_on(s, rank);
    walk(s, rank);
}

static void sent(sim *s, int rank, uint64_t chunk) {
    sim_rank *r = &s->ranks[rank];
    r->n_under_way--;
    for (size_t i = 0; i < s->ahead && !s->machine->shares_memory; i++) {
        if (r->slots[i].unsettled > 0 && r->slots[i].chunk == chunk) r->slots[i].unsettled--;
    }
    if (r->doing == SETTLES && settle_and_visit(s, rank)) visited(s, rank);
    if (r->doing == ENDS && r->n_under_way == 0) r->doing = THROUGH;
}

static void link_free(sim *s, const event *e) {
    sim_rank *to = &s->ranks[e->rank];
    s->ranks[e->from].links[e->level].busy_out = to->links[e->level].busy_in = false;
    try_link(s, e->from, e->level);
    for (uint64_t c = to->next; c < to->posted_end && !to->links[e->level].busy_in; c++) {
        int from = s->source[pair(s, e->rank, c)];
        if (from >= 0 && s->state[pair(s, e->rank, c)] == TO_COME) try_link(s, from, e->level);
    }
}

static void happen(sim *s, const event *e) {
    switch ((event_kind)e->kind) {
    case EVENT_ARRIVED:
        s->state[pair(s, e->rank, e->chunk)] = HAS_COME;
        sent(s, e->from, e->chunk);
        if (s->ranks[e->rank].doing == WAITS && s->ranks[e->rank].next == e->chunk) walk(s, e->rank);
        break;
    case EVENT_LINK_FREE: link_free(s, e); break;
    case EVENT_CHECKED:
        pass_on(s, e->rank, s->ranks[e->rank].checked);
        walk(s, e->rank);
        break;
    case EVENT_VISITED: visited(s, e->rank); break;
    }
}

/* ------------------------------------------------------------------ a run */

static lr_status begin(sim *s, lr_error *err) {
    lr_status st = LR_OK;
    const lr_sim_layer *l = s->layer;
    size_t ranks = (size_t)l->n_ranks, pairs;
    if (l->n_ranks < 1 || l->n_ranks > MOST_RANKS || l->chunk == 0 || l->n_tokens == 0 ||
        l->n_tokens / l->chunk >= MOST_PAIRS / ranks) {
        LR_FAIL(LR_E_USAGE, "%llu tokens in chunks of %llu on %d ranks are too much to simulate: take larger "
                "chunks", (unsigned long long)l->n_tokens, (unsigned long long)l->chunk, l->n_ranks);
    }
    LR_TRY(lr_partition_create(&s->parts, l->n_tokens, l->chunk, l->n_ranks, err));
    s->n = s->parts.n_chunks;
    s->passes_on = l->schedule == LR_SCHEDULE_RING || l->schedule == LR_SCHEDULE_TWO_LEVEL;
    s->ahead = (size_t)lr_exchange_ahead(&s->parts, l->schedule, s->machine->node_ranks);
    pairs = ranks * (size_t)s->n;
    LR_TRY(LR_NEW(&s->ranks, ranks, "ranks", err));
    LR_TRY(LR_NEW(&s->source, pairs, "routes", err));
    LR_TRY(LR_NEW(&s->child, pairs, "routes", err));
    LR_TRY(LR_NEW(&s->sibling, pairs, "routes", err));
    LR_TRY(LR_NEW(&s->state, pairs, "arrivals", err));
    LR_TRY(LR_NEW(&s->order, pairs, "sends", err));
    LR_TRY(LR_NEW(&s->blocked, ranks, "ranks", err));
    memset(s->child, 0xff, pairs * sizeof *s->child);
    for (int r = l->n_ranks - 1; r >= 0; r--) {
        for (uint64_t c = 0; c < s->n; c++) {
            int from = lr_exchange_source(&s->parts, &full, l->schedule, s->machine->node_ranks, r, c);
            s->source[pair(s, r, c)] = (int16_t)from;
            s->sibling[pair(s, r, c)] = from >= 0 ? s->child[pair(s, from, c)] : (int16_t)-1;
            if (from >= 0) s->child[pair(s, from, c)] = (int16_t)r;
        }
    }
done:
    return st;
}

static void set_off(sim *s) {
    for (int rank = 0; rank < s->layer->n_ranks; rank++) {
        sim_rank *r = &s->ranks[rank];
        *r = (sim_rank){.own_first = s->parts.first_chunk[rank], .own_end = s->parts.first_chunk[rank + 1]};
        r->tokens = (double)(lr_partition_end_token(&s->parts, rank) - lr_partition_first_token(&s->parts, rank));
        for (uint64_t c = 0; s->passes_on && c < r->own_first; c++) {
            r->n_before_own += s->source[pair(s, rank, c)] >= 0;
        }
    }
    for (int rank = 0; rank < s->layer->n_ranks; rank++) {
        if (s->ranks[rank].n_before_own == 0) send_own(s, rank);
        (void)post_ahead(s, rank);
    }
    for (int rank = 0; rank < s->layer->n_ranks; rank++) walk(s, rank);
}

static void finish(sim *s) {
    for (int r = 0; s->ranks && r < s->layer->n_ranks; r++) {
        for (int level = 0; level < LEVELS; level++) lr_free(s->ranks[r].links[level].queue);
    }
    lr_free(s->heap);
    lr_free(s->blocked);
    lr_free(s->order);
    lr_free(s->state);
    lr_free(s->sibling);
    lr_free(s->child);
    lr_free(s->source);
    lr_free(s->ranks);
    lr_partition_free(&s->parts);
}

static lr_status run(const lr_sim_layer *layer, const lr_sim_machine *machine, bool computes, double *seconds,
                     lr_sim_result *out, lr_error *err) {
    lr_status st = LR_OK;
    sim s = {.layer = layer, .machine = machine, .computes = computes, .err = err};
    LR_TRY(begin(&s, err));
    set_off(&s);
    while (s.n_events > 0 && s.status == LR_OK) {
        event e = take_next(&s);
        s.now = e.time;
        happen(&s, &e);
    }
    LR_TRY(s.status);
    for (int r = 0; r < layer->n_ranks; r++) {
        if (s.ranks[r].doing != THROUGH) LR_FAIL(LR_E_INTERNAL, "rank %d of the simulation waits for ever", r);
    }
    *seconds = s.now;
    out->bytes_sent = s.bytes;
    out->messages = s.messages;
done:
    finish(&s);
    return st;
}

double lr_sim_flop(const lr_sim_layer *layer) {
    return 4 * (double)layer->n_tokens * (double)layer->n_tokens *
           (double)(layer->n_heads * layer->shape.head_dim);
}

/* Without transfers each rank works its tokens against all keys. */
static lr_status compute_alone(const lr_sim_layer *layer, const lr_sim_machine *machine, double *seconds,
                               lr_error *err) {
    lr_partition parts;
    lr_status st = lr_partition_create(&parts, layer->n_tokens, layer->chunk, layer->n_ranks, err);
    if (st != LR_OK) return st;
    uint64_t most = lr_partition_end_token(&parts, 0); /* no rank has more */
    *seconds = lr_sim_flop(layer) / (double)layer->n_tokens * (double)most / machine->flops;
    lr_partition_free(&parts);
    return LR_OK;
}

lr_status lr_ring_simulate(const lr_sim_layer *layer, const lr_sim_machine *machine, lr_sim_result *out,
                           lr_error *err) {
    lr_status st = LR_OK;
    *out = (lr_sim_result){0};
    LR_TRY(compute_alone(layer, machine, &out->compute, err));
    LR_TRY(run(layer, machine, false, &out->transfer, out, err));
    LR_TRY(run(layer, machine, true, &out->seconds, out, err));
    out->hidden = out->transfer > 0 ? 1 - (out->seconds - out->compute) / out->transfer : 1;
done:
    return st;
}

lr_status lr_ring_simulate_seconds(const lr_sim_layer *layer, const lr_sim_machine *machine, double *seconds,
                                   lr_error *err) {
    lr_sim_result ignored;
    return run(layer, machine, true, seconds, &ignored, err);
}

/* ------------------------------------------------------------------ questions */

static double slowest_link(const lr_sim_layer *layer, const lr_sim_machine *machine) {
    int g = machine->node_ranks;
    if (g <= 0 || g >= layer->n_ranks) return machine->link;
    double between = machine->link_between; /* links in the way work side by side on two levels */
    if (layer->schedule == LR_SCHEDULE_TWO_LEVEL) between *= g;
    return between < machine->link ? between : machine->link;
}

double lr_sim_hidden_from(const lr_sim_layer *layer, const lr_sim_machine *machine) {
    double heads = 2 * (double)layer->n_heads / (double)layer->shape.n_kv_heads;
    return (double)layer->n_ranks * machine->flops * (double)layer->value_bytes /
           (heads * slowest_link(layer, machine));
}

static lr_status hidden_at(lr_sim_layer layer, const lr_sim_machine *machine, double tokens, double share,
                           bool *enough, lr_error *err) {
    lr_sim_result result;
    layer.n_tokens = (uint64_t)tokens;
    lr_status st = lr_ring_simulate(&layer, machine, &result, err);
    *enough = st == LR_OK && result.hidden >= share;
    return st;
}

lr_status lr_sim_find_hidden(const lr_sim_layer *layer, const lr_sim_machine *machine, double share,
                             uint64_t most, uint64_t *tokens, lr_error *err) {
    lr_status st = LR_OK;
    double low = (double)layer->chunk * layer->n_ranks, high, guess = lr_sim_hidden_from(layer, machine) / 2;
    bool enough = false;
    *tokens = 0;
    for (high = guess > low ? guess : low; high <= (double)most; high *= 2) {
        LR_TRY(hidden_at(*layer, machine, high, share, &enough, err));
        if (enough) break;
        low = high;
    }
    if (!enough) goto done;
    while (high > low * 1.05) {
        double middle = sqrt(low * high);
        LR_TRY(hidden_at(*layer, machine, middle, share, &enough, err));
        if (enough) high = middle;
        else low = middle;
    }
    *tokens = (uint64_t)high;
done:
    return st;
}

lr_status lr_sim_choose(const lr_sim_layer *layer, const lr_sim_machine *machine, lr_schedule *out,
                        lr_error *err) {
    static const lr_schedule all[] = {LR_SCHEDULE_RING, LR_SCHEDULE_TWO_LEVEL, LR_SCHEDULE_ALL_GATHER};
    lr_status st = LR_OK;
    double best = INFINITY;
    bool one_node = machine->node_ranks <= 1 || machine->node_ranks >= layer->n_ranks;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        lr_sim_layer tried = *layer;
        lr_sim_result result = {0};
        double seconds;
        tried.schedule = all[i];
        if (all[i] == LR_SCHEDULE_TWO_LEVEL && one_node) continue;
        LR_TRY(run(&tried, machine, true, &seconds, &result, err));
        if (seconds >= best * 0.999) continue;
        best = seconds;
        *out = all[i];
    }
done:
    return st;
}
