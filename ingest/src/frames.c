/* The pictures of the grid, in order: the last clean one at or before each point. */
#include <string.h>

#include "convert.h"
#include "verdict.h"

/* A picture that has not come out when this many packets behind it are fed does not come: the codecs
 * hold at most 16 pictures, and each thread one. */
#define MOST_DELAY 64

#define NO_PICTURE SIZE_MAX

struct lr_frame_reader {
    const lr_recording *recording;
    int64_t next, end;
    size_t shown_first, shown_end; /* the pictures whose damage this reader reports */
    lri_decoder decoder;
    lri_verdicts verdicts;
    lri_converter converter;
    int64_t latest_pts; /* of the pictures that came out since the decoder began */
    bool running;
    uint8_t *rgb;
    size_t stride;
    size_t held;                    /* ordinal of the picture in rgb */
    size_t asked, answered;         /* the last resolution: shown indices */
    lr_damage *damage;
    size_t n_damage, damage_capacity;
    bool finished;
};

/* ------------------------------------------------------------------ what can be shown */

static size_t ordinal_of(const lr_frame_reader *reader, size_t shown)
{
    return reader->recording->video.shown[shown];
}

static bool is_clean(const lr_frame_reader *reader, size_t shown)
{
    return !(lri_verdicts_of(&reader->verdicts, ordinal_of(reader, shown)) & (LRI_BAD | LRI_ABSENT));
}

/* The picture that stands for shown[asked]: itself while nothing is known against it, else the last
 * clean one before, else the first clean one after, else NO_PICTURE. Stand-ins are taken only from
 * segments that have been examined, so that every reader finds the same. */
static lr_status resolve(lr_frame_reader *reader, size_t asked, size_t *answer, lr_error *err)
{
    lr_status st = LR_OK;
    *answer = asked;
    if (is_clean(reader, asked)) goto done;
    for (size_t i = asked; i-- > 0;) {
        *answer = i;
        /* From here on the answer was found before; it is still clean. */
        if (i == reader->asked && reader->answered <= i) *answer = i = reader->answered;
        LR_TRY(lri_verdicts_examine(&reader->verdicts, ordinal_of(reader, i), err));
        if (is_clean(reader, i)) goto done;
    }
    for (size_t i = asked + 1; i < reader->recording->video.n_shown; i++) {
        *answer = i;
        LR_TRY(lri_verdicts_examine(&reader->verdicts, ordinal_of(reader, i), err));
        if (is_clean(reader, i)) goto done;
    }
    *answer = NO_PICTURE;
done:
    reader->asked = asked;
    reader->answered = *answer;
    return st;
}

/* ------------------------------------------------------------------ damage */

static lr_time shown_time(const lr_frame_reader *reader, size_t shown)
{
    const lr_recording *recording = reader->recording;
    if (shown >= recording->video.n_shown) return recording->timeline.video.end;
    return lri_video_time(recording, recording->video.packets[ordinal_of(reader, shown)].pts);
}

static bool is_bad(const lr_frame_reader *reader, size_t shown)
{
    return (lri_verdicts_of(&reader->verdicts, ordinal_of(reader, shown)) & LRI_BAD) != 0;
}

static lr_status report(lr_frame_reader *reader, size_t first, size_t end, lr_error *err)
{
    return lri_damage_add(&reader->damage, &reader->n_damage, &reader->damage_capacity,
                          LR_STREAM_VIDEO, shown_time(reader, first), shown_time(reader, end),
                          "undecodable", err);
}

/* The bad pictures of one segment around shown[at]: the same range whichever of them was wanted. */
static lr_status report_around(lr_frame_reader *reader, size_t at, lr_error *err)
{
    const lri_video_index *video = &reader->recording->video;
    size_t entry = lri_entry_of(video, ordinal_of(reader, at)), first = at, end = at + 1;
    while (first > 0 && is_bad(reader, first - 1) &&
           lri_entry_of(video, ordinal_of(reader, first - 1)) == entry)
        first--;
    while (end < video->n_shown && is_bad(reader, end) &&
           lri_entry_of(video, ordinal_of(reader, end)) == entry)
        end++;
    return report(reader, first, end, err);
}

