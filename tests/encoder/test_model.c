/* Opening a model: what config.json may say, what is refused and how it is named, prompts, tensors of
 * a wrong shape, failed allocations; and made models. */
#include "model_copy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ------------------------------------------------------------------ config.json */

typedef struct config_case {
    const char *section, *key, *value;
    lr_status status;
    const char *says;
} config_case;

static const config_case config_cases[] = {
    {"", "model_type", "\"vjepa3\"", LR_E_UNSUPPORTED, "model_type is \"vjepa3\""},
    {"", "model_type", "-", LR_E_UNSUPPORTED, "model_type is absent"},
    {"", "text_config", "[]", LR_E_MODEL, "text_config is []"},
    {"", "boi_token_id", "-4", LR_E_MODEL, "boi_token_id is -4"},
    {"", "unknown_key", "{\"a\": 1}", LR_OK, ""},
    {"", "vision_config", "3", LR_E_MODEL, "vision_config is 3"},
    {"text_config", "hidden_activation", "\"silu\"", LR_E_UNSUPPORTED,
     "text_config.hidden_activation is \"silu\", only \"gelu_pytorch_tanh\""},
    {"text_config", "hidden_size", "\"48\"", LR_E_MODEL, "text_config.hidden_size is \"48\""},
    {"text_config", "hidden_size", "0", LR_E_MODEL, "hidden_size is 0"},
    {"text_config", "hidden_size", "48.5", LR_E_MODEL, "hidden_size is 48.5"},
    {"text_config", "hidden_size", "99999999999", LR_E_MODEL, "hidden_size"},
    {"text_config", "hidden_size", "49", LR_E_MODEL, "has shape"},
    {"text_config", "num_hidden_layers", "7", LR_E_MODEL, "layer_types"},
    {"text_config", "num_attention_heads", "3", LR_E_UNSUPPORTED, "3 query heads"},
    {"text_config", "head_dim", "15", LR_E_UNSUPPORTED, "head_dim is 15, must be even"},
    {"text_config", "head_dim", "514", LR_E_MODEL, "head_dim is 514"},
    {"text_config", "rms_norm_eps", "-1", LR_E_MODEL, "rms_norm_eps is -1"},
    {"text_config", "attention_bias", "1", LR_E_MODEL, "attention_bias is 1, must be true or false"},
    {"text_config", "attention_bias", "true", LR_E_MODEL, "self_attn.q_proj.bias is missing"},
    {"text_config", "layer_types", "[\"full_attention\"]", LR_E_MODEL, "must list 6 layers"},
    {"text_config", "layer_types",
     "[\"linear\", \"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\", "
     "\"full_attention\"]", LR_E_UNSUPPORTED, "entry 0"},
    {"text_config", "per_layer_config", "{\"6\": {}}", LR_E_MODEL, "a layer from 0 to 5"},
    {"text_config", "per_layer_config", "{\"five\": {}}", LR_E_MODEL, "per_layer_config.five"},
    {"text_config", "per_layer_config", "{\"-1\": {}}", LR_E_MODEL, "per_layer_config.-1"},
    {"text_config", "per_layer_config", "{\"05\": {\"head_dim\": 32, \"num_key_value_heads\": 1, "
     "\"intermediate_size\": 57}}", LR_E_UNSUPPORTED, "per_layer_config.05.intermediate_size"},
    {"text_config", "per_layer_config", "{\"05\": {\"head_dim\": 32, \"num_key_value_heads\": 1, "
     "\"intermediate_size\": 56}}", LR_OK, ""},
    {"text_config", "per_layer_config", "{\"0005\": {\"head_dim\": 32, \"num_key_value_heads\": 1}}",
     LR_OK, ""},
    {"text_config", "per_layer_config", "null", LR_E_MODEL, "layers.5.self_attn.q_proj.weight has shape"},
    {"text_config", "rope_parameters", "{\"full_attention\": {\"rope_theta\": 1e6}}", LR_E_MODEL,
     "rope_parameters.sliding_attention is absent"},
    {"text_config", "rope_parameters", "{\"rope_type\": \"default\", \"rope_theta\": 1e4}", LR_E_MODEL,
     "rope_parameters.sliding_attention is absent"},
    {"text_config", "rope_parameters",
     "{\"full_attention\": {\"rope_theta\": 1e6}, \"sliding_attention\": {\"rope_type\": "
     "\"proportional\", \"rope_theta\": 1e4}}", LR_E_UNSUPPORTED,
     "rope_parameters.sliding_attention.rope_type is \"proportional\""},
    {"text_config", "rope_parameters",
     "{\"full_attention\": {\"rope_theta\": 1e6}, \"sliding_attention\": {}}", LR_E_MODEL,
     "sliding_attention.rope_theta is absent"},
    {"text_config", "rope_parameters",
     "{\"full_attention\": {\"rope_theta\": 1e6}, \"sliding_attention\": {\"rope_theta\": 1e4, "
     "\"partial_rotary_factor\": 0.25}}", LR_E_UNSUPPORTED, "partial_rotary_factor is 0.25"},
    {"text_config", "rope_parameters", "-", LR_OK, ""},
    {"text_config", "layer_types", "-", LR_OK, ""},
    {"text_config", "sliding_window", "-", LR_OK, ""},
    {"text_config", "vocab_size", "791", LR_E_MODEL,
     "language_model.embed_tokens.weight has shape [790, 48], must be [791, 48]"},
    {"text_config", "embedding_dim", "65", LR_E_MODEL,
     "embedding_projection.weight has shape [64, 48], must be [65, 48]"},
    {"text_config", "hidden_size_per_layer_input", "25", LR_E_MODEL, "per_layer"},
    {"text_config", "intermediate_size", "57", LR_E_MODEL, "layers.0.mlp.gate_proj.weight has shape"},
    {"text_config", "num_key_value_heads", "1", LR_E_MODEL, "layers.0.self_attn.k_proj.weight"},
};

