/* The one allocator. Each block is preceded by a header of LR_ALIGN bytes that holds its size, so
 * that live and peak bytes can be counted without a table. */
#include <longreel/memory.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Under the address sanitizer the header is a red zone, so that a read before a block is seen. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GUARD_HEADER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(GUARD_HEADER)
#define GUARD_HEADER
#endif
#ifdef GUARD_HEADER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

typedef struct block_header {
    size_t bytes;
} block_header;

_Static_assert(sizeof(block_header) <= LR_ALIGN, "the header must fit before an aligned block");
_Static_assert((LR_ALIGN & (LR_ALIGN - 1)) == 0, "posix_memalign wants a power of two");

static atomic_uint_fast64_t alloc_count, alloc_failures, fail_countdown;
static atomic_size_t live_bytes, peak_bytes;

bool lr_mul_size(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

bool lr_add_size(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *out = sum;
    return true;
}

/* True when this allocation is the one that a test asked to fail. */
static bool failure_is_due(void)
{
    uint_fast64_t k = atomic_load(&fail_countdown);
    while (k != 0)
        if (atomic_compare_exchange_weak(&fail_countdown, &k, k - 1)) return k == 1;
    return false;
}

static void add_live(size_t bytes)
{
    size_t live = atomic_fetch_add(&live_bytes, bytes) + bytes;
    size_t peak = atomic_load(&peak_bytes);
    while (live > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, live)) {
    }
}

/* Makes the header readable: for the block's last use. */
static block_header *open_header(void *block)
{
    void *base = (unsigned char *)block - LR_ALIGN;
    ASAN_UNPOISON_MEMORY_REGION(base, LR_ALIGN);
    return base;
}

void *lr_alloc(size_t bytes)
{
    void *base = NULL;
    atomic_fetch_add(&alloc_count, 1);
    if (failure_is_due() || bytes > (size_t)PTRDIFF_MAX - LR_ALIGN ||
        posix_memalign(&base, LR_ALIGN, bytes + LR_ALIGN) != 0) {
        atomic_fetch_add(&alloc_failures, 1);
        return NULL;
    }
    ((block_header *)base)->bytes = bytes;
    ASAN_POISON_MEMORY_REGION(base, LR_ALIGN);
    add_live(bytes);
    return (unsigned char *)base + LR_ALIGN;
}

/* realloc() would lose the alignment, so a block always moves. */
void *lr_realloc(void *block, size_t bytes)
{
    void *fresh = lr_alloc(bytes);
    if (!fresh || !block) return fresh;
    size_t held = open_header(block)->bytes;
    memcpy(fresh, block, held < bytes ? held : bytes);
    lr_free(block);
    return fresh;
}

void lr_free(void *block)
{
    if (!block) return;
    block_header *header = open_header(block);
    atomic_fetch_sub(&live_bytes, header->bytes);
    free(header);
}

void lr_trim(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

char *lr_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = lr_alloc(bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

/* The caller's variable is a T *, not a void *: copying the pointer's bytes keeps the aliasing rule. */
static void store_pointer(void **out, void *block)
{
    memcpy((void *)out, &block, sizeof block);
}

static void *load_pointer(void **in)
{
    void *block;
    memcpy(&block, (const void *)in, sizeof block);
    return block;
}

static lr_status fail_nomem(lr_error *err, const char *what, size_t count, size_t size)
{
    size_t bytes;
    if (lr_mul_size(count, size, &bytes))
        return lr_fail(err, LR_E_NOMEM, "out of memory: %s (%zu bytes)", what, bytes);
    return lr_fail(err, LR_E_NOMEM, "out of memory: %s (%zu x %zu bytes)", what, count, size);
}

lr_status lr_new_array(void **out, size_t count, size_t size, const char *what, lr_error *err)
{
    size_t bytes;
    void *block = lr_mul_size(count, size, &bytes) ? lr_alloc(bytes) : NULL;
    store_pointer(out, block);
    if (!block) return fail_nomem(err, what, count, size);
    memset(block, 0, bytes);
    return LR_OK;
}

lr_status lr_grow_array(void **array, size_t *capacity, size_t need, size_t size, const char *what,
                        lr_error *err)
{
    if (need <= *capacity) return LR_OK;
    size_t wanted = *capacity < 8 ? 8 : *capacity, bytes;
    while (wanted < need)
        if (!lr_mul_size(wanted, 2, &wanted)) wanted = need;
    if (!lr_mul_size(wanted, size, &bytes)) {
        wanted = need;
        if (!lr_mul_size(wanted, size, &bytes)) return fail_nomem(err, what, need, size);
    }
    void *block = lr_realloc(load_pointer(array), bytes);
    if (!block) return fail_nomem(err, what, wanted, size);
    store_pointer(array, block);
    *capacity = wanted;
    return LR_OK;
}

lr_status lr_format(char **out, lr_error *err, const char *format, ...)
{
    lr_status st = LR_OK;
    va_list args, again;
    *out = NULL;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0) LR_FAIL(LR_E_INTERNAL, "a text cannot be formatted: \"%s\"", format);
    LR_TRY(LR_NEW(out, (size_t)length + 1, "a text", err));
    (void)vsnprintf(*out, (size_t)length + 1, format, again);
done:
    va_end(again);
    va_end(args);
    return st;
}

void lr_alloc_fail_at(uint64_t k)
{
    atomic_store(&fail_countdown, k);
}

uint64_t lr_alloc_count(void)
{
    return atomic_load(&alloc_count);
}

uint64_t lr_alloc_failures(void)
{
    return atomic_load(&alloc_failures);
}

size_t lr_alloc_live(void)
{
    return atomic_load(&live_bytes);
}

size_t lr_alloc_peak(void)
{
    return atomic_load(&peak_bytes);
}

void lr_alloc_reset_peak(void)
{
    atomic_store(&peak_bytes, atomic_load(&live_bytes));
}

lr_status lr_arena_init(lr_arena *arena, size_t bytes, const char *what, lr_error *err)
{
    *arena = (lr_arena){0};
    arena->base = lr_alloc(bytes);
    if (!arena->base) return fail_nomem(err, what, bytes, 1);
    arena->size = bytes;
    return LR_OK;
}

void lr_arena_free(lr_arena *arena)
{
    lr_free(arena->base);
    *arena = (lr_arena){0};
}

void *lr_arena_take(lr_arena *arena, size_t count, size_t size)
{
    size_t bytes, start, end;
    if (!arena->base || !lr_mul_size(count, size, &bytes)) return NULL;
    if (!lr_add_size(arena->used, LR_ALIGN - 1, &start)) return NULL;
    start -= start % LR_ALIGN;
    if (!lr_add_size(start, bytes, &end) || end > arena->size) return NULL;
    arena->used = end;
    if (end > arena->peak) arena->peak = end;
    return arena->base + start;
}

size_t lr_arena_mark(const lr_arena *arena)
{
    return arena->used;
}

void lr_arena_reset(lr_arena *arena, size_t mark)
{
    if (mark < arena->used) arena->used = mark;
}
