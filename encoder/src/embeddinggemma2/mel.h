/* Inside encoder/: the log mel spectrogram that the sound tower sees, frame by frame. */
#ifndef LONGREEL_ENCODER_EMBEDDINGGEMMA2_MEL_H
#define LONGREEL_ENCODER_EMBEDDINGGEMMA2_MEL_H

#include <longreel/core.h>

#define EG2_MEL_FRAME 320 /* samples */
#define EG2_MEL_HOP 160
#define EG2_MEL_BANDS 128
#define EG2_MEL_FLOOR 0.001 /* added before the logarithm, not a maximum */

/* Frame i holds samples 160 i - 160 .. 160 i + 159, zeros before the sound's start. It is valid when
 * sample 160 i + 160 is there too (the reference cuts one sample more than it uses); of a sound of
 * n samples that are the first floor((n - 1) / 160) frames. */
uint64_t eg2_mel_valid(int64_t n_samples);

typedef struct eg2_mel eg2_mel;
/* For so many threads at a time. */
lr_status eg2_mel_create(eg2_mel **out, size_t workers, lr_error *err);
void eg2_mel_free(eg2_mel *mel);
/* [EG2_MEL_FRAME] */
const double *eg2_mel_window(const eg2_mel *mel);
/* A band's weights, of bins [*first, *first + *count). */
const double *eg2_mel_band(const eg2_mel *mel, size_t band, size_t *first, size_t *count);
/* samples [EG2_MEL_FRAME] -> out [EG2_MEL_BANDS]. */
void eg2_mel_frame(const eg2_mel *mel, size_t worker, const float *samples, float *out);

#endif
