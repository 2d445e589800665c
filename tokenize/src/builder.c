#include "builder.h"

#include <stdio.h>
#include <string.h>

lr_status lr_builder_init(lr_builder *b, int32_t bos, int32_t eos, lr_error *err)
{
    *b = (lr_builder){.bos = bos, .eos = eos};
    return LR_NEW(&b->layout, 1, "layout", err);
}

void lr_builder_free(lr_builder *b)
{
    lr_layout_free(b->layout);
    lr_encode_scratch_free(&b->scratch);
    for (size_t i = 0; i < LR_STAMP_CACHE; i++) {
        lr_ids_free(&b->stamps[0][i].ids);
        lr_ids_free(&b->stamps[1][i].ids);
    }
    *b = (lr_builder){0};
}

lr_status lr_builder_reserve(lr_builder *b, uint64_t tokens, lr_error *err)
{
    lr_status st = LR_OK;
    if (tokens > SIZE_MAX) LR_FAIL(LR_E_NOMEM, "out of memory: token sequence");
    LR_TRY(LR_GROW(&b->layout->ids, &b->ids_capacity, (size_t)tokens, "token sequence", err));
done:
    return st;
}

/* n tokens more; *ids: where they go. */
static lr_status extend(lr_builder *b, uint64_t n, int32_t **ids, lr_error *err)
{
    lr_status st = LR_OK;
    uint64_t end;
    if (__builtin_add_overflow(b->layout->n_tokens, n, &end))
        LR_FAIL(LR_E_NOMEM, "out of memory: token sequence");
    LR_TRY(lr_builder_reserve(b, end, err));
    *ids = b->layout->ids + b->layout->n_tokens;
    b->layout->n_tokens = end;
    b->layout->windows[b->layout->n_windows - 1].count += n;
done:
    return st;
}

static lr_status push_span(lr_builder *b, const lr_span *span, lr_error *err)
{
    lr_status st = LR_OK;
    lr_layout *layout = b->layout;
    LR_TRY(LR_GROW(&layout->spans, &b->spans_capacity, layout->n_spans + 1, "spans", err));
    layout->spans[layout->n_spans++] = *span;
    layout->windows[layout->n_windows - 1].n_spans++;
done:
    return st;
}

lr_status lr_builder_span(lr_builder *b, lr_span_kind kind, const int32_t *ids, size_t n,
                          lr_error *err)
{
    lr_status st = LR_OK;
    int32_t *to = NULL;
    uint64_t first = b->layout->n_tokens;
    LR_TRY(extend(b, n, &to, err));
    if (n) memcpy(to, ids, n * sizeof *ids);
    LR_TRY(push_span(b,
                     &(lr_span){.kind = kind,
                                .time = LR_TIME_NONE,
                                .stamp = LR_TIME_NONE,
                                .first = first,
                                .count = n,
                                .soft_first = first},
                     err));
done:
    return st;
}

lr_status lr_builder_open_window(lr_builder *b, lr_error *err)
{
    lr_status st = LR_OK;
    lr_layout *layout = b->layout;
    LR_TRY(LR_GROW(&layout->windows, &b->windows_capacity, layout->n_windows + 1, "windows", err));
    layout->windows[layout->n_windows++] =
        (lr_window){.first = layout->n_tokens, .first_span = layout->n_spans};
done:
    return st;
}

/* ------------------------------------------------------------------ blocks */

/* "00:01 " at the head of a window, " 00:01 " after another block. The markers around it are cut
 * out of the text before the BPE runs, so that these are the ids of the whole text tokenized at
 * once. */
static lr_status stamp_ids(lr_builder *b, int64_t second, bool separated, const lr_ids **out,
                           lr_error *err)
{
    lr_status st = LR_OK;
    lr_cached_stamp *cached = &b->stamps[separated][(uint64_t)second % LR_STAMP_CACHE];
    *out = &cached->ids;
    if (cached->filled && cached->second == second) return LR_OK;
    char text[40];
    int n = snprintf(text, sizeof text, "%s%02lld:%02d ", separated ? " " : "",
                     (long long)(second / 60), (int)(second % 60));
    cached->ids.count = 0;
    cached->filled = false;
    LR_TRY(
        lr_encode_text(b->tokenizer, &b->scratch, text, (size_t)n, !separated, &cached->ids, err));
    cached->second = second;
    cached->filled = true;
done:
    return st;
}

