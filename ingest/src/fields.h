/* Pictures of two fields to whole ones, by libavfilter's bwdif. It looks at the pictures shown before and
 * after; a few decoded ones are kept for that. */
#ifndef LRI_FIELDS_H
#define LRI_FIELDS_H

#include "filter.h"
#include "recording.h"

enum { LRI_KEPT = 6 };

typedef struct lri_fields {
    bool met; /* a picture of two fields was seen */
    lri_filter filter;
    int64_t fed;
    AVFrame *result;
    AVFrame *kept[LRI_KEPT]; /* pts: ordinal */
    size_t next;             /* the one to be replaced */
} lri_fields;

/* Whether the decoder says that the picture is made of two fields. */
bool lri_is_interlaced(const AVFrame *frame);
/* The neighbours of shown picture `shown` in the list of shown ones that deinterlacing looks at: found from
 * the index alone, so that every reader takes the same. */
bool lri_fields_want_before(const lri_video_index *video, size_t shown);
bool lri_fields_want_after(const lri_video_index *video, size_t shown);

lr_status lri_fields_keep(lri_fields *fields, const AVFrame *frame, lr_error *err);
/* A kept picture; NULL where it is not. Valid until LRI_KEPT - 1 others have been kept. */
const AVFrame *lri_fields_find(const lri_fields *fields, size_t ordinal);
/* *result: the whole picture, valid until the next call; `frame` itself where libavfilter cannot make one.
 * `before` and `after` may be NULL. */
lr_status lri_fields_join(lri_fields *fields, const AVFrame *before, const AVFrame *frame,
                          const AVFrame *after, const AVFrame **result, lr_error *err);
void lri_fields_free(lri_fields *fields);

#endif
