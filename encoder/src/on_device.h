/* Inside encoder/: a backbone on a device: its weights in device memory, and the steps of a layer there. What it
 * shares with the backbone on the CPU is the model as data (backbone.h) and the exchange of chunks. */
#ifndef LONGREEL_ENCODER_ON_DEVICE_H
#define LONGREEL_ENCODER_ON_DEVICE_H

#include <longreel/device.h>

#include "backbone.h"

/* ------------------------------------------------------------------ weights (device_weights.c) */

/* The weights of an lr_layer, under the same names; 0: there is none. */
typedef struct lr_device_layer {
    lr_device_at q, kv, o, gate_up, down, ple, ple_gate, ple_out; /* BF16, as in the checkpoint */
    /* F32: */
    lr_device_at input_norm, post_attention_norm, pre_mlp_norm, post_mlp_norm, post_ple_norm;
    lr_device_at input_norm_bias, pre_mlp_norm_bias, q_norm, k_norm;
    lr_device_at q_bias, kv_bias, o_bias, gate_up_bias, down_bias;
    lr_device_at turns; /* F64 [head_dim / 2]: of rope, as lr_device_ops.rope_angles wants them; 0 where there are
                           places */
} lr_device_layer;

typedef struct lr_device_model {
    lr_device *device;
    lr_device_at block; /* all that is below */
    size_t bytes;
    lr_device_layer *layers;
    lr_device_at ple_norm, final_norm, final_norm_bias;
} lr_device_model;

/* Uploads what the backbone needs, and takes its linear layers off the list of those to be packed: after the
 * family's open. LR_E_UNSUPPORTED: no forward pass of this family, or shapes that the kernels do not take. */
lr_status lr_device_model_create(lr_model *model, const lr_device_options *options, lr_error *err);
void lr_device_model_free(lr_device_model *device);

/* ------------------------------------------------------------------ a batch of rows (device_pass.c) */

/* Memory for `rows` tokens at a time. Those that follow one another share: act is where the queries were. */
typedef struct lr_device_work {
    size_t rows;
    lr_device_at norm;     /* BF16 [rows, D] */
    lr_device_at wide;     /* F32: q, k and v, gate and up, ple and gate */
    lr_device_at act;      /* BF16: queries; what comes out of an activation */
    lr_device_at attended; /* BF16 [rows, n_heads * head_dim] */
    lr_device_at update;   /* F32 [rows, D] */
    lr_device_at cos, sin; /* F32 [rows, head_dim / 2], or [rows, 3 * place_width] */
} lr_device_work;

/* Positions (t, row, column), where the backbone has them. */
typedef struct lr_device_places {
    size_t n;               /* every t, row and column is less */
    lr_device_at cos, sin;  /* F32 [n, place_width]: the angles of these numbers */
    lr_device_at number[3]; /* int32_t [rows]: t, row and column of each token */
} lr_device_places;

/* Rows [first, first + rows) of the sequence. All that is done with them is enqueued in `stream`. */
typedef struct lr_device_batch {
    const lr_device_ops *ops;
    lr_stream *stream;
    const lr_backbone *backbone;
    const lr_layer *layer;
    const lr_device_model *model;
    const lr_device_layer *weights;
    const lr_device_work *work;
    lr_device_places places; /* of these rows */
    uint64_t first;
    size_t rows;
    lr_rows h; /* F32 [rows, D]: the residual stream */
    lr_rows e; /* BF16 [rows, D]: the embeddings; at = 0 unless the backbone has a per-layer input */
} lr_device_batch;

/* As lr_block, for all rows of a batch. */
struct lr_device_block {
    /* x F32 [rows, heads * head_dim], which may be overwritten, to `out` BF16. */
    void (*heads)(const lr_device_batch *batch, lr_heads kind, lr_rows x, lr_rows out);
    /* attended BF16 [rows, n_heads * head_dim] */
    void (*rest)(const lr_device_batch *batch, lr_rows attended);
    /* On the host, where the backbone has places: cos and sin [n, place_width] of the numbers 0 .. n - 1. */
    void (*place_angles)(const lr_backbone *backbone, size_t n, float *cos, float *sin);
};

lr_rows lr_device_view(lr_device_at at, size_t width, lr_dtype dtype);

/* lr_backbone_forward and lr_backbone_memory where the model lies on a device. */
lr_status lr_device_forward(const lr_model *model, const lr_backbone_run *run, float *x,
                            lr_backbone_stats *stats, lr_error *err);
lr_status lr_device_host_memory(const lr_model *model, const lr_backbone_run *planned, int rank, size_t *bytes,
                                lr_error *err);

#endif
