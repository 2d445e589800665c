/* The index of a recording and what the readers need of it. Immutable once opened. */
#ifndef LRI_RECORDING_H
#define LRI_RECORDING_H

#include <longreel/ingest.h>

#include "avutil.h"
#include "bitstream.h"
#include "packed.h"

__extension__ typedef __int128 lri_wide;

/* A time in seconds as whole + num/den, 0 <= num < den. */
typedef struct lri_moment {
    int64_t whole;
    int64_t num, den;
} lri_moment;

/* ------------------------------------------------------------------ pictures */

enum {
    LRI_SHOWN = 1,     /* is output by the decoder and lies inside the edit list */
    LRI_OPEN = 2,      /* an lri_entry_kind, as bits */
    LRI_CLOSED = 4,
    LRI_REFERENCE = 8, /* others may depend on it */
    LRI_CORRUPT = 16,  /* the demuxer says that bytes are missing or wrong */
    LRI_B = 32,        /* shown before the reference before it in the file, where the stream says so */
    LRI_TORN = 64,     /* its end may be that of another */
    LRI_SECOND = 128,  /* the second field of the picture in the packet before */
    LRI_NO_PTS = 256,  /* this and the next only while the index is made */
    LRI_DOUBTED = 512, /* LRI_CORRUPT holds only if pictures are missing */
};

/* One packet of the picture stream, in the order of the file, which is decoding order; only while the index is
 * made, then in the packed arrays. Its position is its ordinal: decoders get it as pts, so each picture says
 * which packet it is. */
typedef struct lri_packet {
    int64_t pts;    /* stream ticks, repaired, discontinuities taken out */
    int64_t seek;   /* what the demuxer is asked for to come to this packet: dts (else pts), as read */
    uint32_t check; /* of the payload and its place in the file */
    uint16_t flags;
} lri_packet;

/* Where the packets of a stream lie in the file, and what else a decoder sees of them. */
enum { LRI_MOST_TRIMS = 16 };
typedef struct lri_reach {
    bool direct; /* all packets can be read so, without a demuxer */
    lri_places places;
    struct {
        uint32_t packet;
        uint8_t data[10];
    } trims[LRI_MOST_TRIMS]; /* AV_PKT_DATA_SKIP_SAMPLES */
    size_t n_trims;
    AVFormatContext *description; /* of one stream: as the demuxer gave it when it was opened */
} lri_reach;

/* Parameter sets and palettes that came with a packet of the pictures and are others than before. */
typedef struct lri_header {
    uint32_t packet;
    int32_t type; /* AVPacketSideDataType */
    uint32_t at, size;
} lri_header;
typedef struct lri_headers {
    lri_header *list;
    size_t count, capacity;
    uint8_t *bytes;
    size_t n_bytes, bytes_capacity;
    bool full; /* there are more: demuxers are taken at their word */
} lri_headers;

