/* What cannot be encoded, or may not be: the error names the cause, and nothing is left behind. */
#include "pipeline_case.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct world {
    char *directory; /* recordings */
    char *clip, *silent;
    lr_model *model;
} world;
static world here;

static int set_up(void **state)
{
    (void)state;
    const case_clip clip = {"clip.mkv", 32, 18, {4, 1}, 9, 33000};
    const case_clip silent = {"silent.mkv", 32, 18, {4, 1}, 9, 0};
    here.directory = lrt_temp_dir();
    here.clip = case_make_clip(here.directory, &clip);
    here.silent = case_make_clip(here.directory, &silent);
    here.model = case_model("regular", LR_ISA_AUTO, LR_GEMM_AUTO);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lr_model_close(here.model);
    free(here.clip);
    free(here.silent);
    lrt_remove_temp_dir(here.directory);
    return 0;
}

static lr_encode_options plain_options(void)
{
    lr_encode_options o = lr_encode_defaults();
    o.threads = 1;
    o.chunk = 32;
    o.save_tokens = true;
    return o;
}

/* Encodes, and demands a failure whose text holds `says`. */
static void fails(lr_model *model, const char *recording, const lr_encode_options *o, lr_status status,
                  const char *says)
{
    lr_error err = {0};
    lr_encode_result result;
    lr_status st = lr_encode_recording(model, recording, case_place.set, o, &result, &err);
    if (st != status || err.status != status)
        fail_msg("%s: \"%s\" (%s, wanted %s)", says, err.text, lr_status_name(st), lr_status_name(status));
    if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_null(result.work);
}

/* ------------------------------------------------------------------ options */

static void usage(const lr_encode_options *o, const char *option)
{
    lr_error err = {0};
    assert_int_equal(lr_encode_check(o, here.model, &err), LR_E_USAGE);
    if (!strstr(err.text, option)) fail_msg("\"%s\" does not name %s", err.text, option);
    fails(here.model, here.clip, o, LR_E_USAGE, option);
    case_holds_only(case_place.out, case_nothing);
}

#define WRONG(field, value, option)                                                                          \
    do {                                                                                                     \
        lr_encode_options o_ = plain_options();                                                              \
        o_.field = value;                                                                                    \
        usage(&o_, option);                                                                                  \
    } while (0)

static void test_a_wrong_option_is_named(void **state)
{
    (void)state;
    WRONG(ranks, -1, "--ranks");
    WRONG(ranks, 257, "--ranks");
    WRONG(threads, -1, "--threads");
    WRONG(threads, 5000, "--threads");
    WRONG(chunk, 0, "--chunk");
    WRONG(chunk, UINT64_MAX, "--chunk");
    WRONG(dim, 63, "--dim");
    WRONG(dim, 65, "--dim");
    WRONG(dim, SIZE_MAX, "--dim");
    WRONG(soft_tokens, 71, "--soft-tokens");
    WRONG(soft_tokens, -70, "--soft-tokens");
    WRONG(fps, ((lr_rational){0, 1}), "--fps");
    WRONG(fps, ((lr_rational){1, 0}), "--fps");
    WRONG(fps, ((lr_rational){-1, 1}), "--fps");
    WRONG(fps, ((lr_rational){INT64_C(1) << 40, 1}), "--fps");
    WRONG(segment, 0, "--segment");
    WRONG(segment, LR_TIME_NONE, "--segment");
    WRONG(hop, 0, "--hop");
    WRONG(hop, -LR_TIME_SECOND, "--hop");
    WRONG(start, -LR_TIME_SECOND, "--start");
    WRONG(end, 0, "--end");
    WRONG(audio_track, -2, "--audio-track");
    WRONG(peer_timeout, -1, "--peer-timeout");
    WRONG(peer_timeout, NAN, "--peer-timeout");
}

static void test_options_that_exclude_each_other_are_named(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    o.start = o.end = LR_TIME_SECOND;
    usage(&o, "--start");
    o = plain_options();
    o.video = o.audio = false;
    usage(&o, "--no-video");
    o = plain_options();
    o.save_stages = true;
    o.ranks = 2;
    usage(&o, "--save stages");
}

static void test_options_that_do_not_fit_the_recording_are_refused(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    o.context = 20; /* a frame has 66 soft tokens */
    fails(here.model, here.clip, &o, LR_E_USAGE, "clip.mkv");
    o = plain_options();
    o.stamps = false; /* which sound needs */
    fails(here.model, here.clip, &o, LR_E_USAGE, "stamps");
    o = plain_options();
    o.start = 100 * LR_TIME_SECOND;
    lr_error err = {0};
    lr_encode_result result;
    assert_int_not_equal(lr_encode_recording(here.model, here.clip, case_place.set, &o, &result, &err), LR_OK);
    assert_non_null(strstr(err.text, "clip.mkv"));
    o = plain_options();
    o.audio_track = 1;
    fails(here.model, here.clip, &o, LR_E_USAGE, "track");
    case_holds_only(case_place.out, case_nothing);
}

