/* One reader of pictures by itself, in the thread that calls it. */
#ifndef LRI_FRAMES_H
#define LRI_FRAMES_H

#include "plan.h"
#include "work.h"

/* Gives *rgb memory for a picture; what it was stays as it is for who took a picture of it. */
typedef lr_status (*lri_fresh)(void *arg, uint8_t **rgb, lr_error *err);

/* With `threads` for the codec. `fresh` is asked before a picture is written; NULL: always the same memory. The plan
 * must outlive the reader. */
lr_status lri_reader_open(lr_frame_reader **out, const lr_recording *recording, const lri_plan *plan, int threads,
                          lri_fresh fresh, void *fresh_arg, lr_error *err);
/* To read grid points [first, end) next. */
void lri_reader_aim(lr_frame_reader *reader, int64_t first, int64_t end);
lr_status lri_reader_next(lr_frame_reader *reader, lr_frame *frame, bool *got, lr_error *err);
/* The damage met since the last call; the caller frees it. */
lr_damage *lri_reader_take_damage(lr_frame_reader *reader, size_t *count);
void lri_reader_work(const lr_frame_reader *reader, lri_work *work);
void lri_reader_close(lr_frame_reader *reader);

/* lr_frame_reader_open in a way that is not chosen: for tests. */
lr_status lri_frame_reader_open(lr_frame_reader **out, const lr_recording *recording, int64_t first, int64_t end,
                                const lri_way *wish, lr_error *err);

#endif
