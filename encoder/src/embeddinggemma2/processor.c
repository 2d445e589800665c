/* processor_config.json says how the published library prepares pictures and sound. Longreel does one
 * thing only, the published one: a file that asks for another is refused by name, since going on
 * would give other vectors without a word. A file or key that is not there means the published one. */
#include <math.h>
#include <string.h>

#include "embeddinggemma2.h"

typedef struct only_number {
    const char *key;
    double value;
} only_number;

static lr_status check_number(const lr_config *config, const char *key, double only, lr_error *err)
{
    double value;
    lr_status st = lr_config_number(config, key, only, -1e12, 1e12, &value, err);
    /* 1/255 is written with more or fewer digits */
    if (st == LR_OK && fabs(value - only) > 1e-6 * fabs(only))
        st = lr_config_refuse(config, LR_E_UNSUPPORTED, key, err, "only %.9g is supported", only);
    return st;
}

static lr_status check_bool(const lr_config *config, const char *key, bool only, lr_error *err)
{
    bool value;
    lr_status st = lr_config_bool(config, key, only, &value, err);
    if (st == LR_OK && value != only)
        st = lr_config_refuse(config, LR_E_UNSUPPORTED, key, err, "only %s is supported",
                              only ? "true" : "false");
    return st;
}

/* A list of which all values are `only`. */
static lr_status check_list(const lr_config *config, const char *key, double only, lr_error *err)
{
    const json_t *list = json_object_get(config->object, key);
    if (!lr_config_has(config, key)) return LR_OK;
    bool same = json_is_array(list);
    for (size_t i = 0; i < json_array_size(list); i++)
        same = same && json_number_value(json_array_get(list, i)) == only;
    return same ? LR_OK : lr_config_refuse(config, LR_E_UNSUPPORTED, key, err,
                                           "only a list of %g is supported", only);
}

static lr_status check_pictures(const lr_config *config, size_t patch, size_t pool, lr_error *err)
{
    lr_status st = LR_OK;
    bool normalize;
    LR_TRY(check_bool(config, "do_resize", true, err));
    LR_TRY(check_number(config, "resample", 3, err)); /* bicubic */
    LR_TRY(check_bool(config, "do_rescale", true, err));
    LR_TRY(check_number(config, "rescale_factor", 1.0 / 255, err));
    LR_TRY(check_number(config, "patch_size", (double)patch, err));
    LR_TRY(check_number(config, "pooling_kernel_size", (double)pool, err));
    LR_TRY(lr_config_bool(config, "do_normalize", false, &normalize, err));
    if (!normalize) goto done;
    LR_TRY(check_list(config, "image_mean", 0, err));
    LR_TRY(check_list(config, "image_std", 1, err));
done:
    return st;
}

static lr_status check_sound(const lr_config *config, lr_error *err)
{
    static const only_number numbers[] = {
        {"feature_size", 128}, {"sampling_rate", 16000}, {"frame_length", 320}, {"hop_length", 160},
        {"fft_length", 512}, {"min_frequency", 0}, {"max_frequency", 8000}, {"mel_floor", 0.001},
        {"preemphasis", 0}, {"dither", 0}, {"input_scale_factor", 1},
    };
    lr_status st = LR_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        LR_TRY(check_number(config, numbers[i].key, numbers[i].value, err));
    LR_TRY(check_list(config, "per_bin_mean", 0, err));
    LR_TRY(check_list(config, "per_bin_stddev", 1, err));
done:
    return st;
}

/* The part `key` of the file into *config; *document keeps it and is to be freed. */
static lr_status load_part(const char *path, const char *key, json_t **document, lr_config *config,
                           bool *present, lr_error *err)
{
    lr_config top;
    *present = false;
    lr_status st = lr_config_load(path, false, document, err);
    if (st != LR_OK || !*document) return st;
    lr_config_top(&top, *document, path);
    return lr_config_child(&top, key, config, present, err);
}

lr_status eg2_check_processor(const lr_model *model, const char *key, size_t patch, size_t pool,
                              lr_error *err)
{
    lr_status st = LR_OK;
    char *path = NULL;
    json_t *document = NULL;
    lr_config config;
    bool present;
    LR_TRY(lr_format(&path, err, "%s/processor_config.json", model->directory));
    LR_TRY(load_part(path, key, &document, &config, &present, err));
    if (!present) goto done;
    if (strcmp(key, "feature_extractor") == 0) LR_TRY(check_sound(&config, err));
    else LR_TRY(check_pictures(&config, patch, pool, err));
done:
    json_decref(document);
    lr_free(path);
    return st;
}
