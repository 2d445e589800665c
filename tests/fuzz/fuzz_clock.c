/* A Matroska file of whole packets with any time stamps, durations, clocks, flags and paddings: what a
 * recorder gone mad would write. Nothing in it is damaged, so every reader must give the same. */
#include <stdlib.h>
#include <string.h>

#include <longreel/ingest.h>

#include "fuzz.h"
#include "fuzz_media.h"

/* ------------------------------------------------------------------ EBML */

typedef struct writer {
    uint8_t bytes[1 << 16];
    size_t used;
} writer;

static void put(writer *w, const void *data, size_t count)
{
    if (count > sizeof w->bytes - w->used) return;
    memcpy(w->bytes + w->used, data, count);
    w->used += count;
}

static void put_big_endian(writer *w, uint64_t value, size_t count)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)(value >> (8 * (count - 1 - i)));
    put(w, bytes, count);
}

static void put_id(writer *w, uint32_t id)
{
    put_big_endian(w, id, id > 0xFFFFFF ? 4 : id > 0xFFFF ? 3 : id > 0xFF ? 2 : 1);
}

static void put_element(writer *w, uint32_t id, const void *data, size_t count)
{
    put_id(w, id);
    put_big_endian(w, (UINT64_C(1) << 56) | count, 8);
    put(w, data, count);
}

static void put_number(writer *w, uint32_t id, uint64_t value)
{
    put_id(w, id);
    put_big_endian(w, 0x88, 1);
    put_big_endian(w, value, 8);
}

static void put_real(writer *w, uint32_t id, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(w, id, bits);
}

static void put_text(writer *w, uint32_t id, const char *text)
{
    put_element(w, id, text, strlen(text));
}

static void put_master(writer *w, uint32_t id, const writer *inside)
{
    put_element(w, id, inside->bytes, inside->used);
}

enum {
    EBML = 0x1A45DFA3, DOC_TYPE = 0x4282, SEGMENT = 0x18538067, INFO = 0x1549A966, TIMESTAMP_SCALE = 0x2AD7B1,
    TRACKS = 0x1654AE6B, TRACK = 0xAE, TRACK_NUMBER = 0xD7, TRACK_UID = 0x73C5, TRACK_TYPE = 0x83, CODEC = 0x86,
    DEFAULT_DURATION = 0x23E383, TRACK_SCALE = 0x23314F, CODEC_DELAY = 0x56AA, SEEK_PRE_ROLL = 0x56BB,
    VIDEO = 0xE0, WIDTH = 0xB0, HEIGHT = 0xBA, DISPLAY_WIDTH = 0x54B0, DISPLAY_HEIGHT = 0x54BA,
    COLOUR_SPACE = 0x2EB524, AUDIO = 0xE1, RATE = 0xB5, CHANNELS = 0x9F, BIT_DEPTH = 0x6264, CLUSTER = 0x1F43B675,
    CLUSTER_TIME = 0xE7, SIMPLE_BLOCK = 0xA3, BLOCK_GROUP = 0xA0, BLOCK = 0xA1, BLOCK_DURATION = 0x9B,
    REFERENCE = 0xFB, DISCARD_PADDING = 0x75A2
};

/* ------------------------------------------------------------------ tracks */

enum { PICTURE = 4 }; /* a side, pixels */

static void put_track(writer *tracks, fz_bytes *in, bool video)
{
    static writer track, part;
    track.used = part.used = 0;
    put_number(&track, TRACK_NUMBER, video ? 1 : 2);
    put_number(&track, TRACK_UID, video ? 1 : 2);
    put_number(&track, TRACK_TYPE, video ? 1 : 2);
    put_text(&track, CODEC, video ? "V_UNCOMPRESSED" : "A_PCM/INT/LIT");
    uint64_t flags = fz_take(in, 1);
    if (flags & 1) put_number(&track, DEFAULT_DURATION, fz_number(in));
    if (flags & 2) put_real(&track, TRACK_SCALE, (double)fz_number(in) / 16);
    if (flags & 4) put_number(&track, CODEC_DELAY, fz_number(in));
    if (flags & 8) put_number(&track, SEEK_PRE_ROLL, fz_number(in));
    if (video) {
        put_number(&part, WIDTH, PICTURE);
        put_number(&part, HEIGHT, PICTURE);
        if (flags & 16) put_number(&part, DISPLAY_WIDTH, fz_number(in));
        if (flags & 32) put_number(&part, DISPLAY_HEIGHT, fz_number(in));
        put_text(&part, COLOUR_SPACE, "I420");
        put_master(&track, VIDEO, &part);
    } else {
        put_real(&part, RATE, flags & 16 ? (double)fz_number(in) : 8000);
        put_number(&part, CHANNELS, flags & 32 ? fz_number(in) : 1);
        put_number(&part, BIT_DEPTH, 16);
        put_master(&track, AUDIO, &part);
    }
    put_master(tracks, TRACK, &track);
}

