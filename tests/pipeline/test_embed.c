/* Texts, pictures and sounds: the published implementation's vectors, and search with them. */
#include "../encoder/fixture.h"
#include "pipeline_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIM 64

static const char *const folders[] = {"regular", "odd", "long", "textonly", "sound"};
#define N_FOLDERS (sizeof folders / sizeof *folders)

/* ------------------------------------------------------------------ inputs of a case */

typedef struct case_input {
    lr_embed_input input;
    char *file; /* NULL for a text */
    int budget;
} case_input;

static void write_picture(const char *path, const lr_tensor *rgb)
{
    lr_error err = {0};
    assert_int_equal(rgb->dtype, LR_U8);
    lrt_assert_ok(lr_png_write(path, rgb->data, rgb->dims[1] * 3, (int)rgb->dims[1], (int)rgb->dims[0], &err),
                  &err);
}

/* Samples are 16-bit values over 32768: exact in float. */
static void write_sound(const char *path, const lr_tensor *wave, size_t count)
{
    lr_error err = {0};
    lr_wav_writer *writer = NULL;
    const int16_t *values = wave->data;
    assert_int_equal(wave->dtype, LR_I16);
    lrt_assert_ok(lr_wav_create(&writer, path, 16000, count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        float sample = (float)values[i % wave->dims[0]] / 32768.0F;
        lrt_assert_ok(lr_wav_write(writer, &sample, 1, &err), &err);
    }
    lrt_assert_ok(lr_wav_finish(writer, &err), &err);
}

/* False for cases of another kind (films). */
static bool make_input(const fixture *f, const json_t *about, const char *directory, case_input *out)
{
    const char *kind = fixture_text(about, "kind"), *name = fixture_text(about, "name");
    char file[96];
    *out = (case_input){0};
    if (strcmp(kind, "text") == 0) {
        out->input = (lr_embed_input){LR_INPUT_TEXT, fixture_text(about, "text")};
    } else if (strcmp(kind, "image") == 0) {
        (void)snprintf(file, sizeof file, "%s.png", name);
        out->file = lrt_path(directory, file);
        out->budget = (int)fixture_size(about, "budget");
        out->input = (lr_embed_input){LR_INPUT_IMAGE, out->file};
        write_picture(out->file, fixture_tensor(f, name, "rgb"));
    } else if (strcmp(kind, "audio") == 0) {
        (void)snprintf(file, sizeof file, "%s.wav", name);
        out->file = lrt_path(directory, file);
        out->input = (lr_embed_input){LR_INPUT_AUDIO, out->file};
        write_sound(out->file, fixture_tensor(f, name, "wave"), fixture_size(about, "samples"));
    } else {
        return false;
    }
    return true;
}

static void embed(lr_model *model, const lr_embed_input *inputs, size_t count, const lr_embed_options *o,
                  float *out)
{
    lr_error err = {0};
    lr_status st = lr_embed(model, inputs, count, o, out, &err);
    lrt_assert_ok(st, &err);
}

/* ------------------------------------------------------------------ the published vectors */

static void check_case(const fixture *f, lr_model *model, const json_t *about, const char *directory)
{
    case_input in;
    if (!make_input(f, about, directory, &in)) return;
    float vector[MOST_DIM];
    lr_embed_options o = {.threads = 2, .soft_tokens = in.budget};
    embed(model, &in.input, 1, &o, vector);
    fixture_compare(f, fixture_text(about, "name"), "pooled", vector);
    free(in.file);
}

static void check_folder(const char *name, lr_isa isa, lr_gemm gemm)
{
    fixture f;
    size_t i;
    const json_t *about;
    lr_model *model = case_model(name, isa, gemm);
    char *directory = lrt_temp_dir();
    fixture_open(&f, name);
    json_array_foreach(f.cases, i, about) check_case(&f, model, about, directory);
    fixture_close(&f);
    lrt_remove_temp_dir(directory);
    lr_model_close(model);
}

static void test_inputs_give_the_published_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FOLDERS; i++) check_folder(folders[i], LR_ISA_AUTO, LR_GEMM_AUTO);
}

