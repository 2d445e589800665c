/* A set at a glance: gathers what sheet.c draws. */
#include <longreel/report.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job.h"
#include "report.h"

typedef struct report_job {
    const lr_report_options *options;
    lr_set *set;
    json_t *manifest;
    lr_recording *recording; /* NULL: not at hand */
    lr_report_sheet sheet;
    lr_report_result *result;
} report_job;

static const json_t *option(const report_job *job, const char *name) {
    return json_object_get(json_object_get(job->manifest, "options"), name);
}

static lr_time time_option(const report_job *job, const char *name) {
    const json_t *value = option(job, name);
    double units = json_number_value(value) * (double)LR_TIME_SECOND;
    return json_is_number(value) && units >= 0 && units < 0x1p62 ? (lr_time)llround(units) : LR_TIME_NONE;
}

/* ------------------------------------------------------------------ the recording */

/* As encode opened it. */
static lr_status ingest_options(const report_job *job, lr_ingest_options *out, lr_error *err) {
    const char *fps = json_string_value(option(job, "fps"));
    *out = lr_ingest_defaults();
    out->video = json_is_true(option(job, "video"));
    out->audio = json_is_true(option(job, "audio"));
    out->start = time_option(job, "start");
    out->end = time_option(job, "end");
    out->audio_track = (int)json_integer_value(option(job, "audio_track"));
    out->threads = job->options->threads > 0 ? job->options->threads : lr_processors();
    out->cancel = job->options->cancel;
    return lr_parse_rational(fps ? fps : "", &out->fps, err);
}

static lr_status open_recording(report_job *job, const char *path, lr_error *err) {
    lr_status st = LR_OK;
    lr_ingest_options ingest;
    const json_t *recording = json_object_get(job->manifest, "recording");
    const char *hash = json_string_value(json_object_get(recording, "hash"));
    LR_TRY(ingest_options(job, &ingest, err));
    LR_TRY(lr_recording_open(&job->recording, path, &ingest, err));
    if (!hash || strcmp(lr_recording_timeline(job->recording)->content_hash, hash) != 0) {
        LR_FAIL(LR_E_USAGE, "%s is not the file that was encoded: its content is another", path);
    }
done:
    if (st != LR_OK) {
        lr_recording_close(job->recording);
        job->recording = NULL;
    }
    return st;
}

/* A recording that is not where it was is no failure, one that was named is. */
static lr_status find_recording(report_job *job, lr_error *err) {
    lr_error why = {0};
    char *path = NULL;
    if (job->options->recording) {
        lr_status st = open_recording(job, job->options->recording, err);
        bool wrong = st == LR_E_IO || st == LR_E_FORMAT || st == LR_E_NO_MEDIA;
        if (wrong && err) err->status = LR_E_USAGE;
        return wrong ? LR_E_USAGE : st;
    }
    lr_status st = lr_manifest_path(job->manifest, &path, &why);
    if (st == LR_OK && !path) {
        lr_fail(&why, LR_E_IO, "the set does not say where it was");
    } else {
        if (st == LR_OK) st = open_recording(job, path, &why);
        lr_free(path);
        if (st == LR_OK) return LR_OK;
        if (st == LR_E_NOMEM || st == LR_E_INTERRUPTED) return lr_fail(err, st, "%s", why.text);
    }
    snprintf(job->result->note, sizeof job->result->note, "No frames and no loudness, as the recording is "
             "not at hand. %.400s", why.text);
    return LR_OK;
}

/* ------------------------------------------------------------------ frames */

static lr_status take_thumbnail(lr_thumbnail *out, const lr_frame *frame, double t, lr_error *err) {
    int seen_width = frame->display_width > 0 ? frame->display_width : frame->width;
    int seen_height = frame->display_height > 0 ? frame->display_height : frame->height;
    double scale = fmin(1, (double)LR_SHEET_THUMBNAIL_WIDTH / seen_width);
    lr_canvas picture;
    int width = (int)lround(seen_width * scale), height = (int)lround(seen_height * scale);
    if (height > 2 * LR_SHEET_THUMBNAIL_WIDTH) height = 2 * LR_SHEET_THUMBNAIL_WIDTH;
    lr_status st = lr_canvas_create(&picture, width > 0 ? width : 1, height > 0 ? height : 1, 0, err);
    if (st != LR_OK) return st;
    lr_canvas_picture(&picture, 0, 0, picture.width, picture.height, frame->rgb, frame->stride,
                      frame->width, frame->height);
    *out = (lr_thumbnail){.rgb = picture.rgb, .width = picture.width, .height = picture.height, .t = t,
                          .substituted = frame->substituted};
    return LR_OK;
}

