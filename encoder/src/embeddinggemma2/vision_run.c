/* One picture through the vision tower: resize, layers, pooling, projector. */
#include <math.h>
#include <string.h>

#include "vision.h"

#define MOST_SIDE 65536 /* pixels; of lr_resize too */

/* ------------------------------------------------------------------ create, free */

static void vision_free(lr_vision *vision)
{
    if (!vision) return;
    eg2_vision_run *run = (eg2_vision_run *)(void *)vision;
    lr_scratch_free(&run->scratch);
    lr_free(run->hi);
    lr_free(run->lo);
    lr_free(run->floats);
    lr_free(run->picture);
    lr_free(run->plan_scratch);
    lr_resize_free(run->plan);
    lr_free(run);
}

static lr_status set_size(eg2_vision_run *run, int width, int height, lr_error *err)
{
    const eg2_vision *v = run->tower;
    int side = (int)(v->patch * v->pool);
    if (width < 1 || height < 1 || width > MOST_SIDE || height > MOST_SIDE || width % side ||
        height % side)
        return lr_fail(err, LR_E_USAGE, "a picture of %d x %d for the vision tower: its sides must be "
                       "multiples of %d, at most %d", width, height, side, MOST_SIDE);
    run->width = (size_t)width;
    run->height = (size_t)height;
    run->columns = run->width / v->patch;
    run->rows = run->height / v->patch;
    run->patches = run->columns * run->rows;
    size_t longest = run->columns > run->rows ? run->columns : run->rows;
    if (longest > v->positions)
        return lr_fail(err, LR_E_UNSUPPORTED, "a picture of %d x %d has %zu patches on a side; the "
                       "vision tower's position_embedding_size is %zu", width, height, longest,
                       v->positions);
    return LR_OK;
}

/* Sizes and cuts the floats that live from layer to layer. */
static size_t cut_floats(eg2_vision_run *run, float *base)
{
    const eg2_vision *v = run->tower;
    lr_cutter cutter = {.base = base};
    size_t p = run->patches, d = v->hidden, width = v->n_heads * v->head_dim;
    size_t kv_width = v->n_kv_heads * v->head_dim;
    size_t panels = (p + LR_KEY_PANEL - 1) / LR_KEY_PANEL;
    run->position_x = lr_cut(&cutter, run->columns * d);
    run->position_y = lr_cut(&cutter, run->rows * d);
    run->cos_x = lr_cut(&cutter, p * v->head_dim / 4);
    run->sin_x = lr_cut(&cutter, p * v->head_dim / 4);
    run->cos_y = lr_cut(&cutter, p * v->head_dim / 4);
    run->sin_y = lr_cut(&cutter, p * v->head_dim / 4);
    run->h = lr_cut(&cutter, p * d);
    run->pooled = lr_cut(&cutter, p / (v->pool * v->pool) * d);
    run->q = lr_cut(&cutter, p * width);
    run->o = lr_cut(&cutter, p * width);
    run->k_panels = lr_cut(&cutter, panels * LR_KEY_PANEL * kv_width);
    run->v = lr_cut(&cutter, p * kv_width);
    return cutter.used;
}

/* Rows [0, rows) of one axis (0: x, 1: y) of the position table. */
static void load_positions(const eg2_vision_run *run, size_t axis, size_t rows, float *out)
{
    const eg2_vision *v = run->tower;
    const lr_tensor *table = v->position_table;
    size_t count = rows * v->hidden;
    const unsigned char *from = (const unsigned char *)table->data +
                                axis * v->positions * v->hidden * lr_dtype_size(table->dtype);
    lr_to_f32(run->kernels, table->dtype, from, count, out);
}

static lr_status load_angles(eg2_vision_run *run, lr_error *err)
{
    lr_status st = LR_OK;
    int32_t *x = NULL, *y = NULL;
    LR_TRY(LR_NEW(&x, run->patches, "positions of patches", err));
    LR_TRY(LR_NEW(&y, run->patches, "positions of patches", err));
    for (size_t p = 0; p < run->patches; p++) {
        x[p] = (int32_t)(p % run->columns);
        y[p] = (int32_t)(p / run->columns);
    }
    lr_rope_angles_at(run->tower->rope, x, run->patches, run->cos_x, run->sin_x);
    lr_rope_angles_at(run->tower->rope, y, run->patches, run->cos_y, run->sin_y);
done:
    lr_free(y);
    lr_free(x);
    return st;
}

