/* Inside kernels/ only: packed linear layers. linear_packed.c holds what all instruction sets share
 * (packing, blocking); an instruction set brings its panel kernel (linear_tile.h).
 *
 * Layout of prepared weights: k in blocks of LR_LINEAR_KC; in each, n in panels of `nr` outputs, those past
 * n zero. A panel is [kc][nr] in fp32. Where all parts are BF16 it is [ceil(kc / 2)][nr][2] in BF16, two
 * neighbours in k side by side (0 behind an odd kc): half the memory and half the stream, widened in
 * registers by a shift and a mask, with the same bits in the result. */
#ifndef LONGREEL_KERNELS_LINEAR_PACKED_H
#define LONGREEL_KERNELS_LINEAR_PACKED_H

#include <stdbool.h>

#include "table.h"

/* Depth of a block: a panel of 256 x 32 floats is 32 KiB, and with a tile of x it lives in L1. The
 * partial sums of the blocks are added in ascending order, which also keeps the rounding error below
 * that of one chain over k. */
#define LR_LINEAR_KC 256
/* Floats from row to row of the copy of x: no power of two, so that the rows of a tile fall into
 * different sets of the cache, and a constant, so that one register addresses all of them. */
#define LR_LINEAR_LDX (LR_LINEAR_KC + 16)

/* One panel against the rows of a block of x. */
typedef struct lr_linear_panel {
    const float *x; /* [rows rounded up to mr, LR_LINEAR_LDX], kc of a row used, padding rows zero */
    size_t rows;
    const void *w; /* the panel */
    bool bf16;     /* its type */
    size_t kc;
    const void *next_w;  /* the panel that comes next, to be fetched ahead of use */
    float *y;            /* [rows, ldy], n columns written */
    size_t ldy;
    size_t n;
    bool first;          /* y = the sums; else y += them */
    const float *bias;   /* [n], added in the last block; else NULL */
} lr_linear_panel;

typedef struct lr_linear_isa {
    size_t mr, nr;
    void (*panel)(const lr_linear_panel *job);
} lr_linear_isa;

lr_status lr_packed_create(const lr_linear_isa *isa, lr_linear **out, const lr_linear_part *parts,
                           size_t n_parts, lr_error *err);
/* Fills the slots that need no instruction set: free, scratch, run. */
void lr_packed_fill(lr_kernels *table);

#endif
