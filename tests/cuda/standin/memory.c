#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define FIRST UINT64_C(0x10000000000)
#define GAP 4096
#define ALIGN 256 /* what cuMemAlloc promises */

#define GRAIN 2 /* bytes that have one note of who touched them; 1 in blocks that are touched byte by byte */

typedef struct trace {
    uint32_t launch, atomic; /* atomic: the writers, of whom there may be many */
    memory_user writer, reader;
} trace;

typedef struct block {
    uint64_t address;
    size_t bytes;
    unsigned char *data;
    size_t grain;
    trace *traces;
} block;

static block *blocks; /* ascending: addresses are never used again */
static size_t n_blocks, capacity, held;
static uint64_t next = FIRST;
static size_t last; /* the block found last */
static uint32_t launch;

bool memory_alloc(size_t bytes, size_t limit, uint64_t *address)
{
    if (bytes > limit || held > limit - bytes) return false;
    if (n_blocks == capacity) {
        capacity = capacity ? 2 * capacity : 64;
        blocks = realloc(blocks, capacity * sizeof *blocks);
    }
    unsigned char *data = malloc(bytes ? bytes : 1);
    trace *traces = calloc(bytes / GRAIN + 1, sizeof *traces);
    if (!blocks || !data || !traces) abort();
    memset(data, 0xff, bytes);
    blocks[n_blocks++] = (block){next, bytes, data, GRAIN, traces};
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
    free(blocks[i].traces);
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

void memory_begin_launch(void)
{
    launch++;
}

static bool out_of_order(const memory_user *before, const memory_user *now)
{
    if (before->epoch == 0) return false;
    return before->block != now->block || (before->thread != now->thread && before->epoch == now->epoch);
}

static void add_reader(memory_user *reader, const memory_user *now)
{
    bool first = reader->epoch == 0;
    uint64_t from = first || reader->block == now->block ? now->block : MEMORY_EVERY;
    uint32_t thread = first || reader->epoch != now->epoch || reader->thread == now->thread ? now->thread : MEMORY_ALL;
    *reader = (memory_user){from, thread, now->epoch};
}

/* A note for each byte from now on. */
static void refine(block *b)
{
    trace *fine = calloc(b->bytes + 1, sizeof *fine);
    if (!fine) abort();
    for (size_t i = 0; i <= b->bytes; i++) fine[i] = b->traces[i / GRAIN];
    free(b->traces);
    b->traces = fine;
    b->grain = 1;
}

unsigned char *memory_touch(uint64_t address, size_t bytes, memory_user user, memory_use use, memory_user *other)
{
    unsigned char *at = memory_at(address, bytes);
    *other = (memory_user){0};
    if (!at) return NULL;
    block *b = &blocks[last];
    if (bytes == 1 && b->grain != 1) refine(b);
    size_t first = (size_t)(at - b->data) / b->grain, past = ((size_t)(at - b->data) + bytes + b->grain - 1) / b->grain;
    for (size_t i = first; i < past; i++) {
        trace *t = &b->traces[i];
        if (t->launch != launch) *t = (trace){.launch = launch};
        bool together = use == MEMORY_ATOMIC && t->atomic;
        if (!together && out_of_order(&t->writer, &user)) *other = t->writer;
        if (use != MEMORY_READ && out_of_order(&t->reader, &user)) *other = t->reader;
        if (use == MEMORY_READ) {
            add_reader(&t->reader, &user);
            continue;
        }
        if (together) add_reader(&t->writer, &user);
        else t->writer = user;
        t->atomic = use == MEMORY_ATOMIC;
    }
    return at;
}
