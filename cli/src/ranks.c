/* The ranks of a run: local ones, or the processes that a launcher started. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COMM_AUTO, COMM_LOCAL, COMM_MPI }; /* as in cli_communicators */

const char *const cli_communicators[] = {"auto", "local", "mpi", NULL};
const char *const cli_mpis[] = {"auto", "openmpi", "mpich", NULL};

void cli_ranks_expect(void) {
    lr_launch launch = lr_launch_detect();
    cli_be_silent(launch.tasks > 1 && launch.task != 0);
}

/* The process itself is the one rank of a launcher's, but where MPI is asked for. */
static bool wants_processes(const cli_encode_options *o, const lr_launch *launch) {
    if (o->communicator == COMM_LOCAL) return false;
    return o->communicator == COMM_MPI || o->mpi != LR_MPI_AUTO || launch->tasks > 1;
}

/* Which rank does not come nobody can tell; it may be the first. The first to speak ends the job. */
static void take_turn(const lr_launch *launch) {
    int tenths = 4 * (launch->task < 5 ? launch->task : 5);
    const struct timespec turn = {.tv_sec = tenths / 10, .tv_nsec = tenths % 10 * 100000000L};
    (void)nanosleep(&turn, NULL);
    cli_be_silent(false);
}

lr_status cli_ranks_open(cli_ranks *out, cli_encode_options *o, lr_error *err) {
    lr_status st = LR_OK;
    lr_launch launch = lr_launch_detect();
    *out = (cli_ranks){.n_groups = 1};
    if (!wants_processes(o, &launch)) {
        if (o->communicator == COMM_LOCAL) cli_be_silent(false); /* each task works for itself */
        if (o->groups > 1) {
            LR_FAIL(LR_E_USAGE, "--groups %d: groups are of processes: mpirun -n N longreel encode ...", o->groups);
        }
        return LR_OK;
    }
    lr_world_options options = {
        .mpi = (lr_mpi)o->mpi, .peer_timeout = lr_time_seconds(o->peer_timeout), .cancel = cli_cancel()};
    if (o->encode.ranks > 1) {
        LR_FAIL(LR_E_USAGE, "--ranks %d: %s has started %d ranks already; --comm local has each of them work "
                "for itself", o->encode.ranks, launch.launcher ? launch.launcher : "MPI", launch.tasks);
    }
    st = lr_world_open(&out->world, &options, err);
    if (st == LR_E_USAGE && o->communicator == COMM_MPI) lr_error_context(err, "--comm mpi");
    out->never_opened = st == LR_E_PEER || st == LR_E_INTERRUPTED;
    if (out->never_opened) take_turn(&launch);
    if (st != LR_OK) goto done;
    out->everybody = out->comm = lr_world_comm(out->world);
    o->encode.comm = out->comm;
    o->encode.node_ranks = lr_world_node_size(out->world);
    cli_be_silent(out->comm->rank != 0);
done:
    return st;
}

bool cli_ranks_writes(const cli_ranks *ranks) {
    return !ranks->comm || ranks->comm->rank == 0;
}

/* ------------------------------------------------------------------ groups */

lr_status cli_ranks_group(cli_ranks *ranks, cli_encode_options *o, lr_error *err) {
    if (!ranks->everybody || o->groups == 1) return LR_OK;
    int size = ranks->everybody->size, rank = ranks->everybody->rank;
    if (o->groups > size) {
        return lr_fail(err, LR_E_USAGE, "--groups %d: there are %d ranks", o->groups, size);
    }
    int each = size / o->groups, more = size % o->groups; /* the first `more` groups have one more */
    int group = rank < more * (each + 1) ? rank / (each + 1) : (rank - more) / each;
    int first = group * each + (group < more ? group : more);
    lr_comm *comm = NULL;
    lr_status st = lr_comm_split(ranks->everybody, first, each + (group < more), &comm, err);
    if (st != LR_OK) return st;
    ranks->comm = o->encode.comm = comm;
    ranks->n_groups = o->groups;
    cli_be_silent(comm->rank != 0);
    return LR_OK;
}

lr_status cli_ranks_take(cli_ranks *ranks, uint64_t *place, lr_error *err) {
    lr_status st = LR_OK;
    *place = ranks->next;
    if (ranks->n_groups == 1) {
        ranks->next++;
        return LR_OK;
    }
    if (ranks->comm->rank == 0) st = lr_world_take(ranks->world, place, err);
    return st == LR_OK ? lr_comm_broadcast(ranks->comm, 0, place, sizeof *place, err) : st;
}

