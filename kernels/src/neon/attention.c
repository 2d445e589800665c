#include "ops.h"

#include "../vector_math.h"
#include "../attention_tile.h"

void lr_fill_attention_neon(lr_kernels *table)
{
    table->attn_block = attn_block;
    table->attn_scratch = attn_scratch;
}
