/* The rules of a recording's sequence, one by one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "layout_case.h"

#define HALF (LR_TIME_SECOND / 2)

/* ------------------------------------------------------------------ stamps */

static void test_stamps_have_no_hours(void **state)
{
    (void)state;
    recording *r = recording_create(6003, 1, 1, 6003);
    lr_layout *layout = recording_layout(r);
    char *text = layout_text(layout);
    assert_non_null(strstr(text, " 59:59 [V*2] 60:00 [V*2] 60:01 "));
    assert_non_null(strstr(text, " 99:59 [V*2] 100:00 [V*2] 100:01 "));
    check_layout(r, layout);
    free(text);
    lr_layout_free(layout);
    recording_free(r);
}

static void test_stamps_round_half_to_even(void **state)
{
    (void)state;
    recording *r = recording_create(6, 2, 1, 3);
    assert_layout(r, "00:00 [V*2] 00:00 [V*2] 00:01 [V*2] 00:02 [V*2] 00:02 [V*2] 00:02 [V*2]");
    recording_free(r);
}

static void test_a_stamp_is_the_shown_frame_s_time_within_half_a_step(void **state)
{
    (void)state;
    recording *r = recording_create(5, 1, 1, 5);
    r->frame_pts[1] = LR_TIME_SECOND - HALF; /* 0.5, half a step off: shown, and rounds to 0 */
    r->frame_pts[2] = 2 * LR_TIME_SECOND - HALF - 1; /* further off: t_2 stands */
    r->frame_pts[3] = 0;                             /* a slide */
    r->frame_pts[4] = LR_TIME_NONE;
    assert_layout(r, "00:00 [V*2] 00:00 [V*2] 00:02 [V*2] 00:03 [V*2] 00:04 [V*2]");
    lr_layout *layout = recording_layout(r);
    assert_int_equal(layout->spans[2].stamp, LR_TIME_SECOND - HALF);
    assert_int_equal(layout->spans[2].time, LR_TIME_SECOND);
    assert_int_equal(layout->spans[3].stamp, 2 * LR_TIME_SECOND);
    lr_layout_free(layout);
    recording_free(r);
    r = recording_create(2, 1, 5, 10); /* every 5 s: half a step is 2.5 s */
    r->frame_pts[1] = 2 * LR_TIME_SECOND + HALF;
    assert_layout(r, "00:00 [V*2] 00:02 [V*2]");
    r->frame_pts[1]--;
    assert_layout(r, "00:00 [V*2] 00:05 [V*2]");
    recording_free(r);
}

static void test_without_stamps_frames_stand_side_by_side(void **state)
{
    (void)state;
    recording *r = recording_create(3, 1, 1, 3);
    r->in.stamps = false;
    assert_layout(r, "[V*2][V*2][V*2]");
    r->in.tokenizer = NULL; /* not needed */
    lr_layout *layout = recording_layout(r);
    assert_int_equal(layout->n_tokens, 2 + 3 * 4);
    assert_int_equal(layout->spans[1].stamp, LR_TIME_NONE);
    lr_layout_free(layout);
    recording_free(r);
}

/* ------------------------------------------------------------------ sound */

static void test_sound_is_dealt_out_a_second_at_a_time(void **state)
{
    (void)state;
    recording *r = recording_create(3, 1, 1, 3.7);
    r->in.n_sound_tokens = 93; /* 3.7 s: the last second takes the rest */
    assert_layout(r, "00:00 [V*2] 00:00 (A*25) 00:01 [V*2] 00:01 (A*25) 00:02 [V*2] 00:02 (A*43)");
    lr_layout *layout = recording_layout(r);
    const lr_span *second = &layout->spans[4];
    assert_int_equal(second->kind, LR_SPAN_SOUND);
    assert_int_equal(second->index, 1);
    assert_int_equal(second->time, LR_TIME_SECOND);
    assert_int_equal(second->source, 25);
    assert_int_equal(layout->ids[second->soft_first], r->in.rules.audio_soft);
    assert_int_equal(layout->ids[second->soft_first - 1], r->in.rules.begin_audio);
    lr_layout_free(layout);
    recording_free(r);
}

static void test_shorter_sound_leaves_no_empty_seconds(void **state)
{
    (void)state;
    recording *r = recording_create(4, 1, 1, 4);
    r->in.n_sound_tokens = 30;
    assert_layout(r, "00:00 [V*2] 00:00 (A*25) 00:01 [V*2] 00:01 (A*5) 00:02 [V*2] 00:03 [V*2]");
    r->in.n_sound_tokens = 25;
    assert_layout(r, "00:00 [V*2] 00:00 (A*25) 00:01 [V*2] 00:02 [V*2] 00:03 [V*2]");
    r->in.n_sound_tokens = 1;
    assert_layout(r, "00:00 [V*2] 00:00 (A*1) 00:01 [V*2] 00:02 [V*2] 00:03 [V*2]");
    recording_free(r);
}

