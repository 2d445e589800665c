/* Inside store/: files that must be whole or absent. */
#ifndef LONGREEL_STORE_FILES_H
#define LONGREEL_STORE_FILES_H

#include <stdio.h>

#include <longreel/core.h>

/* A file being written: buffered, every failure (a full disk) reported with the path. */
typedef struct lr_out {
    FILE *file;
    char *path, *part; /* part: where it is written before it gets its name; NULL: there at once */
} lr_out;
lr_status lr_out_open(lr_out *out, const char *path, lr_error *err);
/* Written beside its name, which it gets when it is closed: until then, and when it is discarded, what was
 * there stays. What is there and is no file (a pipe, a device) is written to as it is. */
lr_status lr_out_open_aside(lr_out *out, const char *path, lr_error *err);
lr_status lr_out_write(lr_out *out, const void *data, size_t bytes, lr_error *err);
lr_status lr_out_printf(lr_out *out, lr_error *err, const char *format, ...) LR_PRINTF(3, 4);
/* Flushes to the disk and closes. */
lr_status lr_out_close(lr_out *out, lr_error *err);
void lr_out_discard(lr_out *out); /* closes without a word; fine after lr_out_close */

/* The whole file into a fresh NUL-terminated block; at most `limit` bytes. */
lr_status lr_slurp(const char *path, size_t limit, char **out, size_t *bytes, lr_error *err);
/* XXH3-128, hex. */
void lr_hash_bytes(const void *data, size_t bytes, char hex[33]);
/* Of a file's bytes. */
lr_status lr_hash_file(const char *path, char hex[33], lr_error *err);
lr_status lr_make_parents(const char *path, lr_error *err);
lr_status lr_parent_of(char **out, const char *path, lr_error *err); /* "." where it names no directory */
lr_status lr_sync_directory(const char *path, lr_error *err);
/* Removes a directory with what is in it (no links followed). Takes none of our memory: it must work when
 * that has run out. The second one's `name` is below the open directory `fd`; false leaves errno. */
lr_status lr_remove_tree(const char *path, lr_error *err);
bool lr_remove_tree_at(int fd, const char *name);
/* Regular files below `directory`, relative names, sorted. */
lr_status lr_list_files(const char *directory, char ***names, size_t *count, lr_error *err);
void lr_list_free(char **names, size_t count);
int lr_compare_strings(const void *a, const void *b); /* of char *, for qsort */

/* state.c: names in an output directory that are no sets' */

/* The unfinished set of `name` is ".<stem>.part-<pid>": the name itself or, where that would become longer
 * than a file name may be, its beginning and a hash. */
#define LR_STEM_LIMIT ((size_t)220)
void lr_set_stem(const char *name, char stem[LR_STEM_LIMIT + 1]);
/* Is this the name of an unfinished set, of what is stored of them, of the notes of failures, or of the journal? */
bool lr_set_is_reserved(const char *entry);

/* state.c, once the set is finished and nothing may fail any more; `parent` is the directory of final_path.
 * Nothing failed for this set. */
void lr_set_forget_failure(const char *parent, const char *final_path);
/* Removes what processes that are no more left of this set. */
void lr_set_clear_unfinished(const char *parent, const char *final_path);

#endif
