/* A set as a picture. */
#include "made_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <png.h>

#include "report.h"

#define WIDTH 1200
#define RIGHT 1152                     /* margin of 48 */
#define AXIS (RIGHT - LR_SHEET_COLUMNS)
#define ACCENT 0x2563a8
#define PAPER 0xffffff

/* ------------------------------------------------------------------ pictures */

typedef struct picture {
    uint8_t *rgb;
    size_t width, height;
} picture;

static picture read_png(const char *path)
{
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_file(&image, path)) fail_msg("%s: %s", path, image.message);
    image.format = PNG_FORMAT_RGB;
    picture out = {.width = image.width, .height = image.height};
    out.rgb = malloc(PNG_IMAGE_SIZE(image));
    if (!out.rgb || !png_image_finish_read(&image, NULL, out.rgb, 0, NULL))
        fail_msg("%s: %s", path, image.message);
    return out;
}

static lr_color pixel(const picture *p, size_t x, size_t y)
{
    const uint8_t *at = p->rgb + (y * p->width + x) * 3;
    return (lr_color)at[0] << 16 | (lr_color)at[1] << 8 | at[2];
}

/* How many pixels of a column have (or, not `same`, have not) the colour. */
static size_t count_column(const picture *p, size_t x, lr_color color, bool same)
{
    size_t count = 0;
    for (size_t y = 0; y < p->height; y++) count += (pixel(p, x, y) == color) == same;
    return count;
}

/* ------------------------------------------------------------------ a recording of flat colours */

#define COLORS 4
static const lr_color colors[COLORS] = {0xd02010, 0x10c040, 0x2030e0, 0xf0f0a0};

/* colours.mkv: four seconds, one colour each; the loudest square wave there is for two of them, then
 * silence. The path is freed by free(). */
static char *write_colors(const made_set *made)
{
    static uint8_t rgb[COLORS][64][96][3];
    static int16_t samples[COLORS * 16000];
    for (int c = 0; c < COLORS; c++)
        for (int y = 0; y < 64; y++)
            for (int x = 0; x < 96; x++)
                for (int i = 0; i < 3; i++) rgb[c][y][x][i] = (uint8_t)(colors[c] >> (16 - 8 * i));
    for (int i = 0; i < 2 * 16000; i++) samples[i] = i / 40 % 2 ? 32767 : -32767;
    const lrt_film film = {.width = 96, .height = 64, .rate = {1, 1}, .rgb = &rgb[0][0][0][0],
                           .n_pictures = COLORS, .samples = samples, .n_samples = COLORS * 16000};
    char *path = lrt_path(made->directory, "colours.mkv");
    lrt_write_film(path, &film);
    return path;
}

/* A set of it with segments of a second. */
static char *encode_colors(made_set made, const char *name)
{
    lr_encode_options options = made_set_options();
    options.segment = options.hop = LR_TIME_SECOND;
    made.recording = write_colors(&made);
    char *set = made_set_encode(&made, name, &options);
    free(made.recording);
    return set;
}

static lr_status make_report(const char *set, const char *png, const char *recording,
                             lr_report_result *result, lr_error *err)
{
    const lr_report_options options = {.recording = recording, .threads = 1};
    return lr_report(set, png, &options, result, err);
}

static void test_report_shows_frames_map_and_loudness(void **state)
{
    const made_set *made = *state;
    char *set = encode_colors(*made, "colors"), *png = lrt_path(made->directory, "colors.png");
    lr_report_result result;
    lr_error err = {0};
    lrt_assert_ok(make_report(set, png, NULL, &result, &err), &err);
    assert_string_equal(result.note, "");
    assert_int_equal(result.frames, COLORS);
    assert_true(result.loudness);
    picture p = read_png(png);
    assert_int_equal(p.width, WIDTH);
    assert_int_equal(p.height, (size_t)result.height);
    assert_int_equal(pixel(&p, 0, 0), ACCENT); /* a bar of ten rows above everything */
    assert_int_equal(pixel(&p, 0, 10), PAPER);
    /* four thumbnails side by side, each 2/3 as high as it is wide, in the colours of the frames */
    for (size_t c = 0; c < COLORS; c++) {
        size_t middle = 48 + (RIGHT - 48) * (2 * c + 1) / (2 * COLORS);
        assert_in_range(count_column(&p, middle, colors[c], true), 160, 190);
    }
    /* seconds 0 and 1 are as loud as can be: 200 rows; 2 and 3 are silent */
    assert_int_equal(count_column(&p, AXIS + LR_SHEET_COLUMNS / 4, ACCENT, true), 10 + 200 - 3);
    assert_int_equal(count_column(&p, AXIS + LR_SHEET_COLUMNS * 3 / 4, ACCENT, true), 10);
    free(p.rgb);
    free(png);
    free(set);
}

