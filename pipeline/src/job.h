/* Inside pipeline/: one recording on its way through the stages. What is here is shared by all ranks
 * of the process; each rank's own state lives on its stack. */
#ifndef LONGREEL_PIPELINE_JOB_H
#define LONGREEL_PIPELINE_JOB_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <jansson.h>

#include <longreel/longreel.h>
#include <longreel/partial.h>

#include "stages.h"

typedef struct lr_meter { /* progress of all ranks together */
    lr_progress_callback callback;
    void *arg;
    pthread_mutex_t lock;
    bool ready;
    struct timespec begin;
    lr_progress last;
    atomic_uint_fast64_t units_done; /* of the stage at hand */
    uint64_t units;
    double spent_weight, stage_weight, weight; /* predicted work, for the time left */
    size_t window, windows; /* the one at hand, of how many */
} lr_meter;

/* pool.c: sums over tokens.
 *
 * The sequence is cut in pieces: span and chunk borders together. A piece has two fp64 sums over its
 * tokens, in ascending order: all tokens, and soft tokens. A piece lies in one chunk, so one rank
 * makes it, and every sum over pieces is taken in ascending order of the sequence: the vectors are
 * the same to the bit for any number of ranks. */
typedef struct lr_pooling {
    const lr_layout *layout;
    const lr_kernels *kernels;
    lr_projection projection;
    uint64_t chunk;
    lr_time segment, hop;
    lr_time base, end; /* of the part encoded: the first segment's start, and where the last one ends */
    size_t dim;
} lr_pooling;

typedef struct lr_pieces {
    size_t count;
    double *sums;         /* [count, 2, hidden] */
} lr_pieces;
/* Pieces of tokens [first, end) of the window (chunk borders counted from the window's start). */
size_t lr_pieces_count(const lr_layout *layout, const lr_window *window, uint64_t chunk,
                       uint64_t first, uint64_t end);
lr_status lr_pieces_sum(const lr_pooling *pooling, const lr_window *window, uint64_t first, uint64_t end,
                        const float *x, lr_pieces *out, lr_error *err);

typedef struct lr_pooler lr_pooler; /* rank 0: pieces in, vectors out */
lr_status lr_pooler_create(lr_pooler **out, const lr_pooling *pooling, lr_error *err);
void lr_pooler_free(lr_pooler *pooler);
/* The next pieces of `window`, in order; sums [count, 2, hidden]. */
lr_status lr_pooler_add(lr_pooler *pooler, const lr_window *window, const double *sums, size_t count,
                        lr_error *err);
/* Writes recording, segments and frames to the set; *segments: how many have tokens. */
lr_status lr_pooler_write(lr_pooler *pooler, lr_set_writer *writer, uint64_t *segments, lr_error *err);

/* sound_track.c: the sound decoded once, where several slices want it */
typedef struct lr_sound_track {
    pthread_mutex_t lock;
    bool ready;
    int fd; /* of a file without a name; -1 until the first slice asked */
    uint64_t decoded; /* samples, by this process */
} lr_sound_track;

/* stored.c: what is kept of unfinished work */
typedef struct lr_stored {
    bool wanted;         /* the same on all ranks */
    lr_partial *partial; /* NULL: nothing is kept or taken over */
    uint64_t reserve;    /* bytes of the disk that are left to the set */
    atomic_bool warned;
} lr_stored;

typedef struct lr_job {
    lr_model *model;
    const lr_encode_options *options; /* checked; dim, ranks, threads and soft_tokens filled in */
    lr_recording *recording;
    const lr_timeline *timeline;
    lr_layout *layout;
    char model_hash[33];
    char *key;             /* "is this the same work?": hex */
    lr_comm *comm;         /* NULL: local ranks share this job; else each of its ranks has its own */
    int ranks, threads;
    int ring_node;         /* ranks of a node for the schedule, rank 0's; 0: all */
    size_t dim;
    lr_pooling pooling;

    lr_set_writer *writer; /* rank 0 alone touches it */
    lr_encode_result *result;
    lr_stage_store *stages; /* NULL unless asked for */
    lr_meter meter;

    lr_sound_track sound;
    lr_stored stored;

    pthread_mutex_t damage_lock;
    lr_damage *damage;      /* met while decoding, by all ranks */
    size_t n_damage, damage_capacity;

    size_t predicted_bytes; /* of this process, at most */
    double predicted_seconds; /* of towers and backbone; negative: not predicted */
    size_t run_warnings_capacity; /* of the result's */
    atomic_int stage;         /* the lr_stage at hand, for messages: each rank of the process notes it */
    atomic_size_t layer;      /* of the backbone */
    double seconds_index, seconds_towers, seconds_backbone, seconds_write; /* rank 0's */
} lr_job;

