#include "fixture_ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *fixture_path(const char *dir, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s%s%s", LR_FIXTURES, dir, *dir ? "/" : "", name) < 0)
        fail_msg("out of memory");
    return path;
}

json_t *fixture_json(const char *dir, const char *name)
{
    char *path = fixture_path(dir, name);
    json_error_t error;
    json_t *json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!json) fail_msg("%s: %s", path, error.text);
    free(path);
    return json;
}

lr_tokenizer *fixture_tokenizer(const char *dir)
{
    char *path = fixture_path(dir, "tokenizer.json");
    lr_tokenizer *tokenizer = NULL;
    lr_error err = {0};
    lrt_assert_ok(lr_tokenizer_load(&tokenizer, path, &err), &err);
    free(path);
    return tokenizer;
}

lr_ids fixture_ids(const char *dir, const char *case_name)
{
    char *path = fixture_path(dir, "expected.safetensors"), name[64];
    size_t bytes;
    char *file = lrt_slurp(path, &bytes);
    uint64_t header_bytes = 0;
    json_error_t error;
    assert_true(bytes > sizeof header_bytes);
    memcpy(&header_bytes, file, sizeof header_bytes);
    assert_true(header_bytes < bytes - sizeof header_bytes);
    json_t *header = json_loadb(file + 8, header_bytes, 0, &error);
    (void)snprintf(name, sizeof name, "%s/ids", case_name);
    json_t *offsets = json_object_get(json_object_get(header, name), "data_offsets");
    if (json_array_size(offsets) != 2) fail_msg("%s has no %s", path, name);
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    size_t end = (size_t)json_integer_value(json_array_get(offsets, 1));
    assert_true(begin <= end && end <= bytes - 8 - header_bytes);
    lr_ids ids = {.count = (end - begin) / sizeof(int32_t)};
    ids.capacity = ids.count;
    ids.ids = lr_alloc(end - begin);
    assert_non_null(ids.ids);
    memcpy(ids.ids, file + 8 + header_bytes + begin, end - begin);
    json_decref(header);
    free(file);
    free(path);
    return ids;
}

static int32_t config_id(const json_t *config, const char *key)
{
    const json_t *id = json_object_get(config, key);
    if (!json_is_integer(id)) fail_msg("config.json has no %s", key);
    return (int32_t)json_integer_value(id);
}

lr_sequence_rules fixture_rules(const char *dir)
{
    json_t *config = fixture_json(dir, "config.json");
    lr_sequence_rules rules = {
        .bos = 2,
        .eos = 1,
        .begin_image = config_id(config, "boi_token_id"),
        .end_image = config_id(config, "eoi_token_id"),
        .image_soft = config_id(config, "image_token_id"),
        .video_soft = config_id(config, "video_token_id"),
        .begin_audio = config_id(config, "boa_token_id"),
        .end_audio = config_id(config, "eoa_token_index"),
        .audio_soft = config_id(config, "audio_token_id"),
        .sound_tokens_per_second = 25,
    };
    json_decref(config);
    return rules;
}

void assert_ids(const char *what, const int32_t *ids, size_t n, const int32_t *expected,
                size_t n_expected)
{
    for (size_t i = 0; i < n && i < n_expected; i++)
        if (ids[i] != expected[i])
            fail_msg("%s: token %zu is %d, not %d", what, i, (int)ids[i], (int)expected[i]);
    if (n != n_expected) fail_msg("%s: %zu tokens, not %zu", what, n, n_expected);
}
