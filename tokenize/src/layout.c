/* The sequence of a recording: frames, and the seconds of sound between them. */
#include <string.h>

#include "builder.h"

/* Longer sound than any recording's, so that times of seconds do not overflow. */
#define MAX_SOUND_TOKENS (UINT64_C(1) << 36)

/* ------------------------------------------------------------------ what makes no sequence */

/* A marker next to a stamp must not reach into it: then a stamp's ids stand for themselves. */
static lr_status check_marker(const lr_tokenizer *tokenizer, int32_t id, const char *what,
                              lr_error *err)
{
    const lr_added_token *token = lr_tokenizer_added(tokenizer, id);
    if (!token && !lr_tokenizer_has_id(tokenizer, id))
        return lr_fail(err, LR_E_MODEL, "%s: the tokenizer has no token with the id %d", what,
                       (int)id);
    if (token && (token->lstrip || token->rstrip || token->single_word || token->normalized))
        return lr_fail(err, LR_E_UNSUPPORTED,
                       "%s: \"%.64s\" strips spaces, is normalized or must be a single word", what,
                       token->content.data);
    return LR_OK;
}

static lr_status check_markers(const lr_layout_input *in, lr_error *err)
{
    lr_status st = LR_OK;
    if (!in->stamps) return LR_OK;
    if (!in->tokenizer) LR_FAIL(LR_E_USAGE, "time stamps need a tokenizer");
    if (in->n_frames > 0) {
        LR_TRY(check_marker(in->tokenizer, in->rules.begin_image, "begin of image", err));
        LR_TRY(check_marker(in->tokenizer, in->rules.end_image, "end of image", err));
    }
    if (in->n_sound_tokens > 0) {
        LR_TRY(check_marker(in->tokenizer, in->rules.begin_audio, "begin of audio", err));
        LR_TRY(check_marker(in->tokenizer, in->rules.end_audio, "end of audio", err));
    }
done:
    return st;
}

static lr_status check_input(const lr_layout_input *in, lr_error *err)
{
    lr_status st = LR_OK;
    if (in->n_frames < 0 || (in->n_frames > 0 && (!in->frame_time || !in->frame_pts)))
        LR_FAIL(LR_E_USAGE, "the frames' times are missing");
    if (in->n_frames == 0 && in->n_sound_tokens == 0)
        LR_FAIL(LR_E_USAGE, "there is neither a frame nor sound of more than a hundredth of a second to lay out");
    if (in->n_frames > 0 && (in->fps.num <= 0 || in->fps.den <= 0))
        LR_FAIL(LR_E_USAGE, "a frame rate of %lld/%lld", (long long)in->fps.num,
                (long long)in->fps.den);
    if (in->n_frames > 0 && in->frame_soft == 0) LR_FAIL(LR_E_USAGE, "a frame without soft tokens");
    if (in->n_sound_tokens > 0 && !in->stamps)
        LR_FAIL(LR_E_USAGE, "sound needs time stamps: without them, only frames are laid out");
    if (in->n_sound_tokens > 0 && in->rules.sound_tokens_per_second < 1)
        LR_FAIL(LR_E_USAGE, "%d tokens a second of sound", in->rules.sound_tokens_per_second);
    if (in->n_sound_tokens > MAX_SOUND_TOKENS)
        LR_FAIL(LR_E_USAGE, "sound of %llu tokens is too long",
                (unsigned long long)in->n_sound_tokens);
    if (in->n_sound_tokens > 0 && (in->sound_start < 0 || in->sound_start > INT64_MAX / 2))
        LR_FAIL(LR_E_USAGE, "the sound's start does not lie in the recording");
    for (int64_t k = 0; k < in->n_frames; k++)
        if (in->frame_time[k] < 0)
            LR_FAIL(LR_E_USAGE, "frame %lld stands before the recording", (long long)k);
    if (in->rules.soft_only && (in->stamps || in->n_sound_tokens > 0))
        LR_FAIL(LR_E_USAGE, "this model's sequences have neither time stamps nor sound");
    if (in->rules.frame_parts > 1 && !in->rules.soft_only)
        LR_FAIL(LR_E_USAGE, "spans of several frames have neither time stamps nor sound");
    LR_TRY(check_markers(in, err));
done:
    return st;
}

/* ------------------------------------------------------------------ frames and seconds */

static int64_t frame_parts(const lr_layout_input *in)
{
    return in->rules.frame_parts > 1 ? in->rules.frame_parts : 1;
}

/* Spans of frames. Fewer frames than a span has parts are repeated as a whole, so often that each begins
 * one. */
static int64_t frame_spans(const lr_layout_input *in)
{
    return in->n_frames < frame_parts(in) ? in->n_frames : in->n_frames / frame_parts(in);
}

/* What frame k's stamp shows: the time of the picture itself where that lies within half a grid
 * step of t_k (at a constant rate the reference's index / native rate), else t_k (slide shows,
 * holes). */
static lr_time frame_stamp(const lr_layout_input *in, int64_t k)
{
    lr_time t = in->frame_time[k], pts = in->frame_pts[k];
    if (pts < 0) return t; /* LR_TIME_NONE too */
    __int128 apart = pts > t ? (__int128)pts - t : (__int128)t - pts;
    return 2 * apart * in->fps.num <= (__int128)LR_TIME_SECOND * in->fps.den ? pts : t;
}

typedef struct sound_seconds {
    uint64_t count, next; /* seconds; the next to be laid out */
    uint64_t per_second;
    int64_t first;    /* the number of the first: floor(sound_start) */
    lr_time fraction; /* sound_start - first: what the seconds are shifted by */
} sound_seconds;

