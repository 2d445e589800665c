#include "verdict.h"

#include <string.h>

/* An open entry's leading pictures follow it at once in the file; no codec has more of them. */
#define MOST_LEADING 64

static bool is_entry(const lri_packet *packet)
{
    return (packet->flags & (LRI_OPEN | LRI_CLOSED)) != 0;
}

void lri_verdicts_init(lri_verdicts *verdicts, const lr_recording *recording)
{
    memset(verdicts, 0, sizeof *verdicts);
    verdicts->recording = recording;
}

void lri_verdicts_free(lri_verdicts *verdicts)
{
    for (size_t i = 0; i < verdicts->n_segments; i++) lr_free(verdicts->segments[i].flags);
    lr_free(verdicts->segments);
    lri_decoder_close(&verdicts->checker);
    memset(verdicts, 0, sizeof *verdicts);
}

lr_status lri_verdicts_checker(lri_verdicts *verdicts, lri_decoder **checker, lr_error *err)
{
    lr_status st = LR_OK;
    *checker = &verdicts->checker;
    if (verdicts->checker_open) return LR_OK;
    st = lri_decoder_open(&verdicts->checker, verdicts->recording, 1, err);
    if (st == LR_OK) verdicts->checker_open = true;
    else lri_decoder_close(&verdicts->checker);
    return st;
}

/* The number of segments whose entry is at or before `entry`. */
static size_t place_of(const lri_verdicts *verdicts, size_t entry)
{
    size_t low = 0, high = verdicts->n_segments;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (verdicts->segments[middle].entry <= entry) low = middle + 1;
        else high = middle;
    }
    return low;
}

static lri_segment *find_segment(const lri_verdicts *verdicts, size_t ordinal)
{
    size_t entry = lri_entry_of(&verdicts->recording->video, ordinal);
    size_t place = place_of(verdicts, entry);
    if (place == 0 || verdicts->segments[place - 1].entry != entry) return NULL;
    lri_segment *segment = &verdicts->segments[place - 1];
    return ordinal - entry < segment->count ? segment : NULL;
}

unsigned lri_verdicts_of(const lri_verdicts *verdicts, size_t ordinal)
{
    if (verdicts->n_segments == 0) return 0;
    const lri_segment *segment = find_segment(verdicts, ordinal);
    return segment ? segment->flags[ordinal - segment->entry] : 0;
}

void lri_verdicts_set_absent(lri_verdicts *verdicts, size_t ordinal)
{
    lri_segment *segment = find_segment(verdicts, ordinal);
    if (segment) segment->flags[ordinal - segment->entry] |= LRI_ABSENT;
}

/* One past the last packet that belongs to the entry: up to the next entry, and with the leading
 * pictures of that one. */
static size_t segment_end(const lri_video_index *video, size_t entry)
{
    size_t next = entry + 1;
    while (next < video->n_packets && !is_entry(&video->packets[next])) next++;
    size_t end = next;
    if (next == video->n_packets || (video->packets[next].flags & LRI_CLOSED)) return end;
    for (size_t i = next + 1; i < video->n_packets && i <= next + MOST_LEADING; i++) {
        if (is_entry(&video->packets[i])) break;
        if (video->packets[i].pts < video->packets[next].pts) end = i + 1;
    }
    return end;
}

/* ------------------------------------------------------------------ examination */

/* Takes what the codec has ready; `seen` counts the pictures of the segment. */
static lr_status take_all(lri_decoder *checker, const lri_segment *segment, uint8_t *seen,
                          lr_error *err)
{
    for (;;) {
        bool got;
        lr_status st = lri_decoder_take(checker, &got, err);
        if (st != LR_OK || !got) return st;
        size_t ordinal = (size_t)checker->frame->pts;
        if (ordinal < segment->entry || ordinal - segment->entry >= segment->count) continue;
        seen[ordinal - segment->entry] = 1;
        if (lri_frame_is_marked(checker->frame))
            segment->flags[ordinal - segment->entry] |= LRI_BAD;
    }
}

static unsigned count_errors(const lri_decoder *checker)
{
    return checker->faults + atomic_load(&checker->watch.errors);
}

