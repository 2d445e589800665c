/* Inside cli/: how the backbone's cost grows with the length of the sequence, as a picture (SVG). */
#ifndef LONGREEL_CLI_BENCH_PLOT_H
#define LONGREEL_CLI_BENCH_PLOT_H

#include <stddef.h>

#include <longreel/status.h>

typedef struct plot_point {
    double tokens;
    double rest;      /* seconds of processor time outside full attention */
    double rest_rate; /* GFLOP a second of a core, there */
    double full;      /* seconds of processor time in full attention, all rows; 0 where there is none */
    double full_rate;
} plot_point;

/* title: a line below the heading; peak: GFLOP a second of a core. The points ascend in tokens. */
lr_status cli_plot_write(const char *path, const char *title, const plot_point *points, size_t count, double peak,
                         lr_error *err);

#endif
