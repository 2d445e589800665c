/* One recording through all stages, on local ranks or on processes.
 *
 * Windows are worked one after another; within one, every rank makes the token vectors of its own
 * tokens, runs the backbone with the others, and hands sums (and hidden states, when asked) to rank 0,
 * which alone writes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <longreel/predict.h>

#include "job.h"

#define GATHER_PIECE ((size_t)1 << 22) /* bytes handed over at once */

/* Predicted work of the stages, for the time left: multiply-adds; the shares only matter relative to each
 * other. */
static double towers_weight(const lr_job *job) {
    const lr_model_info *info = lr_model_info_of(job->model);
    return info->picture_macs * (double)(job->layout->n_frames * job->layout->frame_soft) +
           info->sound_macs * (double)job->layout->n_sound_tokens;
}
static double backbone_weight(const lr_job *job) {
    double n = (double)job->layout->n_tokens, windows = (double)job->layout->n_windows;
    return windows * lr_backbone_flop(job->model, (uint64_t)(n / windows)) / 2;
}

/* ------------------------------------------------------------------ one rank */

typedef struct rank_state {
    lr_job *job;
    lr_comm *comm;
    lr_pool *pool;
    lr_worker worker;
    lr_pooler *pooler; /* rank 0 */
    struct lr_rank_work *work;
} rank_state;

static void note_layer(void *arg, size_t layer, size_t n_layers, double share) {
    lr_job *job = arg;
    (void)n_layers;
    (void)share;
    atomic_store(&job->layer, layer);
}

static void backbone_progress(void *arg, size_t layer, size_t n_layers, double share) {
    lr_job *job = arg;
    note_layer(arg, layer, n_layers, share);
    atomic_store(&job->meter.units_done,
                 (uint64_t)(1000.0 * ((double)layer + share) / (double)n_layers));
    lr_meter_add(&job->meter, 0);
}

typedef struct sums_sink {
    rank_state *rank;
    const lr_window *window;
    size_t row_bytes;
} sums_sink;

static lr_status take_sums(void *arg, int from, const void *data, size_t bytes, lr_error *err) {
    (void)from;
    sums_sink *sink = arg;
    return lr_pooler_add(sink->rank->pooler, sink->window, data, bytes / sink->row_bytes, err);
}

static lr_status take_hidden(void *arg, int from, const void *data, size_t bytes, lr_error *err) {
    (void)from;
    sums_sink *sink = arg;
    return lr_set_tokens_rows(sink->rank->job->writer, data, bytes / sink->row_bytes, err);
}

/* Gathers rows of row_bytes, counts[r] of them on rank r, at rank 0. */
static lr_status gather_rows(rank_state *rank, const size_t *counts, size_t row_bytes,
                             const void *mine, lr_gather_sink sink, const lr_window *window,
                             lr_error *err) {
    lr_status st = LR_OK;
    size_t *sizes = NULL;
    sums_sink arg = {.rank = rank, .window = window, .row_bytes = row_bytes};
    size_t piece = GATHER_PIECE / row_bytes * row_bytes;
    LR_TRY(LR_NEW(&sizes, (size_t)rank->comm->size, "sizes to be gathered", err));
    for (int r = 0; r < rank->comm->size; r++) sizes[r] = counts[r] * row_bytes;
    LR_TRY(lr_comm_gather(rank->comm, 0, mine, sizes, piece ? piece : row_bytes, sink, &arg, err));
done:
    lr_free(sizes);
    return st;
}