static void test_config_values_are_taken_or_refused_by_name(void **state)
{
    (void)state;
    char *dir = model_copy("regular");
    for (size_t i = 0; i < sizeof config_cases / sizeof config_cases[0]; i++) {
        const config_case *c = &config_cases[i];
        char *source = lrt_path(LR_FIXTURES, "regular");
        json_t *config = model_copy_config(source);
        lr_error err = {0};
        model_copy_edit(config, c->section, c->key, c->value);
        model_copy_replace_config(dir, config);
        lr_status st = model_copy_open(dir, &err);
        if (st != c->status || !strstr(err.text, c->says) || (st != LR_OK && !strstr(err.text, dir)))
            fail_msg("%s.%s = %s: %s (%s)", c->section, c->key, c->value, err.text, lr_status_name(st));
        json_decref(config);
        free(source);
    }
    lrt_remove_temp_dir(dir);
}

static void test_files_that_are_missing_or_no_json_are_named(void **state)
{
    static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lr_error err = {0};
        char *dir = model_copy("textonly"), *path = lrt_path(dir, names[i]);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(model_copy_open(dir, &err), LR_E_IO);
        assert_non_null(strstr(err.text, names[i]));
        lrt_write(path, "{\"a\":", 5);
        assert_int_equal(model_copy_open(dir, &err), LR_E_FORMAT);
        assert_non_null(strstr(err.text, names[i]));
        free(path);
        lrt_remove_temp_dir(dir);
    }
}

