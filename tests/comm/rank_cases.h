/* What a communicator has to do, as functions that every rank runs: for each back end. They fail with
 * the text of what is not so. `arg` is not used. */
#ifndef LR_RANK_CASES_H
#define LR_RANK_CASES_H

#include <longreel/comm.h>

/* Many messages between all pairs, waited for in another order. */
lr_status rank_case_mesh(void *arg, lr_comm *comm, lr_error *err);
lr_status rank_case_wrong_peer(void *arg, lr_comm *comm, lr_error *err);
lr_status rank_case_collectives(void *arg, lr_comm *comm, lr_error *err);
/* Ranks 0 and 1; the others take part in the broadcast. */
lr_status rank_case_broadcast_between_messages(void *arg, lr_comm *comm, lr_error *err);
lr_status rank_case_gather(void *arg, lr_comm *comm, lr_error *err);
/* Sums are those of a plain loop in the order of the ranks, bit for bit; empty blocks, wrong types. */
lr_status rank_case_reduce_scatter(void *arg, lr_comm *comm, lr_error *err);
/* Groups of one, two and all ranks, and groups of groups. */
lr_status rank_case_split(void *arg, lr_comm *comm, lr_error *err);
/* In a group, each call of all ranks but one ends by that one's abort; messages are under way. The
 * next group, and the whole, know nothing of it. */
lr_status rank_case_abort_of_a_part(void *arg, lr_comm *comm, lr_error *err);
/* A few MB round the ring, with all bytes checked. */
lr_status rank_case_large(void *arg, lr_comm *comm, lr_error *err);

typedef struct rank_case {
    const char *name;
    lr_rank_body body;
} rank_case;
/* All of the above; ends with an entry without name. */
extern const rank_case rank_cases[];

#endif