/* Every bad picture of the reader's share that has been found. */
static lr_status report_all(lr_frame_reader *reader, lr_error *err)
{
    lr_status st = LR_OK;
    bool any = false;
    for (size_t i = 0; i < reader->verdicts.n_segments; i++)
        any = any || reader->verdicts.segments[i].any_bad;
    if (!any) return LR_OK;
    for (size_t i = reader->shown_first; i < reader->shown_end; i++) {
        if (!is_bad(reader, i)) continue;
        size_t end = i + 1;
        while (end < reader->shown_end && is_bad(reader, end)) end++;
        LR_TRY(report(reader, i, end, err));
        i = end;
    }
done:
    return st;
}

/* Examines the segments of all packets that can have raised an error since the last look: a codec
 * with n threads has at most n packets under way. */
static lr_status look_for_errors(lr_frame_reader *reader, const AVFrame *frame, lr_error *err)
{
    lr_status st = LR_OK;
    lri_decoder *decoder = &reader->decoder;
    if (frame && lri_frame_is_marked(frame))
        LR_TRY(lri_verdicts_examine(&reader->verdicts, (size_t)frame->pts, err));
    if (!lri_decoder_is_suspect(decoder)) return LR_OK;
    decoder->faults = 0;
    atomic_store(&decoder->watch.errors, 0);
    size_t under_way = (size_t)decoder->threads + 1;
    size_t first = decoder->next > under_way ? decoder->next - under_way : 0;
    if (first < decoder->began) first = decoder->began;
    for (size_t i = first; i < decoder->next; i++)
        LR_TRY(lri_verdicts_examine(&reader->verdicts, i, err));
done:
    return st;
}

/* ------------------------------------------------------------------ fetching */

static lr_status begin(lr_frame_reader *reader, size_t entry, lr_error *err)
{
    reader->running = false;
    lr_status st = lri_decoder_begin(&reader->decoder, entry, err);
    if (st != LR_OK) return st;
    reader->running = true;
    reader->latest_pts = INT64_MIN;
    return LR_OK;
}

/* Packets that are sooner decoded for nothing than jumped over with an empty pipeline of threads. */
static size_t nearby(const lr_frame_reader *reader)
{
    return (size_t)reader->decoder.threads + 2;
}

/* Where the decoder has to be for this picture: it goes on where it can. */
static lr_status prepare(lr_frame_reader *reader, size_t ordinal, lr_error *err)
{
    const lri_video_index *video = &reader->recording->video;
    size_t entry = lri_entry_of(video, ordinal);
    bool passed = video->packets[ordinal].pts <= reader->latest_pts;
    bool skips = entry > reader->decoder.next + nearby(reader) &&
                 !reader->recording->options.every_picture;
    if (reader->running && !reader->decoder.ended && !passed && reader->decoder.began <= entry &&
        !skips)
        return LR_OK;
    /* Behind a jump back everything is decoded again, so nothing is left unseen in between. */
    return begin(reader, entry, err);
}

/* Past the last packet to feed for a picture: draining is quicker than going on when the next picture
 * wanted lies behind another entry. */
static size_t feed_limit(const lr_frame_reader *reader, size_t ordinal)
{
    const lr_recording *recording = reader->recording;
    const lri_video_index *video = &recording->video;
    if (recording->options.every_picture) return video->n_packets;
    size_t wanted = ordinal;
    if (reader->next + 1 < reader->end)
        wanted = video->shown[lri_grid_shown(recording, reader->next + 1)];
    if (wanted != ordinal && lri_entry_of(video, wanted) <= ordinal + nearby(reader))
        return video->n_packets;
    /* The second field of a picture may be a packet of its own. */
    return ordinal + (recording->timeline.video.interlaced ? 2 : 1);
}

