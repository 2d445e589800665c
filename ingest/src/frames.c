/* The pictures of the grid, in order: the last clean one at or before each point. */
#include <string.h>

#include "convert.h"
#include "fields.h"
#include "frames.h"
#include "hardware.h"
#include "stream.h"
#include "team.h"

#define NO_PICTURE SIZE_MAX

struct lr_frame_reader {
    const lr_recording *recording;
    int64_t next, end;
    size_t shown_first, shown_end; /* the pictures whose damage this reader reports */
    lri_stream stream;
    lri_fields fields;
    lri_converter converter;
    uint8_t *rgb, *own_rgb;
    lri_fresh fresh; /* where rgb comes from; NULL: it is own_rgb */
    void *fresh_arg;
    size_t stride;
    double convert_seconds;
    size_t held;                    /* ordinal of the picture in rgb */
    size_t dark_first, dark_end;    /* shown pictures around the last one in doubt, none of them clean */
    size_t told_first, told_end;    /* those of them whose damage was reported last */
    lr_damage *damage;
    size_t n_damage, damage_capacity;
    size_t gaps_told;               /* shown pictures before it whose known damage is reported */
    bool begun, finished;
    /* Of a reader that was opened for the world. */
    lri_plan plan;
    lri_team *team; /* reads for it */
};

/* ------------------------------------------------------------------ what can be shown */

static size_t ordinal_of(const lr_frame_reader *reader, size_t shown)
{
    return lri_shown(&reader->recording->video, shown);
}

static bool is_clean(const lr_frame_reader *reader, size_t shown)
{
    return !(lri_verdicts_of(&reader->stream.verdicts, ordinal_of(reader, shown)) & (LRI_BAD | LRI_ABSENT));
}

/* What is not clean never becomes so: with an hour of pictures in doubt, each is looked at once and not once
 * for each of the others. */
static void pass_over_dark(const lr_frame_reader *reader, size_t *first, size_t *end)
{
    if (*first < reader->dark_first || *first > reader->dark_end) return;
    *first = reader->dark_first;
    if (*end < reader->dark_end) *end = reader->dark_end;
}

/* The picture that stands for shown[asked]: itself while nothing is known against it, else the last
 * clean one before, else the first clean one after, else NO_PICTURE. Stand-ins are taken only from
 * segments that have been examined, so that every reader finds the same. */
static lr_status resolve(lr_frame_reader *reader, size_t asked, size_t *answer, lr_error *err)
{
    lr_status st = LR_OK;
    size_t first = asked, end = asked + 1, n_shown = reader->recording->video.n_shown;
    *answer = asked;
    if (is_clean(reader, asked)) return LR_OK;
    for (;; first--) {
        pass_over_dark(reader, &first, &end);
        if (first == 0) break;
        LR_TRY(lri_verdicts_examine(&reader->stream.verdicts, ordinal_of(reader, first - 1), err));
        *answer = first - 1;
        if (is_clean(reader, first - 1)) goto done;
    }
    for (; end < n_shown; end++) {
        LR_TRY(lri_verdicts_examine(&reader->stream.verdicts, ordinal_of(reader, end), err));
        *answer = end;
        if (is_clean(reader, end)) goto done;
    }
    *answer = NO_PICTURE;
done:
    reader->dark_first = first;
    reader->dark_end = end;
    return st;
}

/* ------------------------------------------------------------------ damage */

static lr_time shown_time(const lr_frame_reader *reader, size_t shown)
{
    const lr_recording *recording = reader->recording;
    if (shown >= recording->video.n_shown) return recording->timeline.video.end;
    return lri_video_time(recording, lri_pts(&recording->video, ordinal_of(reader, shown)));
}

static bool is_bad(const lr_frame_reader *reader, size_t shown)
{
    return (lri_verdicts_of(&reader->stream.verdicts, ordinal_of(reader, shown)) & LRI_BAD) != 0;
}

static lr_status report(lr_frame_reader *reader, size_t first, size_t end, lr_error *err)
{
    /* Of two pictures with one time stamp the first is never seen. */
    if (shown_time(reader, first) >= shown_time(reader, end)) return LR_OK;
    return lri_damage_add(&reader->damage, &reader->n_damage, &reader->damage_capacity,
                          LR_STREAM_VIDEO, shown_time(reader, first), shown_time(reader, end),
                          "undecodable", err);
}

