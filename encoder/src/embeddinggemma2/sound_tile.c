/* The blocks of the sound tower over tiles of tokens. Two loops over the pool a layer, cut where a
 * token needs other tokens' rows: the keys before it, and what enters the convolution before it. All
 * else concerns one row and follows in one go while it is in cache. */
#include <math.h>
#include <string.h>

#include "sound.h"

#define NORM_EPS 1e-6f /* of the norms whose eps the configuration does not set */
#define BANDS_0 (EG2_MEL_BANDS / 2) /* after the first subsampling convolution */
#define GROUP 3                     /* tokens whose subsampling is done together */
#define GROUP_FRAMES (2 * GROUP + 1) /* that they need of the first convolution */

_Static_assert(GROUP * EG2_TOKEN_BANDS == LR_ROW_TILE, "a group fills a tile of the second convolution");
_Static_assert(LR_ROW_TILE % GROUP == 0 && BANDS_0 <= LR_ROW_TILE, "groups are cut at the tiles");

/* One thread's share of the scratch. */
typedef struct tile_scratch {
    float *x;      /* [LR_ROW_TILE, max(C, EG2_TOKEN_BANDS * channels[1], wide)] */
    float *y;      /* [LR_ROW_TILE, C] */
    float *inner;  /* [LR_ROW_TILE, 4 C] */
    float *frames; /* [GROUP_FRAMES, BANDS_0, channels[0]] after the first convolution */
    float *taps;   /* [LR_ROW_TILE, 3 * 3 * channels[0]] */
    float *logits; /* [window] */
    float *linear; /* lr_dense_run's */
} tile_scratch;

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t linear_floats(const eg2_sound_run *run)
{
    const eg2_sound *s = run->tower;
    const eg2_sound_layer *l = &s->layers[0]; /* all have the same shapes */
    const lr_dense *dense[] = {&l->ffn[0].in, &l->ffn[0].out, &l->q, &l->post, &l->conv_in,
                               &l->conv_out};
    lr_linear *const plain[] = {s->subsample[0], s->subsample[1], s->input_proj, s->output_proj,
                                s->projector};
    size_t floats = 0;
    for (size_t i = 0; i < sizeof dense / sizeof *dense; i++)
        floats = most(floats, lr_dense_scratch(run->kernels, dense[i], LR_ROW_TILE));
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        floats = most(floats, run->kernels->linear_scratch(plain[i], LR_ROW_TILE));
    return floats;
}

static size_t cut_tile(const eg2_sound_run *run, float *base, tile_scratch *tile)
{
    const eg2_sound *s = run->tower;
    lr_cutter cutter = {.base = base};
    size_t subsampled = EG2_TOKEN_BANDS * s->channels[1];
    tile->x = lr_cut(&cutter, LR_ROW_TILE * most(most(s->hidden, s->wide), subsampled));
    tile->y = lr_cut(&cutter, LR_ROW_TILE * s->hidden);
    tile->inner = lr_cut(&cutter, LR_ROW_TILE * 4 * s->hidden);
    tile->frames = lr_cut(&cutter, GROUP_FRAMES * BANDS_0 * s->channels[0]);
    tile->taps = lr_cut(&cutter, LR_ROW_TILE * 9 * s->channels[0]);
    tile->logits = lr_cut(&cutter, s->window);
    tile->linear = lr_cut(&cutter, linear_floats(run));
    return cutter.used;
}

size_t eg2_sound_tile_floats(const eg2_sound_run *run)
{
    tile_scratch tile;
    return cut_tile(run, NULL, &tile);
}

/* Tokens [first, first + rows) of the track, row `at` on of the block. */
typedef struct span {
    uint64_t first;
    size_t at, rows;
} span;

/* ------------------------------------------------------------------ subsampling */

/* Frame u of the first convolution, [BANDS_0, channels[0]], from mel frames 2u - 1 .. 2u + 1. Frames
 * before the track or past its valid ones are zero, as the reference masks them. */
static void first_convolution(const eg2_sound_run *run, const tile_scratch *tile, int64_t u, float *out)
{
    const eg2_sound *s = run->tower;
    const lr_kernels *kernels = run->kernels;
    size_t channels = s->channels[0];
    if (u < 0 || 2 * (uint64_t)u >= run->valid) {
        memset(out, 0, BANDS_0 * channels * sizeof *out);
        return;
    }
    int64_t buffer_first = (int64_t)(EG2_TOKEN_FRAMES * run->at) - 3;
    const float *mel = run->mel + (2 * u - 1 - buffer_first) * EG2_MEL_BANDS;
    for (size_t band = 0; band < BANDS_0; band++) {
        float *tap = tile->taps + band * 9;
        for (size_t t = 0; t < 3; t++)
            for (size_t f = 0; f < 3; f++, tap++)
                *tap = band == 0 && f == 0 ? 0 : mel[t * EG2_MEL_BANDS + 2 * band + f - 1];
    }
    kernels->linear_run(s->subsample[0], out, channels, tile->taps, 9, BANDS_0, (uint64_t)u * BANDS_0,
                        NULL, tile->linear);
    kernels->layer_norm(out, channels, out, channels, s->subsample_norm[0], NULL, BANDS_0, channels,
                        s->eps);
    kernels->relu(out, out, BANDS_0 * channels);
}

