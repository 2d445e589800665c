/* How a picture looks: orientation, pixel aspect, colour, alpha, changes inside a film, stills. */
#include "recordings.h"

#include <stdlib.h>
#include <string.h>

#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

/* The first frame of a file as packed RGB; free() it. */
static uint8_t *first_frame(const char *path, lr_video_info *info, lr_frame *frame)
{
    lr_error err = {0};
    lr_frame_reader *reader;
    bool got;
    lr_recording *recording = lrm_open(path, NULL);
    *info = lr_recording_timeline(recording)->video;
    lrt_assert_ok(lr_frame_reader_open(&reader, recording, 0, 1, &err), &err);
    lrt_assert_ok(lr_frame_reader_next(reader, frame, &got, &err), &err);
    assert_true(got);
    uint8_t *rgb = malloc((size_t)frame->width * 3 * (size_t)frame->height);
    for (int y = 0; y < frame->height; y++)
        memcpy(rgb + (size_t)y * (size_t)frame->width * 3, frame->rgb + (size_t)y * frame->stride,
               (size_t)frame->width * 3);
    lr_frame_reader_close(reader);
    lr_recording_close(recording);
    return rgb;
}

/* A pattern without any symmetry: no two of its eight orientations are alike. */
static void draw_rgb24(AVFrame *frame, int n)
{
    for (int y = 0; y < frame->height; y++)
        for (int x = 0; x < frame->width; x++) {
            uint8_t *p = frame->data[0] + y * frame->linesize[0] + 3 * x;
            p[0] = (uint8_t)(x * 5 + n);
            p[1] = (uint8_t)(y * 9);
            p[2] = (uint8_t)(x * y);
        }
}

static void draw_bgra(AVFrame *frame, int n)
{
    (void)n;
    for (int y = 0; y < frame->height; y++)
        for (int x = 0; x < frame->width; x++) {
            uint8_t *p = frame->data[0] + y * frame->linesize[0] + 4 * x;
            p[0] = (uint8_t)(x * 7);
            p[1] = (uint8_t)(y * 11);
            p[2] = (uint8_t)(255 - x);
            p[3] = (uint8_t)(x * 4);
        }
}

/* FFV1 has no RGB24, but this is the same without loss. */
static void draw_bgr0(AVFrame *frame, int n)
{
    for (int y = 0; y < frame->height; y++)
        for (int x = 0; x < frame->width; x++) {
            uint8_t *p = frame->data[0] + y * frame->linesize[0] + 4 * x;
            p[2] = (uint8_t)(x * 5 + n);
            p[1] = (uint8_t)(y * 9);
            p[0] = (uint8_t)(x * y);
        }
}

/* Not grey: matrices differ. */
static void draw_colours(AVFrame *frame, int n)
{
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < (plane ? frame->height / 2 : frame->height); y++)
            for (int x = 0; x < (plane ? frame->width / 2 : frame->width); x++)
                frame->data[plane][y * frame->linesize[plane] + x] =
                    (uint8_t)(plane == 0 ? 60 + x + n : plane == 1 ? 90 + y : 160 - y);
}

/* ------------------------------------------------------------------ orientation */

/* The matrix takes the coded place (x, y) to (a x + c y, b x + d y); pixels are compared one by one. */
static void check_orientation(int a, int b, int c, int d, int degrees, bool flipped)
{
    enum { W = 40, H = 24 };
    const int one = 1 << 16;
    int32_t matrix[9] = {a * one, b * one, 0, c * one, d * one, 0, 0, 0, 1 << 30};
    lrm_film film = {.encoder = "png",
                     .format = AV_PIX_FMT_RGB24,
                     .width = W,
                     .height = H,
                     .frames = 2,
                     .rate = {1, 1},
                     .matrix = matrix,
                     .draw = draw_rgb24};
    char *path = lrt_path(lrt_dir, "turned.mov");
    lr_video_info info;
    lr_frame frame;
    lrm_record(path, "mov", &film, NULL);
    uint8_t *rgb = first_frame(path, &info, &frame);
    bool crossed = b != 0;
    assert_int_equal(info.rotation, degrees);
    assert_int_equal(info.flipped, flipped);
    assert_int_equal(info.coded_width, W);
    assert_int_equal(frame.width, crossed ? H : W);
    assert_int_equal(frame.height, crossed ? W : H);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            int to_x = a * x + c * y, to_y = b * x + d * y;
            if (a + c < 0) to_x += frame.width - 1;
            if (b + d < 0) to_y += frame.height - 1;
            const uint8_t *p = rgb + 3 * (to_y * frame.width + to_x);
            assert_int_equal(p[0], (uint8_t)(x * 5));
            assert_int_equal(p[1], (uint8_t)(y * 9));
            assert_int_equal(p[2], (uint8_t)(x * y));
        }
    free(rgb);
    free(path);
}

