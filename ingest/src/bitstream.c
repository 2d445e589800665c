#include "bitstream.h"

#include <string.h>

/* ------------------------------------------------------------------ bits */

typedef struct bits {
    const uint8_t *data;
    size_t n_bits, at;
} bits;

/* Reading past the end gives zeros. */
static unsigned take(bits *b, unsigned count)
{
    unsigned value = 0;
    for (; count > 0; count--, b->at++) {
        unsigned bit = b->at < b->n_bits ? ((unsigned)b->data[b->at / 8] >> (7 - b->at % 8)) & 1u : 0u;
        value = value << 1 | bit;
    }
    return value;
}

/* Exp-Golomb, H.264 9.1. */
static unsigned take_ue(bits *b)
{
    unsigned zeros = 0;
    while (zeros < 31 && b->at < b->n_bits && take(b, 1) == 0) zeros++;
    return (1u << zeros) - 1 + take(b, zeros);
}

/* ------------------------------------------------------------------ NAL units */

const uint8_t *lri_find_start_code(const uint8_t *at, const uint8_t *end)
{
    for (; end - at >= 3; at++)
        if (at[0] == 0 && at[1] == 0 && at[2] == 1) return at;
    return end;
}

lri_nal_walk lri_walk_nals(const AVCodecParameters *p, const uint8_t *data, size_t size)
{
    lri_nal_walk walk = {data, data + size, 0};
    bool h264 = p->codec_id == AV_CODEC_ID_H264;
    int fixed = h264 ? 7 : 23;
    if (p->extradata && p->extradata_size >= fixed && p->extradata[0] == 1)
        walk.length_bytes = (p->extradata[h264 ? 4 : 21] & 3u) + 1;
    return walk;
}

bool lri_next_nal(lri_nal_walk *walk, const uint8_t **nal, size_t *size)
{
    if (walk->length_bytes) {
        if ((size_t)(walk->end - walk->at) <= walk->length_bytes) return false;
        size_t length = 0;
        for (unsigned i = 0; i < walk->length_bytes; i++) length = length << 8 | *walk->at++;
        if (length == 0 || length > (size_t)(walk->end - walk->at)) return false;
        *nal = walk->at;
        *size = length;
        walk->at += length;
        return true;
    }
    const uint8_t *start = lri_find_start_code(walk->at, walk->end);
    if (walk->end - start <= 3) return false;
    *nal = start + 3;
    walk->at = lri_find_start_code(*nal, walk->end);
    *size = (size_t)(walk->at - *nal);
    return *size > 0;
}

/* Removes the emulation prevention bytes (00 00 03); returns the number of bytes written. */
static size_t unescape(uint8_t *to, size_t room, const uint8_t *from, size_t size)
{
    size_t n = 0;
    int zeros = 0;
    for (size_t i = 0; i < size && n < room; i++) {
        if (zeros >= 2 && from[i] == 3) {
            zeros = 0;
            continue;
        }
        zeros = from[i] == 0 ? zeros + 1 : 0;
        to[n++] = from[i];
    }
    return n;
}

/* Whether an SEI NAL holds a recovery point that is exact from this picture on (H.264 D.2.8). */
static bool has_exact_recovery(const uint8_t *nal, size_t size)
{
    uint8_t sei[256];
    size_t n = unescape(sei, sizeof sei, nal + 1, size - 1);
    for (size_t at = 0; at + 2 < n;) {
        unsigned type = 0, length = 0;
        while (at < n && sei[at] == 255) type += sei[at++];
        if (at < n) type += sei[at++];
        while (at < n && sei[at] == 255) length += sei[at++];
        if (at < n) length += sei[at++];
        if (type == 6 && at < n) {
            bits b = {sei + at, (n - at) * 8, 0};
            unsigned frame_count = take_ue(&b);
            return frame_count == 0 && take(&b, 1) == 1;
        }
        at += length;
    }
    return false;
}

static lri_picture_kind look_h264(const AVCodecParameters *p, const uint8_t *data, size_t size)
{
    lri_picture_kind kind = {.shown = true};
    lri_nal_walk walk = lri_walk_nals(p, data, size);
    const uint8_t *nal;
    size_t length;
    bool slices = false;
    while (lri_next_nal(&walk, &nal, &length)) {
        unsigned type = nal[0] & 31u;
        if (type == 6 && has_exact_recovery(nal, length)) kind.entry = LRI_ENTRY_OPEN;
        /* Parameter sets, which later pictures may need. */
        if (type == 7 || type == 8 || type == 13 || type == 15) kind.reference = true;
        if (type != 1 && type != 2 && type != 5) continue;
        slices = true;
        if (type == 5) kind.entry = LRI_ENTRY_CLOSED;
        if (type == 5 || (nal[0] & 0x60)) kind.reference = true;
    }
    if (!slices) kind.reference = true;
    return kind;
}

