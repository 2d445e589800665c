#include <math.h>
#include <string.h>

#include "scalar.h"

#define PANEL LR_KEY_PANEL
#define BLOCK LR_ATTN_BLOCK

/* Scratch of a call: the scores of one row against one sub-block, then their weights. */
size_t lr_scalar_attn_scratch(size_t rows, size_t head_dim)
{
    (void)rows;
    (void)head_dim;
    return BLOCK;
}

void lr_scalar_pack_keys(float *panels, const float *k, size_t ldk, size_t n_keys, size_t head_dim)
{
    for (size_t first = 0; first < n_keys; first += PANEL, panels += PANEL * head_dim)
        for (size_t d = 0; d < head_dim; d++)
            for (size_t j = 0; j < PANEL; j++)
                panels[d * PANEL + j] = first + j < n_keys ? k[(first + j) * ldk + d] : 0;
}

/* s[j] = q . k_j for the panels that hold keys [begin, end) of the block; s is indexed from the
 * sub-block's first key, a multiple of PANEL. */
static void scores(float *s, const float *q, const float *panels, size_t sub, size_t begin,
                   size_t end, size_t head_dim)
{
    for (size_t p = begin / PANEL; p * PANEL < end; p++) {
        const float *panel = panels + p * PANEL * head_dim;
        float sum[PANEL] = {0};
        for (size_t d = 0; d < head_dim; d++)
            for (size_t j = 0; j < PANEL; j++)
                sum[j] += q[d] * panel[d * PANEL + j];
        memcpy(s + (p * PANEL - sub), sum, sizeof(sum));
    }
}

/* The online softmax step of one row over keys [begin, end) of the block, all inside the sub-block
 * that starts at key `sub`. */
static void row_step(const lr_attn *a, size_t t, size_t g, size_t sub, size_t begin, size_t end)
{
    const float *q = a->q + t * a->q_token + g * a->head_dim;
    float *o = a->o + t * a->o_token + g * a->head_dim;
    float *m = a->m + t * a->ml_token + g, *l = a->l + t * a->ml_token + g;
    float *s = a->scratch;
    scores(s, q, a->k_panels, sub, begin, end, a->head_dim);

    float top = *m;
    for (size_t j = begin; j < end; j++)
        top = s[j - sub] > top ? s[j - sub] : top;
    float correction = expf(*m - top), sum = 0;
    for (size_t j = begin; j < end; j++) {
        s[j - sub] = expf(s[j - sub] - top);
        sum += s[j - sub];
    }
    *m = top;
    *l = *l * correction + sum;
    for (size_t d = 0; d < a->head_dim; d++)
        o[d] *= correction;
    for (size_t j = begin; j < end; j++) {
        const float *v = a->v + j * a->v_key;
        for (size_t d = 0; d < a->head_dim; d++)
            o[d] += s[j - sub] * v[d];
    }
}

void lr_scalar_attn_block(const lr_attn *a)
{
    for (size_t t = 0; t < a->n_tokens; t++) {
        uint64_t past = a->first_key + a->n_keys;
        uint64_t lo = a->lo[t] > a->first_key ? a->lo[t] : a->first_key;
        uint64_t hi = a->hi[t] < past ? a->hi[t] : past;
        if (lo >= hi) continue;
        size_t begin = (size_t)(lo - a->first_key), end = (size_t)(hi - a->first_key);
        for (size_t g = 0; g < a->group; g++)
            for (size_t sub = begin / BLOCK * BLOCK; sub < end; sub += BLOCK)
                row_step(a, t, g, sub, begin > sub ? begin : sub,
                         end < sub + BLOCK ? end : sub + BLOCK);
    }
}

void lr_scalar_attn_finish(const lr_attn *a)
{
    for (size_t t = 0; t < a->n_tokens; t++)
        for (size_t g = 0; g < a->group; g++) {
            float *o = a->o + t * a->o_token + g * a->head_dim;
            float l = a->l[t * a->ml_token + g], inverse = l > 0 ? 1 / l : 0;
            for (size_t d = 0; d < a->head_dim; d++)
                o[d] *= inverse;
        }
}
