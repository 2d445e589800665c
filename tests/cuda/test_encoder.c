/* The encoder's forward pass on a device: against the CPU stage by stage, and the promise: the same bytes for any
 * number of ranks, and wherever batches of rows and groups of chunks are cut. */
#include "../encoder/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ sequences */

static float *floats(size_t count)
{
    float *block = calloc(count ? count : 1, sizeof *block);
    assert_non_null(block);
    return block;
}

/* The embeddings of a text of the fixture: its first n ids. */
static float *embedded(const fixture *f, const lr_model *model, const char *name, size_t n)
{
    lr_error err = {0};
    const lr_tensor *ids = fixture_tensor(f, name, "ids");
    size_t hidden = lr_model_info_of(model)->hidden;
    float *x = floats(n * hidden);
    assert_true(ids->dims[0] >= n);
    lrt_assert_ok(lr_embed_ids(model, ids->data, n, x, &err), &err);
    return x;
}

typedef struct stages {
    size_t rows, hidden, layers;
    float *states; /* [layers, rows, hidden] */
} stages;

static lr_status take_stage(void *arg, const char *name, int layer, uint64_t first, const lr_tensor *rows,
                            lr_error *err)
{
    stages *s = arg;
    size_t count = s->rows * s->hidden;
    if (first != 0 || rows->dims[0] != s->rows || rows->dims[1] != s->hidden)
        return lr_fail(err, LR_E_INTERNAL, "stage %s has another shape", name);
    if (strcmp(name, "layers") == 0) memcpy(s->states + (size_t)layer * count, rows->data, count * sizeof(float));
    return LR_OK;
}

/* ------------------------------------------------------------------ against the CPU */

static double relative_rms(const float *got, const float *want, size_t count)
{
    double difference = 0, truth = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)got[i] - (double)want[i];
        if (!isfinite(d)) fail_msg("value %zu is %g, and %g on the CPU", i, (double)got[i], (double)want[i]);
        difference += d * d;
        truth += (double)want[i] * (double)want[i];
    }
    return sqrt(difference / truth);
}

/* How far a layer's output may lie from the CPU's, in relative rms. Operands of products are rounded to bf16, all
 * else is fp32, whose roundings do not count here. A rounding to 8 bits is off by at most u = 2^-8 of the value, by
 * 0.42 u in rms (uniform within half a unit of the last place, which is 0.5 to 1 u of values that are spread evenly).
 * In a row: norm, q, k, the weights p, v and what was attended: six in the attention branch; two in the MLP; three
 * in the per-layer input: they add in squares to at most sqrt(11) * 0.42 u = 1.4 u of the whole, for each of the three
 * branches is normed before it is added. Where the checkpoint is not bf16 its matrices are rounded too, not more of
 * them than there are other roundings: another sqrt(2). Layers add up as if all were off to the same side. Twice that
 * is allowed. */
static double allowed(size_t layers, bool weights_rounded)
{
    return 2 * (double)layers * 1.4 * 0x1p-8 * (weights_rounded ? sqrt(2) : 1);
}

static void compare_folder(const char *folder, const char *name, size_t n, uint64_t chunk, bool weights_rounded)
{
    fixture f;
    fixture_open(&f, folder);
    lr_model *cpu = fixture_model(f.directory, fixture_kernels(LR_ISA_AUTO), false, false);
    lr_model *device = fixture_device_model(f.directory, fixture_kernels(LR_ISA_AUTO));
    const lr_model_info *info = lr_model_info_of(cpu);
    size_t count = n * info->hidden;
    stages on_cpu = {.rows = n, .hidden = info->hidden, .states = floats(info->n_layers * count)};
    stages on_device = {.rows = n, .hidden = info->hidden, .states = floats(info->n_layers * count)};
    lr_stage_tap cpu_tap = {take_stage, &on_cpu}, device_tap = {take_stage, &on_device};
    float *x = embedded(&f, cpu, name, n), *y = embedded(&f, device, name, n);
    fixture_forward(cpu, x, n, chunk, 1, 1, LR_SCHEDULE_AUTO, NULL, &cpu_tap);
    fixture_forward_on_device(device, y, n, chunk, 1, 0, 0, NULL, &device_tap);
    for (size_t i = 0; i <= info->n_layers; i++) {
        bool last = i == info->n_layers;
        const float *got = last ? y : on_device.states + i * count, *want = last ? x : on_cpu.states + i * count;
        double seen = relative_rms(got, want, count), most = allowed(last ? i : i + 1, weights_rounded);
        if (getenv("LR_SHOW")) printf("%s, stage %zu: %.2e of %.2e\n", folder, i, seen, most);
        if (seen > most) fail_msg("%s, stage %zu: off by %.3g in relative rms, at most %.3g", folder, i, seen, most);
        assert_true(seen > 0); /* it was not the CPU that ran */
    }
    free(on_cpu.states);
    free(on_device.states);
    free(x);
    free(y);
    lr_model_close(device);
    lr_model_close(cpu);
    fixture_close(&f);
}

