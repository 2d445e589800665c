/* The processes that a launcher started together (mpirun, srun), one rank each, as a communicator.
 *
 * MPI is a plugin that is opened at run time: liblongreel_mpi_openmpi.so or liblongreel_mpi_mpich.so,
 * looked for in LONGREEL_PLUGIN_PATH (directories separated by ':'), beside the program, in
 * ../lib/longreel from there, beside liblongreel, and where Longreel was installed.
 *
 * A thread of its own makes all calls of MPI, so that transfers move on while the ranks compute. It
 * also sends signs of life to the neighbours in rank order: a process that died, was stopped or was
 * cut off is noticed within the peer time limit, however long a rank computes without a call. The
 * world is then broken: every call fails with LR_E_PEER, and lr_world_close ends the whole job.
 *
 * An abort ends one communicator only (lr_comm_split), for the ranks are all still there. */
#ifndef LONGREEL_WORLD_H
#define LONGREEL_WORLD_H

#include <stdbool.h>

#include <longreel/comm.h>
#include <longreel/thread.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_world lr_world;

typedef enum lr_mpi { LR_MPI_AUTO, LR_MPI_OPENMPI, LR_MPI_MPICH } lr_mpi;

/* What the environment says, without opening anything. */
typedef struct lr_launch {
    const char *launcher; /* for messages; NULL: none */
    int tasks, task;      /* how many it started, and which one this is; 1 and 0 without launcher */
    lr_mpi mpi;           /* the one this launcher serves; AUTO: none that we know */
} lr_launch;
lr_launch lr_launch_detect(void);

typedef struct lr_world_options {
    lr_mpi mpi;          /* AUTO: the launcher's */
    double peer_timeout; /* seconds until a silent process is given up; 0: never */
    lr_cancel *cancel;   /* NULL or a flag that aborts all communicators: "interrupted" */
} lr_world_options;

/* LR_E_USAGE: no launcher, no plugin, or an MPI that sees another number of ranks than the launcher
 * has tasks (the wrong launcher for this MPI); the text says which to use. LR_E_PEER: not all ranks came
 * within two time limits and some seconds; the process can only end then, by _exit, for MPI is still
 * waiting. Once a process. */
lr_status lr_world_open(lr_world **out, const lr_world_options *options, lr_error *err);
/* Of all ranks; belongs to the world. */
lr_comm *lr_world_comm(lr_world *world);
/* Ranks on this machine. */
int lr_world_node_size(const lr_world *world);
/* "openmpi", "mpich" */
const char *lr_world_name(const lr_world *world);
/* A process was lost: nothing but lr_world_close is possible any more. */
bool lr_world_broken(lr_world *world);
/* The lowest rank that is not known to be lost: the one to speak for all. */
int lr_world_speaker(lr_world *world);
/* The next number of a sequence that all ranks share, from 0: each is given out once. Answered by
 * rank 0 whatever it is doing. */
lr_status lr_world_take(lr_world *world, uint64_t *ticket, lr_error *err);
/* Collective; the communicators split from the world's are freed before. `code` is the program's exit
 * status: where the world is broken this ends the job with it, through the launcher, and does not
 * return (what is lost cannot be ended otherwise). */
void lr_world_close(lr_world *world, int code);

#ifdef __cplusplus
}
#endif
#endif