static void test_longer_sound_joins_the_last_second_or_gets_its_own(void **state)
{
    (void)state;
    recording *r = recording_create(2, 1, 1, 2);
    r->in.n_sound_tokens = 74; /* 24 too many */
    assert_layout(r, "00:00 [V*2] 00:00 (A*25) 00:01 [V*2] 00:01 (A*49)");
    r->in.n_sound_tokens = 75; /* a second more */
    assert_layout(r, "00:00 [V*2] 00:00 (A*25) 00:01 [V*2] 00:01 (A*25) 00:02 (A*25)");
    r->in.n_sound_tokens = 110;
    assert_layout(r, "00:00 [V*2] 00:00 (A*25) 00:01 [V*2] 00:01 (A*25) 00:02 (A*25) 00:03 (A*35)");
    recording_free(r);
    r = recording_create(1, 1, 1, 0.4); /* a picture of less than a second counts as one */
    r->in.n_sound_tokens = 10;
    assert_layout(r, "00:00 [V*2] 00:00 (A*10)");
    r->in.n_sound_tokens = 49;
    assert_layout(r, "00:00 [V*2] 00:00 (A*49)");
    r->in.n_sound_tokens = 50;
    assert_layout(r, "00:00 [V*2] 00:00 (A*25) 00:01 (A*25)");
    recording_free(r);
}

static void test_seconds_stand_before_the_next_frame_s_rounded_second(void **state)
{
    (void)state;
    recording *r = recording_create(6, 2, 1, 3); /* stamps 0 0.5 1 1.5 2 2.5 show 0 0 1 2 2 2 */
    r->in.n_sound_tokens = 75;
    assert_layout(
        r, "00:00 [V*2] 00:00 [V*2] 00:00 (A*25) 00:01 [V*2] 00:01 (A*25) 00:02 [V*2] 00:02 [V*2] "
           "00:02 [V*2] 00:02 (A*25)");
    recording_free(r);
    r = recording_create(3, 1, 2, 6); /* a frame every 2 s */
    r->in.n_sound_tokens = 160;
    assert_layout(
        r,
        "00:00 [V*2] 00:00 (A*25) 00:01 (A*25) 00:02 [V*2] 00:02 (A*25) 00:03 (A*25) 00:04 [V*2] "
        "00:04 (A*25) 00:05 (A*35)");
    recording_free(r);
    r = recording_create(2, 1, 5, 12); /* every 5 s */
    r->in.n_sound_tokens = 250;
    assert_layout(
        r,
        "00:00 [V*2] 00:00 (A*25) 00:01 (A*25) 00:02 (A*25) 00:03 (A*25) 00:04 (A*25) 00:05 [V*2] "
        "00:05 (A*25) 00:06 (A*25) 00:07 (A*25) 00:08 (A*25) 00:09 (A*25)");
    recording_free(r);
}

static void test_sound_alone_has_stamped_seconds(void **state)
{
    (void)state;
    recording *r = recording_create(0, 1, 1, 0);
    r->in.n_sound_tokens = 93;
    r->in.frame_soft = 0;
    assert_layout(r, "00:00 (A*25) 00:01 (A*25) 00:02 (A*43)");
    r->in.n_sound_tokens = 3;
    assert_layout(r, "00:00 (A*3)");
    recording_free(r);
}

static void test_sound_has_the_stamps_of_its_seconds_beyond_an_hour(void **state)
{
    (void)state;
    recording *r = recording_create(0, 1, 1, 0);
    r->in.n_sound_tokens = 6003 * 25;
    r->in.frame_soft = 0;
    lr_layout *layout = recording_layout(r);
    char *text = layout_text(layout);
    assert_non_null(strstr(text, " 59:59 (A*25) 60:00 (A*25) 60:01 "));
    assert_non_null(strstr(text, " 99:59 (A*25) 100:00 (A*25) 100:01 "));
    check_layout(r, layout);
    free(text);
    lr_layout_free(layout);
    recording_free(r);
    r = recording_create(1203, 1, 5, 6015); /* a frame every 5 s: seconds of sound between them */
    r->in.n_sound_tokens = 6015 * 25;
    layout = recording_layout(r);
    text = layout_text(layout);
    assert_non_null(strstr(text, " 59:59 (A*25) 60:00 [V*2] 60:00 (A*25) 60:01 (A*25) "));
    assert_non_null(strstr(text, " 99:59 (A*25) 100:00 [V*2] 100:00 (A*25) 100:01 (A*25) "));
    check_layout(r, layout);
    free(text);
    lr_layout_free(layout);
    recording_free(r);
}