/* *got false: the picture does not come out of the running decoder. */
static lr_status fetch(lr_frame_reader *reader, size_t ordinal, bool *got, lr_error *err)
{
    lr_status st = LR_OK;
    lri_decoder *decoder = &reader->decoder;
    const lri_video_index *video = &reader->recording->video;
    size_t delay = MOST_DELAY + (size_t)decoder->threads;
    LR_TRY(prepare(reader, ordinal, err));
    size_t limit = feed_limit(reader, ordinal);
    for (;;) {
        LR_TRY(lri_decoder_next(decoder, limit, got, err));
        LR_TRY(look_for_errors(reader, *got ? decoder->frame : NULL, err));
        if (!*got) {
            reader->running = false;
            goto done;
        }
        size_t came = (size_t)decoder->frame->pts;
        if (video->packets[came].pts > reader->latest_pts)
            reader->latest_pts = video->packets[came].pts;
        if (came == ordinal) goto done;
        if (decoder->next > ordinal + delay) {
            *got = false;
            goto done;
        }
    }
done:
    return st;
}

static lr_status convert(lr_frame_reader *reader, const AVFrame *frame, lr_error *err)
{
    size_t ordinal = (size_t)frame->pts;
    reader->held = NO_PICTURE;
    lr_status st = lri_convert(&reader->converter, reader->recording, frame, reader->rgb,
                               reader->stride, err);
    if (st == LR_OK) reader->held = ordinal;
    return st;
}

/* With the one thread that found the picture clean. */
static lr_status fetch_alone(lr_frame_reader *reader, size_t ordinal, bool *got, lr_error *err)
{
    lr_status st = LR_OK;
    lri_decoder *checker;
    LR_TRY(lri_verdicts_checker(&reader->verdicts, &checker, err));
    LR_TRY(lri_decoder_begin(checker, lri_entry_of(&reader->recording->video, ordinal), err));
    for (;;) {
        LR_TRY(lri_decoder_next(checker, ordinal + MOST_DELAY, got, err));
        if (!*got) break;
        if ((size_t)checker->frame->pts != ordinal) continue;
        LR_TRY(convert(reader, checker->frame, err));
        break;
    }
done:
    return st;
}

/* Brings the picture for shown[asked] into rgb; *shown is the one it is. */
static lr_status bring(lr_frame_reader *reader, size_t asked, size_t *shown, lr_error *err)
{
    lr_status st = LR_OK;
    bool got;
    for (;;) {
        LR_TRY(resolve(reader, asked, shown, err));
        if (*shown == NO_PICTURE) {
            memset(reader->rgb, 0, reader->stride * (size_t)reader->recording->timeline.video.height);
            reader->held = NO_PICTURE;
            goto done;
        }
        size_t ordinal = ordinal_of(reader, *shown);
        if (reader->held == ordinal) goto done;
        LR_TRY(fetch(reader, ordinal, &got, err));
        /* On the way something may have turned up against it. */
        if (got && is_clean(reader, *shown)) {
            LR_TRY(convert(reader, reader->decoder.frame, err));
            goto done;
        }
        if (got) continue;
        LR_TRY(lri_verdicts_examine(&reader->verdicts, ordinal, err));
        if (!is_clean(reader, *shown)) continue;
        LR_TRY(fetch_alone(reader, ordinal, &got, err));
        if (got) goto done;
        lri_verdicts_set_absent(&reader->verdicts, ordinal);
    }
done:
    return st;
}