static lri_picture_kind look_hevc(const AVCodecParameters *p, const uint8_t *data, size_t size)
{
    lri_picture_kind kind = {.shown = true, .reference = true};
    lri_nal_walk walk = lri_walk_nals(p, data, size);
    const uint8_t *nal;
    size_t length;
    bool sets = false;
    while (lri_next_nal(&walk, &nal, &length)) {
        unsigned type = (nal[0] >> 1) & 63u;
        /* Parameter sets, which later pictures may need. */
        sets = sets || (type >= 32 && type <= 34);
        if (type > 31) continue;
        /* IDR: leading pictures can be decoded. BLA and CRA: they may need what came before. */
        if (type == 19 || type == 20) kind.entry = LRI_ENTRY_CLOSED;
        else if (type >= 16 && type <= 23) kind.entry = LRI_ENTRY_OPEN;
        /* Leading pictures (RADL, RASL). */
        if (type >= 6 && type <= 9) kind.type = 'B';
        /* Even types below 16 are not used by pictures of their own temporal layer (H.265 table 7-1). */
        if (length > 1 && (nal[1] & 7) > 0) kind.layer = (nal[1] & 7) - 1;
        kind.reference = sets || type > 14 || type % 2 != 0;
        break;
    }
    return kind;
}

/* ------------------------------------------------------------------ numbers of H.264 */

/* H.264 7.3.2.1.1.1. */
static void skip_scaling_list(bits *b, int size)
{
    int last = 8, next = 8;
    for (int i = 0; i < size; i++) {
        if (next != 0) {
            unsigned code = take_ue(b);
            int delta = code & 1 ? (int)((code + 1) / 2) : -(int)(code / 2);
            next = (last + delta) & 255;
        }
        if (next != 0) last = next;
    }
}

/* From the chroma format to the scaling lists, in the profiles that have them. */
static void skip_high_profile(bits *b)
{
    unsigned chroma = take_ue(b);
    if (chroma == 3) (void)take(b, 1);
    (void)take_ue(b);
    (void)take_ue(b);
    (void)take(b, 1);
    if (!take(b, 1)) return;
    for (int i = 0; i < (chroma == 3 ? 12 : 8); i++)
        if (take(b, 1)) skip_scaling_list(b, i < 6 ? 16 : 64);
}

/* H.264 7.3.2.1.1. */
static void read_set(const uint8_t *nal, size_t size, lri_cycle *cycle, bool *fields)
{
    static const uint8_t high[] = {100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135};
    uint8_t set[512];
    size_t n = unescape(set, sizeof set, nal, size);
    *cycle = (lri_cycle){0, 0};
    *fields = true;
    if (n < 5) return;
    bits b = {set, n * 8, 4 * 8};
    (void)take_ue(&b);
    if (memchr(high, set[1], sizeof high)) skip_high_profile(&b);
    unsigned frame_num = take_ue(&b) + 4, type = take_ue(&b), lsb = type == 0 ? take_ue(&b) + 4 : 0;
    if (frame_num > 16 || lsb > 16) return;
    cycle->least = (int64_t)1 << frame_num;
    /* A picture has two order counts; without any of their own they follow the frame numbers. */
    cycle->pictures = type == 0 ? (int64_t)1 << (lsb - 1) : cycle->least;
    if (type == 1) return;
    (void)take_ue(&b);
    (void)take(&b, 1);
    (void)take_ue(&b);
    (void)take_ue(&b);
    *fields = take(&b, 1) == 0 || b.at > b.n_bits;
}

bool lri_cycle_of(const AVCodecParameters *parameters, const uint8_t *data, size_t size, lri_cycle *cycle)
{
    lri_nal_walk walk = lri_walk_nals(parameters, data, size);
    const uint8_t *nal;
    size_t length;
    if (parameters->codec_id != AV_CODEC_ID_H264) return false;
    while (lri_next_nal(&walk, &nal, &length)) {
        unsigned type = nal[0] & 31u;
        if (type == 7) {
            bool fields;
            read_set(nal, length, cycle, &fields);
            return true;
        }
        if (type == 1 || type == 5) break;
    }
    return false;
}

