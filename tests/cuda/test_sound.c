/* The sound tower's own slots: what its convolutions see, the depthwise one, and attention to the tokens before. */
#include "device_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float stored(float value, lr_dtype dtype)
{
    return dtype == LR_BF16 ? case_from_bf16(case_to_bf16(value)) : value;
}

/* ------------------------------------------------------------------ taps */

/* From the definition of the convolution: out[u][c] sees in[2u - 1 + t][2c - 1 + f]. */
static float tap_of(const lr_device_taps *t, const float *x, size_t row, size_t e)
{
    size_t columns = (t->bands + 1) / 2, tap = e / t->channels;
    if (tap >= 9) return 0;
    int64_t frame = 2 * (t->y_first + (int64_t)(row / columns)) - 1 + (int64_t)(tap / 3);
    int64_t band = 2 * (int64_t)(row % columns) - 1 + (int64_t)(tap % 3);
    if (frame < t->begin || frame >= t->end || band < 0 || band >= (int64_t)t->bands) return 0;
    return x[(size_t)(frame - t->x_first) * t->x.ld + (size_t)band * t->x.head + e % t->channels];
}

/* x has exactly the frames that are read: what is outside of [begin, end) must not be. */
static void check_taps(lr_device_taps t, lr_dtype from, lr_dtype to, size_t pad, lrt_random *random)
{
    size_t rows = t.frames * ((t.bands + 1) / 2), ld = t.dim + pad;
    size_t in_ld = t.bands * (t.channels + pad), in_frames = (size_t)(t.end - t.begin);
    case_values x = case_normal(random, in_frames * in_ld, 1, from), y = case_normal(random, rows * ld, 1, to);
    t.x_first = t.begin;
    t.x = (lr_rows){x.at, in_ld, t.channels + pad, from};
    t.y = (lr_rows){y.at, ld, 0, to};
    case_device->ops->conv_taps(case_stream, &t);
    float *got = case_download(&y);
    for (size_t i = 0; i < rows * ld; i++) {
        float want = i % ld < t.dim ? stored(tap_of(&t, x.host, i / ld, i % ld), to) : y.host[i];
        if (got[i] != want) fail_msg("taps: row %zu, value %zu is %g, not %g", i / ld, i % ld, (double)got[i], (double)want);
    }
    free(got);
    case_free(&x);
    case_free(&y);
}

static void test_convolutions_see_their_neighbourhood(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 600);
    /* the first one: one channel, nine values filled up to 16; from the start, and in the middle to the end */
    check_taps((lr_device_taps){.begin = 0, .end = 9, .frames = 5, .bands = 12, .channels = 1, .dim = 16}, LR_BF16,
               LR_BF16, 0, &random);
    check_taps((lr_device_taps){.y_first = 2, .begin = 3, .end = 8, .frames = 4, .bands = 7, .channels = 1, .dim = 16},
               LR_F32, LR_BF16, 4, &random);
    /* the second one */
    check_taps((lr_device_taps){.begin = 0, .end = 5, .frames = 3, .bands = 6, .channels = 16, .dim = 144}, LR_BF16,
               LR_BF16, 8, &random);
    check_taps((lr_device_taps){.y_first = 70000, .begin = 139999, .end = 140003, .frames = 2, .bands = 5,
                                .channels = 8, .dim = 72}, LR_BF16, LR_F32, 0, &random);
    check_taps((lr_device_taps){.y_first = 1, .begin = 0, .end = 6, .frames = 2, .bands = 4, .channels = 3, .dim = 32},
               LR_BF16, LR_BF16, 1, &random);
}

/* ------------------------------------------------------------------ depthwise */

