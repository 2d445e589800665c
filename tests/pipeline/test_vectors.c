/* The vectors of a set are the means they are said to be, computed here from the saved tokens. */
#include "pipeline_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIM 64

/* A model of tests/fixtures and the matrix of its projection, read from the file. */
typedef struct subject {
    lr_model *model;
    size_t dim;
    float *projection; /* [dim, hidden] */
} subject;

typedef struct world {
    char *directory, *both, *sound, *slides;
    subject regular, matryoshka; /* `long` has a width of which the published shares are whole */
} world;
static world here;

static float half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float value = exponent ? ldexpf((float)(1024 + mantissa), exponent - 25)
                           : ldexpf((float)mantissa, -24);
    return bits >> 15 ? -value : value;
}

static void open_subject(subject *s, const char *name, const char *tensor)
{
    lr_error err = {0};
    lr_checkpoint *weights = NULL;
    char *path = case_fixture(name);
    lrt_assert_ok(lr_checkpoint_open(&weights, path, &err), &err);
    const lr_tensor *matrix = lr_checkpoint_find(weights, tensor);
    if (!matrix) fail_msg("%s has no %s", path, tensor);
    assert_true(matrix->dtype == LR_F32 || matrix->dtype == LR_F16);
    size_t count = matrix->dims[0] * matrix->dims[1];
    s->dim = matrix->dims[0];
    assert_true(s->dim <= MOST_DIM);
    s->projection = malloc(count * sizeof(float));
    assert_non_null(s->projection);
    for (size_t i = 0; i < count; i++)
        s->projection[i] = matrix->dtype == LR_F32 ? ((const float *)matrix->data)[i]
                                                   : half_value(((const uint16_t *)matrix->data)[i]);
    s->model = case_model(name, LR_ISA_AUTO, LR_GEMM_AUTO);
    lr_checkpoint_close(weights);
    free(path);
}

static int set_up(void **state)
{
    (void)state;
    const case_clip both = {"both.mkv", 32, 18, {4, 1}, 43, 173000};
    const case_clip sound = {"sound.mkv", 0, 0, {1, 1}, 0, 165000};
    const case_clip slides = {"slides.mkv", 16, 12, {1, 5}, 4, 0};
    here.directory = lrt_temp_dir();
    here.both = case_make_clip(here.directory, &both);
    here.sound = case_make_clip(here.directory, &sound);
    here.slides = case_make_clip(here.directory, &slides);
    open_subject(&here.regular, "regular", "language_model.embedding_projection.weight");
    open_subject(&here.matryoshka, "long", "model.language_model.embedding_projection.weight");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lr_model_close(here.regular.model);
    lr_model_close(here.matryoshka.model);
    free(here.regular.projection);
    free(here.matryoshka.projection);
    free(here.both);
    free(here.sound);
    free(here.slides);
    lrt_remove_temp_dir(here.directory);
    return 0;
}

/* ------------------------------------------------------------------ means */

typedef struct mean {
    const subject *model;
    double *sum; /* [hidden] */
    uint64_t count, first, end;
} mean;

static void mean_start(mean *m, const subject *s, const case_set *set)
{
    *m = (mean){.model = s, .sum = calloc(set->hidden, sizeof(double))};
    assert_non_null(m->sum);
}

static void mean_add(mean *m, const case_set *set, size_t token)
{
    if (m->count == 0) m->first = token;
    m->end = token + 1;
    m->count++;
    for (size_t i = 0; i < set->hidden; i++)
        m->sum[i] += (double)set->rows[token * set->hidden + i];
}

static void mean_check(mean *m, const case_set *set, const float *got, const char *what)
{
    double want[MOST_DIM];
    case_project(m->model->projection, set->hidden, m->sum, (double)m->count, set->info->dim, want);
    case_same_vector(got, want, set->info->dim, what);
    free(m->sum);
}

