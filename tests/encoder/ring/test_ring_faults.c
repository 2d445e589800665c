/* The coverage proof: whatever a communicator does to a message, and whatever a rank does, some rank
 * says so and all end. */
#include "ring_case.h"

#include <stdio.h>
#include <string.h>

static const int ranks[] = {2, 3, 5, 8};
#define N_RANKS (sizeof ranks / sizeof ranks[0])

static const lr_mask full = {LR_MASK_FULL, 0};

/* The ways to travel, each with several messages between some pair of ranks at 2 to 8 ranks. */
static const struct {
    lr_mask mask;
    lr_schedule schedule;
    int node_ranks;
} ways[] = {{{LR_MASK_FULL, 0}, LR_SCHEDULE_RING, 0},
            {{LR_MASK_CAUSAL, 0}, LR_SCHEDULE_RING, 0},
            {{LR_MASK_FULL, 0}, LR_SCHEDULE_ALL_GATHER, 0},
            {{LR_MASK_WINDOW, 40}, LR_SCHEDULE_HALO, 0},
            {{LR_MASK_FULL, 0}, LR_SCHEDULE_TWO_LEVEL, 2},
            {{LR_MASK_FULL, 0}, LR_SCHEDULE_TWO_LEVEL, 3}};
#define N_WAYS (sizeof ways / sizeof ways[0])

enum { LAYERS = 3, TOKENS = 16 * 33 + 7 };

static ring_case fault_case(size_t way, int n_ranks, lrt_fault *fault)
{
    ring_case c = ring_case_of(TOKENS, 16, n_ranks, ways[way].mask, ways[way].schedule);
    c.node_ranks = ways[way].node_ranks;
    c.n_layers = LAYERS;
    c.comm = RING_COMM_EAGER;
    c.fault = fault;
    return c;
}

/* A random rank that sends something, and which of its messages; in layer `layer`. */
static void choose_message(lrt_random *random, const ring_case *c, uint32_t layer, lrt_fault *fault)
{
    lr_partition p;
    lr_error err = {0};
    lr_ring_stats sends;
    lrt_assert_ok(lr_partition_create(&p, c->n_tokens, c->chunk, c->n_ranks, &err), &err);
    do {
        fault->from = (int)lrt_below(random, (uint64_t)c->n_ranks);
        ring_case_count(c, &p, fault->from, &sends);
    } while (sends.chunks_sent == 0);
    fault->message = layer * sends.chunks_sent + lrt_below(random, sends.chunks_sent);
    lr_partition_free(&p);
}

static void expect_caught(const ring_case *c, bool silence_possible)
{
    char text[512];
    lr_error err = {0};
    lr_status st = ring_case_run(c, &err);
    const lrt_fault *f = c->fault;
    bool caught = st == LR_E_COVERAGE || (silence_possible && st == LR_E_PEER);
    if (caught && atomic_load(&f->done)) return;
    ring_case_describe(c, text, sizeof text);
    fail_msg("%s: message %llu of rank %d: fault %d (byte %zu, bits %#x) %s and gave \"%s\" (%s)",
             text, (unsigned long long)f->message, f->from, (int)f->kind, f->byte, f->flip,
             atomic_load(&f->done) ? "happened" : "did not happen", err.text,
             lr_status_name(st));
}

/* A field of the header, or the payload: bytes [begin, end) of a message; end 0: up to its end. */
static const struct {
    const char *name;
    size_t begin, end;
} fields[] = {
    {"magic", offsetof(lr_chunk_header, magic), offsetof(lr_chunk_header, layer)},
    {"layer", offsetof(lr_chunk_header, layer), offsetof(lr_chunk_header, sequence)},
    {"sequence", offsetof(lr_chunk_header, sequence), offsetof(lr_chunk_header, index)},
    {"index", offsetof(lr_chunk_header, index), offsetof(lr_chunk_header, first_token)},
    {"first token", offsetof(lr_chunk_header, first_token), offsetof(lr_chunk_header, n_tokens)},
    {"tokens", offsetof(lr_chunk_header, n_tokens), offsetof(lr_chunk_header, payload_bytes)},
    {"bytes", offsetof(lr_chunk_header, payload_bytes), offsetof(lr_chunk_header, checksum)},
    {"checksum", offsetof(lr_chunk_header, checksum), offsetof(lr_chunk_header, reserved)},
    {"reserved", offsetof(lr_chunk_header, reserved), sizeof(lr_chunk_header)},
    {"payload", sizeof(lr_chunk_header), 0},
};
#define N_FIELDS (sizeof fields / sizeof fields[0])

