/* The towers' public calls: each goes to its family's table. */
#include "model.h"

lr_status lr_vision_create(lr_vision **out, const lr_model *model, int width, int height,
                           const lr_worker *worker, lr_error *err)
{
    *out = NULL;
    if (!model->vision)
        return lr_fail(err, LR_E_UNSUPPORTED, "%s: %s", model->directory,
                       model->info.has_vision ? "opened without its vision tower"
                                              : "the model has no vision tower");
    return model->family->vision->create(out, model, width, height, worker, err);
}

void lr_vision_free(lr_vision *vision)
{
    if (vision) vision->ops->free(vision);
}

lr_status lr_vision_hold(lr_vision *vision, const lr_frame *frame, lr_error *err)
{
    if (!vision->ops->hold) return lr_fail(err, LR_E_INTERNAL, "a span of this model has one frame");
    return vision->ops->hold(vision, frame, err);
}

lr_status lr_vision_encode(lr_vision *vision, const lr_frame *frame, float *soft,
                           const lr_stage_tap *tap, lr_error *err)
{
    return vision->ops->encode(vision, frame, soft, tap, err);
}

size_t lr_vision_memory(const lr_model *model, int width, int height, size_t threads)
{
    return model->vision ? model->family->vision->memory(model, width, height, threads) : 0;
}

lr_status lr_sound_tower_create(lr_sound_tower **out, const lr_model *model, int64_t n_samples,
                                uint64_t first_token, uint64_t end_token, const lr_worker *worker,
                                lr_sound_sink sink, void *arg, const lr_stage_tap *tap,
                                lr_error *err)
{
    *out = NULL;
    if (!model->sound)
        return lr_fail(err, LR_E_UNSUPPORTED, "%s: %s", model->directory,
                       model->info.has_audio ? "opened without its sound tower"
                                             : "the model has no sound tower");
    return model->family->sound->create(out, model, n_samples, first_token, end_token, worker, sink,
                                        arg, tap, err);
}

int64_t lr_sound_tower_first_sample(const lr_sound_tower *tower)
{
    return tower->ops->first_sample(tower);
}

lr_status lr_sound_tower_feed(lr_sound_tower *tower, const float *samples, size_t count,
                              lr_error *err)
{
    return tower->ops->feed(tower, samples, count, err);
}

lr_status lr_sound_tower_finish(lr_sound_tower *tower, lr_error *err)
{
    return tower->ops->finish(tower, err);
}

void lr_sound_tower_free(lr_sound_tower *tower)
{
    if (tower) tower->ops->free(tower);
}

double lr_vision_flop(const lr_model *model, int width, int height)
{
    return model->vision ? 2 * model->family->vision->macs(model, width, height) : 0;
}

double lr_sound_flop(const lr_model *model, uint64_t tokens)
{
    return model->sound ? 2 * model->family->sound->macs(model) * (double)tokens : 0;
}

size_t lr_sound_tower_memory(const lr_model *model, uint64_t tokens, size_t threads)
{
    return model->sound ? model->family->sound->memory(model, tokens, threads) : 0;
}