/* A token's time in lr_time: the double is within 2^-53 of it, so it rounds back to the same tick. */
static lr_time time_of(const case_set *set, size_t token)
{
    double t = set->time[token];
    return isnan(t) ? LR_TIME_NONE : (lr_time)llround(t * (double)LR_TIME_SECOND);
}

static void check_recording(const subject *s, const case_set *set)
{
    mean m;
    mean_start(&m, s, set);
    for (size_t t = 0; t < set->n; t++) mean_add(&m, set, t);
    mean_check(&m, set, set->info->recording_vector, "the recording");
}

static void check_frames(const subject *s, const case_set *set)
{
    int32_t soft = lr_model_info_of(s->model)->rules.video_soft;
    size_t frame = 0;
    for (size_t t = 0; t < set->n; frame += t < set->n) {
        while (t < set->n && set->ids[t] != soft) t++;
        if (t == set->n) break;
        char what[32];
        mean m;
        mean_start(&m, s, set);
        assert_true(frame < set->info->n_frames);
        const lr_frame_row *row = &set->info->frame_rows[frame];
        assert_int_equal(row->i, frame);
        assert_true(fabs(row->t - set->time[t]) <= 1e-14 * (1 + row->t)); /* 15 digits are written */
        while (t < set->n && set->ids[t] == soft) mean_add(&m, set, t++);
        (void)snprintf(what, sizeof what, "frame %zu", frame);
        mean_check(&m, set, set->info->frames + frame * set->info->dim, what);
    }
    assert_int_equal(frame, set->info->n_frames);
}

/* Every segment [base + i hop, base + i hop + segment) that has tokens has a row, and no other. `end` is
 * where the part that was encoded ends. Returns how many had none. */
static size_t check_segments(const subject *s, const case_set *set, lr_time base, lr_time segment, lr_time hop,
                             lr_time end)
{
    size_t row = 0, empty = 0;
    lr_time last = base;
    for (size_t t = 0; t < set->n; t++)
        if (time_of(set, t) > last) last = time_of(set, t);
    for (lr_time start = base; start <= last; start += hop) {
        char what[32];
        mean m;
        mean_start(&m, s, set);
        for (size_t t = 0; t < set->n; t++) {
            lr_time time = time_of(set, t);
            if (time != LR_TIME_NONE && time >= start && time < start + segment) mean_add(&m, set, t);
        }
        if (m.count == 0) {
            free(m.sum);
            empty++;
            continue;
        }
        assert_true(row < set->info->n_segments);
        const lr_segment_row *got = &set->info->segment_rows[row];
        lr_time until = start + segment < end ? start + segment : end;
        assert_true(fabs(got->start - lr_time_seconds(start)) < 1e-12 * (1 + got->start));
        assert_true(fabs(got->end - lr_time_seconds(until)) < 1e-12 * (1 + got->end));
        assert_int_equal(got->first, m.first);
        assert_int_equal(got->end_token, m.end);
        (void)snprintf(what, sizeof what, "segment %zu", row);
        mean_check(&m, set, set->info->segments + row * set->info->dim, what);
        row++;
    }
    assert_int_equal(row, set->info->n_segments);
    return empty;
}

static lr_encode_options plain_options(lr_time segment, lr_time hop)
{
    lr_encode_options o = lr_encode_defaults();
    o.segment = segment;
    o.hop = hop;
    o.chunk = 32;
    o.ranks = 2;
    o.threads = 1;
    o.save_tokens = o.force = true;
    return o;
}

/* Encodes and checks all vectors; leaves the set open. Returns segments without tokens. */
static size_t check_set_of(const subject *s, case_set *set, const char *clip, const lr_encode_options *o)
{
    char *path = lrt_path(here.directory, "set");
    case_encode(s->model, clip, path, o, NULL);
    case_open_set(set, path);
    free(path);
    assert_int_equal(set->info->dim, o->dim ? o->dim : s->dim);
    lr_time base = o->start == LR_TIME_NONE ? 0 : o->start;
    lr_time end = (lr_time)llround(set->info->duration * (double)LR_TIME_SECOND);
    if (o->end != LR_TIME_NONE && o->end < end) end = o->end;
    check_recording(s, set);
    check_frames(s, set);
    return check_segments(s, set, base, o->segment, o->hop, end);
}

