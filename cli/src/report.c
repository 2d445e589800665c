/* longreel report: a set at a glance, as a picture. */
#include <longreel/report.h>

#include "cli.h"

typedef struct report_options {
    lr_report_options report;
    const char *output;
    bool json;
} report_options;

static const cli_option table[] = {
    {CLI_TEXT, "output", 'o', "F.png", "the picture to write", .offset = offsetof(report_options, output)},
    {CLI_TEXT, "recording", 0, "REC", "the recording that was encoded (default: where it was then)",
     .offset = offsetof(report_options, report.recording)},
    {CLI_INT, "threads", 0, "N", "threads for decoding (default: the processors)",
     .offset = offsetof(report_options, report.threads), .low = 1, .high = 4096},
    {CLI_SET, "json", 0, NULL, "report as one JSON document", .offset = offsetof(report_options, json)},
    {0},
};

static int report(const report_options *o, const lr_report_result *result) {
    if (result->note[0]) cli_warn(NULL, "%s: %s", o->output, result->note);
    if (o->json) {
        json_t *note = result->note[0] ? cli_json_text(result->note) : json_null();
        return cli_print_json(json_pack("{s:o, s:i, s:i, s:I, s:b, s:o}", "path", cli_json_text(o->output),
                                        "width", result->width, "height", result->height, "frames",
                                        (json_int_t)result->frames, "loudness", result->loudness, "note",
                                        note), CLI_DONE);
    }
    cli_printf("%s: %d x %d pixels, %zu frame%s\n", o->output, result->width, result->height, result->frames,
               cli_plural(result->frames));
    return cli_finish_output(CLI_DONE);
}

static int run(const cli_command *command, int argc, char **argv) {
    report_options options = {0};
    lr_report_result result = {0};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    lr_error err = {0};
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest != 1) return cli_wrong_usage(command, "needed is one embedding set");
    if (!options.output) return cli_wrong_usage(command, "the picture to write is missing: -o F.png");
    cli_catch_signals();
    options.report.cancel = cli_cancel();
    if (lr_report(rest[0], options.output, &options.report, &result, &err) != LR_OK) return cli_fail(&err);
    return report(&options, &result);
}

const cli_command cli_report_sheet = {
    .name = "report",
    .summary = "a picture of a set: frames, likeness of segments, loudness",
    .usage = "SET -o F.png [OPTION]...",
    .text = "Writes a PNG that shows a recording at a glance: frames with their times, how alike its "
            "segments are to each other (a map of cosines), how loud its sound is, and what was damaged. "
            "Frames and loudness are taken from the recording, which must be the file that was encoded; "
            "where it is not at hand the picture shows the rest and says so.",
    .examples = "  longreel report out/talk.mp4 -o talk.png\n"
                "  longreel report out/talk.mp4 -o talk.png --recording /archive/talk.mp4\n",
    .options = table,
    .run = run,
};
