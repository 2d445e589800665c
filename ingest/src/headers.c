/* What a container hands over once, beside a packet in mid-stream, and a codec keeps from there on: parameter sets
 * (FLV, MP4 with several descriptions), palettes (AVI). A demuxer that has been sent elsewhere hands it over there, or
 * not at all; so readers give the codec what the index saw, where it did. */
#include <string.h>

#include "recording.h"

/* Palettes may change with each picture. */
#define MOST_HEADERS 4096
#define MOST_BYTES ((size_t)8 << 20)

static bool is_kept(enum AVPacketSideDataType type)
{
    return type == AV_PKT_DATA_NEW_EXTRADATA || type == AV_PKT_DATA_PALETTE;
}

/* The last of a type among the first `count`. */
static const lri_header *last_of(const lri_headers *headers, size_t count, int type)
{
    while (count > 0)
        if (headers->list[--count].type == type) return &headers->list[count];
    return NULL;
}

static bool is_new(const lri_headers *headers, const AVCodecParameters *p, const AVPacketSideData *side)
{
    const lri_header *last = last_of(headers, headers->count, (int)side->type);
    if (last) return last->size != side->size || memcmp(headers->bytes + last->at, side->data, side->size) != 0;
    if (side->type != AV_PKT_DATA_NEW_EXTRADATA) return true;
    return p->extradata_size < 0 || (size_t)p->extradata_size != side->size ||
           memcmp(p->extradata, side->data, side->size) != 0;
}

lr_status lri_headers_note(lri_headers *headers, size_t ordinal, const AVCodecParameters *p, const AVPacket *packet,
                           lr_error *err)
{
    lr_status st = LR_OK;
    for (int i = 0; i < packet->side_data_elems && !headers->full; i++) {
        const AVPacketSideData *side = &packet->side_data[i];
        if (!is_kept(side->type) || side->size == 0 || !is_new(headers, p, side)) continue;
        headers->full = headers->count == MOST_HEADERS || side->size > MOST_BYTES - headers->n_bytes;
        if (headers->full) break;
        LR_TRY(LR_GROW(&headers->list, &headers->capacity, headers->count + 1, "the index of the pictures", err));
        LR_TRY(LR_GROW(&headers->bytes, &headers->bytes_capacity, headers->n_bytes + side->size,
                       "the index of the pictures", err));
        headers->list[headers->count++] = (lri_header){(uint32_t)ordinal, (int32_t)side->type,
                                                       (uint32_t)headers->n_bytes, (uint32_t)side->size};
        memcpy(headers->bytes + headers->n_bytes, side->data, side->size);
        headers->n_bytes += side->size;
    }
done:
    return st;
}

size_t lri_headers_until(const lri_headers *headers, size_t ordinal)
{
    size_t low = 0, high = headers->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (headers->list[middle].packet <= ordinal) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void strip(AVPacket *packet)
{
    int n = 0;
    for (int i = 0; i < packet->side_data_elems; i++) {
        if (is_kept(packet->side_data[i].type)) av_freep(&packet->side_data[i].data);
        else packet->side_data[n++] = packet->side_data[i];
    }
    packet->side_data_elems = n;
}

int lri_headers_put(const lri_headers *headers, size_t from, size_t to, AVPacket *packet)
{
    static const enum AVPacketSideDataType types[] = {AV_PKT_DATA_NEW_EXTRADATA, AV_PKT_DATA_PALETTE};
    if (headers->full) return 0;
    strip(packet);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const lri_header *last = last_of(headers, to, (int)types[i]);
        if (!last || last < headers->list + from) continue;
        uint8_t *data = av_packet_new_side_data(packet, types[i], last->size);
        if (!data) return AVERROR(ENOMEM);
        memcpy(data, headers->bytes + last->at, last->size);
    }
    return 0;
}

void lri_headers_free(lri_headers *headers)
{
    lr_free(headers->list);
    lr_free(headers->bytes);
    memset(headers, 0, sizeof *headers);
}
