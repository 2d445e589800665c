#include "../table.h"

#include "ops.h"
#include "../vector_fill.h"

void lr_fill_avx2(lr_kernels *table)
{
    table->isa = "avx2";
    fill_vector_kernels(table);
}