static void test_a_long_set_shows_twenty_frames(void **state)
{
    const made_set *made = *state;
    lr_encode_options options = made_set_options();
    options.fps = (lr_rational){10, 1};
    options.context = 400;
    char *set = made_set_encode(made, "long", &options), *png = lrt_path(made->directory, "long.png");
    lr_report_result result;
    lr_error err = {0};
    lrt_assert_ok(make_report(set, png, NULL, &result, &err), &err);
    assert_int_equal(result.frames, LR_SHEET_THUMBNAILS);
    free(set);
    free(png);
}

static void test_sound_alone_and_a_part_have_reports(void **state)
{
    const made_set *made = *state;
    lr_encode_options options = made_set_options();
    char *png = lrt_path(made->directory, "part.png");
    for (int kind = 0; kind < 3; kind++) {
        options.video = kind != 0;
        options.audio = kind != 1;
        options.start = kind == 2 ? 3 * LR_TIME_SECOND / 2 : LR_TIME_NONE;
        options.end = kind == 2 ? 4 * LR_TIME_SECOND : LR_TIME_NONE;
        char *set = made_set_encode(made, "part", &options);
        lr_report_result result;
        lr_error err = {0};
        lrt_assert_ok(make_report(set, png, NULL, &result, &err), &err);
        assert_int_equal(result.frames > 0, options.video);
        assert_int_equal(result.loudness, options.audio);
        assert_string_equal(result.note, "");
        free(set);
    }
    free(png);
}

/* ------------------------------------------------------------------ the recording */

static void test_without_the_recording_the_sheet_says_so(void **state)
{
    const made_set *made = *state;
    char *set = encode_colors(*made, "moved"), *png = lrt_path(made->directory, "moved.png");
    char *there = lrt_path(made->directory, "colours.mkv"), *away = lrt_path(made->directory, "away.mkv");
    lr_report_result whole, result;
    lr_error err = {0};
    lrt_assert_ok(make_report(set, png, NULL, &whole, &err), &err);
    assert_int_equal(rename(there, away), 0);
    lrt_assert_ok(make_report(set, png, NULL, &result, &err), &err);
    assert_int_equal(result.frames, 0);
    assert_false(result.loudness);
    assert_non_null(strstr(result.note, there));
    assert_true(result.height < whole.height);
    lrt_assert_ok(make_report(set, png, away, &result, &err), &err);
    assert_int_equal(result.frames, COLORS);
    assert_int_equal(result.height, whole.height);
    /* another file in its place */
    size_t bytes;
    char *other = lrt_slurp(made->recording, &bytes);
    lrt_write(there, other, bytes);
    lrt_assert_ok(make_report(set, png, NULL, &result, &err), &err);
    assert_int_equal(result.frames, 0);
    assert_non_null(strstr(result.note, "not the file that was encoded"));
    assert_int_equal(make_report(set, png, made->recording, &result, &err), LR_E_USAGE);
    assert_int_equal(err.status, LR_E_USAGE);
    lr_error_clear(&err);
    assert_int_equal(make_report(set, png, "none.mkv", &result, &err), LR_E_USAGE);
    assert_int_equal(err.status, LR_E_USAGE);
    free(other);
    free(there);
    free(away);
    free(set);
    free(png);
}

static void test_nothing_is_written_when_it_cannot_be_whole(void **state)
{
    const made_set *made = *state;
    char *set = encode_colors(*made, "altered"), *png = lrt_path(made->directory, "altered.png");
    char *nowhere = lrt_path(made->directory, "nowhere/a.png"), *path = lrt_path(set, "segments.npy");
    lr_cancel cancel = 1;
    const lr_report_options options = {.cancel = &cancel};
    lr_report_result result;
    lr_error err = {0};
    assert_int_equal(make_report(set, nowhere, NULL, &result, &err), LR_E_IO);
    assert_non_null(strstr(err.text, "nowhere"));
    lr_error_clear(&err);
    assert_int_equal(lr_report(set, png, &options, &result, &err), LR_E_INTERRUPTED);
    lr_error_clear(&err);
    size_t bytes;
    unsigned char *data = lrt_slurp(path, &bytes);
    data[bytes - 1] ^= 1;
    lrt_write(path, data, bytes);
    assert_int_equal(make_report(set, png, NULL, &result, &err), LR_E_FORMAT);
    assert_false(lrt_exists(png));
    free(data);
    free(path);
    free(nowhere);
    free(set);
    free(png);
}

typedef struct report_work {
    const char *set, *png;
} report_work;