/* The track's tokens are dealt out per_second to a second, as long as the picture lasts; the last
 * second takes all the rest. Sound that runs on by a whole second's tokens or more gets seconds of
 * its own, of which then the last takes the rest. */
static sound_seconds deal_sound(const lr_layout_input *in)
{
    sound_seconds s = {0};
    if (in->n_sound_tokens == 0) return s;
    s.per_second = (uint64_t)in->rules.sound_tokens_per_second;
    s.first = in->sound_start / LR_TIME_SECOND;
    s.fraction = in->sound_start % LR_TIME_SECOND;
    s.count = in->n_sound_tokens / s.per_second;
    if (s.count < 1) s.count = 1;
    if (in->n_frames > 0 && in->video_end > in->sound_start) {
        uint64_t picture = ((uint64_t)in->video_end - (uint64_t)in->sound_start) / LR_TIME_SECOND;
        if (picture > s.count) s.count = picture;
    }
    return s;
}

static lr_status add_second(lr_builder *b, const lr_layout_input *in, sound_seconds *s,
                            lr_error *err)
{
    uint64_t j = s->next++, source = j * s->per_second;
    uint64_t left = source < in->n_sound_tokens ? in->n_sound_tokens - source : 0;
    uint64_t soft = j + 1 == s->count || left < s->per_second ? left : s->per_second;
    lr_time time = in->sound_start + (lr_time)j * LR_TIME_SECOND;
    if (soft == 0) { /* the sound is over: empty seconds vanish */
        s->next = s->count;
        return LR_OK;
    }
    return lr_builder_block(b,
                            &(lr_block){.kind = LR_SPAN_SOUND,
                                        .index = s->first + (int64_t)j,
                                        .time = time,
                                        .stamp = time,
                                        .begin = in->rules.begin_audio,
                                        .soft = in->rules.audio_soft,
                                        .end = in->rules.end_audio,
                                        .soft_count = soft,
                                        .source = source},
                            err);
}

static lr_status add_frame(lr_builder *b, const lr_layout_input *in, int64_t span, lr_error *err)
{
    const int64_t k = in->n_frames < frame_parts(in) ? span : span * frame_parts(in);
    return lr_builder_block(b,
                            &(lr_block){.kind = LR_SPAN_FRAME,
                                        .index = k,
                                        .time = in->frame_time[k],
                                        .stamp = in->stamps ? frame_stamp(in, k) : LR_TIME_NONE,
                                        .begin = in->rules.begin_image,
                                        .soft = in->rules.video_soft,
                                        .end = in->rules.end_image,
                                        .soft_count = in->frame_soft,
                                        .source = (uint64_t)span},
                            err);
}

/* After frame k: the seconds that begin before the next frame's stamp, both rounded half to even as
 * the stamps are (counted from the sound's start where that is no whole second); after the last,
 * all. */
static lr_status add_seconds_after(lr_builder *b, const lr_layout_input *in, int64_t k,
                                   sound_seconds *s, lr_error *err)
{
    lr_status st = LR_OK;
    int64_t end = INT64_MAX;
    if (s->next < s->count && k + 1 < in->n_frames)
        end = lr_time_round_even(frame_stamp(in, k + 1) - s->fraction);
    while (s->next < s->count && s->first + (int64_t)s->next < end)
        LR_TRY(add_second(b, in, s, err));
done:
    return st;
}

/* At least so many tokens: what does not fit fails before the work begins. */
static lr_status reserve(lr_builder *b, const lr_layout_input *in, lr_error *err)
{
    uint64_t block, frames, all;
    if (__builtin_add_overflow(in->frame_soft, 2, &block) ||
        __builtin_mul_overflow(block, (uint64_t)frame_spans(in), &frames) ||
        __builtin_add_overflow(frames, in->n_sound_tokens + 2, &all))
        return lr_fail(err, LR_E_NOMEM, "out of memory: token sequence");
    return lr_builder_reserve(b, all, err);
}

lr_status lr_layout_recording(lr_layout **out, const lr_layout_input *in, lr_error *err)
{
    lr_status st = LR_OK;
    lr_builder builder = {0};
    *out = NULL;
    LR_TRY(check_input(in, err));
    LR_TRY(lr_builder_init(&builder, in->rules.bos, in->rules.eos, err));
    builder.tokenizer = in->tokenizer;
    builder.context = in->context;
    builder.soft_only = in->rules.soft_only;
    LR_TRY(reserve(&builder, in, err));
    sound_seconds seconds = deal_sound(in);
    for (int64_t k = 0; k < frame_spans(in); k++) {
        LR_TRY(add_frame(&builder, in, k, err));
        LR_TRY(add_seconds_after(&builder, in, k, &seconds, err));
    }
    while (seconds.next < seconds.count)
        LR_TRY(add_second(&builder, in, &seconds, err));
    builder.layout->n_frames = (uint64_t)frame_spans(in);
    builder.layout->frame_parts = (uint64_t)frame_parts(in);
    builder.layout->n_grid = (uint64_t)in->n_frames;
    builder.layout->n_sound_tokens = in->n_sound_tokens;
    if (in->n_frames > 0) {
        builder.layout->frame_width = in->frame_width;
        builder.layout->frame_height = in->frame_height;
        builder.layout->frame_soft = in->frame_soft;
    }
    LR_TRY(lr_builder_finish(&builder, out, err));
done:
    lr_builder_free(&builder);
    return st;
}