static size_t check_set(case_set *set, const char *clip, const lr_encode_options *o)
{
    return check_set_of(&here.regular, set, clip, o);
}

/* ------------------------------------------------------------------ tests */

static void test_vectors_are_the_means_of_their_tokens(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options(2 * LR_TIME_SECOND, 2 * LR_TIME_SECOND);
    assert_int_equal(check_set(&set, here.both, &o), 0);
    assert_int_equal(set.info->n_frames, 10);
    assert_int_equal(set.info->n_segments, 5);
    case_close_set(&set);
}

static void test_segments_may_overlap(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options(4 * LR_TIME_SECOND, LR_TIME_SECOND * 3 / 2);
    assert_int_equal(check_set(&set, here.both, &o), 0);
    assert_int_equal(set.info->n_segments, 7);
    case_close_set(&set);
}

static void test_a_segment_need_not_divide_the_length(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options(LR_TIME_SECOND * 37 / 10, LR_TIME_SECOND * 37 / 10);
    assert_int_equal(check_set(&set, here.both, &o), 0);
    const lr_segment_row *last = &set.info->segment_rows[set.info->n_segments - 1];
    assert_true(last->end == set.info->duration);
    assert_true(last->end < last->start + 3.7);
    case_close_set(&set);
}

/* One picture in five seconds: of the segments of a second, four in five hold nothing. */
static void test_a_segment_without_tokens_has_no_row(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options(LR_TIME_SECOND, LR_TIME_SECOND);
    o.fps = (lr_rational){1, 5};
    assert_int_equal(check_set(&set, here.slides, &o), 12);
    assert_int_equal(set.info->n_segments, 4);
    assert_true(set.info->segment_rows[3].start == 15 && set.info->segment_rows[3].end == 16);
    case_close_set(&set);
}

/* Between segments that do not touch lie seconds that belong to none. */
static void test_a_hop_may_be_longer_than_the_segment(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options(LR_TIME_SECOND, LR_TIME_SECOND * 3);
    assert_int_equal(check_set(&set, here.both, &o), 0);
    assert_int_equal(set.info->n_segments, 4);
    case_close_set(&set);
}

static void test_two_frames_a_second_fall_into_odd_segments(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options(LR_TIME_SECOND * 3 / 4, LR_TIME_SECOND / 2);
    o.fps = (lr_rational){2, 1};
    (void)check_set(&set, here.both, &o);
    assert_int_equal(set.info->n_frames, 21);
    case_close_set(&set);
    o.fps = (lr_rational){3, 1}; /* thirds of a second are no doubles */
    o.segment = LR_TIME_SECOND / 3;
    o.hop = LR_TIME_SECOND / 3;
    (void)check_set(&set, here.both, &o);
    assert_int_equal(set.info->n_frames, 32);
    case_close_set(&set);
}

static void test_a_part_begins_at_its_start(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options(2 * LR_TIME_SECOND, LR_TIME_SECOND);
    o.start = LR_TIME_SECOND * 5 / 2;
    o.end = LR_TIME_SECOND * 73 / 10;
    assert_int_equal(check_set(&set, here.both, &o), 0);
    assert_true(set.info->segment_rows[0].start == 2.5);
    assert_true(set.info->segment_rows[set.info->n_segments - 1].end <= 7.3);
    assert_true(set.info->frame_rows[0].t == 2.5);
    for (size_t t = 0; t < set.n; t++)
        assert_true(isnan(set.time[t]) || (set.time[t] >= 2.5 && set.time[t] < 7.3));
    case_close_set(&set);
}

