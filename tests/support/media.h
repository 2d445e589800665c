/* Small recordings made with libav, so that tests need no media files. Lossless unless other codecs are asked
 * for: what is decoded is to the bit what was given. */
#ifndef LR_TEST_MEDIA_H
#define LR_TEST_MEDIA_H

#include "lr_test.h"

typedef struct lrt_film {
    int width, height;
    lr_rational rate;       /* coded pictures a second; a picture is shown from its number / rate on */
    const uint8_t *rgb;     /* [different pictures, height, width, 3]; NULL: no picture stream */
    size_t n_pictures;      /* coded ones */
    const size_t *shown;    /* [n_pictures] the i-th coded picture is rgb[shown[i]]; NULL: rgb[i] */
    const int16_t *samples; /* [n_samples] one channel; NULL: no sound stream */
    size_t n_samples;
    int sample_rate;        /* 0: 16000 */

    /* Names of libav's encoders; NULL: ffv1 and pcm_s16le. The formats are the ones they take. */
    const char *video_codec, *audio_codec;
    bool yuv420p;           /* red, green and blue are taken for V, Y and U; else bgr0 */
    bool fltp;              /* else s16 */
    int gop, b_frames;      /* 0: the encoder's own gop; no B pictures */
    bool interlaced;        /* two fields a picture, the upper one first */
    bool hdr;               /* said to be PQ of BT.2020 */
} lrt_film;

/* FFV1 and 16-bit PCM in the container that the file's name asks for (.mkv, .nut, .avi). Fails the
 * running test when it cannot. */
void lrt_write_film(const char *path, const lrt_film *film);
/* Whether this libav has the film's encoders. */
bool lrt_has_encoders(const lrt_film *film);

/* Pictures [n, height, width, 3] and sound whose every value and sample depends on where it stands: moving
 * edges with some noise; changing tones. Freed by free(). */
uint8_t *lrt_made_pictures(lrt_random *random, size_t n, int width, int height);
int16_t *lrt_made_sound(lrt_random *random, size_t n_samples);

#endif
