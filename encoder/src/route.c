#include "exchange.h"

/* The ranges of a mask rise with the token, and neighbours' overlap or touch: what a run of queries
 * sees is one range. Empty for a rank without queries. */
static void seen_by(const lr_partition *p, const lr_mask *mask, int rank, uint64_t *lo,
                    uint64_t *hi)
{
    uint64_t first = lr_partition_first_token(p, rank), end = lr_partition_end_token(p, rank);
    uint64_t ignored;
    *lo = *hi = 0;
    if (first == end) return;
    lr_mask_range(mask, first, p->n_tokens, lo, &ignored);
    lr_mask_range(mask, end - 1, p->n_tokens, &ignored, hi);
}

static bool meets(const lr_partition *p, uint64_t chunk, uint64_t lo, uint64_t hi)
{
    uint64_t first = chunk * p->chunk;
    return lo < hi && first < hi && first + lr_partition_chunk_tokens(p, chunk) > lo;
}

bool lr_rank_needs(const lr_partition *p, const lr_mask *mask, int rank, uint64_t chunk)
{
    uint64_t lo, hi;
    seen_by(p, mask, rank, &lo, &hi);
    return meets(p, chunk, lo, hi);
}

/* Four chunks a rank: below, the fill of the ring (a transfer for each of the other ranks) costs
 * more than its even links save. */
static bool passes_on(const lr_partition *p, const lr_mask *mask, lr_schedule schedule)
{
    if (schedule != LR_SCHEDULE_AUTO)
        return schedule == LR_SCHEDULE_RING || schedule == LR_SCHEDULE_TWO_LEVEL;
    return mask->kind != LR_MASK_WINDOW && p->n_chunks / 4 >= (uint64_t)p->n_ranks;
}

void lr_route_init(lr_route *route, const lr_partition *p, const lr_mask *mask,
                   lr_schedule schedule, int node_ranks, int rank)
{
    int size = node_ranks < 1 || node_ranks > p->n_ranks ? p->n_ranks : node_ranks;
    /* By itself it is the ring where there is one node. */
    bool ring = schedule == LR_SCHEDULE_RING || (schedule == LR_SCHEDULE_AUTO && size == p->n_ranks);
    *route = (lr_route){.partition = p,
                        .mask = mask,
                        .passed_on = passes_on(p, mask, schedule),
                        .node_ranks = ring ? 1 : size,
                        .rank = rank,
                        .own_first = p->first_chunk[rank],
                        .own_end = p->first_chunk[rank + 1]};
    route->n_nodes = (p->n_ranks - 1) / route->node_ranks + 1;
    seen_by(p, mask, rank, &route->see_lo, &route->see_hi);
}

bool lr_route_owns(const lr_route *route, uint64_t chunk)
{
    return chunk >= route->own_first && chunk < route->own_end;
}

bool lr_route_needs(const lr_route *route, uint64_t chunk)
{
    return meets(route->partition, chunk, route->see_lo, route->see_hi);
}

/* ------------------------------------------------------------------ the tree of a chunk
 *
 * From its owner to the other ranks of the node; to the next node from the node's gate for the chunk, to
 * that one's gate, and on to the ranks there. The ring: nodes of one rank. */

static int ranks_of_node(const lr_route *route, int node)
{
    int left = route->partition->n_ranks - node * route->node_ranks;
    return left < route->node_ranks ? left : route->node_ranks;
}

/* Neighbouring chunks take different gates, so that all links between two nodes are at work. */
static int gate_of(const lr_route *route, uint64_t chunk, int node)
{
    uint64_t size = (uint64_t)ranks_of_node(route, node);
    return node * route->node_ranks + (int)(chunk % size);
}

/* Who hands the owner's chunk to `rank`; not for the owner itself. */
static int parent_of(const lr_route *route, int owner, uint64_t chunk, int rank)
{
    int node = rank / route->node_ranks, before = (node + route->n_nodes - 1) % route->n_nodes;
    int gate = gate_of(route, chunk, node);
    if (node == owner / route->node_ranks) return owner;
    return rank == gate ? gate_of(route, chunk, before) : gate;
}

