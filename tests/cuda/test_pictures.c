/* From a decoder's surface to patches on the device: the bytes that the CPU's path gives; and what the vision tower
 * has of its own. */
#include "device_case.h"

#include <libswscale/swscale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/resize.h>

static float stored(float value, lr_dtype dtype)
{
    return dtype == LR_BF16 ? case_from_bf16(case_to_bf16(value)) : value;
}

static uint8_t *random_bytes(size_t n, lrt_random *random)
{
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)lrt_below(random, 256);
    return bytes;
}

static uint8_t *bytes_from(lr_device_at at, size_t n)
{
    lr_error err = {0};
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    case_device->ops->download(case_stream, bytes, at, n);
    lrt_assert_ok(case_device->ops->wait(case_stream, &err), &err);
    return bytes;
}

/* ------------------------------------------------------------------ colours */

#define PAD 6 /* bytes between rows that stay */

typedef struct surface {
    int width, height;
    uint8_t *luma, *u, *v; /* planes without gaps */
    uint8_t *rgb;          /* [height, 3 width] */
} surface;

static surface make_surface(int width, int height, lrt_random *random)
{
    size_t n = (size_t)width * (size_t)height, half = (size_t)(width + 1) / 2 * ((size_t)(height + 1) / 2);
    return (surface){width, height, random_bytes(n, random), random_bytes(half, random), random_bytes(half, random),
                     random_bytes(3 * n, random)};
}

static void free_surface(surface *s)
{
    free(s->luma);
    free(s->u);
    free(s->v);
    free(s->rgb);
}

/* The surface as NV12, or as P010 with the two lower bits of ten at zero: to RGB on the device. */
static uint8_t *device_rgb(const surface *s, bool ten_bits, const lr_device_colours *colours)
{
    size_t w = (size_t)s->width, h = (size_t)s->height, half = (w + 1) / 2, rows = (h + 1) / 2, bytes = ten_bits ? 2 : 1;
    size_t stride = (2 * half + 4) * bytes, out_stride = 3 * w + PAD;
    uint8_t *luma = calloc(h, stride), *chroma = calloc(rows, stride), *filled = malloc(h * out_stride);
    assert_true(luma && chroma && filled);
    memset(filled, 77, h * out_stride);
    for (size_t y = 0; y < h; y++) /* P010: 8 bits of 16 are the upper byte, which comes second */
        for (size_t x = 0; x < w; x++) luma[y * stride + x * bytes + bytes - 1] = s->luma[y * w + x];
    for (size_t i = 0; i < rows * half; i++) {
        uint8_t *to = chroma + i / half * stride + i % half * 2 * bytes + bytes - 1;
        to[0] = s->u[i];
        to[bytes] = s->v[i];
    }
    lr_device_surface on_device = {.luma = case_put(luma, h * stride), .chroma = case_put(chroma, rows * stride),
                                   .luma_stride = stride, .chroma_stride = stride, .width = w, .height = h,
                                   .ten_bits = ten_bits};
    lr_device_at to = case_put(filled, h * out_stride);
    case_device->ops->rgb(case_stream, to, out_stride, &on_device, colours);
    uint8_t *got = bytes_from(to, h * out_stride), *packed = malloc(3 * w * h);
    assert_non_null(packed);
    for (size_t y = 0; y < h; y++) {
        memcpy(packed + 3 * w * y, got + y * out_stride, 3 * w);
        for (size_t i = 3 * w; i < out_stride; i++) assert_int_equal(got[y * out_stride + i], 77);
    }
    const lr_device_at blocks[] = {on_device.luma, on_device.chroma, to};
    for (size_t i = 0; i < 3; i++) case_device->ops->release(case_device, blocks[i]);
    free(luma);
    free(chroma);
    free(filled);
    free(got);
    return packed;
}

