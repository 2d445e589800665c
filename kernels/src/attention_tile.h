/* One block of keys against a tile of queries, written once; an instruction set's source includes its
 * simd.h and then this. The contract is lr_attn in longreel/kernels.h.
 *
 * Rows are worked in groups of TILE_ROWS, keys in sub-blocks of LR_ATTN_BLOCK, so that the keys and
 * values of a sub-block stay in L2 while the groups of the tile pass over them. For a group and a
 * sub-block: scores (broadcast q, lanes over keys), softmax step, values (broadcast p, lanes over
 * head_dim), each product with its sums in registers.
 *
 * Row-invariance: a score is one chain of fma over head_dim; maxima are exact; the sum of p goes lane
 * by lane (key mod VW) in ascending order, then through a fixed tree; o' = fma(o, alpha, acc), where
 * acc is one chain over the keys from 0. Keys that only a neighbour of the group sees enter a row's
 * chains as p = +0, which changes nothing but the sign of a zero, and that is made + at the end. */
#ifndef LONGREEL_KERNELS_ATTENTION_TILE_H
#define LONGREEL_KERNELS_ATTENTION_TILE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "table.h"

#define MOST_HEAD_DIM 512
/* Floats from row to row of the copies of q and of the scores: constants, so that one register
 * addresses all rows of a group, and no powers of two, so that the rows lie in different cache sets. */
#define Q_LD (MOST_HEAD_DIM + 16)
#define S_LD (LR_ATTN_BLOCK + 16)

/* The share of the next sub-block that a group has fetched ahead while it works: K panels are one
 * stretch, V is keys [v_begin, v_end) of the sub-block. The last sub-block names itself. */
typedef struct ahead {
    const char *k;
    size_t k_step; /* bytes for each step of a score tile */
    const float *v;
    size_t v_begin, v_end;
} ahead;

/* A group of rows against a sub-block. Key numbers count from the sub-block's first key. */
typedef struct row_group {
    const float *q;          /* [height, Q_LD], padding rows zero */
    float *s;                /* [height, S_LD] scores, then p */
    size_t height;           /* rows rounded up to TILE_STEP */
    float *o[TILE_ROWS];     /* NULL: the row sees no key here, or is padding; it is not written */
    float *m[TILE_ROWS], *l[TILE_ROWS];
    size_t begin[TILE_ROWS], end[TILE_ROWS]; /* keys that the row sees */
    size_t first, past;      /* keys that any row sees */
    float alpha[VW];         /* exp(m - m') of each row */
    ahead next;
} row_group;

/* exp(x) for x <= 0, -inf too; 0 below -87 (1.6e-38, which no sum with a term of 1 feels). */
SIMD vec vec_exp_negative(vec x)
{
    return vec_zero_below(vec_exp(x), x, vec_all(-87.0f));
}

/* ------------------------------------------------------------------ scores */

/* s[r][0 .. n_vecs * VW) = q[r] . k for vectors of keys at k0 and k1, one dimension every
 * LR_KEY_PANEL floats; meanwhile fetches from `next` on. height and n_vecs are constants in each
 * caller. */
SIMD void score_tile(const row_group *g, float *s, const float *k0, const float *k1, size_t head_dim,
                     const char *next, const size_t height, const size_t n_vecs)
{
    const float *q = g->q;
    size_t next_step = g->next.k_step;
    vec sum[TILE_ROWS][2];
#pragma GCC unroll 12
    for (size_t r = 0; r < height; r++) sum[r][0] = sum[r][1] = vec_zero();
    for (size_t d = 0; d < head_dim; d++) {
        vec a = vec_load(k0 + d * LR_KEY_PANEL);
        vec b = n_vecs > 1 ? vec_load(k1 + d * LR_KEY_PANEL) : a;
        vec_prefetch_l2(next);
        next += next_step;
#pragma GCC unroll 12
        for (size_t r = 0; r < height; r++) {
            vec x = vec_all(q[r * Q_LD + d]);
            sum[r][0] = vec_fma(x, a, sum[r][0]);
            if (n_vecs > 1) sum[r][1] = vec_fma(x, b, sum[r][1]);
        }
    }
#pragma GCC unroll 12
    for (size_t r = 0; r < height; r++) {
        vec_store(s + r * S_LD, sum[r][0]);
        if (n_vecs > 1) vec_store(s + r * S_LD + VW, sum[r][1]);
    }
}

