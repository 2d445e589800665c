/* The local communicator when something goes wrong: everybody learns of it, nobody hangs, and no
 * memory goes while somebody may read it. */
#include "lr_test.h"
#include "rank_check.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <longreel/comm.h>

/* Longer than any test may take: a test that needs it fails by ctest's time limit. */
#define NEVER 0.0

static void expect_failure(int size, double limit, lr_rank_body body, void *arg, lr_status status,
                           const char *text)
{
    lr_error err = {0};
    lr_status st = lr_comm_local_run(size, limit, body, arg, &err);
    if (st != status || !strstr(err.text, text))
        fail_msg("expected %s with \"%s\", got %s: %s", lr_status_name(status), text,
                 lr_status_name(st), err.text);
}

/* ------------------------------------------------------------------ sizes */

typedef struct two_results {
    lr_status status[2];
    char text[2][LR_ERROR_TEXT];
} two_results;

static lr_status mismatch_body(void *arg, lr_comm *comm, lr_error *err)
{
    two_results *results = arg;
    lr_transfer *transfer = NULL;
    char eight[8] = "1234567";
    lr_status st = comm->rank == 0
                       ? lr_comm_send_start(comm, 1, eight, sizeof eight, &transfer, err)
                       : lr_comm_recv_start(comm, 0, NULL, 9, &transfer, err);
    if (st == LR_OK) st = lr_comm_wait(comm, transfer, NULL, err);
    results->status[comm->rank] = st;
    memcpy(results->text[comm->rank], err->text, LR_ERROR_TEXT);
    lr_comm_release(comm, transfer);
    return st;
}

static void test_sizes_that_differ_are_an_error_at_both_ends(void **state)
{
    (void)state;
    two_results results = {0};
    expect_failure(2, NEVER, mismatch_body, &results, LR_E_COVERAGE,
                   "from rank 0 to rank 1 has 8 bytes, the receiver expects 9");
    assert_int_equal(results.status[0], LR_E_COVERAGE);
    assert_int_equal(results.status[1], LR_E_COVERAGE);
    assert_string_equal(results.text[0], results.text[1]);
}

/* ------------------------------------------------------------------ abort */

typedef lr_status (*one_call)(lr_comm *comm, lr_error *err);

static lr_status call_wait_receive(lr_comm *comm, lr_error *err)
{
    lr_transfer *transfer = NULL;
    lr_status st = lr_comm_recv_start(comm, 0, NULL, 1, &transfer, err);
    if (st == LR_OK) st = lr_comm_wait(comm, transfer, NULL, err);
    lr_comm_release(comm, transfer);
    return st;
}

static lr_status call_wait_send(lr_comm *comm, lr_error *err)
{
    lr_transfer *transfer = NULL;
    lr_status st = lr_comm_send_start(comm, 0, "x", 1, &transfer, err);
    if (st == LR_OK) st = lr_comm_wait(comm, transfer, NULL, err);
    lr_comm_release(comm, transfer);
    return st;
}

static lr_status call_barrier(lr_comm *comm, lr_error *err)
{
    return lr_comm_barrier(comm, err);
}

static lr_status call_broadcast(lr_comm *comm, lr_error *err)
{
    char data;
    return lr_comm_broadcast(comm, 0, &data, 1, err);
}

static lr_status call_all_gather(lr_comm *comm, lr_error *err)
{
    char data[LR_LOCAL_MAX];
    return lr_comm_all_gather(comm, "x", 1, data, err);
}

static const one_call calls[] = {call_wait_receive, call_wait_send, call_barrier, call_broadcast,
                                 call_all_gather};
#define N_CALLS (sizeof calls / sizeof calls[0])

typedef struct abort_case {
    one_call call;
    atomic_int peers_told;
} abort_case;

/* Rank 0 aborts while the others are (most often) asleep in the call; later calls fail too. */
static lr_status abort_body(void *arg, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    abort_case *c = arg;
    if (comm->rank == 0) {
        (void)usleep(5000);
        lr_comm_abort(comm, "the disk is full");
        lr_comm_abort(comm, "a second reason");
        return LR_OK;
    }
    lr_error mine = {0};
    RANK_CHECK(c->call(comm, &mine) == LR_E_PEER);
    RANK_CHECK(strcmp(mine.text, "rank 0 stopped the run: the disk is full") == 0);
    for (size_t i = 0; i < N_CALLS; i++) RANK_CHECK(calls[i](comm, NULL) == LR_E_PEER);
    atomic_fetch_add(&c->peers_told, 1);
done:
    return st;
}

