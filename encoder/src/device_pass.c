/* The memory of a forward pass on a device: planned from the shapes, taken from the driver at once, and filled
 * with what stays the same in all layers (which keys each token sees, and where the own chunks lie). */
#include "device_pass.h"

#include <string.h>

#define ALIGN 256
#define MOST_ROWS 8192 /* a batch fills the device's multiprocessors with tiles of 128 rows; more gains nothing */
#define LEAST_ROWS 128

/* ------------------------------------------------------------------ shapes */

static void raise(size_t *most, size_t value)
{
    if (value > *most) *most = value;
}

size_t lr_pass_kv_bytes(const lr_layer *layer)
{
    return 2 * layer->n_kv_heads * layer->head_dim * 2;
}

lr_kv_shape lr_pass_kv_shape(const lr_layer *layer)
{
    return (lr_kv_shape){.n_kv_heads = layer->n_kv_heads, .head_dim = layer->head_dim, .on_device = true};
}

lr_exchange lr_pass_exchange(lr_pass *pass, lr_comm *comm, const lr_layer *layer)
{
    const lr_backbone_run *run = pass->run;
    return (lr_exchange){.comm = comm,
                         .partition = run->partition,
                         .shape = lr_pass_kv_shape(layer),
                         .mask = layer->mask,
                         .layer = (uint32_t)pass->layer_index,
                         .sequence = run->sequence,
                         .schedule = layer->mask.kind == LR_MASK_WINDOW ? LR_SCHEDULE_HALO : run->schedule,
                         .node_ranks = run->node_ranks,
                         .own = pass->own,
                         .arena = &pass->arena,
                         .cancel = run->worker.cancel};
}

const lr_pass_mask *lr_pass_mask_of(const lr_pass *pass, const lr_layer *layer)
{
    size_t i = 0;
    while (pass->masks[i].mask.kind != layer->mask.kind || pass->masks[i].mask.radius != layer->mask.radius) i++;
    return &pass->masks[i];
}

/* The different masks of the layers. */
static lr_status list_masks(lr_pass *pass, lr_error *err)
{
    const lr_backbone *b = pass->backbone;
    lr_status st = LR_NEW(&pass->masks, b->n_layers, "masks", err);
    for (size_t i = 0; st == LR_OK && i < b->n_layers; i++) {
        size_t j = 0;
        const lr_mask *mask = &b->layers[i].mask;
        while (j < pass->n_masks &&
               (pass->masks[j].mask.kind != mask->kind || pass->masks[j].mask.radius != mask->radius))
            j++;
        if (j == pass->n_masks) pass->masks[pass->n_masks++].mask = *mask;
    }
    return st;
}

/* ------------------------------------------------------------------ the device's block */

typedef struct cutter {
    lr_device_at base; /* 0: count only */
    size_t used;
    bool failed;
} cutter;

static lr_device_at cut(cutter *c, uint64_t count, size_t size)
{
    size_t bytes = 0, rounded = 0, at = c->used;
    if (count > SIZE_MAX || !lr_mul_size((size_t)count, size, &bytes) || !lr_add_size(bytes, ALIGN - 1, &rounded) ||
        !lr_add_size(c->used, rounded / ALIGN * ALIGN, &c->used))
        c->failed = true;
    return c->base ? c->base + at : 0;
}

typedef struct widths {
    size_t q, kv_bytes, heads, half, wide, act;
} widths;

static widths widest(const lr_backbone *b)
{
    widths w = {.wide = 2 * b->ple, .act = b->ple};
    raise(&w.wide, (b->gated ? 2 : 1) * b->mlp);
    raise(&w.act, b->mlp);
    for (size_t i = 0; i < b->n_layers; i++) {
        const lr_layer *layer = &b->layers[i];
        raise(&w.q, layer->n_heads * layer->head_dim);
        raise(&w.kv_bytes, lr_pass_kv_bytes(layer));
        raise(&w.heads, layer->n_heads);
        raise(&w.half, layer->head_dim / 2);
    }
    raise(&w.half, 3 * b->place_width);
    raise(&w.wide, w.q);
    raise(&w.wide, w.kv_bytes / 2);
    raise(&w.act, w.q);
    return w;
}

