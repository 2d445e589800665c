/* The machine that runs a kernel: a block at a time, its warps one after another from barrier to barrier,
 * the lanes of a warp in step. Lanes that went different ways are run lowest instruction first, so that they
 * meet again where the ways join.
 *
 * What would be wrong on a device, even where this machine's order happens to hide it, ends the launch:
 * accesses outside an allocation or not aligned, shared memory that is read before it is written, that two
 * threads touch without a barrier between (one of them writing), or that cp.async still fills; barriers and
 * warp-wide instructions in divergent code. */
#ifndef STANDIN_MACHINE_H
#define STANDIN_MACHINE_H

#include <setjmp.h>

#include "ptx.h"

#define MOST_MESSAGE 512

typedef struct machine machine;

/* Two bytes of shared memory. Epochs count the block's barriers from 1; 0: never. */
typedef struct granule {
    uint32_t write_epoch, read_epoch;
    uint16_t writer, reader;           /* thread; reader: see MANY_* in shared.c */
    uint16_t writer_sync, reader_sync; /* of its warp, counting bar.warp.sync */
    uint16_t pending;                  /* thread + 1 whose cp.async fills it */
} granule;

typedef struct async_copy {
    uint32_t lane, group;
    uint64_t to, from; /* shared, global */
    uint32_t bytes, source_bytes;
} async_copy;

typedef struct warp {
    uint32_t index, live; /* lanes that have not returned */
    uint64_t (*r)[PTX_LANES];
    bool diverged, waits; /* at a barrier */
    int32_t at, lane_at[PTX_LANES]; /* next instruction; of each lane when diverged */
    uint16_t sync;
    uint32_t committed[PTX_LANES]; /* groups of cp.async */
    async_copy *copies;
    size_t n_copies, copies_capacity;
} warp;

typedef struct machine_counts {
    uint64_t instructions; /* of warps */
    uint64_t by_op[PTX_N_OPS];
    uint64_t matrix_conflicts; /* turns that ldmatrix waited because rows lay in the same banks */
} machine_counts;

struct machine {
    const ptx_kernel *kernel;
    const unsigned char *params;
    uint32_t grid[3], block[3], block_index[3], n_threads, n_warps;
    warp *warps;
    unsigned char *shared;
    size_t shared_bytes;
    granule *granules;
    uint32_t epoch;
    bool last_warp_first; /* order of warps between barriers */
    machine_counts counts;
    const ptx_ins *now;
    uint32_t now_warp;
    jmp_buf fault;
    char message[MOST_MESSAGE];
};

typedef struct machine_launch {
    const ptx_kernel *kernel;
    const void *params;
    uint32_t grid[3], block[3];
    size_t dynamic_shared;
    bool last_warp_first;
} machine_launch;

/* False, and why, when something is wrong with the launch or the kernel. Counts are added to *counts. */
bool machine_run(const machine_launch *launch, machine_counts *counts, char message[MOST_MESSAGE]);

/* ------------------------------------------------------------------ between the machine's files */

_Noreturn void machine_fault(machine *m, int lane, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define EACH_LANE(lane, mask) for (int lane = 0; lane < PTX_LANES; lane++) if ((mask) >> lane & 1)

static inline const uint64_t *machine_source(const warp *w, const ptx_ins *ins, int i)
{
    return w->r[ins->operand[i]];
}

/* arithmetic.c, convert.c: true when the instruction was theirs. */
bool machine_arithmetic(machine *m, warp *w, const ptx_ins *ins, uint32_t mask);
void machine_convert(machine *m, warp *w, const ptx_ins *ins, uint32_t mask);
float machine_from_bf16(uint16_t bits);
float machine_f32(uint64_t bits);
uint64_t machine_f32_bits(float value);

/* transfer.c: ld, st, ldmatrix, cp.async. */
bool machine_transfer(machine *m, warp *w, const ptx_ins *ins, uint32_t mask);
/* At the end of a block: nothing may be under way. */
void machine_check_copies(machine *m, const warp *w);

/* warp_wide.c: shfl, mma. */
bool machine_warp_wide(machine *m, warp *w, const ptx_ins *ins, uint32_t mask);

/* shared.c: accesses of shared memory. They fault where the access is wrong. */
unsigned char *shared_read(machine *m, const warp *w, int lane, uint64_t address, size_t bytes);
unsigned char *shared_write(machine *m, const warp *w, int lane, uint64_t address, size_t bytes);
void shared_begin_copy(machine *m, const warp *w, int lane, uint64_t address, size_t bytes);
unsigned char *shared_end_copy(machine *m, const warp *w, int lane, uint64_t address, size_t bytes);

#endif
