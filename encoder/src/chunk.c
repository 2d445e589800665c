/* A chunk of keys and values: its layout in memory and its seal. */
#include "exchange.h"

#include <longreel/kernels.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(lr_chunk_header) == LR_ALIGN, "the payload must be aligned as the block is");

/* Floats of one KV head: K panels, then V. False when it does not fit in a size_t. */
static bool head_floats(const lr_kv_shape *shape, uint64_t n_tokens, size_t *keys, size_t *both)
{
    size_t panels = (size_t)(n_tokens / LR_KEY_PANEL + (n_tokens % LR_KEY_PANEL != 0));
    size_t values;
    return n_tokens <= SIZE_MAX && lr_mul_size(panels, LR_KEY_PANEL, keys) &&
           lr_mul_size(*keys, shape->head_dim, keys) &&
           lr_mul_size((size_t)n_tokens, shape->head_dim, &values) &&
           lr_add_size(*keys, values, both);
}

size_t lr_chunk_bytes(const lr_kv_shape *shape, uint64_t n_tokens)
{
    size_t keys, bytes;
    if (shape->on_device)
        return n_tokens <= SIZE_MAX && lr_mul_size((size_t)n_tokens, 2 * shape->n_kv_heads, &bytes) &&
                       lr_mul_size(bytes, shape->head_dim, &bytes) && lr_mul_size(bytes, 2, &bytes) &&
                       lr_add_size(bytes, sizeof(lr_chunk_header), &bytes)
                   ? bytes
                   : SIZE_MAX;
    if (head_floats(shape, n_tokens, &keys, &bytes) &&
        lr_mul_size(bytes, shape->n_kv_heads, &bytes) &&
        lr_mul_size(bytes, sizeof(float), &bytes) &&
        lr_add_size(bytes, sizeof(lr_chunk_header), &bytes))
        return bytes;
    return SIZE_MAX;
}

static const float *head_start(const lr_kv_shape *shape, const lr_chunk_header *chunk,
                               size_t kv_head, size_t *keys)
{
    size_t both = 0;
    (void)head_floats(shape, chunk->n_tokens, keys, &both);
    return (const float *)(const void *)(chunk + 1) + kv_head * both;
}

const float *lr_chunk_keys(const lr_kv_shape *shape, const lr_chunk_header *chunk, size_t kv_head)
{
    size_t keys;
    return head_start(shape, chunk, kv_head, &keys);
}

const float *lr_chunk_values(const lr_kv_shape *shape, const lr_chunk_header *chunk,
                             size_t kv_head)
{
    size_t keys;
    const float *start = head_start(shape, chunk, kv_head, &keys);
    return start + keys;
}

uint64_t lr_chunk_checksum(const lr_chunk_header *chunk)
{
    return XXH3_64bits_withSeed(chunk + 1, (size_t)chunk->payload_bytes, chunk->layer);
}

void lr_chunk_head(lr_chunk_header *chunk, const lr_partition *p, uint32_t layer,
                   uint64_t sequence, uint64_t index, const lr_kv_shape *shape)
{
    uint64_t n_tokens = lr_partition_chunk_tokens(p, index);
    *chunk = (lr_chunk_header){
        .magic = LR_CHUNK_MAGIC,
        .layer = layer,
        .sequence = sequence,
        .index = index,
        .first_token = index * p->chunk,
        .n_tokens = n_tokens,
        .payload_bytes = lr_chunk_bytes(shape, n_tokens) - sizeof(lr_chunk_header),
    };
}

void lr_chunk_seal(lr_chunk_header *chunk, const lr_partition *p, uint32_t layer,
                   uint64_t sequence, uint64_t index, const lr_kv_shape *shape)
{
    lr_chunk_head(chunk, p, layer, sequence, index, shape);
    chunk->checksum = lr_chunk_checksum(chunk);
}