static void test_pictures_are_turned_upright_in_all_eight_ways(void **state)
{
    (void)state;
    check_orientation(1, 0, 0, 1, 0, false);
    check_orientation(0, 1, -1, 0, 90, false);
    check_orientation(-1, 0, 0, -1, 180, false);
    check_orientation(0, -1, 1, 0, 270, false);
    check_orientation(-1, 0, 0, 1, 0, true);
    check_orientation(1, 0, 0, -1, 180, true);
    check_orientation(0, 1, 1, 0, 270, true);
    check_orientation(0, -1, -1, 0, 90, true);
}

static void check_aspect(int num, int den, const int32_t *matrix, int width, int height)
{
    lrm_film film = {.encoder = "mpeg4",
                     .format = AV_PIX_FMT_YUV420P,
                     .width = 720,
                     .height = 576,
                     .frames = 2,
                     .rate = {10, 1},
                     .luma = 90,
                     .matrix = matrix,
                     .sar = {num, den}};
    char *path = lrt_path(lrt_dir, "aspect.mp4");
    lr_video_info info;
    lr_frame frame;
    lrm_record(path, "mp4", &film, NULL);
    free(first_frame(path, &info, &frame));
    assert_int_equal(info.display_width, width);
    assert_int_equal(info.display_height, height);
    assert_int_equal(frame.display_width, width);
    /* The pixels stay as they were coded. */
    assert_int_equal(frame.width, matrix ? 576 : 720);
    assert_int_equal(frame.height, matrix ? 720 : 576);
    free(path);
}

static void test_the_short_axis_of_a_pixel_is_widened(void **state)
{
    (void)state;
    const int one = 1 << 16;
    const int32_t quarter[9] = {0, one, 0, -one, 0, 0, 0, 0, 1 << 30};
    check_aspect(0, 1, NULL, 720, 576);
    check_aspect(64, 45, NULL, 1024, 576);
    check_aspect(16, 15, NULL, 768, 576);
    check_aspect(8, 9, NULL, 720, 648);
    check_aspect(64, 45, quarter, 576, 1024);
}

/* ------------------------------------------------------------------ colour */

/* What libswscale makes of the same picture with the matrix that should have been taken. */
static void check_colour(int width, int height, enum AVPixelFormat format, enum AVColorSpace space,
                         enum AVColorRange range, int matrix)
{
    lrm_film film = {.encoder = "ffv1",
                     .format = format,
                     .width = width,
                     .height = height,
                     .frames = 1,
                     .rate = {10, 1},
                     .luma = 60,
                     .space = space,
                     .range = range};
    char *path = lrt_path(lrt_dir, "colour.mkv");
    lr_video_info info;
    lr_frame frame;
    lrm_pictures pictures;
    lrm_record(path, "matroska", &film, NULL);
    uint8_t *rgb = first_frame(path, &info, &frame);
    lrm_decode_pictures(path, matrix, &pictures);
    if (memcmp(rgb, pictures.rgb[0], (size_t)width * 3 * (size_t)height) != 0)
        fail_msg("%d x %d, %s, colour space %d, range %d: not libswscale's pixels", width, height,
                 av_get_pix_fmt_name(format), space, range);
    lrm_free_pictures(&pictures);
    free(rgb);
    free(path);
}

