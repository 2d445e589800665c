/* The merges against an O(n^2) oracle, and a vocabulary of the published size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fixture_ids.h"
#include "made_tokenizer.h"

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A text of about n characters: of the alphabet, or whole tokens one after another. */
static size_t random_text(const made_tokenizer *made, lrt_random *random, size_t n, char *out)
{
    size_t bytes = 0;
    bool tokens = lrt_below(random, 2) == 0;
    for (size_t i = 0; i < n; i++) {
        if (!tokens || lrt_below(random, 4) == 0) {
            bytes += made_character(random, out + bytes);
            continue;
        }
        const char *text = made->texts[260 + lrt_below(random, made->count - 260)];
        memcpy(out + bytes, text, strlen(text));
        bytes += strlen(text);
    }
    return bytes;
}

static void check_against_oracle(const lr_tokenizer *tokenizer, const made_tokenizer *made,
                                 lrt_random *random, int texts, size_t most)
{
    char *text = malloc(32 * (most + 1));
    assert_non_null(text);
    for (int i = 0; i < texts; i++) {
        size_t bytes = random_text(made, random, 1 + lrt_below(random, most), text);
        lr_ids ids = {0}, expected = made_encode(made, text, bytes);
        lr_error err = {0};
        char what[64];
        (void)snprintf(what, sizeof what, "text %d of %zu bytes", i, bytes);
        lrt_assert_ok(lr_tokenizer_encode(tokenizer, text, bytes, false, &ids, &err), &err);
        assert_ids(what, ids.ids, ids.count, expected.ids, expected.count);
        lr_ids_free(&ids);
        lr_ids_free(&expected);
    }
    free(text);
}

static lr_tokenizer *load(const char *path)
{
    lr_tokenizer *tokenizer = NULL;
    lr_error err = {0};
    lrt_assert_ok(lr_tokenizer_load(&tokenizer, path, &err), &err);
    return tokenizer;
}

static void test_small_made_tokenizers_merge_as_the_oracle(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 21);
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "tokenizer.json");
    for (unsigned i = 0; i < 48; i++) {
        made_options options = {.entries = 700 + 37 * i,
                                .all_merges = i & 1,
                                .shuffled = i & 2,
                                .byte_tokens = i & 4,
                                .fuse_unk = i & 8,
                                .string_merges = i & 16};
        made_tokenizer *made = made_create(path, &options, &random);
        lr_tokenizer *tokenizer = load(path);
        assert_int_equal(lr_tokenizer_size(tokenizer), made->count);
        check_against_oracle(tokenizer, made, &random, 30, 40);
        lr_tokenizer_free(tokenizer);
        made_free(made);
    }
    free(path);
    lrt_remove_temp_dir(dir);
}

/* Without unknown characters and byte tokens, the tokens' texts put together are the text. */
static void check_round_trip(const lr_tokenizer *tokenizer, const made_tokenizer *made,
                             lrt_random *random)
{
    char *text = malloc(32 * 401), *back = malloc(32 * 401);
    assert_true(text && back);
    for (int i = 0; i < 300; i++) {
        size_t bytes = 0, held = 0;
        for (size_t k = lrt_below(random, 400); k-- > 0;) {
            const char *token = made->texts[260 + lrt_below(random, made->count - 260)];
            memcpy(text + bytes, token, strlen(token));
            bytes += strlen(token);
        }
        lr_ids ids = {0};
        lr_error err = {0};
        lrt_assert_ok(lr_tokenizer_encode(tokenizer, text, bytes, false, &ids, &err), &err);
        for (size_t k = 0; k < ids.count; k++) {
            assert_in_range(ids.ids[k], 0, made->count - 1);
            const char *token = made->texts[ids.ids[k]];
            assert_true(held + strlen(token) <= bytes);
            memcpy(back + held, token, strlen(token));
            held += strlen(token);
        }
        assert_int_equal(held, bytes);
        if (bytes) assert_memory_equal(back, text, bytes);
        lr_ids_free(&ids);
    }
    free(text);
    free(back);
}

static void test_a_vocabulary_of_the_published_size_loads_and_encodes(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 22);
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "tokenizer.json");
    made_options options = {
        .entries = 262144, .all_merges = true, .byte_tokens = true, .fuse_unk = true};
    made_tokenizer *made = made_create(path, &options, &random);
    double start = seconds_now();
    lr_tokenizer *tokenizer = load(path);
    print_message("%zu entries and %zu merges: loaded in %.3f s\n", made->count, made->n_merges,
                  seconds_now() - start);
    assert_int_equal(lr_tokenizer_size(tokenizer), 262144);
    for (size_t i = 0; i < made->count; i++)
        if (lr_tokenizer_id(tokenizer, made->texts[i]) != (int32_t)i)
            fail_msg("entry %zu is found as %d", i,
                     (int)lr_tokenizer_id(tokenizer, made->texts[i]));
    check_round_trip(tokenizer, made, &random);
    check_against_oracle(tokenizer, made, &random, 300, 60);
    lr_tokenizer_free(tokenizer);
    made_free(made);
    free(path);
    lrt_remove_temp_dir(dir);
}

/* One stretch of a million characters: what is quadratic would not come back. */
static void test_a_long_stretch_is_encoded_in_one_piece(void **state)
{
    (void)state;
    lrt_random random;
    lrt_random_init(&random, 23);
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "tokenizer.json");
    made_options options = {.entries = 3000, .all_merges = true, .byte_tokens = true};
    made_tokenizer *made = made_create(path, &options, &random);
    lr_tokenizer *tokenizer = load(path);
    size_t bytes = 1000000;
    char *text = malloc(bytes);
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)('a' + lrt_below(&random, i < bytes / 2 ? 1 : 12));
    lr_ids ids = {0};
    lr_error err = {0};
    lrt_assert_ok(lr_tokenizer_encode(tokenizer, text, bytes, false, &ids, &err), &err);
    size_t held = 0;
    for (size_t i = 0; i < ids.count; i++) {
        const char *token = made->texts[ids.ids[i]];
        assert_true(held + strlen(token) <= bytes);
        assert_memory_equal(text + held, token, strlen(token));
        held += strlen(token);
    }
    assert_int_equal(held, bytes);
    free(text);
    lr_ids_free(&ids);
    lr_tokenizer_free(tokenizer);
    made_free(made);
    free(path);
    lrt_remove_temp_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_made_tokenizers_merge_as_the_oracle),
        cmocka_unit_test(test_a_vocabulary_of_the_published_size_loads_and_encodes),
        cmocka_unit_test(test_a_long_stretch_is_encoded_in_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