static void test_layers_equal_the_cpus_within_bf16(void **state)
{
    (void)state;
    compare_folder("textonly", "text2", 28, 8, false); /* bf16 */
    compare_folder("regular", "text5", 56, 16, true);  /* f32 */
    compare_folder("long", "text2", 26, 16, true);     /* f16 */
}

/* A made checkpoint of V-JEPA 2, bf16: heads of 32, of which t, row and column turn 10 values each. */
typedef struct places_model {
    char *directory;
    lr_model *cpu, *device;
} places_model;

static places_model open_places_model(void)
{
    lr_error err = {0};
    places_model m = {.directory = lrt_temp_dir()};
    char *directory = lrt_path(m.directory, "made");
    lrt_assert_ok(lr_make_model(directory, "vjepa2", LR_MADE_SMALL, 5, &err), &err);
    m.cpu = fixture_model(directory, fixture_kernels(LR_ISA_AUTO), false, false);
    m.device = fixture_device_model(directory, fixture_kernels(LR_ISA_AUTO));
    free(directory);
    return m;
}

static void close_places_model(places_model *m)
{
    lr_model_close(m->device);
    lr_model_close(m->cpu);
    lrt_remove_temp_dir(m->directory);
}

/* LayerNorm makes tokens of one size of them, whatever size these have. */
static float *random_tokens(const lr_model *model, size_t n)
{
    lrt_random random;
    size_t count = n * lr_model_info_of(model)->hidden;
    float *x = floats(count);
    lrt_random_init(&random, n);
    lrt_fill_normal(&random, x, count, 1);
    return x;
}

/* What the layers added: states [layers, count] become differences, of the input x [count] first. */
static void leave_updates(stages *s, const float *x)
{
    size_t count = s->rows * s->hidden;
    for (size_t i = s->layers; i-- > 0;)
        for (size_t j = 0; j < count; j++)
            s->states[i * count + j] -= i > 0 ? s->states[(i - 1) * count + j] : x[j];
}

/* What a layer adds to the stream is compared, for both branches are smaller than the stream, attention most of all:
 * in the whole, positions that are wrong would hide. Roundings as above: six in the attention branch, two in the MLP,
 * in squares at most sqrt(8) * 0.42 u = 1.2 u of the sum of both; what came before a layer adds as much again for each
 * layer. Twice that is allowed. */
static void test_layers_with_places_equal_the_cpus_within_bf16(void **state)
{
    (void)state;
    const size_t n = 88; /* five tubelets of 4 x 4 patches and a half */
    places_model m = open_places_model();
    const lr_model_info *info = lr_model_info_of(m.cpu);
    size_t count = n * info->hidden;
    stages on_cpu = {.rows = n, .hidden = info->hidden, .layers = info->n_layers};
    stages on_device = on_cpu;
    on_cpu.states = floats(info->n_layers * count);
    on_device.states = floats(info->n_layers * count);
    lr_stage_tap cpu_tap = {take_stage, &on_cpu}, device_tap = {take_stage, &on_device};
    float *input = random_tokens(m.cpu, n), *x = random_tokens(m.cpu, n), *y = random_tokens(m.cpu, n);
    fixture_forward(m.cpu, x, n, 16, 1, 1, LR_SCHEDULE_AUTO, NULL, &cpu_tap);
    fixture_forward_on_device(m.device, y, n, 16, 1, 0, 0, NULL, &device_tap);
    leave_updates(&on_cpu, input);
    leave_updates(&on_device, input);
    for (size_t i = 0; i < info->n_layers; i++) {
        double seen = relative_rms(on_device.states + i * count, on_cpu.states + i * count, count);
        double most = 2 * (double)(i + 1) * 1.2 * 0x1p-8;
        if (getenv("LR_SHOW")) printf("vjepa2, layer %zu: %.2e of %.2e\n", i, seen, most);
        if (seen > most) fail_msg("layer %zu: off by %.3g in relative rms, at most %.3g", i, seen, most);
        assert_true(seen > 0); /* it was not the CPU that ran */
    }
    double seen = relative_rms(y, x, count), most = allowed(info->n_layers, false);
    if (seen > most) fail_msg("normed: off by %.3g in relative rms, at most %.3g", seen, most);
    free(on_cpu.states);
    free(on_device.states);
    free(input);
    free(x);
    free(y);
    close_places_model(&m);
}

/* ------------------------------------------------------------------ the same bytes */

