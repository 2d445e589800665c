/* Activations: truth in long double, rounded to double. */
#include "check.h"

#include <math.h>
#include <string.h>

/* Where exp(-z) leaves the range of fp32 the kernels give 0 or the smallest exponential for what is
 * below 2^-126 times the factor before it. */
#define VANISHING 0x1p-125

/* Relative error of 1 / (1 + e), e = exp(-z) with relative error e_error, and a division. */
static double sigmoid_error(double z, double e_error)
{
    return e_error / (1 + exp(z)) + 2 * U;
}

/* exp is within 1.1 units in the last place, a unit being at most 2 U. */
#define EXP_ERROR (2.2 * U)

static void flat(void (*kernel)(float *, const float *, size_t), const rows_call *c)
{
    if (c->ldy == c->dim && c->ldx[0] == c->dim)
        kernel(c->y, c->x[0], c->rows * c->dim);
    else
        for (size_t r = 0; r < c->rows; r++)
            kernel(c->y + r * c->ldy, c->x[0] + r * c->ldx[0], c->dim);
}

static void run_gelu_tanh_mul(const lr_kernels *kernels, const rows_call *c)
{
    kernels->gelu_tanh_mul(c->y, c->ldy, c->x[0], c->ldx[0], c->x[1], c->ldx[1], c->rows, c->dim);
}

/* 0.5 x (1 + tanh(z/2)) = x / (1 + exp(-z)), z = 2 sqrt(2/pi) (x + 0.044715 x^3): five roundings
 * (two constants, x^2, the sum, times x) put z off by 5 U |z|, which exp turns into a relative
 * error. */
static void truth_gelu_tanh_mul(const rows_call *c, size_t row, double *y, double *bound)
{
    const float *gate = c->x[0] + row * c->ldx[0], *up = c->x[1] + row * c->ldx[1];
    for (size_t i = 0; i < c->dim; i++) {
        double x = gate[i], z = 2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
        double gelu = x / (1 + exp(-z));
        y[i] = gelu * up[i];
        double error = sigmoid_error(z, EXP_ERROR + 5 * U * fabs(z)) + U;
        bound[i] =
            fabs(y[i]) * error * 1.01 + VANISHING * (1 + fabs(x)) * (1 + fabs((double)up[i]));
    }
}

static void run_gelu_erf(const lr_kernels *kernels, const rows_call *c)
{
    flat(kernels->gelu_erf, c);
}

/* h = 0.5 |x| erfc(|x| / sqrt 2); gelu = max(x, 0) - h. In the vector kernels log erfc is a
 * polynomial that leaves a relative error of 5.2e-8 for |x| < 4 and 7e-9 absolutely beyond, and
 * whose roundings are those of the last Horner steps, 4 U of its value, about x^2 / 2 + 1; the
 * scalar reference rounds the argument of erfcf twice, 2 U (x^2 + 1), and erfcf itself is good to
 * some 4 units. */
static void truth_gelu_erf(const rows_call *c, size_t row, double *y, double *bound)
{
    const float *in = c->x[0] + row * c->ldx[0];
    for (size_t i = 0; i < c->dim; i++) {
        double x = in[i], h = 0.5 * fabs(x) * erfc(fabs(x) * M_SQRT1_2);
        y[i] = x > 0 ? x - h : -h;
        double error = 5.2e-8 + 4 * U * (0.5 * x * x + 1) + EXP_ERROR + 8 * U;
        bound[i] = h * error + (fabs(x) < 4 ? 0 : 7e-9) + fabs(y[i]) * 3 * U + 0x1p-140;
    }
}

static void run_silu(const lr_kernels *kernels, const rows_call *c)
{
    flat(kernels->silu, c);
}

static void truth_silu(const rows_call *c, size_t row, double *y, double *bound)
{
    const float *in = c->x[0] + row * c->ldx[0];
    for (size_t i = 0; i < c->dim; i++) {
        double x = in[i];
        y[i] = x / (1 + exp(-x));
        bound[i] = fabs(y[i]) * sigmoid_error(x, EXP_ERROR) * 1.01 + VANISHING * (1 + fabs(x));
    }
}

