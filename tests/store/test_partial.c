/* Work that is not finished, kept for another run: what comes back is what was put, or nothing. */
#include "lr_test.h"

#include <longreel/partial.h>
#include <longreel/store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY "0123456789abcdef0123456789abcdef"
#define OTHER_KEY "ffffffffffffffffffffffffffffffff"

static const lr_partial_about about = {.tokens = 1000, .frames = 40, .sound_tokens = 300, .windows = 2, .layers = 6};

typedef struct place {
    char *dir, *set;
    lr_partial *partial;
} place;

static lr_partial *open_again(const place *p, bool afresh)
{
    lr_error err = {0};
    lr_partial *partial = NULL;
    lrt_assert_ok(lr_partial_open(&partial, p->set, KEY, afresh, &about, &err), &err);
    return partial;
}

static place make_place(void)
{
    place p = {.dir = lrt_temp_dir()};
    p.set = lrt_path(p.dir, "talk.mp4");
    p.partial = open_again(&p, false);
    assert_non_null(p.partial);
    return p;
}

static void drop_place(place *p)
{
    lr_partial_close(p->partial);
    free(p->set);
    lrt_remove_temp_dir(p->dir);
}

static void fill_rows(float *rows, const lr_slice_name *name)
{
    for (uint64_t i = name->first; i < name->end; i++)
        for (size_t j = 0; j < 3; j++) rows[3 * (i - name->first) + j] = (float)(10 * i + j + name->layer);
}

static void put_rows(lr_partial *partial, const lr_slice_name *name, const char *notes)
{
    lr_error err = {0};
    float rows[300];
    fill_rows(rows, name);
    lrt_assert_ok(lr_partial_put(partial, name, 3 * sizeof *rows, rows, notes, notes ? strlen(notes) : 0, &err), &err);
}

static char *file_of(const lr_partial *partial, const char *name)
{
    return lrt_path(lr_partial_directory(partial), name);
}

static const lr_slice_name frames = {.kind = LR_SLICE_FRAMES, .first = 16, .end = 32};

static void test_slices_come_back_as_they_were_put(void **state)
{
    (void)state;
    place p = make_place();
    lr_error err = {0};
    lr_slice slice;
    size_t count;
    float rows[300];
    const lr_slice_name names[] = {
        {.kind = LR_SLICE_LAYER, .window = 1, .layer = 5, .first = 100, .end = 101},
        frames,
        {.kind = LR_SLICE_SOUND, .first = 0, .end = 100},
        {.kind = LR_SLICE_FRAMES, .first = 5, .end = 6},
        {.kind = LR_SLICE_SOUND_NOTES, .end = 1},
    };
    for (size_t i = 0; i < 4; i++) put_rows(p.partial, &names[i], i == 1 ? "some notes" : NULL);
    lrt_assert_ok(lr_partial_put(p.partial, &names[4], 0, NULL, "heard", 5, &err), &err);
    (void)lr_partial_slices(p.partial, &count);
    assert_int_equal(count, 0); /* what was there when it was opened */
    lr_partial_close(p.partial);
    p.partial = open_again(&p, false);
    const lr_slice_name *found = lr_partial_slices(p.partial, &count);
    assert_int_equal(count, 6); /* and a note of what is under way */
    static const lr_slice_kind kinds[] = {LR_SLICE_ABOUT, LR_SLICE_FRAMES, LR_SLICE_FRAMES, LR_SLICE_SOUND,
                                          LR_SLICE_SOUND_NOTES, LR_SLICE_LAYER};
    for (size_t i = 0; i < count; i++) assert_int_equal(found[i].kind, kinds[i]);
    assert_int_equal(found[1].first, 5);
    assert_int_equal(found[5].window, 1);
    for (size_t i = 0; i < 4; i++) {
        lrt_assert_ok(lr_partial_get(p.partial, &names[i], 3 * sizeof *rows, &slice, &err), &err);
        fill_rows(rows, &names[i]);
        assert_memory_equal(slice.rows, rows, (names[i].end - names[i].first) * 3 * sizeof *rows);
        assert_int_equal(slice.notes_bytes, i == 1 ? 10 : 0);
        if (i == 1) assert_memory_equal(slice.notes, "some notes", 10);
        lr_free(slice.rows);
    }
    lrt_assert_ok(lr_partial_get(p.partial, &names[4], 0, &slice, &err), &err);
    assert_memory_equal(slice.notes, "heard", 5);
    lr_free(slice.rows);
    lr_partial_drop(p.partial, &frames);
    assert_int_equal(lr_partial_get(p.partial, &frames, 3 * sizeof *rows, &slice, &err), LR_E_IO);
    drop_place(&p);
}

