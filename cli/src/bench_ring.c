/* longreel bench ring: full attention over ranks, measured here or simulated. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/bench_ring.h>
#include <longreel/ring_sim.h>

#include "bench.h"
#include "ranks.h"

typedef struct ring_options {
    cli_encode_options common; /* the ranks' communicator */
    const char *model, *tokens, *ranks, *schedules;
    const char *flops, *link, *latency;
    size_t heads, kv_heads, head_dim;
    uint64_t chunk, rank_tokens;
    int threads, repeats, node_ranks, value_bytes;
    bool simulate, json;
} ring_options;

#define AT(field) .offset = offsetof(ring_options, field)
static const cli_option table[] = {
    {CLI_TEXT, "model", 'm', "DIR", "heads as in the layers of this checkpoint in which each token sees all",
     AT(model)},
    {CLI_TEXT, "tokens", 0, "N,N...", "lengths of the sequence (default 4096,16384; simulated: 65536 to 4194304)",
     AT(tokens)},
    {CLI_TEXT, "ranks", 0, "N,N...", "numbers of ranks (default 1,2,4,8; simulated: 8,64)", AT(ranks)},
    {CLI_TEXT, "schedule", 0, "S,S...", "of ring, all-gather, two-level (default: all)", AT(schedules)},
    {CLI_SIZE, "heads", 0, "N", "query heads (default: the model's; without one 4, as EmbeddingGemma 2 in its full layers)", AT(heads), 1, 1024},
    {CLI_SIZE, "kv-heads", 0, "N", "key and value heads (default: the model's, or 1)", AT(kv_heads), 1, 1024},
    {CLI_SIZE, "head-dim", 0, "N", "width of a head, even, at most 512 (default: the model's, or 512)", AT(head_dim), 2, 512},
    {CLI_COUNT, "chunk", 0, "N", "tokens that ranks exchange at a time (default 1024)", AT(chunk), 1, 1 << 24},
    {CLI_INT, "node-ranks", 0, "N", "ranks of a node, for two-level (default: those of a machine; local ranks: 2; "
     "simulated: 8)", AT(node_ranks), 1, 1 << 20},
    CLI_BENCH_JSON(AT(json)),
    {CLI_HEADING, .help = "Measuring"},
    CLI_BENCH_THREADS(AT(threads), "threads a rank (default: the processors, divided among the ranks)"),
    CLI_BENCH_REPEATS(AT(repeats), "3"),
    {CLI_WORD, "comm", 0, "auto|local|mpi", "as for encode", AT(common.communicator), .words = cli_communicators},
    {CLI_WORD, "mpi", 0, "auto|openmpi|mpich", "as for encode", AT(common.mpi), .words = cli_mpis},
    {CLI_HEADING, .help = "Simulating"},
    {CLI_SET, "simulate", 0, NULL, "machines that are not at hand; needs --flops and --link", AT(simulate)},
    {CLI_TEXT, "flops", 0, "F", "FLOP/s of a rank in attention: 4e14", AT(flops)},
    {CLI_TEXT, "link", 0, "B[,B2]", "bytes/s that a rank sends within a node, and between nodes: 4e11,5e10", AT(link)},
    {CLI_TEXT, "latency", 0, "S[,S2]", "seconds, the same (default 5e-6,1e-5)", AT(latency)},
    {CLI_INT, "value-bytes", 0, "2|4", "of a key's or value's element on its way (default 4)", AT(value_bytes), 2, 4},
    {CLI_COUNT, "rank-tokens", 0, "N", "most tokens a rank can hold, for groups (default: any)", AT(rank_tokens), 1,
     INT64_MAX},
    {0},
};

static const lr_schedule all_schedules[] = {LR_SCHEDULE_RING, LR_SCHEDULE_ALL_GATHER, LR_SCHEDULE_TWO_LEVEL};
static const char *const schedule_names[] = {"ring", "all-gather", "two-level"};
enum { N_SCHEDULES = 3 };

