/* The manifest of a set, and the key that tells whether two runs are the same work. */
#include <string.h>

#include <jansson.h>
#include <xxhash.h>

#include "job.h"

/* jansson's texts are freed as jansson was told to (a program may have set its own allocator). */
void lr_json_text_free(char *text) {
    json_malloc_t take;
    json_free_t give;
    json_get_alloc_funcs(&take, &give);
    if (text) give(text);
}

/* Only what changes values. */
static json_t *options_json(const lr_job *job) {
    const lr_encode_options *o = job->options;
    const lr_timeline *line = job->timeline;
    char fps[48];
    snprintf(fps, sizeof fps, "%lld/%lld", (long long)o->fps.num, (long long)o->fps.den);
    json_t *context = o->context ? json_integer((json_int_t)o->context) : json_string("full");
    json_t *start = o->start == LR_TIME_NONE ? json_null() : json_real(lr_time_seconds(o->start));
    json_t *end = o->end == LR_TIME_NONE ? json_null() : json_real(lr_time_seconds(o->end));
    return json_pack("{s:s, s:i, s:o, s:f, s:f, s:I, s:o, s:o, s:b, s:b, s:b, s:i, s:I}",
                     "fps", fps, "soft_tokens", o->soft_tokens, "context", context,
                     "segment", lr_time_seconds(o->segment), "hop", lr_time_seconds(o->hop),
                     "dim", (json_int_t)job->dim, "start", start, "end", end,
                     "video", line->has_video, "audio", line->has_audio, "stamps", o->stamps,
                     "audio_track", o->audio_track, "chunk", (json_int_t)o->chunk);
}

/* Under which the same bytes are promised. */
static json_t *build_json(const lr_kernels *k) {
    return json_pack("{s:s, s:s, s:s, s:s}", "version", LR_VERSION, "compiler", __VERSION__, "isa",
                     k->isa, "gemm", k->gemm);
}

lr_status lr_job_key(lr_job *job, lr_error *err) {
    lr_status st = LR_OK;
    char *text = NULL;
    json_t *root = json_pack("{s:s, s:s, s:o, s:o}", "recording", job->timeline->content_hash,
                             "model", job->model_hash, "options", options_json(job), "build",
                             build_json(lr_model_kernels(job->model)));
    if (root) text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) LR_FAIL(LR_E_NOMEM, "out of memory: the key of the work");
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(text, strlen(text)));
    LR_TRY(LR_NEW(&job->key, 2 * sizeof canonical.digest + 1, "the key of the work", err));
    for (size_t i = 0; i < sizeof canonical.digest; i++) {
        snprintf(job->key + 2 * i, 3, "%02x", canonical.digest[i]);
    }
done:
    lr_json_text_free(text);
    json_decref(root);
    return st;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static json_t *damage_json(const lr_job *job) {
    json_t *all = json_array();
    for (size_t pass = 0; all && pass < 2; pass++) {
        const lr_damage *list = pass ? job->damage : job->timeline->damage;
        size_t count = pass ? job->n_damage : job->timeline->n_damage;
        for (size_t i = 0; i < count; i++) {
            json_t *one = json_pack("{s:s, s:f, s:f, s:s}", "stream",
                                    list[i].stream == LR_STREAM_VIDEO ? "video" : "audio", "start_s",
                                    lr_time_seconds(list[i].start), "end_s",
                                    lr_time_seconds(list[i].end), "what", list[i].what);
            if (json_array_append_new(all, one) != 0) {
                json_decref(all);
                return NULL;
            }
        }
    }
    return all;
}

static json_t *warnings_json(const lr_job *job) {
    json_t *all = json_array();
    for (size_t i = 0; all && i < job->timeline->n_warnings; i++) {
        if (json_array_append_new(all, json_string(job->timeline->warnings[i])) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *work_json(const lr_job *job) {
    json_t *all = json_array();
    for (int r = 0; all && r < job->ranks; r++) {
        const struct lr_rank_work *w = &job->result->work[r];
        json_t *one = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "first_token",
                                (json_int_t)w->first_token, "end_token", (json_int_t)w->end_token,
                                "frames", (json_int_t)w->frames_encoded, "query_rows",
                                (json_int_t)w->backbone.query_rows, "chunks_sent",
                                (json_int_t)w->backbone.ring.chunks_sent, "bytes_sent",
                                (json_int_t)w->backbone.ring.bytes_sent);
        if (json_array_append_new(all, one) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *run_json(const lr_job *job) {
    return json_pack("{s:i, s:i, s:s, s:o, s:o}", "ranks", job->ranks, "threads", job->threads,
                     "communicator", "local", "build", build_json(lr_model_kernels(job->model)),
                     "work", work_json(job));
}

lr_status lr_manifest_text(const lr_job *job, char **json, lr_error *err) {
    const lr_timeline *line = job->timeline;
    const lr_model_info *info = lr_model_info_of(job->model);
    const lr_encode_result *r = job->result;
    json_t *root = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:s, s:I}, s:{s:s, s:I, s:s, s:f}, s:o, s:o, s:I, s:{s:I, s:I, s:I}, "
        "s:o, s:o, s:{s:f, s:f, s:f, s:f}, s:{s:I}}",
        "format", LR_SET_FORMAT, "key", job->key,
        "model", "name", info->name, "family", info->family, "hash", job->model_hash, "dim",
        (json_int_t)info->dim,
        "recording", "name", base_name(line->path), "bytes", (json_int_t)line->file_bytes, "hash",
        line->content_hash, "duration", lr_time_seconds(line->duration),
        "options", options_json(job), "run", run_json(job),
        "tokens", (json_int_t)job->layout->n_tokens,
        "counts", "segments", (json_int_t)r->segments, "frames", (json_int_t)r->frames, "sound_tokens",
        (json_int_t)r->sound_tokens,
        "damage", damage_json(job), "warnings", warnings_json(job),
        "timings", "index", job->seconds_index, "towers", job->seconds_towers, "backbone",
        job->seconds_backbone, "write", job->seconds_write,
        "memory", "peak_bytes", (json_int_t)r->peak_bytes);
    *json = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!*json) return lr_fail(err, LR_E_NOMEM, "out of memory: the manifest");
    return LR_OK;
}
