/* Any bytes as a recording: its sound at 16 kHz. The last four bytes of the input are options. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <longreel/ingest.h>

#include "fuzz.h"
#include "fuzz_media.h"

/* Samples read of a recording (eight seconds): a hole may be hours of silence. */
#define MOST_SAMPLES (8 * LR_SAMPLE_RATE)

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fz_init();
    fz_seeds(fz_make_sounds);
    return 0;
}

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
    FZ_CHECK(err.status != LR_OK || at == (n < MOST_SAMPLES ? n : MOST_SAMPLES));
    const lr_damage *damage = lr_sound_reader_damage(reader, &n_damage);
    fz_check_damage(damage, n_damage);
    lr_sound_reader_close(reader);
    return err.status == LR_OK ? at : 0;
}

/* The same in pieces of any size. */
static void check_pieces(const lr_recording *recording)
{
    static float whole[MOST_SAMPLES], pieces[MOST_SAMPLES];
    size_t all = read_sound(recording, MOST_SAMPLES, whole);
    if (all == 0) return;
    FZ_CHECK(read_sound(recording, 1601, pieces) == all);
    FZ_CHECK(memcmp(whole, pieces, all * sizeof *whole) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lr_error err = {0};
    lr_recording *recording = NULL;
    lr_ingest_options options = fz_ingest_options(&data, &size);
    options.video = false;
    const char *path = fz_write("recording", data, size);
    fz_begin();
    if (fz_succeeded(lr_recording_open(&recording, path, &options, &err), &err)) {
        fz_check_timeline(recording);
        FZ_CHECK(lr_recording_timeline(recording)->has_audio);
        check_pieces(recording);
    } else {
        FZ_CHECK(!recording);
    }
    lr_recording_close(recording);
    fz_end((size_t)512 << 20);
    return 0;
}
