/* The small parts of tokenizer.json. What is not supported is refused by its name and place. */
#include <stdio.h>
#include <string.h>

#include "added.h"
#include "load.h"

/* ------------------------------------------------------------------ helpers */

lr_place lr_place_of(const char *text)
{
    lr_place place;
    (void)snprintf(place.text, sizeof place.text, "%s", text);
    return place;
}

lr_place lr_place_item(const lr_place *parent, const char *key, size_t index)
{
    lr_place place;
    (void)snprintf(place.text, sizeof place.text, "%.100s.%.20s[%zu]", parent->text, key, index);
    return place;
}

lr_status lr_config_check_keys(const json_t *object, const lr_place *place, lr_error *err, ...)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (json_is_null(value)) continue;
        va_list known;
        va_start(known, err);
        const char *name = va_arg(known, const char *);
        while (name && strcmp(name, key) != 0)
            name = va_arg(known, const char *);
        va_end(known);
        if (!name)
            return lr_fail(err, LR_E_UNSUPPORTED, "%s: the setting \"%s\" is not supported",
                           place->text, key);
    }
    return LR_OK;
}

lr_status lr_config_string(const json_t **out, const json_t *object, const char *key,
                           const lr_place *place, lr_error *err)
{
    *out = json_object_get(object, key);
    if (json_is_string(*out)) return LR_OK;
    return lr_fail(err, LR_E_FORMAT, "%s.%s is not a string", place->text, key);
}

lr_status lr_tokenizer_config_bool(bool *out, const json_t *object, const char *key, bool fallback,
                                   const lr_place *place, lr_error *err)
{
    const json_t *value = json_object_get(object, key);
    *out = fallback;
    if (!value || json_is_null(value)) return LR_OK;
    if (!json_is_boolean(value))
        return lr_fail(err, LR_E_FORMAT, "%s.%s is neither true nor false", place->text, key);
    *out = json_is_true(value);
    return LR_OK;
}

static lr_status copy_string(lr_text *out, const json_t *string, lr_error *err)
{
    return lr_text_copy(out, json_string_value(string), json_string_length(string), err);
}

/* {"String": "..."}; the regular expressions of the library are not supported. */
static lr_status string_pattern(lr_text *out, const json_t *object, const lr_place *place,
                                lr_error *err)
{
    const json_t *pattern = json_object_get(object, "pattern");
    const json_t *string = json_object_get(pattern, "String");
    if (json_object_get(pattern, "Regex"))
        return lr_fail(err, LR_E_UNSUPPORTED,
                       "%s: a regular expression as pattern is not supported", place->text);
    if (!json_is_string(string))
        return lr_fail(err, LR_E_FORMAT, "%s.pattern is not {\"String\": ...}", place->text);
    if (json_string_length(string) == 0)
        return lr_fail(err, LR_E_UNSUPPORTED, "%s: an empty pattern is not supported", place->text);
    return copy_string(out, string, err);
}

/* The "type" of a part. */
static lr_status type_of(const char **out, const json_t *object, const lr_place *place,
                         lr_error *err)
{
    lr_status st = LR_OK;
    const json_t *type;
    if (!json_is_object(object)) LR_FAIL(LR_E_FORMAT, "%s is not an object", place->text);
    LR_TRY(lr_config_string(&type, object, "type", place, err));
    *out = json_string_value(type);
done:
    return st;
}

typedef lr_status (*part_reader)(lr_tokenizer *tokenizer, const json_t *part, const lr_place *place,
                                 lr_error *err);

/* The members of a Sequence, one after another. */
static lr_status each_part(lr_tokenizer *tokenizer, const json_t *object, const char *key,
                           const lr_place *place, part_reader read_part, lr_error *err)
{
    lr_status st = LR_OK;
    const json_t *list = json_object_get(object, key);
    LR_TRY(lr_config_check_keys(object, place, err, "type", key, NULL));
    if (!json_is_array(list)) LR_FAIL(LR_E_FORMAT, "%s.%s is not a list", place->text, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        lr_place item = lr_place_item(place, key, i);
        LR_TRY(read_part(tokenizer, json_array_get(list, i), &item, err));
    }
done:
    return st;
}

/* ------------------------------------------------------------------ normalizer */

