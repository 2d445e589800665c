/* The hidden state after a layer, put away chunk by chunk, and taken up again by all ranks together.
 *
 * A run that is asked to stop brings the layer at hand to its end and puts that away.
 * Two layers are kept: when a rank is through a layer in which each token sees all, the others have passed the
 * one kept before it, but perhaps not yet put away the one at hand. */
#include <string.h>

#include "job.h"

void lr_layer_keeper_init(lr_layer_keeper *k, lr_job *job, lr_comm *comm, const lr_partition *parts, size_t window) {
    *k = (lr_layer_keeper){.job = job, .comm = comm, .parts = parts, .window = (uint32_t)window};
    k->first = lr_partition_first_token(parts, comm->rank);
    k->end = lr_partition_end_token(parts, comm->rank);
    k->row_bytes = lr_model_info_of(job->model)->hidden * sizeof(float);
    k->kept[0] = k->kept[1] = SIZE_MAX;
}

/* ------------------------------------------------------------------ taking up */

typedef lr_status (*use_slice)(lr_layer_keeper *k, const lr_slice_name *name, bool *good, float *h, lr_error *err);

/* Calls use() for the slices of a layer that together hold the rank's tokens; *whole: they do. */
static lr_status each_slice(lr_layer_keeper *k, size_t layer, use_slice use, float *h, bool *whole, lr_error *err) {
    size_t count;
    uint64_t at = k->first;
    const lr_slice_name *names = lr_partial_slices(k->job->stored.partial, &count);
    for (size_t i = 0; i < count && at < k->end; i++) {
        bool good = true;
        if (names[i].kind != LR_SLICE_LAYER || names[i].window != k->window || names[i].layer != layer) continue;
        if (names[i].end <= at) continue;
        if (names[i].first > at) break; /* they are sorted: a gap */
        lr_status st = use ? use(k, &names[i], &good, h, err) : LR_OK;
        if (st != LR_OK) return st;
        if (good) at = names[i].end;
    }
    *whole = at >= k->end;
    return LR_OK;
}

static lr_status check_slice(lr_layer_keeper *k, const lr_slice_name *name, bool *good, float *h, lr_error *err) {
    lr_slice slice;
    (void)h;
    lr_status st = lr_stored_get(k->job, name, k->row_bytes, &slice, good, err);
    lr_free(slice.rows);
    return st;
}

static lr_status copy_slice(lr_layer_keeper *k, const lr_slice_name *name, bool *good, float *h, lr_error *err) {
    lr_slice slice;
    lr_status st = lr_stored_get(k->job, name, k->row_bytes, &slice, good, err);
    if (st == LR_OK && *good) {
        uint64_t a = name->first > k->first ? name->first : k->first, b = name->end < k->end ? name->end : k->end;
        memcpy((char *)h + (size_t)(a - k->first) * k->row_bytes,
               (const char *)slice.rows + (size_t)(a - name->first) * k->row_bytes, (size_t)(b - a) * k->row_bytes);
    }
    lr_free(slice.rows);
    return st;
}

/* Which layers the directory names slices of for all the rank's tokens. */
static lr_status find_layers(lr_layer_keeper *k, unsigned char *there, size_t n_layers, lr_error *err) {
    for (size_t i = 0; i < n_layers; i++) {
        bool whole = k->first == k->end;
        lr_status st = k->job->stored.partial ? each_slice(k, i, NULL, NULL, &whole, err) : LR_OK;
        if (st != LR_OK) return st;
        there[i] = whole;
    }
    return LR_OK;
}

/* all[i] &= what each rank has */
static lr_status agree(lr_layer_keeper *k, unsigned char *mine, size_t n, unsigned char *gathered, lr_error *err) {
    lr_status st = lr_comm_all_gather(k->comm, mine, n, gathered, err);
    for (size_t i = 0; st == LR_OK && i < n * (size_t)k->comm->size; i++) mine[i % n] &= gathered[i];
    return st;
}

/* The last layer that all ranks have, and have seen to be good. */
lr_status lr_layer_keeper_choose(lr_layer_keeper *k, size_t *first_layer, lr_error *err) {
    lr_status st = LR_OK;
    size_t n = lr_model_info_of(k->job->model)->n_layers;
    unsigned char *there = NULL, *gathered = NULL;
    *first_layer = 0;
    if (!k->job->stored.wanted) return LR_OK; /* so on all ranks */
    LR_TRY(LR_NEW(&there, n, "layers that are stored", err));
    LR_TRY(LR_NEW(&gathered, n * (size_t)k->comm->size, "layers that are stored", err));
    LR_TRY(find_layers(k, there, n, err));
    LR_TRY(agree(k, there, n, gathered, err));
    for (size_t layer = n; layer-- > 0;) {
        bool whole = true;
        if (!there[layer]) continue;
        if (k->job->stored.partial) LR_TRY(each_slice(k, layer, check_slice, NULL, &whole, err));
        unsigned char good = whole;
        LR_TRY(agree(k, &good, 1, gathered, err));
        if (!good) continue;
        *first_layer = layer + 1;
        k->kept[1] = layer;
        break;
    }
done:
    lr_free(gathered);
    lr_free(there);
    return st;
}

