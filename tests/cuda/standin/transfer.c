/* Instructions that read and write memory. */
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "memory.h"

#define ROW_BYTES 16 /* of an 8x8 matrix of ldmatrix */

/* Which space an address is of, and its place there. */
static ptx_space resolve(uint8_t space, uint64_t *address)
{
    if (space != PTX_GENERIC) return (ptx_space)space;
    if (*address - MEMORY_SHARED_WINDOW >= MEMORY_SHARED_BYTES) return PTX_GLOBAL;
    *address -= MEMORY_SHARED_WINDOW;
    return PTX_SHARED;
}

static void check_aligned(machine *m, int lane, uint64_t address, size_t bytes)
{
    if (address % bytes) machine_fault(m, lane, "%zu bytes at %#llx: not aligned", bytes, (unsigned long long)address);
}

static unsigned char *global_at(machine *m, const warp *w, int lane, uint64_t address, size_t bytes,
                                memory_use use)
{
    memory_user user = {.thread = w->index * PTX_LANES + (uint32_t)lane, .epoch = m->epoch}, other;
    user.block = ((uint64_t)m->block_index[2] * m->grid[1] + m->block_index[1]) * m->grid[0] + m->block_index[0];
    unsigned char *at = memory_touch(address, bytes, user, use, &other);
    if (!at)
        machine_fault(m, lane, "global memory [%#llx, +%zu) is outside of any allocation",
                      (unsigned long long)address, bytes);
    if (other.epoch != 0)
        machine_fault(m, lane, "race: %s %u of block %lld used this global memory in the same launch",
                      other.thread == MEMORY_ALL ? "many threads, as" : "thread", other.thread, (long long)other.block);
    return at;
}

static const unsigned char *readable(machine *m, const warp *w, int lane, uint8_t space, uint64_t address,
                                     size_t bytes)
{
    ptx_space where = resolve(space, &address);
    check_aligned(m, lane, address, bytes);
    if (where == PTX_SHARED) return shared_read(m, w, lane, address, bytes);
    if (where == PTX_GLOBAL) return global_at(m, w, lane, address, bytes, MEMORY_READ);
    if (address + bytes > m->kernel->param_bytes) machine_fault(m, lane, "parameters end at %zu", m->kernel->param_bytes);
    return m->params + address;
}

static void load(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    size_t element = ptx_type_bytes(ins->type), n = ins->vector;
    const uint64_t *base = machine_source(w, ins, (int)n);
    EACH_LANE(lane, mask) {
        const unsigned char *from =
            readable(m, w, lane, ins->space, base[lane] + (uint64_t)ins->offset, element * n);
        for (size_t i = 0; i < n; i++) {
            uint64_t value = 0;
            memcpy(&value, from + i * element, element);
            if (ins->type == PTX_S8) value = (uint64_t)(int8_t)value;
            if (ins->type == PTX_S16) value = (uint64_t)(int16_t)value;
            if (ins->type == PTX_S32) value = (uint64_t)(int32_t)value;
            if (ins->operand[i] >= 0) w->r[ins->operand[i]][lane] = value;
        }
    }
}

static void store(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    size_t element = ptx_type_bytes(ins->type), n = ins->vector;
    EACH_LANE(lane, mask) {
        uint64_t address = machine_source(w, ins, 0)[lane] + (uint64_t)ins->offset;
        ptx_space where = resolve(ins->space, &address);
        check_aligned(m, lane, address, element * n);
        unsigned char *to = where == PTX_SHARED ? shared_write(m, w, lane, address, element * n)
                                                : global_at(m, w, lane, address, element * n, MEMORY_WRITE);
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * element, &machine_source(w, ins, 1 + (int)i)[lane], element);
    }
}

/* red.global.add, atom.global.add: whole numbers in global memory. */
static void add_atomically(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    size_t bytes = ptx_type_bytes(ins->type);
    int first = ins->op == PTX_ATOM; /* its destination stands before the address */
    if (ins->type != PTX_U32 && ins->type != PTX_U64) machine_fault(m, -1, "not executed for this type");
    EACH_LANE(lane, mask) {
        uint64_t address = machine_source(w, ins, first)[lane] + (uint64_t)ins->offset, value = 0;
        check_aligned(m, lane, address, bytes);
        unsigned char *at = global_at(m, w, lane, address, bytes, MEMORY_ATOMIC);
        uint64_t more = machine_source(w, ins, first + 1)[lane];
        memcpy(&value, at, bytes);
        more += value;
        memcpy(at, &more, bytes);
        if (ins->op == PTX_ATOM && ins->operand[0] >= 0) w->r[ins->operand[0]][lane] = value;
    }
}

/* cvta: shared addresses to generic ones and back; those of global memory are the same. */
static void convert_address(warp *w, const ptx_ins *ins, uint32_t mask)
{
    uint64_t window = ins->space == PTX_SHARED ? MEMORY_SHARED_WINDOW : 0;
    const uint64_t *from = machine_source(w, ins, 1);
    EACH_LANE(lane, mask)
        w->r[ins->operand[0]][lane] = ins->op == PTX_CVTA ? from[lane] + window : from[lane] - window;
}

/* ------------------------------------------------------------------ ldmatrix */

