/* longreel inspect: what ingest makes of a file. */
#include <string.h>

#include "inspect.h"

typedef struct inspect_options {
    lr_ingest_options ingest;
    const char *frames, *sound;
    bool json, index_only;
} inspect_options;

static const cli_option table[] = {
    {CLI_RATIONAL, "fps", 0, "F", "frames a second of the grid (default 1): 2, 0.25, 1/5, 30000/1001",
     .offset = offsetof(inspect_options, ingest.fps)},
    {CLI_TIME, "start", 0, "T", "begin here: seconds, or 1:02:03.5 (default: the beginning)",
     .offset = offsetof(inspect_options, ingest.start)},
    {CLI_TIME, "end", 0, "T", "stop here (default: the end)", .offset = offsetof(inspect_options, ingest.end)},
    {CLI_INT, "audio-track", 0, "N", "the n-th sound track, from 0 (default: the file's own choice)",
     .offset = offsetof(inspect_options, ingest.audio_track), .high = 1000},
    {CLI_TEXT, "frames", 0, "DIR", "write the frames of the grid as PNG, and frames.jsonl with their times",
     .offset = offsetof(inspect_options, frames)},
    {CLI_TEXT, "audio", 0, "F.wav", "write the sound: 16 kHz, one channel, float",
     .offset = offsetof(inspect_options, sound)},
    {CLI_SET, "index-only", 0, NULL, "read the packets, but decode nothing: quick, finds less damage",
     .offset = offsetof(inspect_options, index_only)},
    {CLI_INT, "threads", 0, "N", "threads for decoding (default: the processors)",
     .offset = offsetof(inspect_options, ingest.threads), .low = 1, .high = 4096},
    {CLI_WORD, "decode", 0, "auto|cpu|cuda|vaapi", "what decodes pictures (default auto: the processor)",
     .offset = offsetof(inspect_options, ingest.decode), .words = cli_decoders},
    {CLI_SET, "json", 0, NULL, "print one JSON document", .offset = offsetof(inspect_options, json)},
    {0},
};

/* ------------------------------------------------------------------ JSON */

/* The sizes by time, where they change. */
static json_t *sizes_json(const lr_video_info *v) {
    json_t *all = json_array();
    for (size_t i = 0; all && i < v->n_kinds; i++) {
        const lr_picture_kind *k = &v->kinds[i];
        json_array_append_new(all, json_pack("{s:f, s:[i, i], s:s}", "from_s", lr_time_seconds(k->from), "size",
                                             k->width, k->height, "format", k->format));
    }
    return all;
}

static json_t *video_json(const lr_timeline *line) {
    const lr_video_info *v = &line->video;
    char sar[48];
    if (!line->has_video) return json_null();
    snprintf(sar, sizeof sar, "%lld:%lld", (long long)v->sar.num, (long long)v->sar.den);
    json_t *json = json_pack("{s:s, s:i, s:i, s:i, s:s, s:b, s:f, s:I, s:I}", "codec", v->codec, "width",
                     v->display_width, "height", v->display_height, "rotation", v->rotation, "sar", sar,
                     "interlaced", v->interlaced, "grid_fps", (double)line->fps.num / (double)line->fps.den,
                     "samples", (json_int_t)v->n_frames, "keyframes", (json_int_t)v->n_keyframes);
    if (json && v->n_kinds > 0) json_object_set_new(json, "sizes", sizes_json(v));
    return json;
}

static json_t *audio_json(const lr_timeline *line) {
    const lr_audio_info *a = &line->audio;
    if (!line->has_audio) return json_null();
    json_t *gaps = json_array();
    for (size_t i = 0; gaps && i < a->n_gaps; i++) {
        json_array_append_new(gaps, json_pack("[f, f]", lr_time_seconds(a->gaps[i][0]),
                                              lr_time_seconds(a->gaps[i][1])));
    }
    return json_pack("{s:s, s:i, s:i, s:I, s:o}", "codec", a->codec, "rate", a->rate, "channels",
                     a->channels, "samples_16k", (json_int_t)a->n_samples, "gaps", gaps);
}

