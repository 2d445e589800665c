/* Decoding by hardware, with a device that is none: the processor decodes, and pictures come back laid out as devices
 * lay them out. Whatever the device does, the pictures are those of the processor. */
#include "recordings.h"

#include <stdlib.h>
#include <string.h>

#include <libavutil/hwcontext.h>

#include "hardware.h"

static char *dir, *film_path, *deep_path;
static lri_hardware_calls real;

/* What the device does. */
static int created, brought, fails_from;
static bool absent, refuses;

static int fake_create(AVBufferRef **device, enum AVHWDeviceType type)
{
    created++;
    if (absent) return AVERROR(ENODEV);
    *device = av_hwdevice_ctx_alloc(type);
    return *device ? 0 : AVERROR(ENOMEM);
}

static enum AVPixelFormat fake_choose(enum AVPixelFormat hardware, const enum AVPixelFormat *offered)
{
    (void)hardware;
    if (refuses) return AV_PIX_FMT_NONE;
    for (; *offered != AV_PIX_FMT_NONE; offered++)
        if (*offered == AV_PIX_FMT_YUV420P || *offered == AV_PIX_FMT_YUV420P10) return *offered;
    return AV_PIX_FMT_NONE;
}

/* Planes to one of interleaved chroma; of 10 bits the samples lie 6 higher. */
static int fake_transfer(AVFrame *to, const AVFrame *from)
{
    if (fails_from > 0 && ++brought >= fails_from) return AVERROR_EXTERNAL;
    bool deep = from->format == AV_PIX_FMT_YUV420P10;
    assert_true(deep || from->format == AV_PIX_FMT_YUV420P);
    to->format = deep ? AV_PIX_FMT_P010LE : AV_PIX_FMT_NV12;
    to->width = from->width;
    to->height = from->height;
    assert_true(av_frame_get_buffer(to, 0) >= 0);
    for (int plane = 0; plane < 3; plane++) {
        int width = plane ? (from->width + 1) / 2 : from->width, height = plane ? (from->height + 1) / 2 : from->height;
        int into = plane ? 1 : 0, step = plane ? 2 : 1, first = plane == 2 ? 1 : 0;
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                const uint8_t *a = from->data[plane] + y * from->linesize[plane] + (deep ? 2 * x : x);
                uint8_t *b = to->data[into] + y * to->linesize[into] + (deep ? 2 : 1) * (first + step * x);
                unsigned value = deep ? ((unsigned)a[0] | (unsigned)a[1] << 8) << 6 : a[0];
                b[0] = (uint8_t)value;
                if (deep) b[1] = (uint8_t)(value >> 8);
            }
    }
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    const lrm_film film = {.encoder = "libx264", .format = AV_PIX_FMT_YUV420P, .width = 98, .height = 66, .frames = 120,
                           .rate = {25, 1}, .gop = 30, .b_frames = 2, .luma = 30, .step = 1,
                           .options = "preset=veryfast"};
    lrm_film deep = film;
    dir = lrt_temp_dir();
    film_path = lrt_path(dir, "film.mp4");
    deep_path = lrt_path(dir, "deep.mkv");
    lrm_record(film_path, "mp4", &film, NULL);
    deep.format = AV_PIX_FMT_YUV420P10;
    lrm_record(deep_path, "matroska", &deep, NULL);
    real = lri_hardware;
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    free(film_path);
    free(deep_path);
    lrt_remove_temp_dir(dir);
    return 0;
}

static int put_device(void **state)
{
    (void)state;
    lri_hardware = (lri_hardware_calls){fake_create, fake_choose, fake_transfer};
    created = brought = fails_from = 0;
    absent = refuses = false;
    return 0;
}

static int take_device(void **state)
{
    (void)state;
    lri_hardware = real;
    return 0;
}

static lr_recording *open_with(const char *path, lr_decode decode, int threads)
{
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){10, 1};
    options.decode = decode;
    options.threads = threads;
    return lrm_open(path, &options);
}

/* Reads all and compares with the processor; returns the device that decoded to the end. */
static const char *check_same(lr_recording *recording, const char *path)
{
    int64_t n = lr_recording_timeline(recording)->video.n_frames;
    lr_recording *plain = open_with(path, LR_DECODE_CPU, 1);
    lrm_reading expected, got;
    lr_error err = {0};
    lr_frame_reader *reader;
    lr_frame_work work;
    lrm_read_frames(plain, 0, n, &expected);
    lrm_read_frames(recording, 0, n, &got);
    lrm_assert_same_frames(&expected, &got, "by the device");
    assert_int_equal(got.n_damage, expected.n_damage);
    lrm_free_reading(&expected);
    lrm_free_reading(&got);
    lr_recording_close(plain);
    lrt_assert_ok(lr_frame_reader_open(&reader, recording, 0, 1, &err), &err);
    lr_frame_reader_work(reader, &work);
    lr_frame_reader_close(reader);
    return work.device;
}

