/* Inside store/: an open set. */
#ifndef LONGREEL_STORE_SET_H
#define LONGREEL_STORE_SET_H

#include <longreel/store.h>

struct lr_set {
    lr_set_info info; /* what is published; points into the rest */
    char *path, *key, *model_hash, *model_name, *recording, *context, *manifest;
    lr_npy recording_npy, segments_npy, frames_npy;
    lr_segment_row *segment_rows;
    lr_frame_row *frame_rows;
};

#endif
