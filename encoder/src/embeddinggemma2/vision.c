#include "vision.h"

#include <string.h>

/* Bounds that keep every size below far from overflow. */
#define MOST_WIDTH 65536
#define MOST_LAYERS 1024
#define MOST_HEADS 1024
#define MOST_HEAD_DIM 512 /* of the attention kernels */
#define MOST_PATCH 256
#define MOST_POOL 64
#define MOST_POSITIONS ((size_t)1 << 20)

static lr_status read_rope(lr_model *model, const lr_config *config, eg2_vision *v, lr_error *err)
{
    lr_status st = LR_OK;
    lr_config rope = *config;
    bool present;
    const char *type = NULL;
    double theta = 100;
    LR_TRY(lr_config_child(config, "rope_parameters", &rope, &present, err));
    if (present) {
        /* "default" stands in files from before the kind had a name */
        LR_TRY(lr_config_text(&rope, "rope_type", "axial", &type, err));
        if (strcmp(type, "default") != 0) LR_TRY(lr_config_only_text(&rope, "rope_type", "axial", err));
        LR_TRY(lr_config_number(&rope, "rope_theta", theta, 1e-3, 1e12, &theta, err));
    }
    LR_TRY(lr_model_rope(model, v->head_dim / 2, theta, &v->rope, err));
done:
    return st;
}

static lr_status read_shape(const lr_config *config, eg2_vision *v, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(lr_config_size(config, "hidden_size", 768, 1, MOST_WIDTH, &v->hidden, err));
    LR_TRY(lr_config_size(config, "intermediate_size", 3072, 1, MOST_WIDTH, &v->mlp, err));
    LR_TRY(lr_config_size(config, "num_hidden_layers", 16, 1, MOST_LAYERS, &v->n_layers, err));
    LR_TRY(lr_config_size(config, "num_attention_heads", 12, 1, MOST_HEADS, &v->n_heads, err));
    LR_TRY(lr_config_size(config, "num_key_value_heads", 12, 1, v->n_heads, &v->n_kv_heads, err));
    if (v->n_heads % v->n_kv_heads)
        LR_TRY(lr_config_refuse(config, LR_E_MODEL, "num_key_value_heads", err,
                                "must divide num_attention_heads (%zu)", v->n_heads));
    LR_TRY(lr_config_size(config, "head_dim", 64, 4, MOST_HEAD_DIM, &v->head_dim, err));
    if (v->head_dim % 4)
        LR_TRY(lr_config_refuse(config, LR_E_MODEL, "head_dim", err,
                                "must be a multiple of 4: each half of a head is turned in pairs"));
    LR_TRY(lr_config_size(config, "patch_size", 16, 1, MOST_PATCH, &v->patch, err));
    LR_TRY(lr_config_size(config, "pooling_kernel_size", 3, 1, MOST_POOL, &v->pool, err));
    LR_TRY(lr_config_size(config, "position_embedding_size", 10240, 1, MOST_POSITIONS,
                          &v->positions, err));
done:
    return st;
}