/* Panels [p0, p1) of the sub-block, whose first panel is `panels`. */
SIMD void score_panels(const row_group *g, const float *panels, size_t head_dim, size_t p0, size_t p1,
                       const size_t height)
{
    const size_t panel = LR_KEY_PANEL * head_dim;
    const char *next = g->next.k;
    for (size_t p = p0; p < p1; next += g->next.k_step * head_dim) {
        const float *k = panels + p * panel;
        float *s = g->s + p * LR_KEY_PANEL;
        if (VW < LR_KEY_PANEL) {
            score_tile(g, s, k, k + VW, head_dim, next, height, 2);
            p += 1;
        } else if (p + 1 < p1) {
            score_tile(g, s, k, k + panel, head_dim, next, height, 2);
            p += 2;
        } else {
            score_tile(g, s, k, k, head_dim, next, height, 1);
            p += 1;
        }
    }
}

static void scores(const row_group *g, const float *panels, size_t head_dim)
{
    size_t p0 = g->first / LR_KEY_PANEL, p1 = (g->past + LR_KEY_PANEL - 1) / LR_KEY_PANEL;
    if (g->height == 3 * TILE_STEP)
        score_panels(g, panels, head_dim, p0, p1, 3 * TILE_STEP);
    else if (g->height == 2 * TILE_STEP)
        score_panels(g, panels, head_dim, p0, p1, 2 * TILE_STEP);
    else
        score_panels(g, panels, head_dim, p0, p1, TILE_STEP);
}

/* ------------------------------------------------------------------ softmax */

/* The largest score of row r; what the row does not see becomes -inf. */
static float row_max(const row_group *g, size_t r)
{
    float *s = g->s + r * S_LD;
    size_t begin = g->begin[r], end = g->end[r];
    vec top = vec_all(-INFINITY);
    for (size_t j = g->first / VW * VW; j < g->past; j += VW) {
        vec x = vec_load(s + j);
        if (begin > j || end < j + VW) {
            x = vec_between(x, begin > j ? begin - j : 0, end > j ? end - j : 0, -INFINITY);
            vec_store(s + j, x);
        }
        top = vec_max(top, x);
    }
    return vec_reduce_max(top);
}

/* s = exp(s - m); the sum of it. */
static float row_exp(const row_group *g, size_t r, float m)
{
    float *s = g->s + r * S_LD;
    vec sum = vec_zero(), max = vec_all(m);
    for (size_t j = g->first / VW * VW; j < g->past; j += VW) {
        vec p = vec_exp_negative(vec_sub(vec_load(s + j), max));
        vec_store(s + j, p);
        sum = vec_add(sum, p);
    }
    return vec_reduce_add(sum);
}

static void softmax(row_group *g)
{
    float change[VW] = {0}, sum[TILE_ROWS];
    for (size_t r = 0; r < g->height; r++) {
        if (g->o[r] == NULL) continue;
        float top = row_max(g, r), old = *g->m[r];
        if (old > top) top = old;
        *g->m[r] = top;
        change[r] = old - top;
        sum[r] = row_exp(g, r, top);
    }
    vec_store(g->alpha, vec_exp_negative(vec_load(change)));
    for (size_t r = 0; r < g->height; r++)
        if (g->o[r] != NULL) *g->l[r] = *g->l[r] * g->alpha[r] + sum[r];
}

/* ------------------------------------------------------------------ values */