typedef struct ring_bench {
    const ring_options *options;
    cli_ranks ranks;
    cli_bench_machine machine;
    uint64_t *tokens, *counts;
    size_t n_tokens, n_counts;
    bool wanted[N_SCHEDULES];
    char one_rank[33];     /* digest of the output on one rank */
    double one_rank_seconds;
    bool differs;
    json_t *results, *lengths; /* NULL: print a table */
} ring_bench;

static lr_status add_row(ring_bench *b, json_t *array, json_t *row, lr_error *err) {
    (void)b;
    if (array && row && json_array_append_new(array, row) == 0) return LR_OK;
    return lr_fail(err, LR_E_NOMEM, "out of memory: the JSON document");
}

static lr_status take_schedules(ring_bench *b, lr_error *err) {
    const char *at = b->options->schedules;
    for (size_t i = 0; i < N_SCHEDULES; i++) b->wanted[i] = !at;
    while (at) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < N_SCHEDULES && (strlen(schedule_names[i]) != length || memcmp(at, schedule_names[i], length) != 0)) i++;
        if (i == N_SCHEDULES) {
            return lr_fail(err, LR_E_USAGE, "--schedule: '%s' is no list of ring, all-gather, two-level",
                           b->options->schedules);
        }
        b->wanted[i] = true;
        at = at[length] ? at + length + 1 : NULL;
    }
    return LR_OK;
}

/* "4e11" or "4e11,5e10", greater than 0 (or 0 where `zero`); one stands for both. */
static lr_status take_pair(const char *name, const char *text, bool zero, double *a, double *b, lr_error *err) {
    char *end = NULL;
    *a = *b = strtod(text, &end);
    if (end != text && *end == ',') {
        const char *second = end + 1;
        *b = strtod(second, &end);
        if (end == second) *b = -1;
    }
    bool good = end != text && *end == '\0' && *a >= 0 && *b >= 0 && isfinite(*a) && isfinite(*b) &&
                (zero || (*a > 0 && *b > 0));
    return good ? LR_OK : lr_fail(err, LR_E_USAGE, "--%s: '%s' is not like 4e11 or 4e11,5e10", name, text);
}

static lr_sim_layer layer_of(const ring_options *o, uint64_t tokens, int ranks, lr_schedule schedule) {
    return (lr_sim_layer){.n_tokens = tokens, .chunk = o->chunk, .n_ranks = ranks, .n_heads = o->heads,
                          .shape = {o->kv_heads, o->head_dim}, .value_bytes = (size_t)o->value_bytes,
                          .schedule = schedule};
}

/* ------------------------------------------------------------------ measured */

typedef struct one_run {
    const lr_ring_bench *bench;
    lr_ring_figures *figures;
} one_run;

static lr_status run_rank(void *arg, lr_comm *comm, lr_error *err) {
    one_run *run = arg;
    lr_ring_figures figures;
    lr_status st = lr_bench_ring(comm, run->bench, &figures, err);
    if (st == LR_OK && comm->rank == 0) *run->figures = figures;
    return st;
}

/* On the first `count` of the world's ranks, the others waiting; or on local ranks. */
static lr_status run_ranks(ring_bench *b, int count, const lr_ring_bench *bench, lr_ring_figures *out, lr_error *err) {
    one_run run = {bench, out};
    lr_comm *world = b->ranks.comm, *part = NULL;
    if (!world) return lr_comm_local_run(count, 0, run_rank, &run, err);
    bool inside = world->rank < count;
    lr_status st = lr_comm_split(world, inside ? 0 : count, inside ? count : world->size - count, &part, err);
    if (st == LR_OK && inside) st = run_rank(&run, part, err);
    lr_comm_free(part);
    return lr_comm_agree(world, st, err);
}

