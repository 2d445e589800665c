#include <stdlib.h>
#include <string.h>

#include "encode_options.h"

#define AT(field) .offset = offsetof(cli_encode_options, field)
#define ENCODE(field) .offset = offsetof(cli_encode_options, encode.field)

const char *const cli_decoders[] = {"auto", "cpu", "cuda", "vaapi", NULL}; /* as lr_decode */

/* Contexts: "full" or a number of tokens. */
static lr_status take_context(void *options, const char *value, lr_error *err) {
    cli_encode_options *o = options;
    if (strcmp(value, "full") == 0) {
        o->encode.context = 0;
        return LR_OK;
    }
    uint64_t tokens = 0;
    for (const char *c = value; *c; c++) {
        if (*c < '0' || *c > '9' || tokens > (UINT64_MAX - 9) / 10) tokens = 0;
        if (*c < '0' || *c > '9' || (tokens == 0 && c != value)) break;
        tokens = 10 * tokens + (uint64_t)(*c - '0');
    }
    if (tokens == 0) return lr_fail(err, LR_E_USAGE, "'%s' is neither full nor a number of tokens", value);
    o->encode.context = tokens;
    return LR_OK;
}

lr_status cli_take_schedule(const char *value, lr_schedule *out, lr_error *err) {
    static const struct {
        const char *name;
        lr_schedule schedule;
    } all[] = {{"auto", LR_SCHEDULE_AUTO}, {"ring", LR_SCHEDULE_RING},
               {"all-gather", LR_SCHEDULE_ALL_GATHER}, {"two-level", LR_SCHEDULE_TWO_LEVEL}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *out = all[i].schedule;
        if (strcmp(value, all[i].name) == 0) return LR_OK;
    }
    return lr_fail(err, LR_E_USAGE, "'%s' is none of auto, ring, all-gather, two-level", value);
}

static lr_status take_schedule(void *options, const char *value, lr_error *err) {
    cli_encode_options *o = options;
    return cli_take_schedule(value, &o->encode.schedule, err);
}

/* "auto" (0) or a number. */
static lr_status take_groups(void *options, const char *value, lr_error *err) {
    cli_encode_options *o = options;
    char *end;
    if (strcmp(value, "auto") == 0) {
        o->groups = 0;
        return LR_OK;
    }
    long groups = strtol(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || groups < 1 || groups > 1 << 20) {
        return lr_fail(err, LR_E_USAGE, "'%s' is neither auto nor a number of groups", value);
    }
    o->groups = (int)groups;
    return LR_OK;
}

static lr_status take_memory(void *options, const char *value, lr_error *err) {
    static const char units[] = "KMGT";
    cli_encode_options *o = options;
    char *end = NULL;
    double bytes = strtod(value, &end);
    const char *unit = end != value && *end ? strchr(units, *end) : NULL;
    for (int i = unit ? (int)(unit - units) : -1; i >= 0; i--) bytes *= 1000;
    if (unit) end++;
    if (end == value || *end || !(bytes >= 1) || bytes >= 9e18 || *value == '-' || *value == ' ') {
        return lr_fail(err, LR_E_USAGE, "'%s' is no size, like 800M or 16G", value);
    }
    o->encode.memory = (size_t)bytes;
    return LR_OK;
}

static lr_status take_save(void *options, const char *value, lr_error *err) {
    cli_encode_options *o = options;
    if (strcmp(value, "tokens") == 0) {
        o->encode.save_tokens = true;
    } else if (strcmp(value, "stages") == 0) {
        o->encode.save_stages = true;
    } else {
        return lr_fail(err, LR_E_USAGE, "'%s' is none of tokens, stages", value);
    }
    return LR_OK;
}

