/* Pictures that filters have a part in: those of two fields are joined, those of high dynamic range mapped. What
 * comes out is compared with ffmpeg's in tests/cli/pictures.sh; here, that it is the same whoever asks. */
#include "recordings.h"

#include <stdlib.h>
#include <string.h>

enum { RATE = 25, FRAMES = 60 };

/* A bright bar moves by four columns a field, over a background that tells the pictures apart. */
static void draw_fields(AVFrame *frame, int n)
{
    for (int y = 0; y < frame->height; y++)
        for (int x = 0; x < frame->width; x++) {
            int bar = (4 * (2 * n + y % 2)) % frame->width;
            bool on = x >= bar && x < bar + 12;
            frame->data[0][y * frame->linesize[0] + x] = (uint8_t)(on ? 200 : 40 + n % 60);
        }
    for (int plane = 1; plane < 3; plane++)
        for (int y = 0; y < frame->height / 2; y++)
            memset(frame->data[plane] + (ptrdiff_t)y * frame->linesize[plane], 128, (size_t)frame->width / 2);
}

static const lrm_film fields = {.encoder = "ffv1",
                                .format = AV_PIX_FMT_YUV420P,
                                .width = 96,
                                .height = 64,
                                .frames = FRAMES,
                                .rate = {RATE, 1},
                                .interlaced = true,
                                .draw = draw_fields};

static lr_ingest_options at_fps(int64_t fps, int threads, bool every_picture)
{
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){fps, 1};
    options.threads = threads;
    options.every_picture = every_picture;
    return options;
}

/* Every reading of a film, whole and in slices, by 1, 2 and 8 threads, on grids of all pictures and of some,
 * gives for one picture the same pixels. */
static void check_all_readers(const char *path)
{
    static const int threads[] = {1, 2, 8};
    lrm_reading dense = {0}, part;
    lrt_random random;
    lrt_random_init(&random, 11);
    for (int i = 0; i < 6; i++) {
        int64_t fps = i < 3 ? RATE : 5;
        lr_ingest_options options = at_fps(fps, threads[i % 3], i % 2 == 0);
        lr_recording *recording = lrm_open(path, &options);
        int64_t n = lr_recording_timeline(recording)->video.n_frames;
        lrm_reading whole;
        assert_int_equal(n, FRAMES * fps / RATE);
        lrm_read_frames(recording, 0, n, &whole);
        assert_int_equal(whole.n_damage, 0);
        if (i == 0) dense = whole;
        for (int64_t k = 0; k < n; k++)
            if (whole.hash[k] != dense.hash[k * RATE / fps])
                fail_msg("%s: frame %lld at %lld a second by %d threads differs", path, (long long)k,
                         (long long)fps, options.threads);
        for (int64_t first = 0, end; first < n; first = end) {
            end = first + 1 + (int64_t)lrt_below(&random, (uint64_t)n / 3);
            if (end > n) end = n;
            lrm_read_frames(recording, first, end, &part);
            lrm_assert_same_frames(&whole, &part, path);
            lrm_free_reading(&part);
        }
        if (i > 0) lrm_free_reading(&whole);
        lr_recording_close(recording);
    }
    lrm_free_reading(&dense);
}

static void check_fields(const char *encoder, const char *muxer, int gop, int b_frames, const char *options)
{
    lrm_film film = fields;
    char *path = lrt_path(lrt_dir, "fields");
    film.encoder = encoder;
    film.gop = gop;
    film.b_frames = b_frames;
    film.options = options;
    lrm_record(path, muxer, &film, NULL);
    lr_recording *recording = lrm_open(path, NULL);
    assert_true(lr_recording_timeline(recording)->video.interlaced);
    lr_recording_close(recording);
    check_all_readers(path);
    free(path);
}

static void test_joined_fields_are_the_same_whoever_reads_them(void **state)
{
    (void)state;
    check_fields("ffv1", "matroska", 1, 0, NULL);
    check_fields("mpeg2video", "mpegts", 12, 2, NULL);
    check_fields("mpeg4", "avi", 12, 0, NULL);
    check_fields("libx264", "mp4", 20, 2, "preset=veryfast;x264-params=tff=1:scenecut=0");
    check_fields("libx264", "mpegts", 15, 3, "preset=veryfast;x264-params=tff=1:open-gop=1:scenecut=0");
}

