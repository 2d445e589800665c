/* One instruction's text: mnemonic, modifiers, operands. What is not known is an error, never passed over. */
#include "ptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WORDS 16
#define MOST_TEXT 1024

/* ------------------------------------------------------------------ words */

typedef struct word_value {
    const char *word;
    int value;
} word_value;

static const word_value types[] = {
    {"pred", PTX_PRED}, {"b8", PTX_B8}, {"u8", PTX_U8}, {"s8", PTX_S8}, {"b16", PTX_B16}, {"u16", PTX_U16},
    {"s16", PTX_S16}, {"f16", PTX_F16}, {"bf16", PTX_BF16}, {"b32", PTX_B32}, {"u32", PTX_U32},
    {"s32", PTX_S32}, {"f32", PTX_F32}, {"f16x2", PTX_F16X2}, {"bf16x2", PTX_BF16X2}, {"b64", PTX_B64},
    {"u64", PTX_U64}, {"s64", PTX_S64}, {"f64", PTX_F64}, {NULL, 0}};
static const word_value ops[] = {
    {"abs", PTX_ABS}, {"add", PTX_ADD}, {"and", PTX_AND}, {"atom.global.add", PTX_ATOM}, {"bar.sync", PTX_BAR}, {"bar.warp.sync", PTX_BAR_WARP},
    {"bfe", PTX_BFE}, {"bfi", PTX_BFI}, {"bra", PTX_BRA}, {"copysign", PTX_COPYSIGN},
    {"cp.async.ca.shared.global", PTX_CP_ASYNC},
    {"cp.async.cg.shared.global", PTX_CP_ASYNC}, {"cp.async.commit_group", PTX_CP_COMMIT},
    {"cp.async.wait_group", PTX_CP_WAIT}, {"cvt", PTX_CVT}, {"cvta", PTX_CVTA}, {"cvta.to", PTX_CVTA_TO},
    {"div", PTX_DIV}, {"dp2a.lo.s32.u32", PTX_DP2A}, {"ex2", PTX_EX2}, {"exit", PTX_EXIT}, {"ret", PTX_EXIT}, {"fma", PTX_FMA},
    {"ld", PTX_LD},
    {"ldmatrix.sync.aligned.m8n8", PTX_LDMATRIX}, {"lg2", PTX_LG2}, {"lop3", PTX_LOP3}, {"mad", PTX_MAD},
    {"max", PTX_MAX}, {"min", PTX_MIN}, {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", PTX_MMA},
    {"mov", PTX_MOV}, {"mul", PTX_MUL}, {"neg", PTX_NEG}, {"not", PTX_NOT}, {"or", PTX_OR}, {"prmt", PTX_PRMT},
    {"rcp", PTX_RCP}, {"red.global.add", PTX_RED}, {"rem", PTX_REM}, {"rsqrt", PTX_RSQRT}, {"selp", PTX_SELP}, {"setp", PTX_SETP},
    {"shf", PTX_SHF}, {"shfl.sync", PTX_SHFL}, {"shl", PTX_SHL}, {"shr", PTX_SHR}, {"sqrt", PTX_SQRT},
    {"st", PTX_ST}, {"sub", PTX_SUB}, {"vote.sync.any.pred", PTX_VOTE},
    {"xor", PTX_XOR}, {NULL, 0}};
static const word_value compares[] = {
    {"eq", PTX_EQ}, {"ne", PTX_NE}, {"lt", PTX_LT}, {"le", PTX_LE}, {"gt", PTX_GT}, {"ge", PTX_GE},
    {"lo", PTX_LT}, {"ls", PTX_LE}, {"hi", PTX_GT}, {"hs", PTX_GE}, {"equ", PTX_EQU}, {"neu", PTX_NEU},
    {"ltu", PTX_LTU}, {"leu", PTX_LEU}, {"gtu", PTX_GTU}, {"geu", PTX_GEU}, {"num", PTX_NUM}, {"nan", PTX_NAN},
    {NULL, 0}};
static const word_value joins[] = {
    {"and", PTX_JOIN_AND}, {"or", PTX_JOIN_OR}, {"xor", PTX_JOIN_XOR}, {NULL, 0}};
static const word_value parts[] = {{"lo", PTX_LO}, {"hi", PTX_HI}, {"wide", PTX_WIDE}, {NULL, 0}};
static const word_value rounds[] = {
    {"rn", PTX_RN}, {"rz", PTX_RZ}, {"rm", PTX_RM}, {"rp", PTX_RP}, {"rni", PTX_RNI}, {"rzi", PTX_RZI},
    {"rmi", PTX_RMI}, {"rpi", PTX_RPI}, {NULL, 0}};
static const word_value spaces[] = {
    {"global", PTX_GLOBAL}, {"shared", PTX_SHARED}, {"param", PTX_PARAM}, {NULL, 0}};
static const word_value shuffles[] = {
    {"bfly", PTX_BFLY}, {"down", PTX_DOWN}, {"up", PTX_UP}, {"idx", PTX_IDX}, {NULL, 0}};
static const word_value vectors[] = {
    {"v2", 2}, {"v4", 4}, {"x1", 1}, {"x2", 2}, {"x4", 4}, {NULL, 0}};
static const word_value specials[] = {
    {"%tid.x", PTX_TID_X}, {"%tid.y", PTX_TID_Y}, {"%tid.z", PTX_TID_Z}, {"%ntid.x", PTX_NTID_X},
    {"%ntid.y", PTX_NTID_Y}, {"%ntid.z", PTX_NTID_Z}, {"%ctaid.x", PTX_CTAID_X}, {"%ctaid.y", PTX_CTAID_Y},
    {"%ctaid.z", PTX_CTAID_Z}, {"%nctaid.x", PTX_NCTAID_X}, {"%nctaid.y", PTX_NCTAID_Y},
    {"%nctaid.z", PTX_NCTAID_Z}, {"%laneid", PTX_LANEID}, {"%warpid", PTX_WARPID}, {NULL, 0}};

static bool look_up(const word_value *table, const char *word, int *value)
{
    for (; table->word; table++)
        if (!strcmp(table->word, word)) {
            *value = table->value;
            return true;
        }
    return false;
}

ptx_type ptx_type_of(const char *word)
{
    char name[8];
    int type = PTX_NONE;
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word, " \t.,"), word);
    return look_up(types, name, &type) ? (ptx_type)type : PTX_NONE;
}