/* The bad pictures of one segment around shown[at]: the same range whichever of them was wanted. */
static lr_status report_around(lr_frame_reader *reader, size_t at, lr_error *err)
{
    const lri_video_index *video = &reader->recording->video;
    size_t entry = lri_entry_of(video, ordinal_of(reader, at)), first = at, end = at + 1;
    if (at >= reader->told_first && at < reader->told_end) return LR_OK;
    while (first > 0 && is_bad(reader, first - 1) &&
           lri_entry_of(video, ordinal_of(reader, first - 1)) == entry)
        first--;
    while (end < video->n_shown && is_bad(reader, end) &&
           lri_entry_of(video, ordinal_of(reader, end)) == entry)
        end++;
    reader->told_first = first;
    reader->told_end = end;
    return report(reader, first, end, err);
}

/* Every bad picture of the reader's share that has been found. */
static lr_status report_all(lr_frame_reader *reader, lr_error *err)
{
    lr_status st = LR_OK;
    bool any = false;
    for (size_t i = 0; i < reader->stream.verdicts.n_segments; i++)
        any = any || reader->stream.verdicts.segments[i].any_bad;
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

/* ------------------------------------------------------------------ pictures */

/* Memory to write a picture to. */
static lr_status take_fresh(lr_frame_reader *reader, lr_error *err)
{
    reader->held = NO_PICTURE;
    return reader->fresh ? reader->fresh(reader->fresh_arg, &reader->rgb, err) : LR_OK;
}

static lr_status convert(lr_frame_reader *reader, const AVFrame *frame, lr_error *err)
{
    size_t ordinal = (size_t)frame->pts;
    lr_status st = take_fresh(reader, err);
    if (st != LR_OK) return st;
    double start = lri_clock_now();
    st = lri_convert(&reader->converter, reader->recording, frame, reader->rgb, reader->stride, err);
    reader->convert_seconds += lri_clock_now() - start;
    if (st == LR_OK) reader->held = ordinal;
    return st;
}

/* The picture that the next grid point asks for; where there are fields to join, the one before it. */
static size_t wanted_next(const lr_frame_reader *reader)
{
    if (reader->next + 1 >= reader->end) return SIZE_MAX;
    size_t shown = lri_grid_shown(reader->recording, reader->next + 1);
    if (reader->fields.met && lri_fields_want_before(&reader->recording->video, shown)) shown--;
    return ordinal_of(reader, shown);
}

/* The picture shown[shown] as it was coded, valid until the next call; NULL where it is not clean. `wanted`
 * is the one that will be asked for next. */
static lr_status fetch(lr_frame_reader *reader, size_t shown, size_t wanted, const AVFrame **frame,
                       lr_error *err)
{
    lr_status st = LR_OK;
    lri_stream *stream = &reader->stream;
    size_t ordinal = ordinal_of(reader, shown);
    *frame = NULL;
    if (!is_clean(reader, shown)) return LR_OK;
    *frame = lri_fields_find(&reader->fields, ordinal);
    if (*frame) return LR_OK;
    LR_TRY(lri_stream_fetch(stream, ordinal, wanted, frame, err));
    /* On the way something may have turned up against it. */
    if (is_clean(reader, shown) && !*frame) {
        LR_TRY(lri_verdicts_examine(&stream->verdicts, ordinal, err));
        if (is_clean(reader, shown)) LR_TRY(lri_stream_fetch_alone(stream, ordinal, frame, err));
        if (!*frame) lri_verdicts_set_absent(&stream->verdicts, ordinal);
    }
    if (!is_clean(reader, shown)) *frame = NULL;
done:
    return st;
}

/* The same, kept with the fields. */
static lr_status fetch_field(lr_frame_reader *reader, size_t shown, size_t wanted, const AVFrame **frame,
                             lr_error *err)
{
    lr_status st = fetch(reader, shown, wanted, frame, err);
    size_t ordinal = ordinal_of(reader, shown);
    if (st != LR_OK || !*frame || lri_fields_find(&reader->fields, ordinal)) return st;
    st = lri_fields_keep(&reader->fields, *frame, err);
    *frame = lri_fields_find(&reader->fields, ordinal);
    return st;
}

/* The picture shown[shown] whole: of one that has two fields, as bwdif joins them. NULL where it is not clean. */
static lr_status fetch_whole(lr_frame_reader *reader, size_t shown, const AVFrame **frame, lr_error *err)
{
    lr_status st = LR_OK;
    const lri_video_index *video = &reader->recording->video;
    lri_fields *fields = &reader->fields;
    const AVFrame *before = NULL, *after = NULL, *coded;
    size_t ordinal = ordinal_of(reader, shown);
    bool has_after = lri_fields_want_after(video, shown);
    size_t then = has_after ? ordinal_of(reader, shown + 1) : wanted_next(reader);
    if (!fields->met) {
        LR_TRY(fetch(reader, shown, wanted_next(reader), frame, err));
        if (!*frame || !lri_is_interlaced(*frame)) return LR_OK;
        fields->met = true;
        LR_TRY(lri_fields_keep(fields, *frame, err));
    }
    /* In the order in which they are shown, which is that of the decoder. */
    if (lri_fields_want_before(video, shown)) LR_TRY(fetch_field(reader, shown - 1, ordinal, &before, err));
    LR_TRY(fetch_field(reader, shown, then, &coded, err));
    *frame = coded;
    if (!coded || !lri_is_interlaced(coded)) goto done;
    if (has_after) LR_TRY(fetch_field(reader, shown + 1, wanted_next(reader), &after, err));
    /* Decoding on may have turned something up against it. */
    if (is_clean(reader, shown)) LR_TRY(lri_fields_join(fields, before, coded, after, frame, err));
    else *frame = NULL;
done:
    return st;
}

/* Brings the picture for shown[asked] into rgb; *shown is the one it is. */
static lr_status bring(lr_frame_reader *reader, size_t asked, size_t *shown, lr_error *err)
{
    lr_status st = LR_OK;
    for (;;) {
        LR_TRY(resolve(reader, asked, shown, err));
        if (*shown == NO_PICTURE) {
            LR_TRY(take_fresh(reader, err));
            memset(reader->rgb, 0, reader->stride * (size_t)reader->recording->timeline.video.height);
            goto done;
        }
        const AVFrame *frame;
        if (reader->held == ordinal_of(reader, *shown)) goto done;
        LR_TRY(fetch_whole(reader, *shown, &frame, err));
        if (!frame) continue;
        LR_TRY(convert(reader, frame, err));
        goto done;
    }
done:
    return st;
}

static bool has_gap(const lri_video_index *video, size_t entry)
{
    for (size_t i = entry; i < video->n_packets; i++) {
        if (i > entry && lri_is_entry(video, i)) return false;
        if (lri_gap_behind(video, i)) return true;
    }
    return false;
}

/* What the index knows of is looked at and told, whether a grid point shows it or not: up to the picture of the
 * next grid point, with each. Not what else has been met on the way: that depends on threads. */
static lr_status report_gaps(lr_frame_reader *reader, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_recording *recording = reader->recording;
    const lri_video_index *video = &recording->video;
    bool last = reader->next + 1 == reader->end, gap = false;
    size_t end = last ? reader->shown_end : lri_grid_shown(recording, reader->next + 1);
    size_t before = SIZE_MAX, first = SIZE_MAX;
    if (!video->any_gap || recording->options.every_picture) return LR_OK;
    for (; reader->gaps_told < end; reader->gaps_told++) {
        size_t i = reader->gaps_told, ordinal = ordinal_of(reader, i), entry = lri_entry_of(video, ordinal);
        if (entry != before) gap = has_gap(video, entry);
        if (entry != before && gap) LR_TRY(lri_verdicts_examine(&reader->stream.verdicts, ordinal, err));
        before = entry;
        bool bad = gap && is_bad(reader, i);
        if (bad && first == SIZE_MAX) first = i;
        if (bad || first == SIZE_MAX) continue;
        LR_TRY(report(reader, first, i, err));
        first = SIZE_MAX;
    }
    if (first != SIZE_MAX) LR_TRY(report(reader, first, end, err));
done:
    return st;
}

/* Where every picture is to be seen, its share is decoded from its start, whatever is shown. */
static lr_status start(lr_frame_reader *reader, lr_error *err)
{
    reader->begun = true;
    if (!reader->recording->options.every_picture || reader->shown_first == reader->shown_end) return LR_OK;
    size_t entry = lri_entry_of(&reader->recording->video, ordinal_of(reader, reader->shown_first));
    return lri_stream_begin(&reader->stream, entry, err);
}

/* Decodes what is left of the reader's share, only to know its damage. */
static lr_status finish(lr_frame_reader *reader, lr_error *err)
{
    lr_status st = LR_OK;
    const lri_video_index *video = &reader->recording->video;
    size_t end = 0;
    reader->finished = true;
    if (!reader->recording->options.every_picture) return LR_OK;
    size_t began = lri_entry_of(video, ordinal_of(reader, reader->shown_first));
    for (size_t i = reader->shown_first; i < reader->shown_end; i++) {
        size_t ordinal = lri_shown(video, i);
        if (ordinal >= end) end = ordinal + 1;
        /* Time stamps can be so wrong that a picture lies far before its neighbours in the file. */
        if (ordinal < began) LR_TRY(lri_verdicts_examine(&reader->stream.verdicts, ordinal, err));
    }
    LR_TRY(lri_stream_finish(&reader->stream, end, err));
    LR_TRY(report_all(reader, err));
done:
    return st;
}

/* ------------------------------------------------------------------ one reader */

lr_status lri_reader_open(lr_frame_reader **out, const lr_recording *recording, const lri_plan *plan, int threads,
                          lri_fresh fresh, void *fresh_arg, lr_error *err)
{
    *out = NULL;
    lr_status st = LR_OK;
    lr_frame_reader *reader = NULL;
    const lr_video_info *info = &recording->timeline.video;
    LR_TRY(LR_NEW(&reader, 1, "a frame reader", err));
    reader->recording = recording;
    reader->held = NO_PICTURE;
    reader->fields.met = info->interlaced;
    reader->stride = lri_rgb_stride(info->width);
    reader->fresh = fresh;
    reader->fresh_arg = fresh_arg;
    if (!fresh)
        LR_TRY(lr_new_array((void **)&reader->own_rgb, (size_t)info->height, reader->stride, "a picture", err));
    reader->rgb = reader->own_rgb;
    LR_TRY(lri_stream_open(&reader->stream, recording, threads, plan->keep, err));
    reader->stream.never_jumps = plan->way.never_jumps;
    *out = reader;
done:
    if (st != LR_OK) lri_reader_close(reader);
    return st;
}

void lri_reader_aim(lr_frame_reader *reader, int64_t first, int64_t end)
{
    const lr_recording *recording = reader->recording;
    reader->next = first;
    reader->end = end;
    reader->begun = reader->finished = false;
    reader->shown_first = first == 0 ? 0 : lri_grid_shown(recording, first);
    reader->shown_end = end == recording->timeline.video.n_frames ? recording->video.n_shown
                                                                 : lri_grid_shown(recording, end);
    reader->gaps_told = reader->shown_first;
}

lr_status lri_reader_next(lr_frame_reader *reader, lr_frame *frame, bool *got, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_recording *recording = reader->recording;
    const lr_video_info *info = &recording->timeline.video;
    *got = false;
    LR_TRY(lr_cancel_check(recording->options.cancel, err));
    if (!reader->begun) LR_TRY(start(reader, err));
    if (reader->next == reader->end) {
        if (!reader->finished) LR_TRY(finish(reader, err));
        goto done;
    }
    size_t asked = lri_grid_shown(recording, reader->next), shown;
    LR_TRY(bring(reader, asked, &shown, err));
    bool bad = is_bad(reader, asked);
    if (bad) LR_TRY(report_around(reader, asked, err));
    LR_TRY(report_gaps(reader, err));
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

lr_damage *lri_reader_take_damage(lr_frame_reader *reader, size_t *count)
{
    lr_damage *damage = reader->damage;
    *count = reader->n_damage;
    reader->damage = NULL;
    reader->n_damage = reader->damage_capacity = 0;
    return damage;
}

void lri_reader_work(const lr_frame_reader *reader, lri_work *work)
{
    *work = reader->stream.decoder.work;
    if (reader->stream.verdicts.checker_open) lri_work_add(work, &reader->stream.verdicts.checker.work);
    work->convert = reader->convert_seconds;
}

void lri_reader_close(lr_frame_reader *reader)
{
    if (!reader) return;
    lri_stream_close(&reader->stream);
    lri_fields_free(&reader->fields);
    lri_converter_free(&reader->converter);
    lr_free(reader->own_rgb);
    lr_free(reader->damage);
    lr_free(reader);
}

/* ------------------------------------------------------------------ the public face */

lr_status lri_frame_reader_open(lr_frame_reader **out, const lr_recording *recording, int64_t first, int64_t end,
                                const lri_way *wish, lr_error *err)
{
    lr_status st = LR_OK;
    lr_frame_reader *reader = NULL;
    lri_plan plan = {0};
    const lr_video_info *info = &recording->timeline.video;
    *out = NULL;
    if (!recording->timeline.has_video)
        return lr_fail(err, LR_E_USAGE, "%s: has no pictures", recording->path);
    if (first < 0 || end < first || end > info->n_frames)
        return lr_fail(err, LR_E_USAGE, "%s: frames [%lld, %lld) of %lld", recording->path,
                       (long long)first, (long long)end, (long long)info->n_frames);
    if (end > first) LR_TRY(lri_plan_make(&plan, recording, first, end, wish, err));
    /* Where nothing goes on side by side, no thread is made for it. */
    if (end == first || (!wish && (end - first == 1 || recording->options.threads == 1))) {
        plan.way.workers = 1;
        plan.way.threads = recording->options.threads;
        LR_TRY(lri_reader_open(&reader, recording, &plan, plan.way.threads, NULL, NULL, err));
        lri_reader_aim(reader, first, end);
        reader->plan = plan;
        memset(&plan, 0, sizeof plan);
    } else {
        LR_TRY(LR_NEW(&reader, 1, "a frame reader", err));
        reader->recording = recording;
        reader->stream.decoder.source.fd = -1;
        reader->plan.way = plan.way;
        LR_TRY(lri_team_open(&reader->team, recording, &plan, err));
    }
    *out = reader;
    reader = NULL;
done:
    lr_frame_reader_close(reader);
    lri_plan_free(&plan);
    return st;
}

lr_status lr_frame_reader_open(lr_frame_reader **out, const lr_recording *recording, int64_t first,
                               int64_t end, lr_error *err)
{
    return lri_frame_reader_open(out, recording, first, end, NULL, err);
}

lr_status lr_frame_reader_next(lr_frame_reader *reader, lr_frame *frame, bool *got, lr_error *err)
{
    if (!reader->team) return lri_reader_next(reader, frame, got, err);
    return lri_team_next(reader->team, frame, got, &reader->damage, &reader->n_damage, &reader->damage_capacity, err);
}

const lr_damage *lr_frame_reader_damage(const lr_frame_reader *reader, size_t *count)
{
    *count = reader->n_damage;
    return reader->damage;
}

void lr_frame_reader_work(const lr_frame_reader *reader, lr_frame_work *work)
{
    lri_work sum;
    if (reader->team) lri_team_work(reader->team, &sum);
    else lri_reader_work(reader, &sum);
    const lri_way *way = &reader->plan.way;
    *work = (lr_frame_work){
        .read_s = sum.read,
        .decode_s = sum.decode,
        .convert_s = sum.convert,
        .decoded = sum.fed,
        .passed_over = sum.passed,
        .beginnings = sum.begins,
        .decoders = way->workers,
        .threads = way->threads,
        .window = reader->team ? way->window : 1,
        .device = lri_hardware_works(reader->recording) ? reader->recording->hardware->name : "cpu",
    };
}

void lr_frame_reader_close(lr_frame_reader *reader)
{
    if (!reader) return;
    lri_team_close(reader->team);
    lri_plan_free(&reader->plan);
    lri_reader_close(reader);
}