static void cut_work(lr_pass *pass, const widths *w, size_t rows, cutter *c)
{
    lr_device_work *work = &pass->work;
    size_t d = pass->backbone->hidden;
    work->rows = rows;
    work->norm = cut(c, rows, d * 2);
    work->wide = cut(c, rows, w->wide * sizeof(float));
    work->act = cut(c, rows, w->act * 2);
    work->attended = cut(c, rows, w->q * 2);
    work->update = cut(c, rows, d * sizeof(float));
    work->cos = cut(c, rows, w->half * sizeof(float));
    work->sin = cut(c, rows, w->half * sizeof(float));
}

static void cut_ring(lr_pass *pass, const widths *w, cutter *c)
{
    pass->state.q = cut(c, pass->local, w->q * 2);
    pass->state.o = cut(c, pass->local, w->q * sizeof(float));
    pass->state.m = cut(c, pass->local, w->heads * sizeof(float));
    pass->state.l = cut(c, pass->local, w->heads * sizeof(float));
    for (int i = 0; i < 2; i++) pass->received[i] = cut(c, pass->group, pass->slot_bytes);
}

static void cut_places(lr_pass *pass, cutter *c)
{
    lr_device_places *places = &pass->places;
    size_t width = pass->backbone->place_width;
    if (width == 0) return;
    places->cos = cut(c, places->n, width * sizeof(float));
    places->sin = cut(c, places->n, width * sizeof(float));
    for (size_t axis = 0; axis < 3; axis++) places->number[axis] = cut(c, pass->local, sizeof(int32_t));
}

/* All of it, with batches of `rows`. */
static void cut_block(lr_pass *pass, size_t rows, cutter *c)
{
    const lr_backbone *b = pass->backbone;
    widths w = widest(b);
    pass->h = lr_device_view(cut(c, pass->local, b->hidden * sizeof(float)), b->hidden, LR_F32);
    pass->e = lr_device_view(b->ple > 0 ? cut(c, pass->local, b->hidden * 2) : 0, b->hidden, LR_BF16);
    pass->kv = cut(c, pass->local, w.kv_bytes);
    for (size_t i = 0; i < pass->n_masks; i++) {
        pass->masks[i].lo = cut(c, pass->local, sizeof(uint64_t));
        pass->masks[i].hi = cut(c, pass->local, sizeof(uint64_t));
    }
    cut_places(pass, c);
    pass->list = cut(c, pass->run->partition->n_chunks, sizeof(lr_device_chunk));
    if (!pass->alone) cut_ring(pass, &w, c);
    cut_work(pass, &w, rows, c);
}

static size_t most_rows(const lr_pass *pass)
{
    size_t most = pass->run->device_rows ? pass->run->device_rows : MOST_ROWS;
    size_t rows = pass->local < most ? pass->local : most;
    return rows > 0 ? rows : 1;
}

/* As large batches as the device has room for; half of that, and so on, where it has not. */
static lr_status take_block(lr_pass *pass, lr_error *err)
{
    for (size_t rows = most_rows(pass);; rows = (rows + 1) / 2) {
        cutter count = {0};
        lr_error cause = {0};
        cut_block(pass, rows, &count);
        if (count.failed) return lr_fail(err, LR_E_NOMEM, "the work memory of a rank does not fit");
        lr_status st = pass->on->device->ops->alloc(pass->on->device, count.used, "the work memory of the backbone",
                                                    &pass->block, &cause);
        if (st == LR_OK) {
            cutter c = {.base = pass->block};
            pass->bytes = count.used;
            cut_block(pass, rows, &c);
            return LR_OK;
        }
        if (st != LR_E_NOMEM || rows <= LEAST_ROWS) return lr_fail(err, st, "%s", cause.text);
    }
}

lr_status lr_backbone_device_memory(const lr_model *model, const lr_backbone_run *planned, int rank, size_t *bytes,
                                    lr_error *err)
{
    lr_pass pass = {0};
    cutter count = {0};
    lr_status st = lr_pass_place(&pass, model, planned, rank, err);
    if (st == LR_OK) {
        size_t rows = most_rows(&pass);
        cut_block(&pass, rows < LEAST_ROWS ? rows : LEAST_ROWS, &count);
        if (count.failed) st = lr_fail(err, LR_E_NOMEM, "the work memory of a rank does not fit");
        *bytes = count.used;
    }
    lr_free(pass.masks);
    return st;
}

