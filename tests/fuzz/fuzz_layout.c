/* Made-up frames, sound and windows; the layout keeps its promises. */
#include <stdlib.h>
#include <string.h>

#include <longreel/tokenize.h>

#include "fuzz.h"

#define MOST_FRAMES 60

static lr_tokenizer *tokenizer;
static lr_sequence_rules rules = {.video_soft = 789, .image_soft = 787, .audio_soft = 788,
                                  .sound_tokens_per_second = 25};

/* The bytes are not told apart from others: some of them in a row are as good a start as any. */
static void make_seeds(void)
{
    uint8_t seed[64];
    for (uint8_t i = 0; i < 8; i++) {
        char name[2] = {(char)('0' + i), 0};
        for (uint8_t b = 0; b < sizeof seed; b++) seed[b] = (uint8_t)(b * (2 * i + 1) + 37 * i);
        seed[0] = (uint8_t)(i * 37);
        fz_seed(name, NULL, 0, seed, sizeof seed);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    lr_error err = {0};
    (void)argc;
    (void)argv;
    fz_init();
    const char *path = LR_FIXTURES "/regular/tokenizer.json";
    FZ_CHECK(fz_succeeded(lr_tokenizer_load(&tokenizer, path, &err), &err));
    rules.bos = lr_tokenizer_id(tokenizer, "<bos>");
    rules.eos = lr_tokenizer_id(tokenizer, "<eos>");
    rules.begin_image = lr_tokenizer_id(tokenizer, "<|image>");
    rules.end_image = lr_tokenizer_id(tokenizer, "<image|>");
    rules.begin_audio = lr_tokenizer_id(tokenizer, "<|audio>");
    rules.end_audio = lr_tokenizer_id(tokenizer, "<audio|>");
    fz_seeds(make_seeds);
    return 0;
}

/* ------------------------------------------------------------------ promises */

static void check_span(const lr_layout *layout, const lr_span *span, const lr_layout_input *in)
{
    const int32_t *ids = layout->ids + span->first;
    bool sound = span->kind == LR_SPAN_SOUND;
    if (span->kind == LR_SPAN_BOS || span->kind == LR_SPAN_EOS) {
        FZ_CHECK(span->count == 1 && span->time == LR_TIME_NONE);
        FZ_CHECK(ids[0] == (span->kind == LR_SPAN_BOS ? in->rules.bos : in->rules.eos));
        return;
    }
    FZ_CHECK(span->kind == LR_SPAN_FRAME || sound);
    FZ_CHECK(span->time != LR_TIME_NONE && span->time >= 0);
    FZ_CHECK((span->stamp == LR_TIME_NONE) == !in->stamps);
    FZ_CHECK(span->soft_count > 0 && span->soft_first > span->first);
    FZ_CHECK(span->soft_first + span->soft_count + 1 == span->first + span->count);
    uint64_t begin = span->soft_first - span->first - 1;
    FZ_CHECK(ids[begin] == (sound ? in->rules.begin_audio : in->rules.begin_image));
    FZ_CHECK(ids[span->count - 1] == (sound ? in->rules.end_audio : in->rules.end_image));
    for (uint64_t i = 0; i < span->soft_count; i++)
        FZ_CHECK(ids[begin + 1 + i] == (sound ? in->rules.audio_soft : in->rules.video_soft));
    for (uint64_t i = 0; i < begin; i++)
        FZ_CHECK(ids[i] >= 0 && (size_t)ids[i] < lr_tokenizer_size(tokenizer));
}

/* Spans follow one another without a hole; frames and tokens of sound come in order, each once. */
static void check_spans(const lr_layout *layout, const lr_layout_input *in)
{
    uint64_t at = 0, sound = 0;
    int64_t frame = 0;
    for (size_t i = 0; i < layout->n_spans; i++) {
        const lr_span *span = &layout->spans[i];
        FZ_CHECK(span->first == at && span->count > 0 && span->count <= layout->n_tokens - at);
        FZ_CHECK(lr_layout_span_at(layout, at) == span);
        check_span(layout, span, in);
        at += span->count;
        FZ_CHECK(lr_layout_span_at(layout, at - 1) == span);
        if (span->kind == LR_SPAN_FRAME) {
            FZ_CHECK(span->index == frame && span->source == (uint64_t)frame);
            FZ_CHECK(span->time == in->frame_time[frame] && span->soft_count == in->frame_soft);
            frame++;
        } else if (span->kind == LR_SPAN_SOUND) {
            FZ_CHECK(span->source == sound);
            sound += span->soft_count;
        }
    }
    FZ_CHECK(at == layout->n_tokens && !lr_layout_span_at(layout, at));
    FZ_CHECK(frame == in->n_frames && sound == in->n_sound_tokens);
}

/* Windows cover all spans and tokens, each a bos, something, an eos, and no longer than asked for. */
static void check_windows(const lr_layout *layout, const lr_layout_input *in)
{
    uint64_t token = 0;
    size_t span = 0;
    for (size_t i = 0; i < layout->n_windows; i++) {
        const lr_window *w = &layout->windows[i];
        FZ_CHECK(w->first == token && w->first_span == span && w->n_spans >= 3);
        FZ_CHECK(w->count <= layout->n_tokens - token && w->n_spans <= layout->n_spans - span);
        FZ_CHECK(in->context == 0 || w->count <= in->context);
        FZ_CHECK(layout->spans[span].first == token);
        FZ_CHECK(layout->spans[span].kind == LR_SPAN_BOS);
        FZ_CHECK(layout->spans[span + w->n_spans - 1].kind == LR_SPAN_EOS);
        for (size_t k = span + 1; k < span + w->n_spans - 1; k++)
            FZ_CHECK(layout->spans[k].kind == LR_SPAN_FRAME || layout->spans[k].kind == LR_SPAN_SOUND);
        token += w->count;
        span += w->n_spans;
    }
    FZ_CHECK(token == layout->n_tokens && span == layout->n_spans);
    FZ_CHECK(in->context != 0 || layout->n_windows == 1);
}

/* ------------------------------------------------------------------ inputs */

typedef struct times {
    lr_time time[MOST_FRAMES], pts[MOST_FRAMES];
} times;

/* Times on a grid as ingest gives them, or any. */
static void fill_times(fz_bytes *bytes, lr_layout_input *in, times *t)
{
    bool grid = fz_take(bytes, 1) < 192;
    lr_time start = (lr_time)(fz_number(bytes) >> 1), at = start;
    for (int64_t k = 0; k < in->n_frames; k++) {
        if (grid && in->fps.num > 0 && in->fps.den > 0) {
            lr_time step = lr_grid_time(k, in->fps);
            at = step > INT64_MAX - start ? INT64_MAX : start + step;
        } else {
            at = (lr_time)fz_number(bytes);
        }
        t->time[k] = at;
        int64_t off = fz_between(bytes, -4, 4);
        if (__builtin_add_overflow(at, off * (LR_TIME_SECOND / 7), &t->pts[k])) t->pts[k] = at;
        if (off == 4) t->pts[k] = (lr_time)fz_number(bytes);
    }
    in->frame_time = t->time;
    in->frame_pts = t->pts;
}

static void read_input(fz_bytes *bytes, lr_layout_input *in, times *t)
{
    uint64_t flags = fz_take(bytes, 1);
    *in = (lr_layout_input){.tokenizer = tokenizer, .rules = rules, .stamps = (flags & 1) == 0};
    if (flags & 2) in->tokenizer = NULL;
    in->fps = (lr_rational){1, 1};
    if (flags & 4) in->fps = (lr_rational){(int64_t)fz_number(bytes), (int64_t)fz_number(bytes)};
    in->n_frames = fz_between(bytes, 0, MOST_FRAMES);
    in->frame_soft = flags & 8 ? fz_number(bytes) : 1 + fz_take(bytes, 1) % 8;
    in->n_sound_tokens = flags & 16 ? fz_number(bytes) : fz_take(bytes, 1);
    in->context = flags & 32 ? fz_number(bytes) : 0;
    in->video_end = (lr_time)fz_number(bytes);
    if (flags & 64) {
        in->video_end = fz_between(bytes, 0, 400) * LR_TIME_SECOND / 2;
        in->sound_start = fz_between(bytes, 0, 40) * LR_TIME_SECOND / 4;
    } else {
        in->sound_start = (lr_time)fz_number(bytes);
    }
    if (flags & 128) in->rules.sound_tokens_per_second = (int)fz_between(bytes, -1, 100);
    fill_times(bytes, in, t);
    in->frame_width = (int)in->n_frames;
    in->frame_height = 7;
}

/* Tokens that an input asks for at least. Between these bounds a machine with enough memory would be right
 * to make them; beyond, nobody has that much, and it must fail. */
#define MOST_TOKENS (UINT64_C(1) << 14)
#define IMPOSSIBLE_TOKENS (UINT64_C(1) << 45)

static bool is_too_long(const lr_layout_input *in)
{
    uint64_t all;
    if (__builtin_mul_overflow(in->frame_soft, (uint64_t)in->n_frames, &all) ||
        __builtin_add_overflow(all, in->n_sound_tokens, &all))
        return false;
    return all > MOST_TOKENS && all < IMPOSSIBLE_TOKENS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static times t;
    lr_error err = {0};
    lr_layout *layout = NULL;
    lr_layout_input in;
    fz_bytes bytes = {data, size};
    read_input(&bytes, &in, &t);
    if (is_too_long(&in)) return 0;
    fz_begin();
    if (fz_succeeded(lr_layout_recording(&layout, &in, &err), &err)) {
        check_spans(layout, &in);
        check_windows(layout, &in);
    } else {
        FZ_CHECK(!layout);
    }
    lr_layout_free(layout);
    fz_end((size_t)256 << 20);
    return 0;
}
