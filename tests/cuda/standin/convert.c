/* cvt: between whole numbers, f32, f64 and the 16-bit formats. */
#include <math.h>
#include <string.h>

#include "machine.h"

float machine_from_bf16(uint16_t bits)
{
    return machine_f32((uint64_t)bits << 16);
}

/* To nearest, ties to even; NaN is 0x7fff, as the instruction has it. */
static uint16_t to_bf16(float value)
{
    if (isnan(value)) return 0x7fff;
    uint32_t bits = (uint32_t)machine_f32_bits(value);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static double rounded(uint8_t how, double value)
{
    switch (how) {
    case PTX_RZI: case PTX_RZ: return trunc(value);
    case PTX_RMI: case PTX_RM: return floor(value);
    case PTX_RPI: case PTX_RP: return ceil(value);
    default: return rint(value);
    }
}

/* Real to whole: rounded, held within the type, NaN is 0. */
static uint64_t whole_of(uint8_t type, uint8_t how, double value)
{
    bool with_sign = type == PTX_S8 || type == PTX_S16 || type == PTX_S32 || type == PTX_S64;
    int bits = 8 * (int)ptx_type_bytes(type);
    double low = with_sign ? -ldexp(1, bits - 1) : 0, past = ldexp(1, with_sign ? bits - 1 : bits);
    if (isnan(value)) return 0;
    value = rounded(how, value);
    if (value < low) value = low;
    if (value >= past) return with_sign ? (UINT64_C(1) << (bits - 1)) - 1 : ~UINT64_C(0) >> (64 - bits);
    uint64_t out = with_sign ? (uint64_t)(int64_t)value : (uint64_t)value;
    return bits == 64 ? out : out & ((UINT64_C(1) << bits) - 1);
}

static bool is_real(uint8_t type)
{
    return type == PTX_F32 || type == PTX_F64 || type == PTX_BF16 || type == PTX_F16;
}

/* Sign, 5 bits of exponent, 10 of fraction; those with exponent 0 are multiples of 2^-24. */
static double from_f16(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) size = fraction ? NAN : INFINITY;
    return bits >> 15 ? -size : size;
}

static double real_of(uint8_t type, uint64_t bits)
{
    double value;
    if (type == PTX_F32) return (double)machine_f32(bits);
    if (type == PTX_BF16) return (double)machine_from_bf16((uint16_t)bits);
    if (type == PTX_F16) return from_f16((uint16_t)bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int64_t extended(uint8_t type, uint64_t bits)
{
    switch (type) {
    case PTX_S8: return (int8_t)bits;
    case PTX_S16: return (int16_t)bits;
    case PTX_S32: return (int32_t)bits;
    case PTX_U8: case PTX_B8: return (uint8_t)bits;
    case PTX_U16: case PTX_B16: return (uint16_t)bits;
    case PTX_U32: case PTX_B32: return (uint32_t)bits;
    default: return (int64_t)bits;
    }
}

static uint64_t bits_as(uint8_t type, double value)
{
    uint64_t bits;
    if (type == PTX_F32) return machine_f32_bits((float)value);
    if (type == PTX_BF16) return to_bf16((float)value);
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A whole number to f32 or f64 in one rounding. */
static uint64_t real_from_whole(uint8_t to, uint8_t from, uint64_t bits)
{
    int64_t value = extended(from, bits);
    if (from == PTX_U64 || from == PTX_B64)
        return to == PTX_F32 ? machine_f32_bits((float)bits) : bits_as(to, (double)bits);
    return to == PTX_F32 ? machine_f32_bits((float)value) : bits_as(to, (double)value);
}

static uint64_t converted(machine *m, int lane, const ptx_ins *ins, uint64_t bits)
{
    uint8_t to = ins->type, from = ins->from;
    bool integral = ins->round >= PTX_RNI;
    if (ins->saturate) { /* to [0, 1], NaN to 0 */
        if (to != PTX_F32 || from != PTX_F32) machine_fault(m, lane, "not executed");
        return machine_f32_bits(fminf(fmaxf(machine_f32(bits), 0), 1));
    }
    if (is_real(to) && is_real(from)) {
        if (to == PTX_F16 || (from == PTX_F64 && to == PTX_BF16)) machine_fault(m, lane, "not executed");
        if (integral) return bits_as(to, rounded(ins->round, real_of(from, bits)));
        if (ins->round != PTX_RN) machine_fault(m, lane, "rounds in a way that is not executed");
        return bits_as(to, real_of(from, bits));
    }
    if (is_real(to) && to != PTX_BF16 && to != PTX_F16) return real_from_whole(to, from, bits);
    if (is_real(from)) return whole_of(to, ins->round, real_of(from, bits));
    if (ptx_type_bytes(to) == 0 || ptx_type_bytes(from) == 0 || is_real(to))
        machine_fault(m, lane, "not executed");
    uint64_t value = (uint64_t)extended(from, bits);
    size_t bytes = ptx_type_bytes(to);
    return bytes == 8 ? value : value & ((UINT64_C(1) << 8 * bytes) - 1);
}

void machine_convert(machine *m, warp *w, const ptx_ins *ins, uint32_t mask)
{
    uint64_t *to = w->r[ins->operand[0]];
    const uint64_t *a = machine_source(w, ins, 1);
    if (ins->type == PTX_BF16X2) { /* the first source is the upper half */
        if (ins->n_operands != 3 || ins->from != PTX_F32 || ins->round != PTX_RN)
            machine_fault(m, -1, "not executed");
        const uint64_t *b = machine_source(w, ins, 2);
        EACH_LANE(lane, mask)
            to[lane] = (uint64_t)to_bf16(machine_f32(a[lane])) << 16 | to_bf16(machine_f32(b[lane]));
        return;
    }
    EACH_LANE(lane, mask) to[lane] = converted(m, lane, ins, a[lane]);
}
