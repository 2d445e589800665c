/* longreel query: search in embedding sets. */
#include <string.h>

#include "cli.h"

typedef struct query_options {
    const char *model, *device, *image, *audio, *video, *task;
    lr_query_options query;
    int level; /* lr_level */
    bool json;
} query_options;

static const char *const levels[] = {"segment", "frame", "recording", NULL};

static const cli_option table[] = {
    {CLI_HEADING, .help = "What to look for, instead of a text"},
    {CLI_TEXT, "image", 0, "F", "a picture file", .offset = offsetof(query_options, image)},
    {CLI_TEXT, "audio", 0, "F", "a sound file, or the sound of a film",
     .offset = offsetof(query_options, audio)},
    {CLI_TEXT, "video", 0, "F", "a clip, with its sound where the model has sound",
     .offset = offsetof(query_options, video)},
    {CLI_RATIONAL, "fps", 0, "F", "frames a second of the clip (default: as the first set was made)",
     .offset = offsetof(query_options, query.fps)},
    {CLI_HEADING, .help = "Search"},
    {CLI_TEXT, "model", 'm', "DIR", "the checkpoint the sets were made with",
     .offset = offsetof(query_options, model)},
    {CLI_SIZE, "count", 'k', "N", "hits (default 10)", .offset = offsetof(query_options, query.k), .low = 1,
     .high = 1 << 30},
    {CLI_WORD, "level", 0, "segment|frame|recording", "what is compared (default segment)",
     .offset = offsetof(query_options, level), .words = levels},
    {CLI_CLEAR, "no-merge", 0, NULL, "show neighbouring hits one by one, not as one time range",
     .offset = offsetof(query_options, query.merge)},
    {CLI_TEXT, "task", 0, "NAME", "the prompt before the text (default: the model's for search-query, "
     "where it has one); none: no prompt", .offset = offsetof(query_options, task)},
    {CLI_INT, "soft-tokens", 0, "N", "at most so many tokens for a picture, one of the model's choices",
     .offset = offsetof(query_options, query.soft_tokens), .low = 1, .high = 1 << 20},
    {CLI_INT, "threads", 0, "N", "threads (default: the processors)",
     .offset = offsetof(query_options, query.threads), .low = 1, .high = 4096},
    {CLI_TEXT, "device", 0, "auto|cpu|cuda[:N]", CLI_DEVICE_HELP, .offset = offsetof(query_options, device)},
    {CLI_SET, "json", 0, NULL, "print {\"hits\": [{\"score\", \"set\", \"recording\", \"start\", \"end\"}]}, "
     "times in seconds", .offset = offsetof(query_options, json)},
    {0},
};

typedef struct found_sets {
    char **paths;
    lr_set **sets;
    size_t count, n_open;
} found_sets;

static void close_sets(found_sets *found) {
    for (size_t i = 0; i < found->n_open; i++) lr_set_close(found->sets[i]);
    lr_free(found->sets);
    lr_set_find_free(found->paths, found->count);
}

static lr_status open_sets(found_sets *found, char **paths, size_t n_paths, lr_error *err) {
    lr_status st = LR_OK;
    LR_TRY(lr_set_find((const char *const *)paths, n_paths, &found->paths, &found->count, err));
    if (found->count == 0) {
        LR_FAIL(LR_E_USAGE, "%s: no embedding set is there ('longreel encode' makes them)", paths[0]);
    }
    LR_TRY(LR_NEW(&found->sets, found->count, "embedding sets", err));
    for (; found->n_open < found->count; found->n_open++) {
        LR_TRY(lr_set_open(&found->sets[found->n_open], found->paths[found->n_open], err));
    }
done:
    return st;
}

/* ------------------------------------------------------------------ results */

/* The recording's name; the set's path where two recordings have one name. */
static const char *label_of(const found_sets *found, size_t set) {
    const lr_set_info *info = lr_set_info_of(found->sets[set]);
    for (size_t i = 0; i < found->count; i++) {
        if (i != set && strcmp(lr_set_info_of(found->sets[i])->recording, info->recording) == 0) {
            return info->path;
        }
    }
    return info->recording;
}

static lr_time time_of(double seconds) {
    return (lr_time)(seconds * (double)LR_TIME_SECOND);
}

static int print_table(const found_sets *found, const lr_hit *hits, size_t count) {
    int width = (int)strlen("recording");
    char start[24], end[24];
    for (size_t i = 0; i < count; i++) {
        int n = (int)cli_escaped_length(label_of(found, hits[i].set));
        if (n > width) width = n;
    }
    if (count > 0) printf("%7s  %-*s  %-8s  %s\n", "score", width, "recording", "start", "end");
    for (size_t i = 0; i < count; i++) {
        const char *label = label_of(found, hits[i].set);
        cli_printf("%7.4f  %s%*s  %s  %s\n", (double)hits[i].score, label,
                   width - (int)cli_escaped_length(label), "", lr_time_clock(time_of(hits[i].start), start),
                   lr_time_clock(time_of(hits[i].end), end));
    }
    if (count == 0) cli_note("nothing was found: the sets hold no such vectors");
    return cli_finish_output(CLI_DONE);
}

