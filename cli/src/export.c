/* longreel export: sets in other formats. */
#include <longreel/export.h>

#include "cli.h"

typedef struct export_options {
    const char *sqlite, *csv;
} export_options;

static const cli_option table[] = {
    {CLI_TEXT, "sqlite", 0, "F", "a SQLite database with the tables sets, segments and frames; vectors are "
     "blobs of float32, as sqlite-vec reads them", .offset = offsetof(export_options, sqlite)},
    {CLI_TEXT, "csv", 0, "F", "comma-separated values, one vector a line", .offset = offsetof(export_options, csv)},
    {0},
};

static int export_sets(const export_options *o, lr_set *const *sets, size_t count) {
    lr_error err = {0};
    if (o->csv && lr_export_csv(sets, count, o->csv, &err) != LR_OK) return cli_fail(&err);
    if (o->csv) cli_printf("%s: %zu set%s\n", o->csv, count, cli_plural(count));
    if (o->sqlite && lr_export_sqlite(sets, count, o->sqlite, &err) != LR_OK) return cli_fail(&err);
    if (o->sqlite) cli_printf("%s: %zu set%s\n", o->sqlite, count, cli_plural(count));
    return cli_finish_output(CLI_DONE);
}

static int open_and_export(const export_options *o, char **paths, size_t n_paths) {
    lr_status st = LR_OK;
    lr_error error = {0}, *err = &error;
    char **found = NULL;
    lr_set **sets = NULL;
    size_t count = 0, n_open = 0;
    int code = CLI_DONE;
    LR_TRY(lr_set_find((const char *const *)paths, n_paths, &found, &count, err));
    if (count == 0) LR_FAIL(LR_E_USAGE, "%s: no embedding set is there", paths[0]);
    LR_TRY(LR_NEW(&sets, count, "embedding sets", err));
    for (; n_open < count; n_open++) LR_TRY(lr_set_open(&sets[n_open], found[n_open], err));
    code = export_sets(o, sets, count);
done:
    if (st != LR_OK) code = cli_fail(err);
    if (st == LR_E_IO) code = CLI_WRONG_USAGE; /* what was named cannot be read; nothing is done */
    for (size_t i = 0; i < n_open; i++) lr_set_close(sets[i]);
    lr_free(sets);
    lr_set_find_free(found, count);
    return code;
}

static int run(const cli_command *command, int argc, char **argv) {
    export_options options = {0};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest == 0) return cli_wrong_usage(command, "no embedding set is given");
    if (!options.sqlite && !options.csv) return cli_wrong_usage(command, "needed is --sqlite F or --csv F");
    return open_and_export(&options, rest, n_rest);
}

const cli_command cli_export = {
    .name = "export",
    .summary = "sets as a SQLite database or comma-separated values",
    .usage = "SET... --sqlite F | --csv F",
    .text = "Writes the vectors of sets, with their times, to one file. SET is an embedding set or a directory "
            "that holds sets. Sets in one CSV file must have vectors of one width. The .npy files of a set can "
            "also be read as they are by numpy, faiss and others.",
    .examples = "  longreel export out --sqlite talks.sqlite\n"
                "  longreel export out/talk.mp4 --csv talk.csv\n",
    .options = table,
    .run = run,
};
