/* A JSON file, read whole and walked through by callbacks (yajl): a tokenizer.json of 33 MB never
 * becomes a tree. */
#ifndef LR_TOKENIZE_STREAM_H
#define LR_TOKENIZE_STREAM_H

#include <longreel/core.h>
#include <yajl/yajl_parse.h>

/* The file's bytes in a fresh block. */
lr_status lr_json_read(char **data, size_t *bytes, const char *path, lr_error *err);

/* Calls back for each value. LR_E_FORMAT when the text is not JSON (the offset is named), not
 * UTF-8, or escapes half a surrogate pair. A callback that returns 0 ends the walk, which then
 * gives LR_OK: the context knows why. Strings handed to callbacks are valid UTF-8. */
lr_status lr_json_walk(const char *data, size_t bytes, const yajl_callbacks *callbacks,
                       void *context, lr_error *err);

#endif
