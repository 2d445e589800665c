/* The post-processor, compiled into one list: ids, and the place of the text's own ids. */
#include <string.h>

#include "load.h"

typedef struct item_list {
    int32_t *items;
    size_t count, capacity;
} item_list;

static lr_status append(item_list *list, int32_t item, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(LR_GROW(&list->items, &list->capacity, list->count + 1, "template", err));
    list->items[list->count++] = item;
done:
    return st;
}

static lr_status append_special(item_list *list, const json_t *special_tokens, const char *name,
                                const lr_place *place, lr_error *err)
{
    lr_status st = LR_OK;
    const json_t *ids = json_object_get(json_object_get(special_tokens, name), "ids");
    if (!json_is_array(ids))
        LR_FAIL(LR_E_FORMAT, "%s: the token \"%.64s\" has no ids in special_tokens", place->text,
                name);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= LR_MAX_TOKEN_ID)
            LR_FAIL(LR_E_FORMAT, "%s.special_tokens: \"%.64s\" has a wrong id", place->text, name);
        LR_TRY(append(list, (int32_t)json_integer_value(id), err));
    }
done:
    return st;
}

static lr_status append_piece(item_list *list, const json_t *piece, const json_t *special_tokens,
                              const lr_place *place, lr_error *err)
{
    lr_status st = LR_OK;
    const json_t *sequence = json_object_get(piece, "Sequence");
    const json_t *special = json_object_get(piece, "SpecialToken");
    const json_t *id;
    if (json_object_size(piece) != 1 || (!sequence && !special))
        LR_FAIL(LR_E_FORMAT, "%s is neither a Sequence nor a SpecialToken", place->text);
    LR_TRY(lr_config_string(&id, sequence ? sequence : special, "id", place, err));
    if (special)
        LR_TRY(append_special(list, special_tokens, json_string_value(id), place, err));
    else if (strcmp(json_string_value(id), "A") == 0)
        LR_TRY(append(list, LR_TEMPLATE_SEQUENCE, err));
    else
        LR_FAIL(LR_E_FORMAT, "%s: there is no sequence \"%.64s\" in a single text", place->text,
                json_string_value(id));
done:
    return st;
}

static lr_status apply_template(lr_tokenizer *t, const json_t *processor, const lr_place *place,
                                lr_error *err)
{
    lr_status st = LR_OK;
    item_list list = {0};
    const json_t *single = json_object_get(processor, "single");
    /* The library takes what the first made as a pair of texts for the second, or gives up. */
    if (t->template_items) LR_FAIL(LR_E_UNSUPPORTED, "%s: more than one template", place->text);
    LR_TRY(lr_config_check_keys(processor, place, err, "type", "single", "pair", "special_tokens",
                                NULL));
    if (!json_is_array(single)) LR_FAIL(LR_E_FORMAT, "%s.single is not a list", place->text);
    for (size_t i = 0; i < json_array_size(single); i++) {
        lr_place item = lr_place_item(place, "single", i);
        LR_TRY(append_piece(&list, json_array_get(single, i),
                            json_object_get(processor, "special_tokens"), &item, err));
    }
    if (list.count == 0) LR_FAIL(LR_E_UNSUPPORTED, "%s: the template is empty", place->text);
    t->template_items = list.items;
    t->n_template_items = list.count;
    list.items = NULL;
done:
    lr_free(list.items);
    return st;
}

static lr_status apply_processor(lr_tokenizer *t, const json_t *processor, const lr_place *place,
                                 lr_error *err)
{
    lr_status st = LR_OK;
    const json_t *type, *list = json_object_get(processor, "processors");
    if (!json_is_object(processor)) LR_FAIL(LR_E_FORMAT, "%s is not an object", place->text);
    LR_TRY(lr_config_string(&type, processor, "type", place, err));
    const char *name = json_string_value(type);
    if (strcmp(name, "TemplateProcessing") == 0) return apply_template(t, processor, place, err);
    if (strcmp(name, "Sequence") != 0)
        LR_FAIL(LR_E_UNSUPPORTED, "%s: the post-processor \"%s\" is not supported", place->text,
                name);
    LR_TRY(lr_config_check_keys(processor, place, err, "type", "processors", NULL));
    if (!json_is_array(list)) LR_FAIL(LR_E_FORMAT, "%s.processors is not a list", place->text);
    for (size_t i = 0; i < json_array_size(list); i++) {
        lr_place item = lr_place_item(place, "processors", i);
        LR_TRY(apply_processor(t, json_array_get(list, i), &item, err));
    }
done:
    return st;
}

lr_status lr_config_postprocessor(lr_tokenizer *t, const json_t *processor, const lr_place *place,
                                  lr_error *err)
{
    lr_status st = LR_OK;
    if (processor && !json_is_null(processor)) LR_TRY(apply_processor(t, processor, place, err));
    if (!t->template_items) {
        LR_TRY(LR_NEW(&t->template_items, 1, "template", err));
        t->template_items[t->n_template_items++] = LR_TEMPLATE_SEQUENCE;
    }
    for (size_t i = 0; i < t->n_template_items; i++)
        if (t->template_items[i] == LR_TEMPLATE_SEQUENCE) return LR_OK;
    LR_FAIL(LR_E_UNSUPPORTED, "%s: the template leaves the text out", place->text);
done:
    return st;
}
