/* A device (a GPU) with memory, streams and kernels of its own: what a forward pass on it calls.
 *
 * A table of its own beside lr_kernels, for the two work differently: on the CPU threads take tiles of rows
 * and call slots with pointers to fp32; here a slot is enqueued once for all rows of a rank, on values in
 * bf16 or fp32 that stay in the device's memory (docs/cuda.md: where the two meet). Common are the formulas
 * (longreel/kernels.h), row-invariance, and that a slot writes nothing but its output.
 *
 * Streams. What is enqueued in a stream happens in order, some time later; streams are ordered among each
 * other only by events. Enqueuing never waits. A stream keeps its first failure: what is enqueued after it
 * does nothing, and lr_device_ops.wait hands it over. So the calls of a layer follow one another without
 * checks, and no failure is lost, since results can only be had after a wait.
 *
 * Threads. A device may be used by any number of threads, a stream by one at a time. */
#ifndef LONGREEL_DEVICE_H
#define LONGREEL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <longreel/status.h>
#include <longreel/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LR_DEVICE_ABI 1u

/* An address in the device's memory, in bytes; not a pointer. 0: none. */
typedef uint64_t lr_device_at;

typedef struct lr_stream lr_stream;
typedef struct lr_event lr_event;

/* A view of [rows, heads, dim] values in F32 or BF16: value d of head h of row r is number
 * r * ld + h * head + d from `at`. Where there is one head, `head` does not matter. */
typedef struct lr_rows {
    lr_device_at at;
    size_t ld, head;
    lr_dtype dtype;
} lr_rows;

/* ------------------------------------------------------------------ attention
 *
 * As lr_attn of longreel/kernels.h, for all rows and KV heads of a rank and any number of chunks in one call:
 * within it the state stays in registers. head_dim is a multiple of 8 up to 512; q, k, v and out are BF16, their
 * addresses and strides multiples of 8 values, heads next to each other (head h at h * head_dim). */

/* Lies in device memory, as an array. k, v [n_keys, n_kv_heads, head_dim]. */
typedef struct lr_device_chunk {
    lr_device_at k, v;
    uint64_t first_key, n_keys; /* n_keys > 0 */
} lr_device_chunk;

typedef struct lr_device_attn {
    size_t n_tokens, n_kv_heads, head_dim;
    size_t group;           /* query heads that share a KV head */
    lr_rows q;              /* [n_tokens, n_kv_heads * group, head_dim] */
    lr_rows o;              /* F32, as q: unnormalised output of the state */
    lr_device_at m, l;      /* F32 [n_tokens, n_kv_heads * group]: maximum and sum of the state */
    lr_rows out;            /* as q: o / l, 0 where nothing was seen; at = 0: the state is kept instead */
    lr_device_at lo, hi;    /* uint64_t [n_tokens]: token t sees keys lo[t] <= key < hi[t] */
    lr_device_at chunks;    /* lr_device_chunk [n_chunks], in ascending order */
    size_t n_chunks, kv_ld; /* values from key to key */
    bool resume;            /* begin with the state; else with an empty one, and it is not read */
} lr_device_attn;

/* ------------------------------------------------------------------ the sound tower */

/* A band of a log mel spectrogram: bins [first, first + count), weights from number `at` on. In device memory. */
typedef struct lr_device_band {
    uint32_t first, count, at, unused;
} lr_device_band;

#define LR_DEVICE_FFT 512

/* y[i, b] = log(floor + sum over the band's bins of weight x |Fourier transform of window x frame i|), all in double,
 * rounded once; frame i is samples [i * hop, i * hop + frame), followed by zeros up to LR_DEVICE_FFT. Rows outside of
 * [begin, end) become 0, and their samples are not read. */
typedef struct lr_device_mel {
    lr_rows y;                    /* [frames, bands] */
    lr_device_at samples;         /* F32 */
    lr_device_at window;          /* F64 [frame]; frame at most LR_DEVICE_FFT */
    lr_device_at turns;           /* F64 [LR_DEVICE_FFT, 2]: cos and sin of 2 pi j / LR_DEVICE_FFT */
    lr_device_at filters;         /* lr_device_band [bands]; of bins 0 .. LR_DEVICE_FFT / 2 */
    lr_device_at weights;         /* F64 */
    double floor;
    size_t frames, begin, end, frame, hop, bands;
} lr_device_mel;

/* What a convolution of 3 x 3 with stride 2 and padding 1 over (frames, bands) sees, as rows for `linear`: row
 * u * ceil(bands / 2) + c of y has in (3 t + f) * channels + i channel i of frame 2 (y_first + u) - 1 + t, band
 * 2 c - 1 + f; zero where there is no such band, where the frame is not in [begin, end), and from 9 * channels on. */
