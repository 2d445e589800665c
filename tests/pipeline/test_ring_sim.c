/* The simulated exchange against closed forms, and against what the exchange itself sends. */
#include "lr_test.h"

#include <math.h>

#include <longreel/ring_sim.h>

/* The full layers of the published model, fp32. */
static lr_sim_layer layer_of(uint64_t n_tokens, int n_ranks, lr_schedule schedule)
{
    return (lr_sim_layer){.n_tokens = n_tokens,
                          .chunk = 1024,
                          .n_ranks = n_ranks,
                          .n_heads = 4,
                          .shape = {1, 512},
                          .value_bytes = 4,
                          .schedule = schedule};
}

static lr_sim_machine machine_of(double flops, double link)
{
    return (lr_sim_machine){.flops = flops, .link = link, .link_between = link};
}

static lr_sim_result simulate(lr_sim_layer layer, lr_sim_machine machine)
{
    lr_error err = {0};
    lr_sim_result result;
    lrt_assert_ok(lr_ring_simulate(&layer, &machine, &result, &err), &err);
    return result;
}

static double chunk_bytes(void)
{
    return 64 + 2.0 * 1024 * 512 * 4;
}

static const int ranks[] = {2, 3, 5, 8, 64};
#define N_RANKS (sizeof ranks / sizeof ranks[0])
static const lr_schedule schedules[] = {LR_SCHEDULE_RING, LR_SCHEDULE_ALL_GATHER, LR_SCHEDULE_TWO_LEVEL};

static void test_one_rank_computes_and_sends_nothing(void **state)
{
    (void)state;
    lr_sim_layer layer = layer_of(10000, 1, LR_SCHEDULE_RING);
    lr_sim_result result = simulate(layer, machine_of(1e9, 1e9));
    double seconds = 4.0 * 10000 * 10000 * 4 * 512 / 1e9;
    assert_true(fabs(result.seconds - seconds) < 1e-9 * seconds);
    assert_true(fabs(result.compute - seconds) < 1e-9 * seconds);
    assert_true(result.transfer == 0 && result.messages == 0 && result.hidden == 1);
}

/* A chunk takes a = 4 m c H D / F to be worked and t to be sent, t < a / P. Every rank works its n chunks
 * without a gap once the first came, but for the ways of chunks round the ring: at most P links. */
static void test_where_computation_is_slow_the_transfer_is_hidden(void **state)
{
    (void)state;
    for (size_t r = 0; r < N_RANKS; r++) {
        for (size_t s = 0; s < 3; s++) {
            int p = ranks[r];
            lr_sim_machine machine = machine_of(1e12, 1e12);
            machine.node_ranks = schedules[s] == LR_SCHEDULE_TWO_LEVEL ? 2 : 0;
            lr_sim_result result = simulate(layer_of((uint64_t)p * 16 * 1024, p, schedules[s]), machine);
            double t = chunk_bytes() / 1e12, n = 16.0 * p;
            double compute = n * 4.0 * 16 * 1024 * 1024 * 4 * 512 / 1e12;
            assert_true(fabs(result.compute - compute) < 1e-9 * compute);
            assert_true(result.seconds >= compute * (1 - 1e-9));
            assert_true(result.seconds <= compute + 2 * p * t);
            assert_true(result.hidden > 0.85);
        }
    }
}

/* The link into r carries all but r's own chunks, one after another: (n - m) t at least; and a chunk is at
 * most 2 P links behind the one before it would be without others, so (n + 2 P) t at most. */
static void test_where_the_link_is_slow_the_ring_takes_as_long_as_its_link(void **state)
{
    (void)state;
    for (size_t r = 0; r < N_RANKS; r++) {
        int p = ranks[r];
        double t = chunk_bytes() / 1e6, n = 16.0 * p;
        lr_sim_result result = simulate(layer_of((uint64_t)p * 16 * 1024, p, LR_SCHEDULE_RING),
                                        machine_of(1e18, 1e6));
        assert_true(result.seconds >= (n - 16) * t * (1 - 1e-9));
        assert_true(result.seconds <= (n + 2 * p) * t);
        assert_true(fabs(result.seconds - result.transfer) < 0.01 * result.transfer);
        assert_true(result.hidden < 0.01);
    }
}

/* Straight from the owner: its link carries each of its m chunks P - 1 times, m (P - 1) t, if all owners
 * send at the same time; receivers that take chunks in order, two ahead, keep them from it: at worst one
 * owner sends after another, n (P - 1) t. */
