/* Whether a file is shorter than its outermost structure says. */
#include <string.h>

#include "avutil.h"

static uint64_t big_endian(const uint8_t *bytes, int count)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

/* ISO base media: boxes to the end of the file; the last one may run past it. */
static lr_status is_iso_cut(lri_source *source, bool *cut, lr_error *err)
{
    uint64_t at = 0, bytes = (uint64_t)source->bytes;
    for (int boxes = 0; at < bytes && boxes < 1000000; boxes++) {
        uint8_t head[16];
        size_t got;
        lr_status st = lri_source_pread(source, (int64_t)at, head, sizeof head, &got, err);
        if (st != LR_OK) return st;
        if (got < 8) {
            *cut = true;
            return LR_OK;
        }
        uint64_t size = big_endian(head, 4), least = 8;
        if (size == 0) return LR_OK; /* to the end of the file */
        if (size == 1) {
            size = got == 16 ? big_endian(head + 8, 8) : UINT64_MAX;
            least = 16;
        }
        if (size < least) return LR_OK; /* padding or rubbish behind the last box */
        if (size > bytes - at) {
            /* Only a box of a known kind promises anything. */
            static const char *const kinds[] = {"mdat", "moov", "moof", "free", "skip",
                                                "sidx", "mfra", "meta", "uuid", "styp"};
            for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
                if (memcmp(head + 4, kinds[i], 4) == 0) *cut = true;
            return LR_OK;
        }
        at += size;
    }
    return LR_OK;
}

/* An EBML number: the length is in the leading zeros. 0 bytes: broken. All ones: unknown. */
static int ebml_size(const uint8_t *bytes, size_t count, uint64_t *value, bool *unknown)
{
    int length = 1;
    while (length <= 8 && count > 0 && !(bytes[0] & (0x80 >> (length - 1)))) length++;
    if (length > 8 || (size_t)length > count) return 0;
    *value = big_endian(bytes, length) & ((UINT64_C(1) << (7 * length)) - 1);
    *unknown = *value == (UINT64_C(1) << (7 * length)) - 1;
    return length;
}

/* Matroska: the EBML header, then one segment. */
static void is_ebml_cut(const uint8_t *head, size_t got, int64_t bytes, bool *cut)
{
    uint64_t size;
    bool unknown;
    int length = ebml_size(head + 4, got - 4, &size, &unknown);
    if (length == 0 || unknown || size > got) return;
    size_t at = 4 + (size_t)length + (size_t)size;
    if (at + 12 > got || memcmp(head + at, "\x18\x53\x80\x67", 4) != 0) return;
    length = ebml_size(head + at + 4, got - at - 4, &size, &unknown);
    if (length == 0 || unknown) return;
    *cut = size > (uint64_t)bytes - at - 4 - (uint64_t)length;
}

lr_status lri_source_is_cut(lri_source *source, bool *cut, lr_error *err)
{
    uint8_t head[256];
    size_t got;
    *cut = false;
    lr_status st = lri_source_pread(source, 0, head, sizeof head, &got, err);
    if (st != LR_OK || got < 16) return st;
    if (memcmp(head + 4, "ftyp", 4) == 0 || memcmp(head + 4, "moov", 4) == 0 ||
        memcmp(head + 4, "mdat", 4) == 0)
        return is_iso_cut(source, cut, err);
    if (memcmp(head, "\x1A\x45\xDF\xA3", 4) == 0) is_ebml_cut(head, got, source->bytes, cut);
    if (memcmp(head, "RIFF", 4) == 0) {
        uint32_t size = (uint32_t)head[4] | (uint32_t)head[5] << 8 | (uint32_t)head[6] << 16 |
                        (uint32_t)head[7] << 24;
        /* 0 and all ones stand for a size that was not known when the file was begun. */
        *cut = size != 0 && size < UINT32_MAX - 8 && (int64_t)size + 8 > source->bytes;
    }
    return LR_OK;
}