static lr_status read_thumbnail(report_job *job, const lr_frame_row *row, lr_thumbnail *out,
                                lr_error *err) {
    lr_status st = LR_OK;
    lr_frame_reader *reader = NULL;
    lr_frame frame = {0};
    bool got = false;
    LR_TRY(lr_cancel_check(job->options->cancel, err));
    LR_TRY(lr_frame_reader_open(&reader, job->recording, row->i, row->i + 1, err));
    LR_TRY(lr_frame_reader_next(reader, &frame, &got, err));
    if (!got) LR_FAIL(LR_E_FORMAT, "frame %lld of the set is not in the recording", (long long)row->i);
    LR_TRY(take_thumbnail(out, &frame, row->t, err));
done:
    lr_frame_reader_close(reader);
    return st;
}

/* All frames, or evenly spaced ones: those in the middle of as many equal parts. */
static lr_status read_thumbnails(report_job *job, lr_error *err) {
    lr_status st = LR_OK;
    lr_report_sheet *sheet = &job->sheet;
    const lr_set_info *set = sheet->set;
    const lr_timeline *line = lr_recording_timeline(job->recording);
    size_t n = set->n_frames < LR_SHEET_THUMBNAILS ? set->n_frames : LR_SHEET_THUMBNAILS;
    if (n == 0 || !line->has_video) return LR_OK;
    LR_TRY(LR_NEW(&sheet->thumbnails, n, "frames of the sheet", err));
    sheet->aspect = fmax(0.25, fmin(4, (double)line->video.display_width / line->video.display_height));
    for (size_t i = 0; i < n; i++) {
        size_t row = (2 * i + 1) * set->n_frames / (2 * n);
        LR_TRY(read_thumbnail(job, &set->frame_rows[row], &sheet->thumbnails[i], err));
        sheet->n_thumbnails++;
    }
done:
    return st;
}

/* ------------------------------------------------------------------ loudness */

#define PIECE 16000

/* squares [columns] and peaks of the samples that fall in each column; counts says how many. */
static lr_status sum_sound(report_job *job, lr_sound_reader *reader, double *squares, float *peaks,
                           uint64_t *counts, size_t columns, lr_error *err) {
    lr_status st = LR_OK;
    float *piece = NULL;
    uint64_t at = 0;
    double length = job->sheet.end - job->sheet.begin;
    LR_TRY(LR_NEW(&piece, PIECE, "a piece of sound", err));
    for (;;) {
        size_t count = 0;
        LR_TRY(lr_cancel_check(job->options->cancel, err));
        LR_TRY(lr_sound_reader_read(reader, piece, PIECE, &count, err));
        if (count == 0) break;
        for (size_t i = 0; i < count; i++, at++) {
            double column = (double)at / LR_SAMPLE_RATE / length * (double)columns;
            if (column >= (double)columns) continue;
            float level = fabsf(piece[i]);
            squares[(size_t)column] += (double)level * level;
            if (level > peaks[(size_t)column]) peaks[(size_t)column] = level;
            counts[(size_t)column]++;
        }
    }
done:
    lr_free(piece);
    return st;
}

