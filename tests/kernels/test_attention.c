/* Attention of every instruction set that this processor runs: blocks of keys shown to a tile of
 * queries one after another, against a softmax over all keys in double precision. */
#include "lr_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/kernels.h>

#define MOST_TABLES 3

static size_t all_tables(const lr_kernels *out[MOST_TABLES])
{
    size_t n = 0;
    for (lr_isa isa = LR_ISA_SCALAR; isa <= LR_ISA_LAST; isa++) {
        const lr_kernels *kernels;
        lr_error err = {0};
        lr_status st = lr_kernels_get(isa, LR_GEMM_PACKED, &kernels, &err);
        if (st == LR_E_UNSUPPORTED) continue; /* not this processor's */
        lrt_assert_ok(st, &err);
        out[n++] = kernels;
    }
    assert_true(n >= 1);
    return n;
}

/* ------------------------------------------------------------------ a problem and its state */

/* n_tokens x group rows against n_keys keys; the first key's absolute number is key0. Rows of q, o,
 * k and v have gaps, which must stay as they are. */
typedef struct problem {
    size_t n_tokens, group, head_dim, n_keys;
    uint64_t key0;
    size_t q_token, ml_token, kv_key;
    float *q, *k, *v;
    uint64_t *lo, *hi; /* [n_tokens] absolute */
} problem;

typedef struct softmax_state {
    float *o, *m, *l;
} softmax_state;

static size_t q_floats(const problem *p)
{
    return (p->n_tokens - 1) * p->q_token + p->group * p->head_dim;
}

static size_t ml_floats(const problem *p)
{
    return (p->n_tokens - 1) * p->ml_token + p->group;
}

static problem make_problem(size_t n_tokens, size_t group, size_t head_dim, size_t n_keys,
                            lrt_random *random)
{
    problem p = {.n_tokens = n_tokens, .group = group, .head_dim = head_dim, .n_keys = n_keys,
                 .key0 = UINT64_C(7000000000)};
    p.q_token = group * head_dim + 6;
    p.ml_token = group + 3;
    p.kv_key = head_dim + 10;
    p.q = lrt_guarded(q_floats(&p));
    p.k = lrt_guarded((n_keys - 1) * p.kv_key + head_dim);
    p.v = lrt_guarded((n_keys - 1) * p.kv_key + head_dim);
    p.lo = calloc(n_tokens, sizeof *p.lo);
    p.hi = calloc(n_tokens, sizeof *p.hi);
    assert_true(p.lo != NULL && p.hi != NULL);
    /* logits with a deviation of 2 */
    for (size_t t = 0; t < n_tokens; t++)
        lrt_fill_normal(random, p.q + t * p.q_token, group * head_dim, 2 / sqrtf((float)head_dim));
    for (size_t j = 0; j < n_keys; j++) {
        lrt_fill_normal(random, p.k + j * p.kv_key, head_dim, 1);
        lrt_fill_normal(random, p.v + j * p.kv_key, head_dim, 1);
    }
    for (size_t t = 0; t < n_tokens; t++) {
        p.lo[t] = 0;
        p.hi[t] = UINT64_MAX;
    }
    return p;
}

static void free_problem(problem *p)
{
    lrt_guarded_free(p->q);
    lrt_guarded_free(p->k);
    lrt_guarded_free(p->v);
    free(p->lo);
    free(p->hi);
}

static softmax_state fresh_state(const problem *p)
{
    softmax_state s = {lrt_guarded(q_floats(p)), lrt_guarded(ml_floats(p)), lrt_guarded(ml_floats(p))};
    for (size_t t = 0; t < p->n_tokens; t++)
        for (size_t g = 0; g < p->group; g++) {
            s.m[t * p->ml_token + g] = -INFINITY;
            s.l[t * p->ml_token + g] = 0;
            for (size_t d = 0; d < p->head_dim; d++)
                s.o[t * p->q_token + g * p->head_dim + d] = 0;
        }
    return s;
}

static void free_state(softmax_state *s)
{
    lrt_guarded_free(s->o);
    lrt_guarded_free(s->m);
    lrt_guarded_free(s->l);
}

