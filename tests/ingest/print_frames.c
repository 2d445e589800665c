/* The grid frames of a recording as raw RGB on the standard output; what reading took on the other one.
 *
 *   print_frames FILE FPS_NUM FPS_DEN THREADS */
#include <stdio.h>
#include <stdlib.h>

#include <longreel/ingest.h>

static int fail(const char *what)
{
    (void)fprintf(stderr, "print_frames: %s\n", what);
    return 1;
}

static int print_frames(const lr_recording *recording, lr_error *err)
{
    lr_frame_reader *reader = NULL;
    lr_frame frame = {0};
    bool got = true;
    int code = 0;
    if (lr_frame_reader_open(&reader, recording, 0, lr_recording_timeline(recording)->video.n_frames, err) != LR_OK)
        return fail(err->text);
    while (code == 0) {
        if (lr_frame_reader_next(reader, &frame, &got, err) != LR_OK) code = fail(err->text);
        if (!got) break;
        for (int y = 0; y < frame.height && code == 0; y++)
            if (fwrite(frame.rgb + (size_t)y * frame.stride, (size_t)frame.width * 3, 1, stdout) != 1)
                code = fail("cannot write");
    }
    lr_frame_work work;
    lr_frame_reader_work(reader, &work);
    (void)fprintf(stderr, "%d %d %lld\n", frame.width, frame.height, (long long)work.decoded);
    lr_frame_reader_close(reader);
    return code;
}

int main(int count, char **arguments)
{
    if (count != 5) return fail("FILE FPS_NUM FPS_DEN THREADS");
    lr_ingest_options options = lr_ingest_defaults();
    lr_recording *recording;
    lr_error err = {0};
    options.fps = (lr_rational){atoll(arguments[2]), atoll(arguments[3])};
    options.threads = atoi(arguments[4]);
    options.audio = false;
    /* Rows are small. */
    (void)setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    if (lr_recording_open(&recording, arguments[1], &options, &err) != LR_OK) return fail(err.text);
    int code = print_frames(recording, &err);
    lr_recording_close(recording);
    return code;
}
