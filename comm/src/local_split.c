/* Groups made of a group's ranks. The first rank of each range makes the new group and leaves it in a
 * box of the old one; each rank takes its own communicator out, and what nobody took (after an abort)
 * goes with the old group. */
#include "local.h"

static void free_box(local_box *box)
{
    for (int r = 0; r < box->count; r++) lr_comm_free(box->members[r]);
    lr_free(box->members);
    lr_free(box);
}

void lr_local_free_boxes(local_group *group)
{
    while (group->boxes) {
        local_box *next = group->boxes->next;
        free_box(group->boxes);
        group->boxes = next;
    }
}

static lr_status leave_box(local_rank *self, int first, int count, lr_error *err)
{
    lr_status st = LR_OK;
    local_group *group = self->group;
    local_box *box = NULL;
    LR_TRY(LR_NEW(&box, 1, "a group of local ranks", err));
    LR_TRY(LR_NEW(&box->members, (size_t)count, "a group of local ranks", err));
    LR_TRY(lr_comm_local_create(count, group->peer_timeout, box->members, err));
    box->first = first;
    box->count = count;
    box->number = self->n_splits;
    pthread_mutex_lock(&group->lock);
    box->next = group->boxes;
    group->boxes = box;
    pthread_mutex_unlock(&group->lock);
    box = NULL;
done:
    if (box) lr_free(box->members);
    lr_free(box);
    return st;
}

static lr_comm *take_from_box(local_rank *self, int first)
{
    local_group *group = self->group;
    lr_comm *taken = NULL;
    pthread_mutex_lock(&group->lock);
    for (local_box **link = &group->boxes; *link; link = &(*link)->next) {
        local_box *box = *link;
        if (box->first != first || box->number != self->n_splits) continue;
        lr_comm **mine = &box->members[self->comm.rank - first];
        taken = *mine;
        *mine = NULL;
        if (++box->n_taken == box->count) {
            *link = box->next;
            free_box(box);
        }
        break;
    }
    pthread_mutex_unlock(&group->lock);
    return taken;
}

lr_status lr_local_split(lr_comm *comm, int first, int count, lr_comm **out, lr_error *err)
{
    local_rank *self = lr_local_of(comm);
    lr_error why = {0};
    *out = NULL;
    if (first < 0 || count < 1 || first > comm->size - count || comm->rank < first ||
        comm->rank >= first + count)
        return lr_fail(err, LR_E_INTERNAL, "rank %d of %d cannot be in a group of %d ranks from %d on",
                       comm->rank, comm->size, count, first);
    lr_status st = comm->rank == first ? leave_box(self, first, count, &why) : LR_OK;
    if (st != LR_OK)
        lr_comm_abort(comm, why.text);
    else
        st = lr_local_barrier(comm, &why);
    *out = take_from_box(self, first);
    self->n_splits++;
    if (st == LR_OK) return st;
    lr_comm_free(*out);
    *out = NULL;
    return lr_fail(err, st, "%s", why.text);
}
