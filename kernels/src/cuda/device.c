/* Opening a device: driver, context, kernels. */
#include "device.h"

#include <pthread.h>
#include <string.h>

#define LEAST_MAJOR 8 /* bf16 in tensor cores, cp.async */

static const char *const kernel_names[] = {
#define NAME(name, module, shared) "lr_" #name,
    LR_CU_KERNELS(NAME)
#undef NAME
};
static const char *const kernel_modules[] = {
#define MODULE(name, module, shared) #module,
    LR_CU_KERNELS(MODULE)
#undef MODULE
};
static const int kernel_shared[] = {
#define SHARED(name, module, shared) shared,
    LR_CU_KERNELS(SHARED)
#undef SHARED
};
#define MOST_SHARED 232448 /* that a block may have on any architecture */
#define FITS(name, module, shared) _Static_assert((shared) <= MOST_SHARED, #name);
LR_CU_KERNELS(FITS)
#undef FITS

/* ------------------------------------------------------------------ what the device is */

static lr_status describe(lr_cu_device *d, int ordinal, lr_error *err)
{
    const lr_cu_driver *cu = &d->driver;
    lr_device_info *info = &d->head.info;
    int shared = 0, count = 0;
    (void)cu->cuDeviceGetCount(&count);
    if (cu->cuDeviceGet(&d->device, ordinal) != CUDA_SUCCESS)
        return lr_fail(err, LR_E_USAGE, "there is no device %d: the driver shows %d", ordinal, count);
    const struct { CUdevice_attribute attribute; int *value; } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &info->major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &info->minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info->n_multiprocessors},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared}};
    CUresult status = cu->cuDeviceGetName(info->name, (int)sizeof info->name, d->device);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && status == CUDA_SUCCESS; i++)
        status = cu->cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, d->device);
    if (status == CUDA_SUCCESS) status = cu->cuDeviceTotalMem(&info->memory_bytes, d->device);
    if (status != CUDA_SUCCESS)
        return lr_fail(err, LR_E_UNSUPPORTED, "device %d: %s", ordinal, lr_cu_text(cu, status));
    info->shared_bytes = (size_t)shared;
    if (info->major < LEAST_MAJOR)
        return lr_fail(err, LR_E_UNSUPPORTED,
                       "%s is of compute capability %d.%d; Longreel's kernels need %d.0 (Ampere) or newer",
                       info->name, info->major, info->minor, LEAST_MAJOR);
    return LR_OK;
}

/* ------------------------------------------------------------------ kernels */

static lr_status load_modules(lr_cu_device *d, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(LR_NEW(&d->modules, lr_cu_n_images, "the modules of a device", err));
    for (size_t i = 0; i < lr_cu_n_images; i++) {
        CUresult status = d->driver.cuModuleLoadData(&d->modules[i], lr_cu_images[i].image);
        if (status == CUDA_SUCCESS) continue;
        d->modules[i] = NULL;
        LR_FAIL(status == CUDA_ERROR_OUT_OF_MEMORY ? LR_E_NOMEM : LR_E_UNSUPPORTED,
                "%s (compute capability %d.%d) does not load the kernels of %s: %s", d->head.info.name,
                d->head.info.major, d->head.info.minor, lr_cu_images[i].name, lr_cu_text(&d->driver, status));
    }
done:
    return st;
}

static lr_status find_kernels(lr_cu_device *d, lr_error *err)
{
    for (size_t k = 0; k < LR_CU_N_KERNELS; k++) {
        size_t module = 0;
        bool large = kernel_shared[k] > LR_CU_LEAST_SHARED; /* there is another for devices that have less */
        if (large && (size_t)kernel_shared[k] > d->head.info.shared_bytes) continue;
        while (module < lr_cu_n_images && strcmp(lr_cu_images[module].name, kernel_modules[k])) module++;
        CUresult status = CUDA_ERROR_NOT_FOUND;
        if (module < lr_cu_n_images)
            status = d->driver.cuModuleGetFunction(&d->kernels[k], d->modules[module], kernel_names[k]);
        if (status == CUDA_SUCCESS && kernel_shared[k] > 0)
            status = d->driver.cuFuncSetAttribute(
                d->kernels[k], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel_shared[k]);
        if (status != CUDA_SUCCESS)
            return lr_fail(err, LR_E_INTERNAL, "kernel %s: %s", kernel_names[k], lr_cu_text(&d->driver, status));
    }
    return LR_OK;
}

