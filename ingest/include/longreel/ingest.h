/* Ingest: a recording's index, its frames on a grid, its sound at 16 kHz.
 *
 * lr_recording_open reads every packet once without decoding and derives the timeline; from then on
 * the recording is immutable and may be shared by any number of threads, each with readers of its own.
 * Only local files are read (no network protocols, no external references) and sizes, counts and
 * times in them are treated as hostile.
 *
 * Rules (origin, duration, grid, frame at t): docs/ingest.md. In short: one origin for picture and
 * sound, the earliest start (starts less than 0.1 s apart count as equal: each stream then counts from
 * its own first shown frame or kept sample); t_k = k/fps, k = 0 .. max(1, floor(video_end * fps)) - 1;
 * the frame at t is the last with pts <= t, the first frame where there is none. All lr_time here
 * count from the origin. */
#ifndef LONGREEL_INGEST_H
#define LONGREEL_INGEST_H

#include <longreel/core.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_recording lr_recording;

/* What decodes pictures. Hardware gives the same pictures of healthy files where its codec is exact (H.264, HEVC, VP9,
 * AV1); of damaged ones it may not tell which pictures are wrong. */
typedef enum lr_decode {
    LR_DECODE_AUTO, /* the processor: only its pictures are promised to be the same bytes each time */
    LR_DECODE_CPU,
    LR_DECODE_CUDA, /* a device, and the processor for files that it cannot decode, with a warning */
    LR_DECODE_VAAPI,
} lr_decode;

typedef struct lr_ingest_options {
    lr_rational fps;      /* of the grid; 1/1 by default */
    bool video, audio;    /* false: as if the file had no such stream */
    lr_time start, end;   /* the part wanted, [start, end) of the timeline; LR_TIME_NONE: all. The grid and
                             the sound then begin at start (which becomes t of frame 0) */
    int audio_track;      /* -1: the default one; else the n-th sound track */
    int threads;          /* for decoding; >= 1 */
    bool every_picture;   /* decode also the pictures that no grid point shows, to know all damage; slower,
                             the frames are the same */
    lr_decode decode;
    lr_cancel *cancel;
} lr_ingest_options;

lr_ingest_options lr_ingest_defaults(void);

/* What the pictures are from a time on. */
typedef struct lr_picture_kind {
    lr_time from;
    int width, height; /* as a person sees them */
    char format[32];   /* libav's name of the pixel format */
} lr_picture_kind;

typedef struct lr_video_info {
    char codec[32];
    int coded_width, coded_height;     /* of the first shown frame, before rotation */
    int width, height;                 /* upright, pixels as coded: what lr_frame holds */
    int display_width, display_height; /* what a person sees: square pixels */
    int rotation;                      /* clockwise degrees applied: 0, 90, 180, 270 */
    bool flipped;
    lr_rational sar;                   /* 1/1 when unset */
    bool interlaced;
    bool still;                        /* a picture, not a film: one frame */
    int64_t n_frames;                  /* grid points */
    int64_t n_coded;                   /* frames shown, in the file */
    int64_t n_keyframes;
    lr_time start, end;
    size_t n_kinds;    /* 0: all are alike; else two or more: later ones are fitted to the first */
    const lr_picture_kind *kinds;
} lr_video_info;

typedef struct lr_audio_info {
    char codec[32];
    int rate, channels;
    int64_t n_samples; /* at 16 kHz, from `start` of the options (or the origin) on, silence included */
    lr_time start, end;
    size_t n_gaps;
    const lr_time (*gaps)[2];
} lr_audio_info;

typedef struct lr_timeline {
    const char *path;
    int64_t file_bytes;
    char content_hash[33]; /* XXH3-128 of the file's bytes, hex */
    char container[32];
    double origin_s;       /* of the container's own clock */
    lr_time duration;      /* the latest end of picture or sound */
    lr_rational fps;
    bool has_video, has_audio;
    lr_video_info video;
    lr_audio_info audio;
    bool truncated;
    size_t n_damage;
    const lr_damage *damage; /* known from the index; readers may find more */
    size_t n_warnings;
    const char *const *warnings;
} lr_timeline;

