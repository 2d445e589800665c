/* V-JEPA 2: what opens a checkpoint. Classifiers have "vjepa2." before every name of the encoder, and a pooler
 * and a classifier beside it; these and the predictor are not looked at. */
#include <math.h>

#include "vjepa2.h"

/* Bounds that keep every size below far from overflow. */
#define MOST_WIDTH 65536
#define MOST_LAYERS 1024
#define MOST_HEAD_DIM 512 /* of the attention kernels */
#define MOST_SIDE 16384   /* pixels */
#define MOST_PARTS 64

#define TRAINED_TUBELETS 32
#define THETA 1e4

#define LAYER "encoder.layer.%zu."

/* ------------------------------------------------------------------ config.json */

typedef struct shape {
    size_t heads, crop, patch, parts, mlp;
    bool bias; /* of q, k and v */
} shape;

static lr_status read_shape(lr_model *model, const lr_config *config, shape *out, lr_error *err)
{
    lr_status st = LR_OK;
    lr_backbone *backbone = &model->backbone;
    double eps, ratio;
    LR_TRY(lr_config_only_text(config, "hidden_act", "gelu", err));
    LR_TRY(lr_config_only_size(config, "in_chans", 3, err));
    LR_TRY(lr_config_size(config, "patch_size", 16, 1, MOST_SIDE, &out->patch, err));
    LR_TRY(lr_config_size(config, "crop_size", 256, out->patch, MOST_SIDE, &out->crop, err));
    LR_TRY(lr_config_size(config, "tubelet_size", 2, 1, MOST_PARTS, &out->parts, err));
    LR_TRY(lr_config_size(config, "hidden_size", 1024, 1, MOST_WIDTH, &backbone->hidden, err));
    LR_TRY(lr_config_size(config, "num_hidden_layers", 24, 1, MOST_LAYERS, &backbone->n_layers, err));
    LR_TRY(lr_config_size(config, "num_attention_heads", 16, 1, MOST_WIDTH, &out->heads, err));
    LR_TRY(lr_config_number(config, "mlp_ratio", 4, 1e-3, 1024, &ratio, err));
    LR_TRY(lr_config_number(config, "layer_norm_eps", 1e-6, 0, 1, &eps, err));
    LR_TRY(lr_config_bool(config, "qkv_bias", true, &out->bias, err));
    size_t head_dim = backbone->hidden / out->heads;
    if (backbone->hidden % out->heads != 0)
        LR_TRY(lr_config_refuse(config, LR_E_MODEL, "hidden_size", err,
                                "must be a multiple of num_attention_heads, %zu", out->heads));
    if (head_dim % 2 != 0 || head_dim > MOST_HEAD_DIM)
        LR_FAIL(LR_E_UNSUPPORTED, "%s: heads of width %zu; only even widths up to %d are supported",
                config->file, head_dim, MOST_HEAD_DIM);
    out->mlp = (size_t)((double)backbone->hidden * ratio); /* cut, not rounded */
    if (out->mlp < 1 || out->mlp > 4 * MOST_WIDTH)
        LR_TRY(lr_config_refuse(config, LR_E_UNSUPPORTED, "mlp_ratio", err, "gives an MLP of %zu", out->mlp));
    backbone->eps = (float)eps;
    backbone->mlp = out->mlp;
    backbone->grid = out->crop / out->patch;
done:
    return st;
}

static lr_status fill_info(lr_model *model, const shape *s, lr_error *err)
{
    lr_status st = LR_OK;
    lr_model_info *info = &model->info;
    int *budgets = NULL;
    size_t grid = model->backbone.grid;
    LR_TRY(LR_MODEL_NEW(model, &budgets, 1, "the choices of a model", err));
    budgets[0] = (int)(grid * grid);
    info->hidden = info->dim = model->backbone.hidden;
    info->n_layers = model->backbone.n_layers;
    info->n_dims = 1;
    model->dims[0] = (int)info->dim;
    info->has_vision = true;
    info->trained_context = TRAINED_TUBELETS * grid * grid;
    info->picture = (lr_picture_geometry){.patch = (int)s->patch, .pool = 1, .budget = budgets[0],
                                          .fixed = (int)s->crop};
    info->image_budget = budgets[0];
    info->budgets = budgets;
    info->n_budgets = 1;
    info->rules = (lr_sequence_rules){.soft_only = true, .frame_parts = (int)s->parts};
    info->picture_macs = 3.0 * (double)(s->parts * s->patch * s->patch) * (double)info->hidden;
done:
    return st;
}

/* ------------------------------------------------------------------ weights */

