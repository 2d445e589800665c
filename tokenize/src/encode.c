#include "encode.h"

#include <string.h>

/* A few replacements one after another can make gigabytes of a word. */
#define MOST_NORMALIZED ((size_t)1 << 28)

void lr_encode_scratch_free(lr_scratch *scratch)
{
    lr_free(scratch->raw.list);
    lr_free(scratch->normalized.list);
    lr_free(scratch->normal[0].data);
    lr_free(scratch->normal[1].data);
    for (size_t i = 0; i < LR_MAX_STAGES; i++) {
        lr_free(scratch->levels[i].segments.list);
        lr_free(scratch->levels[i].text[0].data);
        lr_free(scratch->levels[i].text[1].data);
    }
    lr_free(scratch->symbols);
    lr_free(scratch->heap);
    *scratch = (lr_scratch){0};
}

/* ------------------------------------------------------------------ pieces */

lr_piece lr_piece_slice(const lr_piece *piece, size_t begin, size_t end)
{
    size_t zero = piece->zero > begin ? piece->zero - begin : 0;
    return (lr_piece){.text = piece->text + begin,
                      .bytes = end - begin,
                      .zero = zero < end - begin ? zero : end - begin,
                      .at_origin = begin < piece->zero};
}

static lr_status append(lr_buffer *out, const char *text, size_t bytes, lr_error *err)
{
    lr_status st = LR_OK;
    size_t end;
    if (!lr_add_size(out->bytes, bytes, &end) || end > MOST_NORMALIZED)
        LR_FAIL(LR_E_UNSUPPORTED, "a text has more than %zu bytes once normalized", MOST_NORMALIZED);
    LR_TRY(LR_GROW(&out->data, &out->capacity, end, "normalized text", err));
    if (bytes) memcpy(out->data + out->bytes, text, bytes);
    out->bytes = end;
done:
    return st;
}

/* One byte by memchr(): quicker, and the address sanitizer's memmem() looks at all that is left each
 * time. */
const char *lr_piece_find(const lr_piece *piece, size_t from, const char *pattern,
                          size_t pattern_bytes)
{
    const char *text = piece->text + from;
    size_t bytes = piece->bytes - from;
    return pattern_bytes == 1 ? memchr(text, pattern[0], bytes)
                              : memmem(text, bytes, pattern, pattern_bytes);
}

lr_status lr_piece_replace(lr_piece *piece, lr_buffer *out, const char *pattern,
                           size_t pattern_bytes, const lr_text *content, lr_error *err)
{
    lr_status st = LR_OK;
    size_t done_to = 0, zero = 0;
    out->bytes = 0;
    for (;;) {
        const char *from = piece->text + done_to;
        const char *match = lr_piece_find(piece, done_to, pattern, pattern_bytes);
        size_t kept = match ? (size_t)(match - from) : piece->bytes - done_to;
        LR_TRY(append(out, from, kept, err));
        if (piece->zero > done_to) {
            size_t leading = piece->zero - done_to;
            zero += leading < kept ? leading : kept;
        }
        if (!match) break;
        done_to += kept + pattern_bytes;
        LR_TRY(append(out, content->data, content->bytes, err));
        /* The library aligns what it puts in with the last byte of what it replaces. */
        if (done_to - 1 < piece->zero) zero += content->bytes;
    }
    piece->text = out->data;
    piece->bytes = out->bytes;
    piece->zero = zero;
done:
    return st;
}

lr_status lr_piece_prepend(lr_piece *piece, lr_buffer *out, const lr_text *content, lr_error *err)
{
    lr_status st = LR_OK;
    out->bytes = 0;
    LR_TRY(append(out, content->data, content->bytes, err));
    LR_TRY(append(out, piece->text, piece->bytes, err));
    piece->text = out->data;
    piece->bytes = out->bytes;
    /* What is put before is aligned with the first character; nothing put before it aligns that
     * with the piece's begin. */
    size_t first = content->bytes ? 0 : lr_utf8_size(piece->text);
    if (piece->zero > 0)
        piece->zero += content->bytes;
    else if (piece->at_origin)
        piece->zero = first;
done:
    return st;
}

/* ------------------------------------------------------------------ normalizer */

