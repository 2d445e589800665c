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

#endif
