/* longreel bench attention, longreel bench gemm: kernels alone, on all threads at once. */
#include <string.h>

#include <longreel/bench.h>

#include "bench.h"

typedef struct kernel_options {
    int threads, repeats, weights; /* threads 0: all processors */
    size_t head_dim, group, tokens, keys;
    size_t rows, outputs, inputs;
    bool json;
} kernel_options;

#define AT(field) .offset = offsetof(kernel_options, field)
#define COMMON                                                                                               \
    CLI_BENCH_THREADS(AT(threads), "threads (default: the processors)"), CLI_BENCH_REPEATS(AT(repeats), "21"), \
        CLI_BENCH_JSON(AT(json)), {0}

typedef struct kernel_bench {
    const kernel_options *options;
    cli_bench_machine machine;
    json_t *results; /* NULL: print a table */
} kernel_bench;

/* Adds one figure; takes `row` (its shape) in any case. bytes: of the operands of all threads, each once. */
static lr_status add_figure(kernel_bench *b, json_t *row, const lr_bench_figure *f, double bytes, lr_error *err) {
    double rate = bytes / f->seconds_min * 1e-9;
    json_t *figure = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "seconds_min", f->seconds_min, "seconds_median",
                               f->seconds_median, "gflops", f->best, "gflops_median", f->median, "share_of_peak",
                               f->share, "gb_per_second", rate, "share_of_stream", rate / b->machine.stream);
    bool good = row && figure && json_object_update(row, figure) == 0;
    json_decref(figure);
    if (!good) json_decref(row);
    if (!good || json_array_append_new(b->results, row) != 0) {
        return lr_fail(err, LR_E_NOMEM, "out of memory: the JSON document");
    }
    return LR_OK;
}

static void print_figure(const kernel_bench *b, const lr_bench_figure *f, double bytes) {
    double rate = bytes / f->seconds_min * 1e-9;
    printf(" %12.1f %9.1f %9.1f %9.1f %7.1f%% %7.1f %9.1f%%\n", 1e6 * f->seconds_min, 1e6 * f->seconds_median, f->best,
           f->median, 100 * f->share, rate, 100 * rate / b->machine.stream);
    fflush(stdout);
}

/* Runs a target's measurements and prints what stands around them. */
static int run_kernel(const cli_command *command, int argc, char **argv, const char *columns,
                      lr_status (*measure)(kernel_bench *b, lr_error *err)) {
    kernel_options options = {.rows = LR_ROW_TILE, .repeats = LR_BENCH_REPEATS};
    kernel_bench b = {.options = &options};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    lr_error err = {0};
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest > 0) return cli_wrong_usage(command, "'%s' is too much", rest[0]);
    b.machine.threads = options.threads > 0 ? (size_t)options.threads : cli_processors();
    b.machine.repeats = options.repeats;
    if (lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &b.machine.kernels, &err) != LR_OK ||
        cli_bench_measure_machine(&b.machine, &err) != LR_OK) {
        return cli_fail(&err);
    }
    if (options.json) {
        b.results = json_array();
    } else {
        cli_bench_print_machine(&b.machine, NULL);
        printf("%s  us: min    median   GFLOP/s    median  of peak    GB/s  of memory\n", columns);
    }
    if (measure(&b, &err) != LR_OK) {
        json_decref(b.results);
        return cli_fail(&err);
    }
    if (!options.json) return cli_finish_output(CLI_DONE);
    return cli_print_json(cli_bench_document(strchr(command->name, ' ') + 1, &b.machine,
                                             json_pack("{s:o}", "results", b.results)), CLI_DONE);
}

/* ------------------------------------------------------------------ attention */

typedef struct attention_shape {
    size_t head_dim, group, tokens;
} attention_shape;

/* The full and the sliding layers of the backbone, sound, vision; as many tokens as a call gets. */
static const attention_shape attention_shapes[] = {{512, 4, 96}, {256, 2, 96}, {128, 1, 96}, {64, 1, 96}};

static lr_status measure_attention(kernel_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    const kernel_options *o = b->options;
    size_t count = o->head_dim ? 1 : sizeof attention_shapes / sizeof *attention_shapes;
    if (o->head_dim % 2) return lr_fail(err, LR_E_USAGE, "--head-dim: %zu is odd", o->head_dim);
    for (size_t i = 0; i < count; i++) {
        attention_shape s = attention_shapes[i];
        lr_bench_figure figure;
        size_t keys = o->keys ? o->keys : 4096;
        if (o->head_dim) s = (attention_shape){o->head_dim, 1, 96};
        if (o->group) s.group = o->group;
        if (o->tokens) s.tokens = o->tokens;
        LR_TRY(lr_bench_attention(b->machine.kernels, b->machine.threads, o->repeats, s.tokens, s.group, s.head_dim,
                                  keys, &figure, err));
        /* queries and outputs of each thread, keys and values of all */
        double values = 2.0 * (double)(b->machine.threads * s.tokens * s.group + keys) * (double)s.head_dim;
        if (b->results) {
            json_t *row = json_pack("{s:I, s:I, s:I, s:I}", "head_dim", (json_int_t)s.head_dim, "group",
                                    (json_int_t)s.group, "tokens", (json_int_t)s.tokens, "keys",
                                    (json_int_t)keys);
            LR_TRY(add_figure(b, row, &figure, sizeof(float) * values, err));
        } else {
            printf("%8zu %6zu %7zu %7zu", s.head_dim, s.group, s.tokens, keys);
            print_figure(b, &figure, sizeof(float) * values);
        }
    }
done:
    return st;
}

