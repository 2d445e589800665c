#include "check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

size_t check_tables(const lr_kernels *out[CHECK_MOST_TABLES])
{
    size_t n = 0;
    for (int isa = LR_ISA_SCALAR; isa <= LR_ISA_LAST; isa++) {
        const lr_kernels *kernels;
        lr_error err = {0};
        lr_status st = lr_kernels_get((lr_isa)isa, LR_GEMM_PACKED, &kernels, &err);
        if (st == LR_E_UNSUPPORTED) continue; /* not this processor's */
        lrt_assert_ok(st, &err);
        out[n++] = kernels;
    }
    assert_true(n >= 1);
    return n;
}

/* ------------------------------------------------------------------ comparing and guarding */

void check_same_bits(const char *what, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof(*a)))
            fail_msg("%s: value %zu of %zu is %a, then %a", what, i, n, (double)a[i], (double)b[i]);
}

uint8_t *guarded_bytes(size_t bytes, float **block)
{
    size_t n = (bytes + 3) / 4;
    *block = lrt_guarded(n);
    return (uint8_t *)(*block + n) - bytes;
}

uint8_t *front_guarded_bytes(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_true(bytes <= page);
    uint8_t *pages = mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_READ | PROT_WRITE), 0);
    return pages + page;
}

void front_guarded_free(uint8_t *bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    munmap(bytes - page, 2 * page);
}

float *guarded_normal(lrt_random *random, size_t n, float deviation)
{
    float *x = lrt_guarded(n);
    lrt_fill_normal(random, x, n, deviation);
    return x;
}

/* ------------------------------------------------------------------ slots that work on rows */

void check_row(const rows_slot *slot, const lr_kernels *kernels, const rows_call *call, size_t row)
{
    double *truth = malloc(2 * call->dim * sizeof(*truth)), *bound = truth + call->dim;
    assert_non_null(truth);
    slot->truth(call, row, truth, bound);
    for (size_t i = 0; i < call->dim; i++) {
        double got = call->y[row * call->ldy + i];
        if (!(fabs(got - truth[i]) <= bound[i]))
            fail_msg("%s (%s), %zu x %zu: row %zu, value %zu is %.9g, not %.12g (off by %.3g, "
                     "allowed %.3g)",
                     slot->name, kernels->isa, call->rows, call->dim, row, i, got, truth[i],
                     fabs(got - truth[i]), bound[i]);
    }
    free(truth);
}

/* Guarded memory of a call. Padding between rows stays NaN. */
typedef struct rows_memory {
    rows_call call;
    float *y, *before, *x[2], *column[2];
    size_t y_floats;
} rows_memory;

static float *padded_rows(lrt_random *random, size_t rows, size_t dim, size_t ld, float deviation)
{
    float *x = lrt_guarded((rows - 1) * ld + dim);
    for (size_t r = 0; r < rows; r++)
        lrt_fill_normal(random, x + r * ld, dim, deviation);
    return x;
}

static rows_memory make_memory(const rows_slot *slot, lrt_random *random, size_t rows, size_t dim,
                               size_t pad, bool columns)
{
    rows_memory m = {.call = {.ldy = dim + pad, .rows = rows, .dim = dim}};
    m.y_floats = (rows - 1) * m.call.ldy + dim;
    m.y = padded_rows(random, rows, dim, m.call.ldy, slot->deviation);
    m.before = lrt_guarded(m.y_floats);
    memcpy(m.before, m.y, m.y_floats * sizeof(*m.y));
    m.call.y = m.y;
    m.call.before = m.before;
    for (size_t k = 0; k < slot->n_inputs; k++) {
        m.call.ldx[k] = dim + pad * (slot->one_stride ? 1 : k + 1);
        m.call.x[k] = m.x[k] = padded_rows(random, rows, dim, m.call.ldx[k], slot->deviation);
    }
    for (size_t k = 0; columns && k < slot->n_columns; k++)
        m.call.column[k] = m.column[k] = guarded_normal(random, dim, 1);
    return m;
}

static void free_memory(rows_memory *m)
{
    lrt_guarded_free(m->y);
    lrt_guarded_free(m->before);
    for (size_t k = 0; k < 2; k++) {
        lrt_guarded_free(m->x[k]);
        lrt_guarded_free(m->column[k]);
    }
}

static void check_padding(const rows_memory *m)
{
    for (size_t i = 0; i < m->y_floats; i++)
        if (i % m->call.ldy >= m->call.dim) check_same_bits("padding", m->before + i, m->y + i, 1);
}

/* Row `row` alone, at another alignment, must give the same bits. */
static void check_row_alone(const rows_slot *slot, const lr_kernels *kernels, const rows_memory *m,
                            size_t row, size_t shift)
{
    size_t dim = m->call.dim;
    rows_call one = m->call;
    float *blocks[3] = {NULL};
    one.rows = 1;
    for (size_t k = 0; k < slot->n_inputs; k++) {
        blocks[k] = lrt_guarded(dim + shift);
        memcpy(blocks[k], m->call.x[k] + row * m->call.ldx[k], dim * sizeof(float));
        one.x[k] = blocks[k];
    }
    blocks[2] = one.y = lrt_guarded(dim + shift);
    memcpy(one.y, m->before + row * m->call.ldy, dim * sizeof(float));
    slot->run(kernels, &one);
    check_same_bits(slot->name, m->y + row * m->call.ldy, one.y, dim);
    for (size_t k = 0; k < 3; k++)
        lrt_guarded_free(blocks[k]);
}

