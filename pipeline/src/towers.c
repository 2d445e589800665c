/* One rank's share of the towers: text rows, pictures and sound of the spans that touch its tokens.
 * A picture that lies across the border of two shards is made by both ranks, each keeping its rows. */
#include <string.h>

#include "job.h"

/* What a soft token costs, for the progress: one of a picture about five times one of sound
 * (multiply-adds of the published towers). */
#define PICTURE_UNITS 5
#define SOUND_UNITS 1

uint64_t lr_towers_units(const lr_layout *layout, const lr_window *window) {
    uint64_t units = 0;
    for (size_t i = 0; i < window->n_spans; i++) {
        const lr_span *span = &layout->spans[window->first_span + i];
        units += span->soft_count * (span->kind == LR_SPAN_FRAME ? PICTURE_UNITS : SOUND_UNITS);
    }
    return units ? units : 1;
}

typedef struct slice { /* of one rank */
    lr_job *job;
    const lr_worker *worker;
    uint64_t first, end; /* tokens */
    float *x;            /* [end - first, hidden] */
    size_t hidden;
    struct lr_rank_work *work;
} slice;

/* Copies soft tokens [soft_first, ...) of the sequence, those that lie in the slice. */
static void keep_soft(const slice *s, uint64_t soft_first, uint64_t count, const float *soft) {
    uint64_t a = soft_first > s->first ? soft_first : s->first;
    uint64_t b = soft_first + count < s->end ? soft_first + count : s->end;
    if (a >= b) return;
    memcpy(s->x + (a - s->first) * s->hidden, soft + (a - soft_first) * s->hidden,
           (b - a) * s->hidden * sizeof(float));
}

static bool touches(const lr_span *span, const slice *s) {
    return span->soft_count > 0 && span->soft_first < s->end &&
           span->soft_first + span->soft_count > s->first;
}

/* The range [*a, *b) of spans of `kind` whose soft tokens touch the slice. */
static void spans_of(const slice *s, lr_span_kind kind, size_t *a, size_t *b) {
    const lr_layout *layout = s->job->layout;
    *a = *b = 0;
    bool any = false;
    for (size_t i = 0; i < layout->n_spans; i++) {
        if (layout->spans[i].kind != kind || !touches(&layout->spans[i], s)) continue;
        if (!any) *a = i;
        any = true;
        *b = i + 1;
    }
}

/* ------------------------------------------------------------------ pictures */

typedef struct picture_run {
    lr_frame_reader *reader;
    lr_vision *vision;
    float *soft; /* [frame_soft, hidden] of the last picture */
    lr_time shown; /* its pts */
    bool have, substituted;
    lr_stage_base base;
    lr_stage_tap tap;
} picture_run;

static lr_status encode_picture(const slice *s, picture_run *run, const lr_span *span,
                                lr_error *err) {
    lr_status st = LR_OK;
    lr_frame frame = {0};
    bool got = false;
    LR_TRY(lr_cancel_check(s->worker->cancel, err));
    LR_TRY(lr_frame_reader_next(run->reader, &frame, &got, err));
    if (!got || frame.index != span->index) {
        LR_FAIL(LR_E_INTERNAL, "frame %lld of the grid was wanted and %lld came",
                (long long)span->index, got ? (long long)frame.index : -1LL);
    }
    /* A slide that stays on: the same decoded picture gives the same soft tokens. */
    bool again = run->have && frame.pts == run->shown && frame.substituted == run->substituted;
    if (!again || s->job->stages) {
        lr_stage_store_item(s->job->stages);
        LR_TRY(lr_vision_encode(run->vision, &frame, run->soft, &run->tap, err));
    }
    run->have = true;
    run->shown = frame.pts;
    run->substituted = frame.substituted;
    keep_soft(s, span->soft_first, span->soft_count, run->soft);
    s->work->frames_encoded++;
    lr_meter_add(&s->job->meter, span->soft_count * PICTURE_UNITS);
done:
    return st;
}

static lr_status encode_pictures(const slice *s, lr_error *err) {
    lr_status st = LR_OK;
    lr_job *job = s->job;
    const lr_layout *layout = job->layout;
    picture_run run = {.base = {.store = job->stages, .by_item = true}};
    size_t a, b;
    spans_of(s, LR_SPAN_FRAME, &a, &b);
    if (a == b) return LR_OK;
    run.tap = lr_stage_tap_of(&run.base);
    LR_TRY(LR_NEW(&run.soft, layout->frame_soft * s->hidden, "a picture's soft tokens", err));
    LR_TRY(lr_vision_create(&run.vision, job->model, layout->frame_width, layout->frame_height,
                            s->worker, err));
    LR_TRY(lr_frame_reader_open(&run.reader, job->recording, layout->spans[a].index,
                                layout->spans[b - 1].index + 1, err));
    for (size_t i = a; i < b; i++) {
        const lr_span *span = &layout->spans[i];
        if (span->kind == LR_SPAN_FRAME) LR_TRY(encode_picture(s, &run, span, err));
    }
    size_t n_damage = 0;
    const lr_damage *damage = lr_frame_reader_damage(run.reader, &n_damage);
    LR_TRY(lr_job_add_damage(job, damage, n_damage, err));
done:
    lr_frame_reader_close(run.reader);
    lr_vision_free(run.vision);
    lr_free(run.soft);
    return st;
}

