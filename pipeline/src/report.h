/* Inside pipeline/: what a report shows, gathered (report.c, similarity.c) and drawn (sheet.c). */
#ifndef LONGREEL_PIPELINE_REPORT_H
#define LONGREEL_PIPELINE_REPORT_H

#include <jansson.h>

#include <longreel/report.h>
#include <longreel/store.h>

#include "canvas.h"

typedef struct lr_thumbnail {
    uint8_t *rgb; /* [height, width, 3] */
    int width, height;
    double t;
    bool substituted;
} lr_thumbnail;

typedef struct lr_loudness { /* of equal stretches from the sheet's begin to its end */
    float *mean, *peak; /* [count] dB below full scale; -INFINITY: silence; NaN: no samples */
    size_t count;
} lr_loudness;

/* Cosines between cells: single segments, or where there are more of them than pixels, means of several. */
typedef struct lr_similarity {
    float *cosines; /* [n, n] */
    size_t n;
    int *cell_at;   /* [columns] which cell a column of the picture shows; -1: none */
    size_t columns;
    double low, high; /* what the colours span */
    bool less;        /* some values are below low */
} lr_similarity;

lr_status lr_similarity_make(lr_similarity *out, const lr_set_info *set, double begin, double end,
                             size_t columns, lr_error *err);
void lr_similarity_free(lr_similarity *similarity);

typedef struct lr_report_sheet {
    const lr_set_info *set;
    const json_t *manifest;
    double begin, end; /* seconds: what was encoded */
    lr_thumbnail *thumbnails;
    size_t n_thumbnails;
    double aspect;     /* width / height of the recording's picture */
    lr_loudness loudness;
    lr_similarity similarity;
    const char *note;  /* why there are no frames and no loudness; "" */
} lr_report_sheet;

/* Columns of the time axis, which map and loudness share. */
#define LR_SHEET_COLUMNS 984
/* Thumbnails at most, and how wide one is at most. */
#define LR_SHEET_THUMBNAILS 20
#define LR_SHEET_THUMBNAIL_WIDTH 352

lr_status lr_sheet_draw(lr_canvas *out, const lr_report_sheet *sheet, lr_error *err);

#endif
