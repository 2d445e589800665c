#include "ring_case.h"
#include "rank_check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const mask_names[] = {"full", "window", "causal"};
static const char *const schedule_names[] = {"auto", "ring", "all-gather", "halo",
                                             "two-level"};
static const char *const comm_names[] = {"local", "lazy", "eager"};

ring_case ring_case_of(uint64_t n_tokens, uint64_t chunk, int n_ranks, lr_mask mask,
                       lr_schedule schedule)
{
    return (ring_case){.n_tokens = n_tokens,
                       .chunk = chunk,
                       .n_ranks = n_ranks,
                       .mask = mask,
                       .schedule = schedule,
                       .shape = {1, 4},
                       .n_layers = 2,
                       .sequence = 3,
                       .peer_timeout = 120,
                       .stop_rank = -1};
}

void ring_case_describe(const ring_case *c, char *text, size_t bytes)
{
    (void)snprintf(text, bytes,
                   "%llu tokens in chunks of %llu over %d ranks, %s mask (%llu), %s schedule (nodes "
                   "of %d), shape [%zu, %zu], %u layers, %s communicator",
                   (unsigned long long)c->n_tokens, (unsigned long long)c->chunk, c->n_ranks,
                   mask_names[c->mask.kind], (unsigned long long)c->mask.radius,
                   schedule_names[c->schedule], c->node_ranks, c->shape.n_kv_heads, c->shape.head_dim,
                   c->n_layers, comm_names[c->comm]);
}

/* ------------------------------------------------------------------ what must be */

static bool sees(const lr_mask *mask, uint64_t query, uint64_t key)
{
    uint64_t distance = query > key ? query - key : key - query;
    if (mask->kind == LR_MASK_WINDOW) return distance <= mask->radius;
    return mask->kind == LR_MASK_FULL || key <= query;
}

bool ring_case_sees(const ring_case *c, const lr_partition *p, int rank, uint64_t key)
{
    for (uint64_t q = lr_partition_first_token(p, rank); q < lr_partition_end_token(p, rank); q++)
        if (sees(&c->mask, q, key)) return true;
    return false;
}

static bool needs(const ring_case *c, const lr_partition *p, int rank, uint64_t chunk)
{
    for (uint64_t i = 0; i < lr_partition_chunk_tokens(p, chunk); i++)
        if (ring_case_sees(c, p, rank, chunk * c->chunk + i)) return true;
    return false;
}

static bool is_passed_on(const ring_case *c, const lr_partition *p)
{
    if (c->schedule != LR_SCHEDULE_AUTO)
        return c->schedule == LR_SCHEDULE_RING || c->schedule == LR_SCHEDULE_TWO_LEVEL;
    return c->mask.kind != LR_MASK_WINDOW && p->n_chunks >= 4 * (uint64_t)c->n_ranks;
}

/* from[r]: the rank that hands the owner's chunk to r; -1 for the owner. */
static void draw_tree(const ring_case *c, int owner, uint64_t chunk, int from[LR_LOCAL_MAX])
{
    int n = c->n_ranks, g = c->schedule == LR_SCHEDULE_TWO_LEVEL ? c->node_ranks : 1;
    if (g < 1 || g > n) g = n;
    int nodes = (n + g - 1) / g, giver = -1;
    for (int step = 0; step < nodes; step++) {
        int first = (owner / g + step) % nodes * g, size = n - first < g ? n - first : g;
        int gate = first + (int)(chunk % (uint64_t)size), entry = step == 0 ? owner : gate;
        for (int r = first; r < first + size; r++) from[r] = r == entry ? giver : entry;
        giver = gate;
    }
}

/* Links out of `rank` that the chunk takes on its ways to the ranks that need it. */
static uint64_t links_taken(const ring_case *c, const lr_partition *p, int rank, uint64_t chunk)
{
    int from[LR_LOCAL_MAX];
    bool taken[LR_LOCAL_MAX] = {false};
    uint64_t count = 0;
    draw_tree(c, lr_partition_owner(p, chunk), chunk, from);
    for (int r = 0; r < c->n_ranks; r++)
        for (int to = r; needs(c, p, r, chunk) && from[to] >= 0; to = from[to]) taken[to] = true;
    for (int to = 0; to < c->n_ranks; to++) count += taken[to] && from[to] == rank;
    return count;
}

void ring_case_count(const ring_case *c, const lr_partition *p, int rank, lr_ring_stats *counted)
{
    *counted = (lr_ring_stats){0};
    for (uint64_t key = 0; key < c->n_tokens; key++)
        counted->keys_seen += ring_case_sees(c, p, rank, key);
    for (uint64_t chunk = 0; chunk < p->n_chunks; chunk++) {
        uint64_t copies = 0;
        bool owned = lr_partition_owner(p, chunk) == rank, needed = needs(c, p, rank, chunk);
        counted->chunks_seen += needed;
        if (is_passed_on(c, p)) {
            copies = links_taken(c, p, rank, chunk);
            if (copies && !owned && !needed) counted->chunks_passed++;
        } else if (owned) {
            for (int r = 0; r < c->n_ranks; r++) copies += r != rank && needs(c, p, r, chunk);
        }
        counted->chunks_sent += copies;
        counted->bytes_sent +=
            copies * lr_chunk_bytes(&c->shape, lr_partition_chunk_tokens(p, chunk));
    }
}