/* Everything of a state, gaps included. */
static void assert_same_state(const problem *p, const softmax_state *a, const softmax_state *b)
{
    assert_memory_equal(a->o, b->o, q_floats(p) * sizeof(float));
    assert_memory_equal(a->m, b->m, ml_floats(p) * sizeof(float));
    assert_memory_equal(a->l, b->l, ml_floats(p) * sizeof(float));
}

static size_t panel_floats(size_t n_keys, size_t head_dim)
{
    return (n_keys + LR_KEY_PANEL - 1) / LR_KEY_PANEL * LR_KEY_PANEL * head_dim;
}

static lr_attn tile_of(const problem *p, const softmax_state *s, size_t token, size_t n_tokens)
{
    return (lr_attn){.n_tokens = n_tokens, .group = p->group, .head_dim = p->head_dim,
                     .q = p->q + token * p->q_token, .q_token = p->q_token,
                     .o = s->o + token * p->q_token, .o_token = p->q_token,
                     .m = s->m + token * p->ml_token, .l = s->l + token * p->ml_token,
                     .ml_token = p->ml_token, .lo = p->lo + token, .hi = p->hi + token};
}

static bool tile_sees(const problem *p, size_t token, size_t n_tokens, size_t key, size_t n_keys)
{
    for (size_t t = token; t < token + n_tokens; t++)
        if (p->lo[t] < p->key0 + key + n_keys && p->hi[t] > p->key0 + key && p->lo[t] < p->hi[t])
            return true;
    return false;
}

/* Shows the keys to tokens [token, token + n_tokens) in blocks of `chunk`; `skip` leaves out those
 * that none of the tokens sees, `keep` has the queries stay in the scratch from block to block. */
static void show_kept(const lr_kernels *kernels, const problem *p, const softmax_state *s, size_t token,
                      size_t n_tokens, size_t chunk, bool skip, bool keep)
{
    lr_attn a = tile_of(p, s, token, n_tokens);
    a.scratch = lrt_guarded((kernels->attn_scratch(n_tokens * p->group, p->head_dim) + 15) / 16 * 16);
    for (size_t key = 0; key < p->n_keys; key += chunk) {
        size_t n = p->n_keys - key < chunk ? p->n_keys - key : chunk;
        if (skip && !tile_sees(p, token, n_tokens, key, n)) continue;
        float *panels = lrt_guarded(panel_floats(n, p->head_dim));
        kernels->pack_keys(panels, p->k + key * p->kv_key, p->kv_key, n, p->head_dim);
        a.k_panels = panels;
        a.v = p->v + key * p->kv_key;
        a.v_key = p->kv_key;
        a.first_key = p->key0 + key;
        a.n_keys = n;
        kernels->attn_block(&a);
        a.same_queries = keep;
        lrt_guarded_free(panels);
    }
    lrt_guarded_free(a.scratch);
}

static void show(const lr_kernels *kernels, const problem *p, const softmax_state *s, size_t token,
                 size_t n_tokens, size_t chunk, bool skip)
{
    show_kept(kernels, p, s, token, n_tokens, chunk, skip, false);
}

static void finish(const lr_kernels *kernels, const problem *p, const softmax_state *s)
{
    lr_attn a = tile_of(p, s, 0, p->n_tokens);
    kernels->attn_finish(&a);
}

/* ------------------------------------------------------------------ masks */

static void mask_window(problem *p, size_t radius)
{
    for (size_t t = 0; t < p->n_tokens; t++) {
        uint64_t at = p->key0 + t * p->n_keys / p->n_tokens;
        p->lo[t] = at - p->key0 > radius ? at - radius : p->key0;
        p->hi[t] = at + radius + 1;
    }
}

static void mask_causal(problem *p)
{
    for (size_t t = 0; t < p->n_tokens; t++) {
        p->lo[t] = 0;
        p->hi[t] = p->key0 + p->n_keys - p->n_tokens + t + 1;
    }
}

/* Any ranges: some empty, some outside, some of one key. */
static void mask_random(problem *p, lrt_random *random)
{
    for (size_t t = 0; t < p->n_tokens; t++) {
        p->lo[t] = p->key0 + lrt_below(random, p->n_keys + 20) - 10;
        p->hi[t] = lrt_below(random, 4) ? p->lo[t] + lrt_below(random, p->n_keys)
                                        : p->lo[t] + lrt_below(random, 3);
    }
}

