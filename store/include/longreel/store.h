/* Store: embedding sets on disk, search over them, exports.
 *
 * A set is a directory: manifest.json, recording.npy, segments.npy + segments.jsonl, frames.npy +
 * frames.jsonl, on request tokens.safetensors and stages/. It is written beside its final name
 * (".<name>.part-<pid>") and renamed when complete: a set is whole or not there. docs/sets.md has the
 * formats. */
#ifndef LONGREEL_STORE_H
#define LONGREEL_STORE_H

#include <longreel/core.h>
#include <longreel/kernels.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LR_SET_FORMAT "longreel-embeddings/1"

/* ------------------------------------------------------------------ npy */

/* A C-contiguous .npy (version 1.0, little endian) written row by row; the shape is known at the
 * start. Written under its name in place: callers write into a directory that is not yet final. */
typedef struct lr_npy_writer lr_npy_writer;
lr_status lr_npy_create(lr_npy_writer **out, const char *path, lr_dtype dtype, const size_t *dims,
                        size_t n_dims, lr_error *err);
lr_status lr_npy_write(lr_npy_writer *writer, const void *data, size_t bytes, lr_error *err);
/* Checks that exactly the shape's bytes came, syncs, closes. */
lr_status lr_npy_finish(lr_npy_writer *writer, lr_error *err);
void lr_npy_discard(lr_npy_writer *writer); /* NULL allowed; after finish not to be called */

typedef struct lr_npy { /* a read-only mapping */
    lr_tensor tensor;
    void *map;
    size_t map_bytes;
} lr_npy;
lr_status lr_npy_open(lr_npy *out, const char *path, lr_error *err);
void lr_npy_close(lr_npy *npy);

/* ------------------------------------------------------------------ rows of a set */

typedef struct lr_segment_row {
    double start, end;       /* seconds; end of the last one is the recording's end when shorter */
    uint64_t first, end_token; /* the tokens of its spans: [first, end_token) of the sequence */
} lr_segment_row;

typedef struct lr_frame_row {
    int64_t i;
    double t;
} lr_frame_row;

/* ------------------------------------------------------------------ writing
 *
 * One thread. Everything that fails leaves nothing behind but what was there before. */
typedef struct lr_set_writer lr_set_writer;

/* May a set take the place of what is at final_path? Only of an embedding set, whole or damaged, that holds
 * nothing else: never of a file, a link, or a directory with anything foreign in it (LR_E_EXISTS).
 * *there: something is at final_path. */
lr_status lr_set_may_replace(const char *final_path, bool *there, lr_error *err);
/* final_path: OUT/<name>. An existing set there is only replaced at commit when `replace`; else
 * LR_E_EXISTS at once, and always for what is no set. Creates parents. */
lr_status lr_set_create(lr_set_writer **out, const char *final_path, bool replace, lr_error *err);
/* The directory being filled (for tokens.safetensors and stages/). */
const char *lr_set_directory(const lr_set_writer *writer);
lr_status lr_set_recording(lr_set_writer *writer, const float *vector, size_t dim, lr_error *err);
lr_status lr_set_segments(lr_set_writer *writer, const lr_segment_row *rows, const float *vectors,
                          size_t count, size_t dim, lr_error *err);
lr_status lr_set_frames(lr_set_writer *writer, const lr_frame_row *rows, const float *vectors,
                        size_t count, size_t dim, lr_error *err);
/* tokens.safetensors as a stream, since it grows with the recording: first `tensors`, given whole, in
 * this order (types of more bytes first, so that each lies aligned; names of letters, digits and '_'),
 * then the rows of `hidden` float32 [n, hidden]. */
typedef struct lr_set_tensor {
    const char *name;
    lr_tensor tensor;
} lr_set_tensor;
lr_status lr_set_tokens_begin(lr_set_writer *writer, const lr_set_tensor *tensors, size_t count,
                              uint64_t n, size_t hidden, lr_error *err);
lr_status lr_set_tokens_rows(lr_set_writer *writer, const float *hidden, uint64_t rows, lr_error *err);
/* Writes manifest.json (text as given, JSON) last, with the hash of every other file added under
 * "files"; syncs; renames into place. The writer is gone afterwards, whatever the result. */
lr_status lr_set_commit(lr_set_writer *writer, const char *manifest_json, lr_error *err);
void lr_set_abandon(lr_set_writer *writer); /* removes the unfinished directory; NULL allowed */

/* ------------------------------------------------------------------ reading */

