/* Warnings about a run, not about its recording: what could not be kept or taken over, on which rank. They are logged
 * where they come up, and stand in the manifest of the set. */
#include <string.h>

#include "job.h"

#define MOST 100 /* of a rank; the others are only logged */

static int rank_of(const lr_job *job) {
    return job->comm ? job->comm->rank : 0;
}

/* Without memory a warning is in the log alone. */
static void add(lr_job *job, int rank, const char *text, size_t most) {
    lr_encode_result *r = job->result;
    lr_error ignored = {0};
    char *copy = lr_utf8_copy(text);
    pthread_mutex_lock(&job->damage_lock);
    bool room = copy && r->n_run_warnings < most &&
                LR_GROW(&r->run_warnings, &job->run_warnings_capacity, r->n_run_warnings + 1, "warnings", &ignored) == LR_OK;
    if (room) r->run_warnings[r->n_run_warnings++] = (struct lr_run_warning){rank, copy};
    pthread_mutex_unlock(&job->damage_lock);
    if (!room) lr_free(copy);
}

void lr_job_warn(lr_job *job, const char *text) {
    lr_log(LR_LOG_WARNING, "%s", text);
    add(job, rank_of(job), text, MOST);
}

/* ------------------------------------------------------------------ to rank 0 */

typedef struct gathered {
    lr_job *job;
    char *text; /* of one warning, until its zero byte has come */
    size_t bytes, capacity;
} gathered;

static lr_status take(void *arg, int rank, const void *data, size_t bytes, lr_error *err) {
    gathered *g = arg;
    const char *at = data;
    for (size_t i = 0; i < bytes; i++) {
        lr_status st = LR_GROW(&g->text, &g->capacity, g->bytes + 1, "warnings", err);
        if (st != LR_OK) return st;
        g->text[g->bytes++] = at[i];
        if (at[i] != '\0') continue;
        add(g->job, rank, g->text, SIZE_MAX);
        g->bytes = 0;
    }
    return LR_OK;
}

/* One after another, each with its zero byte. */
static lr_status join(const lr_encode_result *r, char **out, size_t *bytes, lr_error *err) {
    *bytes = 0;
    for (size_t i = 0; i < r->n_run_warnings; i++) *bytes += strlen(r->run_warnings[i].text) + 1;
    lr_status st = LR_NEW(out, *bytes, "warnings", err);
    if (st != LR_OK) return st;
    char *at = *out;
    for (size_t i = 0; i < r->n_run_warnings; i++) at = stpcpy(at, r->run_warnings[i].text) + 1;
    return LR_OK;
}

lr_status lr_run_warnings_gather(lr_job *job, lr_error *err) {
    lr_status st = LR_OK;
    lr_comm *comm = job->comm;
    size_t *sizes = NULL, mine = 0;
    char *text = NULL;
    gathered g = {.job = job};
    LR_TRY(join(job->result, &text, &mine, err));
    if (comm->rank == 0) mine = 0; /* has its own */
    LR_TRY(LR_NEW(&sizes, (size_t)comm->size, "sizes of warnings", err));
    LR_TRY(lr_comm_all_gather(comm, &mine, sizeof mine, sizes, err));
    LR_TRY(lr_comm_gather(comm, 0, text, sizes, (size_t)1 << 16, take, &g, err));
done:
    lr_free(g.text);
    lr_free(sizes);
    lr_free(text);
    return st;
}

json_t *lr_run_warnings_json(const lr_encode_result *result) {
    json_t *all = json_array();
    for (size_t i = 0; all && i < result->n_run_warnings; i++) {
        const struct lr_run_warning *w = &result->run_warnings[i];
        if (json_array_append_new(all, json_pack("{s:i, s:s}", "rank", w->rank, "message", w->text)) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}
