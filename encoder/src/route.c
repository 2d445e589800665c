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
static bool takes_ring(const lr_partition *p, const lr_mask *mask, lr_schedule schedule)
{
    if (schedule != LR_SCHEDULE_AUTO) return schedule == LR_SCHEDULE_RING;
    return mask->kind != LR_MASK_WINDOW && p->n_chunks / 4 >= (uint64_t)p->n_ranks;
}

void lr_route_init(lr_route *route, const lr_partition *p, const lr_mask *mask,
                   lr_schedule schedule, int rank)
{
    *route = (lr_route){.partition = p,
                        .mask = mask,
                        .ring = takes_ring(p, mask, schedule),
                        .rank = rank,
                        .next = (rank + 1) % p->n_ranks,
                        .previous = (rank + p->n_ranks - 1) % p->n_ranks,
                        .own_first = p->first_chunk[rank],
                        .own_end = p->first_chunk[rank + 1]};
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

/* Link `from` -> from + 1 of the ring carries the chunk: some rank from there on, before the way
 * comes back to the owner, needs it. */
static bool link_carries(const lr_route *route, int from, uint64_t chunk)
{
    const lr_partition *p = route->partition;
    int owner = lr_partition_owner(p, chunk);
    for (int r = (from + 1) % p->n_ranks; r != owner; r = (r + 1) % p->n_ranks)
        if (lr_rank_needs(p, route->mask, r, chunk)) return true;
    return false;
}

int lr_route_source(const lr_route *route, uint64_t chunk)
{
    if (lr_route_owns(route, chunk)) return -1;
    if (route->ring) return link_carries(route, route->previous, chunk) ? route->previous : -1;
    return lr_route_needs(route, chunk) ? lr_partition_owner(route->partition, chunk) : -1;
}

bool lr_route_sends(const lr_route *route, uint64_t chunk, int peer)
{
    if (route->ring) return peer == route->next && link_carries(route, route->rank, chunk);
    return peer != route->rank && lr_route_owns(route, chunk) &&
           lr_rank_needs(route->partition, route->mask, peer, chunk);
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
                        lr_schedule schedule, int rank, lr_ring_stats *expected)
{
    lr_route route;
    lr_route_init(&route, p, mask, schedule, rank);
    *expected = (lr_ring_stats){0};
    for (uint64_t chunk = 0; chunk < p->n_chunks; chunk++) {
        bool needed = lr_route_needs(&route, chunk);
        if (needed) {
            expected->chunks_seen++;
            expected->keys_seen += overlap(&route, chunk);
        }
        for (int peer = 0; peer < p->n_ranks; peer++) {
            if (!lr_route_sends(&route, chunk, peer)) continue;
            expected->chunks_sent++;
            expected->bytes_sent += lr_chunk_bytes(shape, lr_partition_chunk_tokens(p, chunk));
            if (!needed && !lr_route_owns(&route, chunk)) expected->chunks_passed++;
        }
    }
}