/* Each byte of a slice, altered; each length that it may be cut to. */
static void test_every_alteration_of_a_slice_is_noticed(void **state)
{
    (void)state;
    place p = make_place();
    size_t bytes;
    lr_slice slice;
    put_rows(p.partial, &frames, "notes");
    char *path = file_of(p.partial, "frames-0-0-16-32"), *good = lrt_slurp(path, &bytes);
    for (size_t i = 0; i < bytes; i++) {
        lr_error err = {0};
        good[i] ^= 4;
        lrt_write(path, good, bytes);
        good[i] ^= 4;
        if (lr_partial_get(p.partial, &frames, 12, &slice, &err) != LR_E_FORMAT || !strstr(err.text, "frames-0-0-16-32"))
            fail_msg("byte %zu: %s", i, err.text);
    }
    for (size_t i = 0; i < bytes; i++) {
        lr_error err = {0};
        lrt_write(path, good, i);
        if (lr_partial_get(p.partial, &frames, 12, &slice, &err) != LR_E_FORMAT) fail_msg("%zu bytes were taken", i);
    }
    lrt_write(path, good, bytes);
    lr_error err = {0};
    lrt_assert_ok(lr_partial_get(p.partial, &frames, 12, &slice, &err), &err);
    lr_free(slice.rows);
    assert_int_equal(lr_partial_get(p.partial, &frames, 8, &slice, &err), LR_E_FORMAT); /* rows of another width */
    free(good);
    free(path);
    drop_place(&p);
}

static void test_a_slice_under_another_name_is_refused(void **state)
{
    (void)state;
    place p = make_place();
    lr_slice slice;
    put_rows(p.partial, &frames, NULL);
    char *path = file_of(p.partial, "frames-0-0-16-32");
    static const char *const others[] = {"frames-0-0-32-48", "sound-0-0-16-32", "layer-1-0-16-32", "frames-0-0-16-31"};
    const lr_slice_name names[] = {{.kind = LR_SLICE_FRAMES, .first = 32, .end = 48},
                                   {.kind = LR_SLICE_SOUND, .first = 16, .end = 32},
                                   {.kind = LR_SLICE_LAYER, .window = 1, .first = 16, .end = 32},
                                   {.kind = LR_SLICE_FRAMES, .first = 16, .end = 31}};
    for (size_t i = 0; i < 4; i++) {
        lr_error err = {0};
        char *other = file_of(p.partial, others[i]);
        assert_int_equal(link(path, other), 0);
        assert_int_equal(lr_partial_get(p.partial, &names[i], 12, &slice, &err), LR_E_FORMAT);
        assert_non_null(strstr(err.text, "other work"));
        free(other);
    }
    free(path);
    drop_place(&p);
}

static void test_names_that_are_no_slices_are_passed_over(void **state)
{
    (void)state;
    static const char *const names[] = {"frames-0-0-5-5", "frames-0-0-6-5", "frames-0-0-5", "frames-0-0-5-6-7", "new-Ab3x",
                                        "frames", "picture-0-0-0-1", "frames-0-0-0-99999999999999999999999", "frames--1-0-0-x"};
    place p = make_place();
    size_t count;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = file_of(p.partial, names[i]);
        lrt_write(path, "x", 1);
        free(path);
    }
    lr_partial_close(p.partial);
    p.partial = open_again(&p, false);
    const lr_slice_name *found = lr_partial_slices(p.partial, &count);
    for (size_t i = 0; i < count; i++)
        if (found[i].kind != LR_SLICE_ABOUT) /* a number that saturates may stay: its file is no slice */
            assert_true(found[i].end == UINT64_MAX);
    drop_place(&p);
}

static void test_finished_work_goes_unless_another_uses_it(void **state)
{
    (void)state;
    place p = make_place();
    put_rows(p.partial, &frames, NULL);
    char *partial = lrt_path(p.dir, ".partial"), *path = file_of(p.partial, "frames-0-0-16-32");
    lr_partial *second = open_again(&p, false);
    lr_partial_finish(p.set, KEY);
    assert_true(lrt_exists(path));
    lr_partial_close(second);
    lr_partial_finish(p.set, KEY);
    assert_true(lrt_exists(path)); /* the first one is there yet */
    assert_null(open_again(&p, true));
    lr_partial_close(p.partial);
    p.partial = open_again(&p, true);
    assert_non_null(p.partial);
    assert_false(lrt_exists(path)); /* afresh */
    lr_partial_finish(p.set, OTHER_KEY); /* nothing is there */
    lr_partial_close(p.partial);
    p.partial = NULL;
    lr_partial_finish(p.set, KEY);
    assert_false(lrt_exists(partial));
    free(path);
    free(partial);
    drop_place(&p);
}

static void test_what_was_begun_with_other_options_goes_too(void **state)
{
    (void)state;
    place p = make_place();
    lr_error err = {0};
    lr_partial *other = NULL;
    char *set = lrt_path(p.dir, "talk.mp3"), *partial = lrt_path(p.dir, ".partial");
    char *mine = lrt_path(partial, KEY), *theirs = lrt_path(partial, OTHER_KEY);
    lr_partial_close(p.partial);
    p.partial = NULL;
    for (int same = 0; same <= 1; same++) {
        lrt_assert_ok(lr_partial_open(&other, same ? p.set : set, OTHER_KEY, true, &about, &err), &err);
        lr_partial_close(other);
        p.partial = open_again(&p, false);
        lr_partial_close(p.partial);
        p.partial = NULL;
        lr_partial_finish(p.set, KEY);
        assert_false(lrt_exists(mine));
        assert_true(lrt_exists(theirs) == !same); /* of another set: none of our business */
    }
    assert_false(lrt_exists(partial));
    free(set);
    free(mine);
    free(theirs);
    free(partial);
    drop_place(&p);
}

