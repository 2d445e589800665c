#include "scalar.h"
#include "../table.h"

void lr_fill_scalar(lr_kernels *table)
{
    table->isa = "scalar";
    table->rms_norm = lr_scalar_rms_norm;
    table->rms_norm_add = lr_scalar_rms_norm_add;
    table->layer_norm = lr_scalar_layer_norm;
    table->rope_half = lr_scalar_rope_half;
    table->rope_pairs = lr_scalar_rope_pairs;
    table->gelu_tanh_mul = lr_scalar_gelu_tanh_mul;
    table->gelu_erf = lr_scalar_gelu_erf;
    table->silu = lr_scalar_silu;
    table->glu = lr_scalar_glu;
    table->clamp = lr_scalar_clamp;
    table->relu = lr_scalar_relu;
    table->add = lr_scalar_add;
    table->axpy = lr_scalar_axpy;
    table->scale = lr_scalar_scale;
    table->sum_rows = lr_scalar_sum_rows;
    table->dot = lr_scalar_dot;
    table->bf16_to_f32 = lr_scalar_bf16_to_f32;
    table->f16_to_f32 = lr_scalar_f16_to_f32;
    table->pack_keys = lr_scalar_pack_keys;
    table->attn_block = lr_scalar_attn_block;
    table->attn_finish = lr_scalar_attn_finish;
    table->attn_scratch = lr_scalar_attn_scratch;
    table->resize_rows_u8 = lr_scalar_resize_rows_u8;
    table->resize_cols_u8 = lr_scalar_resize_cols_u8;
}
