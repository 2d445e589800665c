#include "tables.h"

#include <string.h>

#include <xxhash.h>

/* Twice `count` rounded up to a power of two: the tables stay at most half full. */
static lr_status slots_for(size_t count, size_t *slots, lr_error *err)
{
    size_t n = 16;
    while (n / 2 < count)
        if (!lr_mul_size(n, 2, &n)) return lr_fail(err, LR_E_NOMEM, "out of memory: hash table");
    *slots = n;
    return LR_OK;
}

/* ------------------------------------------------------------------ vocabulary */

lr_status lr_vocab_add(lr_vocab *vocab, const char *text, size_t bytes, lr_error *err)
{
    lr_status st = LR_OK;
    size_t end;
    if (!lr_add_size(vocab->text_bytes, bytes, &end) || end > UINT32_MAX ||
        vocab->count >= (size_t)LR_MAX_TOKEN_ID)
        LR_FAIL(LR_E_FORMAT, "the vocabulary has too many or too long tokens");
    LR_TRY(LR_GROW(&vocab->text, &vocab->text_capacity, end + 1, "token texts", err));
    LR_TRY(LR_GROW(&vocab->entries, &vocab->capacity, vocab->count + 1, "vocabulary", err));
    if (bytes) memcpy(vocab->text + vocab->text_bytes, text, bytes);
    vocab->entries[vocab->count++] =
        (lr_vocab_entry){.offset = (uint32_t)vocab->text_bytes, .bytes = (uint32_t)bytes, .id = -1};
    vocab->text_bytes = end;
done:
    return st;
}

static bool same_text(const lr_vocab *vocab, const lr_vocab_entry *entry, const char *text,
                      size_t bytes)
{
    return entry->bytes == bytes &&
           (bytes == 0 || memcmp(vocab->text + entry->offset, text, bytes) == 0);
}

/* The slot of this text: its own, or the free one where it belongs. */
static lr_vocab_slot *slot_of(const lr_vocab *vocab, const char *text, size_t bytes, uint32_t *hash)
{
    uint64_t h = XXH3_64bits(text, bytes);
    *hash = (uint32_t)(h >> 32);
    for (size_t i = (size_t)h & vocab->slot_mask;; i = (i + 1) & vocab->slot_mask) {
        lr_vocab_slot *slot = &vocab->slots[i];
        if (slot->entry == 0) return slot;
        if (slot->hash == *hash && same_text(vocab, &vocab->entries[slot->entry - 1], text, bytes))
            return slot;
    }
}

const lr_vocab_entry *lr_vocab_find(const lr_vocab *vocab, const char *text, size_t bytes)
{
    if (!vocab->slots) return NULL;
    uint32_t hash;
    const lr_vocab_slot *slot = slot_of(vocab, text, bytes, &hash);
    return slot->entry ? &vocab->entries[slot->entry - 1] : NULL;
}

static lr_status find_doubled_id(const lr_vocab *vocab, const char *place, lr_error *err)
{
    lr_status st = LR_OK;
    uint64_t *seen = NULL;
    LR_TRY(LR_NEW(&seen, (size_t)vocab->max_id / 64 + 1, "ids seen", err));
    for (size_t i = 0; i < vocab->count; i++) {
        const lr_vocab_entry *entry = &vocab->entries[i];
        uint64_t bit = UINT64_C(1) << (entry->id % 64);
        if (seen[entry->id / 64] & bit)
            LR_FAIL(LR_E_FORMAT, "%s: id %d is given to more than one token, \"%.*s\" among them",
                    place, (int)entry->id, (int)(entry->bytes < 64 ? entry->bytes : 64),
                    vocab->text + entry->offset);
        seen[entry->id / 64] |= bit;
    }
done:
    lr_free(seen);
    return st;
}

lr_status lr_vocab_index(lr_vocab *vocab, const char *place, lr_error *err)
{
    lr_status st = LR_OK;
    size_t n = 0;
    LR_TRY(slots_for(vocab->count, &n, err));
    lr_free(vocab->slots);
    vocab->slots = NULL;
    LR_TRY(LR_NEW(&vocab->slots, n, "vocabulary table", err));
    vocab->slot_mask = n - 1;
    vocab->max_id = -1;
    for (size_t i = 0; i < vocab->count; i++) {
        const lr_vocab_entry *entry = &vocab->entries[i];
        const char *text = vocab->text + entry->offset;
        uint32_t hash;
        lr_vocab_slot *slot = slot_of(vocab, text, entry->bytes, &hash);
        if (slot->entry)
            LR_FAIL(LR_E_FORMAT, "%s: the token \"%.*s\" stands there twice", place,
                    (int)(entry->bytes < 64 ? entry->bytes : 64), text);
        *slot = (lr_vocab_slot){.hash = hash, .entry = (uint32_t)(i + 1)};
        if (entry->id > vocab->max_id) vocab->max_id = entry->id;
    }
    if (vocab->count) LR_TRY(find_doubled_id(vocab, place, err));
done:
    return st;
}

void lr_vocab_free(lr_vocab *vocab)
{
    lr_free(vocab->text);
    lr_free(vocab->entries);
    lr_free(vocab->slots);
    *vocab = (lr_vocab){0};
}

/* ------------------------------------------------------------------ merges */

lr_status lr_merges_add(lr_merges *merges, uint32_t left, uint32_t right, uint32_t result,
                        lr_error *err)
{
    lr_status st = LR_OK;
    if (merges->count >= UINT32_MAX / 2) LR_FAIL(LR_E_FORMAT, "too many merges");
    LR_TRY(LR_GROW(&merges->list, &merges->capacity, merges->count + 1, "merges", err));
    merges->list[merges->count] =
        (lr_merge){.left = left, .right = right, .result = result, .rank = (uint32_t)merges->count};
    merges->count++;
done:
    return st;
}

lr_status lr_merges_index(lr_merges *merges, lr_error *err)
{
    lr_status st = LR_OK;
    size_t n = 0;
    LR_TRY(slots_for(merges->count, &n, err));
    LR_TRY(LR_NEW(&merges->slots, n, "merge table", err));
    memset(merges->slots, 0xff, n * sizeof *merges->slots);
    merges->slot_mask = n - 1;
    merges->shift = 64;
    for (size_t i = n; i > 1; i /= 2)
        merges->shift--;
    for (size_t k = 0; k < merges->count; k++) {
        const lr_merge *merge = &merges->list[k];
        size_t i = lr_merge_slot(merge->left, merge->right, merges->shift);
        while (merges->slots[i].result != UINT32_MAX &&
               (merges->slots[i].left != merge->left || merges->slots[i].right != merge->right))
            i = (i + 1) & merges->slot_mask;
        merges->slots[i] = *merge;
    }
done:
    return st;
}

void lr_merges_free(lr_merges *merges)
{
    lr_free(merges->list);
    lr_free(merges->slots);
    *merges = (lr_merges){0};
}