static void test_where_the_link_is_slow_the_all_gather_takes_as_long_as_its_senders_links(void **state)
{
    (void)state;
    for (size_t r = 0; r < N_RANKS; r++) {
        int p = ranks[r];
        double t = chunk_bytes() / 1e6, n = 16.0 * p;
        lr_sim_result result = simulate(layer_of((uint64_t)p * 16 * 1024, p, LR_SCHEDULE_ALL_GATHER),
                                        machine_of(1e18, 1e6));
        assert_true(result.seconds >= 16 * (p - 1) * t * (1 - 1e-9));
        assert_true(result.seconds <= (n + 2) * (p - 1) * t);
    }
}

/* Two nodes of g ranks whose links to each other are the narrow ones. The ring's one such link each way
 * carries all but the next rank's own chunks: n - m. On two levels g links share n / 2. */
static void test_two_levels_use_all_links_between_nodes(void **state)
{
    (void)state;
    enum { g = 8, p = 16, m = 32 };
    lr_sim_machine machine = {.flops = 1e18, .link = 1e12, .link_between = 1e6, .node_ranks = g};
    double t = chunk_bytes() / 1e6, n = (double)m * p;
    lr_sim_result ring = simulate(layer_of(UINT64_C(1024) * p * m, p, LR_SCHEDULE_RING), machine);
    lr_sim_result two = simulate(layer_of(UINT64_C(1024) * p * m, p, LR_SCHEDULE_TWO_LEVEL), machine);
    assert_true(ring.seconds >= (n - m) * t * (1 - 1e-9) && ring.seconds <= (n + 2 * p) * t);
    /* First one node's half crosses, then the other's: n / g in all, and a few chunks more at its ends. */
    assert_true(two.seconds >= n / 2 / g * t && two.seconds <= (n / g + 4) * t);
    assert_true(fabs(ring.bytes_sent - two.bytes_sent) < 1);
}

/* n_ranks - 1 links, each with its latency, before the last rank sees the first chunk; and as many before
 * the first one sees the next rank's. On two levels nodes + 1 links, and a few for ranks that have fallen
 * behind one another. */
static void test_latency_is_paid_once_on_each_link_of_the_fill(void **state)
{
    (void)state;
    lr_sim_machine machine = machine_of(1e12, INFINITY);
    machine.latency = machine.latency_between = 1e-3;
    lr_sim_layer layer = layer_of(64 * 16 * 1024, 64, LR_SCHEDULE_RING);
    lr_sim_result ring = simulate(layer, machine);
    layer.schedule = LR_SCHEDULE_TWO_LEVEL;
    machine.node_ranks = 8;
    lr_sim_result two = simulate(layer, machine);
    double a = ring.compute / (64 * 16); /* of a chunk; longer than the latency */
    assert_true(a > 1e-3);
    assert_true(ring.seconds >= ring.compute + 63e-3 && ring.seconds <= ring.compute + 2 * 64e-3);
    assert_true(two.seconds >= two.compute + 8e-3 && two.seconds <= two.compute + 3 * 9e-3);
}

/* What the simulated ranks send is what the exchange sends. */
static void test_as_much_is_sent_as_the_exchange_says(void **state)
{
    (void)state;
    for (size_t r = 0; r < N_RANKS; r++) {
        for (size_t s = 0; s < 3; s++) {
            for (int odd = 0; odd < 2; odd++) {
                lr_sim_layer layer = layer_of(odd ? 37 * 1024 + 16 : 64 * 1024, ranks[r], schedules[s]);
                lr_sim_machine machine = machine_of(1e12, 1e9);
                machine.node_ranks = 3;
                lr_sim_result result = simulate(layer, machine);
                const lr_mask mask = {LR_MASK_FULL, 0};
                lr_error err = {0};
                lr_partition p;
                uint64_t bytes = 0, messages = 0;
                lrt_assert_ok(lr_partition_create(&p, layer.n_tokens, layer.chunk, layer.n_ranks, &err), &err);
                for (int rank = 0; rank < layer.n_ranks; rank++) {
                    lr_ring_stats stats;
                    lr_exchange_expect(&p, &layer.shape, &mask, layer.schedule, 3, rank, &stats);
                    bytes += stats.bytes_sent;
                    messages += stats.chunks_sent;
                }
                lr_partition_free(&p);
                assert_int_equal(result.messages, messages);
                assert_true(result.bytes_sent == (double)bytes);
            }
        }
    }
}

static void test_checking_and_narrow_links_only_cost_time(void **state)
{
    (void)state;
    lr_sim_layer layer = layer_of(8 * 8 * 1024, 8, LR_SCHEDULE_RING);
    lr_sim_machine machine = machine_of(1e12, 1e9);
    double before = simulate(layer, machine).seconds;
    machine.check = 1e9;
    double checked = simulate(layer, machine).seconds;
    machine.link = machine.link_between = 1e8;
    assert_true(checked > before && simulate(layer, machine).seconds > checked);
    machine.shares_memory = true;
    machine.link = machine.link_between = INFINITY;
    assert_true(simulate(layer, machine).seconds < checked);
}