static lr_status load(void *arg, size_t layer, float *h, lr_error *err) {
    lr_layer_keeper *k = arg;
    bool whole = true;
    if (k->first == k->end) return LR_OK;
    lr_status st = each_slice(k, layer, copy_slice, h, &whole, err);
    if (st != LR_OK || whole) return st;
    return lr_fail(err, LR_E_IO, "%s was altered while it was read", lr_partial_directory(k->job->stored.partial));
}

/* ------------------------------------------------------------------ putting away */

static void drop(const lr_layer_keeper *k, size_t layer) {
    for (uint64_t c = k->parts->first_chunk[k->comm->rank]; c < k->parts->first_chunk[k->comm->rank + 1]; c++) {
        uint64_t first = c * k->parts->chunk;
        const lr_slice_name name = {.kind = LR_SLICE_LAYER, .window = k->window, .layer = (uint32_t)layer,
                                    .first = first, .end = first + lr_partition_chunk_tokens(k->parts, c)};
        lr_partial_drop(k->job->stored.partial, &name);
    }
}

static lr_status save(void *arg, size_t layer, const float *h, lr_error *err) {
    lr_layer_keeper *k = arg;
    if (!k->job->stored.partial) return LR_OK;
    for (uint64_t c = k->parts->first_chunk[k->comm->rank]; c < k->parts->first_chunk[k->comm->rank + 1]; c++) {
        uint64_t first = c * k->parts->chunk;
        const lr_slice_name name = {.kind = LR_SLICE_LAYER, .window = k->window, .layer = (uint32_t)layer,
                                    .first = first, .end = first + lr_partition_chunk_tokens(k->parts, c)};
        const char *rows = (const char *)h + (size_t)(first - k->first) * k->row_bytes;
        lr_status st = lr_stored_put(k->job, &name, k->row_bytes, rows, NULL, 0, err);
        if (st != LR_OK) return st;
    }
    if (k->kept[0] != SIZE_MAX) drop(k, k->kept[0]);
    k->kept[0] = k->kept[1];
    k->kept[1] = layer;
    return LR_OK;
}

/* ------------------------------------------------------------------ stopping */

/* Would the layer come to its end in time? */
static void within(void *arg, double share) {
    lr_layer_keeper *k = arg;
    if (atomic_load(&k->stop->asked) == 0) return;
    if (!k->saw_stop) clock_gettime(CLOCK_MONOTONIC, &k->stop_seen);
    k->saw_stop = true;
    double left = k->stop->grace - lr_seconds_since(&k->stop_seen);
    double needed = share > 0 ? lr_seconds_since(&k->layer_begin) * (1 - share) / share : 0;
    if (needed > left) atomic_store(k->stop->cancel, 1);
}

/* Collective, since only one rank may have been asked. */
static lr_status after(void *arg, size_t layer, bool *leave, lr_error *err) {
    lr_status st = LR_OK;
    lr_layer_keeper *k = arg;
    unsigned char asked = atomic_load(&k->stop->asked) != 0, *all = NULL;
    LR_TRY(LR_NEW(&all, (size_t)k->comm->size, "who is to stop", err));
    LR_TRY(lr_comm_all_gather(k->comm, &asked, 1, all, err));
    for (int r = 0; r < k->comm->size; r++) asked |= all[r];
    (void)layer;
    clock_gettime(CLOCK_MONOTONIC, &k->layer_begin);
    *leave = asked;
done:
    lr_free(all);
    return st;
}

/* All put the layer away before anyone ends. */
static lr_status leave_with(void *arg, size_t layer, const float *h, lr_error *err) {
    lr_layer_keeper *k = arg;
    lr_status st = k->kept[1] != layer ? save(k, layer, h, err) : LR_OK;
    if (st == LR_OK) st = lr_comm_barrier(k->comm, err);
    return st == LR_OK ? lr_fail(err, LR_E_INTERRUPTED, "interrupted") : st;
}

lr_stop *lr_layer_stop(const lr_job *job) {
    return job->stored.wanted ? job->options->stop : NULL;
}

lr_backbone_state lr_layer_keeper_state(lr_layer_keeper *k, size_t first_layer) {
    const lr_encode_options *o = k->job->options;
    k->stop = lr_layer_stop(k->job);
    clock_gettime(CLOCK_MONOTONIC, &k->layer_begin);
    return (lr_backbone_state){.first_layer = first_layer,
                               .load = load,
                               .save = o->keep_layers && k->job->stored.wanted ? save : NULL,
                               .after = k->stop ? after : NULL,
                               .leave_with = leave_with,
                               .within = k->stop ? within : NULL,
                               .arg = k};
}
