/* Opening: files that are no recordings, wrong options, memory that runs out, memory that must not grow. */
#include "recordings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const lrm_film film = {.encoder = "mpeg4",
                              .format = AV_PIX_FMT_YUV420P,
                              .width = 96,
                              .height = 64,
                              .frames = 50,
                              .rate = {25, 1},
                              .b_frames = 2,
                              .luma = 20,
                              .step = 3};
static const lrm_track track = {.encoder = "aac", .rate = 44100, .channels = 2, .ms = 2000};

static void check_refused(const char *path, lr_status want)
{
    lr_error err = {0};
    lr_recording *recording = NULL;
    lr_ingest_options options = lr_ingest_defaults();
    size_t live = lr_alloc_live();
    lr_status got = lr_recording_open(&recording, path, &options, &err);
    if (got != want)
        fail_msg("%s: %s (%s), not %s", path, lr_status_name(got), err.text, lr_status_name(want));
    assert_null(recording);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(lr_alloc_live(), live);
}

static void check_content(const char *name, const void *data, size_t bytes, lr_status want)
{
    char *path = lrt_path(lrt_dir, name);
    lrt_write(path, data, bytes);
    check_refused(path, want);
    free(path);
}

static void test_what_is_no_recording_is_refused_by_name(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "absent.mp4");
    check_refused(path, LR_E_IO);
    free(path);
    check_refused(lrt_dir, LR_E_IO);
    path = lrt_path(lrt_dir, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    check_refused(path, LR_E_IO);
    free(path);
    check_content("empty.mp4", "", 0, LR_E_NO_MEDIA);
    const char *text = "Dear reader,\nthis is a letter, not a film.\n";
    check_content("letter.txt", text, strlen(text), LR_E_NO_MEDIA);
    check_content("letter.mp4", text, strlen(text), LR_E_NO_MEDIA);
    lrt_random random;
    uint8_t noise[20000];
    lrt_random_init(&random, 5);
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)lrt_next(&random);
    check_content("noise.mkv", noise, sizeof noise, LR_E_NO_MEDIA);
}

static void test_a_file_that_may_not_be_read_is_refused(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        print_message("the superuser may read everything: nothing to test\n");
        return;
    }
    char *path = lrt_path(lrt_dir, "secret.mp4");
    lrm_record(path, "mp4", &film, NULL);
    assert_int_equal(chmod(path, 0), 0);
    check_refused(path, LR_E_IO);
    free(path);
}

/* The index of an mp4 stands at its end; without it the pictures cannot be found. */
static void test_a_container_without_its_index_is_a_format_error(void **state)
{
    (void)state;
    size_t bytes;
    char *path = lrt_path(lrt_dir, "headless.mp4");
    lrm_record(path, "mp4", &film, &track);
    uint8_t *data = lrt_slurp(path, &bytes);
    check_content("cut.mp4", data, bytes / 2, LR_E_FORMAT);
    free(data);
    free(path);
}

/* Whatever a playlist names is not opened, though it lies beside it. */
static void test_references_to_other_files_are_not_followed(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "real.ts"), *list = NULL;
    lrm_record(path, "mpegts", &film, NULL);
    assert_true(asprintf(&list, "#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:2.0,\n%s\n#EXT-X-ENDLIST\n",
                         path) > 0);
    check_content("list.m3u8", list, strlen(list), LR_E_NO_MEDIA);
    free(list);
    assert_true(asprintf(&list, "ffconcat version 1.0\nfile '%s'\n", path) > 0);
    check_content("list.txt", list, strlen(list), LR_E_NO_MEDIA);
    free(list);
    free(path);
}

/* ------------------------------------------------------------------ what is taken */

