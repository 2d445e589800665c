/* The packed arrays of an index give back what was put in, whatever it was, and stay small where it is a film's. */
#include <stdlib.h>

#include "lr_test.h"

#include "packed.h"

enum { MOST = 1000 };

/* Of a film, of broken clocks, and anything at all. */
static int64_t number(lrt_random *random, int kind, size_t i)
{
    switch (kind) {
    case 0: return (int64_t)i * 512 + lrt_between(random, -3, 3) * 512;
    case 1: return lrt_below(random, 20) ? (int64_t)i * 40 : INT64_MIN;
    case 2: return i % 2 ? INT64_MAX : INT64_MIN;
    case 3: return INT64_MAX - (int64_t)i * INT64_C(3) * 1000000000000;
    case 4: return INT64_MIN + (int64_t)(i * (UINT64_C(1) << 50));
    case 5: return 1024;
    case 6: return (int64_t)(lrt_below(random, UINT64_MAX) >> lrt_below(random, 64));
    default: return (int64_t)lrt_below(random, UINT64_MAX);
    }
}

static void test_numbers_come_back_as_they_were(void **state)
{
    (void)state;
    static int64_t values[MOST];
    lrt_random random;
    lrt_random_init(&random, 602);
    for (int round = 0; round < 800; round++) {
        lr_error err = {0};
        lri_numbers numbers = {0};
        size_t n = lrt_below(&random, MOST + 1);
        for (size_t i = 0; i < n; i++) {
            values[i] = number(&random, round % 8, i);
            lrt_assert_ok(lri_numbers_add(&numbers, values[i], &err), &err);
        }
        lrt_assert_ok(lri_numbers_end(&numbers, &err), &err);
        for (size_t i = 0; i < n; i++)
            if (lri_numbers_get(&numbers, i) != values[i])
                fail_msg("round %d, number %zu of %zu: %lld, not %lld", round, i, n,
                         (long long)lri_numbers_get(&numbers, i), (long long)values[i]);
        lri_numbers_free(&numbers);
    }
}

static void test_places_come_back_as_they_were(void **state)
{
    (void)state;
    static lri_place places[MOST];
    lrt_random random;
    lrt_random_init(&random, 603);
    for (int round = 0; round < 300; round++) {
        lr_error err = {0};
        lri_places packed = {0};
        size_t n = lrt_below(&random, MOST + 1);
        int64_t end = 48;
        for (size_t i = 0; i < n; i++) {
            lri_place *place = &places[i];
            /* Mostly behind the one before, else anywhere in the largest of files. */
            bool jumps = lrt_below(&random, 10) < (uint64_t)(round % 5);
            place->at = jumps ? (int64_t)(lrt_below(&random, INT64_MAX - INT32_MAX) >> lrt_below(&random, 62)) : end;
            place->size = (int)(1 + (lrt_below(&random, INT32_MAX) >> lrt_below(&random, 31)));
            if (place->at > INT64_MAX - 2 * (int64_t)INT32_MAX) place->at = 0;
            place->key = lrt_below(&random, 2) != 0;
            place->discard = lrt_below(&random, 9) == 0;
            end = place->at + place->size;
            lrt_assert_ok(lri_places_add(&packed, *place, &err), &err);
        }
        for (size_t k = 0; k < 2 * n; k++) {
            size_t i = k < n ? k : lrt_below(&random, n);
            lri_place place = lri_places_get(&packed, i);
            if (place.at != places[i].at || place.size != places[i].size || place.key != places[i].key ||
                place.discard != places[i].discard)
                fail_msg("round %d, place %zu of %zu: %lld, %d", round, i, n, (long long)place.at, place.size);
        }
        lri_places_free(&packed);
    }
}

/* Two hours of pictures, 25 a second and in groups of 12 with two B-pictures, and of sound, in one file. */
static void test_two_hours_take_few_bytes_a_packet(void **state)
{
    (void)state;
    enum { PICTURES = 2 * 3600 * 25, SOUNDS = 2 * 3600 * 43 };
    static const int later[3] = {2, -1, -1};
    lr_error err = {0};
    lrt_random random;
    lrt_random_init(&random, 604);
    lri_numbers pts = {0}, seek = {0}, kept = {0};
    lri_places pictures = {0}, sounds = {0};
    int64_t at = 48;
    for (int i = 0, s = 0; i < PICTURES; i++) {
        lrt_assert_ok(lri_numbers_add(&pts, (i + later[i % 3]) * INT64_C(512), &err), &err);
        lrt_assert_ok(lri_numbers_add(&seek, i * INT64_C(512), &err), &err);
        lri_place place = {.at = at, .size = i % 12 ? (int)(500 + lrt_below(&random, 4000)) : 30000};
        lrt_assert_ok(lri_places_add(&pictures, place, &err), &err);
        at += place.size;
        for (; s < (int64_t)(i + 1) * SOUNDS / PICTURES; s++) {
            lri_place sound = {.at = at, .size = (int)(300 + lrt_below(&random, 100)), .key = true};
            lrt_assert_ok(lri_numbers_add(&kept, s ? 1024 : 0, &err), &err);
            lrt_assert_ok(lri_places_add(&sounds, sound, &err), &err);
            at += sound.size;
        }
    }
    lri_numbers_end(&pts, &err);
    lri_numbers_end(&seek, &err);
    lri_numbers_end(&kept, &err);
    double picture = (double)(pts.n_bytes + seek.n_bytes + pictures.n_bytes) / PICTURES;
    double sound = (double)(kept.n_bytes + sounds.n_bytes) / SOUNDS;
    /* 2 of the stamp, 2 or 3 of the size, 2 of the sound that lies between. */
    if (picture > 7.0) fail_msg("%.2f bytes a picture", picture);
    /* 2 of the size, and 2 or 3 of the picture that lies between, of which there are 25 to 43 packets. */
    if (sound > 4.0) fail_msg("%.2f bytes a packet of sound", sound);
    lri_numbers_free(&pts);
    lri_numbers_free(&seek);
    lri_numbers_free(&kept);
    lri_places_free(&pictures);
    lri_places_free(&sounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_come_back_as_they_were),
        cmocka_unit_test(test_places_come_back_as_they_were),
        cmocka_unit_test(test_two_hours_take_few_bytes_a_packet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
