/* The functions of libcuda.so.1 that Longreel calls. One lock: callers may be several threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

#include "fatbin.h"
#include "memory.h"
#include "queue.h"
#include "standin.h"

struct CUctx_st { int unused; };
struct CUmod_st { ptx_module *ptx; CUfunction functions; };
struct CUfunc_st { const ptx_kernel *kernel; int most_shared; CUfunction next; };

#define STATIC_SHARED_MOST 49152 /* of a launch, unless the function asks for more */

static struct {
    int devices, version, architecture;
    size_t memory;
    bool last_warp_first, ready;
    ptx_edit edit;
} standin;
static struct CUctx_st the_context;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last_text[MOST_MESSAGE] = "unknown error";
static __thread CUcontext current;

#define LOCKED(expr)                                                                               \
    do {                                                                                           \
        (void)pthread_mutex_lock(&lock);                                                           \
        CUresult result_ = (expr);                                                                 \
        (void)pthread_mutex_unlock(&lock);                                                         \
        return result_;                                                                            \
    } while (0)

/* Runs a stream with the lock held, which is given away while a step waits for somebody else. */
static CUresult run_to_end(CUstream stream)
{
    static const struct timespec pause = {.tv_nsec = 50000};
    CUresult status;
    while ((status = queue_run(stream, stream->n)) == CUDA_ERROR_NOT_READY) {
        (void)pthread_mutex_unlock(&lock);
        (void)nanosleep(&pause, NULL);
        (void)pthread_mutex_lock(&lock);
    }
    return status;
}

/* ------------------------------------------------------------------ the device */

static long long setting(const char *name, long long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 0) : otherwise;
}

static void read_edit(const char *text)
{
    char copy[4 * PTX_NAME], *save = NULL;
    (void)snprintf(copy, sizeof copy, "%s", text);
    const char *kernel = strtok_r(copy, "|", &save), *after = strtok_r(NULL, "|", &save);
    const char *which = strtok_r(NULL, "|", &save);
    const char *from = strtok_r(NULL, "|", &save), *to = strtok_r(NULL, "|", &save);
    if (!kernel || !after || !which || !from) abort();
    (void)snprintf(standin.edit.kernel, sizeof standin.edit.kernel, "%s", kernel);
    (void)snprintf(standin.edit.after, sizeof standin.edit.after, "%s", after);
    (void)snprintf(standin.edit.from, sizeof standin.edit.from, "%s", from);
    (void)snprintf(standin.edit.to, sizeof standin.edit.to, "%s", to ? to : "");
    standin.edit.which = (size_t)strtoull(which, NULL, 10);
}

CUresult cuInit(unsigned flags)
{
    (void)flags;
    const char *edit = getenv("STANDIN_EDIT"), *order = getenv("STANDIN_ORDER");
    standin.devices = (int)setting("STANDIN_DEVICES", 1);
    standin.version = (int)setting("STANDIN_VERSION", 13000);
    standin.architecture = (int)setting("STANDIN_ARCHITECTURE", 80);
    standin.memory = (size_t)setting("STANDIN_MEMORY", 8LL << 30);
    standin.last_warp_first = order && !strcmp(order, "last");
    if (edit && *edit) read_edit(edit);
    standin.ready = true;
    return standin.devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = (int)setting("STANDIN_VERSION", 13000);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = standin.devices;
    return standin.ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return ordinal >= 0 && ordinal < standin.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    (void)device;
    (void)snprintf(name, (size_t)size, "stand-in, interpreted");
    return CUDA_SUCCESS;
}

/* Shared memory a block may ask for, as on devices of the architecture. */
static int most_shared(void)
{
    if (standin.architecture >= 90 && standin.architecture < 120) return 232448;
    return standin.architecture == 80 ? 166912 : 101376;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = standin.architecture / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = standin.architecture % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = most_shared(); break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = standin.memory;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = &the_context;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult status, const char **text)
{
    if (status == queue_failure() && status != CUDA_SUCCESS) *text = queue_failure_text();
    else if (status == CUDA_ERROR_INVALID_CONTEXT) *text = "no context is current in this thread";
    else if (status == CUDA_ERROR_OUT_OF_MEMORY) *text = "out of memory";
    else *text = last_text;
    return CUDA_SUCCESS;
}

static CUresult refuse(CUresult status, const char *text)
{
    (void)snprintf(last_text, sizeof last_text, "%s", text);
    return status;
}

/* ------------------------------------------------------------------ modules */

static CUresult load_module(CUmodule *out, const void *image)
{
    size_t bytes = 0;
    char message[MOST_MESSAGE] = "";
    const char *ptx = fatbin_ptx(image, &bytes);
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    if (!ptx) return refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "the image holds no PTX");
    CUmodule module = calloc(1, sizeof *module);
    if (!module) abort();
    module->ptx = ptx_parse(ptx, bytes, standin.edit.kernel[0] ? &standin.edit : NULL, message, sizeof message);
    if (!module->ptx) {
        free(module);
        return refuse(CUDA_ERROR_INVALID_PTX, message);
    }
    *out = module;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    LOCKED(load_module(module, image));
}

