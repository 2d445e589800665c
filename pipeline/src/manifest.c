/* The manifest of a set, and the key that tells whether two runs are the same work. */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "job.h"

/* Not json_dumps: that ignores a failure to append the key of an object (jansson 2.14), so that a text for
 * which memory ran out may lack one. json_dumpb appends nothing. */
lr_status lr_json_text(const json_t *root, size_t flags, char **out, lr_error *err) {
    lr_status st = LR_OK;
    char *text = NULL;
    size_t bytes = root ? json_dumpb(root, NULL, 0, flags) : 0;
    if (bytes == 0) LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    LR_TRY(LR_NEW(&text, bytes + 1, "the manifest", err));
    if (json_dumpb(root, text, bytes, flags) != bytes) LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    *out = text;
    text = NULL;
done:
    lr_free(text);
    return st;
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
    json_t *json = json_pack("{s:s, s:i, s:o, s:f, s:f, s:I, s:o, s:o, s:b, s:b, s:b, s:i, s:I}",
                     "fps", fps, "soft_tokens", o->soft_tokens, "context", context,
                     "segment", lr_time_seconds(o->segment), "hop", lr_time_seconds(o->hop),
                     "dim", (json_int_t)job->dim, "start", start, "end", end,
                     "video", line->has_video, "audio", line->has_audio, "stamps", o->stamps,
                     "audio_track", o->audio_track, "chunk", (json_int_t)o->chunk);
    /* Only hardware may decode to other values. */
    if (json && (o->decode == LR_DECODE_CUDA || o->decode == LR_DECODE_VAAPI) &&
        json_object_set_new(json, "decode", json_string(o->decode == LR_DECODE_CUDA ? "cuda" : "vaapi")) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* Under which the same bytes are promised: on one type of device, whichever number it has. */
static json_t *build_json(const lr_model *model) {
    const lr_kernels *k = lr_model_kernels(model);
    const lr_device_info *device = lr_model_device(model);
    char name[LR_DEVICE_TEXT];
    json_t *json = json_pack("{s:s, s:s, s:s, s:s}", "version", LR_VERSION, "compiler", __VERSION__, "isa",
                             k->isa, "gemm", k->gemm);
    if (!json || !device) return json;
    lr_device_text(device, name);
    if (json_object_set_new(json, "device", json_string(name)) == 0) return json;
    json_decref(json);
    return NULL;
}

/* Takes `options` and `build`. */
static lr_status hash_work(const char *recording, const char *model, json_t *options, json_t *build,
                           char **key, lr_error *err) {
    lr_status st = LR_OK;
    char *text = NULL;
    json_t *root = json_pack("{s:s, s:s, s:o, s:o}", "recording", recording, "model", model, "options",
                             options, "build", build);
    LR_TRY(lr_json_text(root, JSON_COMPACT | JSON_SORT_KEYS, &text, err));
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(text, strlen(text)));
    LR_TRY(LR_NEW(key, 2 * sizeof canonical.digest + 1, "the key of the work", err));
    for (size_t i = 0; i < sizeof canonical.digest; i++) {
        snprintf(*key + 2 * i, 3, "%02x", canonical.digest[i]);
    }
done:
    lr_free(text);
    json_decref(root);
    return st;
}

lr_status lr_job_key(lr_job *job, lr_error *err) {
    return hash_work(job->timeline->content_hash, job->model_hash, options_json(job),
                     build_json(job->model), &job->key, err);
}

lr_status lr_manifest_key(const json_t *manifest, char **key, lr_error *err) {
    const char *recording = NULL, *model = NULL;
    json_t *options = NULL, *build = NULL;
    if (json_unpack((json_t *)manifest, "{s:{s:s}, s:{s:s}, s:o, s:{s:o}}", "recording", "hash",
                    &recording, "model", "hash", &model, "options", &options, "run", "build",
                    &build) != 0) {
        return lr_fail(err, LR_E_FORMAT, "the manifest does not say from what the set was made");
    }
    return hash_work(recording, model, json_incref(options), json_incref(build), key, err);
}

lr_status lr_look_for_set(const char *set_path, const char *key, bool *done, lr_error *err) {
    bool there = false;
    lr_set *set = NULL;
    lr_error why = {0};
    *done = false;
    lr_status st = lr_set_may_replace(set_path, &there, err);
    if (st != LR_OK || !there) return st;
    st = lr_set_open(&set, set_path, &why);
    if (st == LR_E_NOMEM) return lr_fail(err, st, "%s", why.text);
    if (st != LR_OK) {
        return lr_fail(err, LR_E_EXISTS, "%s is there already and is no whole embedding set (%s); "
                       "--force replaces it", set_path, why.text);
    }
    *done = strcmp(lr_set_info_of(set)->key, key) == 0;
    lr_set_close(set);
    if (*done) return LR_OK;
    return lr_fail(err, LR_E_EXISTS, "%s holds a set made from another recording, model or options; "
                   "--force replaces it", set_path);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static json_t *damage_json(const lr_job *job) {
    json_t *all = json_array();
    for (size_t i = 0; all && i < job->n_damage; i++) {
        const lr_damage *d = &job->damage[i];
        json_t *one = json_pack("{s:s, s:f, s:f, s:s}", "stream",
                                d->stream == LR_STREAM_VIDEO ? "video" : "audio", "start_s",
                                lr_time_seconds(d->start), "end_s", lr_time_seconds(d->end), "what",
                                d->what);
        if (json_array_append_new(all, one) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

/* A text that may hold any bytes: a file name. */
static json_t *text_json(const char *text) {
    char *copy = lr_utf8_copy(text);
    json_t *json = copy ? json_string(copy) : NULL;
    lr_free(copy);
    return json;
}

static json_t *warnings_json(const lr_job *job) {
    json_t *all = json_array();
    for (size_t i = 0; all && i < job->timeline->n_warnings; i++) {
        if (json_array_append_new(all, text_json(job->timeline->warnings[i])) != 0) {
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
        json_t *one = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "first_token",
                                (json_int_t)w->first_token, "end_token", (json_int_t)w->end_token,
                                "frames", (json_int_t)w->frames_encoded, "sound_tokens",
                                (json_int_t)w->sound_tokens_encoded, "samples_decoded",
                                (json_int_t)w->samples_decoded, "query_rows",
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

/* A name that is no UTF-8 cannot be in a JSON text: its bytes, in hexadecimal. NULL where it can, or without
 * memory. */
static json_t *bytes_json(const char *name) {
    static const char digits[] = "0123456789abcdef";
    char *copy = lr_utf8_copy(name);
    size_t count = strlen(name);
    bool same = !copy || strcmp(copy, name) == 0;
    lr_free(copy);
    char *hex = same ? NULL : lr_alloc(2 * count + 1);
    if (!hex) return NULL;
    for (size_t i = 0; i < count; i++) {
        hex[2 * i] = digits[(unsigned char)name[i] >> 4];
        hex[2 * i + 1] = digits[(unsigned char)name[i] & 15];
    }
    hex[2 * count] = '\0';
    json_t *json = json_string(hex);
    lr_free(hex);
    return json;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

lr_status lr_manifest_path(const json_t *manifest, char **path, lr_error *err) {
    lr_status st = LR_OK;
    const json_t *run = json_object_get(manifest, "run");
    const char *text = json_string_value(json_object_get(run, "path"));
    const char *hex = json_string_value(json_object_get(run, "path_bytes"));
    size_t count = hex ? strlen(hex) / 2 : text ? strlen(text) : 0;
    char *copy = NULL;
    *path = NULL;
    if (!hex && !text) return LR_OK;
    LR_TRY(LR_NEW(&copy, count + 1, "the path of a recording", err));
    if (!hex) memcpy(copy, text, count);
    for (size_t i = 0; hex && i < count; i++) {
        int high = digit_of(hex[2 * i]), low = digit_of(hex[2 * i + 1]);
        if (high < 0 || low < 0 || high + low == 0) LR_FAIL(LR_E_FORMAT, "the manifest's run.path_bytes is malformed");
        copy[i] = (char)(high << 4 | low);
    }
    *path = copy;
    copy = NULL;
done:
    lr_free(copy);
    return st;
}

/* `path` is where a report looks for the recording. */
static json_t *run_json(const lr_job *job) {
    char *absolute = realpath(job->timeline->path, NULL);
    const char *name = absolute ? absolute : job->timeline->path;
    json_t *path = text_json(name), *bytes = bytes_json(name);
    free(absolute);
    const struct lr_reused *reused = &job->result->reused;
    return json_pack("{s:i, s:i, s:s, s:s, s:o, s:o*, s:o, s:o, s:o, s:{s:I, s:I, s:I}}", "ranks", job->ranks,
                     "threads", job->threads, "schedule",
                     job->ranks > 1 ? lr_schedule_name(job->result->schedule) : "none", "communicator", job->comm ? job->comm->ops->name : "local", "path", path,
                     "path_bytes", bytes, "build", build_json(job->model), "work", work_json(job), "warnings",
                     lr_run_warnings_json(job->result),
                     "reused", "frames", (json_int_t)reused->frames, "sound_tokens",
                     (json_int_t)reused->sound_tokens, "layers", (json_int_t)reused->layers);
}

static json_t *dims_json(const lr_model_info *info) {
    json_t *all = json_array();
    for (size_t i = 0; all && i < info->n_dims; i++) {
        if (json_array_append_new(all, json_integer(info->dims[i])) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

/* The sizes by time, where the pictures change. */
static json_t *sizes_json(const lr_video_info *v) {
    json_t *all = json_array();
    for (size_t i = 0; all && i < v->n_kinds; i++) {
        const lr_picture_kind *k = &v->kinds[i];
        json_t *one = json_pack("{s:f, s:[i, i], s:s}", "from_s", lr_time_seconds(k->from), "size", k->width,
                                k->height, "format", k->format);
        if (json_array_append_new(all, one) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

/* Adds to the manifest what only some recordings have. */
static bool add_sizes(json_t *root, const lr_video_info *v) {
    if (v->n_kinds == 0) return true;
    return json_object_set_new(json_object_get(root, "recording"), "sizes", sizes_json(v)) == 0;
}

/* And what only runs on a device have: the work memory there, of the rank that took most. */
static bool add_device_bytes(json_t *root, const lr_job *job) {
    size_t most = 0;
    if (!lr_model_device(job->model)) return true;
    for (int r = 0; r < job->ranks; r++) {
        size_t bytes = job->result->work[r].backbone.device_bytes;
        if (bytes > most) most = bytes;
    }
    return json_object_set_new(json_object_get(root, "memory"), "device_bytes", json_integer((json_int_t)most)) == 0;
}

lr_status lr_manifest_text(const lr_job *job, char **json, lr_error *err) {
    const lr_timeline *line = job->timeline;
    const lr_model_info *info = lr_model_info_of(job->model);
    const lr_encode_result *r = job->result;
    json_t *root = json_pack(
        "{s:s, s:s, s:{s:o, s:s, s:s, s:I, s:o}, s:{s:o, s:I, s:s, s:f}, s:o, s:o, s:I, s:{s:I, s:I, s:I}, "
        "s:o, s:o, s:{s:f, s:f, s:f, s:f, s:o}, s:{s:I, s:I}}",
        "format", LR_SET_FORMAT, "key", job->key,
        "model", "name", text_json(info->name), "family", info->family, "hash", job->model_hash, "dim",
        (json_int_t)info->dim, "dims", dims_json(info),
        "recording", "name", text_json(base_name(line->path)), "bytes", (json_int_t)line->file_bytes, "hash",
        line->content_hash, "duration", lr_time_seconds(line->duration),
        "options", options_json(job), "run", run_json(job),
        "tokens", (json_int_t)job->layout->n_tokens,
        "counts", "segments", (json_int_t)r->segments, "frames", (json_int_t)r->frames, "sound_tokens",
        (json_int_t)r->sound_tokens,
        "damage", damage_json(job), "warnings", warnings_json(job),
        "timings", "index", job->seconds_index, "towers", job->seconds_towers, "backbone",
        job->seconds_backbone, "write", job->seconds_write, "predicted",
        r->predicted_seconds >= 0 ? json_real(r->predicted_seconds) : json_null(),
        "memory", "peak_bytes", (json_int_t)r->peak_bytes, "predicted_bytes", (json_int_t)r->predicted_bytes);
    lr_status st = root && !(add_sizes(root, &line->video) && add_device_bytes(root, job))
                       ? lr_fail(err, LR_E_NOMEM, "out of memory: the manifest")
                       : lr_json_text(root, JSON_INDENT(2), json, err);
    json_decref(root);
    return st;
}
