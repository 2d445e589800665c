/* Letters. Each is a picture of 5 x 9 dots; neighbouring dots are joined by strokes with round ends. */
#include <math.h>
#include <string.h>

#include "canvas.h"

#define COLUMNS 5
#define ROWS 9 /* capital letters stand in rows 0 to 6; 7 and 8 are below the line */
#define LINE 6

/* Sixteen letters side by side from ' ' on, one column between them. */
static const char *const art[6][ROWS] = {
    {
        "        #    # #   # #    #   ##  #  ##     #      #   #                                      #",
        "        #    # #   # #   #### ##  # #  #    #     #     #     #     #                         #",
        "        #    # #  ##### # #      #  #  #    #    #       #  # # #   #                        # ",
        "        #          # #   ###    #    ##          #       #   ###  #####        ###          #  ",
        "        #         #####   # #  #    # # #        #       #  # # #   #                      #   ",
        "                   # #  ####  #  ## #  #          #     #     #     #     #               #    ",
        "        #          # #    #   #  ##  ## #          #   #                  #           #   #    ",
        "                                                                         #                     ",
        "                                                                                               ",
    },
    {
        " ###    #    ###   ###     #  #####   ##  #####  ###   ###                                 ### ",
        "#   #  ##   #   # #   #   ##  #      #        # #   # #   #                #         #    #   #",
        "#   # # #       #     #  # #  ####  #        #  #   # #   #   #     #     #    ###    #       #",
        "#   #   #      #    ##  #  #      # ####     #   ###   ####              #             #     # ",
        "#   #   #     #       # #####     # #   #   #   #   #     #               #    ###    #     #  ",
        "#   #   #    #    #   #    #  #   # #   #   #   #   #    #          #      #         #         ",
        " ###  ##### #####  ###     #   ###   ###    #    ###   ##     #     #                       #  ",
        "                                                                   #                           ",
        "                                                                                               ",
    },
    {
        " ###    #   ####   ###  ####  ##### #####  ###  #   #  ###      # #   # #     #   # #   #  ### ",
        "#   #  # #  #   # #   # #   # #     #     #   # #   #   #       # #  #  #     ## ## ##  # #   #",
        "# ### #   # #   # #     #   # #     #     #     #   #   #       # # #   #     # # # # # # #   #",
        "# # # #   # ####  #     #   # ####  ####  # ### #####   #       # ##    #     # # # # # # #   #",
        "# ### ##### #   # #     #   # #     #     #   # #   #   #       # # #   #     #   # #  ## #   #",
        "#     #   # #   # #   # #   # #     #     #   # #   #   #   #   # #  #  #     #   # #   # #   #",
        " ###  #   # ####   ###  ####  ##### #      ###  #   #  ###   ###  #   # ##### #   # #   #  ### ",
        "                                                                                               ",
        "                                                                                               ",
    },
    {
        "####   ###  ####   #### ##### #   # #   # #   # #   # #   # #####  ##   #       ##    #        ",
        "#   # #   # #   # #       #   #   # #   # #   # #   # #   #     #  #    #        #   # #       ",
        "#   # #   # #   # #       #   #   # #   # #   #  # #   # #     #   #     #       #  #   #      ",
        "####  #   # ####   ###    #   #   # #   # # # #   #     #     #    #      #      #             ",
        "#     # # # # #       #   #   #   #  # #  # # #  # #    #    #     #       #     #             ",
        "#     #  #  #  #      #   #   #   #  # #  # # # #   #   #   #      #        #    #             ",
        "#      ## # #   # ####    #    ###    #    # #  #   #   #   #####  ##       #   ##        #####",
        "                                                                                               ",
        "                                                                                               ",
    },
    {
        " #          #               #         ##        #       #     #   #      #                     ",
        "  #         #               #        #          #                 #      #                     ",
        "       ###  ####   ###   ####  ###  ####   #### ####    #     #   #  #   #    ## #  ####   ### ",
        "          # #   # #     #   # #   #  #    #   # #   #   #     #   # #    #    # # # #   # #   #",
        "       #### #   # #     #   # #####  #    #   # #   #   #     #   ##     #    # # # #   # #   #",
        "      #   # #   # #     #   # #      #    #   # #   #   #     #   # #    #    # # # #   # #   #",
        "       #### ####   ###   ####  ###   #     #### #   #   #     #   #  #    #   # # # #   #  ### ",
        "                                              #               #                                ",
        "                                           ###               #                                 ",
    },
    {
        "                         #                                           #    #    #               ",
        "                         #                                          #     #     #              ",
        "####   #### # ##   #### ####  #   # #   # #   # #   # #   # #####   #     #     #              ",
        "#   # #   # ##    #      #    #   # #   # # # #  # #  #   #    #   #      #      #   ## #      ",
        "#   # #   # #      ###   #    #   #  # #  # # #   #   #   #   #     #     #     #   #  #       ",
        "#   # #   # #         #  #    #   #  # #  # # #  # #  #   #  #      #     #     #              ",
        "####   #### #     ####    ##   ####   #    # #  #   #  #### #####    #    #    #               ",
        "#         #                                               #                                    ",
        "#         #                                            ###                                     ",
    },};

