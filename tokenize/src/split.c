/* Pre-tokenizers. Each works on one piece at a time and knows nothing of the others, so they are
 * applied depth first. */
#include <string.h>

#include "encode.h"

/* ------------------------------------------------------------------ Split */

/* The text as matches of the pattern (id 1) and what lies between (id 0); `invert` swaps them. */
static lr_status find_matches(lr_segments *out, const lr_piece *piece, const lr_pretokenizer *p,
                              lr_error *err)
{
    lr_status st = LR_OK;
    size_t done_to = 0;
    out->count = 0;
    while (done_to < piece->bytes) {
        const char *match = lr_piece_find(piece, done_to, p->pattern.data, p->pattern.bytes);
        size_t begin = match ? (size_t)(match - piece->text) : piece->bytes;
        if (done_to < begin) LR_TRY(lr_segments_push(out, done_to, begin, p->invert, err));
        done_to = begin;
        if (!match) break;
        LR_TRY(lr_segments_push(out, begin, begin + p->pattern.bytes, !p->invert, err));
        done_to = begin + p->pattern.bytes;
    }
done:
    return st;
}

static void remove_matches(lr_segments *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].id == 0) s->list[kept++] = s->list[i];
    s->count = kept;
}

static void join_forwards(lr_segments *s, bool contiguous)
{
    size_t kept = 0;
    bool previous = false;
    for (size_t i = 0; i < s->count; i++) {
        lr_segment segment = s->list[i];
        bool match = segment.id != 0;
        bool join = contiguous ? match == previous : match && !previous;
        if (join && kept > 0)
            s->list[kept - 1].end = segment.end;
        else
            s->list[kept++] = segment;
        previous = match;
    }
    s->count = kept;
}

static void join_backwards(lr_segments *s)
{
    size_t first = s->count;
    bool previous = false;
    for (size_t i = s->count; i-- > 0;) {
        lr_segment segment = s->list[i];
        bool match = segment.id != 0;
        if (match && !previous && first < s->count)
            s->list[first].begin = segment.begin;
        else
            s->list[--first] = segment;
        previous = match;
    }
    s->count -= first;
    if (first > 0) memmove(s->list, s->list + first, s->count * sizeof *s->list);
}

static lr_status split_piece(lr_segments *out, const lr_piece *piece, const lr_pretokenizer *p,
                             lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(find_matches(out, piece, p, err));
    switch (p->behavior) {
    case LR_SPLIT_REMOVED:
        remove_matches(out);
        break;
    case LR_SPLIT_ISOLATED:
        break;
    case LR_SPLIT_MERGED_WITH_PREVIOUS:
    case LR_SPLIT_CONTIGUOUS:
        join_forwards(out, p->behavior == LR_SPLIT_CONTIGUOUS);
        break;
    case LR_SPLIT_MERGED_WITH_NEXT:
        join_backwards(out);
        break;
    }
done:
    return st;
}

/* ------------------------------------------------------------------ Metaspace */

/* Spaces become the replacement, one is put before the piece as the scheme says. */
static lr_status metaspace(lr_piece *piece, lr_buffer buffers[2], const lr_pretokenizer *p,
                           lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(lr_piece_replace(piece, &buffers[0], " ", 1, &p->pattern, err));
    bool begins = piece->bytes >= p->pattern.bytes &&
                  memcmp(piece->text, p->pattern.data, p->pattern.bytes) == 0;
    bool wanted =
        p->prepend == LR_PREPEND_ALWAYS || (p->prepend == LR_PREPEND_FIRST && piece->at_origin);
    if (!begins && wanted) LR_TRY(lr_piece_prepend(piece, &buffers[1], &p->pattern, err));
done:
    return st;
}

/* ------------------------------------------------------------------ all of them */

lr_status lr_encode_piece(const lr_tokenizer *t, lr_scratch *scratch, const lr_piece *piece,
                          size_t level, lr_ids *ids, lr_error *err)
{
    lr_status st = LR_OK;
    if (level == t->n_pretokenizers)
        return lr_encode_bpe(t, scratch, piece->text, piece->bytes, ids, err);
    const lr_pretokenizer *p = &t->pretokenizers[level];
    lr_segments *cuts = &scratch->levels[level].segments;
    lr_piece current = *piece;
    if (p->kind == LR_PRETOKENIZE_METASPACE)
        LR_TRY(metaspace(&current, scratch->levels[level].text, p, err));
    if (p->kind == LR_PRETOKENIZE_METASPACE && !p->split)
        return lr_encode_piece(t, scratch, &current, level + 1, ids, err);
    LR_TRY(split_piece(cuts, &current, p, err));
    for (size_t i = 0; i < cuts->count; i++) {
        lr_piece slice = lr_piece_slice(&current, cuts->list[i].begin, cuts->list[i].end);
        LR_TRY(lr_encode_piece(t, scratch, &slice, level + 1, ids, err));
    }
done:
    return st;
}
