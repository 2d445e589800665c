/* How alike a set's segments are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/kernels.h>

#include "report.h"

static double middle(const lr_segment_row *row) {
    return (row->start + row->end) / 2;
}

/* For each column the segment that holds its time; of several (overlapping ones) that whose middle is
 * nearest. */
static void show_segments(int *cell_at, size_t columns, const lr_set_info *set, double begin, double end) {
    size_t first = 0; /* those before it end before the column */
    for (size_t c = 0; c < columns; c++) {
        double t = begin + (end - begin) * ((double)c + 0.5) / (double)columns;
        cell_at[c] = -1;
        while (first < set->n_segments && set->segment_rows[first].end <= t) first++;
        for (size_t i = first; i < set->n_segments && set->segment_rows[i].start <= t; i++) {
            const lr_segment_row *row = &set->segment_rows[i];
            if (row->end <= t) continue;
            if (cell_at[c] < 0 ||
                fabs(middle(row) - t) < fabs(middle(&set->segment_rows[cell_at[c]]) - t)) {
                cell_at[c] = (int)i;
            }
        }
    }
}

/* For each column the mean of the segments whose middle lies in it. cells [columns, dim]; returns how many
 * columns have one. */
static size_t show_means(int *cell_at, float *cells, size_t columns, const lr_set_info *set, double begin,
                         double end) {
    size_t n = 0, i = 0;
    for (size_t c = 0; c < columns; c++) {
        double edge = begin + (end - begin) * (double)(c + 1) / (double)columns;
        size_t count = 0;
        float *cell = cells + n * set->dim;
        memset(cell, 0, set->dim * sizeof *cell);
        for (; i < set->n_segments && (middle(&set->segment_rows[i]) < edge || c + 1 == columns); i++) {
            for (size_t d = 0; d < set->dim; d++) cell[d] += set->segments[i * set->dim + d];
            count++;
        }
        cell_at[c] = count ? (int)n : -1;
        for (size_t d = 0; count && d < set->dim; d++) cell[d] /= (float)count;
        n += count > 0;
    }
    return n;
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The colours span the values of all pairs but the lowest and highest hundredth, on round numbers. */
static lr_status choose_range(lr_similarity *s, lr_error *err) {
    lr_status st = LR_OK;
    float *values = NULL;
    size_t pairs = s->n * (s->n - 1) / 2, step = pairs / 100000 + 1, count = 0, at = 0;
    s->low = 0.9;
    s->high = 1;
    if (pairs == 0) return LR_OK;
    LR_TRY(LR_NEW(&values, pairs / step + 1, "cosines", err));
    for (size_t i = 0; i < s->n; i++) {
        for (size_t j = 0; j < i; j++, at++) {
            if (at % step == 0) values[count++] = s->cosines[i * s->n + j];
        }
    }
    qsort(values, count, sizeof *values, ascending);
    double low = (double)values[count / 100], high = (double)values[count - 1 - count / 100];
    double unit = 0.1;
    while (unit > 1e-4 && high - low < 5 * unit) unit /= 10;
    s->low = floor(low / unit) * unit;
    s->high = fmin(ceil(high / unit) * unit, 1);
    if (s->high - s->low < unit) s->low = s->high - unit;
    s->less = (double)values[0] < s->low;
done:
    lr_free(values);
    return st;
}

lr_status lr_similarity_make(lr_similarity *out, const lr_set_info *set, double begin, double end,
                             size_t columns, lr_error *err) {
    lr_status st = LR_OK;
    const lr_kernels *kernels = NULL;
    const float *cells = set->segments;
    float *means = NULL;
    memset(out, 0, sizeof *out);
    out->columns = columns;
    out->n = set->n_segments;
    LR_TRY(LR_NEW(&out->cell_at, columns, "a map", err));
    LR_TRY(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &kernels, err));
    if (set->n_segments <= columns) {
        show_segments(out->cell_at, columns, set, begin, end);
    } else {
        LR_TRY(LR_NEW(&means, columns * set->dim, "a map", err));
        out->n = show_means(out->cell_at, means, columns, set, begin, end);
        cells = means;
    }
    LR_TRY(LR_NEW(&out->cosines, out->n * out->n, "a map", err));
    for (size_t i = 0; i < out->n; i++) {
        for (size_t j = 0; j <= i; j++) {
            float cosine = kernels->dot(cells + i * set->dim, cells + j * set->dim, set->dim);
            out->cosines[i * out->n + j] = out->cosines[j * out->n + i] = cosine;
        }
    }
    LR_TRY(choose_range(out, err));
done:
    lr_free(means);
    if (st != LR_OK) lr_similarity_free(out);
    return st;
}

void lr_similarity_free(lr_similarity *similarity) {
    lr_free(similarity->cosines);
    lr_free(similarity->cell_at);
    memset(similarity, 0, sizeof *similarity);
}