static void swscale_rgb(surface *s, int matrix, bool full_range)
{
    struct SwsContext *sws = sws_getContext(s->width, s->height, AV_PIX_FMT_YUV420P, s->width, s->height,
                                            AV_PIX_FMT_RGB24, SWS_BICUBIC, NULL, NULL, NULL);
    assert_non_null(sws);
    assert_true(sws_setColorspaceDetails(sws, sws_getCoefficients(matrix), full_range,
                                         sws_getCoefficients(SWS_CS_DEFAULT), 0, 0, 1 << 16, 1 << 16) >= 0);
    const uint8_t *const planes[4] = {s->luma, s->u, s->v};
    const int strides[4] = {s->width, s->width / 2, s->width / 2};
    uint8_t *const to[4] = {s->rgb};
    const int to_strides[4] = {3 * s->width};
    assert_int_equal(sws_scale(sws, planes, strides, 0, s->height, to, to_strides), s->height);
    sws_freeContext(sws);
}

/* libswscale's vector code is the x86 one; what it does elsewhere rounds in other places: three products and the table
 * of its plain C, each off by at most one. */
static void test_colours_are_those_of_libswscale(void **state)
{
    (void)state;
#if defined(__x86_64__)
    const int allowed = 0;
#else
    const int allowed = 3;
#endif
    static const int matrices[] = {SWS_CS_ITU601, SWS_CS_ITU709, SWS_CS_BT2020};
    lrt_random random;
    lrt_random_init(&random, 800);
    surface s = make_surface(64, 18, &random);
    for (size_t m = 0; m < 3; m++)
        for (int full = 0; full < 2; full++) {
            lr_device_colours colours = lr_device_colours_of(sws_getCoefficients(matrices[m]), full);
            swscale_rgb(&s, matrices[m], full);
            uint8_t *got = device_rgb(&s, false, &colours), *ten = device_rgb(&s, true, &colours);
            for (size_t i = 0; i < 3 * 64 * 18; i++)
                if (abs(got[i] - s.rgb[i]) > allowed)
                    fail_msg("matrix %d, %s range: byte %zu is %d, not %d", matrices[m], full ? "full" : "video", i, got[i],
                             s.rgb[i]);
            assert_memory_equal(got, ten, 3 * 64 * 18);
            free(got);
            free(ten);
        }
    free_surface(&s);
}

/* Odd sides: the last column and row have a difference of their own. In full range a grey of BT.601 stays what it is. */
static void test_surfaces_may_have_odd_sides(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 801);
    surface s = make_surface(7, 5, &random);
    lr_device_colours colours = lr_device_colours_of(sws_getCoefficients(SWS_CS_ITU601), true);
    memset(s.u, 128, 12);
    memset(s.v, 128, 12);
    uint8_t *got = device_rgb(&s, false, &colours);
    for (size_t i = 0; i < 35; i++)
        for (size_t c = 0; c < 3; c++) assert_int_equal(got[3 * i + c], s.luma[i]);
    free(got);
    s.v[11] = 255; /* seen by the last pixel alone */
    got = device_rgb(&s, true, &colours);
    for (size_t i = 0; i < 35; i++) assert_true((got[3 * i] == s.luma[i]) == (i != 34 || s.luma[34] == 255));
    free(got);
    free_surface(&s);
}

/* ------------------------------------------------------------------ resize */

static lr_device_axis put_axis(const lr_resize_axis *a)
{
    size_t n = (size_t)a->out;
    return (lr_device_axis){.lo = case_put(a->lo, n * sizeof *a->lo), .n_taps = case_put(a->n_taps, n * sizeof *a->n_taps),
                            .weights = case_put(a->weights, n * a->max_taps * sizeof *a->weights), .out = n,
                            .max_taps = a->max_taps, .precision = a->precision};
}

static void free_axis(const lr_device_axis *a)
{
    case_device->ops->release(case_device, a->lo);
    case_device->ops->release(case_device, a->n_taps);
    case_device->ops->release(case_device, a->weights);
}

