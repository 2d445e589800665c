/* The local communicator when all goes well: order, hand-over of pointers, collectives, gather. */
#include "lr_test.h"
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

/* Message i from a to b holds bytes that follow from (a, b, i), and so does its length. */
enum { MESSAGES = 40, MOST_BYTES = 300 };

static size_t message_bytes(int from, int to, int i)
{
    return (size_t)((from * 131 + to * 31 + i * 17) % MOST_BYTES);
}

static unsigned char message_byte(int from, int to, int i, size_t at)
{
    return (unsigned char)((size_t)(from * 7 + to * 3 + i) + at);
}

typedef struct mesh {
    unsigned char *data; /* [size, MESSAGES, MOST_BYTES] */
    lr_transfer **sends, **receives; /* [size, MESSAGES] */
} mesh;

static size_t mesh_at(int peer, int i)
{
    return (size_t)peer * MESSAGES + (size_t)i;
}

static lr_status start_mesh(mesh *m, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    for (int i = 0; i < MESSAGES; i++) {
        for (int peer = 0; peer < comm->size; peer++) {
            if (peer == comm->rank) continue;
            unsigned char *data = m->data + mesh_at(peer, i) * MOST_BYTES;
            size_t bytes = message_bytes(comm->rank, peer, i);
            for (size_t at = 0; at < bytes; at++)
                data[at] = message_byte(comm->rank, peer, i, at);
            LR_TRY(lr_comm_send_start(comm, peer, data, bytes, &m->sends[mesh_at(peer, i)], err));
            LR_TRY(lr_comm_recv_start(comm, peer, NULL, message_bytes(peer, comm->rank, i),
                                      &m->receives[mesh_at(peer, i)], err));
        }
    }
done:
    return st;
}

/* Waits in an order of its own: the data does not depend on it. */
static lr_status check_mesh(mesh *m, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    for (int step = 0; step < MESSAGES * comm->size; step++) {
        int k = (step * 7 + comm->rank) % (MESSAGES * comm->size);
        int peer = k / MESSAGES, i = k % MESSAGES;
        if (peer == comm->rank || !m->receives[k]) continue;
        const void *data = NULL;
        LR_TRY(lr_comm_wait(comm, m->receives[k], &data, err));
        for (size_t at = 0; at < message_bytes(peer, comm->rank, i); at++)
            RANK_CHECK(((const unsigned char *)data)[at] == message_byte(peer, comm->rank, i, at));
        lr_comm_release(comm, m->receives[k]);
        m->receives[k] = NULL;
    }
    for (size_t k = 0; k < (size_t)(MESSAGES * comm->size); k++)
        if (m->sends[k]) LR_TRY(lr_comm_wait(comm, m->sends[k], NULL, err));
done:
    return st;
}

static lr_status mesh_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    mesh m = {0};
    size_t n = (size_t)comm->size * MESSAGES;
    LR_TRY(LR_NEW(&m.data, n * MOST_BYTES, "data", err));
    LR_TRY(LR_NEW(&m.sends, n, "sends", err));
    LR_TRY(LR_NEW(&m.receives, n, "receives", err));
    LR_TRY(start_mesh(&m, comm, err));
    LR_TRY(check_mesh(&m, comm, err));
    RANK_CHECK(comm->stats.messages_sent == (uint64_t)(comm->size - 1) * MESSAGES);
    RANK_CHECK(comm->stats.messages_received == comm->stats.messages_sent);
done:
    if (st != LR_OK) lr_comm_abort(comm, err->text);
    for (size_t k = 0; k < n; k++) {
        if (m.receives) lr_comm_release(comm, m.receives[k]);
        if (m.sends) lr_comm_release(comm, m.sends[k]);
    }
    lr_free(m.receives);
    lr_free(m.sends);
    lr_free(m.data);
    return st;
}

static void test_messages_of_a_pair_arrive_in_order_on_every_rank_count(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) run(sizes[s], mesh_body, NULL);
}

static lr_status mesh_work(void *arg, lr_error *err)
{
    (void)arg;
    return lr_comm_local_run(3, 60, mesh_body, NULL, err);
}

static void test_each_failed_allocation_ends_all_ranks(void **state)
{
    (void)state;
    /* The communicator's own four, the runner's two and what three ranks need. */
    assert_true(lrt_fail_each_allocation(mesh_work, NULL) > 6 + 3 * 3);
}

static lr_status wrong_peer_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    lr_transfer *transfer;
    const int peers[] = {-1, comm->rank, comm->size};
    for (size_t i = 0; i < 3; i++) {
        lr_error mine = {0};
        RANK_CHECK(lr_comm_send_start(comm, peers[i], "x", 1, &transfer, &mine) == LR_E_INTERNAL);
        RANK_CHECK(!transfer && mine.text[0]);
        RANK_CHECK(lr_comm_recv_start(comm, peers[i], NULL, 1, &transfer, NULL) == LR_E_INTERNAL);
    }
done:
    return st;
}

