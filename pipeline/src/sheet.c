/* Draws a report: title and facts, then one section below the other. Map, loudness and damage share one
 * time axis. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

#define WIDTH 1200
#define MARGIN 48
#define INSIDE (WIDTH - 2 * MARGIN)
#define AXIS (WIDTH - MARGIN - LR_SHEET_COLUMNS) /* where the time axis begins */
#define HEADING 76   /* from a section's top to its content */
#define TICKS 46     /* below a plot, for the times */
#define SECTION 44   /* between sections */
#define LOUD_HEIGHT 200
#define LOUD_FLOOR (-60.0)
#define DAMAGE_HEIGHT 28
#define GAP 14       /* between thumbnails */
#define NOTE_LINES 4

static const lr_color paper = 0xffffff, ink = 0x161b22, soft = 0x6a7280, rule = 0xd9dde3, pale = 0xeceff3, none = 0xdfe3e8,
                      accent = 0x2563a8, light = 0xa9cbe8, warn = 0xc2410c, warn_pale = 0xfdf1e7;

static const lr_font title_font = {36, true, ink}, heading_font = {24, true, ink},
                     value_font = {22, false, ink}, label_font = {20, false, soft},
                     small_font = {17, false, soft}, badge_font = {18, true, paper},
                     note_font = {20, false, warn};

typedef struct sheet_grid { /* of the thumbnails */
    int columns, rows, width, height;
} sheet_grid;

typedef struct sheet_state {
    const lr_report_sheet *sheet;
    lr_canvas *canvas;
    sheet_grid grid;
    bool hours; /* times need an hour */
    int y;      /* the next section's top */
} sheet_state;

/* ------------------------------------------------------------------ texts */

/* "12:34", "1:02:03"; tenths where the time is between seconds. */
static const char *clock_text(double seconds, bool hours, char text[32]) {
    long long tenths = llround(seconds * 10), s = tenths / 10;
    int n = hours ? snprintf(text, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60)
                  : snprintf(text, 32, "%lld:%02lld", s / 60, s % 60);
    if (tenths % 10 && n > 0 && n < 28) snprintf(text + n, 32 - (size_t)n, ".%lld", tenths % 10);
    return text;
}

