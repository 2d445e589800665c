#include "recording.h"

#include <string.h>

/* Keeps the list sorted by stream and start, with ranges that touch and have one cause merged. */
lr_status lri_damage_add(lr_damage **list, size_t *count, size_t *capacity, lr_stream_kind stream,
                         lr_time start, lr_time end, const char *what, lr_error *err)
{
    lr_status st = LR_GROW(list, capacity, *count + 1, "the list of damage", err);
    if (st != LR_OK) return st;
    lr_damage *d = *list, added = {.stream = stream, .start = start, .end = end};
    (void)strncpy(added.what, what, sizeof added.what - 1);
    size_t at = 0, n = *count;
    for (size_t i = 0; i < n; i++) {
        bool touches = d[i].stream == stream && strcmp(d[i].what, added.what) == 0 &&
                       d[i].start <= added.end && d[i].end >= added.start;
        if (!touches) {
            d[at++] = d[i];
            continue;
        }
        if (d[i].start < added.start) added.start = d[i].start;
        if (d[i].end > added.end) added.end = d[i].end;
    }
    n = at;
    while (at > 0 && (d[at - 1].stream > stream ||
                      (d[at - 1].stream == stream && d[at - 1].start > added.start))) {
        d[at] = d[at - 1];
        at--;
    }
    d[at] = added;
    *count = n + 1;
    return LR_OK;
}
