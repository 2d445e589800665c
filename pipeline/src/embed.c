/* embed: one vector for a text, a picture, a sound or a clip, each a sequence of its own on one rank. */
#include <string.h>

#include "job.h"

typedef struct embed_run {
    lr_model *model;
    const lr_embed_options *options;
    const lr_model_info *info;
    lr_comm *comm;
    lr_worker worker;
    lr_stage_store *stages;
    uint64_t tokens_before; /* of the inputs done */
    lr_named_rows *saved;
} embed_run;

/* One input on its way: layout and spliced embeddings. */
typedef struct embed_item {
    lr_layout *layout;
    float *x; /* [n_tokens, hidden] */
} embed_item;

static lr_status start_item(const embed_run *run, embed_item *item, lr_error *err) {
    lr_status st = LR_OK;
    size_t values;
    if (!lr_mul_size(item->layout->n_tokens, run->info->hidden, &values)) {
        LR_FAIL(LR_E_NOMEM, "%llu tokens do not fit in memory",
                (unsigned long long)item->layout->n_tokens);
    }
    LR_TRY(LR_NEW(&item->x, values, "token vectors", err));
    LR_TRY(lr_embed_ids(run->model, item->layout->ids, item->layout->n_tokens, item->x, err));
done:
    return st;
}

static const lr_span *soft_span(const lr_layout *layout) {
    for (size_t i = 0; i < layout->n_spans; i++) {
        if (layout->spans[i].soft_count > 0) return &layout->spans[i];
    }
    return NULL;
}

/* ------------------------------------------------------------------ text */

static lr_status prepare_text(const embed_run *run, const char *text, embed_item *item,
                              lr_error *err) {
    lr_status st = LR_OK;
    const char *prompt = "";
    char *whole = NULL;
    if (!run->info->has_text) {
        LR_FAIL(LR_E_USAGE, "%s takes no text: its inputs are pictures and clips (--image, --video)",
                run->info->name);
    }
    if (run->options->task) {
        prompt = lr_model_prompt(run->model, run->options->task);
        if (!prompt) LR_FAIL(LR_E_USAGE, "%s has no task '%s'", run->info->name, run->options->task);
    }
    LR_TRY(lr_format(&whole, err, "%s%s", prompt, text));
    LR_TRY(lr_layout_text(&item->layout, run->info->tokenizer, whole, strlen(whole), err));
    LR_TRY(start_item(run, item, err));
done:
    lr_free(whole);
    return st;
}

/* ------------------------------------------------------------------ picture */

static lr_status open_input(const embed_run *run, const char *path, bool picture,
                            lr_recording **recording, lr_error *err) {
    lr_ingest_options ingest = lr_ingest_defaults();
    ingest.video = picture;
    ingest.audio = !picture;
    ingest.threads = run->options->threads > 0 ? run->options->threads : lr_processors();
    ingest.cancel = run->worker.cancel;
    return lr_recording_open(recording, path, &ingest, err);
}

static lr_status picture_layout(const embed_run *run, const lr_timeline *line, embed_item *item,
                                lr_error *err) {
    lr_picture_geometry geometry = run->info->picture;
    int width, height;
    uint64_t soft;
    geometry.budget = run->options->soft_tokens ? run->options->soft_tokens : run->info->image_budget;
    lr_status st = lr_picture_size(&geometry, line->video.display_width, line->video.display_height,
                                   &width, &height, &soft, err);
    if (st != LR_OK) return st;
    return lr_layout_picture(&item->layout, &run->info->rules, soft, width, height, err);
}

static lr_status encode_still(const embed_run *run, const lr_recording *recording, embed_item *item,
                              lr_error *err) {
    lr_status st = LR_OK;
    lr_frame_reader *reader = NULL;
    lr_vision *vision = NULL;
    lr_frame frame = {0};
    bool got = false;
    lr_stage_base base = {.store = run->stages, .by_item = true};
    lr_stage_tap tap = lr_stage_tap_of(&base);
    const lr_span *span = soft_span(item->layout);
    LR_TRY(lr_vision_create(&vision, run->model, item->layout->frame_width,
                            item->layout->frame_height, &run->worker, err));
    LR_TRY(lr_frame_reader_open(&reader, recording, 0, 1, err));
    LR_TRY(lr_frame_reader_next(reader, &frame, &got, err));
    if (!got) LR_FAIL(LR_E_NO_MEDIA, "no picture could be decoded");
    LR_TRY(lr_vision_encode(vision, &frame, item->x + span->soft_first * run->info->hidden, &tap, err));
done:
    lr_frame_reader_close(reader);
    lr_vision_free(vision);
    return st;
}

