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

/* Rows that are put away together: some megabytes at the published shape. */
#define SLICE_FRAMES 16
#define SLICE_SOUND_TOKENS 1500

/* ------------------------------------------------------------------ pictures */

typedef struct picture_run {
    const slice *slice;
    const lr_span **spans; /* [end - first] of the frames wanted */
    lr_stored_range range; /* spans of frames, by their `source` */
    lr_frame_reader *reader;
    int64_t next; /* the frame of the grid that the reader gives next */
    lr_vision *vision;
    lr_keeper keeper;
    float *soft; /* [frame_soft, hidden] of the last span */
    lr_time shown; /* the pts of its one frame */
    bool have, substituted;
    lr_stage_base base;
    lr_stage_tap tap;
} picture_run;

static void place_picture(const picture_run *run, const lr_span *span, const float *soft) {
    keep_soft(run->slice, span->soft_first, span->soft_count, soft);
    lr_meter_add(&run->slice->job->meter, span->soft_count * PICTURE_UNITS);
}

static lr_status take_stored_pictures(void *arg, uint64_t first, uint64_t count, const float *rows, lr_error *err) {
    const picture_run *run = arg;
    const slice *s = run->slice;
    for (uint64_t i = 0; i < count; i++) {
        const lr_span *span = run->spans[first + i - run->range.first];
        place_picture(run, span, rows + i * run->range.row_floats);
        s->work->reused.frames += span->soft_first >= s->first;
    }
    return lr_cancel_check(s->worker->cancel, err);
}

static lr_status put_pictures(picture_run *run, lr_error *err) {
    size_t n_damage = 0;
    const lr_damage *damage = lr_frame_reader_damage(run->reader, &n_damage);
    return lr_keeper_flush(&run->keeper, damage, n_damage, err);
}

/* Frame k of the grid. Frames come in order, but for a recording so short that it is repeated. */
static lr_status read_frame(picture_run *run, int64_t k, lr_frame *frame, lr_error *err) {
    lr_status st = LR_OK;
    const lr_job *job = run->slice->job;
    bool got = false;
    LR_TRY(lr_cancel_check(run->slice->worker->cancel, err));
    if (k != run->next) {
        lr_frame_reader_close(run->reader);
        run->reader = NULL;
        LR_TRY(lr_frame_reader_open(&run->reader, job->recording, k, (int64_t)job->layout->n_grid, err));
    }
    LR_TRY(lr_frame_reader_next(run->reader, frame, &got, err));
    if (!got || frame->index != k) {
        LR_FAIL(LR_E_INTERNAL, "frame %lld of the grid was wanted and %lld came", (long long)k,
                got ? (long long)frame->index : -1LL);
    }
    run->next = k + 1;
done:
    return st;
}

/* The frames of one span through the tower. */
static lr_status encode_picture(picture_run *run, const lr_span *span, lr_error *err) {
    lr_status st = LR_OK;
    const slice *s = run->slice;
    const lr_layout *layout = s->job->layout;
    lr_frame frame = {0};
    for (uint64_t part = 0; part < layout->frame_parts; part++) {
        LR_TRY(read_frame(run, lr_layout_frame(layout, span, part), &frame, err));
        if (part + 1 < layout->frame_parts) LR_TRY(lr_vision_hold(run->vision, &frame, err));
    }
    /* A slide that stays on: the same decoded picture gives the same soft tokens. */
    bool again = run->have && frame.pts == run->shown && frame.substituted == run->substituted;
    if (!again || s->job->stages) {
        lr_stage_store_item(s->job->stages);
        run->have = false;
        LR_TRY(lr_vision_encode(run->vision, &frame, run->soft, &run->tap, err));
    }
    run->have = layout->frame_parts == 1;
    run->shown = frame.pts;
    run->substituted = frame.substituted;
    s->work->frames_encoded++;
    place_picture(run, span, run->soft);
    (void)lr_keeper_add(&run->keeper, span->source, 1, run->soft);
    if (lr_keeper_full(&run->keeper)) LR_TRY(put_pictures(run, err));
done:
    return st;
}

