/* From a path to everything that is known before decoding: timeline, layout, key. */
#include <stdlib.h>
#include <string.h>

#include "job.h"

static void fill_options(lr_job *job, lr_encode_options *filled) {
    const lr_model_info *info = lr_model_info_of(job->model);
    if (filled->dim == 0) filled->dim = info->dim;
    if (filled->soft_tokens == 0) filled->soft_tokens = info->picture.budget;
    if (info->rules.soft_only) filled->stamps = false;
    if (filled->ranks == 0) filled->ranks = 1;
    if (job->comm) filled->ranks = job->comm->size;
    if (filled->threads == 0) {
        int each = job->comm ? lr_process_threads(filled->node_ranks ? filled->node_ranks : filled->ranks)
                             : lr_processors() / filled->ranks;
        filled->threads = each > 0 ? each : 1;
    }
    job->dim = filled->dim;
    job->ranks = filled->ranks;
    job->threads = filled->threads;
}

static lr_status open_recording(lr_job *job, const char *path, lr_error *err) {
    const lr_encode_options *o = job->options;
    const lr_model_info *info = lr_model_info_of(job->model);
    lr_ingest_options ingest = lr_ingest_defaults();
    ingest.fps = o->fps;
    ingest.video = o->video && info->has_vision;
    ingest.audio = o->audio && info->has_audio;
    ingest.start = o->start;
    ingest.end = o->end;
    ingest.audio_track = o->audio_track;
    ingest.threads = job->threads;
    ingest.decode = (lr_decode)o->decode;
    ingest.cancel = o->cancel;
    lr_status st = job->comm ? lr_ranks_open(job->comm, &job->recording, path, &ingest, err)
                             : lr_recording_open(&job->recording, path, &ingest, err);
    if (st == LR_OK) job->timeline = lr_recording_timeline(job->recording);
    return st;
}

static lr_status frame_times(const lr_job *job, int64_t n, lr_time **times, lr_time **pts,
                             lr_error *err) {
    lr_status st = LR_OK;
    LR_TRY(LR_NEW(times, (size_t)n, "times of the frames", err));
    LR_TRY(LR_NEW(pts, (size_t)n, "times of the frames", err));
    for (int64_t k = 0; k < n; k++) {
        (*times)[k] = lr_recording_grid_time(job->recording, k);
        (*pts)[k] = lr_recording_frame_pts(job->recording, k);
    }
done:
    return st;
}

/* A frame rate so high that not even the ids fit, seen before minutes are spent on laying them out. */
static lr_status refuse_too_many_frames(const lr_layout_input *in, lr_error *err) {
    size_t available = lr_memory_available(), tokens, bytes;
    size_t parts = in->rules.frame_parts > 1 ? (size_t)in->rules.frame_parts : 1;
    if (lr_mul_size((size_t)in->n_frames / parts, (size_t)in->frame_soft, &tokens) &&
        lr_mul_size(tokens, sizeof(int32_t), &bytes) && (available == 0 || bytes <= available)) {
        return LR_OK;
    }
    return lr_fail(err, LR_E_USAGE, "%lld frames of %llu tokens do not fit in memory (%.1f GB are free): use "
                   "a smaller --fps, or --start and --end for a part", (long long)in->n_frames,
                   (unsigned long long)in->frame_soft, (double)available / 1e9);
}

static lr_status build_layout(lr_job *job, lr_error *err) {
    lr_status st = LR_OK;
    const lr_encode_options *o = job->options;
    const lr_timeline *line = job->timeline;
    const lr_model_info *info = lr_model_info_of(job->model);
    lr_time *times = NULL, *pts = NULL;
    lr_layout_input in = {
        .tokenizer = info->tokenizer,
        .rules = info->rules,
        .stamps = o->stamps,
        .fps = o->fps,
        .sound_start = o->start == LR_TIME_NONE ? 0 : o->start,
        .context = o->context,
    };
    if (line->has_video) {
        lr_picture_geometry geometry = info->picture;
        geometry.budget = o->soft_tokens;
        LR_TRY(lr_picture_size(&geometry, line->video.display_width, line->video.display_height,
                               &in.frame_width, &in.frame_height, &in.frame_soft, err));
        in.n_frames = line->video.n_frames;
        in.video_end = line->video.end;
        LR_TRY(refuse_too_many_frames(&in, err));
        LR_TRY(frame_times(job, in.n_frames, &times, &pts, err));
        in.frame_time = times;
        in.frame_pts = pts;
    }
    if (line->has_audio) in.n_sound_tokens = lr_sound_tokens(line->audio.n_samples);
    LR_TRY(lr_layout_recording(&job->layout, &in, err));
done:
    lr_free(times);
    lr_free(pts);
    return st;
}