static lr_status load_layer(lr_model *model, const eg2_vision *v, size_t i, bool clipped,
                            lr_error *err)
{
    lr_status st = LR_OK;
    eg2_vision_layer *layer = &v->layers[i];
    const char *at = "vision_tower.encoder.layers";
    size_t d = v->hidden, heads = v->n_heads * v->head_dim, kv = v->n_kv_heads * v->head_dim;
    const struct {
        const float **out;
        size_t width;
        const char *name;
    } norms[] = {
        {&layer->input_norm, d, "input_layernorm"},
        {&layer->post_attention_norm, d, "post_attention_layernorm"},
        {&layer->pre_mlp_norm, d, "pre_feedforward_layernorm"},
        {&layer->post_mlp_norm, d, "post_feedforward_layernorm"},
        {&layer->q_norm, v->head_dim, "self_attn.q_norm"},
        {&layer->k_norm, v->head_dim, "self_attn.k_norm"},
    };
    const struct {
        lr_dense *out;
        size_t n, k;
        const char *name;
    } linears[] = {
        {&layer->q, heads, d, "self_attn.q_proj"}, {&layer->k, kv, d, "self_attn.k_proj"},
        {&layer->v, kv, d, "self_attn.v_proj"},    {&layer->o, d, heads, "self_attn.o_proj"},
        {&layer->gate, v->mlp, d, "mlp.gate_proj"}, {&layer->up, v->mlp, d, "mlp.up_proj"},
        {&layer->down, d, v->mlp, "mlp.down_proj"},
    };
    for (size_t j = 0; j < sizeof norms / sizeof *norms; j++)
        LR_TRY(lr_weights_vector(model, norms[j].out, LR_SHAPE(norms[j].width), err,
                                 "%s.%zu.%s.weight", at, i, norms[j].name));
    for (size_t j = 0; j < sizeof linears / sizeof *linears; j++)
        LR_TRY(lr_weights_dense(model, linears[j].out, clipped, linears[j].n, linears[j].k, err,
                                "%s.%zu.%s", at, i, linears[j].name));
done:
    return st;
}

static lr_status load_weights(lr_model *model, eg2_vision *v, bool clipped, bool standardize,
                              lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(lr_weights_linear(model, &v->input_proj, v->hidden, 3 * v->patch * v->patch, err,
                             "vision_tower.patch_embedder.input_proj.weight"));
    LR_TRY(lr_weights_tensor(model, &v->position_table, LR_SHAPE(2, v->positions, v->hidden), err,
                             "vision_tower.patch_embedder.position_embedding_table"));
    LR_TRY(lr_weights_finite(model, v->position_table, err,
                             "vision_tower.patch_embedder.position_embedding_table"));
    LR_TRY(LR_MODEL_NEW(model, &v->layers, v->n_layers, "layers of the vision tower", err));
    for (size_t i = 0; i < v->n_layers; i++) LR_TRY(load_layer(model, v, i, clipped, err));
    if (standardize) {
        LR_TRY(lr_weights_vector(model, &v->std_bias, LR_SHAPE(v->hidden), err,
                                 "vision_tower.std_bias"));
        LR_TRY(lr_weights_vector(model, &v->std_scale, LR_SHAPE(v->hidden), err,
                                 "vision_tower.std_scale"));
    }
    LR_TRY(lr_weights_linear(model, &v->projector, v->soft, v->hidden, err,
                             "embed_vision.embedding_projection.weight"));
done:
    return st;
}

lr_status eg2_vision_open(lr_model *model, const lr_config *config, lr_error *err)
{
    lr_status st = LR_OK;
    eg2_vision *v = NULL;
    bool clipped, standardize, bias;
    double eps;
    LR_TRY(LR_MODEL_NEW(model, &v, 1, "the vision tower", err));
    v->soft = model->info.hidden;
    LR_TRY(lr_config_only_text(config, "hidden_activation", "gelu_pytorch_tanh", err));
    LR_TRY(lr_config_bool(config, "attention_bias", false, &bias, err));
    if (bias)
        LR_TRY(lr_config_refuse(config, LR_E_UNSUPPORTED, "attention_bias", err,
                                "only false is supported"));
    LR_TRY(read_shape(config, v, err));
    LR_TRY(read_rope(model, config, v, err));
    LR_TRY(lr_config_number(config, "rms_norm_eps", 1e-6, 0, 1, &eps, err));
    LR_TRY(lr_config_bool(config, "use_clipped_linears", false, &clipped, err));
    LR_TRY(lr_config_bool(config, "standardize", false, &standardize, err));
    v->eps = (float)eps;
    LR_TRY(eg2_check_processor(model, "image_processor", v->patch, v->pool, err));
    LR_TRY(eg2_check_processor(model, "video_processor", v->patch, v->pool, err));
    LR_TRY(load_weights(model, v, clipped, standardize, err));
    model->vision = v;
done:
    return st;
}
