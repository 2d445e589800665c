#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "utf8.h"

#define MAX_FILE_BYTES (INT64_C(1) << 30)

/* ------------------------------------------------------------------ reading */

static lr_status read_all(int fd, char *data, size_t *bytes, lr_error *err)
{
    size_t held = 0;
    while (held < *bytes) {
        ssize_t got = read(fd, data + held, *bytes - held);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return lr_fail_errno(err, LR_E_IO, errno, "cannot be read");
        if (got == 0) break;
        held += (size_t)got;
    }
    *bytes = held;
    return LR_OK;
}

lr_status lr_json_read(char **data, size_t *bytes, const char *path, lr_error *err)
{
    lr_status st = LR_OK;
    char *block = NULL;
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        st = lr_fail_errno(err, LR_E_IO, errno, "cannot be opened");
        goto done;
    }
    if (fstat(fd, &info) != 0) {
        st = lr_fail_errno(err, LR_E_IO, errno, "cannot be examined");
        goto done;
    }
    if (!S_ISREG(info.st_mode)) LR_FAIL(LR_E_IO, "is not a regular file");
    if (info.st_size > MAX_FILE_BYTES)
        LR_FAIL(LR_E_FORMAT, "has %lld bytes, which is more than a tokenizer takes",
                (long long)info.st_size);
    *bytes = (size_t)info.st_size;
    block = lr_alloc(*bytes + 1);
    if (!block) LR_FAIL(LR_E_NOMEM, "out of memory: file (%zu bytes)", *bytes);
    LR_TRY(read_all(fd, block, bytes, err));
    *data = block;
    block = NULL;
done:
    lr_free(block);
    if (fd >= 0) (void)close(fd);
    return st;
}

/* ------------------------------------------------------------------ before yajl sees it */

/* The value of the escape \uXXXX at s; -1 when it is none. */
static int32_t unicode_escape(const char *s, const char *end)
{
    if (end - s < 6 || s[0] != '\\' || s[1] != 'u') return -1;
    int32_t value = 0;
    for (int i = 2; i < 6; i++) {
        char c = s[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* yajl turns an unpaired surrogate into '?': refuse it here. *longest: the longest stretch without
 * a quote, which bounds what yajl may have to buffer. */
static lr_status scan(const char *data, size_t bytes, size_t *longest, lr_error *err)
{
    const char *end = data + bytes, *begin = data;
    bool in_string = false;
    *longest = 0;
    for (const char *s = data; s < end; s++) {
        if (*s == '"') {
            if ((size_t)(s - begin) > *longest) *longest = (size_t)(s - begin);
            begin = s + 1;
            in_string = !in_string;
        } else if (*s == '\\' && in_string) {
            int32_t unit = unicode_escape(s, end);
            if (unit >= 0xd800 && unit < 0xdc00) {
                int32_t low = unicode_escape(s + 6, end);
                if (low < 0xdc00 || low > 0xdfff) unit = 0xdc00;
                s += 6;
            }
            if (unit >= 0xdc00 && unit <= 0xdfff)
                return lr_fail(err, LR_E_FORMAT, "half of a surrogate pair at byte %zu",
                               (size_t)(s - data));
            s++;
        }
    }
    if (end > begin && (size_t)(end - begin) > *longest) *longest = (size_t)(end - begin);
    return LR_OK;
}

/* ------------------------------------------------------------------ yajl's memory
 *
 * yajl does not check what its allocator returns. It gets one block that is large enough for all it
 * can ask for: a few structures, and two buffers that double until the longest string (or number)
 * fits, which costs at most 2 + 1 + 1/2 + ... < 4 times its length each, as nothing is given
 * back. */

typedef struct pool {
    unsigned char *base;
    size_t size, used;
} pool;

typedef union pool_header {
    size_t bytes;
    max_align_t align;
} pool_header;

static void *pool_take(void *context, size_t bytes)
{
    pool *p = context;
    size_t unit = sizeof(pool_header);
    if (bytes > p->size) return NULL;
    size_t need = unit + (bytes + unit - 1) / unit * unit;
    if (need > p->size - p->used) return NULL;
    pool_header *header = (pool_header *)(void *)(p->base + p->used);
    header->bytes = bytes;
    p->used += need;
    return header + 1;
}

static void *pool_resize(void *context, void *block, size_t bytes)
{
    void *fresh = pool_take(context, bytes);
    if (fresh && block) {
        size_t held = ((pool_header *)block - 1)->bytes;
        memcpy(fresh, block, held < bytes ? held : bytes);
    }
    return fresh;
}

static void pool_give(void *context, void *block)
{
    (void)context;
    (void)block;
}

#define POOL_FIXED ((size_t)1 << 17)

/* ------------------------------------------------------------------ the walk */

lr_status lr_json_walk(const char *data, size_t bytes, const yajl_callbacks *callbacks,
                       void *context, lr_error *err)
{
    lr_status st = LR_OK;
    pool memory = {0};
    yajl_alloc_funcs functions = {pool_take, pool_resize, pool_give, &memory};
    size_t longest, valid = lr_utf8_valid_prefix(data, bytes);
    if (valid != bytes) LR_FAIL(LR_E_FORMAT, "is not UTF-8: byte %zu", valid);
    LR_TRY(scan(data, bytes, &longest, err));
    /* bytes <= 2^30 (lr_json_read), so that this does not overflow. */
    memory.size = POOL_FIXED + 8 * longest;
    memory.base = lr_alloc(memory.size);
    if (!memory.base) LR_FAIL(LR_E_NOMEM, "out of memory: JSON parser (%zu bytes)", memory.size);

    yajl_handle parser = yajl_alloc(callbacks, &functions, context);
    if (!parser) LR_FAIL(LR_E_NOMEM, "out of memory: JSON parser");
    (void)yajl_config(parser, yajl_dont_validate_strings, 1);
    yajl_status status = yajl_parse(parser, (const unsigned char *)data, bytes);
    size_t consumed = yajl_get_bytes_consumed(parser);
    if (status == yajl_status_ok) {
        consumed = bytes;
        status = yajl_complete_parse(parser);
    }
    if (status == yajl_status_error) {
        const char *why = (const char *)yajl_get_error(parser, 0, NULL, 0);
        size_t n = why ? strcspn(why, "\n") : 0;
        LR_FAIL(LR_E_FORMAT, "is not JSON: byte %zu%s%.*s", consumed, n ? ": " : "", (int)n,
                n ? why : "");
    }
done:
    lr_free(memory.base);
    return st;
}
