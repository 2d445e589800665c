/* The backbone against the published implementation, stage by stage, and the promise: the same bytes
 * for any number of ranks and threads. */
#include "fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ against the reference */

typedef struct taken {
    size_t hidden, rows, layers;
    float *embeds, *states; /* [rows, hidden], [layers, rows, hidden] */
} taken;

static lr_status take_stage(void *arg, const char *name, int layer, uint64_t first,
                            const lr_tensor *rows, lr_error *err)
{
    taken *t = arg;
    size_t count = t->rows * t->hidden;
    if (first != 0 || rows->n_dims != 2 || rows->dims[0] != t->rows || rows->dims[1] != t->hidden)
        return lr_fail(err, LR_E_INTERNAL, "stage %s has another shape", name);
    if (strcmp(name, "embeds") == 0) memcpy(t->embeds, rows->data, count * sizeof(float));
    if (strcmp(name, "layers") == 0)
        memcpy(t->states + (size_t)layer * count, rows->data, count * sizeof(float));
    return LR_OK;
}

static float *floats(size_t count)
{
    float *block = calloc(count ? count : 1, sizeof *block);
    assert_non_null(block);
    return block;
}

/* last = normed . projection^T, through lr_project, row by row: its direction. */
static void compare_pooled(const fixture *f, const lr_model *model, const char *name,
                           const float *normed, size_t n)
{
    const lr_model_info *info = lr_model_info_of(model);
    lr_error err = {0};
    double *sum = calloc(info->hidden, sizeof *sum);
    float *vector = floats(info->dim);
    assert_non_null(sum);
    lr_model_kernels(model)->sum_rows(sum, normed, info->hidden, n, info->hidden);
    lrt_assert_ok(lr_project(model, sum, n, info->dim, vector, &err), &err);
    fixture_compare(f, name, "pooled", vector);
    const json_t *widths = json_object_get(f->document, "matryoshka"), *width;
    size_t i;
    json_array_foreach(widths, i, width) {
        char key[32];
        size_t dim = (size_t)json_integer_value(width);
        (void)snprintf(key, sizeof key, "pooled_%zu", dim);
        lrt_assert_ok(lr_project(model, sum, n, dim, vector, &err), &err);
        fixture_compare(f, name, key, vector);
    }
    free(sum);
    free(vector);
}

/* The rows that the fixture keeps, of [rows, width] values. */
static float *keep_rows(const lr_tensor *rows, const float *all, size_t width)
{
    float *kept = floats(rows->dims[0] * width);
    const int32_t *numbers = rows->data;
    for (size_t i = 0; i < rows->dims[0]; i++)
        memcpy(kept + i * width, all + (size_t)numbers[i] * width, width * sizeof *kept);
    return kept;
}

/* What enters layer 0: the ids' rows, with the fixture's own soft tokens in the placeholders' place. */
static float *spliced(const fixture *f, const lr_model *model, const char *name)
{
    lr_error err = {0};
    const lr_tensor *ids = fixture_tensor(f, name, "ids");
    const lr_sequence_rules *rules = &lr_model_info_of(model)->rules;
    size_t n = ids->dims[0], hidden = lr_model_info_of(model)->hidden, next = 0;
    float *x = floats(n * hidden);
    lrt_assert_ok(lr_embed_ids(model, ids->data, n, x, &err), &err);
    for (size_t i = 0; i < n; i++) {
        int32_t id = ((const int32_t *)ids->data)[i];
        if (id != rules->image_soft && id != rules->audio_soft) continue;
        const lr_tensor *soft = fixture_tensor(f, name, "soft");
        assert_true(next < soft->dims[0]);
        memcpy(x + i * hidden, (const float *)soft->data + next++ * hidden, hidden * sizeof *x);
    }
    return x;
}

static void compare_rows(const fixture *f, const char *name, const char *stage, const float *all,
                         size_t layers, size_t n, size_t hidden)
{
    const lr_tensor *rows = fixture_tensor(f, name, "rows");
    float *kept = floats(layers * rows->dims[0] * hidden);
    for (size_t i = 0; i < layers; i++) {
        float *one = keep_rows(rows, all + i * n * hidden, hidden);
        memcpy(kept + i * rows->dims[0] * hidden, one, rows->dims[0] * hidden * sizeof *one);
        free(one);
    }
    fixture_compare(f, name, stage, kept);
    free(kept);
}

