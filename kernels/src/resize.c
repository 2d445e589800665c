#include <longreel/resize.h>

#include <math.h>
#include <string.h>

#include <longreel/memory.h>

#define MAX_SIDE 65536
#define MAX_PRECISION 22
#define TAP_STEP 4
#define STRIP 16 /* rows of the result made between two stretches of the horizontal pass */

typedef lr_resize_axis axis;

struct lr_resize {
    axis x, y;
};

/* Keys' cubic with a = -0.5, and the triangle. */
static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* The taps of output i and their weights in fp64 (into w, at most max_taps), whose sum is 1. The
 * order of operations is the reference's, so that the weights round the same way. */
static void place_taps(axis *a, size_t i, lr_filter filter, double *w)
{
    double scale = (double)a->in / a->out, stretch = scale > 1 ? scale : 1;
    double support = (filter == LR_BICUBIC ? 2 : 1) * stretch, inverse = 1 / stretch;
    double centre = scale * ((double)i + 0.5), total = 0;
    int lo = (int)(centre - support + 0.5), hi = (int)(centre + support + 0.5);
    if (lo < 0) lo = 0;
    if (hi > a->in) hi = a->in;
    int n = hi - lo < (int)a->max_taps ? hi - lo : (int)a->max_taps;
    for (int j = 0; j < n; j++) {
        double x = (j + (lo - centre) + 0.5) * inverse;
        w[j] = filter == LR_BICUBIC ? bicubic(x) : bilinear(x);
        total += w[j];
    }
    for (int j = 0; j < n; j++)
        w[j] = total != 0 ? w[j] / total : w[j];
    a->lo[i] = lo;
    a->n_taps[i] = n;
}

/* Makes the number of taps of output i a multiple of TAP_STEP where the axis is long enough, by
 * taps of weight 0 after the true ones or, at the far end, before them: the kernels work so many at
 * a time. */
static void widen_taps(axis *a, size_t i, double *w)
{
    int n = a->n_taps[i], wide = (n + TAP_STEP - 1) / TAP_STEP * TAP_STEP;
    if (wide > a->in) return;
    int lo = a->lo[i] + wide <= a->in ? a->lo[i] : a->in - wide, before = a->lo[i] - lo;
    memmove(w + before, w, (size_t)n * sizeof(*w));
    for (int j = 0; j < before; j++)
        w[j] = 0;
    a->lo[i] = lo;
    a->n_taps[i] = wide;
}

/* The most bits for which the axis's largest weight still fits in int16. */
static int precision_for(double largest)
{
    int precision = 0;
    while (precision < MAX_PRECISION &&
           (int)(0.5 + largest * (double)(1 << (precision + 1))) < 1 << 15)
        precision++;
    return precision;
}

static void axis_free(axis *a)
{
    lr_free(a->lo);
    lr_free(a->n_taps);
    lr_free(a->weights);
}

