/* The ranks really share the work: each did its part, and sent what the formulas say. */
#include "pipeline_case.h"

#include <stdio.h>
#include <stdlib.h>

#include <longreel/ring.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* The layers of tests/fixtures/regular, from its config.json. */
typedef struct layer {
    lr_mask mask;
    lr_kv_shape shape;
} layer;
static const layer sliding = {{LR_MASK_WINDOW, 16}, {2, 16, false}};
static const layer full = {{LR_MASK_FULL, 0}, {1, 32, false}};
#define N_LAYERS 6

static const layer *layer_of(size_t i)
{
    return i + 1 < N_LAYERS ? &sliding : &full;
}

typedef struct world {
    char *directory, *clip;
    lr_model *model;
    lr_schedule schedule; /* of the run at hand, in full layers */
} world;
static world here;

static int set_up(void **state)
{
    (void)state;
    const case_clip clip = {"clip.mkv", 32, 18, {4, 1}, 41, 171717};
    here.directory = lrt_temp_dir();
    here.clip = case_make_clip(here.directory, &clip);
    here.model = case_model("regular", LR_ISA_AUTO, LR_GEMM_AUTO);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lr_model_close(here.model);
    free(here.clip);
    lrt_remove_temp_dir(here.directory);
    return 0;
}

/* ------------------------------------------------------------------ what a rank must have done */

typedef struct wanted {
    uint64_t rows, frames, chunks_seen, keys_seen, chunks_sent, bytes_sent, chunks_passed;
} wanted;

/* Does a query of `rank` see a key of the chunk? */
static bool sees(const lr_partition *p, int rank, uint64_t chunk, const lr_mask *mask)
{
    uint64_t a = lr_partition_first_token(p, rank), b = lr_partition_end_token(p, rank);
    uint64_t first = chunk * p->chunk, end = first + lr_partition_chunk_tokens(p, chunk);
    if (a == b) return false;
    if (mask->kind == LR_MASK_FULL) return true;
    return first < b + mask->radius && a < end + mask->radius;
}

/* Chunks sent, from the description in ring.h, without the routes of the encoder. */
static uint64_t chunks_sent(const lr_partition *p, int rank, const lr_mask *mask)
{
    int ranks = p->n_ranks, next = (rank + 1) % ranks;
    bool ring = mask->kind == LR_MASK_FULL && here.schedule == LR_SCHEDULE_RING;
    uint64_t sent = 0;
    if (ranks == 1) return 0;
    for (uint64_t c = 0; c < p->n_chunks; c++) {
        if (ring) {
            bool goes_on = false; /* to one that needs it, before it comes back to its owner */
            for (int r = next; r != lr_partition_owner(p, c); r = (r + 1) % ranks) {
                goes_on = goes_on || sees(p, r, c, mask);
            }
            sent += goes_on;
        } else if (lr_partition_owner(p, c) == rank) {
            for (int r = 0; r < ranks; r++) sent += r != rank && sees(p, r, c, mask);
        }
    }
    return sent;
}

static void add_layer(wanted *w, const lr_partition *p, int rank, const layer *l)
{
    lr_ring_stats expected = {0};
    lr_schedule schedule = l->mask.kind == LR_MASK_WINDOW ? LR_SCHEDULE_HALO : here.schedule;
    lr_exchange_expect(p, &l->shape, &l->mask, schedule, 0, rank, &expected);
    assert_int_equal(expected.chunks_sent, chunks_sent(p, rank, &l->mask));
    w->rows += lr_partition_end_token(p, rank) - lr_partition_first_token(p, rank);
    w->chunks_seen += expected.chunks_seen;
    w->keys_seen += expected.keys_seen;
    w->chunks_sent += expected.chunks_sent;
    w->bytes_sent += expected.bytes_sent;
    w->chunks_passed += expected.chunks_passed;
}

/* Frames with a soft token in [first, end): runs of the placeholder are frames. */
static uint64_t frames_in(const case_set *set, uint64_t first, uint64_t end)
{
    int32_t soft = lr_model_info_of(here.model)->rules.video_soft;
    uint64_t frames = 0;
    for (uint64_t i = first; i < end; i++)
        frames += set->ids[i] == soft && (i == first || set->ids[i - 1] != soft);
    return frames;
}

/* Windows of the sequence begin with <bos>. */
static uint64_t window_end(const case_set *set, uint64_t first)
{
    int32_t bos = lr_model_info_of(here.model)->rules.bos;
    uint64_t end = first + 1;
    while (end < set->n && set->ids[end] != bos) end++;
    return end;
}

static void check_rank(const struct lr_rank_work *got, const case_set *set, const lr_encode_options *o,
                       int rank)
{
    wanted w = {0};
    uint64_t first_token = 0, end_token = 0;
    for (uint64_t first = 0, end; first < set->n; first = end) {
        lr_error err = {0};
        lr_partition p;
        end = window_end(set, first);
        lrt_assert_ok(lr_partition_create(&p, end - first, o->chunk, o->ranks, &err), &err);
        for (size_t i = 0; i < N_LAYERS; i++) add_layer(&w, &p, rank, layer_of(i));
        uint64_t a = first + lr_partition_first_token(&p, rank);
        end_token = first + lr_partition_end_token(&p, rank);
        if (first == 0) first_token = a;
        w.frames += frames_in(set, a, end_token);
        lr_partition_free(&p);
    }
    assert_int_equal(got->first_token, first_token);
    assert_int_equal(got->end_token, end_token);
    assert_int_equal(got->frames_encoded, w.frames);
    assert_int_equal(got->backbone.query_rows, w.rows);
    assert_int_equal(got->backbone.ring.chunks_seen, w.chunks_seen);
    assert_int_equal(got->backbone.ring.keys_seen, w.keys_seen);
    assert_int_equal(got->backbone.ring.chunks_sent, w.chunks_sent);
    assert_int_equal(got->backbone.ring.bytes_sent, w.bytes_sent);
    assert_int_equal(got->backbone.ring.chunks_passed, w.chunks_passed);
}