static lr_status work(void *arg, lr_error *err)
{
    const report_work *paths = arg;
    lr_report_result result;
    return make_report(paths->set, paths->png, NULL, &result, err);
}

static void test_report_survives_each_failed_allocation(void **state)
{
    const made_set *made = *state;
    char *set = encode_colors(*made, "allocations"), *png = lrt_path(made->directory, "allocations.png");
    report_work paths = {set, png};
    assert_true(lrt_fail_each_allocation(work, &paths) > 50);
    free(set);
    free(png);
}

/* ------------------------------------------------------------------ similarity */

/* Segments [start, end) with the given unit vectors of two values. */
static lr_similarity similarity_of(const double (*times)[2], const double *angles, size_t n, double end,
                                   size_t columns)
{
    lr_similarity out;
    lr_error err = {0};
    lr_segment_row *rows = calloc(n, sizeof *rows);
    float *vectors = calloc(2 * n, sizeof *vectors);
    assert_true(rows && vectors);
    for (size_t i = 0; i < n; i++) {
        rows[i] = (lr_segment_row){.start = times[i][0], .end = times[i][1]};
        vectors[2 * i] = (float)cos(angles[i]);
        vectors[2 * i + 1] = (float)sin(angles[i]);
    }
    const lr_set_info set = {.dim = 2, .n_segments = n, .segments = vectors, .segment_rows = rows};
    lrt_assert_ok(lr_similarity_make(&out, &set, 0, end, columns, &err), &err);
    free(rows);
    free(vectors);
    return out;
}

static void test_cells_are_where_their_segments_are(void **state)
{
    (void)state;
    static const double times[][2] = {{0, 10}, {20, 30}}, angles[] = {0, 1.0471975511965976};
    static const int expected[] = {0, 0, -1, -1, 1, 1, -1, -1};
    lr_similarity s = similarity_of(times, angles, 2, 40, 8);
    assert_int_equal(s.n, 2);
    assert_memory_equal(s.cell_at, expected, sizeof expected);
    /* products of two rounded to fp32, summed in fp64: within 2^-23 of cos(60 degrees) */
    assert_true(fabs((double)s.cosines[1] - 0.5) < 0x1p-23);
    assert_true(fabs((double)s.cosines[0] - 1) < 0x1p-23);
    assert_true(s.low <= 0.5 && s.high >= 0.5 && s.low < s.high);
    lr_similarity_free(&s);
}

static void test_of_overlapping_segments_the_nearest_is_shown(void **state)
{
    (void)state;
    static const double times[][2] = {{0, 10}, {5, 15}, {10, 20}}, angles[] = {0, 1, 2};
    static const int expected[] = {0, 0, 0, 1, 1, 2, 2, 2}; /* middles at 5, 10, 15; columns of 2.5 s */
    lr_similarity s = similarity_of(times, angles, 3, 20, 8);
    assert_memory_equal(s.cell_at, expected, sizeof expected);
    lr_similarity_free(&s);
}

static void test_many_segments_share_a_column(void **state)
{
    (void)state;
    enum { N = 40 };
    double times[N][2], angles[N];
    for (int i = 0; i < N; i++) {
        times[i][0] = i;
        times[i][1] = i + 1;
        angles[i] = i < N / 2 ? 0 : 1.5707963267948966;
    }
    lr_similarity s = similarity_of(times, angles, N, N, 10);
    assert_int_equal(s.n, 10);
    for (int c = 0; c < 10; c++) assert_int_equal(s.cell_at[c], c);
    for (size_t i = 0; i < 10; i++)
        for (size_t j = 0; j < 10; j++)
            assert_true(fabs((double)s.cosines[i * 10 + j] - ((i < 5) == (j < 5) ? 1 : 0)) < 0x1p-22);
    lr_similarity_free(&s);
}

/* ------------------------------------------------------------------ drawing */

static void test_drawing_stays_inside_the_picture(void **state)
{
    (void)state;
    lr_canvas c;
    lr_error err = {0};
    const lr_font font = {.size = 40, .bold = true, .color = 0x102030};
    static const uint8_t red[3] = {255, 0, 0};
    lrt_assert_ok(lr_canvas_create(&c, 20, 10, PAPER, &err), &err);
    lr_text_draw(&c, &font, -30, 30, LR_LEFT, "MWg");
    lr_canvas_fill(&c, -5, -5, 8, 8, 0x00ff00); /* down to (2, 2) */
    lr_canvas_fill(&c, 18, 8, 50, 50, 0x0000ff);
    lr_canvas_fill(&c, 5, 5, -3, 2, 0);
    lr_canvas_box(&c, 15, -4, 90, 7, 2, 0xff00ff, 1);
    lr_canvas_picture(&c, -3, 6, 6, 9, red, 3, 1, 1);
    const picture p = {.rgb = c.rgb, .width = 20, .height = 10};
    assert_int_equal(pixel(&p, 2, 2), 0x00ff00);
    assert_int_equal(pixel(&p, 2, 9), 0xff0000);
    assert_int_equal(pixel(&p, 19, 9), 0x0000ff);
    assert_int_equal(pixel(&p, 19, 0), 0xff00ff);
    assert_int_equal(lr_canvas_create(&c, 0, 10, 0, &err), LR_E_INTERNAL);
    lr_free(p.rgb);
}