static lr_status add_normalizer(lr_tokenizer *t, const json_t *object, const char *type,
                                const lr_place *place, lr_error *err)
{
    lr_status st = LR_OK;
    const json_t *content;
    if (t->n_normalizers == LR_MAX_STAGES)
        LR_FAIL(LR_E_UNSUPPORTED, "%s: more than %d normalizers", place->text, LR_MAX_STAGES);
    lr_normalizer *n = &t->normalizers[t->n_normalizers];
    if (strcmp(type, "Replace") == 0) {
        n->kind = LR_NORMALIZE_REPLACE;
        LR_TRY(lr_config_check_keys(object, place, err, "type", "pattern", "content", NULL));
        LR_TRY(string_pattern(&n->pattern, object, place, err));
        LR_TRY(lr_config_string(&content, object, "content", place, err));
    } else {
        n->kind = LR_NORMALIZE_PREPEND;
        LR_TRY(lr_config_check_keys(object, place, err, "type", "prepend", NULL));
        LR_TRY(lr_config_string(&content, object, "prepend", place, err));
    }
    LR_TRY(copy_string(&n->content, content, err));
    t->n_normalizers++;
done:
    return st;
}

lr_status lr_config_normalizer(lr_tokenizer *tokenizer, const json_t *normalizer,
                               const lr_place *place, lr_error *err)
{
    lr_status st = LR_OK;
    const char *type = NULL;
    if (!normalizer || json_is_null(normalizer)) return LR_OK;
    LR_TRY(type_of(&type, normalizer, place, err));
    if (strcmp(type, "Sequence") == 0)
        return each_part(tokenizer, normalizer, "normalizers", place, lr_config_normalizer, err);
    if (strcmp(type, "Replace") == 0 || strcmp(type, "Prepend") == 0)
        return add_normalizer(tokenizer, normalizer, type, place, err);
    LR_FAIL(LR_E_UNSUPPORTED, "%s: the normalizer \"%s\" is not supported", place->text, type);
done:
    return st;
}

/* ------------------------------------------------------------------ pre-tokenizer */

