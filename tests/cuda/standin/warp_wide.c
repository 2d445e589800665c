/* Instructions in which the lanes of a warp exchange values. */
#include <string.h>

#include "machine.h"

/* shfl.sync d, a, b, c, mask: the lane named by b within the segment that c cuts; out of it, the own value. */
static void shuffle(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    int first = ins->n_operands - 4;
    const uint64_t *a = machine_source(w, ins, first), *b = machine_source(w, ins, first + 1);
    const uint64_t *c = machine_source(w, ins, first + 2), *members = machine_source(w, ins, first + 3);
    uint64_t before[PTX_LANES], *to = w->r[ins->operand[0]];
    memcpy(before, a, sizeof before);
    EACH_LANE(lane, mask) {
        uint32_t named = (uint32_t)members[lane] & w->live;
        if (named != mask) machine_fault(m, lane, "shfl.sync of lanes %#x in which %#x take part", named, mask);
        uint32_t clamp = c[lane] & 31, segment = c[lane] >> 8 & 31, self = (uint32_t)lane, by = b[lane] & 31;
        uint32_t low = self & segment, high = low | (clamp & ~segment);
        int64_t from;
        bool inside;
        switch (ins->shuffle) {
        case PTX_UP: from = (int64_t)self - by, inside = from >= (int64_t)high; break;
        case PTX_DOWN: from = self + by, inside = from <= high; break;
        case PTX_BFLY: from = self ^ by, inside = from <= high; break;
        default: from = low | (by & ~segment), inside = from <= high; break;
        }
        if (!inside) from = self;
        if (!(mask >> from & 1)) machine_fault(m, lane, "shfl.sync takes the value of lane %d, which is not there", (int)from);
        to[lane] = before[from];
        if (ins->n_operands == 6 && ins->operand[1] >= 0) w->r[ins->operand[1]][lane] = inside;
    }
}

/* d[16, 8] = a[16, 16] b[16, 8] + c. The products of an element are summed exactly and rounded once with c:
 * tensor cores cut bits off as they add; the tests' bounds allow for that. */
static void multiply_matrices(warp *w, const ptx_ins *ins)
{
    double a[16][16], b[16][8];
    for (int lane = 0; lane < PTX_LANES; lane++) {
        int g = lane / 4, t = 2 * (lane % 4);
        for (int i = 0; i < 4; i++) { /* rows g and g + 8, columns t and t + 8 */
            uint64_t pair = machine_source(w, ins, 4 + i)[lane];
            double *to = &a[g + 8 * (i & 1)][t + 8 * (i >> 1)];
            to[0] = (double)machine_from_bf16((uint16_t)pair);
            to[1] = (double)machine_from_bf16((uint16_t)(pair >> 16));
        }
        for (int i = 0; i < 2; i++) {
            uint64_t pair = machine_source(w, ins, 8 + i)[lane];
            b[t + 8 * i][g] = (double)machine_from_bf16((uint16_t)pair);
            b[t + 8 * i + 1][g] = (double)machine_from_bf16((uint16_t)(pair >> 16));
        }
    }
    double d[16][8] = {{0}};
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++) d[row][column] += a[row][k] * b[k][column];
    for (int lane = 0; lane < PTX_LANES; lane++)
        for (int i = 0; i < 4; i++) {
            double sum = d[lane / 4 + 8 * (i >> 1)][2 * (lane % 4) + (i & 1)];
            double c = (double)machine_f32(machine_source(w, ins, 10 + i)[lane]);
            w->r[ins->operand[i]][lane] = machine_f32_bits((float)(sum + c));
        }
}

/* vote.sync.any.pred p, q, mask */
static void vote(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    const uint64_t *a = machine_source(w, ins, 1), *members = machine_source(w, ins, 2);
    uint64_t any = 0;
    EACH_LANE(lane, mask) {
        uint32_t named = (uint32_t)members[lane] & w->live;
        if (named != mask) machine_fault(m, lane, "vote.sync of lanes %#x in which %#x take part", named, mask);
        any |= a[lane] & 1;
    }
    EACH_LANE(lane, mask) w->r[ins->operand[0]][lane] = any;
}

bool machine_warp_wide(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    if (ins->op == PTX_SHFL) return shuffle(m, w, ins, mask), true;
    if (ins->op == PTX_VOTE) return vote(m, w, ins, mask), true;
    if (ins->op != PTX_MMA) return false;
    if (mask != ~UINT32_C(0)) machine_fault(m, -1, "mma without all lanes of the warp");
    multiply_matrices(w, ins);
    return true;
}
