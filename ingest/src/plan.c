#include "plan.h"

#include <string.h>

#include "convert.h"
#include "decode.h"
#include "hardware.h"

/* What pictures that wait to be taken may hold: enough for each thread to be some pictures ahead. */
#define LEAST_WAITING ((size_t)128 << 20)
#define WAITING_OF_A_THREAD ((size_t)64 << 20)
#define MOST_WAITING ((size_t)512 << 20)
#define MOST_WINDOW 128
/* What the decoders' own pictures may hold. A decoder keeps up to 16, one that it works on a thread, and the queue. */
#define MOST_DECODED ((size_t)1 << 30)
#define PICTURES_OF_A_DECODER 18
/* Of a thread more in a decoder this much is work; the rest is waiting for the picture before. */
#define FRAME_THREAD_SHARE 0.9
/* Chunks a worker, so that all end at about the same time. */
#define CHUNKS_OF_A_WORKER 8
/* Of a chunk of several pieces: what waits must not grow with the recording. */
#define MOST_POINTS 8

/* Grid points in a row whose decoding begins at one entry. */
typedef struct piece {
    int64_t first;
    size_t last_ordinal; /* the last of its pictures in the file */
    double cost;
} piece;

typedef struct pieces {
    piece *list;
    size_t count, capacity;
    int64_t end;
    double cost;
    double mean_points; /* grid points of the piece that a point lies in, on the average */
} pieces;

/* ------------------------------------------------------------------ which packets */

static void keep_shown(lri_plan *plan, const lri_video_index *video, size_t shown)
{
    size_t ordinal = lri_shown(video, shown);
    plan->keep[ordinal / 8] = (uint8_t)(plan->keep[ordinal / 8] | 1u << ordinal % 8);
}

/* Past the last grid point that shows the same picture as point k. A picture may stand for billions of points. */
static int64_t past_shown(const lr_recording *recording, int64_t k, size_t shown)
{
    int64_t n = recording->timeline.video.n_frames, step = 1;
    for (; step < n - k && lri_grid_shown(recording, k + step) == shown; step *= 2) k += step;
    for (; step > 0; step /= 2)
        if (step < n - k && lri_grid_shown(recording, k + step) == shown) k += step;
    return k + 1;
}

/* Of all grid points, also for a reader of a few: what a codec makes of a damaged packet (a wrong number of a
 * frame, say, of which it tells nobody) may change the pictures behind it. So all readers have to feed it, or
 * none. */
static lr_status mark_kept(lri_plan *plan, const lr_recording *recording, lr_error *err)
{
    const lri_video_index *video = &recording->video;
    lr_status st = LR_NEW(&plan->keep, video->n_packets / 8 + 1, "the plan of decoding", err);
    if (st != LR_OK) return st;
    /* Fields are joined with the help of the pictures before and after. */
    bool neighbours = recording->timeline.video.interlaced;
    for (int64_t k = 0, next; k < recording->timeline.video.n_frames; k = next) {
        size_t shown = lri_grid_shown(recording, k);
        next = past_shown(recording, k, shown);
        keep_shown(plan, video, shown);
        if (neighbours && shown > 0) keep_shown(plan, video, shown - 1);
        if (neighbours && shown + 1 < video->n_shown) keep_shown(plan, video, shown + 1);
    }
    return LR_OK;
}

/* ------------------------------------------------------------------ cost */

/* before[i]: packets before i that are decoded. */
static lr_status count_decoded(const lri_plan *plan, const lri_video_index *video, uint32_t **before, lr_error *err)
{
    lr_status st = LR_NEW(before, video->n_packets + 1, "the plan of decoding", err);
    if (st != LR_OK) return st;
    for (size_t i = 0; i < video->n_packets; i++)
        (*before)[i + 1] = (*before)[i] + !lri_packet_passes(video, plan->keep, i);
    return LR_OK;
}

static lr_status find_pieces(const lri_plan *plan, const lr_recording *recording, int64_t first, int64_t end,
                             pieces *all, lr_error *err)
{
    lr_status st = LR_OK;
    const lri_video_index *video = &recording->video;
    uint32_t *before = NULL;
    double squares = 0;
    size_t entry = SIZE_MAX;
    LR_TRY(count_decoded(plan, video, &before, err));
    all->end = end;
    for (int64_t k = first; k < end; k++) {
        size_t ordinal = lri_shown(video, lri_grid_shown(recording, k));
        if (lri_entry_of(video, ordinal) != entry) {
            LR_TRY(LR_GROW(&all->list, &all->capacity, all->count + 1, "the plan of decoding", err));
            entry = lri_entry_of(video, ordinal);
            all->list[all->count++] = (piece){.first = k, .last_ordinal = ordinal};
        }
        piece *last = &all->list[all->count - 1];
        if (ordinal > last->last_ordinal) last->last_ordinal = ordinal;
    }
    for (size_t i = 0; i < all->count; i++) {
        piece *p = &all->list[i];
        double points = (double)((i + 1 < all->count ? all->list[i + 1].first : end) - p->first);
        p->cost = before[p->last_ordinal + 1] - before[lri_entry_of(video, p->last_ordinal)];
        if (p->cost < 1) p->cost = 1;
        all->cost += p->cost;
        squares += points * points;
    }
    all->mean_points = squares / (double)(end - first);
done:
    lr_free(before);
    return st;
}

