/* What the tests of the device's slots share: the device, values in its memory, and comparing. */
#ifndef LR_TEST_CUDA_DEVICE_CASE_H
#define LR_TEST_CUDA_DEVICE_CASE_H

#include "lr_test.h"

#include <longreel/device.h>
#include <longreel/kernels.h>

#define U 0x1p-24      /* unit roundoff of fp32 */
#define U_BF16 0x1p-8  /* of bf16, whose significand has 8 bits */

/* The device and a stream of it, open from case_setup to case_teardown (cmocka's group fixtures). */
extern lr_device *case_device;
extern lr_stream *case_stream;
extern const lr_kernels *case_scalar;
int case_setup(void **state);
int case_teardown(void **state);

/* The device is the stand-in; what only it can tell (counts, mistakes of kernels) is else passed over. */
bool case_on_standin(void);
#define CASE_NEEDS_STANDIN() if (!case_on_standin()) skip()

/* Values that lie both here (f32, rounded to what the device holds) and there. The device's block ends
 * with the last value. */
typedef struct case_values {
    float *host;
    size_t n;
    lr_dtype dtype;
    lr_device_at at;
} case_values;
case_values case_normal(lrt_random *random, size_t n, float deviation, lr_dtype dtype);
case_values case_of(const float *values, size_t n, lr_dtype dtype);
void case_upload(const case_values *values);
/* What the device has, as f32; waits for the stream. Freed with free(). */
float *case_download(const case_values *values);
void case_free(case_values *values);

/* A new block of the device with these bytes; released with the device's release. */
lr_device_at case_put(const void *from, size_t bytes);

uint16_t case_to_bf16(float value);
float case_from_bf16(uint16_t value);

#endif
