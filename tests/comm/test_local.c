/* The local communicator when all goes well: order, hand-over of pointers, collectives, gather. */
#include "lr_test.h"
#include "rank_cases.h"
#include "rank_check.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <longreel/comm.h>

static const int sizes[] = {1, 2, 3, 5, 8};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

static void run_with_limit(int size, double limit, lr_rank_body body, void *arg)
{
    lr_error err = {0};
    lrt_assert_ok(lr_comm_local_run(size, limit, body, arg, &err), &err);
}

static void run(int size, lr_rank_body body, void *arg)
{
    run_with_limit(size, 60, body, arg);
}

/* ------------------------------------------------------------------ transfers */

typedef struct hand_over {
    int value;
    atomic_int released;
} hand_over;

static lr_status send_and_look(hand_over *shared, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    lr_transfer *transfer = NULL;
    shared->value = 42;
    LR_TRY(lr_comm_send_start(comm, 1, &shared->value, sizeof shared->value, &transfer, err));
    LR_TRY(lr_comm_wait(comm, transfer, NULL, err));
    RANK_CHECK(atomic_load(&shared->released));
    shared->value = 0;
done:
    lr_comm_release(comm, transfer);
    return st;
}

static lr_status receive_slowly(hand_over *shared, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    lr_transfer *transfer = NULL;
    const void *data = NULL;
    LR_TRY(lr_comm_recv_start(comm, 0, NULL, sizeof shared->value, &transfer, err));
    LR_TRY(lr_comm_wait(comm, transfer, &data, err));
    RANK_CHECK(data == &shared->value);
    (void)usleep(20000);
    RANK_CHECK(shared->value == 42);
    atomic_store(&shared->released, 1);
done:
    lr_comm_release(comm, transfer);
    return st;
}

static lr_status hand_over_body(void *arg, lr_comm *comm, lr_error *err)
{
    return comm->rank == 0 ? send_and_look(arg, comm, err) : receive_slowly(arg, comm, err);
}

static void test_receiver_gets_the_senders_pointer_and_sender_waits_for_its_release(void **state)
{
    (void)state;
    hand_over shared = {0};
    run(2, hand_over_body, &shared);
    assert_int_equal(shared.value, 0);
}

static void test_messages_of_a_pair_arrive_in_order_on_every_rank_count(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) run(sizes[s], rank_case_mesh, NULL);
}

static lr_status mesh_work(void *arg, lr_error *err)
{
    (void)arg;
    return lr_comm_local_run(3, 60, rank_case_mesh, NULL, err);
}

static void test_each_failed_allocation_ends_all_ranks(void **state)
{
    (void)state;
    /* The communicator's own four, the runner's two and what three ranks need. */
    assert_true(lrt_fail_each_allocation(mesh_work, NULL) > 6 + 3 * 3);
}

static void test_a_peer_outside_of_the_group_is_refused(void **state)
{
    (void)state;
    run(2, rank_case_wrong_peer, NULL);
}

/* ------------------------------------------------------------------ collectives */

static void test_broadcast_and_all_gather_reach_every_rank(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) run(sizes[s], rank_case_collectives, NULL);
}

static lr_status barrier_body(void *arg, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    atomic_int *arrived = arg;
    for (int round = 1; round <= 10; round++) {
        atomic_fetch_add(arrived, 1);
        LR_TRY(lr_comm_barrier(comm, err));
        RANK_CHECK(atomic_load(arrived) >= round * comm->size);
        LR_TRY(lr_comm_barrier(comm, err));
    }
done:
    return st;
}

static void test_nobody_passes_a_barrier_before_all_have_come(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) {
        atomic_int arrived = 0;
        run(sizes[s], barrier_body, &arrived);
    }
}

static void test_the_largest_group_runs(void **state)
{
    (void)state;
    atomic_int arrived = 0;
    run(LR_LOCAL_MAX, barrier_body, &arrived);
}

static void test_a_broadcast_passes_messages_under_way(void **state)
{
    (void)state;
    run(2, rank_case_broadcast_between_messages, NULL);
}

/* ------------------------------------------------------------------ gather */

static void test_gather_brings_all_bytes_in_pieces_to_any_root(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) run(sizes[s], rank_case_gather, NULL);
}

/* ------------------------------------------------------------------ reduce-scatter */

static void test_sums_are_those_of_a_loop_over_the_ranks(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) run(sizes[s], rank_case_reduce_scatter, NULL);
}

static lr_status sum_work(void *arg, lr_error *err)
{
    (void)arg;
    return lr_comm_local_run(3, 60, rank_case_reduce_scatter, NULL, err);
}

static void test_each_failed_allocation_of_a_sum_ends_all_ranks(void **state)
{
    (void)state;
    assert_true(lrt_fail_each_allocation(sum_work, NULL) > 10);
}

/* ------------------------------------------------------------------ split */

static void test_groups_of_ranks_work_by_themselves(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) run(sizes[s], rank_case_split, NULL);
}

static void test_an_abort_ends_only_the_group_it_is_made_in(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) run(sizes[s], rank_case_abort_of_a_part, NULL);
}

static lr_status split_work(void *arg, lr_error *err)
{
    (void)arg;
    return lr_comm_local_run(3, 60, rank_case_split, NULL, err);
}

static void test_each_failed_allocation_of_a_split_ends_all_ranks(void **state)
{
    (void)state;
    assert_true(lrt_fail_each_allocation(split_work, NULL) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_receiver_gets_the_senders_pointer_and_sender_waits_for_its_release),
        cmocka_unit_test(test_messages_of_a_pair_arrive_in_order_on_every_rank_count),
        cmocka_unit_test(test_each_failed_allocation_ends_all_ranks),
        cmocka_unit_test(test_a_peer_outside_of_the_group_is_refused),
        cmocka_unit_test(test_broadcast_and_all_gather_reach_every_rank),
        cmocka_unit_test(test_nobody_passes_a_barrier_before_all_have_come),
        cmocka_unit_test(test_the_largest_group_runs),
        cmocka_unit_test(test_a_broadcast_passes_messages_under_way),
        cmocka_unit_test(test_gather_brings_all_bytes_in_pieces_to_any_root),
        cmocka_unit_test(test_sums_are_those_of_a_loop_over_the_ranks),
        cmocka_unit_test(test_each_failed_allocation_of_a_sum_ends_all_ranks),
        cmocka_unit_test(test_groups_of_ranks_work_by_themselves),
        cmocka_unit_test(test_an_abort_ends_only_the_group_it_is_made_in),
        cmocka_unit_test(test_each_failed_allocation_of_a_split_ends_all_ranks),
    };
    return cmocka_run_group_tests_name("comm/local", tests, NULL, NULL);
}
