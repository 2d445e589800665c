/* modules.json, the pooling's config.json and sentence_bert_config.json say how sentence-transformers makes a
 * vector of a checkpoint's hidden states. Longreel does one thing only: the mean over all tokens, then
 * length 1. Files that ask for another are refused, since going on would give other vectors without a word;
 * without the files that one is meant. */
#include <stdio.h>
#include <string.h>

#include "model.h"

#define POOLING "1_Pooling" /* where the library itself writes it */

static const char *const kinds[] = {"Transformer", "Pooling", "Normalize"};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* The library's class of that name, wherever its versions keep it: sentence_transformers.(...).Pooling. */
static bool is_kind(const char *type, const char *kind)
{
    const char *library = "sentence_transformers.", *last = strrchr(type, '.');
    return strncmp(type, library, strlen(library)) == 0 && strcmp(last + 1, kind) == 0;
}

/* Names below the checkpoint's directory only. */
static bool is_inside(const char *path)
{
    if (path[0] == '/') return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) return false;
    }
    return true;
}

/* Entry i of the list. *path: the module's folder. */
static lr_status check_module(const json_t *list, const char *file, size_t i, const char **path,
                              lr_error *err)
{
    lr_status st = LR_OK;
    lr_config module;
    const char *type = NULL;
    lr_config_top(&module, json_array_get(list, i), file);
    (void)snprintf(module.path, sizeof module.path, "[%zu].", i);
    if (!json_is_object(module.object))
        LR_FAIL(LR_E_MODEL, "%s: entry %zu is not an object", file, i);
    LR_TRY(lr_config_text(&module, "type", "", &type, err));
    LR_TRY(lr_config_text(&module, "path", "", path, err));
    if (i >= KINDS || !is_kind(type, kinds[i]))
        LR_TRY(lr_config_refuse(&module, LR_E_UNSUPPORTED, "type", err,
                                "only sentence_transformers' Transformer, Pooling and Normalize, in this "
                                "order, are supported"));
    if (i == 0 && (*path)[0] != '\0')
        LR_TRY(lr_config_refuse(&module, LR_E_UNSUPPORTED, "path", err,
                                "only \"\" is supported: the checkpoint's own folder"));
    if (!is_inside(*path))
        LR_TRY(lr_config_refuse(&module, LR_E_MODEL, "path", err,
                                "must be a folder of the checkpoint"));
done:
    return st;
}

/* *pooling: the folder of the pooling's config.json. */
static lr_status check_modules(const json_t *list, const char *file, const char **pooling,
                               lr_error *err)
{
    lr_status st = LR_OK;
    const char *path = NULL;
    size_t count = json_array_size(list);
    for (size_t i = 0; i < count; i++) {
        LR_TRY(check_module(list, file, i, &path, err));
        if (i == 1) *pooling = path;
    }
    /* vectors always have length 1, so a list without Normalize differs in length only */
    if (count < 2)
        LR_FAIL(LR_E_UNSUPPORTED, "%s: lists %zu modules; only Transformer, Pooling and Normalize are "
                "supported", file, count);
done:
    return st;
}

static lr_status only_bool(const lr_config *config, const char *key, bool fallback, bool only,
                           const char *because, lr_error *err)
{
    bool value;
    lr_status st = lr_config_bool(config, key, fallback, &value, err);
    if (st == LR_OK && value != only)
        st = lr_config_refuse(config, LR_E_UNSUPPORTED, key, err,
                              "only %s is supported: %s", only ? "true" : "false", because);
    return st;
}

/* One flag for each mode, or "pooling_mode": a name or a list of names. */
static lr_status check_pooling(const lr_config *config, lr_error *err)
{
    lr_status st = LR_OK;
    const char *key, *modes = "pooling_mode_", *mean = "pooling_mode_mean_tokens", *mode = NULL;
    const char *because = "vectors are means over all tokens";
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)config->object, key, value)
        if (strncmp(key, modes, strlen(modes)) == 0 && strcmp(key, mean) != 0)
            LR_TRY(only_bool(config, key, false, false, because, err));
    LR_TRY(only_bool(config, mean, true, true, because, err));
    LR_TRY(only_bool(config, "include_prompt", true, true, because, err));
    const json_t *names = json_object_get(config->object, "pooling_mode");
    if (json_is_array(names)) {
        mode = json_string_value(json_array_get(names, 0));
        if (json_array_size(names) != 1 || !mode || strcmp(mode, "mean") != 0)
            LR_TRY(lr_config_refuse(config, LR_E_UNSUPPORTED, "pooling_mode", err,
                                    "only \"mean\" is supported"));
    } else LR_TRY(lr_config_only_text(config, "pooling_mode", "mean", err));
done:
    return st;
}

/* ------------------------------------------------------------------ the Transformer's own file */

static bool is_one_of(const char *key, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(key, *names) == 0) return true;
    return false;
}

/* The object under `key`, where there is one, holds nothing but `names`: what changes no vector, or what
 * Longreel has an option for. */
static lr_status only_keys(const lr_config *parent, const char *key, const char *const *names, lr_error *err)
{
    lr_status st = LR_OK;
    lr_config config;
    bool present;
    const char *name;
    json_t *value;
    LR_TRY(lr_config_child(parent, key, &config, &present, err));
    if (!present) goto done;
    json_object_foreach((json_t *)(uintptr_t)config.object, name, value)
        if (!json_is_null(value) && !is_one_of(name, names))
            LR_TRY(lr_config_refuse(&config, LR_E_UNSUPPORTED, name, err, "is not supported"));
done:
    return st;
}

