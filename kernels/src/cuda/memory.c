/* Memory, streams, events and copies of a device. */
#include "device.h"

static lr_cu_device *enter(lr_device *device)
{
    lr_cu_device *d = (lr_cu_device *)device;
    (void)d->driver.cuCtxSetCurrent(d->context); /* what follows fails if this does */
    return d;
}

static lr_status failed(const lr_cu_device *d, CUresult status, const char *what, lr_error *err)
{
    return lr_fail(err, status == CUDA_ERROR_OUT_OF_MEMORY ? LR_E_NOMEM : LR_E_INTERNAL, "%s: %s: %s",
                   d->head.info.name, what, lr_cu_text(&d->driver, status));
}

/* ------------------------------------------------------------------ memory */

static lr_status memory_left(lr_device *device, size_t *bytes, lr_error *err)
{
    lr_cu_device *d = enter(device);
    size_t total;
    CUresult status = d->driver.cuMemGetInfo(bytes, &total);
    return status == CUDA_SUCCESS ? LR_OK : failed(d, status, "memory left", err);
}

static lr_status alloc(lr_device *device, size_t bytes, const char *what, lr_device_at *out, lr_error *err)
{
    lr_cu_device *d = enter(device);
    CUdeviceptr at = 0;
    size_t left = 0, total = 0;
    CUresult status = d->driver.cuMemAlloc(&at, bytes ? bytes : 1);
    *out = at;
    if (status == CUDA_SUCCESS) return LR_OK;
    *out = 0;
    if (status != CUDA_ERROR_OUT_OF_MEMORY) return failed(d, status, what, err);
    (void)d->driver.cuMemGetInfo(&left, &total);
    return lr_fail(err, LR_E_NOMEM, "%s: out of memory: %s (%zu bytes; %zu of %zu are left)", d->head.info.name,
                   what, bytes, left, total);
}

static void release(lr_device *device, lr_device_at at)
{
    lr_cu_device *d = enter(device);
    if (at) (void)d->driver.cuMemFree(at);
}

/* ------------------------------------------------------------------ streams and events */

static lr_status stream_create(lr_device *device, lr_stream **out, lr_error *err)
{
    lr_cu_device *d = enter(device);
    lr_status st = LR_NEW(out, 1, "a stream", err);
    if (st != LR_OK) return st;
    (*out)->device = d;
    CUresult status = d->driver.cuStreamCreate(&(*out)->stream, CU_STREAM_NON_BLOCKING);
    if (status == CUDA_SUCCESS) return LR_OK;
    lr_free(*out);
    *out = NULL;
    return failed(d, status, "a stream", err);
}

static void stream_destroy(lr_stream *stream)
{
    if (!stream) return;
    const lr_cu_driver *cu = &enter(&stream->device->head)->driver;
    (void)cu->cuStreamSynchronize(stream->stream);
    (void)cu->cuStreamDestroy(stream->stream);
    lr_free(stream);
}

static lr_status event_create(lr_device *device, lr_event **out, lr_error *err)
{
    lr_cu_device *d = enter(device);
    lr_status st = LR_NEW(out, 1, "an event", err);
    if (st != LR_OK) return st;
    (*out)->device = d;
    CUresult status = d->driver.cuEventCreate(&(*out)->event, CU_EVENT_DISABLE_TIMING);
    if (status == CUDA_SUCCESS) return LR_OK;
    lr_free(*out);
    *out = NULL;
    return failed(d, status, "an event", err);
}

static void event_destroy(lr_event *event)
{
    if (!event) return;
    (void)enter(&event->device->head)->driver.cuEventDestroy(event->event);
    lr_free(event);
}

static void record(lr_stream *stream, lr_event *event)
{
    if (lr_cu_enter(stream, "an event"))
        lr_cu_note(stream, stream->device->driver.cuEventRecord(event->event, stream->stream), "an event");
}

static void wait_for(lr_stream *stream, const lr_event *event)
{
    if (lr_cu_enter(stream, "an event"))
        lr_cu_note(stream, stream->device->driver.cuStreamWaitEvent(stream->stream, event->event, 0), "an event");
}

static lr_status wait(lr_stream *stream, lr_error *err)
{
    const lr_cu_device *d = stream->device;
    if (lr_cu_enter(stream, "waiting"))
        lr_cu_note(stream, d->driver.cuStreamSynchronize(stream->stream), "waiting");
    if (stream->failure == CUDA_SUCCESS) return LR_OK;
    return failed(d, stream->failure, stream->doing, err);
}

static bool reached(const lr_event *event)
{
    return enter(&event->device->head)->driver.cuEventQuery(event->event) != CUDA_ERROR_NOT_READY;
}

static void *native(lr_stream *stream)
{
    return lr_cu_enter(stream, "a library") ? stream->stream : NULL;
}

/* ------------------------------------------------------------------ copies */

static void upload(lr_stream *stream, lr_device_at to, const void *from, size_t bytes)
{
    if (bytes > 0 && lr_cu_enter(stream, "an upload"))
        lr_cu_note(stream, stream->device->driver.cuMemcpyHtoDAsync(to, from, bytes, stream->stream), "an upload");
}

static void download(lr_stream *stream, void *to, lr_device_at from, size_t bytes)
{
    if (bytes > 0 && lr_cu_enter(stream, "a download"))
        lr_cu_note(stream, stream->device->driver.cuMemcpyDtoHAsync(to, from, bytes, stream->stream), "a download");
}

static void copy(lr_stream *stream, lr_device_at to, lr_device_at from, size_t bytes)
{
    if (bytes > 0 && lr_cu_enter(stream, "a copy"))
        lr_cu_note(stream, stream->device->driver.cuMemcpyDtoDAsync(to, from, bytes, stream->stream), "a copy");
}

static void fill(lr_stream *stream, lr_device_at to, unsigned char value, size_t bytes)
{
    if (bytes > 0 && lr_cu_enter(stream, "a fill"))
        lr_cu_note(stream, stream->device->driver.cuMemsetD8Async(to, value, bytes, stream->stream), "a fill");
}

void lr_cu_fill_memory(lr_device_ops *ops)
{
    ops->memory_left = memory_left;
    ops->alloc = alloc;
    ops->release = release;
    ops->stream_create = stream_create;
    ops->stream_destroy = stream_destroy;
    ops->event_create = event_create;
    ops->event_destroy = event_destroy;
    ops->record = record;
    ops->wait_for = wait_for;
    ops->wait = wait;
    ops->reached = reached;
    ops->native = native;
    ops->upload = upload;
    ops->download = download;
    ops->copy = copy;
    ops->fill = fill;
}
