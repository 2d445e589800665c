/* Inside cli/: what the commands share.
 *
 * A command parses its arguments by a table, calls the library, and returns an exit code. Results go
 * to standard output, everything else to standard error. Nothing here computes. */
#ifndef LONGREEL_CLI_H
#define LONGREEL_CLI_H

#include <stdio.h>

#include <jansson.h>

#include <longreel/longreel.h>

/* ------------------------------------------------------------------ exit codes */

enum {
    CLI_DONE = 0,
    CLI_SOME_FAILED = 1,  /* some recordings failed, the others are saved */
    CLI_WRONG_USAGE = 2,  /* wrong usage, model or configuration; nothing done */
    CLI_INTERRUPTED = 3   /* run the same command again */
};

/* For a failure that ends the command. */
int cli_exit_code(lr_status status);

/* ------------------------------------------------------------------ arguments (args.c) */

typedef enum cli_kind {
    CLI_HEADING,  /* `help` is the heading of the options that follow */
    CLI_TABLE,    /* the options of `table`, for the same structure */
    CLI_SET,      /* bool at `offset` becomes true */
    CLI_CLEAR,    /* bool at `offset` becomes false */
    CLI_TEXT,     /* const char * */
    CLI_WORD,     /* int: the index of the value in `words` */
    CLI_INT,      /* int in [low, high] */
    CLI_SIZE,     /* size_t in [low, high] */
    CLI_COUNT,    /* uint64_t in [low, high] */
    CLI_TIME,     /* lr_time */
    CLI_RATIONAL, /* lr_rational */
    CLI_CALL      /* call(options structure, value) */
} cli_kind;

typedef struct cli_option {
    cli_kind kind;
    const char *name;  /* "fps": --fps */
    char letter;       /* 'm': -m as well; 0: none */
    const char *value; /* how the help calls the value; NULL for a flag */
    const char *help;
    size_t offset;     /* in the command's options structure */
    uint64_t low, high;
    const char *const *words; /* ends with NULL */
    lr_status (*call)(void *options, const char *value, lr_error *err);
    const struct cli_option *table;
} cli_option; /* a table ends with an entry without name and help */

extern const char *const cli_decoders[]; /* the words of --decode */

typedef struct cli_command {
    const char *name;
    const char *summary;  /* one line, for the list of commands */
    const char *usage;    /* what follows the name */
    const char *text;     /* paragraphs before the options */
    const char *examples; /* lines */
    const cli_option *options;
    int (*run)(const struct cli_command *command, int argc, char **argv);
} cli_command;

/* Parses argv[1..]; arguments that are no options come first in *rest afterwards, *n_rest of them.
 * False when there is nothing to go on with: --help was printed, or a mistake was reported; *code is
 * then what to exit with. */
bool cli_parse(const cli_command *command, int argc, char **argv, void *options, char ***rest,
               size_t *n_rest, int *code);
void cli_print_help(const cli_command *command, FILE *out);
/* Reports wrong usage of `command` and returns CLI_WRONG_USAGE. */
int cli_wrong_usage(const cli_command *command, const char *format, ...) LR_PRINTF(2, 3);

/* ------------------------------------------------------------------ messages, progress (screen.c) */

typedef enum cli_progress_mode { CLI_PROGRESS_AUTO, CLI_PROGRESS_OFF, CLI_PROGRESS_JSON } cli_progress_mode;
extern const char *const cli_progress_words[];

/* AUTO: one line, updated in place, when standard error is a terminal. */
void cli_screen_begin(cli_progress_mode mode);
/* The recording at hand: its number stands before its progress ("2/5"), warnings of the library are
 * about it. NULL: none any more. The path must stay. */
void cli_screen_recording(const char *path, size_t number, size_t count);
/* An lr_progress_callback. */
void cli_progress(void *arg, const lr_progress *progress);
/* From now on (or no longer) nothing is printed, on either stream: another process speaks. */
void cli_be_silent(bool silent);
bool cli_is_silent(void);
/* Takes the progress line away. */
void cli_screen_clear(void);