static void test_optional_files_may_be_absent_but_not_wrong(void **state)
{
    (void)state;
    lr_error err = {0};
    char *dir = model_copy("textonly");
    char *processor = lrt_path(dir, "processor_config.json");
    char *sentences = lrt_path(dir, "config_sentence_transformers.json");
    (void)unlink(processor);
    (void)unlink(sentences);
    lr_model *model = fixture_model(dir, fixture_kernels(LR_ISA_AUTO), true, true);
    assert_int_equal(lr_model_info_of(model)->image_budget, 280);
    assert_int_equal(lr_model_info_of(model)->picture.budget, 70);
    assert_string_equal(lr_model_prompt(model, "search-query"), "task: search result | query: ");
    lr_model_close(model);
    const char *budget = "{\"image_processor\": {\"max_soft_tokens\": 560}, \"video_processor\": "
                         "{\"max_soft_tokens\": 140}}";
    lrt_write(processor, budget, strlen(budget));
    model = fixture_model(dir, fixture_kernels(LR_ISA_AUTO), true, true);
    assert_int_equal(lr_model_info_of(model)->image_budget, 560);
    assert_int_equal(lr_model_info_of(model)->picture.budget, 140);
    lr_model_close(model);
    const char *calls = "{\"processing_kwargs\": {\"image\": {\"max_soft_tokens\": 1120}, \"text\": {}}}";
    char *transformer = lrt_path(dir, "sentence_bert_config.json");
    lrt_write(transformer, calls, strlen(calls));
    model = fixture_model(dir, fixture_kernels(LR_ISA_AUTO), true, true);
    assert_int_equal(lr_model_info_of(model)->image_budget, 1120);
    assert_int_equal(lr_model_info_of(model)->picture.budget, 140);
    lr_model_close(model);
    calls = "{\"processing_kwargs\": {\"video\": {\"max_soft_tokens\": 72}}}";
    lrt_write(transformer, calls, strlen(calls));
    assert_int_equal(model_copy_open(dir, &err), LR_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "processing_kwargs.video.max_soft_tokens is 72"));
    assert_int_equal(unlink(transformer), 0);
    free(transformer);
    budget = "{\"image_processor\": {\"max_soft_tokens\": 71}}";
    lrt_write(processor, budget, strlen(budget));
    assert_int_equal(model_copy_open(dir, &err), LR_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "image_processor.max_soft_tokens is 71"));
    lrt_write(processor, "{}", 2);
    lrt_write(sentences, "{\"prompts\": {\"query\": 3}}", 25);
    assert_int_equal(model_copy_open(dir, &err), LR_E_MODEL);
    free(processor);
    free(sentences);
    lrt_remove_temp_dir(dir);
}

/* ------------------------------------------------------------------ what a model says of itself */

static void test_a_model_describes_itself(void **state)
{
    (void)state;
    char *dir = lrt_path(LR_FIXTURES, "regular");
    lr_model *model = fixture_model(dir, fixture_kernels(LR_ISA_AUTO), true, true);
    const lr_model_info *info = lr_model_info_of(model);
    assert_string_equal(info->name, "regular");
    assert_string_equal(info->directory, dir);
    assert_string_equal(info->family, "embeddinggemma2");
    assert_int_equal(info->hidden, 48);
    assert_int_equal(info->dim, 64);
    assert_int_equal(info->dims[0], 64);
    assert_int_equal(info->n_layers, 6);
    assert_int_equal(info->trained_context, 8192);
    assert_true(info->has_text && info->has_vision && info->has_audio);
    assert_int_equal(info->picture.patch, 4);
    assert_int_equal(info->picture.pool, 3);
    assert_int_equal(info->n_budgets, 5);
    assert_int_equal(info->rules.bos, 2);
    assert_int_equal(info->rules.eos, 1);
    assert_int_equal(info->rules.video_soft, 789);
    assert_int_equal(info->rules.end_audio, 786);
    char hex[33];
    lr_error err = {0};
    lrt_assert_ok(lr_model_hash(model, hex, &err), &err);
    assert_int_equal(strlen(hex), 32);
    lr_model_close(model);
    free(dir);
}