static lr_status gather_window(rank_state *rank, const lr_window *window, const lr_partition *parts,
                               const float *x, lr_error *err) {
    lr_status st = LR_OK;
    lr_job *job = rank->job;
    int me = rank->comm->rank;
    size_t hidden = lr_model_info_of(job->model)->hidden, *counts = NULL;
    lr_pieces pieces = {0};
    LR_TRY(LR_NEW(&counts, (size_t)rank->comm->size, "sizes to be gathered", err));
    LR_TRY(lr_pieces_sum(&job->pooling, window, window->first + lr_partition_first_token(parts, me),
                         window->first + lr_partition_end_token(parts, me), x, &pieces, err));
    for (int r = 0; r < rank->comm->size; r++) {
        counts[r] = lr_pieces_count(job->layout, window, parts->chunk,
                                    window->first + lr_partition_first_token(parts, r),
                                    window->first + lr_partition_end_token(parts, r));
    }
    LR_TRY(gather_rows(rank, counts, 2 * hidden * sizeof(double), pieces.sums, take_sums, window, err));
    if (job->options->save_tokens) {
        for (int r = 0; r < rank->comm->size; r++) {
            counts[r] = lr_partition_end_token(parts, r) - lr_partition_first_token(parts, r);
        }
        LR_TRY(gather_rows(rank, counts, hidden * sizeof(float), x, take_hidden, window, err));
    }
done:
    lr_free(pieces.sums);
    lr_free(counts);
    return st;
}

static void add_stats(lr_backbone_stats *sum, const lr_backbone_stats *one) {
    sum->query_rows += one->query_rows;
    sum->ring.chunks_seen += one->ring.chunks_seen;
    sum->ring.keys_seen += one->ring.keys_seen;
    sum->ring.chunks_sent += one->ring.chunks_sent;
    sum->ring.bytes_sent += one->ring.bytes_sent;
    sum->ring.chunks_passed += one->ring.chunks_passed;
    sum->ring.seconds_waiting += one->ring.seconds_waiting;
    if (one->arena_bytes > sum->arena_bytes) sum->arena_bytes = one->arena_bytes;
    if (one->device_bytes > sum->device_bytes) sum->device_bytes = one->device_bytes;
    sum->seconds_attention += one->seconds_attention;
    sum->seconds_linear += one->seconds_linear;
    sum->seconds_exchange += one->seconds_exchange;
}

static lr_status run_backbone(rank_state *rank, size_t w, const lr_partition *parts, float *x,
                              lr_error *err) {
    lr_job *job = rank->job;
    lr_stage_base base = {.store = job->stages, .base = job->layout->windows[w].first};
    lr_backbone_stats stats = {0};
    lr_layer_keeper keeper;
    size_t first_layer;
    lr_layer_keeper_init(&keeper, job, rank->comm, parts, w);
    lr_schedule schedule;
    lr_status st = lr_layer_keeper_choose(&keeper, &first_layer, err);
    if (st == LR_OK) st = lr_job_schedule(job, parts->n_tokens, &schedule, err);
    if (st != LR_OK) return st;
    if (rank->comm->rank == 0) job->result->schedule = schedule;
    rank->work->reused.layers += first_layer;
    lr_backbone_run run = {
        .comm = rank->comm,
        .partition = parts,
        .sequence = w,
        .schedule = schedule,
        .node_ranks = job->ring_node,
        .worker = rank->worker,
        .progress = rank->comm->rank == 0 ? backbone_progress : note_layer,
        .progress_arg = job,
        .tap = lr_stage_tap_of(&base),
        .state = lr_layer_keeper_state(&keeper, first_layer),
    };
    st = lr_backbone_forward(job->model, &run, x, &stats, err);
    add_stats(&rank->work->backbone, &stats);
    return st;
}

