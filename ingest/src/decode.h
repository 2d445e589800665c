/* Pictures by ordinal: a demuxer and a decoder that can begin at any entry of the index. */
#ifndef LRI_DECODE_H
#define LRI_DECODE_H

#include "recording.h"

typedef struct lri_decoder {
    const lr_recording *recording;
    lri_source source;
    AVCodecContext *codec;
    AVFrame *frame;
    AVPacket *packet; /* the next one to feed, where `held` */
    bool held, opened, draining, ended;
    size_t began; /* ordinal where decoding began */
    size_t next;  /* ordinal of the next packet to feed */
    int threads;
    lri_watch watch;
    unsigned faults; /* errors that libav returned, since the decoder began */
} lri_decoder;

/* Opens file and codec; `threads` for the codec. */
lr_status lri_decoder_open(lri_decoder *decoder, const lr_recording *recording, int threads,
                           lr_error *err);
void lri_decoder_close(lri_decoder *decoder);
/* Begins at an entry of the index (or ordinal 0). */
lr_status lri_decoder_begin(lri_decoder *decoder, size_t entry, lr_error *err);
/* The next picture that the codec gives: frame->pts is its ordinal. Packets below `limit` are fed as
 * needed, then the codec is drained; *got false: nothing more comes before lri_decoder_begin. */
lr_status lri_decoder_next(lri_decoder *decoder, size_t limit, bool *got, lr_error *err);
/* Feeds exactly one packet; pictures are then to be taken with lri_decoder_take. */
lr_status lri_decoder_feed(lri_decoder *decoder, lr_error *err);
/* A picture that the codec has ready, if any. */
lr_status lri_decoder_take(lri_decoder *decoder, bool *got, lr_error *err);
/* Tells the codec that no more packets come. */
lr_status lri_decoder_drain(lri_decoder *decoder, lr_error *err);
/* Whether anything went wrong since the decoder began, in whichever packet was fed. */
bool lri_decoder_is_suspect(const lri_decoder *decoder);
/* Whether the picture in `frame` is marked as wrong. */
bool lri_frame_is_marked(const AVFrame *frame);
/* The entry where decoding must begin so that packet `ordinal` comes out whole. */
size_t lri_entry_of(const lri_video_index *video, size_t ordinal);

#endif
