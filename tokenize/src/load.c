/* tokenizer.json: vocabulary and merges go straight into the tables while the file is walked; the
 * rest, which is small, becomes a jansson tree. */
#include "load.h"

#include <string.h>

#include "stream.h"

#define MAX_DEPTH 32
#define MAX_KEY 256

typedef enum reader_mode { IN_TREE, IN_VOCAB, IN_MERGES, IN_PAIR } reader_mode;

typedef struct reader {
    lr_tokenizer *tokenizer;
    lr_error *err;
    lr_status st;
    reader_mode mode;
    bool second_pass;      /* only the merges are wanted */
    bool merges_postponed; /* they came before the vocabulary */
    bool vocab_seen, merges_seen;
    json_t *root;
    json_t *stack[MAX_DEPTH]; /* borrowed from root */
    char keys[MAX_DEPTH][MAX_KEY];
    size_t depth;

    size_t n_merges;  /* as many as the file has shown */
    int merge_form;   /* 0: none yet, 1: "a b", 2: ["a", "b"] */
    size_t pair_held; /* strings of this pair that have come */
    const lr_vocab_entry *pair[2];
    char *joined; /* text of a merge's result */
    size_t joined_capacity;
} reader;

static int stop(reader *r, lr_status st)
{
    r->st = st;
    return 0;
}

/* ------------------------------------------------------------------ merges */

static int find_part(reader *r, const lr_vocab_entry **out, const char *text, size_t bytes)
{
    *out = lr_vocab_find(&r->tokenizer->vocab, text, bytes);
    if (*out) return 1;
    return stop(r,
                lr_fail(r->err, LR_E_FORMAT, "model.merges[%zu]: \"%.*s\" is not in the vocabulary",
                        r->n_merges, (int)(bytes < 64 ? bytes : 64), text));
}

static int add_merge(reader *r)
{
    const lr_vocab *vocab = &r->tokenizer->vocab;
    const lr_vocab_entry *a = r->pair[0], *b = r->pair[1];
    size_t bytes = (size_t)a->bytes + b->bytes;
    lr_status st = LR_GROW(&r->joined, &r->joined_capacity, bytes + 1, "merge", r->err);
    if (st != LR_OK) return stop(r, st);
    memcpy(r->joined, vocab->text + a->offset, a->bytes);
    memcpy(r->joined + a->bytes, vocab->text + b->offset, b->bytes);
    const lr_vocab_entry *result;
    if (!find_part(r, &result, r->joined, bytes)) return 0;
    st = lr_merges_add(&r->tokenizer->merges, (uint32_t)a->id, (uint32_t)b->id,
                       (uint32_t)result->id, r->err);
    if (st != LR_OK) return stop(r, st);
    r->n_merges++;
    return 1;
}

static int merge_form_is(reader *r, int form)
{
    if (r->merge_form == 0) r->merge_form = form;
    if (r->merge_form == form) return 1;
    return stop(r,
                lr_fail(r->err, LR_E_FORMAT,
                        "model.merges[%zu]: pairs and \"a b\" strings stand mixed", r->n_merges));
}

/* The older form. Lines that begin with "#version" are passed over, as in the library. */
static int merge_line(reader *r, const char *text, size_t bytes)
{
    if (!merge_form_is(r, 1)) return 0;
    if (bytes >= 8 && memcmp(text, "#version", 8) == 0) return 1;
    const char *space = memchr(text, ' ', bytes);
    size_t left = space ? (size_t)(space - text) : 0;
    if (!space || memchr(space + 1, ' ', bytes - left - 1))
        return stop(r, lr_fail(r->err, LR_E_FORMAT,
                               "model.merges[%zu]: \"%.*s\" is not two tokens and one space",
                               r->n_merges, (int)(bytes < 64 ? bytes : 64), text));
    return find_part(r, &r->pair[0], text, left) &&
           find_part(r, &r->pair[1], space + 1, bytes - left - 1) && add_merge(r);
}

