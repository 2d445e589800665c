/* Inside store/: an open set. */
#ifndef LONGREEL_STORE_SET_H
#define LONGREEL_STORE_SET_H

#include <jansson.h>

#include <longreel/store.h>

struct lr_set {
    lr_set_info info; /* what is published; points into the rest */
    char *path, *key, *model_hash, *model_name, *recording, *context, *manifest;
    lr_npy recording_npy, segments_npy, frames_npy;
    lr_segment_row *segment_rows;
    lr_frame_row *frame_rows;
    json_t *files; /* what the manifest says of each file */
};

/* XXH3-128 of what the manifest says about the set, hex: without `run`, `timings` and `memory`, which tell how
 * it was made, and without the hash itself. Taken of the compact text with sorted keys. */
lr_status lr_manifest_hash(const json_t *manifest, char hex[33], lr_error *err);

#endif
