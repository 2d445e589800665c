/* Times of the pictures where the container gives none, and the order in which they are shown. */
#include "recording.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ picture order counts */

/* AVI and plain streams have no pts, PES packets not one for each picture. Where fields are packets, the same parser
 * says which are. */
static bool needs_counts(const lr_recording *recording, const AVStream *stream)
{
    static const char *const stamped[] = {"mov", "matroska", "flv", "asf"};
    enum AVCodecID codec = stream->codecpar->codec_id;
    if (codec != AV_CODEC_ID_H264 && codec != AV_CODEC_ID_HEVC) return false;
    for (size_t i = 0; i < sizeof stamped / sizeof *stamped; i++)
        if (strcmp(recording->timeline.container, stamped[i]) == 0) return lri_may_hold_fields(stream->codecpar);
    return true;
}

static lr_status open_parser(lri_video_index *video, const AVStream *stream, lr_error *err)
{
    video->parser = av_parser_init((int)stream->codecpar->codec_id);
    if (!video->parser) return LR_OK;
    video->parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    video->parser_codec = avcodec_alloc_context3(NULL);
    if (!video->parser_codec ||
        avcodec_parameters_to_context(video->parser_codec, stream->codecpar) < 0)
        return lr_fail(err, LR_E_NOMEM, "out of memory: the index of the pictures");
    return LR_OK;
}

lr_status lri_video_note_order(lr_recording *recording, const AVStream *stream,
                               const AVPacket *packet, lr_error *err)
{
    lri_video_index *video = &recording->video;
    lr_status st = LR_OK;
    if (video->n_packets == 1 && needs_counts(recording, stream))
        LR_TRY(open_parser(video, stream, err));
    if (!video->parser) return LR_OK;
    LR_TRY(LR_GROW(&video->poc, &video->poc_capacity, video->n_packets, "the order of the pictures",
                   err));
    uint8_t *out;
    int out_size;
    (void)av_parser_parse2(video->parser, video->parser_codec, &out, &out_size, packet->data,
                           packet->size, packet->pts, packet->dts, packet->pos);
    video->poc[video->n_packets - 1] = video->parser->output_picture_number;
    /* Two fields in two packets are one picture, which goes by the first of them. */
    enum AVPictureStructure structure = video->parser->picture_structure;
    bool field = structure == AV_PICTURE_STRUCTURE_TOP_FIELD ||
                 structure == AV_PICTURE_STRUCTURE_BOTTOM_FIELD;
    bool second = field && video->first_field != AV_PICTURE_STRUCTURE_UNKNOWN &&
                  video->first_field != structure;
    if (second) {
        lri_packet *packet_of_two = &video->packets[video->n_packets - 1];
        packet_of_two->flags = (uint16_t)((packet_of_two->flags & ~LRI_SHOWN) | LRI_SECOND);
    }
    video->first_field = field && !second ? structure : AV_PICTURE_STRUCTURE_UNKNOWN;
done:
    return st;
}

static void close_parser(lri_video_index *video)
{
    if (video->parser) av_parser_close(video->parser);
    video->parser = NULL;
    avcodec_free_context(&video->parser_codec);
    lr_free(video->poc);
    video->poc = NULL;
}

void lri_video_index_free(lri_video_index *video)
{
    close_parser(video);
    lr_free(video->packets);
    lr_free(video->made_shown);
    lr_free(video->made_entry);
    lr_free(video->flags);
    lr_free(video->checks);
    lri_numbers_free(&video->pts);
    lri_numbers_free(&video->seek);
    lri_numbers_free(&video->shown);
    lri_numbers_free(&video->entry);
    lri_reach_free(&video->reach);
    lr_free(video->places);
    lr_free(video->numbers);
    lr_free(video->holes);
    lri_headers_free(&video->headers);
    memset(video, 0, sizeof *video);
    video->stream = -1;
}

typedef struct ordered_picture {
    int64_t key; /* pts or picture order count */
    uint32_t ordinal;
} ordered_picture;

static int by_key(const void *a, const void *b)
{
    const ordered_picture *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->ordinal < y->ordinal ? -1 : x->ordinal > y->ordinal;
}

