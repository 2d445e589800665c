/* Links of each kind between ranks that are threads, on a stand-in device and with a stand-in for NCCL. */
#include "lr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/link.h>

#include "fake_nccl.h"
#include "link_cases.h"
#include "rank_check.h"
#include "standin.h"

static const lr_link_kind kinds[] = {LR_LINK_STAGED, LR_LINK_COPIES, LR_LINK_NCCL};
enum { KINDS = 3 };
static lr_device *device;

static int setup(void **state)
{
    (void)state;
    lr_error err = {0};
    const lr_device_options options = {0};
    lrt_assert_ok(lr_device_open(&device, &options, &err), &err);
    return 0;
}

/* Whatever went wrong before: nothing is left, and NCCL was used as it must be. */
static int teardown(void **state)
{
    (void)state;
    assert_int_equal(standin_memory_held(), 0);
    assert_int_equal(fake_nccl_live(), 0);
    device->ops->close(device);
    return 0;
}

static lr_status run(int size, lr_link_kind kind, double timeout, lr_rank_body body, lr_error *err)
{
    link_case_setting setting = {kind, device, timeout};
    return lr_comm_local_run(size, timeout, body, &setting, err);
}

static void run_well(int size, lr_link_kind kind, const char *name, lr_rank_body body)
{
    lr_error err = {0};
    lr_status st = run(size, kind, 60, body, &err);
    if (st != LR_OK) fail_msg("%s, kind %d, %d ranks: %s", name, (int)kind, size, err.text);
    assert_int_equal(fake_nccl_misuses(), 0);
}

static void test_each_kind_does_all_cases(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5};
    for (size_t k = 0; k < KINDS; k++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (const link_case *c = link_cases; c->name; c++) run_well(sizes[s], kinds[k], c->name, c->body);
}

/* ------------------------------------------------------------------ when something goes wrong */

typedef struct trouble {
    const link_case_setting *setting;
    lr_link *link;
    lr_device_at at;
} trouble;

static lr_status open_trouble(trouble *t, void *arg, lr_comm *comm, lr_error *err)
{
    *t = (trouble){.setting = arg};
    lr_status st = t->setting->device->ops->alloc(t->setting->device, 1000, "bytes", &t->at, err);
    return st == LR_OK ? link_case_open(t->setting, comm, &t->link, err) : st;
}

static void close_trouble(trouble *t)
{
    lr_link_free(t->link);
    t->setting->device->ops->release(t->setting->device, t->at);
}

static lr_status exchange(trouble *t, int peer, bool send, size_t bytes, const char *what, lr_error *err)
{
    const lr_link_message message = {peer, send, t->at, bytes};
    return lr_link_exchange(t->link, &message, 1, what, err);
}

/* Rank 1 never takes part; it goes on once the others have given up. */
static lr_status stalled_body(void *arg, lr_comm *comm, lr_error *err)
{
    trouble t;
    lr_status st = open_trouble(&t, arg, comm, err);
    if (st == LR_OK && comm->rank == 0) {
        st = exchange(&t, 1, false, 100, "layer 3, chunk 7", err);
        if (st == LR_OK) st = lr_link_wait(t.link, NULL, err);
    } else if (st == LR_OK) {
        lr_event *never = NULL;
        st = t.setting->device->ops->event_create(t.setting->device, &never, err);
        while (st == LR_OK) st = lr_link_wait(t.link, never, err); /* at once, until the link has failed */
        t.setting->device->ops->event_destroy(never);
    }
    close_trouble(&t);
    return st;
}

static void test_a_stalled_peer_is_named_with_the_exchange(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        lr_error err = {0};
        assert_int_equal(run(2, kinds[k], 0.3, stalled_body, &err), LR_E_PEER);
        /* Between hosts it is the communicator that gives the reason, and does not know of exchanges. */
        bool named = kinds[k] != LR_LINK_NCCL || strstr(err.text, "layer 3, chunk 7");
        if (!named || !strstr(err.text, "rank 1") || !strstr(err.text, "0.3 s"))
            fail_msg("kind %d: %s", (int)kinds[k], err.text);
    }
    assert_int_equal(fake_nccl_misuses(), 0);
}

