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
    bool one = node_ranks < 1 || node_ranks > p->n_ranks || schedule == LR_SCHEDULE_RING;
    *route = (lr_route){.partition = p,
                        .mask = mask,
                        .passed_on = passes_on(p, mask, schedule),
                        .node_ranks = one ? p->n_ranks : node_ranks,
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

/* ------------------------------------------------------------------ the tree of a chunk */

/* Where a rank stands in a chunk's tree. */
typedef struct place {
    int node, nodes_before;  /* from the owner's node on */
    int ranks_before;        /* from the one on that has the chunk first in this node */
} place;

static int ranks_of_node(const lr_route *route, int node)
{
    int left = route->partition->n_ranks - node * route->node_ranks;
    return left < route->node_ranks ? left : route->node_ranks;
}

/* The rank of a node that passes a chunk on to the next node, and takes it in where it comes from
 * another: neighbouring chunks take different ones. */
static int gate_of(const lr_route *route, uint64_t chunk, int node)
{
    uint64_t size = (uint64_t)ranks_of_node(route, node);
    return node * route->node_ranks + (int)(chunk % size);
}

static place place_of(const lr_route *route, int owner, uint64_t chunk, int rank)
{
    int node = rank / route->node_ranks, home = owner / route->node_ranks, nodes = node - home;
    int ranks = rank - (node == home ? owner : gate_of(route, chunk, node));
    return (place){
        .node = node,
        .nodes_before = nodes < 0 ? nodes + route->n_nodes : nodes,
        .ranks_before = ranks < 0 ? ranks + ranks_of_node(route, node) : ranks};
}

/* Who hands the owner's chunk to `rank`; not for the owner itself. */
static int parent_of(const lr_route *route, int owner, uint64_t chunk, int rank)
{
    place at = place_of(route, owner, chunk, rank);
    int first = at.node * route->node_ranks, size = ranks_of_node(route, at.node);
    if (at.ranks_before > 0) return first + (rank - first + size - 1) % size;
    return gate_of(route, chunk, (at.node + route->n_nodes - 1) % route->n_nodes);
}

/* `rank` or one that it passes the chunk on to needs it. */
static bool branch_needs(const lr_route *route, int owner, int rank, uint64_t chunk)
{
    const lr_partition *p = route->partition;
    if (lr_rank_needs(p, route->mask, rank, chunk)) return true;
    place at = place_of(route, owner, chunk, rank);
    place gate = place_of(route, owner, chunk, gate_of(route, chunk, at.node));
    bool to_nodes = at.ranks_before <= gate.ranks_before;
    for (int r = 0; r < p->n_ranks; r++) {
        place other = place_of(route, owner, chunk, r);
        bool behind = other.node == at.node ? other.ranks_before > at.ranks_before
                                            : to_nodes && other.nodes_before > at.nodes_before;
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

/* Enough for each link between two nodes to be at work. */
int lr_route_ahead(const lr_route *route)
{
    if (!route->passed_on || route->n_nodes == 1) return LR_RECEIVES_AHEAD;
    int ahead = route->node_ranks + 1;
    return ahead < LR_RECEIVES_AHEAD ? LR_RECEIVES_AHEAD
                                     : ahead > LR_MOST_AHEAD ? LR_MOST_AHEAD : ahead;
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
