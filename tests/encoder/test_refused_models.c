/* Models that open to nothing or to an error: weights that are not finite, and files beside the weights
 * that ask for something else than what is computed. */
#include "model_copy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ------------------------------------------------------------------ weights */

/* The values of the changed tensor, as long as it is written. */
static unsigned char changed[1 << 20];
static double put_value;
static size_t put_at;

static size_t values_of(const lr_tensor *tensor)
{
    size_t count = 1;
    for (size_t i = 0; i < tensor->n_dims; i++) count *= tensor->dims[i];
    return count;
}

/* The tensor with put_value at put_at, in its own type. */
static void put_one(lr_named_tensor *tensor)
{
    size_t size = lr_dtype_size(tensor->tensor.dtype), bytes = values_of(&tensor->tensor) * size;
    float wide = (float)put_value;
    uint32_t bits;
    assert_true(bytes <= sizeof changed && put_at < bytes / size);
    memcpy(changed, tensor->tensor.data, bytes);
    memcpy(&bits, &wide, sizeof bits);
    uint16_t half = tensor->tensor.dtype == LR_BF16 ? (uint16_t)(bits >> 16)
                    : isnan(put_value)              ? 0x7e00
                                                    : 0x7c00;
    if (size == sizeof wide) memcpy(changed + put_at * size, &wide, size);
    else memcpy(changed + put_at * size, &half, size);
    tensor->tensor.data = changed;
}

/* The same as F16, of which all values but one are 1. */
static void put_one_in_f16(lr_named_tensor *tensor)
{
    const uint16_t one = 0x3c00;
    size_t count = values_of(&tensor->tensor);
    assert_true(2 * count <= sizeof changed);
    for (size_t i = 0; i < count; i++) memcpy(changed + 2 * i, &one, sizeof one);
    uint16_t half = isnan(put_value) ? 0xfe00 : 0x7c00;
    memcpy(changed + 2 * put_at, &half, sizeof half);
    tensor->tensor.dtype = LR_F16;
    tensor->tensor.data = changed;
}

typedef struct bad_value {
    const char *folder, *tensor;
    size_t at;
    double value;
    const char *says;
} bad_value;

#define TEXT_LAYER "language_model.layers.0."
#define SOUND_LAYER "audio_tower.layers.0."

/* Shapes: textonly hidden 32, mlp 80, 4 layers; the regular one's as config.json has them. */
static const bad_value bad_values[] = {
    {"textonly", TEXT_LAYER "self_attn.q_proj.weight", 32 * 5 + 7, NAN, "(row 5, column 7)"},
    {"textonly", TEXT_LAYER "self_attn.v_proj.weight", 0, INFINITY, "(row 0, column 0)"},
    {"textonly", TEXT_LAYER "mlp.up_proj.weight", 80 * 32 - 1, -INFINITY, "(row 79, column 31)"},
    {"textonly", TEXT_LAYER "mlp.down_proj.weight", 80 * 3 + 64, NAN, "(row 3, column 64)"},
    {"textonly", TEXT_LAYER "input_layernorm.weight", 31, NAN, "(row 0, column 31)"},
    {"textonly", TEXT_LAYER "self_attn.q_norm.weight", 1, INFINITY, "(row 0, column 1)"},
    {"textonly", TEXT_LAYER "layer_scalar", 0, NAN, "(row 0, column 0)"},
    {"textonly", "language_model.embedding_projection.weight", 32, NAN, "(row 1, column 0)"},
    {"textonly", "language_model.ple.per_layer_model_projection.weight", 32 * 50 + 3, NAN,
     "(row 50, column 3)"},
    {"regular", "vision_tower.patch_embedder.position_embedding_table", 2, NAN, "(row 0, column 2)"},
    {"regular", "vision_tower.encoder.layers.0.self_attn.k_proj.linear.weight", 1, NAN,
     "(row 0, column 1)"},
    {"regular", "embed_vision.embedding_projection.weight", 1, INFINITY, "(row 0, column 1)"},
    {"regular", "audio_tower.subsample_conv_projection.layer1.conv.weight", 4, NAN,
     "(row 1, column 1)"},
    {"regular", SOUND_LAYER "self_attn.relative_k_proj.weight", 3, NAN, "(row 0, column 3)"},
    {"regular", SOUND_LAYER "self_attn.per_dim_scale", 0, INFINITY, "(row 0, column 0)"},
    {"regular", SOUND_LAYER "lconv1d.depthwise_conv1d.weight", 0, NAN, "(row 0, column 0)"},
    {"regular", SOUND_LAYER "feed_forward1.ffw_layer_1.linear.weight", 2, NAN, "(row 0, column 2)"},
    {"regular", "audio_tower.output_proj.bias", 1, -INFINITY, "(row 0, column 1)"},
};

