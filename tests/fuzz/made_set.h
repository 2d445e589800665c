/* The set that fuzz_set spoils. */
#ifndef LR_FUZZ_MADE_SET_H
#define LR_FUZZ_MADE_SET_H

/* Writes a whole set of two segments and two frames, with saved tokens. */
void fz_set_make(const char *path);

#endif
