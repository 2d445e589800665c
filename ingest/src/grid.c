/* Exact arithmetic on times. A moment is whole seconds and a proper fraction, so that sums of a time
 * base, a frame rate and an origin stay inside 128 bits whatever a file claims. */
#include "recording.h"

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

lri_wide lri_floor_div(lri_wide a, lri_wide b)
{
    lri_wide q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t lri_saturate(lri_wide value)
{
    if (value > INT64_MAX) return INT64_MAX;
    return value < -INT64_MAX ? -INT64_MAX : (int64_t)value;
}

static lri_moment reduce(lri_wide whole, int64_t num, int64_t den)
{
    int64_t divisor = gcd(den, num), seconds = lri_saturate(whole);
    /* Moments beyond the end of what can be told are all one. */
    if (seconds != whole) return (lri_moment){seconds, 0, 1};
    return (lri_moment){seconds, num / divisor, den / divisor};
}

lri_moment lri_moment_of(int64_t value, int64_t num, int64_t den)
{
    lri_wide product = (lri_wide)value * num;
    lri_wide whole = lri_floor_div(product, den);
    return reduce(whole, (int64_t)(product - whole * den), den);
}

bool lri_moment_add(lri_moment a, lri_moment b, lri_moment *out)
{
    int64_t common = gcd(a.den, b.den), den;
    if (__builtin_mul_overflow(a.den / common, b.den, &den)) return false;
    lri_wide num = (lri_wide)a.num * (den / a.den) + (lri_wide)b.num * (den / b.den);
    lri_wide carry = num / den;
    *out = reduce((lri_wide)a.whole + b.whole + carry, (int64_t)(num - carry * den), den);
    return true;
}

bool lri_moment_sub(lri_moment a, lri_moment b, lri_moment *out)
{
    lri_moment negative = {-b.whole, 0, 1};
    if (b.num != 0) negative = (lri_moment){-b.whole - 1, b.den - b.num, b.den};
    return lri_moment_add(a, negative, out);
}

int lri_moment_compare(lri_moment a, lri_moment b)
{
    if (a.whole != b.whole) return a.whole < b.whole ? -1 : 1;
    lri_wide left = (lri_wide)a.num * b.den, right = (lri_wide)b.num * a.den;
    return left < right ? -1 : left > right;
}

lr_time lri_moment_time(lri_moment a)
{
    int64_t part = lr_rescale(a.num, LR_TIME_SECOND, a.den);
    return lri_saturate((lri_wide)a.whole * LR_TIME_SECOND + part);
}

double lri_moment_seconds(lri_moment a)
{
    return (double)a.whole + (double)a.num / (double)a.den;
}

/* base + k * fps.den / fps.num seconds, over tick. The fraction's parts: base.den < 2^62,
 * fps.num < 2^31, so their product has 93 bits, and times tick.den 124. */
int64_t lri_grid_tick(lri_moment base, int64_t k, lr_rational fps, AVRational tick)
{
    lri_wide steps = (lri_wide)k * fps.den;
    lri_wide whole = lri_floor_div(steps, fps.num);
    lri_wide rest = steps - whole * fps.num;
    lri_wide den = (lri_wide)fps.num * base.den;
    lri_wide num = rest * base.den + (lri_wide)base.num * fps.num;
    whole += (lri_wide)base.whole + num / den;
    num %= den;
    /* floor((whole + num/den) * tick.den / tick.num): below one, the fraction cannot carry. */
    lri_wide units = whole * tick.den + num * tick.den / den;
    return lri_saturate(lri_floor_div(units, tick.num));
}

int64_t lri_grid_count(lri_moment length, lr_rational fps)
{
    lri_wide units = (lri_wide)length.whole * fps.num;
    lri_wide part = (lri_wide)length.num * fps.num;
    /* floor((units + part / den) / fps.den), units an integer. */
    return lri_saturate(lri_floor_div(units + part / length.den, fps.den));
}

size_t lri_grid_shown(const lr_recording *recording, int64_t k)
{
    const lri_video_index *video = &recording->video;
    int64_t tick = lri_grid_tick(recording->video_base, k, recording->options.fps, video->time_base);
    size_t low = 0, high = video->n_shown; /* shown[0 .. low) are at or before the grid point */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lri_pts(video, lri_shown(video, middle)) <= tick) low = middle + 1;
        else high = middle;
    }
    return low > 0 ? low - 1 : 0;
}

lr_time lri_video_time(const lr_recording *recording, int64_t pts)
{
    const AVRational tick = recording->video.time_base;
    lri_moment from_origin;
    if (!lri_moment_sub(lri_moment_of(pts, tick.num, tick.den), recording->video_zero, &from_origin))
        return LR_TIME_NONE;
    return lri_moment_time(from_origin);
}