static void test_a_weight_that_is_not_finite_is_named_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof bad_values / sizeof bad_values[0]; i++) {
        const bad_value *b = &bad_values[i / 2];
        lr_error err = {0};
        char *dir = model_copy(b->folder);
        put_value = b->value;
        put_at = b->at;
        model_copy_rewrite(b->folder, dir, b->tensor, i % 2 ? put_one_in_f16 : put_one);
        lr_status st = model_copy_open(dir, &err);
        if (st != LR_E_MODEL || !strstr(err.text, b->tensor) || !strstr(err.text, dir) ||
            !strstr(err.text, "has a value that is not finite") || !strstr(err.text, b->says))
            fail_msg("%s: %s (%s)", b->tensor, err.text, lr_status_name(st));
        lrt_remove_temp_dir(dir);
    }
}

static void test_a_clipped_layer_may_lack_a_bound_but_not_have_a_wrong_one(void **state)
{
    static const struct {
        const char *bound;
        double value;
        lr_status status;
        const char *says;
    } cases[] = {
        {"input_min", -INFINITY, LR_OK, ""},    {"input_max", INFINITY, LR_OK, ""},
        {"output_min", -INFINITY, LR_OK, ""},   {"output_max", INFINITY, LR_OK, ""},
        {"input_min", NAN, LR_E_MODEL, "nan"},  {"input_max", NAN, LR_E_MODEL, "nan"},
        {"output_min", NAN, LR_E_MODEL, "nan"}, {"output_max", NAN, LR_E_MODEL, "nan"},
        {"input_min", INFINITY, LR_E_MODEL, "is inf, must be a number or -inf"},
        {"output_max", -INFINITY, LR_E_MODEL, "is -inf, must be a number or inf"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[128];
        lr_error err = {0};
        char *dir = model_copy("sound");
        (void)snprintf(name, sizeof name, SOUND_LAYER "self_attn.q_proj.%s", cases[i].bound);
        put_value = cases[i].value;
        put_at = 0;
        model_copy_rewrite("sound", dir, name, put_one);
        lr_status st = model_copy_open(dir, &err);
        if (st != cases[i].status || !strstr(err.text, cases[i].says) ||
            (st != LR_OK && !strstr(err.text, name)))
            fail_msg("%s: %s (%s)", name, err.text, lr_status_name(st));
        lrt_remove_temp_dir(dir);
    }
}

static void test_an_embedding_that_is_not_finite_is_found_when_it_is_looked_up(void **state)
{
    (void)state;
    lr_error err = {0};
    const int32_t good[] = {2, 16, 18, 1}, bad[] = {2, 17};
    float out[4 * 32];
    char *dir = model_copy("textonly");
    put_value = NAN;
    put_at = 17 * 32 + 9;
    model_copy_rewrite("textonly", dir, "language_model.embed_tokens.weight", put_one);
    lr_model *model = fixture_model(dir, fixture_kernels(LR_ISA_AUTO), true, true);
    lrt_assert_ok(lr_embed_ids(model, good, 4, out, &err), &err);
    assert_int_equal(lr_embed_ids(model, bad, 2, out, &err), LR_E_MODEL);
    assert_non_null(strstr(err.text, "embed_tokens.weight has a value that is not finite in the row of "
                                     "token id 17 (column 9)"));
    lr_model_close(model);
    lrt_remove_temp_dir(dir);
}

/* ------------------------------------------------------------------ sentence-transformers' files */

static void write_text(const char *dir, const char *name, const char *text)
{
    char *path = lrt_path(dir, name);
    lrt_write(path, text, strlen(text));
    free(path);
}

typedef struct file_case {
    const char *text;
    lr_status status;
    const char *says;
} file_case;

#define MODULE(type, path) "{\"type\": \"" type "\", \"path\": \"" path "\"}"
#define TRANSFORMER MODULE("sentence_transformers.models.Transformer", "")
#define POOLING MODULE("sentence_transformers.models.Pooling", "1_Pooling")
#define NORMALIZE MODULE("sentence_transformers.models.Normalize", "2_Normalize")

static void check_file(const char *name, const file_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lr_error err = {0};
        char *dir = model_copy("textonly"), *pooling = lrt_path(dir, "1_Pooling");
        assert_int_equal(mkdir(pooling, 0777), 0);
        write_text(dir, name, cases[i].text);
        lr_status st = model_copy_open(dir, &err);
        if (st != cases[i].status || !strstr(err.text, cases[i].says) ||
            (st != LR_OK && !strstr(err.text, name)))
            fail_msg("%s: %s: %s (%s)", name, cases[i].text, err.text, lr_status_name(st));
        free(pooling);
        lrt_remove_temp_dir(dir);
    }
}