static void write_cover(const char *path)
{
    AVFormatContext *format = NULL;
    AVPacket *packet = av_packet_alloc();
    /* FLAC holds pictures as metadata; libav makes a stream of them. */
    uint8_t samples[4096] = {0};
    const AVCodec *codec = avcodec_find_encoder(AV_CODEC_ID_FLAC);
    AVCodecContext *c = avcodec_alloc_context3(codec);
    c->sample_rate = 16000;
    c->sample_fmt = AV_SAMPLE_FMT_S16;
    av_channel_layout_default(&c->ch_layout, 1);
    c->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    assert_true(avcodec_open2(c, codec, NULL) >= 0);
    assert_true(avformat_alloc_output_context2(&format, NULL, "flac", path) >= 0);
    AVStream *sound = avformat_new_stream(format, NULL), *cover = avformat_new_stream(format, NULL);
    assert_true(avcodec_parameters_from_context(sound->codecpar, c) >= 0);
    cover->codecpar->codec_type = AVMEDIA_TYPE_VIDEO;
    cover->codecpar->codec_id = AV_CODEC_ID_PNG;
    cover->codecpar->width = cover->codecpar->height = 1;
    cover->disposition = AV_DISPOSITION_ATTACHED_PIC;
    assert_true(avio_open(&format->pb, path, AVIO_FLAG_WRITE) >= 0);
    assert_true(avformat_write_header(format, NULL) >= 0);
    static const uint8_t png[] = {
        0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 0, 1, 0, 0, 0, 1, 8,
        0, 0, 0, 0, 0x3A, 0x7E, 0x9B, 0x55, 0, 0, 0, 10, 'I', 'D', 'A', 'T', 0x78, 0x9C, 0x63, 0, 0, 0,
        2, 0, 1, 0x48, 0xAF, 0xA4, 0x71, 0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xAE, 0x42, 0x60, 0x82};
    assert_true(av_new_packet(packet, sizeof png) >= 0);
    memcpy(packet->data, png, sizeof png);
    packet->stream_index = 1;
    assert_true(av_write_frame(format, packet) >= 0);
    av_packet_unref(packet);
    AVFrame *frame = av_frame_alloc();
    frame->nb_samples = c->frame_size < 2048 ? c->frame_size : 2048;
    frame->format = AV_SAMPLE_FMT_S16;
    frame->sample_rate = 16000;
    assert_true(av_channel_layout_copy(&frame->ch_layout, &c->ch_layout) >= 0);
    frame->data[0] = samples;
    frame->extended_data = frame->data;
    frame->linesize[0] = (int)sizeof samples;
    frame->pts = 0;
    assert_true(avcodec_send_frame(c, frame) >= 0);
    assert_true(avcodec_send_frame(c, NULL) >= 0);
    while (avcodec_receive_packet(c, packet) >= 0) {
        packet->stream_index = 0;
        assert_true(av_write_frame(format, packet) >= 0);
        av_packet_unref(packet);
    }
    assert_true(av_write_trailer(format) >= 0);
    av_frame_free(&frame);
    avio_closep(&format->pb);
    avformat_free_context(format);
    avcodec_free_context(&c);
    av_packet_free(&packet);
}

static void test_cover_art_is_no_film(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "song.flac");
    write_cover(path);
    lr_recording *recording = lrm_open(path, NULL);
    const lr_timeline *t = lr_recording_timeline(recording);
    assert_false(t->has_video);
    assert_true(t->has_audio);
    assert_true(t->audio.n_samples > 0);
    lr_error err = {0};
    lr_frame_reader *reader;
    assert_int_equal(lr_frame_reader_open(&reader, recording, 0, 0, &err), LR_E_USAGE);
    lr_recording_close(recording);
    free(path);
}

static void test_streams_can_be_left_out(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "both.mp4");
    lr_error err = {0};
    lr_recording *recording;
    lrm_record(path, "mp4", &film, &track);
    lr_ingest_options options = lr_ingest_defaults();
    options.audio = false;
    recording = lrm_open(path, &options);
    assert_true(lr_recording_timeline(recording)->has_video);
    assert_false(lr_recording_timeline(recording)->has_audio);
    lr_recording_close(recording);
    options.audio = true;
    options.video = false;
    recording = lrm_open(path, &options);
    assert_false(lr_recording_timeline(recording)->has_video);
    assert_true(lr_recording_timeline(recording)->has_audio);
    lr_recording_close(recording);
    options.audio = false;
    assert_int_equal(lr_recording_open(&recording, path, &options, &err), LR_E_USAGE);
    free(path);
}

static void test_the_timeline_describes_the_file(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "facts.mp4");
    size_t bytes;
    lrm_record(path, "mp4", &film, &track);
    free(lrt_slurp(path, &bytes));
    lr_recording *recording = lrm_open(path, NULL);
    const lr_timeline *t = lr_recording_timeline(recording);
    assert_string_equal(t->container, "mov");
    assert_string_equal(t->video.codec, "mpeg4");
    assert_string_equal(t->audio.codec, "aac");
    assert_int_equal(t->file_bytes, bytes);
    assert_int_equal(strlen(t->content_hash), 32);
    assert_int_equal(t->video.n_coded, 50);
    /* One each 12 pictures at least. */
    assert_in_range(t->video.n_keyframes, 5, 50);
    assert_int_equal(t->video.end, 2 * LR_TIME_SECOND);
    assert_int_equal(t->video.n_frames, 2);
    assert_false(t->video.still || t->truncated || t->video.interlaced);
    assert_true(t->duration >= t->video.end && t->duration >= t->audio.end);
    lr_recording_close(recording);
    free(path);
}

