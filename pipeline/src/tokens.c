/* tokens.safetensors of a set: written by encode, read again to make other segments. */
#include <string.h>

#include "job.h"

#define SPAN_VALUES 7

/* ------------------------------------------------------------------ writing */

static void put_spans(const lr_layout *layout, int64_t *spans, double *times) {
    for (size_t i = 0; i < layout->n_spans; i++) {
        const lr_span *s = &layout->spans[i];
        const int64_t row[SPAN_VALUES] = {s->kind, s->index, s->time, (int64_t)s->first, (int64_t)s->count,
                                          (int64_t)s->soft_first, (int64_t)s->soft_count};
        memcpy(spans + i * SPAN_VALUES, row, sizeof row);
        for (uint64_t t = 0; t < s->count; t++) times[s->first + t] = lr_time_seconds(s->time);
    }
}

lr_status lr_tokens_begin(lr_set_writer *writer, const lr_pooling *pooling, lr_error *err) {
    lr_status st = LR_OK;
    const lr_layout *layout = pooling->layout;
    const lr_projection *projection = &pooling->projection;
    const int64_t part[2] = {pooling->base, pooling->end};
    double *times = NULL;
    int64_t *spans = NULL, *windows = NULL;
    LR_TRY(LR_NEW(&times, layout->n_tokens, "times of the tokens", err));
    LR_TRY(LR_NEW(&spans, layout->n_spans * SPAN_VALUES, "the spans of the tokens", err));
    LR_TRY(LR_NEW(&windows, layout->n_windows * 2, "the windows of the tokens", err));
    put_spans(layout, spans, times);
    for (size_t i = 0; i < layout->n_windows; i++) {
        windows[2 * i] = (int64_t)layout->windows[i].first;
        windows[2 * i + 1] = (int64_t)layout->windows[i].count;
    }
    const int32_t identity = 1;
    const lr_tensor matrix = {.dtype = LR_F32, .n_dims = 2, .dims = {projection->dim, projection->hidden},
                              .data = projection->matrix};
    const lr_tensor none = {.dtype = LR_I32, .n_dims = 1, .dims = {1}, .data = &identity};
    const lr_set_tensor tensors[] = {
        {"time", {.dtype = LR_F64, .n_dims = 1, .dims = {layout->n_tokens}, .data = times}},
        {"spans", {.dtype = LR_I64, .n_dims = 2, .dims = {layout->n_spans, SPAN_VALUES}, .data = spans}},
        {"windows", {.dtype = LR_I64, .n_dims = 2, .dims = {layout->n_windows, 2}, .data = windows}},
        {"part", {.dtype = LR_I64, .n_dims = 1, .dims = {2}, .data = part}},
        {projection->matrix ? "projection" : "identity", projection->matrix ? matrix : none},
        {"input_ids", {.dtype = LR_I32, .n_dims = 1, .dims = {layout->n_tokens}, .data = layout->ids}},
    };
    LR_TRY(lr_set_tokens_begin(writer, tensors, sizeof tensors / sizeof *tensors, layout->n_tokens,
                               projection->hidden, err));
done:
    lr_free(times);
    lr_free(spans);
    lr_free(windows);
    return st;
}

/* ------------------------------------------------------------------ reading */

/* dims: 0 where any size will do. */
static lr_status find(const lr_checkpoint *file, const char *name, lr_dtype dtype, size_t n_dims,
                      size_t d0, size_t d1, const lr_tensor **out, lr_error *err) {
    const size_t dims[2] = {d0, d1};
    const lr_tensor *t = lr_checkpoint_find(file, name);
    if (!t) {
        return lr_fail(err, LR_E_FORMAT, "there is no tensor '%s'; encode the recording again with "
                       "--save tokens", name);
    }
    bool good = t->dtype == dtype && t->n_dims == n_dims;
    for (size_t i = 0; good && i < n_dims; i++) good = t->dims[i] > 0 && (!dims[i] || t->dims[i] == dims[i]);
    if (!good) return lr_fail(err, LR_E_FORMAT, "tensor '%s' has another type or shape than saved tokens "
                              "have", name);
    *out = t;
    return LR_OK;
}

