/* Decoding by hardware, through libav: a device of the recording, and its pictures brought to main memory in the layout
 * that libav's own decoders give. A file that hardware fails on, or finds damage in, is decoded by the processor from
 * there on. */
#ifndef LRI_HARDWARE_H
#define LRI_HARDWARE_H

#include <stdatomic.h>

#include <libavcodec/avcodec.h>

#include "recording.h"

/* A recording's device; shared by its readers. */
struct lri_hardware {
    AVBufferRef *device;
    enum AVPixelFormat format; /* of its pictures */
    const char *name;
    atomic_bool failed;
};

/* What of libav is called, so that tests can put a device of their own in its place. */
typedef struct lri_hardware_calls {
    int (*create)(AVBufferRef **device, enum AVHWDeviceType type);
    /* The format to decode to, of those that the codec offers; AV_PIX_FMT_NONE: not by hardware. */
    enum AVPixelFormat (*choose)(enum AVPixelFormat hardware, const enum AVPixelFormat *offered);
    int (*transfer)(AVFrame *to, const AVFrame *from);
} lri_hardware_calls;
extern lri_hardware_calls lri_hardware;

/* As the options ask for; where there is no such device, a warning of the recording, and all is as with the
 * processor. */
lr_status lri_hardware_open(lr_recording *recording, lr_error *err);
void lri_hardware_free(struct lri_hardware **hardware);
/* Whether pictures are to be decoded by it. */
bool lri_hardware_works(const lr_recording *recording);
/* From now on the recording is decoded by the processor; told once. */
void lri_hardware_give_up(const lr_recording *recording, const char *why);
/* Sets up a codec that is not yet open. */
lr_status lri_hardware_use(const lr_recording *recording, AVCodecContext *codec, lr_error *err);
/* Brings the picture to main memory, in place; an AVERROR. `spare` is work memory. */
int lri_hardware_bring(AVFrame *frame, AVFrame *spare);

#endif
