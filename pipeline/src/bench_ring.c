/* One layer of full attention over ranks. The computation is that of the backbone on a ring: each chunk is
 * shown to all tiles of queries, whose softmax state is kept. */
#include <longreel/bench_ring.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "job.h"

typedef struct bench_rank {
    const lr_ring_bench *bench;
    lr_comm *comm;
    lr_pool *pool;
    lr_partition parts;
    uint64_t first, n;       /* the rank's tokens */
    size_t n_own, width;     /* chunks; values of a token's queries */
    lr_chunk_header **own;   /* [n_own] */
    float *q, *o, *m, *l;    /* [n, heads, head_dim]; m, l [n, heads] */
    float *scratch;          /* [threads, scratch_floats] */
    size_t scratch_floats;
    uint64_t *lo, *hi;       /* [LR_ROW_TILE], the same for all tokens */
    lr_arena buffers;
    size_t memory;
    double *times; /* [repeats] */
    const lr_chunk_header *chunk; /* at hand */
} bench_rank;

/* ------------------------------------------------------------------ made values */

enum { MADE_KEY, MADE_VALUE, MADE_QUERY };

/* Row of a token: values in [-1, 1), scaled. */
static void make_row(float *row, size_t count, size_t stride, uint64_t token, size_t head, int kind,
                     float scale) {
    uint64_t state = token * UINT64_C(0x9e3779b97f4a7c15) + head * UINT64_C(0xbf58476d1ce4e5b9) + (uint64_t)kind;
    for (size_t d = 0; d < count; d++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        row[d * stride] = ((float)(state >> 40) * 0x1p-23f - 1.0f) * scale;
    }
}

static void make_chunk(bench_rank *b, size_t i) {
    const lr_kv_shape *shape = &b->bench->shape;
    lr_chunk_header *chunk = b->own[i];
    uint64_t index = b->parts.first_chunk[b->comm->rank] + i, first = index * b->parts.chunk;
    size_t n = (size_t)lr_partition_chunk_tokens(&b->parts, index), dim = shape->head_dim;
    lr_chunk_header layout = {.n_tokens = n};
    for (size_t head = 0; head < shape->n_kv_heads; head++) {
        /* Where the head lies follows from the number of tokens alone. */
        size_t keys = (size_t)(lr_chunk_keys(shape, &layout, head) - (const float *)(const void *)(&layout + 1));
        size_t values = (size_t)(lr_chunk_values(shape, &layout, head) - (const float *)(const void *)(&layout + 1));
        float *payload = (float *)(void *)(chunk + 1);
        for (size_t t = 0; t < n; t++) {
            float *lane = payload + keys + t / LR_KEY_PANEL * LR_KEY_PANEL * dim + t % LR_KEY_PANEL;
            make_row(lane, dim, LR_KEY_PANEL, first + t, head, MADE_KEY, 1);
            make_row(payload + values + t * dim, dim, 1, first + t, head, MADE_VALUE, 1);
        }
    }
    lr_chunk_seal(chunk, &b->parts, 0, 0, index, shape);
}

static void *take_memory(bench_rank *b, size_t count, size_t size, lr_status *st, lr_error *err) {
    size_t bytes;
    void *out = NULL;
    if (*st != LR_OK) return NULL;
    *st = lr_new_array(&out, count, size, "the memory of a rank", err);
    if (*st == LR_OK && lr_mul_size(count, size, &bytes)) b->memory += bytes;
    return out;
}

static lr_exchange exchange_of(bench_rank *b) {
    const lr_ring_bench *o = b->bench;
    return (lr_exchange){.comm = b->comm, .partition = &b->parts, .shape = o->shape, .mask = {LR_MASK_FULL, 0},
                         .schedule = o->schedule, .node_ranks = o->node_ranks, .own = b->own,
                         .arena = &b->buffers, .cancel = o->cancel};
}

