/* Pictures by ordinal from one decoder that runs on as long as it can, each checked before it is given
 * out, together with all it may depend on. */
#ifndef LRI_STREAM_H
#define LRI_STREAM_H

#include "verdict.h"

/* Pictures that wait: no codec reorders by more than 16. */
#define LRI_QUEUE 32

typedef struct lri_stream {
    const lr_recording *recording;
    lri_decoder decoder;
    lri_verdicts verdicts;
    bool never_jumps; /* decodes on over whatever lies between two pictures */
    bool running;
    int64_t given_pts; /* the latest picture given out or passed over since the decoder began */
    AVFrame *queue[LRI_QUEUE]; /* checked, in the order the codec gave them */
    size_t queued;
} lri_stream;

/* `threads` for the codec; `keep` as in lri_decoder. */
lr_status lri_stream_open(lri_stream *stream, const lr_recording *recording, int threads,
                          const uint8_t *keep, lr_error *err);
void lri_stream_close(lri_stream *stream);
/* The picture `ordinal`; `wanted` is the one that will be asked for next (SIZE_MAX: none). *frame is
 * NULL where it does not come out; else it is valid until the next call. What turned up against it
 * on the way is in the verdicts. */
lr_status lri_stream_fetch(lri_stream *stream, size_t ordinal, size_t wanted, const AVFrame **frame,
                           lr_error *err);
/* The same by the single thread that examines. */
lr_status lri_stream_fetch_alone(lri_stream *stream, size_t ordinal, const AVFrame **frame,
                                 lr_error *err);
/* Begins at an entry, so that from there on nothing is left unseen (every_picture). */
lr_status lri_stream_begin(lri_stream *stream, size_t entry, lr_error *err);
/* Decodes on to the packet `end`, only to know the damage. */
lr_status lri_stream_finish(lri_stream *stream, size_t end, lr_error *err);

#endif
