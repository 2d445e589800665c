/* Inside encoder/: reading a checkpoint's JSON files. Every error names the file and the key's path,
 * what the value is and what it must be. JSON null counts as absent, as in the published library. */
#ifndef LONGREEL_ENCODER_CONFIG_H
#define LONGREEL_ENCODER_CONFIG_H

#include <jansson.h>

#include <longreel/core.h>

#define LR_CONFIG_PATH 128

/* One JSON object of a file: borrowed from the parsed document, valid as long as that is. */
typedef struct lr_config {
    const json_t *object;
    const char *file;
    char path[LR_CONFIG_PATH]; /* "" at the top, "text_config." inside */
} lr_config;

/* Parses a file whose top level is an object; *document is to be freed with json_decref. A file that
 * is not there: LR_E_IO when `required`, else LR_OK with *document NULL. */
lr_status lr_config_load(const char *path, bool required, json_t **document, lr_error *err);
/* The same for a file that may be absent and whose top level is a list. */
lr_status lr_config_load_list(const char *path, json_t **document, lr_error *err);
/* What json_loadb gave: when memory ran out, jansson gives no error, a wrong one, or a document with bytes
 * missing. `failures` is lr_alloc_failures() from before it. */
lr_status lr_config_check_parsed(const json_t *document, const char *path, const json_error_t *cause,
                                 uint64_t failures, lr_error *err);
void lr_config_top(lr_config *out, const json_t *document, const char *file);

bool lr_config_has(const lr_config *config, const char *key);
/* The object under a key; *present false when absent. */
lr_status lr_config_child(const lr_config *config, const char *key, lr_config *out, bool *present,
                          lr_error *err);

/* Values with the default that an absent key has and the range that is accepted. */
lr_status lr_config_size(const lr_config *config, const char *key, size_t fallback, size_t least,
                         size_t most, size_t *out, lr_error *err);
lr_status lr_config_id(const lr_config *config, const char *key, int32_t fallback, int32_t *out,
                       lr_error *err);
lr_status lr_config_number(const lr_config *config, const char *key, double fallback, double least,
                           double most, double *out, lr_error *err);
lr_status lr_config_bool(const lr_config *config, const char *key, bool fallback, bool *out,
                         lr_error *err);
lr_status lr_config_text(const lr_config *config, const char *key, const char *fallback,
                         const char **out, lr_error *err);

/* A value of which Longreel handles one only (which is also the default): anything else is
 * LR_E_UNSUPPORTED. */
lr_status lr_config_only_text(const lr_config *config, const char *key, const char *only,
                              lr_error *err);
lr_status lr_config_only_size(const lr_config *config, const char *key, size_t only, lr_error *err);

/* LR_E_UNSUPPORTED or LR_E_MODEL: "<file>: <path><key> is <value>, <must>". */
lr_status lr_config_refuse(const lr_config *config, lr_status status, const char *key,
                           lr_error *err, const char *must, ...) LR_PRINTF(5, 6);

#endif