typedef struct lr_set lr_set; /* mapped, immutable */
lr_status lr_set_open(lr_set **out, const char *path, lr_error *err);
void lr_set_close(lr_set *set);
typedef struct lr_set_info {
    const char *path, *name, *recording; /* recording: the file's name as encoded */
    const char *model_hash, *model_name, *context; /* what must agree for a search */
    const char *key;                               /* content key: "is this the same work?" */
    size_t dim;
    double duration;
    size_t n_segments, n_frames;
    const float *recording_vector, *segments, *frames; /* [dim], [n, dim], [n, dim] */
    const lr_segment_row *segment_rows;
    const lr_frame_row *frame_rows;
    const char *manifest; /* the JSON text */
} lr_set_info;
const lr_set_info *lr_set_info_of(const lr_set *set);
/* Finds sets below `paths` (a set itself, or directories that hold sets), sorted by path. */
lr_status lr_set_find(const char *const *paths, size_t n_paths, char ***out, size_t *count,
                      lr_error *err);
void lr_set_find_free(char **found, size_t count);
/* Every file against the manifest's hashes, shapes against the counts, norms 1, rows in order. */
lr_status lr_set_verify(const char *path, lr_error *err);

/* ------------------------------------------------------------------ state of an output directory */

typedef enum lr_set_state {
    LR_SET_FINISHED,
    LR_SET_UNDER_WAY,   /* a process that lives is writing it */
    LR_SET_INTERRUPTED, /* its process ended before it was finished */
    LR_SET_FAILED
} lr_set_state;

/* Of a set that is not finished: what the next run need not do again (longreel/partial.h), and of how much.
 * Layers are summed over windows. */
typedef struct lr_set_stored {
    uint64_t frames, of_frames, sound_tokens, of_sound_tokens, layers, of_layers;
} lr_set_stored;

typedef struct lr_set_entry {
    char *path;  /* of the set, or where it would be */
    lr_set_state state;
    char *error; /* of the last try, when that failed (a finished set may have one, too); else NULL */
    bool has_stored;
    lr_set_stored stored;
} lr_set_entry;

/* Sorted by path. */
lr_status lr_set_states(const char *directory, lr_set_entry **out, size_t *count, lr_error *err);
void lr_set_states_free(lr_set_entry *entries, size_t count);
/* Remembers why nothing was written to final_path, until a set is committed there. */
lr_status lr_set_note_failure(const char *final_path, const char *text, lr_error *err);

/* ------------------------------------------------------------------ outputs that are inputs
 *
 * LR_E_USAGE when the file `output` is the file `input`, under whatever name; when it is a file of the set,
 * or would lie in the set's directory. */
lr_status lr_refuse_input(const char *output, const char *input, lr_error *err);
lr_status lr_refuse_set_file(const char *output, const char *set_path, lr_error *err);

/* ------------------------------------------------------------------ pictures and sound as files
 *
 * Written aside and renamed: what stood there before is lost only when the new file is whole. */

/* rgb [height, stride], 8 bits, interleaved; 3 * width bytes of a row are used. */
lr_status lr_png_write(const char *path, const uint8_t *rgb, size_t stride, int width, int height,
                       lr_error *err);

/* One channel of 32-bit float samples at `rate`, `count` of them altogether. */
typedef struct lr_wav_writer lr_wav_writer;
lr_status lr_wav_create(lr_wav_writer **out, const char *path, int rate, uint64_t count, lr_error *err);
lr_status lr_wav_write(lr_wav_writer *writer, const float *samples, size_t count, lr_error *err);
/* Checks that all samples came; the writer is gone afterwards, whatever the result. */
lr_status lr_wav_finish(lr_wav_writer *writer, lr_error *err);
void lr_wav_discard(lr_wav_writer *writer); /* NULL allowed */

/* ------------------------------------------------------------------ search */

typedef enum lr_level { LR_LEVEL_SEGMENT, LR_LEVEL_FRAME, LR_LEVEL_RECORDING } lr_level;

typedef struct lr_hit {
    float score;    /* dot product of unit vectors: cosine */
    size_t set;     /* index in the sets given */
    double start, end;
} lr_hit;

/* The best k rows over all sets for a unit vector [dim] (same dim in all: LR_E_USAGE otherwise, naming
 * the set). merge: neighbouring hits among the best 4k become one range with the best score, then the
 * first k are kept. Sorted by score, then set, then start. *hits is freed by lr_free. */
lr_status lr_search(const lr_kernels *kernels, lr_pool *pool, lr_set *const *sets, size_t n_sets,
                    const float *query, size_t dim, lr_level level, size_t k, bool merge,
                    lr_hit **hits, size_t *count, lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