/* ------------------------------------------------------------------ opening and closing */

static lr_device_ops ops;

static void device_close(lr_device *device)
{
    lr_cu_device *d = (lr_cu_device *)device;
    if (!d) return;
    if (d->context) {
        (void)d->driver.cuCtxSetCurrent(d->context);
        for (size_t i = 0; d->modules && i < lr_cu_n_images; i++)
            if (d->modules[i]) (void)d->driver.cuModuleUnload(d->modules[i]);
        (void)d->driver.cuDevicePrimaryCtxRelease(d->device);
    }
    lr_free(d->modules);
    lr_cu_driver_close(&d->driver);
    lr_free(d);
}

static lr_status device_open(lr_device **out, const lr_device_options *options, lr_error *err)
{
    lr_status st = LR_OK;
    lr_cu_device *d = NULL;
    *out = NULL;
    LR_TRY(LR_NEW(&d, 1, "a device", err));
    d->head.ops = &ops;
    LR_TRY(lr_cu_driver_open(&d->driver, options->driver, err));
    LR_TRY(describe(d, options->ordinal, err));
    CUresult status = d->driver.cuDevicePrimaryCtxRetain(&d->context, d->device);
    if (status == CUDA_SUCCESS) status = d->driver.cuCtxSetCurrent(d->context);
    if (status != CUDA_SUCCESS)
        LR_FAIL(status == CUDA_ERROR_OUT_OF_MEMORY ? LR_E_NOMEM : LR_E_UNSUPPORTED, "%s cannot be used: %s",
                d->head.info.name, lr_cu_text(&d->driver, status));
    LR_TRY(load_modules(d, err));
    LR_TRY(find_kernels(d, err));
    *out = &d->head;
    d = NULL;
done:
    if (d) device_close(&d->head);
    return st;
}

static lr_device_ops ops = {
    .abi = LR_DEVICE_ABI, .struct_size = sizeof ops, .open = device_open, .close = device_close};
static pthread_once_t ops_once = PTHREAD_ONCE_INIT;

static void fill_ops(void)
{
    lr_cu_fill_memory(&ops);
    lr_cu_fill_rows(&ops);
    lr_cu_fill_matrices(&ops);
    lr_cu_fill_towers(&ops);
}

const lr_device_ops *lr_device_get(unsigned abi);

__attribute__((visibility("default"))) const lr_device_ops *lr_device_get(unsigned abi)
{
    (void)pthread_once(&ops_once, fill_ops);
    return abi == LR_DEVICE_ABI ? &ops : NULL;
}

/* ------------------------------------------------------------------ launching */

void lr_cu_note(lr_stream *stream, CUresult status, const char *doing)
{
    if (status == CUDA_SUCCESS || stream->failure != CUDA_SUCCESS) return;
    stream->failure = status;
    stream->doing = doing;
}

bool lr_cu_enter(lr_stream *stream, const char *doing)
{
    lr_cu_note(stream, stream->device->driver.cuCtxSetCurrent(stream->device->context), doing);
    return stream->failure == CUDA_SUCCESS;
}

void lr_cu_launch(lr_stream *stream, lr_cu_kernel kernel, const size_t grid[3], unsigned threads,
                  size_t shared, const void *params)
{
    const char *name = kernel_names[kernel];
    void *arguments[] = {(void *)(uintptr_t)params};
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || !lr_cu_enter(stream, name)) return;
    if (grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] > 65535) {
        lr_cu_note(stream, CUDA_ERROR_INVALID_VALUE, name);
        return;
    }
    lr_cu_note(stream,
               stream->device->driver.cuLaunchKernel(stream->device->kernels[kernel], (unsigned)grid[0],
                                                     (unsigned)grid[1], (unsigned)grid[2], threads, 1, 1,
                                                     (unsigned)shared, stream->stream, arguments, NULL),
               name);
}

lr_cu_rows lr_cu_view(lr_rows rows)
{
    size_t bytes = rows.dtype == LR_BF16 ? 2 : 4, eight = 16 / bytes;
    bool known = rows.dtype == LR_BF16 || rows.dtype == LR_F32;
    return (lr_cu_rows){.at = known ? rows.at : 0,
                        .ld = rows.ld,
                        .head = (uint32_t)rows.head,
                        .bf16 = rows.dtype == LR_BF16,
                        .wide = rows.at % 16 == 0 && rows.ld % eight == 0 && rows.head % eight == 0};
}
