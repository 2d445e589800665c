#include "team.h"

#include <string.h>

#include "convert.h"
#include "crew.h"

/* Memory for a picture, shared by the grid points that show it. */
typedef struct canvas {
    uint8_t *rgb;
    size_t users;
} canvas;

/* A grid point of the window. */
typedef struct slot {
    bool full;
    lr_frame frame;
    canvas *picture;
    lr_damage *damage; /* met on the way to it */
    size_t n_damage;
    lr_status st;
    lr_error err;
} slot;

typedef struct worker {
    lri_team *team;
    lr_frame_reader *reader; /* opened when it is first at work */
    canvas *picture;         /* that its reader holds */
    bool busy, failed;
    bool aimed;              /* its reader is at its chunk */
    bool finishing;          /* all pictures of the chunk are given; its damage is still to be found */
    int64_t next, end;       /* of its chunk */
    /* What its step came to. */
    bool got;
    lr_status st;
    lr_error err;
    lr_frame frame;
    lr_damage *damage;
    size_t n_damage;
} worker;

struct lri_team {
    const lr_recording *recording;
    lri_plan plan;
    lri_crew_client client;
    bool joined;
    size_t picture_bytes;
    worker *workers;   /* [plan.way.workers] */
    slot *slots;       /* [plan.way.window]; grid point k is in slot k % window */
    int64_t given;     /* the next grid point to give out */
    size_t next_chunk; /* to begin */
    canvas **canvases;
    size_t n_canvases, canvases_capacity;
    canvas *shown;     /* the picture that the consumer has */
    slot last;         /* what is known behind the last picture: damage, or an error */
    size_t last_capacity;
};

/* ------------------------------------------------------------------ pictures */

static void release(canvas **picture)
{
    if (*picture) (*picture)->users--;
    *picture = NULL;
}

static lr_status add_canvas(lri_team *team, canvas **out, lr_error *err)
{
    lr_status st = LR_OK;
    canvas *made = NULL;
    LR_TRY(LR_GROW(&team->canvases, &team->canvases_capacity, team->n_canvases + 1, "the pictures that wait", err));
    LR_TRY(LR_NEW(&made, 1, "a picture that waits", err));
    LR_TRY(lr_new_array((void **)&made->rgb, team->picture_bytes, 1, "a picture that waits", err));
    team->canvases[team->n_canvases++] = made;
    *out = made;
    made = NULL;
done:
    lr_free(made);
    return st;
}

static lr_status fresh(void *arg, uint8_t **rgb, lr_error *err)
{
    worker *w = arg;
    lri_team *team = w->team;
    lr_status st = LR_OK;
    canvas *found = NULL;
    lri_crew_lock();
    release(&w->picture);
    for (size_t i = 0; i < team->n_canvases && !found; i++)
        if (team->canvases[i]->users == 0) found = team->canvases[i];
    if (!found) st = add_canvas(team, &found, err);
    if (st == LR_OK) {
        found->users = 1;
        w->picture = found;
        *rgb = found->rgb;
    }
    lri_crew_unlock();
    return st;
}

/* ------------------------------------------------------------------ steps */

static bool is_in_window(const lri_team *team, int64_t k)
{
    return k < team->given + (int64_t)team->plan.way.window;
}

static bool can_go_on(const lri_team *team, const worker *w)
{
    if (w->busy || w->failed) return false;
    return w->finishing || (w->next < w->end && is_in_window(team, w->next));
}

/* What the consumer needs first. A new chunk goes to a worker without one. */
static bool pick(void *arg, size_t *work)
{
    lri_team *team = arg;
    size_t n = (size_t)team->plan.way.workers, best = n, idle = n;
    for (size_t i = 0; i < n; i++) {
        const worker *w = &team->workers[i];
        if (can_go_on(team, w) && (best == n || w->next < team->workers[best].next)) best = i;
        if (!w->busy && !w->failed && !w->finishing && w->next == w->end && idle == n) idle = i;
    }
    const int64_t *cuts = team->plan.cuts;
    if (best == n && idle < n && team->next_chunk < team->plan.n_chunks && is_in_window(team, cuts[team->next_chunk])) {
        best = idle;
        team->workers[best].aimed = false;
        team->workers[best].next = cuts[team->next_chunk];
        team->workers[best].end = cuts[++team->next_chunk];
    }
    if (best == n) return false;
    team->workers[best].busy = true;
    *work = best;
    return true;
}

static void step(void *arg, size_t work)
{
    lri_team *team = arg;
    worker *w = &team->workers[work];
    lr_status st = LR_OK;
    lr_error *err = &w->err;
    w->got = false;
    if (!w->reader)
        LR_TRY(lri_reader_open(&w->reader, team->recording, &team->plan, team->plan.way.threads, fresh, w, err));
    if (!w->aimed) lri_reader_aim(w->reader, w->next, w->end);
    w->aimed = true;
    LR_TRY(lri_reader_next(w->reader, &w->frame, &w->got, err));
done:
    w->damage = w->reader ? lri_reader_take_damage(w->reader, &w->n_damage) : NULL;
    w->st = st;
}

static lr_status add_damage(const lr_damage *from, size_t n, lr_damage **list, size_t *count, size_t *capacity,
                            lr_error *err)
{
    lr_status st = LR_OK;
    for (size_t i = 0; i < n && st == LR_OK; i++)
        st = lri_damage_add(list, count, capacity, from[i].stream, from[i].start, from[i].end, from[i].what, err);
    return st;
}

static void note_failure(slot *to, lr_status st, const lr_error *err)
{
    if (st == LR_OK || to->st != LR_OK) return;
    to->st = st;
    to->err = *err;
}