static int run_attention(const cli_command *command, int argc, char **argv) {
    return run_kernel(command, argc, argv, "head_dim  group  tokens    keys", measure_attention);
}

static const cli_option attention_table[] = {
    {CLI_SIZE, "head-dim", 0, "N", "width of a head, even, at most 512 (default: 512, 256, 128 and 64 as in "
     "EmbeddingGemma 2)", AT(head_dim), 2, 512},
    {CLI_SIZE, "group", 0, "N", "query heads for each key head", AT(group), 1, 1024},
    {CLI_SIZE, "tokens", 0, "N", "tokens that ask, in each thread", AT(tokens), 1, 1 << 20},
    {CLI_SIZE, "keys", 0, "N", "keys they see (default 4096)", AT(keys), 1, 1 << 24},
    COMMON,
};

const cli_command cli_bench_attention = {
    .name = "bench attention",
    .summary = "the attention kernel",
    .usage = "[OPTION]...",
    .text = "Times the attention kernel: each thread has queries of its own, keys and values are shared. The "
            "times are of one such call, GFLOP/s those of all threads, two for a multiply-add; the softmax is not counted. "
            "Bytes are those of the operands, each once.",
    .examples = "  longreel bench attention\n"
                "  longreel bench attention --head-dim 256 --group 2 --keys 1024 --threads 1\n",
    .options = attention_table,
    .run = run_attention,
};

/* ------------------------------------------------------------------ gemm */

typedef struct gemm_shape {
    size_t n, k;
} gemm_shape;

/* Those of EmbeddingGemma 2: backbone, vision, sound. */
static const gemm_shape gemm_shapes[] = {{1024, 512}, {512, 1024}, {4096, 512}, {512, 2048}, {512, 512},
                                         {768, 768},  {3072, 768}, {768, 3072}, {4096, 1024}, {1024, 4096}};

static const char *const weight_names[] = {"both", "bf16", "f32", NULL};

static lr_status measure_gemm(kernel_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    const kernel_options *o = b->options;
    size_t count = o->outputs || o->inputs ? 1 : sizeof gemm_shapes / sizeof *gemm_shapes;
    for (size_t i = 0; i < count; i++) {
        gemm_shape s = gemm_shapes[i];
        if (o->outputs || o->inputs) {
            s = (gemm_shape){o->outputs ? o->outputs : o->inputs, o->inputs ? o->inputs : o->outputs};
        }
        for (int w = 1; weight_names[w]; w++) {
            lr_bench_figure figure;
            if (o->weights && o->weights != w) continue;
            LR_TRY(lr_bench_gemm(b->machine.kernels, b->machine.threads, o->repeats, o->rows, s.n, s.k,
                                 w == 1 ? LR_BF16 : LR_F32, &figure, err));
            /* rows and outputs of each thread, weights of all */
            double bytes = sizeof(float) * (double)(b->machine.threads * o->rows) * (double)(s.n + s.k) +
                           (w == 1 ? sizeof(uint16_t) : sizeof(float)) * (double)s.n * (double)s.k;
            if (b->results) {
                json_t *row = json_pack("{s:I, s:I, s:I, s:s}", "rows", (json_int_t)o->rows, "outputs",
                                        (json_int_t)s.n, "inputs", (json_int_t)s.k, "weights",
                                        weight_names[w]);
                LR_TRY(add_figure(b, row, &figure, bytes, err));
            } else {
                printf("%5zu %8zu %7zu %8s", o->rows, s.n, s.k, weight_names[w]);
                print_figure(b, &figure, bytes);
            }
        }
    }
done:
    return st;
}

static int run_gemm(const cli_command *command, int argc, char **argv) {
    return run_kernel(command, argc, argv, " rows  outputs  inputs  weights", measure_gemm);
}

static const cli_option gemm_table[] = {
    {CLI_SIZE, "outputs", 0, "N", "outputs of the layer (default: those of EmbeddingGemma 2's layers)",
     AT(outputs), 1, 1 << 20},
    {CLI_SIZE, "inputs", 0, "N", "inputs of the layer", AT(inputs), 1, 1 << 20},
    {CLI_SIZE, "rows", 0, "N", "rows of each thread (default: as many as the encoder works at a time)",
     AT(rows), 1, 1 << 20},
    {CLI_WORD, "weights", 0, "both|bf16|f32", "type of the weights (default both)", AT(weights),
     .words = weight_names},
    COMMON,
};

const cli_command cli_bench_gemm = {
    .name = "bench gemm",
    .summary = "linear layers",
    .usage = "[OPTION]...",
    .text = "Times linear layers: each thread has rows of its own, the weights are shared. The times are of "
            "one such call, GFLOP/s those of all threads, two for a multiply-add. Bytes are those of the operands, each "
            "once.",
    .examples = "  longreel bench gemm\n"
                "  longreel bench gemm --outputs 4096 --inputs 512 --weights bf16 --json\n",
    .options = gemm_table,
    .run = run_gemm,
};
