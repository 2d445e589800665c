/* Linear layers through OpenBLAS: the oracle of the packed kernels and the fallback.
 *
 * A BLAS kernel treats a row differently by where it stands and how many there are (edge kernels,
 * small-matrix kernels, blocking chosen by shape). So every call for a given matrix is the same call:
 * M = TILE rows, the same N and K, the same leading dimensions, alpha = 1, beta = 0, one thread; the
 * tiles are aligned to the absolute row and rows that are not there are zero. */
#include "table.h"

#include <cblas.h>
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <longreel/memory.h>

#include "linear_parts.h"

/* Multiple of the micro-kernels' heights (12 on Haswell and Zen, 16 on SkylakeX). */
#define TILE LR_ROW_TILE

typedef struct blas_linear {
    lr_linear head;
    float *w; /* [n, k] */
} blas_linear;

static const blas_linear *of_head(const lr_linear *linear)
{
    return (const blas_linear *)(const void *)linear;
}

static void blas_free(lr_linear *linear)
{
    if (linear == NULL) return;
    blas_linear *self = (blas_linear *)(void *)linear;
    lr_free(self->w);
    lr_free(self);
}

static pthread_once_t one_thread = PTHREAD_ONCE_INIT;

/* Process-wide, so not before this back end is really used. */
static void set_one_thread(void)
{
    openblas_set_num_threads(1);
}

static lr_status blas_create(lr_linear **out, const lr_linear_part *parts, size_t n_parts,
                             lr_error *err)
{
    lr_status st = LR_OK;
    blas_linear *self = NULL;
    lr_part_shape shape;
    *out = NULL;
    pthread_once(&one_thread, set_one_thread);
    LR_TRY(lr_parts_check(parts, n_parts, &shape, err));
    LR_TRY(LR_NEW(&self, 1, "linear layer", err));
    self->head.n = shape.n;
    self->head.k = shape.k;
    LR_TRY(LR_NEW(&self->w, shape.n * shape.k, "weights of a linear layer", err));
    size_t n = 0;
    for (size_t i = 0; i < n_parts; i++)
        for (size_t row = 0; row < parts[i].weight.dims[0]; row++, n++)
            lr_part_row(&parts[i], row, self->w + n * shape.k);
    *out = &self->head;
    self = NULL;
done:
    if (self != NULL) blas_free(&self->head);
    return st;
}

static size_t blas_scratch(const lr_linear *linear, size_t rows)
{
    (void)rows;
    return TILE * (linear->k + linear->n);
}

/* x, y [TILE, k], [TILE, n] in scratch, `rows` of them real from row `first` of the tile. */
static void run_tile(const blas_linear *self, float *y, size_t ldy, const float *x, size_t ldx,
                     size_t first, size_t rows, const float *bias, float *scratch)
{
    size_t n = self->head.n, k = self->head.k;
    float *tile_x = scratch, *tile_y = scratch + TILE * k;
    memset(tile_x, 0, first * k * sizeof *tile_x);
    for (size_t r = 0; r < rows; r++)
        memcpy(tile_x + (first + r) * k, x + r * ldx, k * sizeof *tile_x);
    size_t end = first + rows;
    memset(tile_x + end * k, 0, (TILE - end) * k * sizeof *tile_x);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, TILE, (blasint)n, (blasint)k, 1.0f, tile_x,
                (blasint)k, self->w, (blasint)k, 0.0f, tile_y, (blasint)n);
    for (size_t r = 0; r < rows; r++) {
        const float *from = tile_y + (first + r) * n;
        float *to = y + r * ldy;
        for (size_t j = 0; j < n; j++) to[j] = bias != NULL ? from[j] + bias[j] : from[j];
    }
}

static void blas_run(const lr_linear *linear, float *y, size_t ldy, const float *x, size_t ldx,
                     size_t rows, uint64_t row0, const float *bias, float *scratch)
{
    const blas_linear *self = of_head(linear);
    for (size_t done = 0; done < rows;) {
        size_t first = (size_t)((row0 + done) % TILE);
        size_t count = rows - done < TILE - first ? rows - done : TILE - first;
        run_tile(self, y + done * ldy, ldy, x + done * ldx, ldx, first, count, bias, scratch);
        done += count;
    }
}

static char blas_name[64] = "openblas";
static pthread_once_t name_once = PTHREAD_ONCE_INIT;

/* "OpenBLAS 0.3.21 NO_AFFINITY ..." and "SkylakeX" -> "openblas-0.3.21-skylakex". */
static void set_name(void)
{
    const char *version = strchr(openblas_get_config(), ' ');
    version = version != NULL ? version + 1 : "?";
    snprintf(blas_name, sizeof blas_name, "openblas-%.*s-%.24s", (int)strcspn(version, " "), version,
             openblas_get_corename());
    for (char *c = blas_name; *c != '\0'; c++) *c = (char)tolower((unsigned char)*c);
}

void lr_fill_linear_openblas(lr_kernels *table)
{
    pthread_once(&name_once, set_name);
    table->gemm = blas_name;
    table->linear_create = blas_create;
    table->linear_free = blas_free;
    table->linear_scratch = blas_scratch;
    table->linear_run = blas_run;
}