static lr_status gather_reports(cli_ranks *ranks, const char *report, lr_gather_sink sink, void *arg,
                                lr_error *err) {
    lr_status st = LR_OK;
    lr_comm *all = ranks->everybody;
    size_t *sizes = NULL, mine = report && ranks->comm->rank == 0 ? strlen(report) + 1 : 0;
    LR_TRY(LR_NEW(&sizes, (size_t)all->size, "sizes of reports", err));
    LR_TRY(lr_comm_all_gather(all, &mine, sizeof mine, sizes, err));
    LR_TRY(lr_comm_gather(all, 0, report, sizes, (size_t)1 << 20, sink, arg, err));
done:
    lr_free(sizes);
    return st;
}

lr_status cli_ranks_collect(cli_ranks *ranks, uint64_t *sums, size_t n, const char *report,
                            lr_gather_sink sink, void *arg, lr_error *err) {
    lr_status st = LR_OK;
    uint64_t *all = NULL;
    LR_TRY(LR_NEW(&all, n * (size_t)ranks->everybody->size, "sums of the groups", err));
    if (ranks->comm->rank != 0) memset(sums, 0, n * sizeof *sums); /* the group's first rank has counted */
    LR_TRY(lr_comm_all_gather(ranks->everybody, sums, n * sizeof *sums, all, err));
    memset(sums, 0, n * sizeof *sums);
    for (size_t i = 0; i < n * (size_t)ranks->everybody->size; i++) sums[i % n] += all[i];
    LR_TRY(gather_reports(ranks, report, sink, arg, err));
    cli_be_silent(ranks->everybody->rank != 0);
done:
    lr_free(all);
    return st;
}

/* ------------------------------------------------------------------ speaking */

/* Rank 0 may be the one that is lost. */
void cli_ranks_choose_speaker(const cli_ranks *ranks) {
    if (ranks->world && lr_world_broken(ranks->world)) {
        cli_be_silent(ranks->everybody->rank != lr_world_speaker(ranks->world));
    }
}

lr_status cli_ranks_agree(const cli_ranks *ranks, lr_status st, lr_error *err) {
    if (!ranks->everybody) return st;
    st = lr_comm_agree(ranks->everybody, st, err);
    cli_ranks_choose_speaker(ranks);
    return st;
}

void cli_ranks_close(cli_ranks *ranks, int code) {
    if (ranks->never_opened) {
        fflush(stdout);
        fflush(stderr);
        _exit(code);
    }
    if (!ranks->world) return;
    if (ranks->comm != ranks->everybody) lr_comm_free(ranks->comm);
    fflush(stdout);
    fflush(stderr);
    lr_world_close(ranks->world, code);
    *ranks = (cli_ranks){0};
}

/* ------------------------------------------------------------------ recordings */

/* path NUL set NUL, for each. */
static lr_status write_list(const cli_recording *recordings, size_t count, char **out, uint64_t *bytes,
                            lr_error *err) {
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++) size += strlen(recordings[i].path) + strlen(recordings[i].set) + 2;
    lr_status st = LR_NEW(out, (size_t)size, "the list of recordings", err);
    if (st != LR_OK) return st;
    char *at = *out;
    for (size_t i = 0; i < count; i++) {
        at = stpcpy(at, recordings[i].path) + 1;
        at = stpcpy(at, recordings[i].set) + 1;
    }
    *bytes = size;
    return LR_OK;
}

static lr_status read_list(const char *list, size_t count, cli_recording **out, lr_error *err) {
    lr_status st = LR_NEW(out, count, "recordings", err);
    for (size_t i = 0; st == LR_OK && i < count; i++) {
        cli_recording *r = &(*out)[i];
        r->path = lr_strdup(list);
        list += strlen(list) + 1;
        r->set = lr_strdup(list);
        list += strlen(list) + 1;
        if (!r->path || !r->set) st = lr_fail(err, LR_E_NOMEM, "out of memory: recordings");
    }
    return st;
}

lr_status cli_ranks_share_list(const cli_ranks *ranks, cli_recording **recordings, size_t *count,
                               lr_error *err) {
    lr_status st = LR_OK;
    char *list = NULL;
    uint64_t sizes[2] = {*count, 0};
    if (!ranks->comm) return LR_OK;
    if (ranks->comm->rank == 0) LR_TRY(write_list(*recordings, *count, &list, &sizes[1], err));
    LR_TRY(lr_comm_broadcast(ranks->comm, 0, sizes, sizeof sizes, err));
    if (ranks->comm->rank != 0) LR_TRY(LR_NEW(&list, (size_t)sizes[1], "the list of recordings", err));
    LR_TRY(lr_comm_broadcast(ranks->comm, 0, list, (size_t)sizes[1], err));
    if (ranks->comm->rank != 0) {
        *count = (size_t)sizes[0];
        LR_TRY(read_list(list, *count, recordings, err));
    }
done:
    if (st != LR_OK) lr_comm_abort(ranks->comm, err->text);
    lr_free(list);
    return st;
}
