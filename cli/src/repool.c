/* longreel repool: other segments from saved tokens. */
#include <string.h>

#include <longreel/repool.h>

#include "cli.h"

typedef struct repool_options {
    lr_repool_options repool;
    const char *output;
    bool json;
} repool_options;

static const cli_option table[] = {
    {CLI_TEXT, "output", 'o', "SET2", "the directory for the new set", .offset = offsetof(repool_options, output)},
    {CLI_TIME, "segment", 0, "S", "seconds a segment has (default: as in SET)",
     .offset = offsetof(repool_options, repool.segment)},
    {CLI_TIME, "hop", 0, "S", "seconds from one segment's start to the next one's (default: as in SET)",
     .offset = offsetof(repool_options, repool.hop)},
    {CLI_SIZE, "dim", 0, "N", "values of a vector, one of the model's widths (default: as in SET)",
     .offset = offsetof(repool_options, repool.dim), .low = 1, .high = 1 << 20},
    {CLI_SET, "force", 0, NULL, "replace a set that is at SET2", .offset = offsetof(repool_options, repool.force)},
    {CLI_SET, "json", 0, NULL, "report as one JSON document", .offset = offsetof(repool_options, json)},
    {0},
};

static int report(const repool_options *o, const lr_repool_result *result) {
    const char *state = result->skipped ? "skipped" : "saved";
    if (o->json) {
        return cli_print_json(json_pack("{s:o, s:s, s:I, s:I, s:I, s:f}", "set", cli_json_text(o->output),
                                        "status", state, "tokens", (json_int_t)result->tokens, "frames",
                                        (json_int_t)result->frames, "segments",
                                        (json_int_t)result->segments, "seconds", result->seconds),
                              CLI_DONE);
    }
    if (result->skipped) {
        cli_printf("%s: finished before, skipped\n", o->output);
    } else {
        cli_printf("%s: %llu segment%s, %llu frame%s from %llu token%s\n", o->output,
                   (unsigned long long)result->segments, cli_plural(result->segments),
                   (unsigned long long)result->frames, cli_plural(result->frames),
                   (unsigned long long)result->tokens, cli_plural(result->tokens));
    }
    return cli_finish_output(CLI_DONE);
}

static int run(const cli_command *command, int argc, char **argv) {
    repool_options options = {.repool = lr_repool_defaults()};
    lr_repool_result result = {0};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    lr_error err = {0};
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest != 1) return cli_wrong_usage(command, "one embedding set must be given");
    if (!options.output) return cli_wrong_usage(command, "the new set's directory is missing: -o SET2");
    cli_catch_signals();
    options.repool.cancel = cli_cancel();
    if (lr_repool(rest[0], options.output, &options.repool, &result, &err) != LR_OK) return cli_fail(&err);
    return report(&options, &result);
}

const cli_command cli_repool = {
    .name = "repool",
    .summary = "other segments from saved tokens, without encoding again",
    .usage = "SET -o SET2 [OPTION]...",
    .text = "Makes another embedding set from one that was encoded with --save tokens: with other segments, "
            "or narrower vectors. The files are the same to the byte as if the recording were encoded with "
            "these options. No model is needed.",
    .examples = "  longreel repool out/talk.mp4 -o minutes/talk.mp4 --segment 60 --hop 30\n",
    .options = table,
    .run = run,
};