static void test_pictures_of_a_device_are_those_of_the_processor(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads += 3) {
        lr_recording *recording = open_with(film_path, LR_DECODE_CUDA, threads);
        assert_int_equal(lr_recording_timeline(recording)->n_warnings, 0);
        assert_string_equal(check_same(recording, film_path), "cuda");
        lr_recording_close(recording);
        recording = open_with(deep_path, LR_DECODE_VAAPI, threads);
        assert_string_equal(check_same(recording, deep_path), "vaapi");
        lr_recording_close(recording);
    }
    assert_int_equal(created, 4);
}

static void test_without_a_device_the_processor_decodes_with_one_warning(void **state)
{
    (void)state;
    absent = true;
    lr_recording *recording = open_with(film_path, LR_DECODE_CUDA, 2);
    const lr_timeline *line = lr_recording_timeline(recording);
    assert_int_equal(line->n_warnings, 1);
    assert_non_null(strstr(line->warnings[0], "no cuda device can be used"));
    assert_string_equal(check_same(recording, film_path), "cpu");
    assert_int_equal(created, 1);
    lr_recording_close(recording);
}

static void test_a_device_that_fails_gives_way_to_the_processor(void **state)
{
    (void)state;
    for (fails_from = 1; fails_from < 120; fails_from += 13)
        for (int threads = 1; threads <= 2; threads++) {
            brought = 0;
            lr_recording *recording = open_with(film_path, LR_DECODE_CUDA, threads);
            lrm_reading half;
            lrm_read_frames(recording, 10, 20, &half);
            assert_int_equal(half.n_damage, 0);
            lrm_free_reading(&half);
            (void)check_same(recording, film_path);
            lr_recording_close(recording);
        }
    fails_from = 1;
    brought = 0;
    lr_recording *recording = open_with(film_path, LR_DECODE_CUDA, 2);
    assert_string_equal(check_same(recording, film_path), "cpu");
    assert_int_equal(brought, 1);
    lr_recording_close(recording);
}

static void test_what_a_device_refuses_the_processor_decodes(void **state)
{
    (void)state;
    refuses = true;
    lr_recording *recording = open_with(film_path, LR_DECODE_CUDA, 2);
    assert_string_equal(check_same(recording, film_path), "cpu");
    lr_recording_close(recording);
}

static void test_auto_and_cpu_ask_for_no_device(void **state)
{
    (void)state;
    lr_recording *recording = open_with(film_path, LR_DECODE_AUTO, 2);
    assert_string_equal(check_same(recording, film_path), "cpu");
    lr_recording_close(recording);
    assert_int_equal(created, 0);
}

static void test_damage_is_judged_by_the_processor(void **state)
{
    (void)state;
    char *path = lrt_path(dir, "damaged.mp4");
    size_t bytes;
    uint8_t *data = lrt_slurp(film_path, &bytes);
    for (size_t i = 0; i < 40; i++) data[bytes / 3 + i * bytes / 200] ^= 0x55;
    lrt_write(path, data, bytes);
    free(data);
    lr_recording *recording = open_with(path, LR_DECODE_CUDA, 2);
    assert_string_equal(check_same(recording, path), "cpu");
    lr_recording_close(recording);
    free(path);
}

/* This runs with libav's own calls, on whatever machine: with a device or without, the pictures are the same. */
static void test_the_machines_own_devices_are_used_or_warned_of(void **state)
{
    (void)state;
    static const lr_decode wishes[] = {LR_DECODE_CUDA, LR_DECODE_VAAPI};
    lri_hardware = real;
    for (size_t i = 0; i < 2; i++) {
        lr_recording *recording = open_with(film_path, wishes[i], 2);
        const lr_timeline *line = lr_recording_timeline(recording);
        const char *device = check_same(recording, film_path);
        if (line->n_warnings > 0) assert_string_equal(device, "cpu");
        lr_recording_close(recording);
    }
}

#define WITH_DEVICE(test) cmocka_unit_test_setup_teardown(test, put_device, take_device)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DEVICE(test_pictures_of_a_device_are_those_of_the_processor),
        WITH_DEVICE(test_without_a_device_the_processor_decodes_with_one_warning),
        WITH_DEVICE(test_a_device_that_fails_gives_way_to_the_processor),
        WITH_DEVICE(test_what_a_device_refuses_the_processor_decodes),
        WITH_DEVICE(test_auto_and_cpu_ask_for_no_device),
        WITH_DEVICE(test_damage_is_judged_by_the_processor),
        WITH_DEVICE(test_the_machines_own_devices_are_used_or_warned_of),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
