/* Inside encoder/: one .safetensors file, mapped. */
#ifndef LONGREEL_ENCODER_SAFETENSORS_H
#define LONGREEL_ENCODER_SAFETENSORS_H

#include <longreel/encoder.h>

typedef struct lr_safetensors_entry {
    char *name;
    lr_tensor tensor;
    size_t begin, end; /* bytes of the data section */
    void *copy;        /* tensor.data, where the file's own place is not aligned for the type */
} lr_safetensors_entry;

typedef struct lr_safetensors {
    char *path;
    const unsigned char *map;
    size_t bytes;
    lr_safetensors_entry *entries; /* in name order, names unique */
    size_t count;
} lr_safetensors;

/* The longest header the format allows. */
#define LR_SAFETENSORS_HEADER ((uint64_t)100000000)

/* Everything is checked before it returns: that the header is within the file, each shape against its
 * byte range, and that the ranges cover the data section without overlaps or holes. */
lr_status lr_safetensors_open(lr_safetensors *out, const char *path, lr_error *err);
void lr_safetensors_close(lr_safetensors *file);
const lr_safetensors_entry *lr_safetensors_find(const lr_safetensors *file, const char *name);

/* `bytes` of a tensor's data will not be read again soon: the pages that are all theirs leave the
 * process's memory; the system's cache keeps them, and reading them again brings them back. What lies
 * outside the mapped files (an aligned copy, a caller's values) stays as it is. */
void lr_checkpoint_release(const lr_checkpoint *checkpoint, const void *data, size_t bytes);

/* lr_safetensors_write without the data in memory: tensors' `data` is not looked at; `fill` gives the
 * bytes [at, at + bytes) of tensor i, asked for in order, in pieces of whole values. */
typedef void (*lr_safetensors_fill)(void *arg, size_t i, size_t at, void *out, size_t bytes);
lr_status lr_safetensors_write_made(const char *path, const lr_named_tensor *tensors, size_t count,
                                    lr_safetensors_fill fill, void *arg, lr_error *err);

/* Bytes of a tensor's data; false when that does not fit. */
bool lr_tensor_bytes(const lr_tensor *tensor, size_t *bytes);

#endif
