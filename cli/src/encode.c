/* longreel encode: recordings to embedding sets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <longreel/predict.h>

#include "journal.h"
#include "ranks.h"
#include "shape.h"

typedef struct encode_options {
    cli_encode_options common;
    const char *output;
    bool json;
    lr_time grace;
    int progress; /* cli_progress_mode */
} encode_options;

static const cli_option table[] = {
    {CLI_TABLE, .table = cli_encode_table},
    {CLI_HEADING, .help = "Output"},
    {CLI_TEXT, "output", 'o', "OUT", "the directory for the sets: OUT/<file name>/",
     .offset = offsetof(encode_options, output)},
    {CLI_SET, "force", 0, NULL, "encode again, and replace sets that are there",
     .offset = offsetof(encode_options, common.encode.force)},
    {CLI_CLEAR, "no-resume", 0, NULL, "keep nothing of a recording that is under way, and take nothing over; "
     "without it OUT/.partial/ holds what is done (0.7 GB an hour of recording) until the set is finished, and "
     "the same command goes on from there", .offset = offsetof(encode_options, common.encode.keep_unfinished)},
    {CLI_SET, "checkpoint-layers", 0, NULL, "keep the state after each layer that sees the whole sequence, too "
     "(two of them, 1.7 GB an hour)", .offset = offsetof(encode_options, common.encode.keep_layers)},
    {CLI_TIME, "grace", 0, "S", "after a signal the layer at hand is brought to its end and its state kept, if that "
     "comes within so many seconds (default 15; 0: stop at once); the second signal ends the program",
     .offset = offsetof(encode_options, grace)},
    {CLI_SET, "json", 0, NULL, "report as one JSON document", .offset = offsetof(encode_options, json)},
    {CLI_WORD, "progress", 0, "auto|off|json", "auto: a line on a terminal; json: an object a line on "
     "standard error", .offset = offsetof(encode_options, progress), .words = cli_progress_words},
    {0},
};

typedef struct batch {
    encode_options *options;
    cli_ranks ranks;
    lr_model *model;
    lr_speed speed; /* measured once */
    cli_recording *recordings;
    size_t count;
    size_t *order; /* [count]: which recording is the n-th to be taken */
    size_t saved, skipped, failed, wrong; /* wrong: failed for their options */
    json_t *report;
    cli_journal journal;
    struct timespec begin;
    bool interrupted;
} batch;

/* ------------------------------------------------------------------ reports */

static void add_report(batch *b, json_t *one) {
    if (b->report && json_array_append_new(b->report, one) != 0) {
        json_decref(b->report);
        b->report = NULL; /* printed as out of memory */
    }
}

static json_t *reused_json(const lr_encode_result *result) {
    return json_pack("{s:I, s:I, s:I}", "frames", (json_int_t)result->reused.frames, "sound_tokens",
                     (json_int_t)result->reused.sound_tokens, "layers", (json_int_t)result->reused.layers);
}

static void print_reused(const lr_encode_result *result) {
    const struct lr_reused *r = &result->reused;
    if (r->frames + r->sound_tokens + r->layers == 0) return;
    printf("; from an earlier run: %llu frame%s, %llu sound token%s, %llu layer%s", (unsigned long long)r->frames,
           cli_plural(r->frames), (unsigned long long)r->sound_tokens, cli_plural(r->sound_tokens),
           (unsigned long long)r->layers, cli_plural(r->layers));
}

static json_t *run_warnings_json(const lr_encode_result *result) {
    json_t *all = json_array();
    for (size_t i = 0; i < result->n_run_warnings; i++) {
        const struct lr_run_warning *w = &result->run_warnings[i];
        (void)json_array_append_new(all, json_pack("{s:i, s:o}", "rank", w->rank, "message", cli_json_text(w->text)));
    }
    return all;
}

