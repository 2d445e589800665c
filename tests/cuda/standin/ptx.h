/* PTX as data: what ptx_parse.c and ptx_decode.c make of the text that nvcc emitted, and execute.c runs.
 *
 * Every operand of an instruction is a register number. Immediates, addresses of variables and special
 * registers (%tid.x, ...) have numbers of their own behind the declared registers, so that executing an
 * instruction looks nothing up. A register holds 64 bits for each lane; what is narrower is zero-extended. */
#ifndef STANDIN_PTX_H
#define STANDIN_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_LANES 32
#define PTX_MOST_OPERANDS 20
#define PTX_NAME 256

typedef enum ptx_type {
    PTX_NONE, PTX_PRED, PTX_B8, PTX_U8, PTX_S8, PTX_B16, PTX_U16, PTX_S16, PTX_F16, PTX_BF16, PTX_B32,
    PTX_U32, PTX_S32, PTX_F32, PTX_F16X2, PTX_BF16X2, PTX_B64, PTX_U64, PTX_S64, PTX_F64, PTX_B128
} ptx_type;

typedef enum ptx_op {
    PTX_ABS, PTX_ADD, PTX_AND, PTX_ATOM, PTX_BAR, PTX_BAR_WARP, PTX_BFE, PTX_BFI, PTX_BRA, PTX_COPYSIGN, PTX_CP_ASYNC,
    PTX_CP_COMMIT, PTX_CP_WAIT, PTX_CVT, PTX_CVTA, PTX_CVTA_TO, PTX_DIV, PTX_DP2A, PTX_EX2, PTX_EXIT, PTX_FMA, PTX_LD,
    PTX_LDMATRIX, PTX_LG2, PTX_LOP3, PTX_MAD, PTX_MAX, PTX_MIN, PTX_MMA, PTX_MOV, PTX_MUL, PTX_NEG, PTX_NOT,
    PTX_OR, PTX_PRMT, PTX_RCP, PTX_RED, PTX_REM, PTX_RSQRT, PTX_SELP, PTX_SETP, PTX_SHF, PTX_SHFL, PTX_SHL, PTX_SHR,
    PTX_SQRT, PTX_ST, PTX_SUB, PTX_VOTE, PTX_XOR, PTX_N_OPS
} ptx_op;

typedef enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_PARAM } ptx_space;
typedef enum ptx_compare {
    PTX_EQ, PTX_NE, PTX_LT, PTX_LE, PTX_GT, PTX_GE, PTX_EQU, PTX_NEU, PTX_LTU, PTX_LEU, PTX_GTU, PTX_GEU,
    PTX_NUM, PTX_NAN
} ptx_compare;
typedef enum ptx_part { PTX_LO, PTX_HI, PTX_WIDE } ptx_part;           /* of a product */
typedef enum ptx_join { PTX_ALONE, PTX_JOIN_AND, PTX_JOIN_OR, PTX_JOIN_XOR } ptx_join; /* of setp */
typedef enum ptx_round { PTX_RN, PTX_RZ, PTX_RM, PTX_RP, PTX_RNI, PTX_RZI, PTX_RMI, PTX_RPI } ptx_round;
typedef enum ptx_shuffle { PTX_BFLY, PTX_DOWN, PTX_UP, PTX_IDX } ptx_shuffle;

typedef struct ptx_ins {
    uint8_t op, type, from;  /* from: the source's type where it is another (cvt, setp has none) */
    uint8_t compare, join, part, round, space, shuffle;
    uint8_t vector;          /* values of ld, st; matrices of ldmatrix; bytes of cp.async */
    bool transpose, guard_not, right, saturate;
    int32_t guard;           /* predicate register, -1: none */
    uint8_t n_operands;
    int32_t operand[PTX_MOST_OPERANDS]; /* destinations first; -1: `_` */
    int64_t offset;          /* of the address, which is the first operand that is no destination of ld, or
                                the first operand of st */
    int64_t offset2;         /* of cp.async's source */
    int32_t target;          /* bra */
    int32_t line;
    const char *text;
} ptx_ins;

typedef enum ptx_special {
    PTX_TID_X, PTX_TID_Y, PTX_TID_Z, PTX_NTID_X, PTX_NTID_Y, PTX_NTID_Z, PTX_CTAID_X, PTX_CTAID_Y,
    PTX_CTAID_Z, PTX_NCTAID_X, PTX_NCTAID_Y, PTX_NCTAID_Z, PTX_LANEID, PTX_WARPID, PTX_N_SPECIALS
} ptx_special;

typedef struct ptx_kernel {
    char name[PTX_NAME];
    ptx_ins *code;
    size_t n_code, code_capacity;
    size_t n_registers;           /* declared, specials and constants */
    int32_t special[PTX_N_SPECIALS]; /* register, -1: not used */
    struct ptx_constant { int32_t reg; uint64_t value; } *constants;
    size_t n_constants, constants_capacity;
    size_t param_bytes, shared_bytes;
    unsigned most_threads;        /* .maxntid; 0: none */
    struct ptx_kernel *next;
} ptx_kernel;

typedef struct ptx_module {
    char *text;                   /* what the instructions' texts point into */
    ptx_kernel *kernels;
} ptx_module;

/* An edit of one instruction, to see that tests notice: in `kernel`, of the instructions whose text contains
 * `from` and that stand behind the first one with `after` ("-": anywhere), the one numbered `which` has that
 * part replaced by `to`. Nothing to edit is an error. */
typedef struct ptx_edit {
    char kernel[PTX_NAME], after[PTX_NAME], from[PTX_NAME], to[PTX_NAME];
    size_t which;
} ptx_edit;

/* NULL and a message when the text has something that is not known here. */
ptx_module *ptx_parse(const char *text, size_t bytes, const ptx_edit *edit, char *message, size_t size);
void ptx_free(ptx_module *module);

/* ------------------------------------------------------------------ between parser and decoder */

typedef struct ptx_variable {
    char name[PTX_NAME];
    uint64_t address;             /* in its space */
    ptx_space space;
} ptx_variable;

typedef struct ptx_names {
    struct ptx_range { char prefix[32]; int32_t first, count; } ranges[64]; /* %r<9>: %r0 .. %r8 */
    size_t n_ranges;
    struct ptx_named { char name[PTX_NAME]; int32_t reg; } *named;
    size_t n_named, named_capacity;
    ptx_variable *variables;
    size_t n_variables, variables_capacity;
    struct ptx_label { char name[PTX_NAME]; size_t at; } *labels;
    size_t n_labels, labels_capacity;
    struct ptx_jump { size_t at; char label[PTX_NAME]; } *jumps;
    size_t n_jumps, jumps_capacity;
} ptx_names;

/* One instruction's text into *out; operands are looked up in `names`. False and a message if unknown. */
bool ptx_decode(ptx_kernel *kernel, ptx_names *names, const char *text, ptx_ins *out, char *message,
                size_t size);
int32_t ptx_constant(ptx_kernel *kernel, uint64_t value);
ptx_type ptx_type_of(const char *word);
size_t ptx_type_bytes(ptx_type type);
/* realloc that ends the program without memory: this is test code. */
void *ptx_grow(void *array, size_t *capacity, size_t need, size_t size);

#endif
