/* Warnings of ranks that do not speak: kept, brought to the group's first rank, and printed there once, in an
 * order that does not depend on the ranks. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

#define MOST 100 /* of a rank and recording */

static struct {
    pthread_mutex_t lock;
    char *text; /* each ends with a zero byte */
    size_t bytes, capacity, count;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Without memory a warning is lost. */
void cli_keep_warning(const char *text) {
    size_t length = strlen(text) + 1;
    lr_error ignored = {0};
    pthread_mutex_lock(&kept.lock);
    if (kept.count < MOST && LR_GROW(&kept.text, &kept.capacity, kept.bytes + length, "warnings", &ignored) == LR_OK) {
        memcpy(kept.text + kept.bytes, text, length);
        kept.bytes += length;
        kept.count++;
    }
    pthread_mutex_unlock(&kept.lock);
}

static void forget(void) {
    pthread_mutex_lock(&kept.lock);
    lr_free(kept.text);
    kept.text = NULL;
    kept.bytes = kept.capacity = kept.count = 0;
    pthread_mutex_unlock(&kept.lock);
}

typedef struct gathered {
    char *text;
    size_t bytes, capacity;
} gathered;

static lr_status take(void *arg, int rank, const void *data, size_t bytes, lr_error *err) {
    gathered *g = arg;
    (void)rank;
    lr_status st = LR_GROW(&g->text, &g->capacity, g->bytes + bytes, "warnings", err);
    if (st != LR_OK) return st;
    memcpy(g->text + g->bytes, data, bytes);
    g->bytes += bytes;
    return LR_OK;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool was_printed(const char *text) {
    for (size_t at = 0; at < kept.bytes; at += strlen(kept.text + at) + 1) {
        if (strcmp(kept.text + at, text) == 0) return true;
    }
    return false;
}

/* Rank 0 has printed its own. */
static lr_status print_others(const gathered *g, const char *recording, lr_error *err) {
    char **texts = NULL;
    size_t count = 0, n = 0;
    for (size_t i = 0; i < g->bytes; i++) count += g->text[i] == '\0';
    lr_status st = LR_NEW(&texts, count + 1, "warnings", err);
    if (st != LR_OK) return st;
    for (size_t at = 0; n < count; at += strlen(g->text + at) + 1) texts[n++] = g->text + at;
    qsort(texts, count, sizeof *texts, by_text);
    for (size_t i = 0; i < count; i++) {
        bool again = i > 0 && strcmp(texts[i], texts[i - 1]) == 0;
        if (!again && !was_printed(texts[i])) cli_warn(recording, "%s", texts[i]);
    }
    lr_free(texts);
    return LR_OK;
}

lr_status cli_ranks_share_warnings(const cli_ranks *ranks, const char *recording, lr_error *err) {
    lr_status st = LR_OK;
    size_t *sizes = NULL, mine;
    gathered g = {0};
    if (!ranks->comm) goto done;
    mine = ranks->comm->rank == 0 ? 0 : kept.bytes; /* the recording is through: nobody adds any */
    LR_TRY(LR_NEW(&sizes, (size_t)ranks->comm->size, "sizes of warnings", err));
    LR_TRY(lr_comm_all_gather(ranks->comm, &mine, sizeof mine, sizes, err));
    LR_TRY(lr_comm_gather(ranks->comm, 0, kept.text, sizes, (size_t)1 << 16, take, &g, err));
    LR_TRY(print_others(&g, recording, err));
done:
    lr_free(g.text);
    lr_free(sizes);
    forget();
    return st;
}