/* The simulation of the same run, with speed and links as the partial measurements give them. */
static lr_status foretell(const ring_bench *b, const lr_ring_bench *bench, int ranks, const lr_ring_figures *f,
                          double *seconds, lr_error *err) {
    lr_status st = LR_OK;
    lr_sim_layer layer = layer_of(b->options, bench->n_tokens, ranks, bench->schedule);
    lr_sim_machine machine = {.flops = 1, .link = 1, .link_between = 1, .node_ranks = bench->node_ranks,
                              .shares_memory = !b->ranks.comm};
    lr_sim_result result;
    *seconds = f->compute;
    if (f->messages == 0 || f->compute <= 0 || f->transfer <= 0) return LR_OK;
    layer.value_bytes = sizeof(float);
    LR_TRY(lr_ring_simulate(&layer, &machine, &result, err));
    machine.flops = result.compute / f->compute;
    machine.link = machine.link_between = result.transfer / f->transfer;
    LR_TRY(lr_ring_simulate(&layer, &machine, &result, err));
    *seconds = result.seconds;
done:
    return st;
}

/* Of a second of all processors that the ranks have, as the multiply-add loop uses it. */
static double share_of_peak(const ring_bench *b, const lr_ring_bench *bench, int ranks, const lr_ring_figures *f) {
    const lr_sim_layer layer = layer_of(b->options, bench->n_tokens, ranks, bench->schedule);
    double cores = (double)ranks * bench->threads, here = (double)cli_processors();
    if (b->ranks.comm) here *= ceil((double)ranks / b->options->common.encode.node_ranks);
    return lr_sim_flop(&layer) / f->seconds * 1e-9 / (fmin(cores, here) * b->machine.core_peak);
}

static lr_status show_measured(ring_bench *b, const lr_ring_bench *bench, int ranks, const char *schedule,
                               const lr_ring_figures *f, lr_error *err) {
    bool same = strcmp(f->digest, b->one_rank) == 0, volume = f->elements == f->elements_due;
    double share = share_of_peak(b, bench, ranks, f), rate = f->messages > 0 ? (double)f->bytes_sent / f->transfer * 1e-9 : 0;
    double simulated = 0, each = ranks > 0 ? (double)f->elements / ranks : 0;
    lr_status st = foretell(b, bench, ranks, f, &simulated, err);
    if (st != LR_OK) return st;
    b->differs = b->differs || !same || !volume;
    if (cli_is_silent()) return LR_OK;
    if (b->results) {
        return add_row(b, b->results, json_pack(
            "{s:I, s:i, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:f, s:I, s:b, "
            "s:s}",
            "tokens", (json_int_t)bench->n_tokens, "ranks", ranks, "schedule", schedule, "threads", bench->threads,
            "seconds_min", f->seconds, "seconds_median", f->seconds_median, "seconds_compute", f->compute,
            "seconds_compute_median", f->compute_median, "seconds_transfer", f->transfer, "seconds_transfer_median",
            f->transfer_median, "share_of_peak", share, "gb_per_second", rate, "share_of_stream",
            rate / b->machine.stream, "hidden", f->hidden, "seconds_simulated", simulated, "efficiency",
            b->one_rank_seconds / (f->seconds * ranks), "messages", (json_int_t)f->messages, "bytes_sent",
            (json_int_t)f->bytes_sent, "elements", (json_int_t)f->elements, "elements_due",
            (json_int_t)f->elements_due, "elements_per_rank", each, "bytes_per_rank", (json_int_t)f->memory_bytes,
            "same_bytes", same, "digest", f->digest), err);
    }
    printf("%9llu %5d %-10s %9.3f %9.3f %6.0f%% %9.3f %9.3f %6.0f%% %9.3f %9.1f %6.1f %-6s %9.1f  %s\n",
           (unsigned long long)bench->n_tokens, ranks, schedule, f->seconds, f->seconds_median, 100 * share, f->compute,
           f->transfer, 100 * f->hidden, simulated, (double)f->bytes_sent / 1e6, rate, volume ? "as due" : "WRONG", (double)f->memory_bytes / 1e6,
           same ? "same" : "OTHER");
    fflush(stdout);
    return LR_OK;
}

static int threads_of(const ring_bench *b, int ranks) {
    if (b->options->threads > 0) return b->options->threads;
    int each = (int)cli_processors() / (b->ranks.comm ? b->options->common.encode.node_ranks : ranks);
    return each > 0 ? each : 1;
}

