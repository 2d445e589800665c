/* Which launcher started this process, and the plugin for its MPI. */
#include "world.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/plugin.h>

/* ------------------------------------------------------------------ the launcher */

/* A number of the environment; -1 where there is none. */
static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    char *end = NULL;
    if (!text || !*text) return -1;
    long value = strtol(text, &end, 10);
    return *end || value < 0 || value > 1 << 24 ? -1 : (int)value;
}

/* The variables of mpirun come first, for it may itself run under Slurm. Those of a step are looked
 * at, not the job's: a batch script without srun is one process. */
lr_launch lr_launch_detect(void)
{
    static const struct {
        const char *tasks, *task, *and, *launcher;
        lr_mpi mpi;
    } known[] = {
        {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", NULL, "mpirun of Open MPI", LR_MPI_OPENMPI},
        {"PMI_SIZE", "PMI_RANK", "HYDI_CONTROL_FD", "mpirun of MPICH", LR_MPI_MPICH},
        {"PMI_SIZE", "PMI_RANK", "SLURM_STEP_ID", "srun --mpi=pmi2", LR_MPI_MPICH},
        {"PMI_SIZE", "PMI_RANK", NULL, "mpirun of MPICH", LR_MPI_MPICH},
        {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "PMIX_NAMESPACE", "srun --mpi=pmix", LR_MPI_OPENMPI},
        {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NULL, "srun", LR_MPI_AUTO},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int tasks = number_of(known[i].tasks), task = number_of(known[i].task);
        if (tasks < 1 || task < 0 || task >= tasks) continue;
        if (known[i].and && !getenv(known[i].and)) continue;
        return (lr_launch){known[i].launcher, tasks, task, known[i].mpi};
    }
    return (lr_launch){NULL, 1, 0, LR_MPI_AUTO};
}

static const char *const names[] = {"auto", "openmpi", "mpich"};
static const char *const titles[] = {"", "Open MPI", "MPICH"};
static const char *const ways[] = {
    "", "start it with mpirun of Open MPI or srun --mpi=pmix, or use --mpi mpich",
    "start it with mpirun of MPICH or srun --mpi=pmi2, or use --mpi openmpi"};

/* ------------------------------------------------------------------ the plugin */

static lr_status load(lr_mpi mpi, lr_world_wire *out, lr_error *err)
{
    char file[64], tried[LR_ERROR_TEXT];
    lr_wire_get_function get = NULL;
    (void)snprintf(file, sizeof file, "liblongreel_mpi_%s.so", names[mpi]);
    /* GLOBAL: the MPI's own plugins look for its symbols. NODELETE: it leaves handlers behind. */
    void *plugin = lr_plugin_open(file, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE, tried, sizeof tried);
    if (!plugin && tried[0]) return lr_fail(err, LR_E_USAGE, "%s cannot be used: %s", titles[mpi], tried);
    if (!plugin)
        return lr_fail(err, LR_E_USAGE,
                       "%s is missing: Longreel was built without %s, or LONGREEL_PLUGIN_PATH must name its "
                       "directory", file, titles[mpi]);
    *(void **)&get = dlsym(plugin, LR_WIRE_GET);
    const lr_wire *wire = get ? get(LR_WIRE_ABI) : NULL;
    if (!wire || wire->abi != LR_WIRE_ABI || wire->struct_size != sizeof(lr_wire)) {
        (void)dlclose(plugin);
        return lr_fail(err, LR_E_USAGE, "%s is of another version of Longreel", file);
    }
    *out = (lr_world_wire){.wire = wire, .plugin = plugin};
    return LR_OK;
}

/* ------------------------------------------------------------------ opening */

/* Under srun without PMIx, Open MPI ends the process while it starts; and MPICH would find itself alone
 * without PMI, which shows later. */
static bool would_end(const lr_launch *launch, lr_mpi mpi)
{
    return mpi == LR_MPI_OPENMPI && launch->launcher && launch->mpi != mpi &&
           strncmp(launch->launcher, "srun", 4) == 0;
}

static lr_status choose(const lr_launch *launch, lr_mpi *mpi, lr_error *err)
{
    if (*mpi == LR_MPI_AUTO) *mpi = launch->mpi;
    if (would_end(launch, *mpi))
        return lr_fail(err, LR_E_USAGE, "%s started %d tasks, but %s cannot work under it; %s",
                       launch->launcher, launch->tasks, titles[*mpi], ways[*mpi]);
    if (*mpi != LR_MPI_AUTO) return LR_OK;
    if (!launch->launcher)
        return lr_fail(err, LR_E_USAGE, "there is no launcher: MPI ranks are started by mpirun or srun");
    return lr_fail(err, LR_E_USAGE,
                   "%s started %d tasks without a service for MPI: use srun --mpi=pmix (Open MPI) or "
                   "--mpi=pmi2 (MPICH)", launch->launcher, launch->tasks);
}

static lr_status compare_size(lr_world *world, const lr_launch *launch, lr_mpi mpi, lr_error *err)
{
    if (!launch->launcher || world->size == launch->tasks) return LR_OK;
    return lr_fail(err, LR_E_USAGE,
                   "%s started %d tasks, but %s sees %d: it is the wrong launcher for it; %s",
                   launch->launcher, launch->tasks, titles[mpi], world->size, ways[mpi]);
}

lr_status lr_world_open(lr_world **out, const lr_world_options *options, lr_error *err)
{
    lr_launch launch = lr_launch_detect();
    lr_mpi mpi = options->mpi;
    lr_world_wire wire;
    *out = NULL;
    lr_status st = choose(&launch, &mpi, err);
    if (st == LR_OK) st = load(mpi, &wire, err);
    if (st == LR_OK) st = lr_world_start(out, &wire, options->peer_timeout, options->cancel, err);
    if (st != LR_OK) return st;
    st = compare_size(*out, &launch, mpi, err);
    if (st == LR_OK) return st;
    lr_world_close(*out, 2);
    *out = NULL;
    return st;
}