/* `rank` or one that it passes the chunk on to needs it. */
static bool branch_needs(const lr_route *route, int owner, int rank, uint64_t chunk)
{
    const lr_partition *p = route->partition;
    int node = rank / route->node_ranks, home = owner / route->node_ranks, n = route->n_nodes;
    if (lr_rank_needs(p, route->mask, rank, chunk)) return true;
    if (rank != gate_of(route, chunk, node)) return false;
    for (int r = 0; r < p->n_ranks; r++) {
        int other = r / route->node_ranks;
        bool behind = other == node ? node != home : (other - home + n) % n > (node - home + n) % n;
        if (behind && lr_rank_needs(p, route->mask, r, chunk)) return true;
    }
    return false;
}

int lr_route_source(const lr_route *route, uint64_t chunk)
{
    if (lr_route_owns(route, chunk)) return -1;
    int owner = lr_partition_owner(route->partition, chunk);
    if (!route->passed_on) return lr_route_needs(route, chunk) ? owner : -1;
    if (!branch_needs(route, owner, route->rank, chunk)) return -1;
    return parent_of(route, owner, chunk, route->rank);
}

bool lr_route_sends(const lr_route *route, uint64_t chunk, int peer)
{
    if (peer == route->rank) return false;
    if (!route->passed_on)
        return lr_route_owns(route, chunk) &&
               lr_rank_needs(route->partition, route->mask, peer, chunk);
    int owner = lr_partition_owner(route->partition, chunk);
    return peer != owner && parent_of(route, owner, chunk, peer) == route->rank &&
           branch_needs(route, owner, peer, chunk);
}

/* Two on each link between two nodes, one on its way and the next, so that none stands still. */
int lr_route_ahead(const lr_route *route)
{
    if (!route->passed_on || route->node_ranks == 1) return 2;
    int most = LR_EXCHANGE_MOST_AHEAD;
    return route->node_ranks < most / 2 ? 2 * route->node_ranks + 2 : most;
}

/* ------------------------------------------------------------------ for those who foretell */

int lr_exchange_source(const lr_partition *p, const lr_mask *mask, lr_schedule schedule,
                       int node_ranks, int rank, uint64_t chunk)
{
    lr_route route;
    lr_route_init(&route, p, mask, schedule, node_ranks, rank);
    return lr_route_source(&route, chunk);
}

int lr_exchange_ahead(const lr_partition *p, lr_schedule schedule, int node_ranks)
{
    lr_route route;
    const lr_mask full = {LR_MASK_FULL, 0};
    lr_route_init(&route, p, &full, schedule, node_ranks, 0);
    return lr_route_ahead(&route);
}

static uint64_t overlap(const lr_route *route, uint64_t chunk)
{
    uint64_t lo = chunk * route->partition->chunk;
    uint64_t hi = lo + lr_partition_chunk_tokens(route->partition, chunk);
    if (lo < route->see_lo) lo = route->see_lo;
    if (hi > route->see_hi) hi = route->see_hi;
    return hi - lo;
}

void lr_exchange_expect(const lr_partition *p, const lr_kv_shape *shape, const lr_mask *mask,
                        lr_schedule schedule, int node_ranks, int rank, lr_ring_stats *expected)
{
    lr_route route;
    lr_route_init(&route, p, mask, schedule, node_ranks, rank);
    *expected = (lr_ring_stats){0};
    for (uint64_t chunk = 0; chunk < p->n_chunks; chunk++) {
        bool needed = lr_route_needs(&route, chunk), passed = false;
        if (needed) {
            expected->chunks_seen++;
            expected->keys_seen += overlap(&route, chunk);
        }
        for (int peer = 0; peer < p->n_ranks; peer++) {
            if (!lr_route_sends(&route, chunk, peer)) continue;
            expected->chunks_sent++;
            expected->bytes_sent += lr_chunk_bytes(shape, lr_partition_chunk_tokens(p, chunk));
            passed = !needed && !lr_route_owns(&route, chunk);
        }
        expected->chunks_passed += passed;
    }
}
