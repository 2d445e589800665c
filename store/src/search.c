/* Search: exact dot products of a unit vector with every row of every set. An hour has 360 segments and
 * 3600 frames, so hundreds of hours are scanned in milliseconds; the scan is parallel over sets. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/store.h>

typedef struct row_hit {
    float score;
    size_t set, row;
} row_hit;

typedef struct scan {
    const lr_kernels *kernels;
    lr_set *const *sets;
    const float *query;
    size_t dim;
    lr_level level;
    const size_t *first; /* [n_sets]: where a set's rows begin in hits */
    row_hit *hits;
} scan;

static size_t rows_of(const lr_set_info *info, lr_level level, const float **vectors) {
    switch (level) {
    case LR_LEVEL_FRAME: *vectors = info->frames; return info->n_frames;
    case LR_LEVEL_RECORDING: *vectors = info->recording_vector; return 1;
    case LR_LEVEL_SEGMENT: break;
    }
    *vectors = info->segments;
    return info->n_segments;
}

static void scan_set(void *arg, size_t i, size_t worker) {
    (void)worker;
    const scan *s = arg;
    const float *vectors;
    size_t rows = rows_of(lr_set_info_of(s->sets[i]), s->level, &vectors);
    for (size_t r = 0; r < rows; r++) {
        float score = s->kernels->dot(s->query, vectors + r * s->dim, s->dim);
        s->hits[s->first[i] + r] = (row_hit){.score = score, .set = i, .row = r};
    }
}

/* Best first; equal scores in the order of sets and rows. */
static int by_score(const void *a, const void *b) {
    const row_hit *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->set != y->set) return x->set < y->set ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int by_place(const void *a, const void *b) {
    const row_hit *x = a, *y = b;
    if (x->set != y->set) return x->set < y->set ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int best_first(const void *a, const void *b) {
    const lr_hit *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->set != y->set) return x->set < y->set ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* The time a row stands for. A frame stands until the next one, the last one until the end. */
static lr_hit hit_of(const lr_set_info *info, lr_level level, const row_hit *row) {
    lr_hit hit = {.score = row->score, .set = row->set, .start = 0, .end = info->duration};
    if (level == LR_LEVEL_SEGMENT) {
        hit.start = info->segment_rows[row->row].start;
        hit.end = info->segment_rows[row->row].end;
    } else if (level == LR_LEVEL_FRAME) {
        hit.start = info->frame_rows[row->row].t;
        if (row->row + 1 < info->n_frames) hit.end = info->frame_rows[row->row + 1].t;
        if (hit.end < hit.start) hit.end = hit.start;
    }
    return hit;
}

static size_t merge_neighbours(const scan *s, row_hit *rows, size_t count, lr_hit *hits) {
    size_t n = 0;
    qsort(rows, count, sizeof *rows, by_place);
    for (size_t i = 0; i < count; i++) {
        lr_hit hit = hit_of(lr_set_info_of(s->sets[rows[i].set]), s->level, &rows[i]);
        bool next = i > 0 && rows[i].set == rows[i - 1].set && rows[i].row == rows[i - 1].row + 1 &&
                    hit.start <= hits[n - 1].end;
        if (!next) {
            hits[n++] = hit;
            continue;
        }
        if (hit.end > hits[n - 1].end) hits[n - 1].end = hit.end;
        if (hit.score > hits[n - 1].score) hits[n - 1].score = hit.score;
    }
    qsort(hits, n, sizeof *hits, best_first);
    return n;
}

static lr_status check_query(lr_set *const *sets, size_t n_sets, const float *query, size_t dim,
                             lr_error *err) {
    for (size_t i = 0; i < n_sets; i++) {
        const lr_set_info *info = lr_set_info_of(sets[i]);
        if (info->dim != dim) {
            return lr_fail(err, LR_E_USAGE, "%s: its vectors have %zu values, the query %zu", info->path,
                           info->dim, dim);
        }
    }
    for (size_t d = 0; d < dim; d++) {
        if (!isfinite(query[d])) return lr_fail(err, LR_E_USAGE, "the query vector is not finite");
    }
    return LR_OK;
}

/* A row that is not finite has no place in an order: its set is damaged. */
static lr_status check_scores(const scan *s, size_t total, lr_error *err) {
    for (size_t i = 0; i < total; i++) {
        if (isfinite(s->hits[i].score)) continue;
        return lr_fail(err, LR_E_FORMAT, "%s: holds vectors that are not finite ('longreel verify' tells which "
                       "file); it cannot be searched", lr_set_info_of(s->sets[s->hits[i].set])->path);
    }
    return LR_OK;
}

static lr_status count_rows(lr_set *const *sets, size_t n_sets, lr_level level, size_t *first,
                            size_t *total, lr_error *err) {
    *total = 0;
    for (size_t i = 0; i < n_sets; i++) {
        const float *vectors;
        first[i] = *total;
        if (!lr_add_size(*total, rows_of(lr_set_info_of(sets[i]), level, &vectors), total)) {
            return lr_fail(err, LR_E_NOMEM, "too many rows to search");
        }
    }
    return LR_OK;
}

lr_status lr_search(const lr_kernels *kernels, lr_pool *pool, lr_set *const *sets, size_t n_sets,
                    const float *query, size_t dim, lr_level level, size_t k, bool merge,
                    lr_hit **hits, size_t *count, lr_error *err) {
    lr_status st = LR_OK;
    size_t *first = NULL, total = 0;
    row_hit *rows = NULL;
    lr_hit *out = NULL;
    *hits = NULL;
    *count = 0;
    LR_TRY(check_query(sets, n_sets, query, dim, err));
    LR_TRY(LR_NEW(&first, n_sets, "search", err));
    LR_TRY(count_rows(sets, n_sets, level, first, &total, err));
    LR_TRY(LR_NEW(&rows, total, "search", err));
    scan s = {.kernels = kernels, .sets = sets, .query = query, .dim = dim, .level = level,
              .first = first, .hits = rows};
    lr_pool_for(pool, n_sets, scan_set, &s);
    LR_TRY(check_scores(&s, total, err));
    if (total > 1) qsort(rows, total, sizeof *rows, by_score);
    size_t keep = merge && k <= total / 4 ? 4 * k : merge ? total : k;
    if (keep > total) keep = total;
    LR_TRY(LR_NEW(&out, keep, "hits", err));
    size_t n = keep;
    if (merge && level != LR_LEVEL_RECORDING) {
        n = merge_neighbours(&s, rows, keep, out);
    } else {
        for (size_t i = 0; i < keep; i++) {
            out[i] = hit_of(lr_set_info_of(sets[rows[i].set]), level, &rows[i]);
        }
    }
    *count = n < k ? n : k;
    *hits = out;
    out = NULL;
done:
    lr_free(out);
    lr_free(rows);
    lr_free(first);
    return st;
}