/* ------------------------------------------------------------------ the reference */

typedef struct row_reference {
    double *p; /* [n_keys] exp(s - max), 0 where masked */
    double sum;
    double most_s; /* largest sum |q k| of a visible key */
    double most_range; /* largest max - s of a key that counts */
    double most_v;
    size_t visible;
} row_reference;

static bool visible(const problem *p, size_t t, size_t j)
{
    return p->lo[t] <= p->key0 + j && p->key0 + j < p->hi[t];
}

static row_reference reference_row(const problem *p, size_t t, size_t g, double *weights)
{
    row_reference r = {.p = weights};
    const float *q = p->q + t * p->q_token + g * p->head_dim;
    double top = -INFINITY;
    for (size_t j = 0; j < p->n_keys; j++) {
        double s = 0, size = 0;
        if (!visible(p, t, j)) continue;
        for (size_t d = 0; d < p->head_dim; d++) {
            double product = (double)q[d] * (double)p->k[j * p->kv_key + d];
            s += product;
            size += fabs(product);
            r.most_v = fmax(r.most_v, fabs((double)p->v[j * p->kv_key + d]));
        }
        weights[j] = s;
        top = fmax(top, s);
        r.most_s = fmax(r.most_s, size);
        r.visible++;
    }
    for (size_t j = 0; j < p->n_keys; j++) {
        if (!visible(p, t, j)) {
            weights[j] = 0;
            continue;
        }
        r.most_range = fmax(r.most_range, fmin(top - weights[j], 88));
        weights[j] = exp(weights[j] - top);
        r.sum += weights[j];
    }
    return r;
}

/* With u = 2^-24: a score of d products is off by at most d u sum|q k|; s - m rounds once more
 * (range u); exp is good to 2 ulp = 4 u, and a weight passes through one such factor and its
 * rounding for each time the maximum moved, at most once a sub-block. So each weight is off by a
 * factor 1 + e with e as below. o = sum(p v) / sum(p) then moves by 2 e max|v|; the two sums and the
 * division round (terms + blocks + 2) u each, to first order relative to max|v|. Weights below
 * exp(-87) may be dropped: n_keys exp(-87), nothing. */
static double tolerance(const problem *p, const row_reference *r, size_t chunk)
{
    const double u = 0x1p-24;
    double sub = chunk < LR_ATTN_BLOCK ? (double)chunk : LR_ATTN_BLOCK;
    double blocks = (double)p->n_keys / sub + 1 + (double)(p->n_keys / chunk);
    double e = (double)p->head_dim * u * r->most_s + r->most_range * u + (4 + 6 * blocks) * u;
    return (2 * e + 2 * (sub + 2 * blocks + 2) * u) * r->most_v * 1.01;
}

static void assert_near_reference(const lr_kernels *kernels, const problem *p, const softmax_state *s,
                                  size_t chunk)
{
    double *weights = malloc(p->n_keys * sizeof *weights);
    assert_non_null(weights);
    for (size_t t = 0; t < p->n_tokens; t++)
        for (size_t g = 0; g < p->group; g++) {
            row_reference r = reference_row(p, t, g, weights);
            const float *o = s->o + t * p->q_token + g * p->head_dim;
            for (size_t d = 0; d < p->head_dim; d++) {
                double sum = 0;
                for (size_t j = 0; j < p->n_keys; j++)
                    sum += weights[j] * (double)p->v[j * p->kv_key + d];
                double value = r.visible > 0 ? sum / r.sum : 0, off = fabs((double)o[d] - value);
                if (!(off <= tolerance(p, &r, chunk)))
                    fail_msg("%s, token %zu, head %zu, dimension %zu of [%zu, %zu, %zu], %zu keys by "
                             "%zu: off by %g, at most %g",
                             kernels->isa, t, g, d, p->n_tokens, p->group, p->head_dim, p->n_keys,
                             chunk, off, tolerance(p, &r, chunk));
            }
        }
    free(weights);
}

