/* EmbeddingGemma 2: what opens a checkpoint, embeds ids and projects means. */
#include <math.h>
#include <string.h>

#include "embeddinggemma2.h"
#include "sound.h"
#include "vision.h"

#define D_LAYER "language_model.layers.%zu."

static const int budgets[] = {70, 140, 280, 560, 1120};

/* ------------------------------------------------------------------ weights */

static lr_status load_attention(lr_model *model, size_t i, bool bias, lr_error *err)
{
    lr_status st = LR_OK;
    lr_layer *layer = &model->backbone.layers[i];
    size_t d = model->backbone.hidden, width = layer->n_heads * layer->head_dim;
    size_t kv = layer->n_kv_heads * layer->head_dim;
    LR_TRY(lr_weights_linear(model, &layer->q, width, d, err, D_LAYER "self_attn.q_proj.weight", i));
    LR_TRY(lr_weights_linear(model, &layer->kv, kv, d, err, D_LAYER "self_attn.{k,v}_proj.weight", i));
    LR_TRY(lr_weights_linear(model, &layer->o, d, width, err, D_LAYER "self_attn.o_proj.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->q_norm, LR_SHAPE(layer->head_dim), err,
                             D_LAYER "self_attn.q_norm.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->k_norm, LR_SHAPE(layer->head_dim), err,
                             D_LAYER "self_attn.k_norm.weight", i));
    if (!bias) goto done;
    LR_TRY(lr_weights_vector(model, &layer->q_bias, LR_SHAPE(width), err,
                             D_LAYER "self_attn.q_proj.bias", i));
    LR_TRY(lr_weights_vector(model, &layer->kv_bias, LR_SHAPE(kv), err,
                             D_LAYER "self_attn.{k,v}_proj.bias", i));
    LR_TRY(lr_weights_vector(model, &layer->o_bias, LR_SHAPE(d), err,
                             D_LAYER "self_attn.o_proj.bias", i));
done:
    return st;
}

static lr_status load_rest(lr_model *model, size_t i, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_backbone *backbone = &model->backbone;
    lr_layer *layer = &model->backbone.layers[i];
    size_t d = backbone->hidden, m = backbone->mlp, p = backbone->ple;
    LR_TRY(lr_weights_linear(model, &layer->gate_up, m, d, err, D_LAYER "mlp.{gate,up}_proj.weight", i));
    LR_TRY(lr_weights_linear(model, &layer->down, d, m, err, D_LAYER "mlp.down_proj.weight", i));
    LR_TRY(lr_weights_linear_rows(model, &layer->ple, i * p, p, backbone->n_layers * p, d, err,
                                  "language_model.ple.per_layer_model_projection.weight"));
    LR_TRY(lr_weights_linear(model, &layer->ple_gate, p, d, err,
                             D_LAYER "ple_block.per_layer_input_gate.weight", i));
    LR_TRY(lr_weights_linear(model, &layer->ple_out, d, p, err,
                             D_LAYER "ple_block.per_layer_projection.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->input_norm, LR_SHAPE(d), err,
                             D_LAYER "input_layernorm.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->post_attention_norm, LR_SHAPE(d), err,
                             D_LAYER "post_attention_layernorm.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->pre_mlp_norm, LR_SHAPE(d), err,
                             D_LAYER "pre_feedforward_layernorm.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->post_mlp_norm, LR_SHAPE(d), err,
                             D_LAYER "post_feedforward_layernorm.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->post_ple_norm, LR_SHAPE(d), err,
                             D_LAYER "ple_block.post_per_layer_input_norm.weight", i));
    LR_TRY(lr_weights_scalar(model, &layer->scalar, err, D_LAYER "layer_scalar", i));
done:
    return st;
}