/* `count` <= GROUP tokens to out [count, EG2_TOKEN_BANDS, channels[1]]: mel outer, channel inner. */
static void subsample(const eg2_sound_run *run, const tile_scratch *tile, uint64_t first, size_t count,
                      float *out)
{
    const eg2_sound *s = run->tower;
    const lr_kernels *kernels = run->kernels;
    size_t in = s->channels[0], channels = s->channels[1], frame = BANDS_0 * in;
    for (size_t i = 0; i < 2 * count + 1; i++)
        first_convolution(run, tile, 2 * (int64_t)first - 1 + (int64_t)i, tile->frames + i * frame);
    float *tap = tile->taps;
    for (size_t token = 0; token < count; token++)
        for (size_t band = 0; band < EG2_TOKEN_BANDS; band++)
            for (size_t t = 0; t < 3; t++)
                for (size_t f = 0; f < 3; f++, tap += in) {
                    const float *from = tile->frames + (2 * token + t) * frame + (2 * band + f) * in;
                    if (band == 0 && f == 0) memset(tap, 0, in * sizeof *tap);
                    else memcpy(tap, from - in, in * sizeof *tap);
                }
    size_t rows = count * EG2_TOKEN_BANDS;
    kernels->linear_run(s->subsample[1], out, channels, tile->taps, 9 * in, rows,
                        first * EG2_TOKEN_BANDS, NULL, tile->linear);
    kernels->layer_norm(out, channels, out, channels, s->subsample_norm[1], NULL, rows, channels,
                        s->eps);
    kernels->relu(out, out, rows * channels);
}

static void embed(const eg2_sound_run *run, const tile_scratch *tile, span tokens)
{
    const eg2_sound *s = run->tower;
    size_t width = EG2_TOKEN_BANDS * s->channels[1];
    for (size_t i = 0; i < tokens.rows; i += GROUP) {
        size_t count = tokens.rows - i < GROUP ? tokens.rows - i : GROUP;
        subsample(run, tile, tokens.first + i, count, tile->x + i * width);
    }
    run->kernels->linear_run(s->input_proj, run->h + tokens.at * s->hidden, s->hidden, tile->x, width,
                             tokens.rows, tokens.first, NULL, tile->linear);
}

/* ------------------------------------------------------------------ parts of a layer */

/* y = norm(clamp(x)) */
static void clamp_norm(const eg2_sound_run *run, float *y, const float *x, const float *gain,
                       size_t rows)
{
    const eg2_sound *s = run->tower;
    run->kernels->clamp(y, x, -s->clip, s->clip, rows * s->hidden);
    run->kernels->rms_norm(y, s->hidden, y, s->hidden, gain, rows, s->hidden, NORM_EPS);
}

static void feed_forward(const eg2_sound_run *run, const eg2_sound_ffn *ffn, const tile_scratch *tile,
                         span tokens)
{
    const eg2_sound *s = run->tower;
    const lr_kernels *kernels = run->kernels;
    size_t c = s->hidden;
    float *h = run->h + tokens.at * c;
    clamp_norm(run, tile->x, h, ffn->pre_norm, tokens.rows);
    lr_dense_run(kernels, &ffn->in, tile->inner, 4 * c, tile->x, c, tokens.rows, tokens.first,
                 tile->linear);
    kernels->silu(tile->inner, tile->inner, tokens.rows * 4 * c);
    lr_dense_run(kernels, &ffn->out, tile->y, c, tile->inner, 4 * c, tokens.rows, tokens.first,
                 tile->linear);
    clamp_norm(run, tile->y, tile->y, ffn->post_norm, tokens.rows);
    kernels->axpy(h, s->residual_weight, tile->y, tokens.rows * c);
}

