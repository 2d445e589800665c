/* longreel status: what an output directory holds. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

typedef struct status_options {
    bool json;
} status_options;

static const cli_option table[] = {
    {CLI_SET, "json", 0, NULL, "report as one JSON document", .offset = offsetof(status_options, json)},
    {0},
};

static const char *state_name(lr_set_state state) {
    switch (state) {
    case LR_SET_FINISHED: return "done";
    case LR_SET_UNDER_WAY: return "under way";
    case LR_SET_INTERRUPTED: return "interrupted";
    case LR_SET_FAILED: return "failed";
    }
    return "?";
}

static json_t *stored_json(const lr_set_stored *s) {
    return json_pack("{s:[I, I], s:[I, I], s:[I, I]}", "frames", (json_int_t)s->frames, (json_int_t)s->of_frames,
                     "sound_tokens", (json_int_t)s->sound_tokens, (json_int_t)s->of_sound_tokens, "layers",
                     (json_int_t)s->layers, (json_int_t)s->of_layers);
}

static void print_stored(const json_t *stored) {
    json_int_t frames[2], sound[2], layers[2];
    if (json_unpack((json_t *)stored, "{s:[I, I], s:[I, I], s:[I, I]}", "frames", &frames[0], &frames[1],
                    "sound_tokens", &sound[0], &sound[1], "layers", &layers[0], &layers[1]) != 0) return;
    printf(" (stored: %lld of %lld frames, %lld of %lld sound tokens, %lld of %lld layers)", (long long)frames[0],
           (long long)frames[1], (long long)sound[0], (long long)sound[1], (long long)layers[0], (long long)layers[1]);
}

/* What there is to say about a finished set; a set that cannot be read gets its error. */
static json_t *describe(const lr_set_entry *entry) {
    lr_set *set = NULL;
    lr_error err = {0};
    json_t *one = json_pack("{s:o, s:s, s:o}", "path", cli_json_text(entry->path), "state",
                            state_name(entry->state), "error",
                            entry->error ? cli_json_text(entry->error) : json_null());
    if (entry->has_stored) json_object_set_new(one, "stored", stored_json(&entry->stored));
    if (entry->state != LR_SET_FINISHED) return one;
    if (lr_set_open(&set, entry->path, &err) != LR_OK) {
        json_object_set_new(one, "state", json_string("unreadable"));
        json_object_set_new(one, "error", json_string(err.text));
        return one;
    }
    const lr_set_info *info = lr_set_info_of(set);
    json_t *facts = json_pack("{s:o, s:o, s:s, s:o, s:I, s:f, s:I, s:I}", "recording",
                              cli_json_text(info->recording), "model", cli_json_text(info->model_name),
                              "model_hash", info->model_hash, "context", cli_json_text(info->context),
                              "dim", (json_int_t)info->dim, "duration_s", info->duration, "segments",
                              (json_int_t)info->n_segments, "frames", (json_int_t)info->n_frames);
    if (facts) json_object_update(one, facts);
    json_decref(facts);
    lr_set_close(set);
    return one;
}

static void print_line(const json_t *one) {
    const char *error = json_string_value(json_object_get(one, "error"));
    cli_printf("%-12s%s", json_string_value(json_object_get(one, "state")),
           json_string_value(json_object_get(one, "path")));
    if (json_object_get(one, "dim")) {
        char clock[24];
        double seconds = json_number_value(json_object_get(one, "duration_s"));
        json_int_t segments = json_integer_value(json_object_get(one, "segments"));
        json_int_t frames = json_integer_value(json_object_get(one, "frames"));
        cli_printf(": %s, %lld segment%s, %lld frame%s, %s",
                   lr_time_clock((lr_time)(seconds * (double)LR_TIME_SECOND), clock), (long long)segments,
                   cli_plural((uint64_t)segments), (long long)frames, cli_plural((uint64_t)frames),
                   json_string_value(json_object_get(one, "model")));
        if (error) cli_printf(" (the last try failed: %s)", error);
    } else if (error) {
        cli_printf(": %s", error);
    }
    print_stored(json_object_get(one, "stored"));
    putchar('\n');
}

static int run(const cli_command *command, int argc, char **argv) {
    status_options options = {0};
    char **rest = NULL;
    size_t n_rest = 0, count = 0;
    int code = CLI_DONE;
    lr_set_entry *entries = NULL;
    lr_error err = {0};
    struct stat info;
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest != 1) return cli_wrong_usage(command, "one directory must be given");
    if (stat(rest[0], &info) != 0) return cli_wrong_usage(command, "%s: %s", rest[0], strerror(errno));
    if (lr_set_states(rest[0], &entries, &count, &err) != LR_OK) return cli_fail(&err);
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *one = describe(&entries[i]);
        if (one && !options.json) print_line(one);
        if (json_array_append_new(all, one) != 0) {
            json_decref(all);
            all = NULL;
            break;
        }
    }
    lr_set_states_free(entries, count);
    if (all && !options.json) {
        if (count == 0) cli_note("%s: no embedding set is there", rest[0]);
        json_decref(all);
        return cli_finish_output(CLI_DONE);
    }
    return cli_print_json(all ? json_pack("{s:o}", "sets", all) : NULL, CLI_DONE);
}

const cli_command cli_status = {
    .name = "status",
    .summary = "what is done, under way and failed",
    .usage = "OUT [OPTION]...",
    .text = "Lists the embedding sets of a directory: done; under way (another process is writing it); "
            "interrupted (its process ended before it was finished: encode again); failed (why the last "
            "try failed).",
    .examples = "  longreel status out\n"
                "  longreel status out --json\n",
    .options = table,
    .run = run,
};