/* ------------------------------------------------------------------ payloads */

/* Bits that follow from the place alone; any bits will do, NaNs too. */
static uint32_t payload_bits(uint32_t layer, size_t head, uint64_t token, size_t dim, bool value)
{
    uint64_t x = token * 0x9e3779b97f4a7c15u + dim * 0xbf58476d1ce4e5b9u + head * 0x94d049bbu +
                 layer * 0x133111ebu + value;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (uint32_t)(x >> 32);
}

/* The word at `at` of the chunk's payload, by the layout in ring.h. */
static uint32_t word_at(const ring_case *c, uint32_t layer, uint64_t first, uint64_t n, size_t at)
{
    size_t dim = c->shape.head_dim, keys = (size_t)((n + 15) / 16) * 16 * dim;
    size_t head = at / (keys + (size_t)n * dim), rest = at % (keys + (size_t)n * dim);
    if (rest >= keys)
        return payload_bits(layer, head, first + (rest - keys) / dim, (rest - keys) % dim, true);
    uint64_t in_chunk = rest / (16 * dim) * 16 + rest % 16;
    if (in_chunk >= n) return 0;
    return payload_bits(layer, head, first + in_chunk, rest / 16 % dim, false);
}

typedef struct walker {
    const ring_case *c;
    const lr_partition *p;
    lr_comm *comm;
    uint32_t layer;
    uint64_t n_visits;  /* of all layers */
    uint64_t next_key;  /* all smaller ones were seen, or are not visible */
    lr_chunk_header **own;
    lr_ring_stats total;
    unsigned random;
} walker;

static void fill(const walker *w, lr_chunk_header *chunk, uint64_t index)
{
    uint64_t n = lr_partition_chunk_tokens(w->p, index);
    size_t words = (lr_chunk_bytes(&w->c->shape, n) - sizeof *chunk) / 4;
    uint32_t *payload = (uint32_t *)(void *)(chunk + 1);
    for (size_t i = 0; i < words; i++)
        payload[i] = word_at(w->c, w->layer, index * w->c->chunk, n, i);
    lr_chunk_seal(chunk, w->p, w->layer, w->c->sequence, index, &w->c->shape);
}

static lr_status make_own(walker *w, lr_error *err)
{
    lr_status st = LR_OK;
    uint64_t first = w->p->first_chunk[w->comm->rank];
    uint64_t n = w->p->first_chunk[w->comm->rank + 1] - first;
    LR_TRY(LR_NEW(&w->own, (size_t)n + 1, "own chunks", err)); /* NULL ends them */
    for (uint64_t i = 0; i < n; i++) {
        size_t bytes = lr_chunk_bytes(&w->c->shape, lr_partition_chunk_tokens(w->p, first + i));
        w->own[i] = lr_alloc(bytes);
        if (!w->own[i]) LR_FAIL(LR_E_NOMEM, "out of memory: an own chunk");
        fill(w, w->own[i], first + i);
    }
done:
    return st;
}

/* Spoils them too: who still reads them after the exchange sees other bits. */
static void free_own(walker *w)
{
    for (size_t i = 0; w->own && w->own[i]; i++) {
        memset(w->own[i], 0x77, sizeof(lr_chunk_header) + 16);
        lr_free(w->own[i]);
    }
    lr_free(w->own);
    w->own = NULL;
}

/* ------------------------------------------------------------------ a rank */

static void dawdle(walker *w)
{
    if (!w->c->sleep_seed) return;
    w->random = w->random * 1664525u + 1013904223u;
    if (w->random >> 30 == 0) (void)usleep(w->random >> 8 & 511);
}

static lr_status check_visit(void *arg, const lr_chunk_header *chunk, lr_error *err)
{
    lr_status st = LR_OK;
    walker *w = arg;
    const ring_case *c = w->c;
    if (w->comm->rank == c->stop_rank && w->n_visits == c->stop_at && !c->spoil_payload)
        LR_FAIL(LR_E_NOMEM, "the visit gives up");
    w->n_visits++;
    dawdle(w);
    uint64_t n = lr_partition_chunk_tokens(w->p, chunk->index), first = chunk->index * c->chunk;
    RANK_CHECK(chunk->layer == w->layer && chunk->first_token == first && chunk->n_tokens == n);
    while (w->next_key < first) {
        RANK_CHECK(!ring_case_sees(c, w->p, w->comm->rank, w->next_key));
        w->next_key++;
    }
    RANK_CHECK(w->next_key == first);
    w->next_key += n;
    size_t words = (lr_chunk_bytes(&c->shape, n) - sizeof *chunk) / 4;
    const uint32_t *payload = (const uint32_t *)(const void *)(chunk + 1);
    if (c->spoil_payload && w->comm->rank == c->stop_rank) return LR_OK;
    for (size_t i = 0; i < words; i++)
        RANK_CHECK(payload[i] == word_at(c, w->layer, first, n, i));
done:
    return st;
}

