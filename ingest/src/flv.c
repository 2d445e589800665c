/* FLV: each tag states its length, and behind it that length is stated again. Where the first is damaged, libav's
 * demuxer loses the tag, and where it would go beyond the end of the file, all that is left. The next tag tells where
 * it ends; the demuxer gets to read that length. */
#include <string.h>

#include "avutil.h"

enum { HEAD = 11, BACK = 4 }; /* bytes before and behind what a tag holds */

static int64_t number_at(const uint8_t *bytes, int count)
{
    int64_t value = 0;
    for (int i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

/* Sound, picture or script, of stream 0. */
static bool is_head(const uint8_t *bytes)
{
    return (bytes[0] == 8 || bytes[0] == 9 || bytes[0] == 18) && bytes[8] == 0 && bytes[9] == 0 && bytes[10] == 0;
}

/* The length of what the tag at `at` holds: -1 where there is no tag, or it is not stated again behind it. */
static lr_status read_tag(lri_source *source, int64_t at, int64_t *length, bool *is_tag, bool *beyond, lr_error *err)
{
    uint8_t head[HEAD], back[BACK];
    size_t got;
    *length = -1;
    *is_tag = *beyond = false;
    lr_status st = lri_source_pread(source, at, head, sizeof head, &got, err);
    if (st != LR_OK || got < sizeof head || !is_head(head)) return st;
    *is_tag = true;
    int64_t stated = number_at(head + 1, 3);
    *beyond = at + HEAD + stated + BACK > source->bytes;
    if (*beyond) return LR_OK;
    st = lri_source_pread(source, at + HEAD + stated, back, sizeof back, &got, err);
    if (st == LR_OK && got == sizeof back && number_at(back, 4) == stated + HEAD) *length = stated;
    return st;
}

/* The next tag behind a place; -1: none. */
static lr_status find_tag(lri_source *source, int64_t after, int64_t *found, lr_error *err)
{
    enum { BLOCK = 1 << 16 };
    lr_status st = LR_OK;
    uint8_t *block = NULL;
    size_t got = BLOCK;
    *found = -1;
    LR_TRY(lr_new_array((void **)&block, BLOCK, 1, "a block of the file", err));
    for (int64_t at = after; got == BLOCK; at += BLOCK - HEAD + 1) {
        LR_TRY(lr_cancel_check(source->cancel, err));
        LR_TRY(lri_source_pread(source, at, block, BLOCK, &got, err));
        for (size_t i = 0; i + HEAD <= got; i++) {
            int64_t length;
            bool is_tag, beyond;
            if (!is_head(block + i)) continue;
            LR_TRY(read_tag(source, at + (int64_t)i, &length, &is_tag, &beyond, err));
            if (length < 0) continue;
            *found = at + (int64_t)i;
            goto done;
        }
    }
done:
    lr_free(block);
    return st;
}

/* The length of a tag that another one follows at `next`. If nothing but it is damaged, it is stated there. */
static lr_status mend(lri_source *source, int64_t at, int64_t next, bool beyond, lr_error *err)
{
    int64_t length = next - BACK - HEAD - at;
    uint8_t back[BACK] = {0};
    size_t got;
    if (length < 0 || length >= 1 << 24 || source->n_patches == LRI_MOST_PATCHES) return LR_OK;
    lr_status st = lri_source_pread(source, next - BACK, back, sizeof back, &got, err);
    if (st != LR_OK || (!beyond && number_at(back, 4) != HEAD + length)) return st;
    lri_patch *patch = &source->patches[source->n_patches++];
    *patch = (lri_patch){.at = at + 1, .count = 3};
    for (int i = 0; i < 3; i++) patch->bytes[i] = (uint8_t)(length >> (16 - 8 * i));
    return LR_OK;
}

lr_status lri_flv_mend(lri_source *source, lr_error *err)
{
    lr_status st = LR_OK;
    uint8_t head[9];
    size_t got;
    LR_TRY(lri_source_pread(source, 0, head, sizeof head, &got, err));
    if (got < sizeof head || memcmp(head, "FLV\1", 4) != 0) return LR_OK;
    for (int64_t at = number_at(head + 5, 4) + BACK; at >= 0 && at < source->bytes;) {
        int64_t length, next;
        bool is_tag, beyond;
        LR_TRY(lr_cancel_check(source->cancel, err));
        LR_TRY(read_tag(source, at, &length, &is_tag, &beyond, err));
        next = at + HEAD + length + BACK;
        if (length < 0) LR_TRY(find_tag(source, at + 1, &next, err));
        if (is_tag && length < 0 && next > 0) LR_TRY(mend(source, at, next, beyond, err));
        at = next;
    }
done:
    return st;
}
