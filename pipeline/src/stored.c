/* What an earlier run left of this work is taken over, and what this one makes is put away for the next. That
 * saves time and nothing else: where it cannot be written there is a warning, and where it cannot be used the
 * work is done again. */
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "job.h"

#define SPARE_BYTES ((uint64_t)16 << 20)

/* ------------------------------------------------------------------ opening */

static void warn(lr_job *job, const char *text) {
    char whole[LR_ERROR_TEXT + 96];
    if (atomic_exchange(&job->stored.warned, true)) return;
    snprintf(whole, sizeof whole, "%s; what is done so far cannot be kept for another run, this one goes on", text);
    lr_job_warn(job, whole);
}

static lr_status open_directory(lr_job *job, const char *set_path, bool afresh, lr_error *err) {
    lr_error why = {0};
    const lr_layout *layout = job->layout;
    const lr_partial_about about = {.tokens = layout->n_tokens, .frames = layout->n_frames,
                                    .sound_tokens = layout->n_sound_tokens, .windows = layout->n_windows,
                                    .layers = lr_model_info_of(job->model)->n_layers};
    lr_status st = lr_partial_open(&job->stored.partial, set_path, job->key, afresh,
                                   lr_job_writes(job) ? &about : NULL, &why);
    if (st == LR_E_NOMEM) return lr_fail(err, st, "%s", why.text);
    if (st != LR_OK) warn(job, why.text);
    return LR_OK;
}

/* About what the set takes: a full disk must not come from what is kept beside it. */
static uint64_t set_bytes(const lr_job *job) {
    const lr_layout *layout = job->layout;
    uint64_t rows = layout->n_spans + layout->n_frames, bytes = rows * (job->dim * sizeof(float) + 64);
    if (job->options->save_tokens) {
        bytes += layout->n_tokens * (lr_model_info_of(job->model)->hidden * sizeof(float) + 16);
    }
    return bytes;
}

static bool has_room(const lr_job *job, size_t bytes) {
    struct statvfs disk;
    if (statvfs(lr_partial_directory(job->stored.partial), &disk) != 0) return true; /* writing will tell */
    return (double)disk.f_bavail * (double)disk.f_frsize >= (double)bytes + (double)job->stored.reserve;
}

lr_status lr_stored_open(lr_job *job, const char *set_path, lr_error *err) {
    lr_status st = LR_OK;
    bool forced = job->options->force, first = lr_job_writes(job);
    unsigned char usable = 1;
    atomic_init(&job->stored.warned, false);
    job->stored.reserve = set_bytes(job) + SPARE_BYTES;
    job->stored.wanted = job->options->keep_unfinished && !job->options->save_stages;
    if (!job->stored.wanted) return LR_OK;
    if (!job->comm || !forced) return open_directory(job, set_path, forced, err);
    /* Rank 0 removes what is there before the others look. */
    if (first) LR_TRY(open_directory(job, set_path, true, err));
    usable = job->stored.partial != NULL;
    LR_TRY(lr_comm_broadcast(job->comm, 0, &usable, sizeof usable, err));
    if (!first && usable) LR_TRY(open_directory(job, set_path, false, err));
done:
    return st;
}

void lr_stored_close(lr_job *job) {
    lr_partial_close(job->stored.partial);
    job->stored.partial = NULL;
}

lr_status lr_stored_put(lr_job *job, const lr_slice_name *name, size_t row_bytes, const void *rows,
                        const void *notes, size_t notes_bytes, lr_error *err) {
    lr_error why = {0};
    if (!job->stored.partial) return LR_OK;
    if (!has_room(job, (size_t)(name->end - name->first) * row_bytes)) {
        lr_fail(&why, LR_E_IO, "%s: little room is left on the disk", lr_partial_directory(job->stored.partial));
        warn(job, why.text);
        return LR_OK;
    }
    lr_status st = lr_partial_put(job->stored.partial, name, row_bytes, rows, notes, notes_bytes, &why);
    if (st == LR_E_NOMEM) return lr_fail(err, st, "%s", why.text);
    if (st != LR_OK) warn(job, why.text);
    return LR_OK;
}

lr_status lr_stored_get(lr_job *job, const lr_slice_name *name, size_t row_bytes, lr_slice *out, bool *got,
                        lr_error *err) {
    lr_error why = {0};
    char whole[LR_ERROR_TEXT + 64];
    *out = (lr_slice){0};
    lr_status st = lr_partial_get(job->stored.partial, name, row_bytes, out, &why);
    *got = st == LR_OK;
    if (st == LR_OK) return LR_OK;
    if (st == LR_E_NOMEM) return lr_fail(err, st, "%s", why.text);
    snprintf(whole, sizeof whole, "%s: what it held is done again", why.text);
    lr_job_warn(job, whole);
    lr_partial_drop(job->stored.partial, name);
    return LR_OK;
}

/* ------------------------------------------------------------------ damage */

static lr_status take_damage(lr_job *job, const lr_slice *slice, lr_error *err) {
    size_t count = slice->notes_bytes / sizeof(lr_damage);
    lr_damage *copy = NULL;
    lr_status st = LR_NEW(&copy, count + 1, "the damage report", err);
    if (st != LR_OK) return st;
    memcpy(copy, slice->notes, count * sizeof *copy); /* notes need not be aligned */
    for (size_t i = 0; i < count; i++) copy[i].what[sizeof copy[i].what - 1] = '\0';
    st = lr_job_add_damage(job, copy, count, err);
    lr_free(copy);
    return st;
}

static const lr_slice_name sound_notes = {.kind = LR_SLICE_SOUND_NOTES, .end = 1};