static void assert_gaps_untouched(const problem *p, const softmax_state *s)
{
    for (size_t t = 0; t + 1 < p->n_tokens; t++) {
        for (size_t i = p->group * p->head_dim; i < p->q_token; i++)
            assert_true(isnan(s->o[t * p->q_token + i]));
        for (size_t i = p->group; i < p->ml_token; i++) {
            assert_true(isnan(s->m[t * p->ml_token + i]));
            assert_true(isnan(s->l[t * p->ml_token + i]));
        }
    }
}

static void check(const lr_kernels *kernels, const problem *p, size_t chunk)
{
    softmax_state s = fresh_state(p);
    show(kernels, p, &s, 0, p->n_tokens, chunk, false);
    finish(kernels, p, &s);
    assert_near_reference(kernels, p, &s, chunk);
    assert_gaps_untouched(p, &s);
    free_state(&s);
}

/* ------------------------------------------------------------------ tests */

static const size_t head_dims[] = {2, 16, 40, 64, 72, 80, 256, 512};
#define N_HEAD_DIMS (sizeof head_dims / sizeof *head_dims)
static const size_t chunks[] = {16, 64, 1000};
#define N_CHUNKS (sizeof chunks / sizeof *chunks)

static void test_attention_equals_a_full_softmax_under_every_mask(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_TABLES];
    size_t n_kernels = all_tables(kernels);
    lrt_random random;
    lrt_random_init(&random, 1);
    for (size_t h = 0; h < N_HEAD_DIMS; h++)
        for (size_t group = 1; group <= 4; group++) {
            size_t n_keys = 150 + (size_t)lrt_below(&random, 150), n_tokens = 1 + 29 / group;
            problem p = make_problem(n_tokens, group, head_dims[h], n_keys, &random);
            for (int mask = 0; mask < 4; mask++) {
                if (mask == 1) mask_window(&p, 40);
                if (mask == 2) mask_causal(&p);
                if (mask == 3) mask_random(&p, &random);
                for (size_t b = 0; b < n_kernels; b++)
                    check(kernels[b], &p, chunks[(h + group + (size_t)mask) % N_CHUNKS]);
            }
            free_problem(&p);
        }
}

static void test_many_keys_come_in_chunks_of_any_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 15, 16, 17, 127, 128, 129, 1000, 2100};
    const lr_kernels *kernels[MOST_TABLES];
    size_t n_kernels = all_tables(kernels);
    lrt_random random;
    lrt_random_init(&random, 2);
    problem p = make_problem(7, 2, 40, 2100, &random);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (i % 2) mask_random(&p, &random);
        for (size_t b = 0; b < n_kernels; b++) check(kernels[b], &p, sizes[i]);
    }
    free_problem(&p);
}

static void test_a_row_has_the_same_bits_however_the_tile_is_cut(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_TABLES];
    size_t n_kernels = all_tables(kernels);
    lrt_random random;
    lrt_random_init(&random, 3);
    for (int i = 0; i < 60; i++) {
        size_t group = 1 + (size_t)lrt_below(&random, 4), n_tokens = 1 + (size_t)lrt_below(&random, 30);
        size_t chunk = chunks[lrt_below(&random, N_CHUNKS)];
        problem p = make_problem(n_tokens, group, head_dims[lrt_below(&random, N_HEAD_DIMS)],
                                 n_tokens + (size_t)lrt_below(&random, 400), &random);
        if (i % 4 == 1) mask_window(&p, 30);
        if (i % 4 == 2) mask_causal(&p);
        if (i % 4 == 3) mask_random(&p, &random);
        if (i % 3 == 0) /* products that vanish: only the sign of a zero could tell */
            for (size_t j = 0; j < p.n_keys; j++)
                for (size_t d = 0; d < p.head_dim; d++) p.v[j * p.kv_key + d] *= 1e-38f;
        for (size_t b = 0; b < n_kernels; b++) {
            softmax_state whole = fresh_state(&p);
            show(kernels[b], &p, &whole, 0, n_tokens, chunk, false);
            for (size_t most = 1; most < n_tokens; most += 1 + most / 2) {
                softmax_state pieces = fresh_state(&p);
                for (size_t t = 0; t < n_tokens; t += most)
                    show(kernels[b], &p, &pieces, t, n_tokens - t < most ? n_tokens - t : most, chunk,
                         false);
                assert_same_state(&p, &pieces, &whole);
                free_state(&pieces);
            }
            free_state(&whole);
        }
        free_problem(&p);
    }
}

