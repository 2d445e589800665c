/* Do all readers of a recording give the same? */
#include "recordings.h"

#include <stdio.h>
#include <stdlib.h>

void lrm_merge_damage(lr_damage *damage, size_t *count)
{
    size_t n = 0;
    for (size_t i = 0; i < *count; i++) {
        size_t least = i;
        for (size_t j = i + 1; j < *count; j++)
            if (damage[j].start < damage[least].start) least = j;
        lr_damage next = damage[least];
        damage[least] = damage[i];
        if (n > 0 && next.start <= damage[n - 1].end) {
            if (next.end > damage[n - 1].end) damage[n - 1].end = next.end;
        } else damage[n++] = next;
    }
    *count = n;
}

static void assert_same_damage(const lrm_reading *a, const lrm_reading *b, const char *what)
{
    if (a->n_damage != b->n_damage)
        fail_msg("%s: %zu damaged ranges, not %zu", what, b->n_damage, a->n_damage);
    for (size_t i = 0; i < a->n_damage; i++)
        if (a->damage[i].start != b->damage[i].start || a->damage[i].end != b->damage[i].end)
            fail_msg("%s: damage at %.3f s, not %.3f s", what, lr_time_seconds(b->damage[i].start),
                     lr_time_seconds(a->damage[i].start));
}

static void read_in_slices(const lr_recording *recording, lrt_random *random, const lrm_reading *whole,
                           const char *what)
{
    lrm_reading all = {0};
    for (int64_t first = 0; first < whole->count;) {
        int64_t end = first + 1 + (int64_t)lrt_below(random, (uint64_t)(whole->count / 3 + 1));
        lrm_reading part;
        if (end > whole->count) end = whole->count;
        lrm_read_frames(recording, first, end, &part);
        lrm_assert_same_frames(whole, &part, what);
        all.damage = realloc(all.damage, (all.n_damage + part.n_damage + 1) * sizeof *all.damage);
        for (size_t i = 0; i < part.n_damage; i++) all.damage[all.n_damage++] = part.damage[i];
        lrm_free_reading(&part);
        first = end;
    }
    lrm_merge_damage(all.damage, &all.n_damage);
    assert_same_damage(whole, &all, what);
    lrm_free_reading(&all);
}

static uint64_t hash_sound(const lr_recording *recording)
{
    size_t count;
    float *samples = lrm_read_sound(recording, &count);
    uint64_t hash = lrm_hash(samples, count * sizeof *samples);
    free(samples);
    return hash;
}

bool lrm_readers_agree(const char *path, lrt_random *random, const char *name)
{
    static const int threads[] = {1, 2, 8};
    lrm_reading reference = {0}, sparse = {0};
    uint64_t sound = 0;
    for (int i = 0; i < 6; i++) {
        lr_ingest_options options = lr_ingest_defaults();
        options.fps = (lr_rational){7, 1};
        options.threads = threads[i % 3];
        options.every_picture = i < 3;
        lr_error err = {0};
        lr_recording *recording;
        char what[160];
        (void)snprintf(what, sizeof what, "%s, %d threads, %s", name, options.threads,
                       options.every_picture ? "every picture" : "only those of the grid");
        if (lr_recording_open(&recording, path, &options, &err) != LR_OK) {
            assert_int_equal(i, 0);
            assert_int_not_equal(err.text[0], '\0');
            return false;
        }
        const lr_timeline *t = lr_recording_timeline(recording);
        if (t->has_audio) {
            uint64_t now = hash_sound(recording);
            if (i > 0 && now != sound) fail_msg("%s: other sound", what);
            sound = now;
        }
        /* A broken time stamp can make the grid absurdly long; the frames are checked elsewhere. */
        if (t->has_video && t->video.n_frames <= 2000) {
            lrm_reading whole;
            lrm_read_frames(recording, 0, t->video.n_frames, &whole);
            lrm_merge_damage(whole.damage, &whole.n_damage);
            const lrm_reading *same = i < 3 ? &reference : &sparse;
            if (i > 0) lrm_assert_same_frames(&reference, &whole, what);
            if (i % 3 > 0) assert_same_damage(same, &whole, what);
            read_in_slices(recording, random, &whole, what);
            if (i == 0) reference = whole;
            else if (i == 3) sparse = whole;
            else lrm_free_reading(&whole);
        }
        lr_recording_close(recording);
    }
    lrm_free_reading(&reference);
    lrm_free_reading(&sparse);
    return true;
}
