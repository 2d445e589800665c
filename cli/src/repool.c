/* longreel repool: other segments from saved tokens. */
#include <string.h>

#include <longreel/repool.h>

#include "cli.h"

typedef struct repool_options {
    const char *output;
    lr_repool_options repool;
    bool json;
} repool_options;

static const cli_option table[] = {
    {CLI_TEXT, "output", 'o', "SET2", "the set to write", .offset = offsetof(repool_options, output)},
    {CLI_TIME, "segment", 0, "S", "seconds a segment has (default: as in SET)",
     .offset = offsetof(repool_options, repool.segment)},
    {CLI_TIME, "hop", 0, "S", "seconds from one segment's start to the next one's (default: as in SET)",
     .offset = offsetof(repool_options, repool.hop)},
    {CLI_SIZE, "dim", 0, "N", "values of a vector, one of the model's choices (default: as in SET)",
     .offset = offsetof(repool_options, repool.dim), .low = 1, .high = 1 << 20},
    {CLI_SET, "force", 0, NULL, "replace a set that is there already",
     .offset = offsetof(repool_options, repool.force)},
    {CLI_SET, "json", 0, NULL, "report as one JSON document", .offset = offsetof(repool_options, json)},
    {0},
};

static int report(const repool_options *o, const lr_repool_result *r) {
    if (o->json) {
        return cli_print_json(json_pack("{s:o, s:b, s:I, s:I, s:I, s:f}", "set", cli_json_text(o->output),
                                        "skipped", r->skipped, "tokens", (json_int_t)r->tokens, "segments",
                                        (json_int_t)r->segments, "frames", (json_int_t)r->frames,
                                        "seconds", r->seconds), CLI_DONE);
    }
    if (r->skipped) {
        printf("%s: done already\n", o->output);
    } else {
        printf("%s: %llu segments from %llu tokens in %.1f s\n", o->output,
               (unsigned long long)r->segments, (unsigned long long)r->tokens, r->seconds);
    }
    return cli_finish_output(CLI_DONE);
}

static int run(const cli_command *command, int argc, char **argv) {
    repool_options options = {.repool = lr_repool_defaults()};
    lr_repool_result result;
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    lr_error err = {0};
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest != 1) return cli_wrong_usage(command, "needed is one embedding set");
    if (!options.output) return cli_wrong_usage(command, "the set to write is missing: -o SET2");
    cli_catch_signals();
    options.repool.cancel = cli_cancel();
    if (lr_repool(rest[0], options.output, &options.repool, &result, &err) != LR_OK) return cli_fail(&err);
    return report(&options, &result);
}

const cli_command cli_repool = {
    .name = "repool",
    .summary = "other segments from saved tokens, without encoding again",
    .usage = "SET -o SET2 [OPTION]...",
    .text = "Makes a set with other segments, or narrower vectors, from a set that was encoded with --save "
            "tokens. Its vectors are the same to the last bit as if the recording were encoded with these "
            "options; neither the recording nor the model is needed. SET2 holds no tokens of its own.",
    .examples = "  longreel repool out/talk.mp4 -o out30/talk.mp4 --segment 30 --hop 10\n"
                "  longreel repool out/talk.mp4 -o small/talk.mp4 --dim 128\n",
    .options = table,
    .run = run,
};