/* kernel products and their sum: at most kernel + 1 roundings of a term. */
static void check_depthwise(size_t rows, size_t dim, size_t kernel, size_t pad, lr_dtype from, lr_dtype to,
                            lrt_random *random)
{
    size_t ld = dim + pad;
    case_values x = case_normal(random, (rows + kernel - 1) * ld, 1, from), y = case_normal(random, rows * ld, 1, to);
    case_values w = case_normal(random, kernel * dim, 1, LR_F32);
    case_device->ops->depthwise(case_stream, (lr_rows){y.at, ld, 0, to}, (lr_rows){x.at, ld, 0, from}, w.at, rows, dim,
                                kernel);
    float *got = case_download(&y);
    for (size_t i = 0; i < rows * ld; i++) {
        double want = 0, size = 0;
        for (size_t n = 0; n < kernel && i % ld < dim; n++) {
            double product = (double)w.host[n * dim + i % ld] * (double)x.host[i + n * ld];
            want += product;
            size += fabs(product);
        }
        if (i % ld >= dim) want = (double)y.host[i];
        double bound = (double)(kernel + 1) * U * size * 1.01;
        if (i % ld < dim) bound += (fabs(want) + bound) * (to == LR_BF16 ? U_BF16 : 0) * 1.01;
        if (!(fabs((double)got[i] - want) <= bound))
            fail_msg("depthwise %zu x %zu: value %zu is %.9g, not %.9g", rows, dim, i, (double)got[i], want);
    }
    free(got);
    case_free(&x);
    case_free(&y);
    case_free(&w);
}

static void test_the_depthwise_convolution_is_within_its_bound(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 8, 13, 64};
    lrt_random random;
    lrt_random_init(&random, 601);
    for (size_t d = 0; d < 4; d++)
        for (size_t k = 0; k < 4; k++)
            check_depthwise(1 + (3 * d + k) % 7, dims[d], 1 + 2 * k % 5, (d + k) % 3 * 4, k & 1 ? LR_BF16 : LR_F32,
                            k & 2 ? LR_BF16 : LR_F32, &random);
}

/* ------------------------------------------------------------------ attention */

typedef struct near_case {
    size_t tokens, heads, dim, window, before, pad;
    float deviation; /* of the logits before the cap */
    lr_dtype dtype;
    size_t head, ld, rows_before;
    case_values q, k, v, out, q_scale, relative;
} near_case;

static const float k_scale = 1.8946f, cap = 5;

static void run_near(const near_case *c, size_t first, size_t tokens)
{
    size_t bytes = lr_dtype_size(c->dtype), key = (c->rows_before + first) * c->ld * bytes;
    lr_device_near near = {
        .q = {c->q.at + first * c->ld * bytes, c->ld, c->head, c->dtype}, .k = {c->k.at + key, c->ld, c->head, c->dtype},
        .v = {c->v.at + key, c->ld, c->head, c->dtype},
        .out = {c->out.at + first * c->ld * bytes, c->ld, c->head, c->dtype}, .q_scale = c->q_scale.at,
        .relative = c->relative.at, .k_scale = k_scale, .cap = cap, .before = c->before + first, .tokens = tokens,
        .heads = c->heads, .dim = c->dim, .window = c->window};
    case_device->ops->near_attention(case_stream, &near);
}

/* The logit is cap tanh(z / cap). z sums dim terms, of each lane 8 one after another, then 5 steps of the tree, with
 * 4 roundings in a term: 17 U of their sizes; tanh and division add 6 U, cap's product one. A weight is off by twice
 * the largest error of a logit, by U of how far logits lie apart, twice, and with each key by 6 U more (exp is good to
 * 2 ulp, for the weight and for the correction). The sum of values has the same again, and a division. */
static void check_near_head(const near_case *c, size_t t, size_t head, const float *got)
{
    size_t seen = c->before + t < c->window ? c->before + t + 1 : c->window, own = c->rows_before + t;
    double *p = calloc(seen, sizeof *p), top = -INFINITY, low = INFINITY, error = 0, sum = 0;
    assert_non_null(p);
    for (size_t d = 0; d < seen; d++) {
        double z = 0, size = 0;
        for (size_t i = 0; i < c->dim; i++) {
            double q = (double)c->q.host[t * c->ld + head * c->head + i] * (double)c->q_scale.host[i];
            double k = (double)k_scale * (double)c->k.host[(own - d) * c->ld + head * c->head + i];
            double place = (double)c->relative.host[(d * c->heads + head) * c->dim + i];
            z += q * (k + place);
            size += fabs(q) * (fabs(k) + fabs(place));
        }
        p[d] = (double)cap * tanh(z / (double)cap);
        error = fmax(error, 17 * U * size + 7 * U * fabs(z));
        top = fmax(top, p[d]);
        low = fmin(low, p[d]);
    }
    for (size_t d = 0; d < seen; d++) sum += p[d] = exp(p[d] - top);
    double share = 2 * error + 2 * U * (top - low) + (double)(6 * seen + 8) * U;
    for (size_t i = 0; i < c->dim; i++) {
        double want = 0, size = 0;
        for (size_t d = 0; d < seen; d++) {
            double v = (double)c->v.host[(own - d) * c->ld + head * c->head + i];
            want += p[d] / sum * v;
            size += p[d] / sum * fabs(v);
        }
        double bound = 2 * share * size;
        bound += (fabs(want) + bound) * (c->dtype == LR_BF16 ? U_BF16 : U) * 1.01;
        if (!(fabs((double)got[i] - want) <= bound))
            fail_msg("token %zu, head %zu of %zu x %zu, window %zu: value %zu is %.9g, not %.9g (allowed %.3g)", t,
                     head, c->heads, c->dim, c->window, i, (double)got[i], want, bound);
    }
    free(p);
}

