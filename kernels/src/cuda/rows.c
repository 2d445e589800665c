/* Slots that work on rows: what they launch. */
#include "device.h"
#include "mix.h"

/* ------------------------------------------------------------------ norms: a warp for each head of a row */

static void norm(lr_stream *stream, const lr_cu_norm *params)
{
    size_t blocks = (size_t)((params->rows + LR_CU_WARPS - 1) / LR_CU_WARPS);
    if (params->dim > 0)
        lr_cu_launch(stream, LR_CU_norm, (const size_t[]){blocks, 1, 1}, 32 * LR_CU_WARPS, 0, params);
}

static void rms_norm(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at w, size_t rows, size_t heads,
                     size_t dim, float eps)
{
    if (heads == 1) x.head = y.head = 0;
    norm(stream, &(lr_cu_norm){.y = lr_cu_view(y), .x = lr_cu_view(x), .w = w, .rows = rows * heads,
                               .heads = (uint32_t)heads, .dim = (uint32_t)dim, .eps = eps,
                               .kind = LR_CU_RMS_NORM});
}

static void rms_norm_add(lr_stream *stream, lr_rows h, lr_rows x, lr_device_at w, size_t rows, size_t dim,
                         float eps)
{
    x.head = h.head = 0;
    norm(stream, &(lr_cu_norm){.y = lr_cu_view(h), .x = lr_cu_view(x), .w = w, .rows = rows, .heads = 1,
                               .dim = (uint32_t)dim, .eps = eps, .kind = LR_CU_RMS_NORM_ADD});
}

static void layer_norm(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at w, lr_device_at b, size_t rows,
                       size_t dim, float eps)
{
    x.head = y.head = 0;
    norm(stream, &(lr_cu_norm){.y = lr_cu_view(y), .x = lr_cu_view(x), .w = w, .b = b, .rows = rows,
                               .heads = 1, .dim = (uint32_t)dim, .eps = eps, .kind = LR_CU_LAYER_NORM});
}

/* ------------------------------------------------------------------ eight values a thread */

static size_t blocks_of(size_t rows, size_t n)
{
    size_t eights = (n + 7) / 8;
    return (rows * eights + LR_CU_THREADS - 1) / LR_CU_THREADS;
}

static void map(lr_stream *stream, lr_cu_map_kind kind, lr_rows y, lr_rows a, lr_rows b, float alpha, float beta,
                size_t rows, size_t dim)
{
    y.head = a.head = b.head = 0;
    lr_cu_map params = {.y = lr_cu_view(y), .a = lr_cu_view(a), .b = lr_cu_view(b), .rows = rows,
                        .dim = (uint32_t)dim, .kind = kind, .alpha = alpha, .beta = beta};
    lr_cu_launch(stream, LR_CU_map, (const size_t[]){blocks_of(rows, dim), 1, 1}, LR_CU_THREADS, 0, &params);
}

static void gelu_tanh_mul(lr_stream *stream, lr_rows y, lr_rows gate, lr_rows up, size_t rows, size_t dim)
{
    map(stream, LR_CU_GELU_TANH_MUL, y, gate, up, 0, 0, rows, dim);
}

static void gelu_erf(lr_stream *stream, lr_rows y, lr_rows x, size_t rows, size_t dim)
{
    map(stream, LR_CU_GELU_ERF, y, x, x, 0, 0, rows, dim);
}

static void silu(lr_stream *stream, lr_rows y, lr_rows x, size_t rows, size_t dim)
{
    map(stream, LR_CU_SILU, y, x, x, 0, 0, rows, dim);
}

static void glu(lr_stream *stream, lr_rows y, lr_rows a, lr_rows b, size_t rows, size_t dim)
{
    map(stream, LR_CU_GLU, y, a, b, 0, 0, rows, dim);
}

static void clamp(lr_stream *stream, lr_rows y, lr_rows x, float lo, float hi, size_t rows, size_t dim)
{
    map(stream, LR_CU_CLAMP, y, x, x, lo, hi, rows, dim);
}

static void relu(lr_stream *stream, lr_rows y, lr_rows x, size_t rows, size_t dim)
{
    map(stream, LR_CU_RELU, y, x, x, 0, 0, rows, dim);
}

static void add(lr_stream *stream, lr_rows y, lr_rows a, lr_rows b, size_t rows, size_t dim)
{
    map(stream, LR_CU_ADD, y, a, b, 0, 0, rows, dim);
}

static void axpy(lr_stream *stream, lr_rows y, float alpha, lr_rows x, size_t rows, size_t dim)
{
    map(stream, LR_CU_AXPY, y, x, x, alpha, 0, rows, dim);
}

static void scale(lr_stream *stream, lr_rows y, lr_rows x, float alpha, size_t rows, size_t dim)
{
    map(stream, LR_CU_SCALE, y, x, x, alpha, 0, rows, dim);
}

static void convert(lr_stream *stream, lr_rows y, lr_rows x, size_t rows, size_t dim)
{
    if (x.dtype != LR_F16) {
        map(stream, LR_CU_CONVERT, y, x, x, 0, 0, rows, dim);
        return;
    }
    lr_cu_map params = {.y = lr_cu_view(y), .a = {.at = x.at, .ld = x.ld}, .rows = rows, .dim = (uint32_t)dim};
    lr_cu_launch(stream, LR_CU_halves, (const size_t[]){blocks_of(rows, dim), 1, 1}, LR_CU_THREADS, 0, &params);
}