/* Columns where a row differs much from the one above and the one below it, which are alike. */
static int64_t count_combs(const lr_frame *frame)
{
    int64_t count = 0;
    for (int y = 1; y + 1 < frame->height; y++)
        for (int x = 0; x < frame->width; x++) {
            const uint8_t *p = frame->rgb + (size_t)y * frame->stride + 3 * (size_t)x;
            int above = *(p - frame->stride), here = *p, below = *(p + frame->stride);
            count += abs(here - above) > 60 && abs(here - below) > 60 && abs(above - below) < 20;
        }
    return count;
}

static int64_t combs_of(bool interlaced)
{
    lrm_film film = fields;
    lr_error err = {0};
    lr_frame_reader *reader;
    lr_frame frame;
    bool got = true;
    int64_t count = 0;
    char *path = lrt_path(lrt_dir, "combs.mkv");
    film.interlaced = interlaced;
    lrm_record(path, "matroska", &film, NULL);
    lr_recording *recording = lrm_open(path, NULL);
    assert_int_equal(lr_recording_timeline(recording)->video.interlaced, interlaced);
    lrt_assert_ok(lr_frame_reader_open(&reader, recording, 1, 2, &err), &err);
    lrt_assert_ok(lr_frame_reader_next(reader, &frame, &got, &err), &err);
    assert_true(got);
    count = count_combs(&frame);
    lr_frame_reader_close(reader);
    lr_recording_close(recording);
    free(path);
    return count;
}

static void test_only_pictures_that_are_marked_so_lose_their_combs(void **state)
{
    (void)state;
    /* Two edges, of four columns each, in all rows but the outermost. */
    assert_int_equal(combs_of(false), 2 * 4 * (64 - 2));
    assert_true(combs_of(true) < 8);
}

/* ------------------------------------------------------------------ high dynamic range */

/* Grey of 10 bits in limited range: steps from black to the peak. */
static void draw_light(AVFrame *frame, int n)
{
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < frame->height >> (plane > 0); y++)
            for (int x = 0; x < frame->width >> (plane > 0); x++) {
                uint16_t *p = (uint16_t *)(void *)(frame->data[plane] + y * frame->linesize[plane]) + x;
                *p = (uint16_t)(plane ? 512 : 64 + (x * 8 + n) % 877);
            }
}

static const lrm_film light = {.encoder = "libx265",
                               .format = AV_PIX_FMT_YUV420P10LE,
                               .width = 96,
                               .height = 64,
                               .frames = FRAMES,
                               .rate = {RATE, 1},
                               .space = AVCOL_SPC_BT2020_NCL,
                               .range = AVCOL_RANGE_MPEG,
                               .transfer = AVCOL_TRC_SMPTE2084,
                               .primaries = AVCOL_PRI_BT2020,
                               .draw = draw_light};

static void check_light(const char *encoder, enum AVColorTransferCharacteristic transfer, const char *name,
                        int width, const char *options)
{
    lrm_film film = light;
    char *path = lrt_path(lrt_dir, "light.mkv");
    film.encoder = encoder;
    film.transfer = transfer;
    film.width = width;
    film.gop = 12;
    film.options = options;
    lrm_record(path, "matroska", &film, NULL);
    lr_recording *recording = lrm_open(path, NULL);
    const lr_timeline *t = lr_recording_timeline(recording);
    assert_int_equal(t->n_warnings, name ? 1 : 0);
    if (name) assert_non_null(strstr(t->warnings[0], name));
    lr_recording_close(recording);
    check_all_readers(path);
    free(path);
}

/* The peak stands only before the first picture of some films: those who begin later must know it, too. */
static void test_mapped_tones_are_the_same_whoever_reads_them(void **state)
{
    (void)state;
    const char *once = "preset=ultrafast;x265-params=pools=1:frame-threads=1:log-level=0:max-cll=4000,400";
    check_light("libx265", AVCOL_TRC_SMPTE2084, "(PQ)", 96, once);
    check_light("ffv1", AVCOL_TRC_ARIB_STD_B67, "(HLG)", 96, NULL);
    check_light("ffv1", AVCOL_TRC_SMPTE2084, "(PQ)", 95, NULL);
    check_light("ffv1", AVCOL_TRC_BT2020_10, NULL, 96, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joined_fields_are_the_same_whoever_reads_them),
        cmocka_unit_test(test_only_pictures_that_are_marked_so_lose_their_combs),
        cmocka_unit_test(test_mapped_tones_are_the_same_whoever_reads_them),
    };
    return cmocka_run_group_tests(tests, lrt_make_dir, lrt_remove_dir);
}