static void test_modules_other_than_a_normalized_pooling_are_refused(void **state)
{
    static const file_case cases[] = {
        {"[" TRANSFORMER ", " POOLING ", " NORMALIZE "]", LR_OK, ""},
        {"[" TRANSFORMER ", " POOLING "]", LR_OK, ""},
        {"[" MODULE("sentence_transformers.base.modules.transformer.Transformer", "") ", " POOLING "]",
         LR_OK, ""},
        {"[" TRANSFORMER ", " POOLING ", " MODULE("sentence_transformers.models.Dense", "2_Dense") "]",
         LR_E_UNSUPPORTED, "[2].type is \"sentence_transformers.models.Dense\""},
        {"[" TRANSFORMER ", " POOLING ", " NORMALIZE ", " NORMALIZE "]", LR_E_UNSUPPORTED, "[3].type"},
        {"[" POOLING ", " TRANSFORMER "]", LR_E_UNSUPPORTED, "[0].type"},
        {"[" MODULE("custom.Transformer", "") ", " POOLING "]", LR_E_UNSUPPORTED, "custom.Transformer"},
        {"[" MODULE("Transformer", "") "]", LR_E_UNSUPPORTED, "[0].type is \"Transformer\""},
        {"[" MODULE("sentence_transformers.models.Transformer", "0_T") ", " POOLING "]",
         LR_E_UNSUPPORTED, "[0].path is \"0_T\""},
        {"[" TRANSFORMER ", " MODULE("sentence_transformers.models.Pooling", "a/../../b") "]", LR_E_MODEL,
         "[1].path is \"a/../../b\""},
        {"[" TRANSFORMER ", " MODULE("sentence_transformers.models.Pooling", "/etc") "]", LR_E_MODEL,
         "[1].path is \"/etc\""},
        {"[" TRANSFORMER "]", LR_E_UNSUPPORTED, "lists 1 modules"},
        {"[]", LR_E_UNSUPPORTED, "lists 0 modules"},
        {"[3]", LR_E_MODEL, "entry 0 is not an object"},
        {"[{\"type\": 3}]", LR_E_MODEL, "[0].type is 3, must be a string"},
        {"[{}]", LR_E_UNSUPPORTED, "[0].type is absent"},
        {"{}", LR_E_FORMAT, "the top level is not a list"},
        {"[{", LR_E_FORMAT, "line 1"},
    };
    (void)state;
    check_file("modules.json", cases, sizeof cases / sizeof cases[0]);
}

static void test_pooling_other_than_the_mean_of_all_tokens_is_refused(void **state)
{
    static const file_case cases[] = {
        {"{}", LR_OK, ""},
        {"{\"word_embedding_dimension\": 40, \"pooling_mode_cls_token\": false, "
         "\"pooling_mode_mean_tokens\": true, \"pooling_mode_max_tokens\": false, "
         "\"include_prompt\": true}", LR_OK, ""},
        {"{\"pooling_mode\": \"mean\"}", LR_OK, ""},
        {"{\"pooling_mode\": [\"mean\"]}", LR_OK, ""},
        {"{\"pooling_mode\": \"cls\"}", LR_E_UNSUPPORTED, "pooling_mode is \"cls\""},
        {"{\"pooling_mode\": [\"mean\", \"max\"]}", LR_E_UNSUPPORTED, "pooling_mode is ["},
        {"{\"pooling_mode_mean_tokens\": false}", LR_E_UNSUPPORTED, "pooling_mode_mean_tokens is false"},
        {"{\"pooling_mode_cls_token\": true}", LR_E_UNSUPPORTED, "pooling_mode_cls_token is true"},
        {"{\"pooling_mode_lasttoken\": true}", LR_E_UNSUPPORTED, "pooling_mode_lasttoken is true"},
        {"{\"pooling_mode_cls_token\": 1}", LR_E_MODEL, "pooling_mode_cls_token is 1"},
        {"{\"include_prompt\": false}", LR_E_UNSUPPORTED, "include_prompt is false"},
        {"[]", LR_E_FORMAT, "the top level is not an object"},
        {"{\"pooling_mode_mean_tokens\": tru", LR_E_FORMAT, "line 1"},
    };
    (void)state;
    check_file("1_Pooling/config.json", cases, sizeof cases / sizeof cases[0]);
}

