/* A libavfilter graph from one frame to one frame, by one thread. */
#ifndef LRI_FILTER_H
#define LRI_FILTER_H

#include <stdbool.h>

#include <libavutil/frame.h>

#include <longreel/core.h>

struct AVFilterGraph;
struct AVFilterContext;

typedef struct lri_filter {
    struct AVFilterGraph *graph;
    struct AVFilterContext *source, *sink;
    char description[192];
    int width, height, format; /* what it is set up for; without a graph: libavfilter cannot do that */
} lri_filter;

/* Sets up for frames like this one, unless that is done. *usable false: libavfilter cannot. */
lr_status lri_filter_set(lri_filter *filter, const char *description, const AVFrame *like, bool *usable,
                         lr_error *err);
/* Feeds a frame and takes the last one that comes of it into `result` (*got). Where libavfilter fails, *got is
 * false and the filter has to be set up again. */
lr_status lri_filter_feed(lri_filter *filter, const AVFrame *frame, AVFrame *result, bool *got, lr_error *err);
void lri_filter_free(lri_filter *filter);

#endif
