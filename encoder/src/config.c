#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A configuration is a few kilobytes; anything larger is not one. */
#define LARGEST_FILE ((size_t)16 << 20)

static lr_status read_text(const char *path, FILE *file, char **out, size_t *bytes, lr_error *err)
{
    lr_status st = LR_OK;
    char *text = NULL;
    size_t used = 0, capacity = 0, got;
    do {
        LR_TRY(LR_GROW(&text, &capacity, used + 65536, "a configuration file", err));
        got = fread(text + used, 1, capacity - used, file);
        used += got;
        if (used > LARGEST_FILE) LR_FAIL(LR_E_FORMAT, "%s: larger than a configuration file can be", path);
    } while (got > 0);
    if (ferror(file)) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be read", path);
        goto done;
    }
    *out = text;
    *bytes = used;
    text = NULL;
done:
    lr_free(text);
    return st;
}

lr_status lr_config_check_parsed(const json_t *document, const char *path, const json_error_t *cause,
                                 uint64_t failures, lr_error *err)
{
    bool no_memory = cause->text[0] == '\0' || json_error_code(cause) == json_error_out_of_memory;
    if (lr_alloc_failures() != failures || (!document && no_memory))
        return lr_fail(err, LR_E_NOMEM, "out of memory: %s", path);
    if (document) return LR_OK;
    return lr_fail(err, LR_E_FORMAT, "%s: line %d: %s", path, cause->line, cause->text);
}

/* The file's value, whatever it is. */
static lr_status load_any(const char *path, bool required, json_t **document, lr_error *err)
{
    lr_status st = LR_OK;
    char *text = NULL;
    size_t bytes = 0;
    json_error_t cause;
    json_t *root = NULL;
    *document = NULL;
    FILE *file = fopen(path, "rb");
    if (!file) {
        if (errno == ENOENT && !required) return LR_OK;
        return lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be opened", path);
    }
    LR_TRY(read_text(path, file, &text, &bytes, err));
    uint64_t failures = lr_alloc_failures();
    root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &cause);
    LR_TRY(lr_config_check_parsed(root, path, &cause, failures, err));
    *document = root;
    root = NULL;
done:
    json_decref(root);
    lr_free(text);
    (void)fclose(file);
    return st;
}

static lr_status load_kind(const char *path, bool required, json_type type, json_t **document,
                           lr_error *err)
{
    lr_status st = load_any(path, required, document, err);
    if (st != LR_OK || !*document || json_typeof(*document) == type) return st;
    json_decref(*document);
    *document = NULL;
    return lr_fail(err, LR_E_FORMAT, "%s: the top level is not %s", path,
                   type == JSON_OBJECT ? "an object" : "a list");
}

lr_status lr_config_load(const char *path, bool required, json_t **document, lr_error *err)
{
    return load_kind(path, required, JSON_OBJECT, document, err);
}

lr_status lr_config_load_list(const char *path, json_t **document, lr_error *err)
{
    return load_kind(path, false, JSON_ARRAY, document, err);
}

void lr_config_top(lr_config *out, const json_t *document, const char *file)
{
    *out = (lr_config){.object = document, .file = file};
}

static const json_t *value_of(const lr_config *config, const char *key)
{
    const json_t *value = json_object_get(config->object, key);
    return json_is_null(value) ? NULL : value;
}

bool lr_config_has(const lr_config *config, const char *key)
{
    return value_of(config, key) != NULL;
}

/* A short rendering of a value for messages. */
static void describe(const json_t *value, char *out, size_t size)
{
    char whole[80];
    size_t length = json_dumpb(value, whole, sizeof whole - 1, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!value) (void)snprintf(out, size, "absent");
    else if (length > 0 && length < sizeof whole) {
        whole[length] = '\0';
        (void)snprintf(out, size, "%s", whole);
    } else if (json_is_string(value)) (void)snprintf(out, size, "\"%.40s...\"", json_string_value(value));
    else (void)snprintf(out, size, "%s", json_is_object(value) ? "an object" : "a long list");
}

