/* The blocks of the vision tower (Gemma 4's). Two loops over the pool a layer: tiles of patches, in
 * which everything that concerns one row follows in one go while it is in cache (the end of layer
 * i - 1, then the start of layer i), and tiles of queries, one KV head each. */
#include <math.h>
#include <string.h>

#include "vision.h"

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t group_of(const eg2_vision *v)
{
    return v->n_heads / v->n_kv_heads;
}

/* Tokens of a tile of queries: its rows are tokens x heads of the group. */
static size_t query_tokens(const eg2_vision *v)
{
    size_t group = group_of(v);
    return group < LR_ROW_TILE ? LR_ROW_TILE / group : 1;
}

static size_t linear_floats(const eg2_vision_run *run)
{
    const eg2_vision *v = run->tower;
    const eg2_vision_layer *layer = &v->layers[0]; /* all have the same shapes */
    const lr_dense *all[] = {&layer->q, &layer->k, &layer->v, &layer->o,
                             &layer->gate, &layer->up, &layer->down};
    size_t floats = most(run->kernels->linear_scratch(v->input_proj, LR_ROW_TILE),
                         run->kernels->linear_scratch(v->projector, LR_ROW_TILE));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        floats = most(floats, lr_dense_scratch(run->kernels, all[i], LR_ROW_TILE));
    return floats;
}

size_t eg2_vision_cut_tile(const eg2_vision_run *run, float *base, eg2_vision_tile *tile)
{
    const eg2_vision *v = run->tower;
    lr_cutter cutter = {.base = base};
    size_t query_rows = query_tokens(v) * group_of(v);
    tile->x = lr_cut(&cutter, LR_ROW_TILE * most(v->hidden, 3 * v->patch * v->patch));
    tile->y = lr_cut(&cutter, LR_ROW_TILE * v->hidden);
    tile->k = lr_cut(&cutter, LR_ROW_TILE * v->n_kv_heads * v->head_dim);
    tile->gate = lr_cut(&cutter, LR_ROW_TILE * v->mlp);
    tile->up = lr_cut(&cutter, LR_ROW_TILE * v->mlp);
    tile->m = lr_cut(&cutter, query_rows);
    tile->l = lr_cut(&cutter, query_rows);
    tile->attention = lr_cut(&cutter, run->kernels->attn_scratch(query_rows, v->head_dim));
    tile->sum = (double *)(void *)lr_cut(&cutter, 2 * v->hidden);
    tile->linear = lr_cut(&cutter, linear_floats(run));
    return cutter.used;
}

/* ------------------------------------------------------------------ tiles of patches */

typedef struct patch_loop {
    eg2_vision_run *run;
    lr_tiling tiling;
    size_t layer; /* the one that starts; n_layers: none, only the last one ends */
} patch_loop;

/* Patch p as rows of pixels, RGB interleaved, into x [patch * patch * 3]. */
static void read_patch(const eg2_vision_run *run, size_t p, float *x)
{
    size_t bytes = 3 * run->tower->patch, stride = 3 * run->width;
    const uint8_t *from = run->picture + p / run->columns * run->tower->patch * stride +
                          p % run->columns * bytes;
    for (size_t row = 0; row < run->tower->patch; row++, from += stride, x += bytes)
        for (size_t i = 0; i < bytes; i++) x[i] = run->value[from[i]];
}

/* h = patch . W^T + (T[0][x] + T[1][y]) */
static void embed(eg2_vision_run *run, const eg2_vision_tile *tile, size_t first, size_t rows)
{
    const eg2_vision *v = run->tower;
    const lr_kernels *kernels = run->kernels;
    size_t d = v->hidden, values = 3 * v->patch * v->patch;
    float *h = run->h + first * d;
    for (size_t r = 0; r < rows; r++) read_patch(run, first + r, tile->x + r * values);
    kernels->linear_run(v->input_proj, h, d, tile->x, values, rows, first, NULL, tile->linear);
    for (size_t r = 0; r < rows; r++) {
        size_t x = (first + r) % run->columns, y = (first + r) / run->columns;
        kernels->add(tile->y, run->position_x + x * d, run->position_y + y * d, d);
        kernels->add(h + r * d, h + r * d, tile->y, d);
    }
}

