/* Some decoders leave parts of a damaged picture unwritten without a word: what is seen there is left
 * over from another picture. So each buffer gets a pattern before it is decoded into, which must not
 * be there afterwards. */
#ifndef LRI_CANARY_H
#define LRI_CANARY_H

#include <stdbool.h>

#include <libavcodec/avcodec.h>

/* Sets the codec up for it, if its decoder writes every pixel of a good picture. */
void lri_canary_use(AVCodecContext *codec);
/* Whether some of the pattern is still in the visible part of the picture. */
bool lri_canary_lives(const AVCodecContext *codec, const AVFrame *frame);

#endif