static lr_status read_loudness(report_job *job, lr_error *err) {
    lr_status st = LR_OK;
    lr_loudness *loud = &job->sheet.loudness;
    const size_t columns = LR_SHEET_COLUMNS;
    lr_sound_reader *reader = NULL;
    double *squares = NULL;
    uint64_t *counts = NULL;
    if (!lr_recording_timeline(job->recording)->has_audio) return LR_OK;
    LR_TRY(LR_NEW(&squares, columns, "loudness", err));
    LR_TRY(LR_NEW(&counts, columns, "loudness", err));
    LR_TRY(LR_NEW(&loud->mean, columns, "loudness", err));
    LR_TRY(LR_NEW(&loud->peak, columns, "loudness", err));
    LR_TRY(lr_sound_reader_open(&reader, job->recording, err));
    LR_TRY(sum_sound(job, reader, squares, loud->peak, counts, columns, err));
    for (size_t i = 0; i < columns; i++) {
        bool any = counts[i] > 0;
        loud->mean[i] = any ? (float)(10 * log10(squares[i] / (double)counts[i])) : NAN;
        loud->peak[i] = any ? 20 * log10f(loud->peak[i]) : NAN;
    }
    loud->count = columns;
done:
    lr_sound_reader_close(reader);
    lr_free(squares);
    lr_free(counts);
    return st;
}

/* ------------------------------------------------------------------ the whole */

static lr_status open_set(report_job *job, const char *set_path, lr_error *err) {
    lr_status st = LR_OK;
    lr_report_sheet *sheet = &job->sheet;
    LR_TRY(lr_set_open(&job->set, set_path, err));
    LR_TRY(lr_set_verify(set_path, err));
    sheet->set = lr_set_info_of(job->set);
    uint64_t failures = lr_alloc_failures();
    job->manifest = json_loads(sheet->set->manifest, 0, NULL);
    if (!job->manifest || lr_alloc_failures() != failures) LR_FAIL(LR_E_NOMEM, "out of memory: the manifest");
    sheet->manifest = job->manifest;
    lr_time begin = time_option(job, "start"), end = time_option(job, "end");
    sheet->begin = begin == LR_TIME_NONE ? 0 : lr_time_seconds(begin);
    sheet->end = sheet->set->duration;
    if (end != LR_TIME_NONE) sheet->end = fmin(sheet->end, lr_time_seconds(end));
    if (!(sheet->end > sheet->begin)) sheet->end = sheet->begin + 1;
done:
    return st;
}

static lr_status refuse_inputs(const report_job *job, const char *set_path, const char *png_path,
                               lr_error *err) {
    lr_status st = LR_OK;
    char *path = NULL;
    LR_TRY(lr_manifest_path(job->manifest, &path, err));
    LR_TRY(lr_refuse_set_file(png_path, set_path, err));
    if (path) LR_TRY(lr_refuse_input(png_path, path, err));
    if (job->options->recording) LR_TRY(lr_refuse_input(png_path, job->options->recording, err));
done:
    lr_free(path);
    return st;
}

static void free_job(report_job *job) {
    for (size_t i = 0; i < job->sheet.n_thumbnails; i++) lr_free(job->sheet.thumbnails[i].rgb);
    lr_free(job->sheet.thumbnails);
    lr_free(job->sheet.loudness.mean);
    lr_free(job->sheet.loudness.peak);
    lr_similarity_free(&job->sheet.similarity);
    lr_recording_close(job->recording);
    json_decref(job->manifest);
    lr_set_close(job->set);
}

lr_status lr_report(const char *set_path, const char *png_path, const lr_report_options *options,
                    lr_report_result *result, lr_error *err) {
    lr_status st = LR_OK;
    report_job job = {.options = options, .result = result};
    lr_canvas canvas = {0};
    memset(result, 0, sizeof *result);
    LR_TRY(open_set(&job, set_path, err));
    LR_TRY(refuse_inputs(&job, set_path, png_path, err));
    LR_TRY(find_recording(&job, err));
    if (job.recording) {
        LR_TRY(read_thumbnails(&job, err));
        LR_TRY(read_loudness(&job, err));
    }
    job.sheet.note = result->note;
    LR_TRY(lr_similarity_make(&job.sheet.similarity, job.sheet.set, job.sheet.begin, job.sheet.end,
                              LR_SHEET_COLUMNS, err));
    LR_TRY(lr_sheet_draw(&canvas, &job.sheet, err));
    LR_TRY(lr_png_write(png_path, canvas.rgb, (size_t)canvas.width * 3, canvas.width, canvas.height, err));
    result->width = canvas.width;
    result->height = canvas.height;
    result->frames = job.sheet.n_thumbnails;
    result->loudness = job.sheet.loudness.count > 0;
done:
    lr_canvas_free(&canvas);
    free_job(&job);
    return st;
}