static lr_pooling pooling_of(const lr_job *job) {
    const lr_encode_options *o = job->options;
    lr_pooling pooling = {
        .layout = job->layout,
        .kernels = lr_model_kernels(job->model),
        .projection = lr_model_projection(job->model),
        .chunk = o->chunk,
        .segment = o->segment,
        .hop = o->hop,
        .base = o->start == LR_TIME_NONE ? 0 : o->start,
        .end = job->timeline->duration,
        .dim = job->dim,
    };
    if (o->end != LR_TIME_NONE && o->end < pooling.end) pooling.end = o->end;
    return pooling;
}

/* All ranks must take the same schedule, though nodes may differ in their number of ranks. */
static lr_status share_node(lr_job *job, lr_error *err) {
    const lr_encode_options *o = job->options;
    int32_t node = o->ring_node > 0 ? o->ring_node : job->comm ? o->node_ranks : 0;
    if (job->comm) {
        lr_status st = lr_comm_broadcast(job->comm, 0, &node, sizeof node, err);
        if (st != LR_OK) return st;
    }
    job->ring_node = node;
    return LR_OK;
}

lr_status lr_job_prepare(lr_job *job, lr_model *model, const char *recording,
                         const lr_encode_options *options, lr_comm *comm, lr_error *err) {
    lr_status st = LR_OK;
    lr_encode_options *filled = NULL;
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    memset(job, 0, sizeof *job);
    job->model = model;
    job->comm = comm;
    LR_TRY(LR_NEW(&filled, 1, "options", err));
    *filled = *options;
    job->options = filled;
    fill_options(job, filled);
    LR_TRY(lr_meter_init(&job->meter, options, recording, err));
    if (pthread_mutex_init(&job->damage_lock, NULL) != 0) LR_FAIL(LR_E_NOMEM, "no mutex");
    LR_TRY(lr_sound_track_init(&job->sound, err));
    lr_meter_stage(&job->meter, LR_STAGE_INDEX, 1, 0);
    LR_TRY(open_recording(job, recording, err));
    if (!job->timeline->has_video && !job->timeline->has_audio) {
        LR_FAIL(LR_E_NO_MEDIA, "nothing in it that %s and the options given can encode",
                lr_model_info_of(model)->name);
    }
    LR_TRY(build_layout(job, err));
    LR_TRY(share_node(job, err));
    job->pooling = pooling_of(job);
    LR_TRY(lr_model_hash(model, job->model_hash, err));
    LR_TRY(lr_job_key(job, err));
    job->meter.last.duration = lr_time_seconds(job->pooling.end - job->pooling.base);
    job->seconds_index = lr_seconds_since(&begin);
done:
    return st;
}

void lr_job_free(lr_job *job) {
    lr_set_abandon(job->writer);
    lr_stored_close(job);
    lr_stage_store_free(job->stages);
    lr_layout_free(job->layout);
    lr_recording_close(job->recording);
    lr_free(job->damage);
    lr_free(job->key);
    if (job->meter.ready) {
        pthread_mutex_destroy(&job->damage_lock);
        lr_sound_track_free(&job->sound);
        lr_meter_free(&job->meter);
    }
    lr_free((void *)job->options);
    memset(job, 0, sizeof *job);
}

lr_status lr_job_add_damage(lr_job *job, const lr_damage *damage, size_t count, lr_error *err) {
    if (count == 0) return LR_OK;
    pthread_mutex_lock(&job->damage_lock);
    lr_status st = LR_GROW(&job->damage, &job->damage_capacity, job->n_damage + count,
                           "the damage report", err);
    if (st == LR_OK) {
        memcpy(job->damage + job->n_damage, damage, count * sizeof *damage);
        job->n_damage += count;
    }
    pthread_mutex_unlock(&job->damage_lock);
    return st;
}

static int by_place(const void *a, const void *b) {
    const lr_damage *x = a, *y = b;
    if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
    int kind = strcmp(x->what, y->what);
    if (kind != 0) return kind;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

lr_status lr_job_settle_damage(lr_job *job, lr_error *err) {
    const lr_timeline *line = job->timeline;
    size_t kept = 0;
    lr_status st = lr_job_add_damage(job, line->damage, line->n_damage, err);
    if (st != LR_OK || job->n_damage == 0) return st;
    qsort(job->damage, job->n_damage, sizeof *job->damage, by_place);
    for (size_t i = 1; i < job->n_damage; i++) {
        lr_damage *last = &job->damage[kept];
        const lr_damage *next = &job->damage[i];
        bool joins = next->stream == last->stream && strcmp(next->what, last->what) == 0 &&
                     next->start <= last->end;
        if (!joins) {
            job->damage[++kept] = *next;
        } else if (next->end > last->end) {
            last->end = next->end;
        }
    }
    job->n_damage = kept + 1;
    return LR_OK;
}