/* Both send in their first exchange what the other receives in its second. */
static lr_status crosswise_body(void *arg, lr_comm *comm, lr_error *err)
{
    trouble t;
    lr_status st = open_trouble(&t, arg, comm, err);
    if (st == LR_OK) st = exchange(&t, 1 - comm->rank, true, 1000, "first", err);
    if (st == LR_OK) st = exchange(&t, 1 - comm->rank, false, 1000, "second", err);
    if (st == LR_OK) st = lr_link_wait(t.link, NULL, err);
    close_trouble(&t);
    return st;
}

static void test_ranks_that_wait_crosswise_are_found(void **state)
{
    (void)state;
    for (size_t k = 1; k < KINDS; k++) { /* staged messages wait in the host's memory */
        lr_error err = {0};
        assert_int_not_equal(run(2, kinds[k], 0.3, crosswise_body, &err), LR_OK);
        if (!strstr(err.text, "first")) fail_msg("kind %d: %s", (int)kinds[k], err.text);
    }
}

static lr_status sizes_body(void *arg, lr_comm *comm, lr_error *err)
{
    trouble t;
    lr_status st = open_trouble(&t, arg, comm, err);
    if (st == LR_OK) st = exchange(&t, 1 - comm->rank, comm->rank == 0, comm->rank == 0 ? 100 : 104, "sizes", err);
    if (st == LR_OK) st = lr_link_wait(t.link, NULL, err);
    close_trouble(&t);
    return st;
}

static void test_sizes_that_differ_are_found(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        lr_error err = {0};
        lr_status st = run(2, kinds[k], 60, sizes_body, &err);
        if (st == LR_OK || (kinds[k] != LR_LINK_NCCL && st != LR_E_COVERAGE)) fail_msg("kind %d: %s", (int)kinds[k], err.text);
    }
}

static lr_status number_body(void *arg, lr_comm *comm, lr_error *err)
{
    trouble t;
    lr_status st = open_trouble(&t, arg, comm, err);
    const lr_link_message messages[] = {{1 - comm->rank, comm->rank == 0, t.at, 100},
                                        {1 - comm->rank, comm->rank == 0, t.at + 200, 100}};
    if (st == LR_OK) st = lr_link_exchange(t.link, messages, comm->rank == 0 ? 2 : 1, "number", err);
    if (st == LR_OK) st = lr_link_wait(t.link, NULL, err);
    close_trouble(&t);
    return st;
}

static void test_a_send_that_nobody_receives_is_found(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        lr_error err = {0};
        assert_int_not_equal(run(2, kinds[k], 0.3, number_body, &err), LR_OK);
        if (!strstr(err.text, "number") && !strstr(err.text, "rank")) fail_msg("kind %d: %s", (int)kinds[k], err.text);
    }
}

/* Rank 1 aborts the link, or the communicator below it, while the others wait for its messages. */
static lr_status abort_body(void *arg, lr_comm *comm, lr_error *err, bool below)
{
    trouble t;
    lr_error mine = {0};
    lr_status st = open_trouble(&t, arg, comm, &mine);
    if (below && st == LR_E_PEER) { /* rank 1 was the first to have the link */
        st = LR_OK;
    } else if (st == LR_OK && comm->rank == 1) {
        if (below) lr_comm_abort(comm, "the disk is full");
        else lr_link_abort(t.link, "the disk is full");
    } else if (st == LR_OK) {
        st = exchange(&t, 1, false, 100, "an abort", &mine);
        if (st == LR_OK) st = lr_link_wait(t.link, NULL, &mine);
        RANK_CHECK(st == LR_E_PEER && strstr(mine.text, "rank 1 stopped the run: the disk is full"));
        RANK_CHECK(exchange(&t, 1, false, 100, "again", NULL) == LR_E_PEER);
        RANK_CHECK(lr_link_wait(t.link, NULL, NULL) == LR_E_PEER);
        st = LR_OK;
    }
done:
    close_trouble(&t);
    return st;
}