static int merge_part(reader *r, const char *text, size_t bytes)
{
    if (r->pair_held == 2)
        return stop(r, lr_fail(r->err, LR_E_FORMAT, "model.merges[%zu]: more than two tokens",
                               r->n_merges));
    return find_part(r, &r->pair[r->pair_held++], text, bytes);
}

/* ------------------------------------------------------------------ vocabulary */

static int vocab_key(reader *r, const char *text, size_t bytes)
{
    if (r->second_pass) return 1;
    lr_status st = lr_vocab_add(&r->tokenizer->vocab, text, bytes, r->err);
    return st == LR_OK ? 1 : stop(r, st);
}

static int vocab_id(reader *r, const char *digits, size_t n)
{
    if (r->second_pass) return 1;
    lr_vocab *vocab = &r->tokenizer->vocab;
    lr_vocab_entry *entry = &vocab->entries[vocab->count - 1];
    int64_t id = 0;
    for (size_t i = 0; i < n && id < LR_MAX_TOKEN_ID; i++)
        id = digits[i] < '0' || digits[i] > '9' ? INT64_MAX : id * 10 + (digits[i] - '0');
    if (id >= LR_MAX_TOKEN_ID)
        return stop(r, lr_fail(r->err, LR_E_FORMAT, "model.vocab: \"%.*s\" has the id %.*s",
                               (int)(entry->bytes < 64 ? entry->bytes : 64),
                               vocab->text + entry->offset, (int)(n < 64 ? n : 64), digits));
    entry->id = (int32_t)id;
    return 1;
}

static int vocab_end(reader *r)
{
    r->mode = IN_TREE;
    if (r->second_pass) return 1;
    lr_status st = lr_vocab_index(&r->tokenizer->vocab, "model.vocab", r->err);
    return st == LR_OK ? 1 : stop(r, st);
}

static int wrong_kind(reader *r)
{
    if (r->mode == IN_VOCAB)
        return stop(r, lr_fail(r->err, LR_E_FORMAT, "model.vocab: an id is not a number"));
    return stop(r, lr_fail(r->err, LR_E_FORMAT,
                           "model.merges[%zu] is neither a string nor a pair of strings",
                           r->n_merges));
}

/* ------------------------------------------------------------------ the tree */

static int tree_add(reader *r, json_t *value)
{
    if (!value) return stop(r, lr_fail(r->err, LR_E_NOMEM, "out of memory: JSON value"));
    if (r->depth == 0) {
        r->root = value;
        return 1;
    }
    json_t *parent = r->stack[r->depth - 1];
    if (json_is_array(parent)) {
        if (json_array_append_new(parent, value) == 0) return 1;
    } else {
        const char *key = r->keys[r->depth - 1];
        if (json_object_get(parent, key)) {
            json_decref(value);
            return stop(r, lr_fail(r->err, LR_E_FORMAT, "the key \"%s\" stands there twice", key));
        }
        if (json_object_set_new_nocheck(parent, key, value) == 0) return 1;
    }
    return stop(r, lr_fail(r->err, LR_E_NOMEM, "out of memory: JSON value"));
}

static int tree_open(reader *r, json_t *container)
{
    if (r->depth == MAX_DEPTH) {
        json_decref(container);
        return stop(r, lr_fail(r->err, LR_E_FORMAT, "nested more than %d deep", MAX_DEPTH));
    }
    if (!tree_add(r, container)) return 0;
    r->stack[r->depth] = container;
    r->keys[r->depth++][0] = '\0';
    return 1;
}

static bool at_model_member(const reader *r, const char *key)
{
    return r->mode == IN_TREE && r->depth == 2 && json_is_object(r->stack[1]) &&
           strcmp(r->keys[0], "model") == 0 && strcmp(r->keys[1], key) == 0;
}

/* ------------------------------------------------------------------ callbacks */

static int on_null(void *context)
{
    reader *r = context;
    return r->mode == IN_TREE ? tree_add(r, json_null()) : wrong_kind(r);
}

