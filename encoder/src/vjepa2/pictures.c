/* Frames to tokens: resize of the short side, centre crop, normalisation, and the patches of a tubelet
 * through one linear layer. */
#include <string.h>

#include <longreel/resize.h>

#include "vjepa2.h"

/* An lr_vision: the scratch of one tubelet. */
typedef struct vj2_run {
    lr_vision head;
    const vj2_tower *tower;
    const lr_kernels *kernels;
    lr_worker worker;
    lr_resize *plan;        /* for frames of these sizes */
    int plan_width, plan_height, plan_display_width, plan_display_height;
    int width, height;      /* of the resized picture */
    uint8_t *plan_scratch;
    uint8_t *resized;       /* [height, 3 * width] */
    uint8_t *crops;         /* [parts, crop, 3 * crop] */
    size_t held;            /* frames in crops */
    lr_scratch scratch;
} vj2_run;

static void drop_plan(vj2_run *run)
{
    lr_resize_free(run->plan);
    lr_free(run->plan_scratch);
    lr_free(run->resized);
    run->plan = NULL;
    run->plan_scratch = run->resized = NULL;
}

static void vision_free(lr_vision *vision)
{
    if (!vision) return;
    vj2_run *run = (vj2_run *)(void *)vision;
    lr_scratch_free(&run->scratch);
    drop_plan(run);
    lr_free(run->crops);
    lr_free(run);
}

static size_t tile_floats(const vj2_tower *tower, const lr_kernels *kernels, float *base, float **x,
                          float **linear)
{
    lr_cutter cutter = {.base = base};
    *x = lr_cut(&cutter, LR_ROW_TILE * tower->values);
    *linear = lr_cut(&cutter, kernels->linear_scratch(tower->proj, LR_ROW_TILE));
    return cutter.used;
}

static lr_status vision_create(lr_vision **out, const lr_model *model, int width, int height,
                               const lr_worker *worker, lr_error *err)
{
    lr_status st = LR_OK;
    const vj2_tower *tower = model->vision;
    vj2_run *run = NULL;
    float *x, *linear;
    *out = NULL;
    if (width != (int)tower->crop || height != (int)tower->crop)
        LR_FAIL(LR_E_USAGE, "a picture of %d x %d; the model takes %zu x %zu", width, height, tower->crop,
                tower->crop);
    LR_TRY(LR_NEW(&run, 1, "the scratch of a tubelet", err));
    *run = (vj2_run){.head = {.ops = &vj2_vision_ops}, .tower = tower, .kernels = model->kernels,
                     .worker = *worker};
    LR_TRY(LR_NEW(&run->crops, tower->parts * tower->crop * tower->crop * 3, "the frames of a tubelet", err));
    LR_TRY(lr_scratch_create(&run->scratch, worker->pool,
                             tile_floats(tower, model->kernels, NULL, &x, &linear),
                             "the scratch of a tubelet", err));
    *out = &run->head;
    run = NULL;
done:
    if (run) vision_free(&run->head);
    return st;
}

static size_t vision_memory(const lr_model *model, int width, int height, size_t threads)
{
    const vj2_tower *tower = model->vision;
    float *x, *linear;
    (void)width;
    (void)height;
    return tower->parts * tower->crop * tower->crop * 3 +
           threads * tile_floats(tower, model->kernels, NULL, &x, &linear) * sizeof(float);
}

/* ------------------------------------------------------------------ one frame
 *
 * The short side of the shown picture becomes s = int(crop 256 / 224), the long one int(s long / short); both
 * are cut, not rounded, and so is the place of the crop. */

static lr_status plan_resize(vj2_run *run, const lr_frame *frame, lr_error *err)
{
    lr_status st = LR_OK;
    if (run->plan && run->plan_width == frame->width && run->plan_height == frame->height &&
        run->plan_display_width == frame->display_width && run->plan_display_height == frame->display_height)
        return LR_OK;
    drop_plan(run);
    bool wide = frame->display_width > frame->display_height;
    double shorter = wide ? frame->display_height : frame->display_width;
    double longer = wide ? frame->display_width : frame->display_height;
    double side = (double)(int)((double)run->tower->crop * 256 / 224), other = side * longer / shorter;
    if (!(shorter >= 1) || !(other <= 65536))
        LR_FAIL(LR_E_UNSUPPORTED, "a picture of %d x %d is too narrow for the model's %zu x %zu",
                frame->display_width, frame->display_height, run->tower->crop, run->tower->crop);
    run->width = (int)(wide ? other : side);
    run->height = (int)(wide ? side : other);
    LR_TRY(lr_resize_create(&run->plan, LR_BILINEAR, frame->width, frame->height, run->width, run->height, err));
    LR_TRY(LR_NEW(&run->plan_scratch, lr_resize_scratch(run->plan), "scratch of a resize", err));
    LR_TRY(LR_NEW(&run->resized, (size_t)run->width * (size_t)run->height * 3, "a resized picture", err));
    run->plan_width = frame->width;
    run->plan_height = frame->height;
    run->plan_display_width = frame->display_width;
    run->plan_display_height = frame->display_height;
done:
    if (st != LR_OK) drop_plan(run);
    return st;
}