static void test_a_smaller_picture_is_the_mean(void **state)
{
    (void)state;
    lr_canvas c;
    lr_error err = {0};
    static const uint8_t gray[2][4][3] = {{{0}, {100, 100, 100}, {200, 10, 0}, {200, 30, 0}},
                                          {{20, 40, 60}, {40, 20, 0}, {0, 10, 4}, {0, 30, 4}}};
    lrt_assert_ok(lr_canvas_create(&c, 2, 1, 0, &err), &err);
    lr_canvas_picture(&c, 0, 0, 2, 1, &gray[0][0][0], 12, 4, 2);
    const uint8_t expected[] = {40, 40, 40, 100, 20, 2};
    assert_memory_equal(c.rgb, expected, sizeof expected);
    lr_canvas_free(&c);
}

static void test_every_character_but_nought_and_o_has_a_letter_of_its_own(void **state)
{
    (void)state;
    enum { SIDE = 40, BYTES = 3 * SIDE * SIDE };
    static uint8_t drawn['~' + 1][BYTES];
    const lr_font font = {.size = 14, .color = 0};
    for (int ch = ' '; ch <= '~'; ch++) {
        lr_canvas c;
        lr_error err = {0};
        const char text[] = {(char)ch, '\0'};
        lrt_assert_ok(lr_canvas_create(&c, SIDE, SIDE, PAPER, &err), &err);
        lr_text_draw(&c, &font, 10, 25, LR_LEFT, text);
        memcpy(drawn[ch], c.rgb, BYTES);
        lr_canvas_free(&c);
        for (int other = ' '; other < ch; other++)
            if (memcmp(drawn[other], drawn[ch], BYTES) == 0 && !(ch == 'O' && other == '0'))
                fail_msg("'%c' looks like '%c'", ch, other);
    }
}

static void test_texts_are_cut_in_the_middle(void **state)
{
    (void)state;
    const lr_font font = {.size = 20, .bold = true};
    const char *name = "caf\xc3\xa9 \xe2\x80\x93 a very long name of a recording.mkv";
    char *fitted = NULL;
    lr_error err = {0};
    assert_true(lr_text_width(&font, "\xc3\xa9") == lr_text_width(&font, "?"));
    assert_true(lr_text_width(&font, "12:34") == lr_text_width(&font, "00:11"));
    assert_true(lr_text_width(&font, "") == 0);
    lrt_assert_ok(lr_text_fit(&fitted, &font, name, 10000, &err), &err);
    assert_string_equal(fitted, "caf? ? a very long name of a recording.mkv");
    lr_free(fitted);
    lrt_assert_ok(lr_text_fit(&fitted, &font, name, 250, &err), &err);
    assert_true(lr_text_width(&font, fitted) <= 250);
    assert_true(strncmp(fitted, "caf? ", 5) == 0 && strstr(fitted, "..."));
    assert_string_equal(fitted + strlen(fitted) - 4, ".mkv");
    lr_free(fitted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_report_shows_frames_map_and_loudness),
        cmocka_unit_test(test_a_long_set_shows_twenty_frames),
        cmocka_unit_test(test_sound_alone_and_a_part_have_reports),
        cmocka_unit_test(test_without_the_recording_the_sheet_says_so),
        cmocka_unit_test(test_nothing_is_written_when_it_cannot_be_whole),
        cmocka_unit_test(test_report_survives_each_failed_allocation),
        cmocka_unit_test(test_cells_are_where_their_segments_are),
        cmocka_unit_test(test_of_overlapping_segments_the_nearest_is_shown),
        cmocka_unit_test(test_many_segments_share_a_column),
        cmocka_unit_test(test_drawing_stays_inside_the_picture),
        cmocka_unit_test(test_a_smaller_picture_is_the_mean),
        cmocka_unit_test(test_every_character_but_nought_and_o_has_a_letter_of_its_own),
        cmocka_unit_test(test_texts_are_cut_in_the_middle),
    };
    return cmocka_run_group_tests(tests, made_set_setup, made_set_teardown);
}
