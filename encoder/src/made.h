/* Inside encoder/: made checkpoints: the published layout of a family with seeded random weights. */
#ifndef LONGREEL_ENCODER_MADE_H
#define LONGREEL_ENCODER_MADE_H

#include "model.h"

/* 64 random bits that depend on (seed, n) alone: splitmix64 as a function of its counter. */
uint64_t lr_made_bits(uint64_t seed, uint64_t n);

/* ------------------------------------------------------------------ weights */

#define LR_MADE_NAME 128

/* Values are mean + spread * (a sum of four uniforms of variance 1 in all), written as bf16. */
typedef struct lr_made_tensor {
    char name[LR_MADE_NAME];
    float mean, spread;
} lr_made_tensor;

typedef struct lr_maker {
    lr_made_tensor *tensors;
    lr_named_tensor *named;
    size_t count, tensors_capacity, named_capacity;
    uint64_t seed;
    lr_status st; /* the first failure; later calls do nothing */
    lr_error *err;
} lr_maker;

void lr_maker_add(lr_maker *maker, float mean, float spread, size_t n_dims, const size_t *dims,
                  const char *format, ...) LR_PRINTF(6, 7);
/* Writes the tensors and frees them; the first failure. */
lr_status lr_maker_write(lr_maker *maker, const char *path);

/* ------------------------------------------------------------------ files */

/* A file of the checkpoint; `content` may be NULL: memory ran out. */
typedef struct lr_made_file {
    const char *name;
    json_t *(*content)(const void *made);
} lr_made_file;

typedef struct lr_made_model {
    const lr_family *family;
    const void *made;           /* the sizes, for `content` and `weights` */
    const lr_made_file *files;  /* JSON files, n_files of them */
    size_t n_files;
    const char *const *folders; /* made first, ended by NULL; or NULL */
    /* What is no JSON but README.md and model.safetensors, and their names, ended by NULL; or NULL. */
    lr_status (*others)(const char *directory, const void *made, uint64_t seed, lr_error *err);
    const char *const *other_names;
    void (*weights)(lr_maker *maker, const void *made);
} lr_made_model;

/* Written beside its name and renamed: a directory of that name is a whole model. */
lr_status lr_made_write(const lr_made_model *model, const char *directory, uint64_t seed, lr_error *err);

#endif
