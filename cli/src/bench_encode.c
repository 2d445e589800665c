/* longreel bench encode: the backbone at several lengths, and the vision tower. */
#include <stdlib.h>
#include <string.h>

#include <longreel/bench.h>
#include <longreel/bench_encode.h>

#include "bench.h"

typedef struct encode_options {
    const char *model, *tokens;
    uint64_t chunk;
    int ranks, threads, repeats, soft_tokens, width, height;
    bool vision, json;
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
    {CLI_INT, "repeats", 0, "N", "runs that count for each figure (default 3), after one that does not where "
     "there are several", AT(repeats), 1, 1000},
    {CLI_INT, "ranks", 0, "N", "ranks of this process (default 1)", AT(ranks), 1, 64},
    {CLI_INT, "threads", 0, "N", "threads a rank (default: the processors, divided among the ranks)",
     AT(threads), 1, 4096},
    {CLI_COUNT, "chunk", 0, "N", "tokens that ranks exchange at a time (default 1024)", AT(chunk), 1, 1 << 24},
    {CLI_CALL, "picture", 0, "WxH", "size of the frame (default 1280x720)", .call = take_picture},
    {CLI_INT, "soft-tokens", 0, "N", "at most so many tokens for the frame, one of the model's choices "
     "(default: the model's for video)", AT(soft_tokens), 1, 1 << 20},
    {CLI_CLEAR, "no-vision", 0, NULL, "leave the vision tower out", AT(vision)},
    {CLI_SET, "json", 0, NULL, "print one JSON document", AT(json)},
    {0},
};

typedef struct encode_bench {
    const encode_options *options;
    uint64_t *lengths;
    size_t n_lengths;
    lr_model *model;
    double seconds_open;
    double peak; /* GFLOP/s of multiply-adds */
    json_t *backbone, *vision;
} encode_bench;

/* On as many threads as the backbone has, but not more than there are processors. */
static lr_status measure_peak(encode_bench *b, lr_error *err) {
    const encode_options *o = b->options;
    size_t threads = (size_t)o->ranks * (size_t)o->threads;
    lr_bench_figure figure;
    if (threads > cli_processors()) threads = cli_processors();
    lr_status st = lr_bench_peak(lr_model_kernels(b->model), threads, &figure, err);
    if (st == LR_OK && figure.best > b->peak) b->peak = figure.best;
    return st;
}

static lr_status add_json(encode_bench *b, const lr_bench_result *r, double rate, lr_error *err) {
    json_t *row = json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:f}", "tokens",
                            (json_int_t)r->units, "seconds_min", r->seconds_min, "seconds_median",
                            r->seconds_median, "processor_seconds", r->processor_min, "tokens_per_second", (double)r->units / r->seconds_min,
                            "gflops", rate, "share_of_peak", rate / b->peak, "memory_bytes",
                            (json_int_t)r->memory_bytes, "bytes_per_token",
                            (double)r->memory_bytes / (double)r->units, "seconds_attention",
                            r->seconds_attention, "seconds_linear", r->seconds_linear,
                            "seconds_exchange", r->seconds_exchange);
    if (!row || json_array_append_new(b->backbone, row) != 0) {
        return lr_fail(err, LR_E_NOMEM, "out of memory: the JSON document");
    }
    return LR_OK;
}

static lr_status measure_backbone(encode_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    const encode_options *o = b->options;
    if (!o->json) {
        printf("  tokens   tokens/s  seconds (min)  (median)  GFLOP/s  of peak  attention  MiB work  "
               "KB a token\n");
    }
    for (size_t i = 0; i < b->n_lengths; i++) {
        lr_bench_result r;
        LR_TRY(lr_bench_backbone(b->model, b->lengths[i], o->chunk, o->ranks, o->threads, o->repeats, &r,
                                 err));
        LR_TRY(measure_peak(b, err));
        double rate = r.flop / r.seconds_min * 1e-9, n = (double)r.units;
        if (b->backbone) {
            LR_TRY(add_json(b, &r, rate, err));
        } else {
            double busy = r.seconds_attention + r.seconds_linear;
            printf("%8llu %10.1f %14.3f %9.3f %8.1f %7.1f%% %9.1f%% %9.1f %11.2f\n",
                   (unsigned long long)r.units, n / r.seconds_min, r.seconds_min, r.seconds_median, rate,
                   100 * rate / b->peak, busy > 0 ? 100 * r.seconds_attention / busy : 0,
                   (double)r.memory_bytes / 0x1p20, (double)r.memory_bytes / n / 1000);
            fflush(stdout);
        }
    }
done:
    return st;
}

