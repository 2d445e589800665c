/* Which pictures are clean: found by decoding a segment alone with one thread, packet by packet, so
 * that the answer does not depend on threads or on where a reader began. */
#ifndef LRI_VERDICT_H
#define LRI_VERDICT_H

#include "decode.h"

enum {
    LRI_MINE = 1,   /* decoding of this picture begins at the segment's entry */
    LRI_BAD = 2,    /* damaged, or may depend on what is */
    LRI_ABSENT = 4, /* does not come out though nothing is wrong: the picture before goes on */
};

typedef struct lri_segment {
    size_t entry, count; /* ordinals [entry, entry + count) */
    uint8_t *flags;      /* [count] */
    bool any_bad;
    bool weighed; /* by lri_verdicts_find_taint */
} lri_segment;

typedef struct lri_verdicts {
    const lr_recording *recording;
    lri_decoder checker;
    bool checker_open;
    lri_segment *segments; /* by entry */
    size_t n_segments, capacity;
    size_t n_weighed;
} lri_verdicts;

void lri_verdicts_init(lri_verdicts *verdicts, const lr_recording *recording);
void lri_verdicts_free(lri_verdicts *verdicts);
/* Examines the segment of a picture, unless that is done. */
lr_status lri_verdicts_examine(lri_verdicts *verdicts, size_t ordinal, lr_error *err);
/* Whether a picture lies in the file behind the segment where its decoding begins: time stamps can be that wrong. */
bool lri_is_astray(const lri_video_index *video, size_t ordinal);
/* The flags of a picture; 0 where its segment has not been examined. */
unsigned lri_verdicts_of(const lri_verdicts *verdicts, size_t ordinal);
/* lri_decoder.avoid; its argument is the verdicts. */
bool lri_verdicts_avoid(const void *verdicts, size_t ordinal);
/* Whether segments that were examined since the last call have damage in those of the packets [first, end) that
 * nothing refers to; *entry is the first such segment's. */
bool lri_verdicts_find_taint(lri_verdicts *verdicts, size_t first, size_t end, size_t *entry);
/* The entry behind the last segment in [first, end) that is known to be bad; 0 where none is. */
size_t lri_verdicts_pure_from(const lri_verdicts *verdicts, size_t first, size_t end);
/* For an examined picture that did not come out even when only what it needs was decoded. */
void lri_verdicts_set_absent(lri_verdicts *verdicts, size_t ordinal);
/* The decoder with one thread that examines; opened on first use. */
lr_status lri_verdicts_checker(lri_verdicts *verdicts, lri_decoder **checker, lr_error *err);

#endif
