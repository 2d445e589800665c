/* What a link between devices has to do, as functions that every rank runs, for each kind of link and any
 * communicator. `arg` is a link_case_setting. */
#ifndef LR_LINK_CASES_H
#define LR_LINK_CASES_H

#include <longreel/link.h>

typedef struct link_case_setting {
    lr_link_kind kind;
    lr_device *device;
    double peer_timeout;
} link_case_setting;

lr_status link_case_open(const link_case_setting *setting, lr_comm *comm, lr_link **out, lr_error *err);

/* Blocks of each rank go round the ring, the send of one with the receive of the next, while another stream reads
 * what came: all ranks see all blocks, and the sums that another rank made are those of this one. */
lr_status link_case_ring(void *arg, lr_comm *comm, lr_error *err);
/* One exchange with messages of many sizes between all pairs, several of a pair, empty ones among them. */
lr_status link_case_mesh(void *arg, lr_comm *comm, lr_error *err);
/* Each rank sends a window's edge to its neighbours, those at the ends to one. */
lr_status link_case_halo(void *arg, lr_comm *comm, lr_error *err);
/* Groups of one, two and the rest, and after them the whole again. */
lr_status link_case_split(void *arg, lr_comm *comm, lr_error *err);
lr_status link_case_wrong_peer(void *arg, lr_comm *comm, lr_error *err);

typedef struct link_case {
    const char *name;
    lr_rank_body body;
} link_case;
/* All of the above; ends with an entry without name. */
extern const link_case link_cases[];

#endif