/* The two halves of each head of x [rows, n_heads, head_dim] by the patch's x and y. */
static void turn(const eg2_vision_run *run, float *x, size_t n_heads, size_t first, size_t rows)
{
    size_t head_dim = run->tower->head_dim, half = head_dim / 2, at = first * (half / 2);
    size_t ld = n_heads * head_dim;
    run->kernels->rope_half(x, ld, head_dim, n_heads, run->cos_x + at, run->sin_x + at, rows, half);
    run->kernels->rope_half(x + half, ld, head_dim, n_heads, run->cos_y + at, run->sin_y + at, rows,
                            half);
}

/* Rows of h to queries, panels of keys and values. Each head is a row of the norms. */
static void project(eg2_vision_run *run, const eg2_vision_layer *layer, const eg2_vision_tile *tile,
                    size_t first, size_t rows)
{
    const eg2_vision *v = run->tower;
    const lr_kernels *kernels = run->kernels;
    size_t d = v->hidden, head = v->head_dim, width = v->n_heads * head;
    size_t kv_width = v->n_kv_heads * head;
    size_t panels = (run->patches + LR_KEY_PANEL - 1) / LR_KEY_PANEL * LR_KEY_PANEL * head;
    float *q = run->q + first * width, *values = run->v + first * kv_width;
    kernels->rms_norm(tile->x, d, run->h + first * d, d, layer->input_norm, rows, d, v->eps);
    lr_dense_run(kernels, &layer->q, q, width, tile->x, d, rows, first, tile->linear);
    lr_dense_run(kernels, &layer->k, tile->k, kv_width, tile->x, d, rows, first, tile->linear);
    lr_dense_run(kernels, &layer->v, values, kv_width, tile->x, d, rows, first, tile->linear);
    kernels->rms_norm(q, head, q, head, layer->q_norm, rows * v->n_heads, head, v->eps);
    kernels->rms_norm(tile->k, head, tile->k, head, layer->k_norm, rows * v->n_kv_heads, head, v->eps);
    kernels->rms_norm(values, head, values, head, NULL, rows * v->n_kv_heads, head, v->eps);
    turn(run, q, v->n_heads, first, rows);
    turn(run, tile->k, v->n_kv_heads, first, rows);
    for (size_t g = 0; g < v->n_kv_heads; g++)
        kernels->pack_keys(run->k_panels + g * panels + first * head, tile->k + g * head, kv_width,
                           rows, head);
}

/* After attention: output projection and MLP, each added to h through its norm. */
static void finish(eg2_vision_run *run, const eg2_vision_layer *layer, const eg2_vision_tile *tile,
                   size_t first, size_t rows)
{
    const eg2_vision *v = run->tower;
    const lr_kernels *kernels = run->kernels;
    size_t d = v->hidden, mlp = v->mlp, width = v->n_heads * v->head_dim;
    float *h = run->h + first * d;
    lr_dense_run(kernels, &layer->o, tile->y, d, run->o + first * width, width, rows, first,
                 tile->linear);
    kernels->rms_norm_add(h, d, tile->y, d, layer->post_attention_norm, rows, d, v->eps);
    kernels->rms_norm(tile->x, d, h, d, layer->pre_mlp_norm, rows, d, v->eps);
    lr_dense_run(kernels, &layer->gate, tile->gate, mlp, tile->x, d, rows, first, tile->linear);
    lr_dense_run(kernels, &layer->up, tile->up, mlp, tile->x, d, rows, first, tile->linear);
    kernels->gelu_tanh_mul(tile->gate, mlp, tile->gate, mlp, tile->up, mlp, rows, mlp);
    lr_dense_run(kernels, &layer->down, tile->y, d, tile->gate, mlp, rows, first, tile->linear);
    kernels->rms_norm_add(h, d, tile->y, d, layer->post_mlp_norm, rows, d, v->eps);
}