static bool dot(int letter, int x, int y) {
    if (x < 0 || x >= COLUMNS || y < 0 || y >= ROWS) return false;
    return art[letter / 16][y][letter % 16 * (COLUMNS + 1) + x] == '#';
}

/* The next letter of a UTF-8 text, as its number in the art; -1 at the end. */
static int next_letter(const char **text) {
    unsigned char c = (unsigned char)**text;
    if (c == '\0') return -1;
    (*text)++;
    if (c >= ' ' && c < 0x7f) return c - ' ';
    while (((unsigned char)**text & 0xc0) == 0x80) (*text)++;
    return '?' - ' ';
}

/* Digits keep one width, so that times stand below each other; other letters are as wide as they are. */
static void extent(int letter, int *left, int *right) {
    *left = 0;
    *right = COLUMNS - 1;
    if (letter >= '0' - ' ' && letter <= '9' - ' ') return;
    if (letter == 0) { /* space */
        *right = 1;
        return;
    }
    *left = COLUMNS;
    for (int x = 0; x < COLUMNS; x++) {
        for (int y = 0; y < ROWS; y++) {
            if (!dot(letter, x, y)) continue;
            if (x < *left) *left = x;
            *right = x;
        }
    }
}

static double stroke_of(const lr_font *font) {
    return font->bold ? 1.25 : 0.9; /* in dots */
}

/* Pixels from dot to dot: `size` is LINE dots and half a stroke above and below. */
static double pitch_of(const lr_font *font) {
    return font->size / (LINE + stroke_of(font));
}

static double gap_of(const lr_font *font) {
    return font->bold ? 2.4 : 2.2; /* from the last column of a letter to the first of the next, in dots */
}

double lr_text_width(const lr_font *font, const char *text) {
    double dots = 0;
    int letter, count = 0;
    for (; (letter = next_letter(&text)) >= 0; count++) {
        int left, right;
        extent(letter, &left, &right);
        dots += right - left + gap_of(font);
    }
    return count ? pitch_of(font) * (dots - gap_of(font) + stroke_of(font)) : 0;
}

/* ------------------------------------------------------------------ drawing */

typedef struct stroke { /* in dots */
    int x0, y0, x1, y1;
} stroke;

