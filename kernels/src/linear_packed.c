#include "linear_packed.h"

#include <string.h>

#include <longreel/memory.h>

#include "linear_parts.h"

/* Rows worked at once: with LR_LINEAR_LDX floats each, 204 KiB of L2. A multiple of every mr. */
#define ROW_BLOCK 192

typedef struct packed_linear {
    lr_linear head;
    const lr_linear_isa *isa;
    size_t n_padded; /* n rounded up to nr */
    bool bf16;       /* the type of the panels: BF16 or fp32 */
    unsigned char *w;
} packed_linear;

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t round_up(size_t value, size_t step)
{
    return (value + step - 1) / step * step;
}

static void packed_free(lr_linear *linear)
{
    if (linear == NULL) return;
    packed_linear *self = (packed_linear *)(void *)linear;
    lr_free(self->w);
    lr_free(self);
}

/* Bytes of a panel of kc x nr. */
static size_t panel_bytes(const packed_linear *self, size_t kc)
{
    return self->isa->nr * (self->bf16 ? round_up(kc, 2) * sizeof(uint16_t) : kc * sizeof(float));
}

/* The panel that holds output n in the block that begins at k0; all blocks before it are whole. */
static unsigned char *panel_at(const packed_linear *self, size_t k0, size_t n)
{
    size_t nr = self->isa->nr, kc = least(LR_LINEAR_KC, self->head.k - k0);
    return self->w + k0 / LR_LINEAR_KC * (self->n_padded / nr) * panel_bytes(self, LR_LINEAR_KC) +
           n / nr * panel_bytes(self, kc);
}

/* ------------------------------------------------------------------ packing */

#define MOST_NR 32
#define STRIP 16 /* words of a row taken at a time: a cache line */

/* Where the weights of a panel's outputs stand, in the panel's type; NULL past the last output. They
 * need not be aligned. */
typedef struct panel_rows {
    const unsigned char *row[MOST_NR];
} panel_rows;

/* Word i of each row to panel[i][lane]. */
static void pack_words(uint32_t *panel, const panel_rows *from, size_t nr, size_t offset, size_t count)
{
    for (size_t i0 = 0; i0 < count; i0 += STRIP) {
        size_t n = least(STRIP, count - i0);
        for (size_t lane = 0; lane < nr; lane++) {
            const unsigned char *word = from->row[lane];
            uint32_t *to = panel + i0 * nr + lane;
            if (word) word += offset + i0 * sizeof *to;
            for (size_t i = 0; i < n; i++) {
                if (word) memcpy(to + i * nr, word + i * sizeof *to, sizeof *to);
                else to[i * nr] = 0;
            }
        }
    }
}

/* The last of an odd number of BF16, with a zero for its neighbour. */
static void pack_half_word(uint32_t *panel, const panel_rows *from, size_t nr, size_t offset)
{
    for (size_t lane = 0; lane < nr; lane++) {
        panel[lane] = 0;
        if (from->row[lane]) memcpy(panel + lane, from->row[lane] + offset, sizeof(uint16_t));
    }
}

/* The panel of outputs n0 .. in each block of k. */
static void pack_panel(packed_linear *self, size_t n0, const panel_rows *from)
{
    size_t nr = self->isa->nr, k = self->head.k, size = self->bf16 ? 2 : 4;
    for (size_t k0 = 0; k0 < k; k0 += LR_LINEAR_KC) {
        size_t kc = least(LR_LINEAR_KC, k - k0), words = kc * size / sizeof(uint32_t);
        uint32_t *panel = (uint32_t *)(void *)panel_at(self, k0, n0);
        pack_words(panel, from, nr, k0 * size, words);
        if (self->bf16 && kc % 2)
            pack_half_word(panel + words * nr, from, nr, (k0 + kc - 1) * size);
    }
}

/* Where row `row` of a part stands as the panel's type; what has another type is converted into
 * `converted` [k]. */
static const unsigned char *row_source(const packed_linear *self, const lr_linear_part *part, size_t row,
                                       float *converted)
{
    const lr_tensor *w = &part->weight;
    if (self->bf16 || w->dtype == LR_F32)
        return (const unsigned char *)w->data + row * self->head.k * lr_dtype_size(w->dtype);
    lr_part_row(part, row, converted);
    return (const unsigned char *)converted;
}

/* converted: [nr, k]; NULL for panels of BF16, which need none. */
static void pack_parts(packed_linear *self, const lr_linear_part *parts, float *converted)
{
    size_t nr = self->isa->nr, part = 0, row = 0;
    for (size_t n0 = 0; n0 < self->head.n; n0 += nr) {
        panel_rows from = {0};
        for (size_t lane = 0; lane < least(nr, self->head.n - n0); lane++) {
            float *to = converted ? converted + lane * self->head.k : NULL;
            from.row[lane] = row_source(self, &parts[part], row, to);
            if (++row < parts[part].weight.dims[0]) continue;
            part++;
            row = 0;
        }
        pack_panel(self, n0, &from);
    }
}