static void run_glu(const lr_kernels *kernels, const rows_call *c)
{
    kernels->glu(c->y, c->ldy, c->x[0], c->x[1], c->ldx[0], c->rows, c->dim);
}

static void truth_glu(const rows_call *c, size_t row, double *y, double *bound)
{
    const float *a = c->x[0] + row * c->ldx[0], *b = c->x[1] + row * c->ldx[1];
    for (size_t i = 0; i < c->dim; i++) {
        y[i] = a[i] / (1 + exp(-(double)b[i]));
        bound[i] = fabs(y[i]) * sigmoid_error(b[i], EXP_ERROR) * 1.01 +
                   VANISHING * (1 + fabs((double)a[i]));
    }
}

const rows_slot check_activation_slots[] = {
    {.name = "gelu_tanh_mul",
     .n_inputs = 2,
     .in_place = true,
     .deviation = 3,
     .run = run_gelu_tanh_mul,
     .truth = truth_gelu_tanh_mul},
    {.name = "gelu_erf",
     .n_inputs = 1,
     .in_place = true,
     .deviation = 3,
     .run = run_gelu_erf,
     .truth = truth_gelu_erf},
    {.name = "silu",
     .n_inputs = 1,
     .in_place = true,
     .deviation = 5,
     .run = run_silu,
     .truth = truth_silu},
    {.name = "glu",
     .n_inputs = 2,
     .in_place = true,
     .one_stride = true,
     .deviation = 5,
     .run = run_glu,
     .truth = truth_glu},
};
const size_t check_n_activation_slots =
    sizeof(check_activation_slots) / sizeof(*check_activation_slots);

/* ------------------------------------------------------------------ all magnitudes */

#define SWEEP 4096

/* Every 1,499th float of each sign from the smallest to 2^100, where the powers inside are still
 * finite, through the same bounds. */
void test_activations_hold_their_bound_at_every_magnitude(void **state)
{
    (void)state;
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables);
    static float x[SWEEP], other[SWEEP], y[SWEEP];
    for (size_t i = 0; i < SWEEP; i++)
        other[i] = 1.5f;
    uint32_t bits = 1;
    while (bits < 0x71800000u) {
        for (size_t i = 0; i < SWEEP; i += 2, bits += 1499) {
            memcpy(&x[i], &bits, sizeof(bits));
            x[i + 1] = -x[i];
        }
        for (size_t s = 0; s < check_n_activation_slots; s++)
            for (size_t t = 0; t < n_tables; t++) {
                const rows_slot *slot = &check_activation_slots[s];
                rows_call call = {
                    .y = y, .ldy = SWEEP, .ldx = {SWEEP, SWEEP}, .rows = 1, .dim = SWEEP};
                call.x[0] = strcmp(slot->name, "glu") ? x : other;
                call.x[1] = strcmp(slot->name, "glu") ? other : x;
                slot->run(tables[t], &call);
                check_row(slot, tables[t], &call, 0);
            }
    }
}

void test_activations_keep_infinities_and_nans(void **state)
{
    (void)state;
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables);
    const float big[3] = {3e38f, -3e38f, NAN}, one[3] = {1, 1, 1};
    for (size_t t = 0; t < n_tables; t++) {
        float y[4][3];
        tables[t]->gelu_tanh_mul(y[0], 3, big, 3, one, 3, 1, 3);
        tables[t]->gelu_erf(y[1], big, 3);
        tables[t]->silu(y[2], big, 3);
        tables[t]->glu(y[3], 3, one, big, 3, 1, 3);
        for (size_t k = 0; k < 4; k++) {
            assert_true(y[k][0] == (k < 3 ? big[0] : 1));
            assert_true(fabsf(y[k][1]) < 1e-20f);
            assert_true(isnan(y[k][2]));
        }
    }
}
