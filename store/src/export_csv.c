/* Vectors as comma-separated values (RFC 4180). */
#include <string.h>

#include "export.h"
#include "files.h"

/* Quoted where it must be. */
static lr_status write_text(lr_out *out, const char *text, lr_error *err) {
    lr_status st = LR_OK;
    char *copy = lr_utf8_copy(text);
    if (!copy) LR_FAIL(LR_E_NOMEM, "out of memory: a name");
    if (!strpbrk(copy, ",\"\r\n")) {
        st = lr_out_write(out, copy, strlen(copy), err);
        goto done;
    }
    LR_TRY(lr_out_write(out, "\"", 1, err));
    for (const char *c = copy; *c; c++) {
        if (*c == '"') LR_TRY(lr_out_write(out, c, 1, err)); /* doubled */
        LR_TRY(lr_out_write(out, c, 1, err));
    }
    LR_TRY(lr_out_write(out, "\"", 1, err));
done:
    lr_free(copy);
    return st;
}

typedef struct csv_row {
    const char *level;
    int64_t i;
    double start, end;
    bool has_end;
    const float *vector;
} csv_row;

/* 9 digits tell any two float32 apart. */
static lr_status write_row(lr_out *out, const lr_set_info *set, const csv_row *row, lr_error *err) {
    lr_status st = LR_OK;
    LR_TRY(write_text(out, set->path, err));
    LR_TRY(lr_out_write(out, ",", 1, err));
    LR_TRY(write_text(out, set->recording, err));
    LR_TRY(lr_out_printf(out, err, ",%s,%lld,%.15g,", row->level, (long long)row->i, row->start));
    if (row->has_end) LR_TRY(lr_out_printf(out, err, "%.15g", row->end));
    for (size_t d = 0; d < set->dim; d++) {
        LR_TRY(lr_out_printf(out, err, ",%.9g", (double)row->vector[d]));
    }
    LR_TRY(lr_out_write(out, "\r\n", 2, err));
done:
    return st;
}

static lr_status write_set(lr_out *out, const lr_set_info *set, lr_error *err) {
    lr_status st = LR_OK;
    LR_TRY(write_row(out, set, &(csv_row){"recording", 0, 0, set->duration, true, set->recording_vector},
                     err));
    for (size_t i = 0; i < set->n_segments; i++) {
        const lr_segment_row *r = &set->segment_rows[i];
        LR_TRY(write_row(out, set, &(csv_row){"segment", (int64_t)i, r->start, r->end, true,
                                              set->segments + i * set->dim}, err));
    }
    for (size_t i = 0; i < set->n_frames; i++) {
        const lr_frame_row *r = &set->frame_rows[i];
        LR_TRY(write_row(out, set, &(csv_row){"frame", r->i, r->t, 0, false, set->frames + i * set->dim},
                         err));
    }
done:
    return st;
}

static lr_status write_csv(lr_set *const *sets, size_t n_sets, const char *part, lr_error *err) {
    lr_status st = LR_OK;
    lr_out out = {0};
    size_t dim = lr_set_info_of(sets[0])->dim;
    LR_TRY(lr_out_open(&out, part, err));
    LR_TRY(lr_out_printf(&out, err, "set,recording,level,i,start,end"));
    for (size_t d = 0; d < dim; d++) LR_TRY(lr_out_printf(&out, err, ",v%zu", d));
    LR_TRY(lr_out_write(&out, "\r\n", 2, err));
    for (size_t i = 0; i < n_sets; i++) LR_TRY(write_set(&out, lr_set_info_of(sets[i]), err));
    st = lr_out_close(&out, err);
done:
    lr_out_discard(&out);
    return st;
}

lr_status lr_export_csv(lr_set *const *sets, size_t n_sets, const char *path, lr_error *err) {
    for (size_t i = 1; i < n_sets; i++) {
        const lr_set_info *first = lr_set_info_of(sets[0]), *set = lr_set_info_of(sets[i]);
        if (set->dim == first->dim) continue;
        return lr_fail(err, LR_E_USAGE, "%s: its vectors have %zu values, those of %s have %zu: one table "
                       "cannot hold both", set->path, set->dim, first->path, first->dim);
    }
    return lr_export_aside(sets, n_sets, path, write_csv, err);
}
