/* tokenizer.json as the files of the family state it: what is supported does what the library does,
 * the rest is refused by name, and no file makes anything crash. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fixture_ids.h"

/* The parts of a small file; NULL: the default below. */
typedef struct file_parts {
    const char *head, *added, *normalizer, *pretokenizer, *postprocessor, *settings, *vocab,
        *merges;
} file_parts;

#define UNDERSCORE "\xe2\x96\x81" /* U+2581 */
#define SPACE_TO_UNDERSCORE                                                                        \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" UNDERSCORE "\"}"
#define BOS "{\"id\":1,\"content\":\"<s>\",\"special\":true,\"normalized\":false}"
#define LETTERS                                                                                    \
    "\"<unk>\":0,\"<s>\":1,\"a\":2,\"b\":3,\"c\":4,\"ab\":5,\"abc\":6,\"" UNDERSCORE "\":7"

static const char *or_default(const char *part, const char *otherwise)
{
    return part ? part : otherwise;
}

static char *file_text(const file_parts *parts)
{
    char *text = NULL;
    int n = asprintf(
        &text,
        "{%s\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s,"
        "\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"BPE\",%s\"unk_token\":\"<unk>\","
        "\"vocab\":{%s},\"merges\":%s}}",
        or_default(parts->head, "\"version\":\"1.0\",\"truncation\":null,"),
        or_default(parts->added, BOS), or_default(parts->normalizer, "null"),
        or_default(parts->pretokenizer, "null"), or_default(parts->postprocessor, "null"),
        or_default(parts->settings, ""), or_default(parts->vocab, LETTERS),
        or_default(parts->merges, "[[\"a\",\"b\"],[\"ab\",\"c\"]]"));
    if (n < 0) fail_msg("out of memory");
    return text;
}

typedef struct scene {
    char *dir, *path;
} scene;

static int set_up(void **state)
{
    scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->dir = lrt_temp_dir();
    s->path = lrt_path(s->dir, "tokenizer.json");
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    scene *s = *state;
    free(s->path);
    lrt_remove_temp_dir(s->dir);
    free(s);
    return 0;
}

static lr_status load_parts(const scene *s, const file_parts *parts, lr_tokenizer **out,
                            lr_error *err)
{
    char *text = file_text(parts);
    lrt_write(s->path, text, strlen(text));
    free(text);
    return lr_tokenizer_load(out, s->path, err);
}

static lr_tokenizer *loaded(const scene *s, const file_parts *parts)
{
    lr_tokenizer *tokenizer = NULL;
    lr_error err = {0};
    lrt_assert_ok(load_parts(s, parts, &tokenizer, &err), &err);
    return tokenizer;
}

static void check_ids(const scene *s, const file_parts *parts, const char *text,
                      const char *expected)
{
    lr_tokenizer *tokenizer = loaded(s, parts);
    lr_ids ids = {0};
    lr_error err = {0};
    char shown[512] = "";
    size_t n = 0;
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, text, strlen(text), true, &ids, &err), &err);
    for (size_t i = 0; i < ids.count && n < sizeof shown - 16; i++)
        n += (size_t)snprintf(shown + n, sizeof shown - n, "%s%d", i ? " " : "", (int)ids.ids[i]);
    if (strcmp(shown, expected) != 0) fail_msg("\"%s\": %s, not %s", text, shown, expected);
    lr_ids_free(&ids);
    lr_tokenizer_free(tokenizer);
}

/* ------------------------------------------------------------------ what is supported */

#define SEQUENCE(pretokenizers) "{\"type\":\"Sequence\",\"pretokenizers\":[" pretokenizers "]}"
#define SPLIT(behavior, invert)                                                                    \
    "{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":\"" behavior                  \
    "\",\"invert\":" invert "}"