static bool is_unstamped(const lri_video_index *video, const ordered_picture *picture)
{
    return (video->packets[picture->ordinal].flags & LRI_NO_PTS) != 0;
}

/* Pictures in the order they are shown, some with a pts: those between two of them are spread evenly,
 * others follow at the usual distance. */
static void stamp_between(lri_video_index *video, const ordered_picture *pictures, size_t count)
{
    int64_t step = video->typical > 0 ? video->typical : 1;
    for (size_t i = 0; i < count;) {
        if (!is_unstamped(video, &pictures[i])) {
            i++;
            continue;
        }
        size_t next = i;
        while (next < count && is_unstamped(video, &pictures[next])) next++;
        lri_wide parts = (lri_wide)(next - i + 1);
        lri_wide after = next < count ? video->packets[pictures[next].ordinal].pts : 0;
        lri_wide before = i > 0 ? video->packets[pictures[i - 1].ordinal].pts : after - step * parts;
        if (next == count) after = before + step * parts;
        for (size_t k = i; k < next; k++)
            video->packets[pictures[k].ordinal].pts = lri_saturate(
                before + lri_floor_div((after - before) * (lri_wide)(k - i + 1), parts));
        i = next;
    }
}

/* Packets [first, end), between two resets of the count. Where the container stamps none, the n-th
 * picture shown takes the n-th stamp of decoding: the true order at the true rate. */
static lr_status order_by_count(lri_video_index *video, size_t first, size_t end, lr_error *err)
{
    ordered_picture *pictures = NULL;
    lr_status st = LR_OK;
    size_t n_unstamped = 0, count = end - first;
    for (size_t i = first; i < end; i++) n_unstamped += (video->packets[i].flags & LRI_NO_PTS) != 0;
    if (n_unstamped == 0) return LR_OK;
    LR_TRY(LR_NEW(&pictures, count, "the order of the pictures", err));
    for (size_t i = 0; i < count; i++)
        pictures[i] = (ordered_picture){video->poc[first + i], (uint32_t)(first + i)};
    qsort(pictures, count, sizeof *pictures, by_key);
    if (n_unstamped < count) stamp_between(video, pictures, count);
    else
        for (size_t i = 0; i < count; i++)
            video->packets[pictures[i].ordinal].pts = video->packets[first + i].seek;
done:
    lr_free(pictures);
    return st;
}

static lr_status order_by_counts(lri_video_index *video, lr_error *err)
{
    lr_status st = LR_OK;
    for (size_t first = 0, end; first < video->n_packets; first = end) {
        end = first + 1;
        while (end < video->n_packets && !(video->packets[end].flags & LRI_CLOSED)) end++;
        LR_TRY(order_by_count(video, first, end, err));
    }
done:
    return st;
}

/* ------------------------------------------------------------------ stamps of decoding only */

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
    if (waiting) waiting->pts = lri_saturate((lri_wide)last + (video->typical > 0 ? video->typical : 1));
}

static bool holds_b(const lri_video_index *video)
{
    for (size_t i = 0; i < video->n_packets; i++)
        if (video->packets[i].flags & LRI_B) return true;
    return false;
}

/* Nothing but an order: stamps of decoding where there are some, else one typical step each. */
static lr_status fill_missing(lri_video_index *video, lr_error *err)
{
    lr_status st = LR_OK;
    bool delayed = holds_b(video);
    int64_t step = video->typical > 0 ? video->typical : 1, next = 0;
    for (size_t i = 0; i < video->n_packets; i++) {
        lri_packet *packet = &video->packets[i];
        if (packet->seek == AV_NOPTS_VALUE) packet->seek = next;
        if (__builtin_add_overflow(packet->seek, step, &next)) next = packet->seek;
    }
    if (video->poc) st = order_by_counts(video, err);
    else if (delayed) order_with_one_delay(video);
    for (size_t i = 0; i < video->n_packets; i++) {
        lri_packet *packet = &video->packets[i];
        if (!delayed && !video->poc && (packet->flags & LRI_NO_PTS)) packet->pts = packet->seek;
        packet->flags &= (uint16_t)~LRI_NO_PTS;
    }
    return st;
}

