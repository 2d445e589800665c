/* What the fuzz targets share. A target is one hostile surface: it hands the input to the library as a
 * user would meet it (a file, a set, a text) and aborts where the library breaks its word. Memory
 * errors and undefined behaviour are found by the sanitizers, hangs and too much memory by libFuzzer's
 * limits. */
#ifndef LR_FUZZ_H
#define LR_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <longreel/core.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the run with the place and the condition. */
#define FZ_CHECK(condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) fz_stop(__FILE__, __LINE__, #condition);                                 \
    } while (0)
_Noreturn void fz_stop(const char *file, int line, const char *what);

/* jansson takes its memory from lr_alloc, as in the program. */
void fz_init(void);
/* To be called last in LLVMFuzzerInitialize. With LR_FUZZ_SEEDS, a directory, in the environment, `make`
 * writes the target's seeds there by fz_seed and the process ends. */
void fz_seeds(void (*make)(void));
/* head and body one after another; head may be NULL. */
void fz_seed(const char *name, const void *head, size_t head_bytes, const void *body, size_t body_bytes);

/* ------------------------------------------------------------------ the library's word */

/* A failure has a status and a text; no input of whatever kind is LR_E_INTERNAL. Returns st == LR_OK. */
bool fz_succeeded(lr_status st, const lr_error *err);
/* Between the two every block of lr_alloc must be freed; `most` bytes may be in use at a time. */
void fz_begin(void);
void fz_end(size_t most);

/* ------------------------------------------------------------------ structured inputs */

/* What is left of the input; behind its end only zeros come. */
typedef struct fz_bytes {
    const uint8_t *at;
    size_t left;
} fz_bytes;
uint64_t fz_take(fz_bytes *bytes, size_t count); /* little endian, count <= 8 */
/* In [low, high]. */
int64_t fz_between(fz_bytes *bytes, int64_t low, int64_t high);
/* Mostly small numbers, sometimes any: 0 .. 2^64-1, as the first byte says. */
uint64_t fz_number(fz_bytes *bytes);

/* ------------------------------------------------------------------ files */

/* A directory of this process, removed when it ends. */
const char *fz_directory(void);
/* "<fz_directory()>/<name>"; valid until the process ends. Parts of `name` must exist but the last. */
const char *fz_path(const char *name);
void fz_make_directory(const char *name);
/* A file below fz_directory() in memory, so that no disk is written. Returns its path. */
const char *fz_write(const char *name, const void *data, size_t bytes);
/* A link below fz_directory() to a file. */
void fz_link(const char *name, const char *target);
/* A whole file in a block for free(); a NUL follows. */
char *fz_slurp(const char *path, size_t *bytes);

#endif