static void report_done(batch *b, const cli_recording *r, const lr_encode_result *result) {
    const char *state = result->skipped ? "skipped" : "saved";
    if (b->options->json) {
        add_report(b, json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:o, s:i, s:I, s:o}", "path",
                                cli_json_text(r->path), "set", cli_json_text(r->set), "status", state,
                                "tokens", (json_int_t)result->tokens, "frames",
                                (json_int_t)result->frames, "sound_tokens",
                                (json_int_t)result->sound_tokens, "segments",
                                (json_int_t)result->segments, "duration_s", result->duration, "seconds",
                                result->seconds, "warnings", (json_int_t)result->n_warnings, "run_warnings",
                                run_warnings_json(result), "ranks",
                                result->ranks, "peak_bytes", (json_int_t)result->peak_bytes, "reused",
                                reused_json(result)));
        return;
    }
    if (cli_is_silent()) return;
    if (result->skipped) {
        cli_printf("%s: finished before, skipped\n", r->set);
    } else {
        cli_printf("%s: %llu token%s, %llu frame%s, %llu segment%s in %.1f s", r->set,
                   (unsigned long long)result->tokens, cli_plural(result->tokens),
                   (unsigned long long)result->frames, cli_plural(result->frames),
                   (unsigned long long)result->segments, cli_plural(result->segments), result->seconds);
        double speed = result->seconds > 0 ? result->duration / result->seconds : 0;
        if (speed > 0) printf(" (%.*fx real time)", speed < 10 ? 1 : 0, speed);
        print_reused(result);
        putchar('\n');
    }
    fflush(stdout);
}

static void report_failure(batch *b, const cli_recording *r, const lr_error *err) {
    cli_report(err->status, r->path, err->text);
    if (!b->options->json) return;
    bool stopped = err->status == LR_E_INTERRUPTED || err->status == LR_E_PEER;
    add_report(b, json_pack("{s:o, s:o, s:s, s:s, s:s}", "path", cli_json_text(r->path), "set",
                            cli_json_text(r->set), "status", stopped ? "interrupted" : "failed",
                            "reason", lr_status_name(err->status), "error", err->text));
}

static void warn_of_damage(const char *path, const json_t *damage) {
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)damage, i, one) {
        const char *stream = NULL, *what = NULL;
        double start = 0, end = 0;
        if (json_unpack(one, "{s:s, s:s, s:F, s:F}", "stream", &stream, "what", &what, "start_s", &start,
                        "end_s", &end) == 0) {
            cli_warn(path, "%s: %s from %.2f s to %.2f s: %s", path, stream, start, end, what);
        }
    }
}

/* What the set's manifest says about the recording. (Its warnings were said when it was opened.) */
static void show_damage(const cli_recording *r) {
    lr_set *set = NULL;
    if (cli_is_silent() || lr_set_open(&set, r->set, NULL) != LR_OK) return;
    json_t *manifest = json_loads(lr_set_info_of(set)->manifest, 0, NULL);
    warn_of_damage(r->path, json_object_get(manifest, "damage"));
    json_decref(manifest);
    lr_set_close(set);
}

/* ------------------------------------------------------------------ groups */

typedef struct collected {
    char *text;
    size_t bytes, capacity;
    json_t *all; /* reports of all groups, in the order of the list */
} collected;

/* Pieces of reports, each of which ends with a zero byte. */
static lr_status take_report(void *arg, int rank, const void *data, size_t bytes, lr_error *err) {
    (void)rank;
    collected *c = arg;
    lr_status st = LR_GROW(&c->text, &c->capacity, c->bytes + bytes, "a report", err);
    if (st != LR_OK) return st;
    memcpy(c->text + c->bytes, data, bytes);
    c->bytes += bytes;
    if (c->text[c->bytes - 1] != '\0') return LR_OK;
    c->bytes = 0;
    json_t *one = json_loads(c->text, 0, NULL);
    int code = one && c->all ? json_array_extend(c->all, one) : -1;
    json_decref(one);
    return code == 0 ? LR_OK : lr_fail(err, LR_E_NOMEM, "out of memory: the report");
}

/* The groups finish in any order; the report is in that of the list. */
static json_t *in_order(const batch *b, json_t *all) {
    json_t *sorted = json_array(), *one;
    size_t k;
    for (size_t i = 0; sorted && i < b->count; i++) {
        json_t *name = cli_json_text(b->recordings[i].set);
        int code = name ? 0 : -1;
        json_array_foreach(all, k, one) {
            if (!json_equal(json_object_get(one, "set"), name)) continue;
            code = json_array_append(sorted, one);
            break;
        }
        json_decref(name);
        if (code == 0) continue;
        json_decref(sorted);
        return NULL;
    }
    return sorted;
}