static void test_colour_follows_the_pictures_own_tags(void **state)
{
    (void)state;
    static const enum AVColorSpace spaces[] = {AVCOL_SPC_BT709, AVCOL_SPC_BT470BG,
                                               AVCOL_SPC_SMPTE170M, AVCOL_SPC_SMPTE240M,
                                               AVCOL_SPC_BT2020_NCL};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        check_colour(96, 64, AV_PIX_FMT_YUV420P, spaces[i], AVCOL_RANGE_MPEG, -1);
        check_colour(96, 64, AV_PIX_FMT_YUV420P, spaces[i], AVCOL_RANGE_JPEG, -1);
        check_colour(1280, 720, AV_PIX_FMT_YUV420P, spaces[i], AVCOL_RANGE_MPEG, -1);
    }
}

static void test_untagged_pictures_are_bt601_unless_they_are_large(void **state)
{
    (void)state;
    check_colour(720, 576, AV_PIX_FMT_YUV420P, AVCOL_SPC_UNSPECIFIED, AVCOL_RANGE_MPEG, SWS_CS_ITU601);
    check_colour(720, 578, AV_PIX_FMT_YUV420P, AVCOL_SPC_UNSPECIFIED, AVCOL_RANGE_MPEG, SWS_CS_ITU709);
    check_colour(1280, 544, AV_PIX_FMT_YUV420P, AVCOL_SPC_UNSPECIFIED, AVCOL_RANGE_MPEG, SWS_CS_ITU709);
}

/* The same film, with its colour told by the pictures and by the container. */
static uint64_t hash_of_colour(lrm_film film, const char *muxer, bool by_container, bool *is_mapped)
{
    char *path = lrt_path(lrt_dir, "told");
    lr_ingest_options options = lr_ingest_defaults();
    lrm_reading reading;
    film.told_by_container = by_container;
    lrm_record(path, muxer, &film, NULL);
    lr_recording *recording = lrm_open(path, &options);
    const lr_timeline *t = lr_recording_timeline(recording);
    *is_mapped = false;
    for (size_t i = 0; i < t->n_warnings; i++)
        if (strstr(t->warnings[i], "high dynamic range")) *is_mapped = true;
    lrm_read_frames(recording, 0, 1, &reading);
    uint64_t hash = reading.hash[0];
    lrm_free_reading(&reading);
    lr_recording_close(recording);
    free(path);
    return hash;
}

static void test_colour_that_only_the_container_tells_counts_as_much(void **state)
{
    (void)state;
    static const char *const muxers[] = {"mp4", "matroska"};
    static const struct {
        const char *encoder, *options;
    } encoders[] = {{"libx265", "preset=ultrafast;x265-params=pools=1:frame-threads=1:log-level=0"},
                    {"libx264", "preset=ultrafast"}};
    static const struct {
        enum AVColorSpace space;
        enum AVColorRange range;
        enum AVColorTransferCharacteristic transfer;
        enum AVColorPrimaries primaries;
    } colours[] = {
        {AVCOL_SPC_BT709, AVCOL_RANGE_MPEG, AVCOL_TRC_BT709, AVCOL_PRI_BT709},
        {AVCOL_SPC_BT709, AVCOL_RANGE_JPEG, AVCOL_TRC_BT709, AVCOL_PRI_BT709},
        {AVCOL_SPC_BT2020_NCL, AVCOL_RANGE_MPEG, AVCOL_TRC_SMPTE2084, AVCOL_PRI_BT2020},
    };
    for (size_t e = 0; e < 2; e++)
        for (size_t m = 0; m < 2; m++)
            for (size_t c = 0; c < 3; c++) {
                lrm_film film = {.encoder = encoders[e].encoder, .options = encoders[e].options, .width = 96,
                                 .height = 64, .format = AV_PIX_FMT_YUV420P, .frames = 3, .rate = {1, 1}, .luma = 60,
                                 .draw = draw_colours};
                bool mapped, mapped_too;
                uint64_t untold = hash_of_colour(film, muxers[m], false, &mapped);
                assert_false(mapped);
                film.space = colours[c].space;
                film.range = colours[c].range;
                film.transfer = colours[c].transfer;
                film.primaries = colours[c].primaries;
                uint64_t told = hash_of_colour(film, muxers[m], false, &mapped);
                uint64_t told_too = hash_of_colour(film, muxers[m], true, &mapped_too);
                if (told != told_too || told == untold || mapped != mapped_too || mapped != (c == 2))
                    fail_msg("%s in %s, colour %zu: other pictures", film.encoder, muxers[m], c);
            }
}

