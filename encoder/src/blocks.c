#include "blocks.h"

#include <string.h>

#define CACHE_LINE_FLOATS (LR_ALIGN / sizeof(float))
#define ROW_STEP 12 /* rows that the packed linear layers work at a time, about */

_Static_assert(LR_ROW_TILE % LR_KEY_PANEL == 0, "tiles of rows are whole panels of keys");

size_t lr_tiling_count(const lr_tiling *tiling)
{
    if (tiling->end <= tiling->first) return 0;
    return (size_t)((tiling->end - 1) / tiling->height - tiling->first / tiling->height + 1);
}

void lr_tiling_get(const lr_tiling *tiling, size_t i, uint64_t *first, size_t *rows)
{
    uint64_t begin = (tiling->first / tiling->height + i) * tiling->height;
    uint64_t end = begin + tiling->height;
    if (begin < tiling->first) begin = tiling->first;
    if (end > tiling->end) end = tiling->end;
    *first = begin;
    *rows = (size_t)(end - begin);
}

/* Only the packed linear layers may be cut anywhere at no cost (OpenBLAS fills up each tile to
 * LR_ROW_TILE). */
size_t lr_tile_height(const lr_kernels *kernels, size_t threads, uint64_t rows)
{
    size_t best = LR_ROW_TILE;
    uint64_t soonest = UINT64_MAX;
    if (strncmp(kernels->gemm, "packed", 6) != 0) return LR_ROW_TILE;
    for (size_t height = LR_ROW_TILE; height >= 2 * LR_KEY_PANEL; height -= LR_KEY_PANEL) {
        uint64_t full = rows / height, rest = rows % height;
        uint64_t cost = (height + ROW_STEP - 1) / ROW_STEP * ROW_STEP; /* of a tile */
        uint64_t end = (full + threads - 1) / threads * cost + (full % threads == 0 ? rest : 0);
        if (end < soonest) {
            soonest = end;
            best = height;
        }
    }
    return best;
}

lr_status lr_scratch_create(lr_scratch *out, const lr_pool *pool, size_t floats, const char *what,
                            lr_error *err)
{
    *out = (lr_scratch){0};
    size_t workers = lr_pool_threads(pool), padded, all;
    if (!lr_add_size(floats, CACHE_LINE_FLOATS, &padded) || !lr_mul_size(padded, workers, &all))
        return lr_fail(err, LR_E_NOMEM, "out of memory: %s", what);
    padded -= padded % CACHE_LINE_FLOATS;
    lr_status st = LR_NEW(&out->base, padded * workers, what, err);
    if (st != LR_OK) return st;
    out->floats = padded;
    out->workers = workers;
    return LR_OK;
}

void lr_scratch_free(lr_scratch *scratch)
{
    lr_free(scratch->base);
    *scratch = (lr_scratch){0};
}

float *lr_scratch_of(const lr_scratch *scratch, size_t worker)
{
    return scratch->base + worker * scratch->floats;
}

float *lr_cut(lr_cutter *cutter, size_t floats)
{
    size_t rest = floats % CACHE_LINE_FLOATS;
    float *part = cutter->base ? cutter->base + cutter->used : NULL;
    cutter->used += floats + (rest ? CACHE_LINE_FLOATS - rest : 0);
    return part;
}

/* A clipped layer keeps a clamped copy of its input before the back end's own scratch. */
static size_t clamped_floats(const lr_dense *dense, size_t rows)
{
    lr_cutter cutter = {0};
    if (dense->clipped) (void)lr_cut(&cutter, rows * lr_linear_k(dense->weight));
    return cutter.used;
}

size_t lr_dense_scratch(const lr_kernels *kernels, const lr_dense *dense, size_t rows)
{
    return clamped_floats(dense, rows) + kernels->linear_scratch(dense->weight, rows);
}

void lr_dense_run(const lr_kernels *kernels, const lr_dense *dense, float *y, size_t ldy,
                  const float *x, size_t ldx, size_t rows, uint64_t row0, float *scratch)
{
    if (!dense->clipped) {
        kernels->linear_run(dense->weight, y, ldy, x, ldx, rows, row0, dense->bias, scratch);
        return;
    }
    size_t n = lr_linear_n(dense->weight), k = lr_linear_k(dense->weight);
    float *clamped = scratch;
    for (size_t r = 0; r < rows; r++)
        kernels->clamp(clamped + r * k, x + r * ldx, dense->in_min, dense->in_max, k);
    kernels->linear_run(dense->weight, y, ldy, clamped, k, rows, row0, dense->bias,
                        scratch + clamped_floats(dense, rows));
    for (size_t r = 0; r < rows; r++)
        kernels->clamp(y + r * ldy, y + r * ldy, dense->out_min, dense->out_max, n);
}

typedef struct dense_loop {
    const lr_kernels *kernels;
    const lr_scratch *scratch;
    const lr_dense *dense;
    float *y;
    size_t ldy;
    const float *x;
    size_t ldx;
    uint64_t row0;
    lr_tiling tiling;
} dense_loop;

static void dense_tile(void *arg, size_t index, size_t worker)
{
    const dense_loop *loop = arg;
    uint64_t first;
    size_t rows;
    lr_tiling_get(&loop->tiling, index, &first, &rows);
    size_t row = (size_t)(first - loop->row0);
    lr_dense_run(loop->kernels, loop->dense, loop->y + row * loop->ldy, loop->ldy,
                 loop->x + row * loop->ldx, loop->ldx, rows, first,
                 lr_scratch_of(loop->scratch, worker));
}

void lr_dense_rows(const lr_kernels *kernels, lr_pool *pool, const lr_scratch *scratch,
                   const lr_dense *dense, float *y, size_t ldy, const float *x, size_t ldx,
                   size_t rows, uint64_t row0)
{
    dense_loop loop = {.kernels = kernels, .scratch = scratch, .dense = dense, .y = y, .ldy = ldy,
                       .x = x, .ldx = ldx, .row0 = row0,
                       .tiling = {.first = row0, .end = row0 + rows, .height = LR_ROW_TILE}};
    lr_pool_for(pool, lr_tiling_count(&loop.tiling), dense_tile, &loop);
}
