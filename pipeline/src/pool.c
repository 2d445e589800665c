#include <math.h>
#include <string.h>

#include "job.h"

/* ------------------------------------------------------------------ pieces */

typedef struct piece {
    const lr_span *span;
    uint64_t first, end; /* tokens of the whole sequence */
} piece;

typedef struct piece_walk {
    const lr_layout *layout;
    const lr_window *window;
    uint64_t chunk, token, end;
    const lr_span *span;
} piece_walk;

static piece_walk walk_from(const lr_layout *layout, const lr_window *window, uint64_t chunk,
                            uint64_t first, uint64_t end) {
    piece_walk walk = {.layout = layout, .window = window, .chunk = chunk, .token = first, .end = end};
    if (first < end) walk.span = lr_layout_span_at(layout, first);
    return walk;
}

static bool walk_next(piece_walk *walk, piece *out) {
    if (walk->token >= walk->end) return false;
    uint64_t in_window = walk->token - walk->window->first;
    uint64_t chunk_end = walk->window->first + (in_window / walk->chunk + 1) * walk->chunk;
    uint64_t end = walk->span->first + walk->span->count;
    out->span = walk->span;
    out->first = walk->token;
    if (chunk_end < end) end = chunk_end;
    if (walk->end < end) end = walk->end;
    out->end = end;
    if (end == walk->span->first + walk->span->count) walk->span++;
    walk->token = end;
    return true;
}

size_t lr_pieces_count(const lr_layout *layout, const lr_window *window, uint64_t chunk,
                       uint64_t first, uint64_t end) {
    piece_walk walk = walk_from(layout, window, chunk, first, end);
    piece p;
    size_t count = 0;
    while (walk_next(&walk, &p)) count++;
    return count;
}

lr_status lr_pieces_sum(const lr_pooling *pooling, const lr_window *window, uint64_t first, uint64_t end,
                        const float *x, lr_pieces *out, lr_error *err) {
    lr_status st = LR_OK;
    const lr_kernels *k = pooling->kernels;
    size_t hidden = pooling->projection.hidden, values;
    memset(out, 0, sizeof *out);
    out->count = lr_pieces_count(pooling->layout, window, pooling->chunk, first, end);
    if (!lr_mul_size(out->count, 2 * hidden, &values)) LR_FAIL(LR_E_NOMEM, "too many spans");
    LR_TRY(LR_NEW(&out->sums, values, "sums for the vectors", err));
    piece_walk walk = walk_from(pooling->layout, window, pooling->chunk, first, end);
    piece p;
    for (double *sums = out->sums; walk_next(&walk, &p); sums += 2 * hidden) {
        k->sum_rows(sums, x + (p.first - first) * hidden, hidden, p.end - p.first, hidden);
        uint64_t a = p.span->soft_first, b = a + p.span->soft_count;
        if (a < p.first) a = p.first;
        if (b > p.end) b = p.end;
        if (a < b) k->sum_rows(sums + hidden, x + (a - first) * hidden, hidden, b - a, hidden);
    }
done:
    return st;
}

/* ------------------------------------------------------------------ vectors */

typedef struct segment_sum {
    lr_segment_row row;
    uint64_t tokens;
} segment_sum;

struct lr_pooler {
    const lr_pooling *pooling;
    size_t hidden, dim;
    double *recording; /* [hidden] */
    uint64_t tokens;
    segment_sum *segments; /* [n_segments]; segment i starts at base + i * hop */
    double *segment_sums;  /* [n_segments, hidden] */
    size_t n_segments;
    float *frames;         /* [n_frames, dim] */
    lr_frame_row *frame_rows;
    size_t n_frames, frame_capacity;
    double *frame_sum;     /* [hidden] of the frame at hand */
    const lr_window *window;
    piece_walk walk;
};

static lr_time last_time(const lr_layout *layout) {
    lr_time last = LR_TIME_NONE;
    for (size_t i = 0; i < layout->n_spans; i++) {
        if (layout->spans[i].time > last) last = layout->spans[i].time;
    }
    return last;
}

