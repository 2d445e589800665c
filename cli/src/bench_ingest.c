/* longreel bench ingest: how fast a recording is read. */
#include <string.h>

#include <longreel/resize.h>

#include "bench.h"

typedef struct ingest_options {
    lr_ingest_options ingest;
    bool json;
} ingest_options;

static const cli_option table[] = {
    {CLI_RATIONAL, "fps", 0, "F", "frames a second of the grid (default 1): 2, 0.25, 1/5, 30000/1001",
     .offset = offsetof(ingest_options, ingest.fps)},
    {CLI_TIME, "start", 0, "T", "begin here: seconds, or 1:02:03.5 (default: the beginning)",
     .offset = offsetof(ingest_options, ingest.start)},
    {CLI_TIME, "end", 0, "T", "stop here (default: the end)", .offset = offsetof(ingest_options, ingest.end)},
    {CLI_CLEAR, "no-video", 0, NULL, "sound only", .offset = offsetof(ingest_options, ingest.video)},
    {CLI_CLEAR, "no-audio", 0, NULL, "pictures only", .offset = offsetof(ingest_options, ingest.audio)},
    {CLI_INT, "threads", 0, "N", "threads for decoding (default: the processors)",
     .offset = offsetof(ingest_options, ingest.threads), .low = 1, .high = 4096},
    {CLI_WORD, "decode", 0, "auto|cpu|cuda|vaapi", "what decodes pictures (default auto: the processor)",
     .offset = offsetof(ingest_options, ingest.decode), .words = cli_decoders},
    {CLI_SET, "json", 0, NULL, "print one JSON document", .offset = offsetof(ingest_options, json)},
    {0},
};

typedef struct ingest_bench {
    const ingest_options *options;
    const char *path;
    const lr_kernels *kernels;
    lr_recording *recording;
    int64_t frames, samples;
    int width, height; /* after the resize */
    cli_bench_time index, pictures, resize, sound;
    lr_frame_work work;
    size_t memory;
} ingest_bench;

/* Where the time went: seconds of all threads that were at it. */
typedef struct ingest_part {
    const char *name;
    double seconds;
} ingest_part;

enum { N_PARTS = 5 };

static void find_parts(const ingest_bench *b, ingest_part parts[N_PARTS], double *sum) {
    const ingest_part all[N_PARTS] = {
        {"read", b->index.wall + b->work.read_s}, {"decode", b->work.decode_s}, {"convert", b->work.convert_s},
        {"resize", b->resize.wall},               {"sound", b->sound.wall},
    };
    *sum = 0;
    for (int i = 0; i < N_PARTS; i++) *sum += all[i].seconds;
    memcpy(parts, all, sizeof all);
}

static void add_since(cli_bench_time *sum, const cli_bench_time *begin) {
    cli_bench_time now = cli_bench_now();
    sum->wall += now.wall - begin->wall;
    sum->processor += now.processor - begin->processor;
}

/* ------------------------------------------------------------------ pictures */

typedef struct resizer {
    lr_resize *plan;
    uint8_t *scratch, *rgb;
} resizer;

/* To the size that EmbeddingGemma 2 sees with its budget for video frames. */
static lr_status open_resizer(resizer *r, ingest_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    const lr_video_info *v = &lr_recording_timeline(b->recording)->video;
    const lr_picture_geometry geometry = {.patch = 16, .pool = 3, .budget = 70};
    uint64_t soft;
    LR_TRY(lr_picture_size(&geometry, v->display_width, v->display_height, &b->width, &b->height, &soft,
                           err));
    LR_TRY(lr_resize_create(&r->plan, LR_BICUBIC, v->width, v->height, b->width, b->height, err));
    LR_TRY(LR_NEW(&r->scratch, lr_resize_scratch(r->plan), "a resized picture", err));
    LR_TRY(lr_new_array((void **)&r->rgb, (size_t)b->width * 3, (size_t)b->height, "a resized picture",
                        err));
done:
    return st;
}