static void test_other_kernels_give_the_published_vectors(void **state)
{
    (void)state;
    check_folder("regular", LR_ISA_SCALAR, LR_GEMM_PACKED);
    check_folder("odd", LR_ISA_AUTO, LR_GEMM_OPENBLAS);
}

static void test_shorter_vectors_are_the_published_ones(void **state)
{
    (void)state;
    static const size_t dims[] = {32, 16};
    fixture f;
    fixture_open(&f, "long");
    lr_model *model = case_model("long", LR_ISA_AUTO, LR_GEMM_AUTO);
    const lr_embed_input input = {LR_INPUT_TEXT, fixture_text(json_array_get(f.cases, 0), "text")};
    for (size_t i = 0; i < 2; i++) {
        float vector[MOST_DIM];
        char name[32];
        lr_embed_options o = {.threads = 1, .dim = dims[i]};
        embed(model, &input, 1, &o, vector);
        (void)snprintf(name, sizeof name, "pooled_%zu", dims[i]);
        fixture_compare(&f, fixture_text(json_array_get(f.cases, 0), "name"), name, vector);
    }
    lr_model_close(model);
    fixture_close(&f);
}

/* ------------------------------------------------------------------ one model for the rest */

typedef struct world {
    char *directory, *picture, *sound, *film, *letter;
    lr_model *model;
} world;
static world here;

static int set_up(void **state)
{
    (void)state;
    lr_error err = {0};
    lrt_random random;
    lrt_random_init(&random, 3);
    here.directory = lrt_temp_dir();
    here.picture = lrt_path(here.directory, "picture.png");
    uint8_t *rgb = lrt_made_pictures(&random, 1, 40, 30);
    lrt_assert_ok(lr_png_write(here.picture, rgb, 120, 40, 30, &err), &err);
    free(rgb);
    const case_clip sound = {"sound.mkv", 0, 0, {1, 1}, 0, 21000};
    const case_clip film = {"film.mkv", 32, 18, {2, 1}, 9, 40000};
    here.sound = case_make_clip(here.directory, &sound);
    here.film = case_make_clip(here.directory, &film);
    here.letter = lrt_path(here.directory, "letter.txt");
    lrt_write(here.letter, "Dear reader", 11);
    here.model = case_model("regular", LR_ISA_AUTO, LR_GEMM_AUTO);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lr_model_close(here.model);
    free(here.picture);
    free(here.sound);
    free(here.film);
    free(here.letter);
    lrt_remove_temp_dir(here.directory);
    return 0;
}

static void test_threads_do_not_change_a_vector(void **state)
{
    (void)state;
    const lr_embed_input inputs[] = {{LR_INPUT_TEXT, "when does the bell ring, and who is there?"},
                                     {LR_INPUT_IMAGE, here.picture},
                                     {LR_INPUT_AUDIO, here.sound}};
    float one[3][MOST_DIM], other[3][MOST_DIM];
    lr_embed_options o = {.threads = 1};
    embed(here.model, inputs, 3, &o, one[0]);
    for (o.threads = 0; o.threads <= 5; o.threads++) { /* 0: as many as the machine has */
        embed(here.model, inputs, 3, &o, other[0]);
        assert_memory_equal(one, other, sizeof one);
    }
}

static void test_a_vector_does_not_depend_on_its_neighbours(void **state)
{
    (void)state;
    const lr_embed_input inputs[] = {{LR_INPUT_IMAGE, here.picture}, {LR_INPUT_TEXT, ""},
                                     {LR_INPUT_AUDIO, here.sound},   {LR_INPUT_TEXT, "bell"},
                                     {LR_INPUT_IMAGE, here.picture}, {LR_INPUT_TEXT, "bell"}};
    float all[6][MOST_DIM], alone[MOST_DIM];
    lr_embed_options o = {.threads = 2};
    embed(here.model, inputs, 6, &o, all[0]);
    for (size_t i = 0; i < 6; i++) {
        embed(here.model, &inputs[i], 1, &o, alone);
        assert_memory_equal(alone, all[i], sizeof alone);
    }
    embed(here.model, inputs, 0, &o, alone); /* none is no error */
}