/* More tokens than any machine has memory for: refused before the work, not at the end of memory. */
static void test_a_run_that_cannot_fit_is_refused(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    o.fps = (lr_rational){900000000, 1};
    fails(here.model, here.silent, &o, LR_E_USAGE, "--fps");
    o.context = 8192;
    fails(here.model, here.silent, &o, LR_E_USAGE, "--fps");
    o = plain_options();
    o.hop = 1; /* 1.4 thousand million segments a second */
    fails(here.model, here.silent, &o, LR_E_USAGE, "--hop");
    case_holds_only(case_place.out, case_nothing);
}

static void test_extreme_options_that_are_right_work(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options();
    o.segment = o.hop = INT64_MAX;
    o.end = INT64_MAX;
    o.ranks = 256;
    o.chunk = 64; /* most ranks have nothing, and need nothing */
    o.save_tokens = false;
    case_encode(here.model, here.clip, case_place.set, &o, NULL);
    case_open_set(&set, case_place.set);
    assert_int_equal(set.info->n_segments, 1);
    assert_true(set.info->segment_rows[0].end == set.info->duration);
    case_close_set(&set);
    o.context = UINT64_MAX;
    o.chunk = 1 << 24;
    o.ranks = 2;
    o.force = true;
    case_encode(here.model, here.clip, case_place.set, &o, NULL);
}

/* ------------------------------------------------------------------ recordings */

static void bad_file(const char *name, const void *bytes, size_t count)
{
    lr_error err = {0};
    lr_encode_result result;
    lr_encode_options o = plain_options();
    char *path = lrt_path(here.directory, name);
    lrt_write(path, bytes, count);
    lr_status st = lr_encode_recording(here.model, path, case_place.set, &o, &result, &err);
    if (st != LR_E_NO_MEDIA && st != LR_E_FORMAT)
        fail_msg("%s: \"%s\" (%s)", name, err.text, lr_status_name(st));
    if (!strstr(err.text, path)) fail_msg("\"%s\" does not name %s", err.text, path);
    assert_int_equal(strncmp(err.text, path, strlen(path)), 0);
    assert_null(strstr(err.text + 1, path)); /* once */
    case_holds_only(case_place.out, case_nothing);
    free(path);
}

static void test_a_file_that_is_no_recording_is_named(void **state)
{
    (void)state;
    static const char text[] = "Dear reader,\nthis is a letter and no film.\n";
    bad_file("empty.mkv", "", 0);
    bad_file("letter.mkv", text, sizeof text - 1);
    bad_file("letter.txt", text, sizeof text - 1);
    bad_file("byte.mp4", "\0", 1);
}

static void test_a_file_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    char *path = lrt_path(here.directory, "missing.mkv");
    fails(here.model, path, &o, LR_E_IO, "missing.mkv: ");
    fails(here.model, path, &o, LR_E_IO, strerror(ENOENT));
    fails(here.model, here.directory, &o, LR_E_IO, here.directory);
    case_holds_only(case_place.out, case_nothing);
    free(path);
}

static void test_nothing_that_the_model_can_encode(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    o.video = false;
    fails(here.model, here.silent, &o, LR_E_NO_MEDIA, "silent.mkv");
    lr_model *text_only = case_model("textonly", LR_ISA_AUTO, LR_GEMM_AUTO);
    o = plain_options();
    fails(text_only, here.clip, &o, LR_E_USAGE, "textonly");
    case_holds_only(case_place.out, case_nothing);
    lr_model_close(text_only);
}

/* ------------------------------------------------------------------ what is there already */

/* Bytes of the manifest and when it was written. */
typedef struct mark {
    char *manifest;
    struct stat info;
} mark;

static mark mark_set(void)
{
    mark m;
    char *path = lrt_path(case_place.set, "manifest.json");
    m.manifest = lrt_slurp(path, NULL);
    assert_int_equal(stat(path, &m.info), 0);
    free(path);
    return m;
}

static void check_untouched(mark *before)
{
    lr_error err = {0};
    mark now = mark_set();
    assert_string_equal(now.manifest, before->manifest);
    assert_int_equal(now.info.st_ino, before->info.st_ino);
    assert_int_equal(now.info.st_mtim.tv_nsec, before->info.st_mtim.tv_nsec);
    lrt_assert_ok(lr_set_verify(case_place.set, &err), &err);
    case_holds_only(case_place.out, case_only_set);
    free(now.manifest);
}