static lr_status read_pictures(ingest_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    const lr_timeline *line = lr_recording_timeline(b->recording);
    lr_frame_reader *reader = NULL;
    resizer to = {0};
    lr_frame frame = {0};
    bool got = true;
    LR_TRY(open_resizer(&to, b, err));
    cli_bench_time begin = cli_bench_now();
    LR_TRY(lr_frame_reader_open(&reader, b->recording, 0, line->video.n_frames, err));
    while (got) {
        LR_TRY(lr_cancel_check(cli_cancel(), err));
        LR_TRY(lr_frame_reader_next(reader, &frame, &got, err));
        add_since(&b->pictures, &begin);
        begin = cli_bench_now();
        if (!got) break;
        b->frames++;
        /* a recording may change its size on the way; such frames are not resized here */
        if (frame.width == line->video.width && frame.height == line->video.height) {
            lr_resize_rgb(b->kernels, to.plan, to.rgb, frame.rgb, frame.stride, to.scratch);
        }
        add_since(&b->resize, &begin);
        begin = cli_bench_now();
    }
    lr_frame_reader_work(reader, &b->work);
done:
    lr_frame_reader_close(reader);
    lr_resize_free(to.plan);
    lr_free(to.scratch);
    lr_free(to.rgb);
    return st;
}

/* ------------------------------------------------------------------ sound */

#define PIECE ((size_t)1 << 16) /* samples */

static lr_status read_sound(ingest_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    lr_sound_reader *reader = NULL;
    float *samples = NULL;
    size_t count = 0;
    cli_bench_time begin = cli_bench_now();
    LR_TRY(LR_NEW(&samples, PIECE, "a piece of sound", err));
    LR_TRY(lr_sound_reader_open(&reader, b->recording, err));
    do {
        LR_TRY(lr_cancel_check(cli_cancel(), err));
        LR_TRY(lr_sound_reader_read(reader, samples, PIECE, &count, err));
        b->samples += (int64_t)count;
    } while (count > 0);
    add_since(&b->sound, &begin);
done:
    lr_sound_reader_close(reader);
    lr_free(samples);
    return st;
}

/* ------------------------------------------------------------------ the command */

static lr_status measure(ingest_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    cli_bench_time begin = cli_bench_now();
    LR_TRY(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &b->kernels, err));
    LR_TRY(lr_recording_open(&b->recording, b->path, &b->options->ingest, err));
    add_since(&b->index, &begin);
    const lr_timeline *line = lr_recording_timeline(b->recording);
    if (line->has_video) LR_TRY(read_pictures(b, err));
    if (line->has_audio) LR_TRY(read_sound(b, err));
    b->memory = cli_bench_peak_memory();
done:
    return st;
}

/* Seconds of the recording that the grid or the sound covers. */
static double covered(const ingest_bench *b) {
    const lr_timeline *line = lr_recording_timeline(b->recording);
    double pictures = (double)b->frames * (double)line->fps.den / (double)line->fps.num;
    double sound = (double)b->samples / LR_SAMPLE_RATE;
    return pictures > sound ? pictures : sound;
}

static double all_wall(const ingest_bench *b) {
    return b->index.wall + b->pictures.wall + b->resize.wall + b->sound.wall;
}

static double all_processor(const ingest_bench *b) {
    return b->index.processor + b->pictures.processor + b->resize.processor + b->sound.processor;
}

static void print_way(const ingest_bench *b) {
    const lr_frame_work *w = &b->work;
    printf("  by %s: %d decoder(s) of %d thread(s), up to %zu frames ahead: %lld packets decoded, %lld passed over, %lld "
           "beginning(s)\n", w->device, w->decoders, w->threads, w->window, (long long)w->decoded, (long long)w->passed_over,
           (long long)w->beginnings);
}

static int print_text(const ingest_bench *b) {
    const lr_timeline *line = lr_recording_timeline(b->recording);
    double wall = all_wall(b), seconds = covered(b), sum;
    ingest_part parts[N_PARTS];
    find_parts(b, parts, &sum);
    cli_printf("%s: %.3f s of recording in %.3f s, %.1f times real time, processor %.3f s, most memory %.1f MiB\n",
               b->path, seconds, wall, seconds / wall, all_processor(b), (double)b->memory / 0x1p20);
    if (line->has_video) {
        double pictures = b->pictures.wall + b->resize.wall;
        printf("  %s %d x %d: %lld grid frames at %.1f a second, %lld coded ones at %.1f a second\n",
               line->video.codec, line->video.width, line->video.height, (long long)b->frames,
               (double)b->frames / pictures, (long long)line->video.n_coded,
               (double)line->video.n_coded / pictures);
        print_way(b);
    }
    for (int i = 0; i < N_PARTS; i++) {
        printf("  %-8s %8.3f s  %5.1f%%\n", parts[i].name, parts[i].seconds, 100 * parts[i].seconds / sum);
    }
    return cli_finish_output(CLI_DONE);
}

