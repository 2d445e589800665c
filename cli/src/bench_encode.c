/* longreel bench encode: the backbone at several lengths, and the towers. */
#include <stdlib.h>
#include <string.h>

#include <longreel/bench.h>
#include <longreel/bench_encode.h>

#include "bench.h"
#include "bench_plot.h"

typedef struct encode_options {
    const char *model, *tokens, *plot;
    uint64_t chunk;
    size_t layers, sample;
    int ranks, threads, repeats, soft_tokens, width, height, sound_seconds;
    bool vision, sound, json;
} encode_options;

/* 1280x720 */
static lr_status take_picture(void *options, const char *value, lr_error *err) {
    encode_options *o = options;
    char *end = NULL;
    long width = strtol(value, &end, 10), height = *end == 'x' ? strtol(end + 1, &end, 10) : 0;
    if (*end || width < 1 || width > 65536 || height < 1 || height > 65536) {
        return lr_fail(err, LR_E_USAGE, "'%s' is no size of a picture, like 1280x720", value);
    }
    o->width = (int)width;
    o->height = (int)height;
    return LR_OK;
}

#define AT(field) .offset = offsetof(encode_options, field)
static const cli_option table[] = {
    {CLI_TEXT, "model", 'm', "DIR", "the checkpoint ('longreel make-model --size full DIR' makes one)",
     AT(model)},
    {CLI_TEXT, "tokens", 0, "N,N...", "lengths of the sequence (default 2048,8192)", AT(tokens)},
    CLI_BENCH_REPEATS(AT(repeats), "3"),
    {CLI_INT, "ranks", 0, "N", "ranks of this process (default 1)", AT(ranks), 1, 64},
    CLI_BENCH_THREADS(AT(threads), "threads a rank (default: the processors, divided among the ranks)"),
    {CLI_COUNT, "chunk", 0, "N", "tokens that ranks exchange at a time (default 1024)", AT(chunk), 1, 1 << 24},
    {CLI_CALL, "picture", 0, "WxH", "size of the frame (default 1280x720)", .call = take_picture},
    {CLI_INT, "soft-tokens", 0, "N", "at most so many tokens for the frame, one of the model's choices "
     "(default: the model's for video)", AT(soft_tokens), 1, 1 << 20},
    {CLI_CLEAR, "no-vision", 0, NULL, "leave the vision tower out", AT(vision)},
    {CLI_INT, "sound", 0, "S", "seconds of sound (default 20)", AT(sound_seconds), 1, 1 << 20},
    {CLI_CLEAR, "no-sound", 0, NULL, "leave the sound tower out", AT(sound)},
    CLI_BENCH_JSON(AT(json)),
    {CLI_HEADING, .help = "For long sequences, on one rank"},
    {CLI_SIZE, "layers", 0, "N", "only the first N layers of the backbone (default: all)", AT(layers), 1, 1 << 16},
    {CLI_SIZE, "sample", 0, "N", "in layers of full attention let only every Nth tile of queries attend", AT(sample), 1,
     1 << 24},
    {CLI_TEXT, "plot", 0, "FILE.svg", "draw processor time and speed over the length. Then --tokens is 2048 to 262144 "
     "unless given, --layers ends with the first of full attention, and at each length a sample of some thousand "
     "queries attends; its time is drawn as that of all; from 16384 tokens on one run counts "
     "unless --repeats is given. With the published sizes it takes some three minutes of two processors", AT(plot)},
    {0},
};

typedef struct encode_bench {
    const encode_options *options;
    uint64_t *lengths;
    size_t n_lengths;
    lr_model *model;
    double seconds_open;
    cli_bench_machine machine;
    json_t *backbone, *vision, *sound;
    plot_point *points; /* [n_lengths] with --plot */
} encode_bench;

/* GFLOP a second of a core. */
static double core_rate(double flop, double processor) {
    return processor > 0 ? flop / processor * 1e-9 : 0;
}

static double share_of_peak(const encode_bench *b, const lr_bench_result *r) {
    return core_rate(r->flop, r->processor_min) / b->machine.core_peak;
}