static const char *stream_of(const lr_damage *damage) {
    return damage->stream == LR_STREAM_VIDEO ? "video" : "audio";
}

static json_t *damage_json(const cli_damage *damage) {
    json_t *all = json_array();
    for (size_t i = 0; all && i < damage->count; i++) {
        const lr_damage *d = &damage->list[i];
        json_array_append_new(all, json_pack("{s:s, s:o, s:o, s:s}", "stream", stream_of(d), "start_s",
                                             cli_json_seconds(lr_time_seconds(d->start)), "end_s",
                                             cli_json_seconds(lr_time_seconds(d->end)), "what", d->what));
    }
    return all;
}

/* Everything that makes the status "warnings", damage too. */
static json_t *warnings_json(const lr_timeline *line, const cli_damage *damage) {
    json_t *all = json_array();
    for (size_t i = 0; all && i < line->n_warnings; i++) {
        json_array_append_new(all, cli_json_text(line->warnings[i]));
    }
    for (size_t i = 0; all && i < damage->count; i++) {
        const lr_damage *d = &damage->list[i];
        json_array_append_new(all, json_sprintf("%s damaged from %.3f s to %.3f s: %s", stream_of(d),
                                                lr_time_seconds(d->start), lr_time_seconds(d->end), d->what));
    }
    return all;
}

static const char *state_of(const lr_timeline *line, const cli_damage *damage) {
    return line->n_warnings > 0 || damage->count > 0 || line->truncated ? "warnings" : "ok";
}

static json_t *report_json(const lr_timeline *line, const cli_damage *damage) {
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "path", cli_json_text(line->path),
                     "status", state_of(line, damage), "duration_s",
                     cli_json_seconds(lr_time_seconds(line->duration)), "origin_s",
                     cli_json_seconds(line->origin_s), "video", video_json(line), "audio", audio_json(line),
                     "truncated", line->truncated, "damage", damage_json(damage), "warnings",
                     warnings_json(line, damage));
}

static json_t *error_json(const char *path, const char *text) {
    return json_pack("{s:o, s:s, s:n, s:n, s:n, s:n, s:b, s:[], s:[], s:o}", "path", cli_json_text(path),
                     "status", "error", "duration_s", "origin_s", "video", "audio", "truncated", false,
                     "damage", "warnings", "error", cli_json_text(text));
}

/* ------------------------------------------------------------------ text */

static void print_report(const lr_timeline *line, const cli_damage *damage) {
    const lr_video_info *v = &line->video;
    const lr_audio_info *a = &line->audio;
    char clock[24];
    cli_printf("%s: %s, %s (%.3f s), clock begins at %.3f s%s\n", line->path, state_of(line, damage),
           lr_time_clock(line->duration, clock), lr_time_seconds(line->duration), line->origin_s,
           line->truncated ? ", truncated" : "");
    if (line->has_video) {
        cli_printf("  video: %s, %d x %d", v->codec, v->display_width, v->display_height);
        if (v->rotation) cli_printf(", rotated by %d degrees", v->rotation);
        cli_printf("%s, %lld frame%s on a grid of %g a second, %lld keyframe%s\n",
                   v->interlaced ? ", interlaced" : "", (long long)v->n_frames,
                   cli_plural((uint64_t)v->n_frames), (double)line->fps.num / (double)line->fps.den,
                   (long long)v->n_keyframes, cli_plural((uint64_t)v->n_keyframes));
    }
    for (size_t i = 0; line->has_video && i < v->n_kinds; i++) {
        const lr_picture_kind *k = &v->kinds[i];
        cli_printf("  pictures from %.3f s on: %d x %d, %s%s\n", lr_time_seconds(k->from), k->width, k->height,
                   k->format, i > 0 ? ", fitted to the first" : "");
    }
    if (line->has_audio) {
        cli_printf("  audio: %s, %d Hz, %d channel%s, %lld sample%s at 16 kHz\n", a->codec, a->rate, a->channels,
               a->channels == 1 ? "" : "s", (long long)a->n_samples,
                   cli_plural((uint64_t)a->n_samples));
    }
    for (size_t i = 0; line->has_audio && i < a->n_gaps; i++) {
        cli_printf("  gap in the sound: %.3f s to %.3f s\n", lr_time_seconds(a->gaps[i][0]),
               lr_time_seconds(a->gaps[i][1]));
    }
    for (size_t i = 0; i < damage->count; i++) {
        const lr_damage *d = &damage->list[i];
        cli_printf("  damage: %s, %.3f s to %.3f s: %s\n", stream_of(d),
               lr_time_seconds(d->start), lr_time_seconds(d->end), d->what);
    }
    for (size_t i = 0; i < line->n_warnings; i++) cli_printf("  warning: %s\n", line->warnings[i]);
}

