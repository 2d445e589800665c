/* Vectors as a SQLite database. */
#include <sqlite3.h>

#include "export.h"

static const char schema[] =
    "BEGIN;"
    "CREATE TABLE sets (id INTEGER PRIMARY KEY, path TEXT NOT NULL, recording TEXT NOT NULL, model TEXT NOT "
    "NULL, model_hash TEXT NOT NULL, context TEXT NOT NULL, dim INTEGER NOT NULL, duration REAL NOT NULL, key "
    "TEXT NOT NULL, vector BLOB NOT NULL);"
    "CREATE TABLE segments (set_id INTEGER NOT NULL REFERENCES sets (id), i INTEGER NOT NULL, start REAL NOT "
    "NULL, end REAL NOT NULL, first_token INTEGER NOT NULL, end_token INTEGER NOT NULL, vector BLOB NOT NULL, "
    "PRIMARY KEY (set_id, i));"
    "CREATE TABLE frames (set_id INTEGER NOT NULL REFERENCES sets (id), i INTEGER NOT NULL, t REAL NOT NULL, "
    "vector BLOB NOT NULL, PRIMARY KEY (set_id, i));";

typedef struct database {
    sqlite3 *db;
    const char *path;
    sqlite3_stmt *set, *segment, *frame;
} database;

static lr_status failed(const database *d, int code, lr_error *err) {
    return lr_fail(err, code == SQLITE_NOMEM ? LR_E_NOMEM : LR_E_IO, "%s: cannot be written: %s", d->path,
                   d->db ? sqlite3_errmsg(d->db) : sqlite3_errstr(code));
}

static lr_status execute(const database *d, const char *sql, lr_error *err) {
    int code = sqlite3_exec(d->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? LR_OK : failed(d, code, err);
}

/* Runs a statement whose values are bound; a value that could not be bound makes it fail (NOT NULL). */
static lr_status insert(const database *d, sqlite3_stmt *statement, lr_error *err) {
    int code = sqlite3_step(statement);
    if (code != SQLITE_DONE) return failed(d, code, err);
    code = sqlite3_reset(statement);
    if (code == SQLITE_OK) code = sqlite3_clear_bindings(statement);
    return code == SQLITE_OK ? LR_OK : failed(d, code, err);
}

static lr_status bind_text(sqlite3_stmt *statement, int column, const char *text, lr_error *err) {
    char *copy = lr_utf8_copy(text);
    if (!copy) return lr_fail(err, LR_E_NOMEM, "out of memory: a name");
    sqlite3_bind_text(statement, column, copy, -1, SQLITE_TRANSIENT);
    lr_free(copy);
    return LR_OK;
}

static void bind_vector(sqlite3_stmt *statement, int column, const float *vector, size_t dim) {
    sqlite3_bind_blob64(statement, column, vector, dim * sizeof(float), SQLITE_STATIC);
}

static lr_status insert_set(const database *d, sqlite3_int64 id, const lr_set_info *set, lr_error *err) {
    lr_status st = LR_OK;
    const char *const texts[] = {set->path, set->recording, set->model_name, set->model_hash, set->context};
    sqlite3_bind_int64(d->set, 1, id);
    for (int i = 0; i < 5; i++) LR_TRY(bind_text(d->set, i + 2, texts[i], err));
    sqlite3_bind_int64(d->set, 7, (sqlite3_int64)set->dim);
    sqlite3_bind_double(d->set, 8, set->duration);
    LR_TRY(bind_text(d->set, 9, set->key, err));
    bind_vector(d->set, 10, set->recording_vector, set->dim);
    LR_TRY(insert(d, d->set, err));
    for (size_t i = 0; i < set->n_segments; i++) {
        const lr_segment_row *r = &set->segment_rows[i];
        sqlite3_bind_int64(d->segment, 1, id);
        sqlite3_bind_int64(d->segment, 2, (sqlite3_int64)i);
        sqlite3_bind_double(d->segment, 3, r->start);
        sqlite3_bind_double(d->segment, 4, r->end);
        sqlite3_bind_int64(d->segment, 5, (sqlite3_int64)r->first);
        sqlite3_bind_int64(d->segment, 6, (sqlite3_int64)r->end_token);
        bind_vector(d->segment, 7, set->segments + i * set->dim, set->dim);
        LR_TRY(insert(d, d->segment, err));
    }
    for (size_t i = 0; i < set->n_frames; i++) {
        sqlite3_bind_int64(d->frame, 1, id);
        sqlite3_bind_int64(d->frame, 2, set->frame_rows[i].i);
        sqlite3_bind_double(d->frame, 3, set->frame_rows[i].t);
        bind_vector(d->frame, 4, set->frames + i * set->dim, set->dim);
        LR_TRY(insert(d, d->frame, err));
    }
done:
    return st;
}

static lr_status prepare(const database *d, const char *sql, sqlite3_stmt **out, lr_error *err) {
    int code = sqlite3_prepare_v2(d->db, sql, -1, out, NULL);
    return code == SQLITE_OK ? LR_OK : failed(d, code, err);
}

static lr_status write_database(lr_set *const *sets, size_t n_sets, const char *part, lr_error *err) {
    lr_status st = LR_OK;
    database d = {.path = part};
    int code = sqlite3_open_v2(part, &d.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (code != SQLITE_OK) {
        st = failed(&d, code, err);
        goto done;
    }
    /* No journal: a file that is not whole is thrown away. */
    LR_TRY(execute(&d, "PRAGMA journal_mode = OFF; PRAGMA synchronous = FULL;", err));
    LR_TRY(execute(&d, schema, err));
    LR_TRY(prepare(&d, "INSERT INTO sets VALUES (?,?,?,?,?,?,?,?,?,?)", &d.set, err));
    LR_TRY(prepare(&d, "INSERT INTO segments VALUES (?,?,?,?,?,?,?)", &d.segment, err));
    LR_TRY(prepare(&d, "INSERT INTO frames VALUES (?,?,?,?)", &d.frame, err));
    for (size_t i = 0; i < n_sets; i++) {
        LR_TRY(insert_set(&d, (sqlite3_int64)i + 1, lr_set_info_of(sets[i]), err));
    }
    LR_TRY(execute(&d, "COMMIT;", err));
done:
    sqlite3_finalize(d.set);
    sqlite3_finalize(d.segment);
    sqlite3_finalize(d.frame);
    code = sqlite3_close(d.db);
    if (st == LR_OK && code != SQLITE_OK) st = failed(&d, code, err);
    return st;
}

lr_status lr_export_sqlite(lr_set *const *sets, size_t n_sets, const char *path, lr_error *err) {
    return lr_export_aside(sets, n_sets, path, write_database, err);
}
