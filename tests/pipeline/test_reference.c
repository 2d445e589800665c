/* From a recording's file to its set: the published implementation's tokens, states and vectors. */
#include "../encoder/fixture.h"
#include "pipeline_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A case of expected.json whose frames lie on a grid. The film shows frame k from k / fps on, coded at
 * `rate` pictures a second until the video's end. */
typedef struct subject {
    const char *folder, *name;
    lr_rational fps, rate;
    size_t n_pictures;
} subject;

static const subject subjects[] = {
    {"regular", "stamped", {1, 1}, {10, 1}, 30},
    {"regular", "default", {1, 1}, {1, 1}, 2},
    {"regular", "talk", {1, 1}, {10, 1}, 37},
    {"regular", "talk_short_sound", {1, 1}, {25, 1}, 75},
    /* Frames at 0 and 2 seconds: the grid has the second one only where the picture lasts 4 seconds; the
     * sound ends after 3, so the sequence is the same. */
    {"odd", "talk", {1, 2}, {5, 1}, 20},
    {"long", "minute", {1, 1}, {2, 1}, 82},
};
#define N_SUBJECTS (sizeof subjects / sizeof *subjects)

typedef struct subject_files {
    fixture fixture;
    const json_t *about; /* of the case */
    char *directory, *film, *set;
} subject_files;

static const json_t *find_case(const fixture *f, const char *name)
{
    size_t i;
    const json_t *one;
    json_array_foreach(f->cases, i, one) if (strcmp(fixture_text(one, "name"), name) == 0) return one;
    fail_msg("%s: no case %s", f->directory, name);
    return NULL;
}

static void write_film(const subject *s, const subject_files *files)
{
    const lr_tensor *frames = fixture_tensor(&files->fixture, s->name, "frames");
    assert_int_equal(frames->dtype, LR_U8);
    assert_int_equal(frames->n_dims, 4);
    size_t shown[256];
    assert_true(s->n_pictures <= sizeof shown / sizeof *shown);
    for (size_t i = 0; i < s->n_pictures; i++) {
        /* floor(i / rate * fps), the last frame until the end */
        size_t k = i * (size_t)(s->rate.den * s->fps.num) / (size_t)(s->rate.num * s->fps.den);
        shown[i] = k < frames->dims[0] ? k : frames->dims[0] - 1;
    }
    lrt_film film = {.width = (int)frames->dims[2],
                     .height = (int)frames->dims[1],
                     .rate = s->rate,
                     .rgb = frames->data,
                     .n_pictures = s->n_pictures,
                     .shown = shown};
    if (json_object_get(files->about, "samples")) {
        const lr_tensor *wave = fixture_tensor(&files->fixture, s->name, "wave");
        assert_int_equal(wave->dtype, LR_I16);
        film.samples = wave->data;
        film.n_samples = wave->dims[0];
    }
    lrt_write_film(files->film, &film);
}

static void open_subject(const subject *s, subject_files *files)
{
    fixture_open(&files->fixture, s->folder);
    files->about = find_case(&files->fixture, s->name);
    files->directory = lrt_temp_dir();
    files->film = lrt_path(files->directory, "film.mkv");
    files->set = lrt_path(files->directory, "set");
    write_film(s, files);
}

static void close_subject(subject_files *files)
{
    free(files->set);
    free(files->film);
    lrt_remove_temp_dir(files->directory);
    fixture_close(&files->fixture);
}

static lr_encode_options options_of(const subject *s, const subject_files *files, int ranks)
{
    lr_encode_options o = lr_encode_defaults();
    o.fps = s->fps;
    o.soft_tokens = (int)fixture_size(files->about, "budget");
    o.stamps = json_is_true(json_object_get(files->about, "stamped"));
    o.ranks = ranks;
    o.threads = 2;
    o.chunk = ranks > 1 ? 32 : 1024;
    o.save_tokens = o.force = true;
    return o;
}

