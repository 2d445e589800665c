#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <longreel/resize.h>

/* ------------------------------------------------------------------ the formula, restated
 *
 * Written from the description alone (section 3 of the models' reference), one value at a time: for
 * each output i of an axis, scale = in / out, r = max(scale, 1), centre c = scale (i + 0.5), the
 * taps between c - s r and c + s r (s 2 or 1), weights in double divided by their sum, then rounded
 * to multiples of 2^-P, P as large as the largest weight of the axis allows in 16 bits. */

static double filter_value(lr_filter filter, double x)
{
    x = fabs(x);
    if (filter == LR_BILINEAR) return x < 1 ? 1 - x : 0;
    if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
    if (x < 2) return -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2;
    return 0;
}

/* Taps of output i: *lo, and weights w[0 .. returned). */
static int weights_of(lr_filter filter, int in, int out, int i, int *lo, double *w)
{
    double scale = (double)in / out, r = scale > 1 ? scale : 1, c = scale * (i + 0.5), sum = 0;
    double reach = (filter == LR_BICUBIC ? 2 : 1) * r;
    int first = (int)fmax(trunc(c - reach + 0.5), 0), past = (int)fmin(trunc(c + reach + 0.5), in);
    for (int j = first; j < past; j++)
        sum += w[j - first] = filter_value(filter, (j - c + 0.5) / r);
    for (int j = 0; j < past - first; j++)
        w[j] /= sum;
    *lo = first;
    return past - first;
}

static int precision_of(lr_filter filter, int in, int out, double *w)
{
    double most = 0;
    int precision = 0, lo;
    for (int i = 0; i < out; i++) {
        int n = weights_of(filter, in, out, i, &lo, w);
        for (int j = 0; j < n; j++)
            most = fmax(most, w[j]);
    }
    while (precision < 22 && trunc(0.5 + ldexp(most, precision + 1)) < 32768)
        precision++;
    return precision;
}

/* One axis of a picture: `count` lines, `line` bytes apart, their samples `step` bytes apart. */
static void resize_axis(lr_filter filter, int in, int out, uint8_t *dst, size_t dst_step,
                        size_t dst_line, const uint8_t *src, size_t src_step, size_t src_line,
                        size_t count)
{
    double *w = calloc((size_t)in + 1, sizeof(*w));
    assert_non_null(w);
    int precision = precision_of(filter, in, out, w);
    for (int i = 0; i < out; i++) {
        int lo, n = weights_of(filter, in, out, i, &lo, w);
        for (size_t l = 0; l < count; l++) {
            int64_t sum = precision ? INT64_C(1) << (precision - 1) : 0;
            for (int j = 0; j < n; j++) {
                int64_t q = (int64_t)(ldexp(w[j], precision) + (w[j] < 0 ? -0.5 : 0.5));
                sum += q * src[(size_t)(lo + j) * src_step + l * src_line];
            }
            sum = sum < 0 ? -1 : sum >> precision;
            dst[(size_t)i * dst_step + l * dst_line] =
                (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
        }
    }
    free(w);
}

typedef struct sizes {
    int w, h, ow, oh;
} sizes;

static void resize_restated(lr_filter filter, sizes s, uint8_t *dst, const uint8_t *src)
{
    size_t in_line = 3 * (size_t)s.w, out_line = 3 * (size_t)s.ow;
    uint8_t *between = malloc(out_line * (size_t)s.h);
    assert_non_null(between);
    for (size_t colour = 0; colour < 3; colour++)
        if (s.w == s.ow)
            memcpy(between, src, in_line * (size_t)s.h);
        else
            resize_axis(filter, s.w, s.ow, between + colour, 3, out_line, src + colour, 3, in_line,
                        (size_t)s.h);
    if (s.h == s.oh)
        memcpy(dst, between, out_line * (size_t)s.oh);
    else
        resize_axis(filter, s.h, s.oh, dst, out_line, 1, between, out_line, 1, out_line);
    free(between);
}

/* ------------------------------------------------------------------ the library's resize */

/* Through a plan, each buffer ending at a guard page; the result is freed with *block. */
static uint8_t *resized(const lr_kernels *kernels, lr_filter filter, sizes s, const uint8_t *src,
                        size_t stride, float **block)
{
    lr_resize *plan;
    lr_error err = {0};
    float *scratch_block;
    lrt_assert_ok(lr_resize_create(&plan, filter, s.w, s.h, s.ow, s.oh, &err), &err);
    uint8_t *dst = guarded_bytes(3 * (size_t)s.ow * (size_t)s.oh, block);
    uint8_t *scratch = guarded_bytes(lr_resize_scratch(plan), &scratch_block);
    lr_resize_rgb(kernels, plan, dst, src, stride, scratch);
    lrt_guarded_free(scratch_block);
    lr_resize_free(plan);
    return dst;
}

static void check_sizes(lr_filter filter, sizes s, size_t pad, lrt_random *random)
{
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables), line = 3 * (size_t)s.w, stride = line + pad;
    size_t out_bytes = 3 * (size_t)s.ow * (size_t)s.oh;
    float *src_block, *dst_block;
    uint8_t *src = guarded_bytes(stride * (size_t)(s.h - 1) + line, &src_block);
    uint8_t *tight = malloc(line * (size_t)s.h), *expected = malloc(out_bytes);
    assert_non_null(tight);
    assert_non_null(expected);
    for (size_t r = 0; r < (size_t)s.h; r++)
        for (size_t i = 0; i < line; i++) /* half noise, half full swings: clamping must show */
            tight[r * line + i] = src[r * stride + i] =
                (uint8_t)(i % 7 < 3 ? lrt_next(random) : lrt_next(random) % 2 * 255);
    resize_restated(filter, s, expected, tight);
    for (size_t t = 0; t < n_tables; t++) {
        uint8_t *dst = resized(tables[t], filter, s, src, stride, &dst_block);
        for (size_t i = 0; i < out_bytes; i++)
            if (dst[i] != expected[i])
                fail_msg("%s, %d x %d to %d x %d: byte %zu is %u, not %u", tables[t]->isa, s.w, s.h,
                         s.ow, s.oh, i, dst[i], expected[i]);
        lrt_guarded_free(dst_block);
    }
    lrt_guarded_free(src_block);
    free(tight);
    free(expected);
}

