/* Pictures that are coded as two fields (H.264 7.4.3, field_pic_flag), which no encoder of libav writes: made here of
 * raw macroblocks (I_PCM). A field may be a packet of its own. */
#include "recordings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 64, PICTURES = 30, GROUP = 10, RATE = 25, LUMA = 40, STEP = 4 };

/* ------------------------------------------------------------------ bits */

typedef struct bits {
    uint8_t bytes[8192];
    size_t used; /* bits */
} bits;

static void put(bits *b, unsigned value, unsigned count)
{
    while (count-- > 0) {
        if (value >> count & 1) b->bytes[b->used / 8] |= (uint8_t)(0x80 >> b->used % 8);
        b->used++;
    }
}

/* Exp-Golomb, H.264 9.1. */
static void put_ue(bits *b, unsigned value)
{
    unsigned length = 0;
    while ((value + 1) >> (length + 1)) length++;
    put(b, 0, length);
    put(b, value + 1, length + 1);
}

/* The NAL unit of a payload, with its start code, into `to`. */
static size_t put_nal(uint8_t *to, uint8_t head, bits *b)
{
    size_t n = 0;
    put(b, 1, 1);
    size_t bytes = (b->used + 7) / 8;
    static const uint8_t start[] = {0, 0, 0, 1};
    memcpy(to, start, 4);
    n = 4;
    to[n++] = head;
    for (size_t i = 0, zeros = 0; i < bytes; i++) {
        if (zeros == 2 && b->bytes[i] <= 3) {
            to[n++] = 3;
            zeros = 0;
        }
        to[n++] = b->bytes[i];
        zeros = b->bytes[i] == 0 ? zeros + 1 : 0;
    }
    return n;
}

/* ------------------------------------------------------------------ H.264 */

/* 7.3.2.1.1 and 7.3.2.2: Main profile, field coding, numbers of eight bits, one reference. */
static size_t put_sets(uint8_t *to)
{
    bits sps = {.used = 0}, pps = {.used = 0};
    put(&sps, 77 << 16 | 30, 24);
    put_ue(&sps, 0);
    put_ue(&sps, 4); /* frame_num */
    put_ue(&sps, 0);
    put_ue(&sps, 4); /* pic_order_cnt_lsb */
    put_ue(&sps, 1);
    put(&sps, 0, 1);
    put_ue(&sps, SIDE / 16 - 1);
    put_ue(&sps, SIDE / 32 - 1);
    put(&sps, 4, 5); /* neither frames only nor adaptive fields, but direct_8x8_inference_flag; no cropping, no VUI */
    put_ue(&pps, 0);
    put_ue(&pps, 0);
    put(&pps, 0, 2);
    for (int i = 0; i < 3; i++) put_ue(&pps, 0);
    put(&pps, 0, 3);
    for (int i = 0; i < 3; i++) put_ue(&pps, 0);
    put(&pps, 4, 3); /* deblocking_filter_control_present_flag */
    size_t n = put_nal(to, 0x67, &sps);
    return n + put_nal(to + n, 0x68, &pps);
}

/* One field of picture n: 7.3.3. What is not the first field of a group leaves its left macroblocks as they were. */
static size_t put_field(uint8_t *to, int n, bool bottom)
{
    bits b = {.used = 0};
    int in_group = n % GROUP;
    bool idr = in_group == 0 && !bottom, predicted = !idr;
    put_ue(&b, 0);
    put_ue(&b, predicted ? 5 : 7);
    put_ue(&b, 0);
    put(&b, (unsigned)in_group, 8);
    put(&b, bottom ? 3 : 2, 2);
    if (idr) put_ue(&b, (unsigned)(n / GROUP) % 2);
    put(&b, (unsigned)(2 * in_group + bottom), 8);
    if (predicted) put(&b, 0, 2);   /* num_ref_idx_active_override_flag, ref_pic_list_modification_flag_l0 */
    put(&b, 0, idr ? 2 : 1);        /* dec_ref_pic_marking */
    put_ue(&b, 0);                  /* slice_qp_delta */
    put_ue(&b, 1);                  /* disable_deblocking_filter_idc */
    for (int mb = 0; mb < SIDE / 16 * (SIDE / 32); mb++) {
        if (predicted && mb % (SIDE / 16) == 0) continue;
        if (predicted) put_ue(&b, mb % (SIDE / 16) == 1); /* mb_skip_run */
        put_ue(&b, predicted ? 30 : 25);                  /* I_PCM */
        b.used = (b.used + 7) / 8 * 8;
        for (int i = 0; i < 384; i++) put(&b, i < 256 ? (unsigned)(LUMA + STEP * n) : 128, 8);
    }
    return put_nal(to, idr ? 0x65 : 0x61, &b);
}

/* ------------------------------------------------------------------ files */

/* How the fields of a picture come. */
typedef enum fields { APART, TOGETHER } fields;

static void write_packet(AVFormatContext *format, uint8_t *data, size_t bytes, int64_t tick, int64_t length, bool key)
{
    AVPacket *packet = av_packet_alloc();
    assert_non_null(packet);
    assert_true(av_new_packet(packet, (int)bytes) >= 0);
    memcpy(packet->data, data, bytes);
    packet->pts = packet->dts = tick;
    packet->duration = length;
    if (key) packet->flags |= AV_PKT_FLAG_KEY;
    av_packet_rescale_ts(packet, (AVRational){1, 2 * RATE}, format->streams[0]->time_base);
    assert_true(av_interleaved_write_frame(format, packet) >= 0);
    av_packet_free(&packet);
}