static lr_status check_end(walker *w, const lr_ring_stats *stats, lr_error *err)
{
    lr_status st = LR_OK;
    lr_ring_stats counted, expected;
    for (; w->next_key < w->c->n_tokens; w->next_key++)
        RANK_CHECK(!ring_case_sees(w->c, w->p, w->comm->rank, w->next_key));
    lr_exchange_expect(w->p, &w->c->shape, &w->c->mask, w->c->schedule, w->c->node_ranks,
                       w->comm->rank, &expected);
    if (w->layer == 0) {
        ring_case_count(w->c, w->p, w->comm->rank, &counted);
        RANK_CHECK(memcmp(&counted, &expected, sizeof counted) == 0);
    }
    expected.seconds_waiting = stats->seconds_waiting;
    RANK_CHECK(memcmp(stats, &expected, sizeof expected) == 0);
    w->total.chunks_seen += stats->chunks_seen;
    w->total.keys_seen += stats->keys_seen;
    w->total.chunks_sent += stats->chunks_sent;
    w->total.bytes_sent += stats->bytes_sent;
    w->total.chunks_passed += stats->chunks_passed;
    RANK_CHECK(stats->seconds_waiting >= 0);
done:
    return st;
}

static lr_status run_layer(walker *w, lr_error *err)
{
    lr_status st = LR_OK;
    lr_arena arena = {0};
    lr_ring_stats stats;
    lr_exchange x = {.comm = w->comm,
                     .partition = w->p,
                     .shape = w->c->shape,
                     .mask = w->c->mask,
                     .layer = w->layer,
                     .sequence = w->c->sequence,
                     .schedule = w->c->schedule,
                     .node_ranks = w->c->node_ranks,
                     .arena = &arena,
                     .cancel = w->c->cancel};
    LR_TRY(make_own(w, err));
    x.own = w->own;
    if (w->c->spoil_payload && w->comm->rank == w->c->stop_rank && w->own[0])
        ((unsigned char *)(w->own[0] + 1))[w->c->stop_at] ^= 1;
    size_t scratch = lr_exchange_scratch(&x);
    size_t most = lr_chunk_bytes(&w->c->shape, w->c->chunk) + LR_ALIGN;
    size_t buffers = (size_t)lr_exchange_ahead(w->p, w->c->schedule, w->c->node_ranks);
    RANK_CHECK(scratch <= buffers * most && (scratch == 0 || !w->comm->shares_memory));
    if (scratch > 0)
        LR_TRY(lr_arena_init(&arena, scratch, "receive buffers", err));
    else
        x.arena = NULL;
    w->next_key = 0;
    LR_TRY(lr_exchange_run(&x, check_visit, w, &stats, err));
    RANK_CHECK(arena.used == 0);
    LR_TRY(check_end(w, &stats, err));
done:
    free_own(w);
    lr_arena_free(&arena);
    return st;
}

static lr_status rank_body(void *arg, lr_comm *inner, lr_error *err)
{
    lr_status st = LR_OK;
    const ring_case *c = arg;
    lr_partition p = {0};
    walker w = {.c = c, .p = &p, .comm = inner, .random = c->sleep_seed + (unsigned)inner->rank};
    if (c->comm != RING_COMM_LOCAL) {
        lrt_comm_kind kind = c->comm == RING_COMM_LAZY ? LRT_COMM_LAZY : LRT_COMM_EAGER;
        w.comm = NULL;
        LR_TRY(lrt_comm_wrap(inner, kind, c->fault, &w.comm, err));
    }
    LR_TRY(lr_partition_create(&p, c->n_tokens, c->chunk, c->n_ranks, err));
    for (w.layer = 0; w.layer < c->n_layers; w.layer++) LR_TRY(run_layer(&w, err));
    if (c->comm != RING_COMM_LOCAL) LR_TRY(lrt_comm_finish(w.comm, err));
    if (c->stats) c->stats[inner->rank] = w.total;
done:
    if (st != LR_OK) lr_comm_abort(inner, err->text);
    if (w.comm != inner) lr_comm_free(w.comm);
    lr_partition_free(&p);
    return st;
}

lr_status ring_case_run(const ring_case *c, lr_error *err)
{
    ring_case copy = *c;
    return lr_comm_local_run(c->n_ranks, c->peer_timeout, rank_body, &copy, err);
}

void ring_case_passes(const ring_case *c)
{
    lr_error err = {0};
    lr_status st = ring_case_run(c, &err);
    if (st == LR_OK) return;
    char text[512];
    ring_case_describe(c, text, sizeof text);
    fail_msg("%s: %s (%s)", text, err.text, lr_status_name(st));
}
