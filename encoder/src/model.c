#include "model.h"

#include <string.h>

#include "on_device.h"

const lr_family *const lr_families[] = {&lr_family_embeddinggemma2, &lr_family_vjepa2, NULL};

/* ------------------------------------------------------------------ ownership */

lr_status lr_model_new(lr_model *model, void **out, size_t count, size_t size, const char *what,
                       lr_error *err)
{
    lr_status st = LR_GROW(&model->blocks, &model->blocks_capacity, model->n_blocks + 1,
                           "what a model owns", err);
    if (st == LR_OK) st = lr_new_array(out, count, size, what, err);
    if (st == LR_OK) memcpy(&model->blocks[model->n_blocks++], (void *)out, sizeof(void *));
    return st;
}

lr_status lr_model_rope(lr_model *model, size_t dim, double theta, const lr_rope **out,
                        lr_error *err)
{
    lr_status st = LR_OK;
    for (size_t i = 0; i < model->n_ropes; i++)
        if (model->ropes[i].dim == dim && model->ropes[i].theta == theta) {
            *out = model->ropes[i].rope;
            return LR_OK;
        }
    LR_TRY(LR_GROW(&model->ropes, &model->ropes_capacity, model->n_ropes + 1, "rotary tables", err));
    lr_model_rope_entry *entry = &model->ropes[model->n_ropes];
    *entry = (lr_model_rope_entry){.dim = dim, .theta = theta};
    LR_TRY(lr_rope_create(&entry->rope, dim, theta, err));
    model->n_ropes++;
    *out = entry->rope;
done:
    return st;
}

/* ------------------------------------------------------------------ open and close */

static lr_status take_names(lr_model *model, const char *directory, lr_error *err)
{
    size_t end = strlen(directory);
    while (end > 1 && directory[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && directory[start - 1] != '/') start--;
    model->directory = lr_strdup(directory);
    model->name = lr_strdup(directory + start);
    if (!model->directory || !model->name)
        return lr_fail(err, LR_E_NOMEM, "out of memory: %s", directory);
    model->directory[end] = '\0';
    model->name[end - start] = '\0';
    return LR_OK;
}

static lr_status find_family(lr_model *model, const lr_config *config, lr_error *err)
{
    const char *type = NULL;
    lr_status st = lr_config_text(config, "model_type", NULL, &type, err);
    if (st != LR_OK) return st;
    for (size_t i = 0; type && lr_families[i]; i++)
        if (strcmp(type, lr_families[i]->model_type) == 0) {
            model->family = lr_families[i];
            return LR_OK;
        }
    return lr_config_refuse(config, LR_E_UNSUPPORTED, "model_type", err,
                            "no model family that Longreel knows");
}

static lr_status open_tokenizer(lr_model *model, lr_error *err)
{
    char *path = NULL;
    lr_status st = lr_format(&path, err, "%s/tokenizer.json", model->directory);
    if (st == LR_OK) st = lr_tokenizer_load(&model->tokenizer, path, err);
    lr_free(path);
    return st;
}

static lr_status open_parts(lr_model *model, const lr_config *config,
                            const lr_model_options *options, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(find_family(model, config, err));
    LR_TRY(lr_model_check_sentence(model, err));
    LR_TRY(lr_checkpoint_open(&model->checkpoint, model->directory, err));
    model->info.directory = model->directory;
    model->info.name = model->name;
    model->info.family = model->family->name;
    model->info.dims = model->dims;
    for (size_t i = 0; i < lr_checkpoint_count(model->checkpoint); i++) {
        const char *name = lr_checkpoint_name(model->checkpoint, i);
        const lr_tensor *tensor = lr_checkpoint_find(model->checkpoint, name);
        uint64_t values = 1;
        for (size_t d = 0; d < tensor->n_dims; d++) values *= tensor->dims[d];
        model->info.n_values += values;
    }
    LR_TRY(model->family->open(model, config, options, err));
    if (options->device) LR_TRY(lr_device_model_create(model, options->device, err));
    LR_TRY(lr_weights_prepare(model, options->pool, model->family->text ? open_tokenizer : NULL, err));
    if (model->family->text) {
        model->info.tokenizer = model->tokenizer;
        LR_TRY(model->family->read_rules(model, config, err));
        LR_TRY(lr_model_load_prompts(model, err));
    }
done:
    return st;
}

lr_status lr_model_open(lr_model **out, const char *directory, const lr_model_options *options,
                        lr_error *err)
{
    lr_status st = LR_OK;
    lr_model *model = NULL;
    char *path = NULL;
    json_t *document = NULL;
    lr_config config;
    *out = NULL;
    LR_TRY(LR_NEW(&model, 1, "a model", err));
    model->kernels = options->kernels;
    LR_TRY(take_names(model, directory, err));
    LR_TRY(lr_format(&path, err, "%s/config.json", model->directory));
    LR_TRY(lr_config_load(path, true, &document, err));
    lr_config_top(&config, document, path);
    LR_TRY(open_parts(model, &config, options, err));
    *out = model;
    model = NULL;
done:
    json_decref(document);
    lr_free(path);
    lr_model_close(model);
    return st;
}

void lr_model_close(lr_model *model)
{
    if (!model) return;
    for (size_t i = model->n_linears; i-- > 0;)
        if (model->linears[i]) model->kernels->linear_free(model->linears[i]);
    lr_device_model_free(model->on_device);
    for (size_t i = model->n_ropes; i-- > 0;) lr_rope_free(model->ropes[i].rope);
    for (size_t i = model->n_blocks; i-- > 0;) lr_free(model->blocks[i]);
    for (size_t i = 0; i < model->n_prompts; i++) {
        lr_free(model->prompts[i].task);
        lr_free(model->prompts[i].text);
    }
    lr_free(model->prompts);
    lr_free(model->jobs);
    lr_free(model->linears);
    lr_free(model->ropes);
    lr_free(model->blocks);
    lr_tokenizer_free(model->tokenizer);
    lr_checkpoint_close(model->checkpoint);
    lr_free(model->name);
    lr_free(model->directory);
    lr_free(model);
}

/* ------------------------------------------------------------------ questions */

const lr_model_info *lr_model_info_of(const lr_model *model)
{
    return &model->info;
}

const lr_kernels *lr_model_kernels(const lr_model *model)
{
    return model->kernels;
}

lr_status lr_model_hash(lr_model *model, char hex[33], lr_error *err)
{
    return lr_checkpoint_hash(model->checkpoint, hex, err);
}

const char *lr_model_prompt(const lr_model *model, const char *task)
{
    for (size_t i = 0; i < model->n_prompts; i++)
        if (strcmp(model->prompts[i].task, task) == 0) return model->prompts[i].text;
    return NULL;
}

const char *lr_model_task(const lr_model *model, size_t n)
{
    return n < model->n_prompts ? model->prompts[n].task : NULL;
}

lr_status lr_embed_ids(const lr_model *model, const int32_t *ids, size_t count, float *out,
                       lr_error *err)
{
    if (model->family->embed_ids) return model->family->embed_ids(model, ids, count, out, err);
    memset(out, 0, count * model->info.hidden * sizeof *out);
    return LR_OK;
}

lr_status lr_make_model(const char *directory, const char *family, lr_made_size size, uint64_t seed,
                        lr_error *err)
{
    for (size_t i = 0; lr_families[i]; i++)
        if (strcmp(family, lr_families[i]->name) == 0)
            return lr_families[i]->make(directory, size, seed, err);
    return lr_fail(err, LR_E_USAGE, "%s: no model family of that name", family);
}