/* Texts, pictures and sounds: spliced embeddings in, each layer's states out. (Of a video's soft
 * tokens the fixture keeps the first frame's only.) */
static void check_case(const fixture *f, const lr_model *model, const json_t *one)
{
    const lr_model_info *info = lr_model_info_of(model);
    const char *name = fixture_text(one, "name");
    size_t n = fixture_size(one, "n");
    if (strcmp(fixture_text(one, "kind"), "video") == 0) return;
    taken t = {.hidden = info->hidden, .rows = n, .layers = info->n_layers};
    t.embeds = floats(n * t.hidden);
    t.states = floats(t.layers * n * t.hidden);
    float *x = spliced(f, model, name);
    lr_stage_tap tap = {.sink = take_stage, .arg = &t};
    fixture_forward(model, x, n, 64, 1, 2, LR_SCHEDULE_AUTO, NULL, &tap);
    compare_rows(f, name, "embeds", t.embeds, 1, n, t.hidden);
    compare_rows(f, name, "layers", t.states, t.layers, n, t.hidden);
    compare_rows(f, name, "normed", x, 1, n, t.hidden);
    compare_pooled(f, model, name, x, n);
    free(t.embeds);
    free(t.states);
    free(x);
}

static void check_folder(const char *folder, lr_isa isa)
{
    fixture f;
    fixture_open(&f, folder);
    lr_model *model = fixture_model(f.directory, fixture_kernels(isa), false, false);
    size_t i;
    const json_t *one;
    json_array_foreach(f.cases, i, one) check_case(&f, model, one);
    lr_model_close(model);
    fixture_close(&f);
}

static void test_scalar_backbone_equals_the_reference(void **state)
{
    (void)state;
    check_folder("regular", LR_ISA_SCALAR);
    check_folder("odd", LR_ISA_SCALAR);
    check_folder("long", LR_ISA_SCALAR);
    check_folder("textonly", LR_ISA_SCALAR);
}

static void test_fastest_backbone_equals_the_reference(void **state)
{
    (void)state;
    check_folder("regular", LR_ISA_AUTO);
    check_folder("odd", LR_ISA_AUTO);
    check_folder("long", LR_ISA_AUTO);
    check_folder("textonly", LR_ISA_AUTO);
}

static void test_placeholder_ids_give_zero_rows_and_unknown_ids_an_error(void **state)
{
    (void)state;
    lr_error err = {0};
    char *directory = lrt_path(LR_FIXTURES, "odd");
    lr_model *model = fixture_model(directory, fixture_kernels(LR_ISA_AUTO), false, false);
    const lr_model_info *info = lr_model_info_of(model);
    float *row = floats(info->hidden);
    const int32_t soft[] = {info->rules.image_soft, info->rules.video_soft, info->rules.audio_soft};
    for (size_t i = 0; i < 3; i++) {
        row[0] = 1;
        lrt_assert_ok(lr_embed_ids(model, &soft[i], 1, row, &err), &err);
        for (size_t j = 0; j < info->hidden; j++) assert_true(row[j] == 0);
    }
    const int32_t wrong[] = {-1, 757, INT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        if (wrong[i] == soft[0]) continue;
        lr_error_clear(&err);
        assert_int_equal(lr_embed_ids(model, &wrong[i], 1, row, &err), LR_E_MODEL);
        assert_non_null(strstr(err.text, "757"));
    }
    free(row);
    lr_model_close(model);
    free(directory);
}

/* ------------------------------------------------------------------ the promise */

typedef struct promise_case {
    const char *folder;
    uint64_t n, chunk;
} promise_case;

/* Lengths that divide by nothing, fewer chunks than ranks, shards shorter than the window, one token. */
static const promise_case promise_cases[] = {
    {"odd", 1, 16},       {"odd", 37, 16},      {"odd", 389, 16},   {"odd", 389, 64},
    {"odd", 389, 1024},   {"odd", 101, 7},      {"long", 1201, 64}, {"long", 1201, 16},
    {"long", 1201, 1024}, {"long", 1201, 100},
};

static void fill(float *x, size_t count, uint64_t stream)
{
    lrt_random random;
    lrt_random_init(&random, stream);
    lrt_fill_normal(&random, x, count, 1);
}

