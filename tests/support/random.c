#include "lr_test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define DEFAULT_SEED UINT64_C(20250131)

uint64_t lrt_seed(void)
{
    static uint64_t seed;
    static bool known;
    if (known) return seed;
    const char *text = getenv("LR_SEED");
    seed = DEFAULT_SEED;
    if (text && *text) {
        char *end;
        errno = 0;
        seed = strtoull(text, &end, 0);
        if (errno != 0 || *end != '\0') fail_msg("LR_SEED=%s is not a number", text);
    }
    known = true;
    print_message("LR_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014). */
static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

void lrt_random_from(lrt_random *random, uint64_t seed, uint64_t stream)
{
    uint64_t state = seed;
    state = splitmix64(&state) ^ stream;
    for (size_t i = 0; i < 4; i++) random->state[i] = splitmix64(&state);
}

void lrt_random_init(lrt_random *random, uint64_t stream)
{
    lrt_random_from(random, lrt_seed(), stream);
}

/* Blackman, Vigna: Scrambled linear pseudorandom number generators (2021), xoshiro256**. */
uint64_t lrt_next(lrt_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t lrt_below(lrt_random *random, uint64_t n)
{
    /* Numbers below 2^64 mod n are taken again, so that each remainder is equally likely. */
    uint64_t threshold = (0 - n) % n, x;
    do {
        x = lrt_next(random);
    } while (x < threshold);
    return x % n;
}

int64_t lrt_between(lrt_random *random, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)high - (uint64_t)low + 1;
    uint64_t offset = span == 0 ? lrt_next(random) : lrt_below(random, span);
    return (int64_t)((uint64_t)low + offset);
}

static double unit(lrt_random *random)
{
    return (double)(lrt_next(random) >> 11) * 0x1p-53;
}

float lrt_uniform(lrt_random *random, float low, float high)
{
    float x = (float)((double)low + ((double)high - (double)low) * unit(random));
    return x < high ? x : low;
}

/* Box and Muller's transform, one of its two values. */
float lrt_normal(lrt_random *random)
{
    double radius = sqrt(-2.0 * log(1.0 - unit(random)));
    return (float)(radius * cos(2.0 * 3.14159265358979323846 * unit(random)));
}

void lrt_fill_uniform(lrt_random *random, float *out, size_t n, float low, float high)
{
    for (size_t i = 0; i < n; i++) out[i] = lrt_uniform(random, low, high);
}

void lrt_fill_normal(lrt_random *random, float *out, size_t n, float deviation)
{
    for (size_t i = 0; i < n; i++) out[i] = deviation * lrt_normal(random);
}

bool lrt_emulated(void)
{
    const char *set = getenv("LR_TEST_EMULATED");
    return set != NULL && *set != '\0';
}
