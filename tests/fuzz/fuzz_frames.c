/* Any bytes as a recording: its frames on the grid. The last four bytes of the input are options. */
#include <longreel/ingest.h>

#include "fuzz.h"
#include "fuzz_media.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fz_init();
    fz_seeds(fz_make_films);
    return 0;
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
        fz_check_timeline(recording, &options);
        if (lr_recording_timeline(recording)->has_video) fz_check_frames(recording);
    } else {
        FZ_CHECK(!recording);
    }
    lr_recording_close(recording);
    fz_end((size_t)512 << 20);
    return 0;
}