static void test_abort_wakes_everybody_in_every_call(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CALLS; i++) {
        abort_case c = {.call = calls[i]};
        lr_error err = {0};
        lrt_assert_ok(lr_comm_local_run(5, NEVER, abort_body, &c, &err), &err);
        assert_int_equal(atomic_load(&c.peers_told), 4);
    }
}

static lr_status silent_body(void *arg, lr_comm *comm, lr_error *err)
{
    atomic_int *done = arg;
    lr_status st = LR_OK;
    if (comm->rank == 1) {
        st = call_wait_receive(comm, err);
        atomic_store(done, 1);
        return st;
    }
    while (!atomic_load(done)) (void)usleep(1000);
    RANK_CHECK(lr_comm_barrier(comm, NULL) == LR_E_PEER);
done:
    return st;
}

static void test_a_silent_peer_ends_the_run_after_the_time_limit(void **state)
{
    (void)state;
    atomic_int done = 0;
    expect_failure(3, 0.05, silent_body, &done, LR_E_PEER,
                   "rank 1 waited more than 0.05 s for rank 0 to send message 0");
}

static lr_status leaving_body(void *arg, lr_comm *comm, lr_error *err)
{
    const one_call *call = arg;
    return comm->rank == 0 ? LR_OK : (*call)(comm, err);
}

static void test_a_rank_that_left_is_noticed_without_a_time_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CALLS; i++) {
        one_call call = calls[i];
        expect_failure(3, NEVER, leaving_body, &call, LR_E_PEER, "rank 0 ended");
    }
}

static lr_status failing_body(void *arg, lr_comm *comm, lr_error *err)
{
    const int *failing = arg;
    if (comm->rank == *failing) {
        (void)usleep(2000);
        return lr_fail(err, LR_E_IO, "shard.bin: no space left");
    }
    return lr_comm_barrier(comm, err);
}

static void test_run_reports_the_failure_and_not_its_echo(void **state)
{
    (void)state;
    for (int failing = 0; failing < 4; failing++) {
        char text[64];
        (void)snprintf(text, sizeof text, "rank %d: shard.bin: no space left", failing);
        expect_failure(4, NEVER, failing_body, &failing, LR_E_IO, text);
    }
}

static lr_status mute_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    (void)comm;
    (void)err;
    return LR_E_FORMAT;
}

static void test_a_failure_without_words_still_has_a_text(void **state)
{
    (void)state;
    expect_failure(1, NEVER, mute_body, NULL, LR_E_FORMAT, "rank 0: ");
}

static void test_wrong_group_sizes_and_limits_are_usage_errors(void **state)
{
    (void)state;
    const int wrong[] = {-1, 0, LR_LOCAL_MAX + 1};
    lr_comm *all[2];
    for (size_t i = 0; i < 3; i++) {
        expect_failure(wrong[i], NEVER, mute_body, NULL, LR_E_USAGE, "local ranks");
        assert_int_equal(lr_comm_local_create(wrong[i], 1, all, NULL), LR_E_USAGE);
    }
    expect_failure(2, -1, mute_body, NULL, LR_E_USAGE, "time limit");
    assert_int_equal(lr_comm_local_create(2, (double)NAN, all, NULL), LR_E_USAGE);
}

/* ------------------------------------------------------------------ memory after an abort */

enum { CHAIN_BYTES = 4096, CHAIN_LAST = 3 };

typedef struct chain {
    atomic_int reading;
} chain;

static lr_status chain_start(lr_comm *comm, unsigned char *memory, lr_error *err)
{
    lr_status st = LR_OK;
    lr_transfer *send = NULL;
    memset(memory, 17, CHAIN_BYTES);
    LR_TRY(lr_comm_send_start(comm, 1, memory, CHAIN_BYTES, &send, err));
    lr_error mine = {0};
    RANK_CHECK(lr_comm_wait(comm, send, NULL, &mine) == LR_E_PEER);
done:
    lr_comm_release(comm, send);
    memset(memory, 0, CHAIN_BYTES);
    return st;
}

/* The middle ranks hand the pointer on; rank 1 gives up while the last one reads. */
static lr_status chain_middle(chain *c, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    lr_transfer *send = NULL, *receive = NULL;
    const void *data = NULL;
    LR_TRY(lr_comm_recv_start(comm, comm->rank - 1, NULL, CHAIN_BYTES, &receive, err));
    LR_TRY(lr_comm_wait(comm, receive, &data, err));
    LR_TRY(lr_comm_send_start(comm, comm->rank + 1, data, CHAIN_BYTES, &send, err));
    if (comm->rank == 1) {
        while (!atomic_load(&c->reading)) (void)usleep(100);
        lr_comm_abort(comm, "gives up");
    } else {
        RANK_CHECK(lr_comm_wait(comm, send, NULL, NULL) == LR_E_PEER);
    }
done:
    lr_comm_release(comm, send);
    lr_comm_release(comm, receive);
    return st;
}

