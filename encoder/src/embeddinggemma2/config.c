/* The text part of config.json: layers as data. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "embeddinggemma2.h"

#define MOST_WIDTH ((size_t)1 << 16)
#define MOST_LAYERS 1024

typedef struct layer_form {
    bool full;
    size_t head_dim, n_kv_heads;
} layer_form;

static lr_status read_layer_types(const lr_config *text, size_t n_layers, layer_form *forms,
                                  lr_error *err)
{
    lr_status st = LR_OK;
    size_t pattern;
    const json_t *types = json_object_get(text->object, "layer_types");
    LR_TRY(lr_config_size(text, "sliding_window_pattern", 6, 1, MOST_LAYERS, &pattern, err));
    if (lr_config_has(text, "layer_types") && json_array_size(types) != n_layers) {
        st = lr_config_refuse(text, LR_E_MODEL, "layer_types", err, "must list %zu layers", n_layers);
        goto done;
    }
    for (size_t i = 0; i < n_layers; i++) {
        forms[i].full = (i + 1) % pattern == 0;
        if (!lr_config_has(text, "layer_types")) continue;
        const char *type = json_string_value(json_array_get(types, i));
        bool sliding = type && strcmp(type, "sliding_attention") == 0;
        forms[i].full = type && strcmp(type, "full_attention") == 0;
        if (!sliding && !forms[i].full) {
            st = lr_config_refuse(text, LR_E_UNSUPPORTED, "layer_types", err,
                                  "entry %zu must be \"sliding_attention\" or \"full_attention\"", i);
            goto done;
        }
    }
    forms[n_layers - 1].full = true; /* the published library forces the last layer */
done:
    return st;
}

/* A layer number as a string of digits, zeros in front allowed. */
static bool parse_layer(const char *key, size_t n_layers, size_t *out)
{
    size_t value = 0, length = strlen(key);
    if (length == 0 || length > 9) return false;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)key[i])) return false;
        value = 10 * value + (size_t)(key[i] - '0');
    }
    *out = value;
    return value < n_layers;
}

static lr_status read_override(const lr_config *layer, const lr_config *text, layer_form *form,
                               lr_error *err)
{
    lr_status st = LR_OK;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)layer->object, key, value) {
        if (strcmp(key, "head_dim") == 0 || strcmp(key, "num_key_value_heads") == 0) continue;
        const json_t *common = json_object_get(text->object, key);
        bool empty_skip = strcmp(key, "skip") == 0 && json_is_array(value) &&
                          json_array_size(value) == 0;
        if (empty_skip || (common && json_equal(common, value))) continue;
        st = lr_config_refuse(layer, LR_E_UNSUPPORTED, key, err,
                              "only head_dim and num_key_value_heads may differ by layer");
        goto done;
    }
    LR_TRY(lr_config_size(layer, "head_dim", form->head_dim, 2, 512, &form->head_dim, err));
    LR_TRY(lr_config_size(layer, "num_key_value_heads", form->n_kv_heads, 1, MOST_WIDTH,
                          &form->n_kv_heads, err));
done:
    return st;
}

static lr_status read_overrides(const lr_config *text, size_t n_layers, layer_form *forms,
                                lr_error *err)
{
    lr_status st = LR_OK;
    lr_config map, layer;
    bool present;
    const char *key;
    json_t *value;
    size_t number;
    LR_TRY(lr_config_child(text, "per_layer_config", &map, &present, err));
    if (!present) goto done; /* null: all layers alike */
    json_object_foreach((json_t *)(uintptr_t)map.object, key, value) {
        if (!parse_layer(key, n_layers, &number)) {
            st = lr_config_refuse(&map, LR_E_MODEL, key, err, "the key must be a layer from 0 to %zu",
                                  n_layers - 1);
            goto done;
        }
        LR_TRY(lr_config_child(&map, key, &layer, &present, err));
        if (present) LR_TRY(read_override(&layer, text, &forms[number], err));
    }
done:
    return st;
}

/* Head width and KV heads: common ones, then per_layer_config, or where that key is absent the full
 * layers' own. */
static lr_status read_forms(const lr_config *text, size_t n_layers, layer_form *forms, lr_error *err)
{
    lr_status st = LR_OK;
    size_t head_dim, n_kv_heads, full_dim, full_kv_heads;
    LR_TRY(lr_config_size(text, "head_dim", 256, 2, 512, &head_dim, err));
    LR_TRY(lr_config_size(text, "num_key_value_heads", 2, 1, MOST_WIDTH, &n_kv_heads, err));
    LR_TRY(lr_config_size(text, "global_head_dim", 512, 2, 512, &full_dim, err));
    LR_TRY(lr_config_size(text, "num_global_key_value_heads", 1, 1, MOST_WIDTH, &full_kv_heads, err));
    LR_TRY(read_layer_types(text, n_layers, forms, err));
    bool derived = json_object_get(text->object, "per_layer_config") == NULL;
    for (size_t i = 0; i < n_layers; i++) {
        forms[i].head_dim = derived && forms[i].full ? full_dim : head_dim;
        forms[i].n_kv_heads = derived && forms[i].full ? full_kv_heads : n_kv_heads;
    }
    if (!derived) LR_TRY(read_overrides(text, n_layers, forms, err));
done:
    return st;
}