static void test_blocks_that_no_row_sees_may_be_left_out(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_TABLES];
    size_t n_kernels = all_tables(kernels);
    lrt_random random;
    lrt_random_init(&random, 4);
    for (size_t h = 0; h < N_HEAD_DIMS; h++) {
        problem p = make_problem(9, 1 + h % 3, head_dims[h], 700, &random);
        mask_window(&p, 20);
        for (size_t b = 0; b < n_kernels; b++)
            for (size_t c = 0; c < N_CHUNKS; c++) {
                softmax_state all = fresh_state(&p), seen = fresh_state(&p);
                for (size_t t = 0; t < p.n_tokens; t += 3) {
                    show(kernels[b], &p, &all, t, 3, chunks[c], false);
                    show(kernels[b], &p, &seen, t, 3, chunks[c], true);
                }
                assert_same_state(&p, &all, &seen);
                free_state(&all);
                free_state(&seen);
            }
        free_problem(&p);
    }
}

static void test_queries_may_stay_in_scratch_from_block_to_block(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_TABLES];
    size_t n_kernels = all_tables(kernels);
    lrt_random random;
    lrt_random_init(&random, 6);
    for (size_t h = 0; h < N_HEAD_DIMS; h++) {
        problem p = make_problem(10, 1 + h % 3, head_dims[h], 500, &random);
        if (h % 2) mask_random(&p, &random);
        for (size_t b = 0; b < n_kernels; b++) {
            softmax_state copied = fresh_state(&p), kept = fresh_state(&p);
            show_kept(kernels[b], &p, &copied, 0, p.n_tokens, 64, true, false);
            show_kept(kernels[b], &p, &kept, 0, p.n_tokens, 64, true, true);
            assert_same_state(&p, &copied, &kept);
            free_state(&copied);
            free_state(&kept);
        }
        free_problem(&p);
    }
}

/* Whatever stands in the state of a row that sees nothing, it stays: also beside rows that see. */
static void test_a_row_that_sees_nothing_is_left_as_it_is(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_TABLES];
    size_t n_kernels = all_tables(kernels);
    lrt_random random;
    lrt_random_init(&random, 5);
    for (size_t h = 0; h < N_HEAD_DIMS; h++) {
        problem p = make_problem(11, 2, head_dims[h], 130, &random);
        for (size_t t = 1; t < p.n_tokens; t += 2) { /* before, empty, behind */
            p.lo[t] = t % 3 == 0 ? 0 : p.key0 + (t % 3 == 1 ? 50 : 130);
            p.hi[t] = t % 3 == 0 ? p.key0 : t % 3 == 1 ? p.key0 + 50 : UINT64_MAX;
        }
        for (size_t b = 0; b < n_kernels; b++) {
            softmax_state s = fresh_state(&p);
            for (size_t t = 1; t < p.n_tokens; t += 2)
                for (size_t g = 0; g < p.group; g++) {
                    float *o = s.o + t * p.q_token + g * p.head_dim;
                    for (size_t d = 0; d < p.head_dim; d++) o[d] = d % 2 ? -0.0f : 1e-41f;
                    s.m[t * p.ml_token + g] = -0.0f;
                    s.l[t * p.ml_token + g] = 0x1.fffffep0f;
                }
            softmax_state before = fresh_state(&p);
            memcpy(before.o, s.o, q_floats(&p) * sizeof(float));
            memcpy(before.m, s.m, ml_floats(&p) * sizeof(float));
            memcpy(before.l, s.l, ml_floats(&p) * sizeof(float));
            show(kernels[b], &p, &s, 0, p.n_tokens, 1000, false);
            for (size_t t = 1; t < p.n_tokens; t += 2) {
                size_t at = t * p.q_token, ml = t * p.ml_token;
                size_t bytes = p.group * sizeof(float);
                assert_memory_equal(s.o + at, before.o + at, bytes * p.head_dim);
                assert_memory_equal(s.m + ml, before.m + ml, bytes);
                assert_memory_equal(s.l + ml, before.l + ml, bytes);
            }
            free_state(&s);
            free_state(&before);
        }
        free_problem(&p);
    }
}