lr_status lr_config_refuse(const lr_config *config, lr_status status, const char *key,
                           lr_error *err, const char *must, ...)
{
    char found[96], wanted[256];
    va_list args;
    describe(value_of(config, key), found, sizeof found);
    va_start(args, must);
    (void)vsnprintf(wanted, sizeof wanted, must, args);
    va_end(args);
    return lr_fail(err, status, "%s: %s%s is %s, %s", config->file, config->path, key, found, wanted);
}

lr_status lr_config_child(const lr_config *config, const char *key, lr_config *out, bool *present,
                          lr_error *err)
{
    const json_t *value = value_of(config, key);
    *present = value != NULL;
    if (!value) return LR_OK;
    if (!json_is_object(value))
        return lr_config_refuse(config, LR_E_MODEL, key, err, "must be an object");
    out->object = value;
    out->file = config->file;
    int n = snprintf(out->path, sizeof out->path, "%s%s.", config->path, key);
    if (n < 0 || (size_t)n >= sizeof out->path)
        return lr_fail(err, LR_E_MODEL, "%s: %s%s: nested too deep", config->file, config->path, key);
    return LR_OK;
}

lr_status lr_config_size(const lr_config *config, const char *key, size_t fallback, size_t least,
                         size_t most, size_t *out, lr_error *err)
{
    const json_t *value = value_of(config, key);
    *out = fallback;
    if (!value) return LR_OK;
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number < least || (uint64_t)number > most)
        return lr_config_refuse(config, LR_E_MODEL, key, err, "must be an integer from %zu to %zu",
                                least, most);
    *out = (size_t)number;
    return LR_OK;
}

lr_status lr_config_id(const lr_config *config, const char *key, int32_t fallback, int32_t *out,
                       lr_error *err)
{
    size_t id = 0;
    lr_status st = lr_config_size(config, key, (size_t)fallback, 0, INT32_MAX - 1, &id, err);
    if (st == LR_OK) *out = (int32_t)id;
    return st;
}

lr_status lr_config_number(const lr_config *config, const char *key, double fallback, double least,
                           double most, double *out, lr_error *err)
{
    const json_t *value = value_of(config, key);
    *out = fallback;
    if (!value) return LR_OK;
    double number = json_number_value(value);
    if (!json_is_number(value) || !isfinite(number) || number < least || number > most)
        return lr_config_refuse(config, LR_E_MODEL, key, err, "must be a number from %g to %g", least,
                                most);
    *out = number;
    return LR_OK;
}

lr_status lr_config_bool(const lr_config *config, const char *key, bool fallback, bool *out,
                         lr_error *err)
{
    const json_t *value = value_of(config, key);
    *out = fallback;
    if (!value) return LR_OK;
    if (!json_is_boolean(value))
        return lr_config_refuse(config, LR_E_MODEL, key, err, "must be true or false");
    *out = json_is_true(value);
    return LR_OK;
}

lr_status lr_config_text(const lr_config *config, const char *key, const char *fallback,
                         const char **out, lr_error *err)
{
    const json_t *value = value_of(config, key);
    *out = fallback;
    if (!value) return LR_OK;
    if (!json_is_string(value))
        return lr_config_refuse(config, LR_E_MODEL, key, err, "must be a string");
    *out = json_string_value(value);
    return LR_OK;
}

lr_status lr_config_only_text(const lr_config *config, const char *key, const char *only,
                              lr_error *err)
{
    const char *text;
    lr_status st = lr_config_text(config, key, only, &text, err);
    if (st == LR_OK && strcmp(text, only) != 0)
        st = lr_config_refuse(config, LR_E_UNSUPPORTED, key, err, "only \"%s\" is supported", only);
    return st;
}

lr_status lr_config_only_size(const lr_config *config, const char *key, size_t only, lr_error *err)
{
    size_t value;
    lr_status st = lr_config_size(config, key, only, 0, SIZE_MAX / 4, &value, err);
    if (st == LR_OK && value != only)
        st = lr_config_refuse(config, LR_E_UNSUPPORTED, key, err, "only %zu is supported", only);
    return st;
}
