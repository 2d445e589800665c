/* What the two targets of ingest share. */
#ifndef LR_FUZZ_MEDIA_H
#define LR_FUZZ_MEDIA_H

#include <longreel/ingest.h>

/* Takes the last four bytes of the input: the options; what is left is the file. */
lr_ingest_options fz_ingest_options(const uint8_t **data, size_t *size);
void fz_check_timeline(const lr_recording *recording, const lr_ingest_options *options);
void fz_check_damage(const lr_damage *damage, size_t count);
/* Reads the first frames of the grid, from the start and from the middle: both must be the same. */
void fz_check_frames(const lr_recording *recording);
/* Reads the first seconds of sound in pieces of two sizes, which must give the same. */
void fz_check_sound(const lr_recording *recording);

/* Seeds: small films, and sound, of the usual codecs and containers, each with options behind it. */
void fz_make_films(void);
void fz_make_sounds(void);

#endif