static void test_a_glance_tells_the_length_and_what_there_is(void **state)
{
    (void)state;
    static const struct {
        const char *name, *format;
        bool picture, sound;
    } files[] = {{"a.mp4", "mp4", true, true}, {"a.mkv", "matroska", true, false}, {"a.ts", "mpegts", true, true}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *path = lrt_path(lrt_dir, files[i].name);
        lr_glance glance;
        lr_error err = {0};
        lrm_record(path, files[i].format, &film, files[i].sound ? &track : NULL);
        lrt_assert_ok(lr_recording_glance(&glance, path, NULL, &err), &err);
        assert_true(glance.has_video == files[i].picture && glance.has_audio == files[i].sound);
        assert_true(glance.seconds > 1.5 && glance.seconds < 3); /* a guess: two seconds of film, or of sound */
        free(path);
    }
    char *path = lrt_path(lrt_dir, "song.flac");
    lr_glance glance;
    lr_error err = {0};
    write_cover(path);
    lrt_assert_ok(lr_recording_glance(&glance, path, NULL, &err), &err);
    assert_true(glance.has_audio && !glance.has_video);
    lrt_write(path, "no recording", 12);
    assert_int_equal(lr_recording_glance(&glance, path, NULL, &err), LR_E_NO_MEDIA);
    assert_true(glance.seconds == 0);
    free(path);
}

static void test_wrong_options_are_refused(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "options.mp4");
    lrm_record(path, "mp4", &film, NULL);
    for (int i = 0; i < 5; i++) {
        lr_error err = {0};
        lr_recording *recording;
        lr_ingest_options options = lr_ingest_defaults();
        if (i == 0) options.fps = (lr_rational){0, 1};
        if (i == 1) options.threads = 0;
        if (i == 2) options.start = 10 * LR_TIME_SECOND;
        if (i == 3) options.start = options.end = LR_TIME_SECOND;
        if (i == 4) options.start = -1;
        assert_int_equal(lr_recording_open(&recording, path, &options, &err), LR_E_USAGE);
    }
    free(path);
}

/* ------------------------------------------------------------------ while it is read */

static void test_a_cancelled_reader_stops(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "cancel.mp4");
    lr_cancel cancel = 0;
    lr_error err = {0};
    lr_frame_reader *reader;
    lr_recording *recording;
    lr_frame frame;
    bool got;
    lrm_record(path, "mp4", &film, &track);
    lr_ingest_options options = lr_ingest_defaults();
    options.cancel = &cancel;
    recording = lrm_open(path, &options);
    lrt_assert_ok(lr_frame_reader_open(&reader, recording, 0, 2, &err), &err);
    lrt_assert_ok(lr_frame_reader_next(reader, &frame, &got, &err), &err);
    cancel = 1;
    assert_int_equal(lr_frame_reader_next(reader, &frame, &got, &err), LR_E_INTERRUPTED);
    lr_frame_reader_close(reader);
    lr_recording_close(recording);
    lr_error_clear(&err);
    assert_int_equal(lr_recording_open(&recording, path, &options, &err), LR_E_INTERRUPTED);
    free(path);
}

static void test_a_file_that_changed_since_is_refused(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "changed.mp4");
    lr_error err = {0};
    lr_frame_reader *reader;
    lr_sound_reader *sound;
    size_t bytes;
    lrm_record(path, "mp4", &film, &track);
    lr_recording *recording = lrm_open(path, NULL);
    uint8_t *data = lrt_slurp(path, &bytes);
    lrt_write(path, data, bytes - 1);
    assert_int_equal(lr_frame_reader_open(&reader, recording, 0, 2, &err), LR_E_IO);
    assert_non_null(strstr(err.text, path));
    lr_error_clear(&err);
    assert_int_equal(lr_sound_reader_open(&sound, recording, &err), LR_E_IO);
    free(data);
    lr_recording_close(recording);
    free(path);
}

