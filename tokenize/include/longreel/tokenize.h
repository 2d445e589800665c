/* Tokenize: text to ids, and the layout of a recording: which span has which tokens. */
#ifndef LONGREEL_TOKENIZE_H
#define LONGREEL_TOKENIZE_H

#include <longreel/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ tokenizer.json
 *
 * The BPE of the Gemma family: byte fallback, added and special tokens, normaliser, pre-tokeniser and
 * post-processor as the file states them. A construct that is not supported is LR_E_UNSUPPORTED
 * naming it. Immutable once loaded; encode may be called from any thread. */
typedef struct lr_tokenizer lr_tokenizer;

lr_status lr_tokenizer_load(lr_tokenizer **out, const char *path, lr_error *err);
void lr_tokenizer_free(lr_tokenizer *tokenizer);
size_t lr_tokenizer_size(const lr_tokenizer *tokenizer); /* largest id + 1 */
/* The id of a token's exact content; -1 when there is none. */
int32_t lr_tokenizer_id(const lr_tokenizer *tokenizer, const char *content);

typedef struct lr_ids {
    int32_t *ids;
    size_t count, capacity;
} lr_ids;
void lr_ids_free(lr_ids *ids);

/* Appends the ids of text[0..bytes) (UTF-8; LR_E_FORMAT names the offset of an invalid byte) to *ids;
 * with_template: with the post-processor's <bos> ... <eos>. */
lr_status lr_tokenizer_encode(const lr_tokenizer *tokenizer, const char *text, size_t bytes,
                              bool with_template, lr_ids *ids, lr_error *err);

/* ------------------------------------------------------------------ picture geometry
 *
 * The model's picture for one of width x height pixels (as displayed): multiples of patch * pool on
 * each side, at most `budget` soft tokens, aspect kept about (embeddinggemma2 section 3). */
typedef struct lr_picture_geometry {
    int patch;  /* pixels */
    int pool;   /* patches a side of a soft token */
    int budget; /* soft tokens at most */
    int fixed;  /* not 0: every picture has so many pixels a side, cut to whole patches */
} lr_picture_geometry;
lr_status lr_picture_size(const lr_picture_geometry *geometry, int width, int height, int *out_width,
                          int *out_height, uint64_t *soft_tokens, lr_error *err);

/* Sound tokens of `samples` 16 kHz samples (section 4): ceil(floor((samples - 1) / 160) / 4). */
uint64_t lr_sound_tokens(int64_t samples);

/* ------------------------------------------------------------------ layout */

/* What the family says about sequences. */
typedef struct lr_sequence_rules {
    int32_t bos, eos;
    int32_t begin_image, end_image, image_soft, video_soft;
    int32_t begin_audio, end_audio, audio_soft;
    int sound_tokens_per_second; /* 25 */
    bool soft_only;              /* soft tokens alone: no bos, eos, markers, stamps; video_soft is the id of all.
                                    A window then holds at least one span */
    int frame_parts;             /* frames of the grid in one span (a tubelet); 0 means 1. Those left over at
                                    the end are dropped */
} lr_sequence_rules;

typedef struct lr_layout_input {
    const lr_tokenizer *tokenizer;
    lr_sequence_rules rules;
    bool stamps;             /* false: frames only, nothing between them */
    lr_rational fps;
    int64_t n_frames;        /* 0 without picture */
    const lr_time *frame_time; /* [n_frames] k / fps (+ start): the span's time */
    const lr_time *frame_pts;  /* [n_frames] of the frames shown */
    lr_time video_end;
    uint64_t frame_soft;     /* soft tokens a frame */
    int frame_width, frame_height;
    uint64_t n_sound_tokens; /* of the whole track; 0 without sound */
    lr_time sound_start;     /* time of the first sound token's second (0, or the start asked for) */
    uint64_t context;        /* tokens a window at most; 0: one window */
} lr_layout_input;

/* The sequence of a recording, as embeddinggemma2 section 6 says, "beyond" included. LR_E_USAGE when a
 * window cannot hold one span, or a combination makes no sequence. Free with lr_layout_free. */
lr_status lr_layout_recording(lr_layout **out, const lr_layout_input *input, lr_error *err);

/* One embed input: text (with the template), one picture (boi soft eoi), or one sound. */
lr_status lr_layout_text(lr_layout **out, const lr_tokenizer *tokenizer, const char *text, size_t bytes,
                         lr_error *err);
lr_status lr_layout_picture(lr_layout **out, const lr_sequence_rules *rules, uint64_t soft_tokens,
                            int width, int height, lr_error *err);
lr_status lr_layout_sound(lr_layout **out, const lr_sequence_rules *rules, uint64_t soft_tokens,
                          lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