/* What all groups did, and their reports, comes to rank 0. */
static lr_status collect(batch *b, lr_error *err) {
    lr_status st = LR_OK;
    uint64_t sums[] = {b->saved, b->skipped, b->failed, b->wrong, b->interrupted};
    if (b->ranks.n_groups == 1) return LR_OK;
    collected c = {.all = json_array()};
    char *text = b->report ? json_dumps(b->report, JSON_COMPACT) : NULL;
    LR_TRY(cli_ranks_collect(&b->ranks, sums, sizeof sums / sizeof *sums, text, take_report, &c, err));
    b->saved = sums[0];
    b->skipped = sums[1];
    b->failed = sums[2];
    b->wrong = sums[3];
    b->interrupted = sums[4] > 0;
    if (b->report) {
        json_decref(b->report);
        b->report = in_order(b, c.all);
    }
done:
    lr_free(c.text);
    lr_free(text); /* jansson allocates by lr_alloc */
    json_decref(c.all);
    return st;
}

/* ------------------------------------------------------------------ the batch */

static double seconds_since(const struct timespec *begin) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begin->tv_sec) + 1e-9 * (double)(now.tv_nsec - begin->tv_nsec);
}

static void show_progress(void *arg, const lr_progress *progress) {
    batch *b = arg;
    cli_journal_catch_up(&b->journal); /* the directory may be there now */
    cli_progress(NULL, progress);
}

static void recording_failed(batch *b, const cli_recording *r, const lr_error *err) {
    lr_status st = err->status;
    bool stopped = st == LR_E_INTERRUPTED || st == LR_E_PEER;
    cli_ranks_choose_speaker(&b->ranks);
    b->failed++;
    b->wrong += st == LR_E_USAGE;
    b->interrupted |= stopped;
    report_failure(b, r, err);
    if (!stopped && st != LR_E_USAGE && cli_ranks_writes(&b->ranks)) {
        lr_error ignored = {0};
        (void)lr_set_note_failure(r->set, err->text, &ignored);
    }
    cli_journal_note(&b->journal, r, stopped ? "interrupted" : "failed", NULL, err);
}

static void encode_one(batch *b, size_t i) {
    const cli_recording *r = &b->recordings[i];
    lr_encode_options options = b->options->common.encode;
    lr_encode_result result = {0};
    lr_error err = {0};
    options.progress = show_progress;
    options.progress_arg = b;
    options.cancel = cli_cancel();
    options.stop = b->options->grace > 0 ? cli_stop(lr_time_seconds(b->options->grace)) : NULL;
    options.speed = &b->speed;
    cli_screen_recording(r->path, i + 1, b->count);
    cli_journal_note(&b->journal, r, "begun", NULL, NULL);
    lr_status st = lr_encode_recording(b->model, r->path, r->set, &options, &result, &err);
    cli_screen_clear();
    cli_screen_recording(NULL, 0, 0);
    if (st != LR_E_INTERRUPTED && st != LR_E_PEER) {
        lr_error ignored = {0}; /* of a rank lost: the next call fails, too */
        (void)cli_ranks_share_warnings(&b->ranks, r->path, &ignored);
    }
    if (st != LR_OK) {
        recording_failed(b, r, &err);
        return;
    }
    b->saved += !result.skipped;
    b->skipped += result.skipped;
    if (!result.skipped && result.n_warnings > 0) show_damage(r);
    cli_event(result.skipped ? "skipped" : "saved", r->path, r->set);
    cli_journal_note(&b->journal, r, result.skipped ? "skipped" : "saved", &result, NULL);
    report_done(b, r, &result);
    lr_encode_result_free(&result);
}

static lr_status encode_queue(batch *b, lr_error *err) {
    lr_status st = LR_OK;
    while (!cli_cancelled()) {
        uint64_t place;
        LR_TRY(cli_ranks_take(&b->ranks, &place, err));
        if (place >= b->count) break;
        encode_one(b, b->order[place]);
        if (b->interrupted && b->ranks.comm) break; /* there are no ranks any more */
    }
done:
    return st;
}