/* "longreel: text", and what to do next where there is something to say. `recording` tells which one
 * it is about, for --progress=json; it may be NULL. */
void cli_report(lr_status status, const char *recording, const char *text);
void cli_warn(const char *recording, const char *format, ...) LR_PRINTF(2, 3);
/* Of a rank that does not speak: printed by another (ranks.h). */
void cli_keep_warning(const char *text);
void cli_note(const char *format, ...) LR_PRINTF(1, 2);
/* For lr_log_set. */
void cli_log(void *arg, lr_log_level level, const char *text);
/* With --progress=json: {"event", "recording", "set"}; else nothing. */
void cli_event(const char *event, const char *recording, const char *set);
/* Reports err and returns its exit code. */
int cli_fail(const lr_error *err);
/* The same when a model could not be opened: always wrong usage. */
int cli_fail_model(const lr_error *err);

/* ------------------------------------------------------------------ text for people (text.c) */

/* A part of a line on standard output. Names of files may hold anything: control characters become
 * \n, \t, \r or \xNN, but for the line's own newline at the end of the format. */
void cli_printf(const char *format, ...) LR_PRINTF(1, 2);
/* The same escapes, to any stream. */
void cli_put_escaped(const char *text, FILE *out);
/* Bytes that cli_put_escaped writes. */
size_t cli_escaped_length(const char *text);
/* To a buffer; cut where it is full. */
void cli_escape(const char *text, char *out, size_t size);
/* "s" unless there is one */
const char *cli_plural(uint64_t count);
/* LR_E_FORMAT where a text for the model is not UTF-8; `name` says which. */
lr_status cli_check_utf8(const char *name, const char *text, lr_error *err);

/* ------------------------------------------------------------------ signals (signals.c) */

/* From now on SIGINT, SIGTERM and SIGHUP set the flag; a second one kills. */
void cli_catch_signals(void);
lr_cancel *cli_cancel(void);
/* The same, for work that can be put away within `grace` seconds. */
lr_stop *cli_stop(double grace);
bool cli_cancelled(void);

/* ------------------------------------------------------------------ JSON (json.c) */

/* A text that may hold any bytes (a file name): what is not UTF-8 becomes U+FFFD. */
json_t *cli_json_text(const char *text);
/* null where `value` is not finite */
json_t *cli_json_seconds(double value);
/* Prints and frees the document; NULL (out of memory) is reported. Returns the exit code. */
int cli_print_json(json_t *document, int code);
/* Flushes standard output; reports when it could not be written. Returns the exit code. */
int cli_finish_output(int code);

/* ------------------------------------------------------------------ models (model.c) */

size_t cli_processors(void);
/* threads 0: all processors. */
lr_status cli_open_model(lr_model **out, const char *directory, const char *device, bool vision, bool audio,
                         int threads, lr_error *err);
/* "auto", "cpu", "cuda" or "cuda:N"; NULL: auto. */
lr_status cli_take_device(const char *value, lr_device_options *options, bool *on_device, lr_error *err);
#define CLI_DEVICE_HELP "where the backbone is computed: cpu, cuda (the first that the driver shows) or cuda:N; auto " \
    "(default) takes the CPU, in this version. The last bits of the vectors depend on it"

/* LR_E_USAGE lists the model's tasks when it has none of that name; NULL is allowed. */
lr_status cli_check_task(const lr_model *model, const char *task, lr_error *err);

/* ------------------------------------------------------------------ recordings (recordings.c) */

typedef struct cli_recording {
    char *path;
    char *set; /* OUT/<file name>, NULL without OUT */
} cli_recording;
/* Files, and the lines of @list files ("@-": standard input), in order. */
lr_status cli_recordings(cli_recording **out, size_t *count, char **arguments, size_t n_arguments,
                         const char *out_directory, lr_error *err);
void cli_recordings_free(cli_recording *recordings, size_t count);

/* ------------------------------------------------------------------ commands */

extern const cli_command cli_encode, cli_embed, cli_query, cli_inspect, cli_status, cli_verify,
    cli_export, cli_repool, cli_report_sheet, cli_make_model, cli_bench, cli_plan;

#endif
