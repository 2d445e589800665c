/* Kernels: a table of slots per instruction set, filled by the scalar reference first and overridden
 * by faster ones at run time.
 *
 * Rules for every slot of every table:
 *  - Row-invariant: what comes out for a row depends on that row's input alone, bit for bit, whatever
 *    other rows are in the call, how many there are, and where among them it stands. (This is what
 *    makes results equal for every number of ranks and threads.)
 *  - Writes only its output; never reads or writes past the ends given (loads beyond a row's end are
 *    masked). No alignment is assumed unless said.
 *  - Allocates nothing, keeps no state, may be called from any number of threads at once.
 *  - Activations are fp32. Shapes are [rows, dim] with a row stride `ld*` in floats, outermost first.
 */
#ifndef LONGREEL_KERNELS_H
#define LONGREEL_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <longreel/status.h>
#include <longreel/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ attention
 *
 * One block of keys against a tile of queries of the heads that share one KV head, carrying the
 * online softmax (running maximum m, sum l, unnormalised output o, all fp32) from block to block:
 *     s = q . k ;  m' = max(m, s) ;  p = exp(s - m') ;  l' = l exp(m - m') + sum p ;
 *     o' = o exp(m - m') + p v
 * (Milakov & Gimelshein 2018; Dao et al. 2022). No scale is applied: callers scale q.
 *
 * Keys are worked in sub-blocks of LR_ATTN_BLOCK counted from the block's first key, in ascending
 * order, so a row's result depends on the sequence of (first_key, n_keys) blocks it was shown and on
 * nothing else. A block in which a row sees no key leaves that row's state untouched to the bit, so
 * callers may skip blocks that no row of a tile sees.
 *
 * K comes as panels of LR_KEY_PANEL keys, transposed: [ceil(n_keys / PANEL)][head_dim][PANEL], keys
 * past n_keys zero (lr_kernels.pack_keys makes them). V is row-major [n_keys, head_dim].
 * All values are finite. head_dim is any multiple of 2 from 2 to 512. */
#define LR_KEY_PANEL 16
#define LR_ATTN_BLOCK 128

typedef struct lr_attn {
    size_t n_tokens;  /* query tokens of the tile */
    size_t group;     /* query heads that share the KV head: row (t, g) */
    size_t head_dim;
    const float *q;   /* row (t, g) at q + t * q_token + g * head_dim */
    size_t q_token;
    float *o;         /* row (t, g) at o + t * o_token + g * head_dim */
    size_t o_token;
    float *m, *l;     /* row (t, g) at m + t * ml_token + g; start: m = -INFINITY, l = 0, o = 0 */
    size_t ml_token;
    const uint64_t *lo, *hi; /* [n_tokens] token t sees keys lo[t] <= key < hi[t] (absolute) */
    const float *k_panels;
    const float *v;
    size_t v_key;        /* floats from key to key */
    uint64_t first_key;  /* absolute index of the block's first key */
    size_t n_keys;
    float *scratch;      /* lr_kernels.attn_scratch(n_tokens * group, head_dim) floats, 64-byte aligned */
    bool same_queries;   /* n_tokens, group, head_dim and the values at q are those of the last call with
                            this scratch, which nobody has touched since: saves a copy of them */
} lr_attn;

/* Positions and rotary angles: one table for one head type; immutable, shared by threads. */
typedef struct lr_rope lr_rope;

/* ------------------------------------------------------------------ linear layers
 *
 * y[rows, n] = x[rows, k] . W^T (+ bias), W [n, k] row-major in a checkpoint, prepared once.
 * Prepared weights belong to one kernel table. Row-invariant as above; a back end that can promise
 * that only for fixed tiles (BLAS) aligns its tiles to `row0`, the absolute number of the first row in
 * the row's own sequence (window, frame, sound track), and pads with zero rows. */
typedef struct lr_linear lr_linear;

typedef struct lr_linear_part { /* one [n, k] matrix; several stand one below the other */
    lr_tensor weight;           /* F32, BF16 or F16, two dimensions; may be freed after create only if
                                   lr_linear_create copied it (it always does) */
} lr_linear_part;

/* ------------------------------------------------------------------ the table */