static lr_status load_text(lr_model *model, const lr_config *config, lr_error *err)
{
    lr_status st = LR_OK;
    lr_backbone *backbone = &model->backbone;
    eg2_text *text = NULL;
    /* An absent text_config is one of defaults. */
    json_t *empty = json_object();
    lr_config text_config = {.object = empty, .file = config->file, .path = "text_config."};
    bool present, bias = false;
    if (!empty) LR_FAIL(LR_E_NOMEM, "out of memory: %s", config->file);
    LR_TRY(LR_MODEL_NEW(model, &text, 1, "a text embedding", err));
    model->text = text;
    LR_TRY(lr_config_child(config, "text_config", &text_config, &present, err));
    backbone->block = &eg2_block;
    backbone->device_block = &eg2_device_block;
    backbone->gated = true;
    LR_TRY(eg2_read_text(model, &text_config, text, &bias, err));
    size_t d = backbone->hidden;
    LR_TRY(lr_weights_tensor(model, &text->embed, LR_SHAPE(text->vocab_size, d), err,
                             "language_model.embed_tokens.weight"));
    LR_TRY(lr_weights_vector(model, &text->projection, LR_SHAPE(model->info.dim, d), err,
                             "language_model.embedding_projection.weight"));
    LR_TRY(lr_weights_vector(model, &backbone->final_norm, LR_SHAPE(d), err,
                             "language_model.norm.weight"));
    LR_TRY(lr_weights_vector(model, &backbone->ple_norm, LR_SHAPE(backbone->ple), err,
                             "language_model.ple.per_layer_projection_norm.weight"));
    text->embed_scale = (float)sqrt((double)d);
    backbone->ple_scale = (float)(1 / sqrt((double)d));
    for (size_t i = 0; i < backbone->n_layers; i++) {
        LR_TRY(load_attention(model, i, bias, err));
        LR_TRY(load_rest(model, i, err));
    }
done:
    json_decref(empty);
    return st;
}

/* ------------------------------------------------------------------ info */

/* bos and eos are those that the tokenizer's own template puts around a text. */
static lr_status read_template(lr_model *model, lr_sequence_rules *rules, lr_error *err)
{
    lr_status st = LR_OK;
    lr_ids ids = {0};
    LR_TRY(lr_tokenizer_encode(model->tokenizer, "", 0, true, &ids, err));
    if (ids.count != 2)
        LR_FAIL(LR_E_UNSUPPORTED, "%s/tokenizer.json: the template puts %zu tokens around a text, "
                "must be <bos> and <eos>", model->directory, ids.count);
    rules->bos = ids.ids[0];
    rules->eos = ids.ids[1];
done:
    lr_ids_free(&ids);
    return st;
}

/* A marker: config.json has its id, the tokenizer the same under its text. */
typedef struct marker {
    const char *key, *text;
    int32_t published;
    const char *tower; /* whose spans it marks */
    int32_t *out;
} marker;

/* Two that differ would mark spans with some other token. Without the tower there are no spans, so
 * either side may leave the marker out. */
static lr_status read_marker(const lr_model *model, const lr_config *config, const marker *m,
                             lr_error *err)
{
    lr_status st = lr_config_id(config, m->key, m->published, m->out, err);
    if (st != LR_OK) return st;
    int32_t id = lr_tokenizer_id(model->tokenizer, m->text);
    bool needed = lr_config_has(config, m->tower);
    if (id == *m->out || (!needed && (id < 0 || !lr_config_has(config, m->key)))) return LR_OK;
    if (id < 0)
        return lr_fail(err, LR_E_MODEL, "%s: %s is %d, but %s/tokenizer.json has no token %s",
                       config->file, m->key, *m->out, model->directory, m->text);
    return lr_fail(err, LR_E_MODEL, "%s: %s is %d%s, but the id of %s in %s/tokenizer.json is %d",
                   config->file, m->key, *m->out,
                   lr_config_has(config, m->key) ? "" : " (the default)", m->text, model->directory,
                   id);
}

static lr_status read_rules(lr_model *model, const lr_config *config, lr_error *err)
{
    lr_status st = LR_OK;
    lr_sequence_rules *rules = &model->info.rules;
    const char *vision = "vision_config", *audio = "audio_config";
    const marker markers[] = {
        {"boi_token_id", "<|image>", 255999, vision, &rules->begin_image},
        {"eoi_token_id", "<image|>", 258882, vision, &rules->end_image},
        {"image_token_id", "<|image|>", 258880, vision, &rules->image_soft},
        {"video_token_id", "<|video|>", 258884, vision, &rules->video_soft},
        {"boa_token_id", "<|audio>", 256000, audio, &rules->begin_audio},
        {"eoa_token_index", "<audio|>", 258883, audio, &rules->end_audio},
        {"audio_token_id", "<|audio|>", 258881, audio, &rules->audio_soft},
    };
    LR_TRY(read_template(model, rules, err));
    for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++)
        LR_TRY(read_marker(model, config, &markers[i], err));
    rules->sound_tokens_per_second = 25;
