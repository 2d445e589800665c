#include "simd.h"

#include "../linear_tile.h"

void lr_fill_linear_packed_avx2(lr_kernels *table)
{
    lr_packed_fill(table);
    table->gemm = "packed-avx2";
    table->linear_create = create;
}