static void compare_rows(const subject *s, const subject_files *files, const case_set *set)
{
    const lr_tensor *kept = fixture_tensor(&files->fixture, s->name, "rows");
    const int32_t *rows = kept->data;
    float *got = malloc(kept->dims[0] * set->hidden * sizeof *got);
    assert_non_null(got);
    for (size_t i = 0; i < kept->dims[0]; i++) {
        assert_true(rows[i] >= 0 && (size_t)rows[i] < set->n);
        memcpy(got + i * set->hidden, set->rows + (size_t)rows[i] * set->hidden,
               set->hidden * sizeof *got);
    }
    fixture_compare(&files->fixture, s->name, "normed", got);
    free(got);
}

static void check_set(const subject *s, const subject_files *files)
{
    case_set set;
    case_open_set(&set, files->set);
    const lr_tensor *ids = fixture_tensor(&files->fixture, s->name, "ids");
    assert_int_equal(set.n, ids->dims[0]);
    for (size_t i = 0; i < set.n; i++)
        if (set.ids[i] != ((const int32_t *)ids->data)[i])
            fail_msg("%s/%s: token %zu is %d, not %d", s->folder, s->name, i, set.ids[i],
                     ((const int32_t *)ids->data)[i]);
    compare_rows(s, files, &set);
    fixture_compare(&files->fixture, s->name, "pooled", set.info->recording_vector);
    case_close_set(&set);
}

static void check_subject(const subject *s, lr_isa isa, lr_gemm gemm, int ranks)
{
    subject_files files = {0};
    lr_model *model = case_model(s->folder, isa, gemm);
    open_subject(s, &files);
    lr_encode_options options = options_of(s, &files, ranks);
    case_encode(model, files.film, files.set, &options, NULL);
    check_set(s, &files);
    close_subject(&files);
    lr_model_close(model);
}

static void test_recordings_give_the_published_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SUBJECTS; i++) check_subject(&subjects[i], LR_ISA_AUTO, LR_GEMM_AUTO, 1);
}

static void test_three_ranks_give_the_published_vectors(void **state)
{
    (void)state;
    for (size_t i = CASE_SANITIZED ? 3 : 0; i < N_SUBJECTS; i++)
        check_subject(&subjects[i], LR_ISA_AUTO, LR_GEMM_AUTO, 3);
}

static void test_other_kernels_give_the_published_vectors(void **state)
{
    (void)state;
    for (size_t i = CASE_SANITIZED ? 3 : 0; i < N_SUBJECTS - 1; i++) {
        check_subject(&subjects[i], LR_ISA_SCALAR, LR_GEMM_PACKED, 2);
        if (lr_kernels_get(LR_ISA_AUTO, LR_GEMM_OPENBLAS, &(const lr_kernels *){NULL}, NULL) == LR_OK)
            check_subject(&subjects[i], LR_ISA_AUTO, LR_GEMM_OPENBLAS, 2);
    }
}

static void test_shorter_vectors_are_the_published_ones(void **state)
{
    (void)state;
    static const size_t dims[] = {16, 32};
    const subject *s = &subjects[N_SUBJECTS - 1];
    lr_model *model = case_model(s->folder, LR_ISA_AUTO, LR_GEMM_AUTO);
    subject_files files = {0};
    open_subject(s, &files);
    for (size_t i = 0; i < (CASE_SANITIZED ? 1 : sizeof dims / sizeof *dims); i++) {
        char name[32];
        case_set set;
        lr_encode_options options = options_of(s, &files, 1);
        options.dim = dims[i];
        case_encode(model, files.film, files.set, &options, NULL);
        case_open_set(&set, files.set);
        assert_int_equal(set.info->dim, dims[i]);
        (void)snprintf(name, sizeof name, "pooled_%zu", dims[i]);
        fixture_compare(&files.fixture, s->name, name, set.info->recording_vector);
        case_close_set(&set);
    }
    close_subject(&files);
    lr_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recordings_give_the_published_vectors),
        cmocka_unit_test(test_three_ranks_give_the_published_vectors),
        cmocka_unit_test(test_other_kernels_give_the_published_vectors),
        cmocka_unit_test(test_shorter_vectors_are_the_published_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
