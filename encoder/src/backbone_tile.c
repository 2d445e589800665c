/* The arithmetic of a layer on one tile of rows. Every step works row by row (linear layers aligned to
 * the rows' absolute numbers), so the result does not depend on how rows are grouped into tiles. */
#include "backbone.h"

#include <math.h>
#include <string.h>

#include "blocks.h"

/* ------------------------------------------------------------------ work memory */

typedef struct widths {
    size_t q, kv, head_dim, heads, attn, linear;
} widths;

static void raise(size_t *most, size_t value)
{
    if (value > *most) *most = value;
}

static widths widest(const lr_kernels *kernels, const lr_backbone *backbone)
{
    widths w = {0};
    for (size_t i = 0; i < backbone->n_layers; i++) {
        const lr_layer *layer = &backbone->layers[i];
        const lr_linear *linears[] = {layer->q,    layer->kv,  layer->o,        layer->gate_up,
                                      layer->down, layer->ple, layer->ple_gate, layer->ple_out};
        raise(&w.q, layer->n_heads * layer->head_dim);
        raise(&w.kv, 2 * layer->n_kv_heads * layer->head_dim);
        raise(&w.head_dim, layer->head_dim);
        raise(&w.heads, layer->n_heads);
        size_t rows = LR_ROW_TILE * (layer->n_heads / layer->n_kv_heads);
        raise(&w.attn, kernels->attn_scratch(rows, layer->head_dim));
        for (size_t j = 0; j < sizeof linears / sizeof linears[0]; j++)
            if (linears[j]) raise(&w.linear, kernels->linear_scratch(linears[j], LR_ROW_TILE));
    }
    return w;
}

size_t lr_tile_wide_floats(const lr_backbone *backbone)
{
    size_t most = 2 * backbone->ple;
    for (size_t i = 0; i < backbone->n_layers; i++) {
        const lr_layer *layer = &backbone->layers[i];
        raise(&most, layer->n_heads * layer->head_dim);
        raise(&most, lr_linear_n(layer->gate_up));
    }
    return LR_ROW_TILE * most;
}

void lr_tile_work_widen(const lr_backbone *backbone, float *wide, lr_tile_work *work)
{
    work->wide = wide;
    work->ple = wide;
    work->gate = wide ? wide + LR_ROW_TILE * backbone->ple : NULL;
}

/* The memory of steps that follow one another is the same: of keys, values and queries; of attention; of
 * the rest. */
static void cut_steps(const widths *w, const lr_backbone *backbone, lr_cutter *cutter, lr_tile_work *work)
{
    const size_t rows = LR_ROW_TILE;
    size_t angles = backbone->block->angle_each ? w->head_dim : w->head_dim / 2;
    size_t begin = cutter->used, end;
    work->attn = lr_cut(cutter, w->attn);
    end = cutter->used;
    cutter->used = begin;
    work->norm = lr_cut(cutter, rows * backbone->hidden);
    work->linear = lr_cut(cutter, w->linear);
    begin = cutter->used;
    work->update = lr_cut(cutter, rows * backbone->hidden);
    raise(&end, cutter->used);
    cutter->used = begin;
    work->kv = lr_cut(cutter, rows * w->kv);
    work->cos = lr_cut(cutter, rows * angles);
    work->sin = lr_cut(cutter, rows * angles);
    raise(&cutter->used, end);
}

size_t lr_tile_work_cut(const lr_kernels *kernels, const lr_backbone *backbone, bool kept_state, float *base,
                        lr_tile_work *work)
{
    const size_t rows = LR_ROW_TILE, words = sizeof(uint64_t) / sizeof(float);
    widths w = widest(kernels, backbone);
    lr_cutter cutter = {.base = base};
    *work = (lr_tile_work){0};
    work->lo = (uint64_t *)(void *)lr_cut(&cutter, rows * words);
    work->hi = (uint64_t *)(void *)lr_cut(&cutter, rows * words);
    cut_steps(&w, backbone, &cutter, work);
    if (kept_state) return cutter.used;
    lr_tile_work_widen(backbone, lr_cut(&cutter, lr_tile_wide_floats(backbone)), work);
    work->heads = lr_cut(&cutter, rows * w.q);
    work->m = lr_cut(&cutter, rows * w.heads);
    work->l = lr_cut(&cutter, rows * w.heads);
    return cutter.used;
}

/* ------------------------------------------------------------------ keys and values */

void lr_tile_linear(const lr_tile *tile, const lr_linear *weight, const float *bias, const float *x,
                    size_t ldx, float *y)
{
    tile->kernels->linear_run(weight, y, lr_linear_n(weight), x, ldx, tile->rows, tile->first, bias,
                              tile->work->linear);
}

void lr_norm_rows(const lr_kernels *kernels, const lr_backbone *backbone, float *y, const float *x,
                  const float *w, const float *b, size_t rows)
{
    size_t width = backbone->hidden;
    if (backbone->layer_norm)
        kernels->layer_norm(y, width, x, width, w, b, rows, width, backbone->eps);
    else
        kernels->rms_norm(y, width, x, width, w, rows, width, backbone->eps);
}

static void norm_input(const lr_tile *tile, const float *h)
{
    lr_norm_rows(tile->kernels, tile->backbone, tile->work->norm, h, tile->layer->input_norm,
                 tile->layer->input_norm_bias, tile->rows);
}

/* Keys [rows, head_dim] into the chunk's panels from key `at` on. Whole panels go through the kernel;
 * a tile that begins or ends inside a panel writes its own lanes only, the neighbour's stay. */
