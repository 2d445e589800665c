#include "fuzz_media.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

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

static void check_video(const lr_recording *recording, const lr_timeline *t, bool whole)
{
    const lr_video_info *v = &t->video;
    /* A part that begins behind the last picture has none. */
    FZ_CHECK(v->n_frames >= whole && v->n_frames <= INT32_MAX);
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

void fz_check_timeline(const lr_recording *recording, const lr_ingest_options *options)
{
    const lr_timeline *t = lr_recording_timeline(recording);
    FZ_CHECK(t->has_video || t->has_audio);
    FZ_CHECK(isfinite(t->origin_s));
    FZ_CHECK(t->duration >= 0);
    FZ_CHECK(strlen(t->content_hash) == 32);
    FZ_CHECK(strlen(t->container) > 0);
    if (t->has_video) check_video(recording, t, options->start == LR_TIME_NONE);
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

/* ------------------------------------------------------------------ frames */

/* Frames read of a recording; more find nothing new. */
#define MOST_FRAMES 8

/* What must not depend on where a reader begins. */
typedef struct seen {
    uint64_t pixels;
    lr_time t, pts;
    bool substituted;
} seen;

static seen look(const lr_recording *recording, const lr_frame *frame, int64_t k)
{
    const lr_video_info *info = &lr_recording_timeline(recording)->video;
    FZ_CHECK(frame->index == k && frame->t == lr_recording_grid_time(recording, k));
    FZ_CHECK(frame->width == info->width && frame->height == info->height);
    FZ_CHECK(frame->display_width == info->display_width);
    FZ_CHECK(frame->display_height == info->display_height);
    FZ_CHECK(frame->rgb && frame->stride >= 3 * (size_t)frame->width);
    XXH64_hash_t hash = 0;
    for (int y = 0; y < frame->height; y++)
        hash = XXH3_64bits_withSeed(frame->rgb + (size_t)y * frame->stride, 3 * (size_t)frame->width, hash);
    return (seen){hash, frame->t, frame->pts, frame->substituted};
}

/* Frames [first, end) into out[0 ..]; the number that came. */
static int64_t read_frames(const lr_recording *recording, int64_t first, int64_t end, seen *out)
{
    lr_error err = {0};
    lr_frame_reader *reader = NULL;
    lr_frame frame;
    size_t n_damage;
    int64_t count = 0;
    bool got = true;
    if (!fz_succeeded(lr_frame_reader_open(&reader, recording, first, end, &err), &err)) {
        FZ_CHECK(!reader);
        return 0;
    }
    while (got && fz_succeeded(lr_frame_reader_next(reader, &frame, &got, &err), &err))
        if (got) {
            FZ_CHECK(first + count < end);
            out[count] = look(recording, &frame, first + count);
            count++;
        }
    FZ_CHECK(err.status != LR_OK || count == end - first);
    const lr_damage *damage = lr_frame_reader_damage(reader, &n_damage);
    fz_check_damage(damage, n_damage);
    lr_frame_reader_close(reader);
    return count;
}

static void report(const char *what, int64_t k, const seen *a, const seen *b)
{
    (void)fprintf(stderr, "frame %lld, %s: %016llx pts %lld %d, else %016llx pts %lld %d\n", (long long)k,
                  what, (unsigned long long)a->pixels, (long long)a->pts, a->substituted,
                  (unsigned long long)b->pixels, (long long)b->pts, b->substituted);
}

void fz_check_frames(const lr_recording *recording)
{
    seen whole[MOST_FRAMES], slice[MOST_FRAMES];
    int64_t n = lr_recording_timeline(recording)->video.n_frames;
    if (n > MOST_FRAMES) n = MOST_FRAMES;
    int64_t all = read_frames(recording, 0, n, whole), from = n / 2;
    if (all < n || n < 2) return;
    int64_t some = read_frames(recording, from, n, slice);
    FZ_CHECK(some == n - from);
    for (int64_t i = 0; i < some; i++) {
        const seen *a = &whole[from + i], *b = &slice[i];
        bool same = a->pixels == b->pixels && a->pts == b->pts && a->substituted == b->substituted;
        if (!same) report("from the start", from + i, a, b);
        FZ_CHECK(same);
    }
}

/* ------------------------------------------------------------------ sound */

/* Samples read of a recording (eight seconds): a hole may be hours of silence. */
#define MOST_SAMPLES (8 * LR_SAMPLE_RATE)

/* In pieces of this many samples; the number that came. */
static size_t read_sound(const lr_recording *recording, size_t piece, float *out)
{
    lr_error err = {0};
    lr_sound_reader *reader = NULL;
    size_t count = 1, at = 0, n_damage;
    if (!fz_succeeded(lr_sound_reader_open(&reader, recording, &err), &err)) {
        FZ_CHECK(!reader);
        return 0;
    }
    while (count > 0 && at < MOST_SAMPLES) {
        size_t room = MOST_SAMPLES - at < piece ? MOST_SAMPLES - at : piece;
        if (!fz_succeeded(lr_sound_reader_read(reader, out + at, room, &count, &err), &err)) break;
        FZ_CHECK(count <= room);
        at += count;
    }
    uint64_t n = (uint64_t)lr_recording_timeline(recording)->audio.n_samples;
    if (err.status == LR_OK && at != (n < MOST_SAMPLES ? n : MOST_SAMPLES))
        (void)fprintf(stderr, "%zu of %llu samples came\n", at, (unsigned long long)n);
    FZ_CHECK(err.status != LR_OK || at == (n < MOST_SAMPLES ? n : MOST_SAMPLES));
    const lr_damage *damage = lr_sound_reader_damage(reader, &n_damage);
    fz_check_damage(damage, n_damage);
    lr_sound_reader_close(reader);
    return err.status == LR_OK ? at : 0;
}

void fz_check_sound(const lr_recording *recording)
{
    static float whole[MOST_SAMPLES], pieces[MOST_SAMPLES];
    size_t all = read_sound(recording, MOST_SAMPLES, whole);
    if (all == 0) return;
    FZ_CHECK(read_sound(recording, 1601, pieces) == all);
    FZ_CHECK(memcmp(whole, pieces, all * sizeof *whole) == 0);
}
