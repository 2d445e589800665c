#include "sound.h"

#include <float.h>
#include <math.h>

/* Bounds that keep every size below far from overflow. */
#define MOST_WIDTH 16384
#define MOST_LAYERS 1024
#define MOST_WINDOW 1024
#define MOST_KERNEL 64
#define MOST_CHANNELS 4096

size_t eg2_sound_look_back(const eg2_sound *tower)
{
    /* A layer looks back window - 1 tokens in attention, and from there kernel - 1 in the convolution
     * that follows; the layers' reach adds up. (The subsampling's reach, three frames, is met with
     * samples: lr_sound_tower_first_sample.) Published: 12 * (11 + 4) = 180. */
    return tower->n_layers * (tower->window - 1 + tower->kernel - 1);
}

/* ------------------------------------------------------------------ configuration */

static lr_status read_channels(const lr_config *config, eg2_sound *s, lr_error *err)
{
    const json_t *list = json_object_get(config->object, "subsampling_conv_channels");
    s->channels[0] = 128;
    s->channels[1] = 32;
    if (!lr_config_has(config, "subsampling_conv_channels")) return LR_OK;
    for (size_t i = 0; i < 2; i++) {
        json_int_t value = json_integer_value(json_array_get(list, i));
        if (json_array_size(list) != 2 || value < 1 || value > MOST_CHANNELS)
            return lr_config_refuse(config, LR_E_MODEL, "subsampling_conv_channels", err,
                                    "must be two integers from 1 to %d", MOST_CHANNELS);
        s->channels[i] = (size_t)value;
    }
    return LR_OK;
}

/* The window: the reference masks keys at a distance of context_left - 1 and more. Its chunks leave
 * no other trace than the relative positions (load_relative). */
static lr_status read_attention(const lr_config *config, eg2_sound *s, size_t *chunk, lr_error *err)
{
    lr_status st = LR_OK;
    size_t left;
    double masked, cap;
    LR_TRY(lr_config_size(config, "num_attention_heads", 8, 1, s->hidden, &s->n_heads, err));
    if (s->hidden % s->n_heads)
        LR_TRY(lr_config_refuse(config, LR_E_MODEL, "num_attention_heads", err,
                                "must divide hidden_size (%zu)", s->hidden));
    s->head_dim = s->hidden / s->n_heads;
    LR_TRY(lr_config_size(config, "attention_chunk_size", 12, 1, MOST_WINDOW, chunk, err));
    LR_TRY(lr_config_size(config, "attention_context_left", 13, 2, MOST_WINDOW + 1, &left, err));
    LR_TRY(lr_config_only_size(config, "attention_context_right", 0, err));
    s->window = left - 1;
    LR_TRY(lr_config_number(config, "attention_logit_cap", 50, 1e-3, 1e4, &cap, err));
    s->cap = (float)cap;
    /* Far enough below the cap that exp() of it is 0, as if the key were not there. */
    LR_TRY(lr_config_number(config, "attention_invalid_logits_value", -1e9, -INFINITY, INFINITY,
                            &masked, err));
    if (masked > -cap - 200)
        LR_TRY(lr_config_refuse(config, LR_E_UNSUPPORTED, "attention_invalid_logits_value", err,
                                "must be far below -attention_logit_cap"));
done:
    return st;
}

static lr_status read_shape(const lr_config *config, eg2_sound *s, lr_error *err)
{
    lr_status st = LR_OK;
    double eps, residual, clip;
    LR_TRY(lr_config_only_text(config, "hidden_act", "silu", err));
    LR_TRY(lr_config_size(config, "hidden_size", 1024, 2, MOST_WIDTH, &s->hidden, err));
    if (s->hidden % 2)
        LR_TRY(lr_config_refuse(config, LR_E_MODEL, "hidden_size", err, "must be even"));
    LR_TRY(lr_config_size(config, "num_hidden_layers", 12, 1, MOST_LAYERS, &s->n_layers, err));
    LR_TRY(lr_config_size(config, "conv_kernel_size", 5, 1, MOST_KERNEL, &s->kernel, err));
    LR_TRY(lr_config_size(config, "output_proj_dims", 1536, 1, MOST_WIDTH, &s->wide, err));
    LR_TRY(read_channels(config, s, err));
    LR_TRY(lr_config_number(config, "rms_norm_eps", 1e-6, 0, 1, &eps, err));
    LR_TRY(lr_config_number(config, "residual_weight", 0.5, -1e4, 1e4, &residual, err));
    LR_TRY(lr_config_number(config, "gradient_clipping", 1e10, 1e-6, INFINITY, &clip, err));
    s->eps = (float)eps;
    s->residual_weight = (float)residual;
    s->clip = clip < (double)FLT_MAX ? (float)clip : FLT_MAX;
    s->k_scale = (float)(log(1 + M_E) / M_LN2);
done:
    return st;
}

/* ------------------------------------------------------------------ weights */