static inline bool lr_job_writes(const lr_job *job) {
    return !job->comm || job->comm->rank == 0;
}

/* ranks.c: ranks that are processes */
/* LR_E_USAGE names what differs from rank 0: build, instruction set, model, an option. */
lr_status lr_ranks_compare(lr_comm *comm, lr_model *model, const lr_encode_options *options, lr_error *err);
/* Rank 0 makes the index, the others get it. */
lr_status lr_ranks_open(lr_comm *comm, lr_recording **out, const char *path, const lr_ingest_options *options,
                        lr_error *err);
/* The accounts of all ranks' work to all, the damage they met to rank 0. */
lr_status lr_ranks_collect(lr_job *job, lr_error *err);

/* run_warnings.c: about the run, on whichever rank; logged, and kept for the manifest */
void lr_job_warn(lr_job *job, const char *text);
/* Of all ranks, to rank 0's result. */
lr_status lr_run_warnings_gather(lr_job *job, lr_error *err);
json_t *lr_run_warnings_json(const lr_encode_result *result);

/* schedule.c: the same on all ranks; AUTO where there is nothing to choose. */
lr_status lr_job_schedule(const lr_job *job, uint64_t n_tokens, lr_schedule *out, lr_error *err);
const char *lr_schedule_name(lr_schedule schedule);

/* memory.c; 0: not known */
/* Free on this machine and in this process's control groups. */
size_t lr_memory_available(void);
size_t lr_memory_resident(void);
/* The most that was resident since the process began, or the last call of forget. */
size_t lr_memory_peak(void);
void lr_memory_forget_peak(void);

/* options.c */
#define LR_DEVICE_TEXT 160
/* "NVIDIA H200, sm_90": on which the bytes depend. */
void lr_device_text(const lr_device_info *device, char text[LR_DEVICE_TEXT]);
int lr_processors(void);
/* For one of so many processes on this machine. */
int lr_process_threads(int processes);
double lr_seconds_since(const struct timespec *begin);
/* Puts "<path>: " before a recorded text, unless it begins with the path. */
void lr_error_about(lr_error *err, const char *path);
lr_status lr_check_model_options(const lr_encode_options *options, const lr_model_info *info,
                                 lr_error *err);

/* meter.c */
lr_status lr_meter_init(lr_meter *meter, const lr_encode_options *options, const char *recording,
                        lr_error *err);
void lr_meter_free(lr_meter *meter);
/* Window w of n, before its first stage. */
void lr_meter_window(lr_meter *meter, size_t w, size_t n);
/* Begins a stage of `units` pieces that is expected to take `weight` of the whole. */
void lr_meter_stage(lr_meter *meter, lr_stage stage, uint64_t units, double weight);
void lr_meter_add(lr_meter *meter, uint64_t units);

/* prepare.c: recording, layout, key; no decoding. */
lr_status lr_job_prepare(lr_job *job, lr_model *model, const char *recording,
                         const lr_encode_options *options, lr_comm *comm, lr_error *err);
void lr_job_free(lr_job *job);
lr_status lr_job_add_damage(lr_job *job, const lr_damage *damage, size_t count, lr_error *err);
/* Once all ranks are through: job->damage takes the timeline's in, and each range stands there once,
 * however many ranks and windows met it. */
lr_status lr_job_settle_damage(lr_job *job, lr_error *err);

lr_status lr_sound_track_init(lr_sound_track *track, lr_error *err);
void lr_sound_track_free(lr_sound_track *track);
/* Samples [first, first + capacity) of the track, fewer at its end; decodes it all on the first call. */
lr_status lr_sound_track_read(lr_job *job, lr_cancel *cancel, int64_t first, float *samples,
                              size_t capacity, size_t *count, lr_error *err);

/* Collective where ranks are processes: of those of a machine that want the track one decodes it, and the others
 * have it when this returns, or will decode it by themselves. */