/* A task puts the model's prompt before texts, and touches nothing else. */
static void test_a_task_is_a_prompt_before_texts(void **state)
{
    (void)state;
    const char *prompt = lr_model_prompt(here.model, "search-query");
    assert_non_null(prompt);
    char text[256];
    (void)snprintf(text, sizeof text, "%sbell", prompt);
    const lr_embed_input task_inputs[] = {{LR_INPUT_TEXT, "bell"}, {LR_INPUT_IMAGE, here.picture}};
    const lr_embed_input plain_inputs[] = {{LR_INPUT_TEXT, text}, {LR_INPUT_IMAGE, here.picture}};
    float with_task[2][MOST_DIM], plain[2][MOST_DIM];
    lr_embed_options o = {.threads = 1, .task = "search-query"};
    embed(here.model, task_inputs, 2, &o, with_task[0]);
    o.task = NULL;
    embed(here.model, plain_inputs, 2, &o, plain[0]);
    assert_memory_equal(with_task, plain, sizeof plain);
    size_t tasks = 0;
    while (lr_model_task(here.model, tasks)) tasks++;
    assert_true(tasks >= 2);
}

/* ------------------------------------------------------------------ saved tokens */

static void test_saved_tokens_stand_one_after_another(void **state)
{
    (void)state;
    lr_error err = {0};
    const lr_embed_input inputs[] = {{LR_INPUT_TEXT, "bell"}, {LR_INPUT_IMAGE, here.picture},
                                     {LR_INPUT_AUDIO, here.sound}};
    const lr_model_info *info = lr_model_info_of(here.model);
    char *path = lrt_path(here.directory, "tokens.safetensors");
    float vectors[3][MOST_DIM];
    lr_checkpoint *file = NULL;
    lr_embed_options o = {.threads = 1, .tokens_path = path};
    embed(here.model, inputs, 3, &o, vectors[0]);
    lrt_assert_ok(lr_checkpoint_open_file(&file, path, &err), &err);
    const lr_tensor *ids = lr_checkpoint_find(file, "input_ids");
    const lr_tensor *hidden = lr_checkpoint_find(file, "hidden");
    const lr_tensor *time = lr_checkpoint_find(file, "time");
    assert_true(ids && hidden && time);
    assert_int_equal(hidden->dims[0], ids->dims[0]);
    assert_int_equal(hidden->dims[1], info->hidden);
    assert_int_equal(time->dims[0], ids->dims[0]);
    lr_projection projection = lr_model_projection(here.model);
    size_t token = 0, n = ids->dims[0];
    for (size_t i = 0; i < 3; i++) {
        double sum[MOST_DIM] = {0}, want[MOST_DIM];
        size_t count = 0;
        assert_int_equal(((const int32_t *)ids->data)[token], info->rules.bos);
        assert_true(isnan(((const double *)time->data)[token]));
        for (bool last = false; !last; token++, count++) {
            assert_true(token < n);
            double at = ((const double *)time->data)[token];
            assert_true(isnan(at) || at == 0); /* a single input has no course of time */
            last = ((const int32_t *)ids->data)[token] == info->rules.eos;
            for (size_t j = 0; j < info->hidden; j++)
                sum[j] += (double)((const float *)hidden->data)[token * info->hidden + j];
        }
        assert_true(isnan(((const double *)time->data)[token - 1])); /* <eos> */
        case_project(projection.matrix, info->hidden, sum, (double)count, info->dim, want);
        case_same_vector(vectors[i], want, info->dim, "an input");
    }
    assert_int_equal(token, n);
    lr_checkpoint_close(file);
    free(path);
}

/* ------------------------------------------------------------------ errors */

