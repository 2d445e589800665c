/* A world of ranks over a wire that is not MPI: what every communicator has to do, and what happens
 * when ranks abort, leave, fall silent or lose the wire. */
#include "fake_wire.h"
#include "lr_test.h"
#include "rank_cases.h"
#include "rank_check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 8 };

static const int sizes[] = {1, 2, 3, 5, 8};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

static void run_well(const fake_options *options, lr_rank_body body, void *arg, const char *name)
{
    fake_result results[MOST];
    assert_int_equal(fake_run(options, body, arg, results), 0);
    for (int r = 0; r < options->size; r++) {
        if (results[r].status != LR_OK)
            fail_msg("%s: rank %d of %d: %s", name, r, options->size, results[r].error.text);
        assert_false(results[r].broken);
        assert_int_equal(results[r].aborted, -1);
    }
}

/* ------------------------------------------------------------------ all goes well */

static void test_ranks_do_what_every_communicator_does(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++)
        for (const rank_case *c = rank_cases; c->name; c++)
            run_well(&(fake_options){.size = sizes[s]}, c->body, NULL, c->name);
}

static void test_long_messages_go_in_pieces(void **state)
{
    (void)state;
    for (size_t s = 1; s < 4; s++)
        for (const rank_case *c = rank_cases; c->name; c++)
            if (c->body != rank_case_large && c->body != rank_case_abort_of_a_part)
                run_well(&(fake_options){.size = sizes[s], .piece_bytes = 64}, c->body, NULL, c->name);
    run_well(&(fake_options){.size = 3, .piece_bytes = 100000}, rank_case_large, NULL, "large");
    run_well(&(fake_options){.size = 3, .piece_bytes = 100000}, rank_case_abort_of_a_part, NULL,
             "abort");
}

static void test_a_slow_wire_changes_nothing(void **state)
{
    (void)state;
    for (const rank_case *c = rank_cases; c->name; c++)
        run_well(&(fake_options){.size = 3, .patience = 7}, c->body, NULL, c->name);
}

static lr_status tickets_body(void *arg, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    atomic_int *seen = arg;
    for (int i = 0; i < 20; i++) {
        uint64_t ticket = 0;
        LR_TRY(lr_world_take(fake_world_of(comm), &ticket, err));
        RANK_CHECK(ticket < 20u * (unsigned)comm->size);
        RANK_CHECK(atomic_fetch_add(&seen[ticket], 1) == 0);
    }
done:
    return st;
}

static void test_each_ticket_is_given_out_once(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) {
        atomic_int seen[20 * MOST] = {0};
        run_well(&(fake_options){.size = sizes[s]}, tickets_body, seen, "tickets");
        for (int i = 0; i < 20 * sizes[s]; i++) assert_int_equal(atomic_load(&seen[i]), 1);
    }
}

/* ------------------------------------------------------------------ ranks that give up */

static lr_status mismatch_body(void *arg, lr_comm *comm, lr_error *err)
{
    const size_t *bytes = arg;
    lr_transfer *transfer = NULL;
    char data[16] = "1234567";
    if (comm->rank > 1) return lr_comm_barrier(comm, err);
    lr_status st = comm->rank == 0 ? lr_comm_send_start(comm, 1, data, bytes[0], &transfer, err)
                                   : lr_comm_recv_start(comm, 0, data, bytes[1], &transfer, err);
    if (st == LR_OK) st = lr_comm_wait(comm, transfer, NULL, err);
    lr_comm_release(comm, transfer);
    return st == LR_OK ? lr_comm_barrier(comm, err) : st;
}

static void test_sizes_that_differ_end_the_run(void **state)
{
    (void)state;
    const size_t cases[][2] = {{8, 9}, {9, 8}, {0, 1}, {1, 0}};
    for (size_t i = 0; i < 4; i++) {
        fake_result results[3];
        fake_run(&(fake_options){.size = 3}, mismatch_body, (void *)cases[i], results);
        assert_int_equal(results[1].status, LR_E_COVERAGE);
        assert_non_null(strstr(results[1].error.text, "message 0 from rank 0 to rank 1"));
        assert_int_equal(results[0].status, LR_E_PEER);
        assert_int_equal(results[2].status, LR_E_PEER);
        assert_non_null(strstr(results[2].error.text, "rank 1 stopped the run: message 0"));
        for (int r = 0; r < 3; r++) assert_false(results[r].broken);
    }
}

