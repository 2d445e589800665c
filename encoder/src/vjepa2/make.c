/* Made checkpoints of the published layout. */
#include <math.h>

#include "../made.h"
#include "vjepa2.h"

typedef struct vj2_made {
    size_t hidden, layers, heads, crop;
    double mlp_ratio;
} vj2_made;

/* Heads of 32: 2 values of each are not turned. A window of 32 tubelets has 512 tokens. */
static const vj2_made small = {.hidden = 128, .layers = 3, .heads = 4, .crop = 64, .mlp_ratio = 3};
static const vj2_made full = {.hidden = 1024, .layers = 24, .heads = 16, .crop = 256, .mlp_ratio = 4};

#define PATCH 16
#define PARTS 2

static json_t *whole_config(const void *arg)
{
    const vj2_made *made = arg;
    return json_pack("{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:b, s:s}",
                     "architectures", "VJEPA2Model", "model_type", "vjepa2", "dtype", "bfloat16",
                     "patch_size", PATCH, "crop_size", (int)made->crop, "frames_per_clip", 64,
                     "tubelet_size", PARTS, "in_chans", 3, "hidden_size", (int)made->hidden,
                     "num_hidden_layers", (int)made->layers, "num_attention_heads", (int)made->heads,
                     "mlp_ratio", made->mlp_ratio, "layer_norm_eps", 1e-6, "qkv_bias", 1, "hidden_act", "gelu");
}

static json_t *processor_config(const void *arg)
{
    const vj2_made *made = arg;
    return json_pack("{s:s, s:b, s:b, s:b, s:b, s:{s:i, s:i}, s:{s:i}, s:i, s:f, s:[f, f, f], s:[f, f, f]}",
                     "video_processor_type", "VJEPA2VideoProcessor", "do_center_crop", 1, "do_normalize", 1,
                     "do_rescale", 1, "do_resize", 1, "crop_size", "height", (int)made->crop, "width",
                     (int)made->crop, "size", "shortest_edge", (int)(made->crop * 256 / 224), "resample", 2,
                     "rescale_factor", 1.0 / 255, "image_mean", 0.485, 0.456, 0.406, "image_std", 0.229,
                     0.224, 0.225);
}

/* Outputs as large as inputs. The last layers of a block are smaller, so that a token stays nearest to its own
 * patch, as in a trained model. */
static void linear(lr_maker *m, size_t n, size_t k, float gain, const char *prefix, const char *name)
{
    lr_maker_add(m, 0, gain / sqrtf((float)k), LR_SHAPE(n, k), "%s%s.weight", prefix, name);
    lr_maker_add(m, 0, 0.1f, LR_SHAPE(n), "%s%s.bias", prefix, name);
}

static void norm(lr_maker *m, size_t d, const char *prefix, const char *name)
{
    lr_maker_add(m, 1, 0.1f, LR_SHAPE(d), "%s%s.weight", prefix, name);
    lr_maker_add(m, 0, 0.1f, LR_SHAPE(d), "%s%s.bias", prefix, name);
}

static void weights(lr_maker *m, const void *arg)
{
    static const char *const projections[] = {"attention.query", "attention.key", "attention.value"};
    const vj2_made *made = arg;
    size_t d = made->hidden, mlp = (size_t)((double)d * made->mlp_ratio);
    const char *embedding = "encoder.embeddings.patch_embeddings.proj";
    float spread = 1 / sqrtf((float)(3 * PARTS * PATCH * PATCH));
    lr_maker_add(m, 0, spread, LR_SHAPE(d, 3, PARTS, PATCH, PATCH), "%s.weight", embedding);
    lr_maker_add(m, 0, 0.1f, LR_SHAPE(d), "%s.bias", embedding);
    for (size_t i = 0; i < made->layers; i++) {
        char prefix[48];
        (void)snprintf(prefix, sizeof prefix, "encoder.layer.%u.", (unsigned)i % 100000);
        norm(m, d, prefix, "norm1");
        for (size_t p = 0; p < sizeof projections / sizeof *projections; p++)
            linear(m, d, d, 1, prefix, projections[p]);
        linear(m, d, d, 0.3f, prefix, "attention.proj");
        norm(m, d, prefix, "norm2");
        linear(m, mlp, d, 1, prefix, "mlp.fc1");
        linear(m, d, mlp, 0.3f, prefix, "mlp.fc2");
    }
    norm(m, d, "encoder.", "layernorm");
}

lr_status vj2_make(const char *directory, lr_made_size size, uint64_t seed, lr_error *err)
{
    static const lr_made_file files[] = {
        {"config.json", whole_config},
        {"video_preprocessor_config.json", processor_config},
    };
    vj2_made deep = small;
    deep.layers = full.layers;
    const vj2_made *const made[] = {[LR_MADE_SMALL] = &small, [LR_MADE_DEEP] = &deep, [LR_MADE_FULL] = &full};
    const lr_made_model model = {.family = &lr_family_vjepa2, .made = made[size],
                                 .files = files, .n_files = sizeof files / sizeof *files,
                                 .weights = weights};
    return lr_made_write(&model, directory, seed, err);
}