static lr_status decode_segment(lri_decoder *checker, const lri_segment *segment, uint8_t *seen,
                                bool *any, lr_error *err)
{
    lr_status st = LR_OK;
    *any = false;
    LR_TRY(lri_decoder_begin(checker, segment->entry, err));
    for (size_t i = 0; i < segment->count; i++) {
        unsigned before = count_errors(checker);
        LR_TRY(lri_decoder_feed(checker, err));
        LR_TRY(take_all(checker, segment, seen, err));
        if (count_errors(checker) == before) continue;
        segment->flags[i] |= LRI_BAD;
        *any = true;
    }
    unsigned before = count_errors(checker);
    if (!checker->draining) LR_TRY(lri_decoder_drain(checker, err));
    LR_TRY(take_all(checker, segment, seen, err));
    if (count_errors(checker) != before) *any = true;
done:
    return st;
}

/* From the packets that went wrong to the pictures that may show it: everything later in the segment,
 * unless nothing refers to the packet. Pictures that lead the next entry refer to that one too. */
static void spread(const lri_video_index *video, lri_segment *segment, const uint8_t *seen, bool any)
{
    bool broken = false;
    int64_t entry_pts = video->packets[segment->entry].pts;
    bool open = (video->packets[segment->entry].flags & LRI_OPEN) != 0;
    size_t next = segment->entry + 1;
    while (next < segment->entry + segment->count && !is_entry(&video->packets[next])) next++;
    for (size_t i = 0; i < segment->count; i++) {
        const lri_packet *packet = &video->packets[segment->entry + i];
        uint8_t *flags = &segment->flags[i];
        bool leads = open && i > 0 && segment->entry + i < next && packet->pts < entry_pts;
        if (leads) {
            /* Its own segment is the one before: what went wrong here is only that it began here. */
            *flags = 0;
            continue;
        }
        if (packet->flags & LRI_CORRUPT) *flags |= LRI_BAD;
        if (!seen[i] && (packet->flags & LRI_SHOWN)) *flags |= any ? LRI_BAD : LRI_ABSENT;
        bool own_fault = (*flags & LRI_BAD) != 0;
        if (broken) *flags |= LRI_BAD;
        if (own_fault && (packet->flags & LRI_REFERENCE)) broken = true;
        /* Of the next segment only the leading pictures are judged here. */
        bool foreign = segment->entry + i >= next &&
                       (segment->entry + i == next || packet->pts >= video->packets[next].pts);
        if (foreign) *flags = 0;
        else {
            *flags |= LRI_MINE;
            if ((*flags & LRI_BAD) && (packet->flags & LRI_SHOWN)) segment->any_bad = true;
        }
    }
}

lr_status lri_verdicts_examine(lri_verdicts *verdicts, size_t ordinal, lr_error *err)
{
    const lri_video_index *video = &verdicts->recording->video;
    if (verdicts->n_segments > 0 && find_segment(verdicts, ordinal)) return LR_OK;
    lr_status st = LR_OK;
    lri_decoder *checker;
    uint8_t *seen = NULL;
    lri_segment segment = {.entry = lri_entry_of(video, ordinal)};
    segment.count = segment_end(video, segment.entry) - segment.entry;
    if (ordinal - segment.entry >= segment.count) segment.count = ordinal - segment.entry + 1;
    LR_TRY(lri_verdicts_checker(verdicts, &checker, err));
    LR_TRY(LR_NEW(&segment.flags, segment.count, "the check of a segment", err));
    LR_TRY(LR_NEW(&seen, segment.count, "the check of a segment", err));
    LR_TRY(LR_GROW(&verdicts->segments, &verdicts->capacity, verdicts->n_segments + 1,
                   "the checked segments", err));
    bool any;
    LR_TRY(decode_segment(checker, &segment, seen, &any, err));
    spread(video, &segment, seen, any);
    size_t place = place_of(verdicts, segment.entry);
    memmove(&verdicts->segments[place + 1], &verdicts->segments[place],
            (verdicts->n_segments - place) * sizeof segment);
    verdicts->segments[place] = segment;
    verdicts->n_segments++;
    segment.flags = NULL;
done:
    lr_free(segment.flags);
    lr_free(seen);
    return st;
}