/* What the library passes to the processor on each call. The budgets of pictures are read by the family; how
 * clips are sampled and where long inputs are cut is said by Longreel's own options. */
static lr_status check_processing(const lr_config *config, lr_error *err)
{
    static const char *const text[] = {"padding", "padding_side", "truncation", "max_length", NULL};
    static const char *const picture[] = {"max_soft_tokens", "return_tensors", NULL};
    static const char *const video[] = {
        "max_soft_tokens", "fps", "num_frames", "max_frames", "overflow_strategy", "do_sample_frames",
        "add_timestamps", "load_audio_from_video", "return_metadata", "return_tensors", NULL};
    static const char *const audio[] = {"padding", "truncation", "max_length", "return_attention_mask",
                                        "return_tensors", NULL};
    static const char *const common[] = {"padding", "return_tensors", NULL};
    lr_status st = LR_OK;
    lr_config processing;
    bool present;
    LR_TRY(lr_config_child(config, "processing_kwargs", &processing, &present, err));
    if (!present) goto done;
    LR_TRY(only_keys(&processing, "text", text, err));
    LR_TRY(only_keys(&processing, "image", picture, err));
    LR_TRY(only_keys(&processing, "video", video, err));
    LR_TRY(only_keys(&processing, "audio", audio, err));
    LR_TRY(only_keys(&processing, "common", common, err));
done:
    return st;
}

/* Which of the model's outputs is pooled, for each kind of input. */
static lr_status check_modalities(const lr_config *config, lr_error *err)
{
    lr_status st = LR_OK;
    lr_config all, one;
    bool present;
    const char *key;
    json_t *value;
    LR_TRY(lr_config_child(config, "modality_config", &all, &present, err));
    if (!present) goto done;
    json_object_foreach((json_t *)(uintptr_t)all.object, key, value) {
        LR_TRY(lr_config_child(&all, key, &one, &present, err));
        if (!present) continue;
        LR_TRY(lr_config_only_text(&one, "method", "forward", err));
        const json_t *output = json_object_get(one.object, "method_output_name");
        if (json_array_size(output) == 1) output = json_array_get(output, 0);
        if (!json_is_string(output) || strcmp(json_string_value(output), "last_hidden_state") != 0)
            LR_TRY(lr_config_refuse(&one, LR_E_UNSUPPORTED, "method_output_name", err,
                                    "only \"last_hidden_state\" is supported"));
    }
done:
    return st;
}

/* max_seq_length, query_length and document_length cut texts; Longreel cuts nothing. What says how weights are
 * loaded (model_args) is not looked at. */
static lr_status check_transformer(const lr_config *config, lr_error *err)
{
    static const char *const tokenizer[] = {"padding_side", "model_max_length", "use_fast", "trust_remote_code",
                                            NULL};
    static const char *const loading[] = {"trust_remote_code", NULL};
    lr_status st = LR_OK;
    size_t most;
    LR_TRY(lr_config_only_text(config, "transformer_task", "feature-extraction", err));
    LR_TRY(lr_config_only_text(config, "module_output_name", "token_embeddings", err));
    LR_TRY(lr_config_size(config, "max_seq_length", 1, 1, SIZE_MAX, &most, err));
    LR_TRY(only_bool(config, "do_lower_case", false, false, "texts are taken as they are", err));
    LR_TRY(only_keys(config, "tokenizer_args", tokenizer, err));
    LR_TRY(only_keys(config, "processor_kwargs", tokenizer, err));
    LR_TRY(only_keys(config, "config_args", loading, err));
    LR_TRY(only_keys(config, "config_kwargs", loading, err));
    if (lr_config_has(config, "query_expansion"))
        LR_TRY(lr_config_refuse(config, LR_E_UNSUPPORTED, "query_expansion", err, "is not supported"));
    LR_TRY(check_modalities(config, err));
    LR_TRY(check_processing(config, err));
done:
    return st;
}

static lr_status check_transformer_file(const lr_model *model, lr_error *err)
{
    lr_status st = LR_OK;
    char *file = NULL;
    json_t *document = NULL;
    lr_config config;
    LR_TRY(lr_format(&file, err, "%s/sentence_bert_config.json", model->directory));
    LR_TRY(lr_config_load(file, false, &document, err));
    if (!document) goto done;
    lr_config_top(&config, document, file);
    LR_TRY(check_transformer(&config, err));
done:
    json_decref(document);
    lr_free(file);
    return st;
}

lr_status lr_model_check_sentence(const lr_model *model, lr_error *err)
{
    lr_status st = LR_OK;
    char *file = NULL, *pooling_file = NULL;
    json_t *modules = NULL, *pooling = NULL;
    const char *folder = POOLING;
    lr_config config;
    LR_TRY(lr_format(&file, err, "%s/modules.json", model->directory));
    LR_TRY(lr_config_load_list(file, &modules, err));
    if (modules) LR_TRY(check_modules(modules, file, &folder, err));
    LR_TRY(lr_format(&pooling_file, err, "%s/%s/config.json", model->directory, folder));
    LR_TRY(lr_config_load(pooling_file, false, &pooling, err));
    if (!pooling) goto done;
    lr_config_top(&config, pooling, pooling_file);
    LR_TRY(check_pooling(&config, err));
done:
    if (st == LR_OK) st = check_transformer_file(model, err);
    json_decref(pooling);
    json_decref(modules);
    lr_free(pooling_file);
    lr_free(file);
    return st;
}
