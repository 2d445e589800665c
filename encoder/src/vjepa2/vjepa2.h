/* Inside encoder/: V-JEPA 2. family.c reads config.json and loads the weights, block.c is its part of a
 * layer, device_block.c the same on a device, pictures.c makes tokens of frames, processor.c reads how, make.c writes made checkpoints. */
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
extern const lr_device_block vj2_device_block;
extern const lr_vision_ops vj2_vision_ops;

/* cos and sin of one part of a head, [rows, half] each, to values at .. at + 2 * half of rows of `width`, as
 * rope_pairs wants them: for each value of a head, the sign of y_e with sin. */
void vj2_spread_angles(const float *cos_in, const float *sin_in, size_t rows, size_t half, size_t width, size_t at,
                       float *cos_out, float *sin_out);

/* Reads video_preprocessor_config.json, where the checkpoint has one, into tower->value. Refuses what asks for
 * another preparation than the published one, or another crop than the model's. */
lr_status vj2_read_processor(const lr_model *model, vj2_tower *tower, lr_error *err);

lr_status vj2_make(const char *directory, lr_made_size size, uint64_t seed, lr_error *err);

#endif
