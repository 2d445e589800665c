/* One forward pass over a rank's tokens: memory, the passes of a layer over tiles, and the exchange.
 *
 * Layer: (1) over tiles of the rank's tokens: K and V into the rank's own chunks, sealed when all are
 * there; (2) attention and the rest. Where this rank holds all keys, (2) is a loop over query tiles
 * with the chunks inside, and a tile's softmax state lives in its thread's work memory. Where keys
 * come from other ranks, q, o, m and l of all local tokens are kept and each arriving chunk is shown
 * to all tiles. Either way a row meets the chunks in ascending order, so the bits are the same. */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "backbone.h"
#include "blocks.h"
#include "model.h"
#include "on_device.h"

/* Rows of pass 1: in one chunk and in one tile of the sequence. */
typedef struct kv_piece {
    uint64_t first;
    size_t chunk, rows; /* chunk: number among the own ones */
} kv_piece;

/* Sums of one thread; a cache line each. */
typedef struct thread_sums {
    double attention, linear, processor_full;
    uint64_t query_rows, full_rows;
    char pad[LR_ALIGN - 3 * sizeof(double) - 2 * sizeof(uint64_t)];
} thread_sums;

typedef struct forward {
    const lr_backbone *backbone;
    const lr_kernels *kernels;
    const lr_backbone_run *run;
    uint64_t first, end;     /* the rank's tokens */
    uint64_t first_chunk;
    size_t n_chunks;         /* own */
    bool alone;              /* all keys are here */
    float *h, *e;            /* [local, D]; e NULL without a per-layer input */
    lr_tiling tiling;        /* query tiles */

    lr_arena arena;
    lr_chunk_header **own;   /* [n_chunks] */
    kv_piece *pieces;
    size_t n_pieces;
    const lr_chunk_header **seen; /* alone: the chunks in order, for the loop over tiles */
    size_t n_seen;
    lr_tile_state state;     /* not alone: of all local tokens */
    lr_tile_work *work;      /* [threads] */
    thread_sums *sums;       /* [threads] */
    size_t threads;

    /* The layer at hand. */
    size_t layer_index;
    const lr_layer *layer;
    const lr_chunk_header *chunk; /* the one being visited */
    atomic_size_t tiles_done;
} forward;

static double clock_now(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void)
{
    return clock_now(CLOCK_MONOTONIC);
}

/* ------------------------------------------------------------------ memory */

static size_t q_floats(const lr_layer *layer)
{
    return layer->n_heads * layer->head_dim;
}

static lr_kv_shape kv_shape(const lr_layer *layer)
{
    return (lr_kv_shape){.n_kv_heads = layer->n_kv_heads, .head_dim = layer->head_dim};
}

static size_t most_q_floats(const lr_backbone *backbone)
{
    size_t most = 0;
    for (size_t i = 0; i < backbone->n_layers; i++)
        if (q_floats(&backbone->layers[i]) > most) most = q_floats(&backbone->layers[i]);
    return most;
}

static size_t most_heads(const lr_backbone *backbone)
{
    size_t most = 0;
    for (size_t i = 0; i < backbone->n_layers; i++)
        if (backbone->layers[i].n_heads > most) most = backbone->layers[i].n_heads;
    return most;
}

/* Bytes of a chunk of n tokens in the layer where it is largest. */
static size_t most_chunk_bytes(const lr_backbone *backbone, uint64_t n_tokens)
{
    size_t most = 0;
    for (size_t i = 0; i < backbone->n_layers; i++) {
        lr_kv_shape shape = kv_shape(&backbone->layers[i]);
        size_t bytes = lr_chunk_bytes(&shape, n_tokens);
        if (bytes > most) most = bytes;
    }
    return most;
}

static lr_exchange exchange_of(forward *f, lr_comm *comm, const lr_layer *layer)
{
    return (lr_exchange){.comm = comm,
                         .partition = f->run->partition,
                         .shape = kv_shape(layer),
                         .mask = layer->mask,
                         .layer = (uint32_t)f->layer_index,
                         .sequence = f->run->sequence,
                         .schedule = layer->mask.kind == LR_MASK_WINDOW ? LR_SCHEDULE_HALO : f->run->schedule,
                         .node_ranks = f->run->node_ranks,
                         .own = f->own,
                         .arena = &f->arena,
                         .cancel = f->run->worker.cancel};
}

