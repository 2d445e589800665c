/* Matroska: the blocks of a cluster count from the time that it states. Where that is damaged, its pictures would be
 * shown in the place of others. They are found by their stamps, which step back, there or behind: of the stretches
 * without steps those are kept that follow one another and hold the most pictures. */
#include "recording.h"

/* More is no film with some damage. */
#define MOST_STRETCHES 4096

typedef struct stretch {
    size_t first, end;  /* packets */
    int64_t low, high;  /* of their pts */
    size_t kept;        /* packets of the best choice that ends with this one */
    size_t before;      /* the stretch before it there; SIZE_MAX: none */
    bool chosen;
} stretch;

static bool steps_back(const lri_video_index *video, int64_t slack)
{
    int64_t high = INT64_MIN;
    for (size_t i = 0; i < video->n_packets; i++) {
        int64_t pts = video->packets[i].pts;
        if (pts == AV_NOPTS_VALUE) return false;
        if (high != INT64_MIN && (lri_wide)pts < (lri_wide)high - slack) return true;
        if (pts > high) high = pts;
    }
    return false;
}

static lr_status find_stretches(const lri_video_index *video, int64_t slack, stretch **list, size_t *count,
                                lr_error *err)
{
    lr_status st = LR_OK;
    size_t capacity = 0;
    for (size_t i = 0; i < video->n_packets && *count < MOST_STRETCHES; i++) {
        int64_t pts = video->packets[i].pts;
        stretch *last = *count > 0 ? &(*list)[*count - 1] : NULL;
        bool goes_on = last && (lri_wide)pts >= (lri_wide)last->high - slack &&
                       (lri_wide)pts <= (lri_wide)last->high + slack;
        if (!goes_on) {
            LR_TRY(LR_GROW(list, &capacity, *count + 1, "the index of the pictures", err));
            (*list)[(*count)++] = (stretch){.first = i, .end = i + 1, .low = pts, .high = pts, .before = SIZE_MAX};
            continue;
        }
        last->end = i + 1;
        if (pts < last->low) last->low = pts;
        if (pts > last->high) last->high = pts;
    }
done:
    return st;
}

static void choose(stretch *list, size_t count, int64_t slack)
{
    size_t best = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if ((lri_wide)list[i].low < (lri_wide)list[j].high - slack || list[j].kept <= list[i].kept) continue;
            list[i].kept = list[j].kept;
            list[i].before = j;
        }
        list[i].kept += list[i].end - list[i].first;
        if (list[i].kept > list[best].kept) best = i;
    }
    for (size_t i = best; i != SIZE_MAX; i = list[i].before) list[i].chosen = true;
}

lr_status lri_video_drop_strays(lri_video_index *video, lr_error *err)
{
    lr_status st = LR_OK;
    stretch *list = NULL;
    size_t count = 0;
    int64_t high = INT64_MIN, slack = video->time_base.den / video->time_base.num; /* a second */
    if (!steps_back(video, slack)) return LR_OK;
    LR_TRY(find_stretches(video, slack, &list, &count, err));
    if (count == MOST_STRETCHES) goto done;
    choose(list, count, slack);
    for (size_t i = 0; i < count; i++) {
        if (list[i].chosen) {
            high = list[i].high;
            continue;
        }
        if (list[i].first > 0) video->packets[list[i].first - 1].flags |= LRI_CORRUPT;
        for (size_t k = list[i].first; k < list[i].end; k++) {
            video->packets[k].flags &= (uint8_t)~LRI_SHOWN;
            /* Not shown, they are decoded all the same, in the order of the file. */
            video->packets[k].pts = high != INT64_MIN ? high : list[i].low;
        }
    }
    video->last_end = INT64_MIN; /* found from what is left */
done:
    lr_free(list);
    return st;
}