/* In times of one picture: each beginning fills a decoder's threads anew. */
static double time_of(const pieces *all, int workers, int threads)
{
    double sum = 0, most = 0, speed = 1 + (threads - 1) * FRAME_THREAD_SHARE;
    for (size_t i = 0; i < all->count; i++) {
        double time = (all->list[i].cost + threads - 1) / speed;
        sum += time;
        if (time > most) most = time;
    }
    return sum / workers > most ? sum / workers : most;
}

static size_t most_waiting(const lr_recording *recording)
{
    size_t bytes = (size_t)recording->options.threads * WAITING_OF_A_THREAD;
    if (bytes < LEAST_WAITING) bytes = LEAST_WAITING;
    if (bytes > MOST_WAITING) bytes = MOST_WAITING;
    const lr_video_info *info = &recording->timeline.video;
    size_t count = bytes / ((size_t)info->height * lri_rgb_stride(info->width));
    return count < 2 ? 2 : count > MOST_WINDOW ? MOST_WINDOW : count;
}

static bool fits(const lr_recording *recording, const pieces *all, int workers, int threads)
{
    const lr_video_info *info = &recording->timeline.video;
    if (workers == 1) return true;
    if ((size_t)workers > all->count || workers * all->mean_points > (double)most_waiting(recording)) return false;
    double picture = 2.0 * info->coded_width * info->coded_height;
    return workers * (double)(PICTURES_OF_A_DECODER + threads) * picture <= (double)MOST_DECODED;
}

static void choose(lri_way *way, const lr_recording *recording, const pieces *all)
{
    int most = recording->options.threads < 64 ? recording->options.threads : 64;
    double best = 0;
    /* Devices have few decoders, and threads of their own. */
    if (lri_hardware_works(recording) && way->workers == 0) way->workers = 1;
    lri_way chosen = {0};
    for (int workers = 1; workers <= most; workers++) {
        int threads = way->threads > 0 ? way->threads : most / workers;
        if (!fits(recording, all, workers, threads)) continue;
        double time = time_of(all, workers, threads);
        if (chosen.workers > 0 && time >= best) continue;
        best = time;
        chosen.workers = workers;
        chosen.threads = threads;
    }
    if (way->workers == 0) way->workers = chosen.workers;
    if (way->threads == 0) {
        int each = most / way->workers;
        way->threads = way->workers == chosen.workers ? chosen.threads : each < 1 ? 1 : each;
    }
}

/* ------------------------------------------------------------------ chunks */

/* Whole pieces, until a chunk has its share of the work. What the workers are at must fit in the window. */
static lr_status cut(lri_plan *plan, const pieces *all, size_t most, lr_error *err)
{
    lr_status st = LR_NEW(&plan->cuts, all->count + 1, "the plan of decoding", err);
    if (st != LR_OK) return st;
    lri_way *way = &plan->way;
    double share = all->cost / (way->workers * CHUNKS_OF_A_WORKER), cost = 0;
    int64_t points = (int64_t)most / (way->workers + 1), longest = 1;
    if (points > MOST_POINTS) points = MOST_POINTS;
    for (size_t i = 0; i < all->count; i++) {
        int64_t next = i + 1 < all->count ? all->list[i + 1].first : all->end;
        int64_t so_far = all->list[i].first - plan->cuts[plan->n_chunks - (plan->n_chunks > 0)];
        bool full = way->chunk > 0 ? so_far >= way->chunk
                                   : cost >= share || next - all->list[i].first + so_far > points;
        if (i == 0 || full) {
            plan->cuts[plan->n_chunks++] = all->list[i].first;
            cost = 0;
        }
        cost += all->list[i].cost;
        int64_t length = next - plan->cuts[plan->n_chunks - 1];
        if (length > longest) longest = length;
    }
    plan->cuts[plan->n_chunks] = all->end;
    if (way->chunk == 0) way->chunk = longest;
    /* More than two chunks a worker nobody needs. */
    double use = 2.0 * way->workers * (double)longest + 1;
    if (way->window == 0) way->window = use < (double)most ? (size_t)use : most;
    if (way->window < 2) way->window = 2;
    return LR_OK;
}

lr_status lri_plan_make(lri_plan *plan, const lr_recording *recording, int64_t first, int64_t end,
                        const lri_way *wish, lr_error *err)
{
    lr_status st = LR_OK;
    pieces all = {0};
    memset(plan, 0, sizeof *plan);
    if (wish) plan->way = *wish;
    if (recording->options.every_picture) plan->way.feeds_all = true;
    if (!plan->way.feeds_all) LR_TRY(mark_kept(plan, recording, err));
    LR_TRY(find_pieces(plan, recording, first, end, &all, err));
    choose(&plan->way, recording, &all);
    LR_TRY(cut(plan, &all, most_waiting(recording), err));
    plan->cost = all.cost;
done:
    lr_free(all.list);
    if (st != LR_OK) lri_plan_free(plan);
    return st;
}

void lri_plan_free(lri_plan *plan)
{
    lr_free(plan->keep);
    lr_free(plan->cuts);
    plan->keep = NULL;
    plan->cuts = NULL;
}
