/* modules.json and the pooling's config.json say how sentence-transformers makes a vector of a checkpoint's
 * hidden states. Longreel does one thing only: the mean over all tokens, then length 1. Files that ask
 * for another are refused, since going on would give other vectors without a word; without the files
 * that one is meant. */
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
                           lr_error *err)
{
    bool value;
    lr_status st = lr_config_bool(config, key, fallback, &value, err);
    if (st == LR_OK && value != only)
        st = lr_config_refuse(config, LR_E_UNSUPPORTED, key, err,
                              "only %s is supported: vectors are means over all tokens",
                              only ? "true" : "false");
    return st;
}

/* One flag for each mode, or "pooling_mode": a name or a list of names. */
static lr_status check_pooling(const lr_config *config, lr_error *err)
{
    lr_status st = LR_OK;
    const char *key, *modes = "pooling_mode_", *mean = "pooling_mode_mean_tokens", *mode = NULL;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)config->object, key, value)
        if (strncmp(key, modes, strlen(modes)) == 0 && strcmp(key, mean) != 0)
            LR_TRY(only_bool(config, key, false, false, err));
    LR_TRY(only_bool(config, mean, true, true, err));
    LR_TRY(only_bool(config, "include_prompt", true, true, err));
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
    json_decref(pooling);
    json_decref(modules);
    lr_free(pooling_file);
    lr_free(file);
    return st;
}
