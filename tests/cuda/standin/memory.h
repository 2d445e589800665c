/* The device's memory. Addresses are numbers of their own, not the host's, with gaps between allocations:
 * what the host takes for a pointer by mistake faults, and what a kernel touches is looked up. */
#ifndef STANDIN_MEMORY_H
#define STANDIN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_SHARED_WINDOW UINT64_C(0x00400000000) /* where shared memory lies among generic addresses */
#define MEMORY_SHARED_BYTES UINT64_C(0x1000000)

/* A new allocation, all bytes 0xff (a NaN in every format); false when more than `limit` would be held. */
bool memory_alloc(size_t bytes, size_t limit, uint64_t *address);
bool memory_free(uint64_t address);
size_t memory_held(void);
/* The bytes at [address, address + bytes), NULL when they do not lie inside one allocation. */
unsigned char *memory_at(uint64_t address, size_t bytes);

/* A launch begins. */
void memory_begin_launch(void);

/* A thread of the launch, between two barriers of its block: what two threads of a block do before and after a
 * barrier is in order, what threads of different blocks do never is. */
typedef struct memory_user {
    uint64_t block;
    uint32_t thread, epoch; /* epoch 0: nobody */
} memory_user;
#define MEMORY_ALL UINT32_MAX /* thread: several of the block */
#define MEMORY_EVERY UINT64_MAX /* block: several */

typedef enum memory_use { MEMORY_READ, MEMORY_WRITE, MEMORY_ATOMIC } memory_use;

/* memory_at for a thread. *other: one that wrote there in this launch, or, when this one writes, that read there,
 * out of order with it. Atomic operations are in order among themselves. */
unsigned char *memory_touch(uint64_t address, size_t bytes, memory_user user, memory_use use, memory_user *other);

#endif
