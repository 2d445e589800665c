/* Encoder: checkpoints, model families, towers, backbone, pooling.
 *
 * A model is opened once and immutable afterwards; every rank (thread) of a process shares it. */
#ifndef LONGREEL_ENCODER_H
#define LONGREEL_ENCODER_H

#include <longreel/core.h>
#include <longreel/device.h>
#include <longreel/kernels.h>
#include <longreel/ring.h>
#include <longreel/tokenize.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ safetensors
 *
 * A directory's model.safetensors or model.safetensors.index.json with its shards, mapped read-only.
 * Offsets, shapes and sizes are checked against the file before anything is touched. */
typedef struct lr_checkpoint lr_checkpoint;

lr_status lr_checkpoint_open(lr_checkpoint **out, const char *directory, lr_error *err);
/* One .safetensors file by path. */
lr_status lr_checkpoint_open_file(lr_checkpoint **out, const char *path, lr_error *err);
void lr_checkpoint_close(lr_checkpoint *checkpoint);
size_t lr_checkpoint_count(const lr_checkpoint *checkpoint);
const char *lr_checkpoint_name(const lr_checkpoint *checkpoint, size_t i);
/* NULL when absent. The view lives as long as the checkpoint. */
const lr_tensor *lr_checkpoint_find(const lr_checkpoint *checkpoint, const char *name);
/* XXH3-128 over config.json and all tensor bytes in name order; hex into 33 bytes. Cached beside
 * nothing; costs one pass over the weights, done on first use, thread-safe. */
lr_status lr_checkpoint_hash(lr_checkpoint *checkpoint, char hex[33], lr_error *err);

/* Writes a .safetensors file (fixtures, tokens.safetensors, made models): names and views in, one
 * file out, written aside and renamed. */
typedef struct lr_named_tensor {
    const char *name;
    lr_tensor tensor;
} lr_named_tensor;
lr_status lr_safetensors_write(const char *path, const lr_named_tensor *tensors, size_t count,
                               lr_error *err);

/* ------------------------------------------------------------------ models */

typedef struct lr_model lr_model;

typedef struct lr_model_info {
    const char *directory;
    const char *name;    /* last component of the directory */
    const char *family;  /* "embeddinggemma2", "vjepa2" */
    size_t hidden;       /* width of the residual stream */
    size_t dim;          /* width of a vector */
    const int *dims;     /* Matryoshka widths, descending, dim first */
    size_t n_dims;
    uint64_t trained_context; /* tokens */
    bool has_text, has_vision, has_audio;
    lr_picture_geometry picture; /* budget: the family's default for video frames */
    int image_budget;            /* default for single pictures */
    const int *budgets;          /* allowed soft-token budgets */
    size_t n_budgets;
    lr_sequence_rules rules;
    const lr_tokenizer *tokenizer; /* NULL without text */
    size_t n_layers;
    uint64_t n_values; /* parameters */
    double picture_macs, sound_macs; /* multiply-adds of the towers a soft token, about; for the time left */
} lr_model_info;

typedef struct lr_model_options {
    const lr_kernels *kernels;
    lr_pool *pool;      /* used while opening (packing weights); may be NULL */
    bool vision, audio; /* prepare these towers (text and backbone always); a tower the checkpoint lacks is
                           skipped */
    const lr_device_options *device; /* where the backbone is to run, opened and closed with the model; NULL: the CPU.
                                        Towers and the embedding of ids stay on the CPU */
} lr_model_options;

/* LR_E_MODEL / LR_E_UNSUPPORTED / LR_E_IO name the file, and the key or tensor with what it is and
 * what it must be. */
lr_status lr_model_open(lr_model **out, const char *directory, const lr_model_options *options,
                        lr_error *err);
void lr_model_close(lr_model *model);
const lr_model_info *lr_model_info_of(const lr_model *model);
const lr_kernels *lr_model_kernels(const lr_model *model);
/* The device that the backbone runs on; NULL: the CPU. */
const lr_device_info *lr_model_device(const lr_model *model);
/* Bytes that are free on it now. */
lr_status lr_model_device_left(const lr_model *model, size_t *bytes, lr_error *err);
lr_status lr_model_hash(lr_model *model, char hex[33], lr_error *err);
/* The model's published prompt for a task ("search-query", ...); NULL when there is none. The n-th
 * task's name, NULL past the end. */
const char *lr_model_prompt(const lr_model *model, const char *task);
const char *lr_model_task(const lr_model *model, size_t n);

/* Everything a rank needs to run stages on its own threads. */
typedef struct lr_worker {
    lr_pool *pool;
    lr_cancel *cancel;
} lr_worker;