static int on_boolean(void *context, int value)
{
    reader *r = context;
    return r->mode == IN_TREE ? tree_add(r, json_boolean(value)) : wrong_kind(r);
}

static int on_number(void *context, const char *text, size_t bytes)
{
    reader *r = context;
    if (r->mode == IN_VOCAB) return vocab_id(r, text, bytes);
    if (r->mode != IN_TREE) return wrong_kind(r);
    json_error_t error;
    json_t *number = json_loadb(text, bytes, JSON_DECODE_ANY, &error);
    if (!number && json_error_code(&error) != json_error_out_of_memory)
        return stop(r, lr_fail(r->err, LR_E_FORMAT, "the number %.*s is out of range",
                               (int)(bytes < 64 ? bytes : 64), text));
    return tree_add(r, number);
}

static int on_string(void *context, const unsigned char *data, size_t bytes)
{
    reader *r = context;
    const char *text = (const char *)data;
    switch (r->mode) {
    case IN_TREE:
        return tree_add(r, json_stringn_nocheck(text, bytes));
    case IN_MERGES:
        return r->merges_postponed ? 1 : merge_line(r, text, bytes);
    case IN_PAIR:
        return r->merges_postponed ? 1 : merge_part(r, text, bytes);
    default:
        return wrong_kind(r);
    }
}

static int on_map_key(void *context, const unsigned char *data, size_t bytes)
{
    reader *r = context;
    if (r->mode == IN_VOCAB) return vocab_key(r, (const char *)data, bytes);
    if (bytes >= MAX_KEY || memchr(data, '\0', bytes))
        return stop(r, lr_fail(r->err, LR_E_FORMAT, "a key of %zu bytes, or with a NUL", bytes));
    memcpy(r->keys[r->depth - 1], data, bytes);
    r->keys[r->depth - 1][bytes] = '\0';
    return 1;
}

static int seen_twice(reader *r, bool *seen, const char *what)
{
    if (*seen) return stop(r, lr_fail(r->err, LR_E_FORMAT, "%s stands there twice", what));
    *seen = true;
    return 1;
}

static int on_start_map(void *context)
{
    reader *r = context;
    if (r->mode != IN_TREE) return wrong_kind(r);
    if (!at_model_member(r, "vocab")) return tree_open(r, json_object());
    r->mode = IN_VOCAB;
    return seen_twice(r, &r->vocab_seen, "model.vocab");
}

static int on_end_map(void *context)
{
    reader *r = context;
    if (r->mode == IN_VOCAB) return vocab_end(r);
    r->depth--;
    return 1;
}

static int on_start_array(void *context)
{
    reader *r = context;
    if (r->mode == IN_MERGES) {
        r->mode = IN_PAIR;
        r->pair_held = 0;
        return r->merges_postponed || merge_form_is(r, 2);
    }
    if (r->mode != IN_TREE) return wrong_kind(r);
    if (!at_model_member(r, "merges")) return tree_open(r, json_array());
    r->mode = IN_MERGES;
    r->merges_postponed = !r->vocab_seen && !r->second_pass;
    return seen_twice(r, &r->merges_seen, "model.merges");
}

static int on_end_array(void *context)
{
    reader *r = context;
    if (r->mode == IN_MERGES) {
        r->mode = IN_TREE;
    } else if (r->mode == IN_PAIR) {
        r->mode = IN_MERGES;
        if (r->merges_postponed) return 1;
        if (r->pair_held != 2)
            return stop(r, lr_fail(r->err, LR_E_FORMAT, "model.merges[%zu]: fewer than two tokens",
                                   r->n_merges));
        return add_merge(r);
    } else {
        r->depth--;
    }
    return 1;
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_start_map,
    .yajl_map_key = on_map_key,
    .yajl_end_map = on_end_map,
    .yajl_start_array = on_start_array,
    .yajl_end_array = on_end_array,
};

/* ------------------------------------------------------------------ one file */

