/* Inside encoder/: the model object and how a family loads its weights. */
#ifndef LONGREEL_ENCODER_MODEL_H
#define LONGREEL_ENCODER_MODEL_H

#include <longreel/encoder.h>

#include "backbone.h"
#include "blocks.h"
#include "config.h"
#include "family.h"

typedef struct lr_weight_job lr_weight_job;

typedef struct lr_prompt {
    char *task, *text;
} lr_prompt;

typedef struct lr_model_rope_entry {
    size_t dim;
    double theta;
    lr_rope *rope;
} lr_model_rope_entry;

struct lr_model {
    char *directory, *name;
    const lr_family *family;
    const lr_kernels *kernels;
    lr_checkpoint *checkpoint;
    lr_tokenizer *tokenizer;
    lr_model_info info;
    int dims[8];               /* info.dims */
    lr_prompt *prompts;        /* [n_prompts] */
    size_t n_prompts, prompts_capacity;
    lr_backbone backbone;
    struct lr_device_model *on_device; /* where the backbone lies then; NULL: on the CPU */
    void *text;                /* the family's own: embedding table, projection */
    void *vision, *sound;      /* the family's towers; NULL when not prepared */

    /* What the model owns: freed with it, in reverse order. */
    void **blocks;
    size_t n_blocks, blocks_capacity;
    lr_linear **linears;
    size_t n_linears;
    lr_model_rope_entry *ropes;
    size_t n_ropes, ropes_capacity;

    lr_weight_job *jobs;       /* queued by lr_weights_linear, done by lr_weights_prepare */
    size_t n_jobs, jobs_capacity;
};

/* ------------------------------------------------------------------ ownership */

/* Zeroed memory that lives as long as the model. */
lr_status lr_model_new(lr_model *model, void **out, size_t count, size_t size, const char *what,
                       lr_error *err);
#define LR_MODEL_NEW(model, out, count, what, err)                                                 \
    lr_model_new((model), (void **)(out), (count), sizeof(**(out)), (what), (err))
/* A rotary table that lives as long as the model; one for each (dim, theta). */
lr_status lr_model_rope(lr_model *model, size_t dim, double theta, const lr_rope **out,
                        lr_error *err);

/* The prompts of the checkpoint's config_sentence_transformers.json, or else the family's. */
lr_status lr_model_load_prompts(lr_model *model, lr_error *err);
/* Refuses the checkpoint's sentence-transformers files when they ask for another vector than the
 * normalized mean over all tokens. */
lr_status lr_model_check_sentence(const lr_model *model, lr_error *err);

/* ------------------------------------------------------------------ weights
 *
 * Names are those of the checkpoint without its optional prefix (lr_family), given as a printf format.
 * One {a,b,...} in the resulting name stands for several tensors, one below the other:
 * "layers.3.mlp.{gate,up}_proj.weight" is one matrix of twice the rows. A tensor that is missing
 * or has another shape or type is LR_E_MODEL naming it with the found and the wanted shape; one with
 * a value that is NaN or infinite is LR_E_MODEL naming the place, since attention and clamps would
 * make finite, wrong vectors of it. */

/* Shape arguments: LR_SHAPE(768, 3), or LR_SCALAR for []. */
#define LR_SHAPE(...)                                                                              \
    (sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t)), (const size_t[]) { __VA_ARGS__ }
#define LR_SCALAR 0, NULL

/* count values of F32, BF16 or F16 as fp32. */
void lr_to_f32(const lr_kernels *kernels, lr_dtype dtype, const void *data, size_t count, float *out);
/* The first of count values of F32, BF16 or F16 that is NaN or infinite; count when there is none. */
size_t lr_first_not_finite(lr_dtype dtype, const void *data, size_t count);
/* The tensor as it lies in the file; NULL when there is none. */
const lr_tensor *lr_weights_find(const lr_model *model, const char *name);
/* The same, shape-checked; its values are not: see lr_weights_finite. */
lr_status lr_weights_tensor(const lr_model *model, const lr_tensor **out, size_t n_dims,
                            const size_t *dims, lr_error *err, const char *name, ...)
    LR_PRINTF(6, 7);
/* Multiply-adds of a row; 0 for NULL. */
double lr_linear_macs(const lr_linear *linear);
/* LR_E_MODEL when one of the tensor's values is NaN or infinite. `name` is for the message. */
lr_status lr_weights_finite(const lr_model *model, const lr_tensor *tensor, lr_error *err,
                            const char *name, ...) LR_PRINTF(4, 5);
/* A copy as fp32 that lives as long as the model; several parts stand one behind the other. */
lr_status lr_weights_vector(lr_model *model, const float **out, size_t n_dims, const size_t *dims,
                            lr_error *err, const char *name, ...) LR_PRINTF(6, 7);
/* One value: shape [] or [1]. */
lr_status lr_weights_scalar(const lr_model *model, float *out, lr_error *err, const char *name, ...)
    LR_PRINTF(4, 5);
/* A linear layer of parts [n, k] each. The shape is checked at once; *out is set only by
 * lr_weights_prepare, which runs after the family's open has returned: until then it is NULL. `out`
 * must stay where it is (memory of LR_MODEL_NEW). */
lr_status lr_weights_linear(lr_model *model, lr_linear **out, size_t n, size_t k, lr_error *err,
                            const char *name, ...) LR_PRINTF(6, 7);
/* Rows [first, first + n) of one [total, k] tensor. */
lr_status lr_weights_linear_rows(lr_model *model, lr_linear **out, size_t first, size_t n,
                                 size_t total, size_t k, lr_error *err, const char *name, ...)
    LR_PRINTF(8, 9);
/* A linear layer of the caller's own fp32 values [n, k] (a convolution as a matrix), which stay until
 * lr_weights_prepare. `name` is for messages. */
lr_status lr_weights_linear_values(lr_model *model, lr_linear **out, const float *values, size_t n,
                                   size_t k, const char *name, lr_error *err);
/* A linear layer stored as NAME.linear.weight with, when `clipped`, its four bounds
 * NAME.{input_min,input_max,output_min,output_max}, which may be infinite: no bound. No bias. */
lr_status lr_weights_dense(lr_model *model, lr_dense *out, bool clipped, size_t n, size_t k,
                           lr_error *err, const char *name, ...) LR_PRINTF(7, 8);
/* Packs all queued linear layers, in parallel; beside them one thread does `other` (or NULL), which queues none. */
lr_status lr_weights_prepare(lr_model *model, lr_pool *pool, lr_status (*other)(lr_model *model, lr_error *err),
                             lr_error *err);

#endif
