/* The types that stages hand on to each other. A stage includes this, never another stage's header. */
#ifndef LONGREEL_TYPES_H
#define LONGREEL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <longreel/status.h>
#include <longreel/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ ingest -> towers */

/* One picture of the grid: RGB, 8 bits, interleaved, upright (rotation applied), pixels as coded.
 * A person sees display_width x display_height (pixel aspect applied); the model's picture is made
 * from the coded pixels in one resize whose target follows the display size. */
typedef struct lr_frame {
    uint8_t *rgb;   /* [height, stride]; 3 * width bytes of a row are used */
    size_t stride;  /* bytes from row to row */
    int width, height;
    int display_width, display_height;
    int64_t index;  /* k of the grid */
    lr_time t;      /* k / fps (plus the start asked for) */
    lr_time pts;    /* of the frame shown, from the origin; may be before or after t */
    bool substituted; /* another frame stands in for one that is damaged */
} lr_frame;

#define LR_SAMPLE_RATE 16000

/* A stretch of the 16 kHz mono sound: sample j is at time (first + j) / 16000 from the origin. */
typedef struct lr_sample_block {
    float *samples;
    size_t count;
    int64_t first;
} lr_sample_block;

typedef enum lr_stream_kind { LR_STREAM_VIDEO, LR_STREAM_AUDIO } lr_stream_kind;

/* A time range of a stream that could not be had, and why ("undecodable", "gap", ...). */
typedef struct lr_damage {
    lr_stream_kind stream;
    lr_time start, end;
    char what[48];
} lr_damage;

/* ------------------------------------------------------------------ tokenize -> encoder, store */

typedef enum lr_span_kind {
    LR_SPAN_BOS,   /* one token */
    LR_SPAN_TEXT,  /* ordinary text tokens (embed) */
    LR_SPAN_FRAME, /* separator, stamp, marker, soft tokens, marker; or soft tokens alone */
    LR_SPAN_SOUND, /* the same for a second of sound */
    LR_SPAN_EOS    /* one token */
} lr_span_kind;

/* A run of tokens that belong together: a separator belongs to the span that follows it. */
typedef struct lr_span {
    lr_span_kind kind;
    int64_t index;     /* frame: k of the grid, the first one of its parts; sound: the second; else 0 */
    lr_time time;      /* frame: k / fps; sound: the second; LR_TIME_NONE for bos and eos */
    lr_time stamp;     /* the time its stamp shows, before rounding; LR_TIME_NONE without */
    uint64_t first;    /* tokens [first, first + count) of the sequence */
    uint64_t count;
    uint64_t soft_first; /* soft tokens [soft_first, soft_first + soft_count), inside the span */
    uint64_t soft_count;
    uint64_t source;   /* frame: its number among the spans of frames; sound: its first token among the track's sound tokens */
} lr_span;

/* A window: a sequence of its own (bos ... eos, positions from 0). --context full has one. */
typedef struct lr_window {
    uint64_t first, count;      /* tokens of the whole */
    size_t first_span, n_spans; /* spans of the whole */
} lr_window;

/* The whole token sequence of a recording (or of one embed input), known before decoding. Windows
 * stand one after another. `ids` holds every token's id, placeholders at soft tokens. Immutable once
 * built; shared by all ranks of a process. */
typedef struct lr_layout {
    uint64_t n_tokens;
    int32_t *ids; /* [n_tokens] */
    lr_span *spans;
    size_t n_spans;
    lr_window *windows;
    size_t n_windows;
    uint64_t n_frames, n_sound_tokens; /* n_frames: spans of frames */
    uint64_t frame_parts; /* frames of the grid in such a span: 1, or those of a tubelet */
    uint64_t n_grid;      /* frames of the grid */
    int frame_width, frame_height; /* of the model's picture, pixels; 0 without frames */
    uint64_t frame_soft;           /* soft tokens of one frame */
} lr_layout;

/* Frees the arrays and the lr_layout itself (all from lr_alloc). NULL is allowed. */
void lr_layout_free(lr_layout *layout);
/* The span that holds token i (binary search); NULL past the end. */
const lr_span *lr_layout_span_at(const lr_layout *layout, uint64_t token);
/* The frame of the grid that is a part of a frame's span. A recording of fewer frames than a span has parts
 * is repeated. */
int64_t lr_layout_frame(const lr_layout *layout, const lr_span *span, uint64_t part);

/* ------------------------------------------------------------------ tensors on disk */

typedef enum lr_dtype { LR_F32, LR_F64, LR_BF16, LR_F16, LR_I16, LR_I32, LR_I64, LR_U8 } lr_dtype;
size_t lr_dtype_size(lr_dtype dtype);
const char *lr_dtype_name(lr_dtype dtype); /* "F32", "BF16": safetensors' names */

#define LR_MAX_DIMS 8

/* A view: the owner of `data` is elsewhere (a mapping, an arena). Shapes outermost first. */
typedef struct lr_tensor {
    lr_dtype dtype;
    size_t n_dims;
    size_t dims[LR_MAX_DIMS];
    const void *data;
} lr_tensor;

#ifdef __cplusplus
}
#endif
#endif
