#include "set_case.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <signal.h>
#include <unistd.h>

static const set_case usual = {.dim = 8, .n_segments = 4, .n_frames = 7, .seed = 5,
                               .model_hash = "aa", .key = "k1", .tokens = true};

static size_t entries(const char *directory) {
    size_t count = 0;
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    closedir(dir);
    return count;
}

static void test_set_reads_back_what_was_written(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "deep/er/talk.mp4");
    lr_error err = {0};
    lr_set *set = NULL;
    lrt_assert_ok(write_set(path, &usual, &err), &err);
    lrt_assert_ok(lr_set_verify(path, &err), &err);
    lrt_assert_ok(lr_set_open(&set, path, &err), &err);
    const lr_set_info *info = lr_set_info_of(set);
    assert_int_equal(info->dim, 8);
    assert_int_equal(info->n_segments, 4);
    assert_int_equal(info->n_frames, 7);
    assert_string_equal(info->model_hash, "aa");
    assert_string_equal(info->context, "full");
    assert_string_equal(info->recording, "talk.mp4");
    for (size_t r = 0; r < 4; r++) {
        float wanted[8];
        case_vector(&usual, r, wanted);
        assert_memory_equal(info->segments + 8 * r, wanted, sizeof wanted);
        assert_true(info->segment_rows[r].start == 10.0 * (double)r);
        assert_int_equal(info->segment_rows[r].end_token, 5 * r + 6);
    }
    assert_true(info->frame_rows[6].t == 0.6000000000000001 || info->frame_rows[6].t == 0.6);
    lr_set_close(set);
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_set_is_replaced_only_when_asked(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "talk.mp4");
    lr_error err = {0};
    lr_set *set = NULL;
    set_case other = usual;
    other.key = "k2";
    lrt_assert_ok(write_set(path, &usual, &err), &err);
    assert_int_equal(write_set(path, &other, &err), LR_E_EXISTS);
    lr_error_clear(&err);
    other.replace = true;
    lrt_assert_ok(write_set(path, &other, &err), &err);
    lrt_assert_ok(lr_set_open(&set, path, &err), &err);
    assert_string_equal(lr_set_info_of(set)->key, "k2");
    lr_set_close(set);
    assert_int_equal(entries(dir), 1); /* nothing aside is left */
    free(path);
    lrt_remove_temp_dir(dir);
}

/* What is at the place stays as it is, whether a replacement was asked for or not, and nobody is told to ask. */
static void assert_left_alone(const char *path) {
    lr_error err = {0};
    set_case what = usual;
    for (int replace = 0; replace < 2; replace++) {
        what.replace = replace;
        assert_int_equal(write_set(path, &what, &err), LR_E_EXISTS);
        assert_null(strstr(err.text, "--force"));
        lr_error_clear(&err);
    }
}

static void test_set_never_takes_the_place_of_something_else(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "talk.mp4"), *inner = lrt_path(path, "notes.txt");
    char *manifest = lrt_path(path, "manifest.json"), *there = lrt_path(dir, "there");
    lr_error err = {0};
    lrt_write(path, "a recording", 11);
    assert_left_alone(path);
    unlink(path);
    lrt_assert_ok(write_set(there, &usual, &err), &err);
    assert_int_equal(symlink("there", path), 0);
    assert_left_alone(path);
    unlink(path);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_left_alone(path);
    lrt_write(manifest, "{\"name\": \"a web page\"}", 23);
    assert_left_alone(path);
    lrt_write(inner, "precious", 8);
    assert_left_alone(path);
    unlink(manifest);
    assert_left_alone(path);
    assert_int_equal(entries(dir), 2);
    assert_int_equal(entries(path), 1);
    lrt_assert_ok(lr_set_verify(there, &err), &err);
    free(inner);
    free(manifest);
    free(there);
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_set_with_a_file_of_somebody_else_is_not_replaced(void **state) {
    (void)state;
    static const char *const names[] = {"notes.txt", "stages/notes.txt"};
    for (size_t i = 0; i < 2; i++) {
        char *dir = lrt_temp_dir(), *path = lrt_path(dir, "talk.mp4"), *stages = lrt_path(path, "stages");
        char *notes = lrt_path(path, names[i]);
        lr_error err = {0};
        lrt_assert_ok(write_set(path, &usual, &err), &err);
        assert_int_equal(mkdir(stages, 0777), 0);
        lrt_write(notes, "precious", 8);
        set_case what = usual;
        what.replace = true;
        assert_int_equal(write_set(path, &what, &err), LR_E_EXISTS);
        assert_non_null(strstr(err.text, i == 0 ? "notes.txt" : "stages"));
        assert_int_equal(access(notes, F_OK), 0);
        free(notes);
        free(stages);
        free(path);
        lrt_remove_temp_dir(dir);
    }
}