SIMD void store_values(float *o, vec sum, float alpha, size_t width)
{
    /* + 0: the sign of a zero sum must not tell which masked keys were passed over */
    sum = vec_add(sum, vec_zero());
    if (width >= VW)
        vec_store(o, vec_fma(vec_load(o), vec_all(alpha), sum));
    else
        vec_store_n(o, vec_fma(vec_load_n(o, width), vec_all(alpha), sum), width);
}

/* o[r][d0 ..] = alpha o + p . v for n_vecs vectors of dimensions, the last `width` lanes wide if
 * `cut`. height, n_vecs and cut are constants in each caller. v: the sub-block's first key. */
SIMD void value_tile(const row_group *g, const float *v, size_t v_key, size_t d0, size_t width,
                     const size_t height, const size_t n_vecs, const bool cut)
{
    const float *p = g->s + g->first, *at = v + g->first * v_key + d0;
    const float *next = g->next.v + g->next.v_begin * v_key + d0;
    size_t next_begin = g->next.v_begin, next_keys = g->next.v_end - g->next.v_begin;
    vec sum[TILE_ROWS][2];
#pragma GCC unroll 12
    for (size_t r = 0; r < height; r++) sum[r][0] = sum[r][1] = vec_zero();
    for (size_t j = g->first; j < g->past; j++, p++, at += v_key) {
        vec a = n_vecs > 1 || !cut ? vec_load(at) : vec_load_n(at, width);
        vec b = n_vecs < 2 ? a : cut ? vec_load_n(at + VW, width) : vec_load(at + VW);
        vec_prefetch_l2(next);
        if (n_vecs > 1) vec_prefetch_l2(next + VW);
        next += j - next_begin < next_keys ? v_key : 0;
#pragma GCC unroll 12
        for (size_t r = 0; r < height; r++) {
            vec x = vec_all(p[r * S_LD]);
            sum[r][0] = vec_fma(x, a, sum[r][0]);
            if (n_vecs > 1) sum[r][1] = vec_fma(x, b, sum[r][1]);
        }
    }
#pragma GCC unroll 12
    for (size_t r = 0; r < height; r++) {
        if (g->o[r] == NULL) continue;
        float *o = g->o[r] + d0;
        store_values(o, sum[r][0], g->alpha[r], n_vecs < 2 && cut ? width : VW);
        if (n_vecs > 1) store_values(o + VW, sum[r][1], g->alpha[r], cut ? width : VW);
    }
}

SIMD void value_columns(const row_group *g, const float *v, size_t v_key, size_t head_dim,
                        const size_t height)
{
    size_t d = 0;
    for (; d + 2 * VW <= head_dim; d += 2 * VW) value_tile(g, v, v_key, d, VW, height, 2, false);
    size_t left = head_dim - d;
    if (left > VW)
        value_tile(g, v, v_key, d, left - VW, height, 2, true);
    else if (left > 0)
        value_tile(g, v, v_key, d, left, height, 1, true);
}

static void values(const row_group *g, const float *v, size_t v_key, size_t head_dim)
{
    if (g->height == 3 * TILE_STEP)
        value_columns(g, v, v_key, head_dim, 3 * TILE_STEP);
    else if (g->height == 2 * TILE_STEP)
        value_columns(g, v, v_key, head_dim, 2 * TILE_STEP);
    else
        value_columns(g, v, v_key, head_dim, TILE_STEP);
}

/* ------------------------------------------------------------------ the tile */

static size_t round_up(size_t value, size_t step)
{
    return (value + step - 1) / step * step;
}

/* `key` (absolute) counted from `first`, within 0 .. n. */
static size_t key_within(uint64_t key, uint64_t first, size_t n)
{
    if (key <= first) return 0;
    return key - first < n ? (size_t)(key - first) : n;
}

