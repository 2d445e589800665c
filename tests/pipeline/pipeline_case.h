/* What the tests of this folder share: models, small recordings, sets and what is in them. Every function
 * fails the running test itself. */
#ifndef LR_TESTS_PIPELINE_CASE_H
#define LR_TESTS_PIPELINE_CASE_H

#include "lr_test.h"

#include <longreel/longreel.h>

#include "media.h"

/* Sanitizers make everything some ten times slower: fewer combinations are tried then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CASE_SANITIZED true
#else
#define CASE_SANITIZED false
#endif

/* One of tests/fixtures, all towers that it has. */
lr_model *case_model(const char *name, lr_isa isa, lr_gemm gemm);
char *case_fixture(const char *name); /* its directory; free() */

/* A recording of made pictures and sound; 0: none of it. */
typedef struct case_clip {
    const char *name; /* file name in the test's directory, .mkv */
    int width, height;
    lr_rational rate;
    size_t n_pictures;
    size_t n_samples; /* at 16 kHz */
} case_clip;
char *case_make_clip(const char *directory, const case_clip *clip); /* its path; free() */

/* Encodes, and demands success. *result may be NULL; else lr_encode_result_free it. */
void case_encode(lr_model *model, const char *recording, const char *set_path,
                 const lr_encode_options *options, lr_encode_result *result);

/* A set with saved tokens, read back. */
typedef struct case_set {
    lr_set *set;
    const lr_set_info *info;
    lr_checkpoint *tokens; /* NULL where none were saved, and then the rest is 0 */
    size_t n, hidden;
    const int32_t *ids;   /* [n] */
    const double *time;   /* [n] */
    const float *rows;    /* [n, hidden] */
} case_set;
void case_open_set(case_set *out, const char *path);
void case_close_set(case_set *set);

/* Two sets hold the same bytes in every file, and in the manifest but for what says how it was made. `what`
 * tells in the failure which runs they are. */
void case_same_set(const char *path, const char *other, const char *what);

/* `directory` holds the names in `names` (NULL ends them) and nothing else, hidden entries counted. */
void case_holds_only(const char *directory, const char *const *names);

/* A directory of its own for the sets of one test: a setup and a teardown of cmocka. */
typedef struct case_directory {
    char *out;
    char *set; /* out/set */
} case_directory;
extern case_directory case_place;
extern const char *const case_nothing[], *const case_only_set[]; /* for case_holds_only */
int case_new_place(void **state);
int case_remove_place(void **state);

/* out [dim] = the unit vector of the mean of `sum` over `count` tokens after the projection [.., hidden], in
 * double. */
void case_project(const float *projection, size_t hidden, const double *sum, double count, size_t dim,
                  double *out);
/* `got` is the vector `want` rounded: a value of a unit vector is less than 1, so rounding moves it by at
 * most 2^-25; the two double sums differ by their order, less than 1e-12 for the some thousand terms. */
void case_same_vector(const float *got, const double *want, size_t dim, const char *what);

#endif