typedef struct lri_video_index {
    int stream;
    enum AVCodecID codec;
    bool any_gap;    /* some packet has LRI_CORRUPT */
    bool transparent; /* VP8 and VP9 in Matroska: libav's own decoders leave the alpha plane out */
    bool marks_late; /* LRI_CORRUPT stands on the packet before the one that lacks bytes */
    lri_colour colour; /* of pictures that do not say it themselves */
    AVRational time_base;
    AVRational rate; /* the constant frame rate that the ticks may round; 0/1 if there is none */
    size_t n_packets;
    /* [n_packets] what lri_packet says; pts, seek and entry by lri_pts, lri_seek and lri_entry_of. */
    uint8_t *flags;
    uint32_t *checks;
    lri_numbers pts, seek;
    lri_numbers entry; /* where decoding must begin for a packet */
    lri_numbers shown; /* [n_shown] ordinals of the shown pictures by pts: lri_shown */
    size_t n_shown;
    lri_reach reach;
    lri_headers headers;
    int64_t first_pts; /* of the first shown picture */
    int64_t last_end;  /* largest pts + duration of a shown picture */
    int64_t typical;   /* the last positive duration of a packet, ticks */
    size_t n_entries;  /* packets where decoding can begin */
    int reorder;       /* most pictures, before one in the file, that are shown behind it; at most 16 */
    /* While the index is made. */
    lri_packet *packets;
    size_t capacity;
    uint32_t *made_shown, *made_entry;
    int64_t last_place; /* in the file, of the last packet */
    int64_t explained;  /* bytes of all packets from it on */
    uint64_t shape;    /* lri_shape_of the last packet that said anything */
    uint32_t *places;  /* packets where the pictures may change */
    size_t n_places, places_capacity;
    int layer;   /* the highest temporal layer so far */
    char packed; /* the type of the picture that waits to be output */
    AVCodecParserContext *parser; /* of H.264 and HEVC where the container gives no pts */
    AVCodecContext *parser_codec;
    enum AVPictureStructure first_field; /* that the next packet may complete */
    int32_t *poc; /* [n_packets] picture order counts */
    size_t poc_capacity;
    bool loses_silently; /* the container does not count its packets, or not far */
    int32_t *numbers;    /* [n_packets] temporal references of MPEG-1, -2, and LRI_RESTARTS */
    size_t numbers_capacity;
    lri_cycle cycle; /* of the numbers */
    int64_t (*holes)[2]; /* from, to, where pictures were lost: ticks */
    size_t n_holes, holes_capacity;
} lri_video_index;

/* ------------------------------------------------------------------ sound */

/* A stretch of packets whose samples follow one another without a gap. It is resampled by itself. */
typedef struct lri_run {
    size_t first_packet, n_packets;
    int64_t start_pts;   /* stream ticks of its first kept sample */
    lr_time rounding;    /* what the first stamps are behind the sample count on the average */
    int64_t in_samples;  /* kept, at the stream's rate */
    int64_t out_skip;    /* samples at 16 kHz dropped at its start: they overlap what came before */
    int64_t out_start;   /* at 16 kHz from the origin, behind the dropped ones */
    int64_t out_samples; /* at 16 kHz, without the dropped ones */
} lri_run;

/* Of each packet; only while the index is made. */
typedef struct lri_sound_packet {
    int64_t pts;        /* of its first kept sample, ticks; AV_NOPTS_VALUE where unknown */
    uint32_t kept;      /* samples that stay after priming and padding are cut */
    uint32_t declared;  /* the container's duration, in samples at the stream's rate; 0: none */
} lri_sound_packet;

typedef struct lri_audio_index {
    int stream;
    AVRational time_base;
    int rate;
    size_t n_packets;
    lri_numbers kept; /* [n_packets] of lri_sound_packet */
    lri_reach reach;
    lri_run *runs;
    size_t n_runs, runs_capacity;
    int64_t first_pts; /* of the first kept sample */
    lri_moment end;    /* on the stream's clock */
    /* While the index is made. */
    lri_sound_packet last;     /* the one that was added last: not yet in the arrays */
    lri_numbers pts, declared; /* [n_packets] as `kept` */
    int64_t sum;               /* of kept in the arrays */
    AVCodecParserContext *parser;
    AVCodecContext *parser_codec;
    int64_t skip_left;
    size_t n_corrections;
} lri_audio_index;

/* ------------------------------------------------------------------ the whole */

/* How the upright picture is read from the coded one. */
typedef struct lri_orientation {
    bool transposed; /* its rows are columns of the coded one */
    bool from_right; /* coded columns are read from the right */
    bool from_bottom;
} lri_orientation;