/* Rows row0 .. of the tile against the n keys from `first` (absolute) on; false if none sees any. */
static bool group_set(row_group *g, const lr_attn *a, size_t row0, size_t rows, uint64_t first,
                      size_t n)
{
    size_t t = row0 / a->group, head = row0 % a->group;
    g->height = round_up(rows, TILE_STEP);
    g->first = n;
    g->past = 0;
    for (size_t r = 0; r < g->height; r++) {
        g->o[r] = NULL;
        if (r >= rows) continue;
        size_t begin = key_within(a->lo[t], first, n), end = key_within(a->hi[t], first, n);
        if (begin < end) {
            g->begin[r] = begin;
            g->end[r] = end;
            g->o[r] = a->o + t * a->o_token + head * a->head_dim;
            g->m[r] = a->m + t * a->ml_token + head;
            g->l[r] = a->l + t * a->ml_token + head;
            if (begin < g->first) g->first = begin;
            if (end > g->past) g->past = end;
        }
        if (++head == a->group) {
            head = 0;
            t++;
        }
    }
    return g->first < g->past;
}

/* q of all rows into [rows rounded up, Q_LD]. */
static void copy_queries(float *copy, const lr_attn *a)
{
    float *to = copy;
    for (size_t t = 0; t < a->n_tokens; t++)
        for (size_t head = 0; head < a->group; head++, to += Q_LD)
            memcpy(to, a->q + t * a->q_token + head * a->head_dim, a->head_dim * sizeof *to);
    size_t rows = a->n_tokens * a->group;
    for (size_t r = rows; r < round_up(rows, TILE_STEP); r++, to += Q_LD)
        memset(to, 0, a->head_dim * sizeof *to);
}

/* What group i of n_groups fetches of the sub-block after `key` (of the block). A sub-block is worked
 * in BLOCK / (2 VW) score tiles of head_dim steps a group. */
static ahead ahead_of(const lr_attn *a, size_t key, size_t i, size_t n_groups)
{
    size_t next = a->n_keys - key > LR_ATTN_BLOCK ? key + LR_ATTN_BLOCK : key;
    size_t step = LR_ATTN_BLOCK * sizeof(float) / (LR_ATTN_BLOCK / (2 * VW)) / n_groups;
    size_t share = step * a->head_dim * (LR_ATTN_BLOCK / (2 * VW));
    return (ahead){.k = (const char *)(a->k_panels + next * a->head_dim) + i * share, .k_step = step,
                   .v = a->v + next * a->v_key, .v_begin = i * LR_ATTN_BLOCK / n_groups,
                   .v_end = (i + 1) * LR_ATTN_BLOCK / n_groups};
}

static void attn_block(const lr_attn *a)
{
    size_t rows = a->n_tokens * a->group, n_groups = (rows + TILE_ROWS - 1) / TILE_ROWS;
    float *q = a->scratch;
    row_group g = {.s = q + round_up(rows, TILE_STEP) * Q_LD};
    if (!a->same_queries) copy_queries(q, a);
    for (size_t key = 0; key < a->n_keys; key += LR_ATTN_BLOCK) {
        size_t n = a->n_keys - key < LR_ATTN_BLOCK ? a->n_keys - key : LR_ATTN_BLOCK;
        const float *panels = a->k_panels + key * a->head_dim, *v = a->v + key * a->v_key;
        for (size_t i = 0; i < n_groups; i++) {
            size_t row0 = i * TILE_ROWS, left = rows - row0;
            if (!group_set(&g, a, row0, left < TILE_ROWS ? left : TILE_ROWS, a->first_key + key, n))
                continue;
            g.q = q + row0 * Q_LD;
            g.next = ahead_of(a, key, i, n_groups);
            scores(&g, panels, a->head_dim);
            softmax(&g);
            values(&g, v, a->v_key, a->head_dim);
        }
    }
}

static size_t attn_scratch(size_t rows, size_t head_dim)
{
    (void)head_dim;
    return round_up(rows, TILE_STEP) * Q_LD + TILE_ROWS * S_LD;
}

#endif
