/* Inside cli/: the options that say how a recording is encoded, for encode and what predicts it. */
#ifndef LONGREEL_CLI_ENCODE_OPTIONS_H
#define LONGREEL_CLI_ENCODE_OPTIONS_H

#include "cli.h"

/* Stands first in the options structure of a command that has these options. */
typedef struct cli_encode_options {
    lr_encode_options encode;
    const char *model, *device;
    int communicator, mpi; /* indices of cli_communicators and cli_mpis */
    int groups;            /* 0: chosen by prediction */
    lr_time peer_timeout;
} cli_encode_options;

/* "auto", "ring", ... */
lr_status cli_take_schedule(const char *value, lr_schedule *out, lr_error *err);

extern const char *const cli_communicators[], *const cli_mpis[];
extern const cli_option cli_encode_table[];
cli_encode_options cli_encode_option_defaults(void);

#endif
