/* The loop of peak.h, written once; an instruction set's source includes its simd.h and then this. As
 * many chains as fit in the registers beside the two factors, which hides the latency. */
#ifndef LONGREEL_KERNELS_PEAK_LOOP_H
#define LONGREEL_KERNELS_PEAK_LOOP_H

#include "peak.h"

#define CHAINS (2 * TILE_ROWS)

static double peak_loop(size_t turns)
{
    volatile float factor = 0.5f, sink;
    vec a = vec_all(factor), b = vec_all(factor), sum[CHAINS], all = vec_zero();
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) sum[i] = vec_all((float)i);
    for (size_t turn = 0; turn < turns; turn++) {
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++) sum[i] = vec_fma(a, b, sum[i]);
    }
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) all = vec_add(all, sum[i]);
    sink = vec_reduce_add(all);
    (void)sink;
    return 2.0 * VW * CHAINS * (double)turns;
}

#endif
