/* The sequences of recordings as the published processor makes them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout_case.h"

static lr_time time_of(double seconds)
{
    return (lr_time)llround(seconds * (double)LR_TIME_SECOND);
}

/* The grid rate nearest to what the frames' times show. */
static lr_rational rate_of(const double *times, size_t n)
{
    static const lr_rational rates[] = {{1, 5}, {1, 2}, {1, 1}, {2, 1}, {4, 1}};
    lr_rational best = rates[2];
    if (n < 2) return best;
    double rate = (double)(n - 1) / (times[n - 1] - times[0]);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (fabs(log(rate * (double)rates[i].den / (double)rates[i].num)) <
            fabs(log(rate * (double)best.den / (double)best.num)))
            best = rates[i];
    return best;
}

/* "times", or the same from "frames" and "native_fps" (one frame a second). */
static double *times_of(const json_t *one, size_t *n)
{
    const json_t *list = json_object_get(one, "times");
    *n = list ? json_array_size(list) : (size_t)json_integer_value(json_object_get(one, "frames"));
    double native = json_number_value(json_object_get(one, "native_fps"));
    double *times = malloc(*n * sizeof *times);
    assert_true(*n > 0 && times);
    for (size_t i = 0; i < *n; i++)
        times[i] =
            list ? json_number_value(json_array_get(list, i)) : floor((double)i * native) / native;
    return times;
}

static recording *recording_of(const json_t *one)
{
    size_t n;
    double *times = times_of(one, &n);
    lr_rational fps = rate_of(times, n);
    recording *r = recording_create((int64_t)n, fps.num, fps.den,
                                    json_number_value(json_object_get(one, "duration")));
    for (size_t k = 0; k < n; k++)
        r->frame_pts[k] = time_of(times[k]);
    free(times);
    r->in.stamps = json_is_true(json_object_get(one, "stamped"));
    r->in.frame_soft = (uint64_t)json_integer_value(json_object_get(one, "frame_tokens"));
    const json_t *samples = json_object_get(one, "samples");
    if (json_is_integer(samples))
        r->in.n_sound_tokens = lr_sound_tokens(json_integer_value(samples));
    return r;
}

static void compare_text(const json_t *one, const char *text)
{
    const char *whole = json_string_value(json_object_get(one, "text"));
    if (whole) {
        assert_string_equal(text, whole);
        return;
    }
    const char *head = json_string_value(json_object_get(one, "head"));
    const char *tail = json_string_value(json_object_get(one, "tail"));
    assert_non_null(head);
    assert_non_null(tail);
    assert_int_equal(strlen(text), json_integer_value(json_object_get(one, "length")));
    assert_memory_equal(text, head, strlen(head));
    assert_string_equal(text + strlen(text) - strlen(tail), tail);
}

static void test_recordings_are_laid_out_as_the_reference_does(void **state)
{
    (void)state;
    json_t *list = fixture_json("", "layout.json"), *one;
    size_t i;
    assert_true(json_array_size(list) >= 15);
    json_array_foreach(list, i, one)
    {
        recording *r = recording_of(one);
        lr_layout *layout = recording_layout(r);
        char *text = layout_text(layout);
        compare_text(one, text);
        assert_int_equal(layout->n_tokens, json_integer_value(json_object_get(one, "n")));
        check_layout(r, layout);
        free(text);
        lr_layout_free(layout);
        recording_free(r);
    }
    json_decref(list);
}

/* The checkpoints' own videos: ids stored by the reference. Those whose times lie on no grid (times
 * of pictures more than half a step off, which Longreel does not stamp) are left to layouts
 * above. */
static void test_videos_of_the_checkpoints_have_the_reference_s_ids(void **state)
{
    (void)state;
    json_t *expected = fixture_json("regular", "expected.json"), *one;
    size_t i, seen = 0;
    json_array_foreach(json_object_get(expected, "cases"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (strcmp(json_string_value(json_object_get(one, "kind")), "video") != 0) continue;
        if (strcmp(name, "ties") == 0) continue;
        recording *r = recording_of(one);
        lr_layout *layout = recording_layout(r);
        lr_ids ids = fixture_ids("regular", name);
        assert_ids(name, layout->ids, layout->n_tokens, ids.ids, ids.count);
        lr_ids_free(&ids);
        lr_layout_free(layout);
        recording_free(r);
        seen++;
    }
    assert_true(seen >= 3);
    json_decref(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recordings_are_laid_out_as_the_reference_does),
        cmocka_unit_test(test_videos_of_the_checkpoints_have_the_reference_s_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
