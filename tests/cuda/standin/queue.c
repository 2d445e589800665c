#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

static CUstream streams;
static CUresult failure;
static char failure_text[MOST_MESSAGE];
static machine_counts counts;

CUstream queue_create(void)
{
    CUstream stream = calloc(1, sizeof *stream);
    if (!stream) abort();
    stream->next = streams;
    streams = stream;
    return stream;
}

/* Other streams may still wait for what it did: it stays, with nothing to do. */
void queue_destroy(CUstream stream)
{
    free(stream->queue);
    stream->queue = NULL;
    stream->capacity = 0;
    stream->done = stream->n;
}

void queue_add(CUstream stream, const work *one)
{
    stream->queue = ptx_grow(stream->queue, &stream->capacity, stream->n + 1, sizeof *stream->queue);
    stream->queue[stream->n++] = *one;
}

static void fail(CUresult status, const char *text)
{
    if (failure) return;
    failure = status;
    (void)snprintf(failure_text, sizeof failure_text, "%s", text);
}

static void copy(unsigned char *to, const unsigned char *from, size_t bytes)
{
    if (!to || !from) fail(CUDA_ERROR_ILLEGAL_ADDRESS, "a copy reaches outside of any allocation");
    else memmove(to, from, bytes);
}

/* False: it has to wait for somebody else. */
static bool run_one(const work *one)
{
    switch (one->kind) {
    case WORK_UPLOAD: copy(memory_at(one->to, one->bytes), one->host_from, one->bytes); break;
    case WORK_DOWNLOAD: copy(one->host_to, memory_at(one->from, one->bytes), one->bytes); break;
    case WORK_COPY: copy(memory_at(one->to, one->bytes), memory_at(one->from, one->bytes), one->bytes); break;
    case WORK_FILL: {
        unsigned char *to = memory_at(one->to, one->bytes);
        if (to) memset(to, one->value, one->bytes);
        else fail(CUDA_ERROR_ILLEGAL_ADDRESS, "a fill reaches outside of any allocation");
        break;
    }
    case WORK_LAUNCH: {
        char message[MOST_MESSAGE];
        if (!machine_run(&one->launch, &counts, message)) fail(CUDA_ERROR_LAUNCH_FAILED, message);
        free((void *)(uintptr_t)one->launch.params);
        break;
    }
    case WORK_WAIT: return queue_run(one->stream, one->upto) != CUDA_ERROR_NOT_READY;
    case WORK_STEP: return one->step(one->arg);
    case WORK_RECORD: break;
    }
    return true;
}

CUresult queue_run(CUstream stream, size_t upto)
{
    while (!failure && stream->done < upto && stream->done < stream->n) {
        work one = stream->queue[stream->done];
        if (!run_one(&one)) return CUDA_ERROR_NOT_READY;
        stream->done++;
    }
    return failure;
}

CUresult queue_run_all(void)
{
    for (CUstream stream = streams; stream; stream = stream->next) (void)queue_run(stream, stream->n);
    return failure;
}

void queue_run_steps(void)
{
    for (CUstream stream = streams; stream; stream = stream->next) {
        size_t upto = 0;
        for (size_t i = stream->done; i < stream->n; i++)
            if (stream->queue[i].kind == WORK_STEP) upto = i + 1;
        (void)queue_run(stream, upto);
    }
}

CUresult queue_failure(void)
{
    return failure;
}

const char *queue_failure_text(void)
{
    return failure_text;
}

machine_counts *queue_counts(void)
{
    return &counts;
}