static void check_promise(const promise_case *p, lr_isa isa)
{
    static const int ranks[] = {1, 2, 3, 5, 8};
    char *directory = lrt_path(LR_FIXTURES, p->folder);
    lr_model *model = fixture_model(directory, fixture_kernels(isa), false, false);
    size_t count = (size_t)p->n * lr_model_info_of(model)->hidden;
    float *input = floats(count), *first = floats(count), *x = floats(count);
    fill(input, count, p->n + p->chunk);
    memcpy(first, input, count * sizeof *x);
    fixture_forward(model, first, p->n, p->chunk, 1, 1, LR_SCHEDULE_AUTO, NULL, NULL);
    for (size_t i = 0; i < count; i++) assert_true(isfinite(first[i]));
    for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++)
        for (size_t threads = 1; threads <= 3; threads++) {
            memcpy(x, input, count * sizeof *x);
            fixture_forward(model, x, p->n, p->chunk, ranks[r], threads, LR_SCHEDULE_AUTO, NULL, NULL);
            if (memcmp(x, first, count * sizeof *x) != 0)
                fail_msg("%s: n %llu, chunk %llu: %d ranks x %zu threads give other bytes", p->folder,
                         (unsigned long long)p->n, (unsigned long long)p->chunk, ranks[r], threads);
        }
    free(input);
    free(first);
    free(x);
    lr_model_close(model);
    free(directory);
}

static void test_bytes_are_equal_for_any_ranks_and_threads(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof promise_cases / sizeof promise_cases[0]; i++)
        check_promise(&promise_cases[i], LR_ISA_AUTO);
}

static void test_bytes_are_equal_for_the_scalar_table_too(void **state)
{
    (void)state;
    check_promise(&promise_cases[3], LR_ISA_SCALAR);
}

static void test_bytes_are_equal_for_every_schedule(void **state)
{
    static const lr_schedule schedules[] = {LR_SCHEDULE_RING, LR_SCHEDULE_ALL_GATHER,
                                            LR_SCHEDULE_HALO, LR_SCHEDULE_TWO_LEVEL};
    (void)state;
    const uint64_t n = 389;
    char *directory = lrt_path(LR_FIXTURES, "odd");
    lr_model *model = fixture_model(directory, fixture_kernels(LR_ISA_AUTO), false, false);
    size_t count = (size_t)n * lr_model_info_of(model)->hidden;
    float *first = floats(count), *x = floats(count);
    fill(first, count, 7);
    fixture_forward(model, first, n, 16, 1, 1, LR_SCHEDULE_AUTO, NULL, NULL);
    for (size_t i = 0; i < 4; i++) {
        fill(x, count, 7);
        fixture_forward(model, x, n, 16, 5, 1, schedules[i], NULL, NULL);
        assert_memory_equal(x, first, count * sizeof *x);
    }
    free(first);
    free(x);
    lr_model_close(model);
    free(directory);
}

/* Another chunk is another order of additions: near, but not these bytes. */
static void test_the_chunk_changes_no_more_than_rounding(void **state)
{
    (void)state;
    const uint64_t n = 1201;
    char *directory = lrt_path(LR_FIXTURES, "long");
    lr_model *model = fixture_model(directory, fixture_kernels(LR_ISA_AUTO), false, false);
    size_t count = (size_t)n * lr_model_info_of(model)->hidden;
    float *a = floats(count), *b = floats(count);
    double difference = 0, size = 0;
    fill(a, count, 1);
    memcpy(b, a, count * sizeof *a);
    fixture_forward(model, a, n, 1024, 1, 1, LR_SCHEDULE_AUTO, NULL, NULL);
    fixture_forward(model, b, n, 16, 1, 1, LR_SCHEDULE_AUTO, NULL, NULL);
    for (size_t i = 0; i < count; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)a[i] * (double)a[i];
    }
    /* Hidden states of tiny fp32 models: 1.3e-5 relative rms from run to run of the reference. */
    assert_true(sqrt(difference / size) < 1.3e-5);
    free(a);
    free(b);
    lr_model_close(model);
    free(directory);
}

/* ------------------------------------------------------------------ shared work and memory */

static void add(lr_ring_stats *sum, const lr_ring_stats *one)
{
    sum->chunks_seen += one->chunks_seen;
    sum->keys_seen += one->keys_seen;
    sum->chunks_sent += one->chunks_sent;
    sum->bytes_sent += one->bytes_sent;
    sum->chunks_passed += one->chunks_passed;
}

