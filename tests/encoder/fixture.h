/* The reference checkpoints of tests/fixtures and what the published implementation computes for
 * them. Every function fails the running test itself. */
#ifndef LR_TESTS_ENCODER_FIXTURE_H
#define LR_TESTS_ENCODER_FIXTURE_H

#include "lr_test.h"

#include <jansson.h>
#include <longreel/encoder.h>

typedef struct fixture {
    char *directory;
    json_t *document;
    const json_t *cases;
    lr_checkpoint *expected;
} fixture;

void fixture_open(fixture *out, const char *name);
void fixture_close(fixture *f);

/* The tensor "<case>/<name>". */
const lr_tensor *fixture_tensor(const fixture *f, const char *case_name, const char *name);
const char *fixture_text(const json_t *value, const char *key);
size_t fixture_size(const json_t *value, const char *key);

/* Compares `got` with the tensor. Tolerance: 4 times the folder's largest deviation of the published
 * library's own fp32 run from the same truth, for this tensor, in max abs and in relative rms
 * (design note, section 11: that still catches a window off by one, eps 1e-5 for 1e-6, erf for tanh). */
void fixture_compare(const fixture *f, const char *case_name, const char *name, const float *got);

/* The scalar table or the best this machine has. */
const lr_kernels *fixture_kernels(lr_isa isa);
lr_model *fixture_model(const char *directory, const lr_kernels *kernels, bool vision, bool audio);

/* Its backbone on the device that the driver shows first; without towers. */
lr_model *fixture_device_model(const char *directory, const lr_kernels *kernels);

/* One forward pass over `ranks` local ranks with pools of `threads`: x [n, hidden] in and out; stats
 * [ranks] may be NULL. */
void fixture_forward(const lr_model *model, float *x, uint64_t n, uint64_t chunk, int ranks,
                     size_t threads, lr_schedule schedule, lr_backbone_stats *stats,
                     const lr_stage_tap *tap);
/* The same of a model on a device, one thread a rank; rows and chunks as lr_backbone_run's device_rows and
 * device_chunks. */
void fixture_forward_on_device(const lr_model *model, float *x, uint64_t n, uint64_t chunk, int ranks, size_t rows,
                               size_t chunks, lr_backbone_stats *stats, const lr_stage_tap *tap);

#endif
