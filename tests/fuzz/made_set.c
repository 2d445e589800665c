/* A set as encode writes it, its vectors and tokens chosen by hand. */
#include <stdbool.h>
#include <string.h>

#include <longreel/store.h>

#include "fuzz.h"
#include "made_set.h"

#define DIM 6
#define HIDDEN 4
#define TOKENS 12
#define SECOND LR_TIME_SECOND

/* kind, index, time, first, count, soft_first, soft_count: docs/sets.md */
static const int64_t spans[5][7] = {
    {LR_SPAN_BOS, 0, LR_TIME_NONE, 0, 1, 0, 0},
    {LR_SPAN_FRAME, 0, 0, 1, 4, 2, 2},
    {LR_SPAN_SOUND, 0, 0, 5, 2, 6, 1},
    {LR_SPAN_FRAME, 1, 10 * SECOND, 7, 4, 8, 2},
    {LR_SPAN_EOS, 0, LR_TIME_NONE, 11, 1, 11, 0},
};
static const int64_t windows[1][2] = {{0, TOKENS}};
static const int64_t part[2] = {0, 20 * SECOND};

static const char manifest[] =
    "{\"format\": \"" LR_SET_FORMAT "\", \"key\": \"k\", \"model\": {\"name\": \"m\", \"hash\": \"h\", "
    "\"dims\": [6, 3]}, \"recording\": {\"name\": \"talk.mp4\", \"hash\": \"r\", \"duration\": 20}, "
    "\"options\": {\"context\": \"full\", \"segment\": 10, \"hop\": 10, \"dim\": 6, \"chunk\": 4}, "
    "\"run\": {\"build\": {\"version\": \"1\"}}, \"tokens\": 12, "
    "\"counts\": {\"segments\": 2, \"frames\": 2}}";

static void write_tokens(lr_set_writer *writer, lr_error *err)
{
    static double time[TOKENS];
    static float projection[DIM * HIDDEN], hidden[TOKENS * HIDDEN];
    static int32_t ids[TOKENS];
    for (size_t i = 0; i < DIM * HIDDEN; i++) projection[i] = (float)(i * i % 7) - 2;
    for (size_t i = 0; i < TOKENS * HIDDEN; i++) hidden[i] = (float)(i % 5) + 1;
    const lr_set_tensor tensors[] = {
        {"time", {.dtype = LR_F64, .n_dims = 1, .dims = {TOKENS}, .data = time}},
        {"spans", {.dtype = LR_I64, .n_dims = 2, .dims = {5, 7}, .data = spans}},
        {"windows", {.dtype = LR_I64, .n_dims = 2, .dims = {1, 2}, .data = windows}},
        {"part", {.dtype = LR_I64, .n_dims = 1, .dims = {2}, .data = part}},
        {"projection", {.dtype = LR_F32, .n_dims = 2, .dims = {DIM, HIDDEN}, .data = projection}},
        {"input_ids", {.dtype = LR_I32, .n_dims = 1, .dims = {TOKENS}, .data = ids}},
    };
    FZ_CHECK(fz_succeeded(lr_set_tokens_begin(writer, tensors, sizeof tensors / sizeof *tensors, TOKENS,
                                              HIDDEN, err), err));
    FZ_CHECK(fz_succeeded(lr_set_tokens_rows(writer, hidden, TOKENS, err), err));
}

void fz_set_make(const char *path)
{
    /* Rows of length 1: 0.6^2 + 0.8^2. */
    static const float rows[5][DIM] = {
        {1}, {0.6F, 0.8F}, {0, 0.6F, 0.8F}, {0, 0, 0, 1}, {0, 0, 0, 0, 0.8F, -0.6F}};
    const lr_segment_row segments[2] = {{0, 10, 1, 7}, {10, 20, 7, 11}};
    const lr_frame_row frames[2] = {{0, 0}, {1, 10}};
    lr_error err = {0};
    lr_set_writer *writer = NULL;
    FZ_CHECK(fz_succeeded(lr_set_create(&writer, path, false, &err), &err));
    FZ_CHECK(fz_succeeded(lr_set_recording(writer, rows[0], DIM, &err), &err));
    FZ_CHECK(fz_succeeded(lr_set_segments(writer, segments, rows[1], 2, DIM, &err), &err));
    FZ_CHECK(fz_succeeded(lr_set_frames(writer, frames, rows[3], 2, DIM, &err), &err));
    write_tokens(writer, &err);
    FZ_CHECK(fz_succeeded(lr_set_commit(writer, manifest, &err), &err));
}