static lr_status measure_length(ring_bench *b, uint64_t tokens, lr_error *err) {
    lr_status st = LR_OK;
    const ring_options *o = b->options;
    int node = o->node_ranks > 0 ? o->node_ranks : b->ranks.comm ? o->common.encode.node_ranks : 2;
    lr_ring_bench bench = {.n_tokens = tokens, .chunk = o->chunk, .n_heads = o->heads,
                           .shape = {o->kv_heads, o->head_dim}, .node_ranks = node, .repeats = o->repeats,
                           .kernels = b->machine.kernels, .cancel = cli_cancel()};
    lr_ring_figures figures = {0};
    bench.threads = threads_of(b, 1);
    bench.schedule = LR_SCHEDULE_RING;
    LR_TRY(run_ranks(b, 1, &bench, &figures, err));
    memcpy(b->one_rank, figures.digest, sizeof b->one_rank);
    b->one_rank_seconds = figures.seconds;
    for (size_t c = 0; c < b->n_counts; c++) {
        int ranks = (int)b->counts[c];
        if (ranks == 1) {
            LR_TRY(show_measured(b, &bench, 1, "none", &figures, err));
            continue;
        }
        for (size_t s = 0; s < N_SCHEDULES; s++) {
            lr_ring_bench one = bench;
            lr_ring_figures its = {0};
            if (!b->wanted[s]) continue;
            one.schedule = all_schedules[s];
            one.threads = threads_of(b, ranks);
            LR_TRY(run_ranks(b, ranks, &one, &its, err));
            LR_TRY(show_measured(b, &one, ranks, schedule_names[s], &its, err));
        }
    }
done:
    return st;
}

static lr_status measure(ring_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    int most = b->ranks.comm ? b->ranks.comm->size : 64;
    for (size_t c = 0; c < b->n_counts; c++) {
        if (b->counts[c] > (uint64_t)most) {
            LR_FAIL(LR_E_USAGE, "--ranks: %llu are more than the %d there %s", (unsigned long long)b->counts[c], most,
                    b->ranks.comm ? "are" : "can be");
        }
    }
    b->machine.threads = (size_t)threads_of(b, 1);
    b->machine.repeats = b->options->repeats;
    LR_TRY(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &b->machine.kernels, err));
    LR_TRY(cli_bench_measure_machine(&b->machine, err));
    if (!b->results && !cli_is_silent()) {
        cli_bench_print_machine(&b->machine, b->ranks.comm ? "MPI ranks" : "local ranks");
        printf("%zu heads of %zu, %zu of keys and values, chunks of %llu tokens\n"
               "   tokens ranks schedule     seconds  (median) of peak   compute  transfer  hidden simulated   MB sent"
               "   GB/s volume  MB a rank  bytes\n", b->options->heads, b->options->head_dim, b->options->kv_heads,
               (unsigned long long)b->options->chunk);
    }
    for (size_t i = 0; i < b->n_tokens; i++) LR_TRY(measure_length(b, b->tokens[i], err));
done:
    return st;
}

/* ------------------------------------------------------------------ simulated */

/* By the ring or on two levels: over many ranks straight from the owner is never the best. */
static lr_status sim_best(const ring_bench *b, uint64_t tokens, int ranks, const lr_sim_machine *machine,
                          double *seconds, lr_error *err) {
    lr_status st = LR_OK;
    lr_sim_layer layer = layer_of(b->options, tokens, ranks, LR_SCHEDULE_RING);
    double other, least = lr_sim_flop(&layer) / (machine->flops * ranks);
    LR_TRY(lr_cancel_check(cli_cancel(), err));
    LR_TRY(lr_ring_simulate_seconds(&layer, machine, seconds, err));
    if (ranks == 1 || *seconds < 1.001 * least) goto done;
    layer.schedule = LR_SCHEDULE_TWO_LEVEL;
    LR_TRY(lr_cancel_check(cli_cancel(), err));
    LR_TRY(lr_ring_simulate_seconds(&layer, machine, &other, err));
    if (other < *seconds) *seconds = other;
done:
    return st;
}