/* n: ten chunks, the last one shorter. input: x [n, hidden], left as it is. */
static void check_promise(const lr_model *model, const float *input, size_t n)
{
    const uint64_t chunk = 16;
    static const struct {
        int ranks;
        size_t rows, chunks;
    } ways[] = {{1, 37, 0}, {2, 0, 0}, {2, 50, 1}, {3, 64, 2}};
    lr_error err = {0};
    size_t count = n * lr_model_info_of(model)->hidden, bytes = count * sizeof(float);
    float *whole = floats(count), *x = floats(count);
    memcpy(whole, input, bytes);
    fixture_forward_on_device(model, whole, n, chunk, 1, 0, 0, NULL, NULL);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        lr_partition partition;
        lr_backbone_stats stats[3] = {0};
        memcpy(x, input, bytes);
        fixture_forward_on_device(model, x, n, chunk, ways[i].ranks, ways[i].rows, ways[i].chunks, stats, NULL);
        if (memcmp(x, whole, bytes) != 0)
            fail_msg("%d ranks, batches of %zu, groups of %zu: other bytes", ways[i].ranks, ways[i].rows,
                     ways[i].chunks);
        lrt_assert_ok(lr_partition_create(&partition, n, chunk, ways[i].ranks, &err), &err);
        for (int r = 0; r < ways[i].ranks; r++) {
            size_t host = 0, device = 0;
            const lr_backbone_run run = {.partition = &partition, .comm = &(lr_comm){.shares_memory = true},
                                         .device_rows = ways[i].rows, .device_chunks = ways[i].chunks};
            lrt_assert_ok(lr_backbone_memory(model, &run, r, 1, &host, &err), &err);
            lrt_assert_ok(lr_backbone_device_memory(model, &run, r, &device, &err), &err);
            assert_int_equal(stats[r].arena_bytes, host);
            assert_true(stats[r].device_bytes >= device); /* at least */
            assert_true(stats[r].ring.keys_seen > 0);
        }
        lr_partition_free(&partition);
    }
    free(whole);
    free(x);
}

/* Layers of the fixture see 5 tokens to each side, and all. */
static void test_ranks_batches_and_groups_do_not_change_a_bit(void **state)
{
    (void)state;
    fixture f;
    const size_t n = 150;
    fixture_open(&f, "textonly");
    lr_model *model = fixture_device_model(f.directory, fixture_kernels(LR_ISA_AUTO));
    float *input = embedded(&f, model, "paragraph", n);
    check_promise(model, input, n);
    free(input);
    lr_model_close(model);
    fixture_close(&f);
}

static void test_ranks_do_not_change_a_bit_where_there_are_places(void **state)
{
    (void)state;
    const size_t n = 150;
    places_model m = open_places_model();
    float *input = random_tokens(m.device, n);
    check_promise(m.device, input, n);
    free(input);
    close_places_model(&m);
}

/* ------------------------------------------------------------------ one rank, called directly */

typedef struct one_rank {
    lr_model *model;
    lr_comm *comm;
    lr_partition partition;
    lr_cancel cancel;
    size_t n, hidden;
    float *input, *x, *kept; /* [n, hidden] */
    size_t first_layer, kept_layer;
    bool leave;
} one_rank;

/* The model stays the caller's, the input [n, hidden] becomes the rank's. */
static void open_rank_of(one_rank *r, lr_model *model, float *input, size_t n)
{
    lr_error err = {0};
    *r = (one_rank){.model = model, .input = input, .n = n, .hidden = lr_model_info_of(model)->hidden};
    atomic_init(&r->cancel, 0);
    r->x = floats(r->n * r->hidden);
    r->kept = floats(r->n * r->hidden);
    lrt_assert_ok(lr_partition_create(&r->partition, r->n, 16, 1, &err), &err);
    lrt_assert_ok(lr_comm_local_create(1, 0, &r->comm, &err), &err);
}

static void open_rank(one_rank *r)
{
    fixture f;
    fixture_open(&f, "textonly");
    lr_model *model = fixture_device_model(f.directory, fixture_kernels(LR_ISA_AUTO));
    open_rank_of(r, model, embedded(&f, model, "text2", 20), 20);
    fixture_close(&f);
}

static void close_rank(one_rank *r)
{
    lr_comm_free(r->comm);
    lr_partition_free(&r->partition);
    free(r->input);
    free(r->x);
    free(r->kept);
}

static lr_status save_state(void *arg, size_t layer, const float *h, lr_error *err)
{
    (void)err;
    one_rank *r = arg;
    memcpy(r->kept, h, r->n * r->hidden * sizeof *h);
    r->kept_layer = layer;
    return LR_OK;
}