static void test_a_start_inside_the_recording_keeps_its_stamps(void **state)
{
    (void)state;
    recording *r = recording_create(3, 1, 1, 63);
    for (int k = 0; k < 3; k++)
        r->frame_time[k] = r->frame_pts[k] = (60 + k) * LR_TIME_SECOND;
    r->in.sound_start = 60 * LR_TIME_SECOND;
    r->in.n_sound_tokens = 75;
    assert_layout(r, "01:00 [V*2] 01:00 (A*25) 01:01 [V*2] 01:01 (A*25) 01:02 [V*2] 01:02 (A*25)");
    lr_layout *layout = recording_layout(r);
    assert_int_equal(layout->spans[4].index, 61);
    assert_int_equal(layout->spans[4].time, 61 * LR_TIME_SECOND);
    assert_int_equal(layout->spans[4].source, 25);
    lr_layout_free(layout);
    /* Half a second later each frame is still followed by its own second. */
    for (int k = 0; k < 3; k++)
        r->frame_time[k] = r->frame_pts[k] = (60 + k) * LR_TIME_SECOND + HALF;
    r->in.sound_start = 60 * LR_TIME_SECOND + HALF;
    r->in.video_end = 63 * LR_TIME_SECOND + HALF;
    assert_layout(r, "01:00 [V*2] 01:00 (A*25) 01:02 [V*2] 01:02 (A*25) 01:02 [V*2] 01:02 (A*25)");
    recording_free(r);
}

/* ------------------------------------------------------------------ windows */

static void test_windows_are_cut_before_a_stamp(void **state)
{
    (void)state;
    recording *r = recording_create(5, 1, 1, 5);
    lr_layout *layout = recording_layout(r);
    uint64_t whole = layout->n_tokens, first = layout->spans[1].count,
             later = layout->spans[2].count;
    lr_layout_free(layout);
    r->in.context = whole;
    assert_layout(r, "00:00 [V*2] 00:01 [V*2] 00:02 [V*2] 00:03 [V*2] 00:04 [V*2]");
    r->in.context = whole - 1;
    assert_layout(r, "{00:00 [V*2] 00:01 [V*2] 00:02 [V*2] 00:03 [V*2]}{00:04 [V*2]}");
    r->in.context = 2 + first + later;
    assert_layout(r, "{00:00 [V*2] 00:01 [V*2]}{00:02 [V*2] 00:03 [V*2]}{00:04 [V*2]}");
    r->in.context--;
    assert_layout(r, "{00:00 [V*2]}{00:01 [V*2]}{00:02 [V*2]}{00:03 [V*2]}{00:04 [V*2]}");
    r->in.context = 2 + first;
    assert_layout(r, "{00:00 [V*2]}{00:01 [V*2]}{00:02 [V*2]}{00:03 [V*2]}{00:04 [V*2]}");
    r->in.context--;
    lr_error err = {0};
    assert_int_equal(lr_layout_recording(&layout, &r->in, &err), LR_E_USAGE);
    assert_non_null(strstr(err.text, "frame 0"));
    assert_null(layout);
    recording_free(r);
}

static void test_windows_divide_frames_and_sound(void **state)
{
    (void)state;
    recording *r = recording_create(40, 1, 1, 40);
    r->in.n_sound_tokens = 1003;
    for (uint64_t context = 64; context < 700; context += 13) {
        r->in.context = context;
        lr_layout *layout = recording_layout(r);
        assert_true(layout->n_windows > 1);
        check_layout(r, layout);
        lr_layout_free(layout);
    }
    lr_layout *layout = NULL;
    r->in.context = 20; /* a frame fits, a second of sound does not */
    lr_error err = {0};
    assert_int_equal(lr_layout_recording(&layout, &r->in, &err), LR_E_USAGE);
    assert_non_null(strstr(err.text, "second of sound 0"));
    recording_free(r);
}

static void test_windows_without_stamps(void **state)
{
    (void)state;
    recording *r = recording_create(5, 1, 1, 5);
    r->in.stamps = false;
    r->in.context = 10;
    assert_layout(r, "{[V*2][V*2]}{[V*2][V*2]}{[V*2]}");
    recording_free(r);
}

