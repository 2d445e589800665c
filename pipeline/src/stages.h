/* Inside pipeline/: --save stages. Intermediate results of small inputs, kept in memory as they come
 * (in any order, from any thread) and written as .npy at the end. */
#ifndef LONGREEL_PIPELINE_STAGES_H
#define LONGREEL_PIPELINE_STAGES_H

#include <longreel/encoder.h>

typedef struct lr_stage_store lr_stage_store;

lr_status lr_stage_store_create(lr_stage_store **out, lr_error *err);
void lr_stage_store_free(lr_stage_store *store);
/* A tap whose rows are put `base` rows further down (the n-th window's); with `by_item` below
 * everything that stood there when lr_stage_store_item was last called (the n-th picture's). */
typedef struct lr_stage_base {
    lr_stage_store *store;
    uint64_t base;
    bool by_item;
} lr_stage_base;
lr_stage_tap lr_stage_tap_of(lr_stage_base *base); /* of a NULL store: no tap */
/* Puts rows directly. */
lr_status lr_stage_store_put(lr_stage_store *store, const char *name, int layer, uint64_t first,
                             const lr_tensor *rows, lr_error *err);
void lr_stage_store_item(lr_stage_store *store);
/* Rows of `name` so far. */
uint64_t lr_stage_store_rows(const lr_stage_store *store, const char *name);
/* One NAME.npy each into `directory` (made if absent): [rows, ...], or [layers, rows, ...]. */
lr_status lr_stage_store_write(const lr_stage_store *store, const char *directory, lr_error *err);

#endif
