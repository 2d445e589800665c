#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define FIRST UINT64_C(0x10000000000)
#define GAP 4096
#define ALIGN 256 /* what cuMemAlloc promises */

typedef struct block {
    uint64_t address;
    size_t bytes;
    unsigned char *data;
} block;

static block *blocks; /* ascending: addresses are never used again */
static size_t n_blocks, capacity, held;
static uint64_t next = FIRST;
static size_t last; /* the block found last */

bool memory_alloc(size_t bytes, size_t limit, uint64_t *address)
{
    if (bytes > limit || held > limit - bytes) return false;
    if (n_blocks == capacity) {
        capacity = capacity ? 2 * capacity : 64;
        blocks = realloc(blocks, capacity * sizeof *blocks);
    }
    unsigned char *data = malloc(bytes ? bytes : 1);
    if (!blocks || !data) abort();
    memset(data, 0xff, bytes);
    blocks[n_blocks++] = (block){next, bytes, data};
    *address = next;
    next += (bytes + ALIGN - 1) / ALIGN * ALIGN + GAP;
    held += bytes;
    return true;
}

static bool holds(size_t i, uint64_t address)
{
    return i < n_blocks && address >= blocks[i].address && address - blocks[i].address <= blocks[i].bytes;
}

static size_t find(uint64_t address)
{
    if (holds(last, address)) return last;
    size_t low = 0, high = n_blocks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle].address + blocks[middle].bytes < address) low = middle + 1;
        else high = middle;
    }
    return holds(low, address) ? (last = low) : n_blocks;
}

bool memory_free(uint64_t address)
{
    size_t i = find(address);
    if (i == n_blocks || blocks[i].address != address) return false;
    held -= blocks[i].bytes;
    free(blocks[i].data);
    memmove(blocks + i, blocks + i + 1, (n_blocks - i - 1) * sizeof *blocks);
    n_blocks--;
    return true;
}

size_t memory_held(void)
{
    return held;
}

unsigned char *memory_at(uint64_t address, size_t bytes)
{
    size_t i = find(address);
    if (i == n_blocks) return NULL;
    size_t offset = (size_t)(address - blocks[i].address);
    return bytes <= blocks[i].bytes - offset ? blocks[i].data + offset : NULL;
}
