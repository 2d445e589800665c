#include "../table.h"

#include "ops.h"
#include "../vector_fill.h"

void lr_fill_neon(lr_kernels *table)
{
    table->isa = "neon";
    fill_vector_kernels(table);
}