bool lri_may_hold_fields(const AVCodecParameters *p)
{
    const uint8_t *set = p->extradata;
    size_t size = p->extradata_size > 0 ? (size_t)p->extradata_size : 0;
    lri_cycle cycle;
    bool fields = true;
    if (p->codec_id != AV_CODEC_ID_H264) return false;
    /* ISO/IEC 14496-15 5.3.3.1: the first set behind six bytes and its length; else behind a start code. */
    if (size > 8 && set[0] == 1) {
        size_t length = (size_t)set[6] << 8 | set[7];
        if ((set[5] & 31) > 0 && length <= size - 8) read_set(set + 8, length, &cycle, &fields);
        return fields;
    }
    const uint8_t *end = size > 0 ? set + size : set, *nal = size > 0 ? lri_find_start_code(set, end) : end;
    if (end - nal > 4 && (nal[3] & 31) == 7)
        read_set(nal + 3, (size_t)(lri_find_start_code(nal + 3, end) - nal - 3), &cycle, &fields);
    return fields;
}

/* ------------------------------------------------------------------ MPEG-2, MPEG-4, VP8, VP9 */

static lri_picture_kind look_mpeg2(const uint8_t *data, size_t size, bool key)
{
    lri_picture_kind kind = {
        .entry = key ? LRI_ENTRY_OPEN : LRI_ENTRY_NONE, .shown = true, .reference = true};
    const uint8_t *end = data + size;
    bool closed = false;
    for (const uint8_t *at = lri_find_start_code(data, end); end - at >= 8;
         at = lri_find_start_code(at + 3, end)) {
        if (at[3] == 0xB8) closed = (at[7] & 0x40) != 0;
        kind.restarts = kind.restarts || at[3] == 0xB8;
        if (at[3] != 0x00) continue;
        kind.type = "\0IPB\0\0\0\0"[(at[5] >> 3) & 7];
        kind.number = at[4] << 2 | at[5] >> 6;
        break;
    }
    if (kind.type == 'B') kind.reference = false;
    if (kind.type && kind.type != 'I') kind.entry = LRI_ENTRY_NONE;
    if (kind.entry == LRI_ENTRY_OPEN && closed) kind.entry = LRI_ENTRY_CLOSED;
    return kind;
}

/* The next picture header (VOP) at or after `at`: its type, 0 at the end. */
static char next_vop(const uint8_t **at, const uint8_t *end)
{
    for (*at = lri_find_start_code(*at, end); end - *at >= 5; *at = lri_find_start_code(*at + 3, end)) {
        if ((*at)[3] != 0xB6) continue;
        char type = "IPBP"[(*at)[4] >> 6]; /* the last is a sprite, which is like P */
        *at += 4;
        return type;
    }
    return 0;
}

static lri_picture_kind look_mpeg4(const uint8_t *data, size_t size)
{
    lri_picture_kind kind = {.shown = true, .reference = true};
    const uint8_t *at = data, *end = data + size;
    kind.type = next_vop(&at, end);
    if (kind.type) kind.packed = next_vop(&at, end);
    if (kind.type == 'I') kind.entry = LRI_ENTRY_OPEN;
    if (kind.type == 'B') kind.reference = false;
    return kind;
}

static lri_picture_kind look_vp8(const uint8_t *data, size_t size)
{
    lri_picture_kind kind = {.shown = true, .reference = true};
    if (size < 1) return kind;
    if (!(data[0] & 1)) kind.entry = LRI_ENTRY_CLOSED;
    kind.shown = (data[0] & 0x10) != 0;
    return kind;
}

lri_picture_kind lri_picture_look(const AVCodecParameters *parameters, const uint8_t *data,
                                  size_t size, bool key)
{
    const AVCodecDescriptor *descriptor = avcodec_descriptor_get(parameters->codec_id);
    if (descriptor && (descriptor->props & AV_CODEC_PROP_INTRA_ONLY))
        return (lri_picture_kind){.entry = LRI_ENTRY_CLOSED, .shown = true, .type = 'I'};
    switch (parameters->codec_id) {
    case AV_CODEC_ID_H264: return look_h264(parameters, data, size);
    case AV_CODEC_ID_HEVC: return look_hevc(parameters, data, size);
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO: return look_mpeg2(data, size, key);
    case AV_CODEC_ID_MPEG4: return look_mpeg4(data, size);
    case AV_CODEC_ID_VP8: return look_vp8(data, size);
    /* Containers mark every picture of H.261 as a key, and no picture is one. */
    case AV_CODEC_ID_H261: key = false; break;
    default: break;
    }
    bool reorders = descriptor && (descriptor->props & AV_CODEC_PROP_REORDER);
    lri_picture_kind kind = {.shown = true, .reference = true};
    if (key) kind.entry = reorders ? LRI_ENTRY_OPEN : LRI_ENTRY_CLOSED;
    return kind;
}
