/* The stand-in for libcuda.so.1: one device whose kernels are interpreted on the CPU. Streams are queues that
 * run as late as they may: when somebody waits for them, or for an event recorded in them. So a missing wait
 * shows as old data.
 *
 * What kind of machine it is, from the environment when cuInit is called:
 *   STANDIN_DEVICES=0       no device is there
 *   STANDIN_VERSION=11040   the driver's version (13000)
 *   STANDIN_ARCHITECTURE=75 the device's (80)
 *   STANDIN_MEMORY=1000000  its memory in bytes (8 GiB)
 *   STANDIN_ORDER=last      runs the last warp of a block first
 *   STANDIN_EDIT=kernel|after|which|from|to   edits one instruction of a kernel as it is loaded (ptx_edit) */
#ifndef STANDIN_H
#define STANDIN_H

#include <cuda.h>

#include "machine.h"

/* Of all launches since the process began. */
machine_counts standin_counts(void);
/* Bytes of device memory held. */
size_t standin_memory_held(void);

/* For other stand-ins, of libraries that enqueue work of their own. `step` is called until it is true, with the
 * stand-in locked: it must not wait, and may touch memory (standin_at; NULL: not inside an allocation). */
CUresult standin_enqueue(CUstream stream, bool (*step)(void *arg), void *arg);
unsigned char *standin_at(CUdeviceptr address, size_t bytes);
/* Moves streams that have steps on, without anybody waiting for them: a device works by itself. */
void standin_progress(void);

#endif
