/* A small set with known vectors, for the tests of store/. */
#ifndef SET_CASE_H
#define SET_CASE_H

#include "lr_test.h"

#include <longreel/store.h>

typedef struct set_case {
    size_t dim, n_segments, n_frames;
    uint64_t seed;
    const char *model_hash, *key;
    bool tokens, replace;
} set_case;

/* Writes the set; vectors are random unit ones, segment i lies at [10 i, 10 i + 10). */
lr_status write_set(const char *path, const set_case *what, lr_error *err);
/* Row r of the case's segment vectors, as written. */
void case_vector(const set_case *what, size_t r, float *out);

#endif