done:
    return st;
}

static lr_status read_budget(const lr_config *processor, const char *key, size_t fallback, int *out,
                             lr_error *err)
{
    lr_status st = LR_OK;
    lr_config child;
    bool present = false;
    size_t budget = fallback;
    if (processor->object) LR_TRY(lr_config_child(processor, key, &child, &present, err));
    if (present) {
        LR_TRY(lr_config_size(&child, "max_soft_tokens", fallback, 1, 1120, &budget, err));
        bool known = false;
        for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++)
            known = known || (size_t)budgets[i] == budget;
        if (!known) {
            st = lr_config_refuse(&child, LR_E_UNSUPPORTED, "max_soft_tokens", err,
                                  "must be 70, 140, 280, 560 or 1120");
            goto done;
        }
    }
    *out = (int)budget;
done:
    return st;
}

/* What sentence-transformers hands the processor on each call goes before the processor's own default. */
static lr_status override_budgets(lr_model *model, lr_error *err)
{
    lr_status st = LR_OK;
    char *path = NULL;
    json_t *document = NULL;
    lr_config top, calls;
    bool present;
    LR_TRY(lr_format(&path, err, "%s/sentence_bert_config.json", model->directory));
    LR_TRY(lr_config_load(path, false, &document, err));
    if (!document) goto done;
    lr_config_top(&top, document, path);
    LR_TRY(lr_config_child(&top, "processing_kwargs", &calls, &present, err));
    if (!present) goto done;
    int *video = &model->info.picture.budget, *image = &model->info.image_budget;
    LR_TRY(read_budget(&calls, "video", (size_t)*video, video, err));
    LR_TRY(read_budget(&calls, "image", (size_t)*image, image, err));
done:
    json_decref(document);
    lr_free(path);
    return st;
}

/* The default budgets of processor_config.json where the checkpoint has one. */
static lr_status read_budgets(lr_model *model, lr_error *err)
{
    lr_status st = LR_OK;
    char *path = NULL;
    json_t *document = NULL;
    lr_config processor;
    LR_TRY(lr_format(&path, err, "%s/processor_config.json", model->directory));
    LR_TRY(lr_config_load(path, false, &document, err));
    lr_config_top(&processor, document, path);
    LR_TRY(read_budget(&processor, "video_processor", 70, &model->info.picture.budget, err));
    LR_TRY(read_budget(&processor, "image_processor", 280, &model->info.image_budget, err));
    LR_TRY(override_budgets(model, err));
done:
    json_decref(document);
    lr_free(path);
    return st;
}

/* Matryoshka widths: 768, 512, 256 and 128 published; the same shares of another width. */
static void list_dims(lr_model *model)
{
    static const int sixths[] = {6, 4, 2, 1};
    size_t n = 0;
    for (size_t i = 0; i < sizeof sixths / sizeof sixths[0]; i++) {
        size_t share = model->info.dim * (size_t)sixths[i];
        if (share % 6 == 0) model->dims[n++] = (int)(share / 6);
    }
    model->info.n_dims = n;
}

/* Multiply-adds of the towers' linear layers a soft token; the rest is less than a tenth. */
static void count_macs(lr_model *model)
{
    const eg2_vision *v = model->vision;
    const eg2_sound *s = model->sound;
    if (v) {
        size_t heads = 2 * (v->n_heads + v->n_kv_heads) * v->head_dim;
        model->info.picture_macs = (double)(v->pool * v->pool * v->n_layers) * (double)v->hidden *
                                   (double)(heads + 3 * v->mlp);
    }
    /* Two of C x 4 C and back, attention, convolution: 16 + 4 + 3 times C x C. */
    if (s) model->info.sound_macs = 23.0 * (double)s->n_layers * (double)s->hidden * (double)s->hidden;
}

