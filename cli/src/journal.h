/* OUT/journal.jsonl: what happened to each recording, a JSON object a line, for people and scripts that come
 * later. It is only ever added to, by any number of runs at the same time. */
#ifndef LONGREEL_CLI_JOURNAL_H
#define LONGREEL_CLI_JOURNAL_H

#include "cli.h"

typedef struct cli_journal {
    char *path;      /* NULL: this process keeps none */
    char *waiting;   /* lines for a directory that is not there yet */
    size_t n_waiting, capacity;
    char host[65];
    bool warned;
} cli_journal;

/* Makes nothing yet: the first set makes the directory. Out of memory is the only failure. */
lr_status cli_journal_open(cli_journal *journal, const char *output, lr_error *err);
/* "begun", "saved", "skipped", "failed" or "interrupted". `result` and `why` may be NULL. A journal that cannot
 * be written is warned of once: the sets count for more. */
void cli_journal_note(cli_journal *journal, const cli_recording *recording, const char *status,
                      const lr_encode_result *result, const lr_error *why);
/* Writes what has waited for the directory, once that is there. */
void cli_journal_catch_up(cli_journal *journal);
void cli_journal_close(cli_journal *journal);

#endif