static void test_one_altered_bit_in_any_field_or_payload_is_caught(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 21);
    for (size_t r = 0; r < N_RANKS; r++) {
        for (size_t way = 0; way < N_WAYS; way++) {
            for (size_t f = 0; f < N_FIELDS; f++) {
                lrt_fault fault = {.kind = LRT_FAULT_ALTER};
                ring_case c = fault_case(way, ranks[r], &fault);
                size_t end = fields[f].end;
                if (end == 0) end = lr_chunk_bytes(&c.shape, 1); /* of the shortest chunk */
                fault.byte = fields[f].begin + (size_t)lrt_below(&random, end - fields[f].begin);
                fault.flip = (unsigned char)(1u << lrt_below(&random, 8));
                choose_message(&random, &c, (uint32_t)lrt_below(&random, LAYERS), &fault);
                expect_caught(&c, false);
            }
        }
    }
}

static void test_a_repeated_message_is_caught(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 22);
    for (size_t r = 0; r < N_RANKS; r++) {
        for (size_t way = 0; way < N_WAYS; way++) {
            for (int i = 0; i < 4; i++) {
                lrt_fault fault = {.kind = LRT_FAULT_REPEAT};
                ring_case c = fault_case(way, ranks[r], &fault);
                uint32_t layer = (uint32_t)lrt_below(&random, LAYERS);
                choose_message(&random, &c, layer, &fault);
                /* After the very last message of a link nobody receives the repetition: the sender
                 * learns that the receiver has ended. */
                expect_caught(&c, layer == LAYERS - 1);
            }
        }
    }
}

/* A receiver that waits for a message that never comes may be what its sender waits for in turn:
 * then only the time limit ends it. */
static void check_lost_or_swapped(lrt_fault_kind kind, uint64_t stream)
{
    lrt_random random;
    lrt_random_init(&random, stream);
    for (size_t r = 0; r < N_RANKS; r++) {
        for (size_t way = 0; way < N_WAYS; way++) {
            for (uint32_t layer = 0; layer < LAYERS; layer++) {
                lrt_fault fault = {.kind = kind};
                ring_case c = fault_case(way, ranks[r], &fault);
                c.peer_timeout = 0.5;
                choose_message(&random, &c, layer, &fault);
                expect_caught(&c, true);
            }
        }
    }
}

static void test_a_dropped_message_is_caught(void **state)
{
    (void)state;
    check_lost_or_swapped(LRT_FAULT_DROP, 23);
}

static void test_two_swapped_messages_are_caught(void **state)
{
    (void)state;
    check_lost_or_swapped(LRT_FAULT_SWAP, 24);
}

/* The first message of a link with more to come: no time limit is needed. */
static void test_an_early_drop_or_swap_is_a_coverage_error(void **state)
{
    (void)state;
    const lrt_fault_kind kinds[] = {LRT_FAULT_DROP, LRT_FAULT_SWAP};
    for (size_t r = 0; r < N_RANKS; r++) {
        for (size_t k = 0; k < 2; k++) {
            lrt_fault fault = {.kind = kinds[k], .from = 0, .message = 0};
            ring_case c = fault_case(0, ranks[r], &fault);
            expect_caught(&c, false);
        }
    }
}

static void test_the_error_names_layer_chunk_and_ranks(void **state)
{
    (void)state;
    lr_error err = {0};
    lrt_fault fault = {.kind = LRT_FAULT_ALTER, .from = 1, .byte = 100, .flip = 1};
    ring_case c = fault_case(0, 3, &fault);
    /* On each layer rank 1 of 3 sends all chunks but those of rank 2: 34 chunks in shards of 12, 11
     * and 11, so 23 messages; the 31st is the ninth of layer 1, chunk 8. */
    fault.message = 23 + 8;
    assert_int_equal(ring_case_run(&c, &err), LR_E_COVERAGE);
    if (!strstr(err.text, "layer 1, chunk 8 from rank 1 to rank 2: the checksum of the payload"))
        fail_msg("the error says: %s", err.text);
}

/* Where memory is shared, the payload is checked too. */
static void test_a_shared_chunk_altered_after_sealing_is_caught(void **state)
{
    (void)state;
    for (size_t r = 0; r < N_RANKS; r++) {
        for (size_t way = 0; way < N_WAYS; way++) {
            lr_error err = {0};
            ring_case c = fault_case(way, ranks[r], NULL);
            c.comm = RING_COMM_LOCAL;
            c.spoil_payload = true;
            c.stop_rank = 0;
            c.stop_at = 33; /* the byte */
            if (ways[way].mask.kind == LR_MASK_WINDOW) {
                /* Only chunks at the edge of a shard travel: make shards as short as the halo. */
                c.n_tokens = 16 * (uint64_t)ranks[r];
            }
            lr_status st = ring_case_run(&c, &err);
            if (st != LR_E_COVERAGE)
                fail_msg("way %zu, %d ranks: %s (%s)", way, ranks[r], err.text,
                         lr_status_name(st));
        }
    }
}

