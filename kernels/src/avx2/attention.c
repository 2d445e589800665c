#include "ops.h"

#include "../vector_math.h"
#include "../attention_tile.h"

/* a, b, .. h: keys 0 .. 7, eight dimensions each, to eight dimensions of eight keys at `to`,
 * LR_KEY_PANEL floats apart. */
static void transpose_8x8(float *to, const __m256 row[8])
{
    __m256 pair[8], quad[8];
    for (int i = 0; i < 4; i++) {
        pair[2 * i] = _mm256_unpacklo_ps(row[2 * i], row[2 * i + 1]);
        pair[2 * i + 1] = _mm256_unpackhi_ps(row[2 * i], row[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            quad[4 * i + 2 * j] = _mm256_shuffle_ps(pair[4 * i + j], pair[4 * i + 2 + j], 0x44);
            quad[4 * i + 2 * j + 1] = _mm256_shuffle_ps(pair[4 * i + j], pair[4 * i + 2 + j], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * LR_KEY_PANEL, _mm256_permute2f128_ps(quad[i], quad[4 + i], 0x20));
        _mm256_storeu_ps(to + (4 + i) * LR_KEY_PANEL,
                         _mm256_permute2f128_ps(quad[i], quad[4 + i], 0x31));
    }
}

/* Up to eight keys to one half of a panel; the other lanes become 0. */
static void pack_half(float *to, const float *k, size_t ldk, size_t n_keys, size_t head_dim)
{
    size_t d = 0;
    if (n_keys >= 8)
        for (; d + 8 <= head_dim; d += 8) {
            __m256 row[8];
            for (size_t i = 0; i < 8; i++) row[i] = _mm256_loadu_ps(k + i * ldk + d);
            transpose_8x8(to + d * LR_KEY_PANEL, row);
        }
    for (; d < head_dim; d++)
        for (size_t i = 0; i < 8; i++) to[d * LR_KEY_PANEL + i] = i < n_keys ? k[i * ldk + d] : 0;
}

static void pack_keys(float *panels, const float *k, size_t ldk, size_t n_keys, size_t head_dim)
{
    for (size_t key = 0; key < n_keys; key += LR_KEY_PANEL) {
        size_t left = n_keys - key;
        pack_half(panels, k + key * ldk, ldk, left, head_dim);
        pack_half(panels + 8, left > 8 ? k + (key + 8) * ldk : NULL, ldk, left > 8 ? left - 8 : 0,
                  head_dim);
        panels += LR_KEY_PANEL * head_dim;
    }
}

static void attn_finish(const lr_attn *a)
{
    for (size_t t = 0; t < a->n_tokens; t++)
        for (size_t head = 0; head < a->group; head++) {
            float *o = a->o + t * a->o_token + head * a->head_dim;
            float l = a->l[t * a->ml_token + head];
            vec inverse = vec_all(l > 0 ? 1 / l : 0);
            size_t d = 0;
            for (; d + VW <= a->head_dim; d += VW)
                vec_store(o + d, vec_mul(vec_load(o + d), inverse));
            if (d < a->head_dim)
                vec_store_n(o + d, vec_mul(vec_load_n(o + d, a->head_dim - d), inverse),
                            a->head_dim - d);
        }
}

void lr_fill_attention_avx2(lr_kernels *table)
{
    table->pack_keys = pack_keys;
    table->attn_block = attn_block;
    table->attn_finish = attn_finish;
    table->attn_scratch = attn_scratch;
}