static void check_near(near_case c, lrt_random *random)
{
    c.head = c.dim + c.pad;
    c.ld = c.heads * c.head + c.pad;
    c.rows_before = c.before < c.window - 1 ? c.before : c.window - 1;
    size_t n = c.tokens * c.ld, n_keys = (c.rows_before + c.tokens) * c.ld;
    c.q = case_normal(random, n, c.deviation / sqrtf((float)c.dim), c.dtype);
    c.k = case_normal(random, n_keys, 1, c.dtype);
    c.v = case_normal(random, n_keys, 1, c.dtype);
    c.out = case_normal(random, n, 1, c.dtype);
    c.q_scale = case_normal(random, c.dim, 1, LR_F32);
    c.relative = case_normal(random, c.window * c.heads * c.dim, 1, LR_F32);
    run_near(&c, 0, c.tokens);
    float *all = case_download(&c.out);
    for (size_t t = 0; t < c.tokens; t++)
        for (size_t h = 0; h < c.heads; h++) check_near_head(&c, t, h, all + t * c.ld + h * c.head);
    for (size_t i = 0; i < n; i++)
        if (i % c.ld >= c.heads * c.head || i % c.ld % c.head >= c.dim) assert_true(all[i] == c.out.host[i]);
    case_upload(&c.out); /* the same bits for a token alone */
    for (size_t t = c.tokens; t-- > 0;) run_near(&c, t, 1);
    float *alone = case_download(&c.out);
    assert_memory_equal(all, alone, n * sizeof *all);
    free(all);
    free(alone);
    case_values *values[] = {&c.q, &c.k, &c.v, &c.out, &c.q_scale, &c.relative};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) case_free(values[i]);
}

static void test_attention_to_the_tokens_before_is_within_its_bound(void **state)
{
    (void)state;
    static const near_case cases[] = {
        {.tokens = 30, .heads = 2, .dim = 128, .window = 12, .deviation = 2, .dtype = LR_BF16},
        {.tokens = 5, .heads = 3, .dim = 16, .window = 4, .before = 2, .pad = 8, .deviation = 1, .dtype = LR_F32},
        {.tokens = 7, .heads = 1, .dim = 13, .window = 1, .deviation = 1, .dtype = LR_BF16},
        {.tokens = 6, .heads = 2, .dim = 256, .window = 3, .before = 100, .deviation = 9, .dtype = LR_F32},
        {.tokens = 4, .heads = 5, .dim = 20, .window = 40, .before = 38, .pad = 1, .deviation = 3, .dtype = LR_BF16}};
    lrt_random random;
    lrt_random_init(&random, 602);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_near(cases[i], &random);
}

/* Last: the failure stays with the stream. */
static void test_heads_too_wide_are_refused(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_device_near near = {.tokens = 1, .heads = 1, .dim = 264, .window = 1};
    case_device->ops->near_attention(case_stream, &near);
    assert_int_equal(case_device->ops->wait(case_stream, &err), LR_E_INTERNAL);
    assert_non_null(strstr(err.text, "no kernel takes"));
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* mutations.sh */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions_see_their_neighbourhood),
        cmocka_unit_test(test_the_depthwise_convolution_is_within_its_bound),
        cmocka_unit_test(test_attention_to_the_tokens_before_is_within_its_bound),
        cmocka_unit_test(test_heads_too_wide_are_refused),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
