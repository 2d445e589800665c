/* Inside encoder/: one forward pass of a rank on a device: its memory (device_pass.c) and its steps
 * (device_forward.c). */
#ifndef LONGREEL_ENCODER_DEVICE_PASS_H
#define LONGREEL_ENCODER_DEVICE_PASS_H

#include "model.h"
#include "on_device.h"

/* Which keys the rank's tokens see, for the layers that have this mask. */
typedef struct lr_pass_mask {
    lr_mask mask;
    lr_device_at lo, hi; /* uint64_t [local] */
} lr_pass_mask;

/* Chunks of the list that one call of attention takes, where keys come from other ranks: while it works on one
 * half, the next half is gathered. */
#define LR_PASS_GROUP 16

typedef struct lr_pass {
    const lr_model *model;
    const lr_backbone *backbone;
    const lr_backbone_run *run;
    const lr_device_model *on;
    const lr_device_ops *ops;
    float *x;                 /* the caller's [local, D] */
    uint64_t first, end;      /* the rank's tokens */
    uint64_t first_chunk;
    size_t local, n_chunks;   /* own tokens, own chunks */
    bool alone;               /* all keys are here */
    lr_stream *stream, *copies;
    lr_event *arrived, *used[2]; /* of the halves that receive keys */

    /* On the device: one block. */
    lr_device_at block;
    size_t bytes;
    lr_rows h, e;
    lr_device_at kv;          /* BF16 [local, K of all heads, then V]: the layer's */
    lr_pass_mask *masks;      /* [n_masks] */
    size_t n_masks;
    lr_device_places places;  /* of all local tokens */
    lr_device_work work;
    struct {                  /* not alone: of all local tokens */
        lr_device_at q, o, m, l;
    } state;
    lr_device_at list;        /* lr_device_chunk [all chunks]: those of the layer, as the exchange shows them */
    lr_device_at received[2]; /* [group] chunks each */
    size_t group, slot_bytes;

    /* On the host. */
    lr_arena arena;
    lr_chunk_header **own;    /* alone: headers without payload */
    lr_device_chunk *listed;  /* what `list` gets */
    unsigned char *staging[2]; /* [group] payloads each, on their way up */

    /* The layer at hand. */
    size_t layer_index;
    const lr_layer *layer;
    size_t n_listed, n_pending, n_received; /* in the list; of these not attended to; received, of these */
    size_t n_groups;          /* attended to: a state is kept where there were any */
    int half;
    double seconds_waiting;   /* for the device, summed over layers */
} lr_pass;

size_t lr_pass_kv_bytes(const lr_layer *layer); /* of a token: K and V */
lr_kv_shape lr_pass_kv_shape(const lr_layer *layer);
lr_exchange lr_pass_exchange(lr_pass *pass, lr_comm *comm, const lr_layer *layer);
const lr_pass_mask *lr_pass_mask_of(const lr_pass *pass, const lr_layer *layer);

/* What does not depend on memory, for `rank`. Frees nothing; masks are freed by lr_pass_end. */
lr_status lr_pass_place(lr_pass *pass, const lr_model *model, const lr_backbone_run *run, int rank, lr_error *err);
/* Fills pass->places (device_places.c). */
lr_status lr_pass_upload_places(lr_pass *pass, lr_error *err);
/* Memory on both sides, streams, and what lies on the device before the first layer. */
lr_status lr_pass_begin(lr_pass *pass, float *x, lr_error *err);
void lr_pass_end(lr_pass *pass);

#endif
