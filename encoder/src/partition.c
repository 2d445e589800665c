/* Sharding of a sequence in whole chunks, and the masks. */
#include <longreel/ring.h>

lr_status lr_partition_create(lr_partition *out, uint64_t n_tokens, uint64_t chunk, int n_ranks,
                              lr_error *err)
{
    *out = (lr_partition){0};
    if (chunk == 0) return lr_fail(err, LR_E_USAGE, "a chunk needs at least one token");
    if (n_ranks < 1) return lr_fail(err, LR_E_USAGE, "%d ranks: at least one is needed", n_ranks);
    uint64_t *first;
    lr_status st = LR_NEW(&first, (size_t)n_ranks + 1, "a partition", err);
    if (st != LR_OK) return st;
    uint64_t n_chunks = n_tokens / chunk + (n_tokens % chunk != 0), ranks = (uint64_t)n_ranks;
    /* The first n_chunks % ranks ranks own one chunk more than the others. */
    for (uint64_t r = 0; r < ranks; r++)
        first[r + 1] = first[r] + n_chunks / ranks + (r < n_chunks % ranks);
    *out = (lr_partition){.n_tokens = n_tokens,
                          .chunk = chunk,
                          .n_chunks = n_chunks,
                          .n_ranks = n_ranks,
                          .first_chunk = first};
    return LR_OK;
}

void lr_partition_free(lr_partition *partition)
{
    lr_free(partition->first_chunk);
    *partition = (lr_partition){0};
}

static uint64_t first_token_of_chunk(const lr_partition *p, uint64_t index)
{
    return index < p->n_chunks ? index * p->chunk : p->n_tokens;
}

uint64_t lr_partition_first_token(const lr_partition *p, int rank)
{
    return first_token_of_chunk(p, p->first_chunk[rank]);
}

uint64_t lr_partition_end_token(const lr_partition *p, int rank)
{
    return first_token_of_chunk(p, p->first_chunk[rank + 1]);
}

int lr_partition_owner(const lr_partition *p, uint64_t chunk_index)
{
    /* The last rank whose first chunk is not after it: ranks without chunks share their first with
     * the rank after them. */
    int low = 0, high = p->n_ranks;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (p->first_chunk[middle] <= chunk_index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint64_t lr_partition_chunk_tokens(const lr_partition *p, uint64_t chunk_index)
{
    return first_token_of_chunk(p, chunk_index + 1) - first_token_of_chunk(p, chunk_index);
}

void lr_mask_range(const lr_mask *mask, uint64_t i, uint64_t n, uint64_t *lo, uint64_t *hi)
{
    *lo = 0;
    *hi = n;
    if (mask->kind == LR_MASK_CAUSAL) {
        *hi = i + 1;
    } else if (mask->kind == LR_MASK_WINDOW) {
        if (i > mask->radius) *lo = i - mask->radius;
        if (mask->radius < n - i - 1) *hi = i + mask->radius + 1;
    }
}
