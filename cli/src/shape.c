/* The predicted time of a batch in so many groups, from what the files' heads tell. */
#include "shape.h"

#include <math.h>
#include <stdlib.h>

#include <longreel/predict.h>

/* What passing keys and values round costs a ring, about; a ring is only taken where it gains more. */
#define RING_COST 1.05
/* Longer rings take less memory: more groups must be faster by this much. */
#define WORTH_IT 0.97

typedef struct weighed {
    lr_guess guess;
    size_t index;
} weighed;

static int longer_first(const void *a, const void *b) {
    const weighed *x = a, *y = b;
    if (x->guess.work < y->guess.work || x->guess.work > y->guess.work) return x->guess.work > y->guess.work ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* ------------------------------------------------------------------ the lengths */

typedef struct shaping {
    cli_ranks *ranks;
    lr_model *model;
    cli_encode_options *options;
    const cli_recording *recordings;
    size_t count;
    weighed *all; /* [count], the longest first */
} shaping;

/* No work where the file says nothing of its length, or cannot be read: it comes last. */
static lr_guess guess_of(const shaping *s, size_t i) {
    lr_glance glance;
    lr_error why = {0};
    if (lr_recording_glance(&glance, s->recordings[i].path, cli_cancel(), &why) != LR_OK) return (lr_guess){0};
    return lr_guess_of_length(s->model, &s->options->encode, &glance);
}

/* Each rank looks at the heads of its part of the list. */
static lr_status weigh(shaping *s, lr_error *err) {
    lr_status st = LR_OK;
    lr_comm *comm = s->ranks->everybody;
    size_t size = (size_t)comm->size, each = (s->count + size - 1) / size;
    lr_guess *mine = NULL, *theirs = NULL;
    LR_TRY(LR_NEW(&mine, each, "the lengths of recordings", err));
    LR_TRY(LR_NEW(&theirs, each * size, "the lengths of recordings", err));
    LR_TRY(LR_NEW(&s->all, s->count, "the lengths of recordings", err));
    for (size_t k = 0; k < each; k++) {
        size_t i = (size_t)comm->rank * each + k;
        if (i < s->count) mine[k] = guess_of(s, i);
    }
    LR_TRY(lr_comm_all_gather(comm, mine, each * sizeof *mine, theirs, err));
    for (size_t i = 0; i < s->count; i++) s->all[i] = (weighed){.guess = theirs[i], .index = i};
    qsort(s->all, s->count, sizeof *s->all, longer_first);
done:
    lr_free(theirs);
    lr_free(mine);
    return st;
}

/* ------------------------------------------------------------------ the number of groups */

/* Whole chunks go to ranks: the one with the most of them sets the pace. */
static double time_on(const shaping *s, const lr_guess *g, int ranks) {
    double chunks = ceil(g->tokens / (double)s->options->encode.chunk);
    if (chunks < 1 || ranks == 1) return g->work;
    return g->work * ceil(chunks / ranks) / chunks * RING_COST;
}

/* When the last of `groups` is through: each takes the next recording when it is free. busy [groups]. */
static double makespan(const shaping *s, int groups, double *busy) {
    int size = s->ranks->everybody->size;
    double last = 0;
    for (int g = 0; g < groups; g++) busy[g] = 0;
    for (size_t i = 0; i < s->count; i++) {
        int next = 0;
        for (int g = 1; g < groups; g++) {
            if (busy[g] < busy[next]) next = g;
        }
        busy[next] += time_on(s, &s->all[i].guess, size / groups + (next < size % groups));
        if (busy[next] > last) last = busy[next];
    }
    return last;
}

/* Each rank must hold its share of the longest recording. */
static lr_status fits(const shaping *s, int groups, bool *yes, lr_error *err) {
    double longest = 0;
    for (size_t i = 0; i < s->count; i++) longest = fmax(longest, s->all[i].guess.tokens);
    return lr_guess_fits(s->model, &s->options->encode, longest, s->ranks->everybody->size / groups,
                         lr_world_node_size(s->ranks->world), yes, err);
}

/* Rank 0: shares of 1, 2, 3, ... ranks a group, and halves of all. */
static lr_status choose(const shaping *s, int *groups, lr_error *err) {
    lr_status st = LR_OK;
    int size = s->ranks->everybody->size;
    double *busy = NULL;
    *groups = 1;
    LR_TRY(LR_NEW(&busy, (size_t)size, "the time of groups", err));
    double best = makespan(s, 1, busy);
    for (int n = 2; n <= size && (size_t)n <= s->count && !cli_cancelled(); n++) {
        bool whole = size / n <= 8 && size / n != size / (n + 1), power = (n & (n - 1)) == 0, yes = false;
        if (!whole && !power && n > 16) continue;
        double time = makespan(s, n, busy);
        if (time >= WORTH_IT * best) continue;
        LR_TRY(fits(s, n, &yes, err));
        if (!yes) continue;
        best = time;
        *groups = n;
    }
done:
    lr_free(busy);
    return st;
}

static lr_status agree_on_groups(shaping *s, lr_error *err) {
    uint32_t groups = 1;
    int chosen = 1;
    lr_comm *comm = s->ranks->everybody;
    lr_status st = comm->rank == 0 ? choose(s, &chosen, err) : LR_OK;
    if (st != LR_OK) return st;
    groups = (uint32_t)chosen;
    st = lr_comm_broadcast(comm, 0, &groups, sizeof groups, err);
    s->options->groups = (int)groups;
    return st;
}

lr_status cli_shape(cli_ranks *ranks, lr_model *model, cli_encode_options *options,
                    const cli_recording *recordings, size_t count, size_t **order, lr_error *err) {
    lr_status st = LR_OK;
    shaping s = {ranks, model, options, recordings, count, NULL};
    bool alone = !ranks->everybody || ranks->everybody->size == 1 || count == 1;
    if (options->groups == 0 && alone) options->groups = 1;
    LR_TRY(LR_NEW(order, count, "the order of recordings", err));
    for (size_t i = 0; i < count; i++) (*order)[i] = i;
    if (options->groups != 1) LR_TRY(weigh(&s, err));
    if (options->groups == 0) LR_TRY(agree_on_groups(&s, err));
    LR_TRY(cli_ranks_group(ranks, options, err));
    for (size_t i = 0; options->groups > 1 && i < count; i++) (*order)[i] = s.all[i].index;
done:
    /* Where one rank fails, the others wait for it; wrong usage all see alike. */
    if (st != LR_OK && st != LR_E_USAGE && ranks->everybody) lr_comm_abort(ranks->everybody, err->text);
    lr_free(s.all);
    return st;
}
