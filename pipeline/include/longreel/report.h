/* A picture that shows a set at a glance: a contact sheet of its frames with their times, how alike its
 * segments are, and how loud its sound is. */
#ifndef LONGREEL_REPORT_H
#define LONGREEL_REPORT_H

#include <longreel/core.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lr_report_options {
    const char *recording; /* NULL: where it was when it was encoded */
    int threads;           /* for decoding; 0: the processors */
    lr_cancel *cancel;
} lr_report_options;

typedef struct lr_report_result {
    int width, height; /* of the picture, pixels */
    size_t frames;     /* shown */
    bool loudness;     /* shown */
    char note[512];    /* why frames and loudness are missing ("" when they are not), as on the sheet */
} lr_report_result;

/* Writes the sheet of the set at `set_path` to `png_path`, whole or not at all. The recording's bytes must be
 * those that were encoded. Without the recording at hand the sheet shows only what the set itself holds, and
 * says so; but one that is named in the options and is missing or another one is LR_E_USAGE. */
lr_status lr_report(const char *set_path, const char *png_path, const lr_report_options *options,
                    lr_report_result *result, lr_error *err);

#ifdef __cplusplus
}
#endif
#endif
