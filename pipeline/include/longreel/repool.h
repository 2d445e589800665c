/* Other segments from saved tokens, without encoding again. */
#ifndef LONGREEL_REPOOL_H
#define LONGREEL_REPOOL_H

#include <longreel/core.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_repool_options {
    lr_time segment, hop; /* LR_TIME_NONE: as in the set */
    size_t dim;           /* 0: as in the set; else one of the model's widths */
    bool force;           /* replace what is at set_path */
    lr_cancel *cancel;
} lr_repool_options;

lr_repool_options lr_repool_defaults(void);

typedef struct lr_repool_result {
    bool skipped; /* a finished set with the same key was there */
    uint64_t tokens, segments, frames;
    double seconds;
} lr_repool_result;

/* From the set `from`, made with saved tokens, the set `set_path`: every file is the same to the byte as
 * if the recording were encoded with these options (without saved tokens), but the manifest's `run`,
 * which also says where it comes from. No model is needed. LR_E_USAGE: an option, or a set without
 * tokens.safetensors; LR_E_FORMAT: `from` is not whole and unaltered; LR_E_EXISTS as for encode. */
lr_status lr_repool(const char *from, const char *set_path, const lr_repool_options *options,
                    lr_repool_result *result, lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
