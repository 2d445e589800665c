#include "bench_plot.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 1040
#define HEIGHT 470
#define TOP 70
#define BOTTOM 400

static const char *const rest_colour = "#0072b2", *const full_colour = "#d55e00", *const peak_colour = "#666666";

/* One of the two diagrams: where it stands, and the values at its edges. */
typedef struct panel {
    FILE *out;
    double left, right;
    double x0, x1, y0, y1;
    bool log_y;
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

static void put_text(FILE *out, double x, double y, const char *anchor, const char *colour, const char *text) {
    fprintf(out, "<text x='%.1f' y='%.1f' text-anchor='%s' fill='%s'>", x, y, anchor, colour);
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

static void put_value(const panel *p, double value) {
    char text[32];
    snprintf(text, sizeof text, "%g", value);
    put_line(p->out, p->left, at_y(p, value), p->right, at_y(p, value), "#dddddd", "");
    put_text(p->out, p->left - 8, at_y(p, value) + 4, "end", "black", text);
}

static void put_axes(const panel *p, const char *title, const char *unit) {
    const double step = p->y1 > 200 ? 100 : p->y1 > 40 ? 20 : p->y1 > 8 ? 4 : 1;
    for (double v = p->y0; v <= p->y1 * 1.0001; v = p->log_y ? v * 10 : v + step) put_value(p, v);
    double first = exp2(ceil(log2(p->x0) - 1e-9));
    int doublings = (int)log2(p->x1 / first), each = doublings / 6 + 1;
    for (int i = 0; i <= doublings; i += each) {
        char text[32];
        double tokens = first * exp2(i);
        snprintf(text, sizeof text, tokens >= 1024 ? "%gk" : "%g", tokens >= 1024 ? tokens / 1024 : tokens);
        put_line(p->out, at_x(p, tokens), TOP, at_x(p, tokens), BOTTOM, "#dddddd", "");
        put_text(p->out, at_x(p, tokens), BOTTOM + 18, "middle", "black", text);
    }
    put_line(p->out, p->left, BOTTOM, p->right, BOTTOM, "black", "");
    put_line(p->out, p->left, TOP, p->left, BOTTOM, "black", "");
    put_text(p->out, (p->left + p->right) / 2, BOTTOM + 38, "middle", "black", "tokens of the sequence (k: 1,024)");
    put_text(p->out, p->left, TOP - 12, "start", "black", title);
    fprintf(p->out, "<text transform='translate(%.1f,%d) rotate(-90)' text-anchor='middle'>%s</text>\n", p->left - 48,
            (TOP + BOTTOM) / 2, unit);
}

/* ------------------------------------------------------------------ series */

static double value_of(const plot_point *point, size_t field) {
    const double all[] = {point->rest, point->rest_rate, point->full, point->full_rate};
    return all[field];
}

static void put_series(const panel *p, const plot_point *points, size_t count, size_t field, const char *colour) {
    fprintf(p->out, "<polyline fill='none' stroke='%s' stroke-width='2' points='", colour);
    for (size_t i = 0; i < count; i++) {
        fprintf(p->out, "%.1f,%.1f ", at_x(p, points[i].tokens), at_y(p, value_of(&points[i], field)));
    }
    fputs("'/>\n", p->out);
    for (size_t i = 0; i < count; i++) {
        fprintf(p->out, "<circle cx='%.1f' cy='%.1f' r='3.5' fill='%s'/>\n", at_x(p, points[i].tokens),
                at_y(p, value_of(&points[i], field)), colour);
    }
}

/* The exponent e of the least-squares line, value = c tokens^e. */
static double exponent(const plot_point *points, size_t count, size_t field) {
    double x = 0, y = 0, xx = 0, xy = 0, n = (double)count;
    for (size_t i = 0; i < count; i++) {
        double a = log(points[i].tokens), b = log(value_of(&points[i], field));
        x += a;
        y += b;
        xx += a * a;
        xy += a * b;
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

static void put_legend(const panel *p, double y, const char *colour, const char *text) {
    put_line(p->out, p->left + 12, y - 4, p->left + 36, y - 4, colour, "stroke-width='3'");
    put_text(p->out, p->left + 42, y, "start", "black", text);
}

/* ------------------------------------------------------------------ the two diagrams */

static void put_time(FILE *out, const plot_point *points, size_t count, bool full) {
    double least = points[0].rest, most = points[count - 1].rest;
    char text[96];
    for (size_t i = 0; full && i < count; i++) {
        least = fmin(least, points[i].full);
        most = fmax(most, points[i].full);
    }
    panel p = {.out = out, .left = 80, .right = 500, .x0 = points[0].tokens, .x1 = points[count - 1].tokens,
               .y0 = pow(10, floor(log10(least))), .y1 = pow(10, ceil(log10(most))), .log_y = true};
    put_axes(&p, "Processor time", "seconds");
    put_series(&p, points, count, 0, rest_colour);
    snprintf(text, sizeof text, "outside full attention: tokens^%.2f", exponent(points, count, 0));
    put_legend(&p, TOP + 22, rest_colour, text);
    if (!full) return;
    put_series(&p, points, count, 2, full_colour);
    snprintf(text, sizeof text, "full attention: tokens^%.2f", exponent(points, count, 2));
    put_legend(&p, TOP + 42, full_colour, text);
}

static void put_rates(FILE *out, const plot_point *points, size_t count, bool full, double peak) {
    panel p = {.out = out, .left = 590, .right = 1010, .x0 = points[0].tokens, .x1 = points[count - 1].tokens,
               .y0 = 0, .y1 = peak * 1.25};
    put_axes(&p, "Speed of a core", "GFLOP/s");
    put_line(out, p.left, at_y(&p, peak), p.right, at_y(&p, peak), peak_colour,
             "stroke-dasharray='6 4' stroke-width='2'");
    put_text(out, p.right, at_y(&p, peak) - 6, "end", peak_colour, "multiply-adds alone");
    put_series(&p, points, count, 1, rest_colour);
    put_legend(&p, BOTTOM - 32, rest_colour, "outside full attention (all its steps count as time)");
    if (!full) return;
    put_series(&p, points, count, 3, full_colour);
    put_legend(&p, BOTTOM - 12, full_colour, "full attention");
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
    fprintf(out, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' "
            "font-size='13'>\n<rect width='100%%' height='100%%' fill='white'/>\n", WIDTH, HEIGHT);
    put_text(out, WIDTH / 2.0, 26, "middle", "black", title);
    put_time(out, points, count, full);
    put_rates(out, points, count, full, peak);
    fputs("</svg>\n", out);
    bool bad = ferror(out) != 0;
    if (fclose(out) != 0 || bad) return lr_fail(err, LR_E_IO, "%s: it could not be written", path);
    return LR_OK;
}