static void project(const eg2_sound_run *run, const eg2_sound_layer *layer, const tile_scratch *tile,
                    span tokens)
{
    const eg2_sound *s = run->tower;
    const lr_kernels *kernels = run->kernels;
    size_t c = s->hidden, before = s->window - 1;
    float *q = run->q + tokens.at * c, *k = run->k + (before + tokens.at) * c;
    clamp_norm(run, tile->x, run->h + tokens.at * c, layer->pre_norm, tokens.rows);
    lr_dense_run(kernels, &layer->q, q, c, tile->x, c, tokens.rows, tokens.first, tile->linear);
    lr_dense_run(kernels, &layer->k, k, c, tile->x, c, tokens.rows, tokens.first, tile->linear);
    lr_dense_run(kernels, &layer->v, run->v + (before + tokens.at) * c, c, tile->x, c, tokens.rows,
                 tokens.first, tile->linear);
    for (size_t i = 0; i < tokens.rows * s->n_heads; i++, q += s->head_dim)
        for (size_t j = 0; j < s->head_dim; j++) q[j] *= layer->q_scale[j];
    kernels->scale(k, k, s->k_scale, tokens.rows * c);
}

/* One head of token `at` of the block over the `seen` keys that end with its own:
 * logit(d) = cap tanh((q . k(d) + q . relative(d)) / cap) at distance d. */
static void attend(const eg2_sound_run *run, const eg2_sound_layer *layer, size_t at, size_t head,
                   size_t seen, float *logits, float *out)
{
    const eg2_sound *s = run->tower;
    const lr_kernels *kernels = run->kernels;
    size_t c = s->hidden, dim = s->head_dim, column = head * dim, own = s->window - 1 + at;
    const float *q = run->q + at * c + column;
    float top = -INFINITY, sum = 0;
    for (size_t d = 0; d < seen; d++) {
        float content = kernels->dot(q, run->k + (own - d) * c + column, dim);
        float place = kernels->dot(q, layer->relative + d * c + column, dim);
        logits[d] = s->cap * tanhf((content + place) / s->cap);
        if (logits[d] > top) top = logits[d];
    }
    for (size_t d = 0; d < seen; d++) {
        logits[d] = expf(logits[d] - top);
        sum += logits[d];
    }
    memset(out, 0, dim * sizeof *out);
    for (size_t d = seen; d-- > 0;)
        kernels->axpy(out, logits[d] / sum, run->v + (own - d) * c + column, dim);
}

static void attention(const eg2_sound_run *run, const eg2_sound_layer *layer, const tile_scratch *tile,
                      span tokens)
{
    const eg2_sound *s = run->tower;
    size_t c = s->hidden;
    float *h = run->h + tokens.at * c;
    for (size_t r = 0; r < tokens.rows; r++) {
        uint64_t before = tokens.first + r - run->begin; /* tokens of this run, all of them worked */
        size_t seen = before < s->window ? (size_t)before + 1 : s->window;
        for (size_t head = 0; head < s->n_heads; head++)
            attend(run, layer, tokens.at + r, head, seen, tile->logits,
                   tile->x + r * c + head * s->head_dim);
    }
    lr_dense_run(run->kernels, &layer->post, tile->y, c, tile->x, c, tokens.rows, tokens.first,
                 tile->linear);
    clamp_norm(run, tile->y, tile->y, layer->post_norm, tokens.rows);
    run->kernels->add(h, h, tile->y, tokens.rows * c);
}

static void gate(const eg2_sound_run *run, const eg2_sound_layer *layer, const tile_scratch *tile,
                 span tokens)
{
    const eg2_sound *s = run->tower;
    size_t c = s->hidden;
    run->kernels->rms_norm(tile->x, c, run->h + tokens.at * c, c, layer->conv_pre_norm, tokens.rows, c,
                           s->eps);
    lr_dense_run(run->kernels, &layer->conv_in, tile->inner, 2 * c, tile->x, c, tokens.rows,
                 tokens.first, tile->linear);
    run->kernels->glu(run->gated + (s->kernel - 1 + tokens.at) * c, c, tile->inner, tile->inner + c,
                      2 * c, tokens.rows, c);
}

static void convolution(const eg2_sound_run *run, const eg2_sound_layer *layer,
                        const tile_scratch *tile, span tokens)
{
    const eg2_sound *s = run->tower;
    const lr_kernels *kernels = run->kernels;
    size_t c = s->hidden;
    float *h = run->h + tokens.at * c;
    for (size_t r = 0; r < tokens.rows; r++) {
        const float *from = run->gated + (tokens.at + r) * c;
        float *to = tile->x + r * c;
        for (size_t j = 0; j < c; j++) to[j] = layer->conv[j] * from[j];
        for (size_t i = 1; i < s->kernel; i++)
            for (size_t j = 0; j < c; j++) to[j] += layer->conv[i * c + j] * from[i * c + j];
    }
    kernels->clamp(tile->x, tile->x, -s->clip, s->clip, tokens.rows * c);
    kernels->rms_norm(tile->x, c, tile->x, c, layer->conv_norm, tokens.rows, c, s->eps);
    kernels->silu(tile->x, tile->x, tokens.rows * c);
    lr_dense_run(kernels, &layer->conv_out, tile->y, c, tile->x, c, tokens.rows, tokens.first,
                 tile->linear);
    kernels->add(h, h, tile->y, tokens.rows * c);
}

