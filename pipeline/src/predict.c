/* Predicted time: seconds a unit as measured, times the units of a plan. */
#include <longreel/bench_encode.h>
#include <longreel/predict.h>

#include "job.h"

/* Work of attention in one sequence: what grows faster than its length. */
static double attention_flop(const lr_model *model, double tokens) {
    return lr_backbone_flop(model, (uint64_t)tokens) - tokens * lr_backbone_flop(model, 1);
}

static int threads_together(const lr_encode_options *options) {
    int ranks = options->ranks > 0 ? options->ranks : 1, all = lr_processors();
    if (options->threads <= 0) return all;
    return options->threads < all / ranks ? options->threads * ranks : all;
}

/* A short sequence that still keeps all threads busy: two tiles of rows each. */
static lr_status measure_backbone(lr_model *model, int threads, lr_speed *out, lr_error *err) {
    lr_bench_result result;
    uint64_t tokens = (uint64_t)threads * 2 * LR_ROW_TILE, least = 512;
    if (tokens < least) tokens = least;
    const lr_bench_run run = {
        .tokens = tokens, .chunk = lr_encode_defaults().chunk, .ranks = 1, .threads = threads, .repeats = 2};
    lr_status st = lr_bench_backbone(model, &run, &result, err);
    if (st != LR_OK) return st;
    double attention = result.seconds_attention;
    out->token = (result.seconds_min > attention ? result.seconds_min - attention : 0) / (double)tokens;
    out->attention = attention > 0 ? attention_flop(model, (double)tokens) / attention : 0;
    return LR_OK;
}

lr_status lr_speed_estimate(lr_model *model, const lr_encode_options *options, lr_speed *out, lr_error *err) {
    const lr_model_info *info = lr_model_info_of(model);
    int threads = threads_together(options);
    uint64_t tokens = (uint64_t)threads * LR_ROW_TILE;
    lr_bench_result result;
    *out = (lr_speed){0};
    /* The first pass touches its memory and the weights for the first time: up to a fifth slower. */
    const lr_bench_run run = {
        .tokens = tokens, .chunk = lr_encode_defaults().chunk, .ranks = 1, .threads = threads, .repeats = 2};
    lr_status st = lr_bench_backbone(model, &run, &result, err);
    if (st != LR_OK) return st;
    double rate = result.flop / result.seconds_min;
    out->picture = 2 * info->picture_macs * options->soft_tokens / rate;
    out->sound_token = 2 * info->sound_macs / rate;
    out->token = lr_backbone_flop(model, 1) / rate;
    out->attention = rate;
    return LR_OK;
}

#define SOUND_SECONDS 4

/* ------------------------------------------------------------------ all */

lr_status lr_speed_measure(lr_model *model, const lr_encode_options *options, lr_speed *out,
                           lr_error *err) {
    lr_status st = LR_OK;
    const lr_model_info *info = lr_model_info_of(model);
    int threads = threads_together(options);
    lr_bench_result picture, sound;
    *out = (lr_speed){0};
    LR_TRY(lr_encode_check(options, model, err));
    if (info->has_vision && options->video) {
        LR_TRY(lr_bench_vision(model, 1280, 720, options->soft_tokens, threads, 2, &picture, err));
        out->picture = picture.seconds_min;
    }
    LR_TRY(lr_cancel_check(options->cancel, err));
    if (info->has_audio && options->audio) {
        LR_TRY(lr_bench_sound(model, SOUND_SECONDS, threads, 1, &sound, err));
        out->sound_token = sound.seconds_min / (double)sound.units;
    }
    LR_TRY(lr_cancel_check(options->cancel, err));
    LR_TRY(measure_backbone(model, threads, out, err));
done:
    return st;
}

double lr_speed_predict(const lr_model *model, const lr_speed *speed, const lr_plan *plan,
                        const lr_encode_options *options) {
    double tokens = (double)plan->tokens, windows = 1;
    if (options->context > 0 && plan->tokens > options->context) {
        windows = (double)((plan->tokens - 1) / options->context + 1);
    }
    double attention = windows * attention_flop(model, tokens / windows);
    double seconds = (double)plan->frames * speed->picture + (double)plan->sound_tokens * speed->sound_token +
                     tokens * speed->token + (speed->attention > 0 ? attention / speed->attention : 0);
    return plan->n_shapes > 0 ? seconds * plan->shapes[0].imbalance : seconds;
}

/* Each group has its share of the machine. Recordings go to the group that is free first, the longest first. */
lr_status lr_speed_groups(const double *seconds, const lr_plan *plans, size_t count, size_t shape, double *out,
                          lr_error *err) {
    int groups = plans[0].shapes[shape].groups;
    double *busy = NULL;
    bool *done = NULL;
    lr_status st = LR_OK;
    *out = 0;
    LR_TRY(LR_NEW(&busy, (size_t)groups, "groups", err));
    LR_TRY(LR_NEW(&done, count, "recordings", err));
    for (size_t n = 0; n < count; n++) {
        size_t longest = count;
        int first = 0;
        for (size_t i = 0; i < count; i++) {
            if (!done[i] && (longest == count || seconds[i] > seconds[longest])) longest = i;
        }
        for (int g = 1; g < groups; g++) first = busy[g] < busy[first] ? g : first;
        const lr_plan *plan = &plans[longest];
        busy[first] += seconds[longest] / plan->shapes[0].imbalance * plan->shapes[shape].imbalance * groups;
        done[longest] = true;
        if (busy[first] > *out) *out = busy[first];
    }
done:
    lr_free(done);
    lr_free(busy);
    return st;
}
