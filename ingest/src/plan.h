/* How the pictures of some grid points are decoded: which packets, by how many decoders with how many threads, cut
 * where. Chosen from the index by cost; whatever is chosen, the pictures are the same. */
#ifndef LRI_PLAN_H
#define LRI_PLAN_H

#include "recording.h"

typedef struct lri_way {
    int workers;      /* decoders, each with segments of its own; 0: chosen */
    int threads;      /* of each decoder, for whole pictures; 0: chosen */
    size_t window;    /* pictures that may wait to be taken; 0: chosen */
    int64_t chunk;    /* grid points that a worker takes at a time, at least; 0: chosen */
    bool feeds_all;   /* decodes also what nothing refers to and no grid point shows */
    bool never_jumps; /* decodes on over whatever lies between two pictures */
} lri_way;

typedef struct lri_plan {
    lri_way way; /* all fields set */
    uint8_t *keep;    /* a bit for each packet that a grid point shows; NULL: all are decoded */
    int64_t *cuts;    /* [n_chunks + 1] grid points */
    size_t n_chunks;
    double cost;      /* packets to be decoded */
} lri_plan;

/* For grid points [first, end). `wish`: NULL, or what is not to be chosen. */
lr_status lri_plan_make(lri_plan *plan, const lr_recording *recording, int64_t first, int64_t end,
                        const lri_way *wish, lr_error *err);
void lri_plan_free(lri_plan *plan);

#endif