/* With many recordings of this length: the fewest groups that come within 1 % of the most per second. Once they come
 * within 1 % of what the machines can do at all, no others are tried. */
static lr_status best_groups(const ring_bench *b, uint64_t tokens, int ranks, const lr_sim_machine *machine,
                             int *groups, double *gain, lr_error *err) {
    lr_status st = LR_OK;
    lr_sim_layer layer = layer_of(b->options, tokens, ranks, LR_SCHEDULE_RING);
    double one = 0, best = 0, most = machine->flops * ranks / lr_sim_flop(&layer);
    *groups = 1;
    for (int g = 1; g <= ranks && 1.01 * best < most; g *= 2) {
        double seconds = 0;
        if (ranks % g != 0) break;
        if (b->options->rank_tokens > 0 && tokens / (uint64_t)(ranks / g) > b->options->rank_tokens) break;
        LR_TRY(sim_best(b, tokens, ranks / g, machine, &seconds, err));
        double rate = g / seconds;
        if (g == 1) one = best = rate;
        if (rate < 1.01 * best) continue;
        best = rate;
        *groups = g;
    }
    *gain = one > 0 ? best / one : 1;
done:
    return st;
}

static lr_status simulate_case(ring_bench *b, uint64_t tokens, int ranks, const lr_sim_machine *machine, lr_error *err) {
    lr_status st = LR_OK;
    int groups = 1;
    double gain = 1;
    bool rings = b->wanted[0] || b->wanted[2]; /* groups are of those */
    if (rings) LR_TRY(best_groups(b, tokens, ranks, machine, &groups, &gain, err));
    for (size_t s = 0; s < N_SCHEDULES; s++) {
        lr_sim_layer layer = layer_of(b->options, tokens, ranks, all_schedules[s]);
        lr_sim_result r;
        if (!b->wanted[s]) continue;
        LR_TRY(lr_cancel_check(cli_cancel(), err));
        LR_TRY(lr_ring_simulate(&layer, machine, &r, err));
        double efficiency = lr_sim_flop(&layer) / machine->flops / (r.seconds * ranks);
        if (b->results) {
            LR_TRY(add_row(b, b->results, json_pack(
                "{s:I, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:o, s:o}", "tokens", (json_int_t)tokens, "ranks",
                ranks, "schedule", schedule_names[s], "seconds", r.seconds, "seconds_compute", r.compute,
                "seconds_transfer", r.transfer, "hidden", r.hidden, "efficiency", efficiency, "bytes_sent",
                r.bytes_sent, "messages", (json_int_t)r.messages, "groups",
                rings ? json_integer(groups) : json_null(), "groups_gain", rings ? json_real(gain) : json_null()), err));
            continue;
        }
        printf("%9llu %5d %-10s %11.4g %11.4g %11.4g %6.0f%% %9.0f%%", (unsigned long long)tokens, ranks,
               schedule_names[s], r.seconds, r.compute, r.transfer, 100 * r.hidden, 100 * efficiency);
        if (groups > 1) printf("  %d of %d: %.2fx\n", groups, ranks / groups, gain);
        else printf("  %s\n", rings ? "one ring" : "-");
        fflush(stdout);
    }
done:
    return st;
}

/* From which length on nine tenths of the transfer are hidden. */
static lr_status simulate_hidden(ring_bench *b, int ranks, const lr_sim_machine *machine, lr_error *err) {
    lr_status st = LR_OK;
    for (size_t s = 0; s < N_SCHEDULES && ranks > 1; s++) {
        lr_sim_layer layer = layer_of(b->options, 1, ranks, all_schedules[s]);
        uint64_t found = 0;
        if (!b->wanted[s] || all_schedules[s] == LR_SCHEDULE_ALL_GATHER) continue;
        double closed = lr_sim_hidden_from(&layer, machine), most = closed * 16 + 64.0 * (double)layer.chunk * ranks;
        /* Chunks as many as the ring needs for its fill not to count, and no more. */
        LR_TRY(lr_sim_find_hidden(&layer, machine, 0.9, (uint64_t)most, &found, err));
        if (b->lengths) {
            LR_TRY(add_row(b, b->lengths, json_pack("{s:i, s:s, s:f, s:I}", "ranks", ranks, "schedule",
                                                    schedule_names[s], "closed_form", closed, "tokens",
                                                    (json_int_t)found), err));
        } else if (found > 0) {
            printf("%d ranks, %s: nine tenths of the transfer are hidden from %llu tokens on (closed form without "
                   "fill: %.3g)\n", ranks, schedule_names[s], (unsigned long long)found, closed);
        } else {
            printf("%d ranks, %s: nine tenths of the transfer are not hidden below %.3g tokens (closed form without "
                   "fill: %.3g)\n", ranks, schedule_names[s], most, closed);
        }
    }
done:
    return st;
}

