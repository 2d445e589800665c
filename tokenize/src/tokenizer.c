#include "tokenizer.h"

#include <string.h>

#include <longreel/tokenize.h>

void lr_tokenizer_free(lr_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    lr_vocab_free(&tokenizer->vocab);
    lr_merges_free(&tokenizer->merges);
    for (size_t i = 0; tokenizer->added && i < tokenizer->added_vocab.count; i++) {
        lr_free(tokenizer->added[i].content.data);
        lr_free(tokenizer->added[i].pattern.data);
    }
    lr_free(tokenizer->added);
    lr_vocab_free(&tokenizer->added_vocab);
    lr_free(tokenizer->raw_set.tokens);
    lr_free(tokenizer->normalized_set.tokens);
    for (size_t i = 0; i < LR_MAX_STAGES; i++) {
        lr_free(tokenizer->normalizers[i].pattern.data);
        lr_free(tokenizer->normalizers[i].content.data);
        lr_free(tokenizer->pretokenizers[i].pattern.data);
    }
    lr_free(tokenizer->template_items);
    lr_free(tokenizer);
}

size_t lr_tokenizer_size(const lr_tokenizer *tokenizer)
{
    int32_t a = tokenizer->vocab.max_id, b = tokenizer->added_vocab.max_id;
    return (size_t)((a > b ? a : b) + 1);
}

int32_t lr_tokenizer_id(const lr_tokenizer *tokenizer, const char *content)
{
    size_t bytes = strlen(content);
    const lr_vocab_entry *entry = lr_vocab_find(&tokenizer->added_vocab, content, bytes);
    if (!entry) entry = lr_vocab_find(&tokenizer->vocab, content, bytes);
    return entry ? entry->id : -1;
}

const lr_added_token *lr_tokenizer_added(const lr_tokenizer *tokenizer, int32_t id)
{
    for (size_t i = 0; i < tokenizer->added_vocab.count; i++)
        if (tokenizer->added[i].id == id) return &tokenizer->added[i];
    return NULL;
}

bool lr_tokenizer_has_id(const lr_tokenizer *tokenizer, int32_t id)
{
    if (lr_tokenizer_added(tokenizer, id)) return true;
    for (size_t i = 0; i < tokenizer->vocab.count; i++)
        if (tokenizer->vocab.entries[i].id == id) return true;
    return false;
}

lr_status lr_text_copy(lr_text *out, const char *data, size_t bytes, lr_error *err)
{
    char *copy = lr_alloc(bytes + 1);
    if (!copy) return lr_fail(err, LR_E_NOMEM, "out of memory: text (%zu bytes)", bytes);
    if (bytes) memcpy(copy, data, bytes);
    copy[bytes] = '\0';
    *out = (lr_text){.data = copy, .bytes = bytes};
    return LR_OK;
}

void lr_ids_free(lr_ids *ids)
{
    if (!ids) return;
    lr_free(ids->ids);
    *ids = (lr_ids){0};
}

lr_status lr_ids_push(lr_ids *ids, int32_t id, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(LR_GROW(&ids->ids, &ids->capacity, ids->count + 1, "token ids", err));
    ids->ids[ids->count++] = id;
done:
    return st;
}
