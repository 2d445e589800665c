/* Pools a set's saved tokens again: the arithmetic is encode's own (pool.c), so are the bytes. */
#include <longreel/repool.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job.h"

lr_repool_options lr_repool_defaults(void) {
    return (lr_repool_options){.segment = LR_TIME_NONE, .hop = LR_TIME_NONE};
}

typedef struct repool_job {
    const char *from, *set_path;
    const lr_repool_options *options;
    lr_set *set;
    json_t *manifest; /* of `from` at first, then of the new set */
    lr_saved_tokens tokens;
    lr_pooling pooling;
    char *key;
    lr_set_writer *writer;
    lr_repool_result *result;
} repool_job;

/* ------------------------------------------------------------------ the set at hand */

static lr_status check_options(const lr_repool_options *o, lr_error *err) {
    if (o->segment != LR_TIME_NONE && o->segment <= 0) {
        return lr_fail(err, LR_E_USAGE, "--segment must be greater than 0");
    }
    if (o->hop != LR_TIME_NONE && o->hop <= 0) {
        return lr_fail(err, LR_E_USAGE, "--hop must be greater than 0");
    }
    return LR_OK;
}

/* The new set may not take the place of the tokens it is made from. */
static lr_status refuse_same_place(const repool_job *job, lr_error *err) {
    struct stat a, b;
    if (stat(job->from, &a) != 0 || stat(job->set_path, &b) != 0) return LR_OK;
    if (a.st_dev != b.st_dev || a.st_ino != b.st_ino) return LR_OK;
    return lr_fail(err, LR_E_USAGE, "%s is the set the segments are made from; give the new one another "
                   "name", job->set_path);
}

static lr_status open_set(repool_job *job, lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL;
    LR_TRY(lr_set_open(&job->set, job->from, err));
    LR_TRY(lr_format(&path, err, "%s/tokens.safetensors", job->from));
    if (access(path, F_OK) != 0) {
        LR_FAIL(LR_E_USAGE, "%s holds no saved tokens (tokens.safetensors); encode the recording with "
                "--save tokens", job->from);
    }
    LR_TRY(lr_set_verify(job->from, err));
    uint64_t failures = lr_alloc_failures();
    job->manifest = json_loads(lr_set_info_of(job->set)->manifest, 0, NULL);
    if (!job->manifest || lr_alloc_failures() != failures) LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    LR_TRY(lr_tokens_open(&job->tokens, path, err));
done:
    lr_free(path);
    return st;
}

/* ------------------------------------------------------------------ options */

/* Seconds of the manifest as lr_time: exact below 2^52 units (73 days). */
static bool take_time(const json_t *options, const char *name, lr_time *out) {
    const json_t *value = json_object_get(options, name);
    double units = json_number_value(value) * (double)LR_TIME_SECOND;
    if (!json_is_number(value) || !(units >= 1) || units >= 0x1p63) return false;
    *out = (lr_time)llround(units);
    return true;
}

/* --dim must be one of the model's widths. */
static lr_status check_dim(const repool_job *job, size_t dim, lr_error *err) {
    const json_t *dims = json_object_get(json_object_get(job->manifest, "model"), "dims");
    char known[128] = "";
    size_t used = 0;
    for (size_t i = 0; i < json_array_size(dims); i++) {
        size_t one = (size_t)json_integer_value(json_array_get(dims, i));
        if (one == dim && dim <= job->tokens.projection.dim) return LR_OK;
        int n = snprintf(known + used, sizeof known - used, "%s%zu", used ? ", " : "", one);
        if (n > 0 && (size_t)n < sizeof known - used) used += (size_t)n;
    }
    return lr_fail(err, LR_E_USAGE, "--dim %zu: %s gives vectors of %s values", dim,
                   lr_set_info_of(job->set)->model_name, used ? known : "one width only");
}

static lr_status fill_pooling(repool_job *job, lr_error *err) {
    lr_status st = LR_OK;
    const lr_repool_options *o = job->options;
    const json_t *options = json_object_get(job->manifest, "options");
    json_int_t chunk = json_integer_value(json_object_get(options, "chunk"));
    json_int_t dim = json_integer_value(json_object_get(options, "dim"));
    lr_pooling *p = &job->pooling;
    *p = (lr_pooling){.layout = job->tokens.layout, .projection = job->tokens.projection,
                      .base = job->tokens.base, .end = job->tokens.end, .chunk = (uint64_t)chunk,
                      .dim = o->dim ? o->dim : (size_t)dim};
    if (chunk <= 0 || dim <= 0 || !json_is_object(json_object_get(job->manifest, "run")) ||
        !json_is_object(json_object_get(job->manifest, "counts")) ||
        !take_time(options, "segment", &p->segment) || !take_time(options, "hop", &p->hop)) {
        LR_FAIL(LR_E_FORMAT, "%s/manifest.json does not say how the set was made", job->from);
    }
    if (o->segment != LR_TIME_NONE) p->segment = o->segment;
    if (o->hop != LR_TIME_NONE) p->hop = o->hop;
    LR_TRY(check_dim(job, p->dim, err));
    LR_TRY(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &p->kernels, err));
