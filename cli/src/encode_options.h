/* Inside cli/: the options that say how a recording is encoded, for encode and what predicts it. */
#ifndef LONGREEL_CLI_ENCODE_OPTIONS_H
#define LONGREEL_CLI_ENCODE_OPTIONS_H

#include "cli.h"

/* Stands first in the options structure of a command that has these options. */
typedef struct cli_encode_options {
    lr_encode_options encode;
    const char *model;
    int communicator, device; /* one choice each so far */
    int groups;
} cli_encode_options;

extern const cli_option cli_encode_table[];
cli_encode_options cli_encode_option_defaults(void);

#endif