/* Convolution `i` as a matrix: [out, in, 3, 3] to [out][time][mel][in], the order of the taps that
 * sound_tile.c lays out. */
static lr_status load_subsample(lr_model *model, eg2_sound *s, size_t i, lr_error *err)
{
    lr_status st = LR_OK;
    const float *from = NULL;
    float *to = NULL;
    size_t in = i == 0 ? 1 : s->channels[0], out = s->channels[i];
    const char *at = "audio_tower.subsample_conv_projection.layer";
    LR_TRY(lr_weights_vector(model, &from, LR_SHAPE(out, in, 3, 3), err, "%s%zu.conv.weight", at, i));
    LR_TRY(LR_MODEL_NEW(model, &to, out * in * 9, "a convolution", err));
    for (size_t o = 0; o < out; o++)
        for (size_t c = 0; c < in; c++)
            for (size_t tap = 0; tap < 9; tap++)
                to[(o * 9 + tap) * in + c] = from[(o * in + c) * 9 + tap];
    LR_TRY(lr_weights_linear_values(model, &s->subsample[i], to, out, 9 * in, "a convolution", err));
    LR_TRY(lr_weights_vector(model, &s->subsample_norm[i], LR_SHAPE(out), err, "%s%zu.norm.weight", at,
                             i));
done:
    return st;
}

/* relative[d][c], d = 0 .. window - 1: row c of relative_k_proj . [sin(p t), cos(p t)],
 * t_n = exp(-n ln(10000) / (C/2 - 1)), where position p is the distance d itself when
 * chunk = window, as published. In general the reference numbers the keys of a chunk's context,
 * chunk + window wide, from half of that downwards: p = d + (chunk + window) / 2 - window, and what
 * lies before the first position meets a zero. */
static lr_status load_relative(lr_model *model, const eg2_sound *s, eg2_sound_layer *layer,
                               size_t number, size_t chunk, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_tensor *matrix = NULL;
    float *relative = NULL, *positions = NULL, *row = NULL;
    size_t c = s->hidden, half = c / 2;
    LR_TRY(lr_weights_tensor(model, &matrix, LR_SHAPE(c, c), err,
                             "audio_tower.layers.%zu.self_attn.relative_k_proj.weight", number));
    LR_TRY(lr_weights_finite(model, matrix, err,
                             "audio_tower.layers.%zu.self_attn.relative_k_proj.weight", number));
    LR_TRY(LR_MODEL_NEW(model, &relative, s->window * c, "relative positions", err));
    LR_TRY(LR_NEW(&positions, s->window * c, "relative positions", err));
    LR_TRY(LR_NEW(&row, c, "relative positions", err));
    for (size_t d = 0; d < s->window; d++) {
        double p = (double)d + (double)((chunk + s->window) / 2) - (double)s->window;
        for (size_t n = 0; n < half && p >= 0; n++) {
            double t = exp(-(double)n * log(10000) / (half > 1 ? (double)(half - 1) : 1));
            positions[d * c + n] = (float)sin(p * t);
            positions[d * c + half + n] = (float)cos(p * t);
        }
    }
    const unsigned char *from = matrix->data;
    for (size_t i = 0; i < c; i++, from += c * lr_dtype_size(matrix->dtype)) {
        lr_to_f32(model->kernels, matrix->dtype, from, c, row);
        for (size_t d = 0; d < s->window; d++)
            relative[d * c + i] = model->kernels->dot(row, positions + d * c, c);
    }
    layer->relative = relative;
done:
    lr_free(row);
    lr_free(positions);
    return st;
}

static lr_status load_scale(lr_model *model, const eg2_sound *s, eg2_sound_layer *layer, size_t number,
                            lr_error *err)
{
    lr_status st = LR_OK;
    const float *raw = NULL;
    float *scale = NULL;
    LR_TRY(lr_weights_vector(model, &raw, LR_SHAPE(s->head_dim), err,
                             "audio_tower.layers.%zu.self_attn.per_dim_scale", number));
    LR_TRY(LR_MODEL_NEW(model, &scale, s->head_dim, "scales of queries", err));
    for (size_t i = 0; i < s->head_dim; i++) {
        double x = (double)raw[i], softplus = x > 30 ? x : log1p(exp(x));
        scale[i] = (float)(softplus / sqrt((double)s->head_dim) / M_LN2);
    }
    layer->q_scale = scale;
done:
    return st;
}

/* The depthwise convolution, [C, 1, kernel] to [kernel, C]. */
static lr_status load_depthwise(lr_model *model, const eg2_sound *s, eg2_sound_layer *layer,
                                size_t number, lr_error *err)
{
    lr_status st = LR_OK;
    const float *from = NULL;
    float *to = NULL;
    LR_TRY(lr_weights_vector(model, &from, LR_SHAPE(s->hidden, 1, s->kernel), err,
                             "audio_tower.layers.%zu.lconv1d.depthwise_conv1d.weight", number));
    LR_TRY(LR_MODEL_NEW(model, &to, s->hidden * s->kernel, "a convolution", err));
    for (size_t c = 0; c < s->hidden; c++)
        for (size_t i = 0; i < s->kernel; i++) to[i * s->hidden + c] = from[c * s->kernel + i];
    layer->conv = to;
done:
    return st;
}