static void check_resize(lr_filter filter, int in_width, int in_height, int width, int height, lrt_random *random)
{
    lr_error err = {0};
    lr_resize *plan = NULL;
    lrt_assert_ok(lr_resize_create(&plan, filter, in_width, in_height, width, height, &err), &err);
    size_t stride = 3 * (size_t)in_width + 5, between = 3 * (size_t)width, n = between * (size_t)height;
    uint8_t *from = random_bytes((size_t)in_height * stride, random), *want = malloc(n);
    /* Edges between black and white, where a bicubic sum is below 0 or above 255. */
    for (size_t i = 0; i < (size_t)in_height * stride / 2; i++) from[i] = from[i] < 128 ? 0 : 255;
    uint8_t *other = random_bytes((size_t)in_height * between, random);
    uint8_t *scratch = malloc(lr_resize_scratch(plan) + 1);
    assert_true(want && scratch);
    lr_resize_rgb(case_scalar, plan, want, from, stride, scratch);
    lr_device_axis x = put_axis(lr_resize_axis_of(plan, false)), y = put_axis(lr_resize_axis_of(plan, true));
    lr_device_at in = case_put(from, (size_t)in_height * stride), middle = case_put(other, between * (size_t)in_height);
    lr_device_at out = case_put(want, n);
    case_device->ops->fill(case_stream, out, 0, n);
    case_device->ops->resize_rows_u8(case_stream, middle, between, in, stride, (size_t)in_height, &x);
    case_device->ops->resize_cols_u8(case_stream, out, between, middle, between, between, &y);
    uint8_t *got = bytes_from(out, n);
    assert_memory_equal(got, want, n);
    const lr_device_at blocks[] = {in, middle, out};
    for (size_t i = 0; i < 3; i++) case_device->ops->release(case_device, blocks[i]);
    free_axis(&x);
    free_axis(&y);
    free(from);
    free(other);
    free(want);
    free(scratch);
    free(got);
    lr_resize_free(plan);
}

static void test_resized_pictures_have_the_cpus_bytes(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 802);
    check_resize(LR_BICUBIC, 40, 30, 16, 12, &random);
    check_resize(LR_BICUBIC, 9, 7, 23, 20, &random);
    check_resize(LR_BILINEAR, 41, 11, 13, 17, &random);
    check_resize(LR_BILINEAR, 5, 64, 6, 3, &random);
}

/* ------------------------------------------------------------------ patches, positions, cells */

static void check_patches(size_t patch, size_t columns, size_t rows, size_t parts, bool planar, lr_dtype to,
                          lrt_random *random)
{
    size_t width = columns * patch + 3, height = rows * patch + 2, stride = 3 * width + 1, part = height * stride;
    size_t dim = parts * patch * patch * 3, ld = dim + 8, n = columns * rows * ld, left = 2, top = 1;
    uint8_t *bytes = random_bytes(parts * part, random);
    case_values y = case_normal(random, n, 1, to), value = case_normal(random, 3 * 256, 1, LR_F32);
    lr_device_at rgb = case_put(bytes, parts * part);
    lr_device_patches p = {.y = {y.at, ld, 0, to}, .rgb = rgb + top * stride + 3 * left, .stride = stride,
                           .part_bytes = part, .patch = patch, .columns = columns, .rows = rows, .parts = parts,
                           .value = value.at, .planar = planar};
    case_device->ops->patches(case_stream, &p);
    float *got = case_download(&y), *want = malloc(n * sizeof *want);
    assert_non_null(want);
    memcpy(want, y.host, n * sizeof *want);
    for (size_t i = 0; i < columns * rows; i++)
        for (size_t t = 0; t < parts; t++)
            for (size_t r = 0; r < patch; r++)
                for (size_t c = 0; c < patch; c++)
                    for (size_t e = 0; e < 3; e++) {
                        size_t row = top + i / columns * patch + r, column = left + i % columns * patch + c;
                        size_t at = planar ? ((e * parts + t) * patch + r) * patch + c
                                           : ((t * patch + r) * patch + c) * 3 + e;
                        uint8_t byte = bytes[t * part + row * stride + 3 * column + e];
                        want[i * ld + at] = stored(value.host[256 * e + byte], to);
                    }
    assert_memory_equal(got, want, n * sizeof *got);
    free(got);
    free(want);
    free(bytes);
    case_device->ops->release(case_device, rgb);
    case_free(&y);
    case_free(&value);
}

static void test_patches_are_cut_in_the_models_order(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 803);
    check_patches(4, 3, 2, 1, false, LR_BF16, &random);
    check_patches(4, 2, 3, 2, true, LR_BF16, &random);
    check_patches(3, 2, 2, 2, true, LR_F32, &random);
    check_patches(5, 1, 2, 1, false, LR_F32, &random);
}

