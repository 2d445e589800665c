/* libswresample with its defaults, to 16 kHz mono float: what ffmpeg's command line does for
 * -ac 1 -ar 16000 -f f32le. */
#ifndef LRI_RESAMPLE_H
#define LRI_RESAMPLE_H

#include <libavutil/frame.h>

#include <longreel/core.h>

struct SwrContext;

typedef struct lri_resampler {
    bool ready;             /* set up for frames; else swr only keeps its tables for the next time */
    struct SwrContext *swr;
    AVChannelLayout layout;
    enum AVSampleFormat format;
    int rate;
    /* What has been made and not yet taken: samples[at .. count). */
    float *samples;
    size_t at, count, capacity;
} lri_resampler;

/* Sets up for frames of this format, dropping all state. Making the filter's tables takes long: they are
 * kept from one sound of the same format to the next. */
lr_status lri_resampler_set(lri_resampler *resampler, const AVChannelLayout *layout,
                            enum AVSampleFormat format, int rate, lr_error *err);
/* Whether a frame can be fed as things are. */
bool lri_resampler_fits(const lri_resampler *resampler, const AVFrame *frame);
lr_status lri_resampler_feed(lri_resampler *resampler, const AVFrame *frame, lr_error *err);
/* `count` samples of silence in the format that is set up. */
lr_status lri_resampler_feed_silence(lri_resampler *resampler, int64_t count, lr_error *err);
/* Makes what is left; afterwards only lri_resampler_set, _end or _free. */
lr_status lri_resampler_flush(lri_resampler *resampler, lr_error *err);
/* Drops all state but the tables. */
void lri_resampler_end(lri_resampler *resampler);
void lri_resampler_free(lri_resampler *resampler);

/* The number of samples at 16 kHz that `samples` at `rate` give, flushed at the end. `resampler` does the
 * counting: zeroed before the first call, freed after the last. */
lr_status lri_resampled_length(lri_resampler *resampler, int64_t samples, int rate, int64_t *length,
                               lr_error *err);

#endif