static lr_encode_options plain_options(int ranks, uint64_t chunk)
{
    lr_encode_options o = lr_encode_defaults();
    o.ranks = ranks;
    o.threads = 1;
    o.chunk = chunk;
    o.schedule = ranks % 2 == 0 ? LR_SCHEDULE_RING : LR_SCHEDULE_ALL_GATHER;
    o.save_tokens = o.force = true;
    return o;
}

/* Encodes and checks every rank; fills *total with the sums. */
static void check_run(const lr_encode_options *options, wanted *total)
{
    lr_encode_result result;
    case_set set;
    char *path = lrt_path(here.directory, "set");
    here.schedule = options->schedule;
    case_encode(here.model, here.clip, path, options, &result);
    case_open_set(&set, path);
    *total = (wanted){0};
    assert_int_equal(result.ranks, options->ranks);
    assert_int_equal(result.tokens, set.n);
    assert_int_equal(result.frames, set.info->n_frames);
    assert_int_equal(result.segments, set.info->n_segments);
    for (int r = 0; r < options->ranks; r++) {
        check_rank(&result.work[r], &set, options, r);
        total->rows += result.work[r].backbone.query_rows;
        total->frames += result.work[r].frames_encoded;
        total->keys_seen += result.work[r].backbone.ring.keys_seen;
        total->bytes_sent += result.work[r].backbone.ring.bytes_sent;
    }
    assert_int_equal(total->rows, set.n * N_LAYERS);
    assert_true(total->frames >= result.frames);
    case_close_set(&set);
    lr_encode_result_free(&result);
    free(path);
}

/* ------------------------------------------------------------------ tests */

static void test_each_rank_does_and_sends_what_the_formulas_say(void **state)
{
    (void)state;
    static const int ranks[] = {1, 2, 3, 5, 8};
    static const uint64_t chunks[] = {16, 64, 1024};
    for (size_t i = 0; i < COUNT(ranks); i++)
        for (size_t j = 0; j < COUNT(chunks); j++) {
            wanted total;
            if (CASE_SANITIZED && (i + j) % 3 != 0) continue;
            lr_encode_options options = plain_options(ranks[i], chunks[j]);
            check_run(&options, &total);
            if (ranks[i] == 1) {
                assert_int_equal(total.frames, 10);
                assert_int_equal(total.bytes_sent, 0);
            } else {
                assert_true(total.frames < 10 + (uint64_t)ranks[i]); /* at most one more a border */
            }
            if (ranks[i] > 1 && chunks[j] < 1024) assert_true(total.bytes_sent > 0);
        }
}

static void test_no_rank_does_the_work_of_another(void **state)
{
    (void)state;
    lr_encode_result result;
    lr_encode_options options = plain_options(8, 16);
    char *path = lrt_path(here.directory, "set");
    case_encode(here.model, here.clip, path, &options, &result);
    for (int r = 0; r < 8; r++) {
        uint64_t tokens = result.work[r].end_token - result.work[r].first_token;
        assert_int_equal(result.work[r].first_token, r ? result.work[r - 1].end_token : 0);
        assert_true(tokens * 8 <= result.tokens + 8 * 16); /* as even as whole chunks can be */
        assert_true(tokens * 8 + 8 * 16 >= result.tokens);
    }
    assert_int_equal(result.work[7].end_token, result.tokens);
    lr_encode_result_free(&result);
    free(path);
}

static void test_windows_are_shared_one_by_one(void **state)
{
    (void)state;
    static const int ranks[] = {1, 3, 8};
    for (size_t i = 0; i < COUNT(ranks); i++) {
        wanted total;
        lr_encode_options options = plain_options(ranks[i], 16);
        options.context = 300;
        check_run(&options, &total);
    }
}

static void test_ranks_without_tokens_do_nothing(void **state)
{
    (void)state;
    lr_encode_result result;
    lr_encode_options options = plain_options(8, 1024);
    char *path = lrt_path(here.directory, "set");
    case_encode(here.model, here.clip, path, &options, &result);
    assert_true(result.tokens > 1024 && result.tokens <= 2048);
    for (int r = 2; r < 8; r++) {
        assert_int_equal(result.work[r].first_token, result.work[r].end_token);
        assert_int_equal(result.work[r].backbone.query_rows, 0);
        assert_int_equal(result.work[r].frames_encoded, 0);
        assert_int_equal(result.work[r].backbone.ring.keys_seen, 0);
    }
    lr_encode_result_free(&result);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_rank_does_and_sends_what_the_formulas_say),
        cmocka_unit_test(test_no_rank_does_the_work_of_another),
        cmocka_unit_test(test_windows_are_shared_one_by_one),
        cmocka_unit_test(test_ranks_without_tokens_do_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