/* These stand in for the C library's, and look after each step whether the file is there. */
static const char *watched;
static size_t steps, missed;

static int step(int code) {
    steps++;
    if (watched) missed += access(watched, F_OK) != 0;
    return code;
}

int rename(const char *from, const char *to) {
    return step((int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    return step((int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags));
}

static void test_replaced_set_is_there_at_any_moment(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "talk.mp4"), *manifest = lrt_path(path, "manifest.json");
    lr_error err = {0};
    set_case what = usual;
    lrt_assert_ok(write_set(path, &usual, &err), &err);
    if (renameat2(AT_FDCWD, path, AT_FDCWD, path, RENAME_EXCHANGE) != 0) {
        print_message("directories cannot change places on this file system\n");
        skip();
    }
    what.replace = true;
    watched = manifest;
    steps = missed = 0;
    lrt_assert_ok(write_set(path, &what, &err), &err);
    watched = NULL;
    assert_true(steps > 0);
    assert_int_equal(missed, 0);
    assert_int_equal(entries(dir), 1);
    free(manifest);
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_damaged_set_is_replaced(void **state) {
    (void)state;
    static const char *const names[] = {"manifest.json", "segments.npy", "recording.npy"};
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "talk.mp4");
    lr_error err = {0};
    set_case what = usual;
    what.replace = true;
    lrt_assert_ok(write_set(path, &what, &err), &err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *file = lrt_path(path, names[i]);
        lrt_write(file, "", 0);
        lrt_assert_ok(write_set(path, &what, &err), &err);
        unlink(file);
        lrt_assert_ok(write_set(path, &what, &err), &err);
        lrt_assert_ok(lr_set_verify(path, &err), &err);
        free(file);
    }
    free(path);
    lrt_remove_temp_dir(dir);
}

/* What comes up while a set is being written. */
static void test_something_that_comes_up_meanwhile_is_left_alone(void **state) {
    (void)state;
    for (int replace = 0; replace < 2; replace++) {
        char *dir = lrt_temp_dir(), *path = lrt_path(dir, "talk.mp4");
        lr_error err = {0};
        lr_set_writer *w = NULL;
        lrt_assert_ok(lr_set_create(&w, path, replace, &err), &err);
        lrt_write(path, "a recording", 11);
        assert_int_equal(lr_set_commit(w, "{}", &err), LR_E_EXISTS);
        size_t bytes = 0;
        char *content = lrt_slurp(path, &bytes);
        assert_int_equal(bytes, 11);
        assert_int_equal(entries(dir), 1);
        free(content);
        free(path);
        lrt_remove_temp_dir(dir);
    }
}

/* A full disk, as far as a process can make one: files may not grow past a limit. The set that was there
 * stays whole, and nothing else is left. */
static void test_full_disk_leaves_the_old_set(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "talk.mp4");
    lr_error err = {0};
    set_case large = usual;
    large.dim = 512;
    large.replace = true;
    lrt_assert_ok(write_set(path, &usual, &err), &err);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){.rlim_cur = 4096, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    lr_status st = write_set(path, &large, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(st, LR_E_IO);
    assert_non_null(strstr(err.text, ".npy"));
    lr_error_clear(&err);
    lrt_assert_ok(lr_set_verify(path, &err), &err);
    assert_int_equal(entries(dir), 1);
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_verify_sees_every_change(void **state) {
    (void)state;
    static const char *const names[] = {"recording.npy", "segments.npy", "segments.jsonl", "frames.npy",
                                        "frames.jsonl", "tokens.safetensors"};
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "talk.mp4");
    lr_error err = {0};
    lrt_assert_ok(write_set(path, &usual, &err), &err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *file = lrt_path(path, names[i]);
        size_t bytes = 0;
        char *content = lrt_slurp(file, &bytes);
        content[bytes - 3] ^= 1;
        lrt_write(file, content, bytes);
        assert_int_not_equal(lr_set_verify(path, &err), LR_OK);
        lr_error_clear(&err);
        unlink(file);
        assert_int_not_equal(lr_set_verify(path, &err), LR_OK);
        lr_error_clear(&err);
        content[bytes - 3] ^= 1;
        lrt_write(file, content, bytes);
        lrt_assert_ok(lr_set_verify(path, &err), &err);
        free(content);
        free(file);
    }
    char *extra = lrt_path(path, "extra");
    lrt_write(extra, "x", 1);
    assert_int_equal(lr_set_verify(path, &err), LR_E_FORMAT);
    free(extra);
    free(path);
    lrt_remove_temp_dir(dir);
}

/* Changes one text of the manifest into another of the same length; a set like that is refused. */
static void test_verify_sees_a_changed_manifest(void **state) {
    (void)state;
    static const char *const changes[][2] = {
        {"\"duration\": 40", "\"duration\": -4"}, {"\"duration\": 40", "\"duration\": 41"},
        {"\"duration\": 40", "\"duration\": 10"}, {"\"duration\": 40", "\"duration\": {}"},
        {"\"tokens\": 22", "\"tokens\": 99"}, {"\"tokens\": 22", "\"tokens\": 10"},
        {"\"tokens\": 22", "\"tokens\": []"}, {"\"key\": \"k1\"", "\"key\": \"k2\""},
        {"\"hash\": \"aa\"", "\"hash\": \"ab\""}, {"\"manifest_hash\"", "\"mamifest_hash\""},
    };
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "talk.mp4"), *file = lrt_path(path, "manifest.json");
    lr_error err = {0};
    lrt_assert_ok(write_set(path, &usual, &err), &err);
    size_t bytes = 0;
    char *text = lrt_slurp(file, &bytes);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *changed = lrt_slurp(file, NULL), *at = strstr(changed, changes[i][0]);
        assert_non_null(at);
        assert_int_equal(strlen(changes[i][0]), strlen(changes[i][1]));
        memcpy(at, changes[i][1], strlen(changes[i][1]));
        lrt_write(file, changed, bytes);
        assert_int_equal(lr_set_verify(path, &err), LR_E_FORMAT);
        lr_error_clear(&err);
        lrt_write(file, text, bytes);
        lrt_assert_ok(lr_set_verify(path, &err), &err);
        free(changed);
    }
    free(text);
    free(file);
    free(path);
    lrt_remove_temp_dir(dir);
}

