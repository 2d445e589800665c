/* What reading pictures took, for `lr_frame_reader_work`. */
#ifndef LRI_WORK_H
#define LRI_WORK_H

#include <stdint.h>
#include <time.h>

typedef struct lri_work {
    double read, decode, convert; /* seconds, of the threads that call libav */
    int64_t fed, passed;          /* packets decoded, and passed over without */
    int64_t begins;               /* how often decoding began at an entry */
} lri_work;

static inline double lri_clock_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline void lri_work_add(lri_work *sum, const lri_work *work)
{
    sum->read += work->read;
    sum->decode += work->decode;
    sum->convert += work->convert;
    sum->fed += work->fed;
    sum->passed += work->passed;
    sum->begins += work->begins;
}

#endif