static void check_replaced(const mark *before)
{
    lr_error err = {0};
    mark now = mark_set();
    assert_true(now.info.st_ino != before->info.st_ino ||
                now.info.st_mtim.tv_nsec != before->info.st_mtim.tv_nsec);
    lrt_assert_ok(lr_set_verify(case_place.set, &err), &err);
    case_holds_only(case_place.out, case_only_set);
    free(now.manifest);
}

static void test_the_same_work_is_not_done_again(void **state)
{
    (void)state;
    lr_encode_result first, again;
    lr_encode_options o = plain_options();
    case_encode(here.model, here.clip, case_place.set, &o, &first);
    assert_false(first.skipped);
    mark before = mark_set();
    o.ranks = 3; /* how it is done makes no other work of it */
    o.threads = 2;
    o.peer_timeout = 30;
    case_encode(here.model, here.clip, case_place.set, &o, &again);
    assert_true(again.skipped);
    assert_int_equal(again.tokens, first.tokens);
    assert_int_equal(again.frames, first.frames);
    assert_int_equal(again.segments, first.segments);
    assert_true(again.duration == first.duration);
    check_untouched(&before);
    lr_encode_result_free(&first);
    lr_encode_result_free(&again);
    free(before.manifest);
}

#define OTHER(field, value)                                                                                  \
    do {                                                                                                     \
        lr_encode_options o_ = plain_options();                                                              \
        o_.field = value;                                                                                    \
        fails(here.model, here.clip, &o_, LR_E_EXISTS, case_place.set);                                            \
        check_untouched(&before);                                                                            \
    } while (0)

static void test_other_work_is_not_written_over_a_set(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    case_encode(here.model, here.clip, case_place.set, &o, NULL);
    mark before = mark_set();
    OTHER(chunk, 16);
    OTHER(context, 300);
    OTHER(segment, LR_TIME_SECOND);
    OTHER(hop, LR_TIME_SECOND);
    OTHER(fps, ((lr_rational){2, 1}));
    OTHER(soft_tokens, 140);
    OTHER(start, LR_TIME_SECOND);
    OTHER(end, LR_TIME_SECOND);
    OTHER(video, false);
    OTHER(audio, false);
    fails(here.model, here.silent, &o, LR_E_EXISTS, case_place.set);
    lr_model *other = case_model("long", LR_ISA_AUTO, LR_GEMM_AUTO);
    fails(other, here.clip, &o, LR_E_EXISTS, case_place.set);
    lr_model_close(other);
    other = case_model("regular", LR_ISA_SCALAR, LR_GEMM_PACKED);
    fails(other, here.clip, &o, LR_E_EXISTS, case_place.set);
    lr_model_close(other);
    check_untouched(&before);
    o.force = true;
    o.chunk = 16;
    case_encode(here.model, here.clip, case_place.set, &o, NULL);
    check_replaced(&before);
    free(before.manifest);
}

/* Tokens are part of what was asked for: a set without them is not the same work. */
static void test_a_set_without_the_tokens_asked_for_is_not_taken_for_the_work(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    lr_encode_result result;
    o.save_tokens = false;
    case_encode(here.model, here.clip, case_place.set, &o, NULL);
    mark before = mark_set();
    o.save_tokens = true;
    fails(here.model, here.clip, &o, LR_E_EXISTS, case_place.set);
    check_untouched(&before);
    o.force = true;
    case_encode(here.model, here.clip, case_place.set, &o, NULL);
    free(before.manifest);
    before = mark_set();
    o.force = o.save_tokens = false; /* more than is asked for is enough */
    case_encode(here.model, here.clip, case_place.set, &o, &result);
    assert_true(result.skipped);
    check_untouched(&before);
    lr_encode_result_free(&result);
    free(before.manifest);
}

static void test_what_is_no_set_is_in_the_way(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    lrt_write(case_place.set, "mine", 4);
    for (int force = 0; force < 2; force++) {
        o.force = force;
        fails(here.model, here.clip, &o, LR_E_EXISTS, case_place.set);
        fails(here.model, here.clip, &o, LR_E_EXISTS, "is left as it is");
        char *text = lrt_slurp(case_place.set, NULL);
        assert_string_equal(text, "mine");
        free(text);
        case_holds_only(case_place.out, case_only_set);
    }
}

static void put_other_set(void *arg, const lr_progress *progress)
{
    (void)progress;
    (void)rename(arg, case_place.set); /* the first time; then it is not there any more */
}

static void test_the_same_set_by_another_process_meanwhile_counts(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    char *other = lrt_path(case_place.out, "other");
    lr_encode_result result = {0};
    case_encode(here.model, here.clip, other, &o, NULL);
    o.progress = put_other_set;
    o.progress_arg = other;
    case_encode(here.model, here.clip, case_place.set, &o, &result);
    assert_true(result.skipped);
    assert_true(result.segments > 0);
    lr_encode_result_free(&result);
    case_holds_only(case_place.out, case_only_set);
    free(other);
}

