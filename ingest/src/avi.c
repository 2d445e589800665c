/* AVI: each chunk begins with its stream and length, and the index at the end of the file has both, too. Where the first
 * are damaged, libav's demuxer takes other chunks for a part of this one, or leaves it out, and what follows moves in
 * time: pictures and samples are counted. Where the index has it that the chunks before and behind lie just there, the
 * demuxer gets to read what the index says. */
#include <string.h>

#include "avutil.h"

enum { HEAD = 8, ENTRY = 16, BLOCK = 4096 };

static int64_t number_at(const uint8_t *bytes)
{
    return (int64_t)((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24);
}

typedef struct parts {
    int64_t movi; /* the place of that word; 0: none */
    int64_t index, n_entries;
} parts;

static lr_status find_parts(lri_source *source, parts *found, lr_error *err)
{
    lr_status st = LR_OK;
    enum { MOST = 64 };
    int64_t at = 12;
    memset(found, 0, sizeof *found);
    for (int i = 0; i < MOST && at + HEAD + 4 <= source->bytes; i++) {
        uint8_t head[HEAD + 4];
        size_t got;
        LR_TRY(lri_source_pread(source, at, head, sizeof head, &got, err));
        if (got < sizeof head) break;
        int64_t length = number_at(head + 4);
        if (memcmp(head, "LIST", 4) == 0 && memcmp(head + HEAD, "movi", 4) == 0) found->movi = at + HEAD;
        if (memcmp(head, "idx1", 4) == 0 && length <= source->bytes - at - HEAD) {
            found->index = at + HEAD;
            found->n_entries = length / ENTRY;
            break;
        }
        at += HEAD + length + (length & 1);
    }
done:
    return st;
}

/* What the index says of a chunk. */
typedef struct entry {
    uint8_t name[4];
    int64_t at, length;
} entry;

static entry entry_of(const uint8_t *bytes, int64_t base)
{
    entry e = {.at = base + number_at(bytes + 8), .length = number_at(bytes + 12)};
    memcpy(e.name, bytes, 4);
    return e;
}

static int64_t end_of(const entry *e)
{
    return e->at + HEAD + e->length + (e->length & 1);
}

/* Where chunks before and behind lie as the index says, what lies between begins with what it says. `before` may be
 * none. */
static lr_status mend(lri_source *source, const entry *before, const entry *e, const entry *next, lr_error *err)
{
    uint8_t head[HEAD], right[HEAD];
    size_t got;
    if (end_of(e) != next->at || (before->at >= 0 && end_of(before) != e->at)) return LR_OK;
    lr_status st = lri_source_pread(source, e->at, head, sizeof head, &got, err);
    if (st != LR_OK || got < sizeof head) return st;
    memcpy(right, e->name, 4);
    for (int i = 0; i < 4; i++) right[4 + i] = (uint8_t)(e->length >> (8 * i));
    if (memcmp(head, right, HEAD) == 0 || source->n_patches == LRI_MOST_PATCHES) return LR_OK;
    lri_patch *patch = &source->patches[source->n_patches++];
    *patch = (lri_patch){.at = e->at, .count = HEAD};
    memcpy(patch->bytes, right, HEAD);
    return LR_OK;
}

/* Offsets count from the word movi, or from the start of the file. */
static lr_status find_base(lri_source *source, const parts *found, const uint8_t *first, int64_t *base, lr_error *err)
{
    uint8_t name[4];
    size_t got;
    *base = found->movi;
    lr_status st = lri_source_pread(source, found->movi + number_at(first + 8), name, sizeof name, &got, err);
    if (st == LR_OK && (got < sizeof name || memcmp(name, first, 4) != 0)) *base = 0;
    return st;
}

lr_status lri_avi_mend(lri_source *source, lr_error *err)
{
    lr_status st = LR_OK;
    uint8_t block[BLOCK];
    size_t got;
    parts found;
    entry before = {.at = -1}, last = {.at = -1};
    int64_t base = 0;
    LR_TRY(lri_source_pread(source, 0, block, 12, &got, err));
    if (got < 12 || memcmp(block, "RIFF", 4) != 0 || memcmp(block + 8, "AVI ", 4) != 0) return LR_OK;
    LR_TRY(find_parts(source, &found, err));
    if (found.movi == 0) return LR_OK;
    for (int64_t i = 0; i < found.n_entries; i += BLOCK / ENTRY) {
        LR_TRY(lr_cancel_check(source->cancel, err));
        LR_TRY(lri_source_pread(source, found.index + i * ENTRY, block, BLOCK, &got, err));
        if (i == 0 && got >= ENTRY) LR_TRY(find_base(source, &found, block, &base, err));
        for (int64_t k = 0; k < BLOCK / ENTRY && i + k < found.n_entries && (size_t)(k + 1) * ENTRY <= got; k++) {
            entry now = entry_of(block + k * ENTRY, base);
            if (last.at >= 0) LR_TRY(mend(source, &before, &last, &now, err));
            before = last;
            last = now;
        }
    }
done:
    return st;
}
