#include "fatbin.h"

#include <stdint.h>
#include <string.h>

#define MAGIC UINT32_C(0xba55ed50)
#define KIND_PTX 1

/* All numbers are little-endian. What follows the fields here is of no use to us. */
typedef struct fatbin_head {
    uint32_t magic;
    uint16_t version, head_bytes;
    uint64_t bytes; /* of all entries */
} fatbin_head;

typedef struct fatbin_entry {
    uint16_t kind, version;
    uint32_t head_bytes;
    uint64_t bytes;
    uint32_t compressed_bytes; /* 0: not compressed */
} fatbin_entry;

const char *fatbin_ptx(const void *image, size_t *bytes)
{
    fatbin_head head;
    const char *at = image, *end;
    memcpy(&head, at, sizeof head);
    if (head.magic != MAGIC) return NULL;
    at += head.head_bytes;
    for (end = at + head.bytes; at + sizeof(fatbin_entry) <= end;) {
        fatbin_entry entry;
        memcpy(&entry, at, sizeof entry);
        const char *payload = at + entry.head_bytes;
        if (entry.kind == KIND_PTX && entry.compressed_bytes == 0) {
            *bytes = strnlen(payload, entry.bytes);
            return payload;
        }
        at = payload + entry.bytes;
    }
    return NULL;
}
