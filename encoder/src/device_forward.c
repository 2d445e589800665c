/* One forward pass over a rank's tokens on a device.
 *
 * Layer: (1) keys and values of the rank's tokens, batch by batch, into one buffer, from which the own chunks are
 * used in place; (2) the exchange lists the chunks that the rank's queries see, with its proof that each key is
 * seen once; (3) attention over the list and the rest of the layer, batch by batch. Where keys come from other
 * ranks they pass through the host: the own ones are fetched after (1), what arrives is sent up group by group,
 * and each group but the last is attended to as soon as it is complete, with the softmax state kept between. A
 * row meets the chunks in ascending order either way, and where batches and groups are cut does not matter to it,
 * so the bits are the same.
 *
 * The host waits for the device
 *   - once a layer, at its end (report_layer): so that progress, a wish to stop and failures are seen there;
 *   - with several ranks, once a layer for the own keys and values (fetch_own), and before it writes again where a
 *     group that is two groups old was sent up from (next_slot);
 *   - for the hidden state, where a stage is shown or a layer put away (fetch_hidden), and at the end. */
#include <string.h>
#include <time.h>

#include "device_pass.h"
#include "exchange.h"

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static lr_status wait_for_device(lr_pass *p, lr_stream *stream, lr_error *err)
{
    double begin = now();
    lr_status st = p->ops->wait(stream, err);
    p->seconds_waiting += now() - begin;
    return st;
}

/* ------------------------------------------------------------------ batches */

lr_rows lr_device_view(lr_device_at at, size_t width, lr_dtype dtype)
{
    return (lr_rows){.at = at, .ld = width, .head = width, .dtype = dtype};
}

/* The view from the pass's row `row` on. */
static lr_rows rows_from(lr_rows view, size_t row)
{
    if (view.at) view.at += row * view.ld * lr_dtype_size(view.dtype);
    return view;
}

static lr_device_places places_from(lr_device_places places, size_t row)
{
    for (size_t axis = 0; axis < 3; axis++)
        if (places.number[axis]) places.number[axis] += row * sizeof(int32_t);
    return places;
}

/* Rows [row, ...) of the rank's tokens; none past the end. */
static lr_device_batch batch_at(const lr_pass *p, size_t row)
{
    size_t left = p->local - row;
    return (lr_device_batch){.ops = p->ops,
                             .stream = p->stream,
                             .backbone = p->backbone,
                             .layer = p->layer,
                             .model = p->on,
                             .weights = &p->on->layers[p->layer_index],
                             .work = &p->work,
                             .places = places_from(p->places, row),
                             .first = p->first + row,
                             .rows = left < p->work.rows ? left : p->work.rows,
                             .h = rows_from(p->h, row),
                             .e = rows_from(p->e, row)};
}

static void norm_rows(const lr_device_batch *b, lr_rows y, lr_device_at w, lr_device_at bias)
{
    size_t d = b->backbone->hidden;
    if (b->backbone->layer_norm) b->ops->layer_norm(b->stream, y, b->h, w, bias, b->rows, d, b->backbone->eps);
    else b->ops->rms_norm(b->stream, y, b->h, w, b->rows, 1, d, b->backbone->eps);
}

static lr_rows norm_input(const lr_device_batch *b)
{
    lr_rows norm = lr_device_view(b->work->norm, b->backbone->hidden, LR_BF16);
    norm_rows(b, norm, b->weights->input_norm, b->weights->input_norm_bias);
    return norm;
}

static size_t q_width(const lr_layer *layer)
{
    return layer->n_heads * layer->head_dim;
}

/* ------------------------------------------------------------------ keys, values, queries */

static void keys_values(const lr_pass *p, const lr_device_batch *b, size_t row)
{
    size_t width = lr_pass_kv_bytes(b->layer) / 2, half = width / 2; /* values of a token */
    lr_rows x = lr_device_view(b->work->wide, width, LR_F32), v = x;
    lr_rows kv = rows_from(lr_device_view(p->kv, width, LR_BF16), row), out = kv;
    v.at += half * sizeof(float);
    out.at += half * lr_dtype_size(LR_BF16);
    b->ops->linear(b->stream, x, norm_input(b), b->weights->kv, b->weights->kv_bias, b->rows, width,
                   b->backbone->hidden);
    b->backbone->device_block->heads(b, LR_HEADS_K, x, kv);
    b->backbone->device_block->heads(b, LR_HEADS_V, v, out);
}

