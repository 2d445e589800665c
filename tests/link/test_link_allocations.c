/* Links with each allocation failing in turn; both plugins' host code is linked in, so that theirs fail too. */
#include "lr_test.h"

#include <nccl.h>

#include "fake_nccl.h"
#include "link.h"
#include "link_cases.h"
#include "standin.h"

const lr_device_ops *lr_device_get(unsigned abi);
const lr_nccl *lr_nccl_get(unsigned abi);

static lr_device *device;

static int setup(void **state)
{
    (void)state;
    lr_error err = {0};
    const lr_device_options options = {0};
    lr_link_use_nccl(lr_nccl_get(LR_NCCL_ABI));
    lrt_assert_ok(lr_device_get(LR_DEVICE_ABI)->open(&device, &options, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    device->ops->close(device);
    return 0;
}

static lr_status two_ranks(void *arg, lr_error *err)
{
    return lr_comm_local_run(2, 60, link_case_halo, arg, err);
}

static void test_a_link_survives_each_failed_allocation(void **state)
{
    (void)state;
    for (int kind = LR_LINK_STAGED; kind <= LR_LINK_NCCL; kind++) {
        link_case_setting setting = {(lr_link_kind)kind, device, 60};
        assert_true(lrt_fail_each_allocation(two_ranks, &setting) > 40);
        assert_int_equal(fake_nccl_live(), 0);
        assert_int_equal(fake_nccl_misuses(), 0);
        assert_int_equal(standin_memory_held(), 0);
    }
}

static lr_status split_two(void *arg, lr_error *err)
{
    return lr_comm_local_run(2, 60, link_case_split, arg, err);
}

static void test_a_split_survives_each_failed_allocation(void **state)
{
    (void)state;
    link_case_setting setting = {LR_LINK_NCCL, device, 60};
    assert_true(lrt_fail_each_allocation(split_two, &setting) > 100);
    assert_int_equal(fake_nccl_live(), 0);
}

static void test_another_version_is_not_served(void **state)
{
    (void)state;
    assert_null(lr_nccl_get(LR_NCCL_ABI + 1));
}

/* That the tests would notice: what the library in NCCL's place says to calls that are wrong. */
static void test_misuse_of_nccl_is_seen(void **state)
{
    (void)state;
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t found = ncclInternalError;
    int before = fake_nccl_misuses();
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    assert_int_equal(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidUsage); /* it would block */
    config.blocking = 0;
    assert_int_equal(ncclCommInitRankConfig(&comm, 1, id, 1, &config), ncclInvalidUsage);
    assert_int_equal(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
    assert_int_equal(ncclCommFinalize(comm), ncclInvalidUsage); /* it is not ready */
    assert_int_equal(ncclSend(&id, 1, ncclInt8, 0, comm, NULL), ncclInvalidUsage);
    while (ncclCommGetAsyncError(comm, &found) == ncclSuccess && found == ncclInProgress) continue;
    assert_int_equal(found, ncclSuccess);
    assert_int_equal(ncclSend(&id, 1, ncclInt8, 0, comm, NULL), ncclInvalidUsage); /* outside of a group */
    assert_int_equal(ncclCommDestroy(comm), ncclInvalidUsage);
    assert_int_equal(ncclGroupEnd(), ncclInvalidUsage);
    assert_int_equal(ncclCommAbort(comm), ncclSuccess);
    assert_int_equal(ncclCommAbort(comm), ncclInvalidUsage);
    assert_int_equal(ncclCommGetAsyncError(comm, &found), ncclInvalidUsage);
    assert_int_equal(ncclRecv(&id, 1, ncclInt8, 0, comm, NULL), ncclInvalidUsage);
    assert_int_equal(fake_nccl_misuses(), before + 10);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_survives_each_failed_allocation),
        cmocka_unit_test(test_a_split_survives_each_failed_allocation),
        cmocka_unit_test(test_another_version_is_not_served),
        cmocka_unit_test(test_misuse_of_nccl_is_seen),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
