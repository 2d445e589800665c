/* Inside store/: what else partial.c tells. */
#ifndef LONGREEL_STORE_SRC_PARTIAL_H
#define LONGREEL_STORE_SRC_PARTIAL_H

#include <longreel/partial.h>

#define LR_PARTIAL ".partial"

/* "OUT/talk.mp4" -> "OUT/.partial/<key>" */
lr_status lr_partial_path(char **out, const char *set_path, const char *key, lr_error *err);
/* The name of a file in there; false: of no slice. */
bool lr_slice_parse(const char *entry, lr_slice_name *out);
int lr_slice_compare(const void *a, const void *b);
/* Adds the slices of a directory, and sorts all. */
lr_status lr_slice_list(const char *directory, lr_slice_name **out, size_t *count, size_t *capacity,
                        lr_error *err);
/* Does a process work on it? */
lr_status lr_partial_in_use(const char *directory, bool *used, lr_error *err);
/* *set is freed by lr_free. */
lr_status lr_partial_about_of(const char *directory, const char *key, lr_partial_about *about, char **set,
                              lr_error *err);

#endif