/* ------------------------------------------------------------------ the host's memory */

static void *take(lr_arena *arena, size_t *used, uint64_t count, size_t size, bool *failed)
{
    size_t bytes = 0, rounded = 0;
    if (count > SIZE_MAX || !lr_mul_size((size_t)count, size, &bytes) || !lr_add_size(bytes, LR_ALIGN - 1, &rounded) ||
        !lr_add_size(*used, rounded / LR_ALIGN * LR_ALIGN, used))
        *failed = true;
    if (!arena || *failed) return NULL;
    void *place = lr_arena_take(arena, (size_t)count, size);
    if (!place) *failed = true;
    return place;
}

static uint64_t chunk_tokens(const lr_pass *pass, size_t own)
{
    return lr_partition_chunk_tokens(pass->run->partition, pass->first_chunk + own);
}

static size_t most_exchange_scratch(lr_pass *pass, lr_comm *comm)
{
    size_t most = 0;
    for (size_t i = 0; i < pass->backbone->n_layers; i++) {
        lr_exchange exchange = lr_pass_exchange(pass, comm, &pass->backbone->layers[i]);
        raise(&most, lr_exchange_scratch(&exchange));
    }
    return most;
}

/* Sizes and cuts, like take_all of backbone.c. The exchange's own part is taken by it, layer for layer. */
static size_t take_host(lr_pass *pass, lr_comm *comm, lr_arena *arena, bool *failed)
{
    size_t used = 0, kv = widest(pass->backbone).kv_bytes;
    pass->listed = take(arena, &used, pass->run->partition->n_chunks, sizeof *pass->listed, failed);
    pass->own = take(arena, &used, pass->n_chunks, sizeof *pass->own, failed);
    for (size_t i = 0; i < pass->n_chunks; i++) {
        uint64_t payload = pass->alone ? 0 : chunk_tokens(pass, i) * kv;
        void *chunk = take(arena, &used, payload + sizeof(lr_chunk_header), 1, failed);
        if (chunk) pass->own[i] = chunk;
    }
    if (pass->alone) return used;
    for (int i = 0; i < 2; i++) pass->staging[i] = take(arena, &used, pass->group, pass->slot_bytes, failed);
    size_t mark = arena ? lr_arena_mark(arena) : 0;
    (void)take(arena, &used, most_exchange_scratch(pass, comm), 1, failed);
    if (arena) lr_arena_reset(arena, mark);
    return used;
}

lr_status lr_device_host_memory(const lr_model *model, const lr_backbone_run *planned, int rank, size_t *bytes,
                                lr_error *err)
{
    lr_pass pass = {0};
    bool failed = false;
    lr_comm apart = {.rank = rank, .size = planned->partition->n_ranks,
                     .shares_memory = planned->comm && planned->comm->shares_memory};
    lr_status st = lr_pass_place(&pass, model, planned, rank, err);
    if (st == LR_OK) *bytes = take_host(&pass, &apart, NULL, &failed);
    lr_free(pass.masks);
    if (st == LR_OK && failed) st = lr_fail(err, LR_E_NOMEM, "the work memory of a rank does not fit");
    return st;
}

/* ------------------------------------------------------------------ begin and end */