/* `torn`: the picture of whose second field half is missing; -1: none. */
static void write_fields(const char *path, const char *muxer, fields how, int torn)
{
    static uint8_t data[4 * 8192];
    AVFormatContext *format = NULL;
    assert_true(avformat_alloc_output_context2(&format, NULL, muxer, path) >= 0);
    AVStream *stream = avformat_new_stream(format, NULL);
    assert_non_null(stream);
    AVCodecParameters *p = stream->codecpar;
    p->codec_type = AVMEDIA_TYPE_VIDEO;
    p->codec_id = AV_CODEC_ID_H264;
    p->width = p->height = SIDE;
    stream->time_base = (AVRational){1, 2 * RATE};
    stream->avg_frame_rate = (AVRational){RATE, 1};
    p->extradata = av_mallocz(256 + AV_INPUT_BUFFER_PADDING_SIZE);
    assert_non_null(p->extradata);
    p->extradata_size = (int)put_sets(p->extradata);
    assert_true(avio_open(&format->pb, path, AVIO_FLAG_WRITE) >= 0);
    assert_true(avformat_write_header(format, NULL) >= 0);
    for (int n = 0; n < PICTURES; n++) {
        bool key = n % GROUP == 0;
        size_t first = key ? put_sets(data) : 0;
        first += put_field(data + first, n, false);
        size_t second = put_field(data + first, n, true);
        if (n == torn) second /= 2;
        if (how == TOGETHER) write_packet(format, data, first + second, 2 * n, 2, key);
        else {
            write_packet(format, data, first, 2 * n, 1, key);
            write_packet(format, data + first, second, 2 * n + 1, 1, false);
        }
    }
    assert_true(av_write_trailer(format) >= 0);
    avio_closep(&format->pb);
    avformat_free_context(format);
}

/* ------------------------------------------------------------------ tests */

static const char *const muxers[] = {"mpegts", "matroska", "mp4", "flv", "avi", "h264"};

static lr_recording *open_fields(const char *path)
{
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){RATE, 1};
    options.every_picture = true;
    return lrm_open(path, &options);
}

static void check_pictures(const char *path, const char *muxer, fields how)
{
    lrm_reading all;
    lr_recording *recording = open_fields(path);
    const lr_timeline *t = lr_recording_timeline(recording);
    assert_true(t->video.interlaced);
    assert_int_equal(t->video.n_coded, PICTURES);
    assert_int_equal(t->video.n_keyframes, PICTURES / GROUP);
    assert_int_equal(t->video.n_frames, PICTURES);
    lrm_read_frames(recording, 0, PICTURES, &all);
    assert_int_equal(all.n_damage, 0);
    for (int n = 0; n < PICTURES; n++) {
        double off = all.luma[n] - (LUMA + STEP * n);
        /* Of each step of luma half is left to the rounding of RGB. */
        if (off > 1 || off < -1)
            fail_msg("%s, %s: picture %d is of %f", muxer, how == APART ? "apart" : "together", n, all.luma[n]);
        assert_int_equal(all.pts[n], lr_grid_time(n, t->fps));
    }
    lrm_free_reading(&all);
    lr_recording_close(recording);
}

static void test_two_fields_are_one_picture_in_whatever_packets_they_come(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "fields");
    lrt_random random;
    lrt_random_init(&random, 71);
    for (size_t m = 0; m < sizeof muxers / sizeof *muxers; m++)
        for (fields how = APART; how <= TOGETHER; how++) {
            write_fields(path, muxers[m], how, -1);
            check_pictures(path, muxers[m], how);
            assert_true(lrm_readers_agree(path, &random, muxers[m]));
        }
    free(path);
}

/* It and what follows in its group are named, and nothing else. */
static void test_damage_to_one_field_is_damage_to_its_picture(void **state)
{
    enum { TORN = 14, NEXT = 20 };
    (void)state;
    char *path = lrt_path(lrt_dir, "torn");
    lrt_random random;
    lrt_random_init(&random, 72);
    for (size_t m = 0; m < sizeof muxers / sizeof *muxers; m++)
        for (fields how = APART; how <= TOGETHER; how++) {
            lrm_reading all;
            write_fields(path, muxers[m], how, TORN);
            lr_recording *recording = open_fields(path);
            lrm_read_frames(recording, 0, PICTURES, &all);
            lrm_merge_damage(all.damage, &all.n_damage);
            if (all.n_damage != 1) fail_msg("%s: %zu ranges", muxers[m], all.n_damage);
            assert_int_equal(all.damage[0].start, lr_grid_time(TORN, (lr_rational){RATE, 1}));
            assert_int_equal(all.damage[0].end, lr_grid_time(NEXT, (lr_rational){RATE, 1}));
            for (int n = 0; n < PICTURES; n++) assert_int_equal(all.substituted[n], n >= TORN && n < NEXT);
            lrm_free_reading(&all);
            lr_recording_close(recording);
            assert_true(lrm_readers_agree(path, &random, muxers[m]));
        }
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_fields_are_one_picture_in_whatever_packets_they_come),
        cmocka_unit_test(test_damage_to_one_field_is_damage_to_its_picture),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