static void queries(const lr_device_batch *b, lr_rows out)
{
    size_t width = q_width(b->layer);
    lr_rows x = lr_device_view(b->work->wide, width, LR_F32);
    b->ops->linear(b->stream, x, norm_input(b), b->weights->q, b->weights->q_bias, b->rows, width, b->backbone->hidden);
    b->backbone->device_block->heads(b, LR_HEADS_Q, x, out);
}

/* Alone, a batch's queries live as long as the batch; else all are kept. */
static lr_rows queries_of(const lr_pass *p, size_t row)
{
    lr_rows q = lr_device_view(p->alone ? p->work.act : p->state.q, q_width(p->layer), LR_BF16);
    return p->alone ? q : rows_from(q, row);
}

/* ------------------------------------------------------------------ attention */

/* Of the chunks that are listed and not attended to, those that a batch sees: [*begin, *end) of the list. */
static void seen_by(const lr_pass *p, const lr_device_batch *b, size_t *begin, size_t *end)
{
    uint64_t lo, hi, n = p->run->partition->n_tokens, ignored;
    lr_mask_range(&b->layer->mask, b->first, n, &lo, &ignored);
    lr_mask_range(&b->layer->mask, b->first + b->rows - 1, n, &ignored, &hi);
    *begin = p->n_listed - p->n_pending;
    *end = p->n_listed;
    while (*begin < *end && p->listed[*begin].first_key + p->listed[*begin].n_keys <= lo) (*begin)++;
    while (*end > *begin && p->listed[*end - 1].first_key >= hi) (*end)--;
}

/* A batch against what is pending; `out` at 0: the state is kept. */
static void attend(const lr_pass *p, const lr_device_batch *b, size_t row, lr_rows out)
{
    const lr_layer *layer = b->layer;
    const lr_pass_mask *mask = lr_pass_mask_of(p, layer);
    size_t begin, end, width = q_width(layer), heads = layer->n_heads;
    bool resume = p->n_groups > 0;
    seen_by(p, b, &begin, &end);
    if (begin == end && resume && !out.at) return; /* nothing of this group: the state stays as it is */
    lr_device_attn attn = {.n_tokens = b->rows,
                           .n_kv_heads = layer->n_kv_heads,
                           .head_dim = layer->head_dim,
                           .group = layer->n_heads / layer->n_kv_heads,
                           .q = queries_of(p, row),
                           .out = out,
                           .lo = mask->lo + row * sizeof(uint64_t),
                           .hi = mask->hi + row * sizeof(uint64_t),
                           .chunks = p->list + begin * sizeof(lr_device_chunk),
                           .n_chunks = end - begin,
                           .kv_ld = lr_pass_kv_bytes(layer) / 2,
                           .resume = resume};
    if (!p->alone) {
        attn.o = rows_from(lr_device_view(p->state.o, width, LR_F32), row);
        attn.m = p->state.m + row * heads * sizeof(float);
        attn.l = p->state.l + row * heads * sizeof(float);
    }
    p->ops->attention(b->stream, &attn);
}

/* What has been listed goes where the kernel reads it, after the keys themselves. */
static void show_pending(const lr_pass *p)
{
    size_t first = p->n_listed - p->n_pending;
    p->ops->upload(p->stream, p->list + first * sizeof *p->listed, p->listed + first, p->n_pending * sizeof *p->listed);
    if (p->n_received == 0) return;
    p->ops->record(p->copies, p->arrived);
    p->ops->wait_for(p->stream, p->arrived);
}

static void attend_group(lr_pass *p)
{
    const lr_rows kept = {0};
    show_pending(p);
    for (size_t row = 0; row < p->local; row += p->work.rows) {
        lr_device_batch b = batch_at(p, row);
        attend(p, &b, row, kept);
    }
    p->ops->record(p->stream, p->used[p->half]);
    p->n_groups++;
    p->n_pending = p->n_received = 0;
    p->half = !p->half;
}

/* By lr_backbone_part: of a batch that is left out what comes out is whatever was there. */
static bool left_out(const lr_pass *p, size_t batch)
{
    size_t every = p->run->part.every;
    return every > 1 && p->layer->mask.kind != LR_MASK_WINDOW && batch % every != 0;
}

static void attend_last_group_and_finish(const lr_pass *p)
{
    if (p->local == 0) return;
    show_pending(p);
    for (size_t row = 0, i = 0; row < p->local; row += p->work.rows, i++) {
        lr_device_batch b = batch_at(p, row);
        lr_rows attended = lr_device_view(p->work.attended, q_width(p->layer), LR_BF16);
        if (p->alone) queries(&b, queries_of(p, row));
        if (!left_out(p, i)) attend(p, &b, row, attended);
        p->backbone->device_block->rest(&b, attended);
    }
}

