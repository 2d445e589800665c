#include "simd.h"

#include "../peak_loop.h"

double lr_peak_neon(size_t turns)
{
    return peak_loop(turns);
}
