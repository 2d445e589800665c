/* Shared memory of a block, and the watch over it: who wrote and read each two bytes since the last
 * barrier. */
#include <string.h>

#include "machine.h"

#define GRANULE 2
/* Readers since the barrier: one thread, several lanes of one warp, or several warps. */
#define MANY_LANES 0x8000u
#define MANY_WARPS 0xffffu

static uint16_t thread_of(const warp *w, int lane)
{
    return (uint16_t)(w->index * PTX_LANES + (uint32_t)lane);
}

static void check_range(machine *m, int lane, uint64_t address, size_t bytes)
{
    if (address > m->shared_bytes || bytes > m->shared_bytes - address)
        machine_fault(m, lane, "shared memory [%llu, +%zu) of %zu bytes", (unsigned long long)address, bytes,
                      m->shared_bytes);
}

/* Whether what `other` (a thread) of this epoch did is ordered before what this lane does now. */
static bool ordered(const warp *w, int lane, uint16_t other, uint16_t other_sync)
{
    if (other == MANY_WARPS) return false;
    if (other & MANY_LANES) return (other & ~MANY_LANES) == w->index && other_sync != w->sync;
    if (other == thread_of(w, lane)) return true;
    return other / PTX_LANES == w->index && other_sync != w->sync;
}

static void check_pending(machine *m, int lane, const granule *g)
{
    if (g->pending)
        machine_fault(m, lane, "shared memory that cp.async of thread %u is still filling: no wait_group",
                      g->pending - 1u);
}

static void check_write(machine *m, const warp *w, int lane, const granule *g)
{
    check_pending(m, lane, g);
    if (g->write_epoch == m->epoch && !ordered(w, lane, g->writer, g->writer_sync))
        machine_fault(m, lane, "race: shared memory was written by thread %u since the last barrier", g->writer);
    if (g->read_epoch == m->epoch && !ordered(w, lane, g->reader, g->reader_sync))
        machine_fault(m, lane, "race: shared memory was read by %s %u since the last barrier",
                      g->reader & MANY_LANES ? "warp" : "thread", g->reader & ~MANY_LANES);
}

/* Who read before a bar.warp.sync of the own warp is forgotten: whoever comes later than me comes later than him. */
static void note_read(machine *m, const warp *w, int lane, granule *g)
{
    uint16_t me = thread_of(w, lane), old = g->reader;
    if (g->read_epoch != m->epoch || ordered(w, lane, old, g->reader_sync)) {
        g->reader = me;
    } else {
        uint32_t old_warp = old & MANY_LANES ? old & ~MANY_LANES : old / PTX_LANES;
        g->reader = old != MANY_WARPS && old_warp == w->index ? (uint16_t)(MANY_LANES | w->index) : MANY_WARPS;
    }
    g->read_epoch = m->epoch;
    g->reader_sync = w->sync;
}

#define EACH_GRANULE(g, address, bytes)                                                                \
    for (granule *g = m->granules + (address) / GRANULE,                                               \
                 *end_ = m->granules + ((address) + (bytes) + GRANULE - 1) / GRANULE; g < end_; g++)

unsigned char *shared_read(machine *m, const warp *w, int lane, uint64_t address, size_t bytes)
{
    check_range(m, lane, address, bytes);
    EACH_GRANULE(g, address, bytes) {
        check_pending(m, lane, g);
        if (g->write_epoch == 0) machine_fault(m, lane, "shared memory is read that nothing was written to");
        if (g->write_epoch == m->epoch && !ordered(w, lane, g->writer, g->writer_sync))
            machine_fault(m, lane, "race: shared memory was written by thread %u since the last barrier",
                          g->writer);
        note_read(m, w, lane, g);
    }
    return m->shared + address;
}

unsigned char *shared_write(machine *m, const warp *w, int lane, uint64_t address, size_t bytes)
{
    check_range(m, lane, address, bytes);
    EACH_GRANULE(g, address, bytes) {
        check_write(m, w, lane, g);
        g->write_epoch = m->epoch;
        g->writer = thread_of(w, lane);
        g->writer_sync = w->sync;
    }
    return m->shared + address;
}

/* A copy may land at any time from now on. */
void shared_begin_copy(machine *m, const warp *w, int lane, uint64_t address, size_t bytes)
{
    check_range(m, lane, address, bytes);
    EACH_GRANULE(g, address, bytes) {
        check_write(m, w, lane, g);
        g->pending = (uint16_t)(thread_of(w, lane) + 1);
    }
}

unsigned char *shared_end_copy(machine *m, const warp *w, int lane, uint64_t address, size_t bytes)
{
    EACH_GRANULE(g, address, bytes) {
        g->pending = 0;
        g->write_epoch = m->epoch;
        g->writer = thread_of(w, lane);
        g->writer_sync = w->sync;
    }
    return m->shared + address;
}