static lr_status leaving_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    char byte = 0;
    lr_transfer *transfer = NULL;
    if (comm->rank == 0) return LR_OK;
    lr_status st = lr_comm_recv_start(comm, 0, &byte, 1, &transfer, err);
    if (st == LR_OK) st = lr_comm_wait(comm, transfer, NULL, err);
    lr_comm_release(comm, transfer);
    return st;
}

static void test_a_rank_that_left_is_noticed(void **state)
{
    (void)state;
    fake_result results[3];
    assert_int_equal(fake_run(&(fake_options){.size = 3}, leaving_body, NULL, results), 0);
    assert_int_equal(results[0].status, LR_OK);
    for (int r = 1; r < 3; r++) {
        assert_int_equal(results[r].status, LR_E_PEER);
        assert_non_null(strstr(results[r].error.text, "rank 0 ended without sending message 0"));
    }
}

static lr_status forgetful_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    static const char data[5000];
    lr_transfer *transfer = NULL;
    if (comm->rank == 0) return lr_comm_send_start(comm, 1, data, sizeof data, &transfer, err);
    return lr_comm_barrier(comm, err);
}

static void test_a_message_that_nobody_takes_ends_with_the_communicator(void **state)
{
    (void)state;
    fake_result results[2];
    assert_int_equal(fake_run(&(fake_options){.size = 2}, forgetful_body, NULL, results), 0);
    assert_int_equal(results[1].status, LR_E_PEER);
}

static lr_status cancelled_body(void *arg, lr_comm *comm, lr_error *err)
{
    lr_cancel **cancels = arg;
    if (comm->rank == 1) {
        (void)usleep(3000);
        atomic_store(cancels[1], 1);
    }
    lr_transfer *transfer = NULL;
    char byte;
    lr_status st = lr_comm_recv_start(comm, (comm->rank + 1) % comm->size, &byte, 1, &transfer, err);
    if (st == LR_OK) st = lr_comm_wait(comm, transfer, NULL, err);
    lr_comm_release(comm, transfer);
    return st;
}

static void test_a_cancelled_rank_wakes_all(void **state)
{
    (void)state;
    lr_cancel flags[3] = {0};
    lr_cancel *cancels[3] = {&flags[0], &flags[1], &flags[2]};
    fake_result results[3];
    fake_run(&(fake_options){.size = 3, .cancels = cancels}, cancelled_body, cancels, results);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(results[r].status, LR_E_PEER);
        assert_string_equal(results[r].error.text, "rank 1 stopped the run: interrupted");
        assert_int_equal(results[r].aborted, -1);
    }
}

/* ------------------------------------------------------------------ ranks that are lost */

typedef struct loss {
    int who;
    atomic_int begun;
} loss;

enum { BIG = 100000 };

/* Rank `who` stops while large messages are under way round the ring. */
static lr_status loss_body(void *arg, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    loss *l = arg;
    unsigned char *memory = NULL;
    lr_transfer *send = NULL, *receive = NULL;
    LR_TRY(LR_NEW(&memory, 2 * BIG, "memory", err));
    LR_TRY(lr_comm_barrier(comm, err));
    if (comm->rank == l->who) fake_stop(comm, l->who);
    for (;;) {
        LR_TRY(lr_comm_send_start(comm, (comm->rank + 1) % comm->size, memory, BIG, &send, err));
        LR_TRY(lr_comm_recv_start(comm, (comm->rank + comm->size - 1) % comm->size, memory + BIG, BIG,
                                  &receive, err));
        LR_TRY(lr_comm_wait(comm, receive, NULL, err));
        LR_TRY(lr_comm_wait(comm, send, NULL, err));
        lr_comm_release(comm, send);
        lr_comm_release(comm, receive);
        send = receive = NULL;
    }
done:
    if (st != LR_OK) lr_comm_abort(comm, "fails");
    lr_comm_release(comm, send);
    lr_comm_release(comm, receive);
    lr_free(memory);
    return st;
}