lr_status lr_sound_track_share(lr_job *job, bool wants, lr_cancel *cancel, lr_error *err);

/* Out of memory is the only failure: what cannot be written is warned of once, what cannot be used is told of,
 * dropped, and made again. All of it may be called by any rank, with nothing stored too. */
lr_status lr_stored_open(lr_job *job, const char *set_path, lr_error *err);
void lr_stored_close(lr_job *job);
lr_status lr_stored_put(lr_job *job, const lr_slice_name *name, size_t row_bytes, const void *rows,
                        const void *notes, size_t notes_bytes, lr_error *err);
/* *got: whether it could be used. */
lr_status lr_stored_get(lr_job *job, const lr_slice_name *name, size_t row_bytes, lr_slice *out, bool *got,
                        lr_error *err);
/* Of the sound, once it is decoded to its end. */
lr_status lr_stored_put_sound_damage(lr_job *job, const lr_damage *damage, size_t count, lr_error *err);
lr_status lr_stored_take_sound_damage(lr_job *job, bool *found, lr_error *err);

typedef lr_status (*lr_take_rows)(void *arg, uint64_t first, uint64_t count, const float *rows, lr_error *err);
typedef struct lr_stored_range { /* rows [first, end) of frames or sound tokens */
    lr_slice_kind kind;
    uint64_t first, end;
    size_t row_floats;
    unsigned char *have; /* [end - first] */
    lr_take_rows take;
    void *arg;
} lr_stored_range;
/* Calls take(arg, ...) for the stored rows, each once and in order, and marks them in have[]. What was met while
 * they were decoded is added to the damage. */
lr_status lr_stored_take(lr_job *job, const lr_stored_range *range, lr_error *err);
/* The directory names slices that together hold rows [first, end). */
bool lr_stored_names(const lr_job *job, lr_slice_kind kind, uint64_t first, uint64_t end);
/* The next rows from *first on that have[] lacks; false when there are none. */
bool lr_stored_gap(const lr_stored_range *range, uint64_t *first, uint64_t *end);

/* Gathers rows that are made one after another and puts them away in slices that end at multiples of
 * slice_rows, whichever rank makes them. */
typedef struct lr_keeper {
    lr_job *job;
    lr_slice_kind kind;
    uint64_t slice_rows, first, end; /* rows [first, end) are not put away yet */
    size_t row_floats;
    float *rows; /* [slice_rows, row_floats]; NULL: nothing is kept */
} lr_keeper;
lr_status lr_keeper_begin(lr_keeper *keeper, lr_job *job, lr_slice_kind kind, uint64_t slice_rows,
                          size_t row_floats, lr_error *err);
/* How many of `count` rows it took: up to the end of a slice, which is then to be flushed. */
uint64_t lr_keeper_add(lr_keeper *keeper, uint64_t row, uint64_t count, const float *rows);
bool lr_keeper_full(const lr_keeper *keeper);
lr_status lr_keeper_flush(lr_keeper *keeper, const lr_damage *damage, size_t n_damage, lr_error *err);
/* Puts away what there is, also after a failure; fine after a begin that failed. */
void lr_keeper_end(lr_keeper *keeper, const lr_damage *damage, size_t n_damage);

/* stored_layers.c: the hidden state of a window's tokens after a layer */
typedef struct lr_layer_keeper {
    lr_job *job;
    lr_comm *comm;
    const lr_partition *parts;
    uint32_t window;
    uint64_t first, end; /* the rank's tokens, counted from the window's first */
    size_t row_bytes;
    size_t kept[2];      /* layers, the older one first; SIZE_MAX: none */
    lr_stop *stop;       /* NULL: a run that is stopped goes back to what is kept */
    struct timespec layer_begin, stop_seen;
    bool saw_stop;
} lr_layer_keeper;
void lr_layer_keeper_init(lr_layer_keeper *keeper, lr_job *job, lr_comm *comm, const lr_partition *parts,
                          size_t window);
/* Collective: layers before *first_layer need not be done again. */
lr_status lr_layer_keeper_choose(lr_layer_keeper *keeper, size_t *first_layer, lr_error *err);
/* What is to be held during the backbone; NULL: nothing is kept. */
lr_stop *lr_layer_stop(const lr_job *job);
lr_backbone_state lr_layer_keeper_state(lr_layer_keeper *keeper, size_t first_layer);