static lr_status vision_create(lr_vision **out, const lr_model *model, int width, int height,
                               const lr_worker *worker, lr_error *err)
{
    lr_status st = LR_OK;
    eg2_vision_run *run = NULL;
    eg2_vision_tile tile;
    *out = NULL;
    LR_TRY(LR_NEW(&run, 1, "the vision tower's scratch", err));
    *run = (eg2_vision_run){.head = {.ops = &eg2_vision_ops}, .tower = model->vision,
                            .kernels = model->kernels, .worker = *worker};
    LR_TRY(set_size(run, width, height, err));
    LR_TRY(LR_NEW(&run->picture, run->height * run->width * 3, "a picture of the model's size", err));
    LR_TRY(LR_NEW(&run->floats, cut_floats(run, NULL), "the vision tower's scratch", err));
    (void)cut_floats(run, run->floats);
    load_positions(run, 0, run->columns, run->position_x);
    load_positions(run, 1, run->rows, run->position_y);
    LR_TRY(load_angles(run, err));
    LR_TRY(LR_NEW(&run->lo, LR_ROW_TILE, "ranges of keys", err));
    LR_TRY(LR_NEW(&run->hi, LR_ROW_TILE, "ranges of keys", err));
    for (size_t t = 0; t < LR_ROW_TILE; t++) run->hi[t] = run->patches;
    /* As the reference does for video frames, in fp32: byte / 255, then 2 (x - 0.5). For single
     * pictures it multiplies by the rounded 1/255: at most 1 ulp from this. */
    for (int i = 0; i < 256; i++) run->value[i] = 2 * ((float)i / 255.0f - 0.5f);
    LR_TRY(lr_scratch_create(&run->scratch, worker->pool, eg2_vision_cut_tile(run, NULL, &tile),
                             "the vision tower's scratch", err));
    *out = &run->head;
    run = NULL;
done:
    if (run) vision_free(&run->head);
    return st;
}

static size_t vision_memory(const lr_model *model, int width, int height, size_t threads)
{
    eg2_vision_tile tile;
    eg2_vision_run run = {.tower = model->vision, .kernels = model->kernels};
    if (set_size(&run, width, height, NULL) != LR_OK) return 0;
    return run.width * run.height * 3 +
           (cut_floats(&run, NULL) + threads * eg2_vision_cut_tile(&run, NULL, &tile)) * sizeof(float);
}

/* ------------------------------------------------------------------ encode */

/* The plan and its scratch for frames of this size; kept until another size comes. */
static lr_status plan_resize(eg2_vision_run *run, const lr_frame *frame, lr_error *err)
{
    lr_status st = LR_OK;
    if (run->plan && run->plan_width == frame->width && run->plan_height == frame->height) return st;
    lr_resize_free(run->plan);
    run->plan = NULL;
    lr_free(run->plan_scratch);
    run->plan_scratch = NULL;
    lr_resize *plan = NULL;
    LR_TRY(lr_resize_create(&plan, LR_BICUBIC, frame->width, frame->height, (int)run->width,
                            (int)run->height, err));
    LR_TRY(LR_NEW(&run->plan_scratch, lr_resize_scratch(plan), "scratch of a resize", err));
    run->plan = plan;
    plan = NULL;
    run->plan_width = frame->width;
    run->plan_height = frame->height;
done:
    lr_resize_free(plan);
    return st;
}

static lr_status tap_patches(const eg2_vision_run *run, const lr_stage_tap *tap, lr_error *err)
{
    lr_status st = LR_OK;
    uint8_t *bytes = NULL;
    size_t patch = run->tower->patch, row = 3 * patch, stride = 3 * run->width;
    LR_TRY(LR_NEW(&bytes, run->patches * patch * row, "the patches of a picture", err));
    uint8_t *to = bytes;
    for (size_t p = 0; p < run->patches; p++)
        for (size_t y = 0; y < patch; y++, to += row)
            memcpy(to, run->picture + (p / run->columns * patch + y) * stride + p % run->columns * row,
                   row);
    const lr_tensor rows = {.dtype = LR_U8, .n_dims = 2, .dims = {run->patches, patch * row},
                            .data = bytes};
    LR_TRY(tap->sink(tap->arg, "patches_u8", -1, 0, &rows, err));
done:
    lr_free(bytes);
    return st;
}

typedef struct soft_loop {
    eg2_vision_run *run;
    lr_tiling tiling;
    float *pooled; /* [tokens, D] */
    float *soft;   /* [tokens, soft] */
} soft_loop;