static lr_status read_split(lr_pretokenizer *p, const json_t *object, const lr_place *place,
                            lr_error *err)
{
    static const char *const behaviors[] = {
        [LR_SPLIT_REMOVED] = "Removed",
        [LR_SPLIT_ISOLATED] = "Isolated",
        [LR_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [LR_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [LR_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    lr_status st = LR_OK;
    const json_t *behavior;
    size_t n = sizeof behaviors / sizeof behaviors[0], i = 0;
    p->kind = LR_PRETOKENIZE_SPLIT;
    LR_TRY(lr_config_check_keys(object, place, err, "type", "pattern", "behavior", "invert", NULL));
    LR_TRY(string_pattern(&p->pattern, object, place, err));
    LR_TRY(lr_tokenizer_config_bool(&p->invert, object, "invert", false, place, err));
    LR_TRY(lr_config_string(&behavior, object, "behavior", place, err));
    while (i < n && strcmp(behaviors[i], json_string_value(behavior)) != 0)
        i++;
    if (i == n)
        LR_FAIL(LR_E_UNSUPPORTED, "%s: the behavior \"%s\" is not supported", place->text,
                json_string_value(behavior));
    p->behavior = (lr_split_behavior)i;
done:
    return st;
}

static lr_status read_scheme(lr_pretokenizer *p, const json_t *object, const lr_place *place,
                             lr_error *err)
{
    lr_status st = LR_OK;
    const json_t *scheme = json_object_get(object, "prepend_scheme");
    const char *name = scheme ? json_string_value(scheme) : "always";
    bool prefix;
    if (name && strcmp(name, "always") == 0)
        p->prepend = LR_PREPEND_ALWAYS;
    else if (name && strcmp(name, "first") == 0)
        p->prepend = LR_PREPEND_FIRST;
    else if (name && strcmp(name, "never") == 0)
        p->prepend = LR_PREPEND_NEVER;
    else
        LR_FAIL(LR_E_UNSUPPORTED, "%s: the prepend_scheme \"%s\" is not supported", place->text,
                name ? name : "?");
    LR_TRY(lr_tokenizer_config_bool(&prefix, object, "add_prefix_space", true, place, err));
    if (!prefix && p->prepend != LR_PREPEND_NEVER)
        LR_FAIL(LR_E_FORMAT, "%s: add_prefix_space does not match the prepend_scheme", place->text);
done:
    return st;
}

static lr_status read_metaspace(lr_pretokenizer *p, const json_t *object, const lr_place *place,
                                lr_error *err)
{
    lr_status st = LR_OK;
    const json_t *replacement;
    p->kind = LR_PRETOKENIZE_METASPACE;
    p->behavior = LR_SPLIT_MERGED_WITH_NEXT;
    LR_TRY(lr_config_check_keys(object, place, err, "type", "replacement", "prepend_scheme",
                                "split", "add_prefix_space", "str_rep", NULL));
    LR_TRY(lr_config_string(&replacement, object, "replacement", place, err));
    size_t bytes = json_string_length(replacement);
    if (bytes == 0 || lr_utf8_size(json_string_value(replacement)) != bytes)
        LR_FAIL(LR_E_FORMAT, "%s.replacement is not one character", place->text);
    LR_TRY(copy_string(&p->pattern, replacement, err));
    LR_TRY(lr_tokenizer_config_bool(&p->split, object, "split", true, place, err));
    LR_TRY(read_scheme(p, object, place, err));
done:
    return st;
}

lr_status lr_config_pretokenizer(lr_tokenizer *t, const json_t *pretokenizer, const lr_place *place,
                                 lr_error *err)
{
    lr_status st = LR_OK;
    const char *type = NULL;
    if (!pretokenizer || json_is_null(pretokenizer)) return LR_OK;
    LR_TRY(type_of(&type, pretokenizer, place, err));
    if (strcmp(type, "Sequence") == 0)
        return each_part(t, pretokenizer, "pretokenizers", place, lr_config_pretokenizer, err);
    if (t->n_pretokenizers == LR_MAX_STAGES)
        LR_FAIL(LR_E_UNSUPPORTED, "%s: more than %d pre-tokenizers", place->text, LR_MAX_STAGES);
    lr_pretokenizer *p = &t->pretokenizers[t->n_pretokenizers];
    if (strcmp(type, "Split") == 0)
        LR_TRY(read_split(p, pretokenizer, place, err));
    else if (strcmp(type, "Metaspace") == 0)
        LR_TRY(read_metaspace(p, pretokenizer, place, err));
    else
        LR_FAIL(LR_E_UNSUPPORTED, "%s: the pre-tokenizer \"%s\" is not supported", place->text,
                type);
    t->n_pretokenizers++;
done:
    return st;
}

/* ------------------------------------------------------------------ model */

/* A setting that changes the ids and that this BPE does not have: absent, null or "" only. */
static lr_status must_be_unset(const json_t *model, const char *key, lr_error *err)
{
    const json_t *value = json_object_get(model, key);
    if (!value || json_is_null(value)) return LR_OK;
    if (json_is_string(value) && json_string_length(value) == 0) return LR_OK;
    return lr_fail(err, LR_E_UNSUPPORTED, "model.%s is set, which is not supported", key);
}

static lr_status find_unk(lr_tokenizer *t, const json_t *model, lr_error *err)
{
    const json_t *unk = json_object_get(model, "unk_token");
    t->unk_id = -1;
    if (!unk || json_is_null(unk)) return LR_OK;
    if (!json_is_string(unk)) return lr_fail(err, LR_E_FORMAT, "model.unk_token is not a string");
    const lr_vocab_entry *entry =
        lr_vocab_find(&t->vocab, json_string_value(unk), json_string_length(unk));
    if (!entry)
        return lr_fail(err, LR_E_FORMAT, "model.unk_token \"%.64s\" is not in the vocabulary",
                       json_string_value(unk));
    t->unk_id = entry->id;
    return LR_OK;
}

lr_status lr_config_model(lr_tokenizer *t, const json_t *model, lr_error *err)
{
    lr_status st = LR_OK;
    lr_place place = lr_place_of("model");
    const json_t *type = json_object_get(model, "type"),
                 *dropout = json_object_get(model, "dropout");
    if (type && !(json_is_string(type) && strcmp(json_string_value(type), "BPE") == 0))
        LR_FAIL(LR_E_UNSUPPORTED, "model.type \"%.64s\" is not supported (BPE is)",
                json_is_string(type) ? json_string_value(type) : "?");
    LR_TRY(lr_config_check_keys(model, &place, err, "type", "dropout", "unk_token",
                                "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                                "byte_fallback", "ignore_merges", "vocab", "merges", NULL));
    if (dropout && !json_is_null(dropout) &&
        !(json_is_number(dropout) && json_number_value(dropout) == 0.0))
        LR_FAIL(LR_E_UNSUPPORTED, "model.dropout is set, which is not supported");
    LR_TRY(must_be_unset(model, "continuing_subword_prefix", err));
    LR_TRY(must_be_unset(model, "end_of_word_suffix", err));
    LR_TRY(lr_tokenizer_config_bool(&t->fuse_unk, model, "fuse_unk", false, &place, err));
    LR_TRY(lr_tokenizer_config_bool(&t->byte_fallback, model, "byte_fallback", false, &place, err));
    LR_TRY(lr_tokenizer_config_bool(&t->ignore_merges, model, "ignore_merges", false, &place, err));
    LR_TRY(find_unk(t, model, err));
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        (void)snprintf(name, sizeof name, "<0x%02X>", b);
        const lr_vocab_entry *entry = lr_vocab_find(&t->vocab, name, strlen(name));
        t->byte_ids[b] = entry ? entry->id : -1;
    }
done:
    return st;
}

/* ------------------------------------------------------------------ added tokens */

/* Its id is the vocabulary's where its content stands there, else the next free one: the library
 * passes over what the file says. A file that says something else is broken. */
static lr_status read_added(lr_tokenizer *t, size_t i, const json_t *object, int32_t *next_id,
                            lr_error *err)
{
    lr_status st = LR_OK;
    lr_added_token *token = &t->added[i];
    lr_place place;
    (void)snprintf(place.text, sizeof place.text, "added_tokens[%zu]", i);
    const json_t *content, *id = json_object_get(object, "id");
    if (!json_is_object(object)) LR_FAIL(LR_E_FORMAT, "%s is not an object", place.text);
    LR_TRY(lr_config_string(&content, object, "content", &place, err));
    LR_TRY(
        lr_tokenizer_config_bool(&token->single_word, object, "single_word", false, &place, err));
    LR_TRY(lr_tokenizer_config_bool(&token->lstrip, object, "lstrip", false, &place, err));
    LR_TRY(lr_tokenizer_config_bool(&token->rstrip, object, "rstrip", false, &place, err));
    LR_TRY(lr_tokenizer_config_bool(&token->special, object, "special", false, &place, err));
    LR_TRY(lr_tokenizer_config_bool(&token->normalized, object, "normalized", !token->special,
                                    &place, err));
    LR_TRY(copy_string(&token->content, content, err));
    if (token->content.bytes == 0) LR_FAIL(LR_E_FORMAT, "%s has no content", place.text);
    const lr_vocab_entry *known =
        lr_vocab_find(&t->vocab, token->content.data, token->content.bytes);
    token->id = known ? known->id : *next_id;
    if (!known) (*next_id)++;
    if (!json_is_integer(id) || json_integer_value(id) != token->id)
        LR_FAIL(LR_E_FORMAT,
                "%s \"%.64s\": its id does not agree with the vocabulary, where it is %d",
                place.text, token->content.data, (int)token->id);
    LR_TRY(lr_vocab_add(&t->added_vocab, token->content.data, token->content.bytes, err));
    t->added_vocab.entries[i].id = token->id;
done:
    if (st != LR_OK) lr_free(token->content.data);
    if (st != LR_OK) token->content = (lr_text){0};
    return st;
}

lr_status lr_config_added_tokens(lr_tokenizer *t, const json_t *list, lr_error *err)
{
    lr_status st = LR_OK;
    int32_t next_id = (int32_t)t->vocab.count;
    size_t n = json_array_size(list);
    if (list && !json_is_null(list) && !json_is_array(list))
        LR_FAIL(LR_E_FORMAT, "added_tokens is not a list");
    if (n >= (size_t)(LR_MAX_TOKEN_ID - next_id)) LR_FAIL(LR_E_FORMAT, "too many added_tokens");
    LR_TRY(LR_NEW(&t->added, n, "added tokens", err));
    for (size_t i = 0; i < n; i++)
        LR_TRY(read_added(t, i, json_array_get(list, i), &next_id, err));
    LR_TRY(lr_vocab_index(&t->added_vocab, "added_tokens", err));
    LR_TRY(lr_added_index(t, err));
done:
    return st;
}