/* A hop of a millisecond makes millions of segments, all of whose sums are kept. */
static lr_status count_segments(lr_pooler *p, lr_error *err) {
    const lr_pooling *o = p->pooling;
    lr_time last = last_time(o->layout);
    size_t available = lr_memory_available(), bytes;
    if (last < o->base) return LR_OK;
    uint64_t count = (uint64_t)(last - o->base) / (uint64_t)o->hop + 1;
    size_t each = sizeof(segment_sum) + p->hidden * sizeof(double) + p->dim * sizeof(float);
    if (!lr_mul_size(count, each, &bytes) || (available != 0 && bytes > available)) {
        return lr_fail(err, LR_E_USAGE, "--hop %g makes %llu segments, whose sums need %.1f GB; %.1f GB "
                       "are free", lr_time_seconds(o->hop), (unsigned long long)count,
                       (double)count * (double)each / 1e9, (double)available / 1e9);
    }
    p->n_segments = count;
    return LR_OK;
}

lr_status lr_pooler_create(lr_pooler **out, const lr_pooling *pooling, lr_error *err) {
    lr_status st = LR_OK;
    lr_pooler *p = NULL;
    *out = NULL;
    LR_TRY(LR_NEW(&p, 1, "the pooling state", err));
    p->pooling = pooling;
    p->hidden = pooling->projection.hidden;
    p->dim = pooling->dim;
    LR_TRY(count_segments(p, err));
    LR_TRY(LR_NEW(&p->recording, p->hidden, "the recording's sum", err));
    LR_TRY(LR_NEW(&p->frame_sum, p->hidden, "a frame's sum", err));
    LR_TRY(LR_NEW(&p->segments, p->n_segments, "segments", err));
    LR_TRY(LR_NEW(&p->segment_sums, p->n_segments * p->hidden, "the segments' sums", err));
    p->frame_capacity = (size_t)pooling->layout->n_frames;
    size_t values;
    if (!lr_mul_size(p->frame_capacity, p->dim, &values)) LR_FAIL(LR_E_NOMEM, "too many frames");
    LR_TRY(LR_NEW(&p->frames, values, "the frames' vectors", err));
    LR_TRY(LR_NEW(&p->frame_rows, p->frame_capacity, "the frames' rows", err));
    *out = p;
    p = NULL;
done:
    lr_pooler_free(p);
    return st;
}

void lr_pooler_free(lr_pooler *p) {
    if (!p) return;
    lr_free(p->recording);
    lr_free(p->frame_sum);
    lr_free(p->segments);
    lr_free(p->segment_sums);
    lr_free(p->frames);
    lr_free(p->frame_rows);
    lr_free(p);
}

static void add(double *sum, const double *more, size_t n) {
    for (size_t i = 0; i < n; i++) sum[i] += more[i];
}

/* Adds a piece to every segment [base + i hop, base + i hop + segment) that holds its span's time. */
static void add_to_segments(lr_pooler *p, const piece *at, const double *sums) {
    const lr_pooling *o = p->pooling;
    lr_time t = at->span->time;
    if (t == LR_TIME_NONE || t < o->base) return;
    lr_time since = t - o->base;
    size_t newest = (size_t)(since / o->hop);
    size_t oldest = since < o->segment ? 0 : (size_t)((since - o->segment) / o->hop) + 1;
    for (size_t i = oldest; i <= newest && i < p->n_segments; i++) {
        segment_sum *s = &p->segments[i];
        add(p->segment_sums + i * p->hidden, sums, p->hidden);
        if (s->tokens == 0) s->row.first = at->first;
        s->row.end_token = at->end;
        s->tokens += at->end - at->first;
    }
}

