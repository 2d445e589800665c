/* Inside cli/: what `inspect` decodes and writes. */
#ifndef LONGREEL_CLI_INSPECT_H
#define LONGREEL_CLI_INSPECT_H

#include "cli.h"

typedef struct cli_damage {
    lr_damage *list;
    size_t count, capacity;
} cli_damage;
lr_status cli_damage_add(cli_damage *damage, const lr_damage *list, size_t count, lr_error *err);

/* Decodes the pictures of the grid and adds the damage met; with `directory`, writes each as PNG there,
 * and frames.jsonl. */
lr_status cli_decode_pictures(const lr_recording *recording, const char *directory, cli_damage *damage,
                              lr_error *err);
/* Decodes the sound; with `path`, writes it there as float WAV. */
lr_status cli_decode_sound(const lr_recording *recording, const char *path, cli_damage *damage,
                           lr_error *err);

#endif
