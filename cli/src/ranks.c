/* The ranks of a run: local ones, or the processes that a launcher started. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

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

lr_status cli_ranks_open(cli_ranks *out, cli_encode_options *o, lr_error *err) {
    lr_status st = LR_OK;
    lr_launch launch = lr_launch_detect();
    *out = (cli_ranks){0};
    if (!wants_processes(o, &launch)) {
        if (o->communicator == COMM_LOCAL) cli_be_silent(false); /* each task works for itself */
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
    if (st != LR_OK) goto done;
    out->comm = lr_world_comm(out->world);
    o->encode.comm = out->comm;
    o->encode.node_ranks = lr_world_node_size(out->world);
    cli_be_silent(out->comm->rank != 0);
done:
    return st;
}

bool cli_ranks_writes(const cli_ranks *ranks) {
    return !ranks->comm || ranks->comm->rank == 0;
}

/* Rank 0 may be the one that is lost. */
void cli_ranks_choose_speaker(const cli_ranks *ranks) {
    if (ranks->comm && lr_world_broken(ranks->world)) {
        cli_be_silent(ranks->comm->rank != lr_world_speaker(ranks->world));
    }
}

lr_status cli_ranks_agree(const cli_ranks *ranks, lr_status st, lr_error *err) {
    if (!ranks->comm) return st;
    st = lr_comm_agree(ranks->comm, st, err);
    cli_ranks_choose_speaker(ranks);
    return st;
}

void cli_ranks_close(cli_ranks *ranks, int code) {
    if (!ranks->world) return;
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