/* ------------------------------------------------------------------ sound */

typedef struct sound_run {
    const slice *slice;
    size_t span, end_span; /* spans still to be filled */
} sound_run;

/* Tokens of the track into the spans they belong to. */
static lr_status take_sound(void *arg, uint64_t first_token, uint64_t count, const float *soft,
                            lr_error *err) {
    (void)err;
    sound_run *run = arg;
    const slice *s = run->slice;
    const lr_layout *layout = s->job->layout;
    for (size_t i = run->span; i < run->end_span; i++) {
        const lr_span *span = &layout->spans[i];
        if (span->kind != LR_SPAN_SOUND) continue;
        uint64_t a = span->source > first_token ? span->source : first_token;
        uint64_t b = span->source + span->soft_count;
        if (b > first_token + count) b = first_token + count;
        if (span->source >= first_token + count) break;
        if (a < b) {
            keep_soft(s, span->soft_first + (a - span->source), b - a,
                      soft + (a - first_token) * s->hidden);
        }
        if (span->source + span->soft_count <= first_token + count) run->span = i + 1;
    }
    lr_meter_add(&s->job->meter, count * SOUND_UNITS);
    return LR_OK;
}

#define SOUND_PIECE 16000

/* Where a slice's samples come from: the decoder, where this slice is the only one, else the track that
 * all slices share. */
typedef struct sound_source {
    lr_sound_reader *reader; /* or NULL: the shared track */
    int64_t at;              /* the next sample */
} sound_source;

static lr_status open_source(const slice *s, sound_source *source, const lr_sound_tower *tower,
                             lr_error *err) {
    if (s->job->ranks == 1 && s->job->layout->n_windows == 1) {
        return lr_sound_reader_open(&source->reader, s->job->recording, err);
    }
    source->at = lr_sound_tower_first_sample(tower);
    return LR_OK;
}

static lr_status read_source(const slice *s, sound_source *source, float *piece, size_t *count,
                             lr_error *err) {
    lr_status st;
    if (source->reader) {
        st = lr_sound_reader_read(source->reader, piece, SOUND_PIECE, count, err);
    } else {
        st = lr_sound_track_read(s->job, s->worker->cancel, source->at, piece, SOUND_PIECE, count, err);
    }
    if (st == LR_OK) source->at += (int64_t)*count;
    return st;
}

/* Until the sound ends, so that the decoder's account of damage is whole; of the shared track only until
 * all spans of the slice are filled (run->span follows them). */
static lr_status feed_sound(const slice *s, const sound_run *run, lr_sound_tower *tower,
                            sound_source *source, float *piece, lr_error *err) {
    lr_status st = LR_OK;
    while (source->reader || run->span < run->end_span) {
        size_t count = 0;
        LR_TRY(lr_cancel_check(s->worker->cancel, err));
        LR_TRY(read_source(s, source, piece, &count, err));
        if (count == 0) break;
        LR_TRY(lr_sound_tower_feed(tower, piece, count, err));
    }
    LR_TRY(lr_sound_tower_finish(tower, err));
done:
    return st;
}

static lr_status encode_sound(const slice *s, lr_error *err) {
    lr_status st = LR_OK;
    lr_job *job = s->job;
    const lr_layout *layout = job->layout;
    sound_run run = {.slice = s};
    sound_source source = {0};
    lr_sound_tower *tower = NULL;
    float *piece = NULL;
    lr_stage_base base = {.store = job->stages};
    lr_stage_tap tap = lr_stage_tap_of(&base);
    spans_of(s, LR_SPAN_SOUND, &run.span, &run.end_span);
    if (run.span == run.end_span) return LR_OK;
    const lr_span *first = &layout->spans[run.span], *last = &layout->spans[run.end_span - 1];
    LR_TRY(LR_NEW(&piece, SOUND_PIECE, "a piece of sound", err));
    LR_TRY(lr_sound_tower_create(&tower, job->model, job->timeline->audio.n_samples, first->source,
                                 last->source + last->soft_count, s->worker, take_sound, &run, &tap,
                                 err));
    LR_TRY(open_source(s, &source, tower, err));
    LR_TRY(feed_sound(s, &run, tower, &source, piece, err));
    if (source.reader) {
        size_t n_damage = 0;
        const lr_damage *damage = lr_sound_reader_damage(source.reader, &n_damage);
        LR_TRY(lr_job_add_damage(job, damage, n_damage, err));
    }
done:
    lr_sound_reader_close(source.reader);
    lr_sound_tower_free(tower);
    lr_free(piece);
    return st;
}

lr_status lr_job_towers(lr_job *job, const lr_worker *worker, uint64_t first, uint64_t end, float *x,
                        struct lr_rank_work *work, lr_error *err) {
    lr_status st = LR_OK;
    slice s = {.job = job, .worker = worker, .first = first, .end = end, .x = x, .work = work,
               .hidden = lr_model_info_of(job->model)->hidden};
    if (first == end) return LR_OK;
    LR_TRY(lr_embed_ids(job->model, job->layout->ids + first, end - first, x, err));
    LR_TRY(encode_pictures(&s, err));
    LR_TRY(encode_sound(&s, err));
done:
    return st;
}