static void count_conflicts(machine *m, const uint64_t address[8])
{
    unsigned rows[8] = {0}, most = 0; /* of each 16 bytes of the 128 that all banks give in a turn */
    for (int i = 0; i < 8; i++) {
        unsigned *n = &rows[address[i] / ROW_BYTES % 8];
        bool again = false;
        for (int k = 0; k < i; k++) again = again || address[k] == address[i];
        *n += !again;
        if (*n > most) most = *n;
    }
    m->counts.matrix_conflicts += most - 1;
}

/* Lane i gives the address of row i % 8 of matrix i / 8; lane l gets values (l / 4, 2 (l % 4)) and the next
 * of the row, or when transposed of the column. */
static void load_matrix(machine *m, warp *w, const ptx_ins *ins)
{
    const uint64_t *base = machine_source(w, ins, ins->vector);
    for (int matrix = 0; matrix < ins->vector; matrix++) {
        uint16_t values[8][8];
        uint64_t address[8];
        for (int row = 0; row < 8; row++) {
            int lane = 8 * matrix + row;
            address[row] = (uint32_t)base[lane] + (uint64_t)ins->offset;
            check_aligned(m, lane, address[row], ROW_BYTES);
            memcpy(values[row], shared_read(m, w, lane, address[row], ROW_BYTES), ROW_BYTES);
        }
        count_conflicts(m, address);
        for (int lane = 0; lane < PTX_LANES; lane++) {
            int i = lane / 4, j = 2 * (lane % 4);
            uint32_t low = ins->transpose ? values[j][i] : values[i][j];
            uint32_t high = ins->transpose ? values[j + 1][i] : values[i][j + 1];
            w->r[ins->operand[matrix]][lane] = high << 16 | low;
        }
    }
}

/* ------------------------------------------------------------------ cp.async */

/* The copy is made when it is waited for, as late as a device may: who forgets to wait reads old bytes. */
static void begin_copy(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    EACH_LANE(lane, mask) {
        uint32_t bytes = (uint32_t)machine_source(w, ins, 2)[lane];
        uint32_t source = ins->n_operands > 3 ? (uint32_t)machine_source(w, ins, 3)[lane] : bytes;
        async_copy copy = {.lane = (uint32_t)lane, .group = w->committed[lane], .bytes = bytes, .source_bytes = source};
        copy.to = (uint32_t)machine_source(w, ins, 0)[lane] + (uint64_t)ins->offset;
        copy.from = machine_source(w, ins, 1)[lane] + (uint64_t)ins->offset2;
        if (bytes != 4 && bytes != 8 && bytes != 16) machine_fault(m, lane, "a copy of %u bytes", bytes);
        if (source > bytes) machine_fault(m, lane, "%u bytes for a copy of %u", source, bytes);
        check_aligned(m, lane, copy.to, bytes);
        check_aligned(m, lane, copy.from, bytes);
        if (source > 0) (void)global_at(m, w, lane, copy.from, source, MEMORY_READ);
        shared_begin_copy(m, w, lane, copy.to, bytes);
        w->copies = ptx_grow(w->copies, &w->copies_capacity, w->n_copies + 1, sizeof *w->copies);
        w->copies[w->n_copies++] = copy;
    }
}

static void end_copy(machine *m, const warp *w, const async_copy *copy)
{
    int lane = (int)copy->lane;
    unsigned char *to = shared_end_copy(m, w, lane, copy->to, copy->bytes);
    memset(to, 0, copy->bytes);
    if (copy->source_bytes > 0)
        memcpy(to, global_at(m, w, lane, copy->from, copy->source_bytes, MEMORY_READ), copy->source_bytes);
}

/* Ends all copies but those of the last `pending` groups committed. */
static void wait_copies(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    size_t left = 0;
    for (size_t i = 0; i < w->n_copies; i++) {
        const async_copy *copy = &w->copies[i];
        uint64_t pending = machine_source(w, ins, 0)[copy->lane];
        bool done = (mask >> copy->lane & 1) && copy->group + pending < w->committed[copy->lane];
        if (done) end_copy(m, w, copy);
        else w->copies[left++] = *copy;
    }
    w->n_copies = left;
}

void machine_check_copies(machine *m, const warp *w)
{
    if (w->n_copies > 0)
        machine_fault(m, (int)w->copies[0].lane, "the block ends while cp.async is under way");
}

bool machine_transfer(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    switch (ins->op) {
    case PTX_LD: load(m, w, ins, mask); return true;
    case PTX_ST: store(m, w, ins, mask); return true;
    case PTX_ATOM: case PTX_RED: add_atomically(m, w, ins, mask); return true;
    case PTX_CVTA: case PTX_CVTA_TO: convert_address(w, ins, mask); return true;
    case PTX_LDMATRIX:
        if (mask != ~UINT32_C(0)) machine_fault(m, -1, "ldmatrix without all lanes of the warp");
        load_matrix(m, w, ins);
        return true;
    case PTX_CP_ASYNC: begin_copy(m, w, ins, mask); return true;
    case PTX_CP_COMMIT: EACH_LANE(lane, mask) w->committed[lane]++; return true;
    case PTX_CP_WAIT: wait_copies(m, w, ins, mask); return true;
    default: return false;
    }
}
