/* Longreel: one recording becomes one token sequence, one encoder pass, and an embedding set.
 *
 * This is the public library call; everything here may be used from C and C++. Nothing prints; errors
 * come back in lr_error, progress through callbacks. A lr_model is shared by any number of calls. */
#ifndef LONGREEL_LONGREEL_H
#define LONGREEL_LONGREEL_H

#include <longreel/encoder.h>
#include <longreel/ingest.h>
#include <longreel/store.h>
#include <longreel/tokenize.h>

#ifdef __cplusplus
extern "C" {
#endif

const char *lr_version(void);

typedef enum lr_stage {
    LR_STAGE_INDEX, LR_STAGE_TOWERS, LR_STAGE_BACKBONE, LR_STAGE_WRITE
} lr_stage;

typedef struct lr_progress {
    const char *recording;
    lr_stage stage;
    double done;            /* share of the stage, 0..1 */
    double recording_seconds; /* of the recording, done so far (towers), or all that is wanted */
    double duration;          /* of what is wanted of it */
    double elapsed;         /* seconds since this recording began */
    double remaining;       /* predicted seconds; negative when not known yet */
} lr_progress;
typedef void (*lr_progress_callback)(void *arg, const lr_progress *progress);

typedef struct lr_encode_options {
    lr_rational fps;        /* 1 */
    int soft_tokens;        /* a frame's budget; 0: the model's default */
    uint64_t context;       /* tokens a window; 0: full */
    lr_time segment, hop;   /* 10 s, 10 s */
    size_t dim;             /* 0: the model's full width */
    lr_time start, end;     /* LR_TIME_NONE: all */
    bool video, audio, stamps;
    int audio_track;
    int decode;             /* lr_decode: what decodes pictures */
    int ranks, threads;     /* local ranks; threads a rank. 0: chosen for this machine */
    lr_comm *comm;          /* NULL, or the ranks instead: all of them make the same call, with a recording
                               that is the same file. Only rank 0 writes; all return the same status. A
                               recording that fails leaves the communicator as it was */
    int node_ranks;         /* of comm, on this machine; 0: all */
    int ring_node;          /* so many ranks make a node for the two-level schedule; 0: node_ranks */
    lr_schedule schedule;   /* of layers that see everything; the vectors are the same. AUTO: the one that
                               the simulation (longreel/ring_sim.h) finds fastest; HALO is none of them */
    uint64_t chunk;         /* tokens */
    bool save_tokens, save_stages;
    bool force;
    bool keep_unfinished;   /* what is done of a set goes to OUT/.partial/ (longreel/partial.h) until the set is
                               finished, and what another run left there is taken over. Not with save_stages */
    bool keep_layers;       /* with it: the hidden state after each layer that sees the whole sequence, too */
    size_t memory;          /* bytes that the processes on this machine may have; 0: what is free */
    struct lr_speed *speed; /* longreel/predict.h; NULL: times are not predicted. All zero: measured at the first
                               recording that is long enough for it not to count */
    double peer_timeout;
    lr_progress_callback progress; /* one call at a time, from any thread */
    void *progress_arg;
    lr_cancel *cancel;
    lr_stop *stop;          /* of the same cancel; NULL, or with keep_unfinished: asked for in the backbone, the layer
                               at hand is brought to its end and its state put away, if that comes within its grace */
} lr_encode_options;

lr_encode_options lr_encode_defaults(void);
/* Checks values against each other and the model; LR_E_USAGE names the option. */
lr_status lr_encode_check(const lr_encode_options *options, const lr_model *model, lr_error *err);

typedef struct lr_encode_result {
    bool skipped;           /* a finished set with the same key was there */
    char key[33];           /* of the work: hex */
    uint64_t tokens, frames, sound_tokens, segments;
    size_t n_warnings;
    double seconds;
    size_t peak_bytes;      /* of a process, while this recording was encoded */
    size_t predicted_bytes;
    double predicted_seconds; /* of towers and backbone; negative: not predicted */
    double duration; /* seconds of the recording that were encoded */
    int ranks;
    lr_schedule schedule; /* of the last window */
    struct lr_reused {
        uint64_t frames, sound_tokens, layers; /* taken over; layers: summed over windows */
    } reused;
    /* about the run, not the recording: what could not be kept or taken over; of all ranks, at rank 0 */
    struct lr_run_warning {
        int rank; /* local ranks: 0 */
        char *text;
    } *run_warnings; /* [n_run_warnings], freed by lr_encode_result_free */
    size_t n_run_warnings;
    /* for each rank, for tests and the manifest */
    struct lr_rank_work {
        uint64_t first_token, end_token;
        uint64_t frames_encoded, sound_tokens_encoded; /* of what two ranks share, both count theirs */
        uint64_t samples_decoded; /* of the sound: one process a machine decodes it; of local ranks, all of them */
        struct lr_reused reused; /* frames and sound tokens count where their (first) soft token is */
        lr_backbone_stats backbone;
    } *work; /* [ranks], freed by lr_encode_result_free */
} lr_encode_result;
void lr_encode_result_free(lr_encode_result *result);

/* Encodes one recording into the set directory `set_path`. */
lr_status lr_encode_recording(lr_model *model, const char *recording, const char *set_path,
                              const lr_encode_options *options, lr_encode_result *result,
                              lr_error *err);

/* One vector for a text, picture file, sound file or clip: out [dim]. `task` may be NULL. A clip's vector is
 * that of the recording as lr_encode_recording makes it with default options. */
typedef enum lr_input_kind { LR_INPUT_TEXT, LR_INPUT_IMAGE, LR_INPUT_AUDIO, LR_INPUT_VIDEO } lr_input_kind;
typedef struct lr_embed_input {
    lr_input_kind kind;
    const char *value; /* the text, or a path */
} lr_embed_input;
typedef struct lr_embed_options {
    const char *task;
    size_t dim;
    int soft_tokens; /* pictures; 0: the model's default for pictures, for clips that for video */
    lr_rational fps;  /* of clips; 0/0: 1 */
    uint64_t context; /* of clips, tokens a window; 0: full */
    int threads;
    lr_cancel *cancel;
    const char *stages_directory; /* NULL: none */
    const char *tokens_path;      /* NULL: none; several inputs: rows one after another */
} lr_embed_options;
lr_status lr_embed(lr_model *model, const lr_embed_input *inputs, size_t count,
                   const lr_embed_options *options, float *out, lr_error *err);

/* Search by one input. LR_E_USAGE names the set that was made with another model, or with another context
 * or width than the first one. *hits is freed by lr_free; hit.set is an index in `sets`. */
typedef struct lr_query_options {
    const char *task; /* for a text; NULL: none (lr_model_prompt says which there are) */
    lr_level level;   /* segment */
    size_t k;         /* 10 hits */
    bool merge;       /* true: neighbouring hits become one time range */
    int soft_tokens;  /* as for lr_embed */
    lr_rational fps;  /* of a clip; 0/0: as the first set was made. Its context is the sets' */
    int threads;
    lr_cancel *cancel;
} lr_query_options;
lr_query_options lr_query_defaults(void);
lr_status lr_query(lr_model *model, lr_set *const *sets, size_t n_sets, const lr_embed_input *input,
                   const lr_query_options *options, lr_hit **hits, size_t *count, lr_error *err);

/* Tokens and memory before a run. */
typedef struct lr_plan {
    uint64_t tokens, frames, sound_tokens;
    size_t bytes_per_rank;  /* the most of a rank, beside what is resident already */
    bool fits;
    size_t bytes_available; /* for the work of this machine's ranks; 0: not known */
    size_t bytes_total;     /* of this machine's ranks together */
    size_t bytes_resident;  /* of this process already: program and model */
    size_t device_bytes;    /* of the ranks of this process on its device, at least; 0: all is on the CPU */
    size_t device_available; /* free there; the model's weights are there already */
    struct lr_plan_shape {  /* local ranks split in so many groups, each with a recording: 1, 2, 4, ... */
        int groups;
        size_t bytes_total; /* of all groups */
        double imbalance;   /* the longest rank's tokens over the mean */
    } shapes[8];
    size_t n_shapes;
} lr_plan;
lr_status lr_plan_recording(lr_model *model, const char *recording, const lr_encode_options *options,
                            lr_plan *plan, lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