static void test_split_cuts_as_its_behavior_says(void **state)
{
    /* With ignore_merges, a piece that is a token shows itself. The library's own example. */
    file_parts parts = {
        .settings = "\"ignore_merges\":true,",
        .vocab = "\"<unk>\":0,\"<s>\":1,\"the\":2,\"final\":3,\"countdown\":4,\"-\":5,\"--\":6,"
                 "\"the-\":7,\"final-\":8,\"-final\":9,\"-countdown\":10",
        .merges = "[]"};
    const char *text = "the-final--countdown";
    parts.pretokenizer = SPLIT("Removed", "false");
    check_ids(*state, &parts, text, "2 3 4");
    parts.pretokenizer = SPLIT("Isolated", "false");
    check_ids(*state, &parts, text, "2 5 3 5 5 4");
    parts.pretokenizer = SPLIT("MergedWithPrevious", "false");
    check_ids(*state, &parts, text, "7 8 5 4");
    parts.pretokenizer = SPLIT("MergedWithNext", "false");
    check_ids(*state, &parts, text, "2 9 5 10");
    parts.pretokenizer = SPLIT("Contiguous", "false");
    check_ids(*state, &parts, text, "2 5 3 6 4");
    parts.pretokenizer = SPLIT("Removed", "true");
    check_ids(*state, &parts, text, "5 5 5");
    parts.pretokenizer = SEQUENCE(SPLIT("Contiguous", "false") "," SPLIT("Isolated", "false"));
    check_ids(*state, &parts, text, "2 5 3 5 5 4");
}

static void test_metaspace_puts_its_character_where_the_scheme_says(void **state)
{
    file_parts parts = {
        .settings = "\"ignore_merges\":true,",
        .vocab = "\"<unk>\":0,\"<s>\":1,\"_a\":2,\"_b\":3,\"a\":4,\"b\":5,\"_a_b\":6,\"a_b\":7",
        .merges = "[]"};
    parts.pretokenizer =
        "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\"}";
    check_ids(*state, &parts, "a b<s>a", "2 3 1 2");
    parts.pretokenizer =
        "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\"}";
    check_ids(*state, &parts, "a b<s>a", "2 3 1 4");
    parts.pretokenizer =
        "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\"}";
    check_ids(*state, &parts, "a b<s>a", "4 3 1 4");
    parts.pretokenizer = "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":"
                         "\"always\",\"split\":false}";
    check_ids(*state, &parts, "a b", "6");
}

static void test_normalizers_apply_one_after_another(void **state)
{
    file_parts parts = {
        .normalizer =
            "{\"type\":\"Sequence\",\"normalizers\":["
            "{\"type\":\"Replace\",\"pattern\":{\"String\":\"xx\"},\"content\":\"a\"},"
            "{\"type\":\"Prepend\",\"prepend\":\"c\"}," SPACE_TO_UNDERSCORE "]}"};
    check_ids(*state, &parts, "xxxxb xxb", "4 2 5 7 5");
    /* Stretches between added tokens are normalized each by itself; nothing stays nothing. */
    check_ids(*state, &parts, "<s>a<s>", "1 4 2 1");
}

static void test_added_tokens_match_as_their_flags_say(void **state)
{
    file_parts parts = {
        .added = BOS ",{\"id\":8,\"content\":\"<m>\",\"special\":true,\"lstrip\":true,\"rstrip\":true},"
                     "{\"id\":9,\"content\":\"cab\",\"special\":true,\"single_word\":true},"
                     "{\"id\":10,\"content\":\"a b\",\"normalized\":true},"
                     "{\"id\":11,\"content\":\"<m>c\",\"special\":true}",
        .normalizer = SPACE_TO_UNDERSCORE};
    check_ids(*state, &parts, "a  <m> \t\u3000b", "2 8 3"); /* U+3000 is a space */
    check_ids(*state, &parts, "<m>c", "11"); /* the longest */
    check_ids(*state, &parts, "b cab", "3 7 9");
    check_ids(*state, &parts, "bcab", "3 4 5");        /* not a word of its own */
    check_ids(*state, &parts, "cab\xc3\xa9", "4 5 0"); /* U+00E9 is a letter */
    check_ids(*state, &parts, "a b", "10");
    check_ids(*state, &parts, "a" UNDERSCORE "b", "10"); /* matched once normalized */
    check_ids(*state, &parts, "<m> <m>", "8 8");         /* stripped once */
}

