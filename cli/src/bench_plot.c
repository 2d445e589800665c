#include "bench_plot.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 1120
#define HEIGHT 560
#define MARGIN 44
#define TOP 142
#define BOTTOM 480

/* Okabe and Ito's colours, which the colour-blind tell apart. */
static const char rest_colour[] = "#0072b2", full_colour[] = "#d55e00", ink[] = "#222222", faint[] = "#767676",
                  grid[] = "#e6e6e6";

typedef enum plot_field { REST, REST_SHARE, FULL, FULL_SHARE } plot_field;

/* One of the two diagrams: where it stands, and the values at its edges. */
typedef struct panel {
    FILE *out;
    double left, right;
    double x0, x1, y0, y1;
    bool log_y;
    const plot_point *points;
    size_t count;
    double peak;
} panel;

static double share(double value, double from, double to, bool logarithmic) {
    return logarithmic ? log(value / from) / log(to / from) : (value - from) / (to - from);
}

static double at_x(const panel *p, double tokens) {
    return p->left + share(tokens, p->x0, p->x1, true) * (p->right - p->left);
}

static double at_y(const panel *p, double value) {
    return BOTTOM - share(value, p->y0, p->y1, p->log_y) * (BOTTOM - TOP);
}

static double value_of(const panel *p, size_t i, plot_field field) {
    const plot_point *point = &p->points[i];
    const double all[] = {point->rest, 100 * point->rest_rate / p->peak, point->full, 100 * point->full_rate / p->peak};
    return all[field];
}

/* more: attributes. */
static void put_text(FILE *out, double x, double y, const char *colour, const char *more, const char *text) {
    fprintf(out, "<text x='%.1f' y='%.1f' fill='%s' %s>", x, y, colour, more);
    for (; *text; text++) {
        if (*text == '<') fputs("&lt;", out);
        else if (*text == '&') fputs("&amp;", out);
        else if ((unsigned char)*text >= ' ') fputc(*text, out);
    }
    fputs("</text>\n", out);
}