static lr_status simulate(ring_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    const ring_options *o = b->options;
    lr_sim_machine machine = {.node_ranks = o->node_ranks > 0 ? o->node_ranks : 8};
    double ignored;
    if (!o->flops || !o->link) LR_FAIL(LR_E_USAGE, "--simulate needs --flops and --link");
    LR_TRY(take_pair("flops", o->flops, false, &machine.flops, &ignored, err));
    LR_TRY(take_pair("link", o->link, false, &machine.link, &machine.link_between, err));
    LR_TRY(take_pair("latency", o->latency ? o->latency : "5e-6,1e-5", true, &machine.latency,
                     &machine.latency_between, err));
    if (!b->results) {
        printf("%zu heads of %zu, %zu of keys and values, %d bytes a value, chunks of %llu tokens; a rank: %.3g FLOP/s, "
               "%.3g and %.3g bytes/s, nodes of %d\n   tokens ranks schedule       seconds     compute    transfer  "
               "hidden efficiency  groups for many recordings\n", o->heads, o->head_dim, o->kv_heads, o->value_bytes,
               (unsigned long long)o->chunk, machine.flops, machine.link, machine.link_between, machine.node_ranks);
    }
    for (size_t c = 0; c < b->n_counts; c++) {
        if (b->counts[c] > 4096) LR_FAIL(LR_E_USAGE, "--ranks: at most 4096 are simulated");
        for (size_t i = 0; i < b->n_tokens; i++) {
            LR_TRY(simulate_case(b, b->tokens[i], (int)b->counts[c], &machine, err));
        }
    }
    for (size_t c = 0; c < b->n_counts; c++) LR_TRY(simulate_hidden(b, (int)b->counts[c], &machine, err));
done:
    return st;
}

/* ------------------------------------------------------------------ the command */

/* What was not given. */
static lr_status take_heads(ring_options *o, lr_error *err) {
    lr_status st = LR_OK;
    lr_model *model = NULL;
    size_t heads = 4;
    lr_kv_shape shape = {.n_kv_heads = 1, .head_dim = 512};
    if (o->model) LR_TRY(cli_open_model(&model, o->model, NULL, false, false, o->threads, err));
    if (model && !lr_model_full_layer(model, &heads, &shape)) {
        LR_FAIL(LR_E_USAGE, "%s has no layer in which each token sees all", o->model);
    }
    if (o->heads == 0) o->heads = heads;
    if (o->kv_heads == 0) o->kv_heads = shape.n_kv_heads;
    if (o->head_dim == 0) o->head_dim = shape.head_dim;
done:
    lr_model_close(model);
    return st;
}

static lr_status check_options(const ring_options *o, lr_error *err) {
    if (o->head_dim % 2) return lr_fail(err, LR_E_USAGE, "--head-dim: %zu is odd", o->head_dim);
    if (o->heads % o->kv_heads) {
        return lr_fail(err, LR_E_USAGE, "--heads: %zu are not shared evenly by %zu of keys and values", o->heads,
                       o->kv_heads);
    }
    if (o->value_bytes == 3) return lr_fail(err, LR_E_USAGE, "--value-bytes must be 2 or 4");
    if (!o->simulate && (o->flops || o->link || o->latency)) {
        return lr_fail(err, LR_E_USAGE, "--flops, --link and --latency are for --simulate");
    }
    return LR_OK;
}