/* Where the set would take the place of the recording itself, also under another name. */
static void test_a_recording_never_loses_its_place_to_its_set(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    size_t bytes = 0, after = 0;
    char *content = lrt_slurp(here.clip, &bytes);
    lr_error err = {0};
    lr_encode_result result;
    o.force = true;
    assert_int_equal(link(here.clip, case_place.set), 0);
    assert_int_equal(lr_encode_recording(here.model, here.clip, here.clip, &o, &result, &err), LR_E_EXISTS);
    fails(here.model, here.clip, &o, LR_E_EXISTS, "is left as it is");
    char *text = lrt_slurp(case_place.set, &after);
    assert_int_equal(after, bytes);
    assert_memory_equal(text, content, bytes);
    free(text);
    free(content);
}

static void test_a_place_where_no_directory_can_be_made_is_named(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    char *file = lrt_path(case_place.out, "file"), *set = lrt_path(file, "set");
    static const char *const only_file[] = {"file", NULL};
    lr_error err = {0};
    lr_encode_result result;
    lrt_write(file, "", 0);
    assert_int_equal(lr_encode_recording(here.model, here.clip, set, &o, &result, &err), LR_E_IO);
    assert_non_null(strstr(err.text, file));
    case_holds_only(case_place.out, only_file);
    free(set);
    free(file);
}

/* ------------------------------------------------------------------ a full disk */

/* A file may not grow past the limit: writes fail as on a full disk. */
static lr_status encode_limited(rlim_t bytes, const lr_encode_options *o, lr_error *err)
{
    struct rlimit old, less;
    lr_encode_result result;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    less = (struct rlimit){.rlim_cur = bytes, .rlim_max = old.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    lr_status st = lr_encode_recording(here.model, here.clip, case_place.set, o, &result, err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, handler);
    lr_encode_result_free(&result);
    return st;
}

static void disk_full(const lr_encode_options *o, rlim_t bytes)
{
    lr_error err = {0};
    lr_status st = encode_limited(bytes, o, &err);
    if (st != LR_E_IO || err.status != LR_E_IO || !strstr(err.text, strerror(EFBIG)))
        fail_msg("%d bytes: \"%s\" (%s)", (int)bytes, err.text, lr_status_name(st));
    if (!strstr(err.text, case_place.out) && !strstr(err.text, "temporary file"))
        fail_msg("\"%s\" does not name the file", err.text);
}

static void test_a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    static const rlim_t limits[] = {0, 100, 300, 600, 1000, 2000, 20000, 39000};
    for (int ranks = 1; ranks <= 2; ranks++)
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
            lr_encode_options o = plain_options();
            o.ranks = ranks;
            disk_full(&o, limits[i]);
            case_holds_only(case_place.out, case_nothing);
        }
    lr_encode_options o = plain_options();
    o.save_tokens = false;
    o.save_stages = true;
    disk_full(&o, 20000);
    case_holds_only(case_place.out, case_nothing);
    case_encode(here.model, here.clip, case_place.set, &o, NULL);
}

static void test_a_full_disk_keeps_the_set_that_was_to_be_replaced(void **state)
{
    (void)state;
    lr_encode_options o = plain_options();
    case_encode(here.model, here.clip, case_place.set, &o, NULL);
    mark before = mark_set();
    o.force = true;
    o.chunk = 16;
    disk_full(&o, 0);
    check_untouched(&before);
    disk_full(&o, 20000);
    check_untouched(&before);
    free(before.manifest);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, case_new_place, case_remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_wrong_option_is_named),
        TEST(test_options_that_exclude_each_other_are_named),
        TEST(test_options_that_do_not_fit_the_recording_are_refused),
        TEST(test_a_run_that_cannot_fit_is_refused),
        TEST(test_extreme_options_that_are_right_work),
        TEST(test_a_file_that_is_no_recording_is_named),
        TEST(test_a_file_that_cannot_be_read_is_named),
        TEST(test_nothing_that_the_model_can_encode),
        TEST(test_the_same_work_is_not_done_again),
        TEST(test_other_work_is_not_written_over_a_set),
        TEST(test_a_set_without_the_tokens_asked_for_is_not_taken_for_the_work),
        TEST(test_what_is_no_set_is_in_the_way),
        TEST(test_the_same_set_by_another_process_meanwhile_counts),
        TEST(test_a_recording_never_loses_its_place_to_its_set),
        TEST(test_a_place_where_no_directory_can_be_made_is_named),
        TEST(test_a_full_disk_leaves_nothing),
        TEST(test_a_full_disk_keeps_the_set_that_was_to_be_replaced),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
