/* Inside kernels/ only: what each source file fills into a table, and the common head of prepared
 * weights. table.c calls them in this order, later ones overriding earlier ones:
 *
 *     lr_fill_scalar           scalar/fill.c        every slot but the linear back end
 *     lr_fill_avx2             avx2/fill.c          norms, rope, activations, elementwise, resize
 *     lr_fill_attention_avx2   avx2/attention.c     pack_keys, attn_block, _finish, _scratch
 *     lr_fill_avx512           avx512/fill.c        as lr_fill_avx2
 *     lr_fill_attention_avx512 avx512/attention.c
 *     lr_fill_neon             neon/fill.c          as lr_fill_avx2, on AArch64
 *     lr_fill_attention_neon   neon/attention.c     attn_block, attn_scratch
 *
 * and then one back end for linear layers (gemm, linear_create, _free, _scratch, _run):
 *
 *     lr_fill_linear_packed_scalar  scalar/linear.c
 *     lr_fill_linear_packed_avx2    avx2/linear.c
 *     lr_fill_linear_packed_avx512  avx512/linear.c
 *     lr_fill_linear_packed_neon    neon/linear.c
 *     lr_fill_linear_openblas       linear_openblas.c   (built when OpenBLAS was found:
 *                                                        LR_HAVE_OPENBLAS)
 *
 * Every source is compiled with -ffp-contract=off: where a kernel fuses a multiplication and an
 * addition it says so with an intrinsic or fmaf, and the tail of a row rounds like its body. */
#ifndef LONGREEL_KERNELS_TABLE_H
#define LONGREEL_KERNELS_TABLE_H

#include <longreel/kernels.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define LR_X86 1
#else
#define LR_X86 0
#endif
#if defined(__aarch64__) && defined(__GNUC__)
#define LR_ARM64 1
#else
#define LR_ARM64 0
#endif

/* Every back end's prepared weights begin with this, so that lr_linear_n and lr_linear_k work for
 * all of them: struct packed { lr_linear head; ... }. */
struct lr_linear {
    size_t n; /* outputs */
    size_t k; /* inputs */
};

void lr_fill_scalar(lr_kernels *table);
void lr_fill_linear_packed_scalar(lr_kernels *table);

#if LR_X86
void lr_fill_avx2(lr_kernels *table);
void lr_fill_attention_avx2(lr_kernels *table);
void lr_fill_linear_packed_avx2(lr_kernels *table);

void lr_fill_avx512(lr_kernels *table);
void lr_fill_attention_avx512(lr_kernels *table);
void lr_fill_linear_packed_avx512(lr_kernels *table);
#endif

#if LR_ARM64
void lr_fill_neon(lr_kernels *table);
void lr_fill_attention_neon(lr_kernels *table);
void lr_fill_linear_packed_neon(lr_kernels *table);
#endif

#if defined(LR_HAVE_OPENBLAS)
void lr_fill_linear_openblas(lr_kernels *table);
#endif

#endif
