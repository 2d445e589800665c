/* Token ids equal to the reference's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture_ids.h"

static void check_text(const lr_tokenizer *tokenizer, const json_t *text, const int32_t *expected,
                       size_t n_expected)
{
    lr_ids ids = {0};
    lr_error err = {0};
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text),
                                      true, &ids, &err),
                  &err);
    assert_ids(json_string_value(text), ids.ids, ids.count, expected, n_expected);
    lr_ids_free(&ids);
}

static void check_line(const lr_tokenizer *tokenizer, const char *line, size_t bytes)
{
    json_error_t error;
    json_t *one = json_loadb(line, bytes, JSON_ALLOW_NUL, &error);
    const json_t *list = json_object_get(one, "ids");
    size_t n = json_array_size(list);
    assert_true(n > 0);
    int32_t *expected = malloc(n * sizeof *expected);
    assert_non_null(expected);
    for (size_t i = 0; i < n; i++)
        expected[i] = (int32_t)json_integer_value(json_array_get(list, i));
    check_text(tokenizer, json_object_get(one, "text"), expected, n);
    free(expected);
    json_decref(one);
}

static void test_texts_of_the_tokenizer_fixture_have_the_library_s_ids(void **state)
{
    (void)state;
    lr_tokenizer *tokenizer = fixture_tokenizer("tokenizer");
    size_t n = 0, bytes;
    char *lines = lrt_slurp(LR_FIXTURES "/tokenizer/cases.jsonl", &bytes);
    for (char *line = lines, *end; line < lines + bytes; line = end + 1, n++) {
        end = memchr(line, '\n', (size_t)(lines + bytes - line));
        if (!end) end = lines + bytes;
        if (end > line) check_line(tokenizer, line, (size_t)(end - line));
    }
    assert_true(n > 100);
    free(lines);
    lr_tokenizer_free(tokenizer);
}

static size_t check_checkpoint(const char *dir)
{
    lr_tokenizer *tokenizer = fixture_tokenizer(dir);
    json_t *expected = fixture_json(dir, "expected.json");
    const json_t *cases = json_object_get(expected, "cases"), *one;
    size_t i, texts = 0;
    json_array_foreach(cases, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "kind")), "text") != 0) continue;
        lr_ids ids = fixture_ids(dir, json_string_value(json_object_get(one, "name")));
        check_text(tokenizer, json_object_get(one, "text"), ids.ids, ids.count);
        lr_ids_free(&ids);
        texts++;
    }
    json_decref(expected);
    lr_tokenizer_free(tokenizer);
    return texts;
}

static void test_texts_of_the_checkpoints_have_the_reference_s_ids(void **state)
{
    (void)state;
    assert_true(check_checkpoint("regular") > 0);
    assert_true(check_checkpoint("odd") > 0);
    assert_true(check_checkpoint("textonly") > 0);
    (void)check_checkpoint("long");
}

static void test_pictures_and_sounds_of_the_checkpoints_have_the_reference_s_ids(void **state)
{
    (void)state;
    const char *const dirs[] = {"regular", "odd"};
    for (size_t d = 0; d < 2; d++) {
        lr_sequence_rules rules = fixture_rules(dirs[d]);
        json_t *expected = fixture_json(dirs[d], "expected.json");
        const json_t *one;
        size_t i, seen = 0;
        json_array_foreach(json_object_get(expected, "cases"), i, one)
        {
            const char *kind = json_string_value(json_object_get(one, "kind"));
            bool image = strcmp(kind, "image") == 0;
            if (!image && strcmp(kind, "audio") != 0) continue;
            const char *name = json_string_value(json_object_get(one, "name"));
            uint64_t soft = (uint64_t)json_integer_value(json_object_get(one, "soft_tokens"));
            lr_layout *layout = NULL;
            lr_error err = {0};
            lr_ids ids = fixture_ids(dirs[d], name);
            lrt_assert_ok(image ? lr_layout_picture(&layout, &rules, soft, 48, 48, &err)
                                : lr_layout_sound(&layout, &rules, soft, &err),
                          &err);
            assert_ids(name, layout->ids, layout->n_tokens, ids.ids, ids.count);
            lr_layout_free(layout);
            lr_ids_free(&ids);
            seen++;
        }
        assert_true(seen > 0);
        json_decref(expected);
    }
}

static void test_a_token_is_found_by_its_content(void **state)
{
    (void)state;
    lr_tokenizer *tokenizer = fixture_tokenizer("regular");
    lr_sequence_rules rules = fixture_rules("regular");
    assert_int_equal(lr_tokenizer_id(tokenizer, "<|image>"), rules.begin_image);
    assert_int_equal(lr_tokenizer_id(tokenizer, "<bos>"), 2);
    assert_int_equal(lr_tokenizer_id(tokenizer, "no such token"), -1);
    assert_int_equal(lr_tokenizer_id(tokenizer, ""), -1);
    assert_true(lr_tokenizer_size(tokenizer) > (size_t)rules.video_soft);
    lr_tokenizer_free(tokenizer);
}

static void test_ids_are_appended_with_and_without_the_template(void **state)
{
    (void)state;
    lr_tokenizer *tokenizer = fixture_tokenizer("regular");
    lr_ids ids = {0};
    lr_error err = {0};
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, "a", 1, true, &ids, &err), &err);
    assert_int_equal(ids.count, 3);
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, "a", 1, false, &ids, &err), &err);
    assert_int_equal(ids.count, 4);
    assert_int_equal(ids.ids[0], 2);
    assert_int_equal(ids.ids[2], 1);
    assert_int_equal(ids.ids[3], ids.ids[1]);
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, NULL, 0, false, &ids, &err), &err);
    assert_int_equal(ids.count, 4);
    lr_ids_free(&ids);
    lr_tokenizer_free(tokenizer);
}

static void test_text_that_is_not_utf8_names_the_byte_and_leaves_the_ids(void **state)
{
    (void)state;
    const char *const bad[] = {"abc\xff",         "abc\xc0\x80",
                               "abc\xed\xa0\x80", "abc\xf4\x90\x80\x80",
                               "abc\xe2\x82",     "abc\x80"};
    lr_tokenizer *tokenizer = fixture_tokenizer("regular");
    lr_ids ids = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lr_error err = {0};
        assert_int_equal(lr_tokenizer_encode(tokenizer, bad[i], strlen(bad[i]), true, &ids, &err),
                         LR_E_FORMAT);
        assert_non_null(strstr(err.text, "byte 3"));
        assert_int_equal(ids.count, 0);
    }
    lr_ids_free(&ids);
    lr_tokenizer_free(tokenizer);
}

static void test_the_layout_of_a_text_has_its_ids_and_spans(void **state)
{
    (void)state;
    const char *text = "when does the circle stop <eos> here";
    lr_tokenizer *tokenizer = fixture_tokenizer("regular");
    lr_layout *layout = NULL;
    lr_ids ids = {0};
    lr_error err = {0};
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, text, strlen(text), true, &ids, &err), &err);
    lrt_assert_ok(lr_layout_text(&layout, tokenizer, text, strlen(text), &err), &err);
    assert_ids(text, layout->ids, layout->n_tokens, ids.ids, ids.count);
    assert_int_equal(layout->n_spans, 3);
    assert_int_equal(layout->spans[0].kind, LR_SPAN_BOS);
    assert_int_equal(layout->spans[1].kind, LR_SPAN_TEXT);
    assert_int_equal(layout->spans[1].count, ids.count - 2);
    assert_int_equal(layout->spans[2].kind, LR_SPAN_EOS);
    assert_int_equal(layout->spans[2].first, ids.count - 1);
    assert_int_equal(layout->n_windows, 1);
    assert_int_equal(layout->windows[0].count, ids.count);
    lr_layout_free(layout);
    lrt_assert_ok(lr_layout_text(&layout, tokenizer, "", 0, &err), &err);
    assert_int_equal(layout->n_spans, 2);
    assert_int_equal(layout->n_tokens, 2);
    lr_layout_free(layout);
    lr_ids_free(&ids);
    lr_tokenizer_free(tokenizer);
}

static lr_status encode_and_lay_out(void *arg, lr_error *err)
{
    lr_status st = LR_OK;
    const char *text = "a few words <|image> \xe4\xbb\x8a\xe6\x97\xa5 00:17";
    lr_layout *layout = NULL;
    LR_TRY(lr_layout_text(&layout, arg, text, strlen(text), err));
done:
    lr_layout_free(layout);
    return st;
}

static void test_encoding_survives_each_failed_allocation(void **state)
{
    (void)state;
    lr_tokenizer *tokenizer = fixture_tokenizer("regular");
    assert_true(lrt_fail_each_allocation(encode_and_lay_out, tokenizer) > 5);
    lr_tokenizer_free(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_of_the_tokenizer_fixture_have_the_library_s_ids),
        cmocka_unit_test(test_texts_of_the_checkpoints_have_the_reference_s_ids),
        cmocka_unit_test(test_pictures_and_sounds_of_the_checkpoints_have_the_reference_s_ids),
        cmocka_unit_test(test_a_token_is_found_by_its_content),
        cmocka_unit_test(test_ids_are_appended_with_and_without_the_template),
        cmocka_unit_test(test_text_that_is_not_utf8_names_the_byte_and_leaves_the_ids),
        cmocka_unit_test(test_the_layout_of_a_text_has_its_ids_and_spans),
        cmocka_unit_test(test_encoding_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
