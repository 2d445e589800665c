/* Seeded random weights that keep activations of order 1, as trained ones do. */
#include <math.h>

#include "make.h"

#define NAME LR_MADE_NAME
#define add lr_maker_add
typedef lr_maker maker;

/* Rows of norm about 1: outputs as large as inputs. */
#define LINEAR(m, n, k, ...) add((m), 0, 1 / sqrtf((float)(k)), LR_SHAPE((n), (k)), __VA_ARGS__)
#define GAIN(m, n, ...) add((m), 1, 0.1f, LR_SHAPE(n), __VA_ARGS__)

/* q . k has no 1/sqrt(d): gains of sqrt(2) d^-1/4 give logits of deviation 2. */
static void head_norms(maker *m, size_t head_dim, const char *prefix)
{
    float gain = sqrtf(2) * powf((float)head_dim, -0.25f);
    add(m, gain, 0.1f * gain, LR_SHAPE(head_dim), "%s.q_norm.weight", prefix);
    add(m, gain, 0.1f * gain, LR_SHAPE(head_dim), "%s.k_norm.weight", prefix);
}

static void text_layer(maker *m, const eg2_made *made, size_t i)
{
    bool is_full = (i + 1) % made->pattern == 0;
    size_t d = made->hidden, head_dim = is_full ? made->full_head_dim : made->head_dim;
    size_t q = made->heads * head_dim;
    size_t kv = (is_full ? made->full_kv_heads : made->kv_heads) * head_dim;
    char p[64], attention[80];
    (void)snprintf(p, sizeof p, "language_model.layers.%zu", i);
    (void)snprintf(attention, sizeof attention, "%s.self_attn", p);
    LINEAR(m, q, d, "%s.q_proj.weight", attention);
    LINEAR(m, kv, d, "%s.k_proj.weight", attention);
    LINEAR(m, kv, d, "%s.v_proj.weight", attention);
    LINEAR(m, d, q, "%s.o_proj.weight", attention);
    head_norms(m, head_dim, attention);
    LINEAR(m, made->mlp, d, "%s.mlp.gate_proj.weight", p);
    LINEAR(m, made->mlp, d, "%s.mlp.up_proj.weight", p);
    LINEAR(m, d, made->mlp, "%s.mlp.down_proj.weight", p);
    GAIN(m, d, "%s.input_layernorm.weight", p);
    GAIN(m, d, "%s.post_attention_layernorm.weight", p);
    GAIN(m, d, "%s.pre_feedforward_layernorm.weight", p);
    GAIN(m, d, "%s.post_feedforward_layernorm.weight", p);
    LINEAR(m, made->ple, d, "%s.ple_block.per_layer_input_gate.weight", p);
    LINEAR(m, d, made->ple, "%s.ple_block.per_layer_projection.weight", p);
    GAIN(m, d, "%s.ple_block.post_per_layer_input_norm.weight", p);
    add(m, 0.7f, 0.1f, LR_SHAPE(1), "%s.layer_scalar", p);
}

static void text(maker *m, const eg2_made *made)
{
    size_t d = made->hidden;
    LINEAR(m, made->vocab, d, "language_model.embed_tokens.weight");
    LINEAR(m, made->layers * made->ple, d, "language_model.ple.per_layer_model_projection.weight");
    GAIN(m, made->ple, "language_model.ple.per_layer_projection_norm.weight");
    for (size_t i = 0; i < made->layers; i++) text_layer(m, made, i);
    GAIN(m, d, "language_model.norm.weight");
    LINEAR(m, made->dim, d, "language_model.embedding_projection.weight");
}

static void vision(maker *m, const eg2_made *made)
{
    const eg2_made_tower *v = &made->vision;
    size_t d = v->hidden, heads = v->heads * v->head_dim, pixels = 3 * made->patch * made->patch;
    char p[64], attention[80];
    LINEAR(m, d, pixels, "vision_tower.patch_embedder.input_proj.weight");
    add(m, 0, 0.3f, LR_SHAPE(2, made->positions, d),
        "vision_tower.patch_embedder.position_embedding_table");
    for (size_t i = 0; i < v->layers; i++) {
        (void)snprintf(p, sizeof p, "vision_tower.encoder.layers.%zu", i);
        (void)snprintf(attention, sizeof attention, "%s.self_attn", p);
        LINEAR(m, heads, d, "%s.q_proj.linear.weight", attention);
        LINEAR(m, heads, d, "%s.k_proj.linear.weight", attention);
        LINEAR(m, heads, d, "%s.v_proj.linear.weight", attention);
        LINEAR(m, d, heads, "%s.o_proj.linear.weight", attention);
        head_norms(m, v->head_dim, attention);
        LINEAR(m, v->mlp, d, "%s.mlp.gate_proj.linear.weight", p);
        LINEAR(m, v->mlp, d, "%s.mlp.up_proj.linear.weight", p);
        LINEAR(m, d, v->mlp, "%s.mlp.down_proj.linear.weight", p);
        GAIN(m, d, "%s.input_layernorm.weight", p);
        GAIN(m, d, "%s.post_attention_layernorm.weight", p);
        GAIN(m, d, "%s.pre_feedforward_layernorm.weight", p);
        GAIN(m, d, "%s.post_feedforward_layernorm.weight", p);
    }
    LINEAR(m, made->hidden, d, "embed_vision.embedding_projection.weight");
}