/* Called with named intermediate results (--save stages): rows [rows, cols] starting at absolute row
 * `first`; f32 or u8. Used on one rank only. */
typedef lr_status (*lr_stage_sink)(void *arg, const char *name, int layer, uint64_t first,
                                   const lr_tensor *rows, lr_error *err);
typedef struct lr_stage_tap {
    lr_stage_sink sink; /* NULL: off */
    void *arg;
} lr_stage_tap;

/* ------------------------------------------------------------------ vision
 *
 * One picture to soft tokens: frame (any size) -> the family's resize to width x height (as
 * lr_picture_size gave them) -> patches -> tower -> pool -> projector. soft [soft_tokens, hidden]. Same
 * bits for any pool. A lr_vision holds the scratch memory; one per thread of use.
 *
 * Where a span is made of several frames (info.rules.frame_parts; a tubelet), those before the last are given
 * by lr_vision_hold in order, and lr_vision_encode gets the last. Of fewer frames the tower makes a whole
 * span by repeating them: a picture is one frame. */
typedef struct lr_vision lr_vision;
lr_status lr_vision_create(lr_vision **out, const lr_model *model, int width, int height,
                           const lr_worker *worker, lr_error *err);
void lr_vision_free(lr_vision *vision);
lr_status lr_vision_hold(lr_vision *vision, const lr_frame *frame, lr_error *err);
lr_status lr_vision_encode(lr_vision *vision, const lr_frame *frame, float *soft,
                           const lr_stage_tap *tap, lr_error *err);
/* Work memory that one takes on so many threads, but for what follows the frames' own size; for plans. 0
 * without a vision tower. */
size_t lr_vision_memory(const lr_model *model, int width, int height, size_t threads);

/* ------------------------------------------------------------------ sound
 *
 * The whole track's tokens [first, end) from its samples, streamed: feed samples from the start of
 * the look-back (lr_sound_tower_first_sample, a multiple that keeps the tiles) on, in any pieces;
 * tokens come out through `sink` in order. A slice gives the same bits as the whole. */
typedef struct lr_sound_tower lr_sound_tower;
typedef lr_status (*lr_sound_sink)(void *arg, uint64_t first_token, uint64_t count, const float *soft,
                                   lr_error *err);
lr_status lr_sound_tower_create(lr_sound_tower **out, const lr_model *model, int64_t n_samples,
                                uint64_t first_token, uint64_t end_token, const lr_worker *worker,
                                lr_sound_sink sink, void *arg, const lr_stage_tap *tap,
                                lr_error *err);
int64_t lr_sound_tower_first_sample(const lr_sound_tower *tower);
lr_status lr_sound_tower_feed(lr_sound_tower *tower, const float *samples, size_t count,
                              lr_error *err);
lr_status lr_sound_tower_finish(lr_sound_tower *tower, lr_error *err);
void lr_sound_tower_free(lr_sound_tower *tower);
/* Work memory of one for tokens tokens; for plans. 0 without a sound tower. */
size_t lr_sound_tower_memory(const lr_model *model, uint64_t tokens, size_t threads);

/* ------------------------------------------------------------------ backbone */

/* Embedding rows of text ids (scaled as the family does): out [count, hidden]. Placeholder ids give
 * zero rows (the caller splices soft tokens in). */
lr_status lr_embed_ids(const lr_model *model, const int32_t *ids, size_t count, float *out,
                       lr_error *err);

typedef struct lr_backbone_stats {
    uint64_t query_rows;   /* tokens whose attention this rank computed, summed over layers */
    lr_ring_stats ring;    /* summed over layers */
    size_t arena_bytes;    /* work memory of this rank */
    size_t device_bytes;   /* and on its device */
    double seconds_attention, seconds_linear, seconds_exchange; /* mean over the rank's threads */
    /* Of layers that see more than a window, on one rank: processor time of all threads in attention, and the
     * rows that attended, summed over these layers. */
    double processor_full;
    uint64_t full_rows;
} lr_backbone_stats;

/* For measurements: a part of the work that stands for the whole. What comes out then means nothing. */
typedef struct lr_backbone_part {
    size_t layers; /* the first so many; 0: all */
    size_t every;  /* on one rank, in layers that see more than a window: every so manieth tile of queries
                      attends; 0: each */
} lr_backbone_part;