static void test_a_stopped_rank_breaks_the_world_and_is_named(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size += size == 3 ? 2 : 1) {
        for (int who = 0; who < size; who++) {
            loss l = {.who = who};
            fake_result results[MOST];
            char text[64];
            fake_run(&(fake_options){.size = size, .peer_timeout = 0.6}, loss_body, &l, results);
            (void)snprintf(text, sizeof text, "rank %d is lost", who);
            int speaker = who == 0 ? 1 : 0;
            for (int r = 0; r < size; r++) {
                assert_int_equal(results[r].status, LR_E_PEER);
                if (r == who) continue;
                assert_true(results[r].broken);
                assert_non_null(strstr(results[r].error.text, text));
                assert_int_equal(results[r].speaker, speaker);
            }
            assert_int_equal(results[speaker].aborted, 3);
        }
    }
}

typedef struct pause_of_all {
    atomic_int arrived;
} pause_of_all;

static lr_status pause_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    LR_TRY(lr_comm_barrier(comm, err));
    if (comm->rank == 0) {
        for (int r = 0; r < comm->size; r++) fake_stop(comm, r);
        (void)usleep(900000);
        for (int r = 0; r < comm->size; r++) fake_continue(comm, r);
    }
    LR_TRY(lr_comm_barrier(comm, err));
done:
    return st;
}

static void test_ranks_that_all_were_stopped_together_go_on(void **state)
{
    (void)state;
    run_well(&(fake_options){.size = 3, .peer_timeout = 0.6}, pause_body, NULL, "pause");
}

static lr_status slow_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    if (comm->rank == 1) (void)usleep(900000);
    return lr_comm_barrier(comm, err);
}

static void test_a_rank_that_computes_for_long_is_not_lost(void **state)
{
    (void)state;
    run_well(&(fake_options){.size = 3, .peer_timeout = 0.5}, slow_body, NULL, "slow");
}

static lr_status failing_wire_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = lr_comm_barrier(comm, err);
    if (comm->rank == 1) fake_fail(comm, 1);
    while (st == LR_OK) st = lr_comm_barrier(comm, err);
    return st;
}

static void test_a_wire_that_fails_breaks_the_world(void **state)
{
    (void)state;
    fake_result results[3];
    fake_run(&(fake_options){.size = 3, .peer_timeout = 0.6}, failing_wire_body, NULL, results);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(results[r].status, LR_E_PEER);
        assert_true(results[r].broken);
    }
    assert_non_null(strstr(results[1].error.text, "failed: failure 77"));
    assert_non_null(strstr(results[0].error.text, "rank 1 is lost"));
    assert_int_equal(results[0].aborted, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_do_what_every_communicator_does),
        cmocka_unit_test(test_long_messages_go_in_pieces),
        cmocka_unit_test(test_a_slow_wire_changes_nothing),
        cmocka_unit_test(test_each_ticket_is_given_out_once),
        cmocka_unit_test(test_sizes_that_differ_end_the_run),
        cmocka_unit_test(test_a_rank_that_left_is_noticed),
        cmocka_unit_test(test_a_message_that_nobody_takes_ends_with_the_communicator),
        cmocka_unit_test(test_a_cancelled_rank_wakes_all),
        cmocka_unit_test(test_a_stopped_rank_breaks_the_world_and_is_named),
        cmocka_unit_test(test_ranks_that_all_were_stopped_together_go_on),
        cmocka_unit_test(test_a_rank_that_computes_for_long_is_not_lost),
        cmocka_unit_test(test_a_wire_that_fails_breaks_the_world),
    };
    return cmocka_run_group_tests_name("comm/world", tests, NULL, NULL);
}
