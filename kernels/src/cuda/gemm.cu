/* y = x w^T + bias on tensor cores (longreel/device.h). A block makes a tile of 128 x 128, its eight warps 64 x 32 each; steps of 64
 * along k are on their way while earlier ones are worked. An element is one chain over k in ascending order,
 * wherever in a tile it stands. */
#include "mma.cuh"

#define TILE LR_CU_GEMM_TILE
#define DEPTH LR_CU_GEMM_DEPTH
#define STAGES LR_CU_GEMM_STAGES
#define UNITS (DEPTH / EIGHT)
#define MATRIX (TILE * DEPTH * 2) /* bytes of one operand in one stage */
#define ROW_TILES 4               /* of 16 rows, in a warp */
#define COLUMN_TILES 4            /* of 8 columns */

/* [TILE, DEPTH] of a matrix [rows, k]: rows from row0 on, columns from `step` on. */
static __device__ __forceinline__ void fetch(uint32_t to, uint64_t from, uint64_t ld, uint64_t row0, uint64_t rows,
                                             uint32_t step, uint32_t k)
{
#pragma unroll
    for (uint32_t n = 0; n < TILE * UNITS / (LR_CU_WARPS * LANES); n++) {
        uint32_t i = threadIdx.x + n * LR_CU_WARPS * LANES, row = i / UNITS, unit = i % UNITS;
        bool there = row0 + row < rows;
        uint64_t at = from + (there ? (row0 + row) * ld : 0) * 2;
        fetch_unit(to + unit_at<UNITS>(row, unit), at, there, step / EIGHT + unit, k);
    }
}

extern "C" __global__ void __launch_bounds__(LR_CU_WARPS *LANES) lr_gemm(const lr_cu_gemm p)
{
    extern __shared__ __align__(128) char memory[];
    uint32_t shared = shared_address(memory), lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    uint32_t warp_row = warp / 4 * 64, warp_column = warp % 4 * 32, steps = (p.k + DEPTH - 1) / DEPTH;
    uint64_t row0 = (uint64_t)blockIdx.x * TILE, column0 = (uint64_t)blockIdx.y * TILE;
    float sum[ROW_TILES][COLUMN_TILES][4] = {};

    for (uint32_t step = 0; step < STAGES - 1; step++) {
        fetch(shared + step * 2 * MATRIX, p.x, p.x_ld, row0, p.rows, step * DEPTH, p.k);
        fetch(shared + step * 2 * MATRIX + MATRIX, p.w, p.k, column0, p.n, step * DEPTH, p.k);
        copy_commit();
    }
    for (uint32_t step = 0; step < steps; step++) {
        copy_wait<STAGES - 2>();
        __syncthreads(); /* this step is here; the stage of the one before is free */
        uint32_t ahead = step + STAGES - 1, to = shared + ahead % STAGES * 2 * MATRIX;
        if (ahead < steps) {
            fetch(to, p.x, p.x_ld, row0, p.rows, ahead * DEPTH, p.k);
            fetch(to + MATRIX, p.w, p.k, column0, p.n, ahead * DEPTH, p.k);
        }
        copy_commit();
        uint32_t x = shared + step % STAGES * 2 * MATRIX, w = x + MATRIX;
#pragma unroll
        for (int d = 0; d < DEPTH / 16; d++) {
            uint32_t a[ROW_TILES][4], b[COLUMN_TILES / 2][4];
#pragma unroll
            for (int i = 0; i < ROW_TILES; i++)
                ldmatrix(a[i], x + unit_at<UNITS>(warp_row + 16 * i + lane % 16, 2 * d + lane / 16));
#pragma unroll
            for (int j = 0; j < COLUMN_TILES / 2; j++)
                ldmatrix(b[j], w + unit_at<UNITS>(warp_column + 16 * j + lane % 8 + lane / 16 * 8,
                                                  2 * d + lane / 8 % 2));
#pragma unroll
            for (int i = 0; i < ROW_TILES; i++)
#pragma unroll
                for (int j = 0; j < COLUMN_TILES; j++)
                    mma(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }
    copy_wait<0>();

#pragma unroll
    for (int i = 0; i < ROW_TILES; i++)
#pragma unroll
        for (int j = 0; j < COLUMN_TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                uint64_t row = row0 + warp_row + 16 * i + lane / 4 + e / 2 * 8;
                uint64_t column = column0 + warp_column + 8 * j + lane % 4 * 2 + e % 2;
                if (row >= p.rows || column >= p.n) continue;
                float value = sum[i][j][e];
                if (p.bias) value += global<const float>(p.bias)[column];
                uint64_t at = row * p.y.ld + column;
                if (p.y.bf16) global<__nv_bfloat16>(p.y.at)[at] = __float2bfloat16_rn(value);
                else global<float>(p.y.at)[at] = value;
            }
}
