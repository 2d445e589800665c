/* Inside the CUDA plugin: the device, its streams, and launching. */
#ifndef LONGREEL_CUDA_DEVICE_H
#define LONGREEL_CUDA_DEVICE_H

#include <longreel/device.h>
#include <longreel/memory.h>

#include "driver.h"
#include "params.h"

/* Every kernel, with its module and the shared memory it may be launched with. */
#define LR_CU_KERNELS(K)                                                                           \
    K(norm, norm, 0) K(map, map, 0) K(halves, map, 0) K(rope_angles, rope, 0) K(rope, rope, 0)     \
    K(sum_rows, sum, 0)                                                                            \
    K(checksum, check, 0) K(gather, gather, 0) K(taps, sound, 0) K(depthwise, sound, 0)            \
    K(near, sound, 0) K(mel, mel, 0) K(rgb, picture, 0) K(resize_rows, picture, 0)                 \
    K(resize_cols, picture, 0) K(patches, picture, 0) K(positions, picture, 0) K(cells, picture, 0) \
    K(gemm, gemm, LR_CU_GEMM_SHARED) LR_CU_ATTENTIONS(LR_CU_AS_KERNEL, K)
#define LR_CU_AS_KERNEL(K, name, D, KEYS, ROWS, COLUMNS, BANDS)                                           \
    K(name, attention, LR_CU_ATTENTION_SHARED(D, KEYS, ROWS, COLUMNS))
#define LR_CU_LEAST_SHARED 101376 /* that a block may have on every architecture from sm_80 on */

typedef enum lr_cu_kernel {
#define LR_CU_ENUM(name, module, shared) LR_CU_##name,
    LR_CU_KERNELS(LR_CU_ENUM)
#undef LR_CU_ENUM
    LR_CU_N_KERNELS
} lr_cu_kernel;

typedef struct lr_cu_device {
    lr_device head;
    lr_cu_driver driver;
    CUdevice device;
    CUcontext context; /* the primary one: shared with what else the process does with the device */
    CUmodule *modules; /* [lr_cu_n_images] */
    CUfunction kernels[LR_CU_N_KERNELS];
} lr_cu_device;

struct lr_stream {
    lr_cu_device *device;
    CUstream stream;
    CUresult failure;
    const char *doing; /* when it failed */
};

struct lr_event {
    lr_cu_device *device;
    CUevent event;
};

/* images.c: what nvcc made, one a source. */
typedef struct lr_cu_image {
    const char *name;
    const void *image;
} lr_cu_image;
extern const lr_cu_image lr_cu_images[];
extern const size_t lr_cu_n_images;

/* True when the stream can take more; the device's context is then current in this thread. */
bool lr_cu_enter(lr_stream *stream, const char *doing);
void lr_cu_note(lr_stream *stream, CUresult status, const char *doing);
/* Enqueues a kernel; a grid without blocks does nothing. */
void lr_cu_launch(lr_stream *stream, lr_cu_kernel kernel, const size_t grid[3], unsigned threads,
                  size_t shared, const void *params);
/* The same view for a kernel. Formats that kernels do not take get no address: the launch fails. */
lr_cu_rows lr_cu_view(lr_rows rows);

void lr_cu_fill_memory(lr_device_ops *ops); /* memory.c */
void lr_cu_fill_rows(lr_device_ops *ops);   /* rows.c */
void lr_cu_fill_matrices(lr_device_ops *ops); /* matrices.c */
void lr_cu_fill_towers(lr_device_ops *ops); /* towers.c */

#endif