/* A linear layer with bounds that some values reach. */
static void clipped(maker *m, size_t n, size_t k, const char *name)
{
    LINEAR(m, n, k, "%s.linear.weight", name);
    add(m, -3.5f, 0.2f, LR_SCALAR, "%s.input_min", name);
    add(m, 3.75f, 0.2f, LR_SCALAR, "%s.input_max", name);
    add(m, -4.0f, 0.2f, LR_SCALAR, "%s.output_min", name);
    add(m, 4.25f, 0.2f, LR_SCALAR, "%s.output_max", name);
}

static void audio_layer(maker *m, const eg2_made *made, size_t i)
{
    static const char *const projections[] = {"q_proj", "k_proj", "v_proj", "post"};
    static const char *const norms[] = {"norm_pre_attn", "norm_post_attn", "norm_out",
                                        "lconv1d.pre_layer_norm", "lconv1d.conv_norm",
                                        "feed_forward1.pre_layer_norm",
                                        "feed_forward1.post_layer_norm",
                                        "feed_forward2.pre_layer_norm",
                                        "feed_forward2.post_layer_norm"};
    const eg2_made_tower *a = &made->audio_tower;
    size_t d = a->hidden;
    char p[64], name[NAME];
    (void)snprintf(p, sizeof p, "audio_tower.layers.%zu", i);
    for (int f = 1; f <= 2; f++) {
        (void)snprintf(name, sizeof name, "%s.feed_forward%d.ffw_layer_1", p, f);
        clipped(m, a->mlp, d, name);
        (void)snprintf(name, sizeof name, "%s.feed_forward%d.ffw_layer_2", p, f);
        clipped(m, d, a->mlp, name);
    }
    for (size_t j = 0; j < sizeof projections / sizeof projections[0]; j++) {
        (void)snprintf(name, sizeof name, "%s.self_attn.%s", p, projections[j]);
        clipped(m, d, d, name);
    }
    LINEAR(m, d, d, "%s.self_attn.relative_k_proj.weight", p);
    add(m, 0, 0.5f, LR_SHAPE(a->head_dim), "%s.self_attn.per_dim_scale", p);
    (void)snprintf(name, sizeof name, "%s.lconv1d.linear_start", p);
    clipped(m, 2 * d, d, name);
    (void)snprintf(name, sizeof name, "%s.lconv1d.linear_end", p);
    clipped(m, d, d, name);
    add(m, 0, 1 / sqrtf((float)made->conv_kernel), LR_SHAPE(d, 1, made->conv_kernel),
        "%s.lconv1d.depthwise_conv1d.weight", p);
    for (size_t j = 0; j < sizeof norms / sizeof norms[0]; j++) GAIN(m, d, "%s.%s.weight", p, norms[j]);
}

static void audio(maker *m, const eg2_made *made)
{
    const eg2_made_tower *a = &made->audio_tower;
    size_t d = a->hidden;
    add(m, 0, 1.0f / 3, LR_SHAPE(made->conv0, 1, 3, 3),
        "audio_tower.subsample_conv_projection.layer0.conv.weight");
    add(m, 0, 1 / (3 * sqrtf((float)made->conv0)), LR_SHAPE(made->conv1, made->conv0, 3, 3),
        "audio_tower.subsample_conv_projection.layer1.conv.weight");
    GAIN(m, made->conv0, "audio_tower.subsample_conv_projection.layer0.norm.weight");
    GAIN(m, made->conv1, "audio_tower.subsample_conv_projection.layer1.norm.weight");
    LINEAR(m, d, made->conv1 * 32, "audio_tower.subsample_conv_projection.input_proj_linear.weight");
    for (size_t i = 0; i < a->layers; i++) audio_layer(m, made, i);
    LINEAR(m, made->audio_out, d, "audio_tower.output_proj.weight");
    add(m, 0, 0.1f, LR_SHAPE(made->audio_out), "audio_tower.output_proj.bias");
    LINEAR(m, made->hidden, made->audio_out, "embed_audio.embedding_projection.weight");
}

void eg2_make_weights(lr_maker *m, const void *made)
{
    text(m, made);
    vision(m, made);
    audio(m, made);
}