static lr_status encode_window(rank_state *rank, size_t w, lr_error *err) {
    lr_status st = LR_OK;
    lr_job *job = rank->job;
    const lr_window *window = &job->layout->windows[w];
    lr_partition parts = {0};
    float *x = NULL;
    struct timespec begin;
    lr_stop *stop = NULL;
    int me = rank->comm->rank;
    LR_TRY(lr_partition_create(&parts, window->count, job->options->chunk, rank->comm->size, err));
    uint64_t first = window->first + lr_partition_first_token(&parts, me);
    uint64_t end = window->first + lr_partition_end_token(&parts, me);
    size_t values;
    if (!lr_mul_size(end - first, lr_model_info_of(job->model)->hidden, &values)) {
        LR_FAIL(LR_E_NOMEM, "%llu tokens do not fit in memory", (unsigned long long)(end - first));
    }
    LR_TRY(LR_NEW(&x, values, "token vectors", err));
    if (w == 0) rank->work->first_token = first;
    rank->work->end_token = end;

    atomic_store(&job->stage, LR_STAGE_TOWERS);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    LR_TRY(lr_sound_track_share(job, lr_towers_want_sound(job, first, end), rank->worker.cancel, err));
    LR_TRY(lr_job_towers(job, &rank->worker, first, end, x, rank->work, err));
    LR_TRY(lr_comm_barrier(rank->comm, err));
    stop = lr_layer_stop(job); /* not before: the others' towers may take long */
    lr_stop_hold(stop);
    if (me == 0) {
        job->seconds_towers += lr_seconds_since(&begin);
        lr_meter_stage(&job->meter, LR_STAGE_BACKBONE, 1000,
                       backbone_weight(job) / (double)job->layout->n_windows);
        clock_gettime(CLOCK_MONOTONIC, &begin);
    }
    atomic_store(&job->layer, 0);
    atomic_store(&job->stage, LR_STAGE_BACKBONE);
    LR_TRY(run_backbone(rank, w, &parts, x, err));
    if (me == 0) job->seconds_backbone += lr_seconds_since(&begin);
    lr_stop_let_go(stop);
    stop = NULL;
    LR_TRY(gather_window(rank, window, &parts, x, err));
done:
    lr_stop_let_go(stop);
    lr_free(x);
    lr_partition_free(&parts);
    return st;
}

/* Rank 0, once all windows are through. */
static lr_status put_layout_stages(lr_job *job, lr_error *err) {
    lr_status st = LR_OK;
    const lr_layout *layout = job->layout;
    int64_t *offsets = NULL;
    lr_tensor ids = {.dtype = LR_I32, .n_dims = 1, .dims = {layout->n_tokens}, .data = layout->ids};
    LR_TRY(lr_stage_store_put(job->stages, "input_ids", -1, 0, &ids, err));
    if (layout->n_frames > 0) {
        uint64_t patches = lr_stage_store_rows(job->stages, "patches_u8") / layout->n_frames;
        lr_tensor rows = {.dtype = LR_I64, .n_dims = 2, .dims = {layout->n_frames + 1, 2}};
        LR_TRY(LR_NEW(&offsets, 2 * (layout->n_frames + 1), "frame offsets", err));
        for (uint64_t f = 0; f <= layout->n_frames; f++) {
            offsets[2 * f] = (int64_t)(f * patches);
            offsets[2 * f + 1] = (int64_t)(f * layout->frame_soft);
        }
        rows.data = offsets;
        LR_TRY(lr_stage_store_put(job->stages, "frame_offsets", -1, 0, &rows, err));
    }
    char *directory = NULL;
    LR_TRY(lr_format(&directory, err, "%s/stages", lr_set_directory(job->writer)));
    st = lr_stage_store_write(job->stages, directory, err);
    lr_free(directory);
done:
    lr_free(offsets);
    return st;
}

static lr_status rank_body(void *arg, lr_comm *comm, lr_error *err) {
    lr_status st = LR_OK;
    lr_job *job = arg;
    rank_state rank = {.job = job, .comm = comm, .work = &job->result->work[comm->rank]};
    LR_TRY(lr_pool_create((size_t)job->threads, &rank.pool, err));
    rank.worker = (lr_worker){.pool = rank.pool, .cancel = job->options->cancel};
    if (comm->rank == 0) {
        LR_TRY(lr_pooler_create(&rank.pooler, &job->pooling, err));
        if (job->options->save_tokens) LR_TRY(lr_tokens_begin(job->writer, &job->pooling, err));
    }
    for (size_t w = 0; w < job->layout->n_windows; w++) {
        if (comm->rank == 0) {
            lr_meter_window(&job->meter, w, job->layout->n_windows);
            uint64_t units = lr_towers_units(job->layout, &job->layout->windows[w]);
            if (job->comm) units = units / (uint64_t)job->ranks + 1; /* those of this process */
            lr_meter_stage(&job->meter, LR_STAGE_TOWERS, units,
                           towers_weight(job) / (double)job->layout->n_windows);
        }
        LR_TRY(lr_comm_barrier(comm, err));
        LR_TRY(encode_window(&rank, w, err));
    }
    atomic_store(&job->stage, LR_STAGE_WRITE);
    if (comm->rank == 0) {
        struct timespec begin;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        lr_meter_stage(&job->meter, LR_STAGE_WRITE, 1, 0);
        LR_TRY(lr_pooler_write(rank.pooler, job->writer, &job->result->segments, err));
        if (job->stages) LR_TRY(put_layout_stages(job, err));
        job->seconds_write = lr_seconds_since(&begin);
    }
done:
    lr_pooler_free(rank.pooler);
    lr_pool_free(rank.pool);
    return st;
}