static void test_what_sentence_transformers_would_do_otherwise_is_refused(void **state)
{
    static const file_case cases[] = {
        {"{}", LR_OK, ""},
        {"{\"max_seq_length\": 2048, \"do_lower_case\": false}", LR_OK, ""},
        {"{\"max_seq_length\": null, \"tokenizer_args\": {\"padding_side\": \"right\"}, \"model_args\": "
         "{\"dtype\": \"bfloat16\"}, \"config_args\": {}}", LR_OK, ""},
        {"{\"transformer_task\": \"feature-extraction\", \"modality_config\": {\"text\": {\"method\": "
         "\"forward\", \"method_output_name\": \"last_hidden_state\"}, \"video\": {\"method\": \"forward\", "
         "\"method_output_name\": [\"last_hidden_state\"]}}, \"module_output_name\": \"token_embeddings\", "
         "\"processing_kwargs\": {\"text\": {\"max_length\": 8192}, \"video\": {\"max_frames\": 64, \"fps\": "
         "1}, \"image\": {\"max_soft_tokens\": 140}}, \"unpad_inputs\": false}", LR_OK, ""},
        {"{\"do_lower_case\": true}", LR_E_UNSUPPORTED, "do_lower_case is true"},
        {"{\"do_lower_case\": 0}", LR_E_MODEL, "do_lower_case is 0"},
        {"{\"max_seq_length\": 0}", LR_E_MODEL, "max_seq_length is 0"},
        {"{\"transformer_task\": \"fill-mask\"}", LR_E_UNSUPPORTED, "transformer_task is \"fill-mask\""},
        {"{\"module_output_name\": \"sentence_embedding\"}", LR_E_UNSUPPORTED, "module_output_name is"},
        {"{\"modality_config\": {\"image\": {\"method\": \"get_image_features\", \"method_output_name\": "
         "\"last_hidden_state\"}}}", LR_E_UNSUPPORTED, "modality_config.image.method is \"get_image_features\""},
        {"{\"modality_config\": {\"text\": {\"method\": \"forward\", \"method_output_name\": "
         "\"pooler_output\"}}}", LR_E_UNSUPPORTED, "modality_config.text.method_output_name is"},
        {"{\"modality_config\": {\"text\": {\"method\": \"forward\", \"method_output_name\": "
         "[\"hidden_states\", -2]}}}", LR_E_UNSUPPORTED, "modality_config.text.method_output_name is"},
        {"{\"processing_kwargs\": {\"audio\": {\"sampling_rate\": 8000}}}", LR_E_UNSUPPORTED,
         "processing_kwargs.audio.sampling_rate is 8000"},
        {"{\"processing_kwargs\": {\"image\": {\"do_resize\": false}}}", LR_E_UNSUPPORTED,
         "processing_kwargs.image.do_resize is false"},
        {"{\"processing_kwargs\": {\"text\": {\"add_special_tokens\": false}}}", LR_E_UNSUPPORTED,
         "processing_kwargs.text.add_special_tokens is false"},
        {"{\"processing_kwargs\": 3}", LR_E_MODEL, "processing_kwargs is 3"},
        {"{\"tokenizer_args\": {\"add_bos_token\": false}}", LR_E_UNSUPPORTED, "tokenizer_args.add_bos_token"},
        {"{\"config_kwargs\": {\"sliding_window\": 64}}", LR_E_UNSUPPORTED, "config_kwargs.sliding_window is 64"},
        {"{\"query_expansion\": {\"length\": 32}}", LR_E_UNSUPPORTED, "query_expansion is"},
        {"[]", LR_E_FORMAT, "the top level is not an object"},
    };
    (void)state;
    check_file("sentence_bert_config.json", cases, sizeof cases / sizeof cases[0]);
}

static void test_the_pooling_is_looked_for_where_the_modules_say(void **state)
{
    (void)state;
    lr_error err = {0};
    char *dir = model_copy("textonly"), *pooling = lrt_path(dir, "p");
    assert_int_equal(mkdir(pooling, 0777), 0);
    write_text(dir, "modules.json", "[" TRANSFORMER ", "
               MODULE("sentence_transformers.models.Pooling", "p") "]");
    write_text(dir, "p/config.json", "{\"pooling_mode_lasttoken\": true}");
    assert_int_equal(model_copy_open(dir, &err), LR_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "p/config.json: pooling_mode_lasttoken is true"));
    free(pooling);
    lrt_remove_temp_dir(dir);
}