/* ------------------------------------------------------------------ memory */

static lr_status read_all(void *arg, lr_error *err)
{
    lr_status st = LR_OK;
    lr_recording *recording = NULL;
    lr_frame_reader *frames = NULL;
    lr_sound_reader *sound = NULL;
    lr_ingest_options options = lr_ingest_defaults();
    lr_frame frame;
    float samples[1000];
    size_t count = 1;
    bool got = true;
    options.fps = (lr_rational){5, 1};
    options.every_picture = true;
    LR_TRY(lr_recording_open(&recording, arg, &options, err));
    LR_TRY(lr_frame_reader_open(&frames, recording, 0,
                                lr_recording_timeline(recording)->video.n_frames, err));
    while (got) LR_TRY(lr_frame_reader_next(frames, &frame, &got, err));
    LR_TRY(lr_sound_reader_open(&sound, recording, err));
    while (count > 0) LR_TRY(lr_sound_reader_read(sound, samples, 1000, &count, err));
done:
    lr_sound_reader_close(sound);
    lr_frame_reader_close(frames);
    lr_recording_close(recording);
    return st;
}

/* With damage, so that the examination is met too, and sound with a gap. */
static void test_every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    char *path = lrt_path(lrt_dir, "memory.mkv");
    lrm_track gap = track;
    size_t bytes;
    gap.hole_ms[0] = 500;
    gap.hole_ms[1] = 900;
    lrm_record(path, "matroska", &film, &gap);
    uint8_t *data = lrt_slurp(path, &bytes);
    for (size_t i = 0; i < 40; i++) data[bytes / 2 + i * 50] ^= 0xFF;
    lrt_write(path, data, bytes);
    free(data);
    assert_true(lrt_fail_each_allocation(read_all, path) > 20);
    free(path);
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*s %ld", &pages), 1);
    (void)fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Peak of our own allocations, less the index: 24 bytes a packet and 4 a shown picture, 16 a packet of
 * sound, doubled at most by the growth of the arrays. */
static void test_memory_does_not_grow_with_the_recording(void **state)
{
    (void)state;
    size_t peak[2];
    long resident[2];
    for (int i = 0; i < 2; i++) {
        lrm_film f = film;
        lrm_track t = track;
        lr_error err = {0};
        char *path = lrt_path(lrt_dir, "long.mkv");
        f.frames = i == 0 ? 250 : 10000; /* 10 s, 400 s */
        f.step = 0;
        f.luma = 90;
        t.ms = (int64_t)f.frames * 40;
        lrm_record(path, "matroska", &f, &t);
        lr_alloc_reset_peak();
        size_t before = lr_alloc_live();
        lrt_assert_ok(read_all(path, &err), &err);
        size_t sound_packets = (size_t)t.ms * 44100 / 1000 / 1024 + 3;
        size_t index = 2 * ((size_t)f.frames * 28 + sound_packets * 16);
        peak[i] = lr_alloc_peak() - before;
        peak[i] = peak[i] > index ? peak[i] - index : 0;
        resident[i] = resident_kib();
        free(path);
    }
    if (peak[1] > peak[0] + 100000) fail_msg("%zu bytes for 10 s, %zu for 400 s", peak[0], peak[1]);
#ifdef __SANITIZE_ADDRESS__
    return; /* which keeps freed memory for a while */
#endif
    /* What the encoder of the test leaves in the heap is in both; the decoded film would be 90 MB. */
    if (resident[1] > resident[0] + 16 * 1024)
        fail_msg("%ld KiB resident after 10 s, %ld after 400 s", resident[0], resident[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_recording_is_refused_by_name),
        cmocka_unit_test(test_a_file_that_may_not_be_read_is_refused),
        cmocka_unit_test(test_a_container_without_its_index_is_a_format_error),
        cmocka_unit_test(test_references_to_other_files_are_not_followed),
        cmocka_unit_test(test_cover_art_is_no_film),
        cmocka_unit_test(test_streams_can_be_left_out),
        cmocka_unit_test(test_the_timeline_describes_the_file),
        cmocka_unit_test(test_a_glance_tells_the_length_and_what_there_is),
        cmocka_unit_test(test_wrong_options_are_refused),
        cmocka_unit_test(test_a_cancelled_reader_stops),
        cmocka_unit_test(test_a_file_that_changed_since_is_refused),
        cmocka_unit_test(test_every_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(test_memory_does_not_grow_with_the_recording),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