typedef struct lr_kernels {
    const char *isa;  /* "scalar", "avx2", "avx512" */

    /* y = x * (mean(x^2) + eps)^-1/2 * w; w NULL: no gain. The mean is taken in fp32 lanes combined in
     * a fixed order, or better. y may be x. */
    void (*rms_norm)(float *y, size_t ldy, const float *x, size_t ldx, const float *w, size_t rows,
                     size_t dim, float eps);
    /* h += the above. */
    void (*rms_norm_add)(float *h, size_t ldh, const float *x, size_t ldx, const float *w, size_t rows,
                         size_t dim, float eps);
    /* y = (x - mean) / sqrt(var + eps) * w + b (b may be NULL), var over dim; y may be x. */
    void (*layer_norm)(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                       const float *b, size_t rows, size_t dim, float eps);
    /* Rotate-half: for each head (head stride `head` floats) of each row turns the first `dim` values:
     * pairs (j, j + dim/2) by cos[row, j], sin[row, j] ([rows, dim/2]). In place. */
    void (*rope_half)(float *x, size_t ldx, size_t head, size_t n_heads, const float *cos,
                      const float *sin, size_t rows, size_t dim);
    /* Neighbouring values in pairs, each of a pair by its own angle (V-JEPA 2): for each head of each row
     * x[e] = x[e] cos[row, e] + x[e ^ 1] sin[row, e], e < dim, even; cos, sin [rows, dim], the sign of
     * sin being the caller's. In place; values from dim on stay. */
    void (*rope_pairs)(float *x, size_t ldx, size_t head, size_t n_heads, const float *cos,
                       const float *sin, size_t rows, size_t dim);
    /* y = gelu_tanh(gate) * up, element by element; y may be gate or up. */
    void (*gelu_tanh_mul)(float *y, size_t ldy, const float *gate, size_t ldg, const float *up,
                          size_t ldu, size_t rows, size_t dim);
    void (*gelu_erf)(float *y, const float *x, size_t n);
    void (*silu)(float *y, const float *x, size_t n);
    /* y[rows, dim] = a * sigmoid(b): the gated linear unit; a, b rows of [rows, ...]. */
    void (*glu)(float *y, size_t ldy, const float *a, const float *b, size_t ldab, size_t rows,
                size_t dim);
    void (*clamp)(float *y, const float *x, float lo, float hi, size_t n);
    void (*relu)(float *y, const float *x, size_t n);
    void (*add)(float *y, const float *a, const float *b, size_t n);
    void (*axpy)(float *y, float alpha, const float *x, size_t n); /* y += alpha x, no fma */
    void (*scale)(float *y, const float *x, float alpha, size_t n);
    /* sum[dim] += the rows of x in fp64, in ascending order of rows. */
    void (*sum_rows)(double *sum, const float *x, size_t ldx, size_t rows, size_t dim);
    float (*dot)(const float *a, const float *b, size_t n);

    /* x may stand at an odd address. */
    void (*bf16_to_f32)(float *y, const uint16_t *x, size_t n);
    void (*f16_to_f32)(float *y, const uint16_t *x, size_t n);

    /* K [n_keys, head_dim] with `ldk` floats from key to key -> panels (layout above). */
    void (*pack_keys)(float *panels, const float *k, size_t ldk, size_t n_keys, size_t head_dim);
    void (*attn_block)(const lr_attn *attn);
    /* o /= l for each row (rows with l = 0, which saw nothing, become 0). */
    void (*attn_finish)(const lr_attn *attn);
    size_t (*attn_scratch)(size_t rows, size_t head_dim); /* floats */

    /* One axis of an antialiased resize, uint8 (resize.h drives it). */
    void (*resize_rows_u8)(uint8_t *dst, size_t dst_stride, const uint8_t *src, size_t src_stride,
                           size_t rows, size_t out_width, const int32_t *lo, const int32_t *n_taps,
                           const int16_t *weights, size_t max_taps, int precision);
    void (*resize_cols_u8)(uint8_t *dst, size_t dst_stride, const uint8_t *src, size_t src_stride,
                           size_t width_bytes, size_t out_height, const int32_t *lo,
                           const int32_t *n_taps, const int16_t *weights, size_t max_taps,
                           int precision);

    /* Back end of linear layers in this table. `gemm` names it with its kernel, e.g. "packed-avx2",
     * "openblas-0.3.21-haswell": part of the key under which results are promised equal. */
    const char *gemm;
    lr_status (*linear_create)(lr_linear **out, const lr_linear_part *parts, size_t n_parts,
                               lr_error *err);
    void (*linear_free)(lr_linear *linear);
    /* Floats of scratch a call with up to `rows` rows needs (may be 0). */
    size_t (*linear_scratch)(const lr_linear *linear, size_t rows);
    /* One thread; loops over row tiles are the caller's. bias [n] or NULL. y must not overlap x. */
    void (*linear_run)(const lr_linear *linear, float *y, size_t ldy, const float *x, size_t ldx,
                       size_t rows, uint64_t row0, const float *bias, float *scratch);
} lr_kernels;

typedef enum lr_isa {
    LR_ISA_AUTO,
    LR_ISA_SCALAR,
    LR_ISA_AVX2,
    LR_ISA_AVX512,
    LR_ISA_NEON,
    LR_ISA_LAST = LR_ISA_NEON
} lr_isa;
typedef enum lr_gemm { LR_GEMM_AUTO, LR_GEMM_OPENBLAS, LR_GEMM_PACKED } lr_gemm;

/* The table for an instruction set, with a back end for linear layers; immutable, never freed.
 * AUTO takes the best this processor runs. LR_E_UNSUPPORTED names what is missing. The environment
 * variables LONGREEL_ISA and LONGREEL_GEMM override AUTO (named in the manifest). */
lr_status lr_kernels_get(lr_isa isa, lr_gemm gemm, const lr_kernels **out, lr_error *err);
const char *lr_isa_name(lr_isa isa);

size_t lr_linear_n(const lr_linear *linear); /* outputs */
size_t lr_linear_k(const lr_linear *linear); /* inputs */

#define LR_ROW_TILE 96 /* rows a caller gives one linear_run call at most; multiples of it are kind to BLAS */

/* ------------------------------------------------------------------ rotary angles
 *
 * angle(pos, j) = pos * theta^(-2j/dim), j = 0 .. dim/2 - 1, computed in double with no fp32 table
 * between (the published library multiplies fp32 by fp32 and is off by up to 0.03 rad at an hour);
 * cos and sin are rounded to fp32 at the end. A value depends on (pos, j) alone. */
lr_status lr_rope_create(lr_rope **out, size_t dim, double theta, lr_error *err);
void lr_rope_free(lr_rope *rope);
/* cos, sin [rows, dim/2] for positions pos0 .. pos0 + rows - 1. */
void lr_rope_angles(const lr_rope *rope, uint64_t pos0, size_t rows, float *cos, float *sin);
/* For arbitrary positions (a picture's x or y). */
void lr_rope_angles_at(const lr_rope *rope, const int32_t *positions, size_t rows, float *cos,
                       float *sin);

#ifdef __cplusplus
}
#endif
#endif
