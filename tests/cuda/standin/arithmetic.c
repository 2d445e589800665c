/* Instructions that work on each lane by itself. */
#include <math.h>
#include <string.h>

#include "machine.h"

float machine_f32(uint64_t bits)
{
    uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

uint64_t machine_f32_bits(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static double f64(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t f64_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ------------------------------------------------------------------ whole numbers */

static bool is_signed(uint8_t type)
{
    return type == PTX_S8 || type == PTX_S16 || type == PTX_S32 || type == PTX_S64;
}

static unsigned bits_of(uint8_t type)
{
    return type == PTX_PRED ? 1 : 8 * (unsigned)ptx_type_bytes(type);
}

static uint64_t keep(unsigned bits, uint64_t value)
{
    return bits >= 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

/* The value as a signed number where the type is one. */
static int64_t extend(uint8_t type, uint64_t value)
{
    unsigned shift = 64 - bits_of(type);
    value <<= shift;
    return is_signed(type) ? (int64_t)value >> shift : (int64_t)(value >> shift);
}

static bool less(uint8_t type, uint64_t a, uint64_t b)
{
    int64_t x = extend(type, a), y = extend(type, b);
    return is_signed(type) ? x < y : (uint64_t)x < (uint64_t)y;
}

static uint64_t multiply(const ptx_ins *ins, uint64_t a, uint64_t b)
{
    __int128 x = extend(ins->type, a), y = extend(ins->type, b);
    if (!is_signed(ins->type)) x = (uint64_t)x, y = (uint64_t)y;
    __int128 product = x * y;
    unsigned bits = bits_of(ins->type);
    if (ins->part == PTX_WIDE) return keep(2 * bits, (uint64_t)product);
    return keep(bits, (uint64_t)(ins->part == PTX_HI ? product >> bits : product));
}

static uint64_t divide(machine *m, int lane, const ptx_ins *ins, uint64_t a, uint64_t b)
{
    int64_t x = extend(ins->type, a), y = extend(ins->type, b);
    bool rest = ins->op == PTX_REM;
    if (y == 0) machine_fault(m, lane, "division by zero");
    if (!is_signed(ins->type)) return rest ? (uint64_t)x % (uint64_t)y : (uint64_t)x / (uint64_t)y;
    if (y == -1) return rest ? 0 : 0 - (uint64_t)x;
    return (uint64_t)(rest ? x % y : x / y);
}

static uint64_t shift_right(const ptx_ins *ins, uint64_t a, uint64_t by)
{
    unsigned bits = bits_of(ins->type);
    by = (uint32_t)by;
    if (is_signed(ins->type)) return (uint64_t)(extend(ins->type, a) >> (by < bits ? by : bits - 1));
    return by < bits ? keep(bits, a) >> by : 0;
}

/* shf.wrap.b32: 32 of the 64 bits b:a */
static uint64_t funnel(const ptx_ins *ins, uint64_t a, uint64_t b, uint64_t by)
{
    uint64_t both = (b & 0xffffffffu) << 32 | (a & 0xffffffffu);
    unsigned n = by & 31u;
    return (uint32_t)(ins->right ? both >> n : both << n >> 32);
}

static uint64_t extract(const ptx_ins *ins, uint64_t a, uint64_t position, uint64_t length)
{
    unsigned bits = bits_of(ins->type), at = position & 255u, n = length & 255u;
    uint64_t value = at < bits ? keep(bits, a) >> at : 0;
    value = keep(n < bits ? n : bits, value);
    if (!is_signed(ins->type) || n == 0) return value;
    unsigned top = at + n - 1 < bits ? at + n - 1 : bits - 1;
    bool negative = keep(bits, a) >> top & 1;
    return negative && n < bits ? value | ~UINT64_C(0) << n : value;
}

static uint64_t insert(const ptx_ins *ins, uint64_t a, uint64_t b, uint64_t position, uint64_t length)
{
    unsigned bits = bits_of(ins->type), at = position & 255u, n = length & 255u;
    if (at >= bits) return b;
    uint64_t field = keep(bits, keep(n, ~UINT64_C(0)) << at);
    return (b & ~field) | (a << at & field);
}

static uint64_t permute(uint64_t a, uint64_t b, uint64_t selector)
{
    uint64_t bytes = (b & 0xffffffffu) << 32 | (a & 0xffffffffu), out = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned pick = selector >> 4 * i & 15u;
        uint64_t byte = bytes >> 8 * (pick & 7) & 255u;
        if (pick & 8) byte = byte & 128u ? 255u : 0;
        out |= byte << 8 * i;
    }
    return out;
}

static uint64_t logic3(uint64_t a, uint64_t b, uint64_t c, uint64_t table)
{
    uint32_t out = 0, x = (uint32_t)a, y = (uint32_t)b, z = (uint32_t)c;
    for (unsigned i = 0; i < 8; i++)
        if (table >> i & 1) out |= (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
    return out;
}

/* dp2a.lo.s32.u32: two signed halves of a times two unsigned bytes of b, and c. */
static uint64_t dot_pairs(uint64_t a, uint64_t b, uint64_t c)
{
    int32_t low = (int16_t)a * (int32_t)(b & 255u), high = (int16_t)(a >> 16) * (int32_t)(b >> 8 & 255u);
    return c + (uint64_t)(int64_t)low + (uint64_t)(int64_t)high;
}

static uint64_t whole(machine *m, int lane, const ptx_ins *ins, const uint64_t v[4])
{
    uint64_t a = v[0], b = v[1], c = v[2];
    switch (ins->op) {
    case PTX_ADD: return a + b;
    case PTX_SUB: return a - b;
    case PTX_MUL: return multiply(ins, a, b);
    case PTX_MAD: return multiply(ins, a, b) + c;
    case PTX_DIV: case PTX_REM: return divide(m, lane, ins, a, b);
    case PTX_MIN: return less(ins->type, a, b) ? a : b;
    case PTX_MAX: return less(ins->type, a, b) ? b : a;
    case PTX_ABS: return extend(ins->type, a) < 0 ? 0 - a : a;
    case PTX_NEG: return 0 - a;
    case PTX_NOT: return ~a;
    case PTX_AND: return a & b;
    case PTX_OR: return a | b;
    case PTX_XOR: return a ^ b;
    case PTX_SHL: return (uint32_t)b < bits_of(ins->type) ? a << (uint32_t)b : 0;
    case PTX_SHR: return shift_right(ins, a, b);
    case PTX_SHF: return funnel(ins, a, b, c);
    case PTX_BFE: return extract(ins, a, b, c);
    case PTX_BFI: return insert(ins, a, b, c, v[3]);
    case PTX_DP2A: return dot_pairs(a, b, c);
    case PTX_PRMT: return permute(a, b, c);
    case PTX_LOP3: return logic3(a, b, c, v[3]);
    default: machine_fault(m, lane, "not executed for whole numbers");
    }
}

/* ------------------------------------------------------------------ floating point */

static float fused(machine *m, int lane, const ptx_ins *ins, float a, float b, float c)
{
    if (ins->round == PTX_RN) return fmaf(a, b, c);
    if (ins->round != PTX_RM) machine_fault(m, lane, "rounds in a way that is not executed");
    double exact = fma((double)a, (double)b, (double)c); /* the product is exact; a tie is below fp32 */
    float down = (float)exact;
    return (double)down > exact ? nextafterf(down, -INFINITY) : down;
}

static uint64_t single(machine *m, int lane, const ptx_ins *ins, const uint64_t v[4])
{
    float a = machine_f32(v[0]), b = machine_f32(v[1]), c = machine_f32(v[2]), out;
    switch (ins->op) {
    case PTX_ADD: out = a + b; break;
    case PTX_SUB: out = a - b; break;
    case PTX_MUL: out = a * b; break;
    case PTX_FMA: out = fused(m, lane, ins, a, b, c); break;
    case PTX_COPYSIGN: out = copysignf(b, a); break;
    case PTX_DIV: out = a / b; break;
    case PTX_MIN: out = fminf(a, b); break;
    case PTX_MAX: out = fmaxf(a, b); break;
    case PTX_ABS: out = fabsf(a); break;
    case PTX_NEG: out = -a; break;
    case PTX_EX2: out = exp2f(a); break;
    case PTX_LG2: out = log2f(a); break;
    case PTX_RCP: out = 1 / a; break;
    case PTX_SQRT: out = sqrtf(a); break;
    case PTX_RSQRT: out = 1 / sqrtf(a); break;
    default: machine_fault(m, lane, "not executed in f32");
    }
    return machine_f32_bits(out);
}

static uint64_t twofold(machine *m, int lane, const ptx_ins *ins, const uint64_t v[4])
{
    double a = f64(v[0]), b = f64(v[1]), c = f64(v[2]), out;
    switch (ins->op) {
    case PTX_ADD: out = a + b; break;
    case PTX_SUB: out = a - b; break;
    case PTX_MUL: out = a * b; break;
    case PTX_FMA: out = fma(a, b, c); break;
    case PTX_DIV: out = a / b; break;
    case PTX_ABS: out = fabs(a); break;
    case PTX_NEG: out = -a; break;
    case PTX_SQRT: out = sqrt(a); break;
    case PTX_RCP: return f64_bits(1 / a) >> 32 << 32; /* rcp.approx: the lower half is zero */
    default: machine_fault(m, lane, "not executed in f64");
    }
    return f64_bits(out);
}

/* ------------------------------------------------------------------ comparing */

static bool compare_real(uint8_t how, double a, double b)
{
    bool unordered = isnan(a) || isnan(b);
    switch (how) {
    case PTX_EQ: return a == b;
    case PTX_NE: return !unordered && a != b;
    case PTX_LT: return a < b;
    case PTX_LE: return a <= b;
    case PTX_GT: return a > b;
    case PTX_GE: return a >= b;
    case PTX_EQU: return unordered || a == b;
    case PTX_NEU: return unordered || a != b;
    case PTX_LTU: return unordered || a < b;
    case PTX_LEU: return unordered || a <= b;
    case PTX_GTU: return unordered || a > b;
    case PTX_GEU: return unordered || a >= b;
    case PTX_NUM: return !unordered;
    default: return unordered;
    }
}

static bool compare(const ptx_ins *ins, uint64_t a, uint64_t b)
{
    if (ins->type == PTX_F32)
        return compare_real(ins->compare, (double)machine_f32(a), (double)machine_f32(b));
    if (ins->type == PTX_F64) return compare_real(ins->compare, f64(a), f64(b));
    bool under = less(ins->type, a, b), over = less(ins->type, b, a);
    switch (ins->compare) {
    case PTX_EQ: return !under && !over;
    case PTX_NE: return under || over;
    case PTX_LT: return under;
    case PTX_LE: return !over;
    case PTX_GT: return over;
    default: return !under;
    }
}

static uint64_t predicate(const ptx_ins *ins, const uint64_t v[4])
{
    bool result = compare(ins, v[0], v[1]), other = v[2] & 1;
    switch (ins->join) {
    case PTX_JOIN_AND: return result && other;
    case PTX_JOIN_OR: return result || other;
    case PTX_JOIN_XOR: return result != other;
    default: return result;
    }
}

/* ------------------------------------------------------------------ moving */

/* mov of a value, or of halves to a whole and back. */
static void move(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    int n_to = ins->vector, n_from = ins->n_operands - n_to;
    unsigned bits = bits_of(ins->type);
    if (n_to < 1 || n_from < 1 || (n_to > 1 && n_from > 1)) machine_fault(m, -1, "not executed");
    EACH_LANE(lane, mask) {
        uint64_t value = 0;
        for (int i = 0; i < n_from; i++) {
            unsigned part = bits / (unsigned)n_from;
            value |= keep(part, machine_source(w, ins, n_to + i)[lane]) << part * (unsigned)i;
        }
        for (int i = 0; i < n_to; i++) {
            unsigned part = bits / (unsigned)n_to;
            if (ins->operand[i] >= 0) w->r[ins->operand[i]][lane] = keep(part, value >> part * (unsigned)i);
        }
    }
}

bool machine_arithmetic(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    const uint64_t *source[4];
    if (ins->op == PTX_MOV) return move(m, w, ins, mask), true;
    if (ins->op == PTX_CVT) return machine_convert(m, w, ins, mask), true;
    if (ins->n_operands < 2) return false;
    for (int i = 0; i < 4; i++)
        source[i] = machine_source(w, ins, i + 1 < ins->n_operands ? i + 1 : 1);
    unsigned bits = bits_of(ins->type) << (ins->part == PTX_WIDE);
    uint64_t *to = w->r[ins->operand[0]];
    EACH_LANE(lane, mask) {
        uint64_t v[4] = {source[0][lane], source[1][lane], source[2][lane], source[3][lane]};
        if (ins->op == PTX_SETP) to[lane] = predicate(ins, v);
        else if (ins->op == PTX_SELP) to[lane] = keep(bits, v[2] & 1 ? v[0] : v[1]);
        else if (ins->type == PTX_F32) to[lane] = single(m, lane, ins, v);
        else if (ins->type == PTX_F64) to[lane] = twofold(m, lane, ins, v);
        else if (ins->type >= PTX_PRED && ins->type <= PTX_S64 && ins->type != PTX_F16 &&
                 ins->type != PTX_BF16 && ins->type != PTX_F16X2 && ins->type != PTX_BF16X2)
            to[lane] = keep(bits, whole(m, lane, ins, v));
        else machine_fault(m, lane, "not executed for this type");
    }
    return true;
}
