#include "stream.h"

#include <string.h>

lr_status lri_stream_open(lri_stream *stream, const lr_recording *recording, int threads,
                          const uint8_t *keep, lr_error *err)
{
    memset(stream, 0, sizeof *stream);
    stream->recording = recording;
    stream->decoder.source.fd = -1;
    lri_verdicts_init(&stream->verdicts, recording);
    for (size_t i = 0; i < LRI_QUEUE; i++) {
        stream->queue[i] = av_frame_alloc();
        if (!stream->queue[i])
            return lr_fail(err, LR_E_NOMEM, "%s: out of memory: a queue of pictures",
                           recording->path);
    }
    lr_status st = lri_decoder_open(&stream->decoder, recording, threads, err);
    if (st == LR_OK) st = lri_decoder_allow_hardware(&stream->decoder, err);
    stream->decoder.keep = keep;
    stream->decoder.avoid = lri_verdicts_avoid;
    stream->decoder.avoid_arg = &stream->verdicts;
    return st;
}

void lri_stream_close(lri_stream *stream)
{
    lri_decoder_close(&stream->decoder);
    lri_verdicts_free(&stream->verdicts);
    for (size_t i = 0; i < LRI_QUEUE; i++) av_frame_free(&stream->queue[i]);
    memset(stream, 0, sizeof *stream);
}

/* ------------------------------------------------------------------ queue */

static int64_t pts_of(const lri_stream *stream, size_t ordinal)
{
    return lri_pts(&stream->recording->video, ordinal);
}

static const AVFrame *find_queued(const lri_stream *stream, size_t ordinal)
{
    for (size_t i = 0; i < stream->queued; i++)
        if ((size_t)stream->queue[i]->pts == ordinal) return stream->queue[i];
    return NULL;
}

/* Drops queue[at]; the frame object goes to the end for reuse. */
static void drop(lri_stream *stream, size_t at)
{
    AVFrame *frame = stream->queue[at];
    int64_t pts = pts_of(stream, (size_t)frame->pts);
    if (pts > stream->given_pts) stream->given_pts = pts;
    av_frame_unref(frame);
    memmove(&stream->queue[at], &stream->queue[at + 1],
            (stream->queued - at - 1) * sizeof *stream->queue);
    stream->queue[--stream->queued] = frame;
}

/* What is shown before a picture is not asked for any more. */
static void drop_before(lri_stream *stream, size_t ordinal)
{
    for (size_t i = stream->queued; i-- > 0;)
        if (pts_of(stream, (size_t)stream->queue[i]->pts) < pts_of(stream, ordinal)) drop(stream, i);
}

/* ------------------------------------------------------------------ errors */

/* The segment of a packet, and that of the pictures which lead it: they need it, too. */
static lr_status examine(lri_stream *stream, size_t ordinal, lr_error *err)
{
    const lri_video_index *video = &stream->recording->video;
    lr_status st = lri_verdicts_examine(&stream->verdicts, ordinal, err);
    if (st == LR_OK && ordinal + 1 < video->n_packets && lri_leads(video, ordinal, ordinal + 1))
        st = lri_verdicts_examine(&stream->verdicts, ordinal + 1, err);
    return st;
}

/* Whether the decoder was over this packet without decoding it, because no grid point shows it. */
static bool is_left_out(lri_stream *stream, size_t ordinal)
{
    size_t also = stream->decoder.also;
    stream->decoder.also = SIZE_MAX;
    bool passes = lri_decoder_passes(&stream->decoder, ordinal);
    stream->decoder.also = also;
    return passes;
}

/* The first of the last packets that went into the codec. */
static size_t first_under_way(lri_stream *stream)
{
    size_t left = (size_t)stream->decoder.threads + 2, i = stream->decoder.next;
    while (left > 0 && i > stream->decoder.began)
        if (!is_left_out(stream, --i)) left--;
    return i;
}

/* Examines the segments of all packets that can have raised an error since the last look, which was
 * one packet ago: a codec with n threads has at most n packets under way. */
static lr_status look_for_errors(lri_stream *stream, lr_error *err)
{
    lr_status st = LR_OK;
    lri_decoder *decoder = &stream->decoder;
    const lri_video_index *video = &stream->recording->video;
    size_t fed = decoder->next - 1;
    if (decoder->next > decoder->began && lri_gap_behind(video, fed)) {
        LR_TRY(examine(stream, fed, err));
        LR_TRY(examine(stream, lri_last_entry(video, fed), err));
    }
    if (!lri_decoder_is_suspect(decoder)) return LR_OK;
    decoder->faults = 0;
    atomic_store(&decoder->watch.errors, 0);
    size_t first = first_under_way(stream);
    /* The segment of one that is astray is another, which only those need to know that show it. */
    for (size_t i = first; i < decoder->next; i++)
        LR_TRY(examine(stream, lri_is_astray(video, i) ? lri_last_entry(video, i) : i, err));
done:
    return st;
}

