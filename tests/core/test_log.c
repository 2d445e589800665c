#include "lr_test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct seen {
    int calls;
    lr_log_level level;
    char text[4096];
    int inside;
    bool overlapped;
} seen;

static void remember(void *arg, lr_log_level level, const char *text)
{
    seen *s = arg;
    /* Plain variables: a second call at the same time is a data race that a sanitizer reports too. */
    if (s->inside) s->overlapped = true;
    s->inside = 1;
    s->calls++;
    s->level = level;
    (void)snprintf(s->text, sizeof s->text, "%s", text);
    s->inside = 0;
}

static void log_again(void *arg, lr_log_level level, const char *text)
{
    remember(arg, level, text);
    lr_log(LR_LOG_ERROR, "from inside");
}

static void test_nothing_happens_without_a_callback(void **state)
{
    (void)state;
    lr_log_set(NULL, NULL, LR_LOG_DEBUG);
    lr_log(LR_LOG_ERROR, "%s", "unheard");
}

static void test_levels_past_the_wanted_one_are_dropped(void **state)
{
    (void)state;
    seen s = {0};
    lr_log_set(remember, &s, LR_LOG_WARNING);
    lr_log(LR_LOG_INFO, "no");
    lr_log(LR_LOG_DEBUG, "no");
    assert_int_equal(s.calls, 0);
    lr_log(LR_LOG_WARNING, "frame %d", 7);
    assert_int_equal(s.calls, 1);
    assert_int_equal(s.level, LR_LOG_WARNING);
    assert_string_equal(s.text, "frame 7");
    lr_log(LR_LOG_ERROR, "x");
    assert_int_equal(s.calls, 2);
    lr_log_set(NULL, NULL, LR_LOG_DEBUG);
    lr_log(LR_LOG_ERROR, "no");
    assert_int_equal(s.calls, 2);
}

static void test_long_texts_are_cut(void **state)
{
    (void)state;
    seen s = {0};
    lr_log_set(remember, &s, LR_LOG_ERROR);
    lr_log(LR_LOG_ERROR, "%05000d", 1);
    lr_log_set(NULL, NULL, LR_LOG_ERROR);
    assert_true(strlen(s.text) >= 1023 && strlen(s.text) < 5000);
}

static void test_a_callback_that_logs_does_not_wait_for_itself(void **state)
{
    (void)state;
    seen s = {0};
    lr_log_set(log_again, &s, LR_LOG_ERROR);
    lr_log(LR_LOG_ERROR, "outer");
    lr_log_set(NULL, NULL, LR_LOG_ERROR);
    assert_int_equal(s.calls, 1);
    assert_string_equal(s.text, "outer");
}

static void *log_much(void *arg)
{
    (void)arg;
    for (int i = 0; i < 500; i++) lr_log(LR_LOG_INFO, "line %d", i);
    return NULL;
}

static void test_calls_come_one_at_a_time(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    seen s = {0};
    pthread_t threads[THREADS];
    lr_log_set(remember, &s, LR_LOG_INFO);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_much, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    lr_log_set(NULL, NULL, LR_LOG_ERROR);
    assert_int_equal(s.calls, THREADS * 500);
    assert_false(s.overlapped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_happens_without_a_callback),
        cmocka_unit_test(test_levels_past_the_wanted_one_are_dropped),
        cmocka_unit_test(test_long_texts_are_cut),
        cmocka_unit_test(test_a_callback_that_logs_does_not_wait_for_itself),
        cmocka_unit_test(test_calls_come_one_at_a_time),
    };
    return cmocka_run_group_tests_name("core log", tests, NULL, NULL);
}
