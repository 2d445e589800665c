/* The published shape with made weights (1.5 GB of disk in the temporary directory): loads, runs, and
 * gives the same bytes on three ranks; and its memory is what docs/performance.md says. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

/* Bytes a token of all ranks of one process together, a thread each. */
static double bytes_a_token(const lr_model *model, uint64_t tokens, int ranks)
{
    lr_error err = {0};
    lr_partition partition;
    const lr_comm shared = {.size = ranks, .shares_memory = 1};
    double bytes = (double)tokens * (double)lr_model_info_of(model)->hidden * sizeof(float);
    lrt_assert_ok(lr_partition_create(&partition, tokens, 1024, ranks, &err), &err);
    const lr_backbone_run run = {.comm = (lr_comm *)(uintptr_t)&shared, .partition = &partition};
    for (int r = 0; r < ranks; r++) {
        size_t rank = 0;
        lrt_assert_ok(lr_backbone_memory(model, &run, r, 1, &rank, &err), &err);
        bytes += (double)rank;
    }
    lr_partition_free(&partition);
    return bytes / (double)tokens;
}

static void assert_memory_is_small(const lr_model *model)
{
    assert_true(bytes_a_token(model, 8192, 1) < 20e3);
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        assert_true(bytes_a_token(model, 8192, ranks) < 26e3);
        assert_true(bytes_a_token(model, 65536, ranks) < 26e3);
    }
}

static void test_the_full_size_model_loads_and_runs(void **state)
{
    (void)state;
    lr_error err = {0};
    char *dir = lrt_temp_dir(), *path = lrt_path(dir, "full");
    lrt_assert_ok(lr_make_model(path, "embeddinggemma2", LR_MADE_FULL, 1, &err), &err);
    lr_model *model = fixture_model(path, fixture_kernels(LR_ISA_AUTO), true, true);
    const lr_model_info *info = lr_model_info_of(model);
    assert_int_equal(info->n_values, 744371992);
    assert_int_equal(info->n_layers, 24);
    assert_int_equal(info->dim, 768);
    assert_int_equal(info->n_dims, 4);
    assert_int_equal(info->dims[3], 128);
    assert_int_equal(lr_tokenizer_size(info->tokenizer), 262144);
    assert_int_equal(info->rules.video_soft, 258884);
    assert_int_equal(lr_tokenizer_id(info->tokenizer, "<|video|>"), 258884);
    assert_memory_is_small(model);

    /* longer than the window of 512 on each side, and than one tile and one chunk */
    const size_t n = 1100, count = n * 512;
    int32_t *ids = calloc(n, sizeof *ids);
    float *first = calloc(count, sizeof *first), *x = calloc(count, sizeof *x), vector[768];
    double sum[512] = {0}, square = 0;
    assert_true(ids && first && x);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(5 + i * 131 % 2000);
    lrt_assert_ok(lr_embed_ids(model, ids, n, first, &err), &err);
    memcpy(x, first, count * sizeof *x);
    fixture_forward(model, first, n, 256, 1, 2, LR_SCHEDULE_AUTO, NULL, NULL);
    fixture_forward(model, x, n, 256, 3, 1, LR_SCHEDULE_AUTO, NULL, NULL);
    assert_memory_equal(x, first, count * sizeof *x);
    lr_model_kernels(model)->sum_rows(sum, x, 512, n, 512);
    lrt_assert_ok(lr_project(model, sum, n, 768, vector, &err), &err);
    for (size_t i = 0; i < 768; i++) square += (double)vector[i] * (double)vector[i];
    assert_true(square > 1 - 1e-6 && square < 1 + 1e-6); /* 768 roundings to fp32 */
    free(ids);
    free(first);
    free(x);
    lr_model_close(model);
    free(path);
    lrt_remove_temp_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_full_size_model_loads_and_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
