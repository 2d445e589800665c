/* What the files of ingest/ share about libav: errors, its log, and a file opened without any access
 * to other files or the network. */
#ifndef LRI_AVUTIL_H
#define LRI_AVUTIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>

#include <longreel/core.h>

/* Untrusted sizes. A picture: 16K x 8K. Streams: what a broadcast multiplex holds, with room. */
#ifdef LR_FUZZING
#define LRI_MAX_PIXELS (INT64_C(1) << 20)
#else
#define LRI_MAX_PIXELS (INT64_C(1) << 27)
#endif
#define LRI_MAX_STREAMS 256
#define LRI_MAX_CHANNELS 64
/* Samples a second: from far below telephony to beyond what libav makes of the fastest DSD. Resampling makes
 * a table, or sound, in proportion to how far a rate lies from 16 kHz. */
#define LRI_MIN_RATE 1000
#define LRI_MAX_RATE 4000000

/* Records `averror` with libav's text: ENOMEM as LR_E_NOMEM, AVERROR_EXIT as LR_E_INTERRUPTED, else as
 * `otherwise`. */
lr_status lri_av_fail(lr_error *err, int averror, lr_status otherwise, const char *format, ...)
    LR_PRINTF(4, 5);

/* libav's log goes to lr_log at debug level, once for the process. A decoder whose AVCodecContext has
 * `opaque` set to a watch counts what it reports as an error. */
typedef struct lri_watch {
    atomic_uint errors;
    int hardware_format; /* enum AVPixelFormat: see hardware.h */
} lri_watch;
void lri_log_redirect(void);

/* The name of a decoder's or stream's codec; never NULL. */
const char *lri_codec_name(enum AVCodecID id);
/* Whether sound of this rate and so many channels is taken. */
static inline bool lri_is_sound(int rate, int channels)
{
    return rate >= LRI_MIN_RATE && rate <= LRI_MAX_RATE && channels > 0 && channels <= LRI_MAX_CHANNELS;
}

/* ------------------------------------------------------------------ an opened file */

/* Places in the file where a demuxer lost its way; AVFormatContext.opaque of those that are watched. More than
 * that are not told apart from the last. */
enum { LRI_MOST_LOST = 256 };
typedef struct lri_lost {
    int64_t at[LRI_MOST_LOST];
    size_t count;
} lri_lost;

/* What a container says of the colour of a stream. */
typedef struct lri_colour {
    enum AVColorSpace space;
    enum AVColorPrimaries primaries;
    enum AVColorTransferCharacteristic transfer;
    enum AVColorRange range;
} lri_colour;

/* Bytes that the demuxer reads instead of those in the file. */
enum { LRI_MOST_PATCHES = 64 };
typedef struct lri_patch {
    int64_t at;
    int count;
    uint8_t bytes[8];
} lri_patch;

typedef struct lri_source {
    const char *path; /* the recording's */
    int fd;
    int64_t bytes, position;
    struct timespec modified;
    ino_t inode;
    int read_errno; /* of the last read that the system refused */
    lr_cancel *cancel;
    AVIOContext *io;
    AVFormatContext *format;
    AVPacket *packet;
    lri_colour colours[LRI_MAX_STREAMS]; /* of the streams that the container's head lists */
    unsigned n_colours;
    lri_patch patches[LRI_MOST_PATCHES]; /* set before lri_source_demux */
    int n_patches;
    lri_lost *lost; /* where that is to be known: set before lri_source_demux, owned by the caller */
} lri_source;

/* Opens the file and checks that it is a regular one; no demuxer yet. */
lr_status lri_source_open(lri_source *source, const char *path, lr_cancel *cancel, lr_error *err);
/* flv.c, avi.c: find the lengths of tags and chunks that are damaged; of other files none. */
lr_status lri_flv_mend(lri_source *source, lr_error *err);
lr_status lri_avi_mend(lri_source *source, lr_error *err);
/* Opens the demuxer and finds the streams. */
lr_status lri_source_demux(lri_source *source, lr_error *err);
/* Whether the demuxer lost its way somewhere behind a place. */
bool lri_source_lost(const lri_source *source, int64_t after);
/* Discards all streams but `stream`; and `other` (-1: none), which the index saw too, only where the
 * packets of one do not depend on whether the other is read; `astray`: the index's demuxer lost its way. */
void lri_source_keep(lri_source *source, int stream, int other, bool astray);
/* The next packet of one of the streams that are not discarded, into source->packet; *got false at
 * the end of what can be read. */
lr_status lri_source_read(lri_source *source, bool *got, lr_error *err);
void lri_source_close(lri_source *source);
/* The file stays open. */
void lri_source_close_demuxer(lri_source *source);

/* bytes [at, at + count) of the file; *got may be less at its end. */
lr_status lri_source_pread(lri_source *source, int64_t at, void *to, size_t count, size_t *got,
                           lr_error *err);
/* XXH3-128 of the whole file as 32 hex digits. */
lr_status lri_source_hash(lri_source *source, char hex[33], lr_error *err);
/* Whether the container's outer sizes promise more bytes than the file has. */
lr_status lri_source_is_cut(lri_source *source, bool *cut, lr_error *err);

#endif
