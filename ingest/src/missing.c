/* Pictures that were lost without a trace in the container: the packets of a transport stream are counted by 4 bits,
 * those of a program stream not at all. A film of a steady rate has a hole in its times there, and one in the numbers
 * that its pictures carry: the order count of H.264 and H.265, the temporal reference of MPEG-1 and -2. A recorder
 * that paused leaves only the first. */
#include <stdlib.h>

#include "recording.h"

/* No codec reorders by more than 16 pictures. */
enum { NEAR = 24, WINDOW = 2 * NEAR };

typedef struct film {
    const lri_video_index *video;
    uint32_t *pictures; /* [count] ordinals: of two fields the first */
    size_t count;
    int64_t step; /* of decoding, usually */
} film;

typedef struct numbered {
    int64_t pts;
    int64_t number;
    size_t at; /* in film.pictures */
} numbered;

static const lri_packet *picture(const film *f, size_t i)
{
    return &f->video->packets[f->pictures[i]];
}

/* Between the stamps of decoding of a picture and the one before; 0 where that is not known. */
static int64_t step_to(const film *f, size_t i)
{
    int64_t now = picture(f, i)->seek, last = picture(f, i - 1)->seek, step;
    if (now == AV_NOPTS_VALUE || last == AV_NOPTS_VALUE || __builtin_sub_overflow(now, last, &step)) return 0;
    return step > 0 && step < INT64_MAX / 8 ? step : 0;
}

/* Beyond what a picture of three fields takes where the others have two. */
static bool is_hole(const film *f, int64_t step)
{
    return step > f->step + f->step / 2 + f->step / 4;
}

/* The step that most pictures have (Boyer and Moore, MJRTY 1981), but for rounding. */
static int64_t usual_step(const film *f)
{
    int64_t usual = 0;
    size_t votes = 0;
    for (size_t i = 1; i < f->count; i++) {
        int64_t step = step_to(f, i), off = step > usual ? step - usual : usual - step;
        if (step == 0) continue;
        if (votes == 0) usual = step;
        votes = votes == 0 || off <= usual / 8 ? votes + 1 : votes - 1;
    }
    return usual;
}

static bool is_steady(const film *f)
{
    size_t others = 0;
    for (size_t i = 1; i < f->count; i++) {
        int64_t step = step_to(f, i);
        others += step < f->step / 2 || is_hole(f, step);
    }
    return f->step > 0 && others * 10 <= f->count;
}

static bool is_mpeg(const lri_video_index *video)
{
    return video->codec == AV_CODEC_ID_MPEG1VIDEO || video->codec == AV_CODEC_ID_MPEG2VIDEO;
}

/* Whether the numbers begin anew. */
static bool restarts(const film *f, size_t i)
{
    if (is_mpeg(f->video)) return (f->video->numbers[f->pictures[i]] & LRI_RESTARTS) != 0;
    return (picture(f, i)->flags & LRI_CLOSED) != 0;
}

static int64_t number_of(const film *f, size_t i)
{
    uint32_t ordinal = f->pictures[i];
    return is_mpeg(f->video) ? f->video->numbers[ordinal] & ~LRI_RESTARTS : f->video->poc[ordinal];
}

static int by_pts(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
    return (x->pts > y->pts) - (x->pts < y->pts);
}

/* The pictures around k as they are shown, those that are numbered together with it; all where it begins a group of
 * MPEG-1 or -2, which goes on at the rate of the one before. */
static size_t gather(const film *f, size_t k, numbered list[2 * WINDOW])
{
    size_t first = k, end = k + 1, n = 0;
    bool all = restarts(f, k);
    while (first > 0 && k - first < WINDOW && (first == k || all || !restarts(f, first))) first--;
    while (end < f->count && end - k < WINDOW && (all || !restarts(f, end))) end++;
    for (size_t i = first; i < end && n < 2 * WINDOW; i++)
        list[n++] = (numbered){picture(f, i)->pts, number_of(f, i), i};
    qsort(list, n, sizeof *list, by_pts);
    return n;
}

