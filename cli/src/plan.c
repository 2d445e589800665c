/* longreel plan: tokens, memory and time before a run. */
#include <longreel/predict.h>

#include "encode_options.h"

typedef struct plan_options {
    cli_encode_options common;
    bool json;
} plan_options;

static const cli_option table[] = {
    {CLI_TABLE, .table = cli_encode_table},
    {CLI_HEADING, .help = "Output"},
    {CLI_SET, "json", 0, NULL, "report as one JSON document", .offset = offsetof(plan_options, json)},
    {0},
};

typedef struct planner {
    const plan_options *options;
    lr_model *model;
    lr_speed speed;
    json_t *recordings;
    size_t bytes_per_rank, planned;
    lr_plan *plans;    /* [planned] */
    double *each;      /* [planned]: seconds */
    double seconds;
    bool fits;
    int code;
} planner;

static void add_recording(planner *p, const char *path, const lr_plan *plan, double seconds) {
    json_t *one = json_pack("{s:o, s:I, s:I, s:I, s:I, s:f, s:b}", "path", cli_json_text(path), "tokens",
                            (json_int_t)plan->tokens, "frames", (json_int_t)plan->frames, "sound_tokens",
                            (json_int_t)plan->sound_tokens, "bytes_per_rank",
                            (json_int_t)plan->bytes_per_rank, "seconds", seconds, "fits", plan->fits);
    if (one) {
        json_object_set_new(one, "bytes_total", json_integer((json_int_t)plan->bytes_total));
        json_object_set_new(one, "bytes_resident", json_integer((json_int_t)plan->bytes_resident));
        json_object_set_new(one, "bytes_available", json_integer((json_int_t)plan->bytes_available));
    }
    if (one && lr_model_device(p->model)) {
        json_object_set_new(one, "seconds", json_null());
        json_object_set_new(one, "device_bytes", json_integer((json_int_t)plan->device_bytes));
        json_object_set_new(one, "device_available", json_integer((json_int_t)plan->device_available));
    }
    if (p->recordings && json_array_append_new(p->recordings, one) != 0) {
        json_decref(p->recordings);
        p->recordings = NULL; /* printed as out of memory */
    }
}

static void plan_one(planner *p, const char *path) {
    const lr_encode_options *o = &p->options->common.encode;
    lr_plan plan;
    lr_error err = {0};
    lr_status st = lr_plan_recording(p->model, path, o, &plan, &err);
    if (st != LR_OK) {
        cli_report(st, path, err.text);
        p->code = st == LR_E_INTERRUPTED ? CLI_INTERRUPTED : CLI_SOME_FAILED;
        return;
    }
    const lr_device_info *device = lr_model_device(p->model);
    double seconds = device ? 0 : lr_speed_predict(p->model, &p->speed, &plan, o);
    if (plan.bytes_per_rank > p->bytes_per_rank) p->bytes_per_rank = plan.bytes_per_rank;
    p->seconds += seconds;
    p->fits = p->fits && plan.fits;
    p->plans[p->planned] = plan;
    p->each[p->planned] = seconds;
    p->planned++;
    if (p->options->json) {
        add_recording(p, path, &plan, seconds);
        return;
    }
    char rest[128];
    if (device) {
        snprintf(rest, sizeof rest, "at least %.2f GB of %.2f GB free on the device", (double)plan.device_bytes / 1e9,
                 (double)plan.device_available / 1e9);
    } else {
        snprintf(rest, sizeof rest, "about %.3g s", seconds);
    }
    cli_printf("%s: %llu token%s (%llu frame%s, %llu sound token%s), %.2f GB a rank%s, %s\n", path,
               (unsigned long long)plan.tokens, cli_plural(plan.tokens), (unsigned long long)plan.frames,
               cli_plural(plan.frames), (unsigned long long)plan.sound_tokens,
               cli_plural(plan.sound_tokens), (double)plan.bytes_per_rank / 1e9,
               plan.fits ? "" : " (more than is free)", rest);
}

/* ------------------------------------------------------------------ groups */

typedef struct proposal {
    size_t best, n_shapes;
    double seconds[8];
    bool fits[8];
} proposal;

/* Several rings of fewer ranks against one: what is ready first, among what fits. */
static lr_status propose(const planner *p, proposal *out, lr_error *err) {
    lr_status st = LR_OK;
    *out = (proposal){.n_shapes = p->plans[0].n_shapes};
    for (size_t s = 0; s < out->n_shapes; s++) {
        out->fits[s] = true;
        for (size_t i = 0; i < p->planned; i++) {
            const lr_plan *plan = &p->plans[i];
            out->fits[s] = out->fits[s] &&
                           (plan->bytes_available == 0 || plan->shapes[s].bytes_total <= plan->bytes_available);
        }
        LR_TRY(lr_speed_groups(p->each, p->plans, p->planned, s, &out->seconds[s], err));
        if (out->fits[s] && (!out->fits[out->best] || out->seconds[s] < 0.99 * out->seconds[out->best])) out->best = s;
    }
done:
    return st;
}