/* Bytes of all panels. */
static lr_status weights_bytes(const packed_linear *self, size_t *out, lr_error *err)
{
    size_t k = round_up(self->head.k, 2), bytes;
    if (!lr_mul_size(self->n_padded, k, &bytes) ||
        !lr_mul_size(bytes, self->bf16 ? sizeof(uint16_t) : sizeof(float), &bytes))
        return lr_fail(err, LR_E_NOMEM, "weights [%zu, %zu] are too large", self->head.n,
                       self->head.k);
    *out = bytes;
    return LR_OK;
}

lr_status lr_packed_create(const lr_linear_isa *isa, lr_linear **out, const lr_linear_part *parts,
                           size_t n_parts, lr_error *err)
{
    lr_status st = LR_OK;
    packed_linear *self = NULL;
    float *converted = NULL;
    lr_part_shape shape;
    size_t bytes = 0;
    *out = NULL;
    LR_TRY(lr_parts_check(parts, n_parts, &shape, err));
    LR_TRY(LR_NEW(&self, 1, "linear layer", err));
    self->isa = isa;
    self->head.n = shape.n;
    self->head.k = shape.k;
    self->n_padded = round_up(shape.n, isa->nr);
    self->bf16 = shape.all_bf16;
    LR_TRY(weights_bytes(self, &bytes, err));
    self->w = lr_alloc(bytes); /* every byte is written below */
    if (!self->w) LR_FAIL(LR_E_NOMEM, "out of memory: weights of a linear layer (%zu bytes)", bytes);
    if (!self->bf16) LR_TRY(LR_NEW(&converted, isa->nr * shape.k, "rows of weights", err));
    pack_parts(self, parts, converted);
    *out = &self->head;
    self = NULL;
done:
    lr_free(converted);
    if (self != NULL) packed_free(&self->head);
    return st;
}

static size_t packed_scratch(const lr_linear *linear, size_t rows)
{
    const packed_linear *self = (const packed_linear *)(const void *)linear;
    /* 16 floats to align the copy to a cache line, whatever the caller gives */
    return round_up(least(rows, ROW_BLOCK), self->isa->mr) * LR_LINEAR_LDX + 16;
}

static void copy_rows(float *copy, const float *x, size_t ldx, size_t rows, size_t kc, size_t mr)
{
    for (size_t r = 0; r < rows; r++) memcpy(copy + r * LR_LINEAR_LDX, x + r * ldx, kc * sizeof *x);
    for (size_t r = rows; r < round_up(rows, mr); r++)
        memset(copy + r * LR_LINEAR_LDX, 0, kc * sizeof *x);
}

/* At most ROW_BLOCK rows. */
static void run_rows(const packed_linear *self, float *y, size_t ldy, const float *x, size_t ldx,
                     size_t rows, const float *bias, float *copy)
{
    size_t nr = self->isa->nr, n = self->head.n, k = self->head.k;
    const unsigned char *w = self->w;
    for (size_t k0 = 0; k0 < k; k0 += LR_LINEAR_KC) {
        size_t kc = least(LR_LINEAR_KC, k - k0), bytes = panel_bytes(self, kc);
        bool last = k0 + kc == k;
        copy_rows(copy, x + k0, ldx, rows, kc, self->isa->mr);
        for (size_t n0 = 0; n0 < n; n0 += nr, w += bytes) {
            bool end = last && n0 + nr >= n;
            lr_linear_panel job = {
                .x = copy, .rows = rows, .w = w, .bf16 = self->bf16, .kc = kc,
                .next_w = end ? self->w : w + bytes, /* the next rows begin at the start again */
                .y = y + n0, .ldy = ldy, .n = least(nr, n - n0), .first = k0 == 0,
                .bias = last && bias != NULL ? bias + n0 : NULL,
            };
            self->isa->panel(&job);
        }
    }
}

static void packed_run(const lr_linear *linear, float *y, size_t ldy, const float *x, size_t ldx,
                       size_t rows, uint64_t row0, const float *bias, float *scratch)
{
    const packed_linear *self = (const packed_linear *)(const void *)linear;
    (void)row0; /* every row goes through the same sums wherever it stands */
    float *copy = (float *)(((uintptr_t)scratch + LR_ALIGN - 1) & ~(uintptr_t)(LR_ALIGN - 1));
    for (size_t done = 0; done < rows; done += ROW_BLOCK)
        run_rows(self, y + done * ldy, ldy, x + done * ldx, ldx, least(ROW_BLOCK, rows - done), bias,
                 copy);
}

void lr_packed_fill(lr_kernels *table)
{
    table->linear_free = packed_free;
    table->linear_scratch = packed_scratch;
    table->linear_run = packed_run;
}
