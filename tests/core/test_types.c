#include "lr_test.h"

#include <string.h>

/* Spans of 1, 3, 0 and 5 tokens; one without tokens never holds one. */
static lr_layout *small_layout(void)
{
    static const uint64_t counts[] = {1, 3, 0, 5};
    lr_error err = {0};
    lr_layout *layout = NULL;
    lrt_assert_ok(LR_NEW(&layout, 1, "a layout", &err), &err);
    lrt_assert_ok(LR_NEW(&layout->spans, 4, "spans", &err), &err);
    lrt_assert_ok(LR_NEW(&layout->ids, 9, "ids", &err), &err);
    lrt_assert_ok(LR_NEW(&layout->windows, 1, "windows", &err), &err);
    layout->n_spans = 4;
    for (size_t i = 0; i < 4; i++) {
        layout->spans[i].first = layout->n_tokens;
        layout->spans[i].count = counts[i];
        layout->n_tokens += counts[i];
    }
    return layout;
}

static void test_span_of_each_token_is_found(void **state)
{
    (void)state;
    static const size_t expected[9] = {0, 1, 1, 1, 3, 3, 3, 3, 3};
    size_t live = lr_alloc_live();
    lr_layout *layout = small_layout();
    for (uint64_t token = 0; token < 9; token++)
        assert_ptr_equal(lr_layout_span_at(layout, token), &layout->spans[expected[token]]);
    assert_null(lr_layout_span_at(layout, 9));
    assert_null(lr_layout_span_at(layout, UINT64_MAX));
    lr_layout_free(layout);
    lr_layout_free(NULL);
    assert_int_equal(lr_alloc_live(), live);
}

static void test_empty_layout_has_no_span(void **state)
{
    (void)state;
    lr_layout layout = {0};
    assert_null(lr_layout_span_at(&layout, 0));
}

static void test_dtypes_have_safetensors_names_and_sizes(void **state)
{
    (void)state;
    static const struct {
        lr_dtype dtype;
        const char *name;
        size_t size;
    } cases[] = {{LR_F32, "F32", 4}, {LR_F64, "F64", 8}, {LR_BF16, "BF16", 2}, {LR_F16, "F16", 2},
                 {LR_I16, "I16", 2}, {LR_I32, "I32", 4}, {LR_I64, "I64", 8}, {LR_U8, "U8", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(lr_dtype_name(cases[i].dtype), cases[i].name);
        assert_int_equal(lr_dtype_size(cases[i].dtype), cases[i].size);
    }
    assert_string_equal(lr_dtype_name((lr_dtype)(LR_U8 + 1)), "unknown");
    assert_int_equal(lr_dtype_size((lr_dtype)(LR_U8 + 1)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_span_of_each_token_is_found),
        cmocka_unit_test(test_empty_layout_has_no_span),
        cmocka_unit_test(test_dtypes_have_safetensors_names_and_sizes),
    };
    return cmocka_run_group_tests_name("core types", tests, NULL, NULL);
}