/* In the CPU's order: the two positions are added to each other first. */
static void check_positions(size_t pictures, size_t columns, size_t rows, size_t dim, lr_dtype table, lrt_random *random)
{
    size_t ld = dim + 4, n = pictures * columns * rows * ld;
    case_values h = case_normal(random, n, 1, LR_F32);
    case_values across = case_normal(random, columns * dim, 1, table), down = case_normal(random, rows * dim, 1, table);
    case_device->ops->add_positions(case_stream, (lr_rows){h.at, ld, 0, LR_F32}, (lr_rows){across.at, dim, 0, table},
                                    (lr_rows){down.at, dim, 0, table}, pictures, columns, rows, dim);
    float *got = case_download(&h);
    for (size_t i = 0; i < n; i++) {
        size_t patch = i / ld % (columns * rows), d = i % ld;
        float place = d < dim ? across.host[patch % columns * dim + d] + down.host[patch / columns * dim + d] : 0;
        assert_true(got[i] == (d < dim ? h.host[i] + place : h.host[i]));
    }
    free(got);
    case_free(&h);
    case_free(&across);
    case_free(&down);
}

static void test_positions_are_added_by_column_and_row(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 804);
    check_positions(1, 5, 3, 13, LR_F32, &random);
    check_positions(3, 2, 4, 16, LR_BF16, &random);
}

/* The sums are the CPU's (fp64, in raster order): equal to the bit. */
static void check_cells(size_t pictures, size_t columns, size_t rows, size_t side, size_t dim, bool standardized,
                        lr_dtype from, lr_dtype to, lrt_random *random)
{
    size_t across = columns / side, cells = across * (rows / side), ld = dim + 8, n = pictures * cells * ld;
    double scale = sqrt((double)dim) / (double)(side * side), sum[64];
    case_values x = case_normal(random, pictures * columns * rows * ld, 1, from), y = case_normal(random, n, 1, to);
    case_values bias = case_normal(random, dim, 1, LR_F32), gain = case_normal(random, dim, 1, LR_F32);
    case_device->ops->pool_cells(case_stream, (lr_rows){y.at, ld, 0, to}, (lr_rows){x.at, ld, 0, from}, pictures, columns,
                                 rows, side, scale, standardized ? bias.at : 0, standardized ? gain.at : 0, dim);
    float *got = case_download(&y);
    for (size_t t = 0; t < pictures * cells; t++) {
        size_t corner = t / cells * columns * rows + t % cells / across * side * columns + t % cells % across * side;
        memset(sum, 0, sizeof sum);
        for (size_t r = 0; r < side; r++)
            case_scalar->sum_rows(sum, x.host + (corner + r * columns) * ld, ld, side, dim);
        for (size_t d = 0; d < ld; d++) {
            float want = d < dim ? (float)(sum[d] * scale) : y.host[t * ld + d];
            if (d < dim && standardized) want = (want - bias.host[d]) * gain.host[d];
            assert_true(got[t * ld + d] == (d < dim ? stored(want, to) : want));
        }
    }
    free(got);
    case_free(&x);
    case_free(&y);
    case_free(&bias);
    case_free(&gain);
}

static void test_cells_are_pooled_as_on_the_cpu(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 805);
    check_cells(2, 6, 9, 3, 40, false, LR_F32, LR_F32, &random);
    check_cells(1, 4, 2, 2, 64, true, LR_BF16, LR_BF16, &random);
    check_cells(1, 2, 3, 1, 13, true, LR_F32, LR_BF16, &random);
}

/* Last: the failure stays with the stream. */
static void test_pictures_of_broken_cells_are_refused(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_rows none = {0, 8, 0, LR_F32};
    case_device->ops->pool_cells(case_stream, none, none, 1, 4, 3, 2, 1, 0, 0, 8);
    assert_int_equal(case_device->ops->wait(case_stream, &err), LR_E_INTERNAL);
    assert_non_null(strstr(err.text, "whole number of cells"));
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* mutations.sh */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colours_are_those_of_libswscale),
        cmocka_unit_test(test_surfaces_may_have_odd_sides),
        cmocka_unit_test(test_resized_pictures_have_the_cpus_bytes),
        cmocka_unit_test(test_patches_are_cut_in_the_models_order),
        cmocka_unit_test(test_positions_are_added_by_column_and_row),
        cmocka_unit_test(test_cells_are_pooled_as_on_the_cpu),
        cmocka_unit_test(test_pictures_of_broken_cells_are_refused),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