lr_status lr_stored_put_sound_damage(lr_job *job, const lr_damage *damage, size_t count, lr_error *err) {
    return lr_stored_put(job, &sound_notes, 0, NULL, damage, count * sizeof *damage, err);
}

lr_status lr_stored_take_sound_damage(lr_job *job, bool *found, lr_error *err) {
    lr_status st = LR_OK;
    size_t count;
    lr_slice slice = {0};
    *found = false;
    const lr_slice_name *names = lr_partial_slices(job->stored.partial, &count);
    for (size_t i = 0; i < count && !*found; i++) {
        if (names[i].kind == LR_SLICE_SOUND_NOTES) LR_TRY(lr_stored_get(job, &names[i], 0, &slice, found, err));
    }
    if (*found) LR_TRY(take_damage(job, &slice, err));
done:
    lr_free(slice.rows);
    return st;
}

/* ------------------------------------------------------------------ rows of the towers */

/* The rows of [first, end) that have[] lacks. */
static lr_status take_lacking(const lr_slice_name *name, const float *rows, const lr_stored_range *want,
                              lr_error *err) {
    uint64_t a = name->first > want->first ? name->first : want->first;
    uint64_t b = name->end < want->end ? name->end : want->end;
    for (uint64_t i = a, next; i < b; i = next) {
        bool had = want->have[i - want->first];
        for (next = i; next < b && want->have[next - want->first] == had; next++) want->have[next - want->first] = 1;
        if (had) continue;
        lr_status st = want->take(want->arg, i, next - i, rows + (i - name->first) * want->row_floats, err);
        if (st != LR_OK) return st;
    }
    return LR_OK;
}

static bool lacks_any(const lr_slice_name *name, const lr_stored_range *want) {
    uint64_t a = name->first > want->first ? name->first : want->first;
    uint64_t b = name->end < want->end ? name->end : want->end;
    for (uint64_t i = a; i < b; i++) {
        if (!want->have[i - want->first]) return true;
    }
    return false;
}

lr_status lr_stored_take(lr_job *job, const lr_stored_range *want, lr_error *err) {
    lr_status st = LR_OK;
    size_t count;
    lr_slice slice = {0};
    if (!job->stored.partial) return LR_OK;
    const lr_slice_name *names = lr_partial_slices(job->stored.partial, &count);
    for (size_t i = 0; i < count; i++) {
        bool got;
        if (names[i].kind != want->kind || !lacks_any(&names[i], want)) continue;
        LR_TRY(lr_stored_get(job, &names[i], want->row_floats * sizeof(float), &slice, &got, err));
        if (got) LR_TRY(take_lacking(&names[i], slice.rows, want, err));
        if (got) LR_TRY(take_damage(job, &slice, err));
        lr_free(slice.rows);
        slice = (lr_slice){0};
    }
done:
    lr_free(slice.rows);
    return st;
}

bool lr_stored_names(const lr_job *job, lr_slice_kind kind, uint64_t first, uint64_t end) {
    size_t count;
    if (!job->stored.partial) return false;
    const lr_slice_name *names = lr_partial_slices(job->stored.partial, &count);
    for (size_t i = 0; i < count && first < end; i++) { /* sorted by their first row */
        if (names[i].kind == kind && names[i].first <= first && names[i].end > first) first = names[i].end;
    }
    return first >= end;
}

bool lr_stored_gap(const lr_stored_range *range, uint64_t *first, uint64_t *end) {
    uint64_t a = *first;
    while (a < range->end && range->have[a - range->first]) a++;
    *first = *end = a;
    while (*end < range->end && !range->have[*end - range->first]) (*end)++;
    return *first < *end;
}

/* ------------------------------------------------------------------ putting rows away */

lr_status lr_keeper_begin(lr_keeper *k, lr_job *job, lr_slice_kind kind, uint64_t slice_rows, size_t row_floats,
                          lr_error *err) {
    *k = (lr_keeper){.job = job, .kind = kind, .slice_rows = slice_rows, .row_floats = row_floats};
    if (!job->stored.partial) return LR_OK;
    return LR_NEW(&k->rows, slice_rows * row_floats, "a slice of what the towers make", err);
}

lr_status lr_keeper_flush(lr_keeper *k, const lr_damage *damage, size_t n_damage, lr_error *err) {
    const lr_slice_name name = {.kind = k->kind, .first = k->first, .end = k->end};
    if (!k->rows || k->first == k->end) return LR_OK;
    k->first = k->end;
    return lr_stored_put(k->job, &name, k->row_floats * sizeof(float), k->rows, damage, n_damage * sizeof *damage, err);
}

uint64_t lr_keeper_add(lr_keeper *k, uint64_t row, uint64_t count, const float *rows) {
    if (!k->rows) return count;
    if (k->first == k->end || k->end != row) k->first = row; /* a gap begins: the one before was flushed */
    uint64_t room = k->slice_rows - row % k->slice_rows;
    if (count > room) count = room;
    memcpy(k->rows + (row - k->first) * k->row_floats, rows, count * k->row_floats * sizeof *rows);
    k->end = row + count;
    return count;
}

bool lr_keeper_full(const lr_keeper *k) {
    return k->rows && k->first < k->end && k->end % k->slice_rows == 0;
}

void lr_keeper_end(lr_keeper *k, const lr_damage *damage, size_t n_damage) {
    lr_error ignored = {0};
    (void)lr_keeper_flush(k, damage, n_damage, &ignored);
    lr_free(k->rows);
    *k = (lr_keeper){0};
}