/* Groups that were stopped have not brought their numbers together. */
static bool is_one_groups(const batch *b) {
    return b->interrupted && b->ranks.n_groups > 1;
}

/* Last on standard output, however a batch of several ended. */
static void print_summary(const batch *b) {
    if (b->count < 2 || b->options->json || cli_is_silent() || is_one_groups(b)) return;
    size_t untouched = b->count - b->saved - b->skipped - b->failed;
    printf("%zu recordings: %zu saved, %zu finished before, %zu %s", b->count, b->saved, b->skipped, b->failed,
           b->interrupted ? "failed or interrupted" : "failed");
    if (untouched > 0) printf(", %zu not begun", untouched);
    if (b->ranks.n_groups > 1) printf("; %d groups", b->ranks.n_groups);
    printf("; %.1f s\n", seconds_since(&b->begin));
}

static json_t *summary_json(const batch *b) {
    if (is_one_groups(b)) return json_null();
    size_t untouched = b->count - b->saved - b->skipped - b->failed;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:i, s:f}", "recordings", (json_int_t)b->count, "saved",
                     (json_int_t)b->saved, "skipped", (json_int_t)b->skipped, "failed", (json_int_t)b->failed,
                     "not_begun", (json_int_t)untouched, "interrupted", b->interrupted, "groups",
                     b->ranks.n_groups, "seconds", seconds_since(&b->begin));
}

static int encode_all(batch *b) {
    lr_error err = {0};
    lr_status st = encode_queue(b, &err);
    if (b->interrupted && b->ranks.comm) return CLI_INTERRUPTED;
    if (st == LR_OK) st = collect(b, &err);
    if (st != LR_OK) {
        cli_ranks_choose_speaker(&b->ranks);
        return cli_fail(&err);
    }
    size_t untouched = b->count - b->saved - b->skipped - b->failed;
    if (cli_cancelled() && !b->interrupted && untouched > 0) {
        cli_report(LR_E_INTERRUPTED, NULL, "interrupted");
        b->interrupted = true;
    }
    if (b->interrupted) return CLI_INTERRUPTED;
    if (b->failed > 0 && b->failed == b->wrong && b->wrong == b->count) return CLI_WRONG_USAGE;
    if (b->failed > 0 && b->count > 1) {
        cli_note("%zu of %zu recordings failed; the others are saved", b->failed, b->count);
    }
    return b->failed > 0 ? CLI_SOME_FAILED : CLI_DONE;
}

/* OUT must be a directory or not there yet. */
static lr_status check_output(const char *output, lr_error *err) {
    struct stat info;
    if (stat(output, &info) != 0) {
        if (errno == ENOENT) return LR_OK;
        return lr_fail_errno(err, LR_E_USAGE, errno, "%s: cannot be used for the sets", output);
    }
    if (!S_ISDIR(info.st_mode)) return lr_fail(err, LR_E_USAGE, "%s: is no directory", output);
    return LR_OK;
}

static lr_status open_batch(batch *b, lr_error *err) {
    const lr_encode_options *o = &b->options->common.encode;
    return cli_open_model(&b->model, b->options->common.model, b->options->common.device, o->video, o->audio, o->threads * o->ranks, err);
}

/* Allowed, but seldom meant: --segment alone leaves the hop at its default. */
static void note_gaps(const batch *b) {
    const lr_encode_options *o = &b->options->common.encode;
    if (o->hop > o->segment && cli_ranks_writes(&b->ranks)) {
        cli_note("segments of %g s begin every %g s: what lies between belongs to no segment (--hop %g: all does)",
                 lr_time_seconds(o->segment), lr_time_seconds(o->hop), lr_time_seconds(o->segment));
    }
}

static int run_batch(batch *b) {
    lr_error err = {0};
    lr_status st = cli_ranks_agree(&b->ranks, open_batch(b, &err), &err);
    if (st == LR_E_PEER) return cli_fail(&err);
    if (st != LR_OK) return cli_fail_model(&err);
    st = lr_encode_check(&b->options->common.encode, b->model, &err);
    if (cli_ranks_agree(&b->ranks, st, &err) != LR_OK) return cli_fail(&err);
    st = cli_shape(&b->ranks, b->model, &b->options->common, b->recordings, b->count, &b->order, &err);
    if (st == LR_OK && cli_ranks_writes(&b->ranks)) st = cli_journal_open(&b->journal, b->options->output, &err);
    if (cli_ranks_agree(&b->ranks, st, &err) != LR_OK) return cli_fail(&err);
    if (b->options->json) b->report = json_array();
    note_gaps(b);
    int code = encode_all(b);
    print_summary(b);
    if (!b->options->json) return cli_finish_output(code);
    if (!b->report) return cli_print_json(NULL, code);
    return cli_print_json(json_pack("{s:O, s:o}", "recordings", b->report, "summary", summary_json(b)), code);
}