/* A pipe where a file should be would be waited for without end. */
static void test_verify_refuses_pipes(void **state) {
    (void)state;
    static const char *const names[] = {"manifest.json", "recording.npy", "segments.jsonl", "frames.npy",
                                        "tokens.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *dir = lrt_temp_dir(), *path = lrt_path(dir, "talk.mp4"), *file = lrt_path(path, names[i]);
        lr_error err = {0};
        lrt_assert_ok(write_set(path, &usual, &err), &err);
        unlink(file);
        assert_int_equal(mkfifo(file, 0600), 0);
        assert_int_not_equal(lr_set_verify(path, &err), LR_OK);
        assert_non_null(strstr(err.text, names[i]));
        free(file);
        free(path);
        lrt_remove_temp_dir(dir);
    }
}

static void test_sets_are_found_below_directories_once(void **state) {
    (void)state;
    char *dir = lrt_temp_dir();
    const char *names[] = {"b.mp4", "a/x.mp4", "a/y.mp4"};
    lr_error err = {0};
    for (size_t i = 0; i < 3; i++) {
        char *path = lrt_path(dir, names[i]);
        lrt_assert_ok(write_set(path, &usual, &err), &err);
        free(path);
    }
    char *hidden = lrt_path(dir, ".c.mp4.part-1"), *a = lrt_path(dir, "a"), *c = lrt_path(dir, "c.mp4");
    lrt_assert_ok(write_set(c, &usual, &err), &err);
    assert_int_equal(rename(c, hidden), 0);
    const char *roots[] = {dir, a};
    char **found = NULL;
    size_t count = 0;
    lrt_assert_ok(lr_set_find(roots, 2, &found, &count, &err), &err);
    assert_int_equal(count, 3);
    assert_non_null(strstr(found[0], "a/x.mp4"));
    assert_non_null(strstr(found[2], "b.mp4"));
    lr_set_find_free(found, count);
    const char *nowhere[] = {"/nowhere/at/all"};
    assert_int_equal(lr_set_find(nowhere, 1, &found, &count, &err), LR_E_IO);
    free(hidden);
    free(a);
    free(c);
    lrt_remove_temp_dir(dir);
}

static size_t number_found(const char *dir) {
    lr_error err = {0};
    char **found = NULL;
    size_t count = 0;
    lrt_assert_ok(lr_set_find(&dir, 1, &found, &count, &err), &err);
    lr_set_find_free(found, count);
    return count;
}

