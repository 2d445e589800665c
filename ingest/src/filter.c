#include "filter.h"

#include <stdio.h>
#include <string.h>

#include <libavfilter/avfilter.h>
#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>

#include "avutil.h"

void lri_filter_free(lri_filter *filter)
{
    avfilter_graph_free(&filter->graph);
    memset(filter, 0, sizeof *filter);
}

/* A failure of libavfilter: the lack of memory is an error, all else says that it cannot do this. */
static lr_status explain(const lri_filter *filter, int code, lr_error *err)
{
    if (code == AVERROR(ENOMEM)) return lr_fail(err, LR_E_NOMEM, "out of memory: a filter of pictures");
    char cause[AV_ERROR_MAX_STRING_SIZE];
    (void)av_strerror(code, cause, sizeof cause);
    lr_log(LR_LOG_DEBUG, "pictures are not filtered by %s: %s", filter->description, cause);
    return LR_OK;
}

static int make_source(lri_filter *filter, const AVFrame *like)
{
    const AVFilter *buffer = avfilter_get_by_name("buffer");
    filter->source = avfilter_graph_alloc_filter(filter->graph, buffer, "in");
    AVBufferSrcParameters *p = av_buffersrc_parameters_alloc();
    int code = filter->source && p ? 0 : AVERROR(ENOMEM);
    if (code >= 0) {
        p->format = like->format;
        p->width = like->width;
        p->height = like->height;
        p->time_base = (AVRational){1, 1};
        p->sample_aspect_ratio = like->sample_aspect_ratio;
#if LIBAVFILTER_VERSION_INT >= AV_VERSION_INT(9, 16, 100)
        p->color_space = like->colorspace;
        p->color_range = like->color_range;
#endif
        code = av_buffersrc_parameters_set(filter->source, p);
    }
    av_free(p);
    return code < 0 ? code : avfilter_init_str(filter->source, NULL);
}

static int make_graph(lri_filter *filter, const AVFrame *like)
{
    AVFilterInOut *in = avfilter_inout_alloc(), *out = avfilter_inout_alloc();
    filter->graph = avfilter_graph_alloc();
    int code = in && out && filter->graph ? 0 : AVERROR(ENOMEM);
    if (code >= 0) {
        filter->graph->nb_threads = 1;
        code = make_source(filter, like);
    }
    if (code >= 0)
        code = avfilter_graph_create_filter(&filter->sink, avfilter_get_by_name("buffersink"), "out", NULL,
                                            NULL, filter->graph);
    if (code >= 0) {
        /* Named from within the description: its input is what the source gives out. */
        out->name = av_strdup("in");
        out->filter_ctx = filter->source;
        in->name = av_strdup("out");
        in->filter_ctx = filter->sink;
        code = out->name && in->name ? 0 : AVERROR(ENOMEM);
    }
    if (code >= 0) code = avfilter_graph_parse_ptr(filter->graph, filter->description, &in, &out, NULL);
    if (code >= 0) code = avfilter_graph_config(filter->graph, NULL);
    avfilter_inout_free(&in);
    avfilter_inout_free(&out);
    return code;
}

lr_status lri_filter_set(lri_filter *filter, const char *description, const AVFrame *like, bool *usable,
                         lr_error *err)
{
    lr_status st = LR_OK;
    bool same = filter->width == like->width && filter->height == like->height &&
                filter->format == like->format && strcmp(filter->description, description) == 0;
    if (!same) {
        lri_filter_free(filter);
        (void)snprintf(filter->description, sizeof filter->description, "%s", description);
        filter->width = like->width;
        filter->height = like->height;
        filter->format = like->format;
        int code = make_graph(filter, like);
        if (code < 0) {
            st = explain(filter, code, err);
            avfilter_graph_free(&filter->graph);
        }
    }
    *usable = filter->graph != NULL;
    return st;
}

lr_status lri_filter_feed(lri_filter *filter, const AVFrame *frame, AVFrame *result, bool *got, lr_error *err)
{
    *got = false;
    av_frame_unref(result);
    /* The source takes what it is given: a reference of its own. */
    AVFrame *copy = av_frame_clone(frame);
    int code = copy ? av_buffersrc_add_frame_flags(filter->source, copy, AV_BUFFERSRC_FLAG_PUSH)
                    : AVERROR(ENOMEM);
    av_frame_free(&copy);
    while (code >= 0) {
        AVFrame *out = av_frame_alloc();
        code = out ? av_buffersink_get_frame(filter->sink, out) : AVERROR(ENOMEM);
        if (code >= 0) {
            av_frame_unref(result);
            av_frame_move_ref(result, out);
            *got = true;
        }
        av_frame_free(&out);
    }
    if (code == AVERROR(EAGAIN)) return LR_OK;
    *got = false;
    lr_status st = explain(filter, code, err);
    /* What comes next must not depend on what failed. */
    lri_filter_free(filter);
    return st;
}
