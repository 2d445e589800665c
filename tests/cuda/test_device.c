/* Opening a device, its memory, streams and events, and what is said when something is missing. */
#include "device_case.h"

#include <stdlib.h>
#include <string.h>

#include "standin.h"

/* ------------------------------------------------------------------ opening */

static void expect_refusal(const char *variable, const char *value, const char *driver, lr_status status,
                           const char *part)
{
    lr_error err = {0};
    lr_device *device = NULL;
    lr_device_options options = {.driver = driver};
    if (variable) setenv(variable, value, 1);
    lr_status st = lr_device_open(&device, &options, &err);
    if (variable) unsetenv(variable);
    assert_null(device);
    assert_int_equal(st, status);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
}

static void test_what_is_missing_is_named(void **state)
{
    (void)state;
    expect_refusal(NULL, NULL, "libno_such_driver.so.1", LR_E_UNSUPPORTED, "there is no NVIDIA driver");
    expect_refusal(NULL, NULL, "libm.so.6", LR_E_UNSUPPORTED, "too old: libm.so.6 lacks cuInit");
    CASE_NEEDS_STANDIN();
    expect_refusal("STANDIN_VERSION", "11040", NULL, LR_E_UNSUPPORTED, "knows CUDA 11.4, needed is 12.0");
    expect_refusal("STANDIN_DEVICES", "0", NULL, LR_E_UNSUPPORTED, "finds no device");
    expect_refusal("STANDIN_ARCHITECTURE", "75", NULL, LR_E_UNSUPPORTED, "compute capability 7.5");
    lr_error err = {0};
    lr_device *device = NULL;
    lr_device_options options = {.ordinal = 3};
    assert_int_equal(lr_device_open(&device, &options, &err), LR_E_USAGE);
    assert_non_null(strstr(err.text, "no device 3"));
}

static void test_the_device_describes_itself(void **state)
{
    (void)state;
    const lr_device_info *info = &case_device->info;
    assert_true(info->major >= 8);
    assert_true(!case_on_standin() || (info->major == 8 && info->minor == 0));
    assert_true(info->n_multiprocessors > 0 && info->shared_bytes > 48 * 1024 && info->name[0]);
}

/* Those with the least shared memory a block, too. */
static void test_the_kernels_fit_every_architecture(void **state)
{
    (void)state;
    CASE_NEEDS_STANDIN();
    static const char *const architectures[] = {"80", "86", "89", "90", "100", "120"};
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        lr_error err = {0};
        lr_device *device = NULL;
        lr_device_options options = {0};
        setenv("STANDIN_ARCHITECTURE", architectures[i], 1);
        lr_status st = lr_device_open(&device, &options, &err);
        unsetenv("STANDIN_ARCHITECTURE");
        lrt_assert_ok(st, &err);
        assert_int_equal(device->info.major * 10 + device->info.minor, atoi(architectures[i]));
        device->ops->close(device);
    }
}

/* ------------------------------------------------------------------ memory */

static void test_running_out_of_memory_says_how_much_was_left(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_device_at at = 1;
    size_t left = 0;
    lrt_assert_ok(case_device->ops->memory_left(case_device, &left, &err), &err);
    assert_int_equal(case_device->ops->alloc(case_device, left + 1, "keys of a chunk", &at, &err), LR_E_NOMEM);
    assert_int_equal(at, 0);
    assert_non_null(strstr(err.text, "keys of a chunk"));
}

static void test_copies_carry_bytes_both_ways(void **state)
{
    (void)state;
    const lr_device_ops *ops = case_device->ops;
    const size_t held = standin_memory_held();
    unsigned char sent[257], got[257];
    lr_device_at a, b;
    lr_error err = {0};
    for (size_t i = 0; i < sizeof sent; i++) sent[i] = (unsigned char)(7 * i);
    lrt_assert_ok(ops->alloc(case_device, sizeof sent, "a", &a, &err), &err);
    lrt_assert_ok(ops->alloc(case_device, sizeof sent, "b", &b, &err), &err);
    ops->upload(case_stream, a, sent, sizeof sent);
    ops->copy(case_stream, b, a, sizeof sent);
    ops->fill(case_stream, b + 100, 9, 50);
    ops->download(case_stream, got, b, sizeof got);
    lrt_assert_ok(ops->wait(case_stream, &err), &err);
    memset(sent + 100, 9, 50);
    assert_memory_equal(sent, got, sizeof sent);
    ops->release(case_device, a);
    ops->release(case_device, b);
    assert_int_equal(standin_memory_held(), held);
}

/* ------------------------------------------------------------------ streams */

static void test_a_stream_waits_for_the_events_of_another(void **state)
{
    (void)state;
    const lr_device_ops *ops = case_device->ops;
    lr_stream *other = NULL;
    lr_event *written = NULL;
    lr_device_at a;
    lr_error err = {0};
    unsigned char sent = 41, got = 0;
    lrt_assert_ok(ops->stream_create(case_device, &other, &err), &err);
    lrt_assert_ok(ops->event_create(case_device, &written, &err), &err);
    lrt_assert_ok(ops->alloc(case_device, 1, "a", &a, &err), &err);
    ops->upload(other, a, &sent, 1);
    ops->record(other, written);
    ops->wait_for(case_stream, written);
    ops->download(case_stream, &got, a, 1);
    lrt_assert_ok(ops->wait(case_stream, &err), &err);
    assert_int_equal(got, sent);
    ops->event_destroy(written);
    ops->stream_destroy(other);
    ops->release(case_device, a);
}

/* Last: a failure of a kernel ends the context for good, as on a device. */
static void test_a_stream_keeps_its_first_failure(void **state)
{
    (void)state;
    CASE_NEEDS_STANDIN(); /* a device need not notice 32 bytes more */
    const lr_device_ops *ops = case_device->ops;
    lr_error err = {0};
    lr_device_at x;
    lrt_assert_ok(ops->alloc(case_device, 64, "x", &x, &err), &err);
    lr_rows rows = {.at = x, .ld = 8, .dtype = LR_F32};
    ops->rms_norm(case_stream, rows, rows, 0, 3, 1, 8, 1e-6f); /* three rows where two have room */
    assert_int_equal(ops->wait(case_stream, &err), LR_E_INTERNAL);
    assert_non_null(strstr(err.text, "outside of any allocation"));
    lr_error again = {0};
    assert_int_equal(ops->wait(case_stream, &again), LR_E_INTERNAL);
    ops->release(case_device, x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_missing_is_named),
        cmocka_unit_test(test_the_device_describes_itself),
        cmocka_unit_test(test_the_kernels_fit_every_architecture),
        cmocka_unit_test(test_running_out_of_memory_says_how_much_was_left),
        cmocka_unit_test(test_copies_carry_bytes_both_ways),
        cmocka_unit_test(test_a_stream_waits_for_the_events_of_another),
        cmocka_unit_test(test_a_stream_keeps_its_first_failure),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