/* LR_E_IO (cannot be read), LR_E_NO_MEDIA (holds neither picture nor sound we can decode),
 * LR_E_FORMAT, LR_E_UNSUPPORTED; messages name the file, stream and time. *out owns the timeline. */
lr_status lr_recording_open(lr_recording **out, const char *path, const lr_ingest_options *options,
                            lr_error *err);
void lr_recording_close(lr_recording *recording);
/* What a file's head says of its length, without reading the rest: a guess, 0 where it says nothing. */
typedef struct lr_glance {
    double seconds;
    bool has_video, has_audio;
} lr_glance;
lr_status lr_recording_glance(lr_glance *out, const char *path, lr_cancel *cancel, lr_error *err);
/* The index as bytes (freed by lr_free), for a process of the same build, and back: `path` is there the
 * same file or a copy of it, else LR_E_FORMAT. Of `options` only threads and cancel are looked at. */
lr_status lr_recording_pack(const lr_recording *recording, void **bytes, size_t *count, lr_error *err);
lr_status lr_recording_unpack(lr_recording **out, const void *bytes, size_t count, const char *path,
                              const lr_ingest_options *options, lr_error *err);
const lr_timeline *lr_recording_timeline(const lr_recording *recording);

/* Grid point k: its time, and the pts of the frame shown there (both from the origin). */
lr_time lr_recording_grid_time(const lr_recording *recording, int64_t k);
lr_time lr_recording_frame_pts(const lr_recording *recording, int64_t k);

/* ------------------------------------------------------------------ frames
 *
 * Streams grid frames [first, end) in order. Any slice gives the same pictures, bit for bit, as the
 * whole. With threads > 1 pictures are decoded ahead of the caller by threads that all readers of the
 * process share; how far is bounded, whatever the length. One reader belongs to one thread. */
typedef struct lr_frame_reader lr_frame_reader;

lr_status lr_frame_reader_open(lr_frame_reader **out, const lr_recording *recording, int64_t first,
                               int64_t end, lr_error *err);
/* Fills *frame (its pixels stay valid until the next call on this reader) and sets *got; *got false
 * at the end. The same decoded picture may be returned for several grid points. */
lr_status lr_frame_reader_next(lr_frame_reader *reader, lr_frame *frame, bool *got, lr_error *err);
/* Damage met so far, merged and sorted; valid until the next call. */
const lr_damage *lr_frame_reader_damage(const lr_frame_reader *reader, size_t *count);
/* What reading took so far, and in which way it is done. */
typedef struct lr_frame_work {
    double read_s, decode_s, convert_s; /* seconds, summed over the threads at it */
    int64_t decoded;     /* packets; some more than once after damage */
    int64_t passed_over; /* packets that were not decoded, since no grid point needs them */
    int64_t beginnings;  /* how often decoding began at a picture that can be decoded alone */
    int decoders;        /* side by side, each with parts of its own */
    int threads;         /* of each decoder */
    size_t window;       /* pictures that may wait for the caller */
    const char *device;  /* that decodes: "cpu", "cuda", "vaapi" */
} lr_frame_work;
void lr_frame_reader_work(const lr_frame_reader *reader, lr_frame_work *work);
void lr_frame_reader_close(lr_frame_reader *reader);

/* ------------------------------------------------------------------ sound
 *
 * Streams the 16 kHz mono sound from its start, exactly timeline.audio.n_samples of it. */
typedef struct lr_sound_reader lr_sound_reader;

lr_status lr_sound_reader_open(lr_sound_reader **out, const lr_recording *recording, lr_error *err);
/* Up to `capacity` samples into `samples`; *count 0 at the end. */
lr_status lr_sound_reader_read(lr_sound_reader *reader, float *samples, size_t capacity,
                               size_t *count, lr_error *err);
const lr_damage *lr_sound_reader_damage(const lr_sound_reader *reader, size_t *count);
void lr_sound_reader_close(lr_sound_reader *reader);

#ifdef __cplusplus
}
#endif
#endif
