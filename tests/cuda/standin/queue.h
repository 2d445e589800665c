/* Streams and events of the stand-in. */
#ifndef STANDIN_QUEUE_H
#define STANDIN_QUEUE_H

#include <cuda.h>

#include "machine.h"

typedef enum work_kind { WORK_UPLOAD, WORK_DOWNLOAD, WORK_COPY, WORK_FILL, WORK_LAUNCH, WORK_RECORD, WORK_WAIT,
                       WORK_STEP } work_kind;

typedef struct work {
    work_kind kind;
    uint64_t to, from;     /* addresses on the device */
    void *host_to;
    const void *host_from;
    size_t bytes;
    unsigned char value;
    machine_launch launch; /* its params are a copy */
    CUevent event;
    CUstream stream;       /* WORK_WAIT: runs this one's first `upto` pieces of work before going on */
    size_t upto;
    bool (*step)(void *arg); /* WORK_STEP: true once it has happened; called again and again until then */
    void *arg;
} work;

struct CUstream_st {
    work *queue;
    size_t n, done, capacity;
    CUstream next;
};

struct CUevent_st {
    CUstream stream; /* NULL: never recorded */
    size_t upto;
};

CUstream queue_create(void);
void queue_destroy(CUstream stream);
void queue_add(CUstream stream, const work *one);
/* Runs what is queued up to the given number, and what that waits for, as far as it can: CUDA_ERROR_NOT_READY where a
 * step waits for somebody else. The first failure stays for good. */
CUresult queue_run(CUstream stream, size_t upto);
CUresult queue_run_all(void); /* as far as it can */
/* The streams that have steps, no further than these. */
void queue_run_steps(void);
CUresult queue_failure(void);
const char *queue_failure_text(void);
machine_counts *queue_counts(void);

#endif