static void test_formats_and_odd_sizes_are_libswscales(void **state)
{
    (void)state;
    static const enum AVPixelFormat formats[] = {
        AV_PIX_FMT_YUV420P,     AV_PIX_FMT_YUV422P,     AV_PIX_FMT_YUV444P,    AV_PIX_FMT_YUV411P,
        AV_PIX_FMT_YUV420P10LE, AV_PIX_FMT_YUV422P10LE, AV_PIX_FMT_YUV444P12LE, AV_PIX_FMT_GRAY8,
        AV_PIX_FMT_GRAY10LE};
    static const int sizes[][2] = {{96, 64}, {97, 63}, {33, 17}, {8, 8}, {7, 5}, {2, 2}, {1, 1}, {258, 2}};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            check_colour(sizes[s][0], sizes[s][1], formats[f], AVCOL_SPC_UNSPECIFIED,
                         AVCOL_RANGE_UNSPECIFIED, SWS_CS_ITU601);
}

static void test_transparent_pixels_stand_on_black(void **state)
{
    (void)state;
    enum { W = 60, H = 20 };
    lrm_film film = {.encoder = "ffv1",
                     .format = AV_PIX_FMT_BGRA,
                     .width = W,
                     .height = H,
                     .frames = 1,
                     .rate = {1, 1},
                     .draw = draw_bgra};
    char *path = lrt_path(lrt_dir, "alpha.mkv");
    lr_video_info info;
    lr_frame frame;
    lrm_record(path, "matroska", &film, NULL);
    uint8_t *rgb = first_frame(path, &info, &frame);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const uint8_t colour[3] = {(uint8_t)(255 - x), (uint8_t)(y * 11), (uint8_t)(x * 7)};
            for (int i = 0; i < 3; i++) {
                /* The nearest to c * alpha / 255: within half, as it is rounded once. */
                int twice = 2 * rgb[3 * (y * W + x) + i] * 255 - 2 * colour[i] * (x * 4 % 256);
                assert_in_range(twice + 255, 0, 510);
            }
        }
    free(rgb);
    free(path);
}

static void draw_veil(AVFrame *frame, int n)
{
    (void)n;
    for (int plane = 0; plane < 4; plane++) {
        int shift = plane == 1 || plane == 2;
        for (int y = 0; y < frame->height >> shift; y++)
            for (int x = 0; x < frame->width >> shift; x++)
                frame->data[plane][y * frame->linesize[plane] + x] =
                    (uint8_t)(plane == 0 ? 200 : plane == 3 ? (x < frame->width / 2 ? 0 : 255) : 128);
    }
}

/* Its alpha plane lies beside each packet, and libav's own decoders leave it out. */
static void test_transparent_vp8_and_vp9_stand_on_black(void **state)
{
    (void)state;
    enum { W = 64, H = 32 };
    static const char *const encoders[] = {"libvpx", "libvpx-vp9"};
    for (size_t e = 0; e < 2; e++) {
        lrm_film film = {.encoder = encoders[e],
                         .format = AV_PIX_FMT_YUVA420P,
                         .width = W,
                         .height = H,
                         .frames = 20,
                         .rate = {5, 1},
                         .gop = 5,
                         .options = "auto-alt-ref=0",
                         .draw = draw_veil};
        char *path = lrt_path(lrt_dir, "veil.webm");
        lrt_random random;
        lr_video_info info;
        lr_frame frame;
        lrt_random_init(&random, 12);
        lrm_record(path, "webm", &film, NULL);
        uint8_t *rgb = first_frame(path, &info, &frame);
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                /* Away from the edge; the codec rounds. White of (200 - 16) * 255 / 219. */
                if (x < W / 2 - 8) assert_in_range(rgb[3 * (y * W + x)], 0, 8);
                if (x >= W / 2 + 8) assert_in_range(rgb[3 * (y * W + x)], 206, 222);
            }
        free(rgb);
        assert_true(lrm_readers_agree(path, &random, film.encoder));
        free(path);
    }
}