static void store_keys(const lr_tile *tile, float *panels, const float *k, size_t ldk, size_t at,
                       size_t chunk_tokens)
{
    const size_t head_dim = tile->layer->head_dim, panel = LR_KEY_PANEL, rows = tile->rows;
    size_t end = at + rows;
    if (at % panel == 0 && (end % panel == 0 || end == chunk_tokens)) {
        tile->kernels->pack_keys(panels + at * head_dim, k, ldk, rows, head_dim);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        float *lane = panels + (at + r) / panel * panel * head_dim + (at + r) % panel;
        for (size_t d = 0; d < head_dim; d++) lane[d * panel] = k[r * ldk + d];
    }
    for (size_t key = end; end == chunk_tokens && key % panel != 0; key++) {
        float *lane = panels + key / panel * panel * head_dim + key % panel;
        for (size_t d = 0; d < head_dim; d++) lane[d * panel] = 0;
    }
}

/* lr_chunk_keys and lr_chunk_values give read-only views; the chunk is ours to write here. */
static float *writable(const float *view)
{
    return (float *)(uintptr_t)view;
}

void lr_tile_keys_values(const lr_tile *tile, const float *h, lr_chunk_header *chunk)
{
    const lr_layer *layer = tile->layer;
    const size_t head_dim = layer->head_dim, half = layer->n_kv_heads * head_dim, ld = 2 * half;
    const lr_kv_shape shape = {.n_kv_heads = layer->n_kv_heads, .head_dim = head_dim};
    float *k = tile->work->kv, *v = k + half;
    size_t at = (size_t)(tile->first - chunk->first_token);
    norm_input(tile, h);
    lr_tile_linear(tile, layer->kv, layer->kv_bias, tile->work->norm, tile->backbone->hidden, k);
    tile->backbone->block->heads(tile, LR_HEADS_K, k, ld);
    tile->backbone->block->heads(tile, LR_HEADS_V, v, ld);
    for (size_t g = 0; g < layer->n_kv_heads; g++) {
        store_keys(tile, writable(lr_chunk_keys(&shape, chunk, g)), k + g * head_dim, ld, at,
                   (size_t)chunk->n_tokens);
        float *values = writable(lr_chunk_values(&shape, chunk, g)) + at * head_dim;
        for (size_t r = 0; r < tile->rows; r++)
            memcpy(values + r * head_dim, v + r * ld + g * head_dim, head_dim * sizeof *values);
    }
}

/* ------------------------------------------------------------------ attention */

void lr_tile_queries(const lr_tile *tile, const float *h, const lr_tile_state *state)
{
    const lr_layer *layer = tile->layer;
    size_t width = layer->n_heads * layer->head_dim;
    norm_input(tile, h);
    lr_tile_linear(tile, layer->q, layer->q_bias, tile->work->norm, tile->backbone->hidden, state->q);
    tile->backbone->block->heads(tile, LR_HEADS_Q, state->q, width);
    memset(state->o, 0, tile->rows * width * sizeof *state->o);
    for (size_t i = 0; i < tile->rows * layer->n_heads; i++) {
        state->m[i] = -INFINITY;
        state->l[i] = 0;
    }
}

/* The attention arguments of KV head `head` for the tile; no keys yet. All its tokens go in one call:
 * the keys and values of a long sequence come from main memory, once for a tile. */
static lr_attn head_arguments(const lr_tile *tile, const lr_tile_state *state, size_t head)
{
    const lr_layer *layer = tile->layer;
    size_t group = layer->n_heads / layer->n_kv_heads, width = layer->n_heads * layer->head_dim;
    size_t at = head * group * layer->head_dim;
    return (lr_attn){.n_tokens = tile->rows,
                     .group = group,
                     .head_dim = layer->head_dim,
                     .q = state->q + at,
                     .q_token = width,
                     .o = state->o + at,
                     .o_token = width,
                     .m = state->m + head * group,
                     .l = state->l + head * group,
                     .ml_token = layer->n_heads,
                     .lo = tile->work->lo,
                     .hi = tile->work->hi,
                     .scratch = tile->work->attn};
}

void lr_tile_attend(const lr_tile *tile, const lr_tile_state *state,
                    const lr_chunk_header *const *chunks, size_t n_chunks)
{
    const lr_layer *layer = tile->layer;
    const lr_kv_shape shape = {.n_kv_heads = layer->n_kv_heads, .head_dim = layer->head_dim};
    for (size_t t = 0; t < tile->rows; t++)
        lr_mask_range(&layer->mask, tile->first + t, tile->n_tokens, &tile->work->lo[t],
                      &tile->work->hi[t]);
    /* Both grow with the row, for every kind of mask. */
    uint64_t lo = tile->work->lo[0], hi = tile->work->hi[tile->rows - 1];
    for (size_t head = 0; head < layer->n_kv_heads; head++) {
        lr_attn attn = head_arguments(tile, state, head);
        for (size_t c = 0; c < n_chunks && chunks[c]->first_token < hi; c++) {
            if (chunks[c]->first_token + chunks[c]->n_tokens <= lo) continue;
            attn.k_panels = lr_chunk_keys(&shape, chunks[c], head);
            attn.v = lr_chunk_values(&shape, chunks[c], head);
            attn.v_key = layer->head_dim;
            attn.first_key = chunks[c]->first_token;
            attn.n_keys = (size_t)chunks[c]->n_tokens;
            tile->kernels->attn_block(&attn);
            attn.same_queries = true;
        }
    }
}

void lr_tile_finish_attention(const lr_tile *tile, const lr_tile_state *state)
{
    for (size_t head = 0; head < tile->layer->n_kv_heads; head++) {
        lr_attn attn = head_arguments(tile, state, head);
        tile->kernels->attn_finish(&attn);
    }
}
