/* An index that is handed on gives the same recording. */
#include "recordings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char *dir, *path;
static lr_recording *original;
static void *packed;
static size_t n_packed;

static const lrm_film film = {.encoder = "mpeg4",
                              .format = AV_PIX_FMT_YUV420P,
                              .width = 96,
                              .height = 64,
                              .frames = 60,
                              .rate = {25, 1},
                              .luma = 20,
                              .step = 3};

static int set_up(void **state)
{
    (void)state;
    lr_error err = {0};
    dir = lrt_temp_dir();
    path = lrt_path(dir, "film.mkv");
    lrm_record(path, "matroska", &film, NULL);
    lr_ingest_options options = lr_ingest_defaults();
    options.fps = (lr_rational){5, 1};
    original = lrm_open(path, &options);
    return lr_recording_pack(original, &packed, &n_packed, &err) == LR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    lr_free(packed);
    lr_recording_close(original);
    free(path);
    lrt_remove_temp_dir(dir);
    return 0;
}

static lr_status unpack(const char *file, lr_recording **out, lr_error *err)
{
    const lr_ingest_options options = lr_ingest_defaults();
    return lr_recording_unpack(out, packed, n_packed, file, &options, err);
}

static void check_same(const lr_recording *other, const char *file)
{
    const lr_timeline *a = lr_recording_timeline(original), *b = lr_recording_timeline(other);
    lrm_reading x, y;
    assert_string_equal(b->path, file);
    assert_string_equal(a->content_hash, b->content_hash);
    assert_int_equal(a->duration, b->duration);
    assert_int_equal(a->video.n_frames, b->video.n_frames);
    assert_memory_equal(&a->video, &b->video, sizeof a->video);
    assert_int_equal(a->n_damage, b->n_damage);
    assert_int_equal(a->n_warnings, b->n_warnings);
    for (size_t i = 0; i < a->n_warnings; i++) assert_string_equal(a->warnings[i], b->warnings[i]);
    lrm_read_frames(original, 0, a->video.n_frames, &x);
    lrm_read_frames(other, 0, b->video.n_frames, &y);
    assert_memory_equal(x.luma, y.luma, (size_t)a->video.n_frames * sizeof *x.luma);
    assert_memory_equal(x.pts, y.pts, (size_t)a->video.n_frames * sizeof *x.pts);
    lrm_free_reading(&x);
    lrm_free_reading(&y);
}

static char *copy_of(const char *name, size_t altered)
{
    size_t bytes;
    char *copy = lrt_path(dir, name), *data = lrt_slurp(path, &bytes);
    if (altered) data[bytes - altered] ^= 1;
    lrt_write(copy, data, bytes);
    free(data);
    return copy;
}

static void test_the_index_of_another_rank_shows_the_same_frames(void **state)
{
    (void)state;
    lr_recording *other;
    lr_error err = {0};
    lrt_assert_ok(unpack(path, &other, &err), &err);
    check_same(other, path);
    lr_recording_close(other);
}

static void test_a_copy_of_the_file_will_do(void **state)
{
    (void)state;
    lr_recording *other;
    lr_error err = {0};
    char *copy = copy_of("copy.mkv", 0);
    lrt_assert_ok(unpack(copy, &other, &err), &err);
    check_same(other, copy);
    lr_recording_close(other);
    free(copy);
}

static void test_another_file_is_refused(void **state)
{
    (void)state;
    lr_recording *other;
    lr_error err = {0};
    char *altered = copy_of("altered.mkv", 100);
    assert_int_equal(unpack(altered, &other, &err), LR_E_FORMAT);
    assert_null(other);
    assert_non_null(strstr(err.text, "altered.mkv: is another file here than on rank 0"));
    lr_error gone = {0};
    assert_int_equal(unpack("/nowhere/film.mkv", &other, &gone), LR_E_IO);
    free(altered);
}

static void test_an_index_that_is_cut_off_is_refused(void **state)
{
    (void)state;
    const lr_ingest_options options = lr_ingest_defaults();
    for (size_t n = 0; n < n_packed; n += n < 200 ? 1 : 97) {
        lr_recording *other;
        unsigned char *cut = lr_alloc(n);
        memcpy(cut, packed, n);
        assert_int_equal(lr_recording_unpack(&other, cut, n, path, &options, NULL), LR_E_INTERNAL);
        lr_free(cut);
    }
}

static lr_status pack_work(void *arg, lr_error *err)
{
    (void)arg;
    void *bytes = NULL;
    size_t count;
    lr_recording *other = NULL;
    lr_status st = lr_recording_pack(original, &bytes, &count, err);
    if (st == LR_OK) st = unpack(path, &other, err);
    lr_recording_close(other);
    lr_free(bytes);
    return st;
}

static void test_each_failed_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(lrt_fail_each_allocation(pack_work, NULL) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_index_of_another_rank_shows_the_same_frames),
        cmocka_unit_test(test_a_copy_of_the_file_will_do),
        cmocka_unit_test(test_another_file_is_refused),
        cmocka_unit_test(test_an_index_that_is_cut_off_is_refused),
        cmocka_unit_test(test_each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("ingest/pack", tests, set_up, tear_down);
}