/* towers.c: x [local tokens, hidden] of tokens [first, end) of the whole sequence: text rows, pictures
 * and sound of the spans that touch it. */
/* Sound of the slice will have to be decoded, as far as the names of what is stored tell. */
bool lr_towers_want_sound(const lr_job *job, uint64_t first, uint64_t end);
uint64_t lr_towers_units(const lr_layout *layout, const lr_window *window); /* of the progress */
lr_status lr_job_towers(lr_job *job, const lr_worker *worker, uint64_t first, uint64_t end, float *x,
                        struct lr_rank_work *work, lr_error *err);

/* saved_rows.c: tokens.safetensors of embed, where inputs are short */
typedef struct lr_named_rows {
    int32_t *ids;   /* [n] */
    double *times;  /* [n] */
    float *hidden;  /* [n, width] */
    uint64_t n;
    size_t width, ids_capacity, times_capacity, hidden_capacity;
} lr_named_rows;
lr_status lr_named_rows_add(lr_named_rows *rows, const lr_layout *layout, const float *hidden,
                            size_t width, lr_error *err);
lr_status lr_named_rows_write(const lr_named_rows *rows, const char *path, lr_error *err);
void lr_named_rows_free(lr_named_rows *rows);

/* clip.c: the vector of a whole recording on one rank, without a set; to the bit what encode makes with the same
 * options. */
typedef struct lr_clip_run {
    lr_model *model;
    lr_comm *comm; /* of one rank */
    lr_worker worker;
    lr_encode_options options;
    lr_stage_store *stages;   /* or NULL */
    lr_named_rows *saved;     /* or NULL */
    uint64_t tokens_before;   /* rows of the stages so far; grows */
} lr_clip_run;
lr_status lr_clip_vector(lr_clip_run *run, const char *path, float *out, lr_error *err);

/* tokens.c: tokens.safetensors of a set holds all that pooling needs, so that a set can be pooled again
 * without the model: beside `time`, `input_ids` and `hidden`
 *   spans int64 [spans, 7]: kind (lr_span_kind), index, time in 1/705600000 s (INT64_MIN: none), first
 *   token, tokens, first soft token, soft tokens;
 *   windows int64 [windows, 2]: first token, tokens;
 *   part int64 [2]: start of the first segment and end of the recording's part, in the same unit;
 *   projection float32 [dim, hidden]; or identity int32 [1] where a vector is the mean of hidden itself. */
lr_status lr_tokens_begin(lr_set_writer *writer, const lr_pooling *pooling, lr_error *err);
typedef struct lr_saved_tokens {
    lr_checkpoint *file;
    lr_layout *layout;   /* without ids */
    const float *hidden; /* [layout->n_tokens, projection.hidden] */
    lr_projection projection;
    lr_time base, end;
} lr_saved_tokens;
/* Everything is checked but for the values of `hidden` and `projection`. */
lr_status lr_tokens_open(lr_saved_tokens *out, const char *path, lr_error *err);
void lr_tokens_close(lr_saved_tokens *tokens);

/* plan.c */
lr_status lr_plan_of_job(const lr_job *job, lr_plan *plan, lr_error *err);
/* LR_E_USAGE names what would fit instead, where the plan does not. */
lr_status lr_plan_refuse(const lr_job *job, lr_plan *plan, lr_error *err);

/* manifest.c */
/* `root` may be NULL: out of memory. Freed by lr_free. */
lr_status lr_json_text(const json_t *root, size_t flags, char **out, lr_error *err);
lr_status lr_manifest_text(const lr_job *job, char **json, lr_error *err);
/* job->key: the hash of all that changes values. */
lr_status lr_job_key(lr_job *job, lr_error *err);
/* The same of a manifest's own `recording`, `model`, `options` and `run`. */
lr_status lr_manifest_key(const json_t *manifest, char **key, lr_error *err);
/* Where the recording was, freed by lr_free; NULL where the manifest does not say. */
lr_status lr_manifest_path(const json_t *manifest, char **path, lr_error *err);
/* A set at set_path: with the same key the work is done; anything else is in the way. */
lr_status lr_look_for_set(const char *set_path, const char *key, bool *done, lr_error *err);

#endif
