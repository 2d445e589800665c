/* Runs a function on local ranks, a thread each, and reports the first failure. */
#include <longreel/comm.h>

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <longreel/core.h>

typedef struct rank_run rank_run;

typedef struct rank_thread {
    rank_run *run;
    lr_comm *comm;
    pthread_t thread;
    bool started;
} rank_thread;

struct rank_run {
    lr_rank_body body;
    void *arg;
    pthread_mutex_t lock;
    /* Under lock: the first failure, one that is not LR_E_PEER before one that is. */
    lr_status status;
    lr_error error;
};

static void note_failure(rank_run *run, int rank, lr_status st, lr_error *error)
{
    if (error->text[0] == '\0') (void)lr_fail(error, st, "%s", lr_status_name(st));
    lr_error_context(error, "rank %d", rank);
    pthread_mutex_lock(&run->lock);
    if (run->status == LR_OK || (run->status == LR_E_PEER && st != LR_E_PEER)) {
        run->status = st;
        run->error = *error;
    }
    pthread_mutex_unlock(&run->lock);
}

static void *rank_main(void *arg)
{
    rank_thread *self = arg;
    lr_error error = {0};
    lr_status st = self->run->body(self->run->arg, self->comm, &error);
    if (st != LR_OK) {
        /* Noted before the others learn of it, so that the first failure is the first noted. */
        int rank = self->comm->rank;
        char reason[LR_ERROR_TEXT];
        memcpy(reason, error.text, sizeof reason);
        note_failure(self->run, rank, st, &error);
        lr_comm_abort(self->comm, reason);
    }
    lr_comm_free(self->comm);
    return NULL;
}

static void start_ranks(rank_run *run, rank_thread *ranks, int size)
{
    for (int r = 0; r < size; r++) {
        int code = pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]);
        ranks[r].started = code == 0;
        if (code == 0) continue;
        lr_error error = {0};
        lr_status st = lr_fail_errno(&error, LR_E_NOMEM, code, "no thread for rank %d of %d", r,
                                     size);
        lr_comm_abort(ranks[r].comm, error.text);
        note_failure(run, r, st, &error);
        for (int left = r; left < size; left++) lr_comm_free(ranks[left].comm);
        return;
    }
}

lr_status lr_comm_local_run(int size, double peer_timeout, lr_rank_body body, void *arg,
                            lr_error *err)
{
    lr_status st = LR_OK;
    lr_comm **comms = NULL;
    rank_thread *ranks = NULL;
    rank_run run = {.body = body, .arg = arg, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (size < 1 || size > LR_LOCAL_MAX)
        LR_FAIL(LR_E_USAGE, "%d local ranks: 1 to %d are possible", size, LR_LOCAL_MAX);
    LR_TRY(LR_NEW(&comms, (size_t)size, "communicators", err));
    LR_TRY(LR_NEW(&ranks, (size_t)size, "rank threads", err));
    LR_TRY(lr_comm_local_create(size, peer_timeout, comms, err));
    for (int r = 0; r < size; r++) {
        ranks[r].run = &run;
        ranks[r].comm = comms[r];
    }
    start_ranks(&run, ranks, size);
    for (int r = 0; r < size; r++)
        if (ranks[r].started) (void)pthread_join(ranks[r].thread, NULL);
    if (run.status != LR_OK) LR_FAIL(run.status, "%s", run.error.text);
done:
    (void)pthread_mutex_destroy(&run.lock);
    lr_free(ranks);
    lr_free(comms);
    return st;
}