static lr_status abort_link_body(void *arg, lr_comm *comm, lr_error *err)
{
    lr_status st = abort_body(arg, comm, err, false);
    return st == LR_OK ? lr_comm_barrier(comm, err) : st; /* the communicator knows nothing of it */
}

static lr_status abort_comm_body(void *arg, lr_comm *comm, lr_error *err)
{
    return abort_body(arg, comm, err, true);
}

static void test_an_abort_reaches_all_ranks_with_its_reason(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        run_well(3, kinds[k], "an abort", abort_link_body);
        if (kinds[k] == LR_LINK_NCCL) run_well(3, kinds[k], "an abort below", abort_comm_body);
    }
}

/* ------------------------------------------------------------------ NCCL */

static void expect_failure(const char *variable, const char *value, lr_rank_body body, int size, lr_status status,
                           const char *part)
{
    lr_error err = {0};
    setenv(variable, value, 1);
    lr_status st = run(size, LR_LINK_NCCL, 60, body, &err);
    unsetenv(variable);
    if (st != status || !strstr(err.text, part))
        fail_msg("%s=%s: %s: \"%s\" does not say \"%s\"", variable, value, lr_status_name(st), err.text, part);
}

static void test_what_nccl_lacks_is_named(void **state)
{
    (void)state;
    const char *good = getenv("LONGREEL_NCCL");
    assert_non_null(good);
    char *kept = strdup(good);
    expect_failure("LONGREEL_NCCL", "libno_such_nccl.so.2", link_case_halo, 2, LR_E_UNSUPPORTED, "there is no NCCL");
    expect_failure("LONGREEL_NCCL", "libm.so.6", link_case_halo, 2, LR_E_UNSUPPORTED,
                   "too old: libm.so.6 lacks ncclGetVersion");
    setenv("LONGREEL_NCCL", kept, 1);
    expect_failure("FAKE_NCCL_VERSION", "21403", link_case_halo, 2, LR_E_UNSUPPORTED, "is version 21403");
    free(kept);
}

static void test_each_call_of_nccl_may_fail(void **state)
{
    (void)state;
    static const struct { const char *call, *says; } calls[] = {
        {"ncclGetUniqueId:0", "an id for the ranks"}, {"ncclCommInitRankConfig:0", "connecting the ranks"},
        {"ncclCommInitRankConfig:2", "connecting the ranks"}, {"ncclSend:1", "a message"}, {"ncclRecv:2", "a message"},
        {"ncclGroupEnd:0", "ending a group"}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        expect_failure("FAKE_NCCL_FAIL", calls[i].call, link_case_halo, 3, LR_E_INTERNAL, calls[i].says);
    expect_failure("FAKE_NCCL_FAIL", "ncclCommSplit:1", link_case_split, 3, LR_E_INTERNAL, "splitting the ranks");
    assert_int_equal(fake_nccl_misuses(), 0);
}

static void test_a_fault_that_nccl_finds_later_ends_the_link(void **state)
{
    (void)state;
    expect_failure("FAKE_NCCL_FAULT", "3:1", link_case_halo, 3, LR_E_PEER, "remote process exited");
    assert_int_equal(fake_nccl_misuses(), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_does_all_cases),
        cmocka_unit_test(test_a_stalled_peer_is_named_with_the_exchange),
        cmocka_unit_test(test_ranks_that_wait_crosswise_are_found),
        cmocka_unit_test(test_sizes_that_differ_are_found),
        cmocka_unit_test(test_a_send_that_nobody_receives_is_found),
        cmocka_unit_test(test_an_abort_reaches_all_ranks_with_its_reason),
        cmocka_unit_test(test_what_nccl_lacks_is_named),
        cmocka_unit_test(test_each_call_of_nccl_may_fail),
        cmocka_unit_test(test_a_fault_that_nccl_finds_later_ends_the_link),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
