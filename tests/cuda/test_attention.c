/* Attention on the device: chunks of keys shown to all rows, against a softmax over all keys in double
 * precision of the same bf16 values; the bits of a row however the work is cut. */
#include "device_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

#define MOST_CHUNKS 8
#define KEY0 UINT64_C(7000000000)

typedef enum mask_kind { FULL, WINDOW, CAUSAL, SOME_SEE_NOTHING } mask_kind;

typedef struct problem {
    size_t n_tokens, n_kv_heads, group, head_dim, n_keys, chunk, heads, q_ld, kv_ld;
    case_values q, k, v, o, m, l, out;
    uint64_t *lo, *hi;
    lr_device_at lo_at, hi_at, chunks;
    size_t n_chunks;
} problem;

static void set_mask(problem *p, mask_kind kind)
{
    for (size_t t = 0; t < p->n_tokens; t++) {
        uint64_t at = KEY0 + t * p->n_keys / p->n_tokens;
        p->lo[t] = kind == WINDOW ? at - 20 : KEY0;
        p->hi[t] = kind == FULL ? UINT64_MAX : kind == CAUSAL ? at + 1 : at + 21;
        if (kind == SOME_SEE_NOTHING && t % 3 == 1) p->lo[t] = p->hi[t] = at;
    }
}

/* deviation: of the logits */
static problem make_problem(size_t n_tokens, size_t n_kv_heads, size_t group, size_t head_dim, size_t n_keys,
                            size_t chunk, mask_kind kind, float deviation, lrt_random *random)
{
    problem p = {.n_tokens = n_tokens, .n_kv_heads = n_kv_heads, .group = group, .head_dim = head_dim,
                 .n_keys = n_keys, .chunk = chunk, .heads = n_kv_heads * group};
    lr_device_chunk chunks[MOST_CHUNKS];
    p.q_ld = p.heads * head_dim + 8;
    p.kv_ld = n_kv_heads * head_dim + 16;
    p.q = case_normal(random, n_tokens * p.q_ld, deviation / sqrtf((float)head_dim), LR_BF16);
    p.k = case_normal(random, n_keys * p.kv_ld, 1, LR_BF16);
    p.v = case_normal(random, n_keys * p.kv_ld, 1, LR_BF16);
    p.o = case_normal(random, n_tokens * p.q_ld, 1, LR_F32);
    p.m = case_normal(random, n_tokens * p.heads, 1, LR_F32);
    p.l = case_normal(random, n_tokens * p.heads, 1, LR_F32);
    p.out = case_normal(random, n_tokens * p.q_ld, 1, LR_BF16);
    p.lo = calloc(n_tokens, sizeof *p.lo);
    p.hi = calloc(n_tokens, sizeof *p.hi);
    assert_true(p.lo != NULL && p.hi != NULL);
    set_mask(&p, kind);
    p.lo_at = case_put(p.lo, n_tokens * sizeof *p.lo);
    p.hi_at = case_put(p.hi, n_tokens * sizeof *p.hi);
    for (size_t key = 0; key < n_keys; key += chunk) {
        assert_true(p.n_chunks < MOST_CHUNKS);
        chunks[p.n_chunks++] = (lr_device_chunk){
            .k = p.k.at + key * p.kv_ld * 2, .v = p.v.at + key * p.kv_ld * 2, .first_key = KEY0 + key,
            .n_keys = n_keys - key < chunk ? n_keys - key : chunk};
    }
    p.chunks = case_put(chunks, p.n_chunks * sizeof *chunks);
    return p;
}

static void free_problem(problem *p)
{
    case_values *values[] = {&p->q, &p->k, &p->v, &p->o, &p->m, &p->l, &p->out};
    const lr_device_at numbers[] = {p->lo_at, p->hi_at, p->chunks};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) case_free(values[i]);
    for (size_t i = 0; i < 3; i++) case_device->ops->release(case_device, numbers[i]);
    free(p->lo);
    free(p->hi);
}

/* Tokens [token, token + n) against chunks [first, first + n_chunks). */
static void attend(const problem *p, size_t token, size_t n, size_t first, size_t n_chunks, bool resume, bool finish)
{
    lr_device_attn a = {.n_tokens = n, .n_kv_heads = p->n_kv_heads, .group = p->group, .head_dim = p->head_dim,
                        .q = {p->q.at + token * p->q_ld * 2, p->q_ld, p->head_dim, LR_BF16},
                        .o = {p->o.at + token * p->q_ld * 4, p->q_ld, p->head_dim, LR_F32},
                        .m = p->m.at + token * p->heads * 4, .l = p->l.at + token * p->heads * 4,
                        .lo = p->lo_at + token * 8, .hi = p->hi_at + token * 8,
                        .chunks = p->chunks + first * sizeof(lr_device_chunk), .n_chunks = n_chunks,
                        .kv_ld = p->kv_ld, .resume = resume};
    if (finish) a.out = (lr_rows){p->out.at + token * p->q_ld * 2, p->q_ld, p->head_dim, LR_BF16};
    case_device->ops->attention(case_stream, &a);
}