static void fails(const lr_embed_input *input, const lr_embed_options *o, lr_status status, const char *says)
{
    lr_error err = {0};
    float vector[MOST_DIM];
    lr_status st = lr_embed(here.model, input, 1, o, vector, &err);
    if (st != status || err.status != status || !strstr(err.text, says))
        fail_msg("%s: \"%s\" (%s)", says, err.text, lr_status_name(st));
}

static void test_what_cannot_be_embedded_is_named(void **state)
{
    (void)state;
    const lr_embed_input text = {LR_INPUT_TEXT, "bell"}, picture = {LR_INPUT_IMAGE, here.picture};
    const lr_embed_input no_picture = {LR_INPUT_IMAGE, here.sound}, no_sound = {LR_INPUT_AUDIO, here.picture};
    const lr_embed_input film = {LR_INPUT_IMAGE, here.film}, letter = {LR_INPUT_IMAGE, here.letter};
    const lr_embed_input missing = {LR_INPUT_AUDIO, "/nowhere/at all.wav"};
    const lr_embed_input wrong_text = {LR_INPUT_TEXT, "ab\xff"};
    lr_embed_options o = {.threads = 1};
    fails(&no_picture, &o, LR_E_NO_MEDIA, "sound.mkv");
    fails(&no_sound, &o, LR_E_NO_MEDIA, "picture.png");
    fails(&film, &o, LR_E_USAGE, "film.mkv");
    fails(&letter, &o, LR_E_NO_MEDIA, "letter.txt");
    fails(&missing, &o, LR_E_IO, "/nowhere/at all.wav");
    fails(&wrong_text, &o, LR_E_FORMAT, "UTF-8");
    o.dim = 63;
    fails(&text, &o, LR_E_USAGE, "--dim");
    o = (lr_embed_options){.threads = 1, .soft_tokens = 71};
    fails(&picture, &o, LR_E_USAGE, "--soft-tokens");
    o = (lr_embed_options){.threads = 1, .task = "no-such-task"};
    fails(&text, &o, LR_E_USAGE, "no-such-task");
    lr_cancel cancel = 1;
    o = (lr_embed_options){.threads = 1, .cancel = &cancel};
    fails(&text, &o, LR_E_INTERRUPTED, "");
    fails(&picture, &o, LR_E_INTERRUPTED, "");
    o = (lr_embed_options){.threads = 1, .tokens_path = "/nowhere/tokens.safetensors"};
    fails(&text, &o, LR_E_IO, "/nowhere/tokens.safetensors");
    o = (lr_embed_options){.threads = 1, .stages_directory = "/nowhere/stages"};
    fails(&text, &o, LR_E_IO, "/nowhere/stages");
}

static void test_a_tower_that_is_not_there_is_named(void **state)
{
    (void)state;
    lr_error err = {0};
    float vector[MOST_DIM];
    lr_model *model = case_model("textonly", LR_ISA_AUTO, LR_GEMM_AUTO);
    const lr_embed_input picture = {LR_INPUT_IMAGE, here.picture}, sound = {LR_INPUT_AUDIO, here.sound};
    lr_embed_options o = {.threads = 1};
    assert_int_equal(lr_embed(model, &picture, 1, &o, vector, &err), LR_E_USAGE);
    assert_non_null(strstr(err.text, "vision"));
    lr_error_clear(&err);
    assert_int_equal(lr_embed(model, &sound, 1, &o, vector, &err), LR_E_USAGE);
    assert_non_null(strstr(err.text, "sound tower"));
    lr_model_close(model);
}

/* ------------------------------------------------------------------ search */

/* A set is searched by its own frame: the picture of the film as a single picture is another sequence, so
 * only that the hits are what the vectors say is checked. */
