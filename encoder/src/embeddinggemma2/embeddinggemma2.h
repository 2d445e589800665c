/* Inside encoder/: EmbeddingGemma 2. config.c reads text_config, family.c loads the backbone's weights,
 * block.c is its part of a layer, vision.c and sound.c hold the towers, make.c writes made checkpoints. */
#ifndef LONGREEL_ENCODER_EMBEDDINGGEMMA2_H
#define LONGREEL_ENCODER_EMBEDDINGGEMMA2_H

#include "../model.h"

/* model->text */
typedef struct eg2_text {
    size_t vocab_size;
    const lr_tensor *embed;  /* [vocab_size, hidden], as mapped */
    float embed_scale;       /* sqrt(hidden) */
    const float *projection; /* [dim, hidden] */
} eg2_text;

/* Reads text_config into the backbone's shape, layers and rotary tables; *bias: attention has biases. */
lr_status eg2_read_text(lr_model *model, const lr_config *text, eg2_text *out, bool *bias,
                        lr_error *err);

/* Called by the family's open when the tower is wanted and config.json has it: read the rest of its
 * configuration, queue its weights, and set model->vision / model->sound (memory of LR_MODEL_NEW). */
lr_status eg2_vision_open(lr_model *model, const lr_config *vision_config, lr_error *err);
lr_status eg2_sound_open(lr_model *model, const lr_config *audio_config, lr_error *err);
/* Refuses a processor_config.json whose part `key` ("image_processor", "video_processor",
 * "feature_extractor") asks for another preparation than the published one; pictures also for another
 * patch or pool than the tower's. */
lr_status eg2_check_processor(const lr_model *model, const char *key, size_t patch, size_t pool,
                              lr_error *err);
extern const lr_vision_ops eg2_vision_ops;
extern const lr_sound_ops eg2_sound_ops;

extern const lr_block eg2_block;
extern const lr_device_block eg2_device_block;

lr_status eg2_make(const char *directory, lr_made_size size, uint64_t seed, lr_error *err);

#endif