static lr_status hold(lr_vision *vision, const lr_frame *frame, lr_error *err)
{
    vj2_run *run = (vj2_run *)(void *)vision;
    size_t crop = run->tower->crop, row = 3 * crop;
    if (run->held == run->tower->parts)
        return lr_fail(err, LR_E_INTERNAL, "more than %zu frames for a tubelet", run->tower->parts);
    lr_status st = plan_resize(run, frame, err);
    if (st != LR_OK) return st;
    lr_resize_rgb(run->kernels, run->plan, run->resized, frame->rgb, frame->stride, run->plan_scratch);
    size_t top = ((size_t)run->height - crop) / 2, left = ((size_t)run->width - crop) / 2;
    uint8_t *to = run->crops + run->held * crop * row;
    for (size_t y = 0; y < crop; y++)
        memcpy(to + y * row, run->resized + ((top + y) * (size_t)run->width + left) * 3, row);
    run->held++;
    return LR_OK;
}

/* ------------------------------------------------------------------ one tubelet */

/* Patch n as the layer takes it: values in the order channel, frame, row, column. */
static void take_patch(const vj2_run *run, size_t n, float *x)
{
    const vj2_tower *tower = run->tower;
    size_t p = tower->patch, crop = tower->crop;
    size_t top = n / tower->grid * p, left = n % tower->grid * p;
    for (size_t c = 0; c < 3; c++)
        for (size_t part = 0; part < tower->parts; part++)
            for (size_t y = 0; y < p; y++) {
                const uint8_t *from = run->crops + ((part * crop + top + y) * crop + left) * 3 + c;
                for (size_t i = 0; i < p; i++) *x++ = tower->value[c][from[3 * i]];
            }
}

typedef struct patch_loop {
    vj2_run *run;
    lr_tiling tiling;
    float *soft; /* [grid * grid, D] */
} patch_loop;

static void patch_tile(void *arg, size_t index, size_t worker)
{
    const patch_loop *loop = arg;
    const vj2_run *run = loop->run;
    const vj2_tower *tower = run->tower;
    uint64_t first;
    size_t rows;
    float *x, *linear;
    (void)tile_floats(tower, run->kernels, lr_scratch_of(&run->scratch, worker), &x, &linear);
    lr_tiling_get(&loop->tiling, index, &first, &rows);
    for (size_t r = 0; r < rows; r++) take_patch(run, (size_t)first + r, x + r * tower->values);
    run->kernels->linear_run(tower->proj, loop->soft + first * tower->hidden, tower->hidden, x, tower->values,
                             rows, first, tower->proj_bias, linear);
}

/* patches_u8 [grid * grid, parts * patch * patch * 3]: in a patch frame, row, column, channel. */
static lr_status tap_patches(const vj2_run *run, const lr_stage_tap *tap, lr_error *err)
{
    lr_status st = LR_OK;
    const vj2_tower *tower = run->tower;
    size_t p = tower->patch, crop = tower->crop, count = tower->grid * tower->grid;
    uint8_t *bytes = NULL;
    LR_TRY(LR_NEW(&bytes, count * tower->values, "the patches of a tubelet", err));
    uint8_t *to = bytes;
    for (size_t n = 0; n < count; n++)
        for (size_t part = 0; part < tower->parts; part++)
            for (size_t y = 0; y < p; y++, to += 3 * p) {
                size_t row = n / tower->grid * p + y, left = n % tower->grid * p;
                memcpy(to, run->crops + ((part * crop + row) * crop + left) * 3, 3 * p);
            }
    const lr_tensor rows = {.dtype = LR_U8, .n_dims = 2, .dims = {count, tower->values}, .data = bytes};
    LR_TRY(tap->sink(tap->arg, "patches_u8", -1, 0, &rows, err));
done:
    lr_free(bytes);
    return st;
}

static lr_status vision_encode(lr_vision *vision, const lr_frame *frame, float *soft,
                               const lr_stage_tap *tap, lr_error *err)
{
    lr_status st = LR_OK;
    vj2_run *run = (vj2_run *)(void *)vision;
    const vj2_tower *tower = run->tower;
    size_t count = tower->grid * tower->grid, bytes = tower->crop * tower->crop * 3;
    LR_TRY(hold(vision, frame, err));
    for (size_t given = run->held; run->held < tower->parts; run->held++)
        memcpy(run->crops + run->held * bytes, run->crops + run->held % given * bytes, bytes);
    if (tap && tap->sink) LR_TRY(tap_patches(run, tap, err));
    patch_loop loop = {.run = run, .soft = soft, .tiling = {.end = count, .height = LR_ROW_TILE}};
    lr_pool_for(run->worker.pool, lr_tiling_count(&loop.tiling), patch_tile, &loop);
    if (tap && tap->sink) {
        const lr_tensor rows = {.dtype = LR_F32, .n_dims = 2, .dims = {count, tower->hidden}, .data = soft};
        LR_TRY(tap->sink(tap->arg, "vision_soft", -1, 0, &rows, err));
    }
done:
    run->held = 0;
    return st;
}

static double vision_macs(const lr_model *model, int width, int height)
{
    const vj2_tower *tower = model->vision;
    (void)width;
    (void)height;
    return lr_linear_macs(tower->proj) * (double)(tower->grid * tower->grid);
}

const lr_vision_ops vj2_vision_ops = {.create = vision_create, .free = vision_free, .hold = hold,
                                      .encode = vision_encode, .memory = vision_memory,
                                      .macs = vision_macs};