static lr_status chain_end(chain *c, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    lr_transfer *receive = NULL;
    const void *data = NULL;
    LR_TRY(lr_comm_recv_start(comm, comm->rank - 1, NULL, CHAIN_BYTES, &receive, err));
    LR_TRY(lr_comm_wait(comm, receive, &data, err));
    atomic_store(&c->reading, 1);
    for (int pass = 0; pass < 20; pass++) {
        (void)usleep(2000);
        for (size_t i = 0; i < CHAIN_BYTES; i++)
            RANK_CHECK(((const unsigned char *)data)[i] == 17);
    }
done:
    lr_comm_release(comm, receive);
    return st;
}

static lr_status chain_body(void *arg, lr_comm *comm, lr_error *err)
{
    chain *c = arg;
    unsigned char memory[CHAIN_BYTES];
    if (comm->rank == 0) return chain_start(comm, memory, err);
    return comm->rank == CHAIN_LAST ? chain_end(c, comm, err) : chain_middle(c, comm, err);
}

static void test_memory_stays_while_a_rank_further_on_reads_it(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        chain c = {0};
        lr_error err = {0};
        lrt_assert_ok(lr_comm_local_run(CHAIN_LAST + 1, NEVER, chain_body, &c, &err), &err);
    }
}

/* All hold each other's data and release their sends first: nobody may wait for ever. */
static lr_status ring_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    lr_transfer *send = NULL, *receive = NULL;
    char data = 'a';
    int next = (comm->rank + 1) % comm->size, previous = (comm->rank + comm->size - 1) % comm->size;
    LR_TRY(lr_comm_send_start(comm, next, &data, 1, &send, err));
    LR_TRY(lr_comm_recv_start(comm, previous, NULL, 1, &receive, err));
    LR_TRY(lr_comm_wait(comm, receive, NULL, err));
    LR_TRY(lr_comm_barrier(comm, err));
    lr_comm_abort(comm, "all stop");
done:
    lr_comm_release(comm, send);
    lr_comm_release(comm, receive);
    return st == LR_E_PEER ? LR_OK : st;
}

static void test_ranks_that_hold_each_others_data_all_end(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        lr_error err = {0};
        lrt_assert_ok(lr_comm_local_run(5, NEVER, ring_body, NULL, &err), &err);
    }
}

static lr_status forgetful_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_transfer *transfer = NULL;
    static const char data[8];
    if (comm->rank == 0) return lr_comm_send_start(comm, 1, data, sizeof data, &transfer, err);
    return call_wait_receive(comm, err);
}

static void test_a_transfer_that_was_never_waited_for_stops_the_others(void **state)
{
    (void)state;
    lr_error err = {0};
    assert_int_not_equal(lr_comm_local_run(2, NEVER, forgetful_body, NULL, &err), LR_OK);
}

/* ------------------------------------------------------------------ gather */

static lr_status refuse(void *arg, int rank, const void *data, size_t bytes, lr_error *err)
{
    (void)arg;
    (void)data;
    (void)bytes;
    return rank == 2 ? lr_fail(err, LR_E_IO, "tokens: disk full") : LR_OK;
}

static lr_status gather_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    const size_t bytes[5] = {100, 100, 100, 100, 100};
    const char mine[100] = {0};
    return lr_comm_gather(comm, 0, mine, bytes, 7, refuse, NULL, err);
}

static void test_a_gather_whose_sink_fails_ends_all_ranks(void **state)
{
    (void)state;
    expect_failure(5, NEVER, gather_body, NULL, LR_E_IO, "rank 0: tokens: disk full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_that_differ_are_an_error_at_both_ends),
        cmocka_unit_test(test_abort_wakes_everybody_in_every_call),
        cmocka_unit_test(test_a_silent_peer_ends_the_run_after_the_time_limit),
        cmocka_unit_test(test_a_rank_that_left_is_noticed_without_a_time_limit),
        cmocka_unit_test(test_run_reports_the_failure_and_not_its_echo),
        cmocka_unit_test(test_a_failure_without_words_still_has_a_text),
        cmocka_unit_test(test_wrong_group_sizes_and_limits_are_usage_errors),
        cmocka_unit_test(test_memory_stays_while_a_rank_further_on_reads_it),
        cmocka_unit_test(test_ranks_that_hold_each_others_data_all_end),
        cmocka_unit_test(test_a_transfer_that_was_never_waited_for_stops_the_others),
        cmocka_unit_test(test_a_gather_whose_sink_fails_ends_all_ranks),
    };
    return cmocka_run_group_tests_name("comm/local abort", tests, NULL, NULL);
}
