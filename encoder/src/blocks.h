/* Inside encoder/: what towers and backbone share: rows in tiles, and linear layers over them.
 *
 * Rows are numbered from the start of their own sequence (window, frame, sound track). Tiles are cut
 * at multiples of the tile height in that numbering, never at the start of a shard or slice, so that
 * a row meets the same arithmetic wherever the work was cut. */
#ifndef LONGREEL_ENCODER_BLOCKS_H
#define LONGREEL_ENCODER_BLOCKS_H

#include <longreel/encoder.h>

/* ------------------------------------------------------------------ tiles */

/* Rows [first, end) in tiles of at most `height` rows, cut at the multiples of height. */
typedef struct lr_tiling {
    uint64_t first, end;
    size_t height;
} lr_tiling;
size_t lr_tiling_count(const lr_tiling *tiling);
/* Tile i: rows [*first, *first + *rows). */
void lr_tiling_get(const lr_tiling *tiling, size_t i, uint64_t *first, size_t *rows);
/* The height of tiles with which the threads end soonest over `rows` rows of linear layers: where there
 * are few tiles, threads would wait for the last. A multiple of LR_KEY_PANEL, at most LR_ROW_TILE; never
 * a matter of the result. */
size_t lr_tile_height(const lr_kernels *kernels, size_t threads, uint64_t rows);

/* One area of floats for each thread of a pool, 64-byte aligned. */
typedef struct lr_scratch {
    float *base;
    size_t floats, workers;
} lr_scratch;
lr_status lr_scratch_create(lr_scratch *out, const lr_pool *pool, size_t floats, const char *what,
                            lr_error *err);
void lr_scratch_free(lr_scratch *scratch);
float *lr_scratch_of(const lr_scratch *scratch, size_t worker);

/* Hands out parts of an area; counts only while base is NULL. Each part is 64-byte aligned when the
 * base is, so the same code sizes an area and cuts it. */
typedef struct lr_cutter {
    float *base;
    size_t used; /* floats */
} lr_cutter;
float *lr_cut(lr_cutter *cutter, size_t floats); /* NULL while counting */

/* ------------------------------------------------------------------ linear layers */

/* y = clamp(clamp(x, in) . W^T + bias, out); without bounds when not clipped. */
typedef struct lr_dense {
    lr_linear *weight;
    const float *bias; /* [n] or NULL */
    bool clipped;
    float in_min, in_max, out_min, out_max;
} lr_dense;

/* Floats of scratch that lr_dense_run needs for up to `rows` rows. */
size_t lr_dense_scratch(const lr_kernels *kernels, const lr_dense *dense, size_t rows);
/* At most LR_ROW_TILE rows, one thread. y must not overlap x. */
void lr_dense_run(const lr_kernels *kernels, const lr_dense *dense, float *y, size_t ldy,
                  const float *x, size_t ldx, size_t rows, uint64_t row0, float *scratch);
/* Any number of rows, in tiles over the pool; each worker's scratch holds at least
 * lr_dense_scratch(LR_ROW_TILE) floats. */
void lr_dense_rows(const lr_kernels *kernels, lr_pool *pool, const lr_scratch *scratch,
                   const lr_dense *dense, float *y, size_t ldy, const float *x, size_t ldx,
                   size_t rows, uint64_t row0);

#endif
