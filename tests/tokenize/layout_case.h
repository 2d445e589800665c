/* Recordings for layout tests. */
#ifndef LR_LAYOUT_CASE_H
#define LR_LAYOUT_CASE_H

#include "fixture_ids.h"

typedef struct recording {
    lr_layout_input in; /* frame_time and frame_pts point into the arrays below */
    lr_time *frame_time, *frame_pts;
    lr_tokenizer *tokenizer;
} recording;

/* n frames at num/den a second, each shown at its grid time; stamps; the regular fixture's
 * tokenizer and ids; no sound. */
recording *recording_create(int64_t n_frames, int64_t num, int64_t den, double video_end);
void recording_free(recording *r);
lr_layout *recording_layout(const recording *r);

/* The form of tests/fixtures/README.md, from the spans: "00:00 [V*66] 00:00 (A*25)". Windows are
 * put into braces when there are several. free() it. */
char *layout_text(const lr_layout *layout);
/* Checks what every layout promises: spans and windows without a gap, soft tokens where they are
 * said to be, sound dealt out without a hole; and that each window's ids are those of its whole
 * text tokenized at once. */
void check_layout(const recording *r, const lr_layout *layout);
/* Both of the above, against an expected text. */
void assert_layout(const recording *r, const char *expected);

#endif
