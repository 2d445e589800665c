#include "simd.h"

#include "../linear_tile.h"

void lr_fill_linear_packed_avx512(lr_kernels *table)
{
    lr_packed_fill(table);
    table->gemm = "packed-avx512";
    table->linear_create = create;
}
