/* All ranks come to one outcome. */
#include <longreel/comm.h>
#include <longreel/core.h>

#include <stdio.h>
#include <string.h>

typedef struct outcome {
    int32_t status;
    char text[LR_ERROR_TEXT];
} outcome;

/* Echoes of a failure count least, then interruptions. */
static int weight(const outcome *o)
{
    switch ((lr_status)o->status) {
    case LR_OK: return 0;
    case LR_E_PEER: return 1;
    case LR_E_INTERRUPTED: return 2;
    default: return 3;
    }
}

static bool same(const outcome *a, const outcome *b)
{
    return a->status == b->status && strcmp(a->text, b->text) == 0;
}

static lr_status judge(const lr_comm *comm, const outcome *all, lr_error *err)
{
    int worst = 0;
    bool everybodys = true;
    for (int r = 1; r < comm->size; r++)
        if (weight(&all[r]) > weight(&all[worst])) worst = r;
    const outcome *o = &all[worst];
    for (int r = 0; r < comm->size; r++) everybodys = everybodys && same(&all[r], o);
    if (o->status == LR_OK) return LR_OK;
    lr_error_clear(err);
    if (worst == 0 || everybodys) return lr_fail(err, (lr_status)o->status, "%s", o->text);
    return lr_fail(err, (lr_status)o->status, "rank %d: %s", worst, o->text);
}

lr_status lr_comm_agree(lr_comm *comm, lr_status st, lr_error *err)
{
    outcome *all = NULL, mine = {.status = (int32_t)st};
    lr_error why = {0}, own = {0};
    if (err) own = *err;
    if (st != LR_OK)
        (void)snprintf(mine.text, sizeof mine.text, "%s", own.text[0] ? own.text : lr_status_name(st));
    lr_status got = LR_NEW(&all, (size_t)comm->size, "the ranks' outcomes", &why);
    if (got == LR_OK)
        got = lr_comm_all_gather(comm, &mine, sizeof mine, all, &why);
    else
        lr_comm_abort(comm, why.text);
    if (got == LR_OK)
        st = judge(comm, all, err);
    else if (st == LR_OK || st == LR_E_PEER) /* what came first says more than its echo */
        st = lr_fail(err, got, "%s", why.text);
    lr_free(all);
    return st;
}