/* A million tokens that take the spaces around them, being spaces themselves: each space is looked at a few
 * times, not a million. */
static void test_tokens_of_spaces_that_strip_spaces_take_no_time(void **state)
{
    enum { SPACES = 1000000 };
    file_parts parts = {
        .added = BOS ",{\"id\":8,\"content\":\" \",\"special\":true,\"lstrip\":true,\"rstrip\":true},"
                     "{\"id\":9,\"content\":\"\\t\",\"special\":true,\"lstrip\":true}"};
    lr_tokenizer *tokenizer = loaded(*state, &parts);
    lr_error err = {0};
    lr_ids ids = {0};
    char *text = malloc(SPACES);
    assert_non_null(text);
    memset(text, ' ', SPACES);
    clock_t begin = clock();
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, text, SPACES, true, &ids, &err), &err);
    assert_int_equal(ids.count, 1);
    ids.count = 0;
    memset(text, '\t', SPACES);
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, text, SPACES, true, &ids, &err), &err);
    assert_int_equal(ids.count, SPACES);
    assert_true(clock() - begin < 60 * CLOCKS_PER_SEC);
    free(text);
    lr_ids_free(&ids);
    lr_tokenizer_free(tokenizer);
}

static void test_a_text_that_normalizes_to_gigabytes_is_refused(void **state)
{
#define TEN_TIMES(c) "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" c "\"},\"content\":\"" c c c c c c c c c c "\"}"
#define HUNDRED_TIMES(c) TEN_TIMES(c) "," TEN_TIMES(c)
    file_parts parts = {.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[" HUNDRED_TIMES("a") ","
                                      HUNDRED_TIMES("a") "," HUNDRED_TIMES("a") "]}"};
    lr_tokenizer *tokenizer = loaded(*state, &parts);
    lr_error err = {0};
    lr_ids ids = {0};
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, "a", 1, true, &ids, &err), &err);
    assert_int_equal(ids.count, 1000000);
    ids.count = 0;
    lr_alloc_reset_peak();
    char text[1000];
    memset(text, 'a', sizeof text);
    assert_int_equal(lr_tokenizer_encode(tokenizer, text, sizeof text, true, &ids, &err), LR_E_UNSUPPORTED);
    assert_true(lr_alloc_peak() < (size_t)1 << 30);
    lr_ids_free(&ids);
    lr_tokenizer_free(tokenizer);
}

static void test_unknown_characters_become_bytes_or_unk(void **state)
{
    const char *bytes = "\"<unk>\":0,\"a\":1,\"<0xC3>\":2,\"<0xA9>\":3,\"<s>\":4";
    file_parts parts = {
        .added = "", .vocab = bytes, .merges = "[]", .settings = "\"byte_fallback\":true,"};
    check_ids(*state, &parts, "a\u00e9a", "1 2 3 1");
    check_ids(*state, &parts, "\xc3\xa8\xc3\xa8", "0 0"); /* a byte token is missing */
    parts.settings = "\"byte_fallback\":true,\"fuse_unk\":true,";
    check_ids(*state, &parts, "\u00e8\u00e8a", "0 1");
    /* The library lets byte tokens overtake an unknown character that waits to be fused. */
    check_ids(*state, &parts, "\u00e8\u00e9\u00e8a", "2 3 0 1");
    parts.settings = "";
    check_ids(*state, &parts, "\xc3\xa9\xc3\xa9", "0 0");
}

