/* Started by mpirun or srun: what every communicator has to do, over MPI.
 *   mpi_ranks [--mpi openmpi|mpich] [speed]
 * `speed` prints how much of a transfer is hidden by computation. Exit status 0 when all is well. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <longreel/core.h>
#include <longreel/world.h>

#include "rank_cases.h"

static int run_cases(lr_world *world)
{
    lr_comm *comm = lr_world_comm(world);
    for (const rank_case *c = rank_cases; c->name; c++) {
        lr_error err = {0};
        lr_comm *group = NULL;
        lr_status st = lr_comm_split(comm, 0, comm->size, &group, &err);
        if (st == LR_OK) st = c->body(NULL, group, &err);
        if (st != LR_OK && group) lr_comm_abort(group, err.text);
        lr_comm_free(group);
        if (st != LR_OK) {
            fprintf(stderr, "rank %d of %d: %s: %s\n", comm->rank, comm->size, c->name, err.text);
            return 1;
        }
    }
    if (comm->rank == 0) printf("%s, %d ranks: all is well\n", lr_world_name(world), comm->size);
    return 0;
}

/* ------------------------------------------------------------------ speed */

enum { BYTES = 8 << 20, ROUNDS = 30 };

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile float sink;

static void compute(double seconds)
{
    float a[64] = {1};
    for (double end = now() + seconds; now() < end;)
        for (int k = 0; k < 500; k++)
            for (int i = 0; i < 64; i++) a[i] = a[i] * 0.999f + 0.001f;
    sink = a[3];
}

/* Seconds a round takes, with `work` seconds of computation in it. */
static lr_status exchange(lr_comm *comm, char *mine, char *buffer, double work, double *seconds,
                          lr_error *err)
{
    lr_status st = LR_OK;
    int next = (comm->rank + 1) % comm->size, before = (comm->rank + comm->size - 1) % comm->size;
    LR_TRY(lr_comm_barrier(comm, err));
    double begin = now();
    for (int i = 0; i < ROUNDS; i++) {
        lr_transfer *send = NULL, *receive = NULL;
        LR_TRY(lr_comm_recv_start(comm, before, buffer, BYTES, &receive, err));
        LR_TRY(lr_comm_send_start(comm, next, mine, BYTES, &send, err));
        if (work > 0) compute(work);
        LR_TRY(lr_comm_wait(comm, receive, NULL, err));
        LR_TRY(lr_comm_wait(comm, send, NULL, err));
        lr_comm_release(comm, receive);
        lr_comm_release(comm, send);
    }
    *seconds = (now() - begin) / ROUNDS;
done:
    return st;
}

static int measure(lr_world *world)
{
    lr_status st = LR_OK;
    lr_error err = {0};
    lr_comm *comm = lr_world_comm(world);
    char *mine = lr_alloc(BYTES), *buffer = lr_alloc(BYTES);
    double alone = 0, both = 0;
    memset(mine, 1, BYTES);
    memset(buffer, 2, BYTES);
    LR_TRY(exchange(comm, mine, buffer, 0, &alone, &err));
    LR_TRY(exchange(comm, mine, buffer, 0, &alone, &err));
    double work = 3 * alone;
    LR_TRY(lr_comm_broadcast(comm, 0, &work, sizeof work, &err));
    LR_TRY(exchange(comm, mine, buffer, work, &both, &err));
    if (comm->rank == 0)
        printf("%s, %d ranks: 8 MiB alone %.2f ms (%.2f GB/s), computing %.2f ms, both %.2f ms: %.0f %% "
               "hidden\n", lr_world_name(world), comm->size, 1e3 * alone, BYTES / alone * 1e-9,
               1e3 * work, 1e3 * both, 100 * (alone + work - both) / alone);
done:
    if (st != LR_OK) fprintf(stderr, "rank %d: %s\n", comm->rank, err.text);
    lr_free(mine);
    lr_free(buffer);
    return st != LR_OK;
}

int main(int argc, char **argv)
{
    lr_world_options options = {.peer_timeout = 20};
    lr_world *world = NULL;
    lr_error err = {0};
    bool speed = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "openmpi") == 0) options.mpi = LR_MPI_OPENMPI;
        if (strcmp(argv[i], "mpich") == 0) options.mpi = LR_MPI_MPICH;
        if (strcmp(argv[i], "speed") == 0) speed = true;
    }
    lr_status st = lr_world_open(&world, &options, &err);
    if (st != LR_OK) {
        fprintf(stderr, "%s\n", err.text);
        return st == LR_E_USAGE ? 2 : 1;
    }
    int code = speed ? measure(world) : run_cases(world);
    fflush(stdout);
    lr_world_close(world, code);
    return code;
}