static json_t *proposal_json(const planner *p, const proposal *o) {
    json_t *shapes = json_array();
    int ranks = p->options->common.encode.ranks;
    for (size_t s = 0; shapes && s < o->n_shapes; s++) {
        int groups = p->plans[0].shapes[s].groups;
        json_array_append_new(shapes, json_pack("{s:i, s:i, s:f, s:b}", "groups", groups, "ranks", ranks / groups,
                                                "seconds", o->seconds[s], "fits", o->fits[s]));
    }
    return json_pack("{s:i, s:i, s:f, s:o}", "best", p->plans[0].shapes[o->best].groups, "ranks",
                     ranks / p->plans[0].shapes[o->best].groups, "seconds", o->seconds[o->best], "shapes", shapes);
}

static void print_proposal(const planner *p, const proposal *o) {
    int groups = p->plans[0].shapes[o->best].groups, ranks = p->options->common.encode.ranks;
    if (groups == 1) {
        printf("one ring of %d ranks is ready first\n", ranks);
    } else {
        printf("ready first: mpirun -n %d longreel encode --groups %d (rings of %d): about %.3g s, one ring of %d: "
               "%.3g s\n", ranks, groups, ranks / groups, o->seconds[o->best], ranks, o->seconds[0]);
    }
}

/* ------------------------------------------------------------------ all */

static int plan_all(planner *p, const cli_recording *recordings, size_t count) {
    const plan_options *o = p->options;
    lr_error err = {0};
    if (cli_open_model(&p->model, o->common.model, o->common.device, o->common.encode.video, o->common.encode.audio,
                       o->common.encode.threads * o->common.encode.ranks, &err) != LR_OK) {
        return cli_fail_model(&err);
    }
    bool on_device = lr_model_device(p->model) != NULL; /* of which no time is predicted */
    lr_status st = on_device ? lr_encode_check(&o->common.encode, p->model, &err)
                             : lr_speed_measure(p->model, &o->common.encode, &p->speed, &err);
    if (st != LR_OK ||
        LR_NEW(&p->plans, count, "plans", &err) != LR_OK || LR_NEW(&p->each, count, "plans", &err) != LR_OK) {
        return cli_fail(&err);
    }
    if (o->json) p->recordings = json_array();
    for (size_t i = 0; i < count && p->code != CLI_INTERRUPTED; i++) plan_one(p, recordings[i].path);
    int ranks = o->common.encode.ranks;
    proposal shapes = {0};
    bool proposes = p->planned > 0 && ranks > 1 && o->common.groups == 0 && !on_device;
    if (proposes && propose(p, &shapes, &err) != LR_OK) return cli_fail(&err);
    if (o->json) {
        json_t *all = p->recordings ? json_incref(p->recordings) : NULL;
        return cli_print_json(json_pack("{s:o, s:i, s:I, s:o, s:b, s:o}", "recordings", all, "ranks", ranks,
                                        "bytes_per_rank", (json_int_t)p->bytes_per_rank, "seconds",
                                        on_device ? json_null() : json_real(p->seconds), "fits", p->fits, "groups",
                                        proposes ? proposal_json(p, &shapes) : json_null()), p->code);
    }
    if (p->planned > 1 && !on_device) {
        printf("together: about %.3g s, at most %.2f GB a rank on %d rank%s\n", p->seconds,
               (double)p->bytes_per_rank / 1e9, ranks, ranks == 1 ? "" : "s");
    }
    if (proposes) print_proposal(p, &shapes);
    return cli_finish_output(p->code);
}

static int run(const cli_command *command, int argc, char **argv) {
    plan_options options = {.common = cli_encode_option_defaults()};
    planner p = {.options = &options, .fits = true};
    cli_recording *recordings = NULL;
    size_t count = 0, n_rest = 0;
    char **rest = NULL;
    int code = CLI_DONE;
    lr_error err = {0};
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (!options.common.model) return cli_wrong_usage(command, "the model is missing: -m DIR");
    if (cli_recordings(&recordings, &count, rest, n_rest, NULL, &err) != LR_OK) {
        return cli_wrong_usage(command, "%s", err.text);
    }
    cli_catch_signals();
    options.common.encode.cancel = cli_cancel();
    code = plan_all(&p, recordings, count);
    json_decref(p.recordings);
    lr_free(p.plans);
    lr_free(p.each);
    lr_model_close(p.model);
    cli_recordings_free(recordings, count);
    return code;
}

const cli_command cli_plan = {
    .name = "plan",
    .summary = "tokens, memory and time of a run, before it runs",
    .usage = "REC... -m MODEL [OPTION]...",
    .text = "Reads the packets of each recording, decodes nothing, and tells how many tokens encode would "
            "make of it, the memory of a rank, and a prediction of the time from short measurements on this "
            "machine (reading and decoding the file are not in it). With --ranks it also tells whether one ring or "
            "several smaller ones (groups) would be through with all recordings first. The options are those of "
            "encode.",
    .examples = "  longreel plan talk.mp4 -m embeddinggemma-2\n"
                "  longreel plan @talks.txt -m embeddinggemma-2 --ranks 8 --fps 1/2 --json\n",
    .options = table,
    .run = run,
};
