/* Where the pictures of a film may change their size or format: what its packets say of that, as a hash. */
#include <string.h>

#include <xxhash.h>

#include "bitstream.h"

static uint64_t hash_of(const uint8_t *data, size_t size, uint64_t seed)
{
    uint64_t hash = XXH3_64bits_withSeed(data, size, seed);
    return hash ? hash : 1;
}

/* The bytes from `at` on that are there, `count` at most. */
static uint64_t hash_some(const uint8_t *at, const uint8_t *end, size_t count, uint64_t seed)
{
    size_t left = (size_t)(end - at);
    return hash_of(at, left < count ? left : count, seed);
}

/* Sequence parameter sets. */
static uint64_t shape_of_nals(const AVCodecParameters *p, const uint8_t *data, size_t size)
{
    lri_nal_walk walk = lri_walk_nals(p, data, size);
    const uint8_t *nal;
    size_t length;
    uint64_t hash = 0;
    while (lri_next_nal(&walk, &nal, &length)) {
        bool h264 = p->codec_id == AV_CODEC_ID_H264;
        unsigned type = h264 ? nal[0] & 31u : (nal[0] >> 1) & 63u;
        if (type == (h264 ? 7 : 33)) hash = hash_of(nal, length, hash);
        /* They stand before the slices. */
        if (h264 ? type == 1 || type == 5 : type < 32) break;
    }
    return hash;
}

/* MPEG-1, -2: the sequence header's size and its extension's format. MPEG-4: the video object layer. */
static uint64_t shape_of_mpeg(enum AVCodecID codec, const uint8_t *data, size_t size)
{
    const uint8_t *end = data + size;
    uint64_t hash = 0;
    for (const uint8_t *at = lri_find_start_code(data, end); end - at >= 8;
         at = lri_find_start_code(at + 3, end)) {
        bool layer = codec == AV_CODEC_ID_MPEG4 && at[3] >= 0x20 && at[3] <= 0x2F;
        bool header = codec != AV_CODEC_ID_MPEG4 && (at[3] == 0xB3 || (at[3] == 0xB5 && at[4] >> 4 == 1));
        const uint8_t *next = lri_find_start_code(at + 4, end);
        if (layer) hash = hash_of(at, (size_t)(next - at), hash);
        if (header) hash = hash_some(at, next, 7, hash);
        if (at[3] == (codec == AV_CODEC_ID_MPEG4 ? 0xB6 : 0x00)) break; /* a picture */
    }
    return hash;
}

/* RFC 6386, 9.1. */
static uint64_t shape_of_vp8(const uint8_t *data, size_t size)
{
    return size >= 10 && !(data[0] & 1) ? hash_of(data + 6, 4, 0) : 0;
}

/* The uncompressed header of a key picture. */
static uint64_t shape_of_vp9(const uint8_t *data, size_t size)
{
    static const uint8_t sync[3] = {0x49, 0x83, 0x42};
    if (size < 10) return 0;
    unsigned profile = (data[0] >> 5 & 1u) | (data[0] >> 3 & 2u);
    bool key = profile < 3 && !(data[0] >> 3 & 1) && !(data[0] >> 2 & 1) && memcmp(data + 1, sync, 3) == 0;
    if (!key) return 0;
    /* Colour of 4, 7 or 5 bits, then 16 each of width and height. */
    static const uint8_t last[3] = {0xF0, 0xFE, 0xF8};
    uint8_t head[6] = {(uint8_t)profile};
    memcpy(head + 1, data + 4, 5);
    head[5] &= last[profile];
    return hash_of(head, sizeof head, 0);
}

/* AV1: sequence header units (5.5), in the order of the temporal unit. */
static uint64_t shape_of_av1(const uint8_t *data, size_t size)
{
    size_t at = 0;
    while (at < size) {
        unsigned type = data[at] >> 3 & 15u;
        bool extended = data[at] >> 2 & 1, sized = data[at] >> 1 & 1;
        uint64_t length = 0;
        at += extended ? 2 : 1;
        if (!sized) return 0;
        for (unsigned shift = 0; at < size && shift < 56; shift += 7) {
            length |= (uint64_t)(data[at] & 0x7F) << shift;
            if (!(data[at++] & 0x80)) break;
        }
        if (at > size || length > size - at) return 0;
        if (type == 1) return hash_of(data + at, (size_t)length, 0);
        at += (size_t)length;
    }
    return 0;
}

/* JPEG: the frame header, SOF0 to SOF3. */
static uint64_t shape_of_jpeg(const uint8_t *data, size_t size)
{
    for (size_t at = 2; at + 9 < size && data[at] == 0xFF;) {
        unsigned length = (unsigned)data[at + 2] << 8 | data[at + 3];
        if (data[at + 1] >= 0xC0 && data[at + 1] <= 0xC3)
            return hash_some(data + at + 4, data + size, length > 2 ? length - 2 : 0, 0);
        at += 2 + (size_t)length;
    }
    return 0;
}

uint64_t lri_shape_of(const AVCodecParameters *parameters, const AVPacket *packet)
{
    size_t size = 0;
    const uint8_t *extra = av_packet_get_side_data(packet, AV_PKT_DATA_NEW_EXTRADATA, &size);
    if (extra && size > 0) return hash_of(extra, size, 2);
    const uint8_t *data = packet->data;
    size = (size_t)packet->size;
    switch (parameters->codec_id) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_HEVC: return shape_of_nals(parameters, data, size);
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_MPEG4: return shape_of_mpeg(parameters->codec_id, data, size);
    case AV_CODEC_ID_VP8: return shape_of_vp8(data, size);
    case AV_CODEC_ID_VP9: return shape_of_vp9(data, size);
    case AV_CODEC_ID_AV1: return shape_of_av1(data, size);
    case AV_CODEC_ID_MJPEG: return shape_of_jpeg(data, size);
    /* The frame header behind the frame's size and name. */
    case AV_CODEC_ID_PRORES: return size >= 20 ? hash_of(data + 16, 4, 0) : 0;
    case AV_CODEC_ID_PNG: return size >= 26 ? hash_of(data + 16, 10, 0) : 0;
    default: return 0;
    }
}
