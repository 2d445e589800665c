/* Time stamps that step back inside a file: two broadcasts joined, an encoder that was started again. */
#ifndef LRI_CLOCK_H
#define LRI_CLOCK_H

#include <libavcodec/avcodec.h>
#include <libavutil/rational.h>

#include <longreel/core.h>

/* Of one stream. */
typedef struct lri_clock {
    bool begun;
    lr_time expected; /* dts of the next packet, corrected */
    lr_time shift;    /* what is added to the stamps as they lie in the file */
    size_t n_steps;   /* times it was changed */
    int64_t missing;  /* ticks of what is counted and was lost (AVI) */
} lri_clock;

/* Adds to the packet's stamps what makes the clock go on where it was. `other` is the clock of the other
 * stream: a step that it has made already is taken over, so that picture and sound stay together. */
void lri_clock_correct(lri_clock *clock, const lri_clock *other, AVRational time_base,
                       AVPacket *packet);

#endif