/* A dot is joined to its neighbours; slantwise only where no straight way leads there. */
static size_t strokes_of(int letter, stroke out[COLUMNS * ROWS * 4]) {
    size_t count = 0;
    for (int y = 0; y < ROWS; y++) {
        for (int x = 0; x < COLUMNS; x++) {
            if (!dot(letter, x, y)) continue;
            size_t before = count;
            bool right = dot(letter, x + 1, y), below = dot(letter, x, y + 1), left = dot(letter, x - 1, y);
            if (right) out[count++] = (stroke){x, y, x + 1, y};
            if (below) out[count++] = (stroke){x, y, x, y + 1};
            if (!right && !below && dot(letter, x + 1, y + 1)) out[count++] = (stroke){x, y, x + 1, y + 1};
            if (!left && !below && dot(letter, x - 1, y + 1)) out[count++] = (stroke){x, y, x - 1, y + 1};
            if (count == before) out[count++] = (stroke){x, y, x, y};
        }
    }
    return count;
}

static double distance(const stroke *s, double x, double y) {
    double dx = s->x1 - s->x0, dy = s->y1 - s->y0, px = x - s->x0, py = y - s->y0;
    double length = dx * dx + dy * dy, at = length > 0 ? (px * dx + py * dy) / length : 0;
    at = fmax(0, fmin(1, at));
    return hypot(px - at * dx, py - at * dy);
}

/* (x, y): where dot (0, LINE) of the letter stands. */
static void draw_letter(lr_canvas *canvas, const lr_font *font, int letter, double x, double y) {
    stroke strokes[COLUMNS * ROWS * 4];
    size_t count = strokes_of(letter, strokes);
    double pitch = pitch_of(font), radius = pitch * stroke_of(font) / 2;
    int x0 = (int)floor(x - radius - 1), x1 = (int)ceil(x + (COLUMNS - 1) * pitch + radius + 1);
    int y0 = (int)floor(y - LINE * pitch - radius - 1);
    int y1 = (int)ceil(y + (ROWS - 1 - LINE) * pitch + radius + 1);
    for (int row = y0; row < y1; row++) {
        for (int column = x0; column < x1; column++) {
            double dx = (column + 0.5 - x) / pitch, dy = (row + 0.5 - y) / pitch + LINE, nearest = 99;
            for (size_t i = 0; i < count; i++) nearest = fmin(nearest, distance(&strokes[i], dx, dy));
            lr_canvas_blend(canvas, column, row, font->color, radius - nearest * pitch + 0.5);
        }
    }
}

void lr_text_draw(lr_canvas *canvas, const lr_font *font, double x, double y, lr_align align,
                  const char *text) {
    double pitch = pitch_of(font), radius = pitch * stroke_of(font) / 2;
    int letter;
    if (align == LR_MIDDLE) x -= lr_text_width(font, text) / 2;
    if (align == LR_RIGHT) x -= lr_text_width(font, text);
    for (x += radius, y -= radius; (letter = next_letter(&text)) >= 0;) {
        int left, right;
        extent(letter, &left, &right);
        if (letter != 0) draw_letter(canvas, font, letter, x - left * pitch, y);
        x += pitch * (right - left + gap_of(font));
    }
}

/* ------------------------------------------------------------------ fitting */

lr_status lr_text_fit(char **out, const lr_font *font, const char *text, double width, lr_error *err) {
    lr_status st = LR_OK;
    char *plain = NULL, *cut = NULL;
    size_t n = 0;
    int letter;
    *out = NULL;
    LR_TRY(LR_NEW(&plain, strlen(text) + 1, "a text", err));
    LR_TRY(LR_NEW(&cut, strlen(text) + 4, "a text", err));
    while ((letter = next_letter(&text)) >= 0) plain[n++] = (char)(letter + ' ');
    strcpy(cut, plain);
    for (size_t keep = n; keep > 0 && lr_text_width(font, cut) > width;) {
        keep--;
        size_t head = (keep + 1) / 2, tail = keep / 2;
        memcpy(cut, plain, head);
        strcpy(cut + head, "...");
        strcpy(cut + head + 3, plain + n - tail);
    }
    *out = cut;
    cut = NULL;
done:
    lr_free(plain);
    lr_free(cut);
    return st;
}