static void patch_tile(void *arg, size_t index, size_t worker)
{
    const patch_loop *loop = arg;
    eg2_vision_run *run = loop->run;
    const eg2_vision *v = run->tower;
    eg2_vision_tile tile;
    uint64_t first;
    size_t rows;
    (void)eg2_vision_cut_tile(run, lr_scratch_of(&run->scratch, worker), &tile);
    lr_tiling_get(&loop->tiling, index, &first, &rows);
    if (loop->layer == 0) embed(run, &tile, (size_t)first, rows);
    else finish(run, &v->layers[loop->layer - 1], &tile, (size_t)first, rows);
    if (loop->layer < v->n_layers) project(run, &v->layers[loop->layer], &tile, (size_t)first, rows);
}

/* ------------------------------------------------------------------ tiles of queries */

typedef struct query_loop {
    eg2_vision_run *run;
    lr_tiling tiling; /* of query tokens; once for each KV head */
} query_loop;

/* Every patch sees every patch of its picture; the scale of the scores is 1. */
static void query_tile(void *arg, size_t index, size_t worker)
{
    const query_loop *loop = arg;
    eg2_vision_run *run = loop->run;
    const eg2_vision *v = run->tower;
    size_t tiles = lr_tiling_count(&loop->tiling), kv_head = index / tiles;
    size_t group = group_of(v), head = v->head_dim, width = v->n_heads * head, n_tokens;
    size_t panels = (run->patches + LR_KEY_PANEL - 1) / LR_KEY_PANEL * LR_KEY_PANEL * head;
    uint64_t first;
    eg2_vision_tile tile;
    (void)eg2_vision_cut_tile(run, lr_scratch_of(&run->scratch, worker), &tile);
    lr_tiling_get(&loop->tiling, index % tiles, &first, &n_tokens);
    size_t at = (size_t)first * width + kv_head * group * head;
    for (size_t t = 0; t < n_tokens; t++)
        memset(run->o + at + t * width, 0, group * head * sizeof *run->o);
    for (size_t r = 0; r < n_tokens * group; r++) {
        tile.m[r] = -INFINITY;
        tile.l[r] = 0;
    }
    const lr_attn attn = {
        .n_tokens = n_tokens, .group = group, .head_dim = head, .q = run->q + at, .q_token = width,
        .o = run->o + at, .o_token = width, .m = tile.m, .l = tile.l, .ml_token = group,
        .lo = run->lo, .hi = run->hi, .k_panels = run->k_panels + kv_head * panels,
        .v = run->v + kv_head * head, .v_key = v->n_kv_heads * head, .n_keys = run->patches,
        .scratch = tile.attention};
    run->kernels->attn_block(&attn);
    run->kernels->attn_finish(&attn);
}

/* ------------------------------------------------------------------ all of it */

lr_status eg2_vision_layers(eg2_vision_run *run, lr_error *err)
{
    lr_status st = LR_OK;
    lr_pool *pool = run->worker.pool;
    size_t height = lr_tile_height(run->kernels, lr_pool_threads(pool), run->patches);
    patch_loop patches = {.run = run, .tiling = {.end = run->patches, .height = height}};
    query_loop queries = {.run = run, .tiling = {.end = run->patches,
                                                 .height = query_tokens(run->tower)}};
    size_t n_queries = lr_tiling_count(&queries.tiling) * run->tower->n_kv_heads;
    for (size_t i = 0; i <= run->tower->n_layers; i++) {
        LR_TRY(lr_cancel_check(run->worker.cancel, err));
        patches.layer = i;
        lr_pool_for(pool, lr_tiling_count(&patches.tiling), patch_tile, &patches);
        if (i < run->tower->n_layers) lr_pool_for(pool, n_queries, query_tile, &queries);
    }
done:
    return st;
}
