#include "utf8.h"

#include <string.h>

/* Bytes of the valid character at s, of which n > 0 bytes are there; 0 when it is not valid. */
static size_t valid_size(const unsigned char *s, size_t n)
{
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    size_t size = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (n < size) return 0;
    /* The second byte excludes overlong forms, surrogates and what lies above U+10FFFF. */
    unsigned low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < size; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    return size;
}

size_t lr_utf8_valid_prefix(const char *text, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t i = 0;
    while (i < bytes) {
        uint64_t word;
        if (bytes - i >= sizeof word) {
            memcpy(&word, s + i, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof word;
                continue;
            }
        }
        size_t size = valid_size(s + i, bytes - i);
        if (size == 0) return i;
        i += size;
    }
    return bytes;
}

uint32_t lr_utf8_decode(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    switch (lr_utf8_size(text)) {
    case 1:
        return s[0];
    case 2:
        return (uint32_t)(s[0] & 0x1f) << 6 | (s[1] & 0x3f);
    case 3:
        return (uint32_t)(s[0] & 0x0f) << 12 | (uint32_t)(s[1] & 0x3f) << 6 | (s[2] & 0x3f);
    default:
        return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3f) << 12 |
               (uint32_t)(s[2] & 0x3f) << 6 | (s[3] & 0x3f);
    }
}

size_t lr_utf8_previous(const char *text, size_t end)
{
    do
        end--;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80);
    return end;
}

bool lr_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}