/* ------------------------------------------------------------------ fetching */

/* Packets that are sooner decoded for nothing than jumped over with an empty pipeline of threads. */
static size_t nearby(const lri_stream *stream)
{
    return stream->never_jumps ? SIZE_MAX / 2 : (size_t)stream->decoder.threads + 2;
}

static lr_status begin(lri_stream *stream, size_t entry, lr_error *err)
{
    stream->running = false;
    while (stream->queued > 0) drop(stream, stream->queued - 1);
    lr_status st = lri_decoder_begin(&stream->decoder, entry, err);
    if (st != LR_OK) return st;
    stream->running = true;
    stream->given_pts = INT64_MIN;
    return LR_OK;
}

/* A codec that has met damage may decode what follows in another way than a new one (headers inside the
 * stream set it up wrongly). So behind a bad segment it is a new one that goes on: at its entry, or from
 * there again where errors were noticed late. */
static lr_status stay_pure(lri_stream *stream, lr_error *err)
{
    lri_decoder *decoder = &stream->decoder;
    size_t from = lri_verdicts_pure_from(&stream->verdicts, decoder->began, decoder->next);
    /* One renewal after the other: this is asked again after each packet. */
    if (from == 0 || decoder->renew_at == from || decoder->renew_end != SIZE_MAX) return LR_OK;
    decoder->stale = true;
    if (decoder->next > from && from < stream->recording->video.n_packets)
        return begin(stream, from, err);
    decoder->renew_at = from;
    return LR_OK;
}

/* What the codec made of a damaged packet that other readers pass over must not reach the pictures behind it:
 * decoding begins again, without that packet. `wanted` is the picture that is being fetched. */
static lr_status stay_untainted(lri_stream *stream, size_t wanted, lr_error *err)
{
    lri_decoder *decoder = &stream->decoder;
    size_t entry, from = lri_entry_of(&stream->recording->video, wanted);
    if (!lri_verdicts_find_taint(&stream->verdicts, decoder->began, decoder->next, &entry) || !stream->running)
        return LR_OK;
    decoder->stale = true;
    return begin(stream, entry < from ? entry : from, err);
}

/* Where the decoder has to be for this picture: it goes on where it can. */
static lr_status prepare(lri_stream *stream, size_t ordinal, lr_error *err)
{
    const lri_video_index *video = &stream->recording->video;
    size_t entry = lri_entry_of(video, ordinal);
    stream->decoder.also = ordinal;
    lr_status st = stay_untainted(stream, ordinal, err);
    if (st != LR_OK) return st;
    size_t from = stream->running
                      ? lri_verdicts_pure_from(&stream->verdicts, stream->decoder.began, entry)
                      : 0;
    if (from > 0) {
        stream->decoder.stale = true;
        return begin(stream, stream->recording->options.every_picture ? from : entry, err);
    }
    if (stream->running && find_queued(stream, ordinal)) return LR_OK;
    bool passed = pts_of(stream, ordinal) <= stream->given_pts ||
                  (ordinal < stream->decoder.next && is_left_out(stream, ordinal));
    bool skips = entry > stream->decoder.next + nearby(stream) &&
                 !stream->recording->options.every_picture;
    if (stream->running && !stream->decoder.ended && !passed && stream->decoder.began <= entry &&
        !skips)
        return LR_OK;
    /* Behind a jump back everything is decoded again, so nothing is left unseen in between. */
    return begin(stream, entry, err);
}

/* Past the packets of a picture: its second field may be a packet of its own. */
static size_t past(const lri_stream *stream, size_t ordinal)
{
    const lri_video_index *video = &stream->recording->video;
    bool fields = ordinal + 1 < video->n_packets && (lri_flags(video, ordinal + 1) & LRI_SECOND);
    return ordinal + (fields || stream->recording->timeline.video.interlaced ? 2 : 1);
}

/* Past the last packet to feed for a picture: draining is quicker than going on when the next picture
 * wanted lies behind another entry. */
static size_t feed_limit(const lri_stream *stream, size_t ordinal, size_t wanted)
{
    const lri_video_index *video = &stream->recording->video;
    if (stream->recording->options.every_picture) return video->n_packets;
    if (wanted != SIZE_MAX && wanted != ordinal &&
        lri_entry_of(video, wanted) <= ordinal + nearby(stream))
        return video->n_packets;
    return past(stream, ordinal);
}

