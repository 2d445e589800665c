/* The harness of the kernel tests: each slot of each instruction set that this processor runs,
 * against the formula in double precision, against the scalar reference, against itself on single
 * rows; and the clock of --bench. */
#ifndef LR_TEST_KERNELS_CHECK_H
#define LR_TEST_KERNELS_CHECK_H

#include "lr_test.h"

#include <longreel/kernels.h>

/* The unit roundoff of fp32: a correctly rounded operation is off by at most U relatively. */
#define U 0x1p-24

/* ------------------------------------------------------------------ tables */

#define CHECK_MOST_TABLES 3
/* One table an instruction set, the scalar one first; returns how many. */
size_t check_tables(const lr_kernels *out[CHECK_MOST_TABLES]);

/* ------------------------------------------------------------------ slots that work on rows */

/* One call of such a slot. Flat slots (float *y, const float *x, size_t n) are called once where
 * the rows follow one another, else row by row. */
typedef struct rows_call {
    float *y; /* [rows, ldy] */
    size_t ldy;
    const float *before; /* what stood in y, for slots that add to it */
    const float *x[2];   /* [rows, ldx] */
    size_t ldx[2];
    const float *column[2]; /* [dim]; NULL where absent */
    size_t rows, dim;
} rows_call;

typedef struct rows_slot {
    const char *name;
    size_t n_inputs;
    size_t n_columns;
    bool adds;       /* y is read and written */
    bool in_place;   /* y may be x[0] */
    bool one_stride; /* the inputs share it */
    bool exact;      /* rounds as the scalar reference does */
    float deviation; /* of the random inputs */
    void (*run)(const lr_kernels *kernels, const rows_call *call);
    /* What row `row` should be, and how far each value may be off. */
    void (*truth)(const rows_call *call, size_t row, double *y, double *bound);
} rows_slot;

/* Whether each value of `row` of `call` lies within its bound. */
void check_row(const rows_slot *slot, const lr_kernels *kernels, const rows_call *call, size_t row);
/* The slot over a grid of shapes, strides and alignments, in guarded memory. */
void check_rows_slot(const rows_slot *slot);
void bench_rows_slot(const rows_slot *slot, const char *only);

/* ------------------------------------------------------------------ comparing and guarding */

void check_same_bits(const char *what, const float *a, const float *b, size_t n);
/* `bytes` bytes that end where a page begins that cannot be touched. */
uint8_t *guarded_bytes(size_t bytes, float **block);
/* `bytes` bytes, at most a page, that begin where a page ends that cannot be touched; freed with
 * front_guarded_free. */
uint8_t *front_guarded_bytes(size_t bytes);
void front_guarded_free(uint8_t *bytes);
/* Fills x with floats of all kinds of alignment; returns x. */
float *guarded_normal(lrt_random *random, size_t n, float deviation);

/* ------------------------------------------------------------------ the clock */

typedef void (*bench_body)(void *arg, const lr_kernels *kernels);
/* Times body on each table and prints nanoseconds a call with `work` per nanosecond in `unit`
 * (bytes: "GB/s", operations: "GFLOP/s"). `only`: NULL, or part of the names wanted. */
void bench(const char *name, const char *only, bench_body body, void *arg, double work,
           const char *unit);

/* ------------------------------------------------------------------ groups of tests */

extern const rows_slot check_norm_slots[], check_activation_slots[], check_elementwise_slots[];
extern const size_t check_n_norm_slots, check_n_activation_slots, check_n_elementwise_slots;

void test_activations_hold_their_bound_at_every_magnitude(void **state);
void test_activations_keep_infinities_and_nans(void **state);
void test_rope_half_turns_each_head(void **state);
void test_rope_pairs_turns_each_value_by_its_own_angle(void **state);
void test_sum_rows_adds_in_ascending_order(void **state);
void test_dot_is_within_its_bound(void **state);
void test_clamp_and_relu_keep_nans_and_signs_of_zero(void **state);
void test_every_bf16_value_converts(void **state);
void test_every_f16_value_converts(void **state);
void bench_elementwise(const char *only);

void test_resize_equals_the_published_formula(void **state);
void test_resize_equals_the_fixtures(void **state);
void test_resize_slots_stay_inside_their_pictures(void **state);
void test_resize_refuses_impossible_sizes(void **state);
void test_resize_survives_each_failed_allocation(void **state);
void bench_resize(const char *only);

void test_rope_angles_equal_long_double(void **state);
void test_rope_angles_depend_on_position_alone(void **state);
void test_rope_refuses_impossible_tables(void **state);
void test_rope_survives_each_failed_allocation(void **state);
void bench_rope_angles(const char *only);

void test_tables_are_complete(void **state);
void test_auto_takes_the_best_table(void **state);
void test_environment_overrides_auto_only(void **state);
void test_environment_with_an_unknown_name_is_an_error(void **state);

#endif