static void put_line(FILE *out, double x0, double y0, double x1, double y1, const char *colour, const char *more) {
    fprintf(out, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s' %s/>\n", x0, y0, x1, y1, colour, more);
}

/* ------------------------------------------------------------------ axes */

static void put_value(const panel *p, double value, const char *unit) {
    char text[48];
    if (p->log_y && value >= 1000) snprintf(text, sizeof text, "%.0f,%03.0f%s", floor(value / 1000), fmod(value, 1000), unit);
    else snprintf(text, sizeof text, "%g%s", value, unit);
    put_line(p->out, p->left, at_y(p, value), p->right, at_y(p, value), grid, "");
    put_text(p->out, p->left - 10, at_y(p, value) + 4, faint, "text-anchor='end'", text);
}

static void put_axes(const panel *p, const char *title, const char *unit) {
    for (double v = p->y0; v <= p->y1 * 1.0001; v = p->log_y ? v * 10 : v + 20) put_value(p, v, unit);
    double first = exp2(ceil(log2(p->x0) - 1e-9));
    int doublings = (int)(log2(p->x1 / first) + 1e-9), each = doublings / 8 + 1;
    for (int i = 0; i <= doublings; i += each) {
        char text[32];
        double tokens = first * exp2(i), x = at_x(p, tokens);
        snprintf(text, sizeof text, tokens >= 1024 ? "%gk" : "%g", tokens >= 1024 ? tokens / 1024 : tokens);
        put_line(p->out, x, BOTTOM, x, BOTTOM + 5, faint, "");
        put_text(p->out, x, BOTTOM + 21, faint, "text-anchor='middle'", text);
    }
    put_line(p->out, p->left, BOTTOM, p->right, BOTTOM, faint, "");
    put_text(p->out, (p->left + p->right) / 2, BOTTOM + 46, faint, "text-anchor='middle'", "tokens in the sequence (k: 1,024)");
    put_text(p->out, p->left, TOP - 22, ink, "font-size='16' font-weight='600'", title);
}

/* ------------------------------------------------------------------ series */

static void put_series(const panel *p, plot_field field, const char *colour) {
    fprintf(p->out, "<polyline fill='none' stroke='%s' stroke-width='2.5' stroke-linejoin='round' points='", colour);
    for (size_t i = 0; i < p->count; i++) {
        fprintf(p->out, "%.1f,%.1f ", at_x(p, p->points[i].tokens), at_y(p, value_of(p, i, field)));
    }
    fputs("'/>\n", p->out);
    for (size_t i = 0; i < p->count; i++) {
        fprintf(p->out, "<circle cx='%.1f' cy='%.1f' r='4' fill='white' stroke='%s' stroke-width='2'/>\n",
                at_x(p, p->points[i].tokens), at_y(p, value_of(p, i, field)), colour);
    }
}

/* What a growth of tokens^power from the first point on would be, as far as the panel reaches. */
static void put_guide(const panel *p, plot_field field, double power, const char *colour) {
    double begin = value_of(p, 0, field), tokens = p->x1, end = begin * pow(tokens / p->x0, power);
    if (end > p->y1) {
        tokens = p->x0 * pow(p->y1 / begin, 1 / power);
        end = p->y1;
    }
    put_line(p->out, p->left, at_y(p, begin), at_x(p, tokens), at_y(p, end), colour,
             "stroke-width='1.5' stroke-dasharray='2 5' opacity='0.7'");
}

/* The exponent e of the least-squares line, value = c tokens^e. */
static double exponent(const panel *p, plot_field field) {
    double x = 0, y = 0, xx = 0, xy = 0, n = (double)p->count;
    for (size_t i = 0; i < p->count; i++) {
        double a = log(p->points[i].tokens), b = log(value_of(p, i, field));
        x += a;
        y += b;
        xx += a * a;
        xy += a * b;
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

/* Line `row` of the legend below `top`. */
static void put_legend(const panel *p, double top, int row, const char *colour, const char *text) {
    double y = top + 22 * row;
    put_line(p->out, p->left + 14, y - 4, p->left + 38, y - 4, colour, "stroke-width='2.5'");
    put_text(p->out, p->left + 46, y, ink, "", text);
}

/* ------------------------------------------------------------------ the two diagrams */

static void put_time(panel p, bool full) {
    double least = p.points[0].rest, most = p.points[p.count - 1].rest;
    char text[128];
    for (size_t i = 0; full && i < p.count; i++) {
        least = fmin(least, p.points[i].full);
        most = fmax(most, p.points[i].full);
    }
    p.left = MARGIN + 40;
    p.right = p.left + 440;
    p.y0 = pow(10, floor(log10(least)));
    p.y1 = pow(10, ceil(log10(most)));
    p.log_y = true;
    put_axes(&p, "Processor time", " s");
    put_guide(&p, REST, 1, rest_colour);
    if (full) put_guide(&p, FULL, 2, full_colour);
    put_series(&p, REST, rest_colour);
    snprintf(text, sizeof text, "outside full attention: grows as n^%.2f", exponent(&p, REST));
    put_legend(&p, TOP + 22, 0, rest_colour, text);
    if (full) {
        put_series(&p, FULL, full_colour);
        snprintf(text, sizeof text, "full attention: grows as n^%.2f", exponent(&p, FULL));
        put_legend(&p, TOP + 22, 1, full_colour, text);
    }
    put_text(p.out, p.right - 8, BOTTOM - 14, faint, "text-anchor='end'",
             full ? "dotted: n and n\xc2\xb2 from the first point on" : "dotted: n from the first point on");
}

static void put_last(const panel *p, plot_field field, double below, const char *colour) {
    char text[32];
    double value = value_of(p, p->count - 1, field);
    snprintf(text, sizeof text, "%.0f %%", value);
    put_text(p->out, p->right + 10, at_y(p, value) + 5 + below, colour, "font-weight='600'", text);
}

static void put_rates(panel p, bool full) {
    char text[128];
    double apart = 0;
    p.left = MARGIN + 590;
    p.right = p.left + 410;
    p.y0 = 0;
    p.y1 = 100;
    snprintf(text, sizeof text, "Speed (100 %%: multiply-adds alone, %.0f GFLOP/s a core)", p.peak);
    put_axes(&p, text, " %");
    put_series(&p, REST_SHARE, rest_colour);
    put_legend(&p, BOTTOM - 38, 0, rest_colour, "outside full attention, all its steps counted as time");
    if (full) {
        double between = at_y(&p, value_of(&p, p.count - 1, REST_SHARE)) - at_y(&p, value_of(&p, p.count - 1, FULL_SHARE));
        if (fabs(between) < 16) apart = between > 0 ? (16 - between) / 2 : -(16 + between) / 2;
        put_series(&p, FULL_SHARE, full_colour);
        put_legend(&p, BOTTOM - 38, 1, full_colour, "full attention");
        put_last(&p, FULL_SHARE, -apart, full_colour);
    }
    put_last(&p, REST_SHARE, apart, rest_colour);
}

lr_status cli_plot_write(const char *path, const char *title, const plot_point *points, size_t count, double peak,
                         lr_error *err) {
    bool full = true;
    if (count < 2 || !(points[count - 1].tokens > points[0].tokens)) {
        return lr_fail(err, LR_E_USAGE, "a plot needs ascending lengths, at least two");
    }
    for (size_t i = 0; i < count; i++) {
        full = full && points[i].full > 0;
        if (!(points[i].rest > 0)) return lr_fail(err, LR_E_INTERNAL, "%s: times of 0 have no logarithm", path);
    }
    FILE *out = fopen(path, "we");
    if (!out) return lr_fail(err, LR_E_IO, "%s: %s", path, strerror(errno));
    fprintf(out, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
            "font-family='Inter, Helvetica, Arial, sans-serif' font-size='14'>\n"
            "<rect width='%d' height='%d' fill='white'/>\n", WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_text(out, MARGIN, 46, ink, "font-size='22' font-weight='600'", "How the cost of a sequence grows with its length");
    put_text(out, MARGIN, 74, faint, "font-size='15'", title);
    panel p = {.out = out, .x0 = points[0].tokens, .x1 = points[count - 1].tokens, .points = points, .count = count,
               .peak = peak};
    put_time(p, full);
    put_rates(p, full);
    fputs("</svg>\n", out);
    bool bad = ferror(out) != 0;
    if (fclose(out) != 0 || bad) return lr_fail(err, LR_E_IO, "%s: it could not be written", path);
    return LR_OK;
}
