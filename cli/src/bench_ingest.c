/* longreel bench ingest: how fast a recording is read. */
#include <string.h>
#include <sys/stat.h>

#include <longreel/resize.h>

#include "bench.h"

typedef struct ingest_options {
    lr_ingest_options ingest;
    int repeats;
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
    {CLI_WORD, "decode", 0, "auto|cpu|cuda|vaapi", "what decodes pictures (default auto: the processor)",
     .offset = offsetof(ingest_options, ingest.decode), .words = cli_decoders},
    CLI_BENCH_THREADS(.offset = offsetof(ingest_options, ingest.threads), "threads for decoding (default: the processors)"),
    CLI_BENCH_REPEATS(.offset = offsetof(ingest_options, repeats), "3"),
    CLI_BENCH_JSON(.offset = offsetof(ingest_options, json)),
    {0},
};

/* What one reading of the recording took. */
typedef struct ingest_pass {
    int64_t frames, samples;
    cli_bench_time index, pictures, resize, sound;
    lr_frame_work work;
} ingest_pass;

typedef struct ingest_bench {
    const ingest_options *options;
    const char *path;
    cli_bench_machine machine;
    lr_recording *recording; /* of the last pass */
    int width, height;       /* after the resize */
    ingest_pass pass;        /* the quickest that counts */
    double *seconds;         /* [repeats] */
    double median;
    size_t memory;
} ingest_bench;

/* Where the time went: seconds of all threads that were at it. */
typedef struct ingest_part {
    const char *name;
    double seconds;
} ingest_part;

enum { N_PARTS = 5 };

static void find_parts(const ingest_pass *p, ingest_part parts[N_PARTS], double *sum) {
    const ingest_part all[N_PARTS] = {
        {"read", p->index.wall + p->work.read_s}, {"decode", p->work.decode_s}, {"convert", p->work.convert_s},
        {"resize", p->resize.wall},               {"sound", p->sound.wall},
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

static lr_status read_pictures(ingest_bench *b, ingest_pass *p, lr_error *err) {
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
        add_since(&p->pictures, &begin);
        begin = cli_bench_now();
        if (!got) break;
        p->frames++;
        /* a recording may change its size on the way; such frames are not resized here */
        if (frame.width == line->video.width && frame.height == line->video.height) {
            lr_resize_rgb(b->machine.kernels, to.plan, to.rgb, frame.rgb, frame.stride, to.scratch);
        }
        add_since(&p->resize, &begin);
        begin = cli_bench_now();
    }
    lr_frame_reader_work(reader, &p->work);
done:
    lr_frame_reader_close(reader);
    lr_resize_free(to.plan);
    lr_free(to.scratch);
    lr_free(to.rgb);
    return st;
}

/* ------------------------------------------------------------------ sound */

#define PIECE ((size_t)1 << 16) /* samples */

static lr_status read_sound(ingest_bench *b, ingest_pass *p, lr_error *err) {
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
        p->samples += (int64_t)count;
    } while (count > 0);
    add_since(&p->sound, &begin);
done:
    lr_sound_reader_close(reader);
    lr_free(samples);
    return st;
}

/* ------------------------------------------------------------------ the command */

static double pass_wall(const ingest_pass *p) {
    return p->index.wall + p->pictures.wall + p->resize.wall + p->sound.wall;
}

static double pass_processor(const ingest_pass *p) {
    return p->index.processor + p->pictures.processor + p->resize.processor + p->sound.processor;
}

/* From opening the file to the last sample. */
static lr_status read_once(ingest_bench *b, ingest_pass *p, lr_error *err) {
    lr_status st = LR_OK;
    cli_bench_time begin = cli_bench_now();
    *p = (ingest_pass){0};
    lr_recording_close(b->recording);
    b->recording = NULL;
    LR_TRY(lr_recording_open(&b->recording, b->path, &b->options->ingest, err));
    add_since(&p->index, &begin);
    const lr_timeline *line = lr_recording_timeline(b->recording);
    if (line->has_video) LR_TRY(read_pictures(b, p, err));
    if (line->has_audio) LR_TRY(read_sound(b, p, err));
done:
    return st;
}

static lr_status measure(ingest_bench *b, lr_error *err) {
    lr_status st = LR_OK;
    int repeats = b->options->repeats, warm_up = repeats > 1;
    b->machine.threads = (size_t)b->options->ingest.threads;
    b->machine.repeats = repeats;
    LR_TRY(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &b->machine.kernels, err));
    LR_TRY(cli_bench_measure_machine(&b->machine, err));
    LR_TRY(LR_NEW(&b->seconds, (size_t)repeats, "timings", err));
    for (int i = -warm_up; i < repeats; i++) {
        ingest_pass pass;
        LR_TRY(read_once(b, &pass, err));
        if (i < 0) continue;
        b->seconds[i] = pass_wall(&pass);
        if (i == 0 || b->seconds[i] < pass_wall(&b->pass)) b->pass = pass;
    }
    b->median = cli_bench_median(b->seconds, (size_t)repeats);
    b->memory = cli_bench_peak_memory();
done:
    return st;
}

/* What a reading moves at the least: the file, each decoded picture (4:2:0) written once, each frame's picture read and
 * its RGB written, the samples. */
static double bytes_moved(const ingest_bench *b) {
    const lr_timeline *line = lr_recording_timeline(b->recording);
    struct stat file;
    double pixels = line->has_video ? (double)line->video.width * (double)line->video.height : 0;
    double bytes = stat(b->path, &file) == 0 ? (double)file.st_size : 0;
    return bytes + pixels * (1.5 * (double)b->pass.work.decoded + 4.5 * (double)b->pass.frames) +
           sizeof(float) * (double)b->pass.samples;
}

