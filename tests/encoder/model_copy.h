/* Copies of a reference checkpoint in which a file, a value or a tensor is another, and opening them.
 * Every function fails the running test itself. */
#ifndef LR_TESTS_ENCODER_MODEL_COPY_H
#define LR_TESTS_ENCODER_MODEL_COPY_H

#include "fixture.h"

/* A temporary directory whose files are links to a fixture's, to be replaced one by one. */
char *model_copy(const char *folder);

json_t *model_copy_config(const char *dir);
void model_copy_replace_config(const char *dir, const json_t *config);
/* Sets config[section][key] (section "" = top; value "-" removes the key) to JSON text. */
void model_copy_edit(json_t *config, const char *section, const char *key, const char *value);

/* The fixture's tensors with one changed, written as the directory's model.safetensors. */
void model_copy_rewrite(const char *folder, const char *dir, const char *name,
                        void (*change)(lr_named_tensor *tensor));

/* Opens it with all towers and closes it again. */
lr_status model_copy_open(const char *dir, lr_error *err);

#endif
