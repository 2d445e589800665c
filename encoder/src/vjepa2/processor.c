/* video_preprocessor_config.json says how the published library prepares frames, or "video_processor" in
 * processor_config.json, which goes before it. `size` is not looked at: the library overwrites it by
 * crop * 256 / 224 too. */
#include <math.h>

#include "vjepa2.h"

static lr_status check_bool(const lr_config *config, const char *key, lr_error *err)
{
    bool value;
    lr_status st = lr_config_bool(config, key, true, &value, err);
    if (st == LR_OK && !value)
        st = lr_config_refuse(config, LR_E_UNSUPPORTED, key, err, "only true is supported");
    return st;
}

/* An integer, or {"height", "width"}. */
static lr_status read_crop(const lr_config *config, size_t fallback, size_t *width, size_t *height,
                           lr_error *err)
{
    lr_config sides;
    bool present = false;
    if (!json_is_object(json_object_get(config->object, "crop_size"))) {
        lr_status st = lr_config_size(config, "crop_size", fallback, 1, 65536, width, err);
        *height = *width;
        return st;
    }
    lr_status st = lr_config_child(config, "crop_size", &sides, &present, err);
    if (st == LR_OK) st = lr_config_size(&sides, "height", fallback, 1, 65536, height, err);
    if (st == LR_OK) st = lr_config_size(&sides, "width", fallback, 1, 65536, width, err);
    return st;
}

static lr_status read_three(const lr_config *config, const char *key, double least, double values[3],
                            lr_error *err)
{
    const json_t *list = json_object_get(config->object, key);
    if (!lr_config_has(config, key)) return LR_OK;
    bool good = json_is_array(list) && json_array_size(list) == 3;
    for (size_t i = 0; good && i < 3; i++) {
        const json_t *value = json_array_get(list, i);
        values[i] = json_number_value(value);
        good = json_is_number(value) && values[i] >= least && values[i] <= 1e6;
    }
    return good ? LR_OK : lr_config_refuse(config, LR_E_MODEL, key, err, "must be three numbers from %g to 1e6",
                                           least);
}

static lr_status read_all(const lr_config *config, size_t crop, double mean[3], double deviation[3],
                          double *factor, lr_error *err)
{
    static const char *const steps[] = {"do_resize", "do_center_crop", "do_rescale", "do_normalize"};
    lr_status st = LR_OK;
    size_t width, height;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) LR_TRY(check_bool(config, steps[i], err));
    LR_TRY(lr_config_only_size(config, "resample", 2, err)); /* bilinear */
    LR_TRY(read_crop(config, crop, &width, &height, err));
    if (width != crop || height != crop) {
        st = lr_config_refuse(config, LR_E_UNSUPPORTED, "crop_size", err,
                              "must be config.json's, %zu: other positions would be wrong", crop);
        goto done;
    }
    LR_TRY(read_three(config, "image_mean", -1e6, mean, err));
    LR_TRY(read_three(config, "image_std", 1e-6, deviation, err));
    LR_TRY(lr_config_number(config, "rescale_factor", 1.0 / 255, 1e-6, 1e6, factor, err));
done:
    return st;
}

/* *present: whether there is such a part. *document keeps it and is to be freed. */
static lr_status load_processor(const lr_model *model, char **path, json_t **document, lr_config *config,
                                bool *present, lr_error *err)
{
    lr_status st = LR_OK;
    lr_config top;
    *present = false;
    LR_TRY(lr_format(path, err, "%s/processor_config.json", model->directory));
    LR_TRY(lr_config_load(*path, false, document, err));
    if (*document) {
        lr_config_top(&top, *document, *path);
        LR_TRY(lr_config_child(&top, "video_processor", config, present, err));
    }
    if (*present) goto done;
    json_decref(*document);
    *document = NULL;
    lr_free(*path);
    *path = NULL;
    LR_TRY(lr_format(path, err, "%s/video_preprocessor_config.json", model->directory));
    LR_TRY(lr_config_load(*path, false, document, err));
    if (*document) lr_config_top(config, *document, *path);
    *present = *document != NULL;
done:
    return st;
}

lr_status vj2_read_processor(const lr_model *model, vj2_tower *tower, lr_error *err)
{
    lr_status st = LR_OK;
    char *path = NULL;
    json_t *document = NULL;
    lr_config config;
    double mean[3] = {0.485, 0.456, 0.406}, deviation[3] = {0.229, 0.224, 0.225}, factor = 1.0 / 255;
    bool present;
    LR_TRY(load_processor(model, &path, &document, &config, &present, err));
    if (present) LR_TRY(read_all(&config, tower->crop, mean, deviation, &factor, err));
    /* As the library does it in fp32, with both scaled by 1 / rescale_factor. */
    for (size_t c = 0; c < 3; c++) {
        float m = (float)mean[c] * (float)(1 / factor), d = (float)deviation[c] * (float)(1 / factor);
        for (size_t i = 0; i < 256; i++) tower->value[c][i] = ((float)i - m) / d;
    }
done:
    json_decref(document);
    lr_free(path);
    return st;
}
