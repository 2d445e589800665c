/* Inside kernels/ only: the weights of a linear layer as they stand in a checkpoint, one or several
 * [n, k] matrices one below the other. */
#ifndef LONGREEL_KERNELS_LINEAR_PARTS_H
#define LONGREEL_KERNELS_LINEAR_PARTS_H

#include <stdbool.h>

#include <longreel/kernels.h>

typedef struct lr_part_shape {
    size_t n, k;   /* n: rows of all parts together */
    bool all_bf16; /* every part is BF16 */
} lr_part_shape;

/* Checks types and shapes (two dimensions, none 0, the same k, sizes that fit) and sums them up. */
lr_status lr_parts_check(const lr_linear_part *parts, size_t n_parts, lr_part_shape *out,
                         lr_error *err);

/* Row `row` of `part` as fp32 into out[k]. */
void lr_part_row(const lr_linear_part *part, size_t row, float *out);

#endif