static lr_status walk(reader *r, const char *data, size_t bytes, lr_error *err)
{
    lr_status st = lr_json_walk(data, bytes, &callbacks, r, err);
    return st != LR_OK ? st : r->st;
}

/* The merges stood before the vocabulary: walk again, for them alone. */
static lr_status walk_again(reader *first, const char *data, size_t bytes, lr_error *err)
{
    lr_status st = LR_OK;
    reader *r = NULL;
    LR_TRY(LR_NEW(&r, 1, "JSON reader", err));
    r->tokenizer = first->tokenizer;
    r->err = err;
    r->second_pass = true;
    LR_TRY(walk(r, data, bytes, err));
done:
    if (r) {
        json_decref(r->root);
        lr_free(r->joined);
    }
    lr_free(r);
    return st;
}

static lr_status check_version(const json_t *root, lr_error *err)
{
    const json_t *version = json_object_get(root, "version");
    if (version && (!json_is_string(version) || strcmp(json_string_value(version), "1.0") != 0))
        return lr_fail(err, LR_E_UNSUPPORTED, "version: \"%s\" is not supported (1.0 is)",
                       json_is_string(version) ? json_string_value(version) : "?");
    return LR_OK;
}

static lr_status take_parts(reader *r, lr_error *err)
{
    lr_status st = LR_OK;
    lr_tokenizer *t = r->tokenizer;
    lr_place normalizer = lr_place_of("normalizer"), pretokenizer = lr_place_of("pre_tokenizer"),
             postprocessor = lr_place_of("post_processor");
    if (!json_is_object(r->root)) LR_FAIL(LR_E_FORMAT, "is not a JSON object");
    LR_TRY(check_version(r->root, err));
    const json_t *model = json_object_get(r->root, "model");
    if (!json_is_object(model)) LR_FAIL(LR_E_FORMAT, "has no model");
    LR_TRY(lr_config_model(t, model, err));
    if (!r->vocab_seen) LR_FAIL(LR_E_FORMAT, "model.vocab is missing or not an object");
    if (!r->merges_seen) LR_FAIL(LR_E_FORMAT, "model.merges is missing or not a list");
    LR_TRY(lr_merges_index(&t->merges, err));
    LR_TRY(lr_config_normalizer(t, json_object_get(r->root, "normalizer"), &normalizer, err));
    LR_TRY(
        lr_config_pretokenizer(t, json_object_get(r->root, "pre_tokenizer"), &pretokenizer, err));
    LR_TRY(lr_config_postprocessor(t, json_object_get(r->root, "post_processor"), &postprocessor,
                                   err));
    LR_TRY(lr_config_added_tokens(t, json_object_get(r->root, "added_tokens"), err));
    /* `truncation` and `padding` say how batches are cut and filled; the reference's own call
     * switches truncation off, and one text needs no padding: both are passed over. */
done:
    return st;
}

lr_status lr_tokenizer_load(lr_tokenizer **out, const char *path, lr_error *err)
{
    lr_status st = LR_OK;
    lr_tokenizer *tokenizer = NULL;
    reader *r = NULL;
    char *data = NULL;
    size_t bytes = 0;
    *out = NULL;
    LR_TRY(LR_NEW(&tokenizer, 1, "tokenizer", err));
    tokenizer->vocab.max_id = tokenizer->added_vocab.max_id = -1;
    LR_TRY(LR_NEW(&r, 1, "JSON reader", err));
    r->tokenizer = tokenizer;
    r->err = err;
    LR_TRY(lr_json_read(&data, &bytes, path, err));
    LR_TRY(walk(r, data, bytes, err));
    if (r->merges_postponed && r->vocab_seen) LR_TRY(walk_again(r, data, bytes, err));
    LR_TRY(take_parts(r, err));
    *out = tokenizer;
    tokenizer = NULL;
done:
    if (st != LR_OK) lr_error_context(err, "%s", path);
    if (r) {
        json_decref(r->root);
        lr_free(r->joined);
    }
    lr_free(r);
    lr_free(data);
    lr_tokenizer_free(tokenizer);
    return st;
}