static void test_a_model_without_towers_opens_and_says_so(void **state)
{
    (void)state;
    lr_error err = {0};
    char *dir = lrt_path(LR_FIXTURES, "textonly");
    lr_model *model = fixture_model(dir, fixture_kernels(LR_ISA_AUTO), true, true);
    lr_vision *vision = NULL;
    lr_sound_tower *sound = NULL;
    lr_worker worker = {0};
    assert_false(lr_model_info_of(model)->has_vision);
    assert_false(lr_model_info_of(model)->has_audio);
    assert_int_equal(lr_vision_create(&vision, model, 48, 48, &worker, &err), LR_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no vision tower"));
    lr_error_clear(&err);
    assert_int_equal(lr_sound_tower_create(&sound, model, 16000, 0, 25, &worker, NULL, NULL, NULL, &err),
                     LR_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no sound tower"));
    lr_model_close(model);
    free(dir);
}

static void test_prompts_are_the_checkpoints_own(void **state)
{
    (void)state;
    char *dir = model_copy("textonly"), *path = lrt_path(dir, "config_sentence_transformers.json");
    const char *text = "{\"prompts\": {\"query\": \"find: \", \"Own\": \"own: \"}}";
    (void)unlink(path);
    lrt_write(path, text, strlen(text));
    lr_model *model = fixture_model(dir, fixture_kernels(LR_ISA_AUTO), false, false);
    assert_string_equal(lr_model_prompt(model, "search-query"), "find: ");
    assert_string_equal(lr_model_prompt(model, "search-document"), "title: none | text: ");
    assert_string_equal(lr_model_prompt(model, "Own"), "own: ");
    assert_null(lr_model_prompt(model, "unheard-of"));
    size_t n = 0;
    bool seen = false;
    for (; lr_model_task(model, n); n++) seen = seen || strcmp(lr_model_task(model, n), "Own") == 0;
    assert_true(seen);
    assert_int_equal(n, 9);
    lr_model_close(model);
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_more_prompts_than_a_model_has_are_refused(void **state)
{
    (void)state;
    char *dir = model_copy("textonly"), *path = lrt_path(dir, "config_sentence_transformers.json");
    json_t *prompts = json_object();
    for (int i = 0; i <= 1024; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        assert_int_equal(json_object_set_new(prompts, key, json_string("x")), 0);
    }
    json_t *document = json_pack("{s:o}", "prompts", prompts);
    (void)unlink(path);
    assert_int_equal(json_dump_file(document, path, 0), 0);
    json_decref(document);
    lr_error err = {0};
    lr_model *model = NULL;
    const lr_model_options options = {.kernels = fixture_kernels(LR_ISA_AUTO)};
    assert_int_equal(lr_model_open(&model, dir, &options, &err), LR_E_MODEL);
    assert_non_null(strstr(err.text, "1025 prompts"));
    free(path);
    lrt_remove_temp_dir(dir);
}

/* ------------------------------------------------------------------ tensors */

static void rewrite(const char *dir, const char *name, void (*change)(lr_named_tensor *tensor))
{
    model_copy_rewrite("textonly", dir, name, change);
}

static void rename_it(lr_named_tensor *tensor)
{
    tensor->name = "something_else";
}

static void flatten(lr_named_tensor *tensor)
{
    tensor->tensor.dims[0] *= tensor->tensor.dims[1];
    tensor->tensor.n_dims = 1;
}

static void make_integer(lr_named_tensor *tensor)
{
    tensor->tensor.dtype = LR_I16;
}

static void test_wrong_tensors_are_named_with_both_shapes(void **state)
{
    (void)state;
    lr_error err = {0};
    char *dir = model_copy("textonly");
    const char *name = "language_model.layers.2.mlp.up_proj.weight";
    rewrite(dir, name, rename_it);
    assert_int_equal(model_copy_open(dir, &err), LR_E_MODEL);
    assert_non_null(strstr(err.text, "layers.2.mlp.up_proj.weight is missing (wanted: shape [80, 32])"));
    rewrite(dir, name, flatten);
    assert_int_equal(model_copy_open(dir, &err), LR_E_MODEL);
    assert_non_null(strstr(err.text, "layers.2.mlp.up_proj.weight has shape [2560], must be [80, 32]"));
    rewrite(dir, name, make_integer);
    assert_int_equal(model_copy_open(dir, &err), LR_E_MODEL);
    assert_non_null(strstr(err.text, "has type I16, must be F32, BF16 or F16"));
    lrt_remove_temp_dir(dir);
}

/* The fixture's model with biases of `value` in every attention layer. */
static void add_biases(const char *dir, float value)
{
    lr_error err = {0};
    lr_checkpoint *checkpoint = NULL;
    char *source = lrt_path(LR_FIXTURES, "textonly/model.safetensors");
    char *path = lrt_path(dir, "model.safetensors"), names[16][96];
    lrt_assert_ok(lr_checkpoint_open_file(&checkpoint, source, &err), &err);
    size_t count = lr_checkpoint_count(checkpoint);
    lr_named_tensor *tensors = calloc(count + 16, sizeof *tensors);
    float values[128];
    assert_non_null(tensors);
    for (size_t i = 0; i < 128; i++) values[i] = value;
    for (size_t i = 0; i < count; i++) {
        tensors[i].name = lr_checkpoint_name(checkpoint, i);
        tensors[i].tensor = *lr_checkpoint_find(checkpoint, tensors[i].name);
    }
    for (size_t i = 0; i < 16; i++) {
        lr_named_tensor *bias = &tensors[count + i];
        (void)snprintf(names[i], sizeof names[i], "language_model.layers.%zu.self_attn.%c_proj.%s",
                       i / 4, "qkvo"[i % 4], "weight");
        size_t rows = lr_checkpoint_find(checkpoint, names[i])->dims[0];
        assert_true(rows <= 128);
        (void)snprintf(strrchr(names[i], '.'), 8, ".bias");
        *bias = (lr_named_tensor){names[i], {.dtype = LR_F32, .n_dims = 1, .dims = {rows},
                                             .data = values}};
    }
    lrt_assert_ok(lr_safetensors_write(path, tensors, count + 16, &err), &err);
    lr_checkpoint_close(checkpoint);
    free(tensors);
    free(source);
    free(path);
}

static void hidden_of(const char *dir, float *x, size_t n)
{
    lr_model *model = fixture_model(dir, fixture_kernels(LR_ISA_AUTO), false, false);
    size_t count = n * lr_model_info_of(model)->hidden;
    for (size_t i = 0; i < count; i++) x[i] = (float)(i * 7 % 31) / 16 - 1;
    fixture_forward(model, x, n, 16, 1, 1, LR_SCHEDULE_AUTO, NULL, NULL);
    lr_model_close(model);
}

static void test_attention_biases_are_added_where_the_config_says_so(void **state)
{
    (void)state;
    float plain[40 * 32], zero[40 * 32], biased[40 * 32];
    char *dir = model_copy("textonly");
    hidden_of(dir, plain, 40);
    json_t *config = model_copy_config(dir);
    model_copy_edit(config, "text_config", "attention_bias", "true");
    model_copy_replace_config(dir, config);
    json_decref(config);
    add_biases(dir, 0);
    hidden_of(dir, zero, 40);
    add_biases(dir, 0.5f);
    hidden_of(dir, biased, 40);
    for (size_t i = 0; i < 40 * 32; i++) {
        assert_true(plain[i] == zero[i]); /* -0 + 0 is 0: equal, though not to the bit */
        assert_true(isfinite(biased[i]));
    }
    assert_memory_not_equal(plain, biased, sizeof plain);
    lrt_remove_temp_dir(dir);
}

static lr_status open_once(void *arg, lr_error *err)
{
    lr_model *model = NULL;
    lr_model_options options = {.kernels = fixture_kernels(LR_ISA_AUTO), .vision = true, .audio = true};
    lr_status st = lr_model_open(&model, arg, &options, err);
    lr_model_close(model);
    return st;
}

static void test_open_survives_each_failed_allocation(void **state)
{
    (void)state;
    char *dir = lrt_path(LR_FIXTURES, "textonly");
    assert_true(lrt_fail_each_allocation(open_once, dir) > 100);
    free(dir);
}

/* ------------------------------------------------------------------ made models */

static void run_text(const char *dir, float *vector, size_t dim)
{
    lr_error err = {0};
    const char *text = "00:01 the river and the garden";
    lr_ids ids = {0};
    lr_model *model = fixture_model(dir, fixture_kernels(LR_ISA_AUTO), true, true);
    const lr_model_info *info = lr_model_info_of(model);
    assert_int_equal(info->dim, dim);
    lrt_assert_ok(lr_tokenizer_encode(info->tokenizer, text, strlen(text), true, &ids, &err), &err);
    /* <bos> 0 0 : 0 1 the river and the g ar d e n <eos>: digits alone, common words whole */
    assert_in_range(ids.count, 12, 17);
    float *x = calloc(ids.count * info->hidden, sizeof *x);
    double *sum = calloc(info->hidden, sizeof *sum);
    assert_non_null(x);
    assert_non_null(sum);
    lrt_assert_ok(lr_embed_ids(model, ids.ids, ids.count, x, &err), &err);
    fixture_forward(model, x, ids.count, 1024, 1, 2, LR_SCHEDULE_AUTO, NULL, NULL);
    lr_model_kernels(model)->sum_rows(sum, x, info->hidden, ids.count, info->hidden);
    lrt_assert_ok(lr_project(model, sum, ids.count, dim, vector, &err), &err);
    free(x);
    free(sum);
    lr_ids_free(&ids);
    lr_model_close(model);
}

static void test_a_small_made_model_loads_runs_and_repeats(void **state)
{
    (void)state;
    lr_error err = {0};
    float vectors[3][96];
    char *dir = lrt_temp_dir();
    for (size_t i = 0; i < 3; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "m%zu", i);
        char *path = lrt_path(dir, name), *aside = lrt_path(dir, "m0.partial");
        lrt_assert_ok(lr_make_model(path, "embeddinggemma2", LR_MADE_SMALL, i == 2 ? 8 : 7, &err), &err);
        run_text(path, vectors[i], 96);
        assert_int_equal(lr_make_model(path, "embeddinggemma2", LR_MADE_SMALL, 7, &err), LR_E_EXISTS);
        assert_false(lrt_exists(aside));
        lr_error_clear(&err);
        free(path);
        free(aside);
    }
    assert_memory_equal(vectors[0], vectors[1], sizeof vectors[0]);
    assert_memory_not_equal(vectors[0], vectors[2], sizeof vectors[0]);
    assert_int_equal(lr_make_model(dir, "other", LR_MADE_SMALL, 7, &err), LR_E_USAGE);
    lrt_remove_temp_dir(dir);
}

static lr_status make_once(void *arg, lr_error *err)
{
    lr_status st = lr_make_model(arg, "embeddinggemma2", LR_MADE_SMALL, 7, err);
    if (st == LR_OK) {
        char command[512];
        (void)snprintf(command, sizeof command, "rm -r '%s'", (const char *)arg);
        if (system(command) != 0) return LR_E_INTERNAL;
    }
    return st;
}

static void test_making_survives_each_failed_allocation(void **state)
{
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "made");
    assert_true(lrt_fail_each_allocation(make_once, path) > 10);
    free(path);
    lrt_remove_temp_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_values_are_taken_or_refused_by_name),
        cmocka_unit_test(test_files_that_are_missing_or_no_json_are_named),
        cmocka_unit_test(test_optional_files_may_be_absent_but_not_wrong),
        cmocka_unit_test(test_a_model_describes_itself),
        cmocka_unit_test(test_a_model_without_towers_opens_and_says_so),
        cmocka_unit_test(test_prompts_are_the_checkpoints_own),
        cmocka_unit_test(test_more_prompts_than_a_model_has_are_refused),
        cmocka_unit_test(test_wrong_tensors_are_named_with_both_shapes),
        cmocka_unit_test(test_attention_biases_are_added_where_the_config_says_so),
        cmocka_unit_test(test_open_survives_each_failed_allocation),
        cmocka_unit_test(test_a_small_made_model_loads_runs_and_repeats),
        cmocka_unit_test(test_making_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
