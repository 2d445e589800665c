#include "verdict.h"

#include <string.h>

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
    verdicts->checker.always_new = true;
    verdicts->checker.avoid = lri_verdicts_avoid;
    verdicts->checker.avoid_arg = verdicts;
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

static bool is_stray(const lri_verdicts *verdicts, const lri_segment *segment, size_t ordinal)
{
    return (segment->flags[ordinal - segment->entry] & LRI_BAD) &&
           !(lri_flags(&verdicts->recording->video, ordinal) & LRI_REFERENCE);
}

bool lri_verdicts_avoid(const void *arg, size_t ordinal)
{
    const lri_verdicts *verdicts = arg;
    const lri_segment *segment = verdicts->n_segments > 0 ? find_segment(verdicts, ordinal) : NULL;
    return segment && is_stray(verdicts, segment, ordinal);
}

bool lri_verdicts_find_taint(lri_verdicts *verdicts, size_t first, size_t end, size_t *entry)
{
    bool found = false;
    if (verdicts->n_weighed == verdicts->n_segments) return false;
    verdicts->n_weighed = verdicts->n_segments;
    for (size_t s = 0; s < verdicts->n_segments; s++) {
        lri_segment *segment = &verdicts->segments[s];
        size_t from = first > segment->entry ? first : segment->entry, to = segment->entry + segment->count;
        if (segment->weighed) continue;
        segment->weighed = true;
        /* A picture alone harms no other. */
        if (!segment->any_bad || segment->count < 2 || found) continue;
        for (size_t i = from; i < to && i < end && !found; i++) found = is_stray(verdicts, segment, i);
        if (found) *entry = segment->entry;
    }
    return found;
}

size_t lri_verdicts_pure_from(const lri_verdicts *verdicts, size_t first, size_t end)
{
    const lri_video_index *video = &verdicts->recording->video;
    for (size_t i = place_of(verdicts, end); i-- > 0;) {
        const lri_segment *segment = &verdicts->segments[i];
        if (segment->entry < first) break;
        if (!segment->any_bad || segment->entry >= end) continue;
        size_t next = segment->entry + 1;
        while (next < video->n_packets && !lri_is_entry(video, next)) next++;
        return next;
    }
    return 0;
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
    while (next < video->n_packets && !lri_is_entry(video, next)) next++;
    return next == video->n_packets ? next : lri_leading_end(video, next);
}

bool lri_is_astray(const lri_video_index *video, size_t ordinal)
{
    return ordinal >= segment_end(video, lri_entry_of(video, ordinal));
}

/* ------------------------------------------------------------------ examination */

/* Takes what the codec has ready of the ordinals [first, end): which came, and which are wrong. */
static lr_status take_all(lri_decoder *checker, const lri_segment *segment, size_t first, size_t end,
                          uint8_t *seen, lr_error *err)
{
    for (;;) {
        bool got;
        lr_status st = lri_decoder_take(checker, &got, err);
        if (st != LR_OK || !got) return st;
        size_t ordinal = (size_t)checker->frame->pts;
        if (ordinal < first || ordinal >= end) continue;
        seen[ordinal - segment->entry] = 1;
        if (lri_frame_is_suspect(checker)) segment->flags[ordinal - segment->entry] |= LRI_BAD;
    }
}

static unsigned count_errors(const lri_decoder *checker)
{
    return checker->faults + atomic_load(&checker->watch.errors);
}

/* Decodes from the entry up to `end`; the pictures and errors of [first, end) count. */
static lr_status decode_part(lri_decoder *checker, const lri_segment *segment, size_t first,
                             size_t end, uint8_t *seen, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(lri_decoder_begin(checker, segment->entry, err));
    for (size_t i = segment->entry; i < end; i++) {
        unsigned before = count_errors(checker);
        LR_TRY(lri_decoder_feed(checker, err));
        LR_TRY(take_all(checker, segment, first, end, seen, err));
        if (i >= first && count_errors(checker) != before)
            segment->flags[i - segment->entry] |= LRI_BAD;
    }
    if (!checker->draining) LR_TRY(lri_decoder_drain(checker, err));
    LR_TRY(take_all(checker, segment, first, end, seen, err));
done:
    return st;
}

/* The next entry can make a decoder drop what it still holds, so the codec is drained before it. Only
 * the pictures that lead the next entry need it; they get a pass of their own. */
static lr_status decode_segment(lri_decoder *checker, const lri_segment *segment, uint8_t *seen,
                                lr_error *err)
{
    const lri_video_index *video = &checker->recording->video;
    size_t end = segment->entry + segment->count, next = segment->entry + 1;
    while (next < end && !lri_is_entry(video, next)) next++;
    lr_status st = decode_part(checker, segment, segment->entry, next, seen, err);
    if (st == LR_OK && next < end) st = decode_part(checker, segment, next, end, seen, err);
    return st;
}

/* ------------------------------------------------------------------ packets that nothing refers to */

/* Whether such a packet is decoded depends on the grid, so what it does to a decoder must not reach other
 * pictures: they are judged by passes that leave the damaged ones out. */
