/* Sets in other formats. */
#include "set_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include <longreel/export.h>

static const set_case wide = {.dim = 8, .n_segments = 4, .n_frames = 7, .seed = 1, .model_hash = "aa",
                              .key = "k1"};

typedef struct fixture {
    char *directory, *paths[2];
    lr_set *sets[2];
} fixture;

/* Two sets, the second one's name with what CSV must quote and SQL must not run. */
static void open_fixture(fixture *f, const set_case *second) {
    static const char *const names[] = {"talk.mp4", "a \"b\", '); DROP TABLE sets; --\xff"};
    lr_error err = {0};
    f->directory = lrt_temp_dir();
    for (int i = 0; i < 2; i++) {
        f->paths[i] = lrt_path(f->directory, names[i]);
        lrt_assert_ok(write_set(f->paths[i], i ? second : &wide, &err), &err);
        lrt_assert_ok(lr_set_open(&f->sets[i], f->paths[i], &err), &err);
    }
}

static void close_fixture(fixture *f) {
    for (int i = 0; i < 2; i++) {
        lr_set_close(f->sets[i]);
        free(f->paths[i]);
    }
    lrt_remove_temp_dir(f->directory);
}

/* ------------------------------------------------------------------ SQLite */

static sqlite3_stmt *query(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) fail_msg("%s", sqlite3_errmsg(db));
    return statement;
}

static void test_sqlite_holds_every_row(void **state) {
    (void)state;
    fixture f;
    set_case narrow = wide;
    narrow.dim = 3; /* a database holds sets of any width */
    narrow.seed = 9;
    open_fixture(&f, &narrow);
    char *path = lrt_path(f.directory, "a.sqlite");
    lr_error err = {0};
    sqlite3 *db = NULL;
    lrt_assert_ok(lr_export_sqlite(f.sets, 2, path, &err), &err);
    lrt_assert_ok(lr_export_sqlite(f.sets, 2, path, &err), &err); /* in its place */
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_stmt *rows = query(db, "SELECT id, path, recording, model_hash, dim, key, vector FROM sets ORDER BY id");
    for (int i = 0; i < 2; i++) {
        const lr_set_info *set = lr_set_info_of(f.sets[i]);
        assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int(rows, 0), i + 1);
        if (i == 0) assert_string_equal((const char *)sqlite3_column_text(rows, 1), set->path);
        assert_string_equal((const char *)sqlite3_column_text(rows, 2), "talk.mp4");
        assert_string_equal((const char *)sqlite3_column_text(rows, 3), "aa");
        assert_int_equal(sqlite3_column_int(rows, 4), set->dim);
        assert_int_equal(sqlite3_column_bytes(rows, 6), 4 * set->dim);
        assert_memory_equal(sqlite3_column_blob(rows, 6), set->recording_vector, 4 * set->dim);
    }
    assert_int_equal(sqlite3_step(rows), SQLITE_DONE);
    sqlite3_finalize(rows);
    rows = query(db, "SELECT set_id, i, start, end, first_token, end_token, vector FROM segments ORDER BY set_id, i");
    for (int i = 0; i < 8; i++) {
        const lr_set_info *set = lr_set_info_of(f.sets[i / 4]);
        const lr_segment_row *row = &set->segment_rows[i % 4];
        assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int(rows, 0), i / 4 + 1);
        assert_int_equal(sqlite3_column_int(rows, 1), i % 4);
        assert_true(sqlite3_column_double(rows, 2) == row->start);
        assert_true(sqlite3_column_double(rows, 3) == row->end);
        assert_int_equal(sqlite3_column_int(rows, 4), row->first);
        assert_int_equal(sqlite3_column_int(rows, 5), row->end_token);
        assert_memory_equal(sqlite3_column_blob(rows, 6), set->segments + (size_t)(i % 4) * set->dim,
                            4 * set->dim);
    }
    assert_int_equal(sqlite3_step(rows), SQLITE_DONE);
    sqlite3_finalize(rows);
    rows = query(db, "SELECT count(*), sum(t) FROM frames WHERE set_id = 2");
    assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(rows, 0), 7);
    assert_true(sqlite3_column_double(rows, 1) > 2.0999 && sqlite3_column_double(rows, 1) < 2.1001);
    sqlite3_finalize(rows);
    sqlite3_close(db);
    free(path);
    close_fixture(&f);
}

/* ------------------------------------------------------------------ CSV */

/* The next field of RFC 4180 text, unquoted in place; *end is the character after it. */
static char *next_field(char **at, char *end) {
    char *from = *at, *to = *at, *field = *at;
    bool quoted = *from == '"';
    for (from += quoted; *from; from++) {
        if (quoted && from[0] == '"' && from[1] != '"') break;
        if (!quoted && (*from == ',' || *from == '\r')) break;
        if (quoted && *from == '"') from++;
        *to++ = *from;
    }
    from += quoted;
    *end = *from;
    *to = '\0';
    *at = from + (*end == '\r' ? 2 : 1);
    return field;
}

