/* Puts the kernels of vector_*.h into a table; an instruction set's fill.c includes its ops.h and
 * then this. */
#ifndef LONGREEL_KERNELS_VECTOR_FILL_H
#define LONGREEL_KERNELS_VECTOR_FILL_H

#include "vector_elementwise.h"
#include "vector_norm.h"
#include "vector_resize.h"

static void fill_vector_kernels(lr_kernels *table)
{
    table->rms_norm = rms_norm;
    table->rms_norm_add = rms_norm_add;
    table->layer_norm = layer_norm;
    table->rope_half = rope_half;
    table->rope_pairs = rope_pairs;
    table->gelu_tanh_mul = gelu_tanh_mul;
    table->gelu_erf = gelu_erf;
    table->silu = silu;
    table->glu = glu;
    table->clamp = clamp;
    table->relu = relu;
    table->add = add;
    table->axpy = axpy;
    table->scale = scale;
    table->sum_rows = sum_rows;
    table->dot = dot;
    table->bf16_to_f32 = bf16_to_f32;
    table->f16_to_f32 = f16_to_f32;
    table->resize_rows_u8 = resize_rows_u8;
    table->resize_cols_u8 = resize_cols_u8;
}

#endif
