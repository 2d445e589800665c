/* The coverage proof: each key that a rank's queries may see is seen once, in order, unaltered. */
#include "exchange.h"

#include <inttypes.h>

static lr_status fail_chunk(const lr_chunk_claim *claim, lr_error *err, const char *what,
                            uint64_t is, uint64_t due)
{
    return lr_fail(err, LR_E_COVERAGE,
                   "layer %" PRIu32 ", chunk %" PRIu64
                   " from rank %d to rank %d: %s is %#" PRIx64 ", it must be %#" PRIx64,
                   claim->layer, claim->index, claim->from, claim->to, what, is, due);
}

lr_status lr_chunk_check_header(const lr_chunk_header *chunk, const lr_chunk_claim *claim,
                                lr_error *err)
{
    const lr_partition *p = claim->partition;
    uint64_t n_tokens = lr_partition_chunk_tokens(p, claim->index);
    uint64_t payload = lr_chunk_bytes(claim->shape, n_tokens) - sizeof(lr_chunk_header);
    const struct {
        const char *what;
        uint64_t is, due;
    } fields[] = {
        {"the magic number", chunk->magic, LR_CHUNK_MAGIC},
        {"the layer", chunk->layer, claim->layer},
        {"the sequence", chunk->sequence, claim->sequence},
        {"the index", chunk->index, claim->index},
        {"the first token", chunk->first_token, claim->index * p->chunk},
        {"the number of tokens", chunk->n_tokens, n_tokens},
        {"the payload's size", chunk->payload_bytes, payload},
        {"the reserved field", chunk->reserved, 0},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].is != fields[i].due)
            return fail_chunk(claim, err, fields[i].what, fields[i].is, fields[i].due);
    return LR_OK;
}

lr_status lr_chunk_check_payload(const lr_chunk_header *chunk, const lr_chunk_claim *claim,
                                 lr_error *err)
{
    uint64_t sum = lr_chunk_checksum(chunk);
    if (sum == chunk->checksum) return LR_OK;
    return fail_chunk(claim, err, "the checksum of the payload", sum, chunk->checksum);
}

lr_status lr_coverage_add(lr_coverage *coverage, const lr_chunk_header *chunk, int rank,
                          uint64_t *keys, lr_error *err)
{
    uint64_t first = chunk->first_token, end = first + chunk->n_tokens;
    if (coverage->next >= coverage->hi || coverage->next < first || coverage->next >= end)
        return lr_fail(err, LR_E_COVERAGE,
                       "layer %" PRIu32 ", chunk %" PRIu64 " at rank %d: it holds keys %" PRIu64
                       " to %" PRIu64 ", due are those from %" PRIu64 " to %" PRIu64,
                       chunk->layer, chunk->index, rank, first, end, coverage->next,
                       coverage->hi);
    if (end > coverage->hi) end = coverage->hi;
    *keys = end - coverage->next;
    coverage->next = end;
    return LR_OK;
}

lr_status lr_coverage_end(const lr_coverage *coverage, uint32_t layer, int rank, lr_error *err)
{
    if (coverage->next == coverage->hi) return LR_OK;
    return lr_fail(err, LR_E_COVERAGE,
                   "layer %" PRIu32 " at rank %d: the keys from %" PRIu64 " to %" PRIu64
                   " were never seen",
                   layer, rank, coverage->next, coverage->hi);
}