/* ------------------------------------------------------------------ errors, failures, time */

static void check_refused(const recording *r, lr_status status, const char *names)
{
    lr_layout *layout = NULL;
    lr_error err = {0};
    lr_status st = lr_layout_recording(&layout, &r->in, &err);
    if (st != status || !strstr(err.text, names))
        fail_msg("%s \"%s\" does not name %s", lr_status_name(st), err.text, names);
    assert_null(layout);
}

/* ------------------------------------------------------------------ soft tokens alone, in tubelets */

static recording *tubelets(int64_t n_frames, int parts, uint64_t context)
{
    recording *r = recording_create(n_frames, 2, 1, (double)n_frames / 2);
    r->in.stamps = false;
    r->in.tokenizer = NULL;
    r->in.rules = (lr_sequence_rules){.soft_only = true, .frame_parts = parts};
    r->in.frame_soft = 4;
    r->in.context = context;
    return r;
}

static void test_tubelets_are_spans_of_soft_tokens_alone(void **state)
{
    (void)state;
    recording *r = tubelets(7, 2, 0);
    lr_layout *layout = recording_layout(r);
    assert_int_equal(layout->n_tokens, 12); /* the seventh frame is dropped */
    assert_int_equal(layout->n_spans, 3);
    assert_int_equal(layout->n_frames, 3);
    assert_int_equal(layout->n_grid, 7);
    for (size_t i = 0; i < 3; i++) {
        const lr_span *span = &layout->spans[i];
        assert_int_equal(span->kind, LR_SPAN_FRAME);
        assert_int_equal(span->index, 2 * i);
        assert_int_equal(span->source, i);
        assert_int_equal(span->time, (lr_time)i * LR_TIME_SECOND);
        assert_int_equal(span->first, 4 * i);
        assert_int_equal(span->soft_first, 4 * i);
        assert_int_equal(span->count, 4);
        assert_int_equal(span->soft_count, 4);
        assert_int_equal(lr_layout_frame(layout, span, 1), 2 * i + 1);
    }
    lr_layout_free(layout);
    recording_free(r);
}

static void test_fewer_frames_than_a_tubelet_has_are_repeated(void **state)
{
    (void)state;
    static const int64_t frames[3][5] = {{0, 1, 2, 0, 1}, {2, 0, 1, 2, 0}, {1, 2, 0, 1, 2}};
    recording *r = tubelets(3, 5, 0);
    lr_layout *layout = recording_layout(r);
    assert_int_equal(layout->n_frames, 3);
    for (size_t i = 0; i < 3; i++)
        for (uint64_t part = 0; part < 5; part++)
            assert_int_equal(lr_layout_frame(layout, &layout->spans[i], part), frames[i][part]);
    lr_layout_free(layout);
    recording_free(r);
}

static void test_windows_of_tubelets_hold_at_least_one(void **state)
{
    (void)state;
    static const struct {
        uint64_t context;
        size_t windows, spans;
    } cases[] = {{1, 5, 1}, {4, 5, 1}, {7, 5, 1}, {8, 3, 2}, {11, 3, 2}, {20, 1, 5}, {19, 2, 4}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        recording *r = tubelets(11, 2, cases[c].context);
        lr_layout *layout = recording_layout(r);
        assert_int_equal(layout->n_tokens, 20);
        assert_int_equal(layout->n_windows, cases[c].windows);
        assert_int_equal(layout->windows[0].n_spans, cases[c].spans);
        lr_layout_free(layout);
        recording_free(r);
    }
}

static void test_tubelets_have_neither_stamps_nor_sound(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        lr_error err = {0};
        lr_layout *layout;
        recording *r = tubelets(4, 2, 0);
        if (i == 0) r->in.stamps = true;
        if (i == 1) r->in.n_sound_tokens = 25;
        if (i == 2) r->in.rules.soft_only = false;
        assert_int_equal(lr_layout_recording(&layout, &r->in, &err), LR_E_USAGE);
        assert_null(layout);
        recording_free(r);
    }
}

