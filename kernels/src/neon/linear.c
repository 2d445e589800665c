#include "simd.h"

#include "../linear_tile.h"

void lr_fill_linear_packed_neon(lr_kernels *table)
{
    lr_packed_fill(table);
    table->gemm = "packed-neon";
    table->linear_create = create;
}