static void test_merges_may_be_strings_and_stand_before_the_vocabulary(void **state)
{
    file_parts parts = {.merges = "[\"#version: 0.2\",\"a b\",\"ab c\"]"};
    check_ids(*state, &parts, "abc ab", "6 0 5");
    const char *text = "{\"model\":{\"merges\":[[\"a\",\"b\"],[\"ab\",\"c\"]],\"vocab\":{" LETTERS
                       "},\"unk_token\":\"<unk>\",\"type\":\"BPE\"}}";
    scene *s = *state;
    lr_tokenizer *tokenizer = NULL;
    lr_ids ids = {0};
    lr_error err = {0};
    lrt_write(s->path, text, strlen(text));
    lrt_assert_ok(lr_tokenizer_load(&tokenizer, s->path, &err), &err);
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, "abcab", 5, true, &ids, &err), &err);
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.ids[0], 6);
    assert_int_equal(ids.ids[1], 5);
    lr_ids_free(&ids);
    lr_tokenizer_free(tokenizer);
}

static void test_a_pair_of_merges_that_stands_twice_has_its_last_rank(void **state)
{
    file_parts parts = {.vocab = "\"<unk>\":0,\"<s>\":1,\"a\":2,\"b\":3,\"ab\":4,\"ba\":5",
                        .merges = "[[\"a\",\"b\"],[\"b\",\"a\"],[\"a\",\"b\"]]"};
    check_ids(*state, &parts, "aba", "2 5");
}

#define SPECIAL(name) "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define TEXT "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define TEMPLATE(single)                                                                           \
    "{\"type\":\"TemplateProcessing\",\"single\":[" single "],\"pair\":[],"                        \
    "\"special_tokens\":{\"S\":{\"id\":\"S\",\"ids\":[1,0],\"tokens\":[\"<s>\",\"<unk>\"]}}}"

static void test_the_template_stands_around_the_text(void **state)
{
    file_parts parts = {.postprocessor = TEMPLATE(SPECIAL("S") "," TEXT "," SPECIAL("S"))};
    check_ids(*state, &parts, "ab", "1 0 5 1 0");
    check_ids(*state, &parts, "", "1 0 1 0");
    parts.postprocessor =
        "{\"type\":\"Sequence\",\"processors\":[" TEMPLATE(TEXT "," SPECIAL("S")) "]}";
    check_ids(*state, &parts, "ab", "5 1 0");
}

static void test_escapes_and_nul_stand_in_tokens(void **state)
{
    file_parts parts = {
        .vocab =
            "\"<unk>\":0,\"<s>\":1,\"\\u0061\":2,\"\\u0000\":3,\"\\ud83d\\ude00\":4,\"\\\\\":5,"
            "\"\\\"\":6,\"\\u00e9\":7",
        .merges = "[]"};
    scene *s = *state;
    lr_tokenizer *tokenizer = loaded(s, &parts);
    lr_ids ids = {0};
    lr_error err = {0};
    const char text[] = "a\0\xf0\x9f\x98\x80\\\"\xc3\xa9";
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, text, sizeof text - 1, true, &ids, &err), &err);
    assert_int_equal(ids.count, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(ids.ids[i], i + 2);
    lr_ids_free(&ids);
    lr_tokenizer_free(tokenizer);
}

/* ------------------------------------------------------------------ what is refused */

typedef struct refusal {
    file_parts parts;
    lr_status status;
    const char *names; /* stands in the message */
} refusal;