static void test_what_makes_no_sequence_is_refused(void **state)
{
    (void)state;
    recording *r = recording_create(2, 1, 1, 2);
    lr_layout_input good = r->in;
    r->in.n_frames = 0;
    check_refused(r, LR_E_USAGE, "neither a frame nor sound");
    r->in = good;
    r->in.n_frames = -1;
    check_refused(r, LR_E_USAGE, "frames");
    r->in = good;
    r->in.stamps = false;
    r->in.n_sound_tokens = 25;
    check_refused(r, LR_E_USAGE, "stamps");
    r->in = good;
    r->in.frame_soft = 0;
    check_refused(r, LR_E_USAGE, "soft");
    r->in.frame_soft = UINT64_MAX;
    check_refused(r, LR_E_NOMEM, "memory");
    r->in.frame_soft = UINT64_MAX / 2;
    check_refused(r, LR_E_NOMEM, "memory");
    r->in.frame_soft = UINT64_C(1) << 60;
    check_refused(r, LR_E_NOMEM, "memory");
    r->in = good;
    r->in.fps.den = 0;
    check_refused(r, LR_E_USAGE, "frame rate");
    r->in = good;
    r->in.n_sound_tokens = UINT64_MAX;
    check_refused(r, LR_E_USAGE, "too long");
    r->in = good;
    r->in.rules.begin_image = 1 << 20;
    check_refused(r, LR_E_MODEL, "1048576");
    r->in = good;
    r->frame_time[1] = -1;
    check_refused(r, LR_E_USAGE, "frame 1");
    recording_free(r);
    lr_layout *layout = NULL;
    lr_sequence_rules rules = good.rules;
    assert_int_equal(lr_layout_picture(&layout, &rules, 0, 48, 48, NULL), LR_E_USAGE);
    assert_int_equal(lr_layout_sound(&layout, &rules, 0, NULL), LR_E_USAGE);
    assert_int_equal(lr_layout_sound(&layout, &rules, UINT64_MAX - 2, NULL), LR_E_NOMEM);
}

static lr_status lay_out(void *arg, lr_error *err)
{
    const recording *r = arg;
    lr_layout *layout = NULL;
    lr_status st = lr_layout_recording(&layout, &r->in, err);
    lr_layout_free(layout);
    return st;
}

static void test_a_layout_survives_each_failed_allocation(void **state)
{
    (void)state;
    recording *r = recording_create(20, 1, 1, 20);
    r->in.n_sound_tokens = 512;
    r->in.context = 100;
    assert_true(lrt_fail_each_allocation(lay_out, r) > 10);
    recording_free(r);
}

static void test_an_hour_is_laid_out_in_no_time(void **state)
{
    (void)state;
    recording *r = recording_create(3600, 1, 1, 3600);
    r->in.n_sound_tokens = 90000;
    r->in.frame_soft = 66;
    struct timespec a, b;
    (void)clock_gettime(CLOCK_MONOTONIC, &a);
    lr_layout *layout = recording_layout(r);
    (void)clock_gettime(CLOCK_MONOTONIC, &b);
    print_message("an hour: %llu tokens in %.1f ms\n", (unsigned long long)layout->n_tokens,
                  1e3 * (double)(b.tv_sec - a.tv_sec) + 1e-6 * (double)(b.tv_nsec - a.tv_nsec));
    assert_int_equal(layout->n_spans, 7202);
    check_layout(r, layout);
    lr_layout_free(layout);
    recording_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stamps_have_no_hours),
        cmocka_unit_test(test_stamps_round_half_to_even),
        cmocka_unit_test(test_a_stamp_is_the_shown_frame_s_time_within_half_a_step),
        cmocka_unit_test(test_without_stamps_frames_stand_side_by_side),
        cmocka_unit_test(test_sound_is_dealt_out_a_second_at_a_time),
        cmocka_unit_test(test_shorter_sound_leaves_no_empty_seconds),
        cmocka_unit_test(test_longer_sound_joins_the_last_second_or_gets_its_own),
        cmocka_unit_test(test_seconds_stand_before_the_next_frame_s_rounded_second),
        cmocka_unit_test(test_sound_alone_has_stamped_seconds),
        cmocka_unit_test(test_sound_has_the_stamps_of_its_seconds_beyond_an_hour),
        cmocka_unit_test(test_a_start_inside_the_recording_keeps_its_stamps),
        cmocka_unit_test(test_windows_are_cut_before_a_stamp),
        cmocka_unit_test(test_windows_divide_frames_and_sound),
        cmocka_unit_test(test_windows_without_stamps),
        cmocka_unit_test(test_tubelets_are_spans_of_soft_tokens_alone),
        cmocka_unit_test(test_fewer_frames_than_a_tubelet_has_are_repeated),
        cmocka_unit_test(test_windows_of_tubelets_hold_at_least_one),
        cmocka_unit_test(test_tubelets_have_neither_stamps_nor_sound),
        cmocka_unit_test(test_what_makes_no_sequence_is_refused),
        cmocka_unit_test(test_a_layout_survives_each_failed_allocation),
        cmocka_unit_test(test_an_hour_is_laid_out_in_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