/* ------------------------------------------------------------------ changes */

static void append_file(const char *to, const char *from)
{
    size_t a, b;
    char *first = lrt_slurp(to, &a), *second = lrt_slurp(from, &b);
    char *both = malloc(a + b);
    memcpy(both, first, a);
    memcpy(both + a, second, b);
    lrt_write(to, both, a + b);
    free(first);
    free(second);
    free(both);
}

static void check_change(int width, int height, enum AVPixelFormat format)
{
    lrm_film film = {.encoder = "libx264",
                     .format = AV_PIX_FMT_YUV420P,
                     .width = 96,
                     .height = 64,
                     .frames = 30,
                     .rate = {10, 1},
                     .gop = 10,
                     .b_frames = 2,
                     .luma = 40,
                     .step = 2,
                     .plain = true,
                     .options = "preset=veryfast;crf=8"};
    char *path = lrt_path(lrt_dir, "change.ts"), *second = lrt_path(lrt_dir, "second.ts");
    lrm_reading all, part;
    lrm_record(path, "mpegts", &film, NULL);
    film.width = width;
    film.height = height;
    film.format = format;
    film.luma = 100;
    /* Both files begin at 0.2 s, so that no dts is negative. */
    film.offset_ms = 3200;
    lrm_record(second, "mpegts", &film, NULL);
    append_file(path, second);
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){10, 1};
    lr_recording *recording = lrm_open(path, &options);
    const lr_video_info *info = &lr_recording_timeline(recording)->video;
    assert_int_equal(info->width, 96);
    assert_int_equal(info->n_frames, 60);
    assert_int_equal(info->n_kinds, 2);
    assert_int_equal(info->kinds[0].from, 0);
    assert_int_equal(info->kinds[0].width, 96);
    assert_int_equal(info->kinds[1].from, 3 * LR_TIME_SECOND);
    assert_int_equal(info->kinds[1].width, width);
    assert_int_equal(info->kinds[1].height, height);
    assert_string_equal(info->kinds[1].format, av_get_pix_fmt_name(format));
    lrm_read_frames(recording, 0, 60, &all);
    for (int64_t k = 0; k < 60; k++) {
        double want = k < 30 ? 40 + 2.0 * (double)k : 100 + 2.0 * (double)(k - 30);
        if (all.luma[k] < want - 2 || all.luma[k] > want + 2)
            fail_msg("frame %lld: luma %.1f, not %.0f", (long long)k, all.luma[k], want);
    }
    lrm_read_frames(recording, 34, 57, &part);
    lrm_assert_same_frames(&all, &part, "behind the change");
    lrm_free_reading(&part);
    lrm_free_reading(&all);
    lr_recording_close(recording);
    free(second);
    free(path);
}

static void test_later_sizes_and_formats_are_fitted_to_the_first(void **state)
{
    (void)state;
    check_change(160, 120, AV_PIX_FMT_YUV420P);
    check_change(64, 96, AV_PIX_FMT_YUV420P);
    check_change(96, 64, AV_PIX_FMT_YUV422P10LE);
}

/* Every codec that says inside the stream what its pictures are. Packets of the second film follow those of the
 * first, as they are, in one file. */
