#include "simd.h"

#include "../peak_loop.h"

double lr_peak_avx2(size_t turns)
{
    return peak_loop(turns);
}