/* rope_parameters holds one object for each layer type that occurs; absent altogether: the defaults. */
static lr_status read_theta(const lr_config *text, const char *type, double fallback, double *theta,
                            lr_error *err)
{
    lr_status st = LR_OK;
    lr_config all, one;
    bool present;
    double partial;
    *theta = fallback;
    LR_TRY(lr_config_child(text, "rope_parameters", &all, &present, err));
    if (!present) goto done;
    LR_TRY(lr_config_child(&all, type, &one, &present, err));
    if (!present) {
        st = lr_config_refuse(&all, LR_E_MODEL, type, err, "must be an object with rope_theta");
        goto done;
    }
    LR_TRY(lr_config_only_text(&one, "rope_type", "default", err));
    LR_TRY(lr_config_number(&one, "partial_rotary_factor", 1, 0, 1, &partial, err));
    if (partial < 1) {
        st = lr_config_refuse(&one, LR_E_UNSUPPORTED, "partial_rotary_factor", err,
                              "only 1 is supported");
        goto done;
    }
    if (!lr_config_has(&one, "rope_theta")) {
        st = lr_config_refuse(&one, LR_E_MODEL, "rope_theta", err, "must be a number");
        goto done;
    }
    LR_TRY(lr_config_number(&one, "rope_theta", fallback, 1e-3, 1e15, theta, err));
done:
    return st;
}

static lr_status fill_layers(lr_model *model, const lr_config *text, const layer_form *forms,
                             lr_error *err)
{
    lr_status st = LR_OK;
    lr_backbone *backbone = &model->backbone;
    size_t n_heads, window;
    double theta[2];
    LR_TRY(lr_config_size(text, "num_attention_heads", 4, 1, MOST_WIDTH, &n_heads, err));
    LR_TRY(lr_config_size(text, "sliding_window", 512, 0, INT32_MAX, &window, err));
    bool sliding = false;
    for (size_t i = 0; i < backbone->n_layers; i++) sliding = sliding || !forms[i].full;
    if (sliding) LR_TRY(read_theta(text, "sliding_attention", 1e4, &theta[0], err));
    LR_TRY(read_theta(text, "full_attention", 1e6, &theta[1], err));
    for (size_t i = 0; i < backbone->n_layers; i++) {
        lr_layer *layer = &backbone->layers[i];
        const layer_form *form = &forms[i];
        if (n_heads % form->n_kv_heads != 0 || n_heads * form->head_dim > MOST_WIDTH)
            LR_FAIL(LR_E_UNSUPPORTED, "%s: layer %zu: %zu query heads of width %zu do not share %zu "
                    "key heads evenly, or are too wide", text->file, i, n_heads, form->head_dim,
                    form->n_kv_heads);
        if (form->head_dim % 2 != 0)
            LR_FAIL(LR_E_UNSUPPORTED, "%s: layer %zu: head_dim is %zu, must be even", text->file, i,
                    form->head_dim);
        layer->mask.kind = form->full ? LR_MASK_FULL : LR_MASK_WINDOW;
        layer->mask.radius = form->full ? 0 : window;
        layer->n_heads = n_heads;
        layer->n_kv_heads = form->n_kv_heads;
        layer->head_dim = form->head_dim;
        LR_TRY(lr_model_rope(model, form->head_dim, theta[form->full], &layer->rope, err));
    }
done:
    return st;
}

lr_status eg2_read_text(lr_model *model, const lr_config *text, eg2_text *out, bool *bias,
                        lr_error *err)
{
    lr_status st = LR_OK;
    lr_backbone *backbone = &model->backbone;
    layer_form *forms = NULL;
    size_t dim;
    double eps;
    LR_TRY(lr_config_only_text(text, "hidden_activation", "gelu_pytorch_tanh", err));
    LR_TRY(lr_config_bool(text, "attention_bias", false, bias, err));
    LR_TRY(lr_config_size(text, "vocab_size", 262144, 1, (size_t)1 << 28, &out->vocab_size, err));
    LR_TRY(lr_config_size(text, "hidden_size", 512, 1, MOST_WIDTH, &backbone->hidden, err));
    LR_TRY(lr_config_size(text, "intermediate_size", 2048, 1, MOST_WIDTH, &backbone->mlp, err));
    LR_TRY(lr_config_size(text, "hidden_size_per_layer_input", 512, 1, MOST_WIDTH, &backbone->ple,
                          err));
    LR_TRY(lr_config_size(text, "num_hidden_layers", 24, 1, MOST_LAYERS, &backbone->n_layers, err));
    LR_TRY(lr_config_size(text, "embedding_dim", 768, 1, MOST_WIDTH, &dim, err));
    LR_TRY(lr_config_number(text, "rms_norm_eps", 1e-6, 0, 1, &eps, err));
    model->info.dim = dim;
    backbone->eps = (float)eps;
    LR_TRY(LR_MODEL_NEW(model, &backbone->layers, backbone->n_layers, "the layers of a model", err));
    LR_TRY(LR_NEW(&forms, backbone->n_layers, "the layers of a model", err));
    LR_TRY(read_forms(text, backbone->n_layers, forms, err));
    LR_TRY(fill_layers(model, text, forms, err));
done:
    lr_free(forms);
    return st;
}