/* ------------------------------------------------------------------ what is shown */

/* Pictures before the first entry, and those shown before an open one, cannot be decoded. */
static void hide_undecodable(lri_video_index *video)
{
    size_t first = 0;
    while (first < video->n_packets && !(video->packets[first].flags & (LRI_OPEN | LRI_CLOSED)))
        first++;
    if (first == video->n_packets) {
        video->packets[0].flags |= LRI_OPEN;
        video->n_entries = 1;
        return;
    }
    for (size_t i = 0; i < first; i++) video->packets[i].flags &= (uint16_t)~LRI_SHOWN;
    if (video->packets[first].flags & LRI_CLOSED) return;
    for (size_t i = first + 1; i < video->n_packets; i++) {
        lri_packet *packet = &video->packets[i];
        if (packet->flags & (LRI_OPEN | LRI_CLOSED)) break;
        if (packet->pts < video->packets[first].pts) packet->flags &= (uint16_t)~LRI_SHOWN;
    }
}

static lr_status sort_shown(lri_video_index *video, lr_error *err)
{
    size_t n = 0;
    ordered_picture *sorted = NULL;
    for (size_t i = 0; i < video->n_packets; i++) n += video->packets[i].flags & LRI_SHOWN;
    lr_status st = LR_OK;
    LR_TRY(LR_NEW(&sorted, n, "the order of the pictures", err));
    LR_TRY(LR_NEW(&video->made_shown, n, "the order of the pictures", err));
    n = 0;
    for (size_t i = 0; i < video->n_packets; i++)
        if (video->packets[i].flags & LRI_SHOWN)
            sorted[n++] = (ordered_picture){video->packets[i].pts, (uint32_t)i};
    qsort(sorted, n, sizeof *sorted, by_key);
    for (size_t i = 0; i < n; i++) video->made_shown[i] = sorted[i].ordinal;
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
        lri_wide ticks = (lri_wide)video->packets[video->made_shown[n]].pts - video->first_pts;
        lri_wide left = ticks * video->time_base.num * rate.num;
        lri_wide right = (lri_wide)n * rate.den * video->time_base.den;
        lri_wide tick = (lri_wide)video->time_base.num * rate.num;
        if (left - right > tick || right - left > tick) return false;
    }
    return true;
}

/* Where no duration is known, a picture's second field lasts as long as the first. */
static void end_with_second_field(lri_video_index *video, size_t last)
{
    int64_t length, end;
    if (last + 1 >= video->n_packets || !(video->packets[last + 1].flags & LRI_SECOND)) return;
    int64_t pts = video->packets[last + 1].pts;
    if (video->last_end > video->packets[last].pts) return;
    if (__builtin_sub_overflow(pts, video->packets[last].pts, &length) || length <= 0) return;
    if (!__builtin_add_overflow(pts, length, &end)) video->last_end = end;
}

static void find_end(lri_video_index *video, const AVStream *stream)
{
    size_t n = video->n_shown;
    int64_t last = video->packets[video->made_shown[n - 1]].pts;
    video->first_pts = video->packets[video->made_shown[0]].pts;
    end_with_second_field(video, video->made_shown[n - 1]);
    if (video->last_end <= last) {
        /* No duration known: as long as the picture before, or as the stated rate has it. */
        int64_t step = video->typical;
        AVRational rate = stream->avg_frame_rate.num > 0 ? stream->avg_frame_rate
                                                         : stream->r_frame_rate;
        if (step <= 0 && n > 1)
            step = lri_saturate((lri_wide)last - video->packets[video->made_shown[n - 2]].pts);
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
    lr_status st = LR_OK;
    if (missing) LR_TRY(fill_missing(video, err));
    LR_TRY(lri_video_find_missing(video, err));
    lr_free(video->numbers);
    video->numbers = NULL;
    close_parser(video);
    hide_undecodable(video);
    LR_TRY(sort_shown(video, err));
    if (video->n_shown > 0) find_end(video, stream);
    LR_TRY(lri_video_find_entries(video, err));
done:
    return st;
}
