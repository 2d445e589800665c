#include "fields.h"

#include "decode.h"

#include <stdlib.h>
#include <string.h>

/* Neighbours lie this near to each other in the file, or their stamps are wrong. */
#define MOST_APART 64
/* The picture before one where a segment begins is worth this many packets of the segment before. Where it
 * would take more, the picture is taken for the first of the film. */
#define MOST_FOR_BEFORE 300

bool lri_is_interlaced(const AVFrame *frame)
{
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 7, 100)
    return (frame->flags & AV_FRAME_FLAG_INTERLACED) != 0;
#else
    return frame->interlaced_frame != 0;
#endif
}

static bool are_near(size_t a, size_t b)
{
    return (a > b ? a - b : b - a) <= MOST_APART;
}

bool lri_fields_want_before(const lri_video_index *video, size_t shown)
{
    if (shown == 0) return false;
    size_t before = lri_shown(video, shown - 1), at = lri_shown(video, shown);
    if (!are_near(before, at)) return false;
    size_t entry = lri_entry_of(video, before);
    return entry == lri_entry_of(video, at) || (before >= entry && before - entry < MOST_FOR_BEFORE);
}

bool lri_fields_want_after(const lri_video_index *video, size_t shown)
{
    return shown + 1 < video->n_shown && are_near(lri_shown(video, shown), lri_shown(video, shown + 1));
}

lr_status lri_fields_keep(lri_fields *fields, const AVFrame *frame, lr_error *err)
{
    AVFrame **place = &fields->kept[fields->next];
    if (!*place) *place = av_frame_alloc();
    if (*place) av_frame_unref(*place);
    if (!*place || av_frame_ref(*place, frame) < 0)
        return lr_fail(err, LR_E_NOMEM, "out of memory: the fields of a picture");
    fields->next = (fields->next + 1) % LRI_KEPT;
    return LR_OK;
}

const AVFrame *lri_fields_find(const lri_fields *fields, size_t ordinal)
{
    for (int i = 0; i < LRI_KEPT; i++)
        if (fields->kept[i] && fields->kept[i]->buf[0] && (size_t)fields->kept[i]->pts == ordinal)
            return fields->kept[i];
    return NULL;
}

/* bwdif holds the last three frames it was fed: whatever came before, its picture of the middle one depends on
 * these three alone. It comes out when the third is fed. */
static lr_status feed(lri_fields *fields, const AVFrame *frame, bool *got, lr_error *err)
{
    AVFrame *copy = av_frame_clone(frame);
    if (!copy) return lr_fail(err, LR_E_NOMEM, "out of memory: the fields of a picture");
    copy->pts = fields->fed++;
    lr_status st = lri_filter_feed(&fields->filter, copy, fields->result, got, err);
    av_frame_free(&copy);
    return st;
}

static bool is_alike(const AVFrame *a, const AVFrame *b)
{
    return a && a->width == b->width && a->height == b->height && a->format == b->format;
}

lr_status lri_fields_join(lri_fields *fields, const AVFrame *before, const AVFrame *frame,
                          const AVFrame *after, const AVFrame **result, lr_error *err)
{
    lr_status st = LR_OK;
    bool usable, got = false;
    *result = frame;
    /* A new filter takes its first frame for the first of a film, and interpolates it by itself. */
    if (!is_alike(before, frame)) lri_filter_free(&fields->filter);
    if (!fields->result) fields->result = av_frame_alloc();
    if (!fields->result) LR_FAIL(LR_E_NOMEM, "out of memory: the fields of a picture");
    LR_TRY(lri_filter_set(&fields->filter, "bwdif=mode=send_frame:parity=auto:deint=interlaced", frame,
                          &usable, err));
    const AVFrame *all[3] = {before, frame, is_alike(after, frame) ? after : frame};
    bool first = !is_alike(before, frame);
    for (int i = first ? 1 : 0; i < 3 && usable; i++) {
        LR_TRY(feed(fields, all[i], &got, err));
        usable = fields->filter.graph != NULL;
    }
    if (!usable || !got) goto done;
    fields->result->pts = frame->pts;
    *result = fields->result;
done:
    return st;
}

void lri_fields_free(lri_fields *fields)
{
    lri_filter_free(&fields->filter);
    av_frame_free(&fields->result);
    for (int i = 0; i < LRI_KEPT; i++) av_frame_free(&fields->kept[i]);
    memset(fields, 0, sizeof *fields);
}