/* What a chunk's end brought: nothing but damage. */
static void settle_end(lri_team *team, worker *w)
{
    lr_error err = {0};
    slot *last = &team->last;
    note_failure(last, add_damage(w->damage, w->n_damage, &last->damage, &last->n_damage, &team->last_capacity, &err),
                 &err);
    note_failure(last, w->st, &w->err);
    lr_free(w->damage);
    w->finishing = false;
}

static void settle_picture(lri_team *team, worker *w)
{
    slot *to = &team->slots[w->next % (int64_t)team->plan.way.window];
    to->damage = w->damage;
    to->n_damage = w->n_damage;
    note_failure(to, w->st, &w->err);
    to->full = true;
    if (w->st != LR_OK) return;
    to->frame = w->frame;
    to->picture = w->picture;
    to->picture->users++;
    w->next++;
    w->finishing = w->next == w->end;
}

static void settle(void *arg, size_t work)
{
    lri_team *team = arg;
    worker *w = &team->workers[work];
    w->busy = false;
    w->failed = w->st != LR_OK;
    if (w->finishing) settle_end(team, w);
    else settle_picture(team, w);
    w->damage = NULL;
    w->n_damage = 0;
}

/* ------------------------------------------------------------------ the consumer */

static bool is_at_work(const lri_team *team)
{
    for (int i = 0; i < team->plan.way.workers; i++) {
        const worker *w = &team->workers[i];
        if (w->busy || can_go_on(team, w)) return true;
    }
    return false;
}

/* Moves what is in a slot to *out, when it is there. */
static void await(lri_team *team, int64_t k, slot *out)
{
    bool end = k == team->plan.cuts[team->plan.n_chunks];
    slot *from = end ? &team->last : &team->slots[k % (int64_t)team->plan.way.window];
    lri_crew_lock();
    release(&team->shown);
    while (end ? is_at_work(team) : !from->full) lri_crew_wait();
    *out = *from;
    from->damage = NULL;
    from->n_damage = 0;
    from->picture = NULL;
    if (end) team->last_capacity = 0;
    if (!end && out->st == LR_OK) {
        from->full = false;
        team->given++;
        team->shown = out->picture;
    }
    lri_crew_wake();
    lri_crew_unlock();
}

lr_status lri_team_next(lri_team *team, lr_frame *frame, bool *got, lr_damage **damage, size_t *n_damage,
                        size_t *damage_capacity, lr_error *err)
{
    slot from = {0};
    await(team, team->given, &from);
    *got = false;
    lr_status st = add_damage(from.damage, from.n_damage, damage, n_damage, damage_capacity, err);
    lr_free(from.damage);
    if (st != LR_OK) return st;
    if (from.st != LR_OK) return lr_fail(err, from.st, "%s", from.err.text);
    if (!from.picture) return LR_OK;
    *frame = from.frame;
    *got = true;
    return LR_OK;
}

void lri_team_work(lri_team *team, lri_work *work)
{
    memset(work, 0, sizeof *work);
    lri_crew_lock();
    for (int i = 0; i < team->plan.way.workers; i++) {
        const worker *w = &team->workers[i];
        /* Of a reader at work the figures of its last step are not at hand. */
        lri_work one = {0};
        if (w->reader && !w->busy) lri_reader_work(w->reader, &one);
        lri_work_add(work, &one);
    }
    lri_crew_unlock();
}

lr_status lri_team_open(lri_team **out, const lr_recording *recording, lri_plan *plan, lr_error *err)
{
    lr_status st = LR_OK;
    lri_team *team = NULL;
    const lr_video_info *info = &recording->timeline.video;
    *out = NULL;
    LR_TRY(LR_NEW(&team, 1, "the readers of pictures", err));
    team->recording = recording;
    team->plan = *plan;
    memset(plan, 0, sizeof *plan);
    const lri_way *way = &team->plan.way;
    if (!lr_mul_size((size_t)info->height, lri_rgb_stride(info->width), &team->picture_bytes))
        LR_FAIL(LR_E_NOMEM, "%s: a picture too large", recording->path);
    LR_TRY(LR_NEW(&team->workers, (size_t)way->workers, "the readers of pictures", err));
    LR_TRY(LR_NEW(&team->slots, way->window, "the readers of pictures", err));
    for (int i = 0; i < way->workers; i++) team->workers[i].team = team;
    team->given = team->plan.cuts[0];
    team->client = (lri_crew_client){.pick = pick, .step = step, .settle = settle, .arg = team,
                                     .threads = recording->options.threads, .weight = way->threads};
    LR_TRY(lri_crew_join(&team->client, err));
    team->joined = true;
    *out = team;
    team = NULL;
done:
    lri_plan_free(plan);
    lri_team_close(team);
    return st;
}

void lri_team_close(lri_team *team)
{
    if (!team) return;
    if (team->joined) lri_crew_leave(&team->client);
    for (int i = 0; team->workers && i < team->plan.way.workers; i++) {
        lri_reader_close(team->workers[i].reader);
        lr_free(team->workers[i].damage);
    }
    for (size_t i = 0; team->slots && i < team->plan.way.window; i++) lr_free(team->slots[i].damage);
    for (size_t i = 0; i < team->n_canvases; i++) {
        lr_free(team->canvases[i]->rgb);
        lr_free(team->canvases[i]);
    }
    lr_free(team->canvases);
    lr_free(team->last.damage);
    lr_free(team->workers);
    lr_free(team->slots);
    lri_plan_free(&team->plan);
    lr_free(team);
}