size_t ptx_type_bytes(ptx_type type)
{
    if (type <= PTX_PRED) return 0;
    return type <= PTX_S8 ? 1 : type <= PTX_BF16 ? 2 : type <= PTX_BF16X2 ? 4 : 8;
}

/* ------------------------------------------------------------------ mnemonic and modifiers */

static bool fail(char *message, size_t size, const char *what, const char *word)
{
    (void)snprintf(message, size, "%s: %s", what, word);
    return false;
}

/* The longest known name that the mnemonic begins with, at a dot; *rest: the modifiers behind it. */
static bool find_op(const char *mnemonic, ptx_ins *out, const char **rest)
{
    size_t longest = 0;
    for (const word_value *op = ops; op->word; op++) {
        size_t n = strlen(op->word);
        if (n <= longest || strncmp(op->word, mnemonic, n) || (mnemonic[n] && mnemonic[n] != '.')) continue;
        longest = n;
        out->op = (uint8_t)op->value;
    }
    *rest = mnemonic + longest;
    return longest > 0;
}

/* Hints and promises that change nothing of the result; the approximations are computed better here. */
static bool is_hint(const ptx_ins *ins, const char *word)
{
    static const char *const memory[] = {"nc", "ca", "cg", "cs", "L2::128B", "L2::256B", NULL};
    static const char *const other[] = {"approx", "full", "uni", "ftz", NULL};
    bool is_memory = ins->op == PTX_LD || ins->op == PTX_ST || ins->op == PTX_CP_ASYNC;
    for (const char *const *hint = is_memory ? memory : other; *hint; hint++)
        if (!strcmp(*hint, word)) return true;
    return false;
}

static bool op_modifier(ptx_ins *out, const char *word)
{
    int value;
    const word_value *table = NULL;
    uint8_t *field = NULL;
    switch (out->op) {
    case PTX_SETP:
        if (look_up(compares, word, &value)) return out->compare = (uint8_t)value, true;
        table = joins, field = &out->join;
        break;
    case PTX_MUL: case PTX_MAD:
        if (look_up(rounds, word, &value)) return value == PTX_RN;
        table = parts, field = &out->part;
        break;
    case PTX_LD: case PTX_ST: case PTX_CVTA: case PTX_CVTA_TO:
        if (look_up(vectors, word, &value)) return out->vector = (uint8_t)value, true;
        table = spaces, field = &out->space;
        break;
    case PTX_LDMATRIX:
        if (!strcmp(word, "trans")) return out->transpose = true;
        if (!strcmp(word, "shared")) return true;
        table = vectors, field = &out->vector;
        break;
    case PTX_SHFL: table = shuffles, field = &out->shuffle; break;
    case PTX_SHF:
        if (!strcmp(word, "wrap")) return true;
        if (!strcmp(word, "l") || !strcmp(word, "r")) return out->right = word[0] == 'r', true;
        return false;
    case PTX_CVT:
        if (!strcmp(word, "sat")) return out->saturate = true;
        table = rounds, field = &out->round;
        break;
    case PTX_FMA: table = rounds, field = &out->round; break;
    default: /* results are rounded to nearest even */
        return look_up(rounds, word, &value) && value == PTX_RN;
    }
    if (!look_up(table, word, &value)) return false;
    *field = (uint8_t)value;
    return true;
}

