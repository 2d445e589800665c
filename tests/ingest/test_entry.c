/* Where decoding begins, found in one pass, is what looking back from each picture finds. */
#include <stdlib.h>

#include "lr_test.h"

#include "decode.h"

static size_t look_back(const lri_video_index *video, size_t ordinal)
{
    for (size_t i = ordinal + 1; i-- > 0;)
        if (lri_is_entry(video, i) && !lri_leads(video, i, ordinal)) return i;
    return 0;
}

static void fill(lrt_random *random, lri_video_index *video, uint64_t entries, uint64_t closed, uint64_t b,
                 int64_t spread)
{
    for (size_t i = 0; i < video->n_packets; i++) {
        unsigned flags = LRI_SHOWN;
        if (lrt_below(random, 100) < entries) flags |= lrt_below(random, 100) < closed ? LRI_CLOSED : LRI_OPEN;
        else if (lrt_below(random, 100) < b) flags |= LRI_B;
        video->packets[i] = (lri_packet){.pts = (int64_t)i + lrt_between(random, -spread, spread),
                                         .flags = (uint8_t)flags};
    }
}

static void test_entries_are_those_that_looking_back_finds(void **state)
{
    (void)state;
    static const uint64_t shares[] = {0, 3, 30, 97};
    lrt_random random;
    lrt_random_init(&random, 601);
    for (size_t round = 0; round < 2000; round++) {
        lr_error err = {0};
        lri_video_index video = {.n_packets = 1 + lrt_below(&random, 400)};
        lrt_assert_ok(LR_NEW(&video.packets, video.n_packets, "packets", &err), &err);
        fill(&random, &video, shares[lrt_below(&random, 4)], shares[lrt_below(&random, 4)],
             shares[lrt_below(&random, 4)], (int64_t)lrt_below(&random, 40));
        lrt_assert_ok(lri_video_find_entries(&video, &err), &err);
        lrt_assert_ok(lri_video_seal(&video, &err), &err);
        for (size_t i = 0; i < video.n_packets; i++)
            if (lri_entry_of(&video, i) != look_back(&video, i))
                fail_msg("round %zu, packet %zu: %zu, looking back %zu", round, i, lri_entry_of(&video, i),
                         look_back(&video, i));
        lri_video_index_free(&video);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_entries_are_those_that_looking_back_finds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