/* The layers of the fixture `odd` as its config.json states them: window 7, pattern 3, last one full. */
static void expected_of_rank(const lr_partition *partition, int rank, lr_ring_stats *sum)
{
    *sum = (lr_ring_stats){0};
    for (int layer = 0; layer < 7; layer++) {
        bool full = (layer + 1) % 3 == 0 || layer == 6;
        lr_mask mask = {.kind = full ? LR_MASK_FULL : LR_MASK_WINDOW, .radius = 7};
        lr_kv_shape shape = {.n_kv_heads = full ? 1 : 3, .head_dim = full ? 20 : 12};
        lr_ring_stats one = {0};
        lr_exchange_expect(partition, &shape, &mask, LR_SCHEDULE_AUTO, 0, rank, &one);
        add(sum, &one);
    }
}

static void test_each_rank_does_its_share_and_sends_what_the_formula_says(void **state)
{
    static const int ranks[] = {1, 2, 3, 5, 8};
    (void)state;
    const uint64_t n = 389, chunk = 16;
    char *directory = lrt_path(LR_FIXTURES, "odd");
    lr_model *model = fixture_model(directory, fixture_kernels(LR_ISA_AUTO), false, false);
    size_t count = (size_t)n * lr_model_info_of(model)->hidden;
    float *x = floats(count);
    for (size_t i = 0; i < 5; i++) {
        lr_error err = {0};
        lr_backbone_stats stats[8] = {0};
        lr_partition partition;
        lrt_assert_ok(lr_partition_create(&partition, n, chunk, ranks[i], &err), &err);
        fill(x, count, 1);
        fixture_forward(model, x, n, chunk, ranks[i], 2, LR_SCHEDULE_AUTO, stats, NULL);
        for (int r = 0; r < ranks[i]; r++) {
            lr_ring_stats expected;
            uint64_t tokens = lr_partition_end_token(&partition, r) -
                              lr_partition_first_token(&partition, r);
            expected_of_rank(&partition, r, &expected);
            assert_int_equal(stats[r].query_rows, 7 * tokens);
            assert_int_equal(stats[r].ring.chunks_seen, expected.chunks_seen);
            assert_int_equal(stats[r].ring.keys_seen, expected.keys_seen);
            assert_int_equal(stats[r].ring.chunks_sent, expected.chunks_sent);
            assert_int_equal(stats[r].ring.bytes_sent, expected.bytes_sent);
            assert_int_equal(stats[r].ring.chunks_passed, expected.chunks_passed);
            size_t planned = 0;
            lrt_assert_ok(lr_backbone_memory(model, &(lr_backbone_run){.partition = &partition}, r, 2, &planned, &err), &err);
            assert_true(stats[r].arena_bytes <= planned);
        }
        lr_partition_free(&partition);
    }
    free(x);
    lr_model_close(model);
    free(directory);
}

/* Of a token a rank keeps its embedding and, of one layer, K and V; on a ring also q and o: all fp32.
 * What grows by the chunk: a 64-byte header, a pointer and the list of its tiles. */
static void test_memory_is_linear_and_as_planned(void **state)
{
    (void)state;
    char *directory = lrt_path(LR_FIXTURES, "long");
    lr_model *model = fixture_model(directory, fixture_kernels(LR_ISA_AUTO), false, false);
    const size_t token = 32 + 2 * 2 * 16, ring = 2 * 4 * 32 + 2 * 4; /* floats */
    for (int ranks = 1; ranks <= 4; ranks += 3) {
        size_t bytes[2];
        for (size_t i = 0; i < 2; i++) {
            lr_error err = {0};
            lr_partition partition;
            const uint64_t n = i == 0 ? 65536 : 262144;
            lrt_assert_ok(lr_partition_create(&partition, n, 1024, ranks, &err), &err);
            lrt_assert_ok(lr_backbone_memory(model, &(lr_backbone_run){.partition = &partition}, 0, 2, &bytes[i], &err), &err);
            lr_partition_free(&partition);
        }
        double share = (double)(bytes[1] - bytes[0]) / ((262144 - 65536) / (double)ranks);
        double exact = 4 * (double)(ranks == 1 ? token : token + ring);
        assert_true(share >= exact && share < exact + 1);
    }
    lr_model_close(model);
    free(directory);
}

typedef struct failing_run {
    const lr_model *model;
    float *x;
    lr_partition *partition;
    lr_comm *comm;
} failing_run;

static lr_status forward_once(void *arg, lr_error *err)
{
    failing_run *r = arg;
    lr_backbone_run run = {.comm = r->comm, .partition = r->partition};
    fill(r->x, (size_t)r->partition->n_tokens * lr_model_info_of(r->model)->hidden, 1);
    return lr_backbone_forward(r->model, &run, r->x, NULL, err);
}

