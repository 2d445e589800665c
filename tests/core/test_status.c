#include "lr_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *repeat(const char *piece, size_t times)
{
    size_t n = strlen(piece);
    char *text = malloc(n * times + 1);
    assert_non_null(text);
    for (size_t i = 0; i < times; i++) memcpy(text + i * n, piece, n);
    text[n * times] = '\0';
    return text;
}

static void test_first_failure_wins(void **state)
{
    (void)state;
    lr_error err = {0};
    assert_int_equal(lr_fail(&err, LR_E_IO, "%s: %d", "disk", 7), LR_E_IO);
    assert_int_equal(lr_fail(&err, LR_E_NOMEM, "later"), LR_E_NOMEM);
    assert_int_equal(lr_fail_errno(&err, LR_E_FORMAT, ENOENT, "later"), LR_E_FORMAT);
    assert_int_equal(err.status, LR_E_IO);
    assert_string_equal(err.text, "disk: 7");
}

static void test_no_record_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(lr_fail(NULL, LR_E_PEER, "x"), LR_E_PEER);
    assert_int_equal(lr_fail_errno(NULL, LR_E_IO, EIO, "x"), LR_E_IO);
    lr_error_context(NULL, "x");
    lr_error_clear(NULL);
}

static void test_errno_text_is_appended(void **state)
{
    (void)state;
    lr_error err = {0};
    assert_int_equal(lr_fail_errno(&err, LR_E_IO, ENOENT, "a%s", ".mp4"), LR_E_IO);
    assert_string_equal(err.text, "a.mp4: No such file or directory");
}

static void test_context_goes_before_the_text(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_error_context(&err, "nothing failed yet");
    assert_int_equal(err.status, LR_OK);
    assert_string_equal(err.text, "");
    lr_fail(&err, LR_E_FORMAT, "no moov");
    lr_error_context(&err, "stream %d", 2);
    lr_error_context(&err, "a.mp4");
    assert_int_equal(err.status, LR_E_FORMAT);
    assert_string_equal(err.text, "a.mp4: stream 2: no moov");
}

static void test_clear_allows_another_failure(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_fail(&err, LR_E_IO, "one");
    lr_error_clear(&err);
    assert_int_equal(err.status, LR_OK);
    assert_string_equal(err.text, "");
    lr_fail(&err, LR_E_MODEL, "two");
    assert_string_equal(err.text, "two");
}

static void test_long_text_is_cut_between_characters(void **state)
{
    (void)state;
    char *text = repeat("\xe2\x82\xac", 500); /* the euro sign, 3 bytes */
    for (size_t shift = 0; shift < 3; shift++) {
        lr_error err = {0};
        lr_fail(&err, LR_E_IO, "%.*s%s", (int)shift, "xx", text);
        size_t length = strlen(err.text);
        assert_true(length <= LR_ERROR_TEXT - 1 && length > LR_ERROR_TEXT - 4);
        assert_int_equal((length - shift) % 3, 0);
    }
    free(text);
}

static void test_cause_survives_a_long_context(void **state)
{
    (void)state;
    char *name = repeat("\xc3\xa9", 2000);
    lr_error err = {0};
    lr_fail_errno(&err, LR_E_IO, ENOENT, "%s", name);
    assert_non_null(strstr(err.text, "...: No such file or directory"));
    assert_true(strlen(err.text) > LR_ERROR_TEXT - 4);
    for (int i = 0; i < 5; i++) lr_error_context(&err, "%s", name);
    assert_true(strlen(err.text) <= LR_ERROR_TEXT - 1);
    assert_memory_equal(err.text, "\xc3\xa9\xc3\xa9", 4);

    lr_error_clear(&err);
    lr_fail(&err, LR_E_FORMAT, "the cause");
    lr_error_context(&err, "%s", name);
    assert_string_equal(err.text + strlen(err.text) - 14, "...: the cause");
    free(name);
}

static void test_malformed_bytes_become_question_marks(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"caf\xe9.mp4", "caf?.mp4"},                         /* Latin-1 */
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\xac", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\xac"},
        {"\xc0\xaf", "??"},                                  /* overlong */
        {"\xe0\x80\xaf", "???"},                             /* overlong */
        {"\xed\xa0\x80", "???"},                             /* surrogate */
        {"\xf4\x90\x80\x80", "????"},                        /* above U+10FFFF */
        {"\xf0\x8f\x80\x80", "????"},                        /* overlong */
        {"a\xe2\x82", "a??"},                                /* cut */
        {"\x80", "?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lr_error err = {0};
        lr_fail(&err, LR_E_IO, "%s", cases[i][0]);
        assert_string_equal(err.text, cases[i][1]);
    }
}

static void test_every_status_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int a = LR_OK; a <= LR_E_INTERNAL; a++) {
        assert_string_not_equal(lr_status_name((lr_status)a), "unknown");
        for (int b = LR_OK; b < a; b++)
            assert_string_not_equal(lr_status_name((lr_status)a), lr_status_name((lr_status)b));
    }
    assert_string_equal(lr_status_name(LR_OK), "ok");
    assert_string_equal(lr_status_name(LR_E_NOMEM), "no-memory");
}

static lr_status fails_inside(int step, lr_error *err)
{
    lr_status st = LR_OK;
    LR_TRY(step == 1 ? lr_fail(err, LR_E_IO, "one") : LR_OK);
    if (step == 2) LR_FAIL(LR_E_MODEL, "two %d", step);
done:
    return st;
}

static void test_macros_leave_by_done(void **state)
{
    (void)state;
    lr_error err = {0};
    assert_int_equal(fails_inside(0, &err), LR_OK);
    assert_int_equal(fails_inside(1, &err), LR_E_IO);
    assert_string_equal(err.text, "one");
    lr_error_clear(&err);
    assert_int_equal(fails_inside(2, &err), LR_E_MODEL);
    assert_string_equal(err.text, "two 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_failure_wins),
        cmocka_unit_test(test_no_record_is_allowed),
        cmocka_unit_test(test_errno_text_is_appended),
        cmocka_unit_test(test_context_goes_before_the_text),
        cmocka_unit_test(test_clear_allows_another_failure),
        cmocka_unit_test(test_long_text_is_cut_between_characters),
        cmocka_unit_test(test_cause_survives_a_long_context),
        cmocka_unit_test(test_malformed_bytes_become_question_marks),
        cmocka_unit_test(test_every_status_has_a_name_of_its_own),
        cmocka_unit_test(test_macros_leave_by_done),
    };
    return cmocka_run_group_tests_name("core status", tests, NULL, NULL);
}