static void test_sound_alone_has_segments_and_no_frames(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options(3 * LR_TIME_SECOND, 2 * LR_TIME_SECOND);
    assert_int_equal(check_set(&set, here.sound, &o), 0);
    assert_int_equal(set.info->n_frames, 0);
    case_close_set(&set);
    o.video = false;
    assert_int_equal(check_set(&set, here.both, &o), 0);
    assert_int_equal(set.info->n_frames, 0);
    case_close_set(&set);
}

static void test_frames_without_stamps_have_their_vectors(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options(3 * LR_TIME_SECOND, 2 * LR_TIME_SECOND);
    o.stamps = o.audio = false;
    assert_int_equal(check_set(&set, here.both, &o), 0);
    assert_int_equal(set.n, 2 + 10 * (2 + 66));
    case_close_set(&set);
}

/* Windows are sequences of their own; bos and eos of each count for the recording alone. */
static void test_windows_pool_as_the_whole_does(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options(3 * LR_TIME_SECOND, 2 * LR_TIME_SECOND);
    o.context = 250;
    o.ranks = 3;
    assert_int_equal(check_set(&set, here.both, &o), 0);
    size_t outside = 0;
    for (size_t t = 0; t < set.n; t++) outside += isnan(set.time[t]) ? 1 : 0;
    assert_true(outside >= 8 && outside % 2 == 0);
    case_close_set(&set);
}

/* Matryoshka: the first values of the same means, of length 1 again. */
static void test_shorter_vectors_are_cut_and_of_length_one(void **state)
{
    (void)state;
    static const size_t dims[] = {48, 32, 16, 8};
    for (size_t i = CASE_SANITIZED ? 2 : 0; i < sizeof dims / sizeof *dims; i++) {
        case_set set;
        lr_encode_options o = plain_options(3 * LR_TIME_SECOND, 2 * LR_TIME_SECOND);
        o.dim = dims[i];
        o.end = 4 * LR_TIME_SECOND;
        assert_int_equal(check_set_of(&here.matryoshka, &set, here.both, &o), 0);
        double squares = 0;
        for (size_t j = 0; j < set.info->dim; j++)
            squares += (double)set.info->segments[j] * (double)set.info->segments[j];
        /* each of the values was rounded by 2^-25 at most, and their sum is at most sqrt(dim) */
        assert_true(fabs(squares - 1) < 2 * 0x1p-25 * sqrt((double)dims[i]) + 1e-12);
        case_close_set(&set);
    }
}

/* A frame that lies across the border of two shards has the vector it has on one rank. */
static void test_a_frame_across_a_border_is_one_frame(void **state)
{
    (void)state;
    case_set set;
    lr_encode_options o = plain_options(3 * LR_TIME_SECOND, 3 * LR_TIME_SECOND);
    o.chunk = 16;
    o.ranks = 8;
    assert_int_equal(check_set(&set, here.both, &o), 0);
    case_close_set(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_are_the_means_of_their_tokens),
        cmocka_unit_test(test_segments_may_overlap),
        cmocka_unit_test(test_a_segment_need_not_divide_the_length),
        cmocka_unit_test(test_a_segment_without_tokens_has_no_row),
        cmocka_unit_test(test_a_hop_may_be_longer_than_the_segment),
        cmocka_unit_test(test_two_frames_a_second_fall_into_odd_segments),
        cmocka_unit_test(test_a_part_begins_at_its_start),
        cmocka_unit_test(test_sound_alone_has_segments_and_no_frames),
        cmocka_unit_test(test_frames_without_stamps_have_their_vectors),
        cmocka_unit_test(test_windows_pool_as_the_whole_does),
        cmocka_unit_test(test_shorter_vectors_are_cut_and_of_length_one),
        cmocka_unit_test(test_a_frame_across_a_border_is_one_frame),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