static void test_forward_survives_each_failed_allocation(void **state)
{
    (void)state;
    lr_error err = {0};
    char *directory = lrt_path(LR_FIXTURES, "textonly");
    failing_run r = {0};
    lr_partition partition;
    lr_model *model = fixture_model(directory, fixture_kernels(LR_ISA_AUTO), false, false);
    lrt_assert_ok(lr_partition_create(&partition, 50, 16, 1, &err), &err);
    lrt_assert_ok(lr_comm_local_create(1, 0, &r.comm, &err), &err);
    r.model = model;
    r.partition = &partition;
    r.x = floats(50 * lr_model_info_of(model)->hidden);
    assert_true(lrt_fail_each_allocation(forward_once, &r) > 0);
    free(r.x);
    lr_comm_free(r.comm);
    lr_partition_free(&partition);
    lr_model_close(model);
    free(directory);
}

/* ------------------------------------------------------------------ going on */

/* What one run puts away, the other takes up: [layers, tokens, hidden] of the whole sequence. */
typedef struct kept_states {
    const lr_model *model;
    const lr_partition *partition;
    float *x, *states;
    bool *saved;        /* [layers] */
    size_t first_layer; /* of the next run */
    uint64_t query_rows[8];
} kept_states;

typedef struct kept_rank {
    kept_states *kept;
    int rank;
} kept_rank;

static float *state_of(const kept_rank *r, size_t layer, size_t *floats_of_rank)
{
    const lr_partition *p = r->kept->partition;
    size_t hidden = lr_model_info_of(r->kept->model)->hidden;
    uint64_t first = lr_partition_first_token(p, r->rank), end = lr_partition_end_token(p, r->rank);
    *floats_of_rank = (size_t)(end - first) * hidden;
    return r->kept->states + ((size_t)p->n_tokens * layer + (size_t)first) * hidden;
}

static lr_status save_state(void *arg, size_t layer, const float *h, lr_error *err)
{
    (void)err;
    kept_rank *r = arg;
    size_t count;
    float *place = state_of(r, layer, &count);
    memcpy(place, h, count * sizeof *h);
    if (r->rank == 0) r->kept->saved[layer] = true;
    return LR_OK;
}

static lr_status load_state(void *arg, size_t layer, float *h, lr_error *err)
{
    kept_rank *r = arg;
    size_t count;
    const float *place = state_of(r, layer, &count);
    if (layer + 1 != r->kept->first_layer) return lr_fail(err, LR_E_INTERNAL, "another layer was asked for");
    memcpy(h, place, count * sizeof *h);
    return LR_OK;
}

static lr_status kept_body(void *arg, lr_comm *comm, lr_error *err)
{
    kept_states *k = arg;
    kept_rank rank = {.kept = k, .rank = comm->rank};
    lr_backbone_stats stats = {0};
    size_t hidden = lr_model_info_of(k->model)->hidden;
    float *rows = k->x + (size_t)lr_partition_first_token(k->partition, comm->rank) * hidden;
    lr_backbone_run run = {.comm = comm, .partition = k->partition,
                           .state = {.first_layer = k->first_layer, .load = load_state,
                                     .save = k->first_layer ? NULL : save_state, .arg = &rank}};
    lr_status st = lr_backbone_forward(k->model, &run, rows, &stats, err);
    k->query_rows[comm->rank] = stats.query_rows;
    return st;
}

/* Runs on `ranks` from k->first_layer on; the tokens' final states come to k->x. */
static void run_kept(kept_states *k, const float *input, uint64_t n, int ranks)
{
    lr_error err = {0};
    lr_partition partition;
    uint64_t rows = 0;
    lrt_assert_ok(lr_partition_create(&partition, n, 64, ranks, &err), &err);
    k->partition = &partition;
    memcpy(k->x, input, (size_t)n * lr_model_info_of(k->model)->hidden * sizeof *input);
    lrt_assert_ok(lr_comm_local_run(ranks, 60, kept_body, k, &err), &err);
    for (int r = 0; r < ranks; r++) rows += k->query_rows[r];
    assert_int_equal(rows, n * (lr_model_info_of(k->model)->n_layers - k->first_layer));
    lr_partition_free(&partition);
}