/* Reads the frames of the spans [first, end) of frames. */
static lr_status open_reader(picture_run *run, uint64_t first, uint64_t end, lr_error *err) {
    const lr_layout *layout = run->slice->job->layout;
    const lr_span *last = run->spans[end - 1 - run->range.first];
    int64_t stop = lr_layout_frame(layout, last, layout->frame_parts - 1) + 1;
    run->next = lr_layout_frame(layout, run->spans[first - run->range.first], 0);
    if (layout->n_grid < layout->frame_parts) stop = (int64_t)layout->n_grid;
    return lr_frame_reader_open(&run->reader, run->slice->job->recording, run->next, stop, err);
}

/* Spans [first, end) of frames. */
static lr_status encode_gap(picture_run *run, uint64_t first, uint64_t end, lr_error *err) {
    lr_status st = LR_OK;
    lr_error ignored = {0};
    lr_job *job = run->slice->job;
    const lr_layout *layout = job->layout;
    if (!run->vision) {
        LR_TRY(lr_vision_create(&run->vision, job->model, layout->frame_width, layout->frame_height,
                                run->slice->worker, err));
    }
    LR_TRY(open_reader(run, first, end, err));
    for (uint64_t k = first; k < end; k++) LR_TRY(encode_picture(run, run->spans[k - run->range.first], err));
    size_t n_damage = 0;
    const lr_damage *damage = lr_frame_reader_damage(run->reader, &n_damage);
    LR_TRY(lr_job_add_damage(job, damage, n_damage, err));
    LR_TRY(put_pictures(run, err));
done:
    /* What there is when a run is stopped, too. */
    if (st != LR_OK && run->reader) (void)put_pictures(run, &ignored);
    lr_frame_reader_close(run->reader);
    run->reader = NULL;
    return st;
}

static lr_status open_pictures(picture_run *run, size_t a, size_t b, lr_error *err) {
    lr_status st = LR_OK;
    const slice *s = run->slice;
    const lr_layout *layout = s->job->layout;
    lr_stored_range *range = &run->range;
    range->kind = LR_SLICE_FRAMES;
    range->first = layout->spans[a].source;
    range->end = layout->spans[b - 1].source + 1;
    range->row_floats = layout->frame_soft * s->hidden;
    range->take = take_stored_pictures;
    range->arg = run;
    LR_TRY(LR_NEW(&run->spans, range->end - range->first, "spans of frames", err));
    LR_TRY(LR_NEW(&range->have, range->end - range->first, "which frames are stored", err));
    LR_TRY(LR_NEW(&run->soft, range->row_floats, "a picture's soft tokens", err));
    LR_TRY(lr_keeper_begin(&run->keeper, s->job, LR_SLICE_FRAMES, SLICE_FRAMES, range->row_floats, err));
    for (size_t i = a; i < b; i++) {
        const lr_span *span = &layout->spans[i];
        if (span->kind == LR_SPAN_FRAME) run->spans[span->source - range->first] = span;
    }
    for (uint64_t k = range->first; k < range->end; k++) {
        if (!run->spans[k - range->first]) LR_FAIL(LR_E_INTERNAL, "frame %llu has no span", (unsigned long long)k);
    }
done:
    return st;
}

static lr_status encode_pictures(const slice *s, lr_error *err) {
    lr_status st = LR_OK;
    lr_job *job = s->job;
    picture_run run = {.slice = s, .base = {.store = job->stages, .by_item = true}};
    size_t a, b;
    spans_of(s, LR_SPAN_FRAME, &a, &b);
    if (a == b) return LR_OK;
    run.tap = lr_stage_tap_of(&run.base);
    LR_TRY(open_pictures(&run, a, b, err));
    LR_TRY(lr_stored_take(job, &run.range, err));
    for (uint64_t first = run.range.first, end; lr_stored_gap(&run.range, &first, &end); first = end) {
        LR_TRY(encode_gap(&run, first, end, err));
    }
done:
    lr_keeper_end(&run.keeper, NULL, 0);
    lr_vision_free(run.vision);
    lr_free(run.soft);
    lr_free(run.range.have);
    lr_free(run.spans);
    return st;
}

/* ------------------------------------------------------------------ sound */

typedef struct sound_run {
    const slice *slice;
    size_t first_span, span, end_span; /* those of the slice; tokens before `span` are in place */
    lr_stored_range range;             /* tokens of the track */
    lr_keeper keeper;
    uint64_t made; /* the tower's next token */
} sound_run;

