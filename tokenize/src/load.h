/* From the file to the parts: what config.c and postprocessor.c make of the small ones. */
#ifndef LR_TOKENIZE_LOAD_H
#define LR_TOKENIZE_LOAD_H

#include <jansson.h>

#include "tokenizer.h"

/* Where a value stands, for messages: "pre_tokenizer.pretokenizers[1]". */
typedef struct lr_place {
    char text[160];
} lr_place;
lr_place lr_place_of(const char *text);
lr_place lr_place_item(const lr_place *parent, const char *key, size_t index);

/* LR_E_UNSUPPORTED when the object holds a key (with a value other than null) outside the
 * NULL-terminated list: an option we do not know must not be passed over in silence. */
lr_status lr_config_check_keys(const json_t *object, const lr_place *place, lr_error *err, ...);
/* A string member. LR_E_FORMAT when it is missing or no string. */
lr_status lr_config_string(const json_t **out, const json_t *object, const char *key,
                           const lr_place *place, lr_error *err);
/* A true/false member; absent or null: `fallback`. */
lr_status lr_tokenizer_config_bool(bool *out, const json_t *object, const char *key, bool fallback,
                                   const lr_place *place, lr_error *err);

lr_status lr_config_normalizer(lr_tokenizer *tokenizer, const json_t *normalizer,
                               const lr_place *place, lr_error *err);
lr_status lr_config_pretokenizer(lr_tokenizer *tokenizer, const json_t *pretokenizer,
                                 const lr_place *place, lr_error *err);
/* After the vocabulary has been indexed. */
lr_status lr_config_model(lr_tokenizer *tokenizer, const json_t *model, lr_error *err);
/* After the vocabulary and the normalizer. */
lr_status lr_config_added_tokens(lr_tokenizer *tokenizer, const json_t *list, lr_error *err);
lr_status lr_config_postprocessor(lr_tokenizer *tokenizer, const json_t *processor,
                                  const lr_place *place, lr_error *err);

#endif