static lr_status prepare(bench_rank *b, lr_error *err) {
    lr_status st = LR_OK;
    const lr_ring_bench *o = b->bench;
    int rank = b->comm->rank;
    size_t threads = (size_t)o->threads;
    LR_TRY(lr_partition_create(&b->parts, o->n_tokens, o->chunk, b->comm->size, err));
    LR_TRY(lr_pool_create(threads, &b->pool, err));
    b->first = lr_partition_first_token(&b->parts, rank);
    b->n = lr_partition_end_token(&b->parts, rank) - b->first;
    b->n_own = (size_t)(b->parts.first_chunk[rank + 1] - b->parts.first_chunk[rank]);
    b->width = o->n_heads * o->shape.head_dim;
    b->scratch_floats = o->kernels->attn_scratch(LR_ROW_TILE * (o->n_heads / o->shape.n_kv_heads),
                                                 o->shape.head_dim) + LR_ALIGN;
    b->scratch_floats -= b->scratch_floats % (LR_ALIGN / sizeof(float));
    b->own = take_memory(b, b->n_own, sizeof *b->own, &st, err);
    b->q = take_memory(b, b->n, b->width * sizeof(float), &st, err);
    b->o = take_memory(b, b->n, b->width * sizeof(float), &st, err);
    b->m = take_memory(b, b->n, o->n_heads * sizeof(float), &st, err);
    b->l = take_memory(b, b->n, o->n_heads * sizeof(float), &st, err);
    b->scratch = take_memory(b, threads, b->scratch_floats * sizeof(float), &st, err);
    b->lo = take_memory(b, LR_ROW_TILE, sizeof *b->lo, &st, err);
    b->hi = take_memory(b, LR_ROW_TILE, sizeof *b->hi, &st, err);
    if (st == LR_OK) st = LR_NEW(&b->times, (size_t)o->repeats, "timings", err);
    for (size_t i = 0; st == LR_OK && i < b->n_own; i++) {
        uint64_t tokens = lr_partition_chunk_tokens(&b->parts, b->parts.first_chunk[rank] + i);
        b->own[i] = take_memory(b, lr_chunk_bytes(&o->shape, tokens), 1, &st, err);
        if (b->own[i]) make_chunk(b, i);
    }
    if (st != LR_OK) goto done;
    for (size_t t = 0; t < LR_ROW_TILE; t++) b->hi[t] = o->n_tokens;
    for (uint64_t t = 0; t < b->n; t++) {
        make_row(b->q + t * b->width, b->width, 1, b->first + t, 0, MADE_QUERY,
                 1 / sqrtf((float)o->shape.head_dim));
    }
    lr_exchange x = exchange_of(b);
    size_t receives = lr_exchange_scratch(&x);
    LR_TRY(lr_arena_init(&b->buffers, receives, "receive buffers", err));
    b->memory += receives;
done:
    return st;
}

static void finish(bench_rank *b) {
    for (size_t i = 0; b->own && i < b->n_own; i++) lr_free(b->own[i]);
    lr_arena_free(&b->buffers);
    lr_free(b->times);
    lr_free(b->hi);
    lr_free(b->lo);
    lr_free(b->scratch);
    lr_free(b->l);
    lr_free(b->m);
    lr_free(b->o);
    lr_free(b->q);
    lr_free(b->own);
    lr_pool_free(b->pool);
    lr_partition_free(&b->parts);
}

/* ------------------------------------------------------------------ attention */

static size_t n_tiles(const bench_rank *b) {
    return (size_t)((b->n + LR_ROW_TILE - 1) / LR_ROW_TILE);
}

static lr_attn tile_arguments(const bench_rank *b, size_t tile, size_t worker, size_t head) {
    const lr_ring_bench *o = b->bench;
    size_t first = tile * LR_ROW_TILE, group = o->n_heads / o->shape.n_kv_heads, dim = o->shape.head_dim;
    size_t left = (size_t)b->n - first;
    return (lr_attn){.n_tokens = left < LR_ROW_TILE ? left : LR_ROW_TILE, .group = group, .head_dim = dim,
                     .q = b->q + first * b->width + head * group * dim, .q_token = b->width,
                     .o = b->o + first * b->width + head * group * dim, .o_token = b->width,
                     .m = b->m + first * o->n_heads + head * group,
                     .l = b->l + first * o->n_heads + head * group, .ml_token = o->n_heads,
                     .lo = b->lo, .hi = b->hi, .scratch = b->scratch + worker * b->scratch_floats};
}

static void attend_body(void *arg, size_t tile, size_t worker) {
    bench_rank *b = arg;
    const lr_kv_shape *shape = &b->bench->shape;
    const lr_chunk_header *chunk = b->chunk;
    for (size_t head = 0; head < shape->n_kv_heads; head++) {
        lr_attn attn = tile_arguments(b, tile, worker, head);
        attn.k_panels = lr_chunk_keys(shape, chunk, head);
        attn.v = lr_chunk_values(shape, chunk, head);
        attn.v_key = shape->head_dim;
        attn.first_key = chunk->first_token;
        attn.n_keys = (size_t)chunk->n_tokens;
        b->bench->kernels->attn_block(&attn);
    }
}

static void end_body(void *arg, size_t tile, size_t worker) {
    const bench_rank *b = arg;
    for (size_t head = 0; head < b->bench->shape.n_kv_heads; head++) {
        lr_attn attn = tile_arguments(b, tile, worker, head);
        b->bench->kernels->attn_finish(&attn);
    }
}