static lr_status load_layer(lr_model *model, const eg2_sound *s, size_t i, size_t chunk, bool clipped,
                            lr_error *err)
{
    lr_status st = LR_OK;
    eg2_sound_layer *l = &s->layers[i];
    size_t c = s->hidden;
    const struct {
        const float **out;
        const char *name;
    } norms[] = {
        {&l->ffn[0].pre_norm, "feed_forward1.pre_layer_norm"},
        {&l->ffn[0].post_norm, "feed_forward1.post_layer_norm"},
        {&l->ffn[1].pre_norm, "feed_forward2.pre_layer_norm"},
        {&l->ffn[1].post_norm, "feed_forward2.post_layer_norm"},
        {&l->pre_norm, "norm_pre_attn"}, {&l->post_norm, "norm_post_attn"}, {&l->out_norm, "norm_out"},
        {&l->conv_pre_norm, "lconv1d.pre_layer_norm"}, {&l->conv_norm, "lconv1d.conv_norm"},
    };
    const struct {
        lr_dense *out;
        size_t n, k;
        const char *name;
    } linears[] = {
        {&l->ffn[0].in, 4 * c, c, "feed_forward1.ffw_layer_1"},
        {&l->ffn[0].out, c, 4 * c, "feed_forward1.ffw_layer_2"},
        {&l->ffn[1].in, 4 * c, c, "feed_forward2.ffw_layer_1"},
        {&l->ffn[1].out, c, 4 * c, "feed_forward2.ffw_layer_2"},
        {&l->q, c, c, "self_attn.q_proj"}, {&l->k, c, c, "self_attn.k_proj"},
        {&l->v, c, c, "self_attn.v_proj"}, {&l->post, c, c, "self_attn.post"},
        {&l->conv_in, 2 * c, c, "lconv1d.linear_start"}, {&l->conv_out, c, c, "lconv1d.linear_end"},
    };
    for (size_t j = 0; j < sizeof norms / sizeof *norms; j++)
        LR_TRY(lr_weights_vector(model, norms[j].out, LR_SHAPE(c), err, "audio_tower.layers.%zu.%s.weight",
                                 i, norms[j].name));
    for (size_t j = 0; j < sizeof linears / sizeof *linears; j++)
        LR_TRY(lr_weights_dense(model, linears[j].out, clipped, linears[j].n, linears[j].k, err,
                                "audio_tower.layers.%zu.%s", i, linears[j].name));
    LR_TRY(load_scale(model, s, l, i, err));
    LR_TRY(load_relative(model, s, l, i, chunk, err));
    LR_TRY(load_depthwise(model, s, l, i, err));
done:
    return st;
}

static lr_status load_weights(lr_model *model, eg2_sound *s, size_t chunk, bool clipped, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(load_subsample(model, s, 0, err));
    LR_TRY(load_subsample(model, s, 1, err));
    LR_TRY(lr_weights_linear(model, &s->input_proj, s->hidden, EG2_TOKEN_BANDS * s->channels[1], err,
                             "audio_tower.subsample_conv_projection.input_proj_linear.weight"));
    LR_TRY(LR_MODEL_NEW(model, &s->layers, s->n_layers, "layers of the sound tower", err));
    for (size_t i = 0; i < s->n_layers; i++) LR_TRY(load_layer(model, s, i, chunk, clipped, err));
    LR_TRY(lr_weights_linear(model, &s->output_proj, s->wide, s->hidden, err,
                             "audio_tower.output_proj.weight"));
    LR_TRY(lr_weights_vector(model, &s->output_bias, LR_SHAPE(s->wide), err,
                             "audio_tower.output_proj.bias"));
    LR_TRY(lr_weights_linear(model, &s->projector, s->soft, s->wide, err,
                             "embed_audio.embedding_projection.weight"));
done:
    return st;
}

lr_status eg2_sound_open(lr_model *model, const lr_config *config, lr_error *err)
{
    lr_status st = LR_OK;
    eg2_sound *s = NULL;
    bool clipped;
    size_t chunk;
    LR_TRY(LR_MODEL_NEW(model, &s, 1, "the sound tower", err));
    s->soft = model->info.hidden;
    LR_TRY(read_shape(config, s, err));
    LR_TRY(read_attention(config, s, &chunk, err));
    LR_TRY(lr_config_bool(config, "use_clipped_linears", true, &clipped, err));
    LR_TRY(eg2_check_processor(model, "feature_extractor", 0, 0, err));
    LR_TRY(load_weights(model, s, chunk, clipped, err));
    model->sound = s;
done:
    return st;
}
