/* Pictures by ordinal: a demuxer and a decoder that can begin at any entry of the index. */
#ifndef LRI_DECODE_H
#define LRI_DECODE_H

#include "recording.h"
#include "work.h"

/* A picture that has not come out when this many packets behind it are fed does not come: the codecs
 * hold at most 16 pictures, and each thread one. */
#define LRI_MOST_DELAY 64

typedef struct lri_decoder {
    const lr_recording *recording;
    lri_source source;
    AVCodecContext *codec;
    AVFrame *frame;
    AVPacket *packet; /* the next one to feed, where `held` */
    bool held, opened, draining, ended;
    bool direct;     /* packets are read where the index saw them; no demuxer is open */
    bool demuxes;    /* that has failed */
    bool reads_both; /* the sound's packets, too, as the index did */
    bool stale;      /* what the codec decoded may have left wrong settings: it is opened anew */
    bool always_new; /* set by the owner: a codec of its own for each beginning */
    bool renewing;   /* drained to go on with a new codec */
    size_t renew_at; /* the entry where that is to happen; SIZE_MAX: none */
    size_t renew_end; /* the old codec goes on to here, for the pictures that lead the entry */
    bool may_use_hardware; /* set by the owner, after opening: from the next codec on */
    bool on_hardware;
    AVFrame *spare;
    size_t began; /* ordinal where decoding began */
    size_t next;  /* ordinal of the next packet to feed */
    int threads;
    /* Packets that nothing refers to and that `keep` lacks are not decoded; NULL: all are. One bit a packet,
     * the lowest first. */
    const uint8_t *keep;
    size_t also; /* one that is wanted, too; SIZE_MAX: none */
    /* Whether a packet that nothing refers to is known to be damaged: it is passed over, so that what a
     * decoder makes of it cannot reach the pictures behind. May be NULL. */
    bool (*avoid)(const void *arg, size_t ordinal);
    const void *avoid_arg;
    size_t headers; /* of video.headers, how many the codec knows */
    size_t fed; /* packets given to codecs since the decoder was opened */
    lri_work work;
    lri_watch watch;
    unsigned faults; /* errors that libav returned, since the decoder began */
} lri_decoder;

/* Opens file and codec; `threads` for the codec. */
lr_status lri_decoder_open(lri_decoder *decoder, const lr_recording *recording, int threads,
                           lr_error *err);
/* Where the recording has a device, pictures come from that from now on, while nothing goes wrong. */
lr_status lri_decoder_allow_hardware(lri_decoder *decoder, lr_error *err);
void lri_decoder_close(lri_decoder *decoder);
/* Begins at an entry of the index (or ordinal 0). */
lr_status lri_decoder_begin(lri_decoder *decoder, size_t entry, lr_error *err);
/* Whether nothing refers to a packet and no picture of `keep` (as in lri_decoder) needs it. */
bool lri_packet_passes(const lri_video_index *video, const uint8_t *keep, size_t ordinal);
/* Whether a packet is passed over instead of decoded. */
bool lri_decoder_passes(const lri_decoder *decoder, size_t ordinal);
/* Takes a picture into decoder->frame if the codec has one (*got; frame->pts is its ordinal), else feeds
 * or passes over one packet, or drains the codec when all below `limit` are fed. When decoder->ended, nothing more
 * comes before lri_decoder_begin. */
lr_status lri_decoder_step(lri_decoder *decoder, size_t limit, bool *got, lr_error *err);
/* Steps until a picture comes; *got false at the end. */
lr_status lri_decoder_next(lri_decoder *decoder, size_t limit, bool *got, lr_error *err);
/* Feeds or passes over exactly one packet; pictures are then to be taken with lri_decoder_take. */
lr_status lri_decoder_feed(lri_decoder *decoder, lr_error *err);
/* A picture that the codec has ready, if any. */
lr_status lri_decoder_take(lri_decoder *decoder, bool *got, lr_error *err);
/* Tells the codec that no more packets come. */
lr_status lri_decoder_drain(lri_decoder *decoder, lr_error *err);
/* Whether anything went wrong since the decoder began, in whichever packet was fed. */
bool lri_decoder_is_suspect(const lri_decoder *decoder);
/* Whether the picture in decoder->frame is wrong: marked so by the codec, not wholly written, or no
 * key picture where decoding was to begin. */
bool lri_frame_is_suspect(const lri_decoder *decoder);
/* Whether a picture behind an open entry in the file is shown before it and may need what came before. */
bool lri_leads(const lri_video_index *video, size_t entry, size_t ordinal);
/* Past the pictures that lead an entry; the entry itself where there are none. */
size_t lri_leading_end(const lri_video_index *video, size_t entry);
/* Whether bytes are missing somewhere between the start of this packet and the start of the next. */
bool lri_gap_behind(const lri_video_index *video, size_t ordinal);
/* The last entry at or before a packet. */
size_t lri_last_entry(const lri_video_index *video, size_t ordinal);
/* The entry where decoding must begin so that packet `ordinal` comes out whole. */
size_t lri_entry_of(const lri_video_index *video, size_t ordinal);

#endif