/* ------------------------------------------------------------------ the exchange */

static bool is_own(const lr_pass *p, const lr_chunk_header *chunk)
{
    return chunk->index >= p->first_chunk && chunk->index - p->first_chunk < p->n_chunks;
}

/* Where a chunk that arrived lies on the device from now on. (A communicator that receives there hands over the
 * address itself.) */
static lr_status next_slot(lr_pass *p, const lr_chunk_header *chunk, lr_device_at *at, lr_error *err)
{
    lr_status st = LR_OK;
    if (p->n_received == 0 && p->n_groups >= 2) { /* the half was in use */
        LR_TRY(wait_for_device(p, p->copies, err));
        p->ops->wait_for(p->copies, p->used[p->half]);
    }
    size_t offset = p->n_received++ * p->slot_bytes;
    memcpy(p->staging[p->half] + offset, chunk + 1, (size_t)chunk->payload_bytes);
    *at = p->received[p->half] + offset;
    p->ops->upload(p->copies, *at, p->staging[p->half] + offset, (size_t)chunk->payload_bytes);
done:
    return st;
}

static lr_status list_chunk(void *arg, const lr_chunk_header *chunk, lr_error *err)
{
    lr_pass *p = arg;
    lr_status st = LR_OK;
    const lr_partition *partition = p->run->partition;
    size_t bytes = lr_pass_kv_bytes(p->layer);
    lr_device_at at = p->kv + (size_t)(chunk->first_token - p->first) * bytes;
    if (p->n_listed == partition->n_chunks)
        LR_FAIL(LR_E_COVERAGE, "layer %zu: more chunks than the sequence has", p->layer_index);
    if (p->n_pending == p->group) attend_group(p);
    if (!is_own(p, chunk)) LR_TRY(next_slot(p, chunk, &at, err));
    p->listed[p->n_listed++] = (lr_device_chunk){
        .k = at, .v = at + bytes / 2, .first_key = chunk->first_token, .n_keys = chunk->n_tokens};
    p->n_pending++;
    st = lr_cancel_check(p->run->worker.cancel, err);
done:
    return st;
}

static void seal_body(void *arg, size_t index, size_t worker)
{
    lr_pass *p = arg;
    lr_kv_shape shape = lr_pass_kv_shape(p->layer);
    (void)worker;
    lr_chunk_seal(p->own[index], p->run->partition, (uint32_t)p->layer_index, p->run->sequence,
                  p->first_chunk + index, &shape);
}

/* The own chunks as they travel. */
static lr_status fetch_own(lr_pass *p, lr_error *err)
{
    const lr_partition *partition = p->run->partition;
    size_t bytes = lr_pass_kv_bytes(p->layer);
    for (size_t i = 0; i < p->n_chunks; i++) {
        size_t row = (size_t)((p->first_chunk + i) * partition->chunk - p->first);
        uint64_t tokens = lr_partition_chunk_tokens(partition, p->first_chunk + i);
        p->ops->download(p->stream, p->own[i] + 1, p->kv + row * bytes, (size_t)tokens * bytes);
    }
    lr_status st = wait_for_device(p, p->stream, err);
    if (st == LR_OK) lr_pool_for(p->run->worker.pool, p->n_chunks, seal_body, p);
    return st;
}

static lr_status share_chunks(lr_pass *p, lr_ring_stats *ring, lr_error *err)
{
    lr_status st = LR_OK;
    lr_kv_shape shape = lr_pass_kv_shape(p->layer);
    size_t mark = lr_arena_mark(&p->arena);
    p->n_listed = p->n_pending = p->n_received = p->n_groups = 0;
    p->half = 0;
    for (size_t i = 0; p->alone && i < p->n_chunks; i++)
        lr_chunk_head(p->own[i], p->run->partition, (uint32_t)p->layer_index, p->run->sequence, p->first_chunk + i,
                      &shape);
    if (!p->alone) LR_TRY(fetch_own(p, err));
    lr_exchange exchange = lr_pass_exchange(p, p->run->comm, p->layer);
    LR_TRY(lr_exchange_run(&exchange, list_chunk, p, ring, err));
done:
    lr_arena_reset(&p->arena, mark);
    return st;
}

/* ------------------------------------------------------------------ layers */

static lr_status report_layer(lr_pass *p, lr_error *err)
{
    const lr_backbone_run *run = p->run;
    lr_status st = wait_for_device(p, p->stream, err);
    if (st != LR_OK) return st;
    if (run->progress) run->progress(run->progress_arg, p->layer_index, p->backbone->n_layers, 1);
    if (run->state.within) run->state.within(run->state.arg, 1);
    return lr_cancel_check(run->worker.cancel, err);
}

