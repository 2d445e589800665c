/* Inside store/: what the exports share (export.c). */
#ifndef LONGREEL_STORE_EXPORT_H
#define LONGREEL_STORE_EXPORT_H

#include <longreel/export.h>

/* Writes everything to the file `part`, which is not there yet. */
typedef lr_status (*lr_export_body)(lr_set *const *sets, size_t n_sets, const char *part, lr_error *err);
lr_status lr_export_aside(lr_set *const *sets, size_t n_sets, const char *path, lr_export_body body,
                          lr_error *err);

#endif