static void clear_state(bench_rank *b) {
    memset(b->o, 0, (size_t)b->n * b->width * sizeof *b->o);
    for (size_t i = 0; i < (size_t)b->n * b->bench->n_heads; i++) {
        b->m[i] = -INFINITY;
        b->l[i] = 0;
    }
}

static lr_status attend(void *arg, const lr_chunk_header *chunk, lr_error *err) {
    bench_rank *b = arg;
    b->chunk = chunk;
    lr_pool_for(b->pool, n_tiles(b), attend_body, b);
    return lr_cancel_check(b->bench->cancel, err);
}

static lr_status look_away(void *arg, const lr_chunk_header *chunk, lr_error *err) {
    (void)arg;
    (void)chunk;
    (void)err;
    return LR_OK;
}

/* As many keys as the whole sequence has, all from this rank's own chunks. */
static lr_status attend_own(bench_rank *b, lr_error *err) {
    lr_status st = LR_OK;
    uint64_t keys = 0;
    for (size_t i = 0; b->n > 0 && keys < b->bench->n_tokens; i++) {
        const lr_chunk_header *chunk = b->own[i % b->n_own];
        LR_TRY(attend(b, chunk, err));
        keys += chunk->n_tokens;
    }
done:
    return st;
}

/* ------------------------------------------------------------------ timing */

typedef enum timed { WITH_TRANSFER, COMPUTE_ALONE, TRANSFER_ALONE } timed;

