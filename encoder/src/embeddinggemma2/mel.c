/* log(0.001 + sum over bins of filter x |FFT of the windowed frame|), all in double and rounded once:
 * the reference's own fp32 window and FFT lie within 4e-7 of it. The Fourier transform is libavutil's
 * (all that encoder/ takes from libav): its double one is plain C, so that no choice of instructions by
 * processor can change a bit. */
#include "mel.h"

#include <math.h>

#include <libavutil/tx.h>

#define FFT 512
#define BINS (FFT / 2 + 1)
#define NYQUIST (LR_SAMPLE_RATE / 2.0)

typedef struct filter {
    size_t first, count; /* bins */
    size_t at;           /* of eg2_mel.weights */
} filter;

/* One thread's transform; libavutil keeps scratch memory in its context. */
typedef struct transform {
    AVTXContext *context;
    av_tx_fn run;
    double *in;           /* [FFT], zero past the frame */
    AVComplexDouble *out; /* [BINS] */
} transform;

struct eg2_mel {
    double window[EG2_MEL_FRAME];
    filter filters[EG2_MEL_BANDS];
    double weights[2 * BINS]; /* a bin lies in at most two triangles */
    size_t workers;
    transform *transforms; /* [workers] */
};

uint64_t eg2_mel_valid(int64_t n_samples)
{
    return n_samples > 0 ? (uint64_t)(n_samples - 1) / EG2_MEL_HOP : 0;
}

/* HTK's scale, mel = 2595 log10(1 + f / 700): the frequency of point i of the EG2_MEL_BANDS + 2 that
 * divide it evenly from 0 to NYQUIST. */
static double point(size_t i)
{
    double top = 2595 * log10(1 + NYQUIST / 700);
    return 700 * (pow(10, top * (double)i / (EG2_MEL_BANDS + 1) / 2595) - 1);
}

/* Filter i is the triangle over points i, i + 1, i + 2, its peak 1, straight in Hz. */
static void make_filters(eg2_mel *mel)
{
    size_t used = 0;
    for (size_t i = 0; i < EG2_MEL_BANDS; i++) {
        filter *f = &mel->filters[i];
        double low = point(i), peak = point(i + 1), high = point(i + 2);
        f->at = used;
        for (size_t bin = 0; bin < BINS; bin++) {
            double hz = NYQUIST * (double)bin / (BINS - 1);
            double up = (hz - low) / (peak - low), down = (high - hz) / (high - peak);
            double weight = up < down ? up : down;
            if (weight <= 0) continue;
            if (f->count == 0) f->first = bin;
            f->count++;
            mel->weights[used++] = weight;
        }
    }
}

void eg2_mel_free(eg2_mel *mel)
{
    if (!mel) return;
    for (size_t i = 0; i < mel->workers; i++) {
        av_tx_uninit(&mel->transforms[i].context);
        lr_free(mel->transforms[i].in);
        lr_free(mel->transforms[i].out);
    }
    lr_free(mel->transforms);
    lr_free(mel);
}

lr_status eg2_mel_create(eg2_mel **out, size_t workers, lr_error *err)
{
    lr_status st = LR_OK;
    eg2_mel *mel = NULL;
    const double scale = 1;
    *out = NULL;
    LR_TRY(LR_NEW(&mel, 1, "the mel filters", err));
    LR_TRY(LR_NEW(&mel->transforms, workers, "Fourier transforms", err));
    mel->workers = workers;
    for (size_t i = 0; i < workers; i++) {
        transform *t = &mel->transforms[i];
        LR_TRY(LR_NEW(&t->in, FFT, "a Fourier transform", err));
        LR_TRY(LR_NEW(&t->out, BINS, "a Fourier transform", err));
        if (av_tx_init(&t->context, &t->run, AV_TX_DOUBLE_RDFT, 0, FFT, &scale, 0) < 0)
            LR_FAIL(LR_E_NOMEM, "libavutil makes no Fourier transform of %d values", FFT);
    }
    for (size_t i = 0; i < EG2_MEL_FRAME; i++)
        mel->window[i] = 0.5 - 0.5 * cos(2 * M_PI * (double)i / EG2_MEL_FRAME);
    make_filters(mel);
    *out = mel;
    mel = NULL;
done:
    eg2_mel_free(mel);
    return st;
}

const double *eg2_mel_window(const eg2_mel *mel)
{
    return mel->window;
}

const double *eg2_mel_band(const eg2_mel *mel, size_t band, size_t *first, size_t *count)
{
    const filter *f = &mel->filters[band];
    *first = f->first;
    *count = f->count;
    return mel->weights + f->at;
}

void eg2_mel_frame(const eg2_mel *mel, size_t worker, const float *samples, float *out)
{
    const transform *t = &mel->transforms[worker];
    double magnitude[BINS];
    for (size_t i = 0; i < EG2_MEL_FRAME; i++) t->in[i] = mel->window[i] * (double)samples[i];
    for (size_t i = EG2_MEL_FRAME; i < FFT; i++) t->in[i] = 0;
    t->run(t->context, t->out, t->in, sizeof *t->in);
    for (size_t i = 0; i < BINS; i++)
        magnitude[i] = sqrt(t->out[i].re * t->out[i].re + t->out[i].im * t->out[i].im);
    for (size_t i = 0; i < EG2_MEL_BANDS; i++) {
        const filter *f = &mel->filters[i];
        double sum = 0;
        for (size_t j = 0; j < f->count; j++)
            sum += mel->weights[f->at + j] * magnitude[f->first + j];
        out[i] = (float)log(sum + EG2_MEL_FLOOR);
    }
}