static json_t *video_json(const ingest_bench *b) {
    const lr_timeline *line = lr_recording_timeline(b->recording);
    const lr_frame_work *w = &b->work;
    double pictures = b->pictures.wall + b->resize.wall;
    if (!line->has_video) return json_null();
    json_t *way = json_pack("{s:s, s:i, s:i, s:I, s:I, s:I, s:I}", "device", w->device, "decoders", w->decoders, "threads", w->threads, "window",
                            (json_int_t)w->window, "packets_decoded", (json_int_t)w->decoded, "packets_passed_over",
                            (json_int_t)w->passed_over, "beginnings", (json_int_t)w->beginnings);
    return json_pack("{s:s, s:i, s:i, s:I, s:I, s:f, s:f, s:[ii], s:o}", "codec", line->video.codec, "width",
                     line->video.width, "height", line->video.height, "frames", (json_int_t)b->frames, "coded_frames",
                     (json_int_t)line->video.n_coded, "frames_per_second", (double)b->frames / pictures,
                     "coded_frames_per_second", (double)line->video.n_coded / pictures, "resized_to", b->width,
                     b->height, "way", way);
}

static int print_json(const ingest_bench *b) {
    const lr_timeline *line = lr_recording_timeline(b->recording);
    double wall = all_wall(b), seconds = covered(b), sum;
    ingest_part parts[N_PARTS];
    find_parts(b, parts, &sum);
    json_t *audio = line->has_audio ? json_pack("{s:s, s:I, s:f}", "codec", line->audio.codec, "samples_16k",
                                                (json_int_t)b->samples, "seconds", b->sound.wall)
                                    : json_null();
    json_t *shares = json_object();
    for (int i = 0; i < N_PARTS; i++) {
        json_t *part = json_pack("{s:f, s:f}", "seconds", parts[i].seconds, "share", parts[i].seconds / sum);
        (void)json_object_set_new(shares, parts[i].name, part);
    }
    return cli_print_json(
        json_pack("{s:s, s:o, s:i, s:f, s:f, s:f, s:f, s:I, s:o, s:o, s:o}", "bench", "ingest", "path",
                  cli_json_text(b->path), "threads", b->options->ingest.threads, "recording_seconds", seconds,
                  "seconds", wall, "processor_seconds", all_processor(b), "times_real_time", seconds / wall,
                  "peak_rss_bytes", (json_int_t)b->memory, "video", video_json(b), "audio", audio, "parts", shares),
        CLI_DONE);
}

static int run(const cli_command *command, int argc, char **argv) {
    ingest_options options = {.ingest = lr_ingest_defaults()};
    ingest_bench b = {.options = &options};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    lr_error err = {0};
    options.ingest.threads = (int)cli_processors();
    options.ingest.cancel = cli_cancel();
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest != 1) return cli_wrong_usage(command, "one recording must be given");
    b.path = rest[0];
    cli_catch_signals();
    if (measure(&b, &err) != LR_OK) {
        if (!strstr(err.text, b.path)) lr_error_context(&err, "%s", b.path);
        code = cli_fail(&err);
    } else {
        code = options.json ? print_json(&b) : print_text(&b);
    }
    lr_recording_close(b.recording);
    return code;
}

const cli_command cli_bench_ingest = {
    .name = "bench ingest",
    .summary = "reading a recording",
    .usage = "REC [OPTION]...",
    .text = "Reads a recording as encode does, once and without a model: its packets, the frames of the grid "
            "with the resize for EmbeddingGemma 2, its sound. The parts are seconds of all threads at them, and "
            "their shares. The first run after a start reads from the disk.",
    .examples = "  longreel bench ingest talk.mp4\n"
                "  longreel bench ingest talk.mp4 --fps 5 --no-audio --json\n",
    .options = table,
    .run = run,
};
