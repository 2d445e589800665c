/* Recordings for tests, written with libav: pictures of known luma, sound of known pitch. Functions
 * fail the running test themselves. */
#ifndef LRM_RECORDINGS_H
#define LRM_RECORDINGS_H

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>

#include <longreel/ingest.h>

#include "lr_test.h"

/* Picture n has the luma `luma + step * n` (8-bit, limited range) in its right three quarters and
 * noise, the same in each run, in the left one, so that its packets are not empty. */
typedef struct lrm_film {
    const char *encoder; /* libav's name */
    enum AVPixelFormat format;
    int width, height, frames;
    AVRational rate;
    int gop, b_frames;
    int luma, step;
    bool plain;             /* without the noise */
    const char *options;    /* of the encoder: "key=value:key=value" */
    const int64_t *ms;      /* [frames] time stamps instead of the rate */
    int64_t offset_ms;
    int hidden;             /* the first pictures lie before the edit list (mp4) */
    AVRational sar;
    const int32_t *matrix;  /* display matrix */
    enum AVColorSpace space;
    enum AVColorRange range;
    enum AVColorTransferCharacteristic transfer;
    enum AVColorPrimaries primaries;
    bool told_by_container; /* of colour: the pictures themselves say nothing */
    bool interlaced;        /* two fields, the upper one first */
    /* Draws instead of the luma rule. */
    void (*draw)(AVFrame *frame, int n);
} lrm_film;

/* In each whole second k, 100 ms of 400 + 50 (k mod 20) Hz, amplitude 0.5; else silence. */
typedef struct lrm_track {
    const char *encoder;
    int rate, channels;
    int64_t ms;        /* its length */
    int64_t offset_ms;
    int64_t hole_ms[2]; /* packets that begin in it are left out */
    bool noise;        /* instead of the tones */
    bool clicks;       /* instead of the tones: one sample at each whole minute */
    int64_t drift_ppm; /* the stamps run so much faster than the samples */
} lrm_track;

/* An option of the muxers that write a file's index at its start, for the files recorded from now on. */
void lrm_index_first(bool wanted);

/* Either may be NULL. `muxer`: libav's name. */
void lrm_record(const char *path, const char *muxer, const lrm_film *film, const lrm_track *track);
/* The file without the packets of stream `stream` numbered [first, end). */
void lrm_without_packets(const char *path, const char *from, const char *muxer, int stream,
                         int64_t first, int64_t end);

/* The pictures of one file behind those of the other, two seconds later, their packets as they are. */
void lrm_join(const char *path, const char *first, const char *second, const char *muxer);

/* The mean luma that grey RGB stands for: the inverse of limited-range conversion, over the right three
 * quarters of the picture. */
double lrm_luma(const lr_frame *frame);

/* All pictures of a file as libav's plain loop gives them, one thread, in the order they come out. */
typedef struct lrm_pictures {
    int width, height;
    size_t count;
    uint8_t **rgb;   /* [count] each [height, 3 * width] */
    double *seconds; /* [count] time stamps, of the container's clock */
} lrm_pictures;
/* `matrix` is libswscale's number where the pictures are not tagged. */
void lrm_decode_pictures(const char *path, int matrix, lrm_pictures *out);
void lrm_free_pictures(lrm_pictures *pictures);
/* The sound as libav's plain loop gives it at 16 kHz mono; free() it. */
float *lrm_decode_sound(const char *path, size_t *count);

/* ------------------------------------------------------------------ reading with ingest */

/* All grid frames and the sound of a recording. */
typedef struct lrm_reading {
    int64_t first, count;
    uint64_t *hash;   /* of each frame's pixels */
    lr_time *t, *pts;
    double *luma;
    bool *substituted;
    lr_damage *damage;
    size_t n_damage;
} lrm_reading;

lr_recording *lrm_open(const char *path, const lr_ingest_options *options);
void lrm_read_frames(const lr_recording *recording, int64_t first, int64_t end, lrm_reading *out);
void lrm_free_reading(lrm_reading *reading);
/* Fails unless b holds what a has of its range. */
void lrm_assert_same_frames(const lrm_reading *whole, const lrm_reading *part, const char *what);
/* Whether the pictures at `t` are damaged, as the reading or the timeline has it. */
bool lrm_is_named(const lrm_reading *reading, const lr_timeline *timeline, lr_time t);
/* Sorts ranges by time and merges those that touch. */
void lrm_merge_damage(lr_damage *damage, size_t *count);
/* Fails unless frames, sound and damage are the same for 1, 2 and 8 threads, whole and in slices, and the frames
 * with and without the pictures between the grid points. Returns false when the file cannot be opened. `name` is
 * for messages. */
bool lrm_readers_agree(const char *path, lrt_random *random, const char *name);
float *lrm_read_sound(const lr_recording *recording, size_t *count);
uint64_t lrm_hash(const void *data, size_t bytes);

#endif
