#include "clock.h"

/* Stamps of decoding go back by jitter at most; from here on it is a new clock. Forwards, a hole of an
 * hour is believable (a recorder that was paused). */
#define LARGEST_STEP_BACK LR_TIME_SECOND
#define LARGEST_HOLE (3600 * LR_TIME_SECOND)

static lr_time to_time(int64_t ticks, AVRational time_base)
{
    return lr_rescale(ticks, (int64_t)time_base.num * LR_TIME_SECOND, time_base.den);
}

static bool goes_on(const lri_clock *clock, lr_time dts, lr_time shift)
{
    lr_time at, step;
    if (__builtin_add_overflow(dts, shift, &at) || __builtin_sub_overflow(at, clock->expected, &step))
        return false;
    return step >= -LARGEST_STEP_BACK && step <= LARGEST_HOLE;
}

void lri_clock_correct(lri_clock *clock, const lri_clock *other, AVRational time_base,
                       AVPacket *packet)
{
    int64_t stamp = packet->dts != AV_NOPTS_VALUE ? packet->dts : packet->pts;
    if (stamp == AV_NOPTS_VALUE) return;
    lr_time dts = to_time(stamp, time_base);
    /* Before the first packet of a stream the other one may have stepped, or not. */
    if (!clock->begun) clock->expected = other->begun ? other->expected : dts;
    if (!clock->begun && other->begun) clock->shift = other->shift;
    if (!goes_on(clock, dts, clock->shift)) {
        if (other->begun && other->shift != clock->shift && goes_on(clock, dts, other->shift))
            clock->shift = other->shift;
        else if (__builtin_sub_overflow(clock->expected, dts, &clock->shift)) clock->shift = 0;
        clock->n_steps++;
    }
    clock->begun = true;
    int64_t ticks = lr_rescale(clock->shift, time_base.den,
                               (int64_t)time_base.num * LR_TIME_SECOND);
    if (packet->dts != AV_NOPTS_VALUE && __builtin_add_overflow(packet->dts, ticks, &packet->dts))
        packet->dts = AV_NOPTS_VALUE;
    if (packet->pts != AV_NOPTS_VALUE && __builtin_add_overflow(packet->pts, ticks, &packet->pts))
        packet->pts = AV_NOPTS_VALUE;
    lr_time length = packet->duration > 0 ? to_time(packet->duration, time_base) : 0;
    if (__builtin_add_overflow(dts, clock->shift, &dts) || __builtin_add_overflow(dts, length, &dts))
        return;
    clock->expected = dts;
}
