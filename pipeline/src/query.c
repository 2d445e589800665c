/* Search of embedding sets by a text, a picture, a sound or a clip. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

lr_query_options lr_query_defaults(void) {
    return (lr_query_options){.level = LR_LEVEL_SEGMENT, .k = 10, .merge = true};
}

/* Sets of one search are made with this model, one context and one width. */
static lr_status check_sets(lr_model *model, lr_set *const *sets, size_t n_sets, lr_error *err) {
    char hash[33];
    const lr_model_info *model_info = lr_model_info_of(model);
    const lr_set_info *first = lr_set_info_of(sets[0]);
    lr_status st = lr_model_hash(model, hash, err);
    if (st != LR_OK) return st;
    for (size_t i = 0; i < n_sets; i++) {
        const lr_set_info *set = lr_set_info_of(sets[i]);
        if (strcmp(set->model_hash, hash) != 0) {
            return lr_fail(err, LR_E_USAGE, "%s: was made with another model (%s, %s) than the one given "
                           "(%s, %s)", set->path, set->model_name, set->model_hash, model_info->name, hash);
        }
        if (strcmp(set->context, first->context) != 0) {
            return lr_fail(err, LR_E_USAGE, "%s: was made with context %s, %s with context %s: vectors of "
                           "different contexts cannot be compared; search them one after another",
                           set->path, set->context, first->path, first->context);
        }
        if (set->dim != first->dim) {
            return lr_fail(err, LR_E_USAGE, "%s: its vectors have %zu values, those of %s have %zu; search "
                           "them one after another", set->path, set->dim, first->path, first->dim);
        }
    }
    return LR_OK;
}

/* A clip is sampled as the set's recording was. */
static lr_status set_fps(const lr_set_info *set, lr_rational *fps, lr_error *err) {
    json_error_t cause;
    json_t *manifest = json_loads(set->manifest, 0, &cause);
    const char *text = json_string_value(json_object_get(json_object_get(manifest, "options"), "fps"));
    long long num = 0, den = 0;
    bool good = text && sscanf(text, "%lld/%lld", &num, &den) == 2 && num > 0 && den > 0;
    json_decref(manifest);
    if (!good) return lr_fail(err, LR_E_FORMAT, "%s: the manifest does not say with which --fps the set was made",
                              set->path);
    *fps = (lr_rational){num, den};
    return LR_OK;
}

static lr_status clip_options(const lr_set_info *set, const lr_query_options *options, lr_embed_options *embed,
                              lr_error *err) {
    embed->fps = options->fps;
    embed->context = strtoull(set->context, NULL, 10); /* "full": 0 */
    if (options->fps.num != 0 || options->fps.den != 0) return LR_OK;
    return set_fps(set, &embed->fps, err);
}

lr_status lr_query(lr_model *model, lr_set *const *sets, size_t n_sets, const lr_embed_input *input,
                   const lr_query_options *options, lr_hit **hits, size_t *count, lr_error *err) {
    lr_status st = LR_OK;
    float *vector = NULL;
    lr_pool *pool = NULL;
    *hits = NULL;
    *count = 0;
    if (n_sets == 0) LR_FAIL(LR_E_USAGE, "there is no embedding set to search");
    if (options->k == 0) LR_FAIL(LR_E_USAGE, "the number of hits must be at least 1");
    LR_TRY(check_sets(model, sets, n_sets, err));
    size_t dim = lr_set_info_of(sets[0])->dim;
    int threads = options->threads > 0 ? options->threads : lr_processors();
    lr_embed_options embed = {.task = options->task, .dim = dim, .soft_tokens = options->soft_tokens,
                              .threads = threads, .cancel = options->cancel};
    if (input->kind == LR_INPUT_VIDEO) LR_TRY(clip_options(lr_set_info_of(sets[0]), options, &embed, err));
    LR_TRY(LR_NEW(&vector, dim, "the query's vector", err));
    LR_TRY(lr_embed(model, input, 1, &embed, vector, err));
    LR_TRY(lr_pool_create((size_t)threads, &pool, err));
    LR_TRY(lr_search(lr_model_kernels(model), pool, sets, n_sets, vector, dim, options->level, options->k,
                     options->merge, hits, count, err));
done:
    lr_pool_free(pool);
    lr_free(vector);
    return st;
}
