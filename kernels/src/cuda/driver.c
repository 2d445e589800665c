#include "driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STRING_OF(name) #name
#define STRING(name) STRING_OF(name)

const char *lr_cu_text(const lr_cu_driver *driver, CUresult status)
{
    const char *text = NULL;
    if (driver->cuGetErrorString(status, &text) != CUDA_SUCCESS || !text) return "unknown error";
    return text;
}

/* The name of the first function that the library lacks, or NULL. */
static const char *look_up(lr_cu_driver *driver)
{
#define LOOK_UP(name)                                                                              \
    *(void **)&driver->name = dlsym(driver->library, STRING(name));                                \
    if (!driver->name) return STRING(name);
    LR_CU_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return NULL;
}

static lr_status start(const lr_cu_driver *driver, lr_error *err)
{
    int version = 0, count = 0;
    if (driver->cuDriverGetVersion(&version) != CUDA_SUCCESS || version < LR_CU_LEAST_VERSION)
        return lr_fail(err, LR_E_UNSUPPORTED,
                       "the NVIDIA driver is too old: it knows CUDA %d.%d, needed is %d.%d or newer",
                       version / 1000, version % 1000 / 10, LR_CU_LEAST_VERSION / 1000,
                       LR_CU_LEAST_VERSION % 1000 / 10);
    CUresult status = driver->cuInit(0);
    if (status == CUDA_ERROR_NO_DEVICE || (status == CUDA_SUCCESS && driver->cuDeviceGetCount(&count) == CUDA_SUCCESS &&
                                           count == 0))
        return lr_fail(err, LR_E_UNSUPPORTED, "the NVIDIA driver finds no device");
    if (status != CUDA_SUCCESS)
        return lr_fail(err, LR_E_UNSUPPORTED, "the NVIDIA driver does not start: %s", lr_cu_text(driver, status));
    return LR_OK;
}

lr_status lr_cu_driver_open(lr_cu_driver *driver, const char *library, lr_error *err)
{
    const char *named = getenv("LONGREEL_CUDA_DRIVER");
    memset(driver, 0, sizeof *driver);
    if (!library) library = named && *named ? named : "libcuda.so.1";
    driver->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!driver->library) return lr_fail(err, LR_E_UNSUPPORTED, "there is no NVIDIA driver: %s", dlerror());
    const char *lacking = look_up(driver);
    if (lacking) {
        lr_cu_driver_close(driver);
        return lr_fail(err, LR_E_UNSUPPORTED, "the NVIDIA driver is too old: %s lacks %s", library, lacking);
    }
    lr_status st = start(driver, err);
    if (st != LR_OK) lr_cu_driver_close(driver);
    return st;
}

void lr_cu_driver_close(lr_cu_driver *driver)
{
    if (driver->library) (void)dlclose(driver->library);
    driver->library = NULL;
}