/* ------------------------------------------------------------------ the whole */

/* Timing the parts costs as much as a few pictures and some hundred tokens: that is done where it is a fiftieth of
 * the work. Else a tile of tokens must do. */
static lr_status find_speed(lr_job *job, lr_speed *out, lr_error *err) {
    lr_speed *kept = job->options->speed;
    lr_encode_options here = *job->options; /* this machine's ranks, as local ones */
    const lr_model_info *info = lr_model_info_of(job->model);
    lr_status st = LR_OK;
    if (kept->token <= 0) {
        double timing = 4 * info->picture_macs * job->options->soft_tokens + 200 * info->sound_macs +
                        3 * lr_backbone_flop(job->model, 1024) / 2;
        here.comm = NULL;
        here.save_stages = false;
        if (job->comm && here.node_ranks > 0) here.ranks = here.node_ranks;
        if (here.ranks > LR_LOCAL_MAX) here.ranks = LR_LOCAL_MAX;
        if (towers_weight(job) + backbone_weight(job) < 50 * timing) {
            return lr_speed_estimate(job->model, &here, out, err);
        }
        st = lr_speed_measure(job->model, &here, kept, err);
    }
    *out = *kept;
    return st;
}

static lr_status predict_time(lr_job *job, const lr_plan *plan, lr_error *err) {
    lr_speed speed;
    job->predicted_seconds = -1;
    if (!job->options->speed || (job->comm && job->comm->rank != 0)) return LR_OK;
    if (lr_model_device(job->model)) return LR_OK; /* what a processor takes says nothing of a device */
    lr_status st = find_speed(job, &speed, err);
    if (st != LR_OK) return st;
    job->predicted_seconds = lr_speed_predict(job->model, &speed, plan, job->options);
    if (job->comm && job->options->node_ranks > 0) { /* as many machines */
        job->predicted_seconds *= (double)job->options->node_ranks / job->ranks;
    }
    return LR_OK;
}

static lr_status plan_run(lr_job *job, lr_error *err) {
    lr_plan plan;
    size_t processes = job->comm && job->options->node_ranks > 0 ? (size_t)job->options->node_ranks : 1;
    lr_status st = lr_plan_refuse(job, &plan, err);
    if (st != LR_OK) return st;
    job->predicted_bytes = plan.bytes_resident + plan.bytes_total / processes;
    return predict_time(job, &plan, err);
}

static void fill_result(lr_job *job) {
    lr_encode_result *r = job->result;
    r->tokens = job->layout->n_tokens;
    r->frames = job->layout->n_frames;
    r->sound_tokens = job->layout->n_sound_tokens;
    r->n_warnings = job->timeline->n_warnings + job->n_damage;
    r->duration = lr_time_seconds(job->pooling.end - job->pooling.base);
    r->ranks = job->ranks;
    if (!job->comm) r->work[0].samples_decoded = job->sound.decoded; /* for all ranks of the process */
    r->reused = (struct lr_reused){.layers = r->work[0].reused.layers};
    for (int i = 0; i < job->ranks; i++) {
        r->reused.frames += r->work[i].reused.frames;
        r->reused.sound_tokens += r->work[i].reused.sound_tokens;
    }
    if (lr_memory_peak() > r->peak_bytes) r->peak_bytes = lr_memory_peak();
    r->predicted_bytes = job->predicted_bytes;
    r->predicted_seconds = job->predicted_seconds;
    r->seconds = lr_seconds_since(&job->meter.begin);
}