static void check_in_place(const rows_slot *slot, const lr_kernels *kernels, const rows_memory *m)
{
    size_t floats = (m->call.rows - 1) * m->call.ldx[0] + m->call.dim;
    rows_call same = m->call;
    float *x = lrt_guarded(floats);
    memcpy(x, m->x[0], floats * sizeof(*x));
    same.y = x;
    same.ldy = same.ldx[0];
    same.x[0] = x;
    slot->run(kernels, &same);
    for (size_t r = 0; r < same.rows; r++)
        check_same_bits(slot->name, m->y + r * m->call.ldy, x + r * same.ldy, same.dim);
    lrt_guarded_free(x);
}

static void check_against_scalar(const rows_slot *slot, const lr_kernels *scalar,
                                 const rows_memory *m)
{
    rows_call call = m->call;
    float *y = lrt_guarded(m->y_floats);
    memcpy(y, m->before, m->y_floats * sizeof(*y));
    call.y = y;
    slot->run(scalar, &call);
    check_same_bits(slot->name, y, m->y, m->y_floats);
    lrt_guarded_free(y);
}

static void check_shape(const rows_slot *slot, lrt_random *random, size_t rows, size_t dim,
                        size_t pad, bool columns)
{
    const lr_kernels *tables[CHECK_MOST_TABLES];
    size_t n_tables = check_tables(tables);
    rows_memory m = make_memory(slot, random, rows, dim, pad, columns);
    for (size_t t = 0; t < n_tables; t++) {
        memcpy(m.y, m.before, m.y_floats * sizeof(*m.y));
        slot->run(tables[t], &m.call);
        check_padding(&m);
        for (size_t r = 0; r < rows; r++) {
            check_row(slot, tables[t], &m.call, r);
            check_row_alone(slot, tables[t], &m, r, (r + dim) % 5);
        }
        if (slot->in_place) check_in_place(slot, tables[t], &m);
        if (slot->exact) check_against_scalar(slot, tables[0], &m);
    }
    free_memory(&m);
}

void check_rows_slot(const rows_slot *slot)
{
    static const size_t dims[] = {1,   2,   3,   4,   5,   7,   8,   9,   13,  15,   16,   17,  24,
                                  31,  32,  33,  40,  47,  63,  64,  65,  72,  96,   100,  127, 128,
                                  129, 192, 255, 256, 257, 320, 511, 512, 768, 1001, 1024, 1536};
    static const size_t rows[] = {1, 2, 3, 7};
    lrt_random random;
    lrt_random_init(&random, (uint64_t)slot->name[0] * 256 + strlen(slot->name));
    for (size_t d = 0; d < sizeof(dims) / sizeof(*dims); d++)
        for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++)
            check_shape(slot, &random, rows[r], dims[d], (d + r) % 4, (d + r) % 3 != 0);
}

/* ------------------------------------------------------------------ the clock */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The fastest of seven stretches of at least 10 ms, for other programs only ever slow it down. */
static double nanoseconds(bench_body body, void *arg, const lr_kernels *kernels)
{
    double best = INFINITY;
    size_t calls = 1;
    for (int stretch = 0; stretch < 7;) {
        double start = seconds();
        for (size_t c = 0; c < calls; c++)
            body(arg, kernels);
        double took = seconds() - start;
        if (took < 0.01) {
            calls *= 2;
            continue;
        }
        best = fmin(best, 1e9 * took / (double)calls);
        stretch++;
    }
    return best;
}

void bench(const char *name, const char *only, bench_body body, void *arg, double work,
           const char *unit)
{
    const lr_kernels *tables[CHECK_MOST_TABLES];
    if (only && !strstr(name, only)) return;
    size_t n_tables = check_tables(tables);
    printf("%-34s", name);
    for (size_t t = 0; t < n_tables; t++) {
        double ns = nanoseconds(body, arg, tables[t]);
        printf("  %s %11.0f ns %7.2f %s", tables[t]->isa, ns, work / ns, unit);
        fflush(stdout);
    }
    printf("\n");
}

typedef struct rows_bench {
    const rows_slot *slot;
    rows_call call;
} rows_bench;

static void run_rows_bench(void *arg, const lr_kernels *kernels)
{
    const rows_bench *b = arg;
    b->slot->run(kernels, &b->call);
}

/* Rows as wide as the backbone's: once a tile, which stays in the second level of cache, and once
 * more than any cache holds. */
void bench_rows_slot(const rows_slot *slot, const char *only)
{
    static const size_t rows[] = {96, 32768};
    for (size_t k = 0; k < 2; k++) {
        char name[64];
        lrt_random random;
        lrt_random_init(&random, 1);
        snprintf(name, sizeof(name), "%s %zux512", slot->name, rows[k]);
        if (only && !strstr(name, only)) continue;
        rows_memory m = make_memory(slot, &random, rows[k], 512, 0, true);
        rows_bench b = {slot, m.call};
        size_t arrays = slot->n_inputs + 1 + (slot->adds ? 1 : 0);
        bench(name, only, run_rows_bench, &b, (double)(arrays * 4 * 512 * rows[k]), "GB/s");
        free_memory(&m);
    }
}
