/* What the host hands to kernels: one struct a kernel, by value, the same bytes on both sides. Addresses
 * are those of the device. */
#ifndef LONGREEL_CUDA_PARAMS_H
#define LONGREEL_CUDA_PARAMS_H

#include <stdint.h>

/* [rows, heads, dim] values: value d of head h of row r at r * ld + h * head + d. */
typedef struct lr_cu_rows {
    uint64_t at;
    uint64_t ld;       /* values from row to row */
    uint32_t head;     /* values from head to head */
    uint32_t bf16 : 1; /* else f32 */
    uint32_t wide : 1; /* 16-byte accesses are aligned: address, ld and head */
} lr_cu_rows;

#define LR_CU_WARPS 8 /* of a block of kernels that give each row or head a warp */

typedef enum lr_cu_norm_kind { LR_CU_RMS_NORM, LR_CU_RMS_NORM_ADD, LR_CU_LAYER_NORM } lr_cu_norm_kind;
typedef struct lr_cu_norm {
    lr_cu_rows y, x;
    uint64_t w, b; /* f32 [dim]; 0: none */
    uint64_t rows; /* times heads */
    uint32_t heads, dim;
    float eps;
    uint32_t kind;
} lr_cu_norm;

#define LR_CU_THREADS 256 /* of a block of kernels that give each eight values a thread */

/* Element by element; `a` and `b` as in longreel/device.h. */
typedef enum lr_cu_map_kind {
    LR_CU_GELU_TANH_MUL, LR_CU_GELU_ERF, LR_CU_SILU, LR_CU_GLU, LR_CU_CLAMP, LR_CU_RELU, LR_CU_ADD,
    LR_CU_AXPY, LR_CU_SCALE, LR_CU_CONVERT
} lr_cu_map_kind;
typedef struct lr_cu_map {
    lr_cu_rows y, a, b;
    uint64_t rows;
    uint32_t dim, kind;
    float alpha, beta; /* clamp: low and high */
} lr_cu_map;

typedef struct lr_cu_rope {
    lr_cu_rows x;
    uint64_t cos, sin; /* f32 [rows, dim / 2], or [rows, dim] for neighbouring pairs */
    uint64_t rows;
    uint32_t heads, dim, neighbours;
} lr_cu_rope;

typedef struct lr_cu_angles {
    uint64_t cos, sin; /* f32 [rows, n] */
    uint64_t turns;    /* f64 [n]: turns from one position to the next */
    uint64_t first, rows;
    uint32_t n;
} lr_cu_angles;

typedef struct lr_cu_sum {
    uint64_t sum;    /* f64 [pieces, dim] */
    lr_cu_rows x;
    uint64_t bounds; /* u64 [pieces + 1]: piece i is rows bounds[i] .. bounds[i + 1] - 1 */
    uint32_t dim;
} lr_cu_sum;

typedef struct lr_cu_gather {
    lr_cu_rows y, x;   /* x: the table, or what is scattered */
    uint64_t ids;      /* i32 [rows] */
    uint64_t rows, n;  /* n: rows of what ids number */
    uint32_t dim, scatter;
    float scale;
} lr_cu_gather;

#define LR_CU_CHECK_WORDS (16 * LR_CU_THREADS) /* of a block */
typedef struct lr_cu_checksum {
    uint64_t sum;         /* u64 */
    uint64_t from, bytes; /* from: a multiple of 8 */
    uint64_t seed;        /* mixed */
} lr_cu_checksum;

/* Attention; head_dim, rows and addresses of bf16 are multiples of 8 values. One block of threads works a tile of rows of one KV head, row (t, g) being query head g of the
 * group at token t, against the chunks of keys in order. */
typedef struct lr_cu_chunk { /* in device memory */
    uint64_t k, v;           /* bf16 [n_keys, kv_heads, head_dim] */
    uint64_t first_key, n_keys;
} lr_cu_chunk;

typedef struct lr_cu_attention {
    uint64_t q, q_ld;         /* bf16 [tokens, heads, head_dim] */
    uint64_t o, o_ld, m, l;   /* f32 state: o as q; m, l [tokens, heads] */
    uint64_t out, out_ld;     /* bf16, as q: o / l; 0: the state is kept instead */
    uint64_t lo, hi;          /* u64 [tokens] */
    uint64_t chunks, kv_ld;
    uint64_t n_rows;          /* tokens * group */
    uint32_t n_chunks, group, kv_heads, head_dim;
    uint32_t resume;          /* begin with the state, not with an empty one */
} lr_cu_attention;

/* Kernels as A(K, name, D, KEYS, ROWS, COLUMNS, BANDS): head_dim at most D, sub-blocks of KEYS keys, ROWS rows, 16 BANDS
 * of them a warp, by COLUMNS warps across. Of two for the same D the second is for devices that have the shared memory
 * it takes. */
#define LR_CU_ATTENTIONS(A, K)                                                                     \
    A(K, attention_64, 64, 64, 64, 1, 1) A(K, attention_128, 128, 64, 64, 1, 1)                    \
    A(K, attention_256, 256, 32, 64, 1, 1) A(K, attention_512, 512, 32, 32, 2, 1)                  \
    A(K, attention_512_large, 512, 64, 64, 4, 2)
/* Shared memory: q, k, v; where warps share rows the weights; each row's range of keys, and the warps' maxima
 * and sums of it. */
#define LR_CU_ATTENTION_SHARED(D, KEYS, ROWS, COLUMNS)                                             \
    ((ROWS) * (D) * 2 + 2 * (KEYS) * (D) * 2 + ((COLUMNS) > 1 ? (ROWS) * (KEYS) * 2 : 0) +         \
     (ROWS) * 16 + (COLUMNS) * (ROWS) * 8)

/* y[rows, n] = x[rows, k] w[n, k]^T + bias; k, x.ld and the addresses of x and w are multiples of 8 values. */
#define LR_CU_GEMM_TILE 128 /* rows and columns of a block */
#define LR_CU_GEMM_DEPTH 64 /* of a step along k */
#define LR_CU_GEMM_STAGES 3
#define LR_CU_GEMM_SHARED (LR_CU_GEMM_STAGES * 2 * LR_CU_GEMM_TILE * LR_CU_GEMM_DEPTH * 2)
typedef struct lr_cu_gemm {
    lr_cu_rows y;
    uint64_t x, x_ld, w; /* bf16 */
    uint64_t bias;       /* f32 [n]; 0: none */
    uint64_t rows;
    uint32_t n, k;
} lr_cu_gemm;

#endif