static lr_status normalize(const lr_tokenizer *t, lr_buffer buffers[2], lr_piece *piece,
                           lr_error *err)
{
    lr_status st = LR_OK;
    for (size_t i = 0; i < t->n_normalizers; i++) {
        const lr_normalizer *n = &t->normalizers[i];
        lr_buffer *out = &buffers[i % 2];
        if (piece->bytes == 0) break;
        if (n->kind == LR_NORMALIZE_REPLACE)
            LR_TRY(
                lr_piece_replace(piece, out, n->pattern.data, n->pattern.bytes, &n->content, err));
        else
            LR_TRY(lr_piece_prepend(piece, out, &n->content, err));
    }
done:
    return st;
}

lr_status lr_normalize_text(lr_text *out, const lr_tokenizer *tokenizer, const lr_text *in,
                            lr_error *err)
{
    lr_status st = LR_OK;
    lr_buffer buffers[2] = {{0}, {0}};
    lr_piece piece = {.text = in->data, .bytes = in->bytes};
    LR_TRY(normalize(tokenizer, buffers, &piece, err));
    LR_TRY(lr_text_copy(out, piece.text, piece.bytes, err));
done:
    lr_free(buffers[0].data);
    lr_free(buffers[1].data);
    return st;
}

/* ------------------------------------------------------------------ a whole text */

/* A stretch between raw added tokens: normalized, cut at normalized ones, then the rest. */
static lr_status encode_stretch(const lr_tokenizer *t, lr_scratch *scratch, lr_piece piece,
                                lr_ids *ids, lr_error *err)
{
    lr_status st = LR_OK;
    lr_segments *cuts = &scratch->normalized;
    LR_TRY(normalize(t, scratch->normal, &piece, err));
    LR_TRY(lr_added_split(cuts, &t->normalized_set, piece.text, piece.bytes, err));
    for (size_t i = 0; i < cuts->count; i++) {
        lr_segment cut = cuts->list[i];
        if (cut.id >= 0) {
            LR_TRY(lr_ids_push(ids, cut.id, err));
        } else {
            lr_piece slice = lr_piece_slice(&piece, cut.begin, cut.end);
            LR_TRY(lr_encode_piece(t, scratch, &slice, 0, ids, err));
        }
    }
done:
    return st;
}

lr_status lr_encode_text(const lr_tokenizer *t, lr_scratch *scratch, const char *text, size_t bytes,
                         bool at_start, lr_ids *ids, lr_error *err)
{
    lr_status st = LR_OK;
    lr_piece whole = {.text = text,
                      .bytes = bytes,
                      .zero = at_start && bytes ? lr_utf8_size(text) : 0,
                      .at_origin = at_start};
    LR_TRY(lr_added_split(&scratch->raw, &t->raw_set, text, bytes, err));
    for (size_t i = 0; i < scratch->raw.count; i++) {
        lr_segment cut = scratch->raw.list[i];
        if (cut.id >= 0)
            LR_TRY(lr_ids_push(ids, cut.id, err));
        else
            LR_TRY(
                encode_stretch(t, scratch, lr_piece_slice(&whole, cut.begin, cut.end), ids, err));
    }
done:
    return st;
}

lr_status lr_tokenizer_encode(const lr_tokenizer *tokenizer, const char *text, size_t bytes,
                              bool with_template, lr_ids *ids, lr_error *err)
{
    lr_status st = LR_OK;
    lr_scratch scratch = {0};
    size_t held = ids->count, valid = bytes ? lr_utf8_valid_prefix(text, bytes) : 0;
    if (valid != bytes) LR_FAIL(LR_E_FORMAT, "the text is not UTF-8: byte %zu", valid);
    for (size_t i = 0; i < tokenizer->n_template_items; i++) {
        int32_t item = tokenizer->template_items[i];
        if (item == LR_TEMPLATE_SEQUENCE)
            LR_TRY(lr_encode_text(tokenizer, &scratch, text, bytes, true, ids, err));
        else if (with_template)
            LR_TRY(lr_ids_push(ids, item, err));
    }
done:
    if (st != LR_OK) ids->count = held;
    lr_encode_scratch_free(&scratch);
    return st;
}
