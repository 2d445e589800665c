/* Any bytes as a recording: its frames on the grid. The last four bytes of the input are options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include <longreel/ingest.h>

#include "fuzz.h"
#include "fuzz_media.h"

/* Frames read of a recording; more find nothing new. */
#define MOST_FRAMES 8

/* What must not depend on where a reader begins. */
typedef struct seen {
    uint64_t pixels;
    lr_time t, pts;
    bool substituted;
} seen;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fz_init();
    fz_seeds(fz_make_films);
    return 0;
}

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

/* Where the environment has LR_FUZZ_SLICES: a slice gives the same pictures as the whole. */
static void check_slices(const lr_recording *recording)
{
    seen whole[MOST_FRAMES], slice[MOST_FRAMES];
    int64_t n = lr_recording_timeline(recording)->video.n_frames;
    if (n > MOST_FRAMES) n = MOST_FRAMES;
    int64_t all = read_frames(recording, 0, n, whole), from = n / 2;
    if (all < n || n < 2) return;
    int64_t some = read_frames(recording, from, n, slice);
    FZ_CHECK(some == n - from);
    if (!getenv("LR_FUZZ_SLICES")) return;
    for (int64_t i = 0; i < some; i++) {
        const seen *a = &whole[from + i], *b = &slice[i];
        bool same = a->pixels == b->pixels && a->pts == b->pts && a->substituted == b->substituted;
        if (!same) report("from the start", from + i, a, b);
        FZ_CHECK(same);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lr_error err = {0};
    lr_recording *recording = NULL;
    lr_ingest_options options = fz_ingest_options(&data, &size);
    options.audio = false;
    const char *path = fz_write("recording", data, size);
    fz_begin();
    if (fz_succeeded(lr_recording_open(&recording, path, &options, &err), &err)) {
        fz_check_timeline(recording);
        if (lr_recording_timeline(recording)->has_video) check_slices(recording);
    } else {
        FZ_CHECK(!recording);
    }
    lr_recording_close(recording);
    fz_end((size_t)512 << 20);
    return 0;
}
