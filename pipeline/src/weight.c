/* Predicted work of a recording of which little is known yet: multiply-adds, as for the time left. */
#include <longreel/predict.h>

#include "job.h"

/* Tokens around the soft ones of a frame or a second of sound: separator, stamp, markers. */
#define AROUND_WITH_STAMP 12
#define AROUND 3
#define SHARE_OF_MEMORY 0.9
#define MOST_SECONDS 1e7 /* of a head that lies */

lr_guess lr_guess_of_length(const lr_model *model, const lr_encode_options *o, const lr_glance *glance) {
    const lr_model_info *info = lr_model_info_of(model);
    double begin = o->start == LR_TIME_NONE ? 0 : lr_time_seconds(o->start), end = glance->seconds;
    if (o->end != LR_TIME_NONE && lr_time_seconds(o->end) < end) end = lr_time_seconds(o->end);
    double seconds = end > begin ? end - begin : 0, around = o->stamps ? AROUND_WITH_STAMP : AROUND;
    double pictures = 0, sound = 0, tokens = 0;
    if (seconds > MOST_SECONDS) seconds = MOST_SECONDS;
    if (glance->has_video && o->video && info->has_vision) {
        double frames = seconds * (double)o->fps.num / (double)o->fps.den;
        pictures = frames * (o->soft_tokens ? o->soft_tokens : info->picture.budget);
        tokens += pictures + frames * around;
    }
    if (glance->has_audio && o->audio && info->has_audio) {
        sound = (double)lr_sound_tokens((int64_t)(seconds * LR_SAMPLE_RATE));
        tokens += sound + seconds * around;
    }
    double windows = o->context && tokens > (double)o->context ? tokens / (double)o->context : 1;
    double backbone = windows * lr_backbone_flop(model, (uint64_t)(tokens / windows)) / 2;
    return (lr_guess){.tokens = tokens,
                      .work = info->picture_macs * pictures + info->sound_macs * sound + backbone};
}

lr_status lr_guess_fits(const lr_model *model, const lr_encode_options *o, double tokens, int ranks, int here,
                        bool *fits, lr_error *err) {
    lr_partition parts = {0};
    size_t bytes = 0, available = lr_memory_available();
    double one = o->context && tokens > (double)o->context ? (double)o->context : tokens;
    lr_status st = lr_partition_create(&parts, one < 1 ? 1 : (uint64_t)one, o->chunk, ranks, err);
    const lr_backbone_run run = {.partition = &parts, .schedule = o->schedule, .node_ranks = o->ring_node};
    if (st == LR_OK) st = lr_backbone_memory(model, &run, 0, o->threads > 0 ? (size_t)o->threads : 1, &bytes, err);
    if (st == LR_OK) bytes += lr_partition_end_token(&parts, 0) * lr_model_info_of(model)->hidden * sizeof(float);
    *fits = available == 0 || (double)bytes * here <= SHARE_OF_MEMORY * (double)available;
    lr_partition_free(&parts);
    return st;
}