static json_t *figure_json(const encode_bench *b, const lr_bench_result *r) {
    double rate = r->flop / r->seconds_min * 1e-9;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "seconds_min", r->seconds_min, "seconds_median",
                     r->seconds_median, "processor_seconds", r->processor_min, "gflops", rate, "share_of_peak",
                     share_of_peak(b, r), "share_of_peak_wall", rate / b->machine.peak);
}

/* Adds `more` to the figures of r; takes it in any case. NULL where memory ran out. */
static json_t *figure_with(const encode_bench *b, const lr_bench_result *r, json_t *more) {
    json_t *figure = figure_json(b, r);
    if (!figure || !more || json_object_update(figure, more) != 0) {
        json_decref(figure);
        figure = NULL;
    }
    json_decref(more);
    return figure;
}

static lr_status add_json(encode_bench *b, const lr_bench_result *r, lr_error *err) {
    json_t *more = json_pack("{s:I, s:f, s:I, s:f, s:f, s:f, s:f}", "tokens", (json_int_t)r->units, "tokens_per_second",
                             (double)r->units / r->seconds_min, "memory_bytes", (json_int_t)r->memory_bytes,
                             "bytes_per_token", (double)r->memory_bytes / (double)r->units, "seconds_attention",
                             r->seconds_attention, "seconds_linear", r->seconds_linear, "seconds_exchange",
                             r->seconds_exchange);
    double rate = core_rate(r->full_flop, r->full_processor);
    json_t *full = r->full_share > 0 ? json_pack("{s:f, s:f, s:f, s:f}", "processor_seconds", r->full_processor,
                                                 "gflop_per_core_second", rate, "share_of_peak", rate / b->machine.core_peak,
                                                 "share_of_rows", r->full_share)
                                     : json_null();
    if (more && json_object_set_new(more, "full_attention", full) != 0) {
        json_decref(more);
        more = NULL;
    }
    json_t *row = figure_with(b, r, more);
    if (row && json_array_append_new(b->backbone, row) == 0) return LR_OK;
    return lr_fail(err, LR_E_NOMEM, "out of memory: the JSON document");
}

static void print_row(const encode_bench *b, const lr_bench_result *r) {
    double busy = r->seconds_attention + r->seconds_linear, n = (double)r->units;
    printf("%8llu %10.1f %14.3f %9.3f %10.3f %8.1f %7.1f%% %9.1f%% %9.1f %11.2f\n", (unsigned long long)r->units,
           n / r->seconds_min, r->seconds_min, r->seconds_median, r->processor_min, r->flop / r->seconds_min * 1e-9,
           100 * share_of_peak(b, r), busy > 0 ? 100 * r->seconds_attention / busy : 0,
           (double)r->memory_bytes / 0x1p20, (double)r->memory_bytes / n / 1000);
    fflush(stdout);
}

static void note_point(encode_bench *b, size_t i, const lr_bench_result *r) {
    double rest = r->processor_min - r->full_processor;
    b->points[i] = (plot_point){.tokens = (double)r->units, .rest = rest,
                                .rest_rate = core_rate(r->flop - r->full_flop, rest)};
    if (r->full_share <= 0) return;
    b->points[i].full = r->full_processor / r->full_share;
    b->points[i].full_rate = core_rate(r->full_flop, r->full_processor);
}

#define SAMPLED_ROWS 3072 /* about; tiles spread over the sequence */
#define LONG_RUN 16384    /* tokens, from which on a plot's runs last so long that one will do */

static lr_bench_run run_of(const encode_bench *b, uint64_t tokens) {
    const encode_options *o = b->options;
    lr_bench_run run = {.tokens = tokens, .chunk = o->chunk, .ranks = o->ranks, .threads = o->threads,
                        .repeats = (int)b->machine.repeats, .part = {.layers = o->layers, .every = o->sample}};
    if (!o->plot) return run;
    for (size_t layers = 1; run.part.layers == 0 && layers <= lr_model_info_of(b->model)->n_layers; layers++) {
        if (lr_full_layers(b->model, layers) > 0) run.part.layers = layers;
    }
    if (run.part.every == 0) run.part.every = (size_t)(tokens / SAMPLED_ROWS) + 1;
    if (o->repeats == 0 && tokens >= LONG_RUN) run.repeats = 1;
    return run;
}