/* ------------------------------------------------------------------ rotary positions, sums */

static void rope_angles(lr_stream *stream, lr_device_at cos, lr_device_at sin, lr_device_at turns, size_t n,
                        uint64_t first, size_t rows)
{
    lr_cu_angles params = {.cos = cos, .sin = sin, .turns = turns, .first = first, .rows = rows, .n = (uint32_t)n};
    size_t blocks = (rows * n + LR_CU_THREADS - 1) / LR_CU_THREADS;
    lr_cu_launch(stream, LR_CU_rope_angles, (const size_t[]){blocks, 1, 1}, LR_CU_THREADS, 0, &params);
}

static void rope(lr_stream *stream, lr_rows x, lr_device_at cos, lr_device_at sin, size_t rows, size_t heads,
                 size_t dim, bool neighbours)
{
    lr_cu_rope params = {.x = lr_cu_view(x), .cos = cos, .sin = sin, .rows = rows, .heads = (uint32_t)heads,
                         .dim = (uint32_t)dim, .neighbours = neighbours};
    size_t blocks = blocks_of(rows * heads, neighbours ? dim : dim / 2);
    lr_cu_launch(stream, LR_CU_rope, (const size_t[]){blocks, 1, 1}, LR_CU_THREADS, 0, &params);
}

static void rope_half(lr_stream *stream, lr_rows x, lr_device_at cos, lr_device_at sin, size_t rows,
                      size_t heads, size_t dim)
{
    rope(stream, x, cos, sin, rows, heads, dim, false);
}

static void rope_pairs(lr_stream *stream, lr_rows x, lr_device_at cos, lr_device_at sin, size_t rows,
                       size_t heads, size_t dim)
{
    rope(stream, x, cos, sin, rows, heads, dim, true);
}

static void sum_rows(lr_stream *stream, lr_device_at sum, lr_rows x, lr_device_at bounds, size_t n_pieces,
                     size_t dim)
{
    lr_cu_sum params = {.x = lr_cu_view(x), .dim = (uint32_t)dim};
    size_t most = 65535; /* of a grid's second side */
    for (size_t first = 0; first < n_pieces; first += most) {
        params.sum = sum + first * dim * sizeof(double);
        params.bounds = bounds + first * sizeof(uint64_t);
        size_t pieces = n_pieces - first < most ? n_pieces - first : most;
        lr_cu_launch(stream, LR_CU_sum_rows, (const size_t[]){(dim + LR_CU_THREADS - 1) / LR_CU_THREADS, pieces, 1},
                     LR_CU_THREADS, 0, &params);
    }
}

/* ------------------------------------------------------------------ checksums, rows by number */

static void checksum(lr_stream *stream, lr_device_at sum, lr_device_at from, size_t bytes, uint64_t seed)
{
    if (sum % 8 != 0 || from % 8 != 0) {
        lr_cu_note(stream, CUDA_ERROR_INVALID_VALUE, "a checksum of what is not aligned to 8 bytes");
        return;
    }
    size_t step = LR_CU_CHECK_WORDS * sizeof(uint64_t);
    lr_cu_checksum params = {.sum = sum, .from = from, .bytes = bytes, .seed = lr_check_mix(seed)};
    lr_cu_launch(stream, LR_CU_checksum, (const size_t[]){bytes / step + (bytes % step != 0), 1, 1}, LR_CU_THREADS, 0,
                 &params);
}

static void by_number(lr_stream *stream, lr_cu_gather params, lr_rows y, lr_rows x)
{
    y.head = x.head = 0;
    params.y = lr_cu_view(y);
    params.x = lr_cu_view(x);
    lr_cu_launch(stream, LR_CU_gather, (const size_t[]){blocks_of(params.rows, params.dim), 1, 1}, LR_CU_THREADS, 0,
                 &params);
}

static void gather(lr_stream *stream, lr_rows y, lr_rows table, lr_device_at ids, size_t rows, size_t n, size_t dim,
                   float scale)
{
    by_number(stream, (lr_cu_gather){.ids = ids, .rows = rows, .n = n, .dim = (uint32_t)dim, .scale = scale}, y, table);
}

static void scatter(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at ids, size_t rows, size_t n, size_t dim)
{
    by_number(stream, (lr_cu_gather){.ids = ids, .rows = rows, .n = n, .dim = (uint32_t)dim, .scatter = 1, .scale = 1},
              y, x);
}

void lr_cu_fill_rows(lr_device_ops *ops)
{
    ops->rms_norm = rms_norm;
    ops->rms_norm_add = rms_norm_add;
    ops->layer_norm = layer_norm;
    ops->gelu_tanh_mul = gelu_tanh_mul;
    ops->gelu_erf = gelu_erf;
    ops->silu = silu;
    ops->glu = glu;
    ops->clamp = clamp;
    ops->relu = relu;
    ops->add = add;
    ops->axpy = axpy;
    ops->scale = scale;
    ops->convert = convert;
    ops->rope_angles = rope_angles;
    ops->rope_half = rope_half;
    ops->rope_pairs = rope_pairs;
    ops->sum_rows = sum_rows;
    ops->checksum = checksum;
    ops->gather = gather;
    ops->scatter = scatter;
}
