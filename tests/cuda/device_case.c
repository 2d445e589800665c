#include "device_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

lr_device *case_device;
lr_stream *case_stream;
const lr_kernels *case_scalar;

int case_setup(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_device_options options = {0};
    lrt_assert_ok(lr_device_open(&case_device, &options, &err), &err);
    lrt_assert_ok(case_device->ops->stream_create(case_device, &case_stream, &err), &err);
    lrt_assert_ok(lr_kernels_get(LR_ISA_SCALAR, LR_GEMM_PACKED, &case_scalar, &err), &err);
    return 0;
}

int case_teardown(void **state)
{
    (void)state;
    const lr_device_ops *ops = case_device->ops;
    ops->stream_destroy(case_stream);
    ops->close(case_device);
    return 0;
}

bool case_on_standin(void)
{
    return strncmp(case_device->info.name, "stand-in", 8) == 0;
}

uint16_t case_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float case_from_bf16(uint16_t value)
{
    uint32_t bits = (uint32_t)value << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

case_values case_of(const float *values, size_t n, lr_dtype dtype)
{
    lr_error err = {0};
    case_values v = {.n = n, .dtype = dtype, .host = malloc(n * sizeof *v.host)};
    assert_non_null(v.host);
    for (size_t i = 0; i < n; i++)
        v.host[i] = dtype == LR_BF16 ? case_from_bf16(case_to_bf16(values[i])) : values[i];
    lrt_assert_ok(case_device->ops->alloc(case_device, n * lr_dtype_size(dtype), "values of a test", &v.at, &err), &err);
    case_upload(&v);
    return v;
}

case_values case_normal(lrt_random *random, size_t n, float deviation, lr_dtype dtype)
{
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    lrt_fill_normal(random, values, n, deviation);
    case_values v = case_of(values, n, dtype);
    free(values);
    return v;
}

void case_upload(const case_values *values)
{
    lr_error err = {0};
    uint16_t *narrow = NULL;
    const void *from = values->host;
    if (values->dtype == LR_BF16) {
        narrow = malloc(values->n * sizeof *narrow);
        assert_non_null(narrow);
        for (size_t i = 0; i < values->n; i++) narrow[i] = case_to_bf16(values->host[i]);
        from = narrow;
    }
    case_device->ops->upload(case_stream, values->at, from, values->n * lr_dtype_size(values->dtype));
    lrt_assert_ok(case_device->ops->wait(case_stream, &err), &err);
    free(narrow);
}

float *case_download(const case_values *values)
{
    lr_error err = {0};
    size_t bytes = values->n * lr_dtype_size(values->dtype);
    void *raw = malloc(bytes);
    float *out = malloc(values->n * sizeof *out);
    assert_true(raw != NULL && out != NULL);
    case_device->ops->download(case_stream, raw, values->at, bytes);
    lrt_assert_ok(case_device->ops->wait(case_stream, &err), &err);
    for (size_t i = 0; i < values->n; i++)
        out[i] = values->dtype == LR_BF16 ? case_from_bf16(((uint16_t *)raw)[i]) : ((float *)raw)[i];
    free(raw);
    return out;
}

void case_free(case_values *values)
{
    case_device->ops->release(case_device, values->at);
    free(values->host);
}

lr_device_at case_put(const void *from, size_t bytes)
{
    lr_error err = {0};
    lr_device_at at;
    lrt_assert_ok(case_device->ops->alloc(case_device, bytes, "bytes of a test", &at, &err), &err);
    case_device->ops->upload(case_stream, at, from, bytes);
    lrt_assert_ok(case_device->ops->wait(case_stream, &err), &err);
    return at;
}
