/* How ranks that are processes share a batch: in how many groups, and in which order the recordings are taken. */
#ifndef LONGREEL_CLI_SHAPE_H
#define LONGREEL_CLI_SHAPE_H

#include "ranks.h"

/* Collective. Splits the ranks as options->groups says (0: as is fastest by prediction) and fills *order [count],
 * freed by lr_free: the n-th to be taken. With one group that is the list's. */
lr_status cli_shape(cli_ranks *ranks, lr_model *model, cli_encode_options *options,
                    const cli_recording *recordings, size_t count, size_t **order, lr_error *err);

#endif
