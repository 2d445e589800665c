#include "simd.h"

#include "../peak_loop.h"

double lr_peak_avx512(size_t turns)
{
    return peak_loop(turns);
}