CUresult cuModuleUnload(CUmodule module)
{
    (void)pthread_mutex_lock(&lock);
    CUresult status = queue_run_all();
    while (module->functions) {
        CUfunction function = module->functions;
        module->functions = function->next;
        free(function);
    }
    ptx_free(module->ptx);
    free(module);
    (void)pthread_mutex_unlock(&lock);
    return status;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    const ptx_kernel *kernel = module->ptx->kernels;
    while (kernel && strcmp(kernel->name, name)) kernel = kernel->next;
    if (!kernel) return refuse(CUDA_ERROR_NOT_FOUND, "no such kernel");
    CUfunction function = calloc(1, sizeof *function);
    if (!function) abort();
    *function = (struct CUfunc_st){kernel, STATIC_SHARED_MOST, module->functions};
    module->functions = function;
    *out = function;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > most_shared())
        return refuse(CUDA_ERROR_INVALID_VALUE, "more shared memory than the device has");
    function->most_shared = value;
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, const unsigned grid[3], const unsigned block[3], unsigned shared,
                       CUstream stream, void **params)
{
    const ptx_kernel *kernel = f->kernel;
    unsigned threads = block[0] * block[1] * block[2];
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[1] > 65535 || grid[2] > 65535 || threads == 0 ||
        threads > 1024 || (kernel->most_threads > 0 && threads > kernel->most_threads))
        return refuse(CUDA_ERROR_INVALID_VALUE, "a grid or block of a size that cannot be");
    if (kernel->shared_bytes + shared > (size_t)f->most_shared)
        return refuse(CUDA_ERROR_INVALID_VALUE, "more shared memory than the function may have");
    work one = {.kind = WORK_LAUNCH};
    one.launch = (machine_launch){.kernel = kernel, .dynamic_shared = shared,
                                  .last_warp_first = standin.last_warp_first};
    memcpy(one.launch.grid, grid, sizeof one.launch.grid);
    memcpy(one.launch.block, block, sizeof one.launch.block);
    void *copy = malloc(kernel->param_bytes);
    if (!copy) abort();
    memcpy(copy, params[0], kernel->param_bytes); /* kernels here have one parameter */
    one.launch.params = copy;
    queue_add(stream, &one);
    return queue_failure();
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    (void)extra;
    LOCKED(launch(f, (const unsigned[]){gx, gy, gz}, (const unsigned[]){bx, by, bz}, shared, stream, params));
}

/* ------------------------------------------------------------------ memory */

static CUresult allocate(CUdeviceptr *out, size_t bytes)
{
    uint64_t address = 0;
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    if (bytes == 0) return refuse(CUDA_ERROR_INVALID_VALUE, "an allocation of no bytes");
    if (!memory_alloc(bytes, standin.memory, &address)) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = address;
    return CUDA_SUCCESS;
}

static CUresult release(CUdeviceptr address)
{
    /* As the driver does; a step that waits is another rank's, which would have a device of its own. */
    CUresult status = queue_run_all();
    return memory_free(address) ? status : refuse(CUDA_ERROR_INVALID_VALUE, "no allocation begins here");
}

static CUresult add(CUstream stream, work one)
{
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    queue_add(stream, &one);
    return queue_failure();
}

CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    LOCKED(allocate(out, bytes));
}

CUresult cuMemFree(CUdeviceptr address)
{
    LOCKED(release(address));
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
    (void)pthread_mutex_lock(&lock);
    *total = standin.memory;
    *free_bytes = standin.memory - memory_held();
    (void)pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    LOCKED(add(stream, (work){.kind = WORK_UPLOAD, .to = to, .host_from = from, .bytes = bytes}));
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    LOCKED(add(stream, (work){.kind = WORK_DOWNLOAD, .host_to = to, .from = from, .bytes = bytes}));
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    LOCKED(add(stream, (work){.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes}));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    LOCKED(add(stream, (work){.kind = WORK_FILL, .to = to, .value = value, .bytes = bytes}));
}

/* ------------------------------------------------------------------ streams and events */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    (void)pthread_mutex_lock(&lock);
    *stream = queue_create();
    (void)pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult destroy_stream(CUstream stream)
{
    CUresult status = run_to_end(stream);
    queue_destroy(stream);
    return status;
}

CUresult cuStreamDestroy(CUstream stream)
{
    LOCKED(destroy_stream(stream));
}

CUresult cuStreamSynchronize(CUstream stream)
{
    LOCKED(current ? run_to_end(stream) : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    if (!*event) abort();
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
    free(event);
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
    CUresult status = add(stream, (work){.kind = WORK_RECORD});
    *event = (struct CUevent_st){stream, stream->n};
    return status;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    LOCKED(record(event, stream));
}

/* A device is as late as it likes, but goes on: asked often enough, an event has happened. */
CUresult cuEventQuery(CUevent event)
{
    LOCKED(event->stream ? queue_run(event->stream, event->upto) : CUDA_SUCCESS);
}

static CUresult wait_event(CUstream stream, CUevent event)
{
    if (!event->stream) return CUDA_SUCCESS;
    return add(stream, (work){.kind = WORK_WAIT, .stream = event->stream, .upto = event->upto});
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)flags;
    LOCKED(wait_event(stream, event));
}

/* ------------------------------------------------------------------ for tests */

CUresult standin_enqueue(CUstream stream, bool (*step)(void *arg), void *arg)
{
    LOCKED(add(stream, (work){.kind = WORK_STEP, .step = step, .arg = arg}));
}

void standin_progress(void)
{
    (void)pthread_mutex_lock(&lock);
    queue_run_steps();
    (void)pthread_mutex_unlock(&lock);
}

unsigned char *standin_at(CUdeviceptr address, size_t bytes)
{
    return memory_at(address, bytes);
}

machine_counts standin_counts(void)
{
    return *queue_counts();
}

size_t standin_memory_held(void)
{
    return memory_held();
}