/* Whether all pictures that this one may refer to have come out and been checked: those before it in
 * the file that are shown behind it. */
static bool is_settled(const lri_stream *stream, size_t ordinal)
{
    const lri_video_index *video = &stream->recording->video;
    size_t first = ordinal > LRI_QUEUE ? ordinal - LRI_QUEUE : 0;
    if (first < stream->decoder.began) first = stream->decoder.began;
    for (size_t i = first; i < ordinal; i++) {
        if ((lri_flags(video, i) & LRI_REFERENCE) && (lri_flags(video, i) & LRI_SHOWN) &&
            lri_pts(video, i) > lri_pts(video, ordinal) && !find_queued(stream, i))
            return false;
    }
    return true;
}

/* The next picture of the codec, checked, to the end of the queue. `wanted` is the one that is being fetched. */
static lr_status pull(lri_stream *stream, size_t limit, size_t wanted, bool *got, lr_error *err)
{
    lr_status st = LR_OK;
    lri_decoder *decoder = &stream->decoder;
    for (*got = false; !*got && !decoder->ended;) {
        LR_TRY(lri_decoder_step(decoder, limit, got, err));
        if (*got && lri_frame_is_suspect(decoder))
            LR_TRY(examine(stream, (size_t)decoder->frame->pts, err));
        LR_TRY(look_for_errors(stream, err));
        /* A picture of the segment behind a bad one is decoded again. */
        size_t came = *got ? lri_entry_of(&stream->recording->video, (size_t)decoder->frame->pts) : 0;
        uint64_t begins = (uint64_t)decoder->work.begins;
        LR_TRY(stay_untainted(stream, wanted, err));
        LR_TRY(stay_pure(stream, err));
        bool again = (uint64_t)decoder->work.begins != begins;
        if (*got && again && came >= decoder->began) *got = false;
    }
    if (!*got) goto done;
    if (stream->queued == LRI_QUEUE) drop(stream, 0);
    av_frame_move_ref(stream->queue[stream->queued++], decoder->frame);
done:
    return st;
}

lr_status lri_stream_fetch(lri_stream *stream, size_t ordinal, size_t wanted, const AVFrame **frame,
                           lr_error *err)
{
    lr_status st = LR_OK;
    lri_decoder *decoder = &stream->decoder;
    *frame = NULL;
    LR_TRY(prepare(stream, ordinal, err));
    drop_before(stream, ordinal);
    size_t limit = feed_limit(stream, ordinal, wanted);
    size_t patience = decoder->fed + LRI_MOST_DELAY + (size_t)decoder->threads;
    for (;;) {
        const AVFrame *found = find_queued(stream, ordinal);
        if (found && is_settled(stream, ordinal)) {
            *frame = found;
            goto done;
        }
        if (decoder->next <= ordinal) patience = decoder->fed + LRI_MOST_DELAY + (size_t)decoder->threads;
        bool got = !decoder->ended && decoder->fed <= patience &&
                   decoder->began <= lri_entry_of(&stream->recording->video, ordinal);
        if (got) LR_TRY(pull(stream, limit, ordinal, &got, err));
        if (!got) {
            /* Nothing more comes; a reference that never came was not shown. */
            *frame = find_queued(stream, ordinal);
            goto done;
        }
        if (!find_queued(stream, ordinal)) drop_before(stream, ordinal);
    }
done:
    return st;
}

lr_status lri_stream_fetch_alone(lri_stream *stream, size_t ordinal, const AVFrame **frame,
                                 lr_error *err)
{
    lr_status st = LR_OK;
    lri_decoder *checker;
    *frame = NULL;
    LR_TRY(lri_verdicts_checker(&stream->verdicts, &checker, err));
    LR_TRY(lri_decoder_begin(checker, lri_entry_of(&stream->recording->video, ordinal), err));
    for (bool got = true; got && !*frame;) {
        LR_TRY(lri_decoder_next(checker, past(stream, ordinal), &got, err));
        if (got && (size_t)checker->frame->pts == ordinal) *frame = checker->frame;
    }
done:
    return st;
}

lr_status lri_stream_begin(lri_stream *stream, size_t entry, lr_error *err)
{
    return begin(stream, entry, err);
}

lr_status lri_stream_finish(lri_stream *stream, size_t end, lr_error *err)
{
    lr_status st = LR_OK;
    if (!stream->running) return LR_OK;
    for (bool got = !stream->decoder.ended; got;) {
        LR_TRY(pull(stream, end, end > 0 ? end - 1 : 0, &got, err));
        while (stream->queued > 0) drop(stream, stream->queued - 1);
    }
done:
    stream->running = false;
    return st;
}
