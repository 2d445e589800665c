/* Predicted work of a recording of which little is known yet: multiply-adds, as for the time left. */
#include <longreel/predict.h>

#include "job.h"

/* Tokens around the soft ones of a frame or a second of sound: separator, stamp, markers. */
#define AROUND_WITH_STAMP 12
#define AROUND 3

double lr_weight_of_length(const lr_model *model, const lr_encode_options *o, const lr_glance *glance) {
    const lr_model_info *info = lr_model_info_of(model);
    double begin = o->start == LR_TIME_NONE ? 0 : lr_time_seconds(o->start), end = glance->seconds;
    if (o->end != LR_TIME_NONE && lr_time_seconds(o->end) < end) end = lr_time_seconds(o->end);
    double seconds = end > begin ? end - begin : 0, around = o->stamps ? AROUND_WITH_STAMP : AROUND;
    double frames = 0, pictures = 0, sound = 0, tokens = 0;
    if (glance->has_video && o->video && info->has_vision) {
        frames = seconds * (double)o->fps.num / (double)o->fps.den;
        pictures = frames * (o->soft_tokens ? o->soft_tokens : info->picture.budget);
        tokens += pictures + frames * around;
    }
    if (glance->has_audio && o->audio && info->has_audio) {
        sound = (double)lr_sound_tokens((int64_t)(seconds < 1e9 ? seconds * LR_SAMPLE_RATE : 0));
        tokens += sound + seconds * around;
    }
    double windows = o->context && tokens > (double)o->context ? tokens / (double)o->context : 1;
    return info->picture_macs * pictures + info->sound_macs * sound +
           windows * lr_backbone_flop(model, (uint64_t)(tokens / windows)) / 2;
}
