/* The sequences of single inputs: a text, a picture, a sound. */
#include "builder.h"

/* The template's first and last token are spans of their own: bos and eos. */
lr_status lr_layout_text(lr_layout **out, const lr_tokenizer *tokenizer, const char *text,
                         size_t bytes, lr_error *err)
{
    lr_status st = LR_OK;
    lr_builder builder = {0};
    lr_ids ids = {0};
    *out = NULL;
    bool bos = tokenizer->template_items[0] != LR_TEMPLATE_SEQUENCE;
    bool eos = tokenizer->template_items[tokenizer->n_template_items - 1] != LR_TEMPLATE_SEQUENCE;
    LR_TRY(lr_tokenizer_encode(tokenizer, text, bytes, true, &ids, err));
    if (ids.count == 0) LR_FAIL(LR_E_USAGE, "the text has no tokens");
    LR_TRY(lr_builder_init(&builder, 0, 0, err));
    LR_TRY(lr_builder_open_window(&builder, err));
    size_t n = ids.count - bos - eos;
    if (bos) LR_TRY(lr_builder_span(&builder, LR_SPAN_BOS, ids.ids, 1, err));
    if (n > 0) LR_TRY(lr_builder_span(&builder, LR_SPAN_TEXT, ids.ids + bos, n, err));
    if (eos) LR_TRY(lr_builder_span(&builder, LR_SPAN_EOS, ids.ids + ids.count - 1, 1, err));
    *out = builder.layout;
    builder.layout = NULL;
done:
    lr_ids_free(&ids);
    lr_builder_free(&builder);
    return st;
}

static lr_status one_block(lr_layout **out, const lr_sequence_rules *rules, const lr_block *block,
                           lr_error *err)
{
    lr_status st = LR_OK;
    lr_builder builder = {0};
    *out = NULL;
    if (block->soft_count == 0)
        LR_FAIL(LR_E_USAGE, "a %s without soft tokens",
                block->kind == LR_SPAN_FRAME ? "picture" : "sound");
    LR_TRY(lr_builder_init(&builder, rules->bos, rules->eos, err));
    builder.soft_only = rules->soft_only;
    LR_TRY(lr_builder_block(&builder, block, err));
    LR_TRY(lr_builder_finish(&builder, out, err));
done:
    lr_builder_free(&builder);
    return st;
}

lr_status lr_layout_picture(lr_layout **out, const lr_sequence_rules *rules, uint64_t soft_tokens,
                            int width, int height, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(one_block(out, rules,
                     &(lr_block){.kind = LR_SPAN_FRAME,
                                 .stamp = LR_TIME_NONE,
                                 .begin = rules->begin_image,
                                 .soft = rules->image_soft,
                                 .end = rules->end_image,
                                 .soft_count = soft_tokens},
                     err));
    (*out)->n_frames = (*out)->n_grid = 1;
    (*out)->frame_parts = rules->frame_parts > 1 ? (uint64_t)rules->frame_parts : 1;
    (*out)->frame_width = width;
    (*out)->frame_height = height;
    (*out)->frame_soft = soft_tokens;
done:
    return st;
}

lr_status lr_layout_sound(lr_layout **out, const lr_sequence_rules *rules, uint64_t soft_tokens,
                          lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(one_block(out, rules,
                     &(lr_block){.kind = LR_SPAN_SOUND,
                                 .stamp = LR_TIME_NONE,
                                 .begin = rules->begin_audio,
                                 .soft = rules->audio_soft,
                                 .end = rules->end_audio,
                                 .soft_count = soft_tokens},
                     err));
    (*out)->n_sound_tokens = soft_tokens;
done:
    return st;
}