typedef struct lr_device_taps {
    lr_rows y;                    /* [frames * ceil(bands / 2), dim] */
    lr_rows x;                    /* frames of [bands, channels]; row 0 is frame x_first; head: from band to band */
    int64_t x_first, y_first, begin, end;
    size_t frames, bands, channels, dim;
} lr_device_taps;

/* Token t sees the d-th token before it for d = 0 .. min(window - 1, before + t):
 *     logit(d) = cap tanh((k_scale k[t - d] + relative[d]) . (q_scale q[t]) / cap), softmax over d, times v[t - d]
 * head by head. Of k and v min(before, window - 1) rows stand before row 0. dim at most 256. */
typedef struct lr_device_near {
    lr_rows q, k, v, out;         /* [tokens, heads, dim] */
    lr_device_at q_scale;         /* F32 [dim] */
    lr_device_at relative;        /* F32 [window, heads, dim] */
    float k_scale, cap;
    uint64_t before;
    size_t tokens, heads, dim, window;
} lr_device_near;

/* ------------------------------------------------------------------ pictures */

/* A picture as video decoders leave it on a device: luma, and at half its width and height pairs of blue and red
 * difference; 8 bits (NV12), or the upper 10 of 16 (P010). */
typedef struct lr_device_surface {
    lr_device_at luma, chroma;
    size_t luma_stride, chroma_stride; /* bytes */
    size_t width, height;
    bool ten_bits;
} lr_device_surface;

/* RGB from luma and differences in whole numbers, as libswscale's vector code computes it: with Y = 8 y - offset, U =
 * 8 (u - 128), V = 8 (v - 128) (of 10 bits: 2 y - offset, 2 (u - 512), ...) each product is halved sixteen times,
 * downwards, before they are added; the nearest difference counts. */
typedef struct lr_device_colours {
    int16_t y, offset, red_v, green_u, green_v, blue_u;
} lr_device_colours;
/* From libswscale's table of a matrix (sws_getCoefficients). */
lr_device_colours lr_device_colours_of(const int table[4], bool full_range);

/* One axis of a resize (longreel/resize.h: lr_resize_axis), on the device. */
typedef struct lr_device_axis {
    lr_device_at lo, n_taps; /* int32_t [out] */
    lr_device_at weights;    /* int16_t [out, max_taps] */
    size_t out, max_taps;
    int precision;
} lr_device_axis;

/* Row n of y is patch n, in raster order, of pictures of RGB bytes; its values are value[channel][byte]. */
typedef struct lr_device_patches {
    lr_rows y;               /* [columns * rows, parts * patch * patch * 3] */
    lr_device_at rgb;        /* the first patch's first byte in the first picture */
    size_t stride;           /* bytes from row to row */
    size_t part_bytes;       /* from picture to picture of a patch */
    size_t patch, columns, rows, parts;
    lr_device_at value;      /* F32 [3, 256] */
    bool planar;             /* order: channel, part, row, column; else part, row, column, channel */
} lr_device_patches;

typedef struct lr_device_info {
    char name[128];
    int major, minor;    /* compute capability */
    int n_multiprocessors;
    size_t memory_bytes;
    size_t shared_bytes; /* that a block may have */
} lr_device_info;

typedef struct lr_device_options {
    int ordinal;        /* among the devices that the driver shows */
    const char *driver; /* file name of the driver's library; NULL: LONGREEL_CUDA_DRIVER, or the system's */
} lr_device_options;

typedef struct lr_device_ops lr_device_ops;

/* Devices begin with this. */
typedef struct lr_device {
    const lr_device_ops *ops;
    lr_device_info info;
} lr_device;

struct lr_device_ops {
    unsigned abi;
    size_t struct_size;

    /* LR_E_UNSUPPORTED: no driver, one too old, no device, or an architecture without kernels; the text says
     * which. */
    lr_status (*open)(lr_device **out, const lr_device_options *options, lr_error *err);
    /* After all its streams, events and memory have been given back. */
    void (*close)(lr_device *device);

    /* ---- memory: planned before the run; alloc and release may wait for the device */

    lr_status (*memory_left)(lr_device *device, size_t *bytes, lr_error *err);
    /* Aligned to 256 bytes, contents undefined. LR_E_NOMEM names `what`, and how much was left. */
    lr_status (*alloc)(lr_device *device, size_t bytes, const char *what, lr_device_at *out, lr_error *err);
    void (*release)(lr_device *device, lr_device_at at);

    /* ---- streams and events */