#define MOST_PASSES 3

typedef struct stray_list {
    const lri_segment *segment;
    uint8_t *flags; /* [segment->count] LRI_BAD where the packet is left out */
} stray_list;

static bool is_left_out(const void *arg, size_t ordinal)
{
    const stray_list *strays = arg;
    return ordinal >= strays->segment->entry && ordinal - strays->segment->entry < strays->segment->count &&
           strays->flags[ordinal - strays->segment->entry] != 0;
}

/* Adds the damaged packets of the last pass that are passed over from now on; false where there are none. */
static bool find_strays(const lri_decoder *checker, stray_list *strays)
{
    bool any = false;
    const lri_segment *segment = strays->segment;
    const lri_video_index *video = &checker->recording->video;
    for (size_t i = 0; i < segment->count; i++) {
        if (!(segment->flags[i] & LRI_BAD) || strays->flags[i]) continue;
        if (lri_flags(video, segment->entry + i) & LRI_REFERENCE) continue;
        strays->flags[i] = LRI_BAD;
        any = any || lri_decoder_passes(checker, segment->entry + i);
    }
    return any;
}

static lr_status decode_repeatedly(lri_decoder *checker, const lri_segment *segment, uint8_t *seen,
                                   lr_error *err)
{
    lr_status st = LR_OK;
    stray_list strays = {.segment = segment};
    LR_TRY(LR_NEW(&strays.flags, segment->count, "the check of a segment", err));
    checker->avoid = is_left_out;
    checker->avoid_arg = &strays;
    LR_TRY(decode_segment(checker, segment, seen, err));
    for (int pass = 1; pass < MOST_PASSES && find_strays(checker, &strays); pass++) {
        memset(segment->flags, 0, segment->count);
        memset(seen, 0, segment->count);
        LR_TRY(decode_segment(checker, segment, seen, err));
        for (size_t i = 0; i < segment->count; i++) segment->flags[i] |= strays.flags[i];
    }
done:
    lr_free(strays.flags);
    return st;
}

/* The first packet of the segment that went wrong; its count where none did. */
static size_t first_fault(const lri_video_index *video, const lri_segment *segment)
{
    size_t i = 0;
    while (i < segment->count && !(segment->flags[i] & LRI_BAD) && !lri_gap_behind(video, segment->entry + i))
        i++;
    return i;
}

/* From the packets that went wrong to the pictures that may show it: everything later in the segment,
 * unless nothing refers to the packet. Pictures that lead the next entry refer to that one too. */
static void spread(const lri_video_index *video, lri_segment *segment, const uint8_t *seen)
{
    bool broken = false, any = false;
    size_t entry = segment->entry, next = entry + 1, fault = first_fault(video, segment);
    while (next < entry + segment->count && !lri_is_entry(video, next)) next++;
    for (size_t i = 1; i < segment->count; i++)
        if ((lri_flags(video, entry + i) & LRI_SECOND) && (segment->flags[i] & LRI_BAD))
            segment->flags[i - 1] |= LRI_BAD;
    for (size_t i = 0; i < segment->count; i++) {
        const unsigned packet = lri_flags(video, entry + i);
        uint8_t *flags = &segment->flags[i];
        bool lost = broken;
        /* Where the demuxer misses bytes, whole packets may be gone, references too. (Whether it misses
         * some of the marked packet, the decoder knows: where two files were joined, it does not.) */
        if (lri_gap_behind(video, entry + i)) broken = any = true;
        if (entry + i < next && lri_leads(video, entry, entry + i)) {
            /* Its own segment is the one before: what went wrong here is only that it began here. */
            *flags = 0;
            continue;
        }
        if (packet & LRI_TORN) *flags |= LRI_BAD;
        any = any || (*flags & LRI_BAD);
        /* Only what lies before a picture in the file counts against it: a reader that stops there
         * must come to the same. An error behind it can make a codec lose it, too. */
        if (!seen[i] && (packet & LRI_SHOWN) && any) *flags |= LRI_BAD;
        /* Where none is near, a picture that did not come will not come. Films of pictures that repeat the
         * one before may have thousands of them. */
        if (!seen[i] && !any && (fault == segment->count || fault - i > LRI_MOST_DELAY)) *flags |= LRI_ABSENT;
        bool own_fault = (*flags & LRI_BAD) != 0;
        if (lost) *flags |= LRI_BAD;
        if (own_fault && (packet & LRI_REFERENCE)) broken = true;
        /* Of the next segment only the leading pictures are judged here. */
        bool foreign = entry + i >= next && !lri_leads(video, next, entry + i);
        if (foreign) *flags = 0;
        else {
            *flags |= LRI_MINE;
            if ((*flags & LRI_BAD) && (packet & LRI_SHOWN)) segment->any_bad = true;
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
    st = decode_repeatedly(checker, &segment, seen, err);
    checker->avoid = lri_verdicts_avoid;
    checker->avoid_arg = verdicts;
    if (st != LR_OK) goto done;
    spread(video, &segment, seen);
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
