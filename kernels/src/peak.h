/* Inside kernels/ only: loops of nothing but multiply-adds, for bench.c. Each does `turns` turns and
 * returns the number of operations. */
#ifndef LONGREEL_KERNELS_PEAK_H
#define LONGREEL_KERNELS_PEAK_H

#include <stddef.h>

#include "table.h"

double lr_peak_scalar(size_t turns);
#if LR_X86
double lr_peak_avx2(size_t turns);
double lr_peak_avx512(size_t turns);
#endif
#if LR_ARM64
double lr_peak_neon(size_t turns);
#endif

#endif