/* ------------------------------------------------------------------ truth */

typedef struct row_truth {
    double m, l, s_error, *s, *p, *o, *size; /* o, size [head_dim]: sum of p v / l, and of p |v| / l */
    size_t n;                   /* keys seen */
} row_truth;

/* How far a chain of matrix instructions over k values may be off, as a share of the sum of sizes
 * (tests/cuda/test_linear.c). */
static double chain_error(size_t k)
{
    return 17 * 0x1p-23 * (double)(k / 16 + 1);
}

static void find_truth(const problem *p, size_t t, size_t head, row_truth *r)
{
    const float *q = p->q.host + t * p->q_ld + head * p->head_dim;
    size_t at = head / p->group * p->head_dim;
    double *s = r->s, *o = r->o, *size = r->size;
    *r = (row_truth){.m = -INFINITY, .s = s, .p = r->p, .o = o, .size = size};
    memset(o, 0, p->head_dim * sizeof *o);
    memset(size, 0, p->head_dim * sizeof *size);
    for (size_t j = 0; j < p->n_keys; j++) {
        s[j] = -INFINITY;
        if (KEY0 + j < p->lo[t] || KEY0 + j >= p->hi[t]) continue;
        double sum = 0, sizes = 0;
        for (size_t d = 0; d < p->head_dim; d++) {
            double product = (double)q[d] * (double)p->k.host[j * p->kv_ld + at + d];
            sum += product;
            sizes += fabs(product);
        }
        s[j] = sum;
        r->n++;
        r->s_error = fmax(r->s_error, chain_error(p->head_dim) * sizes);
        r->m = fmax(r->m, sum);
    }
    for (size_t j = 0; j < p->n_keys; j++) r->l += r->p[j] = r->n > 0 ? exp(s[j] - r->m) : 0;
    for (size_t j = 0; r->n > 0 && j < p->n_keys; j++)
        for (size_t d = 0; d < p->head_dim; d++) {
            double v = (double)p->v.host[j * p->kv_ld + at + d];
            o[d] += r->p[j] * v / r->l;
            size[d] += r->p[j] * fabs(v) / r->l;
        }
}

/* p is off, as a share of itself, by the errors of s and m, by the roundings of s - m and of its product with
 * log2(e), by ex2 (2^-22), and the same for the correction of each sub-block (of 32 keys or more); the sum of l
 * adds up at most 64 + n / 32 roundings. o has p rounded to bf16, and its own chain. */
static double share_error(const problem *p, const row_truth *r)
{
    double spread = 0;
    for (size_t j = 0; j < p->n_keys; j++)
        if (r->p[j] > 0x1p-40) spread = fmax(spread, r->m - r->s[j]);
    double corrections = (double)(p->n_keys / 32 + MOST_CHUNKS);
    return 2 * r->s_error + 4 * U * spread + 0x1p-22 + corrections * (0x1p-22 + 2 * U) +
           (64 + (double)p->n_keys / 32) * U;
}

static void check_row(const problem *p, size_t t, size_t head, const float *out, const float *m, const float *l,
                      row_truth *r)
{
    find_truth(p, t, head, r);
    const float *got = out + t * p->q_ld + head * p->head_dim;
    float top = m[t * p->heads + head], sum = l[t * p->heads + head];
    if (r->n == 0) {
        assert_true(isinf(top) && top < 0 && sum == 0);
        for (size_t d = 0; d < p->head_dim; d++) assert_true(got[d] == 0);
        return;
    }
    double share = share_error(p, r);
    if (!(fabs((double)top - r->m) <= r->s_error + fabs(r->m) * U))
        fail_msg("head_dim %zu, token %zu, head %zu: maximum %.9g, not %.9g", p->head_dim, t, head, (double)top, r->m);
    if (!(fabs((double)sum * exp((double)top - r->m) - r->l) <= r->l * share))
        fail_msg("head_dim %zu, token %zu, head %zu: sum %.9g, not %.9g of %zu keys", p->head_dim, t, head,
                 (double)sum, r->l, r->n);
    for (size_t d = 0; d < p->head_dim; d++) {
        double bound = r->size[d] * (U_BF16 + 2 * share + chain_error(p->n_keys));
        bound += (fabs(r->o[d]) + bound) * U_BF16 * 1.01;
        if (!(fabs((double)got[d] - r->o[d]) <= bound))
            fail_msg("head_dim %zu, token %zu, head %zu: value %zu is %.9g, not %.9g (allowed %.3g)", p->head_dim, t,
                     head, d, (double)got[d], r->o[d], bound);
    }
}

