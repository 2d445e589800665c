#include <longreel/time.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* A value and its sign apart: |INT64_MIN| fits, and products of three need no care for the sign. */
static uint64_t magnitude(int64_t value)
{
    return value < 0 ? ~(uint64_t)value + 1 : (uint64_t)value;
}

static int64_t with_sign(wide value, bool negative)
{
    /* INT64_MIN stands for "no time", so the range is symmetric. */
    if (value > (wide)INT64_MAX) value = (wide)INT64_MAX;
    return negative ? -(int64_t)value : (int64_t)value;
}

static bool product_is_negative(int64_t value, int64_t num, int64_t den)
{
    return value != 0 && num != 0 && ((value < 0) ^ (num < 0) ^ (den < 0));
}

int64_t lr_rescale(int64_t value, int64_t num, int64_t den)
{
    bool negative = product_is_negative(value, num, den);
    /* At most 2^126; twice that plus the divisor still fits in 128 bits. */
    wide product = (wide)magnitude(value) * magnitude(num), divisor = magnitude(den);
    if (product == 0) return 0;
    if (divisor == 0) return with_sign(~(wide)0, negative);
    return with_sign((2 * product + divisor) / (2 * divisor), negative);
}

int64_t lr_rescale_floor(int64_t value, int64_t num, int64_t den)
{
    bool negative = product_is_negative(value, num, den);
    wide product = (wide)magnitude(value) * magnitude(num), divisor = magnitude(den);
    if (product == 0) return 0;
    if (divisor == 0) return with_sign(~(wide)0, negative);
    return with_sign(negative ? (product + divisor - 1) / divisor : product / divisor, negative);
}

/* k * den / num seconds. Whole seconds and the rest apart: the product of all three factors can need
 * more than 128 bits, and one rounding at the end is exact. */
lr_time lr_grid_time(int64_t k, lr_rational fps)
{
    bool negative = product_is_negative(k, fps.den, fps.num);
    wide product = (wide)magnitude(k) * magnitude(fps.den), divisor = magnitude(fps.num);
    if (product == 0) return 0;
    if (divisor == 0) return with_sign(~(wide)0, negative);
    wide seconds = product / divisor, rest = product % divisor;
    if (seconds > (wide)(INT64_MAX / LR_TIME_SECOND)) return with_sign(~(wide)0, negative);
    wide part = (2 * rest * (wide)LR_TIME_SECOND + divisor) / (2 * divisor);
    return with_sign(seconds * (wide)LR_TIME_SECOND + part, negative);
}

double lr_time_seconds(lr_time t)
{
    return t == LR_TIME_NONE ? (double)NAN : (double)t / (double)LR_TIME_SECOND;
}

/* Division rounded towards minus infinity, the remainder in [0, LR_TIME_SECOND). */
static int64_t floor_seconds(lr_time t, int64_t *rest)
{
    int64_t seconds = t / LR_TIME_SECOND;
    *rest = t % LR_TIME_SECOND;
    if (*rest < 0) {
        *rest += LR_TIME_SECOND;
        seconds--;
    }
    return seconds;
}

int64_t lr_time_round_even(lr_time t)
{
    int64_t rest, seconds = floor_seconds(t, &rest);
    if (2 * rest > LR_TIME_SECOND || (2 * rest == LR_TIME_SECOND && seconds % 2 != 0)) seconds++;
    return seconds;
}

/* ------------------------------------------------------------------ reading */

/* Digits from *p on, at least one, at most `most`; *value = *value * 10 + digit. */
static bool read_digits(const char **p, int most, int64_t *value, int *n_digits)
{
    int n = 0;
    while (**p >= '0' && **p <= '9') {
        if (n == most || __builtin_mul_overflow(*value, (int64_t)10, value) ||
            __builtin_add_overflow(*value, (int64_t)(**p - '0'), value))
            return false;
        n++;
        (*p)++;
    }
    *n_digits = n;
    return n > 0;
}

static int64_t power_of_ten(int n)
{
    int64_t power = 1;
    while (n-- > 0) power *= 10;
    return power;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Numerators and denominators stay below 2^31: libav's rationals are ints. */
lr_status lr_parse_rational(const char *text, lr_rational *out, lr_error *err)
{
    const char *p = text;
    int64_t num = 0, den = 1;
    int n;
    bool ok = read_digits(&p, 18, &num, &n);
    if (ok && *p == '.') {
        p++;
        ok = read_digits(&p, 9, &num, &n);
        if (ok) den = power_of_ten(n);
    } else if (ok && *p == '/') {
        p++;
        den = 0;
        ok = read_digits(&p, 18, &den, &n);
    }
    if (!ok || *p != '\0' || num == 0 || den == 0)
        return lr_fail(err, LR_E_USAGE,
                       "\"%s\" is not a positive number (like 10, 0.25, 1/5 or 30000/1001)", text);
    int64_t divisor = greatest_common_divisor(num, den);
    num /= divisor;
    den /= divisor;
    if (num > INT32_MAX || den > INT32_MAX)
        return lr_fail(err, LR_E_USAGE, "\"%s\" is out of range", text);
    *out = (lr_rational){num, den};
    return LR_OK;
}

/* Fields left of the last one: hours and minutes. The first may be of any size, the others are below
 * 60 with two digits. */
static bool read_clock(const char **p, int64_t *seconds, int64_t *fraction, int *n_fraction)
{
    int n, n_fields = 1;
    *seconds = 0;
    if (!read_digits(p, 18, seconds, &n)) return false;
    for (; **p == ':' && n_fields < 3; n_fields++) {
        int64_t field = 0;
        (*p)++;
        if (!read_digits(p, 2, &field, &n) || n != 2 || field > 59) return false;
        if (__builtin_mul_overflow(*seconds, (int64_t)60, seconds) ||
            __builtin_add_overflow(*seconds, field, seconds))
            return false;
    }
    *fraction = 0;
    *n_fraction = 0;
    if (**p == '.') {
        (*p)++;
        if (!read_digits(p, 18, fraction, n_fraction)) return false;
    }
    return **p == '\0';
}

lr_status lr_parse_time(const char *text, lr_time *out, lr_error *err)
{
    const char *p = text;
    int64_t seconds, fraction;
    int n_fraction;
    if (!read_clock(&p, &seconds, &fraction, &n_fraction))
        return lr_fail(err, LR_E_USAGE, "\"%s\" is not a time (like 12.5, 61:05 or 1:02:03.5)",
                       text);
    /* A fraction of 18 digits rounds up to one second at most. */
    if (seconds >= INT64_MAX / LR_TIME_SECOND)
        return lr_fail(err, LR_E_USAGE, "\"%s\" is out of range", text);
    *out = seconds * LR_TIME_SECOND + lr_rescale(fraction, LR_TIME_SECOND, power_of_ten(n_fraction));
    return LR_OK;
}

char *lr_time_clock(lr_time t, char *buffer)
{
    if (t == LR_TIME_NONE) return strcpy(buffer, "--:--:--");
    int64_t rest, seconds = floor_seconds(t, &rest);
    uint64_t s = magnitude(seconds);
    (void)snprintf(buffer, 24, "%s%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64, seconds < 0 ? "-" : "",
                   s / 3600, s / 60 % 60, s % 60);
    return buffer;
}
