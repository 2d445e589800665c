#include "../peak.h"

#define LANES 4 /* what the baseline of x86-64 and of AArch64 holds in a register */
#define CHAINS 12

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

double lr_peak_scalar(size_t turns)
{
    volatile float factor = 0.5f, sink;
    lanes a = {factor, factor, factor, factor}, b = a, sum[CHAINS] = {{0}}, all = {0};
    for (size_t turn = 0; turn < turns; turn++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            sum[i] = sum[i] * a + b;
    }
    for (int i = 0; i < CHAINS; i++)
        all += sum[i];
    sink = all[0];
    (void)sink;
    return 2.0 * LANES * CHAINS * (double)turns;
}