static lr_status load_attention(lr_model *model, size_t i, const shape *s, lr_error *err)
{
    lr_status st = LR_OK;
    lr_layer *layer = &model->backbone.layers[i];
    size_t d = model->backbone.hidden;
    LR_TRY(lr_weights_linear(model, &layer->q, d, d, err, LAYER "attention.query.weight", i));
    LR_TRY(lr_weights_linear(model, &layer->kv, d, d, err, LAYER "attention.{key,value}.weight", i));
    LR_TRY(lr_weights_linear(model, &layer->o, d, d, err, LAYER "attention.proj.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->o_bias, LR_SHAPE(d), err, LAYER "attention.proj.bias", i));
    if (!s->bias) goto done;
    LR_TRY(lr_weights_vector(model, &layer->q_bias, LR_SHAPE(d), err, LAYER "attention.query.bias", i));
    LR_TRY(lr_weights_vector(model, &layer->kv_bias, LR_SHAPE(d), err,
                             LAYER "attention.{key,value}.bias", i));
done:
    return st;
}

static lr_status load_rest(lr_model *model, size_t i, lr_error *err)
{
    lr_status st = LR_OK;
    lr_layer *layer = &model->backbone.layers[i];
    size_t d = model->backbone.hidden, m = model->backbone.mlp;
    LR_TRY(lr_weights_vector(model, &layer->input_norm, LR_SHAPE(d), err, LAYER "norm1.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->input_norm_bias, LR_SHAPE(d), err, LAYER "norm1.bias", i));
    LR_TRY(lr_weights_vector(model, &layer->pre_mlp_norm, LR_SHAPE(d), err, LAYER "norm2.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->pre_mlp_norm_bias, LR_SHAPE(d), err, LAYER "norm2.bias", i));
    LR_TRY(lr_weights_linear(model, &layer->gate_up, m, d, err, LAYER "mlp.fc1.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->gate_up_bias, LR_SHAPE(m), err, LAYER "mlp.fc1.bias", i));
    LR_TRY(lr_weights_linear(model, &layer->down, d, m, err, LAYER "mlp.fc2.weight", i));
    LR_TRY(lr_weights_vector(model, &layer->down_bias, LR_SHAPE(d), err, LAYER "mlp.fc2.bias", i));
done:
    return st;
}

static lr_status load_layers(lr_model *model, const shape *s, lr_error *err)
{
    lr_status st = LR_OK;
    lr_backbone *backbone = &model->backbone;
    size_t d = backbone->hidden, head_dim = d / s->heads, part = 2 * (head_dim / 3 / 2);
    backbone->place_width = part;
    LR_TRY(LR_MODEL_NEW(model, &backbone->layers, backbone->n_layers, "the layers of a model", err));
    for (size_t i = 0; i < backbone->n_layers; i++) {
        lr_layer *layer = &backbone->layers[i];
        layer->mask.kind = LR_MASK_FULL;
        layer->n_heads = layer->n_kv_heads = s->heads;
        layer->head_dim = head_dim;
        if (part > 0) LR_TRY(lr_model_rope(model, part, THETA, &layer->rope, err));
        LR_TRY(load_attention(model, i, s, err));
        LR_TRY(load_rest(model, i, err));
    }
    LR_TRY(lr_weights_vector(model, &backbone->final_norm, LR_SHAPE(d), err, "encoder.layernorm.weight"));
    LR_TRY(lr_weights_vector(model, &backbone->final_norm_bias, LR_SHAPE(d), err, "encoder.layernorm.bias"));
done:
    return st;
}

static lr_status load_tower(lr_model *model, const shape *s, lr_error *err)
{
    lr_status st = LR_OK;
    vj2_tower *tower = NULL;
    const float *values = NULL;
    const char *name = "encoder.embeddings.patch_embeddings.proj.weight";
    LR_TRY(LR_MODEL_NEW(model, &tower, 1, "the patch embedding", err));
    *tower = (vj2_tower){.hidden = model->backbone.hidden, .crop = s->crop, .patch = s->patch,
                         .grid = model->backbone.grid, .parts = s->parts,
                         .values = 3 * s->parts * s->patch * s->patch};
    LR_TRY(vj2_read_processor(model, tower, err));
    LR_TRY(lr_weights_vector(model, &values, LR_SHAPE(tower->hidden, 3, s->parts, s->patch, s->patch), err,
                             "%s", name));
    LR_TRY(lr_weights_linear_values(model, &tower->proj, values, tower->hidden, tower->values, name, err));
    LR_TRY(lr_weights_vector(model, &tower->proj_bias, LR_SHAPE(tower->hidden), err,
                             "encoder.embeddings.patch_embeddings.proj.bias"));
    model->vision = tower;
done:
    return st;
}

static lr_status vj2_open(lr_model *model, const lr_config *config, const lr_model_options *options,
                          lr_error *err)
{
    lr_status st = LR_OK;
    shape s = {0};
    model->backbone.block = &vj2_block;
    model->backbone.device_block = &vj2_device_block;
    model->backbone.layer_norm = true;
    LR_TRY(read_shape(model, config, &s, err));
    LR_TRY(fill_info(model, &s, err));
    LR_TRY(load_layers(model, &s, err));
    if (options->vision) LR_TRY(load_tower(model, &s, err));
done:
    return st;
}

const lr_family lr_family_vjepa2 = {
    .name = "vjepa2",
    .model_type = "vjepa2",
    .layout = "V-JEPA 2",
    .prefix = "vjepa2.",
    .open = vj2_open,
    .vision = &vj2_vision_ops,
    .make = vj2_make,
};