static lr_status set_lacks(const char *set_path, const char *name, bool *lacks, lr_error *err) {
    char *path = NULL;
    lr_status st = lr_format(&path, err, "%s/%s", set_path, name);
    *lacks = st == LR_OK && access(path, F_OK) != 0;
    lr_free(path);
    return st;
}

/* The set that is there is of the same work; what was to be saved beside the vectors must be in it. */
static lr_status take_finished(lr_job *job, const char *set_path, lr_error *err) {
    lr_status st = LR_OK;
    lr_set *set = NULL;
    const lr_encode_options *o = job->options;
    bool tokens = false, stages = false;
    if (o->save_tokens) LR_TRY(set_lacks(set_path, "tokens.safetensors", &tokens, err));
    if (o->save_stages) LR_TRY(set_lacks(set_path, "stages", &stages, err));
    if (tokens || stages) {
        LR_FAIL(LR_E_EXISTS, "%s is finished, but was made without --save %s; --force makes it again",
                set_path, tokens ? "tokens" : "stages");
    }
    LR_TRY(lr_set_open(&set, set_path, err));
    job->result->skipped = true;
    job->result->segments = lr_set_info_of(set)->n_segments;
    fill_result(job);
done:
    lr_set_close(set);
    return st;
}

static lr_status run_ranks(lr_job *job, lr_error *err) {
    if (!job->comm) return lr_comm_local_run(job->ranks, job->options->peer_timeout, rank_body, job, err);
    lr_status st = rank_body(job, job->comm, err);
    lr_stored_close(job); /* before rank 0 removes what all have used */
    return st == LR_OK ? lr_ranks_collect(job, err) : st;
}

/* After these the same command may come further; otherwise it fails again. */
static bool is_worth_keeping(lr_status st) {
    return st == LR_E_INTERRUPTED || st == LR_E_PEER || st == LR_E_IO || st == LR_E_NOMEM;
}

/* Another process may have done the same work in the same time. */
static lr_status commit(lr_job *job, const char *set_path, const char *manifest, lr_error *err) {
    lr_error why = {0};
    bool done = false;
    lr_status st = lr_set_commit(job->writer, manifest, &why);
    job->writer = NULL;
    if (st == LR_OK) return LR_OK;
    if (st == LR_E_EXISTS && lr_look_for_set(set_path, job->key, &done, NULL) == LR_OK && done) {
        return take_finished(job, set_path, err);
    }
    return lr_fail(err, st, "%s", why.text);
}

static lr_status run_job(lr_job *job, const char *set_path, lr_error *err) {
    lr_status st = LR_OK;
    char *manifest = NULL;
    LR_TRY(plan_run(job, err));
    lr_memory_forget_peak();
    if (lr_job_writes(job)) LR_TRY(lr_set_create(&job->writer, set_path, job->options->force, err));
    LR_TRY(lr_stored_open(job, set_path, err));
    if (job->options->save_stages) LR_TRY(lr_stage_store_create(&job->stages, err));
    job->meter.weight = towers_weight(job) + backbone_weight(job);
    LR_TRY(run_ranks(job, err));
    LR_TRY(lr_job_settle_damage(job, err));
    fill_result(job);
    if (!lr_job_writes(job)) goto done;
    LR_TRY(lr_manifest_text(job, &manifest, err));
    LR_TRY(lr_cancel_check(job->options->cancel, err));
    LR_TRY(commit(job, set_path, manifest, err));
done:
    lr_stored_close(job);
    if (job->stored.wanted && lr_job_writes(job) && !is_worth_keeping(st)) lr_partial_finish(set_path, job->key);
    lr_free(manifest);
    return st;
}

/* Rank 0 looks; the others follow. */
static lr_status look_for_set(lr_job *job, const char *set_path, bool *done, lr_error *err) {
    lr_status st = LR_OK;
    unsigned char found = 0;
    if (lr_job_writes(job) && !job->options->force) LR_TRY(lr_look_for_set(set_path, job->key, done, err));
    if (lr_job_writes(job) && *done) LR_TRY(take_finished(job, set_path, err));
    if (lr_job_writes(job) && *done && job->options->keep_unfinished) lr_partial_finish(set_path, job->key);
    if (!job->comm) return LR_OK;
    found = *done;
    LR_TRY(lr_comm_broadcast(job->comm, 0, &found, sizeof found, err));
    *done = job->result->skipped = found != 0;
    if (*done) fill_result(job);
done:
    return st;
}