lr_status lr_pass_place(lr_pass *pass, const lr_model *model, const lr_backbone_run *run, int rank, lr_error *err)
{
    const lr_partition *partition = run->partition;
    uint64_t local = lr_partition_end_token(partition, rank) - lr_partition_first_token(partition, rank);
    if (local > SIZE_MAX) return lr_fail(err, LR_E_NOMEM, "the work memory of a rank does not fit");
    *pass = (lr_pass){.model = model,
                      .backbone = &model->backbone,
                      .run = run,
                      .on = model->on_device,
                      .ops = model->on_device->device->ops,
                      .first = lr_partition_first_token(partition, rank),
                      .end = lr_partition_end_token(partition, rank),
                      .first_chunk = partition->first_chunk[rank],
                      .local = (size_t)local,
                      .alone = partition->n_ranks == 1};
    pass->n_chunks = (size_t)(partition->first_chunk[rank + 1] - pass->first_chunk);
    pass->group = (size_t)partition->n_chunks;
    size_t most = run->device_chunks ? run->device_chunks : LR_PASS_GROUP;
    if (!pass->alone && pass->group > most) pass->group = most;
    pass->slot_bytes = (size_t)lr_partition_chunk_tokens(partition, 0) * widest(pass->backbone).kv_bytes;
    size_t grid = pass->backbone->grid;
    uint64_t times = grid > 0 && local > 0 ? (pass->end - 1) / (grid * grid) + 1 : 0;
    if (times > INT32_MAX) return lr_fail(err, LR_E_NOMEM, "the work memory of a rank does not fit");
    pass->places.n = times > grid ? (size_t)times : grid;
    return list_masks(pass, err);
}

static lr_status upload_masks(lr_pass *pass, lr_error *err)
{
    lr_status st = LR_OK;
    uint64_t *lo = NULL, *hi = NULL;
    LR_TRY(LR_NEW(&lo, pass->local, "a mask", err));
    LR_TRY(LR_NEW(&hi, pass->local, "a mask", err));
    for (size_t i = 0; i < pass->n_masks; i++) {
        for (size_t t = 0; t < pass->local; t++)
            lr_mask_range(&pass->masks[i].mask, pass->first + t, pass->run->partition->n_tokens, &lo[t], &hi[t]);
        pass->ops->upload(pass->stream, pass->masks[i].lo, lo, pass->local * sizeof *lo);
        pass->ops->upload(pass->stream, pass->masks[i].hi, hi, pass->local * sizeof *hi);
        LR_TRY(pass->ops->wait(pass->stream, err));
    }
done:
    if (pass->stream) { /* what was enqueued may still read them */
        lr_error ignored = {0};
        (void)pass->ops->wait(pass->stream, &ignored);
    }
    lr_free(hi);
    lr_free(lo);
    return st;
}

lr_status lr_pass_begin(lr_pass *pass, float *x, lr_error *err)
{
    lr_status st = LR_OK;
    bool failed = false;
    lr_device *device = pass->on->device;
    size_t d = pass->backbone->hidden, host = take_host(pass, pass->run->comm, NULL, &failed);
    pass->x = x;
    if (failed) LR_FAIL(LR_E_NOMEM, "the work memory of a rank does not fit");
    LR_TRY(lr_arena_init(&pass->arena, host, "the work memory of the backbone", err));
    (void)take_host(pass, pass->run->comm, &pass->arena, &failed);
    if (failed) LR_FAIL(LR_E_INTERNAL, "the backbone's work memory was counted too small");
    LR_TRY(pass->ops->stream_create(device, &pass->stream, err));
    if (!pass->alone) {
        LR_TRY(pass->ops->stream_create(device, &pass->copies, err));
        LR_TRY(pass->ops->event_create(device, &pass->arrived, err));
        for (int i = 0; i < 2; i++) LR_TRY(pass->ops->event_create(device, &pass->used[i], err));
    }
    LR_TRY(take_block(pass, err));
    LR_TRY(upload_masks(pass, err));
    if (pass->backbone->place_width > 0) LR_TRY(lr_pass_upload_places(pass, err));
    pass->ops->upload(pass->stream, pass->h.at, x, pass->local * d * sizeof *x);
    if (pass->e.at && pass->local > 0) pass->ops->convert(pass->stream, pass->e, pass->h, pass->local, d);
done:
    return st;
}

/* What is under way ends first: it reads and writes both sides' memory. */
void lr_pass_end(lr_pass *pass)
{
    if (pass->copies) pass->ops->stream_destroy(pass->copies);
    if (pass->stream) pass->ops->stream_destroy(pass->stream);
    if (pass->arrived) pass->ops->event_destroy(pass->arrived);
    for (int i = 0; i < 2; i++)
        if (pass->used[i]) pass->ops->event_destroy(pass->used[i]);
    if (pass->block) pass->ops->release(pass->on->device, pass->block);
    lr_arena_free(&pass->arena);
    lr_free(pass->masks);
}