static void check_noticed(const char *encoder, enum AVPixelFormat format, const char *muxer, const char *options)
{
    lrm_film film = {.encoder = encoder,
                     .format = format,
                     .width = 96,
                     .height = 64,
                     .frames = 20,
                     .rate = {10, 1},
                     .gop = 5,
                     .luma = 40,
                     .step = 2,
                     .options = options};
    char *first = lrt_path(lrt_dir, "first"), *second = lrt_path(lrt_dir, "second"), *path = lrt_path(lrt_dir, "both");
    lrm_record(first, muxer, &film, NULL);
    film.width = 160;
    film.height = 48;
    lrm_record(second, muxer, &film, NULL);
    lrm_join(path, first, second, muxer);
    lr_recording *recording = lrm_open(path, NULL);
    const lr_video_info *info = &lr_recording_timeline(recording)->video;
    if (info->n_kinds != 2) fail_msg("%s: %zu kinds of pictures", encoder, info->n_kinds);
    assert_int_equal(info->kinds[1].from, 2 * LR_TIME_SECOND);
    assert_int_equal(info->kinds[1].width, 160);
    assert_int_equal(info->kinds[1].height, 48);
    lr_recording_close(recording);
    recording = lrm_open(first, NULL);
    assert_int_equal(lr_recording_timeline(recording)->video.n_kinds, 0);
    lr_recording_close(recording);
    free(first);
    free(second);
    free(path);
}

static void test_a_change_of_size_is_noticed_in_every_codec(void **state)
{
    (void)state;
    check_noticed("mpeg2video", AV_PIX_FMT_YUV420P, "mpegts", NULL);
    check_noticed("mpeg4", AV_PIX_FMT_YUV420P, "mpegts", NULL);
    check_noticed("libx264", AV_PIX_FMT_YUV420P, "mpegts", "preset=veryfast");
    check_noticed("libx265", AV_PIX_FMT_YUV420P, "mpegts",
                  "preset=ultrafast;x265-params=pools=1:frame-threads=1:log-level=0");
    check_noticed("libvpx", AV_PIX_FMT_YUV420P, "webm", "deadline=realtime");
    check_noticed("libvpx-vp9", AV_PIX_FMT_YUV420P, "webm", "deadline=realtime;cpu-used=8");
    check_noticed("mjpeg", AV_PIX_FMT_YUVJ420P, "matroska", NULL);
    check_noticed("prores_ks", AV_PIX_FMT_YUV422P10LE, "mov", NULL);
    check_noticed("png", AV_PIX_FMT_RGB24, "matroska", NULL);
}

/* Two broadcasts in one file, each with a clock of its own: one timeline, picture and sound together. */
static void test_a_clock_that_is_set_anew_goes_on(void **state)
{
    (void)state;
    lrm_film film = {.encoder = "libx264",
                     .format = AV_PIX_FMT_YUV420P,
                     .width = 96,
                     .height = 64,
                     .frames = 40,
                     .rate = {10, 1},
                     .gop = 10,
                     .b_frames = 2,
                     .luma = 40,
                     .step = 1,
                     .plain = true,
                     .options = "preset=veryfast;crf=8"};
    lrm_track track = {.encoder = "mp2", .rate = 48000, .channels = 1, .ms = 4000};
    char *path = lrt_path(lrt_dir, "anew.ts"), *second = lrt_path(lrt_dir, "second.ts");
    lrm_reading all;
    size_t count;
    lrm_record(path, "mpegts", &film, &track);
    film.luma = 120;
    lrm_record(second, "mpegts", &film, &track);
    append_file(path, second);
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){10, 1};
    lr_recording *recording = lrm_open(path, &options);
    const lr_timeline *t = lr_recording_timeline(recording);
    assert_int_equal(t->n_warnings, 1);
    assert_non_null(strstr(t->warnings[0], "set anew 1 time"));
    assert_int_equal(t->video.n_frames, 80);
    assert_int_equal(t->audio.n_gaps, 0);
    lrm_read_frames(recording, 0, 80, &all);
    for (int64_t k = 0; k < 80; k++) {
        double want = k < 40 ? 40 + (double)k : 120 + (double)(k - 40);
        if (all.luma[k] < want - 2 || all.luma[k] > want + 2)
            fail_msg("frame %lld: luma %.1f, not %.0f", (long long)k, all.luma[k], want);
    }
    /* The tones begin at whole seconds of each broadcast; packets of 24 ms lie across the joint. */
    float *samples = lrm_read_sound(recording, &count);
    for (int second_number = 1; second_number < 8; second_number++) {
        size_t at = (size_t)second_number * 16000 - 3200;
        while (at < count && samples[at] < 0.05f && samples[at] > -0.05f) at++;
        assert_in_range(at / 16, second_number * 1000 - 60, second_number * 1000 + 60);
    }
    free(samples);
    lrm_free_reading(&all);
    lr_recording_close(recording);
    free(second);
    free(path);
}

