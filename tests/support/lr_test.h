/* What the tests of all folders share. Includes cmocka and what it needs before it.
 *
 * The functions here fail the running test themselves (a missing file, a full disk): call them from
 * the test's own thread only, as all of cmocka's assertions. */
#ifndef LR_TEST_H
#define LR_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
/* Since cmocka 2 the name says the kind of number. */
#ifdef assert_uint_in_range
#undef assert_in_range
#define assert_in_range(value, least, most) assert_uint_in_range(value, least, most)
#endif

#include <longreel/core.h>

/* ------------------------------------------------------------------ random numbers */

/* xoshiro256**, seeded by splitmix64. The seed is LR_SEED of the environment, else a fixed one; it
 * is printed once a program. `stream` gives each test numbers of its own, so that a test can be run
 * alone. */
typedef struct lrt_random {
    uint64_t state[4];
} lrt_random;

uint64_t lrt_seed(void);
void lrt_random_init(lrt_random *random, uint64_t stream);
/* What LR_SEED=seed would give, whatever it is: for a case that was found. */
void lrt_random_from(lrt_random *random, uint64_t seed, uint64_t stream);
uint64_t lrt_next(lrt_random *random);
/* Uniform in [0, n), n > 0. */
uint64_t lrt_below(lrt_random *random, uint64_t n);
/* Uniform in [low, high]. */
int64_t lrt_between(lrt_random *random, int64_t low, int64_t high);
/* Uniform in [low, high). */
float lrt_uniform(lrt_random *random, float low, float high);
/* Normal with mean 0 and deviation 1. */
float lrt_normal(lrt_random *random);
void lrt_fill_uniform(lrt_random *random, float *out, size_t n, float low, float high);
void lrt_fill_normal(lrt_random *random, float *out, size_t n, float deviation);

/* ------------------------------------------------------------------ files */

/* A new empty directory below TMPDIR (or /tmp). lrt_remove_temp_dir removes it with all it holds and
 * frees the path. */
char *lrt_temp_dir(void);
void lrt_remove_temp_dir(char *path);
/* One for all tests of a program: setup and teardown of cmocka_run_group_tests(). */
extern char *lrt_dir;
int lrt_make_dir(void **state);
int lrt_remove_dir(void **state);
/* "dir/name" in a block to be freed with free(). */
char *lrt_path(const char *dir, const char *name);
/* The whole file in a block to be freed with free(); one NUL follows the bytes. `bytes` may be NULL. */
void *lrt_slurp(const char *path, size_t *bytes);
void lrt_write(const char *path, const void *data, size_t bytes);
bool lrt_exists(const char *path);

/* ------------------------------------------------------------------ allocation failures */

/* Does the work and frees everything it made, whether it succeeded or not. */
typedef lr_status (*lrt_work)(void *arg, lr_error *err);

/* Runs `work` with its 1st, 2nd, ... lr_alloc failing, until none fails. A run with a failed
 * allocation must return LR_E_NOMEM with a text; every run must leave as many bytes live as there
 * were before it. Returns the number of allocations of the run that succeeds. */
uint64_t lrt_fail_each_allocation(lrt_work work, void *arg);

/* ------------------------------------------------------------------ guarded memory */

/* n floats that end where a page begins that can be neither read nor written, all NaN, and with NaNs
 * before them: reading or writing past the end is a fault, reading before the start a NaN, writing
 * there fails the test in lrt_guarded_free. Aligned to 4 bytes only, unless n is a multiple of 16. */
float *lrt_guarded(size_t n);
void lrt_guarded_free(float *block);

/* ------------------------------------------------------------------ status */

/* Succeeds only for LR_OK and otherwise fails the test with the error's text. */
/* Whether the processor is emulated (LR_TEST_EMULATED is set): large grids are then worked in wider steps. */
bool lrt_emulated(void);

#define lrt_assert_ok(status, err)                                                                 \
    do {                                                                                           \
        lr_status lrt_status_ = (status);                                                          \
        if (lrt_status_ != LR_OK)                                                                  \
            fail_msg("%s: %s (%s)", #status, (err)->text, lr_status_name(lrt_status_));            \
    } while (0)

#endif
