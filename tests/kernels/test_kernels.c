/* Every slot of every table but linear layers and attention, which have programs of their own.
 * test_kernels --bench [PART] times the slots whose name holds PART. */
#include "check.h"

#include <stdio.h>
#include <string.h>

static void test_norms_are_within_their_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < check_n_norm_slots; i++)
        check_rows_slot(&check_norm_slots[i]);
}

static void test_activations_are_within_their_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < check_n_activation_slots; i++)
        check_rows_slot(&check_activation_slots[i]);
}

static void test_elementwise_slots_round_as_the_scalar_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < check_n_elementwise_slots; i++)
        check_rows_slot(&check_elementwise_slots[i]);
}

static void bench_all(const char *only)
{
    for (size_t i = 0; i < check_n_norm_slots; i++)
        bench_rows_slot(&check_norm_slots[i], only);
    for (size_t i = 0; i < check_n_activation_slots; i++)
        bench_rows_slot(&check_activation_slots[i], only);
    for (size_t i = 0; i < check_n_elementwise_slots; i++)
        bench_rows_slot(&check_elementwise_slots[i], only);
    bench_elementwise(only);
    bench_resize(only);
    bench_rope_angles(only);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--bench")) {
        bench_all(argc > 2 ? argv[2] : NULL);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_are_complete),
        cmocka_unit_test(test_auto_takes_the_best_table),
        cmocka_unit_test(test_environment_overrides_auto_only),
        cmocka_unit_test(test_environment_with_an_unknown_name_is_an_error),
        cmocka_unit_test(test_norms_are_within_their_bounds),
        cmocka_unit_test(test_activations_are_within_their_bounds),
        cmocka_unit_test(test_activations_hold_their_bound_at_every_magnitude),
        cmocka_unit_test(test_activations_keep_infinities_and_nans),
        cmocka_unit_test(test_elementwise_slots_round_as_the_scalar_reference),
        cmocka_unit_test(test_clamp_and_relu_keep_nans_and_signs_of_zero),
        cmocka_unit_test(test_rope_half_turns_each_head),
        cmocka_unit_test(test_rope_pairs_turns_each_value_by_its_own_angle),
        cmocka_unit_test(test_sum_rows_adds_in_ascending_order),
        cmocka_unit_test(test_dot_is_within_its_bound),
        cmocka_unit_test(test_every_bf16_value_converts),
        cmocka_unit_test(test_every_f16_value_converts),
        cmocka_unit_test(test_resize_equals_the_published_formula),
        cmocka_unit_test(test_resize_equals_the_fixtures),
        cmocka_unit_test(test_resize_slots_stay_inside_their_pictures),
        cmocka_unit_test(test_resize_refuses_impossible_sizes),
        cmocka_unit_test(test_resize_survives_each_failed_allocation),
        cmocka_unit_test(test_rope_angles_equal_long_double),
        cmocka_unit_test(test_rope_angles_depend_on_position_alone),
        cmocka_unit_test(test_rope_refuses_impossible_tables),
        cmocka_unit_test(test_rope_survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
