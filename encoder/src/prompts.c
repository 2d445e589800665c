/* The task prompts: the family's published ones, replaced and added to by what the checkpoint's
 * config_sentence_transformers.json says. */
#include <string.h>

#include "model.h"

/* Each is compared with all before it. */
#define MOST_PROMPTS 1024

static lr_status set_prompt(lr_model *model, const char *task, const char *text, lr_error *err)
{
    for (size_t i = 0; i < model->n_prompts; i++)
        if (strcmp(model->prompts[i].task, task) == 0) {
            char *copy = lr_strdup(text);
            if (!copy) return lr_fail(err, LR_E_NOMEM, "out of memory: the task prompts");
            lr_free(model->prompts[i].text);
            model->prompts[i].text = copy;
            return LR_OK;
        }
    lr_status st = LR_GROW(&model->prompts, &model->prompts_capacity, model->n_prompts + 1,
                           "the task prompts", err);
    if (st != LR_OK) return st;
    lr_prompt *prompt = &model->prompts[model->n_prompts++];
    *prompt = (lr_prompt){.task = lr_strdup(task), .text = lr_strdup(text)};
    return prompt->task && prompt->text
               ? LR_OK
               : lr_fail(err, LR_E_NOMEM, "out of memory: the task prompts");
}

/* Longreel's name of a task that sentence-transformers calls `key`; the key itself when it has none. */
static const char *task_of(const lr_family *family, const char *key)
{
    for (const lr_task_prompt *p = family->prompts; p && p->task; p++)
        if (p->key && strcmp(p->key, key) == 0) return p->task;
    return key;
}

lr_status lr_model_load_prompts(lr_model *model, lr_error *err)
{
    lr_status st = LR_OK;
    char *path = NULL;
    json_t *document = NULL, *value;
    const char *key;
    lr_config top, prompts;
    bool present = false;
    for (const lr_task_prompt *p = model->family->prompts; p && p->task; p++)
        LR_TRY(set_prompt(model, p->task, p->text, err));
    LR_TRY(lr_format(&path, err, "%s/config_sentence_transformers.json", model->directory));
    LR_TRY(lr_config_load(path, false, &document, err));
    if (!document) goto done;
    lr_config_top(&top, document, path);
    LR_TRY(lr_config_child(&top, "prompts", &prompts, &present, err));
    if (!present) goto done;
    if (json_object_size(prompts.object) > MOST_PROMPTS)
        LR_FAIL(LR_E_MODEL, "%s: %zu prompts; a model has at most %d", path,
                json_object_size(prompts.object), MOST_PROMPTS);
    json_object_foreach((json_t *)(uintptr_t)prompts.object, key, value) {
        const char *text = NULL;
        LR_TRY(lr_config_text(&prompts, key, "", &text, err));
        LR_TRY(set_prompt(model, task_of(model->family, key), text, err));
    }
done:
    json_decref(document);
    lr_free(path);
    return st;
}