/* `wide`: as widen_taps. */
static lr_status axis_init(axis *a, lr_filter filter, int in, int out, bool wide, lr_error *err)
{
    lr_status st = LR_OK;
    double *w = NULL;
    double scale = (double)in / out;
    size_t count;
    *a = (axis){.in = in, .out = out};
    if (in == out) return LR_OK;
    a->max_taps = (size_t)ceil((filter == LR_BICUBIC ? 2 : 1) * (scale > 1 ? scale : 1)) * 2 + 1;
    a->max_taps = (a->max_taps + TAP_STEP - 1) / TAP_STEP * TAP_STEP;
    if (!lr_mul_size(a->max_taps, (size_t)out, &count))
        LR_FAIL(LR_E_NOMEM, "weights of a resize from %d to %d do not fit in memory", in, out);
    LR_TRY(LR_NEW(&a->lo, (size_t)out, "taps of a resize", err));
    LR_TRY(LR_NEW(&a->n_taps, (size_t)out, "taps of a resize", err));
    LR_TRY(LR_NEW(&a->weights, count, "weights of a resize", err));
    LR_TRY(LR_NEW(&w, count, "weights of a resize", err));
    double largest = 0;
    for (size_t i = 0; i < (size_t)out; i++) {
        place_taps(a, i, filter, w + i * a->max_taps);
        if (wide) widen_taps(a, i, w + i * a->max_taps);
    }
    for (size_t i = 0; i < count; i++)
        largest = w[i] > largest ? w[i] : largest;
    a->precision = precision_for(largest);
    for (size_t i = 0; i < count; i++) {
        double scaled = w[i] * (double)(1 << a->precision);
        a->weights[i] = (int16_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    }
done:
    lr_free(w);
    return st;
}

lr_status lr_resize_create(lr_resize **out, lr_filter filter, int in_width, int in_height,
                           int out_width, int out_height, lr_error *err)
{
    lr_status st = LR_OK;
    lr_resize *plan = NULL;
    *out = NULL;
    const int sides[4] = {in_width, in_height, out_width, out_height};
    for (int i = 0; i < 4; i++)
        if (sides[i] < 1 || sides[i] > MAX_SIDE)
            LR_FAIL(LR_E_UNSUPPORTED,
                    "cannot resize a picture of %d x %d to %d x %d: sides go from 1 to %d",
                    in_width, in_height, out_width, out_height, MAX_SIDE);
    LR_TRY(LR_NEW(&plan, 1, "plan of a resize", err));
    LR_TRY(axis_init(&plan->x, filter, in_width, out_width, true, err));
    LR_TRY(axis_init(&plan->y, filter, in_height, out_height, false, err));
    *out = plan;
    plan = NULL;
done:
    lr_resize_free(plan);
    return st;
}

void lr_resize_free(lr_resize *plan)
{
    if (!plan) return;
    axis_free(&plan->x);
    axis_free(&plan->y);
    lr_free(plan);
}

const lr_resize_axis *lr_resize_axis_of(const lr_resize *plan, bool vertical)
{
    return vertical ? &plan->y : &plan->x;
}

static bool both_change(const lr_resize *plan)
{
    return plan->x.in != plan->x.out && plan->y.in != plan->y.out;
}

/* The picture between the passes. */
size_t lr_resize_scratch(const lr_resize *plan)
{
    return both_change(plan) ? 3 * (size_t)plan->x.out * (size_t)plan->y.in : 0;
}

static void pass_x(const lr_kernels *kernels, const axis *a, uint8_t *dst, const uint8_t *src,
                   size_t src_stride, size_t rows)
{
    kernels->resize_rows_u8(dst, 3 * (size_t)a->out, src, src_stride, rows, (size_t)a->out, a->lo,
                            a->n_taps, a->weights, a->max_taps, a->precision);
}

/* Rows [first, first + rows) of the result. */
static void pass_y(const lr_kernels *kernels, const axis *a, uint8_t *dst, size_t width_bytes,
                   const uint8_t *src, size_t src_stride, size_t first, size_t rows)
{
    kernels->resize_cols_u8(dst + first * width_bytes, width_bytes, src, src_stride, width_bytes,
                            rows, a->lo + first, a->n_taps + first,
                            a->weights + first * a->max_taps, a->max_taps, a->precision);
}

/* Both passes, a strip at a time, so that the rows between them are still in cache when used. */
static void both_passes(const lr_kernels *kernels, const lr_resize *plan, uint8_t *dst,
                        const uint8_t *src, size_t src_stride, uint8_t *between)
{
    const axis *y = &plan->y;
    size_t width_bytes = 3 * (size_t)plan->x.out, done = 0;
    for (size_t first = 0; first < (size_t)y->out; first += STRIP) {
        size_t rows = (size_t)y->out - first < STRIP ? (size_t)y->out - first : STRIP;
        size_t last = first + rows - 1, need = (size_t)(y->lo[last] + y->n_taps[last]);
        if (need > done) {
            pass_x(kernels, &plan->x, between + done * width_bytes, src + done * src_stride,
                   src_stride, need - done);
            done = need;
        }
        pass_y(kernels, y, dst, width_bytes, between, width_bytes, first, rows);
    }
}

void lr_resize_rgb(const lr_kernels *kernels, const lr_resize *plan, uint8_t *dst,
                   const uint8_t *src, size_t src_stride, uint8_t *scratch)
{
    size_t width_bytes = 3 * (size_t)plan->x.out, height = (size_t)plan->y.in;
    if (both_change(plan))
        both_passes(kernels, plan, dst, src, src_stride, scratch);
    else if (plan->x.in != plan->x.out)
        pass_x(kernels, &plan->x, dst, src, src_stride, height);
    else if (plan->y.in != plan->y.out)
        pass_y(kernels, &plan->y, dst, width_bytes, src, src_stride, 0, (size_t)plan->y.out);
    else
        for (size_t r = 0; r < height; r++)
            memcpy(dst + r * width_bytes, src + r * src_stride, width_bytes);
}