const cli_option cli_encode_table[] = {
    {CLI_HEADING, .help = "Model"},
    {CLI_TEXT, "model", 'm', "DIR", "the checkpoint: a directory as Hugging Face publishes it", AT(model)},
    {CLI_SIZE, "dim", 0, "N", "values of a vector, for models whose vectors can be cut (Matryoshka); "
     "default: the model's full width", ENCODE(dim), 1, 1 << 20},
    {CLI_CALL, "context", 0, "full|N", "tokens that see each other: the whole recording (default), or "
     "windows of at most N tokens", .call = take_context},

    {CLI_HEADING, .help = "Sampling"},
    {CLI_RATIONAL, "fps", 0, "F", "frames a second (default 1): 2, 0.25, 1/5, 30000/1001", ENCODE(fps)},
    {CLI_INT, "soft-tokens", 0, "N", "at most so many tokens a frame, one of the model's choices "
     "(default: the model's for video, 70)", ENCODE(soft_tokens), 1, 1 << 20},
    {CLI_TIME, "start", 0, "T", "begin here: seconds, or 1:02:03.5 (default: the beginning)", ENCODE(start)},
    {CLI_TIME, "end", 0, "T", "stop here (default: the end)", ENCODE(end)},
    {CLI_CLEAR, "no-video", 0, NULL, "sound only", ENCODE(video)},
    {CLI_CLEAR, "no-audio", 0, NULL, "pictures only", ENCODE(audio)},
    {CLI_INT, "audio-track", 0, "N", "the n-th sound track, from 0 (default: the file's own choice)",
     ENCODE(audio_track), 0, 1000},
    {CLI_CLEAR, "no-stamps", 0, NULL, "frames without time stamps before them, as is usual for short "
     "clips; needs --no-audio or a silent file", ENCODE(stamps)},

    {CLI_HEADING, .help = "Segments"},
    {CLI_TIME, "segment", 0, "S", "seconds a segment has (default 10)", ENCODE(segment)},
    {CLI_TIME, "hop", 0, "S", "seconds from one segment's start to the next one's (default 10)", ENCODE(hop)},

    {CLI_HEADING, .help = "Running"},
    {CLI_INT, "ranks", 0, "N", "share a recording among N ranks of this process (default 1)", ENCODE(ranks),
     1, 64},
    {CLI_INT, "threads", 0, "N", "threads a rank (default: the processors, divided among the ranks)",
     ENCODE(threads), 1, 4096},
    {CLI_COUNT, "chunk", 0, "N", "tokens that ranks exchange at a time (default 1024); changes the last "
     "bits of the vectors, unlike --ranks and --threads", ENCODE(chunk), 1, 1 << 24},
    {CLI_WORD, "comm", 0, "auto|local|mpi", "how ranks talk: auto (default) takes MPI under mpirun and srun, "
     "else ranks of this process", AT(communicator), .words = cli_communicators},
    {CLI_CALL, "schedule", 0, "auto|ring|all-gather|two-level", "how keys and values travel in layers that see "
     "everything: auto (default) estimates which is fastest; the vectors are the same", .call = take_schedule},
    {CLI_INT, "node-ranks", 0, "N", "for two-level: so many ranks make a node (default: those of a machine)",
     ENCODE(ring_node), 1, 1 << 20},
    {CLI_WORD, "mpi", 0, "auto|openmpi|mpich", "which MPI (default auto: the launcher's)", AT(mpi),
     .words = cli_mpis},
    {CLI_TIME, "peer-timeout", 0, "S", "seconds without a sign of life after which a process is taken for "
     "lost, and the others stop (default 30)", AT(peer_timeout)},
    {CLI_TEXT, "device", 0, "auto|cpu|cuda[:N]", CLI_DEVICE_HELP, AT(device)},
    {CLI_WORD, "decode", 0, "auto|cpu|cuda|vaapi", "what decodes pictures: auto (default) is the processor, whose "
     "bytes are the same each time; where a device cannot, the processor does, with a warning", ENCODE(decode),
     .words = cli_decoders},
    {CLI_CALL, "groups", 0, "auto|G", "split the processes that a launcher started in G groups that encode "
     "recordings in parallel, the longest first; auto (default): as many as are fastest by prediction",
     .call = take_groups},
    {CLI_CALL, "memory", 0, "SIZE", "bytes that may be used, with K, M, G or T (default: what is free, also in the "
     "control group): what needs more is refused", .call = take_memory},
    {CLI_CALL, "save", 0, "tokens|stages", "save the hidden state of every token too (tokens.safetensors), "
     "or all intermediate results of a short input (stages/); may be given twice", .call = take_save},
    {0},
};

cli_encode_options cli_encode_option_defaults(void) {
    return (cli_encode_options){
        .encode = lr_encode_defaults(), .groups = 0, .peer_timeout = 30 * LR_TIME_SECOND};
}
