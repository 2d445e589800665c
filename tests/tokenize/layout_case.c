#include "layout_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

recording *recording_create(int64_t n_frames, int64_t num, int64_t den, double video_end)
{
    recording *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->frame_time = calloc((size_t)n_frames + 1, sizeof *r->frame_time);
    r->frame_pts = calloc((size_t)n_frames + 1, sizeof *r->frame_pts);
    assert_true(r->frame_time && r->frame_pts);
    r->tokenizer = fixture_tokenizer("regular");
    r->in = (lr_layout_input){.tokenizer = r->tokenizer,
                              .rules = fixture_rules("regular"),
                              .stamps = true,
                              .fps = {num, den},
                              .n_frames = n_frames,
                              .frame_time = r->frame_time,
                              .frame_pts = r->frame_pts,
                              .video_end = (lr_time)(video_end * (double)LR_TIME_SECOND),
                              .frame_soft = 2,
                              .frame_width = 96,
                              .frame_height = 48};
    for (int64_t k = 0; k < n_frames; k++)
        r->frame_time[k] = r->frame_pts[k] = lr_grid_time(k, r->in.fps);
    return r;
}

void recording_free(recording *r)
{
    lr_tokenizer_free(r->tokenizer);
    free(r->frame_time);
    free(r->frame_pts);
    free(r);
}

lr_layout *recording_layout(const recording *r)
{
    lr_layout *layout = NULL;
    lr_error err = {0};
    lrt_assert_ok(lr_layout_recording(&layout, &r->in, &err), &err);
    return layout;
}

/* ------------------------------------------------------------------ texts */

typedef struct string {
    char *text;
    size_t n, capacity;
} string;

static void put(string *s, const char *text, size_t n)
{
    if (s->n + n + 1 > s->capacity) {
        s->capacity = 2 * (s->n + n + 1);
        s->text = realloc(s->text, s->capacity);
        assert_non_null(s->text);
    }
    memcpy(s->text + s->n, text, n + 1);
    s->n += n;
}

static void put_stamp(string *s, const lr_span *span, bool first)
{
    char text[64];
    if (span->stamp == LR_TIME_NONE) return;
    int64_t second = lr_time_round_even(span->stamp);
    int n = snprintf(text, sizeof text, "%s%02lld:%02lld ", first ? "" : " ",
                     (long long)(second / 60), (long long)(second % 60));
    put(s, text, (size_t)n);
}

char *layout_text(const lr_layout *layout)
{
    string s = {0};
    put(&s, "", 0);
    for (size_t w = 0; w < layout->n_windows; w++) {
        const lr_window *window = &layout->windows[w];
        if (layout->n_windows > 1) put(&s, "{", 1);
        for (size_t i = 1; i + 1 < window->n_spans; i++) {
            const lr_span *span = &layout->spans[window->first_span + i];
            bool frame = span->kind == LR_SPAN_FRAME;
            char text[64];
            put_stamp(&s, span, i == 1);
            int n = snprintf(text, sizeof text, "%s*%llu%s", frame ? "[V" : "(A",
                             (unsigned long long)span->soft_count, frame ? "]" : ")");
            put(&s, text, (size_t)n);
        }
        if (layout->n_windows > 1) put(&s, "}", 1);
    }
    return s.text;
}

/* The text the reference tokenizes: each marker and placeholder written out. */
static void put_window(string *s, const lr_layout *layout, const lr_window *window)
{
    for (size_t i = 1; i + 1 < window->n_spans; i++) {
        const lr_span *span = &layout->spans[window->first_span + i];
        bool frame = span->kind == LR_SPAN_FRAME;
        put_stamp(s, span, i == 1);
        put(s, frame ? "<|image>" : "<|audio>", 8);
        for (uint64_t k = 0; k < span->soft_count; k++)
            put(s, frame ? "<|video|>" : "<|audio|>", 9);
        put(s, frame ? "<image|>" : "<audio|>", 8);
    }
}

/* ------------------------------------------------------------------ promises */

static void check_spans(const lr_layout *layout)
{
    uint64_t token = 0, sound = 0;
    int64_t frame = 0;
    for (size_t i = 0; i < layout->n_spans; i++) {
        const lr_span *span = &layout->spans[i];
        assert_int_equal(span->first, token);
        token += span->count;
        assert_true(span->soft_first >= span->first);
        assert_true(span->soft_first + span->soft_count <= span->first + span->count);
        assert_ptr_equal(lr_layout_span_at(layout, span->first), span);
        if (span->kind == LR_SPAN_FRAME) {
            assert_int_equal(span->index, frame);
            assert_int_equal(span->source, frame++);
            assert_int_equal(span->soft_count, layout->frame_soft);
        } else if (span->kind == LR_SPAN_SOUND) {
            assert_int_equal(span->source, sound);
            assert_true(span->soft_count > 0);
            sound += span->soft_count;
        } else {
            assert_int_equal(span->count, 1);
            assert_int_equal(span->time, LR_TIME_NONE);
        }
    }
    assert_int_equal(token, layout->n_tokens);
    assert_int_equal(sound, layout->n_sound_tokens);
    assert_int_equal((uint64_t)frame, layout->n_frames);
}

static void check_windows(const recording *r, const lr_layout *layout)
{
    uint64_t token = 0;
    size_t span = 0;
    for (size_t w = 0; w < layout->n_windows; w++) {
        const lr_window *window = &layout->windows[w];
        assert_int_equal(window->first, token);
        assert_int_equal(window->first_span, span);
        assert_true(window->n_spans >= 3);
        assert_int_equal(layout->spans[span].kind, LR_SPAN_BOS);
        assert_int_equal(layout->spans[span + window->n_spans - 1].kind, LR_SPAN_EOS);
        if (r->in.context) assert_true(window->count <= r->in.context);
        token += window->count;
        span += window->n_spans;

        string s = {0};
        lr_ids ids = {0};
        lr_error err = {0};
        put_window(&s, layout, window);
        lrt_assert_ok(lr_tokenizer_encode(r->tokenizer, s.text, s.n, true, &ids, &err), &err);
        assert_ids("the whole text at once", layout->ids + window->first, window->count, ids.ids,
                   ids.count);
        lr_ids_free(&ids);
        free(s.text);
    }
    assert_int_equal(token, layout->n_tokens);
    assert_int_equal(span, layout->n_spans);
}

void check_layout(const recording *r, const lr_layout *layout)
{
    check_spans(layout);
    check_windows(r, layout);
}

void assert_layout(const recording *r, const char *expected)
{
    lr_layout *layout = recording_layout(r);
    char *text = layout_text(layout);
    assert_string_equal(text, expected);
    check_layout(r, layout);
    free(text);
    lr_layout_free(layout);
}
