/* Time: one type, one unit, one origin.
 *
 * lr_time counts 1/705,600,000 s: that divides every usual frame rate, 90 kHz, milliseconds and all
 * audio rates from 8 to 192 kHz exactly. Zero is the recording's origin (the earliest start of its
 * picture and sound). Decisions inside ingest compare exact rationals in the stream's own time base;
 * what it hands on is lr_time. Never a float second in a decision. */
#ifndef LONGREEL_TIME_H
#define LONGREEL_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include <longreel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int64_t lr_time;
#define LR_TIME_SECOND INT64_C(705600000)
#define LR_TIME_NONE INT64_MIN

typedef struct lr_rational {
    int64_t num, den; /* den > 0 */
} lr_rational;

/* value * num / den rounded to the nearest (halves away from zero), in 128-bit arithmetic;
 * saturates at the ends of int64 (never LR_TIME_NONE). */
int64_t lr_rescale(int64_t value, int64_t num, int64_t den);
/* As above, rounded towards minus infinity. */
int64_t lr_rescale_floor(int64_t value, int64_t num, int64_t den);

/* The k-th grid point, k / fps. */
lr_time lr_grid_time(int64_t k, lr_rational fps);
/* NaN for LR_TIME_NONE. */
double lr_time_seconds(lr_time t);
/* Whole seconds, halves to even: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2 (the reference's time stamps). */
int64_t lr_time_round_even(lr_time t);

/* "10", "0.25", "1/5", "30000/1001": a positive rational (fps), in lowest terms, both below 2^31. */
lr_status lr_parse_rational(const char *text, lr_rational *out, lr_error *err);
/* "12.5" (seconds), "1:02:03.5", "61:05": a time >= 0. */
lr_status lr_parse_time(const char *text, lr_time *out, lr_error *err);
/* "HH:MM:SS" (floor) into at least 24 bytes ("--:--:--" for LR_TIME_NONE); returns buffer. */
char *lr_time_clock(lr_time t, char *buffer);

#ifdef __cplusplus
}
#endif
#endif
