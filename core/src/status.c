/* The error record: first failure wins, text stays valid UTF-8 whatever bytes a file name holds. */
#include <longreel/memory.h>
#include <longreel/status.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Room for a formatted part before it is joined: longer than a path may be, so that the part that
 * is cut is chosen by join(), not by this buffer. */
#define PART_TEXT 8192

/* Bytes of the well-formed UTF-8 character at s (Unicode 15, table 3-7); 0 when there is none. */
static size_t utf8_length(const unsigned char *s)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t length;
    if (s[0] < 0x80) return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf) {
        length = 2;
    } else if (s[0] >= 0xe0 && s[0] <= 0xef) {
        length = 3;
        if (s[0] == 0xe0) low = 0xa0;
        if (s[0] == 0xed) high = 0x9f;
    } else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
        length = 4;
        if (s[0] == 0xf0) low = 0x90;
        if (s[0] == 0xf4) high = 0x8f;
    } else {
        return 0;
    }
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    return length;
}

/* The NUL ends every sequence early, so a character cut at the end counts as malformed too. */
static void replace_malformed(char *text)
{
    unsigned char *s = (unsigned char *)text;
    while (*s) {
        size_t length = utf8_length(s);
        if (length == 0) *s = '?';
        s += length ? length : 1;
    }
}

char *lr_utf8_copy(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
    const size_t wide = sizeof replacement - 1;
    const unsigned char *s = (const unsigned char *)text;
    size_t bytes;
    if (!lr_mul_size(strlen(text), wide, &bytes) || !lr_add_size(bytes, 1, &bytes)) return NULL;
    char *copy = lr_alloc(bytes), *to = copy;
    while (copy && *s) {
        size_t length = utf8_length(s);
        memcpy(to, length ? (const char *)s : replacement, length ? length : wide);
        to += length ? length : wide;
        s += length ? length : 1;
    }
    if (copy) *to = '\0';
    return copy;
}

/* The longest prefix of a well-formed text that has at most `most` bytes and splits no character. */
static size_t cut_length(const char *text, size_t most)
{
    size_t length = strlen(text);
    if (length <= most) return length;
    length = most;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) length--;
    return length;
}

/* out = head ": " tail. When both do not fit, the head gives way first (down to half of the room):
 * the tail holds the cause. */
static void join(char out[LR_ERROR_TEXT], const char *head, const char *tail)
{
    static const char ellipsis[] = "...";
    const size_t room = LR_ERROR_TEXT - 1 - 2;
    size_t n_head = strlen(head), n_tail = strlen(tail);
    bool cut = false;
    if (n_head + n_tail > room && n_head > room / 2) {
        size_t keep = n_tail < room - room / 2 ? room - n_tail : room / 2;
        n_head = cut_length(head, keep - (sizeof ellipsis - 1));
        cut = true;
    }
    size_t used = n_head;
    memcpy(out, head, n_head);
    if (cut) {
        memcpy(out + used, ellipsis, sizeof ellipsis - 1);
        used += sizeof ellipsis - 1;
    }
    memcpy(out + used, ": ", 2);
    used += 2;
    n_tail = cut_length(tail, LR_ERROR_TEXT - 1 - used);
    memcpy(out + used, tail, n_tail);
    out[used + n_tail] = '\0';
}

/* vsnprintf that always leaves a well-formed text, also when the format cannot be rendered. */
static void LR_PRINTF(3, 0) render(char *out, size_t size, const char *format, va_list args)
{
    if (vsnprintf(out, size, format, args) < 0) (void)snprintf(out, size, "%s", format);
    replace_malformed(out);
}

lr_status lr_vfail(lr_error *err, lr_status status, const char *format, va_list args)
{
    if (!err || err->status != LR_OK) return status;
    char text[PART_TEXT];
    render(text, sizeof text, format, args);
    size_t length = cut_length(text, LR_ERROR_TEXT - 1);
    memcpy(err->text, text, length);
    err->text[length] = '\0';
    err->status = status;
    return status;
}

lr_status lr_fail(lr_error *err, lr_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    lr_vfail(err, status, format, args);
    va_end(args);
    return status;
}

lr_status lr_fail_errno(lr_error *err, lr_status status, int errno_value, const char *format, ...)
{
    if (!err || err->status != LR_OK) return status;
    char text[PART_TEXT], cause_buffer[256];
    va_list args;
    va_start(args, format);
    render(text, sizeof text, format, args);
    va_end(args);
    /* The GNU strerror_r: thread-safe, may return a constant instead of filling the buffer. */
    join(err->text, text, strerror_r(errno_value, cause_buffer, sizeof cause_buffer));
    err->status = status;
    return status;
}

void lr_error_context(lr_error *err, const char *format, ...)
{
    if (!err || err->status == LR_OK) return;
    char text[PART_TEXT], cause[LR_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    render(text, sizeof text, format, args);
    va_end(args);
    memcpy(cause, err->text, sizeof cause);
    join(err->text, text, cause);
}

void lr_error_clear(lr_error *err)
{
    if (!err) return;
    err->status = LR_OK;
    err->text[0] = '\0';
}

const char *lr_status_name(lr_status status)
{
    switch (status) {
    case LR_OK: return "ok";
    case LR_E_USAGE: return "usage";
    case LR_E_NOMEM: return "no-memory";
    case LR_E_IO: return "io";
    case LR_E_FORMAT: return "format";
    case LR_E_UNSUPPORTED: return "unsupported";
    case LR_E_MODEL: return "model";
    case LR_E_NO_MEDIA: return "no-media";
    case LR_E_PEER: return "peer";
    case LR_E_COVERAGE: return "coverage";
    case LR_E_INTERRUPTED: return "interrupted";
    case LR_E_EXISTS: return "exists";
    case LR_E_INTERNAL: return "internal";
    }
    return "unknown";
}