/* One visible key: its value itself, to the bit. None: zero. */
static void test_one_key_gives_its_value_and_none_gives_zero(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_TABLES];
    size_t n_kernels = all_tables(kernels);
    lrt_random random;
    lrt_random_init(&random, 6);
    for (size_t h = 0; h < N_HEAD_DIMS; h++) {
        problem p = make_problem(5, 3, head_dims[h], 300, &random);
        static const size_t keys[] = {0, 17, 127, 128, 299};
        for (size_t t = 0; t < p.n_tokens; t++) {
            p.lo[t] = p.key0 + keys[t];
            p.hi[t] = p.lo[t] + 1;
        }
        p.hi[1] = p.lo[1]; /* sees none */
        for (size_t b = 0; b < n_kernels; b++) {
            softmax_state s = fresh_state(&p);
            show(kernels[b], &p, &s, 0, p.n_tokens, 1000, false);
            finish(kernels[b], &p, &s);
            for (size_t t = 0; t < p.n_tokens; t++)
                for (size_t i = 0; i < p.group * p.head_dim; i++) {
                    float o = s.o[t * p.q_token + i];
                    float v = p.v[keys[t] * p.kv_key + i % p.head_dim];
                    assert_true(t == 1 ? o == 0 : o == v);
                }
            free_state(&s);
        }
        free_problem(&p);
    }
}

/* Logits of +80 and -80 and all of them the same: no overflow, no loss. Scores are exact here (one
 * product of small integers), and so is the outcome: the mean of the values with the top score. */
static void test_extreme_and_equal_logits(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_TABLES];
    size_t n_kernels = all_tables(kernels);
    lrt_random random;
    lrt_random_init(&random, 7);
    for (int kind = 0; kind < 3; kind++) {
        problem p = make_problem(13, 1, 16, 256, &random);
        for (size_t t = 0; t < p.n_tokens; t++)
            for (size_t d = 0; d < 16; d++) p.q[t * p.q_token + d] = d == 0 ? 8 : 0;
        for (size_t j = 0; j < p.n_keys; j++) {
            float top = kind == 0 ? (j % 2 ? 10.0f : -10.0f) : kind == 1 ? -10.0f : (float)(j / 64);
            for (size_t d = 0; d < 16; d++) p.k[j * p.kv_key + d] = d == 0 ? top : 1;
        }
        for (size_t b = 0; b < n_kernels; b++)
            for (size_t c = 0; c < N_CHUNKS; c++) {
                check(kernels[b], &p, chunks[c]);
                softmax_state s = fresh_state(&p);
                show(kernels[b], &p, &s, 0, p.n_tokens, chunks[c], false);
                for (size_t t = 0; t < p.n_tokens; t++) {
                    assert_true(s.m[t * p.ml_token] == (kind == 0 ? 80.0f : kind == 1 ? -80.0f : 24.0f));
                    if (kind == 0) assert_true(s.l[t * p.ml_token] == 128.0f);
                    if (kind == 1) assert_true(s.l[t * p.ml_token] == 256.0f);
                }
                free_state(&s);
            }
        free_problem(&p);
    }
}

/* Scores that are exact (q is -x, k is 0 or 1) and values that show a weight alone: exp is good to
 * 2 ulp = 2^-22, relative, as far down as it is not 0. */
static void test_weights_are_the_exponential_of_the_score(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_TABLES];
    size_t n_kernels = all_tables(kernels);
    lrt_random random;
    lrt_random_init(&random, 9);
    problem p = make_problem(2000, 1, 2, 2, &random);
    for (size_t t = 0; t < p.n_tokens; t++) {
        p.q[t * p.q_token] = t == 0 ? 0.0f : -lrt_uniform(&random, 0, t % 4 ? 87.0f : 1.0f);
        p.q[t * p.q_token + 1] = 0;
    }
    for (size_t d = 0; d < 2; d++)
        for (size_t j = 0; j < 2; j++) {
            p.k[j * p.kv_key + d] = j == 1 && d == 0 ? 1 : 0;
            p.v[j * p.kv_key + d] = j == d ? 1 : 0;
        }
    for (size_t b = 0; b < n_kernels; b++) {
        softmax_state s = fresh_state(&p);
        show(kernels[b], &p, &s, 0, p.n_tokens, 1000, false);
        for (size_t t = 0; t < p.n_tokens; t++) {
            double weight = exp((double)p.q[t * p.q_token]), o = (double)s.o[t * p.q_token + 1];
            assert_true(s.o[t * p.q_token] == 1);
            if (fabs(o - weight) > 0x1p-22 * weight)
                fail_msg("%s: exp(%.9g) = %.9g", kernels[b]->isa, (double)p.q[t * p.q_token], o);
        }
        free_state(&s);
    }
    free_problem(&p);
}