static size_t most_exchange_scratch(forward *f, lr_comm *comm)
{
    size_t most = 0;
    for (size_t i = 0; i < f->backbone->n_layers; i++) {
        lr_exchange exchange = exchange_of(f, comm, &f->backbone->layers[i]);
        size_t bytes = lr_exchange_scratch(&exchange);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Calls of lr_arena_take, or their sum: the same list sizes the arena and cuts it. */
typedef struct taker {
    lr_arena *arena; /* NULL: count only */
    size_t bytes;
    bool failed;
} taker;

static void *take(taker *t, uint64_t count, size_t size)
{
    size_t bytes = 0, rounded = 0;
    if (count > SIZE_MAX || !lr_mul_size((size_t)count, size, &bytes) ||
        !lr_add_size(bytes, LR_ALIGN - 1, &rounded) ||
        !lr_add_size(t->bytes, rounded - rounded % LR_ALIGN, &t->bytes))
        t->failed = true;
    if (!t->arena || t->failed) return NULL;
    void *place = lr_arena_take(t->arena, (size_t)count, size);
    if (!place) t->failed = true;
    return place;
}

static uint64_t most_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t count_pieces(const forward *f)
{
    uint64_t count = 0;
    for (size_t i = 0; i < f->n_chunks; i++) {
        lr_tiling tiling = {.height = f->tiling.height};
        tiling.first = (f->first_chunk + i) * f->run->partition->chunk;
        tiling.end = tiling.first + lr_partition_chunk_tokens(f->run->partition, f->first_chunk + i);
        count += lr_tiling_count(&tiling);
    }
    return count;
}

static void take_all(forward *f, taker *t, lr_comm *comm)
{
    const lr_backbone *backbone = f->backbone;
    uint64_t local = f->end - f->first;
    lr_tile_work uncut;
    size_t work_floats = lr_tile_work_cut(f->kernels, backbone, !f->alone, NULL, &uncut);
    size_t wide = lr_tile_wide_floats(backbone);
    if (backbone->ple > 0) f->e = take(t, local, backbone->hidden * sizeof(float));
    f->own = take(t, f->n_chunks, sizeof *f->own);
    f->pieces = take(t, count_pieces(f), sizeof *f->pieces);
    for (size_t i = 0; i < f->n_chunks; i++) {
        uint64_t tokens = lr_partition_chunk_tokens(f->run->partition, f->first_chunk + i);
        size_t bytes = most_chunk_bytes(backbone, tokens);
        lr_chunk_header *chunk = take(t, bytes, 1);
        if (!chunk) continue;
        memset(chunk, 0, bytes);
        chunk->first_token = (f->first_chunk + i) * f->run->partition->chunk;
        chunk->n_tokens = tokens;
        f->own[i] = chunk;
    }
    if (f->alone) {
        f->seen = take(t, f->n_chunks, sizeof *f->seen);
    } else {
        f->state.q = take(t, most_of(local * most_q_floats(backbone), f->threads * wide), sizeof(float));
        f->state.o = take(t, local, most_q_floats(backbone) * sizeof(float));
        f->state.m = take(t, local, most_heads(backbone) * sizeof(float));
        f->state.l = take(t, local, most_heads(backbone) * sizeof(float));
    }
    f->sums = take(t, f->threads, sizeof *f->sums);
    f->work = take(t, f->threads, sizeof *f->work);
    for (size_t i = 0; i < f->threads; i++) {
        float *base = take(t, work_floats, sizeof *base);
        if (base) (void)lr_tile_work_cut(f->kernels, backbone, !f->alone, base, &f->work[i]);
        /* The queries are done with when the rest of a layer begins. */
        if (base && !f->alone) lr_tile_work_widen(backbone, f->state.q + i * wide, &f->work[i]);
    }
    size_t exchange = most_exchange_scratch(f, comm);
    size_t mark = t->arena ? lr_arena_mark(t->arena) : 0;
    (void)take(t, exchange, 1);
    if (t->arena) lr_arena_reset(t->arena, mark);
}

static void place(forward *f, const lr_partition *partition, int rank, size_t threads)
{
    f->first = lr_partition_first_token(partition, rank);
    f->end = lr_partition_end_token(partition, rank);
    f->first_chunk = partition->first_chunk[rank];
    f->n_chunks = (size_t)(partition->first_chunk[rank + 1] - f->first_chunk);
    f->alone = partition->n_ranks == 1;
    f->threads = threads;
    f->tiling = (lr_tiling){.first = f->first, .end = f->end};
    f->tiling.height = lr_tile_height(f->kernels, threads, f->end - f->first);
}

/* Bytes of everything, counted without taking it. */
static lr_status count_memory(forward *f, lr_comm *comm, size_t *bytes, lr_error *err)
{
    taker count = {0};
    take_all(f, &count, comm);
    if (count.failed) return lr_fail(err, LR_E_NOMEM, "the work memory of a rank does not fit");
    *bytes = count.bytes;
    return LR_OK;
}

lr_status lr_backbone_memory(const lr_model *model, const lr_backbone_run *planned, int rank,
                             size_t threads, size_t *bytes, lr_error *err)
{
    const lr_partition *partition = planned->partition;
    if (model->on_device) return lr_device_host_memory(model, planned, rank, bytes, err);
    /* Ranks that share no memory need receive buffers. */
    lr_comm apart = {.rank = rank, .size = partition->n_ranks,
                     .shares_memory = planned->comm && planned->comm->shares_memory};
    lr_backbone_run run = {
        .partition = partition, .schedule = planned->schedule, .node_ranks = planned->node_ranks};
    forward f = {.backbone = &model->backbone, .kernels = model->kernels, .run = &run};
    place(&f, partition, rank, threads);
    return count_memory(&f, &apart, bytes, err);
}

static lr_status prepare(forward *f, float *x, lr_error *err)
{
    lr_status st = LR_OK;
    size_t bytes = 0, n = 0;
    const lr_partition *partition = f->run->partition;
    LR_TRY(count_memory(f, f->run->comm, &bytes, err));
    LR_TRY(lr_arena_init(&f->arena, bytes, "the work memory of the backbone", err));
    taker cut = {.arena = &f->arena};
    take_all(f, &cut, f->run->comm);
    if (cut.failed) LR_FAIL(LR_E_INTERNAL, "the backbone's work memory was counted too small");
    for (size_t i = 0; i < f->n_chunks; i++) {
        lr_tiling tiling = {.height = f->tiling.height};
        tiling.first = (f->first_chunk + i) * partition->chunk;
        tiling.end = tiling.first + lr_partition_chunk_tokens(partition, f->first_chunk + i);
        for (size_t j = 0; j < lr_tiling_count(&tiling); j++, n++) {
            f->pieces[n].chunk = i;
            lr_tiling_get(&tiling, j, &f->pieces[n].first, &f->pieces[n].rows);
        }
    }
    f->n_pieces = n;
    memset(f->sums, 0, f->threads * sizeof *f->sums);
    f->h = x;
    if (f->e && f->end > f->first)
        memcpy(f->e, x, (size_t)(f->end - f->first) * f->backbone->hidden * sizeof *x);
done:
    return st;
}

/* ------------------------------------------------------------------ tiles */

static lr_tile tile_of(const forward *f, size_t worker, uint64_t first, size_t rows)
{
    return (lr_tile){.kernels = f->kernels,
                     .backbone = f->backbone,
                     .layer = f->layer,
                     .work = &f->work[worker],
                     .first = first,
                     .n_tokens = f->run->partition->n_tokens,
                     .rows = rows};
}

static float *row_of(const forward *f, float *base, uint64_t token)
{
    if (!base) return NULL;
    return base + (size_t)(token - f->first) * f->backbone->hidden;
}

/* A tile's part of the state of all local tokens. */
static lr_tile_state kept_state(const forward *f, uint64_t token)
{
    size_t row = (size_t)(token - f->first), width = q_floats(f->layer);
    return (lr_tile_state){.q = f->state.q + row * width,
                           .o = f->state.o + row * width,
                           .m = f->state.m + row * f->layer->n_heads,
                           .l = f->state.l + row * f->layer->n_heads};
}

static bool cancelled(const forward *f)
{
    return f->run->worker.cancel && atomic_load(f->run->worker.cancel) != 0;
}

/* Called by the thread that called lr_backbone_forward only (worker 0). */
static void report(const forward *f, size_t worker, double share)
{
    if (worker != 0) return;
    if (f->run->progress) f->run->progress(f->run->progress_arg, f->layer_index, f->backbone->n_layers, share);
    /* Of chunks within reach of a window, the number does not tell how many are left. */
    bool known = f->alone || f->layer->mask.kind != LR_MASK_WINDOW;
    if (f->run->state.within) f->run->state.within(f->run->state.arg, known ? share : 0);
}

static void keys_values_body(void *arg, size_t index, size_t worker)
{
    forward *f = arg;
    const kv_piece *piece = &f->pieces[index];
    if (cancelled(f)) return;
    double start = now();
    lr_tile tile = tile_of(f, worker, piece->first, piece->rows);
    const float *h = row_of(f, f->h, piece->first);
    lr_tile_keys_values(&tile, h, f->own[piece->chunk]);
    if (!f->alone) {
        lr_tile_state state = kept_state(f, piece->first);
        lr_tile_queries(&tile, h, &state);
    }
    f->sums[worker].linear += now() - start;
}

static void seal_body(void *arg, size_t index, size_t worker)
{
    forward *f = arg;
    lr_kv_shape shape = kv_shape(f->layer);
    (void)worker;
    lr_chunk_seal(f->own[index], f->run->partition, (uint32_t)f->layer_index, f->run->sequence,
                  f->first_chunk + index, &shape);
}

/* By lr_backbone_part. */
static bool left_out(const forward *f, size_t index)
{
    size_t every = f->run->part.every;
    return every > 1 && index % every != 0;
}

/* Alone: a whole layer after K and V for one query tile. */
static void tile_body(void *arg, size_t index, size_t worker)
{
    forward *f = arg;
    uint64_t first;
    size_t rows;
    if (cancelled(f)) return;
    lr_tiling_get(&f->tiling, index, &first, &rows);
    lr_tile tile = tile_of(f, worker, first, rows);
    float *h = row_of(f, f->h, first);
    const lr_tile_work *work = tile.work;
    lr_tile_state state = {.q = work->wide, .o = work->heads, .m = work->m, .l = work->l};
    double t0 = now();
    lr_tile_queries(&tile, h, &state);
    double t1 = now();
    uint64_t lo, hi; /* lo grows with the row: no row of the tile sees keys before this one's */
    lr_mask_range(&f->layer->mask, first, f->run->partition->n_tokens, &lo, &hi);
    size_t begin = (size_t)(lo / f->run->partition->chunk);
    bool full = f->layer->mask.kind != LR_MASK_WINDOW, passed_over = full && left_out(f, index);
    double processor = full ? clock_now(CLOCK_THREAD_CPUTIME_ID) : 0;
    if (!passed_over) lr_tile_attend(&tile, &state, f->seen + begin, f->n_seen - begin);
    lr_tile_finish_attention(&tile, &state);
    if (full) f->sums[worker].processor_full += clock_now(CLOCK_THREAD_CPUTIME_ID) - processor;
    if (full && !passed_over) f->sums[worker].full_rows += rows;
    double t2 = now();
    f->backbone->block->rest(&tile, state.o, row_of(f, f->e, first), h);
    f->sums[worker].attention += t2 - t1;
    f->sums[worker].linear += now() - t2 + (t1 - t0);
    f->sums[worker].query_rows += rows;
    size_t done = atomic_fetch_add(&f->tiles_done, 1) + 1;
    report(f, worker, (double)done / (double)lr_tiling_count(&f->tiling));
}

/* Not alone: one query tile against the chunk at hand. */
static void chunk_body(void *arg, size_t index, size_t worker)
{
    forward *f = arg;
    uint64_t first;
    size_t rows;
    if (cancelled(f)) return;
    lr_tiling_get(&f->tiling, index, &first, &rows);
    double start = now();
    lr_tile tile = tile_of(f, worker, first, rows);
    lr_tile_state state = kept_state(f, first);
    lr_tile_attend(&tile, &state, &f->chunk, 1);
    f->sums[worker].attention += now() - start;
}

static void finish_body(void *arg, size_t index, size_t worker)
{
    forward *f = arg;
    uint64_t first;
    size_t rows;
    if (cancelled(f)) return;
    lr_tiling_get(&f->tiling, index, &first, &rows);
    double start = now();
    lr_tile tile = tile_of(f, worker, first, rows);
    lr_tile_state state = kept_state(f, first);
    lr_tile_finish_attention(&tile, &state);
    f->backbone->block->rest(&tile, state.o, row_of(f, f->e, first), row_of(f, f->h, first));
    f->sums[worker].linear += now() - start;
    f->sums[worker].query_rows += rows;
}

static void final_norm_body(void *arg, size_t index, size_t worker)
{
    forward *f = arg;
    uint64_t first;
    size_t rows;
    (void)worker;
    lr_tiling_get(&f->tiling, index, &first, &rows);
    float *h = row_of(f, f->h, first);
    lr_norm_rows(f->kernels, f->backbone, h, h, f->backbone->final_norm, f->backbone->final_norm_bias, rows);
}

/* ------------------------------------------------------------------ layers */

/* Alone: the exchange's proof runs over the chunks, which stay in place for the loop over tiles. */
static lr_status note_chunk(void *arg, const lr_chunk_header *chunk, lr_error *err)
{
    forward *f = arg;
    if (f->n_seen == f->n_chunks)
        return lr_fail(err, LR_E_COVERAGE, "layer %zu: more chunks than the sequence has",
                       f->layer_index);
    f->seen[f->n_seen++] = chunk;
    return LR_OK;
}

static lr_status work_chunk(void *arg, const lr_chunk_header *chunk, lr_error *err)
{
    forward *f = arg;
    f->chunk = chunk;
    lr_pool_for(f->run->worker.pool, lr_tiling_count(&f->tiling), chunk_body, f);
    const lr_partition *partition = f->run->partition;
    report(f, 0, (double)(chunk->index + 1) / (double)partition->n_chunks);
    return lr_cancel_check(f->run->worker.cancel, err);
}

void lr_add_ring_stats(lr_ring_stats *sum, const lr_ring_stats *one)
{
    sum->chunks_seen += one->chunks_seen;
    sum->keys_seen += one->keys_seen;
    sum->chunks_sent += one->chunks_sent;
    sum->bytes_sent += one->bytes_sent;
    sum->chunks_passed += one->chunks_passed;
    sum->seconds_waiting += one->seconds_waiting;
}

static lr_status run_layer(forward *f, lr_backbone_stats *stats, lr_error *err)
{
    lr_status st = LR_OK;
    lr_pool *pool = f->run->worker.pool;
    lr_cancel *cancel = f->run->worker.cancel;
    size_t n_tiles = lr_tiling_count(&f->tiling), mark = lr_arena_mark(&f->arena);
    lr_ring_stats ring = {0};
    lr_pool_for(pool, f->n_pieces, keys_values_body, f);
    LR_TRY(lr_cancel_check(cancel, err));
    lr_pool_for(pool, f->n_chunks, seal_body, f);
    lr_exchange exchange = exchange_of(f, f->run->comm, f->layer);
    f->n_seen = 0;
    atomic_store(&f->tiles_done, 0);
    LR_TRY(lr_exchange_run(&exchange, f->alone ? note_chunk : work_chunk, f, &ring, err));
    if (f->alone && f->n_seen != f->n_chunks)
        LR_FAIL(LR_E_COVERAGE, "layer %zu: %zu of %zu chunks were shown", f->layer_index, f->n_seen,
                f->n_chunks);
    lr_pool_for(pool, n_tiles, f->alone ? tile_body : finish_body, f);
    LR_TRY(lr_cancel_check(cancel, err));
    lr_add_ring_stats(&stats->ring, &ring);
done:
    lr_arena_reset(&f->arena, mark);
    return st;
}

static lr_status tap(const forward *f, const char *name, int layer, lr_error *err)
{
    const lr_stage_tap *sink = &f->run->tap;
    if (!sink->sink) return LR_OK;
    lr_tensor rows = {.dtype = LR_F32,
                      .n_dims = 2,
                      .dims = {(size_t)(f->end - f->first), f->backbone->hidden},
                      .data = f->h};
    return sink->sink(sink->arg, name, layer, f->first, &rows, err);
}

static bool is_kept(const forward *f)
{
    return f->layer->mask.kind == LR_MASK_FULL || f->layer_index + 1 == f->backbone->n_layers;
}

static lr_status check_run(const lr_backbone_run *run, size_t n_layers, lr_error *err)
{
    const lr_partition *partition = run->partition;
    if (run->comm->size != partition->n_ranks)
        return lr_fail(err, LR_E_INTERNAL, "a partition for %d ranks on a communicator of %d",
                       partition->n_ranks, run->comm->size);
    if (partition->n_tokens == 0) return lr_fail(err, LR_E_INTERNAL, "a sequence without tokens");
    if (run->state.first_layer > n_layers)
        return lr_fail(err, LR_E_INTERNAL, "%zu layers done of %zu", run->state.first_layer, n_layers);
    return LR_OK;
}

static void collect_stats(const forward *f, lr_backbone_stats *stats)
{
    for (size_t i = 0; i < f->threads; i++) {
        stats->query_rows += f->sums[i].query_rows;
        stats->full_rows += f->sums[i].full_rows;
        stats->processor_full += f->sums[i].processor_full;
        stats->seconds_attention += f->sums[i].attention / (double)f->threads;
        stats->seconds_linear += f->sums[i].linear / (double)f->threads;
    }
    stats->seconds_exchange = stats->ring.seconds_waiting;
    stats->arena_bytes = f->arena.size;
}

lr_status lr_backbone_forward(const lr_model *model, const lr_backbone_run *run, float *x,
                              lr_backbone_stats *stats, lr_error *err)
{
    lr_status st = LR_OK;
    lr_backbone_stats sum = {0};
    forward f = {.backbone = &model->backbone, .kernels = model->kernels, .run = run};
    atomic_init(&f.tiles_done, 0);
    LR_TRY(check_run(run, f.backbone->n_layers, err));
    if (model->on_device) return lr_device_forward(model, run, x, stats, err);
    place(&f, run->partition, run->comm->rank, lr_pool_threads(run->worker.pool));
    LR_TRY(prepare(&f, x, err));
    LR_TRY(tap(&f, "embeds", -1, err));
    const size_t resumed = run->state.first_layer, part = run->part.layers;
    const size_t n_layers = part > 0 && part < f.backbone->n_layers ? part : f.backbone->n_layers;
    if (resumed > 0) LR_TRY(run->state.load(run->state.arg, resumed - 1, f.h, err));
    for (size_t i = resumed; i < n_layers; i++) {
        f.layer_index = i;
        f.layer = &f.backbone->layers[i];
        LR_TRY(run_layer(&f, &sum, err));
        LR_TRY(tap(&f, "layers", (int)i, err));
        if (run->state.save && is_kept(&f)) LR_TRY(run->state.save(run->state.arg, i, f.h, err));
        report(&f, 0, 1);
        bool leave = false;
        if (run->state.after) LR_TRY(run->state.after(run->state.arg, i, &leave, err));
        if (leave) LR_TRY(run->state.leave_with(run->state.arg, i, f.h, err));
    }
    lr_pool_for(run->worker.pool, lr_tiling_count(&f.tiling), final_norm_body, &f);
    LR_TRY(tap(&f, "normed", -1, err));
    collect_stats(&f, &sum);
    if (stats) *stats = sum;
done:
    lr_arena_free(&f.arena);
    return st;
}
