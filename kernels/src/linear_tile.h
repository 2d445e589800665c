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

/* height: a constant in each caller, a multiple of TILE_STEP. The first `rows` rows are stored. */
SIMD void tile(const lr_linear_panel *job, size_t row0, size_t rows, const size_t height)
{
    const float *x = job->x + row0 * LR_LINEAR_LDX, *w = job->w;
    vec sum[TILE_ROWS][2];
#pragma GCC unroll 12
    for (size_t r = 0; r < height; r++) sum[r][0] = sum[r][1] = vec_zero();
    for (size_t k = 0; k < job->kc; k++, x++, w += NR) {
        vec w0 = vec_load(w), w1 = vec_load(w + VW);
#pragma GCC unroll 12
        for (size_t r = 0; r < height; r++) {
            vec a = vec_all(x[r * LR_LINEAR_LDX]);
            sum[r][0] = vec_fma(a, w0, sum[r][0]);
            sum[r][1] = vec_fma(a, w1, sum[r][1]);
        }
    }
    float *y = job->y + row0 * job->ldy;
#pragma GCC unroll 12
    for (size_t r = 0; r < height; r++)
        if (r < rows) store_sums(job, y + r * job->ldy, sum[r][0], sum[r][1]);
}

static void panel(const lr_linear_panel *job)
{
    for (size_t row0 = 0; row0 < job->rows; row0 += TILE_ROWS) {
        size_t rows = job->rows - row0;
        if (rows > 2 * TILE_STEP)
            tile(job, row0, rows, 3 * TILE_STEP);
        else if (rows > TILE_STEP)
            tile(job, row0, rows, 2 * TILE_STEP);
        else
            tile(job, row0, rows, TILE_STEP);
    }
}

static const lr_linear_isa linear_isa = {TILE_ROWS, NR, panel};

static lr_status create(lr_linear **out, const lr_linear_part *parts, size_t n_parts, lr_error *err)
{
    return lr_packed_create(&linear_isa, out, parts, n_parts, err);
}

#endif