static bool decode_modifiers(ptx_ins *out, const char *rest, char *message, size_t size)
{
    char words[MOST_TEXT], *save = NULL;
    (void)snprintf(words, sizeof words, "%s", rest);
    out->vector = 1;
    for (char *word = strtok_r(words, ".", &save); word; word = strtok_r(NULL, ".", &save)) {
        int type;
        if (op_modifier(out, word)) continue;
        if (look_up(types, word, &type)) {
            if (out->type == PTX_NONE) out->type = (uint8_t)type;
            else if (out->from == PTX_NONE) out->from = (uint8_t)type;
            else return fail(message, size, "unknown instruction: too many types", rest);
        } else if (!is_hint(out, word)) {
            return fail(message, size, "unknown instruction: modifier", word);
        }
    }
    return true;
}

/* ------------------------------------------------------------------ operands */

int32_t ptx_constant(ptx_kernel *kernel, uint64_t value)
{
    for (size_t i = 0; i < kernel->n_constants; i++)
        if (kernel->constants[i].value == value) return kernel->constants[i].reg;
    kernel->constants = ptx_grow(kernel->constants, &kernel->constants_capacity, kernel->n_constants + 1,
                                 sizeof *kernel->constants);
    int32_t reg = (int32_t)kernel->n_registers++;
    kernel->constants[kernel->n_constants].reg = reg;
    kernel->constants[kernel->n_constants++].value = value;
    return reg;
}

static int32_t find_register(ptx_kernel *kernel, const ptx_names *names, const char *word)
{
    int special;
    for (size_t i = 0; i < names->n_named; i++)
        if (!strcmp(names->named[i].name, word)) return names->named[i].reg;
    if (look_up(specials, word, &special)) {
        if (kernel->special[special] < 0) kernel->special[special] = (int32_t)kernel->n_registers++;
        return kernel->special[special];
    }
    size_t prefix = strcspn(word, "0123456789");
    for (size_t i = 0; i < names->n_ranges; i++) {
        const struct ptx_range *range = &names->ranges[i];
        if (strlen(range->prefix) != prefix || strncmp(range->prefix, word, prefix)) continue;
        long number = strtol(word + prefix, NULL, 10);
        if (number < range->count) return range->first + (int32_t)number;
    }
    return -1;
}

/* A whole number, or the bits of a floating point one: 0f3F800000, 0d3FF0000000000000. */
static bool is_immediate(const char *word, uint64_t *value)
{
    char *end;
    if (word[0] == '0' && strchr("fFdD", word[1]) && word[1]) {
        *value = strtoull(word + 2, &end, 16);
    } else if (word[0] == '-') {
        *value = (uint64_t)strtoll(word, &end, 0);
    } else if (isdigit((unsigned char)word[0])) {
        *value = strtoull(word, &end, 0);
        if (*end == 'U') end++;
    } else {
        return false;
    }
    return *end == '\0';
}

static bool find_operand(ptx_kernel *kernel, const ptx_names *names, const char *word, int32_t *reg)
{
    uint64_t value;
    *reg = -1;
    if (!strcmp(word, "_")) return true;
    if (is_immediate(word, &value)) {
        *reg = ptx_constant(kernel, value);
        return true;
    }
    *reg = find_register(kernel, names, word);
    if (*reg >= 0) return true;
    for (size_t i = 0; i < names->n_variables; i++)
        if (!strcmp(names->variables[i].name, word)) {
            *reg = ptx_constant(kernel, names->variables[i].address);
            return true;
        }
    return false;
}

static bool add_operand(ptx_kernel *kernel, const ptx_names *names, const char *word, ptx_ins *out)
{
    if (out->n_operands == PTX_MOST_OPERANDS) return false;
    return find_operand(kernel, names, word, &out->operand[out->n_operands++]);
}

