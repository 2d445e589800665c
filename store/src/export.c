#include "export.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

lr_status lr_export_aside(lr_set *const *sets, size_t n_sets, const char *path, lr_export_body body,
                          lr_error *err) {
    lr_status st = LR_OK;
    char *part = NULL;
    if (n_sets == 0) LR_FAIL(LR_E_USAGE, "there is no embedding set to export");
    for (size_t i = 0; i < n_sets; i++) {
        LR_TRY(lr_refuse_set_file(path, lr_set_info_of(sets[i])->path, err));
    }
    for (size_t i = 0; i < n_sets; i++) LR_TRY(lr_set_verify(lr_set_info_of(sets[i])->path, err));
    LR_TRY(lr_format(&part, err, "%s.part-%ld", path, (long)getpid()));
    (void)unlink(part); /* of a process that died and had this one's number */
    LR_TRY(body(sets, n_sets, part, err));
    if (rename(part, path) != 0) st = lr_fail_errno(err, LR_E_IO, errno, "%s: cannot be written", path);
done:
    if (part && st != LR_OK) (void)unlink(part);
    lr_free(part);
    return st;
}
