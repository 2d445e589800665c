/* What the fixtures expect of the tokenizer. */
#ifndef LR_FIXTURE_IDS_H
#define LR_FIXTURE_IDS_H

#include <jansson.h>

#include "lr_test.h"

#include <longreel/tokenize.h>

/* A JSON file below tests/fixtures; json_decref it. */
json_t *fixture_json(const char *dir, const char *name);
/* A tokenizer of tests/fixtures/<dir>. */
lr_tokenizer *fixture_tokenizer(const char *dir);
/* The I32 tensor "<case>/ids" of tests/fixtures/<dir>/expected.safetensors; lr_ids_free it. */
lr_ids fixture_ids(const char *dir, const char *case_name);
/* The ids and markers of a fixture's config.json. */
lr_sequence_rules fixture_rules(const char *dir);

/* Fails naming the first difference. */
void assert_ids(const char *what, const int32_t *ids, size_t n, const int32_t *expected,
                size_t n_expected);

#endif