/* The least distance between the numbers of two that are shown one after the other. */
static int64_t unit_of(const numbered *list, size_t n)
{
    int64_t unit = INT64_MAX;
    for (size_t i = 1; i < n; i++) {
        int64_t apart = list[i].number - list[i - 1].number;
        if (apart > 0 && apart < unit) unit = apart;
    }
    return unit;
}

/* Whether pictures are missing in the times between two that are numbered together, and their numbers say so. */
static bool is_missing(const film *f, const numbered *a, const numbered *b, int64_t unit)
{
    const lri_cycle *cycle = &f->video->cycle;
    int64_t count = (b->pts - a->pts + f->step / 2) / f->step - 1;
    if (b->number - a->number != unit) return true;
    /* So many that the numbers came round. */
    return cycle->pictures > 0 && count >= cycle->least && count % cycle->pictures == 0;
}

static lr_status note_hole(lri_video_index *video, int64_t from, int64_t to, lr_error *err)
{
    lr_status st = LR_GROW(&video->holes, &video->holes_capacity, video->n_holes + 1, "the index of the pictures", err);
    if (st != LR_OK) return st;
    video->holes[video->n_holes][0] = from;
    video->holes[video->n_holes++][1] = to;
    return LR_OK;
}

/* Whether what the times of decoding say of a hole before picture k is true; what is missing is noted. */
static lr_status confirm(lri_video_index *video, const film *f, size_t k, bool *lost, lr_error *err)
{
    lr_status st = LR_OK;
    numbered list[2 * WINDOW];
    *lost = false;
    /* What follows a closed entry refers to nothing before it: a pause, for all that is known. */
    if (restarts(f, k) && !is_mpeg(video)) return LR_OK;
    size_t n = gather(f, k, list);
    int64_t unit = unit_of(list, n);
    for (size_t i = 1; i < n; i++) {
        const numbered *a = &list[i - 1], *b = &list[i];
        bool inside = (a->at < b->at ? a->at : b->at) + NEAR >= k && (a->at > b->at ? a->at : b->at) < k + NEAR;
        int64_t apart;
        if (!inside || __builtin_sub_overflow(b->pts, a->pts, &apart) || apart > INT64_MAX / 8 || !is_hole(f, apart))
            continue;
        if (!restarts(f, k) && !is_missing(f, a, b, unit)) continue;
        *lost = true;
        LR_TRY(note_hole(video, a->pts + f->step, b->pts, err));
    }
done:
    return st;
}

/* Bytes are missing behind a packet. */
static void mark(lri_video_index *video, size_t ordinal)
{
    if (!video->marks_late) video->packets[ordinal].flags |= LRI_CORRUPT;
    else if (ordinal > 0) video->packets[ordinal - 1].flags |= LRI_CORRUPT;
}

lr_status lri_video_find_missing(lri_video_index *video, lr_error *err)
{
    lr_status st = LR_OK;
    film f = {.video = video};
    bool numbered_so = is_mpeg(video) ? video->numbers != NULL : video->poc != NULL;
    if (!video->loses_silently || !numbered_so) return LR_OK;
    LR_TRY(LR_NEW(&f.pictures, video->n_packets, "the index of the pictures", err));
    for (size_t i = 0; i < video->n_packets; i++)
        if (video->packets[i].flags & LRI_SHOWN) f.pictures[f.count++] = (uint32_t)i;
    f.step = usual_step(&f);
    if (!is_steady(&f)) goto done;
    for (size_t k = 1; k < f.count; k++) {
        bool lost = is_hole(&f, step_to(&f, k));
        if (lost) LR_TRY(confirm(video, &f, k, &lost, err));
        if (!lost) continue;
        /* The last one before it may lack its end, and have that of another. */
        size_t last = f.pictures[k] - 1;
        mark(video, last);
        video->packets[last].flags |= LRI_TORN;
    }
done:
    lr_free(f.pictures);
    return st;
}
