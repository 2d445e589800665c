/* The panel kernel of a packed linear layer, written once; an instruction set's source includes its
 * simd.h and then this. A tile is up to TILE_ROWS rows by two vectors of outputs, its sums in
 * registers: for each k one broadcast of x a row and two vectors of weights.
 *
 * Each output is the chain acc = fma(x[k], w[k], acc), k ascending from acc = 0, in every tile of any
 * height: that makes a row's result independent of its neighbours. */
#ifndef LONGREEL_KERNELS_LINEAR_TILE_H
#define LONGREEL_KERNELS_LINEAR_TILE_H

#include "linear_packed.h"

#define NR (2 * VW)

#define LINE 64 /* bytes of a cache line */

SIMD void store_sums(const lr_linear_panel *job, float *y, vec sum0, vec sum1)
{
    size_t n0 = job->n < VW ? job->n : VW, n1 = job->n - n0;
    if (!job->first) {
        sum0 = vec_add(vec_load_n(y, n0), sum0);
        sum1 = vec_add(vec_load_n(y + n0, n1), sum1);
    }
    if (job->bias != NULL) {
        sum0 = vec_add(sum0, vec_load_n(job->bias, n0));
        sum1 = vec_add(sum1, vec_load_n(job->bias + n0, n1));
    }
    vec_store_n(y, sum0, n0);
    vec_store_n(y + n0, sum1, n1);
}

/* What is fetched ahead while a tile is worked: its share of the next panel, a step for each step of
 * the tile's loop. */
typedef struct fetch {
    const char *at;
    size_t step;
} fetch;

/* steps: turns of the loop that reads a panel once, NR * sizeof(float) bytes each. */
SIMD fetch fetch_share(const lr_linear_panel *job, size_t row0, size_t steps)
{
    size_t tiles = (job->rows + TILE_ROWS - 1) / TILE_ROWS, step = NR * sizeof(float) / tiles;
    return (fetch){(const char *)job->next_w + row0 / TILE_ROWS * steps * step, step};
}

SIMD void fetch_step(fetch *next)
{
    for (size_t line = 0; line < NR * sizeof(float); line += LINE) vec_prefetch(next->at + line);
    next->at += next->step;
}

/* One k: x[r] . w for all rows. */
SIMD void step(vec sum[TILE_ROWS][2], const float *x, vec w0, vec w1, const size_t height)
{
#pragma GCC unroll 12
    for (size_t r = 0; r < height; r++)
        vec_row_step(&sum[r][0], &sum[r][1], x + r * LR_LINEAR_LDX, w0, w1);
}

SIMD void sums_f32(vec sum[TILE_ROWS][2], const lr_linear_panel *job, size_t row0, const size_t height)
{
    const float *x = job->x + row0 * LR_LINEAR_LDX, *w = job->w;
    fetch next = fetch_share(job, row0, job->kc);
    for (size_t k = 0; k < job->kc; k++, x++, w += NR) {
        fetch_step(&next);
        step(sum, x, vec_load(w), vec_load(w + VW), height);
    }
}

SIMD void sums_bf16(vec sum[TILE_ROWS][2], const lr_linear_panel *job, size_t row0,
                    const size_t height)
{
    const float *x = job->x + row0 * LR_LINEAR_LDX, *end = x + job->kc / 2 * 2, *w = job->w;
    fetch next = fetch_share(job, row0, job->kc / 2);
    for (; x < end; x += 2, w += NR) {
        fetch_step(&next);
        step(sum, x, vec_low_bf16(w), vec_low_bf16(w + VW), height);
        step(sum, x + 1, vec_high_bf16(w), vec_high_bf16(w + VW), height);
    }
    if (job->kc % 2) step(sum, x, vec_low_bf16(w), vec_low_bf16(w + VW), height);
}

/* height: a constant in each caller, a multiple of TILE_STEP. The first `rows` rows are stored. */
SIMD void tile(const lr_linear_panel *job, size_t row0, size_t rows, const size_t height,
               const bool bf16)
{
    vec sum[TILE_ROWS][2];
#pragma GCC unroll 12
    for (size_t r = 0; r < height; r++) sum[r][0] = sum[r][1] = vec_zero();
    if (bf16)
        sums_bf16(sum, job, row0, height);
    else
        sums_f32(sum, job, row0, height);
    float *y = job->y + row0 * job->ldy;
#pragma GCC unroll 12
    for (size_t r = 0; r < height; r++)
        if (r < rows) store_sums(job, y + r * job->ldy, sum[r][0], sum[r][1]);
}

SIMD void tiles(const lr_linear_panel *job, const bool bf16)
{
    for (size_t row0 = 0; row0 < job->rows; row0 += TILE_ROWS) {
        size_t rows = job->rows - row0;
        if (rows > 2 * TILE_STEP)
            tile(job, row0, rows, 3 * TILE_STEP, bf16);
        else if (rows > TILE_STEP)
            tile(job, row0, rows, 2 * TILE_STEP, bf16);
        else
            tile(job, row0, rows, TILE_STEP, bf16);
    }
}

static void panel(const lr_linear_panel *job)
{
    if (job->bf16)
        tiles(job, true);
    else
        tiles(job, false);
}

static const lr_linear_isa linear_isa = {TILE_ROWS, NR, panel};

static lr_status create(lr_linear **out, const lr_linear_part *parts, size_t n_parts, lr_error *err)
{
    return lr_packed_create(&linear_isa, out, parts, n_parts, err);
}

#endif
