/* Readers side by side, each with segments of its own, for one consumer: pictures are decoded and converted ahead of
 * it, as far as a window of grid points goes. */
#ifndef LRI_TEAM_H
#define LRI_TEAM_H

#include "frames.h"

typedef struct lri_team lri_team;

/* Takes over the plan, also where it fails. */
lr_status lri_team_open(lri_team **out, const lr_recording *recording, lri_plan *plan, lr_error *err);
/* As lr_frame_reader_next. The damage of what has been given out is added to the list. */
lr_status lri_team_next(lri_team *team, lr_frame *frame, bool *got, lr_damage **damage, size_t *n_damage,
                        size_t *damage_capacity, lr_error *err);
void lri_team_work(lri_team *team, lri_work *work);
void lri_team_close(lri_team *team);

#endif