    lr_status (*stream_create)(lr_device *device, lr_stream **out, lr_error *err);
    /* Waits for what is under way. */
    void (*stream_destroy)(lr_stream *stream);
    lr_status (*event_create)(lr_device *device, lr_event **out, lr_error *err);
    void (*event_destroy)(lr_event *event);
    /* The point that the stream has reached; what is enqueued in `stream` from now on comes after it. */
    void (*record)(lr_stream *stream, lr_event *event);
    void (*wait_for)(lr_stream *stream, const lr_event *event);
    /* Blocks until all that was enqueued has happened; the stream's first failure, if there was one. */
    lr_status (*wait)(lr_stream *stream, lr_error *err);
    /* The event has happened, or will not because the device failed (wait then tells). Does not wait. */
    bool (*reached)(const lr_event *event);
    /* What the driver knows the stream as (CUstream), for a library that enqueues there by itself; the device is
     * then current in this thread. NULL once the stream has failed. */
    void *(*native)(lr_stream *stream);

    /* ---- copies; host memory stays as it is until the stream has been waited for */

    void (*upload)(lr_stream *stream, lr_device_at to, const void *from, size_t bytes);
    void (*download)(lr_stream *stream, void *to, lr_device_at from, size_t bytes);
    void (*copy)(lr_stream *stream, lr_device_at to, lr_device_at from, size_t bytes);
    void (*fill)(lr_stream *stream, lr_device_at to, unsigned char value, size_t bytes);

    /* ---- norms of each head of each row; w, b: F32 [dim], 0: none */

    /* y = x * (mean(x^2) + eps)^-1/2 * w; y may be x. */
    void (*rms_norm)(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at w, size_t rows, size_t heads,
                     size_t dim, float eps);
    /* h += the above. */
    void (*rms_norm_add)(lr_stream *stream, lr_rows h, lr_rows x, lr_device_at w, size_t rows, size_t dim,
                         float eps);
    /* y = (x - mean) / sqrt(var + eps) * w + b; y may be x. */
    void (*layer_norm)(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at w, lr_device_at b, size_t rows,
                       size_t dim, float eps);

    /* ---- element by element, on [rows, dim]; y may be a or b */

    void (*gelu_tanh_mul)(lr_stream *stream, lr_rows y, lr_rows gate, lr_rows up, size_t rows, size_t dim);
    void (*gelu_erf)(lr_stream *stream, lr_rows y, lr_rows x, size_t rows, size_t dim);
    void (*silu)(lr_stream *stream, lr_rows y, lr_rows x, size_t rows, size_t dim);
    /* y = a * sigmoid(b) */
    void (*glu)(lr_stream *stream, lr_rows y, lr_rows a, lr_rows b, size_t rows, size_t dim);
    void (*clamp)(lr_stream *stream, lr_rows y, lr_rows x, float lo, float hi, size_t rows, size_t dim);
    void (*relu)(lr_stream *stream, lr_rows y, lr_rows x, size_t rows, size_t dim);
    void (*add)(lr_stream *stream, lr_rows y, lr_rows a, lr_rows b, size_t rows, size_t dim);
    /* y += alpha x, no fma */
    void (*axpy)(lr_stream *stream, lr_rows y, float alpha, lr_rows x, size_t rows, size_t dim);
    void (*scale)(lr_stream *stream, lr_rows y, lr_rows x, float alpha, size_t rows, size_t dim);
    /* The same values in y's format and place. x may be F16, too. */
    void (*convert)(lr_stream *stream, lr_rows y, lr_rows x, size_t rows, size_t dim);

    /* ---- rotary positions */

    /* cos, sin F32 [rows, n] of the angles of positions first, first + 1, ...; turns F64 [n]: by how many turns
     * each goes on from one position to the next, theta^(-2j/dim) / (2 pi). */
    void (*rope_angles)(lr_stream *stream, lr_device_at cos, lr_device_at sin, lr_device_at turns, size_t n,
                        uint64_t first, size_t rows);
    /* As the slots of lr_kernels, in place on the first `dim` values of each head; cos, sin F32 [rows, dim / 2]
     * and [rows, dim]. */
    void (*rope_half)(lr_stream *stream, lr_rows x, lr_device_at cos, lr_device_at sin, size_t rows,
                      size_t heads, size_t dim);
    void (*rope_pairs)(lr_stream *stream, lr_rows x, lr_device_at cos, lr_device_at sin, size_t rows,
                       size_t heads, size_t dim);

    /* ---- sums over tokens */

    /* sum F64 [n_pieces, dim] = the rows of each piece added in fp64 in ascending order; bounds, on the device:
     * n_pieces + 1 numbers (uint64_t), piece i is rows bounds[i] .. bounds[i + 1] - 1. */
    void (*sum_rows)(lr_stream *stream, lr_device_at sum, lr_rows x, lr_device_at bounds, size_t n_pieces,
                     size_t dim);