static lr_status measure_backbone(encode_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    if (!b->options->json) {
        printf("  tokens   tokens/s  seconds (min)  (median)  processor  GFLOP/s  of peak  attention  MiB work  "
               "KB a token\n");
    }
    for (size_t i = 0; i < b->n_lengths; i++) {
        lr_bench_result r;
        const lr_bench_run run = run_of(b, b->lengths[i]);
        LR_TRY(lr_bench_backbone(b->model, &run, &r, err));
        LR_TRY(cli_bench_measure_peak(&b->machine, err));
        if (b->points) note_point(b, i, &r);
        if (b->backbone) LR_TRY(add_json(b, &r, err));
        else print_row(b, &r);
    }
done:
    return st;
}

static void print_tower(const encode_bench *b, const lr_bench_result *r, const char *unit) {
    printf("%.3f s %s (median %.3f s, processor %.3f s), %.1f GFLOP/s, %.1f%% of peak\n", r->seconds_min, unit,
           r->seconds_median, r->processor_min, r->flop / r->seconds_min * 1e-9, 100 * share_of_peak(b, r));
}

static lr_status measure_vision(encode_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    const encode_options *o = b->options;
    lr_bench_result r;
    if (!o->vision || !lr_model_info_of(b->model)->has_vision) return LR_OK;
    LR_TRY(lr_bench_vision(b->model, o->width, o->height, o->soft_tokens, o->ranks * o->threads, b->machine.repeats,
                           &r, err));
    if (!o->json) {
        char unit[64];
        snprintf(unit, sizeof unit, "a frame of %d x %d", o->width, o->height);
        printf("vision: ");
        print_tower(b, &r, unit);
        goto done;
    }
    b->vision = figure_with(b, &r, json_pack("{s:i, s:i, s:f}", "width", o->width, "height", o->height,
                                             "frames_per_second", 1 / r.seconds_min));
    if (!b->vision) LR_FAIL(LR_E_NOMEM, "out of memory: the JSON document");
done:
    return st;
}

static lr_status measure_sound(encode_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    const encode_options *o = b->options;
    lr_bench_result r;
    if (!o->sound || !lr_model_info_of(b->model)->has_audio) return LR_OK;
    LR_TRY(lr_bench_sound(b->model, o->sound_seconds, o->ranks * o->threads, b->machine.repeats, &r, err));
    if (!o->json) {
        char unit[64];
        snprintf(unit, sizeof unit, "for %d s of it", o->sound_seconds);
        printf("sound: ");
        print_tower(b, &r, unit);
        goto done;
    }
    b->sound = figure_with(b, &r, json_pack("{s:i, s:I, s:f}", "recording_seconds", o->sound_seconds, "tokens",
                                            (json_int_t)r.units, "times_real_time",
                                            (double)o->sound_seconds / r.seconds_min));
    if (!b->sound) LR_FAIL(LR_E_NOMEM, "out of memory: the JSON document");
done:
    return st;
}

static lr_status draw(const encode_bench *b, lr_error *err) {
    char title[256];
    const lr_bench_run run = run_of(b, 1);
    snprintf(title, sizeof title, "Backbone of %s, layers 1 to %zu of %zu, in fp32 with the %s kernels on %d thread%s",
             lr_model_info_of(b->model)->family, run.part.layers ? run.part.layers : lr_model_info_of(b->model)->n_layers,
             lr_model_info_of(b->model)->n_layers, lr_model_kernels(b->model)->isa, b->options->threads,
             cli_plural((uint64_t)b->options->threads));
    return cli_plot_write(b->options->plot, title, b->points, b->n_lengths, b->machine.core_peak, err);
}