static void test_a_peer_outside_of_the_group_is_refused(void **state)
{
    (void)state;
    run(2, wrong_peer_body, NULL);
}

/* ------------------------------------------------------------------ collectives */

static lr_status collectives_body(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    int values[LR_LOCAL_MAX];
    for (int round = 0; round < 20; round++) {
        int root = round % comm->size, text[3] = {0, 0, 0};
        if (comm->rank == root) text[0] = text[1] = text[2] = round;
        LR_TRY(lr_comm_broadcast(comm, root, text, sizeof text, err));
        RANK_CHECK(text[0] == round && text[1] == round && text[2] == round);
        int mine = comm->rank * 100 + round;
        LR_TRY(lr_comm_all_gather(comm, &mine, sizeof mine, values, err));
        for (int r = 0; r < comm->size; r++) RANK_CHECK(values[r] == r * 100 + round);
        LR_TRY(lr_comm_barrier(comm, err));
        LR_TRY(lr_comm_broadcast(comm, root, NULL, 0, err));
        LR_TRY(lr_comm_all_gather(comm, NULL, 0, NULL, err));
    }
    RANK_CHECK(comm->stats.messages_sent == 0);
done:
    return st;
}

static void test_broadcast_and_all_gather_reach_every_rank(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) run(sizes[s], collectives_body, NULL);
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

static lr_status broadcast_between_messages(void *arg, lr_comm *comm, lr_error *err)
{
    (void)arg;
    lr_status st = LR_OK;
    lr_transfer *send = NULL, *receive = NULL;
    int mine = comm->rank + 10, from_root = comm->rank == 0 ? 7 : 0;
    const void *data = NULL;
    LR_TRY(lr_comm_recv_start(comm, 1 - comm->rank, NULL, sizeof mine, &receive, err));
    LR_TRY(lr_comm_broadcast(comm, 0, &from_root, sizeof from_root, err));
    RANK_CHECK(from_root == 7);
    LR_TRY(lr_comm_send_start(comm, 1 - comm->rank, &mine, sizeof mine, &send, err));
    LR_TRY(lr_comm_wait(comm, receive, &data, err));
    RANK_CHECK(*(const int *)data == 11 - comm->rank);
    lr_comm_release(comm, receive);
    receive = NULL;
    LR_TRY(lr_comm_wait(comm, send, NULL, err));
done:
    lr_comm_release(comm, receive);
    lr_comm_release(comm, send);
    return st;
}

static void test_a_broadcast_passes_messages_under_way(void **state)
{
    (void)state;
    run(2, broadcast_between_messages, NULL);
}

/* ------------------------------------------------------------------ gather */

typedef struct gathered {
    int root;
    size_t piece;
    size_t bytes; /* taken so far */
    int rank;     /* of the last piece */
    size_t of_rank;
} gathered;

static size_t gather_bytes(int rank)
{
    return (size_t)(rank % 3 == 2 ? 0 : 1000 + rank * 77);
}

static lr_status check_piece(void *arg, int rank, const void *data, size_t bytes, lr_error *err)
{
    lr_status st = LR_OK;
    gathered *g = arg;
    RANK_CHECK(rank >= g->rank && bytes > 0 && bytes <= g->piece);
    if (rank != g->rank) g->of_rank = 0;
    g->rank = rank;
    for (size_t at = 0; at < bytes; at++)
        RANK_CHECK(((const unsigned char *)data)[at] ==
                   (unsigned char)(g->of_rank + at + (size_t)rank));
    g->of_rank += bytes;
    g->bytes += bytes;
    RANK_CHECK(g->of_rank <= gather_bytes(rank));
done:
    return st;
}

static lr_status gather_body(void *arg, lr_comm *comm, lr_error *err)
{
    lr_status st = LR_OK;
    gathered *g = arg;
    size_t bytes[LR_LOCAL_MAX];
    unsigned char mine[4000];
    for (int r = 0; r < comm->size; r++) bytes[r] = gather_bytes(r);
    for (size_t at = 0; at < bytes[comm->rank]; at++)
        mine[at] = (unsigned char)(at + (size_t)comm->rank);
    LR_TRY(lr_comm_gather(comm, g->root, mine, bytes, g->piece, check_piece, g, err));
done:
    return st;
}

static void test_gather_brings_all_bytes_in_pieces_to_any_root(void **state)
{
    (void)state;
    const size_t pieces[] = {1, 77, 1000, SIZE_MAX};
    for (size_t s = 0; s < N_SIZES; s++) {
        size_t total = 0;
        for (int r = 0; r < sizes[s]; r++) total += gather_bytes(r);
        for (size_t p = 0; p < 4; p++) {
            gathered g = {.root = sizes[s] / 2, .piece = pieces[p]};
            run(sizes[s], gather_body, &g);
            assert_int_equal(g.bytes, total);
        }
    }
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
    };
    return cmocka_run_group_tests_name("comm/local", tests, NULL, NULL);
}