static lr_status prepare_picture(const embed_run *run, const char *path, embed_item *item,
                                 lr_error *err) {
    lr_status st = LR_OK;
    lr_recording *recording = NULL;
    if (!run->info->has_vision) {
        LR_FAIL(LR_E_USAGE, "%s has no vision tower: it cannot embed pictures", run->info->name);
    }
    LR_TRY(open_input(run, path, true, &recording, err));
    const lr_timeline *line = lr_recording_timeline(recording);
    if (!line->has_video) LR_FAIL(LR_E_NO_MEDIA, "there is no picture in it");
    if (line->video.n_coded > 1) {
        LR_FAIL(LR_E_USAGE, "is a film, not a picture: give it as --video, encode it, or give one frame of it");
    }
    LR_TRY(picture_layout(run, line, item, err));
    LR_TRY(start_item(run, item, err));
    LR_TRY(encode_still(run, recording, item, err));
done:
    lr_recording_close(recording);
    return st;
}

/* ------------------------------------------------------------------ sound */

typedef struct sound_target {
    float *soft;
    size_t hidden;
} sound_target;

static lr_status take_sound(void *arg, uint64_t first_token, uint64_t count, const float *soft,
                            lr_error *err) {
    (void)err;
    const sound_target *target = arg;
    memcpy(target->soft + first_token * target->hidden, soft, count * target->hidden * sizeof(float));
    return LR_OK;
}

#define SOUND_PIECE 16000

static lr_status encode_track(const embed_run *run, const lr_recording *recording, embed_item *item,
                              lr_error *err) {
    lr_status st = LR_OK;
    lr_sound_tower *tower = NULL;
    lr_sound_reader *reader = NULL;
    float *piece = NULL;
    size_t count = 0;
    lr_stage_base base = {.store = run->stages, .by_item = true};
    lr_stage_tap tap = lr_stage_tap_of(&base);
    const lr_span *span = soft_span(item->layout);
    sound_target target = {.soft = item->x + span->soft_first * run->info->hidden,
                           .hidden = run->info->hidden};
    LR_TRY(LR_NEW(&piece, SOUND_PIECE, "a piece of sound", err));
    LR_TRY(lr_sound_tower_create(&tower, run->model,
                                 lr_recording_timeline(recording)->audio.n_samples, 0,
                                 span->soft_count, &run->worker, take_sound, &target, &tap, err));
    LR_TRY(lr_sound_reader_open(&reader, recording, err));
    do {
        LR_TRY(lr_cancel_check(run->worker.cancel, err));
        LR_TRY(lr_sound_reader_read(reader, piece, SOUND_PIECE, &count, err));
        LR_TRY(lr_sound_tower_feed(tower, piece, count, err));
    } while (count > 0);
    LR_TRY(lr_sound_tower_finish(tower, err));
done:
    lr_sound_reader_close(reader);
    lr_sound_tower_free(tower);
    lr_free(piece);
    return st;
}

static lr_status prepare_sound(const embed_run *run, const char *path, embed_item *item,
                               lr_error *err) {
    lr_status st = LR_OK;
    lr_recording *recording = NULL;
    if (!run->info->has_audio) {
        LR_FAIL(LR_E_USAGE, "%s has no sound tower: it cannot embed sound", run->info->name);
    }
    LR_TRY(open_input(run, path, false, &recording, err));
    const lr_timeline *line = lr_recording_timeline(recording);
    uint64_t tokens = line->has_audio ? lr_sound_tokens(line->audio.n_samples) : 0;
    if (tokens == 0) LR_FAIL(LR_E_NO_MEDIA, "there is no sound in it, or less than a hundredth of a second");
    LR_TRY(lr_layout_sound(&item->layout, &run->info->rules, tokens, err));
    LR_TRY(start_item(run, item, err));
    LR_TRY(encode_track(run, recording, item, err));
done:
    lr_recording_close(recording);
    return st;
}

/* ------------------------------------------------------------------ all */

static lr_status pool_and_project(const embed_run *run, const embed_item *item, float *out,
                                  lr_error *err) {
    lr_status st = LR_OK;
    double *sum = NULL;
    size_t hidden = run->info->hidden;
    uint64_t n = item->layout->n_tokens;
    LR_TRY(LR_NEW(&sum, hidden, "a sum", err));
    lr_model_kernels(run->model)->sum_rows(sum, item->x, hidden, n, hidden);
    LR_TRY(lr_project(run->model, sum, n, run->options->dim ? run->options->dim : run->info->dim, out,
                      err));
done:
    lr_free(sum);
    return st;
}