static lr_status measure(encode_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    const encode_options *o = b->options;
    LR_TRY(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &b->machine.kernels, err));
    b->machine.threads = (size_t)o->ranks * (size_t)o->threads;
    b->machine.repeats = o->repeats > 0 ? o->repeats : 3;
    LR_TRY(cli_bench_measure_machine(&b->machine, err));
    double begin = cli_bench_now().wall;
    LR_TRY(cli_open_model(&b->model, o->model, NULL, o->vision, o->sound, o->ranks * o->threads, err));
    b->seconds_open = cli_bench_now().wall - begin;
    if (!o->json) {
        char more[96];
        snprintf(more, sizeof more, "%d rank%s of %d thread%s, model opened in %.2f s", o->ranks,
                 cli_plural((uint64_t)o->ranks), o->threads, cli_plural((uint64_t)o->threads), b->seconds_open);
        cli_bench_print_machine(&b->machine, more);
    }
    LR_TRY(measure_backbone(b, err));
    LR_TRY(measure_vision(b, err));
    LR_TRY(measure_sound(b, err));
    if (o->plot) LR_TRY(draw(b, err));
done:
    return st;
}

static int print_json(encode_bench *b) {
    const encode_options *o = b->options;
    json_t *more = json_pack(
        "{s:o, s:i, s:i, s:I, s:f, s:I, s:o, s:o, s:o}", "model", cli_json_text(o->model), "ranks", o->ranks, "threads",
        o->threads, "chunk", (json_int_t)o->chunk, "seconds_open", b->seconds_open, "peak_rss_bytes",
        (json_int_t)cli_bench_peak_memory(), "backbone", b->backbone, "vision", b->vision ? b->vision : json_null(), "sound",
        b->sound ? b->sound : json_null());
    b->backbone = b->vision = b->sound = NULL;
    return cli_print_json(cli_bench_document("encode", &b->machine, more), CLI_DONE);
}

static const char plot_lengths[] = "2048,4096,8192,16384,32768,65536,131072,262144";

static int run(const cli_command *command, int argc, char **argv) {
    encode_options options = {.chunk = lr_encode_defaults().chunk, .ranks = 1, .width = 1280, .height = 720, .sound_seconds = 20, .vision = true,
                              .sound = true};
    encode_bench b = {.options = &options};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    lr_error err = {0};
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest > 0) return cli_wrong_usage(command, "'%s' is too much", rest[0]);
    if (!options.model) return cli_wrong_usage(command, "the model is missing (-m DIR)");
    if (!options.tokens) options.tokens = options.plot ? plot_lengths : "2048,8192";
    if ((options.sample || options.plot) && options.ranks > 1) {
        return cli_wrong_usage(command, "--sample and --plot are for one rank");
    }
    if (cli_bench_list(&b.lengths, &b.n_lengths, options.tokens, &err) != LR_OK) {
        return cli_wrong_usage(command, "--tokens: %s", err.text);
    }
    if (options.threads == 0) {
        size_t share = cli_processors() / (size_t)options.ranks;
        options.threads = share > 0 ? (int)share : 1;
    }
    if (options.json) b.backbone = json_array();
    if ((options.plot && LR_NEW(&b.points, b.n_lengths, "a plot", &err) != LR_OK) || measure(&b, &err) != LR_OK) {
        code = b.model ? cli_fail(&err) : cli_fail_model(&err);
    } else if (options.json) {
        code = print_json(&b);
    } else {
        printf("most memory at once, weights included: %.0f MiB\n", (double)cli_bench_peak_memory() / 0x1p20);
        code = cli_finish_output(CLI_DONE);
    }
    json_decref(b.backbone);
    json_decref(b.vision);
    json_decref(b.sound);
    lr_free(b.points);
    lr_model_close(b.model);
    lr_free(b.lengths);
    return code;
}

const cli_command cli_bench_encode = {
    .name = "bench encode",
    .summary = "the backbone at several lengths, and the towers",
    .usage = "-m MODEL [OPTION]...",
    .text = "Times the backbone on made token vectors, the vision tower on a made picture and the sound tower on made "
            "sound. tokens/s and GFLOP/s come from the quickest run; GFLOP/s count matrix products and attention, two "
            "for a multiply-add, and only keys that a token sees. 'of peak' is their share of the multiply-adds that "
            "the same processor time is good for: it hangs less on what other programs do. 'attention' is its share in "
            "the time, work memory is that of all ranks without the weights.",
    .examples = "  longreel bench encode -m MODEL\n"
                "  longreel bench encode -m MODEL --tokens 2048,8192,32768 --threads 2 --json\n"
                "  longreel bench encode -m MODEL --no-vision --no-sound --plot growth.svg\n",
    .options = table,
    .run = run,
};
