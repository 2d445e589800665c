#include "fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fixture_open(fixture *out, const char *name)
{
    lr_error err = {0};
    json_error_t cause;
    *out = (fixture){.directory = lrt_path(LR_FIXTURES, name)};
    char *path = lrt_path(out->directory, "expected.json");
    out->document = json_load_file(path, JSON_REJECT_DUPLICATES, &cause);
    if (!out->document) fail_msg("%s: %s", path, cause.text);
    free(path);
    out->cases = json_object_get(out->document, "cases");
    assert_true(json_array_size(out->cases) > 0);
    path = lrt_path(out->directory, "expected.safetensors");
    lrt_assert_ok(lr_checkpoint_open_file(&out->expected, path, &err), &err);
    free(path);
}

void fixture_close(fixture *f)
{
    lr_checkpoint_close(f->expected);
    json_decref(f->document);
    free(f->directory);
}

const lr_tensor *fixture_tensor(const fixture *f, const char *case_name, const char *name)
{
    char full[128];
    (void)snprintf(full, sizeof full, "%s/%s", case_name, name);
    const lr_tensor *tensor = lr_checkpoint_find(f->expected, full);
    if (!tensor) fail_msg("%s: no tensor %s/%s", f->directory, case_name, name);
    return tensor;
}

const char *fixture_text(const json_t *value, const char *key)
{
    const char *text = json_string_value(json_object_get(value, key));
    if (!text) fail_msg("expected.json: no text \"%s\"", key);
    return text;
}

size_t fixture_size(const json_t *value, const char *key)
{
    const json_t *number = json_object_get(value, key);
    if (!json_is_integer(number)) fail_msg("expected.json: no number \"%s\"", key);
    return (size_t)json_integer_value(number);
}

/* The largest [max_abs, relative rms] of the tensor over the folder's cases. */
static void deviation(const fixture *f, const char *name, double *max_abs, double *rms)
{
    size_t i;
    const json_t *one;
    *max_abs = *rms = 0;
    json_array_foreach(f->cases, i, one) {
        const json_t *pair = json_object_get(json_object_get(one, "deviation"), name);
        if (!pair) continue;
        *max_abs = fmax(*max_abs, json_number_value(json_array_get(pair, 0)));
        *rms = fmax(*rms, json_number_value(json_array_get(pair, 1)));
    }
    if (*rms <= 0) fail_msg("expected.json: no deviation of %s", name);
}

void fixture_compare(const fixture *f, const char *case_name, const char *name, const float *got)
{
    const lr_tensor *tensor = fixture_tensor(f, case_name, name);
    double most_abs, most_rms, abs_seen = 0, difference = 0, truth = 0;
    const float *want = tensor->data;
    size_t count = 1;
    assert_int_equal(tensor->dtype, LR_F32);
    for (size_t i = 0; i < tensor->n_dims; i++) count *= tensor->dims[i];
    deviation(f, name, &most_abs, &most_rms);
    for (size_t i = 0; i < count; i++) {
        double d = (double)got[i] - (double)want[i];
        if (!isfinite(d)) fail_msg("%s/%s: value %zu is %g", case_name, name, i, (double)got[i]);
        abs_seen = fmax(abs_seen, fabs(d));
        difference += d * d;
        truth += (double)want[i] * (double)want[i];
    }
    double rms = sqrt(difference / truth);
    if (getenv("LR_SHOW"))
        printf("%s/%s: rms %.2e of %.2e, max %.2e of %.2e\n", case_name, name, rms, most_rms,
               abs_seen, most_abs);
    if (rms > 4 * most_rms || abs_seen > 4 * most_abs)
        fail_msg("%s/%s: relative rms %.3g (4 x %.3g), max abs %.3g (4 x %.3g)", case_name, name, rms,
                 most_rms, abs_seen, most_abs);
}

const lr_kernels *fixture_kernels(lr_isa isa)
{
    lr_error err = {0};
    const lr_kernels *kernels = NULL;
    lr_gemm gemm = isa == LR_ISA_SCALAR ? LR_GEMM_PACKED : LR_GEMM_AUTO;
    lrt_assert_ok(lr_kernels_get(isa, gemm, &kernels, &err), &err);
    return kernels;
}

static lr_model *open_model(const char *directory, const lr_model_options *options)
{
    lr_error err = {0};
    lr_model *model = NULL;
    lrt_assert_ok(lr_model_open(&model, directory, options, &err), &err);
    return model;
}

lr_model *fixture_model(const char *directory, const lr_kernels *kernels, bool vision, bool audio)
{
    const lr_model_options options = {.kernels = kernels, .vision = vision, .audio = audio};
    return open_model(directory, &options);
}

lr_model *fixture_device_model(const char *directory, const lr_kernels *kernels)
{
    const lr_device_options device = {0};
    const lr_model_options options = {.kernels = kernels, .device = &device};
    return open_model(directory, &options);
}

typedef struct ranks_run {
    const lr_model *model;
    float *x;
    const lr_partition *partition;
    size_t threads;
    lr_schedule schedule;
    lr_backbone_stats *stats;
    const lr_stage_tap *tap;
    size_t device_rows, device_chunks;
} ranks_run;

static lr_status rank_body(void *arg, lr_comm *comm, lr_error *err)
{
    const ranks_run *r = arg;
    lr_status st = LR_OK;
    lr_pool *pool = NULL;
    lr_backbone_run run = {.comm = comm,
                           .partition = r->partition,
                           .sequence = 3,
                           .schedule = r->schedule,
                           .device_rows = r->device_rows,
                           .device_chunks = r->device_chunks,
                           .node_ranks = r->schedule == LR_SCHEDULE_TWO_LEVEL ? 2 : 0};
    if (r->tap) run.tap = *r->tap;
    LR_TRY(lr_pool_create(r->threads, &pool, err));
    run.worker.pool = pool;
    size_t hidden = lr_model_info_of(r->model)->hidden;
    float *rows = r->x + (size_t)lr_partition_first_token(r->partition, comm->rank) * hidden;
    LR_TRY(lr_backbone_forward(r->model, &run, rows, r->stats ? &r->stats[comm->rank] : NULL, err));
done:
    lr_pool_free(pool);
    return st;
}

static void run_ranks(ranks_run *run, uint64_t n, uint64_t chunk, int ranks, double peer_timeout)
{
    lr_error err = {0};
    lr_partition partition;
    lrt_assert_ok(lr_partition_create(&partition, n, chunk, ranks, &err), &err);
    run->partition = &partition;
    lrt_assert_ok(lr_comm_local_run(ranks, peer_timeout, rank_body, run, &err), &err);
    lr_partition_free(&partition);
}

void fixture_forward(const lr_model *model, float *x, uint64_t n, uint64_t chunk, int ranks,
                     size_t threads, lr_schedule schedule, lr_backbone_stats *stats,
                     const lr_stage_tap *tap)
{
    ranks_run run = {.model = model, .x = x, .threads = threads, .schedule = schedule, .stats = stats, .tap = tap};
    run_ranks(&run, n, chunk, ranks, 60);
}

void fixture_forward_on_device(const lr_model *model, float *x, uint64_t n, uint64_t chunk, int ranks, size_t rows,
                               size_t chunks, lr_backbone_stats *stats, const lr_stage_tap *tap)
{
    ranks_run run = {.model = model, .x = x, .threads = 1, .stats = stats, .tap = tap, .device_rows = rows,
                     .device_chunks = chunks};
    run_ranks(&run, n, chunk, ranks, 600); /* the driver that interprets is slow */
}
