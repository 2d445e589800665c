/* Text for people: names of files come from anywhere, and must not steer a terminal. */
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "cli.h"

#define ESCAPE_ROOM 9 /* "\xC2\x9B" and its zero */

/* Writes what stands for the character at `s` into `out` and returns how many bytes it has in `s`.
 * Control characters are C0, DEL and, as UTF-8 has them, C1 (which some terminals obey). */
static size_t escape_one(const unsigned char *s, char out[ESCAPE_ROOM]) {
    static const char named[] = "\n\t\r", names[] = "ntr";
    const char *at = strchr(named, s[0]);
    if (at) {
        snprintf(out, ESCAPE_ROOM, "\\%c", names[at - named]);
    } else if (s[0] < 0x20 || s[0] == 0x7f) {
        snprintf(out, ESCAPE_ROOM, "\\x%02X", s[0]);
    } else if (s[0] == 0xc2 && s[1] >= 0x80 && s[1] <= 0x9f) {
        snprintf(out, ESCAPE_ROOM, "\\x%02X\\x%02X", s[0], s[1]);
        return 2;
    } else {
        out[0] = (char)s[0];
        out[1] = '\0';
    }
    return 1;
}

void cli_put_escaped(const char *text, FILE *out) {
    char one[ESCAPE_ROOM];
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        s += escape_one(s, one);
        fputs(one, out);
    }
}

size_t cli_escaped_length(const char *text) {
    size_t length = 0;
    char one[ESCAPE_ROOM];
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        s += escape_one(s, one);
        length += strlen(one);
    }
    return length;
}

void cli_escape(const char *text, char *out, size_t size) {
    size_t used = 0;
    char one[ESCAPE_ROOM];
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        s += escape_one(s, one);
        size_t length = strlen(one);
        if (used + length >= size) break;
        memcpy(out + used, one, length);
        used += length;
    }
    out[used] = '\0';
}

void cli_printf(const char *format, ...) {
    char text[2 * PATH_MAX + LR_ERROR_TEXT]; /* lines name two files at most */
    size_t length = strlen(format);
    bool ends = length > 0 && format[length - 1] == '\n';
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    length = strlen(text);
    if (ends && length > 0 && text[length - 1] == '\n') text[length - 1] = '\0';
    cli_put_escaped(text, stdout);
    if (ends) putchar('\n');
}

const char *cli_plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

lr_status cli_check_utf8(const char *name, const char *text, lr_error *err) {
    char *copy = lr_utf8_copy(text);
    if (!copy) return lr_fail(err, LR_E_NOMEM, "out of memory: a text");
    bool good = strcmp(copy, text) == 0;
    lr_free(copy);
    return good ? LR_OK : lr_fail(err, LR_E_FORMAT, "%s: is no text in UTF-8", name);
}
