/* inspect: decoding a recording as encode would, to know its damage, and writing what came out. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <longreel/resize.h>

#include "inspect.h"

lr_status cli_damage_add(cli_damage *damage, const lr_damage *list, size_t count, lr_error *err) {
    lr_status st = LR_GROW(&damage->list, &damage->capacity, damage->count + count, "the damage report", err);
    if (st != LR_OK) return st;
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        for (size_t j = 0; j < damage->count; j++) {
            const lr_damage *d = &damage->list[j];
            known |= d->stream == list[i].stream && d->start == list[i].start && d->end == list[i].end &&
                     strcmp(d->what, list[i].what) == 0;
        }
        if (!known) damage->list[damage->count++] = list[i];
    }
    return LR_OK;
}

/* ------------------------------------------------------------------ pictures */

/* Pictures with square pixels, as a person sees them. */
typedef struct picture_writer {
    const char *directory, *recording;
    const lr_kernels *kernels;
    FILE *list; /* frames.jsonl */
    lr_resize *plan;
    int in_width, in_height, out_width, out_height; /* of the plan */
    uint8_t *scratch, *rgb;
} picture_writer;

static void close_writer(picture_writer *w) {
    if (w->list) fclose(w->list);
    w->list = NULL;
    lr_resize_free(w->plan);
    lr_free(w->scratch);
    lr_free(w->rgb);
}

static lr_status open_writer(picture_writer *w, const char *directory, lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL;
    w->directory = directory;
    LR_TRY(lr_kernels_get(LR_ISA_AUTO, LR_GEMM_AUTO, &w->kernels, err));
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot make the directory", directory);
        goto done;
    }
    LR_TRY(lr_format(&path, err, "%s/frames.jsonl", directory));
    w->list = fopen(path, "we");
    if (!w->list) st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be written", path);
done:
    lr_free(path);
    return st;
}

static lr_status plan_resize(picture_writer *w, const lr_frame *frame, lr_error *err) {
    lr_status st = LR_OK;
    if (w->plan && w->in_width == frame->width && w->in_height == frame->height &&
        w->out_width == frame->display_width && w->out_height == frame->display_height) {
        return LR_OK;
    }
    lr_resize_free(w->plan);
    lr_free(w->scratch);
    lr_free(w->rgb);
    w->plan = NULL;
    w->scratch = w->rgb = NULL;
    w->in_width = frame->width;
    w->in_height = frame->height;
    w->out_width = frame->display_width;
    w->out_height = frame->display_height;
    LR_TRY(lr_resize_create(&w->plan, LR_BICUBIC, w->in_width, w->in_height, w->out_width, w->out_height,
                            err));
    LR_TRY(LR_NEW(&w->scratch, lr_resize_scratch(w->plan), "a resized picture", err));
    LR_TRY(lr_new_array((void **)&w->rgb, (size_t)w->out_width * 3, (size_t)w->out_height,
                        "a resized picture", err));
done:
    return st;
}

static lr_status write_picture(picture_writer *w, const lr_frame *frame, lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL, name[48];
    const uint8_t *rgb = frame->rgb;
    size_t stride = frame->stride;
    snprintf(name, sizeof name, "frame_%06lld.png", (long long)frame->index);
    LR_TRY(lr_format(&path, err, "%s/%s", w->directory, name));
    if (frame->width != frame->display_width || frame->height != frame->display_height) {
        LR_TRY(plan_resize(w, frame, err));
        lr_resize_rgb(w->kernels, w->plan, w->rgb, frame->rgb, frame->stride, w->scratch);
        rgb = w->rgb;
        stride = 3 * (size_t)w->out_width;
    }
    LR_TRY(lr_refuse_input(path, w->recording, err));
    LR_TRY(lr_png_write(path, rgb, stride, frame->display_width, frame->display_height, err));
    if (fprintf(w->list, "{\"i\": %lld, \"t\": %.15g, \"pts_s\": %.15g, \"substituted\": %s, "
                "\"file\": \"%s\"}\n", (long long)frame->index, lr_time_seconds(frame->t),
                lr_time_seconds(frame->pts), frame->substituted ? "true" : "false", name) < 0) {
        st = lr_fail_errno(err, LR_E_IO, errno, "%s/frames.jsonl: cannot be written", w->directory);
    }
done:
    lr_free(path);
    return st;
}

lr_status cli_decode_pictures(const lr_recording *recording, const char *directory, cli_damage *damage,
                              lr_error *err) {
    lr_status st = LR_OK;
    lr_frame_reader *reader = NULL;
    picture_writer writer = {.recording = lr_recording_timeline(recording)->path};
    lr_frame frame = {0};
    bool got = true;
    size_t count = 0;
    const lr_timeline *line = lr_recording_timeline(recording);
    if (directory) LR_TRY(open_writer(&writer, directory, err));
    LR_TRY(lr_frame_reader_open(&reader, recording, 0, line->video.n_frames, err));
    while (got) {
        LR_TRY(lr_cancel_check(cli_cancel(), err));
        LR_TRY(lr_frame_reader_next(reader, &frame, &got, err));
        if (got && directory) LR_TRY(write_picture(&writer, &frame, err));
    }
    const lr_damage *met = lr_frame_reader_damage(reader, &count);
    LR_TRY(cli_damage_add(damage, met, count, err));
    if (directory) {
        int bad = fclose(writer.list);
        writer.list = NULL;
        if (bad) st = lr_fail_errno(err, LR_E_IO, errno, "%s/frames.jsonl: cannot be written", directory);
    }
done:
    close_writer(&writer);
    lr_frame_reader_close(reader);
    return st;
}

/* ------------------------------------------------------------------ sound */

#define PIECE ((size_t)1 << 16) /* samples */

lr_status cli_decode_sound(const lr_recording *recording, const char *path, cli_damage *damage,
                           lr_error *err) {
    lr_status st = LR_OK;
    lr_sound_reader *reader = NULL;
    lr_wav_writer *wav = NULL;
    float *samples = NULL;
    size_t count = 0, n_damage = 0;
    const lr_timeline *line = lr_recording_timeline(recording);
    LR_TRY(LR_NEW(&samples, PIECE, "a piece of sound", err));
    if (path) {
        LR_TRY(lr_wav_create(&wav, path, LR_SAMPLE_RATE, (uint64_t)line->audio.n_samples, err));
    }
    LR_TRY(lr_sound_reader_open(&reader, recording, err));
    do {
        LR_TRY(lr_cancel_check(cli_cancel(), err));
        LR_TRY(lr_sound_reader_read(reader, samples, PIECE, &count, err));
        if (wav) LR_TRY(lr_wav_write(wav, samples, count, err));
    } while (count > 0);
    if (wav) {
        st = lr_wav_finish(wav, err);
        wav = NULL;
        if (st != LR_OK) goto done;
    }
    const lr_damage *met = lr_sound_reader_damage(reader, &n_damage);
    LR_TRY(cli_damage_add(damage, met, n_damage, err));
done:
    lr_wav_discard(wav);
    lr_sound_reader_close(reader);
    lr_free(samples);
    return st;
}
