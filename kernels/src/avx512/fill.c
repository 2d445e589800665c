#include "../table.h"

#include "ops.h"
#include "../vector_fill.h"

void lr_fill_avx512(lr_kernels *table)
{
    table->isa = "avx512";
    fill_vector_kernels(table);
}