static lr_status add_to_frame(lr_pooler *p, const piece *at, const double *soft, lr_error *err) {
    const lr_span *span = at->span;
    if (span->kind != LR_SPAN_FRAME) return LR_OK;
    add(p->frame_sum, soft, p->hidden);
    if (at->end < span->first + span->count) return LR_OK;
    if (p->n_frames == p->frame_capacity) {
        return lr_fail(err, LR_E_INTERNAL, "more frames came than the layout has");
    }
    p->frame_rows[p->n_frames] = (lr_frame_row){.i = span->index, .t = lr_time_seconds(span->time)};
    lr_status st = lr_projection_apply(&p->pooling->projection, p->frame_sum, span->soft_count, p->dim,
                                       p->frames + p->n_frames * p->dim, err);
    p->n_frames++;
    memset(p->frame_sum, 0, p->hidden * sizeof(double));
    return st;
}

lr_status lr_pooler_add(lr_pooler *p, const lr_window *window, const double *sums, size_t count,
                        lr_error *err) {
    if (p->window != window) {
        p->window = window;
        p->walk = walk_from(p->pooling->layout, window, p->pooling->chunk, window->first,
                            window->first + window->count);
    }
    for (size_t i = 0; i < count; i++, sums += 2 * p->hidden) {
        piece at;
        if (!walk_next(&p->walk, &at)) {
            return lr_fail(err, LR_E_INTERNAL, "more sums came than the window has pieces");
        }
        add(p->recording, sums, p->hidden);
        p->tokens += at.end - at.first;
        add_to_segments(p, &at, sums);
        lr_status st = add_to_frame(p, &at, sums + p->hidden, err);
        if (st != LR_OK) return st;
    }
    return LR_OK;
}

static lr_status write_segments(lr_pooler *p, lr_set_writer *writer, uint64_t *written, lr_error *err) {
    lr_status st = LR_OK;
    const lr_pooling *o = p->pooling;
    lr_segment_row *rows = NULL;
    float *vectors = NULL;
    size_t count = 0;
    LR_TRY(LR_NEW(&rows, p->n_segments, "segments", err));
    LR_TRY(LR_NEW(&vectors, p->n_segments * p->dim, "the segments' vectors", err));
    for (size_t i = 0; i < p->n_segments; i++) {
        segment_sum *s = &p->segments[i];
        if (s->tokens == 0) continue;
        lr_time start = o->base + (lr_time)i * o->hop;
        lr_time end = o->segment < INT64_MAX - start ? start + o->segment : INT64_MAX;
        if (end > o->end && o->end > start) end = o->end;
        s->row.start = lr_time_seconds(start);
        s->row.end = lr_time_seconds(end);
        rows[count] = s->row;
        LR_TRY(lr_projection_apply(&o->projection, p->segment_sums + i * p->hidden, s->tokens, p->dim,
                                   vectors + count * p->dim, err));
        count++;
    }
    LR_TRY(lr_set_segments(writer, rows, vectors, count, p->dim, err));
    *written = count;
done:
    lr_free(rows);
    lr_free(vectors);
    return st;
}

lr_status lr_pooler_write(lr_pooler *p, lr_set_writer *writer, uint64_t *segments, lr_error *err) {
    lr_status st = LR_OK;
    const lr_layout *layout = p->pooling->layout;
    float *vector = NULL;
    if (p->tokens != layout->n_tokens || p->n_frames != layout->n_frames) {
        LR_FAIL(LR_E_INTERNAL, "%llu of %llu tokens and %zu of %llu frames were pooled",
                (unsigned long long)p->tokens, (unsigned long long)layout->n_tokens, p->n_frames,
                (unsigned long long)layout->n_frames);
    }
    LR_TRY(LR_NEW(&vector, p->dim, "the recording's vector", err));
    LR_TRY(lr_projection_apply(&p->pooling->projection, p->recording, p->tokens, p->dim, vector, err));
    LR_TRY(lr_set_recording(writer, vector, p->dim, err));
    LR_TRY(write_segments(p, writer, segments, err));
    LR_TRY(lr_set_frames(writer, p->frame_rows, p->frames, p->n_frames, p->dim, err));
done:
    lr_free(vector);
    return st;
}
