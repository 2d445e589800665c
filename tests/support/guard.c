#include "lr_test.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A mapping: NaNs, this head, NaNs, the block, an inaccessible page. */
typedef struct guard_head {
    unsigned char *base;
    size_t mapped;
} guard_head;

#define BEFORE 128 /* bytes from the head to the block */
#define NAN_BYTE 0xff

float *lrt_guarded(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes;
    if (!lr_mul_size(n, sizeof(float), &bytes)) fail_msg("%zu floats do not fit", n);
    size_t readable = (BEFORE + bytes + page - 1) / page * page;
    guard_head head = {.mapped = readable + page};
    head.base = mmap(NULL, head.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (head.base == MAP_FAILED) fail_msg("mmap of %zu bytes failed", head.mapped);
    if (mprotect(head.base + readable, page, PROT_NONE) != 0) fail_msg("mprotect failed");
    memset(head.base, NAN_BYTE, readable);
    unsigned char *block = head.base + readable - bytes;
    memcpy(block - BEFORE, &head, sizeof head);
    return (float *)(void *)block;
}

void lrt_guarded_free(float *block)
{
    if (block == NULL) return;
    unsigned char *at = (unsigned char *)(void *)block;
    guard_head head;
    memcpy(&head, at - BEFORE, sizeof head);
    for (unsigned char *p = at - BEFORE + sizeof head; p < at; p++)
        if (*p != NAN_BYTE) fail_msg("written %td bytes before a block", at - p);
    if (munmap(head.base, head.mapped) != 0) fail_msg("munmap failed");
}
