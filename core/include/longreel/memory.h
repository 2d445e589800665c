/* Checked sizes, the one allocator, and arenas.
 *
 * All of Longreel's own memory (and jansson's, where the program says so: json_set_alloc_funcs) comes
 * from here, so that a
 * test can make the k-th allocation fail and find every path that forgets to check. Blocks are
 * aligned to 64 bytes. All functions may be called from any thread; an arena belongs to one thread
 * at a time. */
#ifndef LONGREEL_MEMORY_H
#define LONGREEL_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <longreel/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LR_ALIGN 64

/* *out = a * b, a + b; false (and *out untouched) when the result does not fit. */
bool lr_mul_size(size_t a, size_t b, size_t *out);
bool lr_add_size(size_t a, size_t b, size_t *out);

/* NULL when out of memory; a size of 0 gives a block that can be freed. lr_free(NULL) is allowed. */
void *lr_alloc(size_t bytes);
void *lr_realloc(void *block, size_t bytes);
void lr_free(void *block);
/* Gives back to the system what is free, of libraries too: after much of it was freed at once. */
void lr_trim(void);
char *lr_strdup(const char *text);
/* As lr_strdup; each byte that is not UTF-8 (a file name may hold any) becomes U+FFFD. */
char *lr_utf8_copy(const char *text);

/* count * size bytes, zeroed, into *out (a pointer to a pointer, cast by the macro). Reports
 * "out of memory: <what> (N bytes)". On failure *out is NULL. */
lr_status lr_new_array(void **out, size_t count, size_t size, const char *what, lr_error *err);
#define LR_NEW(out, count, what, err)                                                              \
    lr_new_array((void **)(out), (count), sizeof(**(out)), (what), (err))

/* Grows *array (of `size`-byte elements, *capacity of them) so that `need` fit, by doubling. */
lr_status lr_grow_array(void **array, size_t *capacity, size_t need, size_t size, const char *what,
                        lr_error *err);
#define LR_GROW(array, capacity, need, what, err)                                                  \
    lr_grow_array((void **)(array), (capacity), (need), sizeof(**(array)), (what), (err))

/* A printf into a fresh block; the caller frees it with lr_free. */
lr_status lr_format(char **out, lr_error *err, const char *format, ...) LR_PRINTF(3, 4);

/* Test hooks. fail_at: the k-th allocation from now (1 = the next) fails, once; 0 switches it off.
 * count: allocations since the process began. live/peak: bytes held now, and most ever. */
void lr_alloc_fail_at(uint64_t k);
uint64_t lr_alloc_count(void);
/* How many failed. More than before: what a library that does not look at every failure made meanwhile is
 * not to be used (jansson, reading a text or making one, then drops bytes without a word). */
uint64_t lr_alloc_failures(void);
size_t lr_alloc_live(void);
size_t lr_alloc_peak(void);
void lr_alloc_reset_peak(void);

/* An arena: one block, sized before the run; the inner loops take from it and give back by mark. */
typedef struct lr_arena {
    unsigned char *base;
    size_t size, used, peak;
} lr_arena;

lr_status lr_arena_init(lr_arena *arena, size_t bytes, const char *what, lr_error *err);
void lr_arena_free(lr_arena *arena);
/* count * size bytes aligned to LR_ALIGN, not zeroed; NULL when it does not fit (a sizing mistake:
 * report it as LR_E_INTERNAL). */
void *lr_arena_take(lr_arena *arena, size_t count, size_t size);
size_t lr_arena_mark(const lr_arena *arena);
void lr_arena_reset(lr_arena *arena, size_t mark);

#ifdef __cplusplus
}
#endif
#endif