struct lr_recording {
    char *path;
    lr_ingest_options options;
    lr_timeline timeline;
    lri_video_index video;
    lri_audio_index audio;
    lri_moment video_base; /* t = 0 of the grid on the clock of the picture stream */
    lri_moment video_zero; /* the origin on the clock of the picture stream */
    lri_moment audio_zero; /* the origin on the clock of the sound stream */
    int64_t sound_skip;    /* samples at 16 kHz before options.start */
    AVRational sar;
    lri_orientation orientation;
    /* Of pictures of high dynamic range, cd/m2. One for all: what decoders say of it depends on where they began. */
    int hdr_peak;
    lri_patch patches[LRI_MOST_PATCHES];
    int n_patches;
    bool astray;   /* the demuxer lost its way somewhere */
    bool lost_end; /* the demuxer lost its way behind the last picture */
    int64_t file_bytes;
    struct timespec modified;
    ino_t inode;
    lr_damage *damage;
    size_t n_damage, damage_capacity;
    char **warnings;
    size_t n_warnings, warnings_capacity;
    struct lri_hardware *hardware; /* NULL: the processor decodes */
    lr_time (*gaps)[2];
    size_t n_gaps, gaps_capacity;
    lr_picture_kind *kinds;
    size_t kinds_capacity;
};

/* index.c: one pass over the packets of the chosen streams. */
lr_status lri_index_make(lr_recording *recording, lri_source *source, lr_error *err);
/* The check of a packet as stored in the index. */
uint32_t lri_packet_check(const AVPacket *packet);
/* order.c: the place of each packet among the shown ones, where the stream itself must say it. */
lr_status lri_video_note_order(lr_recording *recording, const AVStream *stream,
                               const AVPacket *packet, lr_error *err);
void lri_video_index_free(lri_video_index *video);
/* order.c: pts for packets without, the constant rate, the sorted list of shown pictures. */
lr_status lri_video_order(lr_recording *recording, const AVStream *stream, lr_error *err);
/* missing.c: marks where pictures were lost. */
lr_status lri_video_find_missing(lri_video_index *video, lr_error *err);
#define LRI_RESTARTS 0x10000
/* headers.c: notes what comes with packet `ordinal`. */
lr_status lri_headers_note(lri_headers *headers, size_t ordinal, const AVCodecParameters *p, const AVPacket *packet,
                           lr_error *err);
/* How many of the list are known with packet `ordinal`. */
size_t lri_headers_until(const lri_headers *headers, size_t ordinal);
/* The packet with what entries [from, to) of the list say, and nothing else of the kind; AVERROR(ENOMEM) or 0. */
int lri_headers_put(const lri_headers *headers, size_t from, size_t to, AVPacket *packet);
void lri_headers_free(lri_headers *headers);
/* strays.c: pictures whose stamps cannot be right are not shown. */
lr_status lri_video_drop_strays(lri_video_index *video, lr_error *err);
/* The same of sound, whose stamps are forgotten. */
lr_status lri_audio_drop_strays(lri_audio_index *audio, lr_error *err);
/* recount.c: adds to a packet's stamps what was lost before it, *missing of them so far. True where it is more
 * than before. */
bool lri_recount(const AVInputFormat *format, AVStream *stream, AVPacket *packet, int64_t *missing);
/* changes.c: notes where the pictures may change, packet by packet; then, with the timeline, finds where they do. */
#define LRI_MOST_CHANGES 64
lr_status lri_video_note_shape(lri_video_index *video, const AVStream *stream, const AVPacket *packet,
                               lr_error *err);
