/* The exchange when all goes well: each rank sees exactly the right keys, in ascending order, bit for
 * bit, and sends exactly what the formulas say, on every kind of communicator. */
#include "ring_case.h"

#include <string.h>

static const int ranks[] = {1, 2, 3, 5, 8};
#define N_RANKS (sizeof ranks / sizeof ranks[0])

static const lr_mask full = {LR_MASK_FULL, 0}, causal = {LR_MASK_CAUSAL, 0};

static lr_mask window(uint64_t radius)
{
    return (lr_mask){LR_MASK_WINDOW, radius};
}

static void passes_on_every_communicator(ring_case c)
{
    for (int comm = 0; comm < RING_COMMS; comm++) {
        c.comm = (ring_comm)comm;
        ring_case_passes(&c);
    }
}

static void passes_everywhere(uint64_t n_tokens, uint64_t chunk, lr_mask mask)
{
    const lr_schedule all[] = {LR_SCHEDULE_AUTO, LR_SCHEDULE_RING, LR_SCHEDULE_ALL_GATHER,
                               LR_SCHEDULE_HALO};
    for (size_t r = 0; r < N_RANKS; r++)
        for (size_t s = 0; s < 4; s++)
            passes_on_every_communicator(ring_case_of(n_tokens, chunk, ranks[r], mask, all[s]));
    for (int node = 2; node <= 3; node++) {
        for (size_t r = 2; r < N_RANKS; r++) {
            ring_case c = ring_case_of(n_tokens, chunk, ranks[r], mask, LR_SCHEDULE_TWO_LEVEL);
            c.node_ranks = node;
            passes_on_every_communicator(c);
        }
    }
}

static void test_full_attention_sees_every_key(void **state)
{
    (void)state;
    passes_everywhere(16 * 37 + 5, 16, full);
    passes_everywhere(64 * 16, 64, full);
}

static void test_causal_ranks_get_only_what_they_need(void **state)
{
    (void)state;
    passes_everywhere(16 * 37 + 5, 16, causal);
}

static void test_window_ranks_get_a_halo_from_several_neighbours(void **state)
{
    (void)state;
    /* At 8 ranks a shard has 64 to 80 tokens: halos of none, one, and four neighbours a side, and
     * edges on and beside a chunk's border. */
    const uint64_t radii[] = {0, 1, 15, 16, 17, 100, 250, 10000};
    for (size_t i = 0; i < sizeof radii / sizeof radii[0]; i++)
        passes_everywhere(16 * 37 + 5, 16, window(radii[i]));
}

static void test_ranks_without_a_shard_pass_chunks_on(void **state)
{
    (void)state;
    const uint64_t lengths[] = {1, 2, 15, 16, 17, 33, 60, 100};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        passes_everywhere(lengths[i], 16, full);
        passes_everywhere(lengths[i], 16, causal);
        passes_everywhere(lengths[i], 16, window(20));
        passes_everywhere(lengths[i], 1024, full);
    }
    passes_everywhere(0, 16, full);
}

/* Three chunks over eight ranks: 3 to 7 see nothing and pass chunk 1 to 0 and chunk 2 to 0 and 1. */
static void test_pure_passing_is_counted(void **state)
{
    (void)state;
    lr_ring_stats stats[LR_LOCAL_MAX];
    ring_case c = ring_case_of(48, 16, 8, full, LR_SCHEDULE_RING);
    c.n_layers = 1;
    c.stats = stats;
    passes_on_every_communicator(c);
    for (int r = 3; r < 8; r++) {
        assert_int_equal(stats[r].chunks_seen, 0);
        assert_int_equal(stats[r].chunks_passed, 2);
    }
}

/* Full mask, no empty shard: each of the n chunks crosses P - 1 links in the ring, and goes to P - 1
 * ranks in the all-gather. */
static void test_full_attention_moves_each_byte_to_every_other_rank_once(void **state)
{
    (void)state;
    lr_ring_stats stats[LR_LOCAL_MAX];
    const lr_schedule all[] = {LR_SCHEDULE_RING, LR_SCHEDULE_ALL_GATHER, LR_SCHEDULE_TWO_LEVEL};
    for (size_t r = 0; r < N_RANKS; r++) {
        for (size_t s = 0; s < 3; s++) {
            ring_case c = ring_case_of(16 * 41 + 3, 16, ranks[r], full, all[s]);
            c.node_ranks = 3;
            c.n_layers = 1;
            c.stats = stats;
            ring_case_passes(&c);
            uint64_t total = 41 * lr_chunk_bytes(&c.shape, 16) + lr_chunk_bytes(&c.shape, 3);
            uint64_t sent = 0;
            for (int i = 0; i < ranks[r]; i++) sent += stats[i].bytes_sent;
            assert_int_equal(sent, (uint64_t)(ranks[r] - 1) * total);
        }
    }
}

