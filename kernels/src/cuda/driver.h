/* The driver's functions, found at run time: nothing of CUDA is linked. A test puts a library of its own in the
 * driver's place by naming it. */
#ifndef LONGREEL_CUDA_DRIVER_H
#define LONGREEL_CUDA_DRIVER_H

#include <cuda.h>

#include <longreel/status.h>

#define LR_CU_LEAST_VERSION 12000 /* of the driver, as cuDriverGetVersion has it */

/* cuda.h defines some of these names as others with a version (cuMemAlloc_v2): both the member and the
 * symbol that is looked up get it. */
#define LR_CU_FUNCTIONS(F)                                                                         \
    F(cuInit) F(cuDriverGetVersion) F(cuGetErrorString)                                            \
    F(cuDeviceGetCount) F(cuDeviceGet) F(cuDeviceGetName) F(cuDeviceGetAttribute) F(cuDeviceTotalMem) \
    F(cuDevicePrimaryCtxRetain) F(cuDevicePrimaryCtxRelease) F(cuCtxSetCurrent)                    \
    F(cuModuleLoadData) F(cuModuleUnload) F(cuModuleGetFunction) F(cuFuncSetAttribute) F(cuLaunchKernel) \
    F(cuMemAlloc) F(cuMemFree) F(cuMemGetInfo)                                                     \
    F(cuMemcpyHtoDAsync) F(cuMemcpyDtoHAsync) F(cuMemcpyDtoDAsync) F(cuMemsetD8Async)              \
    F(cuStreamCreate) F(cuStreamDestroy) F(cuStreamSynchronize) F(cuStreamWaitEvent)               \
    F(cuEventCreate) F(cuEventDestroy) F(cuEventRecord) F(cuEventQuery)

typedef struct lr_cu_driver {
    void *library;
#define LR_CU_MEMBER(name) __typeof__(name) *name;
    LR_CU_FUNCTIONS(LR_CU_MEMBER)
#undef LR_CU_MEMBER
} lr_cu_driver;

/* Opens the library and starts the driver. LR_E_UNSUPPORTED: it is missing, too old, or without a device. */
lr_status lr_cu_driver_open(lr_cu_driver *driver, const char *library, lr_error *err);
void lr_cu_driver_close(lr_cu_driver *driver);
/* What the driver says to a status; never NULL. */
const char *lr_cu_text(const lr_cu_driver *driver, CUresult status);

#endif
