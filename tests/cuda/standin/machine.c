/* Launches, blocks, warps and branches. */
#include "machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

void machine_fault(machine *m, int lane, const char *format, ...)
{
    char why[MOST_MESSAGE / 2];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    (void)snprintf(m->message, sizeof m->message, "%s, block (%u, %u, %u), warp %u, lane %d, PTX line %d: %.200s: %.100s",
                   m->kernel->name, m->block_index[0], m->block_index[1], m->block_index[2], m->now_warp, lane,
                   m->now ? (int)m->now->line : 0, why, m->now ? m->now->text : "");
    longjmp(m->fault, 1);
}

/* ------------------------------------------------------------------ a warp */

/* The lanes at the lowest instruction. */
static uint32_t active_lanes(warp *w)
{
    if (!w->diverged) return w->live;
    int32_t lowest = INT32_MAX;
    uint32_t active = 0;
    EACH_LANE(lane, w->live) {
        if (w->lane_at[lane] > lowest) continue;
        if (w->lane_at[lane] < lowest) active = 0;
        lowest = w->lane_at[lane];
        active |= UINT32_C(1) << lane;
    }
    w->at = lowest;
    w->diverged = active != w->live;
    return active;
}

static void go_on(warp *w, uint32_t active, int32_t at)
{
    if (!w->diverged) w->at = at;
    else EACH_LANE(lane, active) w->lane_at[lane] = at;
}

static void branch(warp *w, const ptx_ins *ins, uint32_t active, uint32_t taken)
{
    int32_t next = w->at + 1;
    if (!w->diverged && (taken == 0 || taken == active)) {
        w->at = taken ? ins->target : next;
        return;
    }
    if (!w->diverged)
        EACH_LANE(lane, w->live) w->lane_at[lane] = w->at;
    w->diverged = true;
    EACH_LANE(lane, active) w->lane_at[lane] = taken >> lane & 1 ? ins->target : next;
}

static uint32_t guarded(const warp *w, const ptx_ins *ins, uint32_t active)
{
    if (ins->guard < 0) return active;
    const uint64_t *guard = w->r[ins->guard];
    uint32_t mask = 0;
    EACH_LANE(lane, active) if ((guard[lane] & 1) != ins->guard_not) mask |= UINT32_C(1) << lane;
    return mask;
}

static void barrier(machine *m, warp *w, const ptx_ins *ins, uint32_t active, uint32_t mask)
{
    if (mask != w->live || active != w->live) machine_fault(m, -1, "a barrier in divergent code");
    if (machine_source(w, ins, 0)[0] != 0) machine_fault(m, -1, "a barrier other than 0");
    w->waits = true;
}

static void step(machine *m, warp *w)
{
    uint32_t active = active_lanes(w);
    const ptx_ins *ins = m->now = &m->kernel->code[w->at];
    uint32_t mask = guarded(w, ins, active);
    m->counts.instructions++;
    m->counts.by_op[ins->op]++;
    if (ins->op == PTX_BRA) {
        branch(w, ins, active, mask);
        return;
    }
    if (ins->op == PTX_EXIT) {
        w->live &= ~mask;
        go_on(w, active & ~mask, w->at + 1);
        return;
    }
    if (ins->op == PTX_BAR) {
        barrier(m, w, ins, active, mask);
    } else if (ins->op == PTX_BAR_WARP) {
        if (mask != w->live) machine_fault(m, -1, "bar.warp.sync in divergent code");
        w->sync++;
    } else if (mask && !machine_transfer(m, w, ins, mask) && !machine_warp_wide(m, w, ins, mask) &&
               !machine_arithmetic(m, w, ins, mask)) {
        machine_fault(m, -1, "not executed");
    }
    go_on(w, active, w->at + 1);
}

/* ------------------------------------------------------------------ a block */