/* Six ranks in nodes of three, two chunks each. Each rank hands its own two to two others of its node;
 * to the other node the two of its node's six that it is the gate for; and the two that come in there
 * to the two others: as much as each sends in the ring, but on three links between the nodes. */
static void test_two_levels_share_the_way_between_nodes(void **state)
{
    (void)state;
    lr_ring_stats stats[LR_LOCAL_MAX];
    ring_case c = ring_case_of(16 * 12, 16, 6, full, LR_SCHEDULE_TWO_LEVEL);
    c.node_ranks = 3;
    c.n_layers = 1;
    c.stats = stats;
    passes_on_every_communicator(c);
    for (int r = 0; r < 6; r++) assert_int_equal(stats[r].chunks_sent, 4 + 2 + 4);
}

static void test_automatic_schedule_is_ring_from_four_chunks_a_rank(void **state)
{
    (void)state;
    const lr_kv_shape shape = {1, 4, false};
    const struct {
        uint64_t n_tokens;
        lr_mask mask;
        lr_schedule same;
    } cases[] = {{16 * 20, full, LR_SCHEDULE_RING},
                 {16 * 19, full, LR_SCHEDULE_ALL_GATHER},
                 {16 * 20, causal, LR_SCHEDULE_RING},
                 {16 * 100, {LR_MASK_WINDOW, 100}, LR_SCHEDULE_HALO}};
    for (size_t i = 0; i < 4; i++) {
        lr_partition p;
        lr_ring_stats by_itself, chosen;
        lr_error err = {0};
        lrt_assert_ok(lr_partition_create(&p, cases[i].n_tokens, 16, 5, &err), &err);
        for (int r = 0; r < 5; r++) {
            lr_exchange_expect(&p, &shape, &cases[i].mask, LR_SCHEDULE_AUTO, 0, r, &by_itself);
            lr_exchange_expect(&p, &shape, &cases[i].mask, cases[i].same, 0, r, &chosen);
            assert_memory_equal(&by_itself, &chosen, sizeof chosen);
        }
        lr_partition_free(&p);
    }
}

static lr_mask random_mask(lrt_random *random, uint64_t n_tokens)
{
    lr_mask mask = {(lr_mask_kind)lrt_below(random, 3), 0};
    if (mask.kind == LR_MASK_WINDOW)
        mask.radius = lrt_below(random, lrt_below(random, 2) ? n_tokens + 2 : 40);
    return mask;
}

static void test_random_cases_are_exact(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 11);
    for (int i = 0; i < 150; i++) {
        uint64_t chunk = lrt_below(&random, 3) ? 16 : 1 + lrt_below(&random, 70);
        uint64_t n_tokens = 1 + lrt_below(&random, chunk * 40);
        ring_case c = ring_case_of(n_tokens, chunk, 1 + (int)lrt_below(&random, 9),
                                   random_mask(&random, n_tokens),
                                   (lr_schedule)lrt_below(&random, 5));
        c.node_ranks = (int)lrt_below(&random, 6);
        c.comm = (ring_comm)lrt_below(&random, RING_COMMS);
        c.shape = (lr_kv_shape){1 + (size_t)lrt_below(&random, 3), 1 + (size_t)lrt_below(&random, 9), false};
        c.n_layers = 1 + (uint32_t)lrt_below(&random, 3);
        c.sleep_seed = (unsigned)lrt_next(&random) | 1;
        ring_case_passes(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_attention_sees_every_key),
        cmocka_unit_test(test_causal_ranks_get_only_what_they_need),
        cmocka_unit_test(test_window_ranks_get_a_halo_from_several_neighbours),
        cmocka_unit_test(test_ranks_without_a_shard_pass_chunks_on),
        cmocka_unit_test(test_pure_passing_is_counted),
        cmocka_unit_test(test_full_attention_moves_each_byte_to_every_other_rank_once),
        cmocka_unit_test(test_two_levels_share_the_way_between_nodes),
        cmocka_unit_test(test_automatic_schedule_is_ring_from_four_chunks_a_rank),
        cmocka_unit_test(test_random_cases_are_exact),
    };
    return cmocka_run_group_tests_name("encoder/ring", tests, NULL, NULL);
}