    /* ---- matrices */

    /* y[rows, n] = x[rows, k] . w[n, k]^T + bias: x, w BF16 with k, x.ld and both addresses multiples of 8 values;
     * w without gaps between rows; bias F32 [n], 0: none. y must not overlap x. */
    void (*linear)(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at w, lr_device_at bias, size_t rows,
                   size_t n, size_t k);
    void (*attention)(lr_stream *stream, const lr_device_attn *attn);

    /* ---- checks */

    /* Adds lr_device_checksum(bytes at `from`, seed) to the uint64_t at `sum`, which the caller has zeroed; so the
     * parts of a chunk, each with a seed of its own, make one sum, and a layer's sums are read in one download.
     * from: a multiple of 8. */
    void (*checksum)(lr_stream *stream, lr_device_at sum, lr_device_at from, size_t bytes, uint64_t seed);

    /* ---- rows by number; ids: int32_t [rows], on the device */

    /* y[i] = scale * table[ids[i]], of a table of n rows. Where ids[i] is none of them y[i] stays as it is. */
    void (*gather)(lr_stream *stream, lr_rows y, lr_rows table, lr_device_at ids, size_t rows, size_t n, size_t dim,
                   float scale);
    /* y[ids[i]] = x[i], y having n rows; ids that are none of them are passed over. No two may be the same. */
    void (*scatter)(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at ids, size_t rows, size_t n, size_t dim);

    /* ---- the sound tower */

    void (*conv_taps)(lr_stream *stream, const lr_device_taps *taps);
    /* y[r] = sum over i < kernel of w[i] x[r + i]: of x kernel - 1 rows more are read; w F32 [kernel, dim]. */
    void (*depthwise)(lr_stream *stream, lr_rows y, lr_rows x, lr_device_at w, size_t rows, size_t dim, size_t kernel);
    void (*near_attention)(lr_stream *stream, const lr_device_near *near);
    void (*log_mel)(lr_stream *stream, const lr_device_mel *mel);

    /* ---- pictures; bytes are rows of RGB with a stride in bytes */

    void (*rgb)(lr_stream *stream, lr_device_at rgb, size_t stride, const lr_device_surface *surface,
                const lr_device_colours *colours);
    /* As the slots of lr_kernels, byte for byte; the second for width_bytes of each row. */
    void (*resize_rows_u8)(lr_stream *stream, lr_device_at to, size_t to_stride, lr_device_at from, size_t from_stride,
                           size_t rows, const lr_device_axis *axis);
    void (*resize_cols_u8)(lr_stream *stream, lr_device_at to, size_t to_stride, lr_device_at from, size_t from_stride,
                           size_t width_bytes, const lr_device_axis *axis);
    void (*patches)(lr_stream *stream, const lr_device_patches *patches);
    /* h[r] += (across[x] + down[y]) for patch r of pictures of columns * rows patches, x = r mod columns, y = r /
     * columns mod rows. */
    void (*add_positions)(lr_stream *stream, lr_rows h, lr_rows across, lr_rows down, size_t pictures, size_t columns,
                          size_t rows, size_t dim);
    /* Row t of y, over each picture's cells of side x side patches in raster order: the cell's rows of x, summed in
     * fp64 in raster order, times scale; then (y - bias) * gain, F32 [dim], unless these are 0. */
    void (*pool_cells)(lr_stream *stream, lr_rows y, lr_rows x, size_t pictures, size_t columns, size_t rows,
                       size_t side, double scale, lr_device_at bias, lr_device_at gain, size_t dim);
};

/* The checksum of a chunk that lies on a device, of bytes here: the sum modulo 2^64, over the words w_0, w_1, ... of
 * 8 bytes (little-endian, the last one filled up with zeros), of
 *     mix(w_i + mix(seed) + i * 0x9e3779b97f4a7c15)
 * where mix is the finalizer of SplitMix64, which is one to one. The terms may be added in any order, by any number
 * of threads. A change of one word always shows; others do but for one in 2^64. */
uint64_t lr_device_checksum(const void *bytes, size_t n, uint64_t seed);

/* Opens liblongreel_cuda.so (looked for as lr_plugin_open does) once a process, and a device through it.
 * LR_E_UNSUPPORTED when it is missing or the device cannot be used. */
lr_status lr_device_open(lr_device **out, const lr_device_options *options, lr_error *err);

/* What the plugin exports. */
typedef const lr_device_ops *(*lr_device_get_function)(unsigned abi);
#define LR_DEVICE_GET "lr_device_get"

#ifdef __cplusplus
}
#endif
#endif
