/* Inside cli/: the ranks of a run, where a launcher (mpirun, srun) started several processes. Only one
 * of them prints; all exit alike. */
#ifndef LONGREEL_CLI_RANKS_H
#define LONGREEL_CLI_RANKS_H

#include <longreel/world.h>

#include "encode_options.h"

typedef struct cli_ranks {
    lr_world *world;     /* NULL: this process is alone */
    lr_comm *everybody;  /* the world's; NULL: alone */
    lr_comm *comm;       /* of this process's group, which encodes a recording together; NULL: alone */
    int n_groups;
    bool never_opened;   /* MPI waits for a rank that does not come: the process can only end */
    uint64_t next;       /* of one group: the next recording's place in the order */
} cli_ranks;

/* Before the first message: only the launcher's first task is to speak. */
void cli_ranks_expect(void);
/* Opens MPI where the launcher or the options ask for it, and puts it into options->encode. */
lr_status cli_ranks_open(cli_ranks *out, cli_encode_options *options, lr_error *err);
bool cli_ranks_writes(const cli_ranks *ranks);
/* All get the same status; the text of a failure is printed by one. */
lr_status cli_ranks_agree(const cli_ranks *ranks, lr_status st, lr_error *err);
/* Who prints from now on: rank 0, or the first that is not lost. */
void cli_ranks_choose_speaker(const cli_ranks *ranks);
/* Rank 0's list to all. */
lr_status cli_ranks_share_list(const cli_ranks *ranks, cli_recording **recordings, size_t *count,
                               lr_error *err);
/* Splits the ranks in options->groups groups, as even as they come; each group's first rank speaks. */
lr_status cli_ranks_group(cli_ranks *ranks, cli_encode_options *options, lr_error *err);
/* The next place of a queue that all groups share; all ranks of a group get the same. */
lr_status cli_ranks_take(cli_ranks *ranks, uint64_t *place, lr_error *err);
/* Of several groups, once the queue is empty: sums [n] over the groups, and the groups' report texts (NULL: none)
 * to rank 0's sink. Only rank 0 speaks from then on. */
lr_status cli_ranks_collect(cli_ranks *ranks, uint64_t *sums, size_t n, const char *report,
                            lr_gather_sink sink, void *arg, lr_error *err);
/* Of a recording that ended alike on all ranks of the group: what the others would have warned of is printed by the
 * first, once, sorted. */
lr_status cli_ranks_share_warnings(const cli_ranks *ranks, const char *recording, lr_error *err);
/* The last thing a command does: where a process was lost it ends the job and does not return. */
void cli_ranks_close(cli_ranks *ranks, int code);

#endif
