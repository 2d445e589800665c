/* How long a run will take on this machine: parts of the work are timed once, the rest is arithmetic. */
#ifndef LONGREEL_PREDICT_H
#define LONGREEL_PREDICT_H

#include <longreel/longreel.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_speed {
    double picture;     /* seconds a picture of the options' budget */
    double sound_token; /* seconds a sound token */
    double token;       /* seconds a token in the backbone, attention left out */
    double attention;   /* FLOP a second of the backbone's attention */
} lr_speed;

/* Times a picture, some seconds of sound and a short sequence with the ranks' threads together: a few
 * seconds for a model of the published size. Towers that the model or the options leave out are not
 * timed. */
lr_status lr_speed_measure(lr_model *model, const lr_encode_options *options, lr_speed *out,
                           lr_error *err);
/* For a run that is not much longer than that timing: a tile of tokens a thread is timed, once, and all
 * other work is taken to go at the same rate. options->soft_tokens must be set. */
lr_status lr_speed_estimate(lr_model *model, const lr_encode_options *options, lr_speed *out, lr_error *err);
/* Seconds of towers and backbone; reading and decoding the file are not in it. */
double lr_speed_predict(const lr_model *model, const lr_speed *speed, const lr_plan *plan,
                        const lr_encode_options *options);

/* Seconds until all recordings are through when the ranks are split as plans[i].shapes[shape] says; seconds[i]
 * as lr_speed_predict gave them. */
lr_status lr_speed_groups(const double *seconds, const lr_plan *plans, size_t count, size_t shape, double *out,
                          lr_error *err);

/* Of a recording of which only the head is known: how a batch is best shared. */
typedef struct lr_guess {
    double tokens, work; /* work: multiply-adds */
} lr_guess;
lr_guess lr_guess_of_length(const lr_model *model, const lr_encode_options *options, const lr_glance *glance);
/* Would `here` ranks of this machine hold their shares of such recordings, each shared by `ranks`? */
lr_status lr_guess_fits(const lr_model *model, const lr_encode_options *options, double tokens, int ranks, int here,
                        bool *fits, lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
