/* segments.jsonl and frames.jsonl of a set: what is no such row is refused, with the line's number, and what
 * is another one than was written. */
#include "set_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuse(const char *file, const char *rows, size_t bytes, const char *words)
{
    const set_case what = {.dim = 4, .n_segments = 2, .n_frames = 2, .seed = 3, .model_hash = "h", .key = "k"};
    char *dir = lrt_temp_dir(), *set_path = lrt_path(dir, "set"), *path = lrt_path(set_path, file);
    lr_error err = {0};
    lr_set *set = NULL;
    lrt_assert_ok(write_set(set_path, &what, &err), &err);
    lrt_write(path, rows, bytes);
    lr_status st = lr_set_open(&set, set_path, &err);
    if (st != LR_E_FORMAT || !strstr(err.text, file) || !strstr(err.text, words))
        fail_msg("%s: %s: %s", rows, lr_status_name(st), err.text);
    assert_null(set);
    free(path);
    free(set_path);
    lrt_remove_temp_dir(dir);
}

#define FIRST "{\"i\": 0, \"start\": 0, \"end\": 10, \"tokens\": [1, 6]}\n"

static void test_rows_of_segments_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const seconds[] = {
        "{\"i\": 1, \"start\": 10, \"end\": 20, \"tokens\": [\"6\", 11]}\n",
        "{\"i\": 1, \"start\": 10, \"end\": 20, \"tokens\": [6, null]}\n",
        "{\"i\": 1, \"start\": 10, \"end\": 20, \"tokens\": [6.0, 11.0]}\n",
        "{\"i\": 1, \"start\": 10, \"end\": 20, \"tokens\": [-6, -1]}\n",
        "{\"i\": 1, \"start\": 10, \"end\": 20, \"tokens\": [11, 6]}\n",
        "{\"i\": 1, \"start\": 10, \"end\": 20, \"tokens\": [6]}\n",
        "{\"i\": 1, \"start\": 20, \"end\": 10, \"tokens\": [6, 11]}\n",
        "{\"i\": 1, \"start\": -1, \"end\": 10, \"tokens\": [6, 11]}\n",
        "{\"i\": 1, \"start\": \"10\", \"end\": 20, \"tokens\": [6, 11]}\n",
        "[1, 10, 20]\n", "\n", "{\n",
    };
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        char rows[256];
        int n = snprintf(rows, sizeof rows, FIRST "%s", seconds[i]);
        refuse("segments.jsonl", rows, (size_t)n, "line 2 ");
    }
    refuse("segments.jsonl", FIRST, sizeof FIRST - 1, "lines for");
}

static void test_rows_behind_a_nul_are_not_passed_over(void **state)
{
    (void)state;
    static const char frames[] = "{\"i\": 0, \"t\": 0}\n{\"i\": 1, \"t\": 1}\n\0{\"i\": 2, \"t\": 2}\n";
    refuse("frames.jsonl", frames, sizeof frames - 1, "line 3 ");
}

/* A moved time would send people to the wrong place. */
static void test_rows_that_were_altered_are_refused(void **state)
{
    (void)state;
    static const char segments[] = FIRST "{\"i\": 1, \"start\": 11, \"end\": 20, \"tokens\": [6, 11]}\n";
    static const char frames[] = "{\"i\": 0, \"t\": 0}\n{\"i\": 1, \"t\": 1.5}\n";
    refuse("segments.jsonl", segments, sizeof segments - 1, "has changed");
    refuse("frames.jsonl", frames, sizeof frames - 1, "has changed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_segments_that_are_none_are_refused),
        cmocka_unit_test(test_rows_behind_a_nul_are_not_passed_over),
        cmocka_unit_test(test_rows_that_were_altered_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
