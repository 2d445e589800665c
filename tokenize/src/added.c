#include "added.h"

#include <stdlib.h>
#include <string.h>

#include "encode.h"

/* ------------------------------------------------------------------ the sets */

static int compare_text(const lr_text *a, const lr_text *b)
{
    int order = memcmp(a->data, b->data, a->bytes < b->bytes ? a->bytes : b->bytes);
    if (order) return order;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static int compare_patterns(const void *a, const void *b)
{
    return compare_text(&(*(const lr_added_token *const *)a)->pattern,
                        &(*(const lr_added_token *const *)b)->pattern);
}

static lr_status index_set(lr_added_set *set, const lr_tokenizer *t, bool normalized, lr_error *err)
{
    lr_status st = LR_OK;
    size_t n = t->added_vocab.count;
    LR_TRY(LR_NEW(&set->tokens, n, "added tokens", err));
    for (size_t i = 0; i < n; i++)
        if (t->added[i].normalized == normalized) set->tokens[set->count++] = &t->added[i];
    qsort(set->tokens, set->count, sizeof(*set->tokens), compare_patterns);
    for (size_t i = 0; i < set->count; i++) {
        const lr_added_token *token = set->tokens[i];
        if (i > 0 && compare_text(&token->pattern, &set->tokens[i - 1]->pattern) == 0)
            LR_FAIL(LR_E_FORMAT,
                    "added_tokens: \"%.64s\" and \"%.64s\" are the same once normalized",
                    set->tokens[i - 1]->content.data, token->content.data);
        set->first[(unsigned char)token->pattern.data[0] + 1]++;
    }
    for (size_t b = 0; b < 256; b++)
        set->first[b + 1] += set->first[b];
done:
    return st;
}

lr_status lr_added_index(lr_tokenizer *t, lr_error *err)
{
    lr_status st = LR_OK;
    for (size_t i = 0; i < t->added_vocab.count; i++) {
        lr_added_token *token = &t->added[i];
        if (token->normalized)
            LR_TRY(lr_normalize_text(&token->pattern, t, &token->content, err));
        else
            LR_TRY(lr_text_copy(&token->pattern, token->content.data, token->content.bytes, err));
        if (token->pattern.bytes == 0)
            LR_FAIL(LR_E_FORMAT, "added_tokens: nothing is left of \"%.64s\" once normalized",
                    token->content.data);
    }
    LR_TRY(index_set(&t->raw_set, t, false, err));
    LR_TRY(index_set(&t->normalized_set, t, true, err));
done:
    return st;
}

/* ------------------------------------------------------------------ matching */

/* The pattern's byte at this depth; -1 past its end, so that shorter patterns come first. */
static int byte_at(const lr_added_token *token, size_t depth)
{
    return depth < token->pattern.bytes ? (unsigned char)token->pattern.data[depth] : -1;
}

/* The first of tokens [low, high), equal up to `depth`, whose byte there is >= `byte`. */
static size_t lower_bound(const lr_added_set *set, size_t low, size_t high, size_t depth, int byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (byte_at(set->tokens[middle], depth) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that begins at `text`; the sorted list serves as a trie. */
static const lr_added_token *longest_at(const lr_added_set *set, const char *text, size_t bytes)
{
    unsigned char lead = (unsigned char)*text;
    size_t low = set->first[lead], high = set->first[lead + 1];
    const lr_added_token *best = NULL;
    for (size_t depth = 1; low < high; depth++) {
        if (set->tokens[low]->pattern.bytes == depth) best = set->tokens[low++];
        if (depth == bytes) break;
        int byte = (unsigned char)text[depth];
        low = lower_bound(set, low, high, depth, byte);
        high = lower_bound(set, low, high, depth, byte + 1);
    }
    return best;
}

static bool stands_alone(const char *text, size_t bytes, size_t begin, size_t end)
{
    if (begin > 0 && lr_is_word(lr_utf8_decode(text + lr_utf8_previous(text, begin)))) return false;
    return end == bytes || !lr_is_word(lr_utf8_decode(text + end));
}

/* Where the spaces before `begin` start; never before `done_to`, to which the token before
 * reaches (it may reach further). */
static size_t strip_left(const char *text, size_t begin, size_t done_to)
{
    while (begin > done_to) {
        size_t previous = lr_utf8_previous(text, begin);
        if (!lr_is_space(lr_utf8_decode(text + previous))) break;
        begin = previous;
    }
    return begin > done_to ? begin : done_to;
}

/* Where the spaces from `end` on stop. Tokens that are spaces themselves may begin inside those of the one
 * before: these are known, [*known, *stop). */
static size_t strip_right(const char *text, size_t bytes, size_t end, size_t *known, size_t *stop)
{
    if (end >= *known && end <= *stop) return *stop;
    *known = end;
    while (end < bytes && lr_is_space(lr_utf8_decode(text + end))) end += lr_utf8_size(text + end);
    return *stop = end;
}

lr_status lr_segments_push(lr_segments *segments, size_t begin, size_t end, int32_t id,
                           lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(
        LR_GROW(&segments->list, &segments->capacity, segments->count + 1, "text segments", err));
    segments->list[segments->count++] = (lr_segment){begin, end, id};
done:
    return st;
}

lr_status lr_added_split(lr_segments *out, const lr_added_set *set, const char *text, size_t bytes,
                         lr_error *err)
{
    lr_status st = LR_OK;
    size_t done_to = 0, known = 1, stop = 0;
    out->count = 0;
    for (size_t i = 0; set->count > 0 && i < bytes;) {
        const lr_added_token *token = longest_at(set, text + i, bytes - i);
        if (!token) {
            i++;
            continue;
        }
        size_t begin = i, end = i + token->pattern.bytes;
        i = end; /* the search goes on here, whatever is stripped or discarded */
        if (token->single_word && !stands_alone(text, bytes, begin, end)) continue;
        if (token->lstrip) begin = strip_left(text, begin, done_to);
        if (token->rstrip) end = strip_right(text, bytes, end, &known, &stop);
        if (done_to < begin) LR_TRY(lr_segments_push(out, done_to, begin, -1, err));
        /* A token whose own text the one before has stripped vanishes, as in the library. */
        if (begin < end) LR_TRY(lr_segments_push(out, begin, end, token->id, err));
        done_to = end;
    }
    if (done_to < bytes) LR_TRY(lr_segments_push(out, done_to, bytes, -1, err));
done:
    return st;
}