static void test_a_visit_that_fails_ends_all_ranks(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 25);
    for (size_t r = 0; r < N_RANKS; r++) {
        for (size_t way = 0; way < N_WAYS; way++) {
            for (int comm = 0; comm < RING_COMMS; comm++) {
                lr_error err = {0};
                ring_case c = fault_case(way, ranks[r], NULL);
                c.comm = (ring_comm)comm;
                c.stop_rank = (int)lrt_below(&random, (uint64_t)ranks[r]);
                c.stop_at = lrt_below(&random, 8);
                c.sleep_seed = 1 + (unsigned)comm;
                assert_int_equal(ring_case_run(&c, &err), LR_E_NOMEM);
                assert_non_null(strstr(err.text, "the visit gives up"));
            }
        }
    }
}

static void test_cancelling_ends_all_ranks(void **state)
{
    (void)state;
    lr_cancel cancel = 1;
    for (size_t way = 0; way < N_WAYS; way++) {
        lr_error err = {0};
        ring_case c = fault_case(way, 5, NULL);
        c.cancel = &cancel;
        assert_int_equal(ring_case_run(&c, &err), LR_E_INTERRUPTED);
    }
}

static lr_status run_work(void *arg, lr_error *err)
{
    return ring_case_run(arg, err);
}

static void test_each_failed_allocation_ends_all_ranks(void **state)
{
    (void)state;
    for (size_t way = 0; way < N_WAYS; way++) {
        for (int comm = 0; comm < RING_COMMS; comm++) {
            ring_case c = fault_case(way, 3, NULL);
            c.n_tokens = 16 * 7 + 1;
            c.comm = (ring_comm)comm;
            c.n_layers = 1;
            assert_true(lrt_fail_each_allocation(run_work, &c) > 20);
        }
    }
}

static lr_status no_visit(void *arg, const lr_chunk_header *chunk, lr_error *err)
{
    (void)arg;
    (void)chunk;
    (void)err;
    return LR_OK;
}

/* What a caller may get wrong: a partition for other ranks, an own chunk that is not sealed. */
static lr_status misused_body(void *arg, lr_comm *comm, lr_error *err)
{
    const int *n_ranks = arg;
    lr_partition p = {0};
    lr_chunk_header header = {0}, *own[1] = {&header};
    lr_status st = lr_partition_create(&p, 16 * (uint64_t)*n_ranks, 16, *n_ranks, err);
    lr_exchange x = {.comm = comm, .partition = &p, .shape = {1, 4}, .mask = full, .own = own};
    if (st == LR_OK) st = lr_exchange_run(&x, no_visit, NULL, NULL, err);
    if (lr_comm_barrier(comm, NULL) != LR_E_PEER) st = LR_OK; /* the group was not aborted */
    lr_partition_free(&p);
    return st;
}

static void test_misuse_is_an_error_on_all_ranks(void **state)
{
    (void)state;
    int n_ranks = 4;
    assert_int_equal(lr_comm_local_run(3, 0, misused_body, &n_ranks, NULL), LR_E_INTERNAL);
    n_ranks = 3;
    assert_int_equal(lr_comm_local_run(3, 0, misused_body, &n_ranks, NULL), LR_E_COVERAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_altered_bit_in_any_field_or_payload_is_caught),
        cmocka_unit_test(test_a_repeated_message_is_caught),
        cmocka_unit_test(test_a_dropped_message_is_caught),
        cmocka_unit_test(test_two_swapped_messages_are_caught),
        cmocka_unit_test(test_an_early_drop_or_swap_is_a_coverage_error),
        cmocka_unit_test(test_the_error_names_layer_chunk_and_ranks),
        cmocka_unit_test(test_a_shared_chunk_altered_after_sealing_is_caught),
        cmocka_unit_test(test_a_visit_that_fails_ends_all_ranks),
        cmocka_unit_test(test_cancelling_ends_all_ranks),
        cmocka_unit_test(test_each_failed_allocation_ends_all_ranks),
        cmocka_unit_test(test_misuse_is_an_error_on_all_ranks),
    };
    return cmocka_run_group_tests_name("encoder/ring faults", tests, NULL, NULL);
}
