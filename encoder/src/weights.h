/* Inside encoder/: linear layers that a family asked for and that are not prepared yet. */
#ifndef LONGREEL_ENCODER_WEIGHTS_H
#define LONGREEL_ENCODER_WEIGHTS_H

#include "model.h"
#include "safetensors.h"

#define LR_WEIGHT_NAME 256
#define LR_WEIGHT_PARTS 4

struct lr_weight_job {
    lr_linear **out;
    lr_linear_part parts[LR_WEIGHT_PARTS];
    size_t n_parts;
    size_t first_row; /* of the tensor that the one part is cut from */
    char name[LR_WEIGHT_NAME]; /* for messages */
};

/* LR_E_MODEL when a value is NaN or infinite. */
lr_status lr_weight_job_check(const lr_model *model, const lr_weight_job *job, lr_error *err);
/* What was packed or uploaded is not read again. */
void lr_weight_job_release(const lr_model *model, const lr_weight_job *job);

#endif