/* From when all begin until all are through. */
static lr_status time_once(bench_rank *b, timed what, double *seconds, lr_error *err) {
    lr_status st = LR_OK;
    struct timespec begin;
    lr_exchange x = exchange_of(b);
    clear_state(b);
    LR_TRY(lr_comm_barrier(b->comm, err));
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (what == COMPUTE_ALONE) {
        LR_TRY(attend_own(b, err));
    } else {
        LR_TRY(lr_exchange_run(&x, what == TRANSFER_ALONE ? look_away : attend, b, NULL, err));
    }
    if (what != TRANSFER_ALONE) lr_pool_for(b->pool, n_tiles(b), end_body, b);
    LR_TRY(lr_comm_barrier(b->comm, err));
    *seconds = lr_seconds_since(&begin);
done:
    return st;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs before the first that counts. */
static int warm_ups(const bench_rank *b) {
    return b->bench->repeats > 1;
}

static lr_status time_runs(bench_rank *b, timed what, double *least, double *median, lr_error *err) {
    lr_status st = LR_OK;
    int repeats = b->bench->repeats;
    for (int i = -warm_ups(b); i < repeats; i++) {
        double seconds = 0;
        LR_TRY(time_once(b, what, &seconds, err));
        if (i >= 0) b->times[i] = seconds;
    }
    qsort(b->times, (size_t)repeats, sizeof *b->times, by_value);
    *least = b->times[0];
    *median = (b->times[(repeats - 1) / 2] + b->times[repeats / 2]) / 2;
done:
    return st;
}

/* ------------------------------------------------------------------ what came out */

typedef struct chunk_hash {
    XXH128_canonical_t hash;
} chunk_hash;

static lr_status take_hashes(void *arg, int rank, const void *data, size_t bytes, lr_error *err) {
    (void)rank;
    XXH3_state_t *state = arg;
    if (XXH3_128bits_update(state, data, bytes) == XXH_OK) return LR_OK;
    return lr_fail(err, LR_E_INTERNAL, "the output could not be hashed");
}

/* The hash over the chunks' hashes, at rank 0 (hex). */
static lr_status digest(bench_rank *b, char hex[33], lr_error *err) {
    lr_status st = LR_OK;
    chunk_hash *mine = NULL;
    size_t *sizes = NULL;
    XXH3_state_t *state = XXH3_createState();
    if (!state) LR_FAIL(LR_E_NOMEM, "out of memory: a hash");
    XXH3_128bits_reset(state);
    LR_TRY(LR_NEW(&mine, b->n_own, "hashes of the output", err));
    LR_TRY(LR_NEW(&sizes, (size_t)b->comm->size, "sizes", err));
    for (int r = 0; r < b->comm->size; r++) {
        sizes[r] = (size_t)(b->parts.first_chunk[r + 1] - b->parts.first_chunk[r]) * sizeof *mine;
    }
    for (size_t i = 0, row = 0; i < b->n_own; i++) {
        size_t tokens = (size_t)b->own[i]->n_tokens;
        XXH128_canonicalFromHash(&mine[i].hash,
                                 XXH3_128bits(b->o + row * b->width, tokens * b->width * sizeof(float)));
        row += tokens;
    }
    LR_TRY(lr_comm_gather(b->comm, 0, mine, sizes, (size_t)1 << 20, take_hashes, state, err));
    XXH128_canonical_t whole;
    XXH128_canonicalFromHash(&whole, XXH3_128bits_digest(state));
    for (size_t i = 0; i < sizeof whole.digest; i++) snprintf(hex + 2 * i, 3, "%02x", whole.digest[i]);
done:
    (void)XXH3_freeState(state);
    lr_free(sizes);
    lr_free(mine);
    return st;
}

typedef struct account {
    uint64_t messages, bytes, memory;
} account;

/* Copies of a chunk that are sent. */
static uint64_t copies_of(const bench_rank *b, uint64_t chunk) {
    const lr_mask full = {LR_MASK_FULL, 0};
    uint64_t copies = 0;
    for (int r = 0; r < b->comm->size; r++) {
        copies += lr_exchange_source(&b->parts, &full, b->bench->schedule, b->bench->node_ranks, r, chunk) >= 0;
    }
    return copies;
}

/* Elements that must be sent, and those of padding: keys fill whole panels. */
static void count_elements(const bench_rank *b, uint64_t *due, uint64_t *padding) {
    const lr_ring_bench *o = b->bench;
    uint64_t values = o->shape.n_kv_heads * o->shape.head_dim, ranks = (uint64_t)b->comm->size;
    *due = *padding = 0;
    for (uint64_t c = 0; c < b->parts.n_chunks; c++) {
        uint64_t tokens = lr_partition_chunk_tokens(&b->parts, c), copies = copies_of(b, c);
        *due += copies * 2 * tokens * values;
        *padding += copies * ((tokens + LR_KEY_PANEL - 1) / LR_KEY_PANEL * LR_KEY_PANEL - tokens) * values;
    }
    if (b->parts.n_chunks >= ranks) *due = 2 * (ranks - 1) * o->n_tokens * values;
}

static lr_status collect(bench_rank *b, const account *mine, lr_ring_figures *out, lr_error *err) {
    lr_status st = LR_OK;
    account *all = NULL;
    uint64_t padding;
    LR_TRY(LR_NEW(&all, (size_t)b->comm->size, "accounts", err));
    LR_TRY(lr_comm_all_gather(b->comm, mine, sizeof *mine, all, err));
    for (int r = 0; r < b->comm->size; r++) {
        out->messages += all[r].messages;
        out->bytes_sent += all[r].bytes;
        if (all[r].memory > out->memory_bytes) out->memory_bytes = (size_t)all[r].memory;
    }
    count_elements(b, &out->elements_due, &padding);
    out->elements = (out->bytes_sent - out->messages * sizeof(lr_chunk_header)) / sizeof(float) - padding;
done:
    lr_free(all);
    return st;
}

lr_status lr_bench_ring(lr_comm *comm, const lr_ring_bench *bench, lr_ring_figures *out, lr_error *err) {
    lr_status st = LR_OK;
    bench_rank b = {.bench = bench, .comm = comm};
    account mine;
    *out = (lr_ring_figures){0};
    if (bench->n_tokens == 0 || bench->repeats < 1 || bench->threads < 1 || bench->shape.n_kv_heads == 0 ||
        bench->n_heads % bench->shape.n_kv_heads != 0) {
        LR_FAIL(LR_E_USAGE, "nothing to be timed, or heads that do not share KV heads evenly");
    }
    LR_TRY(prepare(&b, err));
    uint64_t runs = (uint64_t)(bench->repeats + warm_ups(&b));
    LR_TRY(time_runs(&b, COMPUTE_ALONE, &out->compute, &out->compute_median, err));
    LR_TRY(time_runs(&b, TRANSFER_ALONE, &out->transfer, &out->transfer_median, err));
    uint64_t messages = comm->stats.messages_sent, bytes = comm->stats.bytes_sent;
    LR_TRY(time_runs(&b, WITH_TRANSFER, &out->seconds, &out->seconds_median, err));
    mine = (account){.messages = (comm->stats.messages_sent - messages) / runs,
                     .bytes = (comm->stats.bytes_sent - bytes) / runs,
                     .memory = b.memory};
    LR_TRY(collect(&b, &mine, out, err));
    LR_TRY(digest(&b, out->digest, err));
    LR_TRY(lr_comm_broadcast(comm, 0, out, sizeof *out, err));
    out->hidden = 1;
    if (out->messages > 0) out->hidden = 1 - (out->seconds - out->compute) / out->transfer;
    if (out->hidden < 0) out->hidden = 0;
    if (out->hidden > 1) out->hidden = 1;
done:
    finish(&b);
    return st;
}
