/* Work on a recording that is not finished yet, kept so that another run goes on from there:
 * OUT/.partial/<key>/, where `key` stands for everything that changes the bytes. docs/sets.md has the format.
 *
 * It is kept in slices: rows [first, end) of a series, with notes. Slices of a series may overlap and be of any
 * length, so that they serve any number of ranks. Each is a file of its own, written aside and renamed, with a
 * hash; what is torn or altered is never handed out. Several processes, and threads of one, may put and get
 * slices of the same work at the same time. */
#ifndef LONGREEL_PARTIAL_H
#define LONGREEL_PARTIAL_H

#include <longreel/core.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lr_slice_kind {
    LR_SLICE_ABOUT,       /* one, without rows: an lr_partial_about and the set's name */
    LR_SLICE_FRAMES,      /* rows: frames of the grid */
    LR_SLICE_SOUND,       /* rows: sound tokens */
    LR_SLICE_SOUND_NOTES, /* one, without rows: what is known once the sound is decoded to its end */
    LR_SLICE_LAYER        /* rows: tokens of a window, after a layer */
} lr_slice_kind;

typedef struct lr_slice_name {
    lr_slice_kind kind;
    uint32_t window, layer; /* of LAYER; else 0 */
    uint64_t first, end;
} lr_slice_name;

typedef struct lr_slice {
    void *rows;         /* [end - first] of the bytes asked for, one after another */
    const void *notes;
    size_t notes_bytes; /* `rows` owns both: lr_free */
} lr_slice;

/* For people: what is all to be done. */
typedef struct lr_partial_about {
    uint64_t tokens, frames, sound_tokens, windows, layers; /* layers: of the model */
} lr_partial_about;

typedef struct lr_partial lr_partial;

/* Makes the directory or takes up the one that is there; `afresh`: what is there is removed first. *out is NULL
 * (and LR_OK) when that cannot be because another process works on it: this run then keeps nothing. */
lr_status lr_partial_open(lr_partial **out, const char *set_path, const char *key, bool afresh,
                          const lr_partial_about *about, lr_error *err);
/* OUT/.partial/<key> */
const char *lr_partial_directory(const lr_partial *partial);
/* What was there when it was opened, sorted; whether it is good shows when it is got. */
const lr_slice_name *lr_partial_slices(const lr_partial *partial, size_t *count);
lr_status lr_partial_put(lr_partial *partial, const lr_slice_name *name, size_t row_bytes, const void *rows,
                         const void *notes, size_t notes_bytes, lr_error *err);
/* LR_E_FORMAT, LR_E_IO: it cannot be used. */
lr_status lr_partial_get(lr_partial *partial, const lr_slice_name *name, size_t row_bytes, lr_slice *out,
                         lr_error *err);
void lr_partial_drop(lr_partial *partial, const lr_slice_name *name);
/* Leaves everything for the next run. NULL allowed. */
void lr_partial_close(lr_partial *partial);
/* The set is finished: removes everything that is kept of it, also under other keys, unless another process uses it
 * (the last one does it then). */
void lr_partial_finish(const char *set_path, const char *key);

#ifdef __cplusplus
}
#endif
#endif