static void test_status_tells_what_is_stored(void **state)
{
    (void)state;
    place p = make_place();
    lr_error err = {0};
    lr_set_entry *entries = NULL;
    size_t count = 0;
    const lr_slice_name names[] = {
        frames,
        {.kind = LR_SLICE_FRAMES, .first = 20, .end = 36}, /* they overlap */
        {.kind = LR_SLICE_FRAMES, .first = 2, .end = 3},
        {.kind = LR_SLICE_SOUND, .first = 0, .end = 100},
        {.kind = LR_SLICE_LAYER, .window = 0, .layer = 2, .first = 0, .end = 90},
        {.kind = LR_SLICE_LAYER, .window = 0, .layer = 5, .first = 0, .end = 50},
        {.kind = LR_SLICE_LAYER, .window = 0, .layer = 5, .first = 50, .end = 90},
        {.kind = LR_SLICE_LAYER, .window = 1, .layer = 2, .first = 0, .end = 90},
        {.kind = LR_SLICE_LAYER, .window = 1, .layer = 5, .first = 50, .end = 90}, /* a part is lacking */
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) put_rows(p.partial, &names[i], NULL);
    for (int used = 1; used >= 0; used--) {
        lrt_assert_ok(lr_set_states(p.dir, &entries, &count, &err), &err);
        assert_int_equal(count, 1);
        assert_string_equal(entries[0].path, p.set);
        assert_int_equal(entries[0].state, used ? LR_SET_UNDER_WAY : LR_SET_INTERRUPTED);
        assert_true(entries[0].has_stored);
        assert_int_equal(entries[0].stored.frames, 21);
        assert_int_equal(entries[0].stored.of_frames, 40);
        assert_int_equal(entries[0].stored.sound_tokens, 100);
        assert_int_equal(entries[0].stored.of_sound_tokens, 300);
        assert_int_equal(entries[0].stored.layers, 6 + 3);
        assert_int_equal(entries[0].stored.of_layers, 12);
        lr_set_states_free(entries, count);
        lr_partial_close(p.partial);
        p.partial = NULL;
    }
    char *note = lrt_path(p.dir, ".partial/" KEY "/about-0-0-0-1");
    lrt_write(note, "x", 1);
    lrt_assert_ok(lr_set_states(p.dir, &entries, &count, &err), &err);
    assert_int_equal(count, 0);
    lr_set_states_free(entries, count);
    free(note);
    drop_place(&p);
}

static void test_what_cannot_be_written_is_an_error_that_names_it(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_partial *partial = NULL;
    char *dir = lrt_temp_dir(), *file = lrt_path(dir, "file"), *set = lrt_path(dir, "file/talk.mp4");
    lrt_write(file, "x", 1);
    assert_int_equal(lr_partial_open(&partial, set, KEY, false, &about, &err), LR_E_IO);
    assert_non_null(strstr(err.text, "file/.partial"));
    assert_null(partial);
    free(set);
    free(file);
    lrt_remove_temp_dir(dir);
}

typedef struct work {
    const char *set;
} work;

static lr_status all_once(void *arg, lr_error *err)
{
    const work *w = arg;
    lr_status st = LR_OK;
    lr_partial *partial = NULL;
    lr_slice slice = {0};
    lr_set_entry *entries = NULL;
    size_t count = 0;
    char *dir = strdup(w->set);
    float rows[300];
    assert_non_null(dir);
    *strrchr(dir, '/') = '\0';
    fill_rows(rows, &frames);
    LR_TRY(lr_partial_open(&partial, w->set, KEY, false, &about, err));
    LR_TRY(lr_partial_put(partial, &frames, 12, rows, "n", 1, err));
    LR_TRY(lr_partial_get(partial, &frames, 12, &slice, err));
    assert_memory_equal(slice.rows, rows, 16 * 12);
    LR_TRY(lr_set_states(dir, &entries, &count, err));
    assert_int_equal(count, 1);
done:
    lr_set_states_free(entries, count);
    lr_free(slice.rows);
    lr_partial_close(partial);
    free(dir);
    return st;
}

static void test_each_failed_allocation_is_survived(void **state)
{
    (void)state;
    place p = make_place();
    work w = {.set = p.set};
    assert_true(lrt_fail_each_allocation(all_once, &w) > 0);
    drop_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_come_back_as_they_were_put),
        cmocka_unit_test(test_every_alteration_of_a_slice_is_noticed),
        cmocka_unit_test(test_a_slice_under_another_name_is_refused),
        cmocka_unit_test(test_names_that_are_no_slices_are_passed_over),
        cmocka_unit_test(test_finished_work_goes_unless_another_uses_it),
        cmocka_unit_test(test_what_was_begun_with_other_options_goes_too),
        cmocka_unit_test(test_status_tells_what_is_stored),
        cmocka_unit_test(test_what_cannot_be_written_is_an_error_that_names_it),
        cmocka_unit_test(test_each_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