static lr_status run_layer(lr_pass *p, lr_backbone_stats *stats, lr_error *err)
{
    lr_ring_stats ring = {0};
    for (size_t row = 0; row < p->local; row += p->work.rows) {
        lr_device_batch b = batch_at(p, row);
        keys_values(p, &b, row);
        if (!p->alone) queries(&b, queries_of(p, row));
    }
    lr_status st = share_chunks(p, &ring, err);
    if (st != LR_OK) return st;
    attend_last_group_and_finish(p);
    lr_add_ring_stats(&stats->ring, &ring);
    stats->query_rows += p->local;
    return report_layer(p, err);
}

static lr_status fetch_hidden(lr_pass *p, lr_error *err)
{
    p->ops->download(p->stream, p->x, p->h.at, p->local * p->backbone->hidden * sizeof *p->x);
    return wait_for_device(p, p->stream, err);
}

static lr_status tap(lr_pass *p, const char *name, int layer, lr_error *err)
{
    const lr_stage_tap *sink = &p->run->tap;
    if (!sink->sink) return LR_OK;
    lr_status st = fetch_hidden(p, err);
    lr_tensor rows = {.dtype = LR_F32, .n_dims = 2, .dims = {p->local, p->backbone->hidden}, .data = p->x};
    return st == LR_OK ? sink->sink(sink->arg, name, layer, p->first, &rows, err) : st;
}

static lr_status load_state(lr_pass *p, size_t layer, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(wait_for_device(p, p->stream, err)); /* x is being sent up */
    LR_TRY(p->run->state.load(p->run->state.arg, layer, p->x, err));
    p->ops->upload(p->stream, p->h.at, p->x, p->local * p->backbone->hidden * sizeof *p->x);
done:
    return st;
}

static lr_status keep_state(lr_pass *p, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_backbone_state *state = &p->run->state;
    bool last = p->layer_index + 1 == p->backbone->n_layers, leave = false;
    if (state->save && (p->layer->mask.kind == LR_MASK_FULL || last)) {
        LR_TRY(fetch_hidden(p, err));
        LR_TRY(state->save(state->arg, p->layer_index, p->x, err));
    }
    if (state->after) LR_TRY(state->after(state->arg, p->layer_index, &leave, err));
    if (!leave) goto done;
    LR_TRY(fetch_hidden(p, err));
    LR_TRY(state->leave_with(state->arg, p->layer_index, p->x, err));
done:
    return st;
}

static void final_norm(const lr_pass *p)
{
    for (size_t row = 0; row < p->local; row += p->work.rows) {
        lr_device_batch b = batch_at(p, row);
        norm_rows(&b, b.h, p->on->final_norm, p->on->final_norm_bias);
    }
}

static lr_status run_layers(lr_pass *p, lr_backbone_stats *stats, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_backbone_run *run = p->run;
    const size_t resumed = run->state.first_layer, part = run->part.layers;
    const size_t n_layers = part > 0 && part < p->backbone->n_layers ? part : p->backbone->n_layers;
    LR_TRY(tap(p, "embeds", -1, err));
    if (resumed > 0) LR_TRY(load_state(p, resumed - 1, err));
    for (size_t i = resumed; i < n_layers; i++) {
        p->layer_index = i;
        p->layer = &p->backbone->layers[i];
        LR_TRY(run_layer(p, stats, err));
        LR_TRY(tap(p, "layers", (int)i, err));
        LR_TRY(keep_state(p, err));
    }
    p->layer_index = 0;
    final_norm(p);
    LR_TRY(fetch_hidden(p, err));
    LR_TRY(tap(p, "normed", -1, err));
done:
    return st;
}

lr_status lr_device_forward(const lr_model *model, const lr_backbone_run *run, float *x,
                            lr_backbone_stats *stats, lr_error *err)
{
    lr_status st = LR_OK;
    lr_backbone_stats sum = {0};
    lr_pass pass = {0};
    double begin = now();
    LR_TRY(lr_pass_place(&pass, model, run, run->comm->rank, err));
    LR_TRY(lr_pass_begin(&pass, x, err));
    LR_TRY(run_layers(&pass, &sum, err));
    sum.seconds_exchange = sum.ring.seconds_waiting;
    sum.seconds_linear = now() - begin - sum.seconds_exchange; /* all of the device's: it is not timed apart */
    sum.arena_bytes = pass.arena.size;
    sum.device_bytes = pass.bytes;
    if (stats) *stats = sum;
done:
    lr_pass_end(&pass);
    return st;
}
