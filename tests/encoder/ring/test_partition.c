/* Sharding, masks and the layout of a chunk. */
#include "lr_test.h"

#include <string.h>

#include <longreel/ring.h>

static void check_partition(uint64_t n_tokens, uint64_t chunk, int n_ranks)
{
    lr_error err = {0};
    lr_partition p;
    lrt_assert_ok(lr_partition_create(&p, n_tokens, chunk, n_ranks, &err), &err);
    uint64_t token = 0, least = UINT64_MAX, most = 0;
    for (int r = 0; r < n_ranks; r++) {
        uint64_t n = p.first_chunk[r + 1] - p.first_chunk[r];
        least = n < least ? n : least;
        most = n > most ? n : most;
        assert_int_equal(lr_partition_first_token(&p, r), token);
        for (uint64_t c = p.first_chunk[r]; c < p.first_chunk[r + 1]; c++) {
            assert_int_equal(lr_partition_owner(&p, c), r);
            assert_int_equal(c * chunk, token);
            uint64_t tokens = lr_partition_chunk_tokens(&p, c);
            assert_true(tokens > 0 && tokens <= chunk);
            token += tokens;
            assert_true(tokens == chunk || token == n_tokens);
        }
        assert_int_equal(lr_partition_end_token(&p, r), token);
    }
    assert_int_equal(token, n_tokens);
    assert_true(most - least <= 1);
    lr_partition_free(&p);
    assert_null(p.first_chunk);
}

static void test_chunks_are_shared_evenly_and_cover_every_token(void **state)
{
    (void)state;
    const uint64_t tokens[] = {0, 1, 15, 16, 17, 100, 1023, 1024, 1025, 4096, 9999};
    const uint64_t chunks[] = {1, 16, 64, 1024};
    for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++)
        for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++)
            for (int ranks = 1; ranks <= 9; ranks++) check_partition(tokens[t], chunks[c], ranks);
    check_partition(392400, 1024, 256);
}

static void test_impossible_partitions_are_refused(void **state)
{
    (void)state;
    lr_partition p;
    lr_error err = {0};
    assert_int_equal(lr_partition_create(&p, 10, 0, 1, &err), LR_E_USAGE);
    assert_int_equal(lr_partition_create(&p, 10, 16, 0, NULL), LR_E_USAGE);
    assert_int_equal(lr_partition_create(&p, 10, 16, -3, NULL), LR_E_USAGE);
    lr_partition_free(&p);
}

static lr_status create_and_free(void *arg, lr_error *err)
{
    (void)arg;
    lr_partition p;
    lr_status st = lr_partition_create(&p, 1000, 16, 3, err);
    lr_partition_free(&p);
    return st;
}

static void test_partition_survives_failed_allocations(void **state)
{
    (void)state;
    assert_int_equal(lrt_fail_each_allocation(create_and_free, NULL), 1);
}

static void test_masks_give_the_keys_that_their_definitions_name(void **state)
{
    (void)state;
    const uint64_t lengths[] = {1, 2, 7, 40}, radii[] = {0, 1, 5, 39, 40, UINT64_MAX};
    uint64_t lo, hi;
    for (size_t l = 0; l < 4; l++) {
        uint64_t n = lengths[l];
        for (uint64_t i = 0; i < n; i++) {
            lr_mask_range(&(lr_mask){LR_MASK_FULL, 0}, i, n, &lo, &hi);
            assert_true(lo == 0 && hi == n);
            lr_mask_range(&(lr_mask){LR_MASK_CAUSAL, 0}, i, n, &lo, &hi);
            assert_true(lo == 0 && hi == i + 1);
            for (size_t r = 0; r < 6; r++) {
                lr_mask_range(&(lr_mask){LR_MASK_WINDOW, radii[r]}, i, n, &lo, &hi);
                for (uint64_t j = 0; j < n; j++) {
                    uint64_t distance = i > j ? i - j : j - i;
                    assert_int_equal(j >= lo && j < hi, distance <= radii[r]);
                }
            }
        }
    }
}

static void test_a_sealed_chunk_says_what_it_is(void **state)
{
    (void)state;
    const lr_kv_shape shape = {2, 8, false};
    lr_error err = {0};
    lr_partition p;
    lrt_assert_ok(lr_partition_create(&p, 53, 32, 1, &err), &err);
    /* 21 tokens: two panels of 16 keys and 21 values, 8 floats each, for each of two heads. */
    size_t floats = 2 * (32 * 8 + 21 * 8);
    assert_int_equal(lr_chunk_bytes(&shape, 21), 64 + 4 * floats);
    lr_chunk_header *chunk = lr_alloc(64 + 4 * floats);
    assert_non_null(chunk);
    memset(chunk + 1, 5, 4 * floats);
    lr_chunk_seal(chunk, &p, 7, 9, 1, &shape);
    assert_true(chunk->layer == 7 && chunk->sequence == 9 && chunk->index == 1);
    assert_true(chunk->first_token == 32 && chunk->n_tokens == 21);
    assert_int_equal(chunk->payload_bytes, 4 * floats);
    const float *payload = (const float *)(const void *)(chunk + 1);
    assert_ptr_equal(lr_chunk_keys(&shape, chunk, 0), payload);
    assert_ptr_equal(lr_chunk_values(&shape, chunk, 0), payload + 256);
    assert_ptr_equal(lr_chunk_keys(&shape, chunk, 1), payload + 256 + 168);
    assert_ptr_equal(lr_chunk_values(&shape, chunk, 1), payload + 256 + 168 + 256);
    uint64_t checksum = chunk->checksum;
    lr_chunk_seal(chunk, &p, 8, 9, 1, &shape);
    assert_true(chunk->checksum != checksum); /* seeded with the layer */
    lr_free(chunk);
    lr_partition_free(&p);
}

static void test_chunk_sizes_that_do_not_fit_are_seen(void **state)
{
    (void)state;
    const lr_kv_shape heads = {SIZE_MAX / 2, 8, false}, dim = {1, SIZE_MAX / 16, false}, plain = {1, 256, false};
    assert_int_equal(lr_chunk_bytes(&heads, 16), SIZE_MAX);
    assert_int_equal(lr_chunk_bytes(&dim, 16), SIZE_MAX);
    assert_int_equal(lr_chunk_bytes(&plain, UINT64_MAX), SIZE_MAX);
    assert_int_equal(lr_chunk_bytes(&plain, 1024), 64 + 2 * 1024 * 256 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_are_shared_evenly_and_cover_every_token),
        cmocka_unit_test(test_impossible_partitions_are_refused),
        cmocka_unit_test(test_partition_survives_failed_allocations),
        cmocka_unit_test(test_masks_give_the_keys_that_their_definitions_name),
        cmocka_unit_test(test_a_sealed_chunk_says_what_it_is),
        cmocka_unit_test(test_chunk_sizes_that_do_not_fit_are_seen),
    };
    return cmocka_run_group_tests_name("encoder/partition", tests, NULL, NULL);
}