/* Seconds of the recording that the grid or the sound covers. */
static double covered(const ingest_bench *b) {
    const lr_timeline *line = lr_recording_timeline(b->recording);
    double pictures = (double)b->pass.frames * (double)line->fps.den / (double)line->fps.num;
    double sound = (double)b->pass.samples / LR_SAMPLE_RATE;
    return pictures > sound ? pictures : sound;
}

static void print_way(const ingest_bench *b) {
    const lr_frame_work *w = &b->pass.work;
    printf("  by %s: %d decoder(s) of %d thread(s), up to %zu frames ahead: %lld packets decoded, %lld passed over, %lld "
           "beginning(s)\n", w->device, w->decoders, w->threads, w->window, (long long)w->decoded, (long long)w->passed_over,
           (long long)w->beginnings);
}

static int print_text(const ingest_bench *b) {
    const lr_timeline *line = lr_recording_timeline(b->recording);
    double wall = pass_wall(&b->pass), seconds = covered(b), sum, rate = bytes_moved(b) / wall * 1e-9;
    ingest_part parts[N_PARTS];
    find_parts(&b->pass, parts, &sum);
    cli_bench_print_machine(&b->machine, NULL);
    cli_printf("%s: %.3f s of recording in %.3f s (median %.3f s), %.1f times real time, processor %.3f s, most memory "
               "%.1f MiB\n", b->path, seconds, wall, b->median, seconds / wall, pass_processor(&b->pass),
               (double)b->memory / 0x1p20);
    printf("  file, pictures, frames and samples: %.2f GB/s, %.1f%% of memory's\n", rate, 100 * rate / b->machine.stream);
    if (line->has_video) {
        double pictures = b->pass.pictures.wall + b->pass.resize.wall;
        printf("  %s %d x %d: %lld grid frames at %.1f a second, %lld coded ones at %.1f a second\n",
               line->video.codec, line->video.width, line->video.height, (long long)b->pass.frames,
               (double)b->pass.frames / pictures, (long long)line->video.n_coded,
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
    const lr_frame_work *w = &b->pass.work;
    double pictures = b->pass.pictures.wall + b->pass.resize.wall;
    if (!line->has_video) return json_null();
    json_t *way = json_pack("{s:s, s:i, s:i, s:I, s:I, s:I, s:I}", "device", w->device, "decoders", w->decoders, "threads", w->threads, "window",
                            (json_int_t)w->window, "packets_decoded", (json_int_t)w->decoded, "packets_passed_over",
                            (json_int_t)w->passed_over, "beginnings", (json_int_t)w->beginnings);
    return json_pack("{s:s, s:i, s:i, s:I, s:I, s:f, s:f, s:[ii], s:o}", "codec", line->video.codec, "width",
                     line->video.width, "height", line->video.height, "frames", (json_int_t)b->pass.frames, "coded_frames",
                     (json_int_t)line->video.n_coded, "frames_per_second", (double)b->pass.frames / pictures,
                     "coded_frames_per_second", (double)line->video.n_coded / pictures, "resized_to", b->width,
                     b->height, "way", way);
}

static int print_json(const ingest_bench *b) {
    const lr_timeline *line = lr_recording_timeline(b->recording);
    double wall = pass_wall(&b->pass), seconds = covered(b), sum, rate = bytes_moved(b) / wall * 1e-9;
    ingest_part parts[N_PARTS];
    find_parts(&b->pass, parts, &sum);
    json_t *audio = line->has_audio ? json_pack("{s:s, s:I, s:f}", "codec", line->audio.codec, "samples_16k",
                                                (json_int_t)b->pass.samples, "seconds", b->pass.sound.wall)
                                    : json_null();
    json_t *shares = json_object();
    for (int i = 0; i < N_PARTS; i++) {
        json_t *part = json_pack("{s:f, s:f}", "seconds", parts[i].seconds, "share", parts[i].seconds / sum);
        (void)json_object_set_new(shares, parts[i].name, part);
    }
    return cli_print_json(
        cli_bench_document("ingest", &b->machine, json_pack(
            "{s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:o, s:o, s:o}", "path", cli_json_text(b->path),
            "recording_seconds", seconds, "seconds_min", wall, "seconds_median", b->median, "processor_seconds",
            pass_processor(&b->pass), "times_real_time", seconds / wall, "gb_per_second", rate, "share_of_stream",
            rate / b->machine.stream, "peak_rss_bytes", (json_int_t)b->memory, "video", video_json(b), "audio", audio,
            "parts", shares)),
        CLI_DONE);
}

static int run(const cli_command *command, int argc, char **argv) {
    ingest_options options = {.ingest = lr_ingest_defaults(), .repeats = 3};
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
    lr_free(b.seconds);
    return code;
}

const cli_command cli_bench_ingest = {
    .name = "bench ingest",
    .summary = "reading a recording",
    .usage = "REC [OPTION]...",
    .text = "Reads a recording as encode does, without a model: its packets, the frames of the grid with the resize for "
            "EmbeddingGemma 2, its sound. The parts are those of the quickest run, in seconds of all threads at them, "
            "and their shares. Bytes are the least that must be moved: the file, each decoded picture and each frame "
            "once, the samples. Long films: --repeats 1 reads once, without a run to warm up.",
    .examples = "  longreel bench ingest talk.mp4\n"
                "  longreel bench ingest talk.mp4 --fps 5 --no-audio --json\n",
    .options = table,
    .run = run,
};