void test_resize_equals_the_published_formula(void **state)
{
    (void)state;
    static const sizes fixed[] = {
        {1, 1, 1, 1},      {1, 1, 48, 48},       {2, 3, 48, 96},    {48, 48, 1, 1},
        {97, 53, 132, 72}, {640, 360, 528, 288}, {333, 77, 11, 77}, {77, 333, 77, 11},
        {5, 400, 48, 3},   {1000, 9, 48, 48},    {16, 16, 16, 33},  {33, 16, 16, 16},
        {3000, 4, 5, 4},   {4, 3000, 4, 5},      {48, 96, 96, 48},
    };
    lrt_random random;
    lrt_random_init(&random, 41);
    for (size_t k = 0; k < sizeof(fixed) / sizeof(*fixed); k++) {
        check_sizes(LR_BICUBIC, fixed[k], k % 3 * 5, &random);
        check_sizes(LR_BILINEAR, fixed[k], (k + 1) % 3 * 5, &random);
    }
    for (int k = 0; k < 60; k++) {
        sizes s = {(int)lrt_between(&random, 1, 150), (int)lrt_between(&random, 1, 150),
                   (int)lrt_between(&random, 1, 150), (int)lrt_between(&random, 1, 150)};
        check_sizes(k % 2 ? LR_BICUBIC : LR_BILINEAR, s, lrt_below(&random, 9), &random);
    }
}

/* ------------------------------------------------------------------ fixtures */

/* The made pictures and the checksum that tests/fixtures/README.md describes. */
static uint8_t made_byte(uint64_t seed, uint64_t i, uint64_t w)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    uint64_t x = i / 3 % w, y = i / 3 / w, c = i % 3;
    return (uint8_t)((seed & 1) ? z : 5 * x + 3 * y * (c + 1) + (z & 31));
}

static uint32_t crc32_of(const uint8_t *bytes, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void check_fixture(const json_t *row)
{
    int w, h, ow, oh;
    json_int_t seed, crc;
    assert_int_equal(json_unpack((json_t *)(uintptr_t)row, "{s:i,s:i,s:i,s:i,s:I,s:I}", "w", &w,
                                 "h", &h, "ow", &ow, "oh", &oh, "seed", &seed, "crc32", &crc),
                     0);
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables), bytes = 3 * (size_t)w * (size_t)h;
    float *src_block, *dst_block;
    uint8_t *src = guarded_bytes(bytes, &src_block);
    for (size_t i = 0; i < bytes; i++)
        src[i] = made_byte((uint64_t)seed, i, (uint64_t)w);
    for (size_t t = 0; t < n_tables; t++) {
        uint8_t *dst =
            resized(tables[t], LR_BICUBIC, (sizes){w, h, ow, oh}, src, 3 * (size_t)w, &dst_block);
        uint32_t got = crc32_of(dst, 3 * (size_t)ow * (size_t)oh);
        if (got != (uint32_t)crc)
            fail_msg("%s, %d x %d to %d x %d, seed %lld: CRC-32 %u, not %u", tables[t]->isa, w, h,
                     ow, oh, (long long)seed, got, (uint32_t)crc);
        lrt_guarded_free(dst_block);
    }
    lrt_guarded_free(src_block);
}