static void output(const eg2_sound_run *run, const tile_scratch *tile, span tokens)
{
    const eg2_sound *s = run->tower;
    const lr_kernels *kernels = run->kernels;
    float *out = run->out + tokens.at * s->wide;
    kernels->linear_run(s->output_proj, out, s->wide, run->h + tokens.at * s->hidden, s->hidden,
                        tokens.rows, tokens.first, s->output_bias, tile->linear);
    kernels->rms_norm(tile->x, s->wide, out, s->wide, NULL, tokens.rows, s->wide, s->eps);
    kernels->linear_run(s->projector, run->soft + tokens.at * s->soft, s->soft, tile->x, s->wide,
                        tokens.rows, tokens.first, NULL, tile->linear);
}

/* ------------------------------------------------------------------ loops */

typedef struct tile_loop {
    const eg2_sound_run *run;
    lr_tiling tiling;
    size_t layer;
} tile_loop;

static span tile_of(const tile_loop *loop, size_t index, size_t worker, tile_scratch *tile)
{
    span tokens;
    (void)cut_tile(loop->run, lr_scratch_of(&loop->run->scratch, worker), tile);
    lr_tiling_get(&loop->tiling, index, &tokens.first, &tokens.rows);
    tokens.at = (size_t)(tokens.first - loop->run->at);
    return tokens;
}

/* The end of layer - 1 and the start of `layer`, up to its keys. */
static void between_layers(void *arg, size_t index, size_t worker)
{
    const tile_loop *loop = arg;
    const eg2_sound_run *run = loop->run;
    const eg2_sound *s = run->tower;
    tile_scratch tile;
    span tokens = tile_of(loop, index, worker, &tile);
    if (loop->layer == 0) {
        embed(run, &tile, tokens);
    } else {
        const eg2_sound_layer *last = &s->layers[loop->layer - 1];
        float *h = run->h + tokens.at * s->hidden;
        convolution(run, last, &tile, tokens);
        feed_forward(run, &last->ffn[1], &tile, tokens);
        clamp_norm(run, h, h, last->out_norm, tokens.rows);
    }
    if (loop->layer == s->n_layers) {
        output(run, &tile, tokens);
        return;
    }
    feed_forward(run, &s->layers[loop->layer].ffn[0], &tile, tokens);
    project(run, &s->layers[loop->layer], &tile, tokens);
}

/* From the keys to what enters the convolution. */
static void inside_layer(void *arg, size_t index, size_t worker)
{
    const tile_loop *loop = arg;
    const eg2_sound_layer *layer = &loop->run->tower->layers[loop->layer];
    tile_scratch tile;
    span tokens = tile_of(loop, index, worker, &tile);
    attention(loop->run, layer, &tile, tokens);
    gate(loop->run, layer, &tile, tokens);
}

/* The rows before the block, kept by the layer from the last one; and the block's last rows. */
static void take_tail(float *rows, const float *tail, size_t count, size_t width)
{
    memcpy(rows, tail, count * width * sizeof *rows);
}

static void keep_tail(const float *rows, float *tail, size_t count, size_t worked, size_t width)
{
    memcpy(tail, rows + worked * width, count * width * sizeof *rows);
}

lr_status eg2_sound_block(eg2_sound_run *run, lr_error *err)
{
    lr_status st = LR_OK;
    const eg2_sound *s = run->tower;
    lr_pool *pool = run->worker.pool;
    size_t c = s->hidden, keys = s->window - 1, rows = s->kernel - 1;
    tile_loop loop = {.run = run, .tiling = {.first = run->at, .end = run->at + run->count,
                                             .height = LR_ROW_TILE}};
    size_t tiles = lr_tiling_count(&loop.tiling);
    for (size_t i = 0; i < s->n_layers; i++) {
        float *k_tail = run->k_tail + i * keys * c, *v_tail = run->v_tail + i * keys * c;
        float *gated_tail = run->gated_tail + i * rows * c;
        LR_TRY(lr_cancel_check(run->worker.cancel, err));
        loop.layer = i;
        take_tail(run->k, k_tail, keys, c);
        take_tail(run->v, v_tail, keys, c);
        lr_pool_for(pool, tiles, between_layers, &loop);
        take_tail(run->gated, gated_tail, rows, c);
        lr_pool_for(pool, tiles, inside_layer, &loop);
        keep_tail(run->k, k_tail, keys, run->count, c);
        keep_tail(run->v, v_tail, keys, run->count, c);
        keep_tail(run->gated, gated_tail, rows, run->count, c);
    }
    loop.layer = s->n_layers;
    lr_pool_for(pool, tiles, between_layers, &loop);
done:
    return st;
}