done:
    return st;
}

/* The manifest becomes the new set's: what an encode with these options would say, and its key. */
static lr_status change_manifest(repool_job *job, lr_error *err) {
    const lr_pooling *p = &job->pooling;
    json_t *options = json_object_get(job->manifest, "options");
    json_t *run = json_object_get(job->manifest, "run");
    json_t *from = json_pack("{s:O, s:O, s:O}", "key", json_object_get(job->manifest, "key"), "segment",
                             json_object_get(options, "segment"), "hop", json_object_get(options, "hop"));
    if (!from || json_object_set_new(run, "repooled_from", from) != 0 ||
        json_object_set_new(options, "segment", json_real(lr_time_seconds(p->segment))) != 0 ||
        json_object_set_new(options, "hop", json_real(lr_time_seconds(p->hop))) != 0 ||
        json_object_set_new(options, "dim", json_integer((json_int_t)p->dim)) != 0) {
        return lr_fail(err, LR_E_NOMEM, "out of memory: the manifest");
    }
    lr_status st = lr_manifest_key(job->manifest, &job->key, err);
    if (st != LR_OK) return st;
    if (json_object_set_new(job->manifest, "key", json_string(job->key)) != 0) {
        return lr_fail(err, LR_E_NOMEM, "out of memory: the manifest");
    }
    return LR_OK;
}

/* ------------------------------------------------------------------ pooling */

/* A chunk at a time: its borders are those of pieces. */
static lr_status pool_window(const repool_job *job, lr_pooler *pooler, const lr_window *window,
                             lr_error *err) {
    lr_status st = LR_OK;
    const lr_pooling *p = &job->pooling;
    lr_pieces pieces = {0};
    for (uint64_t at = 0; at < window->count; at += p->chunk) {
        uint64_t count = window->count - at < p->chunk ? window->count - at : p->chunk;
        uint64_t first = window->first + at;
        LR_TRY(lr_cancel_check(job->options->cancel, err));
        LR_TRY(lr_pieces_sum(p, window, first, first + count,
                             job->tokens.hidden + first * p->projection.hidden, &pieces, err));
        LR_TRY(lr_pooler_add(pooler, window, pieces.sums, pieces.count, err));
        lr_free(pieces.sums);
        pieces.sums = NULL;
    }
done:
    lr_free(pieces.sums);
    return st;
}

static lr_status pool_all(repool_job *job, lr_error *err) {
    lr_status st = LR_OK;
    const lr_layout *layout = job->pooling.layout;
    lr_pooler *pooler = NULL;
    LR_TRY(lr_pooler_create(&pooler, &job->pooling, err));
    for (size_t w = 0; w < layout->n_windows; w++) {
        LR_TRY(pool_window(job, pooler, &layout->windows[w], err));
    }
    LR_TRY(lr_pooler_write(pooler, job->writer, &job->result->segments, err));
done:
    lr_pooler_free(pooler);
    return st;
}

static lr_status write_set(repool_job *job, lr_error *err) {
    lr_status st = LR_OK;
    char *text = NULL;
    lr_error why = {0};
    json_t *counts = json_object_get(job->manifest, "counts");
    LR_TRY(lr_set_create(&job->writer, job->set_path, job->options->force, err));
    LR_TRY(pool_all(job, err));
    if (json_object_set_new(counts, "segments", json_integer((json_int_t)job->result->segments)) != 0) {
        LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    }
    LR_TRY(lr_json_text(job->manifest, 0, &text, err));
    st = lr_set_commit(job->writer, text, &why);
    job->writer = NULL;
    if (st == LR_OK) goto done;
    /* Another process may have done the same work in the same time. */
    if (st == LR_E_EXISTS && lr_look_for_set(job->set_path, job->key, &job->result->skipped, NULL) == LR_OK &&
        job->result->skipped) {
        st = LR_OK;
    } else {
        st = lr_fail(err, st, "%s", why.text);
    }
done:
    lr_free(text);
    return st;
}

lr_status lr_repool(const char *from, const char *set_path, const lr_repool_options *options,
                    lr_repool_result *result, lr_error *err) {
    lr_status st = LR_OK;
    repool_job job = {.from = from, .set_path = set_path, .options = options, .result = result};
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    memset(result, 0, sizeof *result);
    LR_TRY(check_options(options, err));
    LR_TRY(refuse_same_place(&job, err));
    LR_TRY(open_set(&job, err));
    LR_TRY(fill_pooling(&job, err));
    LR_TRY(change_manifest(&job, err));
    result->tokens = job.tokens.layout->n_tokens;
    result->frames = job.tokens.layout->n_frames;
    if (!options->force) LR_TRY(lr_look_for_set(set_path, job.key, &result->skipped, err));
    if (!result->skipped) LR_TRY(write_set(&job, err));
    result->seconds = lr_seconds_since(&begin);
done:
    lr_set_abandon(job.writer);
    lr_tokens_close(&job.tokens);
    lr_set_close(job.set);
    json_decref(job.manifest);
    lr_free(job.key);
    return st;
}