/* Tokens of the track into the spans they belong to. */
static void place_sound(sound_run *run, uint64_t first_token, uint64_t count, const float *soft) {
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
}

/* Those of tokens [first, end) of the track that lie in the slice. */
static uint64_t count_own(const sound_run *run, uint64_t first, uint64_t end) {
    const slice *s = run->slice;
    uint64_t own = 0;
    for (size_t i = run->first_span; i < run->end_span; i++) {
        const lr_span *span = &s->job->layout->spans[i];
        if (span->kind != LR_SPAN_SOUND || span->source >= end || span->source + span->soft_count <= first) continue;
        uint64_t a = span->soft_first + (first > span->source ? first - span->source : 0);
        uint64_t b = span->soft_first + (end < span->source + span->soft_count ? end - span->source : span->soft_count);
        if (a < s->first) a = s->first;
        if (b > s->end) b = s->end;
        if (a < b) own += b - a;
    }
    return own;
}

static lr_status take_stored_sound(void *arg, uint64_t first, uint64_t count, const float *rows, lr_error *err) {
    sound_run *run = arg;
    place_sound(run, first, count, rows);
    run->slice->work->reused.sound_tokens += count_own(run, first, first + count);
    return lr_cancel_check(run->slice->worker->cancel, err);
}

static lr_status take_sound(void *arg, uint64_t first_token, uint64_t count, const float *soft,
                            lr_error *err) {
    sound_run *run = arg;
    place_sound(run, first_token, count, soft);
    run->made = first_token + count;
    run->slice->work->sound_tokens_encoded += count;
    for (uint64_t i = 0; i < count;) {
        i += lr_keeper_add(&run->keeper, first_token + i, count - i, soft + i * run->slice->hidden);
        if (!lr_keeper_full(&run->keeper)) continue;
        lr_status st = lr_keeper_flush(&run->keeper, NULL, 0, err);
        if (st != LR_OK) return st;
    }
    return LR_OK;
}

#define SOUND_PIECE 16000

/* Where a slice's samples come from: the decoder, where this slice is the only one, else the track that
 * all slices share. */
typedef struct sound_source {
    lr_sound_reader *reader; /* or NULL: the shared track */
    int64_t at;              /* the next sample */
    float *piece;            /* [SOUND_PIECE] */
} sound_source;

static lr_status read_source(const slice *s, sound_source *source, size_t *count, lr_error *err) {
    lr_status st;
    if (source->reader) {
        st = lr_sound_reader_read(source->reader, source->piece, SOUND_PIECE, count, err);
    } else {
        st = lr_sound_track_read(s->job, s->worker->cancel, source->at, source->piece, SOUND_PIECE, count, err);
    }
    if (st == LR_OK) source->at += (int64_t)*count;
    return st;
}

/* Tokens [run->made, end) of the track. The decoder is read until the sound ends, so that its account of damage
 * is whole; the shared track only until all tokens are made. */
static lr_status feed_sound(sound_run *run, lr_sound_tower *tower, uint64_t end, sound_source *source,
                            lr_error *err) {
    lr_status st = LR_OK;
    const slice *s = run->slice;
    int64_t begin = lr_sound_tower_first_sample(tower);
    if (!source->reader) source->at = begin;
    while (source->reader || run->made < end) {
        size_t count = 0;
        LR_TRY(lr_cancel_check(s->worker->cancel, err));
        LR_TRY(read_source(s, source, &count, err));
        if (count == 0) break;
        int64_t before = source->at - (int64_t)count, skip = begin > before ? begin - before : 0;
        if (skip >= (int64_t)count) continue;
        LR_TRY(lr_sound_tower_feed(tower, source->piece + skip, count - (size_t)skip, err));
    }
    LR_TRY(lr_sound_tower_finish(tower, err));
done:
    return st;
}

