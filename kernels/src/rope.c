/* Rotary angles. A position is split in two, pos = 64 b + s with 0 <= s < 64: the turns of s are
 * tabulated, those of 64 b computed once for the rows that share b, and the two are put together by
 * the addition theorems, all in fp64. The result is within some 1e-15 of cos and sin of the angle
 * itself, far below the rounding to fp32, and costs far less than a sincos for each element. */
#include <math.h>

#include <longreel/kernels.h>
#include <longreel/memory.h>

#define STEP 64
#define SPAN 64 /* frequencies worked at a time, so that the turns of 64 b fit on the stack */
#define MAX_DIM 65536

struct lr_rope {
    size_t half;       /* dim / 2 frequencies */
    double *frequency; /* [half] theta^(-2j/dim) */
    double *cos, *sin; /* [STEP, half] of s * frequency[j] */
};

lr_status lr_rope_create(lr_rope **out, size_t dim, double theta, lr_error *err)
{
    lr_status st = LR_OK;
    lr_rope *rope = NULL;
    *out = NULL;
    if (dim < 2 || dim % 2 || dim > MAX_DIM)
        LR_FAIL(LR_E_MODEL, "a rotary embedding of %zu values: it must be even, 2 to %d", dim,
                MAX_DIM);
    if (!isfinite(theta) || theta <= 0)
        LR_FAIL(LR_E_MODEL, "a rotary embedding's theta is %g; it must be positive", theta);
    LR_TRY(LR_NEW(&rope, 1, "rotary angles", err));
    rope->half = dim / 2;
    LR_TRY(LR_NEW(&rope->frequency, rope->half, "rotary angles", err));
    LR_TRY(LR_NEW(&rope->cos, STEP * rope->half, "rotary angles", err));
    LR_TRY(LR_NEW(&rope->sin, STEP * rope->half, "rotary angles", err));
    for (size_t j = 0; j < rope->half; j++) {
        rope->frequency[j] = pow(theta, -2 * (double)j / (double)dim);
        for (size_t s = 0; s < STEP; s++) {
            rope->cos[s * rope->half + j] = cos((double)s * rope->frequency[j]);
            rope->sin[s * rope->half + j] = sin((double)s * rope->frequency[j]);
        }
    }
    *out = rope;
    rope = NULL;
done:
    lr_rope_free(rope);
    return st;
}

void lr_rope_free(lr_rope *rope)
{
    if (!rope) return;
    lr_free(rope->frequency);
    lr_free(rope->cos);
    lr_free(rope->sin);
    lr_free(rope);
}

/* cos, sin [rows, half] of the frequencies [first, first + count) only; a row's position is
 * pos0 + row, or positions[row]. */
static void angles(const lr_rope *rope, double pos0, const int32_t *positions, size_t rows,
                   size_t first, size_t count, float *cos_out, float *sin_out)
{
    double block_cos[SPAN], block_sin[SPAN], have = NAN;
    for (size_t r = 0; r < rows; r++) {
        double position = positions ? positions[r] : pos0 + (double)r;
        double block = STEP * floor(position / STEP);
        if (!(block == have)) {
            for (size_t j = 0; j < count; j++) {
                block_cos[j] = cos(block * rope->frequency[first + j]);
                block_sin[j] = sin(block * rope->frequency[first + j]);
            }
            have = block;
        }
        size_t at = (size_t)(position - block) * rope->half + first;
        const double *c = rope->cos + at, *s = rope->sin + at;
        float *to_cos = cos_out + r * rope->half + first;
        float *to_sin = sin_out + r * rope->half + first;
        for (size_t j = 0; j < count; j++) {
            to_cos[j] = (float)(block_cos[j] * c[j] - block_sin[j] * s[j]);
            to_sin[j] = (float)(block_sin[j] * c[j] + block_cos[j] * s[j]);
        }
    }
}

static void all_angles(const lr_rope *rope, double pos0, const int32_t *positions, size_t rows,
                       float *cos_out, float *sin_out)
{
    for (size_t first = 0; first < rope->half; first += SPAN) {
        size_t count = rope->half - first < SPAN ? rope->half - first : SPAN;
        angles(rope, pos0, positions, rows, first, count, cos_out, sin_out);
    }
}

void lr_rope_angles(const lr_rope *rope, uint64_t pos0, size_t rows, float *cos_out, float *sin_out)
{
    all_angles(rope, (double)pos0, NULL, rows, cos_out, sin_out);
}

void lr_rope_angles_at(const lr_rope *rope, const int32_t *positions, size_t rows, float *cos_out,
                       float *sin_out)
{
    all_angles(rope, 0, positions, rows, cos_out, sin_out);
}