static void test_what_is_not_supported_is_refused_by_name_and_place(void **state)
{
    static const refusal table[] = {
        {{.normalizer = "{\"type\":\"NFKC\"}"},
         LR_E_UNSUPPORTED,
         "normalizer: the normalizer \"NFKC\""},
        {{.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Lowercase\"}]}"},
         LR_E_UNSUPPORTED,
         "normalizer.normalizers[0]: the normalizer \"Lowercase\""},
        {{.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a+\"},\"content\":\"\"}"},
         LR_E_UNSUPPORTED,
         "regular expression"},
        {{.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}"},
         LR_E_UNSUPPORTED,
         "empty pattern"},
        {{.pretokenizer = "{\"type\":\"ByteLevel\"}"},
         LR_E_UNSUPPORTED,
         "pre-tokenizer \"ByteLevel\""},
        {{.pretokenizer =
              "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"New\"}"},
         LR_E_UNSUPPORTED,
         "behavior \"New\""},
        {{.pretokenizer = "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":"
                          "\"Removed\",\"limit\":3}"},
         LR_E_UNSUPPORTED,
         "pre_tokenizer: the setting \"limit\""},
        {{.pretokenizer =
              "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}"},
         LR_E_UNSUPPORTED,
         "prepend_scheme \"last\""},
        {{.pretokenizer = "{\"type\":\"Metaspace\",\"replacement\":\"__\"}"},
         LR_E_FORMAT,
         "replacement"},
        {{.postprocessor = "{\"type\":\"RobertaProcessing\"}"},
         LR_E_UNSUPPORTED,
         "\"RobertaProcessing\""},
        {{.postprocessor = TEMPLATE(SPECIAL("S"))}, LR_E_UNSUPPORTED, "leaves the text out"},
        {{.postprocessor = TEMPLATE(TEXT "," SPECIAL("T"))}, LR_E_FORMAT, "\"T\" has no ids"},
        {{.postprocessor =
              "{\"type\":\"Sequence\",\"processors\":[" TEMPLATE(TEXT) "," TEMPLATE(TEXT) "]}"},
         LR_E_UNSUPPORTED,
         "processors[1]: more than one template"},
        {{.settings = "\"dropout\":0.1,"}, LR_E_UNSUPPORTED, "model.dropout"},
        {{.settings = "\"continuing_subword_prefix\":\"##\","},
         LR_E_UNSUPPORTED,
         "continuing_subword_prefix"},
        {{.settings = "\"end_of_word_suffix\":\"</w>\","}, LR_E_UNSUPPORTED, "end_of_word_suffix"},
        {{.settings = "\"future\":true,"}, LR_E_UNSUPPORTED, "model: the setting \"future\""},
        {{.head = "\"version\":\"2.0\","}, LR_E_UNSUPPORTED, "version"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        lr_tokenizer *tokenizer = NULL;
        lr_error err = {0};
        lr_status st = load_parts(*state, &table[i].parts, &tokenizer, &err);
        if (st != table[i].status || !strstr(err.text, table[i].names) ||
            !strstr(err.text, "tokenizer.json"))
            fail_msg("row %zu: %s \"%s\" does not name %s", i, lr_status_name(st), err.text,
                     table[i].names);
        assert_null(tokenizer);
    }
}

static void test_broken_vocabularies_are_refused(void **state)
{
    static const refusal table[] = {
        {{.vocab = LETTERS ",\"a\":8"}, LR_E_FORMAT, "\"a\" stands there twice"},
        {{.vocab = LETTERS ",\"d\":7"}, LR_E_FORMAT, "id 7"},
        {{.vocab = LETTERS ",\"d\":-1"}, LR_E_FORMAT, "\"d\" has the id -1"},
        {{.vocab = LETTERS ",\"d\":1.5"}, LR_E_FORMAT, "\"d\" has the id 1.5"},
        {{.vocab = LETTERS ",\"d\":99999999999999999999"}, LR_E_FORMAT, "\"d\" has the id"},
        {{.vocab = LETTERS ",\"d\":16777216"}, LR_E_FORMAT, "\"d\" has the id"},
        {{.vocab = LETTERS ",\"d\":\"8\""}, LR_E_FORMAT, "not a number"},
        {{.vocab = LETTERS ",\"d\":{}"}, LR_E_FORMAT, "not a number"},
        {{.vocab = "\"a\":0,\"b\":1"}, LR_E_FORMAT, "is not in the vocabulary"},
        {{.merges = "[[\"a\",\"c\"]]"}, LR_E_FORMAT, "merges[0]: \"ac\""},
        {{.merges = "[[\"a\",\"b\"],[\"d\",\"c\"]]"}, LR_E_FORMAT, "merges[1]: \"d\""},
        {{.merges = "[[\"a\"]]"}, LR_E_FORMAT, "fewer than two"},
        {{.merges = "[[\"a\",\"b\",\"c\"]]"}, LR_E_FORMAT, "more than two"},
        {{.merges = "[\"ab\"]"}, LR_E_FORMAT, "not two tokens"},
        {{.merges = "[\"a b c\"]"}, LR_E_FORMAT, "not two tokens"},
        {{.merges = "[\"a b\",[\"ab\",\"c\"]]"}, LR_E_FORMAT, "mixed"},
        {{.merges = "[7]"}, LR_E_FORMAT, "merges[0]"},
        {{.merges = "{}"}, LR_E_FORMAT, "merges"},
        {{.merges = "null"}, LR_E_FORMAT, "merges"},
        {{.vocab = LETTERS "},\"vocab\":{"}, LR_E_FORMAT, "vocab stands there twice"},
        {{.added = BOS "," BOS}, LR_E_FORMAT, "\"<s>\" stands there twice"},
        {{.added = "{\"id\":5,\"content\":\"<s>\"}"}, LR_E_FORMAT, "where it is 1"},
        {{.added = "{\"id\":8,\"content\":\"\"}"}, LR_E_FORMAT, "no content"},
        {{.added = "{\"id\":9,\"content\":\"new\"}"}, LR_E_FORMAT, "where it is 8"},
        {{.added = "{\"id\":8}"}, LR_E_FORMAT, "content"},
        {{.added = "7"}, LR_E_FORMAT, "added_tokens[0]"},
        {{.head = "\"added_tokens\":[],"}, LR_E_FORMAT, "\"added_tokens\" stands there twice"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        lr_tokenizer *tokenizer = NULL;
        lr_error err = {0};
        lr_status st = load_parts(*state, &table[i].parts, &tokenizer, &err);
        if (st != table[i].status || !strstr(err.text, table[i].names))
            fail_msg("row %zu: %s \"%s\" does not name %s", i, lr_status_name(st), err.text,
                     table[i].names);
        assert_null(tokenizer);
    }
}

static void check_refused(const scene *s, const char *text, size_t bytes, const char *names)
{
    lr_tokenizer *tokenizer = NULL;
    lr_error err = {0};
    lrt_write(s->path, text, bytes);
    lr_status st = lr_tokenizer_load(&tokenizer, s->path, &err);
    if (st == LR_OK || !strstr(err.text, names))
        fail_msg("\"%.60s\": %s \"%s\" does not name %s", text, lr_status_name(st), err.text,
                 names);
}

static void test_what_is_not_json_is_refused(void **state)
{
    static const char *const table[][2] = {
        {"", "JSON"},
        {"[]", "object"},
        {"7", "object"},
        {"{\"model\":7}", "model"},
        {"{} {}", "JSON"},
        {"{\"model\":{\"vocab\":{\"\\ud83d\":0}}}", "surrogate"},
        {"{\"model\":{\"vocab\":{\"\\ude00\":0}}}", "surrogate"},
        {"{\"model\":{\"vocab\":{\"\\ud83d\\u0041\":0}}}", "surrogate"},
        {"{\"model\":{\"vocab\":{\"\\ud83d", "surrogate"},
        {"{\"model\":{\"vocab\":{\"\xff\":0}}}", "UTF-8"},
        {"{\"a\\u0000b\":1}", "NUL"},
        {"{\"a\":1e999}", "out of range"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        check_refused(*state, table[i][0], strlen(table[i][0]), table[i][1]);
}

/* What makes a parser's buffers grow: depth, long strings, long numbers, and each cut off. */
static void test_large_constructs_are_refused_or_read(void **state)
{
    size_t n = 3000000;
    char *text = malloc(n + 64);
    assert_non_null(text);
    memset(text, '[', n);
    check_refused(*state, text, n, "nested");
    memset(text, '7', n);
    memcpy(text, "{\"a\":", 5);
    check_refused(*state, text, n, "tokenizer.json");
    memset(text, 'n', n);
    memcpy(text, "{\"a\":\"\\n", 8);
    check_refused(*state, text, n, "JSON");
    memcpy(text + n, "\"}", 2);
    check_refused(*state, text, n + 2, "no model");
    memcpy(text, "{\"\\nnnnn", 8);
    memcpy(text + n, "\":1}", 4);
    check_refused(*state, text, n + 4, "key");
    free(text);
}

static void test_a_missing_file_and_a_directory_are_refused(void **state)
{
    scene *s = *state;
    lr_tokenizer *tokenizer = NULL;
    lr_error err = {0};
    assert_int_equal(lr_tokenizer_load(&tokenizer, "/nonexistent/tokenizer.json", &err), LR_E_IO);
    assert_non_null(strstr(err.text, "/nonexistent/tokenizer.json"));
    lr_error_clear(&err);
    assert_int_equal(lr_tokenizer_load(&tokenizer, s->dir, &err), LR_E_IO);
}

/* ------------------------------------------------------------------ damage, failures, threads */

static const file_parts everything = {
    .added = BOS ",{\"id\":10,\"content\":\"<m>\",\"special\":true,\"lstrip\":true,\"rstrip\":true,"
                 "\"single_word\":true},{\"id\":11,\"content\":\"a b\",\"normalized\":true}",
    .normalizer =
        "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"c\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" UNDERSCORE "\"}]}",
    .pretokenizer = SEQUENCE(SPLIT("MergedWithNext", "true") ",{\"type\":\"Metaspace\","
                             "\"replacement\":\"" UNDERSCORE "\",\"prepend_scheme\":\"first\"}"),
    .postprocessor = TEMPLATE(SPECIAL("S") "," TEXT "," SPECIAL("S")),
    .settings = "\"dropout\":null,\"fuse_unk\":true,\"byte_fallback\":true,\"ignore_merges\":false,"
                "\"continuing_subword_prefix\":null,",
    .vocab = LETTERS ",\"<0x41>\":8,\"\\u00e9\\n\":9",
};

/* Whatever the bytes are: an error with a text, or a tokenizer that encodes. */
static void try_bytes(const scene *s, const char *text, size_t bytes)
{
    static const char sample[] = "ab <m> cab-a b<s>A\xc3\xa9\n  abcabc";
    lr_tokenizer *tokenizer = NULL;
    lr_error err = {0};
    lrt_write(s->path, text, bytes);
    if (lr_tokenizer_load(&tokenizer, s->path, &err) != LR_OK) {
        assert_null(tokenizer);
        assert_int_not_equal(err.text[0], 0);
        return;
    }
    lr_ids ids = {0};
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, sample, sizeof sample - 1, true, &ids, &err),
                  &err);
    for (size_t i = 0; i < ids.count; i++)
        assert_true(ids.ids[i] >= 0);
    lr_ids_free(&ids);
    lr_tokenizer_free(tokenizer);
}

static void test_damaged_files_never_crash(void **state)
{
    scene *s = *state;
    char *whole = file_text(&everything);
    size_t bytes = strlen(whole);
    char *damaged = malloc(bytes + 8);
    assert_non_null(damaged);
    try_bytes(s, whole, bytes);
    for (size_t n = 0; n < bytes; n++)
        try_bytes(s, whole, n);
    lrt_random random;
    lrt_random_init(&random, 31);
    static const char telling[] = "\"\\{}[]:,0123456789-eu \xc3\xa9\xff";
    for (int i = 0; i < 5000; i++) {
        memcpy(damaged, whole, bytes);
        for (uint64_t k = 1 + lrt_below(&random, 3); k-- > 0;) {
            size_t at = lrt_below(&random, bytes);
            if (lrt_below(&random, 2))
                damaged[at] = telling[lrt_below(&random, sizeof telling - 1)];
            else
                damaged[at] = (char)(damaged[at] ^ (1 << lrt_below(&random, 8)));
        }
        size_t from = lrt_below(&random, bytes), to = lrt_below(&random, bytes);
        size_t n = lrt_below(&random, bytes - (from > to ? from : to));
        if (i % 4 == 0) memmove(damaged + to, damaged + from, n % 40);
        try_bytes(s, damaged, bytes);
    }
    free(damaged);
    free(whole);
}

static lr_status load_file(void *arg, lr_error *err)
{
    lr_tokenizer *tokenizer = NULL;
    lr_status st = lr_tokenizer_load(&tokenizer, arg, err);
    lr_tokenizer_free(tokenizer);
    return st;
}

static void test_loading_survives_each_failed_allocation(void **state)
{
    scene *s = *state;
    char *text = file_text(&everything);
    lrt_write(s->path, text, strlen(text));
    free(text);
    assert_true(lrt_fail_each_allocation(load_file, s->path) > 20);
}

static void *encode_many(void *arg)
{
    const lr_tokenizer *tokenizer = arg;
    uintptr_t sum = 0;
    for (int i = 0; i < 200; i++) {
        lr_ids ids = {0};
        if (lr_tokenizer_encode(tokenizer, "ab <m> cab-a b<s>", 17, true, &ids, NULL) == LR_OK)
            for (size_t k = 0; k < ids.count; k++)
                sum = sum * 31 + (uintptr_t)ids.ids[k];
        lr_ids_free(&ids);
    }
    return (void *)sum; /* an integer in a pointer's place: only compared */
}

static void test_threads_encode_at_the_same_time(void **state)
{
    lr_tokenizer *tokenizer = loaded(*state, &everything);
    pthread_t threads[3];
    void *sums[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_many, tokenizer), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], &sums[i]), 0);
    assert_ptr_equal(sums[0], sums[1]);
    assert_ptr_equal(sums[0], sums[2]);
    lr_tokenizer_free(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_cuts_as_its_behavior_says),
        cmocka_unit_test(test_metaspace_puts_its_character_where_the_scheme_says),
        cmocka_unit_test(test_normalizers_apply_one_after_another),
        cmocka_unit_test(test_added_tokens_match_as_their_flags_say),
        cmocka_unit_test(test_tokens_of_spaces_that_strip_spaces_take_no_time),
        cmocka_unit_test(test_a_text_that_normalizes_to_gigabytes_is_refused),
        cmocka_unit_test(test_unknown_characters_become_bytes_or_unk),
        cmocka_unit_test(test_merges_may_be_strings_and_stand_before_the_vocabulary),
        cmocka_unit_test(test_a_pair_of_merges_that_stands_twice_has_its_last_rank),
        cmocka_unit_test(test_the_template_stands_around_the_text),
        cmocka_unit_test(test_escapes_and_nul_stand_in_tokens),
        cmocka_unit_test(test_what_is_not_supported_is_refused_by_name_and_place),
        cmocka_unit_test(test_broken_vocabularies_are_refused),
        cmocka_unit_test(test_what_is_not_json_is_refused),
        cmocka_unit_test(test_large_constructs_are_refused_or_read),
        cmocka_unit_test(test_a_missing_file_and_a_directory_are_refused),
        cmocka_unit_test(test_damaged_files_never_crash),
        cmocka_unit_test(test_loading_survives_each_failed_allocation),
        cmocka_unit_test(test_threads_encode_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