lr_status lri_find_changes(lr_recording *recording, lr_error *err);
/* entry.c: fills video->made_entry and video->reorder, once pts and flags stand. */
lr_status lri_video_find_entries(lri_video_index *video, lr_error *err);
/* seal.c: from what was made to the packed arrays, which is all that remains. */
lr_status lri_video_seal(lri_video_index *video, lr_error *err);
static inline unsigned lri_flags(const lri_video_index *video, size_t ordinal)
{
    return video->flags[ordinal];
}
static inline bool lri_is_entry(const lri_video_index *video, size_t ordinal)
{
    return (video->flags[ordinal] & (LRI_OPEN | LRI_CLOSED)) != 0;
}
static inline int64_t lri_pts(const lri_video_index *video, size_t ordinal)
{
    return lri_numbers_get(&video->pts, ordinal);
}
static inline int64_t lri_seek(const lri_video_index *video, size_t ordinal)
{
    return lri_numbers_get(&video->seek, ordinal);
}
/* The i-th picture that is shown. */
static inline size_t lri_shown(const lri_video_index *video, size_t i)
{
    return (size_t)lri_numbers_get(&video->shown, i);
}
/* reach.c: begins, and goes on with each packet of the stream. Not all containers can be read so. */
lr_status lri_reach_begin(lri_reach *reach, const lri_source *source, const AVStream *stream, lr_error *err);
lr_status lri_reach_add(lri_reach *reach, lri_source *source, const AVPacket *packet, lr_error *err);
/* Packet i as the demuxer gave it, but for its stamps; *whole false: the file does not hold it. */
lr_status lri_reach_read(const lri_reach *reach, lri_source *source, size_t i, AVPacket *packet, bool *whole,
                         lr_error *err);
/* The descriptions anew, by a demuxer of the recording's file. */
lr_status lri_reach_describe(lr_recording *recording, lr_error *err);
void lri_reach_free(lri_reach *reach);
/* sound_index.c: add takes every packet of the stream; place puts the runs on the 16 kHz time line,
 * once audio_zero is known. */
lr_status lri_sound_index_add(lr_recording *recording, const AVStream *stream,
                              const AVPacket *packet, lr_error *err);
lr_status lri_sound_index_finish(lr_recording *recording, const AVStream *stream, lr_error *err);
lr_status lri_sound_index_place(lr_recording *recording, lr_error *err);
void lri_sound_index_free(lri_audio_index *audio);

/* timeline.c */
lr_status lri_recording_warn(lr_recording *recording, lr_error *err, const char *format, ...)
    LR_PRINTF(3, 4);
/* Upright and displayed size from the coded one; false where it is out of range. */
bool lri_set_display(lr_video_info *info, AVRational sar, bool transposed);
/* Opens the recording's file again for a reader, with a demuxer or without; fails when it is no longer the file
 * that was indexed. */
lr_status lri_recording_reopen(const lr_recording *recording, lri_source *source, bool demux, lr_error *err);
/* The stream that a reader's source reads: of its demuxer, or as the index has it. */
static inline const AVStream *lri_stream_of(const lri_source *source, int stream, const lri_reach *reach)
{
    return source->format ? source->format->streams[stream] : reach->description->streams[0];
}

/* ------------------------------------------------------------------ grid.c: exact times */

/* To the nearest end of what int64 holds, INT64_MIN (no time stamp) aside: files claim any stamps. */
int64_t lri_saturate(lri_wide value);
lri_wide lri_floor_div(lri_wide a, lri_wide b);
lri_moment lri_moment_of(int64_t value, int64_t num, int64_t den); /* value * num / den seconds */
/* a + b and a - b; false when the denominators' product does not fit. */
bool lri_moment_add(lri_moment a, lri_moment b, lri_moment *out);
bool lri_moment_sub(lri_moment a, lri_moment b, lri_moment *out);
int lri_moment_compare(lri_moment a, lri_moment b);
lr_time lri_moment_time(lri_moment a);
double lri_moment_seconds(lri_moment a);
/* The last tick (of num/den seconds) at or before base + k / fps. */
int64_t lri_grid_tick(lri_moment base, int64_t k, lr_rational fps, AVRational tick);
/* floor(length * fps). */
int64_t lri_grid_count(lri_moment length, lr_rational fps);
/* The shown picture of grid point k, as an index into video.shown. */
size_t lri_grid_shown(const lr_recording *recording, int64_t k);
/* Time of a picture from the origin. */
lr_time lri_video_time(const lr_recording *recording, int64_t pts);

/* ------------------------------------------------------------------ damage.c */

lr_status lri_damage_add(lr_damage **list, size_t *count, size_t *capacity, lr_stream_kind stream,
                         lr_time start, lr_time end, const char *what, lr_error *err);

#endif
