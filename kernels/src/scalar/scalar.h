/* The scalar reference of each slot: plain C that says what the slot computes. Slots and shapes are
 * described in longreel/kernels.h. */
#ifndef LONGREEL_KERNELS_SCALAR_H
#define LONGREEL_KERNELS_SCALAR_H

#include <longreel/kernels.h>

/* norm.c */
void lr_scalar_rms_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                        size_t rows, size_t dim, float eps);
void lr_scalar_rms_norm_add(float *h, size_t ldh, const float *x, size_t ldx, const float *w,
                            size_t rows, size_t dim, float eps);
void lr_scalar_layer_norm(float *y, size_t ldy, const float *x, size_t ldx, const float *w,
                          const float *b, size_t rows, size_t dim, float eps);

/* activation.c */
void lr_scalar_gelu_tanh_mul(float *y, size_t ldy, const float *gate, size_t ldg, const float *up,
                             size_t ldu, size_t rows, size_t dim);
void lr_scalar_gelu_erf(float *y, const float *x, size_t n);
void lr_scalar_silu(float *y, const float *x, size_t n);
void lr_scalar_glu(float *y, size_t ldy, const float *a, const float *b, size_t ldab, size_t rows,
                   size_t dim);

/* elementwise.c */
void lr_scalar_rope_half(float *x, size_t ldx, size_t head, size_t n_heads, const float *cos,
                         const float *sin, size_t rows, size_t dim);
void lr_scalar_rope_pairs(float *x, size_t ldx, size_t head, size_t n_heads, const float *cos,
                          const float *sin, size_t rows, size_t dim);
void lr_scalar_clamp(float *y, const float *x, float lo, float hi, size_t n);
void lr_scalar_relu(float *y, const float *x, size_t n);
void lr_scalar_add(float *y, const float *a, const float *b, size_t n);
void lr_scalar_axpy(float *y, float alpha, const float *x, size_t n);
void lr_scalar_scale(float *y, const float *x, float alpha, size_t n);
void lr_scalar_sum_rows(double *sum, const float *x, size_t ldx, size_t rows, size_t dim);
float lr_scalar_dot(const float *a, const float *b, size_t n);
void lr_scalar_bf16_to_f32(float *y, const uint16_t *x, size_t n);
void lr_scalar_f16_to_f32(float *y, const uint16_t *x, size_t n);

/* attention.c */
void lr_scalar_pack_keys(float *panels, const float *k, size_t ldk, size_t n_keys, size_t head_dim);
void lr_scalar_attn_block(const lr_attn *attn);
void lr_scalar_attn_finish(const lr_attn *attn);
size_t lr_scalar_attn_scratch(size_t rows, size_t head_dim);

/* resize.c */
void lr_scalar_resize_rows_u8(uint8_t *dst, size_t dst_stride, const uint8_t *src,
                              size_t src_stride, size_t rows, size_t out_width, const int32_t *lo,
                              const int32_t *n_taps, const int16_t *weights, size_t max_taps,
                              int precision);
void lr_scalar_resize_cols_u8(uint8_t *dst, size_t dst_stride, const uint8_t *src,
                              size_t src_stride, size_t width_bytes, size_t out_height,
                              const int32_t *lo, const int32_t *n_taps, const int16_t *weights,
                              size_t max_taps, int precision);

#endif
