#include "model_copy.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *model_copy(const char *folder)
{
    static const char *const names[] = {"config.json",
                                        "model.safetensors",
                                        "tokenizer.json",
                                        "processor_config.json",
                                        "video_preprocessor_config.json",
                                        "config_sentence_transformers.json"};
    char *source = lrt_path(LR_FIXTURES, folder), *dir = lrt_temp_dir();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *from = lrt_path(source, names[i]), *to = lrt_path(dir, names[i]);
        if (lrt_exists(from)) assert_int_equal(symlink(from, to), 0);
        free(from);
        free(to);
    }
    free(source);
    return dir;
}

json_t *model_copy_config(const char *dir)
{
    char *path = lrt_path(dir, "config.json");
    json_t *config = json_load_file(path, 0, NULL);
    assert_non_null(config);
    free(path);
    return config;
}

void model_copy_replace_config(const char *dir, const json_t *config)
{
    char *path = lrt_path(dir, "config.json");
    (void)unlink(path);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    free(path);
}

void model_copy_edit(json_t *config, const char *section, const char *key, const char *value)
{
    json_t *object = section[0] ? json_object_get(config, section) : config;
    assert_true(json_is_object(object));
    if (strcmp(value, "-") == 0) {
        (void)json_object_del(object, key);
        return;
    }
    json_t *parsed = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(parsed);
    assert_int_equal(json_object_set_new(object, key, parsed), 0);
}

lr_status model_copy_open(const char *dir, lr_error *err)
{
    lr_model *model = NULL;
    lr_model_options options = {.kernels = fixture_kernels(LR_ISA_AUTO), .vision = true, .audio = true};
    lr_error_clear(err);
    lr_status st = lr_model_open(&model, dir, &options, err);
    assert_true((st == LR_OK) == (model != NULL));
    lr_model_close(model);
    return st;
}

void model_copy_rewrite(const char *folder, const char *dir, const char *name,
                       void (*change)(lr_named_tensor *tensor))
{
    lr_error err = {0};
    lr_checkpoint *checkpoint = NULL;
    char *original = lrt_path(LR_FIXTURES, folder), *source = lrt_path(original, "model.safetensors");
    char *path = lrt_path(dir, "model.safetensors");
    lrt_assert_ok(lr_checkpoint_open_file(&checkpoint, source, &err), &err);
    size_t count = lr_checkpoint_count(checkpoint);
    lr_named_tensor *tensors = calloc(count, sizeof *tensors);
    assert_non_null(tensors);
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        tensors[i].name = lr_checkpoint_name(checkpoint, i);
        tensors[i].tensor = *lr_checkpoint_find(checkpoint, tensors[i].name);
        if (strcmp(tensors[i].name, name) != 0) continue;
        change(&tensors[i]);
        found = true;
    }
    assert_true(found);
    lrt_assert_ok(lr_safetensors_write(path, tensors, count, &err), &err);
    lr_checkpoint_close(checkpoint);
    free(tensors);
    free(source);
    free(original);
    free(path);
}