static lr_status encode_sound_gap(sound_run *run, uint64_t first, uint64_t end, sound_source *source,
                                  lr_error *err) {
    lr_status st = LR_OK;
    lr_error ignored = {0};
    const slice *s = run->slice;
    lr_job *job = s->job;
    lr_sound_tower *tower = NULL;
    lr_stage_base base = {.store = job->stages};
    lr_stage_tap tap = lr_stage_tap_of(&base);
    run->span = run->first_span;
    run->made = first;
    LR_TRY(lr_sound_tower_create(&tower, job->model, job->timeline->audio.n_samples, first, end, s->worker,
                                 take_sound, run, &tap, err));
    LR_TRY(feed_sound(run, tower, end, source, err));
    LR_TRY(lr_keeper_flush(&run->keeper, NULL, 0, err));
    if (source->reader) {
        size_t n_damage = 0;
        const lr_damage *damage = lr_sound_reader_damage(source->reader, &n_damage);
        LR_TRY(lr_job_add_damage(job, damage, n_damage, err));
        LR_TRY(lr_stored_put_sound_damage(job, damage, n_damage, err));
        job->sound.decoded += (uint64_t)source->at;
    }
done:
    if (st != LR_OK) (void)lr_keeper_flush(&run->keeper, NULL, 0, &ignored);
    lr_sound_tower_free(tower);
    return st;
}

/* All tokens were stored; what the decoder has to tell may be, too. */
static lr_status settle_sound_damage(const slice *s, lr_error *err) {
    bool found = false;
    size_t count;
    lr_status st = lr_stored_take_sound_damage(s->job, &found, err);
    if (st != LR_OK || found) return st;
    return lr_sound_track_read(s->job, s->worker->cancel, 0, NULL, 0, &count, err);
}

static lr_status encode_sound_gaps(sound_run *run, lr_error *err) {
    lr_status st = LR_OK;
    sound_source source = {0};
    lr_job *job = run->slice->job;
    uint64_t first = run->range.first, end, second;
    if (!lr_stored_gap(&run->range, &first, &end)) return settle_sound_damage(run->slice, err);
    LR_TRY(LR_NEW(&source.piece, SOUND_PIECE, "a piece of sound", err));
    second = end;
    uint64_t second_end;
    if (job->ranks == 1 && job->layout->n_windows == 1 && !lr_stored_gap(&run->range, &second, &second_end)) {
        LR_TRY(lr_sound_reader_open(&source.reader, job->recording, err));
    }
    for (; lr_stored_gap(&run->range, &first, &end); first = end) {
        LR_TRY(encode_sound_gap(run, first, end, &source, err));
    }
done:
    lr_sound_reader_close(source.reader);
    lr_free(source.piece);
    return st;
}

static lr_status encode_sound(const slice *s, lr_error *err) {
    lr_status st = LR_OK;
    const lr_layout *layout = s->job->layout;
    sound_run run = {.slice = s};
    spans_of(s, LR_SPAN_SOUND, &run.first_span, &run.end_span);
    if (run.first_span == run.end_span) return LR_OK;
    const lr_span *first = &layout->spans[run.first_span], *last = &layout->spans[run.end_span - 1];
    run.span = run.first_span;
    run.range = (lr_stored_range){.kind = LR_SLICE_SOUND, .first = first->source, .row_floats = s->hidden,
                                  .end = last->source + last->soft_count, .take = take_stored_sound, .arg = &run};
    LR_TRY(LR_NEW(&run.range.have, run.range.end - run.range.first, "which sound tokens are stored", err));
    LR_TRY(lr_keeper_begin(&run.keeper, s->job, LR_SLICE_SOUND, SLICE_SOUND_TOKENS, s->hidden, err));
    LR_TRY(lr_stored_take(s->job, &run.range, err));
    LR_TRY(encode_sound_gaps(&run, err));
done:
    lr_keeper_end(&run.keeper, NULL, 0);
    lr_free(run.range.have);
    return st;
}

bool lr_towers_want_sound(const lr_job *job, uint64_t first, uint64_t end) {
    const lr_layout *layout = job->layout;
    const slice s = {.job = (lr_job *)(uintptr_t)job, .first = first, .end = end};
    size_t a, b;
    if (first == end) return false;
    spans_of(&s, LR_SPAN_SOUND, &a, &b);
    if (a == b) return false;
    const lr_span *last = &layout->spans[b - 1];
    return !lr_stored_names(job, LR_SLICE_SOUND, layout->spans[a].source, last->source + last->soft_count) ||
           !lr_stored_names(job, LR_SLICE_SOUND_NOTES, 0, 1);
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
