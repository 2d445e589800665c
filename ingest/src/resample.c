#include "resample.h"

#include <string.h>

#include <libavutil/channel_layout.h>
#include <libavutil/samplefmt.h>
#include <libswresample/swresample.h>

#include "avutil.h"

#define SILENCE_BLOCK 4096

void lri_resampler_free(lri_resampler *resampler)
{
    swr_free(&resampler->swr);
    av_channel_layout_uninit(&resampler->layout);
    lr_free(resampler->samples);
    memset(resampler, 0, sizeof *resampler);
}

/* libswresample mixes the named layouts of up to 8 channels; anything else it takes as equal parts. */
static int mix_equally(struct SwrContext *swr, int channels)
{
    double matrix[LRI_MAX_CHANNELS];
    for (int i = 0; i < channels; i++) matrix[i] = 1.0 / channels;
    return swr_set_matrix(swr, matrix, channels);
}

void lri_resampler_end(lri_resampler *resampler)
{
    resampler->ready = false;
    resampler->at = resampler->count = 0;
}

static bool is_for(const lri_resampler *resampler, const AVChannelLayout *layout,
                   enum AVSampleFormat format, int rate)
{
    return resampler->swr && resampler->format == format && resampler->rate == rate &&
           av_channel_layout_compare(&resampler->layout, layout) == 0;
}

/* Begins anew with the tables there are. */
static lr_status set_again(lri_resampler *resampler, lr_error *err)
{
    swr_close(resampler->swr);
    int code = swr_init(resampler->swr);
    if (code < 0) return lri_av_fail(err, code, LR_E_UNSUPPORTED, "sound cannot be resampled");
    resampler->ready = true;
    return LR_OK;
}

lr_status lri_resampler_set(lri_resampler *resampler, const AVChannelLayout *layout,
                            enum AVSampleFormat format, int rate, lr_error *err)
{
    AVChannelLayout mono = AV_CHANNEL_LAYOUT_MONO, named = {0};
    lr_status st = LR_OK;
    int channels = layout->nb_channels, code;
    lri_resampler_end(resampler);
    if (is_for(resampler, layout, format, rate)) return set_again(resampler, err);
    swr_free(&resampler->swr);
    if (channels < 1 || channels > LRI_MAX_CHANNELS || rate < 1)
        LR_FAIL(LR_E_UNSUPPORTED, "sound with %d channels at %d Hz", channels, rate);
    if (layout->order == AV_CHANNEL_ORDER_UNSPEC) av_channel_layout_default(&named, channels);
    else if (av_channel_layout_copy(&named, layout) < 0)
        LR_FAIL(LR_E_NOMEM, "out of memory: a resampler");
    code = swr_alloc_set_opts2(&resampler->swr, &mono, AV_SAMPLE_FMT_FLT, LR_SAMPLE_RATE, &named,
                               format, rate, 0, NULL);
    if (code >= 0 && named.order != AV_CHANNEL_ORDER_NATIVE && channels > 1)
        code = mix_equally(resampler->swr, channels);
    if (code >= 0) code = swr_init(resampler->swr);
    if (code < 0) {
        st = lri_av_fail(err, code, LR_E_UNSUPPORTED, "sound cannot be resampled");
        goto done;
    }
    av_channel_layout_uninit(&resampler->layout);
    if (av_channel_layout_copy(&resampler->layout, layout) < 0)
        LR_FAIL(LR_E_NOMEM, "out of memory: a resampler");
    resampler->format = format;
    resampler->rate = rate;
    resampler->ready = true;
done:
    if (st != LR_OK) swr_free(&resampler->swr);
    av_channel_layout_uninit(&named);
    return st;
}

bool lri_resampler_fits(const lri_resampler *resampler, const AVFrame *frame)
{
    return resampler->ready && is_for(resampler, &frame->ch_layout, (enum AVSampleFormat)frame->format,
                                      frame->sample_rate);
}