/* Rank 0's list and directory hold for all. */
static lr_status find_recordings(batch *b, char **rest, size_t n_rest, lr_error *err) {
    lr_status st = LR_OK;
    const char *output = b->options->output;
    if (cli_ranks_writes(&b->ranks)) {
        st = cli_recordings(&b->recordings, &b->count, rest, n_rest, output, err);
        if (st == LR_OK) st = check_output(output, err);
    }
    st = cli_ranks_agree(&b->ranks, st, err);
    return st == LR_OK ? cli_ranks_share_list(&b->ranks, &b->recordings, &b->count, err) : st;
}

static int run_on_ranks(batch *b, const cli_command *command, encode_options *options, char **rest,
                        size_t n_rest) {
    lr_error err = {0};
    if (cli_ranks_open(&b->ranks, &options->common, &err) != LR_OK) return cli_fail(&err);
    lr_status st = find_recordings(b, rest, n_rest, &err);
    if (st == LR_E_PEER) cli_ranks_choose_speaker(&b->ranks);
    if (st == LR_E_PEER) return cli_fail(&err);
    if (st != LR_OK) return cli_wrong_usage(command, "%s", err.text);
    return run_batch(b);
}

static int run(const cli_command *command, int argc, char **argv) {
    encode_options options = {.common = cli_encode_option_defaults(), .grace = 15 * LR_TIME_SECOND};
    options.common.encode.keep_unfinished = true;
    batch b = {.options = &options};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    cli_ranks_expect();
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    cli_screen_begin((cli_progress_mode)options.progress);
    if (!options.common.model) return cli_wrong_usage(command, "the model is missing: -m DIR");
    if (!options.output) return cli_wrong_usage(command, "the directory for the sets is missing: -o OUT");
    cli_catch_signals();
    clock_gettime(CLOCK_MONOTONIC, &b.begin);
    code = run_on_ranks(&b, command, &options, rest, n_rest);
    cli_journal_close(&b.journal);
    lr_free(b.order);
    json_decref(b.report);
    lr_model_close(b.model);
    cli_recordings_free(b.recordings, b.count);
    cli_ranks_close(&b.ranks, code);
    return code;
}

const cli_command cli_encode = {
    .name = "encode",
    .summary = "recordings to embedding sets",
    .usage = "REC... -m MODEL -o OUT [OPTION]...",
    .text = "Encodes each recording as one sequence of tokens and writes its embedding set to OUT/<file "
            "name>/: vectors of the recording, of its segments and of its frames, with their times. "
            "REC is a file that FFmpeg reads, or @LIST: a file with one name a line (@- reads standard "
            "input). A second recording of the same name becomes OUT/<file name>~2/.\n\nA finished set "
            "is skipped; one made from another recording, model or options is only replaced with "
            "--force; what is no embedding set never is. After an interrupt, a crash or a lost rank the same command goes "
            "on within the recording, with any number of ranks. A recording that fails does not stop the others.\n\n"
            "The vectors are the same to the last bit for any number of ranks and threads.\n\nUnder mpirun and "
            "srun the processes that were started share the recordings by MPI (--groups). OUT/journal.jsonl tells what "
            "happened to each.",
    .examples = "  longreel encode talk.mp4 -m embeddinggemma-2 -o out\n"
                "  longreel encode @talks.txt -m embeddinggemma-2 -o out --ranks 4 --context 8192\n"
                "  mpirun -n 16 longreel encode @talks.txt -m embeddinggemma-2 -o out\n"
                "  longreel encode match.mkv -m embeddinggemma-2 -o out --fps 2 --start 45:00 --end 1:00:00\n",
    .options = table,
    .run = run,
};
