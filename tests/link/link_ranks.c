/* Started by mpirun: links between the devices of processes, staged and by NCCL (here its stand-in).
 *   link_ranks [stop]
 * `stop`: the last rank stops as if its machine hung, and the others have to find that out. Exit status 0 when all
 * is well. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <longreel/core.h>
#include <longreel/world.h>

#include "link_cases.h"

static int run_cases(lr_world *world, lr_device *device)
{
    static const lr_link_kind kinds[] = {LR_LINK_STAGED, LR_LINK_NCCL};
    for (size_t k = 0; k < 2; k++)
        for (const link_case *c = link_cases; c->name; c++) {
            lr_error err = {0};
            link_case_setting setting = {kinds[k], device, 60};
            lr_comm *comm = lr_world_comm(world);
            lr_status st = c->body(&setting, comm, &err);
            if (st == LR_OK) continue;
            fprintf(stderr, "rank %d of %d: kind %d, %s: %s\n", comm->rank, comm->size, (int)kinds[k], c->name, err.text);
            lr_comm_abort(comm, err.text);
            return 1;
        }
    return 0;
}

static int run_stop(lr_world *world, lr_device *device)
{
    lr_error err = {0};
    lr_link *link = NULL;
    lr_comm *comm = lr_world_comm(world);
    const link_case_setting setting = {LR_LINK_NCCL, device, 60};
    lr_device_at at = 0;
    lr_status st = device->ops->alloc(device, 1000, "bytes", &at, &err);
    if (st == LR_OK) st = link_case_open(&setting, comm, &link, &err);
    if (st == LR_OK && comm->rank == comm->size - 1) (void)raise(SIGSTOP);
    const lr_link_message message = {comm->size - 1, false, at, 1000};
    if (st == LR_OK) st = lr_link_exchange(link, &message, 1, "from one that stopped", &err);
    if (st == LR_OK) st = lr_link_wait(link, NULL, &err);
    if (st == LR_E_PEER) fprintf(stderr, "rank %d was told: %s\n", comm->rank, err.text);
    lr_link_free(link);
    return st == LR_E_PEER ? 3 : 1;
}

int main(int argc, char **argv)
{
    lr_error err = {0};
    lr_world *world = NULL;
    lr_device *device = NULL;
    const lr_device_options device_options = {0};
    bool stop = argc > 1 && strcmp(argv[1], "stop") == 0;
    const lr_world_options options = {.peer_timeout = stop ? 2 : 60};
    lr_status st = lr_world_open(&world, &options, &err);
    if (st == LR_OK) st = lr_device_open(&device, &device_options, &err);
    if (st != LR_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    int code = stop ? run_stop(world, device) : run_cases(world, device);
    device->ops->close(device);
    lr_world_close(world, code);
    return code;
}