static void test_a_pass_goes_on_from_a_full_layer_with_any_ranks(void **state)
{
    (void)state;
    const uint64_t n = 700;
    char *directory = lrt_path(LR_FIXTURES, "long"); /* layers 1 and 3 see all, 0 and 2 a window */
    lr_model *model = fixture_model(directory, fixture_kernels(LR_ISA_AUTO), false, false);
    size_t hidden = lr_model_info_of(model)->hidden, count = (size_t)n * hidden;
    bool saved[4] = {false};
    kept_states k = {.model = model, .saved = saved};
    assert_int_equal(lr_model_info_of(model)->n_layers, 4);
    float *input = floats(count), *whole = floats(count);
    k.x = floats(count);
    k.states = floats(4 * count);
    fill(input, count, 71);
    run_kept(&k, input, n, 2);
    memcpy(whole, k.x, count * sizeof *whole);
    assert_true(!saved[0] && saved[1] && !saved[2] && saved[3]);
    for (int ranks = 1; ranks <= 5; ranks += 2)
        for (size_t first = 2; first <= 4; first += 2) {
            k.first_layer = first;
            run_kept(&k, input, n, ranks);
            if (memcmp(k.x, whole, count * sizeof *whole) != 0)
                fail_msg("%d ranks from layer %zu on give other bytes", ranks, first);
        }
    free(input);
    free(whole);
    free(k.x);
    free(k.states);
    lr_model_close(model);
    free(directory);
}

/* ------------------------------------------------------------------ stopping */

static void test_a_cancelled_run_stops(void **state)
{
    (void)state;
    lr_error err = {0};
    char *directory = lrt_path(LR_FIXTURES, "textonly");
    lr_comm *comm = NULL;
    lr_partition partition;
    lr_cancel cancel;
    atomic_init(&cancel, 1);
    lr_model *model = fixture_model(directory, fixture_kernels(LR_ISA_AUTO), false, false);
    lrt_assert_ok(lr_partition_create(&partition, 50, 16, 1, &err), &err);
    lrt_assert_ok(lr_comm_local_create(1, 0, &comm, &err), &err);
    float *x = floats(50 * lr_model_info_of(model)->hidden);
    lr_backbone_run run = {.comm = comm, .partition = &partition, .worker = {.cancel = &cancel}};
    assert_int_equal(lr_backbone_forward(model, &run, x, NULL, &err), LR_E_INTERRUPTED);
    free(x);
    lr_comm_free(comm);
    lr_partition_free(&partition);
    lr_model_close(model);
    free(directory);
}

static void test_a_vector_that_is_zero_or_not_finite_is_an_error(void **state)
{
    (void)state;
    lr_error err = {0};
    char *directory = lrt_path(LR_FIXTURES, "textonly");
    lr_model *model = fixture_model(directory, fixture_kernels(LR_ISA_AUTO), false, false);
    const lr_model_info *info = lr_model_info_of(model);
    double *sum = calloc(info->hidden, sizeof *sum);
    float *vector = floats(info->dim);
    assert_non_null(sum);
    assert_int_equal(lr_project(model, sum, 3, info->dim, vector, &err), LR_E_MODEL);
    lr_error_clear(&err);
    sum[0] = NAN;
    assert_int_equal(lr_project(model, sum, 3, info->dim, vector, &err), LR_E_MODEL);
    lr_error_clear(&err);
    assert_int_equal(lr_project(model, sum, 3, info->dim + 1, vector, &err), LR_E_USAGE);
    free(sum);
    free(vector);
    lr_model_close(model);
    free(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar_backbone_equals_the_reference),
        cmocka_unit_test(test_fastest_backbone_equals_the_reference),
        cmocka_unit_test(test_placeholder_ids_give_zero_rows_and_unknown_ids_an_error),
        cmocka_unit_test(test_bytes_are_equal_for_any_ranks_and_threads),
        cmocka_unit_test(test_bytes_are_equal_for_the_scalar_table_too),
        cmocka_unit_test(test_bytes_are_equal_for_every_schedule),
        cmocka_unit_test(test_the_chunk_changes_no_more_than_rounding),
        cmocka_unit_test(test_each_rank_does_its_share_and_sends_what_the_formula_says),
        cmocka_unit_test(test_memory_is_linear_and_as_planned),
        cmocka_unit_test(test_forward_survives_each_failed_allocation),
        cmocka_unit_test(test_a_pass_goes_on_from_a_full_layer_with_any_ranks),
        cmocka_unit_test(test_a_cancelled_run_stops),
        cmocka_unit_test(test_a_vector_that_is_zero_or_not_finite_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