static void test_set_whose_name_begins_with_a_dot_is_found(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, ".talk.mp4"), *deeper = lrt_path(dir, ".git/talk.mp4");
    lr_error err = {0};
    lr_set_entry *entries_of = NULL;
    size_t count = 0;
    lrt_assert_ok(write_set(path, &usual, &err), &err);
    lrt_assert_ok(write_set(deeper, &usual, &err), &err); /* hidden, and no set's name */
    assert_int_equal(number_found(dir), 1);
    lrt_assert_ok(lr_set_states(dir, &entries_of, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_string_equal(entries_of[0].path, path);
    assert_int_equal(entries_of[0].state, LR_SET_FINISHED);
    lr_set_states_free(entries_of, count);
    free(deeper);
    free(path);
    lrt_remove_temp_dir(dir);
}

static void test_names_of_unfinished_sets_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {".failed", ".talk.mp4.part-17", ".talk.mp4.part-17.old"};
    char *dir = lrt_temp_dir();
    lr_error err = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = lrt_path(dir, names[i]);
        assert_int_equal(write_set(path, &usual, &err), LR_E_USAGE);
        lr_error_clear(&err);
        free(path);
    }
    assert_int_equal(entries(dir), 0);
    lrt_remove_temp_dir(dir);
}

/* With characters of two bytes: the name is cut at any length for the unfinished set. */
static void test_set_may_have_a_name_as_long_as_names_may_be(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), name[300];
    lr_error err = {0};
    set_case what = usual;
    what.replace = true;
    static const size_t lengths[] = {219, 220, 221, 222, 254, 255};
    for (size_t i = 0; i < 6; i++) {
        const size_t length = lengths[i];
        memset(name, 'x', length);
        for (size_t at = 60; at + 2 <= length; at += 2) memcpy(name + at, "\xc3\xa4", 2);
        name[length] = '\0';
        char *path = lrt_path(dir, name);
        lrt_assert_ok(write_set(path, &what, &err), &err);
        lrt_assert_ok(write_set(path, &what, &err), &err);
        free(path);
    }
    assert_int_equal(number_found(dir), 6);
    assert_int_equal(entries(dir), 6);
    memset(name, 'x', 256);
    name[256] = '\0';
    char *path = lrt_path(dir, name);
    assert_int_equal(write_set(path, &usual, &err), LR_E_USAGE);
    assert_int_equal(entries(dir), 6);
    free(path);
    lrt_remove_temp_dir(dir);
}

static lr_status write_and_read(void *arg, lr_error *err) {
    const char *path = arg;
    lr_set *set = NULL;
    set_case what = usual;
    what.replace = true;
    lr_status st = write_set(path, &what, err);
    if (st == LR_OK) st = lr_set_open(&set, path, err);
    if (st == LR_OK) st = lr_set_verify(path, err);
    lr_set_close(set);
    return st;
}

static void test_set_survives_each_failing_allocation(void **state) {
    (void)state;
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "talk.mp4");
    lr_error err = {0};
    assert_true(lrt_fail_each_allocation(write_and_read, path) > 20);
    lrt_assert_ok(lr_set_verify(path, &err), &err);
    free(path);
    lrt_remove_temp_dir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_reads_back_what_was_written),
        cmocka_unit_test(test_set_is_replaced_only_when_asked),
        cmocka_unit_test(test_set_never_takes_the_place_of_something_else),
        cmocka_unit_test(test_set_with_a_file_of_somebody_else_is_not_replaced),
        cmocka_unit_test(test_replaced_set_is_there_at_any_moment),
        cmocka_unit_test(test_damaged_set_is_replaced),
        cmocka_unit_test(test_something_that_comes_up_meanwhile_is_left_alone),
        cmocka_unit_test(test_full_disk_leaves_the_old_set),
        cmocka_unit_test(test_verify_sees_every_change),
        cmocka_unit_test(test_verify_sees_a_changed_manifest),
        cmocka_unit_test(test_verify_refuses_pipes),
        cmocka_unit_test(test_sets_are_found_below_directories_once),
        cmocka_unit_test(test_set_whose_name_begins_with_a_dot_is_found),
        cmocka_unit_test(test_names_of_unfinished_sets_are_refused),
        cmocka_unit_test(test_set_may_have_a_name_as_long_as_names_may_be),
        cmocka_unit_test(test_set_survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