/* "1,234,567" */
static const char *count_text(long long count, char text[32]) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", count), used = 0;
    for (int i = 0; i < n && used < 30; i++) {
        if (i > 0 && (n - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

static lr_status draw_fitted(const sheet_state *s, const lr_font *font, double x, double y, double width,
                             const char *text, lr_error *err) {
    char *fitted = NULL;
    lr_status st = lr_text_fit(&fitted, font, text, width, err);
    if (st == LR_OK) lr_text_draw(s->canvas, font, x, y, LR_LEFT, fitted);
    lr_free(fitted);
    return st;
}

/* ------------------------------------------------------------------ title and facts */

typedef struct fact {
    char name[48], value[160];
} fact;

static const json_t *option(const sheet_state *s, const char *name) {
    return json_object_get(json_object_get(s->sheet->manifest, "options"), name);
}

static void segments_fact(const sheet_state *s, fact *f) {
    char count[32];
    double segment = json_number_value(option(s, "segment")), hop = json_number_value(option(s, "hop"));
    if (segment != hop) snprintf(f->name, sizeof f->name, "Segments, every %g s", hop);
    snprintf(f->value, sizeof f->value, "%s of %g s",
             count_text((long long)s->sheet->set->n_segments, count), segment);
}

static void collect_facts(const sheet_state *s, fact facts[8]) {
    const lr_set_info *set = s->sheet->set;
    const json_t *counts = json_object_get(s->sheet->manifest, "counts");
    const char *fps = json_string_value(option(s, "fps"));
    json_int_t sound = json_integer_value(json_object_get(counts, "sound_tokens"));
    char a[32], b[32];
    static const char *const names[8] = {"Duration", "Frames", "Segments", "Sound tokens",
                                         "Model", "Tokens", "Context", "Vectors"};
    for (int i = 0; i < 8; i++) snprintf(facts[i].name, sizeof facts[i].name, "%s", names[i]);
    bool part = s->sheet->begin > 0 || s->sheet->end < set->duration;
    if (part) snprintf(facts[0].name, sizeof facts[0].name, "Part");
    snprintf(facts[0].value, sizeof facts[0].value, part ? "%s - %s" : "%.0s%s",
             clock_text(s->sheet->begin, s->hours, a), clock_text(s->sheet->end, s->hours, b));
    size_t whole = fps && strlen(fps) > 2 && strcmp(fps + strlen(fps) - 2, "/1") == 0 ? strlen(fps) - 2 : 40;
    if (set->n_frames) {
        snprintf(facts[1].value, sizeof facts[1].value, "%s at %.*s fps",
                 count_text((long long)set->n_frames, a), (int)whole, fps ? fps : "?");
    } else {
        snprintf(facts[1].value, sizeof facts[1].value, "none");
    }
    segments_fact(s, &facts[2]);
    snprintf(facts[3].value, sizeof facts[3].value, "%s", sound ? count_text(sound, a) : "none");
    snprintf(facts[4].value, sizeof facts[4].value, "%s", set->model_name);
    snprintf(facts[5].value, sizeof facts[5].value, "%s",
             count_text(json_integer_value(json_object_get(s->sheet->manifest, "tokens")), a));
    json_int_t context = json_integer_value(option(s, "context"));
    snprintf(facts[6].value, sizeof facts[6].value, context ? "%s tokens" : "whole recording",
             count_text(context, a));
    snprintf(facts[7].value, sizeof facts[7].value, "%zu values", set->dim);
}

#define FACTS 170 /* height of the facts */

static lr_status draw_title(sheet_state *s, lr_error *err) {
    lr_status st = LR_OK;
    fact facts[8];
    lr_canvas_fill(s->canvas, 0, 0, WIDTH, 10, accent);
    s->y = 92;
    LR_TRY(draw_fitted(s, &title_font, MARGIN, s->y, INSIDE, s->sheet->set->recording, err));
    s->y += 44;
    collect_facts(s, facts);
    for (int i = 0; i < 8; i++) {
        double x = MARGIN + i % 4 * (INSIDE / 4.0), y = s->y + i / 4 * 78;
        LR_TRY(draw_fitted(s, &small_font, x, y + 15, INSIDE / 4.0 - 18, facts[i].name, err));
        LR_TRY(draw_fitted(s, &value_font, x, y + 47, INSIDE / 4.0 - 18, facts[i].value, err));
    }
    s->y += FACTS;
done:
    return st;
}

static void draw_heading(const sheet_state *s, const char *heading, const char *remark) {
    lr_canvas_fill(s->canvas, MARGIN, s->y, INSIDE, 2, rule);
    lr_text_draw(s->canvas, &heading_font, MARGIN, s->y + 48, LR_LEFT, heading);
    if (remark) lr_text_draw(s->canvas, &label_font, WIDTH - MARGIN, s->y + 48, LR_RIGHT, remark);
}

/* ------------------------------------------------------------------ a note */

/* The longest head of `text` that fits a line, cut between words where it can be. */
static size_t line_length(const char *text, double width) {
    char line[512];
    size_t best = 0, n = strlen(text);
    for (size_t i = 1; i <= n && i < sizeof line; i++) {
        snprintf(line, sizeof line, "%.*s", (int)i, text);
        if (lr_text_width(&note_font, line) > width) return best ? best : i > 1 ? i - 1 : 1;
        if (text[i] == ' ' || text[i] == '\0') best = i;
    }
    return best ? best : n;
}

static int note_lines(const char *text) {
    int lines = 0;
    while (*text && lines < NOTE_LINES) {
        text += line_length(text, INSIDE - 56);
        while (*text == ' ') text++;
        lines++;
    }
    return lines;
}

static int note_height(const char *text) {
    return *text ? note_lines(text) * 34 + 40 : 0;
}

static void draw_note(sheet_state *s) {
    const char *text = s->sheet->note;
    int height = note_height(text);
    lr_canvas_box(s->canvas, MARGIN, s->y, INSIDE, height, 10, warn_pale, 1);
    for (int line = 0; *text && line < NOTE_LINES; line++) {
        char part[512];
        size_t n = line_length(text, INSIDE - 56);
        snprintf(part, sizeof part, "%.*s", (int)n, text);
        lr_text_draw(s->canvas, &note_font, MARGIN + 28, s->y + 44 + 34 * line, LR_LEFT, part);
        for (text += n; *text == ' ';) text++;
    }
    s->y += height + SECTION;
}

/* ------------------------------------------------------------------ contact sheet */

/* Four columns, more of upright pictures, fewer where there are fewer frames. */
static sheet_grid grid_of(const lr_report_sheet *sheet) {
    sheet_grid g = {.columns = sheet->aspect < 0.8 ? 7 : 4};
    int n = (int)sheet->n_thumbnails;
    if (n == 0) return (sheet_grid){0};
    if (n < g.columns) g.columns = n < 3 ? 3 : n;
    g.rows = (n + g.columns - 1) / g.columns;
    g.width = (INSIDE + GAP + g.columns - 1) / g.columns - GAP;
    g.height = (int)lround(g.width / sheet->aspect);
    if (g.height < 24) g.height = 24;
    if (g.height > 2 * g.width) g.height = 2 * g.width;
    return g;
}

static void draw_badge(const sheet_state *s, double x, double y, lr_color color, const char *text) {
    double width = lr_text_width(&badge_font, text) + 18;
    lr_canvas_box(s->canvas, x, y, width, 33, 5, color, 0.85);
    lr_text_draw(s->canvas, &badge_font, x + 9, y + 26, LR_LEFT, text);
}

static void draw_thumbnail(const sheet_state *s, const lr_thumbnail *thumb, int x, int y) {
    const sheet_grid *g = &s->grid;
    char time[32];
    /* a later picture may have another shape than the first */
    double scale = fmin((double)g->width / thumb->width, (double)g->height / thumb->height);
    int width = (int)lround(thumb->width * scale), height = (int)lround(thumb->height * scale);
    if (width < 1) width = 1;
    if (height < 1) height = 1;
    if (width != g->width || height != g->height) {
        lr_canvas_fill(s->canvas, x, y, g->width, g->height, ink);
    }
    lr_canvas_picture(s->canvas, x + (g->width - width) / 2, y + (g->height - height) / 2, width, height,
                      thumb->rgb, (size_t)thumb->width * 3, thumb->width, thumb->height);
    draw_badge(s, x + 8, y + g->height - 41, ink, clock_text(thumb->t, s->hours, time));
    if (thumb->substituted) draw_badge(s, x + 8, y + 8, warn, "damaged");
}

static void draw_frames(sheet_state *s) {
    const lr_report_sheet *sheet = s->sheet;
    char remark[96], all[32];
    if (sheet->n_thumbnails < sheet->set->n_frames) {
        snprintf(remark, sizeof remark, "%zu of %s, evenly spaced", sheet->n_thumbnails,
                 count_text((long long)sheet->set->n_frames, all));
    } else {
        snprintf(remark, sizeof remark, "all %zu", sheet->n_thumbnails);
    }
    draw_heading(s, "Frames", sheet->n_thumbnails > 1 ? remark : NULL);
    s->y += HEADING;
    for (size_t i = 0; i < sheet->n_thumbnails; i++) {
        int column = (int)i % s->grid.columns, row = (int)i / s->grid.columns;
        /* rounded column by column, so that the last one ends at the margin */
        draw_thumbnail(s, &sheet->thumbnails[i], MARGIN + column * (INSIDE + GAP) / s->grid.columns,
                       s->y + row * (s->grid.height + GAP));
    }
    s->y += s->grid.rows * (s->grid.height + GAP) - GAP + SECTION;
}

/* ------------------------------------------------------------------ time axis */

/* The smallest round step with at most `most` of them on the axis. */
static double time_step(double length, double most) {
    static const double steps[] = {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400,
                                   21600, 43200, 86400};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (length / steps[i] <= most) return steps[i];
    }
    return pow(10, ceil(log10(length / most)));
}

static double x_of(const sheet_state *s, double t) {
    return AXIS + LR_SHEET_COLUMNS * (t - s->sheet->begin) / (s->sheet->end - s->sheet->begin);
}

/* Ticks and times below a plot whose last row is y - 1. */
static void draw_times(const sheet_state *s, int y) {
    const lr_report_sheet *sheet = s->sheet;
    double step = time_step(sheet->end - sheet->begin, 8);
    for (double t = ceil(sheet->begin / step) * step; t <= sheet->end; t += step) {
        char text[32];
        double x = x_of(s, t), half = lr_text_width(&label_font, clock_text(t, s->hours, text)) / 2;
        lr_canvas_fill(s->canvas, (int)lround(x) - 1, y, 2, 8, soft);
        lr_text_draw(s->canvas, &label_font, fmin(x, WIDTH - 12 - half), y + 38, LR_MIDDLE, text);
    }
}

/* ------------------------------------------------------------------ map */

static lr_color scale_color(double share) {
    static const lr_color stops[] = {0x1d1b4c, 0x2c3f8f, 0x2a6f9f, 0x2a9d92, 0x6cc067, 0xc9d64b, 0xfdf3a7};
    const int last = (int)(sizeof stops / sizeof *stops) - 1;
    if (!(share > 0)) return stops[0];
    if (share >= 1) return stops[last];
    int i = (int)(share * last);
    return lr_color_between(stops[i], stops[i + 1], share * last - i);
}

static void draw_legend(const sheet_state *s) {
    const lr_similarity *map = &s->sheet->similarity;
    const int length = 300, x = WIDTH - MARGIN - length, y = s->y + 22;
    int digits = map->high - map->low < 0.00995 ? 4 : map->high - map->low < 0.0995 ? 3 : 2;
    for (int i = 0; i < length; i++) {
        lr_canvas_fill(s->canvas, x + i, y, 1, 18, scale_color((i + 0.5) / length));
    }
    for (int i = 0; i <= 2; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s%.*f%s", i == 0 && map->less ? "<" : "", digits,
                 map->low + (map->high - map->low) * i / 2, i == 2 && map->high < 1 ? "+" : "");
        lr_text_draw(s->canvas, &small_font, x + length * i / 2, y + 43, (lr_align)i, text);
    }
    lr_text_draw(s->canvas, &label_font, x - 18, s->y + 42, LR_RIGHT, "cosine");
}

static void draw_map(sheet_state *s) {
    const lr_similarity *map = &s->sheet->similarity;
    const lr_report_sheet *sheet = s->sheet;
    draw_heading(s, "Self-similarity of segments", NULL);
    draw_legend(s);
    s->y += HEADING + 10;
    for (int row = 0; row < LR_SHEET_COLUMNS; row++) {
        for (int column = 0; column < LR_SHEET_COLUMNS; column++) {
            int a = map->cell_at[row], b = map->cell_at[column];
            lr_color color = pale;
            if (a >= 0 && b >= 0) {
                double cosine = (double)map->cosines[(size_t)a * map->n + (size_t)b];
                color = scale_color((cosine - map->low) / (map->high - map->low));
            }
            lr_canvas_fill(s->canvas, AXIS + column, s->y + row, 1, 1, color);
        }
    }
    double step = time_step(sheet->end - sheet->begin, 8);
    for (double t = ceil(sheet->begin / step) * step; t <= sheet->end; t += step) {
        char text[32];
        double y = s->y + x_of(s, t) - AXIS;
        lr_canvas_fill(s->canvas, AXIS - 8, (int)lround(y) - 1, 8, 2, soft);
        lr_text_draw(s->canvas, &label_font, AXIS - 18, fmin(y + 10, s->y + LR_SHEET_COLUMNS), LR_RIGHT,
                     clock_text(t, s->hours, text));
    }
    s->y += LR_SHEET_COLUMNS;
    draw_times(s, s->y);
    s->y += TICKS + SECTION;
}

/* ------------------------------------------------------------------ loudness */

static int loud_rows(double level) {
    if (!(level > LOUD_FLOOR)) return 0;
    return (int)lround(LOUD_HEIGHT * (fmin(level, 0) - LOUD_FLOOR) / -LOUD_FLOOR);
}

static double draw_key(const sheet_state *s, double right, lr_color color, const char *text) {
    lr_text_draw(s->canvas, &label_font, right, s->y + 48, LR_RIGHT, text);
    double left = right - lr_text_width(&label_font, text) - 28;
    lr_canvas_box(s->canvas, left, s->y + 30, 18, 18, 4, color, 1);
    return left - 26;
}

static void draw_loudness(sheet_state *s) {
    const lr_loudness *loud = &s->sheet->loudness;
    draw_heading(s, "Loudness", NULL);
    bool gaps = false;
    for (size_t i = 0; i < loud->count; i++) gaps = gaps || isnan(loud->mean[i]);
    double right = gaps ? draw_key(s, WIDTH - MARGIN, none, "no sound") : WIDTH - MARGIN;
    draw_key(s, draw_key(s, right, light, "peak"), accent, "mean");
    s->y += HEADING;
    lr_canvas_fill(s->canvas, AXIS, s->y, LR_SHEET_COLUMNS, LOUD_HEIGHT, 0xf7f8fa);
    for (int i = 0; i < LR_SHEET_COLUMNS && (size_t)i < loud->count; i++) {
        int peak = loud_rows((double)loud->peak[i]), mean = loud_rows((double)loud->mean[i]);
        lr_canvas_fill(s->canvas, AXIS + i, s->y + LOUD_HEIGHT - peak, 1, peak, light);
        lr_canvas_fill(s->canvas, AXIS + i, s->y + LOUD_HEIGHT - mean, 1, mean, accent);
        if (isnan(loud->mean[i])) lr_canvas_fill(s->canvas, AXIS + i, s->y, 1, LOUD_HEIGHT, none);
    }
    for (int level = 0; level >= -60; level -= 20) {
        char text[32];
        int y = s->y + LOUD_HEIGHT - loud_rows(level);
        for (int x = AXIS; x < WIDTH - MARGIN; x++) lr_canvas_blend(s->canvas, x, y, soft, 0.35);
        snprintf(text, sizeof text, level ? "%d" : "0 dB", level);
        lr_text_draw(s->canvas, &label_font, AXIS - 18, y + 10, LR_RIGHT, text);
    }
    s->y += LOUD_HEIGHT;
    draw_times(s, s->y);
    s->y += TICKS + SECTION;
}

/* ------------------------------------------------------------------ damage */

static const json_t *damage_of(const lr_report_sheet *sheet) {
    return json_object_get(sheet->manifest, "damage");
}

/* Of the picture above, of the sound below. */
static void draw_damage(sheet_state *s) {
    const json_t *one;
    size_t i;
    char remark[64];
    size_t count = json_array_size(damage_of(s->sheet));
    snprintf(remark, sizeof remark, "%zu %s", count, count == 1 ? "range" : "ranges");
    draw_heading(s, "Damage", remark);
    s->y += HEADING;
    lr_canvas_fill(s->canvas, AXIS, s->y, LR_SHEET_COLUMNS, DAMAGE_HEIGHT, pale);
    lr_canvas_fill(s->canvas, AXIS, s->y + DAMAGE_HEIGHT + 4, LR_SHEET_COLUMNS, DAMAGE_HEIGHT, pale);
    lr_text_draw(s->canvas, &label_font, AXIS - 18, s->y + 22, LR_RIGHT, "picture");
    lr_text_draw(s->canvas, &label_font, AXIS - 18, s->y + DAMAGE_HEIGHT + 26, LR_RIGHT, "sound");
    json_array_foreach((json_t *)damage_of(s->sheet), i, one) {
        const char *stream = json_string_value(json_object_get(one, "stream"));
        double from = x_of(s, json_number_value(json_object_get(one, "start_s")));
        double to = x_of(s, json_number_value(json_object_get(one, "end_s")));
        int y = s->y + (stream && strcmp(stream, "video") == 0 ? 0 : DAMAGE_HEIGHT + 4);
        int left = (int)floor(fmax(AXIS, fmin(from, WIDTH - MARGIN - 3)));
        int right = (int)ceil(fmax(left + 3, fmin(to, WIDTH - MARGIN)));
        lr_canvas_fill(s->canvas, left, y, right - left, DAMAGE_HEIGHT, warn);
    }
    s->y += 2 * DAMAGE_HEIGHT + 4;
    draw_times(s, s->y);
    s->y += TICKS + SECTION;
}

/* ------------------------------------------------------------------ the whole */

#define FOOTER 64

static int sheet_height(const sheet_state *s) {
    const lr_report_sheet *sheet = s->sheet;
    int height = 92 + 44 + FACTS + FOOTER;
    if (*sheet->note) height += note_height(sheet->note) + SECTION;
    if (sheet->n_thumbnails) {
        height += HEADING + s->grid.rows * (s->grid.height + GAP) - GAP + SECTION;
    }
    if (sheet->similarity.n) height += HEADING + 10 + LR_SHEET_COLUMNS + TICKS + SECTION;
    if (sheet->loudness.count) height += HEADING + LOUD_HEIGHT + TICKS + SECTION;
    if (json_array_size(damage_of(sheet))) height += HEADING + 2 * DAMAGE_HEIGHT + 4 + TICKS + SECTION;
    return height;
}

static void draw_footer(const sheet_state *s) {
    char text[96];
    lr_canvas_fill(s->canvas, MARGIN, s->y, INSIDE, 2, rule);
    lr_text_draw(s->canvas, &small_font, MARGIN, s->y + 38, LR_LEFT, "longreel " LR_VERSION);
    snprintf(text, sizeof text, "set %s", s->sheet->set->key);
    lr_text_draw(s->canvas, &small_font, WIDTH - MARGIN, s->y + 38, LR_RIGHT, text);
}

lr_status lr_sheet_draw(lr_canvas *out, const lr_report_sheet *sheet, lr_error *err) {
    lr_status st = LR_OK;
    sheet_state s = {.sheet = sheet, .canvas = out, .hours = sheet->end >= 3600, .grid = grid_of(sheet)};
    memset(out, 0, sizeof *out);
    LR_TRY(lr_canvas_create(out, WIDTH, sheet_height(&s), paper, err));
    LR_TRY(draw_title(&s, err));
    if (*sheet->note) draw_note(&s);
    if (sheet->n_thumbnails) draw_frames(&s);
    if (sheet->similarity.n) draw_map(&s);
    if (sheet->loudness.count) draw_loudness(&s);
    if (json_array_size(damage_of(sheet))) draw_damage(&s);
    draw_footer(&s);
done:
    if (st != LR_OK) lr_canvas_free(out);
    return st;
}
