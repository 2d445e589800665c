/* Embedding sets in other formats. Every set is verified first; the file is written aside and renamed, so
 * it is whole or not there, and takes the place of one of that name. */
#ifndef LONGREEL_EXPORT_H
#define LONGREEL_EXPORT_H

#include <longreel/store.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A SQLite database with the tables
 *   sets (id, path, recording, model, model_hash, context, dim, duration, key, vector)
 *   segments (set_id, i, start, end, first_token, end_token, vector)
 *   frames (set_id, i, t, vector)
 * Vectors are blobs of dim little-endian float32, as sqlite-vec and numpy.frombuffer read them. */
lr_status lr_export_sqlite(lr_set *const *sets, size_t n_sets, const char *path, lr_error *err);

/* One row a vector, with a header: set, recording, level (recording, segment or frame), i, start, end,
 * v0 ... A frame's end is empty. Numbers are written so that reading them gives the same float32. All sets
 * must have vectors of one width (LR_E_USAGE names the one that has another). */
lr_status lr_export_csv(lr_set *const *sets, size_t n_sets, const char *path, lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