static int print_hits(const found_sets *found, const lr_hit *hits, size_t count) {
    json_t *all = json_array();
    for (size_t i = 0; all && i < count; i++) {
        const lr_set_info *info = lr_set_info_of(found->sets[hits[i].set]);
        json_t *one = json_pack("{s:f, s:o, s:o, s:f, s:f}", "score", (double)hits[i].score, "set",
                                cli_json_text(info->path), "recording", cli_json_text(info->recording),
                                "start", hits[i].start, "end", hits[i].end);
        if (json_array_append_new(all, one) != 0) {
            json_decref(all);
            all = NULL;
        }
    }
    return cli_print_json(json_pack("{s:o}", "hits", all), CLI_DONE);
}

/* ------------------------------------------------------------------ the command */

static int search(query_options *o, const found_sets *found, const lr_embed_input *input) {
    lr_model *model = NULL;
    lr_hit *hits = NULL;
    size_t count = 0;
    lr_error err = {0};
    int code;
    bool clip = input->kind == LR_INPUT_VIDEO;
    if (cli_open_model(&model, o->model, o->device, clip || input->kind == LR_INPUT_IMAGE,
                       clip || input->kind == LR_INPUT_AUDIO, o->query.threads, &err) != LR_OK) {
        return cli_fail_model(&err);
    }
    bool none = o->task && strcmp(o->task, "none") == 0;
    o->query.task = none ? NULL : o->task;
    if (!o->task && lr_model_prompt(model, "search-query")) o->query.task = "search-query";
    o->query.level = (lr_level)o->level;
    o->query.cancel = cli_cancel();
    if (cli_check_task(model, o->query.task, &err) != LR_OK ||
        lr_query(model, found->sets, found->count, input, &o->query, &hits, &count, &err) != LR_OK) {
        code = cli_fail(&err);
    } else {
        code = o->json ? print_hits(found, hits, count) : print_table(found, hits, count);
    }
    lr_free(hits);
    lr_model_close(model);
    return code;
}

static int run(const cli_command *command, int argc, char **argv) {
    query_options options = {.query = lr_query_defaults(), .level = LR_LEVEL_SEGMENT};
    found_sets found = {0};
    lr_embed_input input = {0};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    lr_error err = {0};
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (!options.model) return cli_wrong_usage(command, "the model is missing: -m DIR");
    if (!!options.image + !!options.audio + !!options.video > 1) {
        return cli_wrong_usage(command, "give one of --image, --audio and --video");
    }
    if (options.image) {
        input = (lr_embed_input){.kind = LR_INPUT_IMAGE, .value = options.image};
    } else if (options.audio) {
        input = (lr_embed_input){.kind = LR_INPUT_AUDIO, .value = options.audio};
    } else if (options.video) {
        input = (lr_embed_input){.kind = LR_INPUT_VIDEO, .value = options.video};
    } else if (n_rest < 2) {
        return cli_wrong_usage(command, "needed are a directory with sets and a text to look for");
    } else {
        input = (lr_embed_input){.kind = LR_INPUT_TEXT, .value = rest[--n_rest]};
        if (cli_check_utf8("the text", input.value, &err) != LR_OK) return cli_wrong_usage(command, "%s", err.text);
    }
    if (n_rest == 0) return cli_wrong_usage(command, "needed is a directory with sets");
    cli_catch_signals();
    if (open_sets(&found, rest, n_rest, &err) != LR_OK) {
        code = err.status == LR_E_IO ? CLI_WRONG_USAGE : cli_exit_code(err.status);
        cli_report(err.status, NULL, err.text);
    } else {
        code = search(&options, &found, &input);
    }
    close_sets(&found);
    return code;
}

const cli_command cli_query = {
    .name = "query",
    .summary = "search recordings by text, picture, sound or clip",
    .usage = "OUT... \"TEXT\" -m MODEL [OPTION]...",
    .text = "Finds the places in recordings that are nearest to a text, a picture, a sound or a clip. OUT is an "
            "embedding set or a directory that holds sets. The score is the cosine. Neighbouring hits among "
            "the best 4 k become one time range with the best score; then the first k are shown. Sets made "
            "with another model, context or width are refused.",
    .examples = "  longreel query out \"a man opens a red door\" -m embeddinggemma-2\n"
                "  longreel query out/talk.mp4 --image slide.png -m embeddinggemma-2 --level frame -k 3\n",
    .options = table,
    .run = run,
};
