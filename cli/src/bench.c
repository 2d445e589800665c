/* longreel bench: figures for this machine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
            "in the same minute. The environment variables LONGREEL_ISA and LONGREEL_GEMM choose other "
            "kernels.",
    .examples = "  longreel bench encode -m MODEL --tokens 2048,8192\n"
                "  longreel bench ingest talk.mp4 --json\n"
                "  longreel bench attention --head-dim 256\n",
    .options = table,
    .run = run,
};