/* Decodes what is left of the reader's share, only to know its damage. */
static lr_status finish(lr_frame_reader *reader, lr_error *err)
{
    lr_status st = LR_OK;
    const lri_video_index *video = &reader->recording->video;
    reader->finished = true;
    if (!reader->recording->options.every_picture || reader->shown_first == reader->shown_end)
        goto done;
    size_t limit = 0;
    for (size_t i = reader->shown_first; i < reader->shown_end; i++)
        if (video->shown[i] >= limit) limit = (size_t)video->shown[i] + 1;
    if (!reader->running || reader->decoder.ended) goto done;
    for (bool got = true; got;) {
        LR_TRY(lri_decoder_next(&reader->decoder, limit, &got, err));
        LR_TRY(look_for_errors(reader, got ? reader->decoder.frame : NULL, err));
    }
done:
    reader->running = false;
    return st == LR_OK ? report_all(reader, err) : st;
}

/* ------------------------------------------------------------------ the public face */

lr_status lr_frame_reader_open(lr_frame_reader **out, const lr_recording *recording, int64_t first,
                               int64_t end, lr_error *err)
{
    *out = NULL;
    lr_status st = LR_OK;
    lr_frame_reader *reader = NULL;
    const lr_video_info *info = &recording->timeline.video;
    if (!recording->timeline.has_video)
        return lr_fail(err, LR_E_USAGE, "%s: has no pictures", recording->path);
    if (first < 0 || end < first || end > info->n_frames)
        return lr_fail(err, LR_E_USAGE, "%s: frames [%lld, %lld) of %lld", recording->path,
                       (long long)first, (long long)end, (long long)info->n_frames);
    LR_TRY(LR_NEW(&reader, 1, "a frame reader", err));
    reader->recording = recording;
    reader->next = first;
    reader->end = end;
    reader->held = NO_PICTURE;
    reader->asked = reader->answered = NO_PICTURE;
    lri_verdicts_init(&reader->verdicts, recording);
    reader->decoder.source.fd = -1;
    reader->shown_first = first == 0 ? 0 : lri_grid_shown(recording, first);
    reader->shown_end =
        end == info->n_frames ? recording->video.n_shown : lri_grid_shown(recording, end);
    reader->stride = lri_rgb_stride(info->width);
    LR_TRY(lr_new_array((void **)&reader->rgb, (size_t)info->height, reader->stride, "a picture",
                        err));
    LR_TRY(lri_decoder_open(&reader->decoder, recording, recording->options.threads, err));
    *out = reader;
done:
    if (st != LR_OK) lr_frame_reader_close(reader);
    return st;
}

lr_status lr_frame_reader_next(lr_frame_reader *reader, lr_frame *frame, bool *got, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_recording *recording = reader->recording;
    const lr_video_info *info = &recording->timeline.video;
    *got = false;
    LR_TRY(lr_cancel_check(recording->options.cancel, err));
    if (reader->next == reader->end) {
        if (!reader->finished) LR_TRY(finish(reader, err));
        goto done;
    }
    size_t asked = lri_grid_shown(recording, reader->next), shown;
    LR_TRY(bring(reader, asked, &shown, err));
    bool bad = is_bad(reader, asked);
    if (bad) LR_TRY(report_around(reader, asked, err));
    *frame = (lr_frame){
        .rgb = reader->rgb,
        .stride = reader->stride,
        .width = info->width,
        .height = info->height,
        .display_width = info->display_width,
        .display_height = info->display_height,
        .index = reader->next,
        .t = lr_recording_grid_time(recording, reader->next),
        .pts = shown_time(reader, shown == NO_PICTURE ? asked : shown),
        .substituted = bad,
    };
    reader->next++;
    *got = true;
done:
    if (st != LR_OK) lr_error_context(err, "frame %lld", (long long)reader->next);
    return st;
}

const lr_damage *lr_frame_reader_damage(const lr_frame_reader *reader, size_t *count)
{
    *count = reader->n_damage;
    return reader->damage;
}

void lr_frame_reader_close(lr_frame_reader *reader)
{
    if (!reader) return;
    lri_decoder_close(&reader->decoder);
    lri_verdicts_free(&reader->verdicts);
    lri_converter_free(&reader->converter);
    lr_free(reader->rgb);
    lr_free(reader->damage);
    lr_free(reader);
}
