#include "fuzz_media.h"

#include <math.h>
#include <string.h>

#include "fuzz.h"

#define OPTION_BYTES 4

lr_ingest_options fz_ingest_options(const uint8_t **data, size_t *size)
{
    static const lr_rational rates[] = {{1, 1},         {10, 1},        {1, 5}, {30000, 1001},
                                        {INT32_MAX, 1}, {1, INT32_MAX}, {25, 1}, {3, 2}};
    lr_ingest_options options = lr_ingest_defaults();
    uint8_t bytes[OPTION_BYTES] = {0};
    if (*size >= OPTION_BYTES) {
        *size -= OPTION_BYTES;
        memcpy(bytes, *data + *size, OPTION_BYTES);
    }
    options.fps = rates[bytes[0] % 8];
    options.every_picture = bytes[1] & 1;
    if (bytes[1] & 2) options.start = bytes[2] * (LR_TIME_SECOND / 16);
    if (bytes[1] & 4)
        options.end = (options.start == LR_TIME_NONE ? 0 : options.start) +
                      (1 + bytes[3]) * (LR_TIME_SECOND / 16);
    if (bytes[1] & 8) options.audio_track = bytes[1] >> 6;
    return options;
}

static void check_video(const lr_recording *recording, const lr_timeline *t)
{
    const lr_video_info *v = &t->video;
    FZ_CHECK(v->n_frames >= 1 && v->n_frames <= INT32_MAX);
    FZ_CHECK(v->width > 0 && v->height > 0 && v->display_width > 0 && v->display_height > 0);
    FZ_CHECK(v->sar.num > 0 && v->sar.den > 0);
    FZ_CHECK(v->rotation == 0 || v->rotation == 90 || v->rotation == 180 || v->rotation == 270);
    FZ_CHECK(v->n_coded > 0 && v->n_keyframes >= 0);
    FZ_CHECK(v->start != LR_TIME_NONE && v->end != LR_TIME_NONE && v->start <= v->end);
    FZ_CHECK(v->end <= t->duration && strlen(v->codec) > 0);
    /* Grid points go up, and the pictures shown there do not go back. */
    for (int64_t k = 1, step = v->n_frames / 64 + 1; k < v->n_frames; k += step) {
        FZ_CHECK(lr_recording_grid_time(recording, k) >= lr_recording_grid_time(recording, k - 1));
        FZ_CHECK(lr_recording_frame_pts(recording, k) >= lr_recording_frame_pts(recording, k - 1));
    }
}

static void check_audio(const lr_timeline *t)
{
    const lr_audio_info *a = &t->audio;
    FZ_CHECK(a->n_samples >= 0 && a->rate > 0 && a->channels > 0 && strlen(a->codec) > 0);
    FZ_CHECK(a->start <= a->end && a->end <= t->duration);
    for (size_t i = 0; i < a->n_gaps; i++) {
        FZ_CHECK(a->gaps[i][0] < a->gaps[i][1]);
        FZ_CHECK(i == 0 || a->gaps[i - 1][1] <= a->gaps[i][0]);
    }
}

void fz_check_timeline(const lr_recording *recording)
{
    const lr_timeline *t = lr_recording_timeline(recording);
    FZ_CHECK(t->has_video || t->has_audio);
    FZ_CHECK(isfinite(t->origin_s) && t->duration >= 0 && strlen(t->content_hash) == 32);
    FZ_CHECK(strlen(t->container) > 0);
    if (t->has_video) check_video(recording, t);
    if (t->has_audio) check_audio(t);
    fz_check_damage(t->damage, t->n_damage);
    for (size_t i = 0; i < t->n_warnings; i++) FZ_CHECK(strlen(t->warnings[i]) > 0);
}

void fz_check_damage(const lr_damage *damage, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        FZ_CHECK(damage[i].start <= damage[i].end);
        FZ_CHECK(memchr(damage[i].what, '\0', sizeof damage[i].what) && damage[i].what[0]);
        FZ_CHECK(i == 0 || damage[i].stream != damage[i - 1].stream ||
                 damage[i - 1].start <= damage[i].start);
    }
}