typedef struct place { /* where a run was stopped */
    char text[64];
} place;

static void find_place(lr_job *job, place *out) {
    switch ((lr_stage)atomic_load(&job->stage)) {
    case LR_STAGE_INDEX: snprintf(out->text, sizeof out->text, "before the towers"); break;
    case LR_STAGE_TOWERS: snprintf(out->text, sizeof out->text, "in the towers"); break;
    case LR_STAGE_BACKBONE:
        snprintf(out->text, sizeof out->text, "in the backbone, layer %zu of %zu", atomic_load(&job->layer) + 1,
                 lr_model_info_of(job->model)->n_layers);
        break;
    case LR_STAGE_WRITE: snprintf(out->text, sizeof out->text, "while the set was written"); break;
    }
}

static lr_status encode(lr_model *model, const char *recording, const char *set_path,
                        const lr_encode_options *options, lr_comm *comm, lr_encode_result *result, place *where,
                        lr_error *err) {
    lr_status st = LR_OK;
    lr_job job = {0};
    bool done = false;
    LR_TRY(lr_encode_check(options, model, err));
    if (comm) LR_TRY(lr_ranks_compare(comm, model, options, err));
    LR_TRY(lr_job_prepare(&job, model, recording, options, comm, err));
    job.result = result;
    snprintf(result->key, sizeof result->key, "%s", job.key);
    LR_TRY(LR_NEW(&result->work, (size_t)job.ranks, "the account of the ranks' work", err));
    LR_TRY(look_for_set(&job, set_path, &done, err));
    if (!done) LR_TRY(run_job(&job, set_path, err));
done:
    /* Before the unfinished set is cleared away: the others need not wait for that. */
    if (st != LR_OK && comm) lr_comm_abort(comm, err->text);
    find_place(&job, where);
    lr_job_free(&job);
    return st;
}

/* The recording stands before the rank, and once. */
static void leave_out(lr_error *err, const char *recording) {
    size_t length = strlen(recording);
    if (strncmp(err->text, recording, length) != 0 || strncmp(err->text + length, ": ", 2) != 0) return;
    memmove(err->text, err->text + length + 2, strlen(err->text + length + 2) + 1);
}

/* On a communicator for this recording alone: a failure ends that one, and then all agree on it. */
static lr_status encode_on_processes(lr_model *model, const char *recording, const char *set_path,
                                     const lr_encode_options *options, lr_encode_result *result, place *where,
                                     lr_error *err) {
    lr_comm *own = NULL;
    lr_status st = lr_comm_split(options->comm, 0, options->comm->size, &own, err);
    if (st != LR_OK) return st;
    st = encode(model, recording, set_path, options, own, result, where, err);
    lr_comm_free(own);
    leave_out(err, recording);
    st = lr_comm_agree(options->comm, st, err);
    /* Rank 0 has done so where all see the same directory. */
    if (st == LR_OK && options->keep_unfinished && options->comm->rank != 0) lr_partial_finish(set_path, result->key);
    return st;
}

lr_status lr_encode_recording(lr_model *model, const char *recording, const char *set_path,
                              const lr_encode_options *options, lr_encode_result *result,
                              lr_error *err) {
    lr_error own_err = {0};
    place where = {""};
    lr_status st;
    memset(result, 0, sizeof *result);
    if (options->comm) {
        st = encode_on_processes(model, recording, set_path, options, result, &where, &own_err);
    } else {
        st = encode(model, recording, set_path, options, NULL, result, &where, &own_err);
    }
    if (st == LR_OK) return LR_OK;
    if (where.text[0] && (st == LR_E_PEER || st == LR_E_INTERRUPTED)) {
        leave_out(&own_err, recording);
        lr_error_context(&own_err, "%s", where.text);
    }
    lr_encode_result_free(result);
    lr_error_about(&own_err, recording);
    return lr_fail(err, st, "%s", own_err.text);
}