/* ------------------------------------------------------------------ markers */

static lr_status open_with(const char *folder, const char *key, const char *value, lr_error *err)
{
    char *dir = model_copy(folder);
    json_t *config = model_copy_config(dir);
    model_copy_edit(config, "", key, value);
    model_copy_replace_config(dir, config);
    json_decref(config);
    lr_status st = model_copy_open(dir, err);
    lrt_remove_temp_dir(dir);
    return st;
}

static void test_ids_of_markers_are_those_of_the_tokenizer(void **state)
{
    static const struct {
        const char *key, *says;
    } markers[] = {
        {"boi_token_id", "boi_token_id is 300, but the id of <|image> in "},
        {"eoi_token_id", "eoi_token_id is 300, but the id of <image|> in "},
        {"image_token_id", "image_token_id is 300, but the id of <|image|> in "},
        {"video_token_id", "video_token_id is 300, but the id of <|video|> in "},
        {"boa_token_id", "boa_token_id is 300, but the id of <|audio> in "},
        {"eoa_token_index", "eoa_token_index is 300, but the id of <audio|> in "},
        {"audio_token_id", "audio_token_id is 300, but the id of <|audio|> in "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++) {
        static const char *const folders[] = {"regular", "textonly"};
        lr_error err = {0};
        for (size_t f = 0; f < 2; f++) {
            assert_int_equal(open_with(folders[f], markers[i].key, "300", &err), LR_E_MODEL);
            if (!strstr(err.text, markers[i].says)) fail_msg("%s: %s", markers[i].key, err.text);
        }
        /* Absent, the id is the published one, which only a model without the tower may leave so. */
        assert_int_equal(open_with("regular", markers[i].key, "-", &err), LR_E_MODEL);
        assert_non_null(strstr(err.text, "(the default), but the id of "));
        lrt_assert_ok(open_with("textonly", markers[i].key, "-", &err), &err);
    }
}

/* The fixture with a tokenizer in which <|image> has another text. */
static lr_status open_without_begin_image(const char *folder, lr_error *err)
{
    size_t i;
    json_t *token, *id;
    char *dir = model_copy(folder), *path = lrt_path(dir, "tokenizer.json");
    json_t *tokenizer = json_load_file(path, 0, NULL);
    assert_non_null(tokenizer);
    json_t *vocabulary = json_object_get(json_object_get(tokenizer, "model"), "vocab");
    json_array_foreach(json_object_get(tokenizer, "added_tokens"), i, token)
        if (strcmp(json_string_value(json_object_get(token, "content")), "<|image>") == 0)
            assert_int_equal(json_object_set_new(token, "content", json_string("<other>")), 0);
    id = json_object_get(vocabulary, "<|image>");
    if (id) {
        assert_int_equal(json_object_set(vocabulary, "<other>", id), 0);
        assert_int_equal(json_object_del(vocabulary, "<|image>"), 0);
    }
    (void)unlink(path);
    assert_int_equal(json_dump_file(tokenizer, path, 0), 0);
    json_decref(tokenizer);
    lr_status st = model_copy_open(dir, err);
    free(path);
    lrt_remove_temp_dir(dir);
    return st;
}

static void test_a_tokenizer_without_a_marker_serves_a_model_without_the_tower(void **state)
{
    (void)state;
    lr_error err = {0};
    lrt_assert_ok(open_without_begin_image("textonly", &err), &err);
    assert_int_equal(open_without_begin_image("regular", &err), LR_E_MODEL);
    assert_non_null(strstr(err.text, "boi_token_id is 783, but "));
    assert_non_null(strstr(err.text, "tokenizer.json has no token <|image>"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_weight_that_is_not_finite_is_named_with_its_place),
        cmocka_unit_test(test_a_clipped_layer_may_lack_a_bound_but_not_have_a_wrong_one),
        cmocka_unit_test(test_an_embedding_that_is_not_finite_is_found_when_it_is_looked_up),
        cmocka_unit_test(test_modules_other_than_a_normalized_pooling_are_refused),
        cmocka_unit_test(test_pooling_other_than_the_mean_of_all_tokens_is_refused),
        cmocka_unit_test(test_what_sentence_transformers_would_do_otherwise_is_refused),
        cmocka_unit_test(test_the_pooling_is_looked_for_where_the_modules_say),
        cmocka_unit_test(test_ids_of_markers_are_those_of_the_tokenizer),
        cmocka_unit_test(test_a_tokenizer_without_a_marker_serves_a_model_without_the_tower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