void test_resize_equals_the_fixtures(void **state)
{
    (void)state;
    json_error_t error;
    json_t *list = json_load_file(LR_FIXTURES "/resize.json", 0, &error);
    if (!list) fail_msg("%s/resize.json: %s", LR_FIXTURES, error.text);
    assert_true(json_array_size(list) > 20);
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row) check_fixture(row);
    json_decref(list);
}

/* ------------------------------------------------------------------ slots, errors */

/* One output with n taps from lo on of the shortest rows that hold them, which `src` points to. */
static void check_rows_slot_at(uint8_t *src, size_t rows, int32_t lo, int32_t n, lrt_random *random)
{
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables), line = 3 * (size_t)(lo + n);
    float *dst_block, *weight_block;
    uint8_t *dst = guarded_bytes(3 * rows, &dst_block), *expected = malloc(3 * rows);
    int16_t *w = (int16_t *)(void *)guarded_bytes(2 * (size_t)n, &weight_block);
    assert_non_null(expected);
    for (size_t i = 0; i < line * rows; i++)
        src[i] = (uint8_t)lrt_next(random);
    for (int32_t j = 0; j < n; j++)
        w[j] = (int16_t)lrt_between(random, -9000, 12000);
    tables[0]->resize_rows_u8(expected, 3, src, line, rows, 1, &lo, &n, w, (size_t)n, 16);
    for (size_t t = 1; t < n_tables; t++) {
        tables[t]->resize_rows_u8(dst, 3, src, line, rows, 1, &lo, &n, w, (size_t)n, 16);
        assert_memory_equal(dst, expected, 3 * rows);
    }
    lrt_guarded_free(dst_block);
    lrt_guarded_free(weight_block);
    free(expected);
}

/* Loads neither end after a short row nor begin before it, with 1 to 40 taps anywhere in it. */
void test_resize_slots_stay_inside_their_pictures(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 42);
    for (int32_t n = 1; n <= 40; n++)
        for (int32_t lo = 0; lo < 8; lo++) {
            size_t rows = 1 + (size_t)(n + lo) % 19, bytes = 3 * (size_t)(lo + n) * rows;
            float *block;
            check_rows_slot_at(guarded_bytes(bytes, &block), rows, lo, n, &random);
            lrt_guarded_free(block);
            uint8_t *front = front_guarded_bytes(bytes);
            check_rows_slot_at(front, rows, lo, n, &random);
            front_guarded_free(front);
        }
}

void test_resize_refuses_impossible_sizes(void **state)
{
    (void)state;
    static const sizes bad[] = {{0, 1, 1, 1}, {1, -5, 1, 1}, {1, 1, 0, 1}, {1, 1, 1, 1 << 30}};
    for (size_t k = 0; k < sizeof(bad) / sizeof(*bad); k++) {
        lr_resize *plan;
        lr_error err = {0};
        assert_int_equal(
            lr_resize_create(&plan, LR_BICUBIC, bad[k].w, bad[k].h, bad[k].ow, bad[k].oh, &err),
            LR_E_UNSUPPORTED);
        assert_null(plan);
    }
}

static lr_status make_plan(void *arg, lr_error *err)
{
    lr_resize *plan;
    (void)arg;
    lr_status st = lr_resize_create(&plan, LR_BICUBIC, 64, 48, 96, 96, err);
    lr_resize_free(plan);
    return st;
}

void test_resize_survives_each_failed_allocation(void **state)
{
    (void)state;
    assert_true(lrt_fail_each_allocation(make_plan, NULL) >= 9);
}

/* ------------------------------------------------------------------ the clock */

typedef struct resize_bench {
    lr_resize *plan;
    uint8_t *dst, *src, *scratch;
    size_t stride;
} resize_bench;

static void run_resize_bench(void *arg, const lr_kernels *kernels)
{
    resize_bench *b = arg;
    lr_resize_rgb(kernels, b->plan, b->dst, b->src, b->stride, b->scratch);
}

void bench_resize(const char *only)
{
    static const sizes cases[] = {
        {1920, 1080, 528, 288}, {640, 360, 528, 288}, {320, 240, 432, 336}};
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        sizes s = cases[k];
        char name[64];
        lr_error err = {0};
        resize_bench b = {.stride = 3 * (size_t)s.w};
        snprintf(name, sizeof(name), "resize %dx%d to %dx%d", s.w, s.h, s.ow, s.oh);
        lrt_assert_ok(lr_resize_create(&b.plan, LR_BICUBIC, s.w, s.h, s.ow, s.oh, &err), &err);
        b.src = calloc(b.stride, (size_t)s.h);
        b.dst = calloc(3 * (size_t)s.ow, (size_t)s.oh);
        b.scratch = calloc(1, lr_resize_scratch(b.plan));
        assert_true(b.src && b.dst && b.scratch);
        bench(name, only, run_resize_bench, &b, (double)(b.stride * (size_t)s.h), "GB/s");
        lr_resize_free(b.plan);
        free(b.src);
        free(b.dst);
        free(b.scratch);
    }
}