/* Token 0 sees keys 0 .. 4, token 1 also key 5. Step by step token 0's output underflows to -0, and
 * its last weight times value does too: passing over its neighbour's key must not make a + of it. */
static void test_a_neighbours_keys_do_not_turn_the_sign_of_zero(void **state)
{
    (void)state;
    static const float score[] = {0, -1000, 50, -1000, -30, 0};
    static const float value[] = {-1e-44f, 0, 0, 0, -1e-30f, 1};
    const lr_kernels *kernels[MOST_TABLES];
    size_t n_kernels = all_tables(kernels);
    lrt_random random;
    lrt_random_init(&random, 10);
    problem p = make_problem(2, 1, 2, 6, &random);
    for (size_t t = 0; t < 2; t++) {
        p.q[t * p.q_token] = 1;
        p.q[t * p.q_token + 1] = 0;
        p.hi[t] = p.key0 + 5 + t;
    }
    for (size_t j = 0; j < 6; j++)
        for (size_t d = 0; d < 2; d++) {
            p.k[j * p.kv_key + d] = d == 0 ? score[j] : 0;
            p.v[j * p.kv_key + d] = value[j];
        }
    for (size_t b = 0; b < n_kernels; b++) {
        softmax_state both = fresh_state(&p), each = fresh_state(&p);
        show(kernels[b], &p, &both, 0, 2, 2, false);
        show(kernels[b], &p, &each, 0, 1, 2, false);
        show(kernels[b], &p, &each, 1, 1, 2, false);
        assert_true(both.o[0] == 0);
        assert_same_state(&p, &both, &each);
        free_state(&both);
        free_state(&each);
    }
    free_problem(&p);
}

static void test_keys_are_packed_in_panels(void **state)
{
    (void)state;
    const lr_kernels *kernels[MOST_TABLES];
    size_t n_kernels = all_tables(kernels);
    lrt_random random;
    lrt_random_init(&random, 8);
    for (size_t b = 0; b < n_kernels; b++)
        for (size_t n = 1; n <= 50; n++) {
            size_t dim = 2 * (1 + (size_t)lrt_below(&random, 30)), ldk = dim + n % 5;
            float *k = lrt_guarded((n - 1) * ldk + dim), *panels = lrt_guarded(panel_floats(n, dim));
            lrt_fill_normal(&random, k, (n - 1) * ldk + dim, 1);
            kernels[b]->pack_keys(panels, k, ldk, n, dim);
            for (size_t i = 0; i < panel_floats(n, dim); i++) {
                size_t key = i / (dim * LR_KEY_PANEL) * LR_KEY_PANEL + i % LR_KEY_PANEL;
                size_t d = i / LR_KEY_PANEL % dim;
                assert_true(panels[i] == (key < n ? k[key * ldk + d] : 0));
            }
            lrt_guarded_free(k);
            lrt_guarded_free(panels);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_equals_a_full_softmax_under_every_mask),
        cmocka_unit_test(test_many_keys_come_in_chunks_of_any_size),
        cmocka_unit_test(test_a_row_has_the_same_bits_however_the_tile_is_cut),
        cmocka_unit_test(test_blocks_that_no_row_sees_may_be_left_out),
        cmocka_unit_test(test_queries_may_stay_in_scratch_from_block_to_block),
        cmocka_unit_test(test_a_row_that_sees_nothing_is_left_as_it_is),
        cmocka_unit_test(test_one_key_gives_its_value_and_none_gives_zero),
        cmocka_unit_test(test_extreme_and_equal_logits),
        cmocka_unit_test(test_weights_are_the_exponential_of_the_score),
        cmocka_unit_test(test_a_neighbours_keys_do_not_turn_the_sign_of_zero),
        cmocka_unit_test(test_keys_are_packed_in_panels),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
