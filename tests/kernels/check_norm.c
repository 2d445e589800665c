/* Norms: truth in double from the fp32 inputs. */
#include "check.h"

#include <math.h>

static const float eps = 1e-6f;

/* Relative error of a sum of `dim` terms of one sign in the fewest lanes a vector table uses: four
 * chains of 8 lanes give dim / 32 additions one after another, then 5 of the tree; one more for
 * each term's own rounding. */
static double sum_error(size_t dim)
{
    return ((double)(dim / 32) + 1 + 5 + 1) * U;
}

static void run_rms_norm(const lr_kernels *kernels, const rows_call *c)
{
    kernels->rms_norm(c->y, c->ldy, c->x[0], c->ldx[0], c->column[0], c->rows, c->dim, eps);
}

/* y = x s w: the sum's error and those of / dim and + eps count half in s, then come the root, its
 * inverse and two products. */
static void truth_rms_norm(const rows_call *c, size_t row, double *y, double *bound)
{
    const float *x = c->x[0] + row * c->ldx[0];
    double sum = 0;
    for (size_t i = 0; i < c->dim; i++)
        sum += (double)x[i] * x[i];
    double s = 1 / sqrt(sum / (double)c->dim + eps);
    for (size_t i = 0; i < c->dim; i++) {
        y[i] = x[i] * s * (c->column[0] ? c->column[0][i] : 1);
        bound[i] = fabs(y[i]) * (0.5 * (sum_error(c->dim) + 2 * U) + 4 * U) * 1.01 + 0x1p-140;
    }
}

static void run_rms_norm_add(const lr_kernels *kernels, const rows_call *c)
{
    kernels->rms_norm_add(c->y, c->ldy, c->x[0], c->ldx[0], c->column[0], c->rows, c->dim, eps);
}

static void truth_rms_norm_add(const rows_call *c, size_t row, double *y, double *bound)
{
    truth_rms_norm(c, row, y, bound);
    for (size_t i = 0; i < c->dim; i++) {
        y[i] += c->before[row * c->ldy + i];
        bound[i] += fabs(y[i]) * U * 1.01;
    }
}

static const float *layer_norm_gain(const rows_call *c)
{
    static float ones[4096];
    for (size_t i = 0; i < 4096; i++)
        ones[i] = 1;
    return c->column[0] ? c->column[0] : ones;
}

static void run_layer_norm(const lr_kernels *kernels, const rows_call *c)
{
    kernels->layer_norm(c->y, c->ldy, c->x[0], c->ldx[0], layer_norm_gain(c), c->column[1], c->rows,
                        c->dim, eps);
}

/* The mean is off by at most m = (sum_error + U) mean|x|. The deviations d are then off by m + U
 * |d|; as they add up to 0, m changes their mean square v by m^2 only. s = (v + eps)^-1/2 has half
 * the relative error of v + eps plus two roundings; y = d s w + b has three more. */
static void truth_layer_norm(const rows_call *c, size_t row, double *y, double *bound)
{
    const float *x = c->x[0] + row * c->ldx[0], *w = layer_norm_gain(c), *b = c->column[1];
    double n = (double)c->dim, sum = 0, size = 0, squares = 0;
    for (size_t i = 0; i < c->dim; i++) {
        sum += x[i];
        size += fabsf(x[i]);
    }
    double mean = sum / n, m = (sum_error(c->dim) + U) * size / n + fabs(mean) * U;
    for (size_t i = 0; i < c->dim; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    double v = squares / n, s = 1 / sqrt(v + eps);
    double s_error = 0.5 * ((sum_error(c->dim) + 4 * U) * v + m * m) * s * s + 3 * U;
    for (size_t i = 0; i < c->dim; i++) {
        double z = (x[i] - mean) * s * w[i];
        y[i] = z + (b ? b[i] : 0);
        bound[i] = (fabs(z) * (s_error + 3 * U) + fabs(w[i]) * s * m + fabs(y[i]) * U) * 1.01;
    }
}

const rows_slot check_norm_slots[] = {
    {.name = "rms_norm",
     .n_inputs = 1,
     .n_columns = 1,
     .in_place = true,
     .deviation = 3,
     .run = run_rms_norm,
     .truth = truth_rms_norm},
    {.name = "rms_norm_add",
     .n_inputs = 1,
     .n_columns = 1,
     .adds = true,
     .deviation = 3,
     .run = run_rms_norm_add,
     .truth = truth_rms_norm_add},
    {.name = "layer_norm",
     .n_inputs = 1,
     .n_columns = 2,
     .in_place = true,
     .deviation = 3,
     .run = run_layer_norm,
     .truth = truth_layer_norm},
};
const size_t check_n_norm_slots = sizeof(check_norm_slots) / sizeof(*check_norm_slots);