/* Rows of spans, which must follow each other without a hole; their soft tokens lie inside. */
static lr_status take_spans(lr_layout *layout, const int64_t *rows, lr_error *err) {
    uint64_t at = 0;
    int64_t frame = -1;
    for (size_t i = 0; i < layout->n_spans; i++, rows += SPAN_VALUES) {
        lr_span *s = &layout->spans[i];
        uint64_t left = layout->n_tokens - at;
        *s = (lr_span){.kind = (lr_span_kind)rows[0], .index = rows[1], .time = rows[2],
                       .stamp = LR_TIME_NONE, .first = (uint64_t)rows[3], .count = (uint64_t)rows[4],
                       .soft_first = (uint64_t)rows[5], .soft_count = (uint64_t)rows[6]};
        bool timed = rows[0] == LR_SPAN_FRAME || rows[0] == LR_SPAN_SOUND;
        bool good = rows[0] >= LR_SPAN_BOS && rows[0] <= LR_SPAN_EOS && s->first == at && s->count > 0 &&
                    s->count <= left && (timed ? s->time >= 0 : s->time == LR_TIME_NONE);
        if (timed) {
            good = good && s->soft_first >= at && s->soft_first - at <= s->count && s->soft_count > 0 &&
                   s->soft_count <= s->count - (s->soft_first - at);
        }
        if (rows[0] == LR_SPAN_FRAME) {
            good = good && s->index > frame;
            frame = s->index;
            layout->n_frames++;
        } else if (rows[0] == LR_SPAN_SOUND) {
            layout->n_sound_tokens += s->soft_count;
        }
        if (!good) return lr_fail(err, LR_E_FORMAT, "span %zu is malformed", i);
        at += s->count;
    }
    if (at == layout->n_tokens) return LR_OK;
    return lr_fail(err, LR_E_FORMAT, "the spans end at token %llu of %llu", (unsigned long long)at,
                   (unsigned long long)layout->n_tokens);
}

/* Windows follow each other, and begin and end where spans do. */
static lr_status take_windows(lr_layout *layout, const int64_t *rows, lr_error *err) {
    uint64_t at = 0;
    size_t span = 0;
    for (size_t i = 0; i < layout->n_windows; i++, rows += 2) {
        lr_window *w = &layout->windows[i];
        *w = (lr_window){.first = (uint64_t)rows[0], .count = (uint64_t)rows[1], .first_span = span};
        if (w->first != at || w->count == 0 || w->count > layout->n_tokens - at) {
            return lr_fail(err, LR_E_FORMAT, "window %zu is malformed", i);
        }
        at += w->count;
        while (span < layout->n_spans && layout->spans[span].first < at) span++;
        w->n_spans = span - w->first_span;
        const lr_span *last = &layout->spans[span - 1];
        if (last->first + last->count != at) {
            return lr_fail(err, LR_E_FORMAT, "window %zu ends inside a span", i);
        }
    }
    if (at == layout->n_tokens) return LR_OK;
    return lr_fail(err, LR_E_FORMAT, "the windows end at token %llu of %llu", (unsigned long long)at,
                   (unsigned long long)layout->n_tokens);
}

static lr_status take_layout(lr_saved_tokens *out, uint64_t n, lr_error *err) {
    lr_status st = LR_OK;
    const lr_tensor *spans = NULL, *windows = NULL;
    lr_layout *layout = NULL;
    LR_TRY(find(out->file, "spans", LR_I64, 2, 0, SPAN_VALUES, &spans, err));
    LR_TRY(find(out->file, "windows", LR_I64, 2, 0, 2, &windows, err));
    LR_TRY(LR_NEW(&layout, 1, "a layout", err));
    out->layout = layout;
    layout->n_tokens = n;
    layout->n_spans = spans->dims[0];
    layout->n_windows = windows->dims[0];
    LR_TRY(LR_NEW(&layout->spans, layout->n_spans, "spans", err));
    LR_TRY(LR_NEW(&layout->windows, layout->n_windows, "windows", err));
    LR_TRY(take_spans(layout, spans->data, err));
    LR_TRY(take_windows(layout, windows->data, err));
done:
    return st;
}

static lr_status take_tokens(lr_saved_tokens *out, const char *path, lr_error *err) {
    lr_status st = LR_OK;
    const lr_tensor *hidden = NULL, *projection = NULL, *part = NULL, *none = NULL;
    LR_TRY(find(out->file, "hidden", LR_F32, 2, 0, 0, &hidden, err));
    if (lr_checkpoint_find(out->file, "identity")) LR_TRY(find(out->file, "identity", LR_I32, 1, 1, 0, &none, err));
    else LR_TRY(find(out->file, "projection", LR_F32, 2, 0, hidden->dims[1], &projection, err));
    LR_TRY(find(out->file, "part", LR_I64, 1, 2, 0, &part, err));
    out->hidden = hidden->data;
    out->projection = (lr_projection){.matrix = projection ? projection->data : NULL,
                                      .dim = projection ? projection->dims[0] : hidden->dims[1],
                                      .hidden = hidden->dims[1], .source = path};
    const int64_t *times = part->data;
    out->base = times[0];
    out->end = times[1];
    if (out->base < 0 || out->end < 0) LR_FAIL(LR_E_FORMAT, "tensor 'part' is malformed");
    LR_TRY(take_layout(out, hidden->dims[0], err));
done:
    return st;
}

lr_status lr_tokens_open(lr_saved_tokens *out, const char *path, lr_error *err) {
    memset(out, 0, sizeof *out);
    lr_status st = lr_checkpoint_open_file(&out->file, path, err);
    if (st != LR_OK) return st;
    st = take_tokens(out, path, err);
    if (st != LR_OK) lr_error_context(err, "%s", path);
    return st;
}

void lr_tokens_close(lr_saved_tokens *tokens) {
    lr_checkpoint_close(tokens->file);
    lr_layout_free(tokens->layout);
    memset(tokens, 0, sizeof *tokens);
}