static lr_status read_towers(lr_model *model, const lr_config *config,
                             const lr_model_options *options, lr_error *err)
{
    lr_status st = LR_OK;
    lr_model_info *info = &model->info;
    lr_config vision, audio;
    size_t patch = 16, pool = 3;
    LR_TRY(lr_config_child(config, "vision_config", &vision, &info->has_vision, err));
    LR_TRY(lr_config_child(config, "audio_config", &audio, &info->has_audio, err));
    if (info->has_vision) {
        LR_TRY(lr_config_size(&vision, "patch_size", 16, 1, 1024, &patch, err));
        LR_TRY(lr_config_size(&vision, "pooling_kernel_size", 3, 1, 64, &pool, err));
    }
    info->picture.patch = (int)patch;
    info->picture.pool = (int)pool;
    if (options->vision && info->has_vision) LR_TRY(eg2_vision_open(model, &vision, err));
    if (options->audio && info->has_audio) LR_TRY(eg2_sound_open(model, &audio, err));
    count_macs(model);
done:
    return st;
}

static lr_status eg2_open(lr_model *model, const lr_config *config, const lr_model_options *options,
                          lr_error *err)
{
    lr_status st = LR_OK;
    lr_model_info *info = &model->info;
    info->trained_context = 8192;
    info->has_text = true;
    info->budgets = budgets;
    info->n_budgets = sizeof budgets / sizeof budgets[0];
    LR_TRY(load_text(model, config, err));
    info->hidden = model->backbone.hidden;
    info->n_layers = model->backbone.n_layers;
    list_dims(model);
    LR_TRY(read_budgets(model, err));
    LR_TRY(read_towers(model, config, options, err));
done:
    return st;
}

/* ------------------------------------------------------------------ embedding and projection */

static lr_status embed_ids(const lr_model *model, const int32_t *ids, size_t count, float *out,
                           lr_error *err)
{
    const eg2_text *text = model->text;
    const lr_sequence_rules *rules = &model->info.rules;
    const lr_kernels *kernels = model->kernels;
    size_t d = model->backbone.hidden, row_bytes = d * lr_dtype_size(text->embed->dtype);
    for (size_t i = 0; i < count; i++) {
        float *row = out + i * d;
        int32_t id = ids[i];
        if (id == rules->image_soft || id == rules->video_soft || id == rules->audio_soft) {
            memset(row, 0, d * sizeof *row);
            continue;
        }
        if (id < 0 || (size_t)id >= text->vocab_size)
            return lr_fail(err, LR_E_MODEL, "%s: token id %d has no row in the embedding table of %zu",
                           model->directory, id, text->vocab_size);
        const void *source = (const unsigned char *)text->embed->data + (size_t)id * row_bytes;
        /* Here, since a model is opened without a look at the whole table. */
        size_t bad = lr_first_not_finite(text->embed->dtype, source, d);
        if (bad < d)
            return lr_fail(err, LR_E_MODEL,
                           "%s: tensor language_model.embed_tokens.weight has a value that is not "
                           "finite in the row of token id %d (column %zu)",
                           model->directory, id, bad);
        lr_to_f32(kernels, text->embed->dtype, source, d, row);
        kernels->scale(row, row, text->embed_scale, d);
    }
    return LR_OK;
}

static const float *projection(const lr_model *model)
{
    const eg2_text *text = model->text;
    return text->projection;
}

static const lr_task_prompt prompts[] = {
    {"search-query", "task: search result | query: ", "query"},
    {"search-document", "title: none | text: ", "document"},
    {"question-answering", "task: question answering | query: ", NULL},
    {"classification", "task: classification | query: ", "Classification"},
    {"clustering", "task: clustering | query: ", "Clustering"},
    {"sentence-similarity", "task: sentence similarity | query: ", "STS"},
    {"fact-checking", "task: fact checking | query: ", NULL},
    {"code-retrieval", "task: code retrieval | query: ", "InstructionRetrieval"},
    {NULL, NULL, NULL},
};

const lr_family lr_family_embeddinggemma2 = {
    .name = "embeddinggemma2",
    .model_type = "embedding_gemma2",
    .layout = "EmbeddingGemma 2",
    .prefix = "model.",
    .text = true,
    .open = eg2_open,
    .read_rules = read_rules,
    .embed_ids = embed_ids,
    .projection = projection,
    .vision = &eg2_vision_ops,
    .sound = &eg2_sound_ops,
    .prompts = prompts,
    .make = eg2_make,
};
