#include "canvas.h"

#include <math.h>
#include <string.h>

lr_status lr_canvas_create(lr_canvas *canvas, int width, int height, lr_color color, lr_error *err) {
    size_t bytes;
    memset(canvas, 0, sizeof *canvas);
    if (width <= 0 || height <= 0 || !lr_mul_size((size_t)width * 3, (size_t)height, &bytes)) {
        return lr_fail(err, LR_E_INTERNAL, "no picture can have %d x %d pixels", width, height);
    }
    lr_status st = LR_NEW(&canvas->rgb, bytes, "a picture", err);
    if (st != LR_OK) return st;
    canvas->width = width;
    canvas->height = height;
    lr_canvas_fill(canvas, 0, 0, width, height, color);
    return LR_OK;
}

void lr_canvas_free(lr_canvas *canvas) {
    lr_free(canvas->rgb);
    memset(canvas, 0, sizeof *canvas);
}

static double mix(double a, double b, double share) {
    return a + (b - a) * share;
}

lr_color lr_color_between(lr_color a, lr_color b, double share) {
    lr_color out = 0;
    for (int shift = 0; shift <= 16; shift += 8) {
        out |= (lr_color)lround(mix(a >> shift & 0xff, b >> shift & 0xff, share)) << shift;
    }
    return out;
}

void lr_canvas_blend(lr_canvas *canvas, int x, int y, lr_color color, double share) {
    if (x < 0 || y < 0 || x >= canvas->width || y >= canvas->height || !(share > 0)) return;
    if (share > 1) share = 1;
    uint8_t *p = canvas->rgb + ((size_t)y * (size_t)canvas->width + (size_t)x) * 3;
    for (int c = 0; c < 3; c++) p[c] = (uint8_t)lround(mix(p[c], color >> (16 - 8 * c) & 0xff, share));
}

void lr_canvas_fill(lr_canvas *canvas, int x, int y, int width, int height, lr_color color) {
    int x0 = x > 0 ? x : 0, x1 = x + width < canvas->width ? x + width : canvas->width;
    int y0 = y > 0 ? y : 0, y1 = y + height < canvas->height ? y + height : canvas->height;
    for (int row = y0; row < y1; row++) {
        uint8_t *p = canvas->rgb + ((size_t)row * (size_t)canvas->width + (size_t)x0) * 3;
        for (int column = x0; column < x1; column++, p += 3) {
            p[0] = (uint8_t)(color >> 16);
            p[1] = (uint8_t)(color >> 8 & 0xff);
            p[2] = (uint8_t)(color & 0xff);
        }
    }
}

void lr_canvas_box(lr_canvas *canvas, double x, double y, double width, double height, double radius,
                   lr_color color, double share) {
    for (int row = (int)floor(y); row < (int)ceil(y + height); row++) {
        for (int column = (int)floor(x); column < (int)ceil(x + width); column++) {
            /* distance of the pixel's middle from the box without its border of `radius` */
            double dx = fabs(column + 0.5 - x - width / 2) - (width / 2 - radius);
            double dy = fabs(row + 0.5 - y - height / 2) - (height / 2 - radius);
            double outside = hypot(dx > 0 ? dx : 0, dy > 0 ? dy : 0);
            double covered = radius - outside + 0.5;
            lr_canvas_blend(canvas, column, row, color, share * (covered < 1 ? covered : 1));
        }
    }
}

/* Mean of the source pixels that a target pixel covers, each by the share of it that is covered. */
static void average(const uint8_t *rgb, size_t stride, int width, int height, double x0, double x1,
                    double y0, double y1, double out[3]) {
    double weight = 0;
    out[0] = out[1] = out[2] = 0;
    for (int y = (int)y0; y < height && y < y1; y++) {
        double rows = fmin(y + 1, y1) - fmax(y, y0);
        for (int x = (int)x0; x < width && x < x1; x++) {
            double share = rows * (fmin(x + 1, x1) - fmax(x, x0));
            const uint8_t *p = rgb + (size_t)y * stride + (size_t)x * 3;
            for (int c = 0; c < 3; c++) out[c] += share * p[c];
            weight += share;
        }
    }
    for (int c = 0; c < 3; c++) out[c] = weight > 0 ? out[c] / weight : 0;
}

void lr_canvas_picture(lr_canvas *canvas, int x, int y, int box_width, int box_height, const uint8_t *rgb,
                       size_t stride, int width, int height) {
    double sx = (double)width / box_width, sy = (double)height / box_height;
    for (int row = 0; row < box_height; row++) {
        if (y + row < 0 || y + row >= canvas->height) continue;
        for (int column = 0; column < box_width; column++) {
            double mean[3];
            if (x + column < 0 || x + column >= canvas->width) continue;
            average(rgb, stride, width, height, column * sx, (column + 1) * sx, row * sy, (row + 1) * sy,
                    mean);
            uint8_t *p = canvas->rgb +
                         ((size_t)(y + row) * (size_t)canvas->width + (size_t)(x + column)) * 3;
            for (int c = 0; c < 3; c++) p[c] = (uint8_t)lround(mean[c]);
        }
    }
}
