#include "set_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void unit(uint64_t seed, float *out, size_t dim) {
    lrt_random random;
    lrt_random_init(&random, seed);
    double sum = 0;
    for (size_t d = 0; d < dim; d++) {
        out[d] = lrt_normal(&random);
        sum += (double)out[d] * out[d];
    }
    for (size_t d = 0; d < dim; d++) out[d] = (float)(out[d] / sqrt(sum));
}

void case_vector(const set_case *what, size_t r, float *out) {
    unit(what->seed * 1000 + r, out, what->dim);
}

static lr_status fill(lr_set_writer *w, const set_case *what, lr_error *err) {
    lr_status st = LR_OK;
    size_t n = what->n_segments + what->n_frames + 1;
    float *vectors = NULL;
    lr_segment_row *segments = NULL;
    lr_frame_row *frames = NULL;
    LR_TRY(LR_NEW(&vectors, n * what->dim, "vectors", err));
    LR_TRY(LR_NEW(&segments, what->n_segments, "segments", err));
    LR_TRY(LR_NEW(&frames, what->n_frames, "frames", err));
    for (size_t r = 0; r < n; r++) case_vector(what, r, vectors + r * what->dim);
    for (size_t i = 0; i < what->n_segments; i++) {
        segments[i] = (lr_segment_row){.start = 10.0 * (double)i, .end = 10.0 * (double)i + 10,
                                       .first = 5 * i + 1, .end_token = 5 * i + 6};
    }
    for (size_t i = 0; i < what->n_frames; i++) {
        frames[i] = (lr_frame_row){.i = (int64_t)i, .t = 0.1 * (double)i};
    }
    LR_TRY(lr_set_segments(w, segments, vectors, what->n_segments, what->dim, err));
    LR_TRY(lr_set_frames(w, frames, vectors + what->n_segments * what->dim, what->n_frames, what->dim,
                         err));
    LR_TRY(lr_set_recording(w, vectors + (n - 1) * what->dim, what->dim, err));
    if (what->tokens) {
        int32_t ids[5] = {2, 7, 8, 9, 1};
        double times[5] = {NAN, 0, 0, 1, NAN};
        float hidden[5 * 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        const lr_set_tensor tensors[] = {
            {"time", {.dtype = LR_F64, .n_dims = 1, .dims = {5}, .data = times}},
            {"input_ids", {.dtype = LR_I32, .n_dims = 1, .dims = {5}, .data = ids}},
        };
        LR_TRY(lr_set_tokens_begin(w, tensors, 2, 5, 3, err));
        LR_TRY(lr_set_tokens_rows(w, hidden, 2, err));
        LR_TRY(lr_set_tokens_rows(w, hidden + 6, 3, err));
    }
done:
    lr_free(vectors);
    lr_free(segments);
    lr_free(frames);
    return st;
}

lr_status write_set(const char *path, const set_case *what, lr_error *err) {
    lr_status st = LR_OK;
    lr_set_writer *w = NULL;
    char manifest[1024];
    snprintf(manifest, sizeof manifest,
             "{\"format\": \"" LR_SET_FORMAT "\", \"key\": \"%s\", \"model\": {\"name\": \"m\", "
             "\"hash\": \"%s\"}, \"recording\": {\"name\": \"talk.mp4\", \"duration\": %zu}, "
             "\"options\": {\"context\": \"full\"}, \"tokens\": %zu, "
             "\"counts\": {\"segments\": %zu, \"frames\": %zu}}",
             what->key, what->model_hash, 10 * what->n_segments, 5 * what->n_segments + 2,
             what->n_segments, what->n_frames);
    LR_TRY(lr_set_create(&w, path, what->replace, err));
    LR_TRY(fill(w, what, err));
    st = lr_set_commit(w, manifest, err);
    w = NULL;
done:
    lr_set_abandon(w);
    return st;
}