static void start_warp(machine *m, warp *w)
{
    const ptx_kernel *kernel = m->kernel;
    uint32_t first = w->index * PTX_LANES, n = m->n_threads - first;
    w->live = n >= PTX_LANES ? ~UINT32_C(0) : (UINT32_C(1) << n) - 1;
    w->at = 0;
    w->diverged = w->waits = false;
    w->sync = 0;
    w->n_copies = 0;
    memset(w->committed, 0, sizeof w->committed);
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
        uint32_t t = first + lane;
        const uint32_t values[PTX_N_SPECIALS] = {
            t % m->block[0], t / m->block[0] % m->block[1], t / (m->block[0] * m->block[1]),
            m->block[0], m->block[1], m->block[2], m->block_index[0], m->block_index[1], m->block_index[2],
            m->grid[0], m->grid[1], m->grid[2], lane, w->index};
        for (size_t i = 0; i < PTX_N_SPECIALS; i++)
            if (kernel->special[i] >= 0) w->r[kernel->special[i]][lane] = values[i];
    }
}

static void run_warp(machine *m, warp *w)
{
    m->now_warp = w->index;
    while (w->live && !w->waits) step(m, w);
    if (!w->live) machine_check_copies(m, w);
}

/* From barrier to barrier. Threads that have returned are not waited for. */
static void run_block(machine *m)
{
    memset(m->granules, 0, (m->shared_bytes / 2 + 1) * sizeof *m->granules);
    memset(m->shared, 0xff, m->shared_bytes);
    m->epoch = 1;
    for (uint32_t i = 0; i < m->n_warps; i++) start_warp(m, &m->warps[i]);
    for (bool waiting = true; waiting; m->epoch++) {
        waiting = false;
        for (uint32_t i = 0; i < m->n_warps; i++) {
            warp *w = &m->warps[m->last_warp_first ? m->n_warps - 1 - i : i];
            w->waits = false;
            run_warp(m, w);
            waiting = waiting || w->waits;
        }
    }
}

/* ------------------------------------------------------------------ a launch */

static void *zeroed(size_t count, size_t size)
{
    void *block = calloc(count ? count : 1, size);
    if (!block) abort();
    return block;
}

static void make(machine *m, const machine_launch *launch)
{
    const ptx_kernel *kernel = launch->kernel;
    m->kernel = kernel;
    m->params = launch->params;
    m->last_warp_first = launch->last_warp_first;
    memcpy(m->grid, launch->grid, sizeof m->grid);
    memcpy(m->block, launch->block, sizeof m->block);
    m->n_threads = m->block[0] * m->block[1] * m->block[2];
    m->n_warps = (m->n_threads + PTX_LANES - 1) / PTX_LANES;
    m->shared_bytes = kernel->shared_bytes + launch->dynamic_shared;
    m->shared = zeroed(m->shared_bytes, 1);
    m->granules = zeroed(m->shared_bytes / 2 + 1, sizeof *m->granules);
    m->warps = zeroed(m->n_warps, sizeof *m->warps);
    for (uint32_t i = 0; i < m->n_warps; i++) {
        warp *w = &m->warps[i];
        w->index = i;
        w->r = zeroed(kernel->n_registers, sizeof *w->r);
        for (size_t k = 0; k < kernel->n_constants; k++)
            for (int lane = 0; lane < PTX_LANES; lane++)
                w->r[kernel->constants[k].reg][lane] = kernel->constants[k].value;
    }
}

static void unmake(machine *m)
{
    for (uint32_t i = 0; i < m->n_warps; i++) {
        free(m->warps[i].r);
        free(m->warps[i].copies);
    }
    free(m->warps);
    free(m->granules);
    free(m->shared);
}

static bool run_grid(machine *m)
{
    if (setjmp(m->fault)) return false;
    for (uint32_t z = 0; z < m->grid[2]; z++)
        for (uint32_t y = 0; y < m->grid[1]; y++)
            for (uint32_t x = 0; x < m->grid[0]; x++) {
                m->block_index[0] = x, m->block_index[1] = y, m->block_index[2] = z;
                run_block(m);
            }
    return true;
}

bool machine_run(const machine_launch *launch, machine_counts *counts, char message[MOST_MESSAGE])
{
    machine m = {.counts = *counts};
    memory_begin_launch();
    make(&m, launch);
    bool good = run_grid(&m);
    unmake(&m);
    *counts = m.counts;
    if (!good) memcpy(message, m.message, MOST_MESSAGE);
    return good;
}