static lr_status run_bench(ring_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    ring_options *o = (ring_options *)b->options;
    const char *tokens = o->simulate ? "65536,262144,1048576,4194304" : "4096,16384";
    LR_TRY(check_options(o, err));
    LR_TRY(take_schedules(b, err));
    if (!o->simulate) LR_TRY(cli_ranks_open(&b->ranks, &o->common, err));
    char counts[64] = "1,2,4,8";
    if (b->ranks.comm) snprintf(counts, sizeof counts, b->ranks.comm->size > 1 ? "1,%d" : "%d", b->ranks.comm->size);
    LR_TRY(cli_bench_list(&b->tokens, &b->n_tokens, o->tokens ? o->tokens : tokens, err));
    LR_TRY(cli_bench_list(&b->counts, &b->n_counts, o->ranks ? o->ranks : o->simulate ? "8,64" : counts, err));
    if (o->json) {
        b->results = json_array();
        b->lengths = json_array();
    }
    st = o->simulate ? simulate(b, err) : measure(b, err);
done:
    return st;
}

static int end_bench(ring_bench *b) {
    const ring_options *o = b->options;
    int code = b->differs ? CLI_SOME_FAILED : CLI_DONE;
    if (b->differs) {
        cli_report(LR_E_COVERAGE, NULL, "the output or the volume is not what it must be: see 'same_bytes' and "
                   "'elements_due', or the table");
    }
    if (cli_is_silent()) return code;
    if (!o->json) return cli_finish_output(code);
    json_t *results = b->results ? json_incref(b->results) : NULL, *lengths = b->lengths ? json_incref(b->lengths) : NULL;
    json_t *more = json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:o, s:o}", "bench", "ring", "simulated", o->simulate,
                             "heads", (json_int_t)o->heads, "kv_heads", (json_int_t)o->kv_heads, "head_dim",
                             (json_int_t)o->head_dim, "chunk", (json_int_t)o->chunk, "results", results, "hidden_from",
                             lengths);
    return cli_print_json(o->simulate ? more : cli_bench_document("ring", &b->machine, more), code);
}

static int run(const cli_command *command, int argc, char **argv) {
    ring_options options = {.common = cli_encode_option_defaults(), .chunk = 1024, .repeats = 3, .value_bytes = 4};
    ring_bench b = {.options = &options};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    lr_error err = {0};
    cli_ranks_expect();
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest > 0) return cli_wrong_usage(command, "'%s' is too much", rest[0]);
    cli_catch_signals();
    if (take_heads(&options, &err) != LR_OK) return cli_fail_model(&err);
    code = run_bench(&b, &err) == LR_OK ? end_bench(&b) : cli_fail(&err);
    json_decref(b.results);
    json_decref(b.lengths);
    lr_free(b.counts);
    lr_free(b.tokens);
    cli_ranks_close(&b.ranks, code);
    return code;
}

const cli_command cli_bench_ring = {
    .name = "bench ring",
    .summary = "full attention over ranks",
    .usage = "[OPTION]...",
    .text = "Times one layer of full attention over local ranks, or under mpirun over processes, by each schedule: "
            "with the exchange of keys and values, without it, and the exchange alone. 'hidden' is the share of "
            "the exchange that computation hides, 'GB/s' are those of the exchange alone, of all ranks together. The volume is checked against 2 (P - 1) n H_kv D elements, and "
            "the output against that of one rank: it must be the same bytes (exit status 1 if not). 'simulated' "
            "is what the simulation makes of the two partial times.\n\n--simulate does the same for machines that "
            "are not at hand, tells from which length on the exchange is hidden, and whether several smaller "
            "rings (groups) get through more recordings of that length.",
    .examples = "  longreel bench ring --tokens 8192 --ranks 1,2,4\n"
                "  mpirun -n 4 longreel bench ring -m MODEL\n"
                "  longreel bench ring --simulate --flops 4e14 --link 4e11,5e10 --value-bytes 2 --ranks 8,64,1024\n",
    .options = table,
    .run = run,
};