/* What attend() left: the output of one call with all chunks, the state of another. */
static void check_problem(problem *p)
{
    row_truth r = {.s = calloc(p->n_keys, sizeof(double)), .p = calloc(p->n_keys, sizeof(double)),
                   .o = calloc(p->head_dim, sizeof(double)), .size = calloc(p->head_dim, sizeof(double))};
    assert_true(r.s && r.p && r.o && r.size);
    attend(p, 0, p->n_tokens, 0, p->n_chunks, false, true);
    attend(p, 0, p->n_tokens, 0, p->n_chunks, false, false);
    float *out = case_download(&p->out), *m = case_download(&p->m), *l = case_download(&p->l);
    for (size_t t = 0; t < p->n_tokens; t++) {
        for (size_t head = 0; head < p->heads; head++) check_row(p, t, head, out, m, l, &r);
        size_t gap = t * p->q_ld + p->heads * p->head_dim;
        assert_memory_equal(out + gap, p->out.host + gap, 8 * sizeof *out);
    }
    free(out);
    free(m);
    free(l);
    free(r.s);
    free(r.p);
    free(r.o);
    free(r.size);
}

/* ------------------------------------------------------------------ tests */

static const size_t dims[] = {8, 64, 72, 128, 256, 512};
#define N_DIMS (sizeof dims / sizeof *dims)

static void test_attention_is_within_its_bound(void **state)
{
    (void)state;
    static const size_t groups[][2] = {{1, 4}, {2, 2}, {3, 1}, {1, 5}};
    lrt_random random;
    lrt_random_init(&random, 400);
    for (size_t i = 0; i < N_DIMS; i++)
        for (size_t k = 0; k < 2; k++) {
            const size_t *group = groups[(i + k) % 4];
            problem p = make_problem(7 + 6 * i % 13, group[0], group[1], dims[i], 150, 70,
                                     (mask_kind)((i + 2 * k) % 4), 2, &random);
            check_problem(&p);
            free_problem(&p);
        }
}

/* With q = 0 each weight is 1, and small whole numbers add up exactly: the sum of the values that a row sees. */
static void test_masks_cut_at_the_very_key(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 401);
    for (size_t i = 0; i < N_DIMS; i++)
        for (mask_kind kind = FULL; kind <= SOME_SEE_NOTHING; kind++) {
            problem p = make_problem(40, 1, 2, dims[i], 101, 64, kind, 0, &random);
            for (size_t n = 0; n < p.v.n; n++) p.v.host[n] = (float)lrt_between(&random, -8, 8);
            case_upload(&p.v);
            attend(&p, 0, p.n_tokens, 0, p.n_chunks, false, false);
            float *o = case_download(&p.o), *l = case_download(&p.l);
            for (size_t t = 0; t < p.n_tokens; t++)
                for (size_t d = 0; d < p.head_dim; d++) {
                    float sum = 0, n = 0;
                    for (size_t j = 0; j < p.n_keys; j++) {
                        if (KEY0 + j < p.lo[t] || KEY0 + j >= p.hi[t]) continue;
                        sum += p.v.host[j * p.kv_ld + d];
                        n++;
                    }
                    assert_true(l[t * 2] == n && l[t * 2 + 1] == n);
                    assert_true(o[t * p.q_ld + d] == sum && o[t * p.q_ld + p.head_dim + d] == sum);
                }
            free(o);
            free(l);
            free_problem(&p);
        }
}

static void test_bits_do_not_depend_on_how_the_work_is_cut(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 402);
    for (size_t i = 0; i < N_DIMS; i++) {
        problem p = make_problem(23, 1 + i % 2, 3, dims[i], 150, 40, (mask_kind)(i % 4), 2, &random);
        attend(&p, 0, p.n_tokens, 0, p.n_chunks, false, true);
        float *whole = case_download(&p.out);
        case_upload(&p.out);
        for (size_t part = 0; part < 2; part++) { /* the state goes through memory after each chunk */
            size_t token = part ? 9 : 0, n = part ? p.n_tokens - 9 : 9;
            for (size_t c = 0; c < p.n_chunks; c++) attend(&p, token, n, c, 1, c > 0, c + 1 == p.n_chunks);
        }
        float *parts = case_download(&p.out);
        assert_memory_equal(whole, parts, p.out.n * sizeof *whole);
        free(whole);
        free(parts);
        free_problem(&p);
    }
}

static void test_no_matrix_waits_for_banks(void **state)
{
    (void)state;
    CASE_NEEDS_STANDIN();
    machine_counts counts = standin_counts();
    assert_true(counts.by_op[PTX_MMA] > 0);
    assert_int_equal(counts.matrix_conflicts, 0);
}

/* Last: the failure stays with the stream. */
static void test_heads_that_no_kernel_takes_are_refused(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_device_attn a = {.n_tokens = 1, .n_kv_heads = 1, .group = 1, .head_dim = 520};
    case_device->ops->attention(case_stream, &a);
    assert_int_equal(case_device->ops->wait(case_stream, &err), LR_E_INTERNAL);
    assert_non_null(strstr(err.text, "no kernel takes"));
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]); /* mutations.sh */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_is_within_its_bound),
        cmocka_unit_test(test_masks_cut_at_the_very_key),
        cmocka_unit_test(test_bits_do_not_depend_on_how_the_work_is_cut),
        cmocka_unit_test(test_no_matrix_waits_for_banks),
        cmocka_unit_test(test_heads_that_no_kernel_takes_are_refused),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
