/* longreel bench: figures for this machine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <longreel/bench.h>

#include "bench.h"

static const cli_command *const targets[] = {
    &cli_bench_encode, &cli_bench_ingest, &cli_bench_attention, &cli_bench_gemm, &cli_bench_ring,
};
#define N_TARGETS (sizeof targets / sizeof *targets)

/* ------------------------------------------------------------------ shared */

static size_t count_items(const char *text) {
    size_t count = 1;
    for (; *text; text++) count += *text == ',';
    return count;
}

lr_status cli_bench_list(uint64_t **out, size_t *count, const char *text, lr_error *err) {
    lr_status st = LR_OK;
    const char *at = text;
    uint64_t *list = NULL;
    *count = 0;
    LR_TRY(LR_NEW(&list, count_items(text), "a list of numbers", err));
    for (;; at++) {
        char *end = NULL;
        errno = 0;
        unsigned long long value = strtoull(at, &end, 10);
        if (*at < '0' || *at > '9' || errno == ERANGE || value == 0 || (*end && *end != ',')) {
            LR_FAIL(LR_E_USAGE, "'%s' is no list of whole numbers from 1 on, like 2048,8192", text);
        }
        list[(*count)++] = value;
        at = end;
        if (!*at) break;
    }
    *out = list;
    list = NULL;
done:
    lr_free(list);
    return st;
}

/* VmHWM, not getrusage: that one also counts what the process was before it became this program. */
size_t cli_bench_peak_memory(void) {
    unsigned long long kib = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmHWM: %llu kB", &kib) == 1) break;
    }
    fclose(file);
    return (size_t)kib * 1024;
}

static double clock_seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

cli_bench_time cli_bench_now(void) {
    return (cli_bench_time){clock_seconds(CLOCK_MONOTONIC), clock_seconds(CLOCK_PROCESS_CPUTIME_ID)};
}

/* ------------------------------------------------------------------ the machine */

/* VmHWM begins again: what was measured with so far is not of the work. Without it the figure is too high at worst. */
static void forget_peak_memory(void) {
    FILE *file = fopen("/proc/self/clear_refs", "we");
    if (!file) return;
    (void)fputs("5", file);
    (void)fclose(file);
}

lr_status cli_bench_measure_peak(cli_bench_machine *m, lr_error *err) {
    lr_bench_figure figure;
    size_t threads = m->threads < cli_processors() ? m->threads : cli_processors();
    lr_status st = lr_bench_peak(m->kernels, threads, LR_BENCH_REPEATS, &figure, err);
    if (st != LR_OK) return st;
    if (figure.best > m->peak) m->peak = figure.best;
    if (figure.core > m->core_peak) m->core_peak = figure.core;
    return LR_OK;
}

lr_status cli_bench_measure_machine(cli_bench_machine *m, lr_error *err) {
    enum { REPEATS = 7 };
    double median;
    size_t threads = m->threads < cli_processors() ? m->threads : cli_processors();
    lr_status st = lr_bench_stream(threads, REPEATS, LR_STREAM_FLOATS, &m->stream, &median, err);
    if (st != LR_OK) return st;
    forget_peak_memory();
    return cli_bench_measure_peak(m, err);
}

void cli_bench_print_machine(const cli_bench_machine *m, const char *more) {
    printf("kernels %s, linear layers %s, %zu thread%s; peak %.1f GFLOP/s (%.1f a core), memory %.1f GB/s; %d run%s%s%s\n",
           m->kernels->isa, m->kernels->gemm, m->threads, cli_plural(m->threads), m->peak, m->core_peak, m->stream,
           m->repeats, cli_plural((uint64_t)m->repeats), more ? "; " : "", more ? more : "");
    fflush(stdout);
}

json_t *cli_bench_document(const char *target, const cli_bench_machine *m, json_t *more) {
    json_t *all = json_pack("{s:s, s:s, s:s, s:I, s:i, s:f, s:f, s:f}", "bench", target, "isa", m->kernels->isa, "gemm",
                            m->kernels->gemm, "threads", (json_int_t)m->threads, "repeats", m->repeats, "peak_gflops",
                            m->peak, "peak_gflop_per_core_second", m->core_peak, "stream_gb_per_second", m->stream);
    if (!all || !more || json_object_update(all, more) != 0) {
        json_decref(all);
        all = NULL;
    }
    json_decref(more);
    return all;
}

double cli_bench_least(const double *values, size_t count) {
    double least = values[0];
    for (size_t i = 1; i < count; i++) {
        if (values[i] < least) least = values[i];
    }
    return least;
}

/* The k-th smallest: so many are less, or equal and before it. */
static double nth_value(const double *values, size_t count, size_t k) {
    for (size_t i = 0; i < count; i++) {
        size_t before = 0;
        for (size_t j = 0; j < count; j++) before += values[j] < values[i] || (j < i && values[j] <= values[i]);
        if (before == k) return values[i];
    }
    return values[0];
}

double cli_bench_median(const double *values, size_t count) {
    return (nth_value(values, count, (count - 1) / 2) + nth_value(values, count, count / 2)) / 2;
}

/* ------------------------------------------------------------------ the command */

static const cli_option table[] = {{0}};

static int run(const cli_command *command, int argc, char **argv) {
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    struct {
        char none;
    } options = {0};
    for (size_t i = 0; argc > 1 && i < N_TARGETS; i++) {
        const char *name = strchr(targets[i]->name, ' ') + 1;
        if (strcmp(argv[1], name) == 0) return targets[i]->run(targets[i], argc - 1, argv + 1);
    }
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest == 0) return cli_wrong_usage(command, "what to measure must be given: encode, ingest, "
                                                     "attention, gemm or ring");
    return cli_wrong_usage(command, "'%s' is none of encode, ingest, attention, gemm, ring", rest[0]);
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "how fast this machine is",
    .usage = "encode|ingest|attention|gemm|ring [OPTION]...",
    .text = "Measures one part of the work on made inputs, or on a recording of yours:\n"
            "  encode     the backbone at several lengths, and the vision tower a frame\n"
            "  ingest     reading a recording: packets, pictures, sound\n"
            "  attention  the attention kernel\n"
            "  gemm       linear layers\n"
            "  ring       full attention over ranks, measured or simulated\n\n"
            "'longreel bench encode --help' tells more, and so for each. Arithmetic is given in GFLOP/s, "
            "two for a multiply-add, and as a share of what a loop of nothing but multiply-adds reaches "
            "in the same minute; bytes a second as a share of what a loop that adds long arrays reads and writes. Each "
            "target runs once to warm up and then --repeats times, and gives the least and the median time. The environment variables LONGREEL_ISA and LONGREEL_GEMM choose other "
            "kernels.",
    .examples = "  longreel bench encode -m MODEL --tokens 2048,8192\n"
                "  longreel bench ingest talk.mp4 --json\n"
                "  longreel bench attention --head-dim 256\n",
    .options = table,
    .run = run,
};
