/* Inside encoder/: what a family of models fills in. A family is one lr_family and a folder of its
 * own; the shared code asks only through this table. */
#ifndef LONGREEL_ENCODER_FAMILY_H
#define LONGREEL_ENCODER_FAMILY_H

#include <longreel/encoder.h>

#include "config.h"

/* Towers: an lr_vision or lr_sound_tower of a family begins with its table. */
typedef struct lr_vision_ops {
    lr_status (*create)(lr_vision **out, const lr_model *model, int width, int height,
                        const lr_worker *worker, lr_error *err);
    void (*free)(lr_vision *vision);
    /* NULL where a span has one frame. */
    lr_status (*hold)(lr_vision *vision, const lr_frame *frame, lr_error *err);
    lr_status (*encode)(lr_vision *vision, const lr_frame *frame, float *soft,
                        const lr_stage_tap *tap, lr_error *err);
    size_t (*memory)(const lr_model *model, int width, int height, size_t threads);
    double (*macs)(const lr_model *model, int width, int height); /* of products, a picture */
} lr_vision_ops;
struct lr_vision {
    const lr_vision_ops *ops;
};

typedef struct lr_sound_ops {
    lr_status (*create)(lr_sound_tower **out, const lr_model *model, int64_t n_samples,
                        uint64_t first_token, uint64_t end_token, const lr_worker *worker,
                        lr_sound_sink sink, void *arg, const lr_stage_tap *tap, lr_error *err);
    int64_t (*first_sample)(const lr_sound_tower *tower);
    lr_status (*feed)(lr_sound_tower *tower, const float *samples, size_t count, lr_error *err);
    lr_status (*finish)(lr_sound_tower *tower, lr_error *err);
    void (*free)(lr_sound_tower *tower);
    size_t (*memory)(const lr_model *model, uint64_t tokens, size_t threads);
    double (*macs)(const lr_model *model); /* of products, a token */
} lr_sound_ops;
struct lr_sound_tower {
    const lr_sound_ops *ops;
};

typedef struct lr_task_prompt {
    const char *task, *text;
    const char *key; /* sentence-transformers' name of the task, or NULL */
} lr_task_prompt;

struct lr_family {
    const char *name;
    const char *model_type; /* of config.json */
    const char *layout;     /* what people call it, for the notes in made models */
    const char *prefix;     /* that some checkpoints have before every tensor's name, with its dot */
    bool text;              /* has a tokenizer.json, and embed_ids and prompts of its own */

    /* Reads the configuration, fills model->info (all but directory, name, family, tokenizer and
     * n_values), model->backbone and what it keeps in model->text, ->vision, ->sound; weights through
     * lr_weights_*. The checkpoint is open; the tokenizer is not yet. */
    lr_status (*open)(lr_model *model, const lr_config *config, const lr_model_options *options,
                      lr_error *err);
    /* Fills what of model->info needs the tokenizer, which is now open. NULL without text. */
    lr_status (*read_rules)(lr_model *model, const lr_config *config, lr_error *err);

    /* NULL without text: all rows are placeholders. */
    lr_status (*embed_ids)(const lr_model *model, const int32_t *ids, size_t count, float *out,
                           lr_error *err);
    /* The matrix [info.dim, hidden] that makes a vector of a mean; NULL: a vector is the mean itself. */
    const float *(*projection)(const lr_model *model);
    const lr_vision_ops *vision;
    const lr_sound_ops *sound;     /* NULL without sound */
    const lr_task_prompt *prompts; /* published ones, ended by a NULL task; NULL: none */

    lr_status (*make)(const char *directory, lr_made_size size, uint64_t seed, lr_error *err);
};
typedef struct lr_family lr_family;

extern const lr_family lr_family_embeddinggemma2, lr_family_vjepa2;

/* All families, ended by NULL. */
extern const lr_family *const lr_families[];

#endif