/* data NULL and count 0 ask for what is left. */
static lr_status convert(lri_resampler *resampler, const uint8_t *const *data, int count,
                         int *made, lr_error *err)
{
    lr_status st = LR_OK;
    if (resampler->at > 0) {
        memmove(resampler->samples, resampler->samples + resampler->at,
                (resampler->count - resampler->at) * sizeof(float));
        resampler->count -= resampler->at;
        resampler->at = 0;
    }
    int room = swr_get_out_samples(resampler->swr, count);
    if (room < 0) return lri_av_fail(err, room, LR_E_INTERNAL, "sound cannot be resampled");
    room += 64;
    LR_TRY(LR_GROW(&resampler->samples, &resampler->capacity, resampler->count + (size_t)room,
                   "resampled sound", err));
    uint8_t *to[1] = {(uint8_t *)(resampler->samples + resampler->count)};
    *made = swr_convert(resampler->swr, to, room, (const uint8_t **)(uintptr_t)data, count);
    if (*made < 0) return lri_av_fail(err, *made, LR_E_INTERNAL, "sound cannot be resampled");
    resampler->count += (size_t)*made;
done:
    return st;
}

lr_status lri_resampler_feed(lri_resampler *resampler, const AVFrame *frame, lr_error *err)
{
    int made;
    return convert(resampler, (const uint8_t *const *)(uintptr_t)frame->extended_data,
                   frame->nb_samples, &made, err);
}

lr_status lri_resampler_feed_silence(lri_resampler *resampler, int64_t count, lr_error *err)
{
    uint8_t *data[LRI_MAX_CHANNELS] = {0};
    int channels = resampler->layout.nb_channels, made;
    lr_status st = LR_OK;
    if (count <= 0) return LR_OK;
    int code = av_samples_alloc(data, NULL, channels, SILENCE_BLOCK, resampler->format, 0);
    if (code >= 0)
        code = av_samples_set_silence(data, 0, SILENCE_BLOCK, channels, resampler->format);
    if (code < 0) {
        st = lri_av_fail(err, code, LR_E_INTERNAL, "silence");
        goto done;
    }
    for (; count > 0; count -= SILENCE_BLOCK) {
        int part = count < SILENCE_BLOCK ? (int)count : SILENCE_BLOCK;
        LR_TRY(convert(resampler, (const uint8_t *const *)(uintptr_t)data, part, &made, err));
    }
done:
    av_freep(&data[0]);
    return st;
}

lr_status lri_resampler_flush(lri_resampler *resampler, lr_error *err)
{
    int made = 1;
    while (made > 0) {
        lr_status st = convert(resampler, NULL, 0, &made, err);
        if (st != LR_OK) return st;
    }
    return LR_OK;
}

/* How the filter's ends are treated depends on the position at the end; but it repeats with the
 * period in which both rates are whole. So a short run of the resampler itself gives the length of
 * any: the same remainder, and some periods more so that it is longer than the filter. */
lr_status lri_resampled_length(lri_resampler *resampler, int64_t samples, int rate, int64_t *length,
                               lr_error *err)
{
    *length = samples;
    if (rate == LR_SAMPLE_RATE || samples <= 0) return LR_OK;
    int64_t a = rate, period = LR_SAMPLE_RATE;
    while (period != 0) {
        int64_t rest = a % period;
        a = period;
        period = rest;
    }
    period = rate / a; /* input samples; LR_SAMPLE_RATE / a output samples */
    /* libswresample's filter spans 32 output samples at most, or as many input samples. */
    int64_t least = 64 * (1 + rate / LR_SAMPLE_RATE), periods = 0;
    if (samples > least) periods = (samples - least) / period;
    const AVChannelLayout mono = AV_CHANNEL_LAYOUT_MONO;
    lr_status st = LR_OK;
    LR_TRY(lri_resampler_set(resampler, &mono, AV_SAMPLE_FMT_S16, rate, err));
    int64_t made = 0;
    for (int64_t left = samples - periods * period; left > 0; left -= SILENCE_BLOCK) {
        LR_TRY(lri_resampler_feed_silence(resampler, left < SILENCE_BLOCK ? left : SILENCE_BLOCK,
                                          err));
        made += (int64_t)resampler->count;
        resampler->count = 0;
    }
    LR_TRY(lri_resampler_flush(resampler, err));
    *length = made + (int64_t)resampler->count + periods * (LR_SAMPLE_RATE / a);
done:
    return st;
}