/* Many chunks: the closed form a = t. Found by simulation: at that length half of it is far from hidden,
 * at twice the length nearly all is. */
static void test_the_length_from_which_the_ring_is_hidden_is_that_of_the_closed_form(void **state)
{
    (void)state;
    lr_error err = {0};
    for (int p = 4; p <= 16; p *= 2) {
        lr_sim_layer layer = layer_of(1, p, LR_SCHEDULE_RING);
        lr_sim_machine machine = machine_of(1e13, 4e9);
        layer.chunk = 64; /* many chunks, so that the fill is short */
        double closed = p * 1e13 * 4 / (8 * 4e9);
        assert_true(fabs(lr_sim_hidden_from(&layer, &machine) - closed) < 1e-9 * closed);
        uint64_t found = 0;
        lrt_assert_ok(lr_sim_find_hidden(&layer, &machine, 0.9, UINT64_C(1) << 24, &found, &err), &err);
        assert_true((double)found > 0.8 * closed && (double)found < 1.35 * closed);
    }
}

static void test_the_chosen_schedule_is_the_fastest(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_schedule chosen = LR_SCHEDULE_AUTO;
    lr_sim_layer layer = layer_of(16 * 32 * 1024, 16, LR_SCHEDULE_AUTO);
    lr_sim_machine machine = {.flops = 1e15, .link = 1e11, .link_between = 1e9, .node_ranks = 8};
    lrt_assert_ok(lr_sim_choose(&layer, &machine, &chosen, &err), &err);
    assert_int_equal(chosen, LR_SCHEDULE_TWO_LEVEL);
    machine.node_ranks = 0;
    lrt_assert_ok(lr_sim_choose(&layer, &machine, &chosen, &err), &err);
    assert_int_equal(chosen, LR_SCHEDULE_RING);
    /* Two chunks, free links, costly latency: straight from the owner. */
    layer.n_tokens = 2 * 1024;
    machine.latency = 1;
    machine.link = INFINITY;
    lrt_assert_ok(lr_sim_choose(&layer, &machine, &chosen, &err), &err);
    assert_int_equal(chosen, LR_SCHEDULE_ALL_GATHER);
}

static lr_status simulate_little(void *arg, lr_error *err)
{
    (void)arg;
    lr_sim_layer layer = layer_of(20 * 1024, 5, LR_SCHEDULE_TWO_LEVEL);
    lr_sim_machine machine = machine_of(1e12, 1e9);
    lr_sim_result result;
    machine.node_ranks = 2;
    return lr_ring_simulate(&layer, &machine, &result, err);
}

static void test_failed_allocations_are_survived(void **state)
{
    (void)state;
    assert_true(lrt_fail_each_allocation(simulate_little, NULL) > 10);
}

static void test_what_is_too_large_is_refused(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_sim_result result;
    lr_sim_machine machine = machine_of(1e12, 1e9);
    lr_sim_layer layer = layer_of(UINT64_MAX, 8, LR_SCHEDULE_RING);
    assert_int_equal(lr_ring_simulate(&layer, &machine, &result, &err), LR_E_USAGE);
    layer = layer_of(1024, 1 << 20, LR_SCHEDULE_RING);
    assert_int_equal(lr_ring_simulate(&layer, &machine, &result, NULL), LR_E_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_computes_and_sends_nothing),
        cmocka_unit_test(test_where_computation_is_slow_the_transfer_is_hidden),
        cmocka_unit_test(test_where_the_link_is_slow_the_ring_takes_as_long_as_its_link),
        cmocka_unit_test(test_where_the_link_is_slow_the_all_gather_takes_as_long_as_its_senders_links),
        cmocka_unit_test(test_two_levels_use_all_links_between_nodes),
        cmocka_unit_test(test_latency_is_paid_once_on_each_link_of_the_fill),
        cmocka_unit_test(test_as_much_is_sent_as_the_exchange_says),
        cmocka_unit_test(test_checking_and_narrow_links_only_cost_time),
        cmocka_unit_test(test_the_length_from_which_the_ring_is_hidden_is_that_of_the_closed_form),
        cmocka_unit_test(test_the_chosen_schedule_is_the_fastest),
        cmocka_unit_test(test_failed_allocations_are_survived),
        cmocka_unit_test(test_what_is_too_large_is_refused),
    };
    return cmocka_run_group_tests_name("pipeline/ring_sim", tests, NULL, NULL);
}