static void test_a_query_finds_the_nearest_vectors(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_set *set = NULL;
    lr_hit *hits = NULL;
    size_t count = 0;
    float vector[MOST_DIM];
    char *path = lrt_path(here.directory, "set");
    lr_encode_options encode = lr_encode_defaults();
    encode.segment = encode.hop = LR_TIME_SECOND;
    case_encode(here.model, here.film, path, &encode, NULL);
    lrt_assert_ok(lr_set_open(&set, path, &err), &err);
    const lr_set_info *info = lr_set_info_of(set);
    const lr_embed_input input = {LR_INPUT_TEXT, "bell"};
    lr_embed_options o = {.threads = 1, .task = "search-query"};
    embed(here.model, &input, 1, &o, vector);
    lr_query_options q = lr_query_defaults();
    q.task = "search-query";
    q.merge = false;
    q.k = 100;
    q.threads = 2;
    lrt_assert_ok(lr_query(here.model, &set, 1, &input, &q, &hits, &count, &err), &err);
    assert_int_equal(count, info->n_segments);
    for (size_t i = 0; i < count; i++) {
        double want = 0;
        size_t row = (size_t)hits[i].start;
        for (size_t j = 0; j < info->dim; j++)
            want += (double)vector[j] * (double)info->segments[row * info->dim + j];
        /* a float sum of 64 products of unit vectors: each of some 64 roundings is at most 2^-24 */
        assert_true(fabs((double)hits[i].score - want) < 64 * 0x1p-24);
        assert_true(i == 0 || hits[i].score <= hits[i - 1].score);
        assert_true(hits[i].start == info->segment_rows[row].start && hits[i].end == info->segment_rows[row].end);
    }
    lr_free(hits);
    lr_set_close(set);
    free(path);
}

static void test_sets_that_do_not_belong_together_are_refused(void **state)
{
    (void)state;
    lr_error err = {0};
    lr_set *sets[2] = {NULL};
    lr_hit *hits = NULL;
    size_t count;
    char *full = lrt_path(here.directory, "full"), *cut = lrt_path(here.directory, "cut");
    lr_encode_options encode = lr_encode_defaults();
    case_encode(here.model, here.film, full, &encode, NULL);
    encode.context = 300;
    case_encode(here.model, here.film, cut, &encode, NULL);
    lrt_assert_ok(lr_set_open(&sets[0], full, &err), &err);
    lrt_assert_ok(lr_set_open(&sets[1], cut, &err), &err);
    const lr_embed_input input = {LR_INPUT_TEXT, "bell"};
    lr_query_options q = lr_query_defaults();
    assert_int_equal(lr_query(here.model, sets, 2, &input, &q, &hits, &count, &err), LR_E_USAGE);
    assert_non_null(strstr(err.text, cut));
    assert_null(hits);
    lr_error_clear(&err);
    lr_model *other = case_model("textonly", LR_ISA_AUTO, LR_GEMM_AUTO);
    assert_int_equal(lr_query(other, sets, 1, &input, &q, &hits, &count, &err), LR_E_USAGE);
    assert_non_null(strstr(err.text, full));
    lr_error_clear(&err);
    q.k = 0;
    assert_int_equal(lr_query(here.model, sets, 1, &input, &q, &hits, &count, &err), LR_E_USAGE);
    lr_error_clear(&err);
    q = lr_query_defaults();
    assert_int_equal(lr_query(here.model, sets, 0, &input, &q, &hits, &count, &err), LR_E_USAGE);
    lr_model_close(other);
    lr_set_close(sets[0]);
    lr_set_close(sets[1]);
    free(full);
    free(cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs_give_the_published_vectors),
        cmocka_unit_test(test_other_kernels_give_the_published_vectors),
        cmocka_unit_test(test_shorter_vectors_are_the_published_ones),
        cmocka_unit_test(test_threads_do_not_change_a_vector),
        cmocka_unit_test(test_a_vector_does_not_depend_on_its_neighbours),
        cmocka_unit_test(test_a_task_is_a_prompt_before_texts),
        cmocka_unit_test(test_saved_tokens_stand_one_after_another),
        cmocka_unit_test(test_what_cannot_be_embedded_is_named),
        cmocka_unit_test(test_a_tower_that_is_not_there_is_named),
        cmocka_unit_test(test_a_query_finds_the_nearest_vectors),
        cmocka_unit_test(test_sets_that_do_not_belong_together_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