/* Soft token t: the mean of its pool x pool patches, times sqrt(D). */
static void pool_cell(const eg2_vision_run *run, size_t t, double *sum, float *out)
{
    const eg2_vision *v = run->tower;
    size_t across = run->columns / v->pool, d = v->hidden;
    size_t x = t % across * v->pool, y = t / across * v->pool;
    for (size_t i = 0; i < d; i++) sum[i] = 0;
    for (size_t r = 0; r < v->pool; r++)
        run->kernels->sum_rows(sum, run->h + ((y + r) * run->columns + x) * d, d, v->pool, d);
    double scale = sqrt((double)d) / (double)(v->pool * v->pool);
    for (size_t i = 0; i < d; i++) out[i] = (float)(sum[i] * scale);
    if (v->std_bias)
        for (size_t i = 0; i < d; i++) out[i] = (out[i] - v->std_bias[i]) * v->std_scale[i];
}

static void soft_tile(void *arg, size_t index, size_t worker)
{
    const soft_loop *loop = arg;
    const eg2_vision_run *run = loop->run;
    const eg2_vision *v = run->tower;
    eg2_vision_tile tile;
    uint64_t first;
    size_t rows, d = v->hidden;
    (void)eg2_vision_cut_tile(run, lr_scratch_of(&run->scratch, worker), &tile);
    lr_tiling_get(&loop->tiling, index, &first, &rows);
    float *pooled = loop->pooled + first * d;
    for (size_t r = 0; r < rows; r++) pool_cell(run, (size_t)first + r, tile.sum, pooled + r * d);
    run->kernels->rms_norm(tile.x, d, pooled, d, NULL, rows, d, v->eps);
    run->kernels->linear_run(v->projector, loop->soft + first * v->soft, v->soft, tile.x, d, rows,
                             first, NULL, tile.linear);
}

static lr_status tap_floats(const lr_stage_tap *tap, const char *name, const float *data, size_t rows,
                            size_t columns, lr_error *err)
{
    const lr_tensor tensor = {.dtype = LR_F32, .n_dims = 2, .dims = {rows, columns}, .data = data};
    return tap->sink(tap->arg, name, -1, 0, &tensor, err);
}

static lr_status vision_encode(lr_vision *vision, const lr_frame *frame, float *soft,
                               const lr_stage_tap *tap, lr_error *err)
{
    lr_status st = LR_OK;
    eg2_vision_run *run = (eg2_vision_run *)(void *)vision;
    const eg2_vision *v = run->tower;
    bool tapped = tap && tap->sink;
    size_t tokens = run->patches / (v->pool * v->pool);
    LR_TRY(plan_resize(run, frame, err));
    lr_resize_rgb(run->kernels, run->plan, run->picture, frame->rgb, frame->stride,
                  run->plan_scratch);
    if (tapped) LR_TRY(tap_patches(run, tap, err));
    LR_TRY(eg2_vision_layers(run, err));
    soft_loop loop = {.run = run, .pooled = run->pooled, .soft = soft,
                      .tiling = {.end = tokens, .height = LR_ROW_TILE}};
    lr_pool_for(run->worker.pool, lr_tiling_count(&loop.tiling), soft_tile, &loop);
    if (tapped) LR_TRY(tap_floats(tap, "vision_tower", run->pooled, tokens, v->hidden, err));
    if (tapped) LR_TRY(tap_floats(tap, "vision_soft", soft, tokens, v->soft, err));
done:
    return st;
}

static double vision_macs(const lr_model *model, int width, int height)
{
    const eg2_vision *v = model->vision;
    eg2_vision_run run = {.tower = v};
    double layers = 0;
    if (set_size(&run, width, height, NULL) != LR_OK) return 0;
    for (size_t i = 0; i < v->n_layers; i++) {
        const eg2_vision_layer *l = &v->layers[i];
        const lr_dense *all[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
        for (size_t w = 0; w < sizeof all / sizeof *all; w++) layers += lr_linear_macs(all[w]->weight);
        layers += 2.0 * (double)(run.patches * v->n_heads * v->head_dim);
    }
    return (double)run.patches * (lr_linear_macs(v->input_proj) + layers +
                                  lr_linear_macs(v->projector) / (double)(v->pool * v->pool));
}

const lr_vision_ops eg2_vision_ops = {.create = vision_create, .free = vision_free,
                                      .encode = vision_encode, .memory = vision_memory,
                                      .macs = vision_macs};