static lr_status measure_vision(encode_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    const encode_options *o = b->options;
    lr_bench_result r;
    if (!o->vision || !lr_model_info_of(b->model)->has_vision) return LR_OK;
    LR_TRY(lr_bench_vision(b->model, o->width, o->height, o->soft_tokens, o->ranks * o->threads, o->repeats,
                           &r, err));
    if (!o->json) {
        printf("vision: %.3f s a frame of %d x %d (median %.3f s), %.2f frames/s\n", r.seconds_min, o->width,
               o->height, r.seconds_median, 1 / r.seconds_min);
        goto done;
    }
    b->vision = json_pack("{s:i, s:i, s:f, s:f, s:f, s:f}", "width", o->width, "height", o->height, "seconds_min",
                          r.seconds_min, "seconds_median", r.seconds_median, "processor_seconds",
                          r.processor_min, "frames_per_second",
                          1 / r.seconds_min);
    if (!b->vision) LR_FAIL(LR_E_NOMEM, "out of memory: the JSON document");
done:
    return st;
}

static lr_status measure(encode_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    const encode_options *o = b->options;
    double begin = cli_bench_now().wall;
    LR_TRY(cli_open_model(&b->model, o->model, o->vision, false, o->ranks * o->threads, err));
    b->seconds_open = cli_bench_now().wall - begin;
    const lr_kernels *kernels = lr_model_kernels(b->model);
    LR_TRY(measure_peak(b, err));
    if (!o->json) {
        printf("kernels %s, linear layers %s, ranks %d, threads a rank %d, peak %.1f GFLOP/s, model opened "
               "in %.2f s\n", kernels->isa, kernels->gemm, o->ranks, o->threads, b->peak, b->seconds_open);
    }
    LR_TRY(measure_backbone(b, err));
    LR_TRY(measure_vision(b, err));
done:
    return st;
}

static int print_json(encode_bench *b) {
    const encode_options *o = b->options;
    const lr_kernels *kernels = lr_model_kernels(b->model);
    json_t *document = json_pack(
        "{s:s, s:o, s:s, s:s, s:i, s:i, s:I, s:i, s:f, s:f, s:I, s:o, s:o}", "bench", "encode", "model",
        cli_json_text(o->model), "isa", kernels->isa, "gemm", kernels->gemm, "ranks", o->ranks, "threads",
        o->threads, "chunk", (json_int_t)o->chunk, "repeats", o->repeats, "peak_gflops", b->peak,
        "seconds_open", b->seconds_open, "peak_rss_bytes", (json_int_t)cli_bench_peak_memory(), "backbone",
        b->backbone, "vision", b->vision ? b->vision : json_null());
    b->backbone = b->vision = NULL;
    return cli_print_json(document, CLI_DONE);
}

static int run(const cli_command *command, int argc, char **argv) {
    encode_options options = {.tokens = "2048,8192", .chunk = lr_encode_defaults().chunk, .ranks = 1,
                              .repeats = 3, .width = 1280, .height = 720, .vision = true};
    encode_bench b = {.options = &options};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    lr_error err = {0};
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest > 0) return cli_wrong_usage(command, "'%s' is too much", rest[0]);
    if (!options.model) return cli_wrong_usage(command, "the model is missing (-m DIR)");
    if (cli_bench_list(&b.lengths, &b.n_lengths, options.tokens, &err) != LR_OK) {
        return cli_wrong_usage(command, "--tokens: %s", err.text);
    }
    if (options.threads == 0) {
        size_t share = cli_processors() / (size_t)options.ranks;
        options.threads = share > 0 ? (int)share : 1;
    }
    if (options.json) b.backbone = json_array();
    if (measure(&b, &err) != LR_OK) {
        code = b.model ? cli_fail(&err) : cli_fail_model(&err);
    } else if (options.json) {
        code = print_json(&b);
    } else {
        printf("most memory at once, weights included: %.0f MiB\n", (double)cli_bench_peak_memory() / 0x1p20);
        code = cli_finish_output(CLI_DONE);
    }
    json_decref(b.backbone);
    json_decref(b.vision);
    lr_model_close(b.model);
    lr_free(b.lengths);
    return code;
}

const cli_command cli_bench_encode = {
    .name = "bench encode",
    .summary = "the backbone at several lengths, and the vision tower",
    .usage = "-m MODEL [OPTION]...",
    .text = "Times the backbone on made token vectors and the vision tower on a made picture. tokens/s and "
            "GFLOP/s come from the quickest run; GFLOP/s count matrix products and attention, two for a "
            "multiply-add, and only keys that a token sees. 'attention' is its share in the time, work "
            "memory is that of all ranks without the weights.",
    .examples = "  longreel bench encode -m MODEL\n"
                "  longreel bench encode -m MODEL --tokens 2048,8192,32768 --threads 2 --json\n",
    .options = table,
    .run = run,
};
