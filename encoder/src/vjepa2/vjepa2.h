/* Inside encoder/: V-JEPA 2. family.c reads config.json and loads the weights, block.c is its part of a
 * layer, pictures.c makes tokens of frames, processor.c reads how, make.c writes made checkpoints. */
#ifndef LONGREEL_ENCODER_VJEPA2_H
#define LONGREEL_ENCODER_VJEPA2_H

#include "../model.h"

/* model->vision: what the model has before its layers. D wide; a token is a tubelet's patch. */
typedef struct vj2_tower {
    size_t hidden;           /* D */
    size_t crop, patch;      /* pixels a side */
    size_t grid;             /* whole patches a side */
    size_t parts;            /* frames of a tubelet */
    size_t values;           /* of a patch: 3 * parts * patch * patch */
    lr_linear *proj;         /* [D, values], values in the order channel, frame, row, column */
    const float *proj_bias;  /* [D] */
    float value[3][256];     /* what proj sees of a channel's byte */
} vj2_tower;

extern const lr_block vj2_block;
extern const lr_vision_ops vj2_vision_ops;

/* Reads video_preprocessor_config.json, where the checkpoint has one, into tower->value. Refuses what asks for
 * another preparation than the published one, or another crop than the model's. */
lr_status vj2_read_processor(const lr_model *model, vj2_tower *tower, lr_error *err);

lr_status vj2_make(const char *directory, lr_made_size size, uint64_t seed, lr_error *err);

#endif
