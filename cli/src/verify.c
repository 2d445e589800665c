/* longreel verify: are sets whole and unaltered? */
#include "cli.h"

typedef struct verify_options {
    bool json;
} verify_options;

static const cli_option table[] = {
    {CLI_SET, "json", 0, NULL, "report as one JSON document", .offset = offsetof(verify_options, json)},
    {0},
};

/* False when the set is not whole. */
static bool verify_set(const char *path, json_t *report) {
    lr_error err = {0};
    bool good = lr_set_verify(path, &err) == LR_OK;
    if (!good) cli_report(LR_E_IO, NULL, err.text);
    if (report) {
        json_t *why = good ? json_null() : json_string(err.text);
        (void)json_array_append_new(report, json_pack("{s:o, s:b, s:o}", "path", cli_json_text(path),
                                                      "whole", good, "error", why));
    } else if (good) {
        cli_printf("%s: whole\n", path);
    }
    return good;
}

/* A path is a set, or a directory with sets below it. */
static bool verify_path(const char *path, json_t *report) {
    char **found = NULL;
    size_t count = 0;
    bool good = true;
    lr_error err = {0};
    if (lr_set_find(&path, 1, &found, &count, &err) != LR_OK || count == 0) return verify_set(path, report);
    for (size_t i = 0; i < count; i++) good = verify_set(found[i], report) && good;
    lr_set_find_free(found, count);
    return good;
}

static int run(const cli_command *command, int argc, char **argv) {
    verify_options options = {0};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest == 0) return cli_wrong_usage(command, "no embedding set is given");
    json_t *report = options.json ? json_array() : NULL;
    bool good = true;
    for (size_t i = 0; i < n_rest; i++) good = verify_path(rest[i], report) && good;
    code = good ? CLI_DONE : CLI_SOME_FAILED;
    if (!options.json) return cli_finish_output(code);
    return cli_print_json(json_pack("{s:o}", "sets", report), code);
}

const cli_command cli_verify = {
    .name = "verify",
    .summary = "check that sets are whole and unaltered",
    .usage = "SET... [OPTION]...",
    .text = "Checks every file of each set against the hash it was written with, the numbers of vectors "
            "against the rows, and the vectors' lengths. SET is an embedding set or a directory that "
            "holds sets. Exit status 1 when one is not whole.",
    .examples = "  longreel verify out/talk.mp4\n"
                "  longreel verify out --json\n",
    .options = table,
    .run = run,
};
