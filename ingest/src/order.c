/* Times of the pictures where the container gives none, and the order in which they are shown. */
#include "recording.h"

#include <stdlib.h>
#include <string.h>

/* Codecs with one picture of delay (MPEG-1, -2, -4): a picture that is no B takes the place in time
 * of the next that is none, by the time stamps of decoding. */
static void order_with_one_delay(lri_video_index *video)
{
    lri_packet *waiting = NULL;
    int64_t last = 0;
    for (size_t i = 0; i < video->n_packets; i++) {
        lri_packet *packet = &video->packets[i];
        last = packet->seek;
        if (packet->flags & LRI_B) {
            if (packet->flags & LRI_NO_PTS) packet->pts = packet->seek;
            continue;
        }
        if (waiting) waiting->pts = packet->seek;
        waiting = packet->flags & LRI_NO_PTS ? packet : NULL;
    }
    if (waiting) waiting->pts = last + (video->typical > 0 ? video->typical : 1);
}

static bool holds_b(const lri_video_index *video)
{
    for (size_t i = 0; i < video->n_packets; i++)
        if (video->packets[i].flags & LRI_B) return true;
    return false;
}

/* Nothing but an order: stamps of decoding where there are some, else one typical step each. */
static void fill_missing(lri_video_index *video)
{
    bool delayed = holds_b(video);
    int64_t step = video->typical > 0 ? video->typical : 1, next = 0;
    for (size_t i = 0; i < video->n_packets; i++) {
        lri_packet *packet = &video->packets[i];
        if (packet->seek == AV_NOPTS_VALUE) packet->seek = next;
        if (__builtin_add_overflow(packet->seek, step, &next)) next = packet->seek;
    }
    if (delayed) order_with_one_delay(video);
    for (size_t i = 0; i < video->n_packets; i++) {
        lri_packet *packet = &video->packets[i];
        if (!delayed && (packet->flags & LRI_NO_PTS)) packet->pts = packet->seek;
        packet->flags &= (uint8_t)~LRI_NO_PTS;
    }
}

/* ------------------------------------------------------------------ what is shown */

/* Pictures before the first entry, and those shown before an open one, cannot be decoded. */
static void hide_undecodable(lri_video_index *video)
{
    size_t first = 0;
    while (first < video->n_packets && !(video->packets[first].flags & (LRI_OPEN | LRI_CLOSED)))
        first++;
    if (first == video->n_packets) {
        video->packets[0].flags |= LRI_CLOSED;
        video->n_entries = 1;
        return;
    }
    for (size_t i = 0; i < first; i++) video->packets[i].flags &= (uint8_t)~LRI_SHOWN;
    if (video->packets[first].flags & LRI_CLOSED) return;
    for (size_t i = first + 1; i < video->n_packets; i++) {
        lri_packet *packet = &video->packets[i];
        if (packet->flags & (LRI_OPEN | LRI_CLOSED)) break;
        if (packet->pts < video->packets[first].pts) packet->flags &= (uint8_t)~LRI_SHOWN;
    }
}

typedef struct shown_picture {
    int64_t pts;
    uint32_t ordinal;
} shown_picture;

static int by_time(const void *a, const void *b)
{
    const shown_picture *x = a, *y = b;
    if (x->pts != y->pts) return x->pts < y->pts ? -1 : 1;
    return x->ordinal < y->ordinal ? -1 : x->ordinal > y->ordinal;
}

static lr_status sort_shown(lri_video_index *video, lr_error *err)
{
    size_t n = 0;
    shown_picture *sorted = NULL;
    for (size_t i = 0; i < video->n_packets; i++) n += video->packets[i].flags & LRI_SHOWN;
    lr_status st = LR_OK;
    LR_TRY(LR_NEW(&sorted, n, "the order of the pictures", err));
    LR_TRY(LR_NEW(&video->shown, n, "the order of the pictures", err));
    n = 0;
    for (size_t i = 0; i < video->n_packets; i++)
        if (video->packets[i].flags & LRI_SHOWN)
            sorted[n++] = (shown_picture){video->packets[i].pts, (uint32_t)i};
    qsort(sorted, n, sizeof *sorted, by_time);
    for (size_t i = 0; i < n; i++) video->shown[i] = sorted[i].ordinal;
    video->n_shown = n;
done:
    lr_free(sorted);
    return st;
}

/* ------------------------------------------------------------------ constant rate */

/* Whether picture n is at first + n / rate for all n, but for the rounding to ticks. */
static bool keeps_rate(const lri_video_index *video, AVRational rate)
{
    if (rate.num <= 0 || rate.den <= 0) return false;
    /* One picture takes at least two ticks, or rounding could hide anything. */
    if ((lri_wide)rate.den * video->time_base.den < (lri_wide)2 * rate.num * video->time_base.num)
        return false;
    for (size_t n = 0; n < video->n_shown; n++) {
        /* (pts - first) * tb = n * den / num, within one tick. */
        lri_wide ticks = (lri_wide)video->packets[video->shown[n]].pts - video->first_pts;
        lri_wide left = ticks * video->time_base.num * rate.num;
        lri_wide right = (lri_wide)n * rate.den * video->time_base.den;
        lri_wide tick = (lri_wide)video->time_base.num * rate.num;
        if (left - right > tick || right - left > tick) return false;
    }
    return true;
}

static void find_end(lri_video_index *video, const AVStream *stream)
{
    size_t n = video->n_shown;
    int64_t last = video->packets[video->shown[n - 1]].pts;
    video->first_pts = video->packets[video->shown[0]].pts;
    if (video->last_end <= last) {
        /* No duration known: as long as the picture before, or as the stated rate has it. */
        int64_t step = video->typical;
        AVRational rate = stream->avg_frame_rate.num > 0 ? stream->avg_frame_rate
                                                         : stream->r_frame_rate;
        if (step <= 0 && n > 1) step = last - video->packets[video->shown[n - 2]].pts;
        else if (step <= 0 && rate.num > 0 && rate.den > 0)
            step = av_rescale_q(1, av_inv_q(rate), video->time_base);
        if (step < 0 || __builtin_add_overflow(last, step, &video->last_end)) video->last_end = last;
    }
    video->rate = (AVRational){0, 1};
    if (n < 2) return;
    if (keeps_rate(video, stream->avg_frame_rate)) video->rate = stream->avg_frame_rate;
    else if (keeps_rate(video, stream->r_frame_rate)) video->rate = stream->r_frame_rate;
}

lr_status lri_video_order(lr_recording *recording, const AVStream *stream, lr_error *err)
{
    lri_video_index *video = &recording->video;
    bool missing = false;
    for (size_t i = 0; i < video->n_packets && !missing; i++)
        missing = (video->packets[i].flags & LRI_NO_PTS) != 0;
    if (missing) fill_missing(video);
    hide_undecodable(video);
    lr_status st = sort_shown(video, err);
    if (st == LR_OK && video->n_shown > 0) find_end(video, stream);
    return st;
}
