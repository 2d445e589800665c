/* What the tests of the towers share: a checkpoint of tests/fixtures with its expected outputs. */
#ifndef LR_TOWER_CASE_H
#define LR_TOWER_CASE_H

#include "lr_test.h"

#include <jansson.h>
#include <longreel/encoder.h>

typedef struct tower_fixture {
    json_t *expected;         /* expected.json */
    lr_checkpoint *tensors;   /* expected.safetensors */
    lr_model *model;          /* with both towers */
    const lr_kernels *kernels;
} tower_fixture;

/* folder: a name in tests/fixtures. `kernels` NULL: the best of this processor. */
void fixture_open(tower_fixture *fixture, const char *folder, const lr_kernels *kernels);
void fixture_close(tower_fixture *fixture);
/* Cases whose `key` is there; NULL past the last. */
json_t *fixture_case(const tower_fixture *fixture, size_t i);
const char *case_name(const json_t *item);
size_t case_size(const json_t *item, const char *key);
/* <case>/<tensor>, or NULL. */
const lr_tensor *case_tensor(const tower_fixture *fixture, const json_t *item, const char *tensor);

/* Fails unless `found` [count] lies as near the stored truth as another fp32 evaluation of the same
 * formula must: `factor` times the distance (largest, and relative rms) of the published library's
 * own fp32 run, stored with the case. Prints the distances. */
void assert_near_truth(const tower_fixture *fixture, const json_t *item, const char *tensor,
                       const float *found, size_t count, double factor);

/* A sink that keeps what a named stage delivers, rows one after another. */
typedef struct kept_stage {
    const char *name;
    unsigned char *data; /* test_malloc'ed; NULL: nothing came */
    size_t bytes, rows, columns;
    struct kept_stage *next;
} kept_stage;
lr_status keep_stage(void *arg, const char *name, int layer, uint64_t first, const lr_tensor *rows,
                     lr_error *err);
void kept_free(kept_stage *kept);

/* Opening a copy of the checkpoint `folder` must fail with `status` and `words` in the text, when
 * `file` ("config.json") has `value` (taken over) for `key` of its part ("vision_config"). */
void assert_change_refused(const char *folder, const char *file, const char *part, const char *key,
                           json_t *value, lr_status status, const char *words);

#endif