static void test_csv_gives_the_same_floats(void **state) {
    (void)state;
    fixture f;
    set_case other = wide;
    other.seed = 2;
    open_fixture(&f, &other);
    char *path = lrt_path(f.directory, "a.csv"), end;
    lr_error err = {0};
    lrt_assert_ok(lr_export_csv(f.sets, 2, path, &err), &err);
    char *text = lrt_slurp(path, NULL), *at = text;
    static const char *const names[] = {"set", "recording", "level", "i", "start", "end", "v0"};
    for (size_t i = 0; i < 6 + 8; i++) {
        const char *name = next_field(&at, &end);
        if (i < 7) assert_string_equal(name, names[i]);
        assert_int_equal(end, i + 1 < 6 + 8 ? ',' : '\r');
    }
    for (size_t r = 0; r < 2 * 12; r++) { /* a recording, four segments, seven frames each */
        const lr_set_info *set = lr_set_info_of(f.sets[r / 12]);
        size_t n = r % 12;
        const char *name = next_field(&at, &end);
        if (r < 12) assert_string_equal(name, set->path);
        else assert_non_null(strstr(name, "a \"b\", '); DROP TABLE sets; --\xef\xbf\xbd"));
        assert_string_equal(next_field(&at, &end), "talk.mp4");
        assert_string_equal(next_field(&at, &end), n == 0 ? "recording" : n < 5 ? "segment" : "frame");
        assert_int_equal(atoi(next_field(&at, &end)), n == 0 ? 0 : n < 5 ? n - 1 : n - 5);
        double start = strtod(next_field(&at, &end), NULL);
        assert_true(start == (n == 0 ? 0 : n < 5 ? set->segment_rows[n - 1].start : set->frame_rows[n - 5].t));
        assert_int_equal(*next_field(&at, &end) == '\0', n >= 5);
        const float *vector = n == 0 ? set->recording_vector
                              : n < 5 ? set->segments + 8 * (n - 1) : set->frames + 8 * (n - 5);
        for (size_t d = 0; d < 8; d++) {
            float value = strtof(next_field(&at, &end), NULL);
            assert_memory_equal(&value, &vector[d], sizeof value);
        }
        assert_int_equal(end, '\r');
    }
    assert_int_equal(*at, '\0');
    free(text);
    free(path);
    close_fixture(&f);
}

/* ------------------------------------------------------------------ refusals */

static void test_what_cannot_be_exported_leaves_no_file(void **state) {
    (void)state;
    fixture f;
    set_case narrow = wide;
    narrow.dim = 3;
    open_fixture(&f, &narrow);
    char *path = lrt_path(f.directory, "a.out"), *nowhere = lrt_path(f.directory, "none/a.out");
    lr_error err = {0};
    assert_int_equal(lr_export_csv(f.sets, 2, path, &err), LR_E_USAGE); /* widths 8 and 3 */
    lr_error_clear(&err);
    assert_int_equal(lr_export_csv(f.sets, 0, path, &err), LR_E_USAGE);
    lr_error_clear(&err);
    assert_int_equal(lr_export_csv(f.sets, 1, nowhere, &err), LR_E_IO);
    assert_non_null(strstr(err.text, "none/a.out"));
    lr_error_clear(&err);
    assert_int_equal(lr_export_sqlite(f.sets, 1, nowhere, &err), LR_E_IO);
    assert_non_null(strstr(err.text, "none/a.out"));
    lr_error_clear(&err);
    /* a set that has changed since */
    char *frames = lrt_path(f.paths[0], "frames.npy");
    size_t bytes;
    unsigned char *data = lrt_slurp(frames, &bytes);
    data[bytes - 2] ^= 1;
    lrt_write(frames, data, bytes);
    assert_int_equal(lr_export_sqlite(f.sets, 2, path, &err), LR_E_FORMAT);
    lr_error_clear(&err);
    assert_int_equal(lr_export_csv(f.sets, 1, path, &err), LR_E_FORMAT);
    assert_false(lrt_exists(path));
    free(data);
    free(frames);
    free(nowhere);
    free(path);
    close_fixture(&f);
}

typedef struct export_work {
    fixture *f;
    const char *path;
    bool csv;
} export_work;

static lr_status work(void *arg, lr_error *err) {
    const export_work *w = arg;
    return w->csv ? lr_export_csv(w->f->sets, 2, w->path, err) : lr_export_sqlite(w->f->sets, 2, w->path, err);
}

static void test_exports_survive_each_failed_allocation(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, &wide);
    char *path = lrt_path(f.directory, "a.out");
    for (int csv = 0; csv < 2; csv++) {
        export_work w = {&f, path, csv};
        assert_true(lrt_fail_each_allocation(work, &w) > 10);
    }
    free(path);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sqlite_holds_every_row),
        cmocka_unit_test(test_csv_gives_the_same_floats),
        cmocka_unit_test(test_what_cannot_be_exported_leaves_no_file),
        cmocka_unit_test(test_exports_survive_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
