/* Work memory is taken before the work: how often memory is allocated does not hang on the number of tokens, tiles or
 * chunks, nor on how many frames and samples have gone before. */
#include "tower_case.h"

#include <stdlib.h>

#include <longreel/ring.h>

#define MOST_TOKENS 2000
#define CHUNK 256

static tower_fixture fixture;

static int open_fixture(void **state)
{
    (void)state;
    fixture_open(&fixture, "regular", NULL);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    fixture_close(&fixture);
    return 0;
}

/* ------------------------------------------------------------------ backbone */

typedef struct backbone_case {
    float *x;
    const lr_partition *partition;
    size_t layers;
} backbone_case;

static lr_status run_rank(void *arg, lr_comm *comm, lr_error *err)
{
    const backbone_case *c = arg;
    lr_status st = LR_OK;
    lr_pool *pool = NULL;
    LR_TRY(lr_pool_create(2, &pool, err));
    const lr_backbone_run run = {.comm = comm, .partition = c->partition, .worker = {.pool = pool},
                                 .part = {.layers = c->layers}};
    size_t hidden = lr_model_info_of(fixture.model)->hidden;
    float *rows = c->x + (size_t)lr_partition_first_token(c->partition, comm->rank) * hidden;
    LR_TRY(lr_backbone_forward(fixture.model, &run, rows, NULL, err));
done:
    lr_pool_free(pool);
    return st;
}

/* Allocations of a pass over n tokens through the first `layers` layers (0: all), of all ranks. */
static uint64_t allocations(uint64_t n, size_t layers, int ranks)
{
    lr_error err = {0};
    lr_partition partition;
    size_t hidden = lr_model_info_of(fixture.model)->hidden;
    float *x = calloc((size_t)n * hidden, sizeof *x);
    assert_non_null(x);
    lrt_assert_ok(lr_partition_create(&partition, n, CHUNK, ranks, &err), &err);
    backbone_case c = {.x = x, .partition = &partition, .layers = layers};
    uint64_t before = lr_alloc_count();
    lrt_assert_ok(lr_comm_local_run(ranks, 60, run_rank, &c, &err), &err);
    uint64_t count = lr_alloc_count() - before;
    lr_partition_free(&partition);
    free(x);
    return count;
}

#define A_LAYER 3 /* the lists of its exchange: sends, receives, links */

static void test_the_backbone_allocates_as_often_for_any_number_of_tokens(void **state)
{
    (void)state;
    size_t layers = lr_model_info_of(fixture.model)->n_layers;
    uint64_t one_layer = allocations(5, 1, 1);
    assert_true(one_layer > A_LAYER && layers > 1);
    assert_int_equal(allocations(MOST_TOKENS, 1, 1), one_layer);
    assert_int_equal(allocations(5, 0, 1), one_layer + (layers - 1) * A_LAYER);
    assert_int_equal(allocations(MOST_TOKENS, 0, 1), one_layer + (layers - 1) * A_LAYER);
}

/* A transfer's memory is taken when more are under way than ever before, and used again: at most one for each chunk that
 * a rank sends and receives, however many layers there are. */
static void test_ranks_use_their_transfers_again(void **state)
{
    (void)state;
    enum { RANKS = 3, CHUNKS = (MOST_TOKENS + CHUNK - 1) / CHUNK };
    uint64_t few = allocations(5, 0, RANKS);
    for (int i = 0; i < 3; i++) assert_true(allocations(MOST_TOKENS, 0, RANKS) <= few + RANKS * 2 * CHUNKS);
}

/* ------------------------------------------------------------------ towers */

static void test_frames_after_the_first_allocate_nothing(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_pool *pool = NULL;
    lr_vision *vision = NULL;
    float soft[20 * 48];
    lr_frame frame = {.width = 90, .height = 71, .display_width = 90, .display_height = 71, .stride = 3 * 90};
    frame.rgb = calloc(frame.stride * 71, 1);
    assert_non_null(frame.rgb);
    lrt_assert_ok(lr_pool_create(2, &pool, &err), &err);
    const lr_worker worker = {.pool = pool};
    lrt_assert_ok(lr_vision_create(&vision, fixture.model, 60, 48, &worker, &err), &err);
    lrt_assert_ok(lr_vision_encode(vision, &frame, soft, NULL, &err), &err); /* its size is new */
    uint64_t before = lr_alloc_count();
    for (int i = 0; i < 3; i++) lrt_assert_ok(lr_vision_encode(vision, &frame, soft, NULL, &err), &err);
    assert_int_equal(lr_alloc_count() - before, 0);
    lr_vision_free(vision);
    lr_pool_free(pool);
    free(frame.rgb);
}

static lr_status count_tokens(void *arg, uint64_t first, uint64_t count, const float *soft, lr_error *err)
{
    (void)first;
    (void)soft;
    (void)err;
    *(uint64_t *)arg += count;
    return LR_OK;
}

static void test_sound_allocates_nothing_after_the_start(void **state)
{
    (void)state;
    enum { SAMPLES = 16000 * 30, PIECE = 1600 };
    lr_error err = {0};
    lr_pool *pool = NULL;
    lr_sound_tower *tower = NULL;
    uint64_t tokens = 0;
    float *samples = calloc(PIECE, sizeof *samples);
    assert_non_null(samples);
    lrt_assert_ok(lr_pool_create(2, &pool, &err), &err);
    const lr_worker worker = {.pool = pool};
    lrt_assert_ok(lr_sound_tower_create(&tower, fixture.model, SAMPLES, 0, lr_sound_tokens(SAMPLES), &worker,
                                        count_tokens, &tokens, NULL, &err), &err);
    uint64_t before = lr_alloc_count();
    for (int i = 0; i < SAMPLES / PIECE; i++) lrt_assert_ok(lr_sound_tower_feed(tower, samples, PIECE, &err), &err);
    lrt_assert_ok(lr_sound_tower_finish(tower, &err), &err);
    assert_int_equal(lr_alloc_count() - before, 0);
    assert_int_equal(tokens, lr_sound_tokens(SAMPLES));
    lr_sound_tower_free(tower);
    lr_pool_free(pool);
    free(samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_backbone_allocates_as_often_for_any_number_of_tokens),
        cmocka_unit_test(test_ranks_use_their_transfers_again),
        cmocka_unit_test(test_frames_after_the_first_allocate_nothing),
        cmocka_unit_test(test_sound_allocates_nothing_after_the_start),
    };
    return cmocka_run_group_tests_name("no allocation", tests, open_fixture, close_fixture);
}