/* ------------------------------------------------------------------ stills */

static void check_still(const char *encoder, enum AVPixelFormat format, const char *name,
                        void (*draw)(AVFrame *, int))
{
    lrm_film film = {.encoder = encoder,
                     .format = format,
                     .width = 70,
                     .height = 50,
                     .frames = 1,
                     .rate = {25, 1},
                     .luma = 120,
                     .draw = draw};
    char *path = lrt_path(lrt_dir, name);
    lr_video_info info;
    lr_frame frame;
    lrm_record(path, "image2pipe", &film, NULL);
    uint8_t *rgb = first_frame(path, &info, &frame);
    assert_true(info.still);
    assert_int_equal(info.n_frames, 1);
    assert_int_equal(frame.width, 70);
    if (draw == draw_rgb24)
        for (int i = 0; i < 70 * 50; i++) assert_int_equal(rgb[3 * i], (uint8_t)(i % 70 * 5));
    free(rgb);
    free(path);
}

static void test_a_still_picture_is_one_frame(void **state)
{
    (void)state;
    check_still("png", AV_PIX_FMT_RGB24, "still.png", draw_rgb24);
    check_still("mjpeg", AV_PIX_FMT_YUVJ420P, "still.jpg", NULL);
    check_still("libwebp", AV_PIX_FMT_YUV420P, "still.webp", NULL);
    check_still("bmp", AV_PIX_FMT_BGR24, "still.bmp", NULL);
}

/* The name says nothing about what a file is. */
static void test_a_file_is_known_by_its_content(void **state)
{
    (void)state;
    check_still("png", AV_PIX_FMT_RGB24, "still.mp4", draw_rgb24);
    check_still("png", AV_PIX_FMT_RGB24, "%d.txt", draw_rgb24);
}

static void test_lossless_rgb_comes_through_unchanged(void **state)
{
    (void)state;
    lrm_film film = {.encoder = "ffv1",
                     .format = AV_PIX_FMT_BGR0,
                     .width = 101,
                     .height = 37,
                     .frames = 3,
                     .rate = {1, 1},
                     .draw = draw_bgr0};
    char *path = lrt_path(lrt_dir, "rgb.mkv");
    lr_video_info info;
    lr_frame frame;
    lrm_record(path, "matroska", &film, NULL);
    uint8_t *rgb = first_frame(path, &info, &frame);
    for (int y = 0; y < 37; y++)
        for (int x = 0; x < 101; x++) {
            const uint8_t *p = rgb + 3 * (y * 101 + x);
            assert_int_equal(p[0], (uint8_t)(x * 5));
            assert_int_equal(p[1], (uint8_t)(y * 9));
            assert_int_equal(p[2], (uint8_t)(x * y));
        }
    free(rgb);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures_are_turned_upright_in_all_eight_ways),
        cmocka_unit_test(test_the_short_axis_of_a_pixel_is_widened),
        cmocka_unit_test(test_colour_follows_the_pictures_own_tags),
        cmocka_unit_test(test_untagged_pictures_are_bt601_unless_they_are_large),
        cmocka_unit_test(test_colour_that_only_the_container_tells_counts_as_much),
        cmocka_unit_test(test_formats_and_odd_sizes_are_libswscales),
        cmocka_unit_test(test_transparent_pixels_stand_on_black),
        cmocka_unit_test(test_transparent_vp8_and_vp9_stand_on_black),
        cmocka_unit_test(test_later_sizes_and_formats_are_fitted_to_the_first),
        cmocka_unit_test(test_a_change_of_size_is_noticed_in_every_codec),
        cmocka_unit_test(test_a_clock_that_is_set_anew_goes_on),
        cmocka_unit_test(test_a_still_picture_is_one_frame),
        cmocka_unit_test(test_a_file_is_known_by_its_content),
        cmocka_unit_test(test_lossless_rgb_comes_through_unchanged),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
