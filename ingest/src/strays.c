/* Matroska: the blocks of a cluster count from the time that it states. Where that is damaged, its pictures would be
 * shown in the place of others, and its sound heard there. They are found by their stamps, which step back, there or
 * behind: of the stretches without steps those are kept that follow one another and leave the most packets in their
 * places, with those between them that just fill what is left. */
#include "recording.h"

/* More is no film with some damage. */
#define MOST_STRETCHES 4096

typedef struct stretch {
    size_t first, end;  /* packets */
    int64_t low, high;  /* of their pts */
    double begin, last; /* where its first and last packet would be if all followed one another, seconds */
    size_t kept;        /* packets in their places with the best choice that ends with this one */
    size_t before;      /* the stretch before it there; SIZE_MAX: none */
    bool chosen;
} stretch;

/* The stamps of a stream's packets in the order of the file. */
typedef struct stamps {
    int64_t (*pts)(const void *index, size_t i);
    double (*seconds)(const void *index, size_t i);
    const void *index;
    size_t count;
    AVRational time_base;
} stamps;

static bool steps_back(const stamps *all, int64_t slack)
{
    int64_t high = INT64_MIN;
    for (size_t i = 0; i < all->count; i++) {
        int64_t pts = all->pts(all->index, i);
        if (pts == AV_NOPTS_VALUE) continue;
        if (high != INT64_MIN && (lri_wide)pts < (lri_wide)high - slack) return true;
        if (pts > high) high = pts;
    }
    return false;
}

static lr_status find_stretches(const stamps *all, int64_t slack, stretch **list, size_t *count, lr_error *err)
{
    lr_status st = LR_OK;
    size_t capacity = 0;
    double next = 0, at;
    for (size_t i = 0; i < all->count && *count < MOST_STRETCHES; i++) {
        at = next;
        next += all->seconds(all->index, i);
        int64_t pts = all->pts(all->index, i);
        stretch *last = *count > 0 ? &(*list)[*count - 1] : NULL;
        if (pts == AV_NOPTS_VALUE) {
            if (last) last->end = i + 1;
            continue;
        }
        bool goes_on = last && (lri_wide)pts >= (lri_wide)last->high - slack &&
                       (lri_wide)pts <= (lri_wide)last->high + slack;
        if (!goes_on) {
            LR_TRY(LR_GROW(list, &capacity, *count + 1, "the index", err));
            (*list)[(*count)++] = (stretch){.first = i, .end = i + 1, .low = pts, .high = pts, .before = SIZE_MAX,
                                            .begin = at, .last = at};
            continue;
        }
        last->end = i + 1;
        last->last = at;
        if (pts < last->low) last->low = pts;
        if (pts > last->high) last->high = pts;
    }
done:
    return st;
}

/* The packets between two stretches, where they just fill what lies between them in time. */
static size_t fitting(const stamps *all, const stretch *before, const stretch *after, int64_t slack)
{
    double tick = av_q2d(all->time_base), apart = ((double)after->low - (double)before->high) * tick;
    double over = apart - (after->begin - before->last);
    return over < (double)slack * tick && over > -(double)slack * tick ? after->first - before->end : 0;
}

static void choose(const stamps *all, stretch *list, size_t count, int64_t slack)
{
    size_t best = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if ((lri_wide)list[i].low < (lri_wide)list[j].high - slack) continue;
            size_t kept = list[j].kept + fitting(all, &list[j], &list[i], slack);
            if (kept <= list[i].kept) continue;
            list[i].kept = kept;
            list[i].before = j;
        }
        list[i].kept += list[i].end - list[i].first;
        if (list[i].kept > list[best].kept) best = i;
    }
    for (size_t i = best; i != SIZE_MAX; i = list[i].before) list[i].chosen = true;
}

/* *count 0: the stamps are in order, or beyond help. */
static lr_status find_strays(const stamps *all, int64_t slack, stretch **list, size_t *count, lr_error *err)
{
    if (!steps_back(all, slack)) return LR_OK;
    lr_status st = find_stretches(all, slack, list, count, err);
    if (*count == MOST_STRETCHES) *count = 0;
    if (st == LR_OK && *count > 0) choose(all, *list, *count, slack);
    return st;
}