/* ------------------------------------------------------------------ packets */

static void put_block(writer *cluster, fz_bytes *in, uint64_t control, unsigned number)
{
    static writer group, block;
    bool video = (control & 1) == 0;
    uint8_t payload[PICTURE * PICTURE * 3 / 2];
    group.used = block.used = 0;
    /* Each picture and each piece of sound is another one. */
    memset(payload, (int)(16 + 7 * number % 200), sizeof payload);
    put_big_endian(&block, video ? 0x81 : 0x82, 1);
    put_big_endian(&block, fz_take(in, 2), 2);
    bool simple = (control & 2) == 0;
    put_big_endian(&block, simple && !(control & 4) ? 0x80 : 0, 1);
    size_t copies = video ? 1 : 1 + fz_take(in, 1) % 64;
    for (size_t i = 0; i < copies; i++) put(&block, payload, sizeof payload);
    if (simple) {
        put_master(cluster, SIMPLE_BLOCK, &block);
        return;
    }
    put_master(&group, BLOCK, &block);
    if (control & 8) put_number(&group, BLOCK_DURATION, fz_number(in));
    if (control & 16) put_number(&group, DISCARD_PADDING, fz_number(in));
    if (control & 4) put_number(&group, REFERENCE, fz_number(in));
    put_master(cluster, BLOCK_GROUP, &group);
}

static void put_clusters(writer *file, fz_bytes *in)
{
    static writer cluster;
    unsigned number = 0;
    while (in->left > 0 && number < 200) {
        cluster.used = 0;
        put_number(&cluster, CLUSTER_TIME, fz_number(in) << (fz_take(in, 1) % 40));
        for (uint64_t left = 1 + fz_take(in, 1) % 16; left > 0; left--)
            put_block(&cluster, in, fz_take(in, 1), number++);
        put_master(file, CLUSTER, &cluster);
    }
}

static void write_recording(writer *file, fz_bytes *in)
{
    static writer part;
    file->used = part.used = 0;
    put_text(&part, DOC_TYPE, "matroska");
    put_master(file, EBML, &part);
    put_id(file, SEGMENT);
    put_big_endian(file, UINT64_C(0x01FFFFFFFFFFFFFF), 8);
    uint64_t flags = fz_take(in, 1);
    part.used = 0;
    put_number(&part, TIMESTAMP_SCALE, flags & 1 ? fz_number(in) : 1000000);
    put_master(file, INFO, &part);
    part.used = 0;
    if (!(flags & 2)) put_track(&part, in, true);
    if (!(flags & 4)) put_track(&part, in, false);
    put_master(file, TRACKS, &part);
    put_clusters(file, in);
}

/* ------------------------------------------------------------------ one input */

/* Twelve pictures and pieces of sound in order, 40 ms each; and with odd clocks. */
static void make_seeds(void)
{
    for (uint8_t scale = 0; scale < 3; scale++) {
        uint8_t seed[160] = {1, 1, 0, 0, 0, scale == 0 ? 0 : 1};
        size_t at = 6;
        static const uint8_t scales[][5] = {{0}, {210, 0x40, 0x0D, 0x03, 0}, {211, 1, 0, 0, 0}};
        if (scale) memcpy(seed + at, scales[scale], 5);
        if (scale) at += 5;
        seed[at++] = 0; /* no options of the pictures' track, */
        seed[at++] = 0; /* nor of the sound's */
        for (uint8_t k = 0; k < 12 && at + 12 < sizeof seed; k++) {
            const uint8_t cluster[] = {(uint8_t)(k * 10), 2, 1, 0, 0, 0, 1, 0, 0, 26};
            memcpy(seed + at, cluster, sizeof cluster);
            at += sizeof cluster;
        }
        const char name[2] = {(char)('0' + scale), 0};
        fz_seed(name, NULL, 0, seed, at);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fz_init();
    fz_seeds(make_seeds);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static writer file;
    lr_error err = {0};
    lr_recording *recording = NULL;
    /* The options come first here: the packets go on to the end. */
    const uint8_t *options_at = data;
    size_t options_size = size < 5 ? size : 5;
    lr_ingest_options options = fz_ingest_options(&options_at, &options_size);
    fz_bytes in = {data, size};
    (void)fz_take(&in, 5);
    write_recording(&file, &in);
    const char *path = fz_write("recording", file.bytes, file.used);
    fz_begin();
    if (fz_succeeded(lr_recording_open(&recording, path, &options, &err), &err)) {
        fz_check_timeline(recording, &options);
        if (lr_recording_timeline(recording)->has_video) fz_check_frames(recording);
        if (lr_recording_timeline(recording)->has_audio) fz_check_sound(recording);
    } else {
        FZ_CHECK(!recording);
    }
    lr_recording_close(recording);
    fz_end((size_t)512 << 20);
    return 0;
}
