/* UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef LR_TOKENIZE_UTF8_H
#define LR_TOKENIZE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of leading bytes that are valid UTF-8; `bytes` when all are. */
size_t lr_utf8_valid_prefix(const char *text, size_t bytes);

/* Bytes of the character that begins at `text`, which is valid UTF-8. */
static inline size_t lr_utf8_size(const char *text)
{
    unsigned char lead = (unsigned char)*text;
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* The code point of the character that begins at `text`, which is valid UTF-8. */
uint32_t lr_utf8_decode(const char *text);
/* Where the character that ends just before `text + end` begins; end > 0, valid UTF-8. */
size_t lr_utf8_previous(const char *text, size_t end);

/* White_Space, as `\s` of the library's regular expressions. */
bool lr_is_space(uint32_t code_point);
/* `\w` of the library's regular expressions: Alphabetic, Mark, Decimal_Number,
 * Connector_Punctuation and Join_Control. */
bool lr_is_word(uint32_t code_point);

#endif
