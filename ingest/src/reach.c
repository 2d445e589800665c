/* Packets read where the index saw them. A demuxer of a container with a table of all packets holds that table
 * itself, in memory that grows with the recording, once for each reader, and takes its time to be opened. */
#include "recording.h"

#include <string.h>

/* In these a packet is a stretch of the file. */
static bool is_plain(const AVInputFormat *format)
{
    return strncmp(format->name, "mov,", 4) == 0;
}

/* What a container says of a stream besides its parameters; later versions have it in those. */
static int copy_side_data(AVStream *to, const AVStream *from)
{
    int code = 0;
#if LIBAVFORMAT_VERSION_INT < AV_VERSION_INT(60, 15, 100)
    for (int i = 0; i < from->nb_side_data && code >= 0; i++) {
        const AVPacketSideData *side = &from->side_data[i];
        uint8_t *data = av_stream_new_side_data(to, side->type, side->size);
        if (data) memcpy(data, side->data, side->size);
        else code = AVERROR(ENOMEM);
    }
#else
    (void)to;
    (void)from;
#endif
    return code;
}

static lr_status describe(lri_reach *reach, const lri_source *source, const AVStream *stream, lr_error *err)
{
    avformat_free_context(reach->description);
    reach->description = avformat_alloc_context();
    AVStream *made = reach->description ? avformat_new_stream(reach->description, NULL) : NULL;
    if (!made || avcodec_parameters_copy(made->codecpar, stream->codecpar) < 0 || copy_side_data(made, stream) < 0)
        return lr_fail(err, LR_E_NOMEM, "%s: out of memory: the index", source->path);
    made->sample_aspect_ratio = stream->sample_aspect_ratio;
    return LR_OK;
}

lr_status lri_reach_begin(lri_reach *reach, const lri_source *source, const AVStream *stream, lr_error *err)
{
    reach->direct = is_plain(source->format->iformat);
    return reach->direct ? describe(reach, source, stream, err) : LR_OK;
}

/* What comes with a packet besides its bytes; false where that is not kept. */
static bool note_extras(lri_reach *reach, const AVPacket *packet)
{
    if (packet->flags & ~(AV_PKT_FLAG_KEY | AV_PKT_FLAG_DISCARD)) return false;
    if (packet->side_data_elems == 0) return true;
    const AVPacketSideData *side = packet->side_data;
    bool trim = packet->side_data_elems == 1 && side->type == AV_PKT_DATA_SKIP_SAMPLES &&
                side->size == sizeof reach->trims[0].data;
    if (!trim || reach->n_trims == LRI_MOST_TRIMS || reach->places.count > UINT32_MAX) return false;
    reach->trims[reach->n_trims].packet = (uint32_t)reach->places.count;
    memcpy(reach->trims[reach->n_trims++].data, side->data, side->size);
    return true;
}

/* Of sound, whose packets are small, the bytes are compared; pictures have their checks. */
static lr_status is_there(lri_source *source, const AVPacket *packet, const AVStream *stream, bool *there,
                          lr_error *err)
{
    lr_status st = LR_OK;
    uint8_t block[4096];
    int64_t size = packet->size;
    *there = packet->pos >= 0 && packet->pos <= source->bytes - size;
    if (stream->codecpar->codec_type != AVMEDIA_TYPE_AUDIO) return LR_OK;
    for (int64_t at = 0; at < size && *there; at += (int64_t)sizeof block) {
        size_t got, count = size - at < (int64_t)sizeof block ? (size_t)(size - at) : sizeof block;
        LR_TRY(lri_source_pread(source, packet->pos + at, block, count, &got, err));
        *there = got == count && memcmp(block, packet->data + at, count) == 0;
    }
done:
    return st;
}

lr_status lri_reach_add(lri_reach *reach, lri_source *source, const AVPacket *packet, lr_error *err)
{
    lr_status st = LR_OK;
    bool there;
    if (!reach->direct) return LR_OK;
    LR_TRY(is_there(source, packet, source->format->streams[packet->stream_index], &there, err));
    reach->direct = there && note_extras(reach, packet);
    lri_place place = {.at = packet->pos,
                       .size = packet->size,
                       .key = (packet->flags & AV_PKT_FLAG_KEY) != 0,
                       .discard = (packet->flags & AV_PKT_FLAG_DISCARD) != 0};
    if (reach->direct) LR_TRY(lri_places_add(&reach->places, place, err));
    else lri_reach_free(reach);
done:
    return st;
}

lr_status lri_reach_read(const lri_reach *reach, lri_source *source, size_t i, AVPacket *packet, bool *whole,
                         lr_error *err)
{
    lr_status st = lr_cancel_check(source->cancel, err);
    if (st != LR_OK) return st;
    lri_place place = lri_places_get(&reach->places, i);
    av_packet_unref(packet);
    bool made = av_new_packet(packet, place.size) >= 0;
    for (size_t k = 0; k < reach->n_trims && made; k++) {
        if (reach->trims[k].packet != i) continue;
        uint8_t *side = av_packet_new_side_data(packet, AV_PKT_DATA_SKIP_SAMPLES, sizeof reach->trims[k].data);
        made = side != NULL;
        if (made) memcpy(side, reach->trims[k].data, sizeof reach->trims[k].data);
    }
    if (!made) return lr_fail(err, LR_E_NOMEM, "%s: out of memory: a packet", source->path);
    packet->pos = place.at;
    packet->flags = (place.key ? AV_PKT_FLAG_KEY : 0) | (place.discard ? AV_PKT_FLAG_DISCARD : 0);
    size_t got;
    st = lri_source_pread(source, place.at, packet->data, (size_t)place.size, &got, err);
    *whole = st == LR_OK && got == (size_t)place.size;
    return st;
}

lr_status lri_reach_describe(lr_recording *recording, lr_error *err)
{
    lr_status st = LR_OK;
    lri_source source = {.fd = -1};
    struct {
        lri_reach *reach;
        int stream;
    } both[2] = {{&recording->video.reach, recording->video.stream},
                 {&recording->audio.reach, recording->audio.stream}};
    if (!both[0].reach->direct && !both[1].reach->direct) return LR_OK;
    LR_TRY(lri_recording_reopen(recording, &source, true, err));
    for (int i = 0; i < 2; i++) {
        if (!both[i].reach->direct || both[i].stream < 0) continue;
        if (both[i].stream >= (int)source.format->nb_streams)
            LR_FAIL(LR_E_IO, "%s: changed while it was read", recording->path);
        LR_TRY(describe(both[i].reach, &source, source.format->streams[both[i].stream], err));
    }
done:
    lri_source_close(&source);
    return st;
}

void lri_reach_free(lri_reach *reach)
{
    lri_places_free(&reach->places);
    avformat_free_context(reach->description);
    memset(reach, 0, sizeof *reach);
}