static const char *block_name(const lr_block *block)
{
    return block->kind == LR_SPAN_FRAME ? "frame" : "second of sound";
}

/* Opens a window where there is none or the block does not fit; *stamp: its ids in that window. */
static lr_status make_room(lr_builder *b, const lr_block *block, const lr_ids **stamp,
                           lr_error *err)
{
    static const lr_ids no_ids = {0};
    lr_status st = LR_OK;
    lr_layout *layout = b->layout;
    *stamp = &no_ids;
    for (;;) {
        if (layout->n_windows == 0 || layout->windows[layout->n_windows - 1].n_spans == 0) {
            if (layout->n_windows == 0) LR_TRY(lr_builder_open_window(b, err));
            if (!b->soft_only) LR_TRY(lr_builder_span(b, LR_SPAN_BOS, &b->bos, 1, err));
        }
        const lr_window *window = &layout->windows[layout->n_windows - 1];
        bool separated = window->n_spans > (b->soft_only ? 0 : 1);
        if (block->stamp != LR_TIME_NONE)
            LR_TRY(stamp_ids(b, lr_time_round_even(block->stamp), separated, stamp, err));
        uint64_t with_eos, most = b->context ? b->context : UINT64_MAX;
        uint64_t others = (*stamp)->count + (b->soft_only ? 0 : 3);
        if (__builtin_add_overflow(block->soft_count, others, &with_eos) ||
            __builtin_add_overflow(with_eos, window->count, &with_eos))
            LR_FAIL(LR_E_NOMEM, "out of memory: token sequence");
        if (with_eos <= most || (b->soft_only && !separated)) return LR_OK;
        if (!separated)
            LR_FAIL(LR_E_USAGE,
                    "a window of %llu tokens cannot hold %s %lld, which needs %llu with its ends",
                    (unsigned long long)b->context, block_name(block), (long long)block->index,
                    (unsigned long long)with_eos);
        if (!b->soft_only) LR_TRY(lr_builder_span(b, LR_SPAN_EOS, &b->eos, 1, err));
        LR_TRY(lr_builder_open_window(b, err));
    }
done:
    return st;
}

lr_status lr_builder_block(lr_builder *b, const lr_block *block, lr_error *err)
{
    lr_status st = LR_OK;
    const lr_ids *stamp = NULL;
    int32_t *to = NULL;
    LR_TRY(make_room(b, block, &stamp, err));
    const bool marked = !b->soft_only;
    uint64_t first = b->layout->n_tokens, count = stamp->count + (marked ? 2 : 0) + block->soft_count;
    LR_TRY(extend(b, count, &to, err));
    if (stamp->count) memcpy(to, stamp->ids, stamp->count * sizeof *to);
    to += stamp->count;
    if (marked) *to++ = block->begin;
    for (uint64_t i = 0; i < block->soft_count; i++)
        *to++ = block->soft;
    if (marked) *to = block->end;
    LR_TRY(push_span(b,
                     &(lr_span){.kind = block->kind,
                                .index = block->index,
                                .time = block->time,
                                .stamp = block->stamp,
                                .first = first,
                                .count = count,
                                .soft_first = first + stamp->count + marked,
                                .soft_count = block->soft_count,
                                .source = block->source},
                     err));
done:
    return st;
}

lr_status lr_builder_finish(lr_builder *b, lr_layout **out, lr_error *err)
{
    lr_status st = b->soft_only ? LR_OK : lr_builder_span(b, LR_SPAN_EOS, &b->eos, 1, err);
    if (st != LR_OK) return st;
    *out = b->layout;
    b->layout = NULL;
    return LR_OK;
}