static lr_status load_state(void *arg, size_t layer, float *h, lr_error *err)
{
    one_rank *r = arg;
    if (layer != r->kept_layer) return lr_fail(err, LR_E_INTERNAL, "another layer was asked for");
    memcpy(h, r->kept, r->n * r->hidden * sizeof *h);
    return LR_OK;
}

static lr_status after_layer(void *arg, size_t layer, bool *leave, lr_error *err)
{
    (void)err;
    *leave = ((one_rank *)arg)->leave && layer == 1;
    return LR_OK;
}

static lr_status leave_with(void *arg, size_t layer, const float *h, lr_error *err)
{
    lr_status st = save_state(arg, layer, h, err);
    return st == LR_OK ? lr_fail(err, LR_E_INTERRUPTED, "left") : st;
}

static lr_status forward_once(void *arg, lr_error *err)
{
    one_rank *r = arg;
    lr_backbone_run run = {.comm = r->comm, .partition = &r->partition, .worker = {.cancel = &r->cancel},
                           .state = {.first_layer = r->first_layer, .load = load_state, .after = after_layer,
                                     .leave_with = leave_with, .arg = r}};
    memcpy(r->x, r->input, r->n * r->hidden * sizeof *r->x);
    return lr_backbone_forward(r->model, &run, r->x, NULL, err);
}

static void test_a_pass_that_was_left_goes_on_to_the_same_bytes(void **state)
{
    (void)state;
    lr_error err = {0};
    one_rank r;
    open_rank(&r);
    size_t bytes = r.n * r.hidden * sizeof(float);
    float *whole = floats(r.n * r.hidden);
    lrt_assert_ok(forward_once(&r, &err), &err);
    memcpy(whole, r.x, bytes);
    r.leave = true;
    assert_int_equal(forward_once(&r, &err), LR_E_INTERRUPTED);
    assert_int_equal(r.kept_layer, 1);
    r.first_layer = 2;
    r.leave = false;
    lr_error_clear(&err);
    lrt_assert_ok(forward_once(&r, &err), &err);
    assert_memory_equal(r.x, whole, bytes);
    atomic_store(&r.cancel, 1);
    assert_int_equal(forward_once(&r, &err), LR_E_INTERRUPTED);
    free(whole);
    close_rank(&r);
    lr_model_close(r.model);
}

static void test_a_pass_survives_each_failed_allocation(void **state)
{
    (void)state;
    one_rank r;
    open_rank(&r);
    assert_true(lrt_fail_each_allocation(forward_once, &r) > 0);
    close_rank(&r);
    lr_model_close(r.model);
    places_model places = open_places_model();
    open_rank_of(&r, places.device, random_tokens(places.device, 20), 20);
    assert_true(lrt_fail_each_allocation(forward_once, &r) > 0);
    close_rank(&r);
    close_places_model(&places);
}

/* ------------------------------------------------------------------ what cannot be */

static void refuse(const char *folder, const char *why)
{
    lr_error err = {0};
    lr_model *model = NULL;
    char *directory = lrt_path(LR_FIXTURES, folder);
    const lr_device_options device = {0};
    const lr_model_options options = {.kernels = fixture_kernels(LR_ISA_AUTO), .device = &device};
    assert_int_equal(lr_model_open(&model, directory, &options, &err), LR_E_UNSUPPORTED);
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
    assert_null(model);
    free(directory);
}

static void test_models_that_kernels_do_not_take_are_refused(void **state)
{
    (void)state;
    refuse("odd", "heads of 12 values");
    refuse("vjepa", "heads of 20 values");
}

static lr_status open_and_close(void *arg, lr_error *err)
{
    lr_model *model = NULL;
    const lr_device_options device = {0};
    const lr_model_options options = {.kernels = fixture_kernels(LR_ISA_AUTO), .device = &device};
    lr_status st = lr_model_open(&model, arg, &options, err);
    lr_model_close(model);
    return st;
}

static void test_opening_survives_each_failed_allocation(void **state)
{
    (void)state;
    char *directory = lrt_path(LR_FIXTURES, "textonly");
    assert_true(lrt_fail_each_allocation(open_and_close, directory) > 0);
    free(directory);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_equal_the_cpus_within_bf16),
        cmocka_unit_test(test_layers_with_places_equal_the_cpus_within_bf16),
        cmocka_unit_test(test_ranks_batches_and_groups_do_not_change_a_bit),
        cmocka_unit_test(test_ranks_do_not_change_a_bit_where_there_are_places),
        cmocka_unit_test(test_a_pass_that_was_left_goes_on_to_the_same_bytes),
        cmocka_unit_test(test_a_pass_survives_each_failed_allocation),
        cmocka_unit_test(test_models_that_kernels_do_not_take_are_refused),
        cmocka_unit_test(test_opening_survives_each_failed_allocation),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
