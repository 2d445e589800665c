/* A small recording, a model, and sets made of it, for the tests of what comes after encode. */
#ifndef MADE_SET_H
#define MADE_SET_H

#include "media.h"

#include <longreel/longreel.h>

typedef struct made_set {
    char *directory;  /* of everything here */
    char *recording;  /* talk.mkv: 7 pictures 96 x 64, one a second, and 6.3 s of sound */
    char *model_path; /* a made model of the small size: its vectors have several widths */
    lr_model *model;
    const lr_kernels *kernels;
} made_set;

/* cmocka's group set-up and tear-down; *state is the made_set. */
int made_set_setup(void **state);
int made_set_teardown(void **state);

/* Encode's defaults with small chunks, so that spans are cut by their borders. */
lr_encode_options made_set_options(void);
/* Encodes the recording into directory/name; the path, to be freed by free(). Fails the test. */
char *made_set_encode(const made_set *made, const char *name, const lr_encode_options *options);
/* Fails the test unless both sets hold the same files with the same bytes; of the manifests, `run`,
 * `timings` and `memory` may differ. */
void assert_same_sets(const char *a, const char *b);

#endif