static lr_status forward(embed_run *run, embed_item *item, lr_error *err) {
    lr_status st = LR_OK;
    lr_partition parts = {0};
    lr_backbone_stats stats = {0};
    lr_stage_base base = {.store = run->stages, .base = run->tokens_before};
    uint64_t n = item->layout->n_tokens;
    LR_TRY(lr_partition_create(&parts, n, lr_encode_defaults().chunk, 1, err));
    lr_backbone_run pass = {.comm = run->comm, .partition = &parts, .worker = run->worker,
                            .tap = lr_stage_tap_of(&base)};
    LR_TRY(lr_backbone_forward(run->model, &pass, item->x, &stats, err));
    if (run->stages) {
        lr_tensor ids = {.dtype = LR_I32, .n_dims = 1, .dims = {n}, .data = item->layout->ids};
        LR_TRY(lr_stage_store_put(run->stages, "input_ids", -1, run->tokens_before, &ids, err));
    }
    if (run->saved) LR_TRY(lr_named_rows_add(run->saved, item->layout, item->x, run->info->hidden, err));
    run->tokens_before += n;
done:
    lr_partition_free(&parts);
    return st;
}

static lr_status embed_clip(embed_run *run, const char *path, float *out, lr_error *err) {
    const lr_embed_options *o = run->options;
    lr_clip_run clip = {.model = run->model, .comm = run->comm, .worker = run->worker, .stages = run->stages,
                        .saved = run->saved, .tokens_before = run->tokens_before,
                        .options = lr_encode_defaults()};
    if (o->fps.num != 0 || o->fps.den != 0) clip.options.fps = o->fps;
    clip.options.context = o->context;
    clip.options.soft_tokens = o->soft_tokens;
    clip.options.dim = o->dim;
    clip.options.threads = (int)lr_pool_threads(run->worker.pool);
    clip.options.cancel = o->cancel;
    lr_status st = lr_clip_vector(&clip, path, out, err);
    run->tokens_before = clip.tokens_before;
    return st;
}

static lr_status embed_one(embed_run *run, const lr_embed_input *input, float *out, lr_error *err) {
    lr_status st = LR_OK;
    embed_item item = {0};
    lr_stage_store_item(run->stages);
    switch (input->kind) {
    case LR_INPUT_TEXT: st = prepare_text(run, input->value, &item, err); break;
    case LR_INPUT_IMAGE: st = prepare_picture(run, input->value, &item, err); break;
    case LR_INPUT_AUDIO: st = prepare_sound(run, input->value, &item, err); break;
    case LR_INPUT_VIDEO: st = embed_clip(run, input->value, out, err); break;
    }
    if (st != LR_OK || input->kind == LR_INPUT_VIDEO) goto done;
    LR_TRY(forward(run, &item, err));
    LR_TRY(pool_and_project(run, &item, out, err));
done:
    lr_layout_free(item.layout);
    lr_free(item.x);
    if (st != LR_OK && input->kind != LR_INPUT_TEXT) lr_error_about(err, input->value);
    return st;
}

static lr_status check(const lr_model_info *info, const lr_embed_options *options, lr_error *err) {
    lr_encode_options same = lr_encode_defaults();
    same.dim = options->dim;
    same.soft_tokens = options->soft_tokens;
    return lr_check_model_options(&same, info, err);
}

lr_status lr_embed(lr_model *model, const lr_embed_input *inputs, size_t count,
                   const lr_embed_options *options, float *out, lr_error *err) {
    lr_status st = LR_OK;
    lr_pool *pool = NULL;
    embed_run run = {.model = model, .options = options, .info = lr_model_info_of(model)};
    lr_named_rows saved = {0};
    size_t dim = options->dim ? options->dim : run.info->dim;
    LR_TRY(check(run.info, options, err));
    LR_TRY(lr_pool_create((size_t)(options->threads > 0 ? options->threads : lr_processors()), &pool,
                          err));
    LR_TRY(lr_comm_local_create(1, 0, &run.comm, err));
    run.worker = (lr_worker){.pool = pool, .cancel = options->cancel};
    if (options->stages_directory) LR_TRY(lr_stage_store_create(&run.stages, err));
    if (options->tokens_path) run.saved = &saved;
    for (size_t i = 0; i < count; i++) LR_TRY(embed_one(&run, &inputs[i], out + i * dim, err));
    if (run.stages) LR_TRY(lr_stage_store_write(run.stages, options->stages_directory, err));
    if (run.saved) LR_TRY(lr_named_rows_write(run.saved, options->tokens_path, err));
done:
    lr_named_rows_free(&saved);
    lr_stage_store_free(run.stages);
    lr_comm_free(run.comm);
    lr_pool_free(pool);
    return st;
}