/* ------------------------------------------------------------------ pictures */

static int64_t pts_of_picture(const void *index, size_t i)
{
    return ((const lri_video_index *)index)->packets[i].pts;
}

static double seconds_of_picture(const void *index, size_t i)
{
    const lri_video_index *video = index;
    (void)i;
    return (double)video->typical * av_q2d(video->time_base);
}

static bool all_are_stamped(const lri_video_index *video)
{
    for (size_t i = 0; i < video->n_packets; i++)
        if (video->packets[i].pts == AV_NOPTS_VALUE) return false;
    return true;
}

lr_status lri_video_drop_strays(lri_video_index *video, lr_error *err)
{
    lr_status st = LR_OK;
    stretch *list = NULL;
    size_t count = 0;
    int64_t high = INT64_MIN, slack = video->time_base.den / video->time_base.num; /* a second */
    const stamps all = {pts_of_picture, seconds_of_picture, video, video->n_packets, video->time_base};
    if (!all_are_stamped(video)) return LR_OK;
    LR_TRY(find_strays(&all, slack, &list, &count, err));
    if (count == 0) goto done;
    for (size_t i = 0; i < count; i++) {
        if (list[i].chosen) {
            high = list[i].high;
            continue;
        }
        if (list[i].first > 0) video->packets[list[i].first - 1].flags |= LRI_CORRUPT;
        for (size_t k = list[i].first; k < list[i].end; k++) {
            video->packets[k].flags &= (uint16_t)~LRI_SHOWN;
            /* Not shown, they are decoded all the same, in the order of the file. */
            video->packets[k].pts = high != INT64_MIN ? high : list[i].low;
        }
    }
    video->last_end = INT64_MIN; /* found from what is left */
done:
    lr_free(list);
    return st;
}

/* ------------------------------------------------------------------ sound */

static int64_t pts_of_sound(const void *index, size_t i)
{
    return lri_numbers_get(&((const lri_audio_index *)index)->pts, i);
}

static double seconds_of_sound(const void *index, size_t i)
{
    const lri_audio_index *audio = index;
    return (double)lri_numbers_get(&audio->kept, i) / audio->rate;
}

static size_t count_strays(const stretch *list, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (!list[i].chosen) n += list[i].end - list[i].first;
    return n;
}

/* The stamps without those of the stretches that are not chosen. */
static lr_status forget_stamps(lri_audio_index *audio, const stretch *list, size_t count, lr_error *err)
{
    lr_status st = LR_OK;
    lri_numbers pts = {0};
    size_t s = 0;
    for (size_t i = 0; i < audio->n_packets; i++) {
        while (s + 1 < count && i >= list[s + 1].first) s++;
        bool stray = i >= list[s].first && i < list[s].end && !list[s].chosen;
        LR_TRY(lri_numbers_add(&pts, stray ? AV_NOPTS_VALUE : pts_of_sound(audio, i), err));
    }
    LR_TRY(lri_numbers_end(&pts, err));
    lri_numbers_free(&audio->pts);
    audio->pts = pts;
    pts = (lri_numbers){0};
    for (size_t i = 0; i < count; i++) audio->n_corrections += !list[i].chosen;
done:
    lri_numbers_free(&pts);
    return st;
}

/* Without its stamps such sound follows what comes before it in the file. A tenth of a second: packets of sound are
 * in order. */
lr_status lri_audio_drop_strays(lri_audio_index *audio, lr_error *err)
{
    lr_status st = LR_OK;
    stretch *list = NULL;
    size_t count = 0;
    const stamps all = {pts_of_sound, seconds_of_sound, audio, audio->n_packets, audio->time_base};
    LR_TRY(find_strays(&all, audio->time_base.den / audio->time_base.num / 10, &list, &count, err));
    /* With many of them it is no damaged cluster but another clock. */
    if (count > 0 && count_strays(list, count) * 4 < audio->n_packets)
        LR_TRY(forget_stamps(audio, list, count, err));
done:
    lr_free(list);
    return st;
}
