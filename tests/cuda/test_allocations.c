/* The plugin's host code, linked in, with each of its allocations failing in turn. */
#include "lr_test.h"

#include <longreel/device.h>

const lr_device_ops *lr_device_get(unsigned abi);

static lr_status open_and_close(void *arg, lr_error *err)
{
    const lr_device_ops *ops = arg;
    lr_status st = LR_OK;
    lr_device *device = NULL;
    lr_stream *stream = NULL;
    lr_event *event = NULL;
    lr_device_options options = {0};
    LR_TRY(ops->open(&device, &options, err));
    LR_TRY(ops->stream_create(device, &stream, err));
    LR_TRY(ops->event_create(device, &event, err));
    ops->record(stream, event);
    LR_TRY(ops->wait(stream, err));
done:
    ops->event_destroy(event);
    ops->stream_destroy(stream);
    if (device) ops->close(device);
    return st;
}

static void test_opening_survives_each_failed_allocation(void **state)
{
    (void)state;
    const lr_device_ops *ops = lr_device_get(LR_DEVICE_ABI);
    assert_non_null(ops);
    assert_true(lrt_fail_each_allocation(open_and_close, (void *)(uintptr_t)ops) >= 4);
}

static void test_another_version_is_not_served(void **state)
{
    (void)state;
    assert_null(lr_device_get(LR_DEVICE_ABI + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opening_survives_each_failed_allocation),
        cmocka_unit_test(test_another_version_is_not_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