/* ------------------------------------------------------------------ the command */

static lr_status decode(const inspect_options *o, const lr_recording *recording, cli_damage *damage,
                        lr_error *err) {
    const lr_timeline *line = lr_recording_timeline(recording);
    if (o->frames && !line->has_video) cli_note("%s: has no pictures: --frames writes nothing", line->path);
    if (o->sound && !line->has_audio) cli_note("%s: has no sound: --audio writes nothing", line->path);
    lr_status st = cli_damage_add(damage, line->damage, line->n_damage, err);
    if (st == LR_OK && line->has_video && !o->index_only) {
        st = cli_decode_pictures(recording, o->frames, damage, err);
    }
    if (st == LR_OK && line->has_audio && !o->index_only) {
        st = cli_decode_sound(recording, o->sound, damage, err);
    }
    return st;
}

static int inspect(const inspect_options *o, const char *path) {
    lr_recording *recording = NULL;
    cli_damage damage = {0};
    lr_error err = {0};
    int code = CLI_DONE;
    lr_status st = lr_recording_open(&recording, path, &o->ingest, &err);
    if (st == LR_OK && o->sound) st = lr_refuse_input(o->sound, path, &err);
    if (st == LR_OK) {
        st = decode(o, recording, &damage, &err);
        if (st != LR_OK && !strstr(err.text, path)) lr_error_context(&err, "%s", path);
    }
    if (st != LR_OK) {
        cli_report(st, NULL, err.text);
        code = st == LR_E_INTERRUPTED ? CLI_INTERRUPTED : st == LR_E_USAGE ? CLI_WRONG_USAGE : CLI_SOME_FAILED;
        if (o->json) code = cli_print_json(error_json(path, err.text), code);
    } else if (o->json) {
        code = cli_print_json(report_json(lr_recording_timeline(recording), &damage), code);
    } else {
        print_report(lr_recording_timeline(recording), &damage);
        code = cli_finish_output(code);
    }
    lr_free(damage.list);
    lr_recording_close(recording);
    return code;
}

static int run(const cli_command *command, int argc, char **argv) {
    inspect_options options = {.ingest = lr_ingest_defaults()};
    char **rest = NULL;
    size_t n_rest = 0;
    int code = CLI_DONE;
    options.ingest.threads = (int)cli_processors();
    options.ingest.cancel = cli_cancel();
    options.ingest.every_picture = true; /* damage between the grid's points counts, too */
    if (!cli_parse(command, argc, argv, &options, &rest, &n_rest, &code)) return code;
    if (n_rest != 1) return cli_wrong_usage(command, "one recording must be given");
    if (options.index_only && (options.frames || options.sound)) {
        return cli_wrong_usage(command, "--index-only decodes nothing: it goes without --frames and --audio");
    }
    cli_catch_signals();
    return inspect(&options, rest[0]);
}

const cli_command cli_inspect = {
    .name = "inspect",
    .summary = "what is in a recording, and what of it can be read",
    .usage = "REC [OPTION]...",
    .text = "Shows a recording as encode sees it: its timeline, the grid of frames, gaps in the sound, and "
            "damage. Everything is decoded, to know the damage, unless --index-only is given. Exit status "
            "1 when the recording cannot be read.",
    .examples = "  longreel inspect talk.mp4\n"
                "  longreel inspect talk.mp4 --json --index-only\n"
                "  longreel inspect talk.mp4 --fps 1/10 --frames pictures --audio sound.wav\n",
    .options = table,
    .run = run,
};