/* Where a pass is taken up, and what is put away so that another one can be. */
typedef struct lr_backbone_state {
    size_t first_layer; /* layers before it are done: the same on all ranks */
    /* h [local tokens, hidden] after `layer`: first_layer - 1. Called where that is not negative. */
    lr_status (*load)(void *arg, size_t layer, float *h, lr_error *err);
    /* After each layer in which all tokens see each other, and after the last one. NULL: not called. */
    lr_status (*save)(void *arg, size_t layer, const float *h, lr_error *err);
    /* After each layer (and save); a failure ends the pass. NULL: not called. *leave: the pass is to end here, by
       a call of leave_with, which gets h and fails. (Apart, since h may have to come from a device.) */
    lr_status (*after)(void *arg, size_t layer, bool *leave, lr_error *err);
    lr_status (*leave_with)(void *arg, size_t layer, const float *h, lr_error *err);
    /* Now and then within a layer, by the calling thread: which share of its attention is done; 0: not known. */
    void (*within)(void *arg, double share);
    void *arg;
} lr_backbone_state;

typedef struct lr_backbone_run {
    lr_comm *comm;
    const lr_partition *partition;
    uint64_t sequence;      /* number of the window */
    lr_schedule schedule;   /* of layers that see more than a window; those fetch a halo */
    int node_ranks;         /* as in lr_exchange; 0: all ranks are one node */
    lr_worker worker;
    void (*progress)(void *arg, size_t layer, size_t n_layers, double share); /* may be NULL */
    void *progress_arg;
    lr_stage_tap tap;
    lr_backbone_state state; /* zeros: from the beginning, nothing put away */
    lr_backbone_part part;   /* zeros: the whole */
    /* On a device: most rows, and chunks of other ranks, worked at a time; 0: as fits it. Never a matter of the
       result. */
    size_t device_rows, device_chunks;
} lr_backbone_run;

/* Collective. x [local tokens, hidden]: in, the spliced embeddings of this rank's tokens; out, the
 * hidden states after the final norm. Memory: see docs/architecture.md (about 8 KB a token at one
 * rank, 26 on a ring, for the published shape, x included). */
lr_status lr_backbone_forward(const lr_model *model, const lr_backbone_run *run, float *x,
                              lr_backbone_stats *stats, lr_error *err);
/* Work memory that a forward pass takes on `rank`, x excluded; for plans. Of `run` partition, schedule and
 * node_ranks count, and of comm (may be NULL) whether it shares memory. */
lr_status lr_backbone_memory(const lr_model *model, const lr_backbone_run *run, int rank,
                             size_t threads, size_t *bytes, lr_error *err);

/* The same of the device's memory, at least, where the model lies on one (lr_model_device). */
lr_status lr_backbone_device_memory(const lr_model *model, const lr_backbone_run *run, int rank, size_t *bytes,
                                    lr_error *err);

/* Shape of the layers that see the whole sequence; false where there is none. */
bool lr_model_full_layer(const lr_model *model, size_t *n_heads, lr_kv_shape *shape);

/* Floating-point operations of matrix products and attention, two for a multiply-add: of a forward pass over a
 * sequence of n tokens; of its first `layers` layers (0: all), apart for attention that sees more than a window;
 * of a picture of width x height as lr_picture_size gave them, of sound tokens (0 without the tower). */
double lr_backbone_flop(const lr_model *model, uint64_t n_tokens);
double lr_layers_flop(const lr_model *model, uint64_t n_tokens, size_t layers, double *full_attention);
size_t lr_full_layers(const lr_model *model, size_t layers); /* of these, those with such attention */
double lr_vision_flop(const lr_model *model, int width, int height);
double lr_sound_flop(const lr_model *model, uint64_t tokens);

/* Pooled means to vectors: sum [hidden] in fp64 over `count` tokens -> mean -> projection -> the first
 * `dim` values -> L2 norm 1, into out [dim]. All in fp64 until the last rounding. */
lr_status lr_project(const lr_model *model, const double *sum, uint64_t count, size_t dim, float *out,
                     lr_error *err);
/* The same without the model at hand (saved tokens keep the matrix). */
typedef struct lr_projection {
    const float *matrix; /* [dim, hidden]; NULL: a vector is the mean itself, dim = hidden */
    size_t dim, hidden;
    const char *source;  /* where the matrix comes from, for messages */
} lr_projection;         /* a view: it lives as long as what it was taken from */
lr_projection lr_model_projection(const lr_model *model);
lr_status lr_projection_apply(const lr_projection *projection, const double *sum, uint64_t count,
                              size_t dim, float *out, lr_error *err);

/* ------------------------------------------------------------------ made models
 *
 * Writes a checkpoint of the published layout with seeded random weights: for samples and tests;
 * its vectors mean nothing. */
/* DEEP: as narrow as SMALL, with as many layers as FULL. */
typedef enum lr_made_size { LR_MADE_SMALL, LR_MADE_DEEP, LR_MADE_FULL } lr_made_size;
lr_status lr_make_model(const char *directory, const char *family, lr_made_size size, uint64_t seed,
                        lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
