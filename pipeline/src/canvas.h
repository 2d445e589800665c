/* Inside pipeline/: a picture to draw on, and letters for it. Coordinates are pixels, x to the right, y down,
 * (0, 0) the corner of the first pixel; what lies outside the picture is not drawn. */
#ifndef LONGREEL_PIPELINE_CANVAS_H
#define LONGREEL_PIPELINE_CANVAS_H

#include <longreel/core.h>

typedef uint32_t lr_color; /* 0xRRGGBB */

typedef struct lr_canvas {
    uint8_t *rgb; /* [height, width, 3] */
    int width, height;
} lr_canvas;

lr_status lr_canvas_create(lr_canvas *canvas, int width, int height, lr_color color, lr_error *err);
void lr_canvas_free(lr_canvas *canvas);
lr_color lr_color_between(lr_color a, lr_color b, double share);
/* One pixel, covered to `share` of it. */
void lr_canvas_blend(lr_canvas *canvas, int x, int y, lr_color color, double share);
void lr_canvas_fill(lr_canvas *canvas, int x, int y, int width, int height, lr_color color);
/* A box with round corners, `share` opaque. */
void lr_canvas_box(lr_canvas *canvas, double x, double y, double width, double height, double radius,
                   lr_color color, double share);
/* rgb [height, stride] averaged (or repeated) into the box [x, y, box_width, box_height]. */
void lr_canvas_picture(lr_canvas *canvas, int x, int y, int box_width, int box_height, const uint8_t *rgb,
                       size_t stride, int width, int height);

/* ------------------------------------------------------------------ letters (font.c)
 *
 * ASCII; every other character of a UTF-8 text is shown as '?'. Letters are drawn as strokes with round
 * ends, so they are smooth at any size. */
typedef struct lr_font {
    double size; /* height of capital letters, pixels */
    bool bold;
    lr_color color;
} lr_font;

typedef enum lr_align { LR_LEFT, LR_MIDDLE, LR_RIGHT } lr_align;

double lr_text_width(const lr_font *font, const char *text);
/* (x, y): left end, middle or right end of the text, on the line that capital letters stand on. */
void lr_text_draw(lr_canvas *canvas, const lr_font *font, double x, double y, lr_align align,
                  const char *text);
/* Copies the text; when wider than `width`, its middle gives way to "...". A UTF-8 character becomes one
 * '?'. */
lr_status lr_text_fit(char **out, const lr_font *font, const char *text, double width, lr_error *err);

#endif