/* "[%rd1+16]" */
static bool add_address(ptx_kernel *kernel, const ptx_names *names, char *word, ptx_ins *out)
{
    char *plus = strchr(word, '+');
    int64_t offset = 0;
    if (plus) {
        *plus = '\0';
        offset = strtoll(plus + 1, NULL, 0);
        for (char *p = plus; p > word && isspace((unsigned char)p[-1]);) *--p = '\0';
    }
    if (out->op == PTX_CP_ASYNC && out->n_operands > 0) out->offset2 = offset;
    else out->offset = offset;
    return add_operand(kernel, names, word, out);
}

static bool decode_operands(ptx_kernel *kernel, ptx_names *names, char *text, ptx_ins *out, char *message,
                            size_t size)
{
    char *save = NULL;
    int in_first_vector = 0;
    for (char *word = strtok_r(text, " \t\n,|", &save); word; word = strtok_r(NULL, " \t\n,|", &save)) {
        bool good;
        if (*word == '{' && out->n_operands == 0 && out->op == PTX_MOV) in_first_vector = 1;
        while (*word == '{') word++;
        size_t n = strlen(word);
        bool closes = n > 0 && word[n - 1] == '}';
        while (n > 0 && word[n - 1] == '}') word[--n] = '\0';
        if (n == 0) continue;
        if (*word == '[') {
            if (word[n - 1] == ']') word[n - 1] = '\0';
            good = add_address(kernel, names, word + 1, out);
        } else {
            good = add_operand(kernel, names, word, out);
        }
        if (!good) return fail(message, size, "unknown operand", word);
        if (in_first_vector && closes) {
            out->vector = out->n_operands;
            in_first_vector = 0;
        }
    }
    return true;
}

static bool check_shape(const ptx_ins *ins, char *message, size_t size)
{
    static const struct { uint8_t op, least, most; } shapes[] = {
        {PTX_BAR, 1, 1}, {PTX_ATOM, 3, 3}, {PTX_RED, 2, 2}, {PTX_CP_ASYNC, 3, 4}, {PTX_LDMATRIX, 2, 5}, {PTX_MMA, 14, 14}, {PTX_SHFL, 5, 6}, {PTX_VOTE, 3, 3},
        {PTX_FMA, 4, 4}, {PTX_DP2A, 4, 4}, {PTX_MAD, 4, 4}, {PTX_SELP, 4, 4}, {PTX_SETP, 3, 4}, {PTX_LOP3, 5, 5}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (ins->op == shapes[i].op && (ins->n_operands < shapes[i].least || ins->n_operands > shapes[i].most))
            return fail(message, size, "unknown instruction", "its number of operands");
    if (ins->op == PTX_SETP && (ins->n_operands == 4) != (ins->join != PTX_ALONE))
        return fail(message, size, "unknown instruction", "setp with two results");
    return true;
}

static bool decode_jump(ptx_kernel *kernel, ptx_names *names, const char *label)
{
    names->jumps = ptx_grow(names->jumps, &names->jumps_capacity, names->n_jumps + 1, sizeof *names->jumps);
    struct ptx_jump *jump = &names->jumps[names->n_jumps++];
    jump->at = kernel->n_code;
    (void)snprintf(jump->label, sizeof jump->label, "%.*s", (int)strcspn(label, " \t\n"), label);
    return true;
}

bool ptx_decode(ptx_kernel *kernel, ptx_names *names, const char *text, ptx_ins *out, char *message,
                size_t size)
{
    char copy[MOST_TEXT], *at = copy;
    const char *rest = NULL;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return fail(message, size, "unknown instruction", "too long");
    if (*at == '@') {
        out->guard_not = at[1] == '!';
        char *name = at + 1 + out->guard_not;
        at += strcspn(at, " \t\n");
        if (*at) *at++ = '\0';
        out->guard = find_register(kernel, names, name);
        if (out->guard < 0) return fail(message, size, "unknown predicate", name);
        at += strspn(at, " \t\n");
    }
    char *mnemonic = at;
    at += strcspn(at, " \t\n");
    if (*at) *at++ = '\0';
    at += strspn(at, " \t\n");
    if (!find_op(mnemonic, out, &rest)) return fail(message, size, "unknown instruction", mnemonic);
    if (!decode_modifiers(out, rest, message, size)) return false;
    if (out->op == PTX_DP2A) out->type = PTX_S32;
    if (out->op == PTX_BRA) return decode_jump(kernel, names, at);
    return decode_operands(kernel, names, at, out, message, size) && check_shape(out, message, size);
}
